//! Copy-on-Update, Hourglass and Piggyback as the comparative study printed them (its section 3.1.2 and its
//! algorithms 2 and 3), to measure the improved forms against.
//!
//! - They keep the paper's arrays: bits, 2-bit tags and locks of rows. A write makes every store that the
//!   paper's makes.
//! - Where the paper's form breaks the contract of a snapshot they depart from it; each file says where.

mod copy_on_update;
mod hourglass;
mod piggyback;

pub use copy_on_update::PublishedCopyOnUpdate;
#[cfg(test)]
pub(crate) use copy_on_update::mutants as copy_on_update_mutants;
pub use hourglass::PublishedHourglass;
#[cfg(test)]
pub(crate) use hourglass::mutants as hourglass_mutants;
pub use piggyback::PublishedPiggyback;
#[cfg(test)]
pub(crate) use piggyback::mutants as piggyback_mutants;
