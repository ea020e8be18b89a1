//! `tarn lab report vtc`: draws the measurements beside the numbers of the thesis, and says which goals are
//! met.

mod looks;
mod published;
mod sections;

use std::path::Path;

use super::{EXPERIMENT, Results};
use crate::drawing;
use crate::error::Result;

/// Draws the report of a file of results. `quick` chooses the results of `--quick`; by default the newest
/// result decides.
pub fn run(json: &Path, out: &Path, quick: bool) -> Result<()> {
    let results = Results::read_some(json, EXPERIMENT)?;
    let quick = quick || results.lines.last().is_some_and(|newest| newest.cell.quick);
    drawing::write(out, &sections::page(&results, quick))
}

#[cfg(test)]
mod tests;
