//! Opens a log: examines its directories, reads ahead, checks and merges their blocks; also repair and
//! survey.

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
