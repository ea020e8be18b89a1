//! Making the log shorter: which records are superseded, and files that are replaced by shorter ones.

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
