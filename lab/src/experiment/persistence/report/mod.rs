//! `tarn lab report persistence`: draws what was measured, beside what the study printed, and says which
//! goals are met.

mod looks;
mod published;
mod sections;

use std::path::Path;

use super::{EXPERIMENT, Results};
use crate::drawing;
use crate::error::{LabError, Result};

/// Draws the report of a file of results. `quick` chooses what was measured with `--quick`; by default the
/// newest result decides.
pub fn run(json: &Path, out: &Path, quick: bool) -> Result<()> {
    let results = Results::read(json, EXPERIMENT)?;
    let Some(newest) = results.lines.last() else {
        return Err(LabError::Arguments(format!(
            "{} has no measurements of models; make some with: tarn lab run persistence --json {}",
            json.display(),
            json.display()
        )));
    };
    drawing::write(out, &sections::page(&results, quick || newest.cell.quick))
}

#[cfg(test)]
mod tests;
