//! The head of a report, and the goals of an experiment as a table.

use super::page::{Page, escape, utc};
use crate::report::Goal;
use crate::results::Line;

/// Names and facts about them.
#[derive(Debug, Default)]
pub struct Facts {
    rows: String,
}

impl Facts {
    /// The place, time and subject of some measured lines.
    pub fn of<C, F>(lines: &[&Line<C, F>]) -> Facts {
        let mut facts = Facts::default();
        let distinct = |mut texts: Vec<String>| {
            texts.sort();
            texts.dedup();
            texts.join("; ")
        };
        facts.add("machine", &distinct(lines.iter().map(|line| line.machine_text()).collect()));
        facts.add("commit", &distinct(lines.iter().map(|line| line.commit.clone()).collect()));
        facts.add("seed", &distinct(lines.iter().map(|line| line.seed.to_string()).collect()));
        let times = || lines.iter().map(|line| line.unix_ms).filter(|ms| *ms > 0);
        if let (Some(first), Some(last)) = (times().min(), times().max()) {
            facts.add("measured", &format!("from {} to {}", utc(first), utc(last)));
        }
        facts
    }

    /// Adds one.
    pub fn add(&mut self, name: &str, value: &str) {
        self.rows.push_str(&format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value)));
    }

    /// All as HTML.
    pub fn html(&self) -> String {
        format!("<dl>{}</dl>\n", self.rows)
    }
}

/// Something that a paper says in numbers, and ours beside it.
#[derive(Debug, Clone)]
pub struct Statement {
    /// The figure or table.
    pub figure: &'static str,
    /// The statement of the source.
    pub what: &'static str,
    /// The number, in its words.
    pub printed: &'static str,
    /// The same of ours, in the same form.
    pub measured: String,
    /// Why it may differ.
    pub remark: &'static str,
}

/// A factor in words, such as `1.08x`; `not measured` if it is not a number.
pub fn factor(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}x") } else { "not measured".to_owned() }
}

/// A share more or less in words, such as `+3.5 %`; `not measured` if it is not a number.
pub fn change(share: f64) -> String {
    if share.is_finite() { format!("{:+.1} %", share * 100.0) } else { "not measured".to_owned() }
}

impl Page {
    /// Adds the numbers of a paper, beside ours.
    pub fn statements(&mut self, statements: &[Statement]) {
        let row = |own: &Statement| {
            let texts = [own.figure, own.what, own.printed, &own.measured, own.remark];
            texts.map(str::to_owned).to_vec()
        };
        let rows: Vec<Vec<String>> = statements.iter().map(row).collect();
        let heads = ["figure", "what", "printed", "measured", "why it may differ"].map(str::to_owned);
        self.table("printed-table", &heads, &rows);
    }

    /// Adds a section with goals: the figure, the bound, whether it is met.
    pub fn goals(&mut self, goals: &[Goal]) {
        self.section("goals", "What the design promises");
        let met = goals.iter().filter(|goal| goal.is_met()).count();
        self.paragraph(&format!("{met} of {} are met.", goals.len()));
        let heads = ["goal", "figure", "bound", "met", "ratio to the bound", "note"].map(str::to_owned);
        let rows: Vec<Vec<String>> = goals
            .iter()
            .map(|goal| {
                vec![
                    goal.what.clone(),
                    format!("{:.2}{}", goal.figure, goal.unit),
                    goal.bound.text(goal.unit),
                    if goal.is_met() { "yes" } else { "NO" }.to_owned(),
                    ratio(goal),
                    goal.note.clone(),
                ]
            })
            .collect();
        self.table("goals-table", &heads, &rows);
    }
}

/// A figure as a share of its bound; a dash where the bound is zero.
fn ratio(goal: &Goal) -> String {
    let ratio = goal.figure / goal.bound.value();
    if ratio.is_finite() { format!("{ratio:.2}") } else { "–".to_owned() }
}
