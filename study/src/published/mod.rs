//! Hourglass and Piggyback as the comparative study printed them (its algorithms 2 and 3), to measure the
//! improved forms against.
//!
//! - They keep the paper's arrays: bits and 2-bit tags. A write makes every store that the paper's makes.
//! - Where the paper's form breaks the contract of a snapshot they depart from it; each file says where.

mod hourglass;
mod piggyback;

pub use hourglass::PublishedHourglass;
#[cfg(test)]
pub(crate) use hourglass::mutants as hourglass_mutants;
pub use piggyback::PublishedPiggyback;
#[cfg(test)]
pub(crate) use piggyback::mutants as piggyback_mutants;
