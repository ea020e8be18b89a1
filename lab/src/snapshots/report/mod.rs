//! `tarn lab report`: draws the measurements as the study drew its own, beside the printed numbers.
//!
//! ```text
//!   results.jsonl ─► data (a scale, a seed) ─► charts, tables, orders ─► draw ─► page: one file of HTML
//!                                                        ▲
//!              published, model, noise: what ours is held against
//! ```
//!
//! Unmeasured parts are left out, and the page says so.

mod checkpoints;
pub(super) mod data;
mod draw;
mod head;
mod looks;
mod model;
mod noise;
mod orders;
mod published;
mod reasons;
mod spikes;
mod tables;
mod verdict;

use std::path::PathBuf;

use super::plan::Scale;
use super::results::{EXPERIMENT, Results};
use super::study::nothing_measured;
use crate::error::{IoContext, LabError, Result};
use data::Study;
pub(super) use tables::is_full;

/// The options of the report.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file of results.
    pub json: PathBuf,
    /// The file to write.
    pub out: PathBuf,
    /// Show the results of `--quick`; by default the scale of the newest result.
    pub quick: bool,
    /// Show the results of `--full`.
    pub full: bool,
}

/// The scales that flags let through.
pub(super) fn scales(quick: bool, full: bool) -> &'static [Scale] {
    match (quick, full) {
        (true, _) => &[Scale::Quick],
        (_, true) => &[Scale::Full],
        _ => &[Scale::Default, Scale::Full, Scale::Quick],
    }
}

/// Draws the report.
pub fn run(options: &Options) -> Result<()> {
    let results = Results::read(&options.json, EXPERIMENT)?;
    if results.lines.is_empty() {
        return Err(nothing_measured(&options.json));
    }
    let wanted = scales(options.quick, options.full);
    let Some(study) = Study::newest(&results, wanted) else {
        let names: Vec<_> = wanted.iter().map(|scale| scale.name()).collect();
        return Err(LabError::Arguments(format!(
            "{} has no measurements at this scale: {}",
            options.json.display(),
            names.join("; ")
        )));
    };
    if let Some(parent) = options.out.parent() {
        std::fs::create_dir_all(parent).doing(|| parent.display().to_string())?;
    }
    std::fs::write(&options.out, draw::report(&study)).doing(|| options.out.display().to_string())?;
    println!("{}", options.out.display());
    Ok(())
}

#[cfg(test)]
mod tests;
