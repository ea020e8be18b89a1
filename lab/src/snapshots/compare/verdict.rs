//! A verdict: a statement of the study about a figure, and whether our measurements agree with it.

use super::super::plan::Figure;
use crate::page::Remark;

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
}

impl Verdict {
    /// One that is clear.
    pub(crate) fn new(figure: Figure, printed: &'static str, differences: Vec<String>) -> Verdict {
        Verdict { figure, printed, differences, unclear: Vec::new() }
    }

    /// Both in words.
    pub(crate) fn remark(&self, part: String) -> Remark {
        let (class, ours) = match (self.differences.is_empty(), self.unclear.is_empty()) {
            (true, true) => ("same", "is the same."),
            (true, false) => ("unclear", "is not told apart from it:"),
            (false, _) => ("differs", "differs:"),
        };
        let text = format!("Printed: {}. Ours {ours}", self.printed);
        Remark { part, class, text, lines: self.differences.iter().chain(&self.unclear).cloned().collect() }
    }
}
