//! Noise: what differs between two runs of the same cells.

use super::charts::expressions;
use super::claims::{Remark, markdown, statements, targets};
use super::list::{Chart, Kind, List, Section, Where};
use super::rows::{Row, Rows};
use super::tables::words;
use crate::report::{median, short};

/// The share of the cells that the column `90 %` is about.
const MOST: f64 = 0.9;

/// A run: its rows, and what is said of their parts.
pub(crate) type Judged = (Rows, Vec<Remark>);

/// A quantity of a figure: its name, its expression, and the rows that have it.
struct Quantity<'l> {
    figure: String,
    name: String,
    part: &'l str,
    conditions: &'l Where,
    expression: String,
}

/// The values of a cell in both runs.
#[derive(Debug)]
struct Pair {
    name: String,
    first: f64,
    second: f64,
}

impl Pair {
    /// The second value by the first; 1 if both are alike, also where both are 0.
    fn ratio(&self) -> f64 {
        if self.first == self.second { 1.0 } else { self.second / self.first }
    }

    /// The ratio as a factor up or down; infinite where there is none, as from 0 or to the other sign.
    fn factor(&self) -> f64 {
        let ratio = self.ratio();
        if ratio > 0.0 { ratio.max(1.0 / ratio) } else { f64::INFINITY }
    }
}

/// The differences between two runs, as a part of a page in Markdown: of each quantity that a figure shows
/// the ratio of the second value to the first, over all cells; and each verdict that is another one.
pub(crate) fn noise(list: &List, [first, second]: [&Judged; 2]) -> String {
    let mut lines = Vec::new();
    for own in quantities(list, &first.0) {
        let (pairs, alone) = pairs(&own, &first.0, &second.0);
        if !pairs.is_empty() || alone > 0 {
            lines.push([vec![own.figure, own.name], spread(&pairs, alone)].concat());
        }
    }
    let heads = ["figure", "quantity", "cells", "median", "90 % within", "worst", "worst cell"];
    let tables = format!("## {}\n{}", list.title, markdown(&heads, lines));
    let heads = ["statement or target", "first run", "second run"];
    let others = other_verdicts(list, first, second);
    let changed = match others.is_empty() {
        true => "\nEvery verdict is the same in both runs.\n".to_owned(),
        false => markdown(&heads, others),
    };
    tables + &changed
}

/// The quantities of the charts, and the columns of the tables of sections without a chart.
fn quantities<'l>(list: &'l List, rows: &Rows) -> Vec<Quantity<'l>> {
    let mut all: Vec<Quantity<'l>> = Vec::new();
    let mut add = |own: Quantity<'l>| {
        let is_own = |other: &Quantity<'l>| (&other.figure, &other.name) == (&own.figure, &own.name);
        if !all.iter().any(is_own) {
            all.push(own);
        }
    };
    for section in &list.sections {
        for chart in section.charts.iter().filter(|chart| chart.kind != Kind::Stacked) {
            let part = if chart.part.is_empty() { &section.part } else { &chart.part };
            for row in rows.wanted(part, &chart.conditions) {
                let measured = expressions(rows, chart, row).into_iter();
                for (name, expression) in measured.filter(|(_, own)| !list.sources.contains_key(own)) {
                    add(quantity(section, chart, part, name, expression));
                }
            }
        }
        for table in section.tables.iter().filter(|_| section.charts.is_empty()) {
            let part = if table.part.is_empty() { &section.part } else { &table.part };
            let is_figure = |column: &&Vec<String>| {
                column.len() > 1 && !column[1].contains(['{', '*']) && !list.same.contains(&column[1])
            };
            for column in table.columns.iter().filter(is_figure) {
                let (name, expression) = (column[0].clone(), column[1].clone());
                let (figure, conditions) = (section.title.clone(), &table.conditions);
                add(Quantity { figure, name, part, conditions, expression });
            }
        }
    }
    all
}

fn quantity<'l>(
    section: &Section,
    chart: &'l Chart,
    part: &'l str,
    name: String,
    expression: String,
) -> Quantity<'l> {
    let unit = &chart.y_name;
    let name = if name.is_empty() { unit.clone() } else { format!("{name}, {unit}") };
    let figure = format!("{}; {}", section.title, words(&chart.caption));
    Quantity { figure, name, part, conditions: &chart.conditions, expression }
}

/// The values of each cell that both runs have, and the number of cells that only one has.
fn pairs(own: &Quantity<'_>, first: &Rows, second: &Rows) -> (Vec<Pair>, usize) {
    let values = |rows: &Rows| -> Vec<(Vec<String>, String, f64)> {
        let of = |row: &Row| (rows.key(row), rows.name(row), rows.number(row, &own.expression));
        let all = rows.wanted(own.part, own.conditions).into_iter().map(of);
        all.filter(|(_, _, value)| value.is_finite()).collect()
    };
    let (mut pairs, mut alone, mut rest) = (Vec::new(), 0, values(second));
    for (key, name, value) in values(first) {
        match rest.iter().position(|(other, _, _)| *other == key) {
            Some(place) => pairs.push(Pair { name, first: value, second: rest.remove(place).2 }),
            None => alone += 1,
        }
    }
    (pairs, alone + rest.len())
}

/// The number of cells, and how far their values are apart.
fn spread(pairs: &[Pair], alone: usize) -> Vec<String> {
    let count = match alone {
        0 => pairs.len().to_string(),
        alone => format!("{}; {alone} in one run only", pairs.len()),
    };
    let mut factors: Vec<f64> = pairs.iter().map(Pair::factor).collect();
    factors.sort_by(f64::total_cmp);
    let rank = (factors.len() as f64 * MOST).ceil() as usize;
    let Some(most) = factors.get(rank.saturating_sub(1)) else {
        return [vec![count], vec!["–".to_owned(); 4]].concat();
    };
    let worst = pairs.iter().max_by(|a, b| a.factor().total_cmp(&b.factor())).expect("there are some");
    let cell = format!("{} ({}, then {})", worst.name, short(worst.first), short(worst.second));
    vec![count, times(median(pairs.iter().map(Pair::ratio))), times(*most), times(worst.ratio()), cell]
}

fn times(ratio: f64) -> String {
    if ratio.is_finite() { format!("{ratio:.2}x") } else { "∞".to_owned() }
}

/// The statements and targets whose verdicts differ, with both.
fn other_verdicts(list: &List, first: &Judged, second: &Judged) -> Vec<Vec<String>> {
    let verdicts = |(rows, remarks): &Judged| -> Vec<(String, String)> {
        // A statement without the value that was measured, and its verdict.
        let stated =
            statements(list, rows, remarks).into_iter().map(|own| (own[..4].join(", "), own[5].clone()));
        let judged = targets(list, rows).into_iter().map(|own| (own[1].clone(), own[4].clone()));
        stated.chain(judged).collect()
    };
    let mut rest = verdicts(second);
    let mut all = Vec::new();
    for (name, verdict) in verdicts(first) {
        let place = rest.iter().position(|(other, _)| *other == name);
        let other = place.map_or("–".to_owned(), |place| rest.remove(place).1);
        if other != verdict {
            all.push(vec![name, verdict, other]);
        }
    }
    all.extend(rest.into_iter().map(|(name, verdict)| vec![name, "–".to_owned(), verdict]));
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_of_two_runs_are_compared_one_by_one() {
        let list = List::parse(
            "title = 'T'\npair = 'v'\nsame = ['part', 'v', 'n']\n\
             [[section]]\nid = 's'\npart = 'p'\ntitle = 'S'\n\
             [[section.chart]]\ncaption = '{v}: time'\nx = 'n'\ny = 'y'\ny_name = 's'\n\
             [[target]]\nsection = 's'\nwhat = '{v} {n:0}'\nvalue = 'y'\nat_most = 1.5\n",
        );
        let judged = |cells: &[(u32, f64)]| {
            let row = |(n, y): &(u32, f64)| {
                json!({ "part": "p", "v": "a", "n": n, "y": y }).as_object().unwrap().clone()
            };
            (list.rows(cells.iter().map(row).collect()), Vec::new())
        };
        let first: Vec<(u32, f64)> = (1..=11).map(|n| (n, 1.0)).collect();
        let mut second = first.clone();
        // Another order, and two other values; one cell is new and one has gone.
        second.reverse();
        (second[0], second[8].1, second[6].1) = ((12, 1.0), 2.0, 0.25);
        let text = noise(&list, [&judged(&first), &judged(&second)]);
        let cell = "| 10; 2 in one run only | 1.00x | 2.00x | 0.25x | a, n 5 (1, then 0.25) |\n";
        assert!(text.starts_with("## T\n\n") && text.contains(&format!("| S; …: time | s {cell}")), "{text}");
        let verdicts = ["| a 3 | met | **missed** |", "| a 11 | met | – |", "| a 12 | – | met |"];
        assert!(text.ends_with(&(verdicts.join("\n") + "\n")), "{text}");
        let same = noise(&list, [&judged(&first), &judged(&first)]);
        assert!(same.ends_with("\n\nEvery verdict is the same in both runs.\n"), "{same}");
    }

    #[test]
    fn a_ratio_from_nothing_is_endless() {
        let factor = |first, second| Pair { name: String::new(), first, second }.factor();
        assert_eq!([factor(0.0, 0.0), factor(4.0, 1.0), factor(-1.0, -2.0)], [1.0, 4.0, 2.0]);
        assert!([factor(0.0, 1.0), factor(1.0, 0.0), factor(1.0, -1.0)].iter().all(|own| own.is_infinite()));
        assert_eq!([times(f64::INFINITY), times(0.5)], ["∞", "0.50x"]);
    }
}
