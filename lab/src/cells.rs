//! Runs the cells of an experiment: shows progress, leaves out cells that do not fit, and records time
//! series.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};

use crate::error::{IoContext, LabError, Result};
use crate::interrupt;
use crate::process;

/// Memory that is left to all others.
const SPARE_BYTES: u64 = 1 << 30;

/// The parameters of one measurement of an experiment.
pub trait Cell: Display {
    /// Memory that its server needs at most, on the safe side.
    fn need_bytes(&self) -> u64;
}

/// A progress bar over `seconds` seconds that shows the number of cells.
pub fn bar(cells: usize, seconds: u64) -> ProgressBar {
    let bar = ProgressBar::new(seconds);
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %, {eta} left: {msg}");
    bar.set_style(style.expect("the template is well-formed"));
    eprintln!("{cells} cells to measure, about {} min", seconds.div_ceil(60));
    bar
}

/// Measures cells one after the other. One for which memory does not suffice, or whose server ended by itself
/// (`LabError::Ended`), is left out, with a word.
pub fn go_through<C: Cell>(
    cells: &[C],
    seconds: impl Fn(&C) -> f64,
    mut measure: impl FnMut(&C) -> Result<()>,
) -> Result<()> {
    let seconds = |cell: &C| seconds(cell).ceil() as u64;
    let bar = bar(cells.len(), cells.iter().map(seconds).sum());
    for cell in cells {
        interrupt::check()?;
        bar.set_message(cell.to_string());
        let (need, available) = (cell.need_bytes() + SPARE_BYTES, process::available_bytes()?);
        if need > available {
            let (need, available) = (need >> 20, available >> 20);
            bar.suspend(|| {
                eprintln!("left out, as it needs {need} MB of memory and {available} are available: {cell}");
            });
        } else {
            match measure(cell) {
                Err(error @ LabError::Ended { .. }) => {
                    bar.suspend(|| eprintln!("left out, as {error}: {cell}"));
                }
                other => other?,
            }
        }
        bar.inc(seconds(cell));
    }
    bar.finish_and_clear();
    Ok(())
}

/// Appends rows to a table of comma-separated values, which begins with its heads.
pub fn append_series(path: &Path, heads: &str, rows: impl IntoIterator<Item = String>) -> Result<()> {
    let name = || path.display().to_string();
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path).doing(name)?;
    let is_new = file.metadata().doing(name)?.len() == 0;
    let mut file = std::io::BufWriter::new(file);
    let write = || -> std::io::Result<()> {
        if is_new {
            writeln!(file, "{heads}")?;
        }
        for row in rows {
            writeln!(file, "{row}")?;
        }
        file.flush()
    };
    write().doing(name)
}
