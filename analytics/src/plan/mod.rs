//! Tables in the planner: access paths, estimates, the scan operator, and the rules that use indexes.
//!
//! ```text
//!   KeyTable ─ access path: keys, an index, or all ─ KeyScan ─ batches
//!   rules:     ByIndex (ORDER BY … LIMIT in index order), Extremes (MIN, MAX at the ends of an index)
//! ```
//!
//! It imports `statement`, `rights`, `table` and `error`.

pub(crate) mod access;
pub(crate) mod by_index;
pub(crate) mod estimate;
pub(crate) mod extremes;
pub(crate) mod key_table;
pub(crate) mod scan;
pub(crate) mod scan_stats;
