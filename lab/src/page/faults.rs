//! Looks for faults of a list, for tests: expressions without their columns, parts without rows, and names of
//! sections that are not there.

use super::list::{List, Where};
use super::rows::{Fault, Rows};

struct Check<'c> {
    rows: &'c Rows,
    faults: Vec<String>,
}

impl Check<'_> {
    /// Expressions stand for themselves; of words, those in braces count.
    fn check(&mut self, place: &str, part: &str, conditions: &Where, expressions: &[&str], words: &[&str]) {
        let inside = words.iter().flat_map(|text| text.split('{').skip(1));
        let inside = inside.filter_map(|text| text.split('}').next());
        let inside = inside.map(|text| text.rsplit_once(':').map_or(text, |(own, _)| own));
        let all: Vec<&str> =
            expressions.iter().copied().chain(inside).filter(|own| !own.is_empty()).collect();
        let rows = self.rows.wanted(part, conditions);
        if rows.is_empty() {
            self.faults.push(format!("{place}: no row of {part:?} fulfils {conditions:?}"));
        }
        for (row, own) in rows.iter().flat_map(|row| all.iter().map(move |own| (row, own))) {
            if let Err(Fault::NotUnderstood(words)) = self.rows.values(row, own) {
                self.faults.push(format!("{place}: {own}: {words}"));
            }
        }
    }
}

/// All faults. The rows must have all parts.
pub(crate) fn faults(list: &List, rows: &Rows) -> Vec<String> {
    let mut check = Check { rows, faults: Vec::new() };
    for section in &list.sections {
        for chart in &section.charts {
            let [from, to] = chart.spans.as_ref().map_or(["", ""], |spans| [&*spans[0], &*spans[1]]);
            let mut all = vec![&*chart.x, &*chart.y, from, to];
            let (mut words, series) = (vec![&*chart.caption], super::charts::braced(&chart.series));
            words.push(&series);
            all.extend(chart.facet.iter().map(String::as_str));
            all.extend(chart.lines.iter().map(|line| &*line[1]).filter(|own| !own.contains('#')));
            let place = format!("{}, {}", section.id, chart.caption);
            let part = if chart.part.is_empty() { &section.part } else { &chart.part };
            check.check(&place, part, &chart.conditions, &all, &words);
        }
    }
    let own = list.sections.iter().flat_map(|own| own.tables.iter().map(move |table| (&*own.part, table)));
    for (part, table) in own.chain(list.summary.iter().map(|table| ("", table))) {
        let part = if table.part.is_empty() { part } else { &table.part };
        let columns = table.columns.iter().map(|column| &*column[1]);
        let (words, all): (Vec<_>, Vec<_>) = columns.partition(|own| own.contains('{'));
        check.check(&format!("a table of {part}"), part, &table.conditions, &all, &words);
    }
    for own in &list.targets {
        let part = list.part_of(&own.section, &own.part);
        check.check(&own.what, part, &own.conditions, &[&own.value], &[&own.what, &own.note]);
        if own.at_most.is_none() && own.at_least.is_none() {
            check.faults.push(format!("{} has no bound", own.what));
        }
    }
    for own in list.printed.iter().filter(|own| own.unjudged.is_empty()) {
        let part = list.part_of(&own.section, &own.part);
        check.check(&own.what, part, &own.conditions, &[&own.value, &own.each], &[]);
    }
    let named =
        list.targets.iter().map(|own| &own.section).chain(list.printed.iter().map(|own| &own.section));
    let missing = named.filter(|name| !list.sections.iter().any(|own| own.id == **name));
    check.faults.extend(missing.map(|name| format!("there is no section {name}")));
    check.faults
}
