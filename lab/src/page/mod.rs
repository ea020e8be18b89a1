//! Reports: a page of HTML in one file, made from a declared list of figures and the measurements.
//!
//! ```text
//!   lab/figures/NAME.toml ─► list ──┐
//!   results.jsonl ─► rows ──────────┴─► charts, tables ─► page: verdict, charts, what folds open
//! ```
//!
//! ECharts, which draws the charts, is a part of the page: it needs no network.

mod charts;
mod claims;
#[cfg(test)]
mod faults;
mod list;
mod noise;
mod rows;
mod tables;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use crate::error::{IoContext, Result};
use crate::report::{Goal, number_cell, short, table};
use charts::draw;
use tables::{Grid, grid, measured};

pub(crate) use claims::{Remark, claims};
#[cfg(test)]
pub(crate) use faults::faults;
pub(crate) use list::List;
pub(crate) use list::Paper;
pub(crate) use noise::{Judged, noise};
pub(crate) use rows::{Row, Rows, merged, row, with};
pub(crate) use tables::{cells, judge};

const ECHARTS: &str = include_str!("../../vendor/echarts.common.min.js");
const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");
/// The meaning of whiskers, below the charts that have some.
const WHISKERS: &str = "The thin line through a point or a bar goes from the least to the greatest of its \
    repeats; the point is their median.";

/// Names and what they stand for: where, when and how it was measured.
pub(crate) type Facts = Vec<(&'static str, String)>;

impl Remark {
    fn html(&self) -> Markup {
        html! {
            p class=(self.class) { (self.text) }
            @if !self.lines.is_empty() { ul { @for line in &self.lines { li { (line) } } } }
        }
    }
}

/// All that a page is made of.
#[derive(Debug)]
pub(crate) struct Page<'p> {
    /// The experiment's name.
    pub experiment: &'p str,
    /// The declared list.
    pub list: &'p List,
    /// The measurements.
    pub rows: &'p Rows,
    /// Where, when and how it was measured.
    pub facts: Facts,
    /// Sentences on parts.
    pub remarks: Vec<Remark>,
    /// Sentences for the verdict.
    pub verdict: String,
}

impl Page<'_> {
    /// The page.
    pub(crate) fn html(&self) -> String {
        let goals = judge(self.list, self.rows);
        let mut all_charts = Vec::new();
        let sections: Vec<Markup> =
            self.list.sections.iter().map(|own| self.section(own, &goals, &mut all_charts)).collect();
        // Inside a script, `<` could end it.
        let data = Value::Array(all_charts).to_string().replace('<', "\\u003c");
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width";
                    title { (self.list.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    h1 { (self.list.title) }
                    p.verdict { (self.sentences(&goals)) }
                    (folded("variants", "What is compared", &html! { p { (self.list.about) } }))
                    @for section in sections { (section) }
                    (folded("targets", "The targets of the design", &html! {
                        (table_of(&goal_grid(self.list, self.rows, &goals), "targets-table"))
                    }))
                    @if !self.list.papers().is_empty() {
                        (folded("printed", "Printed and measured", &html! {
                            p { (self.list.printed_about) }
                            (table_of(&printed_grid(self.list, self.rows), "printed-table"))
                            (table_of(&drawn_grid(self.list), "drawn-table"))
                            @for paper in self.list.papers() { p { (paper) } }
                        }))
                    }
                    (folded("facts", "Where, when and how it was measured", &html! {
                        dl {
                            @for (name, value) in self.facts.iter().map(|(name, value)| (*name, value))
                                .chain(self.list.facts.iter().map(|[name, value]| (&**name, value))) {
                                dt { (name) } dd { (value) }
                            }
                        }
                    }))
                    script type="application/json" id="charts" { (PreEscaped(data)) }
                    script { (PreEscaped(ECHARTS)) }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        page.into_string()
    }

    /// The verdict in a paragraph.
    fn sentences(&self, goals: &[Goal]) -> String {
        let missed: Vec<&Goal> = goals.iter().filter(|goal| !goal.is_met()).collect();
        let mut text = match (goals.len(), missed.len()) {
            (0, _) => String::new(),
            (all, 0) => format!("All {all} targets that were measured are met. "),
            (all, some) => format!("{} of {all} targets are met. ", all - some),
        };
        // The one that is furthest from its bound says most.
        let distance = |goal: &&&Goal| goal.distance();
        if let Some(worst) = missed.iter().max_by(|a, b| distance(a).total_cmp(&distance(b))) {
            let (what, figure, bound) = (&worst.what, worst.text(), worst.bound.text(&worst.unit));
            text += &format!("The largest miss is “{what}”: {figure} where {bound} is the target. ");
        }
        let printed =
            self.list.printed.iter().filter(|own| measured(self.list, self.rows, own) != "not measured");
        if let Some(count) = Some(printed.count()).filter(|count| *count > 0) {
            text += &format!("{count} printed numbers stand beside ours, each with why it may differ. ");
        }
        let gone = &self.rows.left_out;
        match gone.iter().filter(|own| own.failed).count() {
            _ if gone.is_empty() => {}
            0 => text += &format!("Left out: {}, which the facts name. ", cells(gone.len())),
            failed => {
                let all = cells(gone.len());
                text += &format!("Left out: {all}, which the facts name; {failed} of them failed. ");
            }
        }
        text + &self.verdict
    }

    fn section(&self, own: &list::Section, goals: &[Goal], all_charts: &mut Vec<Value>) -> Markup {
        let is_there = !self.rows.wanted(&own.part, &list::Where::default()).is_empty();
        let command = format!("Not measured: tarn lab run {} --only {}", self.experiment, own.part);
        let (mut places, mut grids, mut has_whiskers) = (Vec::new(), Vec::new(), false);
        for drawn in own.charts.iter().flat_map(|chart| draw(self.list, self.rows, own, chart)) {
            places.push((all_charts.len(), drawn.chart["kind"] == "time"));
            all_charts.push(drawn.chart);
            has_whiskers |= drawn.has_whiskers;
            grids.extend(drawn.numbers);
        }
        grids.extend(own.tables.iter().map(|table| grid(self.rows, &own.part, table)));
        grids.retain(|grid| !grid.rows.is_empty());
        let of: Vec<&Goal> = goals.iter().filter(|goal| goal.section == own.id).collect();
        let met = of.iter().filter(|goal| goal.is_met()).count();
        let printed: Vec<_> = self.list.printed.iter().filter(|printed| printed.section == own.id).collect();
        let remarks: Vec<&Remark> = self.remarks.iter().filter(|remark| remark.part == own.part).collect();
        html! {
            h2 id=(own.id) { (own.title) }
            @for remark in remarks.iter().filter(|remark| remark.class == "left-out") { (remark.html()) }
            @if !is_there && remarks.is_empty() {
                p.left-out { (command) }
            }
            @if is_there {
                @if !own.text.is_empty() { p { (own.text) } }
                div.charts {
                    @for (place, is_low) in places {
                        div class=(if is_low { "chart low" } else { "chart" }) data-chart=(place) {}
                    }
                }
                @if has_whiskers { p.note { (WHISKERS) } }
                @for remark in remarks.iter().filter(|remark| remark.class != "left-out") { (remark.html()) }
                @if !printed.is_empty() {
                    ul.printed {
                        @for printed in printed {
                            li {
                                "Figure " (printed.figure) ", " (printed.what)
                                ": printed " b { (printed.printed) }
                                ", measured " b { (measured(self.list, self.rows, printed)) }
                                @if !printed.reason().is_empty() { "; " (printed.reason()) } "."
                            }
                        }
                    }
                }
                @if !of.is_empty() {
                    p { a href="#targets" { "Targets met: " (met) " of " (of.len()) } }
                }
                @if !grids.is_empty() {
                    (folded("", "The numbers", &html! {
                        @for (place, grid) in grids.iter().enumerate() {
                            (table_of(grid, &format!("{}-{place}", own.id)))
                        }
                    }))
                }
            }
        }
    }
}

/// The printed numbers, each with its figure, its words, ours, its source and why it may differ.
pub(crate) fn printed_grid(list: &List, rows: &Rows) -> Grid {
    let row = |own: &list::Printed| {
        let measured = measured(list, rows, own);
        let (source, why) = (own.source.text(), own.reason().to_owned());
        vec![own.figure.clone(), own.what.clone(), own.printed.clone(), measured, source, why]
    };
    let heads = ["figure", "what", "printed", "measured", "source", "why it may differ"].map(str::to_owned);
    Grid { heads: heads.to_vec(), rows: list.printed.iter().map(row).collect() }
}

/// The sources of the published values that are drawn.
fn drawn_grid(list: &List) -> Grid {
    let row = |(what, source): (String, &list::Source)| vec![what, source.text()];
    let heads = ["drawn beside ours", "source"].map(str::to_owned).to_vec();
    Grid { heads, rows: list.drawn().into_iter().map(row).collect() }
}

fn goal_grid(list: &List, rows: &Rows, goals: &[Goal]) -> Grid {
    let row = |goal: &Goal| {
        let met = if goal.is_met() { "yes" } else { "NO" }.to_owned();
        let ratio = short(goal.figure / goal.bound.value());
        vec![goal.what.clone(), goal.text(), goal.bound.text(&goal.unit), met, ratio, goal.note.clone()]
    };
    let unjudged = tables::unjudged(list, rows).into_iter().map(|(target, why)| {
        let (bound, dash) = (target.bound().text(&target.unit), || "–".to_owned());
        vec![target.words(), dash(), bound, tables::UNJUDGED.to_owned(), dash(), why]
    });
    let heads = ["target", "figure", "bound", "met", "ratio to the bound", "note"].map(str::to_owned);
    Grid { heads: heads.to_vec(), rows: goals.iter().map(row).chain(unjudged).collect() }
}

/// Something that is shown when it is asked for.
fn folded(id: &str, title: &str, inner: &Markup) -> Markup {
    html! { details id=[(!id.is_empty()).then_some(id)] { summary { (title) } (inner) } }
}

/// A table. Cells that begin with a letter are aligned left.
fn table_of(grid: &Grid, id: &str) -> Markup {
    html! {
        div.wide {
            table id=(id) {
                thead { tr { @for head in &grid.heads { th { (head) } } } }
                tbody {
                    @for row in &grid.rows {
                        tr {
                            @for cell in row {
                                td class=[cell.starts_with(char::is_alphabetic).then_some("text")] { (cell) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Prints the tables that a list has for the end of a run.
pub(crate) fn print(list: &List, rows: &Rows) {
    for grid in list.summary.iter().map(|own| grid(rows, "", own)).filter(|grid| !grid.rows.is_empty()) {
        let mut printed = table(&grid.heads.iter().map(String::as_str).collect::<Vec<_>>());
        for row in grid.rows {
            printed.add_row(row.into_iter().map(|text| match text.starts_with(char::is_alphabetic) {
                true => text.into(),
                false => number_cell(text),
            }));
        }
        show!("{printed}");
    }
}

/// Writes a page to a file, and prints its path.
pub(crate) fn write(out: &Path, page: &str) -> Result<()> {
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent).at(parent)?;
    }
    write_whole(out, page.as_bytes())?;
    show!("{}", out.display());
    Ok(())
}

/// Writes a file that is there whole or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let unfinished = path.with_added_extension("unfinished");
    let mut file = File::create(&unfinished).at(&unfinished)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    let written = written.and_then(|()| fs::rename(&unfinished, path)).at(path);
    if written.is_err() {
        // It takes room that is short.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// A moment as people write it, such as `2026-01-31 08:05 UTC`.
pub(crate) fn utc(unix_ms: u64) -> String {
    let moment = chrono::DateTime::from_timestamp_millis(unix_ms as i64);
    moment.map(|moment| moment.format("%Y-%m-%d %H:%M UTC").to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_page_that_cannot_be_written_leaves_the_last_one_whole() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("machine.html");
        write(&page, "<p>one</p>").unwrap();
        // The place of the new one is taken.
        fs::create_dir(dir.path().join("machine.html.unfinished")).unwrap();
        assert!(write(&page, "<p>two</p>").is_err());
        assert_eq!(fs::read_to_string(&page).unwrap(), "<p>one</p>");
    }
}
