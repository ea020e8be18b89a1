//! The measurements as rows, and facts about them.

use serde_json::json;

use super::Store;
use super::cell::{Cell, Data, Figures, Kind, Pace, Part, Variant, Who};
use super::plan::PAPER_UPDATES;
use crate::checkpoint::stretch_rows;
use crate::experiment::{LineOf, ResultsOf, row, scale_fact};
use crate::page::{Facts, Row, with};
use crate::report::median;
use crate::server::PeerName;

/// A row for each cell, its stretches where latency is measured, and a row for the cuts of each variant and
/// size.
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
    rows
}

fn of_cell(results: &ResultsOf<Store>, cell: &Cell, figures: &Figures) -> Vec<Row> {
    let name = cell.name();
    let label =
        if cell.variant.has_paces() { format!("{name} {}", cell.pace.name()) } else { name.to_owned() };
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
        "extra": figures.course.peak.most.saturating_sub(figures.course.peak.before),
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
