//! The measurements as rows, and facts about them.

use serde_json::json;

use super::Store;
use super::cell::{Cell, Data, Figures, Kind, Pace, Part, Variant, Who};
use super::plan::PAPER_UPDATES;
use crate::checkpoint::{Course, stretch_rows};
use crate::experiment::{LineOf, ResultsOf, row, scale_fact};
use crate::page::{Facts, Row, with};
use crate::report::median;
use crate::server::PeerName;

/// A row for each cell, its stretches where latency is measured, a row for the cuts of each variant and size,
/// and one for each line of figures 13 to 17.
pub(super) fn of(results: &ResultsOf<Store>, quick: bool) -> Vec<Row> {
    let cells = results.of(|cell| cell.quick == quick);
    let mut rows: Vec<Row> =
        cells.iter().flat_map(|(cell, figures)| of_cell(results, cell, figures)).collect();
    let mut cuts: Vec<(Who, Data, Vec<f64>)> = Vec::new();
    for (cell, figures) in cells.iter().filter(|(cell, _)| cell.data.kind == Kind::Records) {
        let own = figures.course.taken.iter().filter_map(|taken| taken.cut_us);
        match cuts.iter_mut().find(|(who, data, _)| (*who, *data) == (cell.who(), cell.data)) {
            Some((.., all)) => all.extend(own),
            None => cuts.push((cell.who(), cell.data, own.collect())),
        }
    }
    cuts.sort_by_key(|(who, data, _)| (*who, data.count));
    rows.extend(cuts.into_iter().filter(|(.., cuts)| !cuts.is_empty()).map(
        |((variant, peer), data, cuts)| {
            let name = peer.as_ref().map_or(variant.name(), PeerName::as_str);
            let row = json!({
                "part": "cuts", "variant": name, "label": name, "data": data, "what": data.to_string(),
                "cuts": cuts,
            });
            with(Row::new(), row)
        },
    ));
    rows.extend(curves(&cells));
    rows
}

/// A line: its part, the cell without what varies, and its points.
type Curve<'c> = (&'static str, Cell, Vec<(&'c Cell, &'c Course)>);

/// The lines of figures 13 to 17, by the size of the store and by the updates: lists of what the claims about
/// them need. A line with one point shows nothing, and its lists are empty.
fn curves(cells: &[(&Cell, &Figures)]) -> Vec<Row> {
    let mut curves: Vec<Curve<'_>> = Vec::new();
    for (cell, figures) in cells.iter().filter(|(cell, _)| cell.part == Part::Figures) {
        let by_size = Cell { data: Data { count: 0, ..cell.data }, ..**cell };
        let by_updates = Cell { update_percent: 0, ..**cell };
        let is_in_both = cell.update_percent == PAPER_UPDATES;
        let of = [("figures-by-size", by_size), ("figures-by-updates", by_updates)];
        for (part, curve) in of.into_iter().skip(usize::from(!is_in_both)) {
            match curves.iter_mut().find(|own| (own.0, own.1) == (part, curve)) {
                Some((.., points)) => points.push((cell, &figures.course)),
                None => curves.push((part, curve, vec![(cell, &figures.course)])),
            }
        }
    }
    curves.iter().map(row_of_curve).collect()
}

fn row_of_curve((part, curve, points): &Curve<'_>) -> Row {
    let list = |of: fn(&Cell, &Course) -> f64| -> Vec<f64> {
        let values = points.iter().filter(|_| points.len() > 1);
        values.map(|(cell, course)| of(cell, course)).collect()
    };
    let row = json!({
        "part": part,
        "variant": curve.name(),
        "label": label(curve),
        "rates": list(|_, course| course.all.rate),
        "longest": list(|_, course| course.all.max_us),
        "seconds_a_record": list(|cell, course| {
            median(course.taken.iter().map(|taken| taken.seconds)) / cell.data.count as f64
        }),
    });
    with(Row::new(), row)
}

/// The name of a line, with the pace where there are two.
fn label(cell: &Cell) -> String {
    let name = cell.name();
    if cell.variant.has_paces() { format!("{name} {}", cell.pace.name()) } else { name.to_owned() }
}

fn of_cell(results: &ResultsOf<Store>, cell: &Cell, figures: &Figures) -> Vec<Row> {
    let (name, label) = (cell.name(), label(cell));
    // Figure 17 compares with fork, which is not there on every machine.
    let dump = |variant| {
        let other = results.find(&Cell { variant, peer: None, pace: Pace::Fast, ..*cell })?;
        (!other.course.taken.is_empty()).then(|| median(other.course.taken.iter().map(|taken| taken.seconds)))
    };
    let whose =
        [Variant::TarnFork, Variant::RedisServer].into_iter().find(|variant| dump(*variant).is_some());
    let has_more_updates = |other: &&LineOf<Store>| {
        other.cell.update_percent != PAPER_UPDATES
            && other.cell == Cell { update_percent: other.cell.update_percent, ..*cell }
    };
    let more = json!({
        "figure_15": cell.part == Part::Figures && results.lines.iter().any(|own| has_more_updates(&own)),
        "who": format!("{label}, {}", cell.data),
        "label": label,
        "what": cell.data.to_string(),
        "variant": name,
        "extra": figures.course.peak.most.map(|most| most.saturating_sub(figures.course.peak.before)),
        "fork_s": whose.and_then(dump),
        "whose": whose.map(Variant::name),
    });
    let row = with(row(cell, figures), more);
    let course = &figures.course;
    let asking = course.asking.as_slice();
    let stretches = [
        ("without", &course.without_all, &course.without[..], &course.without_slow),
        ("during", &course.during_all, &course.during[..], &course.during_slow),
        ("SQL", asking.first().unwrap_or(&course.all), asking, &course.asking_slow),
    ];
    let has_stretches = matches!(cell.part, Part::Latency | Part::Giants);
    let stretches = if has_stretches { stretch_rows(&row, &stretches) } else { Vec::new() };
    std::iter::once(row).chain(stretches).collect()
}

/// The scale, and the generator.
pub(super) fn facts(lines: &[&LineOf<Store>]) -> Facts {
    let data = lines.iter().map(|line| line.cell.data).filter(|data| data.kind == Kind::Records);
    let is_preferred = lines.iter().any(|line| line.figures.course.generator_preferred);
    let turn = if is_preferred { "comes before all others" } else { "takes its turn with others" };
    let generator =
        format!("one thread on the last core, the server and its checkpoint on all; it {turn} on its core");
    vec![scale_fact(data.map(|data| data.count), "study's", 16e6), ("generator", generator)]
}
