//! What stands above a report, and the goals of an experiment as a table.

use super::page::{Page, escape, utc};
use crate::report::Goal;
use crate::results::Line;

/// Names and what is to be said of them.
#[derive(Debug, Default)]
pub struct Facts {
    rows: String,
}

impl Facts {
    /// Where, when and from what some lines were measured.
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

impl Page {
    /// Adds a section with goals: what was measured, the bound, whether it is met.
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
                    format!("{:.2}", goal.figure / goal.bound.value()),
                    goal.note.clone(),
                ]
            })
            .collect();
        self.table("goals-table", &heads, &rows);
    }
}
