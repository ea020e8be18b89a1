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
}

/// The lines of a chart, and where they are words, the names of the places at which they have values.
struct Lines {
    all: Vec<Line>,
    names: Vec<String>,
}

/// A line of a chart: its name and its points.
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
    printed: bool,
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
    let values =
        all.iter().flat_map(|(_, lines, _)| &lines.all).flat_map(|line| &line.points).map(|point| point.1);
    let range = values.fold((f64::NAN, f64::NAN), |(min, max), y| (y.min(min), y.max(max)));
    let drawn = all.into_iter().filter(|(_, lines, _)| !lines.all.is_empty()).map(|(caption, lines, own)| {
        let spans = chart.spans.as_ref().map(|[from, to]| {
            let values = |expression: &str| rows.values(own[0], expression).unwrap_or_default();
            values(from).into_iter().zip(values(to)).filter(|(from, to)| from < to).collect::<Vec<_>>()
        });
        let mut drawn = panel(list, chart, caption, lines);
        drawn.chart["spans"] = json!(spans.unwrap_or_default());
        if chart.shared {
            let (min, max) = range;
            let ends = match chart.log {
                true => (10_f64.powf(min.log10().floor()), 10_f64.powf(max.log10().ceil())),
                false => (0.0, upwards(max)),
            };
            (drawn.chart["min"], drawn.chart["max"]) = (json!(ends.0), json!(ends.1));
        }
        drawn
    });
    drawn.collect()
}

/// The lines of a chart, in the order of the legend.
fn lines(list: &List, rows: &Rows, chart: &Chart, own: &[&Row]) -> Lines {
    let (mut lines, mut names): (Vec<Line>, Vec<String>) = Default::default();
    let mut add =
        |name: String, points: Vec<(f64, f64)>| match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.extend(points),
            None => lines.push(Line { name, points, printed: false }),
        };
    for row in own {
        for (name, expression) in expressions(rows, chart, row) {
            let name = if chart.series.is_empty() { name } else { rows.fill(row, &braced(&chart.series)) };
            if chart.kind == Kind::Time {
                let values = |expression: &str| rows.values(row, expression).unwrap_or_default();
                add(name, values(&chart.x).into_iter().zip(values(&expression)).collect());
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
                add(name, vec![(x, rows.number(row, &expression))]);
            }
        }
    }
    for line in &mut lines {
        line.points.retain(|(x, y)| x.is_finite() && y.is_finite() && (!chart.log || *y > 0.0));
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    // A pile has a part of each kind, and most are nothing.
    let is_drawn = |(_, y): &(f64, f64)| chart.kind != Kind::Stacked || *y > 0.0;
    lines.retain(|line| line.points.iter().any(is_drawn));
    let place =
        |line: &Line| list.styles.iter().position(|style| style[0] == line.name).unwrap_or(usize::MAX);
    lines.sort_by_key(place);
    if let Some(printed) = chart.printed.as_ref().filter(|_| !lines.is_empty()) {
        lines.extend(printed.lines.iter().map(|(name, values)| {
            let points = printed.x.iter().copied().zip(values.iter().copied()).collect();
            Line { name: format!("{name} (published)"), points, printed: true }
        }));
    }
    Lines { all: lines, names }
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
fn expressions(rows: &Rows, chart: &Chart, row: &Row) -> Vec<(String, String)> {
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
    let mut xs: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let at = |line: &Line, x: f64| line.points.iter().find(|point| point.0 == x).map(|point| point.1);
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
        let mut heads = vec![caption.clone()];
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
    Drawn { chart, numbers }
}

/// At most [`POINTS`] points.
fn thinned(points: &[(f64, f64)], by_greatest: bool) -> Vec<(f64, f64)> {
    let one = |part: &[(f64, f64)]| {
        let mean = |of: fn(&(f64, f64)) -> f64| part.iter().map(of).sum::<f64>() / part.len() as f64;
        let y = if by_greatest {
            part.iter().map(|point| point.1).fold(f64::MIN, f64::max)
        } else {
            mean(|point| point.1)
        };
        (rounded(mean(|point| point.0)), rounded(y))
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
    use super::*;

    #[test]
    fn a_long_line_keeps_its_mean_or_its_peaks() {
        let points: Vec<_> = (0..10_000).map(|at| (f64::from(at), f64::from(at % 2) * 10.0)).collect();
        let (means, peaks) = (thinned(&points, false), thinned(&points, true));
        assert!(
            means.len() <= POINTS && means[..700].iter().all(|point| (point.1 - 5.0).abs() < 1.0),
            "{means:?}"
        );
        assert!(peaks.iter().all(|point| point.1 == 10.0));
        assert_eq!(rounded(123_456.7), 123_460.0);
    }
}
