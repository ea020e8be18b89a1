//! Shortens the log: tracks superseded records, and replaces files with shorter ones.

pub(super) mod blocks;
#[cfg(test)]
mod closing_tests;
pub(super) mod compaction;
#[cfg(test)]
mod compaction_tests;
pub(super) mod pin;
pub(super) mod scrub;
pub(super) mod validity;
#[cfg(test)]
mod void_tests;
