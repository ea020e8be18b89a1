//! The tables of a list, its targets, and the printed numbers beside ours.

use super::list::{List, Printed, Table, Target, Where};
use super::rows::{Fault, Row, Rows, shown, text_of};
use crate::report::{Bound, Goal, LeftOut, by_kind};

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

/// Judges the targets; those that were not measured, or whose ratio does not exist, are left out.
pub(crate) fn judge(list: &List, rows: &Rows) -> Vec<Goal> {
    let mut goals = Vec::new();
    for target in &list.targets {
        let part = list.part_of(&target.section, &target.part);
        for row in rows.wanted(part, &target.conditions) {
            if !is_judged(target, rows, row) {
                continue;
            }
            let (figure, bound) = (rows.number(row, &target.value), target.bound());
            let (what, note) = (rows.fill(row, &target.what), rows.fill(row, &target.note));
            let (unit, section) = (target.unit.clone(), target.section.clone());
            goals.push(Goal { what, figure, unit, bound, note, section, promise: target.promise.clone() });
        }
    }
    goals
}

/// A value that was not measured misses its target, unless it may be missing; so does a ratio to a 0 of the
/// same row. A ratio to the 0 of another one says nothing of the target, however it was measured.
fn is_judged(target: &Target, rows: &Rows, row: &Row) -> bool {
    let is_compared = rows.values(row, &target.value) != Err(Fault::NoRow);
    let may_lack = target.optional || rows.divides_by_zero(row, &target.value);
    is_compared && (!may_lack || rows.number(row, &target.value).is_finite())
}

/// The targets that cannot be judged here, at all or in cells that were left out, each with the reason.
pub(super) fn unjudged<'l>(list: &'l List, rows: &Rows) -> Vec<(&'l Target, String)> {
    let mut all = Vec::new();
    for target in &list.targets {
        let part = list.part_of(&target.section, &target.part);
        let own = rows.wanted(part, &target.conditions);
        let mut reasons = reasons(&rows.left_out(part, &target.conditions));
        let alone: Vec<&Row> = own.iter().copied().filter(|row| !is_judged(target, rows, row)).collect();
        reasons.extend(lacking(rows, &alone, &target.value));
        if own.is_empty() && reasons.is_empty() {
            reasons.push(missing(rows, part));
        }
        all.extend(reasons.into_iter().map(|why| (target, why)));
    }
    all
}

/// A number of cells in words.
pub(crate) fn cells(count: usize) -> String {
    if count == 1 { "1 cell".to_owned() } else { format!("{count} cells") }
}

/// Cells that a reason names; the others are counted.
const NAMED: usize = 3;

/// The reasons why cells were left out, each with some of the cells.
fn reasons<C>(gone: &[&LeftOut<C>]) -> Vec<String> {
    let text = |(kind, words): (String, Vec<String>)| {
        let (count, more) = (cells(words.len()), words.len().saturating_sub(NAMED));
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        format!("{count}, {kind} ({}{more})", words[..words.len().min(NAMED)].join("; "))
    };
    by_kind(gone).into_iter().map(text).collect()
}

/// The reasons why rows have no value of an expression, each with some of the rows.
fn lacking(rows: &Rows, alone: &[&Row], value: &str) -> Vec<String> {
    let others = || value.split('@').skip(1).map(|rest| rest.split([' ', ')']).next().unwrap_or(rest));
    let of = |row: &&Row| {
        let why = match others().find(|other| rows.other(row, other).is_none()) {
            Some(other) => format!("nothing to compare with was measured: {other}"),
            None if rows.divides_by_zero(row, value) => "there is no ratio to 0".to_owned(),
            None => "there is no such value".to_owned(),
        };
        // As of one that failed, the whole reason is its kind.
        LeftOut::<()> { cell: None, what: rows.name(row), why, failed: true }
    };
    let all: Vec<LeftOut<()>> = alone.iter().map(of).collect();
    reasons(&all.iter().collect::<Vec<_>>())
}

/// The reason why there is no row of a kind.
fn missing(rows: &Rows, part: &str) -> String {
    let is_measured = !rows.wanted(part, &Where::default()).is_empty();
    if is_measured { "no cell of this kind was measured" } else { "not measured" }.to_owned()
}

impl Target {
    /// The bound that a figure must keep.
    pub(super) fn bound(&self) -> Bound {
        match (self.at_least, self.at_most) {
            (Some(bound), _) => Bound::AtLeast(bound),
            (None, bound) => Bound::AtMost(bound.unwrap_or(f64::NAN)),
        }
    }

    /// Its words.
    pub(super) fn words(&self) -> String {
        words(&self.what)
    }
}

/// The words of a template, with `…` for all that a measurement fills in.
pub(super) fn words(template: &str) -> String {
    let mut parts = template.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "…" + part.split_once('}').map_or("", |(_, after)| after))
}

impl List {
    /// Measurements with the list's own columns.
    pub(crate) fn rows(&self, mut all: Vec<Row>) -> Rows {
        for row in &mut all {
            let more = self.more.get(&text_of(row, &self.pair)).cloned();
            row.extend(more.unwrap_or_default());
        }
        Rows { all, same: self.same.clone(), pair: self.pair.clone(), left_out: Vec::new() }
    }

    /// The part that is meant: a part of its own, or that of a section.
    pub(crate) fn part_of<'l>(&'l self, section: &str, own: &'l str) -> &'l str {
        let section = self.sections.iter().find(|other| other.id == section);
        if own.is_empty() { section.map_or("", |section| &section.part) } else { own }
    }
}

/// The measured value of a printed one, in words.
pub(super) fn measured(list: &List, rows: &Rows, printed: &Printed) -> String {
    if !printed.unjudged.is_empty() {
        return "not measured".to_owned();
    }
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

/// The word for a statement or a target without a measurement.
pub(super) const UNJUDGED: &str = "cannot be judged here";

/// Whether a published statement holds for our values, in words, and the reasons why some cells or all have
/// none.
pub(super) fn holds(list: &List, rows: &Rows, printed: &Printed) -> (&'static str, Vec<String>) {
    if !printed.unjudged.is_empty() {
        return (UNJUDGED, vec![printed.unjudged.clone()]);
    }
    let part = list.part_of(&printed.section, &printed.part);
    let own = rows.wanted(part, &printed.conditions);
    let values: Vec<f64> = own.iter().map(|row| rows.number(row, &printed.value)).collect();
    let mut reasons = reasons(&rows.left_out(part, &printed.conditions));
    let (mut failed, mut alone) = (Vec::new(), Vec::new());
    for (row, _) in own.iter().zip(&values).filter(|(_, value)| !value.is_finite()) {
        match ended(rows, row, printed) {
            Some(why) => failed.push(why),
            None => alone.push(*row),
        }
    }
    failed.sort();
    failed.dedup();
    reasons.extend(failed);
    // Beside a verdict on other cells.
    let prefix = if values.iter().any(|value| value.is_finite()) { "cannot be judged: " } else { "" };
    reasons.extend(lacking(rows, &alone, &printed.value).into_iter().map(|why| format!("{prefix}{why}")));
    if own.is_empty() && reasons.is_empty() {
        reasons.push(missing(rows, part));
    }
    let has_bound = printed.at_least.is_some() || printed.at_most.is_some();
    let is_within = |value: &f64| {
        printed.at_least.is_none_or(|least| *value >= least)
            && printed.at_most.is_none_or(|most| *value <= most)
    };
    let verdict = match values.iter().filter(|value| value.is_finite()).collect::<Vec<_>>()[..] {
        [] => UNJUDGED,
        _ if !has_bound => "a number of another machine",
        ref values if values.iter().all(|value| is_within(value)) => "holds",
        ref values if values.iter().any(|value| is_within(value)) => "holds in part",
        _ => "does not hold",
    };
    (verdict, reasons)
}

/// The reason why a row, or the one that it is compared with, has no value: a server that failed meanwhile.
fn ended(rows: &Rows, row: &Row, printed: &Printed) -> Option<String> {
    let [selector, column] = printed.failed.as_ref()?;
    let text = text_of(rows.other(row, selector)?, column);
    let each = if printed.each.is_empty() { String::new() } else { text_of(row, &printed.each) + ", " };
    (!text.is_empty()).then(|| format!("{each}{selector}, {column}: {text}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn a_published_number_holds_for_values_within_its_bounds() {
        let holds = |bounds: &str, values: &[f64]| {
            let list = printed("y", bounds);
            let row = |y: &f64| serde_json::from_value(json!({ "part": "", "a": "b", "y": y })).unwrap();
            let rows = list.rows(values.iter().map(row).collect());
            holds(&list, &rows, &list.printed[0]).0
        };
        assert_eq!(holds("at_least = 1.0", &[1.0, 2.0]), "holds");
        assert_eq!(holds("at_least = 1.5", &[1.0, 2.0]), "holds in part");
        assert_eq!(holds("at_least = 1.5\nat_most = 1.9", &[1.0, 2.0]), "does not hold");
        assert_eq!(holds("", &[1.0]), "a number of another machine");
        assert_eq!(holds("at_most = 1.0", &[]), UNJUDGED);
    }

    fn printed(value: &str, bounds: &str) -> List {
        List::parse(&format!(
            "pair = 'a'\nsame = ['a', 'memory']\n[[printed]]\nsection = ''\nfigure = '1'\nwhat = ''\n\
             printed = '1'\nvalue = '{value}'\nfailed = ['memory=short', 'ended']\n{bounds}\n\
             source = {{ paper = 'vtc', place = '4.2', read = 'text' }}\n"
        ))
    }

    fn gone(what: &str, why: &str, cell: serde_json::Value) -> LeftOut<Row> {
        let cell = Some(cell.as_object().unwrap().clone());
        LeftOut { cell, what: what.to_owned(), why: why.to_owned(), failed: false }
    }

    #[test]
    fn cells_that_failed_or_were_left_out_are_the_reasons() {
        let list = printed("y@memory=short", "where = { memory = 'ample' }\nat_least = 1.0");
        let row = |a: &str, memory: &str, y: Option<f64>, ended: &str| {
            let row = json!({ "part": "", "a": a, "memory": memory, "y": y, "ended": ended });
            row.as_object().unwrap().clone()
        };
        let mut rows = list.rows(vec![
            row("x", "ample", Some(1.0), ""),
            row("x", "short", None, "no memory"),
            row("z", "ample", Some(1.0), ""),
        ]);
        let alone = "1 cell, nothing to compare with was measured: memory=short (z, ample)";
        let (verdict, reasons) = holds(&list, &rows, &list.printed[0]);
        assert_eq!(verdict, UNJUDGED);
        assert_eq!(reasons, ["memory=short, ended: no memory", alone]);
        let mut both = list.rows(vec![row("y", "ample", Some(1.0), ""), row("y", "short", Some(1.0), "")]);
        both.all.push(rows.all[2].clone());
        // One that holds does not hide that another has no partner.
        let expected = ("holds", vec![format!("cannot be judged: {alone}")]);
        assert_eq!(holds(&list, &both, &list.printed[0]), expected);
        both.all.drain(..2);
        assert_eq!(holds(&list, &both, &list.printed[0]), (UNJUDGED, vec![alone.to_owned()]));
        // Nor one that failed.
        rows.all.push(row("z", "short", Some(2.0), ""));
        assert_eq!(holds(&list, &rows, &list.printed[0]).0, "holds");
        rows.left_out = vec![
            gone("v", "no room: 3 MB", json!({ "memory": "ample" })),
            gone("w", "no room: 4 MB", json!({ "memory": "ample" })),
            gone("u", "no room: 4 MB", json!({ "memory": "short" })),
        ];
        let (verdict, reasons) = holds(&list, &rows, &list.printed[0]);
        assert_eq!(verdict, "holds");
        assert_eq!(reasons, ["2 cells, no room (v; w)", "memory=short, ended: no memory"]);
    }

    #[test]
    fn targets_that_cannot_be_judged_have_a_reason() {
        let list = List::parse(
            "pair = 'a'\nsame = ['a']\n[[target]]\nsection = ''\nwhat = '{a}: {y:2} s'\n\
             value = 'y / y@other'\nat_most = 1.0\n",
        );
        let row = |part: &str| json!({ "part": part, "a": "b", "y": 1.0 }).as_object().unwrap().clone();
        let said = |rows: &Rows| {
            let all = unjudged(&list, rows);
            all.into_iter().map(|(target, why)| format!("{} {why}", target.words())).collect::<Vec<_>>()
        };
        assert_eq!(said(&list.rows(vec![])), ["…: … s not measured"]);
        let mut rows = list.rows(vec![row("p")]);
        let alone = "…: … s 1 cell, nothing to compare with was measured: other (b)";
        assert_eq!(said(&rows), [alone]);
        let other =
            |a: &str, part: &str| json!({ "part": part, "a": a, "y": 1.0 }).as_object().unwrap().clone();
        // The other is there for itself: two of three are judged.
        let both = list.rows(vec![other("b", "p"), other("other", "p")]);
        assert_eq!(said(&both), Vec::<String>::new());
        // A value that is none is not judged, if the target lets it be.
        let optional = List::parse(
            "pair = 'a'\nsame = ['a']\n[[target]]\nsection = ''\nwhat = 'y'\nvalue = 'y'\nat_most = 1.0\n\
             optional = true\n",
        );
        let none = json!({ "part": "p", "a": "b", "y": null }).as_object().unwrap().clone();
        let reasons: Vec<String> =
            unjudged(&optional, &optional.rows(vec![none])).into_iter().map(|(_, why)| why).collect();
        assert_eq!(reasons, ["1 cell, there is no such value (b)"]);
        // Nor is a ratio to 0, whose parts were measured. A value that was not measured misses its target.
        let row = |a: &str, y: Option<f64>| {
            let row = json!({ "part": "p", "a": a, "y": y });
            row.as_object().unwrap().clone()
        };
        let beside_zero = |y: Option<f64>| list.rows(vec![row("b", y), row("other", Some(0.0))]);
        for y in [104.0, 0.0] {
            let own = beside_zero(Some(y));
            assert!(judge(&list, &own).is_empty());
            assert_eq!(said(&own), ["…: … s 2 cells, there is no ratio to 0 (b; other)"]);
        }
        let own = beside_zero(None);
        let judged = judge(&list, &own);
        let met: Vec<_> = judged.iter().map(|goal| (&*goal.what, goal.is_met())).collect();
        assert_eq!(met, [("b: – s", false)]);
        assert_eq!(said(&own), ["…: … s 1 cell, there is no ratio to 0 (other)"]);
        // A 0 of its own misses it, on either side of the bound.
        for bound in ["at_most", "at_least"] {
            let list = List::parse(&format!(
                "pair = 'a'\nsame = ['a']\n[[target]]\nsection = ''\nwhat = 'y'\nvalue = 'y / z'\n\
                 {bound} = 1.0\n"
            ));
            let row = json!({ "part": "p", "a": "b", "y": 1.0, "z": 0.0 }).as_object().unwrap().clone();
            let rows = list.rows(vec![row]);
            let met: Vec<bool> = judge(&list, &rows).iter().map(Goal::is_met).collect();
            assert_eq!((met, unjudged(&list, &rows).len()), (vec![false], 0));
        }
        let many = |name| gone(name, "no room: 3 MB", json!({ "part": "p" }));
        rows.left_out = ["c", "d", "e", "f"].map(many).to_vec();
        assert_eq!(said(&rows), ["…: … s 4 cells, no room (c; d; e; and 1 more)", alone]);
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
        let same = vec!["case".to_owned(), "server".to_owned()];
        let rows = Rows { all, same, pair: "server".to_owned(), ..Rows::default() };
        let text = "columns = [['case', 'case'], ['* µs', 'us@*', '1']]\nwhere = { server = 'tarn' }";
        let grid = grid(&rows, "a", &toml::from_str(text).unwrap());
        assert_eq!(grid.heads, ["case", "tarn µs", "peer µs"]);
        assert_eq!(grid.rows, [["get", "1.0", "2.0"], ["set", "3.0", "–"]]);
    }
}
