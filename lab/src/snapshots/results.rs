//! The study's file of results.

use super::cell::{Cell, Figures};
use crate::results;

/// The experiment's name in the lines.
pub(super) const EXPERIMENT: &str = "snapshots";

/// All that was measured.
pub(super) type Results = results::Results<Cell, Figures>;
