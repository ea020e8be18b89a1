//! Draws the charts of a list: makes of measurements what the script of the page hands to ECharts.

use serde_json::{Value, json};

use super::list::{Chart, Kind, List, Section};
use super::rows::{Row, Rows, members, text_of};
use super::tables::Grid;
use crate::report::short;

/// The most points of a line by time; neighbours are drawn as their mean, on an axis by powers of ten as the
/// greatest of them.
const POINTS: usize = 800;

/// A chart, and its numbers as a table.
pub(super) struct Drawn {
    /// For the script.
    pub chart: Value,
    /// Nothing for a chart by time.
    pub numbers: Option<Grid>,
    /// True if a point has whiskers.
    pub has_whiskers: bool,
}

/// The lines of a chart, and where they are words, the names of the places at which they have values.
struct Lines {
    all: Vec<Line>,
    names: Vec<String>,
}

/// A line of a chart: its name and its points.
struct Line {
    name: String,
    points: Vec<Point>,
    printed: bool,
}

/// A point of a line, or a bar.
#[derive(Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
    /// The least and the greatest of its repeats, if they differ.
    whisker: Option<[f64; 2]>,
}

impl Point {
    /// One without repeats.
    const fn at((x, y): (f64, f64)) -> Point {
        Point { x, y, whisker: None }
    }
}

/// A chart for each value of its facet; those without a number are left out.
pub(super) fn draw(list: &List, rows: &Rows, section: &Section, chart: &Chart) -> Vec<Drawn> {
    let mut panels: Vec<(String, Vec<&Row>)> = Vec::new();
    let part = if chart.part.is_empty() { &section.part } else { &chart.part };
    for row in rows.wanted(part, &chart.conditions) {
        let facet: String = chart.facet.iter().map(|column| text_of(row, column) + "\n").collect();
        match panels.iter_mut().find(|(own, _)| *own == facet) {
            Some((_, own)) => own.push(row),
            None => panels.push((facet, vec![row])),
        }
    }
    let panels = panels.into_iter().map(|(_, own)| (rows.fill(own[0], &chart.caption), own));
    let all: Vec<_> = panels.map(|(caption, own)| (caption, lines(list, rows, chart, &own), own)).collect();
    let range = range_of(all.iter().flat_map(|(_, lines, _)| &lines.all));
    let drawn = all.into_iter().filter(|(_, lines, _)| !lines.all.is_empty()).map(|(caption, lines, own)| {
        let spans = chart.spans.as_ref().map(|[from, to]| {
            let values = |expression: &str| rows.values(own[0], expression).unwrap_or_default();
            values(from).into_iter().zip(values(to)).filter(|(from, to)| from < to).collect::<Vec<_>>()
        });
        let range = if chart.shared { range } else { range_of(lines.all.iter()) };
        let mut drawn = panel(list, chart, caption, lines);
        drawn.chart["spans"] = json!(spans.unwrap_or_default());
        // The script looks at points only, and whiskers reach farther.
        if chart.shared || (drawn.has_whiskers && chart.most.is_none()) {
            let ends = ends(range, chart.log);
            (drawn.chart["min"], drawn.chart["max"]) = (json!(ends.0), json!(ends.1));
        }
        drawn
    });
    drawn.collect()
}

/// The least and the greatest value of some lines, whiskers included.
fn range_of<'l>(lines: impl Iterator<Item = &'l Line>) -> (f64, f64) {
    let ends = |point: &Point| point.whisker.unwrap_or([point.y; 2]);
    lines
        .flat_map(|line| &line.points)
        .map(ends)
        .fold((f64::NAN, f64::NAN), |(min, max), [low, high]| (low.min(min), high.max(max)))
}

/// The ends of an axis for a range of values.
fn ends((min, max): (f64, f64), log: bool) -> (f64, f64) {
    match log {
        true => (10_f64.powf(min.log10().floor()), 10_f64.powf(max.log10().ceil())),
        false => (if min < 0.0 { -upwards(-min) } else { 0.0 }, upwards(max)),
    }
}

/// The lines of a chart, in the order of the legend.
fn lines(list: &List, rows: &Rows, chart: &Chart, own: &[&Row]) -> Lines {
    let (mut lines, mut names): (Vec<Line>, Vec<String>) = Default::default();
    let mut add = |name: String, points: Vec<Point>| match lines.iter_mut().find(|line| line.name == name) {
        Some(line) => line.points.extend(points),
        None => lines.push(Line { name, points, printed: false }),
    };
    for row in own {
        for (name, expression) in expressions(rows, chart, row) {
            let name = if chart.series.is_empty() { name } else { rows.fill(row, &braced(&chart.series)) };
            if chart.kind == Kind::Time {
                let values = |expression: &str| rows.values(row, expression).unwrap_or_default();
                add(name, values(&chart.x).into_iter().zip(values(&expression)).map(Point::at).collect());
            } else {
                let x = if is_word(row, &chart.x) {
                    let word = text_of(row, &chart.x);
                    let known = names.iter().position(|name| *name == word);
                    known.unwrap_or_else(|| {
                        names.push(word);
                        names.len() - 1
                    }) as f64
                } else if chart.x.is_empty() {
                    0.0
                } else {
                    rows.number(row, &chart.x)
                };
                add(name, vec![point(rows, chart, row, x, &expression)]);
            }
        }
    }
    for line in &mut lines {
        line.points.retain(|own| own.x.is_finite() && own.y.is_finite() && (!chart.log || own.y > 0.0));
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    // A pile has a part of each kind, and most are nothing.
    let is_drawn = |own: &Point| chart.kind != Kind::Stacked || own.y > 0.0;
    lines.retain(|line| line.points.iter().any(is_drawn));
    let place =
        |line: &Line| list.styles.iter().position(|style| style[0] == line.name).unwrap_or(usize::MAX);
    lines.sort_by_key(place);
    if let Some(printed) = chart.printed.as_ref().filter(|_| !lines.is_empty()) {
        lines.extend(printed.lines.iter().map(|(name, values)| {
            let points = printed.x.iter().copied().zip(values.iter().copied()).map(Point::at).collect();
            Line { name: format!("{name} (published)"), points, printed: true }
        }));
    }
    Lines { all: lines, names }
}

/// A point with the spread of its repeats. The parts of a pile have none: they would lie on one another.
fn point(rows: &Rows, chart: &Chart, row: &Row, x: f64, expression: &str) -> Point {
    let y = rows.number(row, expression);
    let most = chart.most.unwrap_or(f64::INFINITY);
    let whisker = rows.spread(row, expression).map(|[low, high]| [low, high.min(most)]);
    let is_drawn = |[low, high]: &[f64; 2]| {
        low < high && (*low..=*high).contains(&y) && (!chart.log || *low > 0.0) && chart.kind != Kind::Stacked
    };
    Point { x, y, whisker: whisker.filter(is_drawn) }
}

/// True if a column has words.
fn is_word(row: &Row, column: &str) -> bool {
    row.get(column).is_some_and(Value::is_string)
}

/// A column as a template; what is one already stays.
pub(super) fn braced(column: &str) -> String {
    if column.contains('{') { column.to_owned() } else { format!("{{{column}}}") }
}

/// The quantities of a chart, with their names.
pub(super) fn expressions(rows: &Rows, chart: &Chart, row: &Row) -> Vec<(String, String)> {
    let mut all = Vec::new();
    if chart.kind == Kind::Stacked {
        let names = members(row, &chart.y).into_iter();
        return names.map(|name| (name.clone(), format!("{}.{name}", chart.y))).collect();
    }
    if !chart.y.is_empty() {
        all.push((String::new(), chart.y.clone()));
    }
    for [name, expression] in &chart.lines {
        let counted = (0..if name.contains('#') { usize::MAX } else { 1 }).map(|number| {
            let of = |text: &str| text.replace('#', &number.to_string());
            (of(name), of(expression))
        });
        let has_values =
            |(_, own): &(String, String)| rows.values(row, own).is_ok_and(|values| !values.is_empty());
        all.extend(counted.take_while(has_values));
    }
    all
}

fn panel(list: &List, chart: &Chart, caption: String, Lines { all: lines, names }: Lines) -> Drawn {
    let mut xs: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let find = |line: &Line, x: f64| line.points.iter().find(|point| point.x == x).copied();
    let at = |line: &Line, x: f64| find(line, x).map(|point| point.y);
    let whiskers = |line: &Line| -> Vec<(usize, f64, f64)> {
        let of = |(place, x): (usize, &f64)| {
            let [low, high] = find(line, *x)?.whisker?;
            Some((place, rounded(low), rounded(high)))
        };
        xs.iter().enumerate().filter_map(of).collect()
    };
    let has_whiskers = lines.iter().any(|line| !whiskers(line).is_empty());
    let is_by_time = chart.kind == Kind::Time;
    let series = lines.iter().map(|line| {
        let data = if is_by_time {
            json!(thinned(&line.points, chart.log))
        } else {
            json!(xs.iter().map(|x| at(line, *x).map(rounded)).collect::<Vec<_>>())
        };
        let mut style =
            list.styles.iter().filter(|style| style[0] == line.name).flat_map(|style| style[1].split(' '));
        json!({
            "name": line.name, "data": data, "printed": line.printed,
            "color": style.next(), "symbol": style.next(), "thin": style.next().is_some(),
            "whiskers": whiskers(line),
            // A line by time has too many, but one alone would not be seen without.
            "dots": !is_by_time || line.points.len() == 1,
        })
    });
    let series: Vec<Value> = series.collect();
    let label = |x: &f64| match names.get(*x as usize) {
        Some(name) => name.clone(),
        None if chart.x.is_empty() => String::new(),
        None => short(*x),
    };
    let labels: Vec<String> = xs.iter().map(label).collect();
    let numbers = (!is_by_time).then(|| {
        let mut heads = vec![caption_with_units(&caption, chart)];
        heads.extend(labels.iter().cloned());
        let row = |line: &Line| {
            let values = xs.iter().map(|x| at(line, *x).map_or("–".to_owned(), short));
            std::iter::once(line.name.clone()).chain(values).collect()
        };
        Grid { heads, rows: lines.iter().map(row).collect() }
    });
    let kind = match chart.kind {
        Kind::Lines => "line",
        Kind::Bars => "bar",
        Kind::Stacked => "stacked",
        Kind::Time => "time",
    };
    let chart = json!({
        "kind": kind,
        "caption": caption, "x": chart.x_name, "y": chart.y_name, "log": chart.log, "max": chart.most,
        "labels": if is_by_time { Vec::new() } else { labels }, "series": series,
    });
    Drawn { chart, numbers, has_whiskers }
}

/// The caption of a chart with the names of its axes, which have the units.
fn caption_with_units(caption: &str, chart: &Chart) -> String {
    let axes = [("", &chart.y_name), ("by ", &chart.x_name)];
    let axes = axes.iter().filter(|(_, name)| !name.is_empty() && !caption.contains(name.as_str()));
    axes.fold(caption.to_owned(), |text, (word, name)| format!("{text}; {word}{name}"))
}

/// At most [`POINTS`] points.
fn thinned(points: &[Point], by_greatest: bool) -> Vec<(f64, f64)> {
    let one = |part: &[Point]| {
        let mean = |of: fn(&Point) -> f64| part.iter().map(of).sum::<f64>() / part.len() as f64;
        let y = if by_greatest {
            part.iter().map(|point| point.y).fold(f64::MIN, f64::max)
        } else {
            mean(|point| point.y)
        };
        (rounded(mean(|point| point.x)), rounded(y))
    };
    points.chunks(points.len().div_ceil(POINTS).max(1)).map(one).collect()
}

/// The next number with two digits that count.
fn upwards(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor() - 1.0);
    if unit > 0.0 { (value / unit).ceil() * unit } else { 1.0 }
}

/// Five digits that count: more are not read off a chart.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The first chart of such a declaration, of rows with repeats.
    fn drawn(declared: &str) -> Drawn {
        let row = |x: u32, ys: &[f64]| json!({ "part": "p", "x": x, "y": ys, "parts": { "a": ys } });
        let rows = [row(1, &[10.0, 40.0, 20.0]), row(2, &[5.0]), row(3, &[7.0, 7.0])];
        let all = rows.map(|row| row.as_object().unwrap().clone()).to_vec();
        let chart = toml::from_str(&format!("x = 'x'\n{declared}")).unwrap();
        let section = Section { part: "p".to_owned(), ..Section::default() };
        draw(&List::default(), &Rows { all, ..Rows::default() }, &section, &chart).remove(0)
    }

    #[test]
    fn points_with_repeats_have_whiskers_to_the_least_and_the_greatest() {
        for kind in ["lines", "bars"] {
            let drawn = drawn(&format!("kind = '{kind}'\ny = 'y'"));
            assert_eq!(drawn.chart["series"][0]["data"], json!([20.0, 5.0, 7.0]));
            assert_eq!(drawn.chart["series"][0]["whiskers"], json!([[0, 10.0, 40.0]]));
            assert_eq!((&drawn.chart["min"], &drawn.chart["max"]), (&json!(0.0), &json!(40.0)));
            assert!(drawn.has_whiskers);
        }
        // A median that is asked for is one of the same repeats; what is the greatest of them has no spread.
        assert_eq!(drawn("y = 'median(y) / 10'").chart["series"][0]["whiskers"], json!([[0, 1.0, 4.0]]));
        assert!(!drawn("y = 'max(y)'").has_whiskers);
    }

    #[test]
    fn whiskers_stay_within_their_axis() {
        let log = drawn("y = 'y'\nlog = true").chart;
        assert_eq!((&log["min"], &log["max"]), (&json!(1.0), &json!(100.0)));
        let most = drawn("y = 'y'\nmost = 30.0").chart;
        assert_eq!((&most["series"][0]["whiskers"], &most["max"]), (&json!([[0, 10.0, 30.0]]), &json!(30.0)));
        // Nothing below zero is on an axis by powers of ten.
        assert!(!drawn("y = 'y - 10'\nlog = true").has_whiskers);
        assert_eq!(drawn("y = 'y - 15'").chart["min"], json!(-10.0));
    }

    #[test]
    fn piles_and_lines_by_time_have_no_whiskers() {
        assert!(!drawn("kind = 'stacked'\ny = 'parts'").has_whiskers);
        assert!(!drawn("kind = 'time'\ny = 'y'").has_whiskers);
    }

    #[test]
    fn a_single_point_of_a_line_by_time_is_shown() {
        let dots = |declared: &str| drawn(declared).chart["series"][0]["dots"].clone();
        assert_eq!(dots("y = 'y'"), json!(true));
        assert_eq!(dots("kind = 'time'\ny = 'y'"), json!(false));
        assert_eq!(dots("kind = 'time'\ny = 'y'\nwhere = { x = 2 }"), json!(true));
        assert!(include_str!("page.js").contains("showSymbol: own.dots,"));
    }

    #[test]
    fn the_numbers_of_a_chart_have_its_units() {
        let chart = Chart { x_name: "data [GB]".to_owned(), y_name: "µs".to_owned(), ..Chart::default() };
        assert_eq!(caption_with_units("a: mean", &chart), "a: mean; µs; by data [GB]");
        assert_eq!(caption_with_units("a [µs]", &chart), "a [µs]; by data [GB]");
    }

    #[test]
    fn a_long_line_keeps_its_mean_or_its_peaks() {
        let points = (0..10_000).map(|at| Point::at((f64::from(at), f64::from(at % 2) * 10.0)));
        let points: Vec<_> = points.collect();
        let (means, peaks) = (thinned(&points, false), thinned(&points, true));
        assert!(
            means.len() <= POINTS && means[..700].iter().all(|point| (point.1 - 5.0).abs() < 1.0),
            "{means:?}"
        );
        assert!(peaks.iter().all(|point| point.1 == 10.0));
        assert_eq!(rounded(123_456.7), 123_460.0);
    }
}
