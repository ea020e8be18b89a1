//! The tables of a list, its targets, and the printed numbers beside ours.

use super::list::{List, Printed, Table, Where};
use super::rows::{Fault, Row, Rows, shown, text_of};
use crate::report::{Bound, Goal};

/// A table in words.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    /// Its heads.
    pub heads: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

/// The rows of a table that were measured. `part` is that of its section.
pub(super) fn grid(rows: &Rows, part: &str, table: &Table) -> Grid {
    let part = if table.part.is_empty() { part } else { &table.part };
    let columns = columns(rows, part, table);
    let text = |row: &_, column: &Vec<String>| match &column[1..] {
        [template] if template.contains('{') => rows.fill(row, template),
        [expression, format @ ..] => rows.text(row, expression, format.first().map_or("", String::as_str)),
        [] => String::new(),
    };
    let or_dash = |text: String| if text.is_empty() { "–".to_owned() } else { text };
    let row = |row| columns.iter().map(|column| or_dash(text(row, column))).collect();
    Grid {
        heads: columns.iter().map(|column| column[0].clone()).collect(),
        rows: rows.wanted(part, &table.conditions).into_iter().map(row).collect(),
    }
}

/// The columns of a table. One with `@*` is a column for each key of the part, which stands for every `*`.
fn columns(rows: &Rows, part: &str, table: &Table) -> Vec<Vec<String>> {
    let mut keys: Vec<String> = Vec::new();
    for row in rows.wanted(part, &Where::default()) {
        let key = text_of(row, &rows.pair);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let of = |column: &Vec<String>| {
        if !column.iter().any(|text| text.contains("@*")) {
            return vec![column.clone()];
        }
        let with = |key: &String| column.iter().map(|text| text.replace('*', key)).collect();
        keys.iter().map(with).collect()
    };
    table.columns.iter().flat_map(of).collect()
}

/// Judges the targets; those that were not measured are left out.
pub(crate) fn judge(list: &List, rows: &Rows) -> Vec<Goal> {
    let mut goals = Vec::new();
    for target in &list.targets {
        let part = list.part_of(&target.section, &target.part);
        let bound = match (target.at_least, target.at_most) {
            (Some(bound), _) => Bound::AtLeast(bound),
            (None, bound) => Bound::AtMost(bound.unwrap_or(f64::NAN)),
        };
        for row in rows.wanted(part, &target.conditions) {
            if rows.values(row, &target.value) == Err(Fault::NoRow) {
                continue;
            }
            let figure = rows.number(row, &target.value);
            if figure.is_finite() || !target.optional {
                let (what, note) = (rows.fill(row, &target.what), rows.fill(row, &target.note));
                let (unit, section) = (target.unit.clone(), target.section.clone());
                goals.push(Goal { what, figure, unit, bound, note, section });
            }
        }
    }
    goals
}

impl List {
    /// Measurements with the list's own columns.
    pub(crate) fn rows(&self, mut all: Vec<Row>) -> Rows {
        for row in &mut all {
            let more = self.more.get(&text_of(row, &self.pair)).cloned();
            row.extend(more.unwrap_or_default());
        }
        Rows { all, same: self.same.clone(), pair: self.pair.clone() }
    }

    /// The part that is meant: a part of its own, or that of a section.
    pub(crate) fn part_of<'l>(&'l self, section: &str, own: &'l str) -> &'l str {
        let section = self.sections.iter().find(|other| other.id == section);
        if own.is_empty() { section.map_or("", |section| &section.part) } else { own }
    }
}

/// The measured value of a printed one, in words.
pub(super) fn measured(list: &List, rows: &Rows, printed: &Printed) -> String {
    let own = rows.wanted(list.part_of(&printed.section, &printed.part), &printed.conditions);
    let one = |of: &dyn Fn(&Row) -> bool| {
        let values = own.iter().filter(|row| of(row)).map(|row| rows.number(row, &printed.value));
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let failed = printed.failed.as_ref().filter(|[selector, column]| {
            let others = own.iter().filter(|row| of(row)).filter_map(|row| rows.other(row, selector));
            others.into_iter().any(|row| !text_of(row, column).is_empty())
        });
        match (&values[..], failed) {
            ([], Some([_, column])) => column.clone(),
            ([_, _, ..], _) if printed.range => {
                let ends = [f64::min as fn(f64, f64) -> f64, f64::max]
                    .map(|of| values.iter().copied().fold(f64::NAN, of));
                ends.map(|end| shown(&[end], &printed.format)).join(" … ")
            }
            (all, _) => shown(all, &printed.format),
        }
    };
    if printed.each.is_empty() {
        return one(&|_| true);
    }
    let mut names: Vec<String> = own.iter().map(|row| text_of(row, &printed.each)).collect();
    names.sort();
    names.dedup();
    let each = |name: &String| format!("{name} {}", one(&|row| text_of(row, &printed.each) == *name));
    if names.is_empty() { one(&|_| false) } else { names.iter().map(each).collect::<Vec<_>>().join(", ") }
}

/// Whether a published statement holds for our values, in words.
pub(super) fn holds(list: &List, rows: &Rows, printed: &Printed) -> &'static str {
    let own = rows.wanted(list.part_of(&printed.section, &printed.part), &printed.conditions);
    let values: Vec<f64> = own.iter().map(|row| rows.number(row, &printed.value)).collect();
    let is_judged = printed.at_least.is_some() || printed.at_most.is_some();
    let is_within = |value: &f64| {
        printed.at_least.is_none_or(|least| *value >= least)
            && printed.at_most.is_none_or(|most| *value <= most)
    };
    match values.iter().filter(|value| value.is_finite()).collect::<Vec<_>>()[..] {
        [] => "cannot be judged: not measured",
        _ if !is_judged => "a number of another machine",
        ref values if values.iter().all(|value| is_within(value)) => "holds",
        ref values if values.iter().any(|value| is_within(value)) => "holds in part",
        _ => "does not hold",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn a_published_number_holds_for_values_within_its_bounds() {
        let holds = |bounds: &str, values: &[f64]| {
            let text = format!(
                "pair = 'a'\n[[printed]]\nsection = ''\nfigure = '1'\nwhat = ''\n\
                 printed = '1'\nvalue = 'y'\n{bounds}\n\
                 source = {{ paper = 'vtc', place = '4.2', read = 'text' }}\n"
            );
            let list = List::parse(&text);
            let row = |y: &f64| serde_json::from_value(json!({ "part": "", "a": "b", "y": y })).unwrap();
            let rows = list.rows(values.iter().map(row).collect());
            holds(&list, &rows, &list.printed[0])
        };
        assert_eq!(holds("at_least = 1.0", &[1.0, 2.0]), "holds");
        assert_eq!(holds("at_least = 1.5", &[1.0, 2.0]), "holds in part");
        assert_eq!(holds("at_least = 1.5\nat_most = 1.9", &[1.0, 2.0]), "does not hold");
        assert_eq!(holds("", &[1.0]), "a number of another machine");
        assert_eq!(holds("at_most = 1.0", &[]), "cannot be judged: not measured");
    }

    #[test]
    fn a_column_for_each_key_of_the_part_is_found_without_its_name() {
        let row = |part: &str, server: &str, case: &str, us: f64| {
            let row = json!({ "part": part, "server": server, "case": case, "us": us });
            row.as_object().unwrap().clone()
        };
        let all = vec![
            row("a", "tarn", "get", 1.0),
            row("a", "peer", "get", 2.0),
            row("a", "tarn", "set", 3.0),
            row("b", "other", "set", 4.0),
        ];
        let rows =
            Rows { all, same: vec!["case".to_owned(), "server".to_owned()], pair: "server".to_owned() };
        let text = "columns = [['case', 'case'], ['* µs', 'us@*', '1']]\nwhere = { server = 'tarn' }";
        let grid = grid(&rows, "a", &toml::from_str(text).unwrap());
        assert_eq!(grid.heads, ["case", "tarn µs", "peer µs"]);
        assert_eq!(grid.rows, [["get", "1.0", "2.0"], ["set", "3.0", "–"]]);
    }
}
