//! Holds the measurements against what the study printed: orders and shapes, and why ours differ.
//!
//! ```text
//!   results ─► data (a scale, a seed) ─► orders, shapes, spikes, checkpoints ─► verdicts
//!                                            ▲
//!              published, model, noise, reasons: what ours is held against
//! ```

mod arxiv;
mod checkpoints;
pub(super) mod data;
pub(super) mod model;
mod noise;
pub(super) mod orders;
mod published;
mod reasons;
mod shapes;
mod spikes;

use super::cell::{Cell, Figures};
use super::plan::{Figure, points};
use crate::page::{Paper, Remark, cells};
use crate::report::by_kind;
use data::Study;

/// The part of the section with the cache misses.
const CACHE: &str = "cache";

/// A statement of the study about a figure, and the result of our comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub figure: Figure,
    /// The printed statement.
    pub printed: &'static str,
    /// Where ours differs, with the reason; nothing if it does not.
    pub differences: Vec<String>,
    /// Where ours seems to differ, by no more than the noise.
    pub unclear: Vec<String>,
    /// False if nothing was measured to judge by.
    pub is_judged: bool,
}

/// Adds the verdict on a statement, or one that says that it cannot be judged.
fn add(all: &mut Vec<Verdict>, figure: Figure, printed: &'static str, found: Option<Verdict>) {
    let unjudged = || Verdict { is_judged: false, ..Verdict::new(figure, printed, Vec::new()) };
    all.push(found.unwrap_or_else(unjudged));
}

impl Verdict {
    /// One that is clear.
    pub(crate) fn new(figure: Figure, printed: &'static str, differences: Vec<String>) -> Verdict {
        Verdict { figure, printed, differences, unclear: Vec::new(), is_judged: true }
    }

    /// Both in words.
    pub(crate) fn remark(&self, part: String) -> Remark {
        let (class, ours) = match (self.differences.is_empty(), self.unclear.is_empty()) {
            (true, true) => ("same", "is the same."),
            (true, false) => ("unclear", "is not told apart from it:"),
            (false, _) => ("differs", "differs:"),
        };
        let text = format!("Printed: {}. Ours {ours}", self.printed);
        let claim = self.printed.to_owned();
        Remark {
            part,
            class,
            claim,
            paper: paper(self.figure),
            text,
            lines: self.differences.iter().chain(&self.unclear).cloned().collect(),
        }
    }

    /// The words of one that is not judged.
    fn unjudged(&self, study: &Study<'_>) -> Remark {
        let text = format!("Printed: {}. It cannot be judged here:", self.printed);
        let lines = why_unjudged(study, self.figure);
        Remark { class: "left-out", text, lines, ..self.remark(self.figure.name().to_owned()) }
    }
}

/// Parts that were not measured, the verdict on each printed statement, and how many of them hold.
pub(super) fn remarks(study: &Study<'_>) -> (Vec<Remark>, String) {
    let mut verdicts = orders::judge(study);
    arxiv::judge(study, &mut verdicts);
    let counted = |_: &Cell, figures: &Figures| {
        figures.cache_misses.map_or(f64::NAN, |misses| misses as f64 / figures.updates as f64)
    };
    let misses = orders::misses(study.series(Figure::Trace, counted));
    let mut remarks: Vec<Remark> =
        Figure::ALL.into_iter().filter_map(|figure| left_out(study, figure)).collect();
    let judged = |verdict: &Verdict| match verdict.is_judged {
        true => verdict.remark(verdict.figure.name().to_owned()),
        false => verdict.unjudged(study),
    };
    remarks.extend(verdicts.iter().map(judged));
    remarks.push(match &misses {
        Some(verdict) => verdict.remark(CACHE.to_owned()),
        None => {
            let text = "No cache misses were counted: the order of the study cannot be compared.".to_owned();
            Remark {
                part: CACHE.to_owned(),
                class: "left-out",
                claim: orders::MISSES.to_owned(),
                paper: Paper::Tkde,
                text,
                lines: vec!["no cache misses were counted".to_owned()],
            }
        }
    });
    let count = |of: fn(&Verdict) -> bool| verdicts.iter().chain(&misses).filter(|own| of(own)).count();
    let differ = count(|verdict| !verdict.differences.is_empty());
    let unclear = count(|verdict| verdict.differences.is_empty() && !verdict.unclear.is_empty());
    let of = count(|verdict| verdict.is_judged);
    let summary = format!(
        "Of {of} orders and shapes that the study printed and that could be compared, {} hold here, \
         {differ} do not, and {unclear} differ by no more than the noise of this run; each section says \
         which, and why where that is known. The scale is: {}.",
        of - differ - unclear,
        study.scale.name()
    );
    (remarks, summary)
}

/// The paper that has a figure.
fn paper(figure: Figure) -> Paper {
    match figure {
        Figure::ArxivUpdates | Figure::ArxivDataset | Figure::ArxivFlood => Paper::Arxiv,
        _ => Paper::Tkde,
    }
}

/// The reasons why a statement about a figure has no measurements to be judged by.
fn why_unjudged(study: &Study<'_>, figure: Figure) -> Vec<String> {
    let planned = points(figure, study.scale, study.seed);
    let is_own = |cell: &Cell| planned.iter().any(|point| point.cell == *cell);
    let all = study.results.left_out.iter().filter(|own| own.cell.as_ref().is_some_and(is_own));
    let kinds = by_kind(&all.collect::<Vec<_>>());
    let text = |(kind, words): (String, Vec<String>)| format!("{}, {kind}", cells(words.len()));
    match study.coverage(figure) {
        _ if !kinds.is_empty() => kinds.into_iter().map(text).collect(),
        (0, _) => vec!["not measured".to_owned()],
        (measured, planned) => vec![format!("{measured} of {planned} cells were measured, too few for it")],
    }
}

fn left_out(study: &Study<'_>, figure: Figure) -> Option<Remark> {
    let (measured, planned) = study.coverage(figure);
    let (part, flag) = (figure.name().to_owned(), study.scale.flag());
    let text = format!(
        "{measured} of {planned} cells were measured. The others: tarn lab run snapshots{flag} --only {part}"
    );
    (measured < planned).then(|| Remark {
        part,
        class: "left-out",
        claim: String::new(),
        paper: paper(figure),
        text,
        lines: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
