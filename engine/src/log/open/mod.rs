//! Opening a log: its directories are looked at, read ahead, checked and merged; repair, and a survey.

pub(super) mod ahead;
pub(super) mod covered;
#[cfg(test)]
mod directory_tests;
pub(super) mod identity;
pub(super) mod put_away;
pub(super) mod reader;
pub(super) mod source;
pub(super) mod stream;
pub(super) mod survey;
pub(super) mod truncation;
