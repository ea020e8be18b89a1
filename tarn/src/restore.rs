//! `tarn restore`: makes a data directory from a backup and the increments that follow it.

use crate::transfer::progress_bar;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;
use tarn_engine::backup::{BackupError, Chain, Progress, Restored, Target};
use tarn_engine::io::{OsDisk, SystemClock};

const REFUSED: u8 = 1;
const FAILED: u8 = 2;

/// The interval between two reports of the progress.
const SHOWN_EVERY: Duration = Duration::from_millis(100);

/// Makes a data directory from a backup and its increments, for the next `tarn serve --dir`.
///
/// Every file is checked against the backup's own list, and the restored data is read as a start reads it; a
/// set that is mixed, incomplete or damaged is refused. Exits with 0 if all data is there and on disk, 1 if
/// the backups or the directory are refused, 2 if the disk failed; then no server takes the directory.
#[derive(Args)]
pub(crate) struct RestoreArgs {
    /// The data directory: an empty one, or one that does not exist yet.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The directories of the log, as many as it had; relative ones lie below --dir. Without: `log`, or
    /// `log-0`, `log-1` … if there are several.
    #[arg(long, value_name = "DIR", num_args = 1..)]
    log_dir: Vec<PathBuf>,
    /// A full backup, then its increments in their order.
    #[arg(required = true, value_name = "BACKUP")]
    backups: Vec<PathBuf>,
}

/// Runs `tarn restore`.
pub(crate) fn run(args: RestoreArgs) -> ExitCode {
    match restore(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tarn: {error}");
            let is_disk = matches!(error, BackupError::Disk(_));
            ExitCode::from(if is_disk { FAILED } else { REFUSED })
        }
    }
}

fn restore(args: &RestoreArgs) -> Result<ExitCode, BackupError> {
    let backups: Vec<PathBuf> = args.backups.iter().map(|path| absolute(path)).collect();
    let chain = Chain::open(Arc::new(OsDisk), &backups)?;
    let count = chain.directories();
    let names: Vec<PathBuf> = match (args.log_dir.len(), count) {
        (0, 1) => vec![PathBuf::from("log")],
        (0, _) => (0..count).map(|index| PathBuf::from(format!("log-{index}"))).collect(),
        (given, _) if given == count => args.log_dir.clone(),
        (given, _) => {
            eprintln!("tarn: the log has {count} directories, and --log-dir names {given}");
            return Ok(ExitCode::from(REFUSED));
        }
    };
    let dir = absolute(&args.dir);
    let target = Target {
        log_dirs: names.iter().map(|name| dir.join(name)).collect(),
        checkpoint_dir: dir.join("checkpoints"),
        directory: dir,
    };
    let Restored { end, files, bytes, .. } = with_progress(|progress| {
        let clock = SystemClock::new();
        chain.restore(&target, &clock, progress)
    })?;
    println!("restored up to record {end}: {files} files of the log, {bytes} bytes in all");
    let mut serve = format!("tarn serve --dir {}", args.dir.display());
    if !(args.log_dir.is_empty() && count == 1) {
        serve += " --log-dir";
        names.iter().for_each(|name| serve += &format!(" {}", name.display()));
    }
    println!("to start with it: {serve}");
    Ok(ExitCode::SUCCESS)
}

/// Does the work while it shows the progress on a terminal.
fn with_progress<T>(work: impl FnOnce(&Progress) -> T) -> T {
    let (progress, is_done, bar) = (Progress::default(), AtomicBool::new(false), progress_bar());
    std::thread::scope(|scope| {
        let shown = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let done = progress.bytes.load(Ordering::Relaxed);
                bar.set_length(progress.bytes_total.load(Ordering::Relaxed));
                bar.set_position(done);
                bar.set_message(format!("restoring: {:.0} MB", done as f64 / 1e6));
                std::thread::park_timeout(SHOWN_EVERY);
            }
            bar.finish_and_clear();
        });
        // Dropped in a panic, too: else the scope would wait for ever.
        let _end = End(&is_done, shown.thread());
        work(&progress)
    })
}

/// Ends the showing.
struct End<'e>(&'e AtomicBool, &'e Thread);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.unpark();
    }
}

fn absolute(path: &Path) -> PathBuf {
    // It fails for the empty path alone, which is refused as any that is not there.
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}
