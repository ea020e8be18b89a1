//! `tarn import`: makes an RDB file of Redis the data of a server.

use crate::transfer::{PlaceArgs, ended, rate};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use tarn_server::persist::transfer::{self, Imported};

/// Reads an RDB file of Redis, Valkey or KeyDB into the data directory of a server that does not run.
///
/// The whole file is read and checked; then it becomes a checkpoint, which the next `tarn serve` loads. The
/// directory must have neither a checkpoint nor a log. Expired keys are left out, as Redis leaves them out
/// when it loads a file. Exits with 0 if the data is there, 1 if the file or the directory is refused, 2 if
/// the disk failed; then the directory is as it was before.
#[derive(Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Leave out values of modules, which Tarn cannot hold, and report their number. Without it, the first
    /// one ends the import.
    #[arg(long)]
    skip_unsupported: bool,
    /// The file.
    #[arg(value_name = "DUMP.rdb")]
    file: PathBuf,
}

/// Runs `tarn import`.
pub(crate) fn run(args: ImportArgs) -> ExitCode {
    ended(|report| {
        let imported = transfer::import(&args.place.place(), &args.file, args.skip_unsupported, report)?;
        say(&imported);
        Ok(())
    })
}

fn say(imported: &Imported) {
    let Imported { keys, expired, libraries, skipped, checkpoint_bytes, read, all } = imported;
    println!("imported {}", rate(*keys, *all));
    println!(
        "reading the file took {:.2} s, the checkpoint has {:.1} MB",
        read.as_secs_f64(),
        *checkpoint_bytes as f64 / 1e6
    );
    if *libraries > 0 {
        println!("imported {libraries} libraries of functions");
    }
    let left_out = [
        (*expired, "keys that had expired"),
        (skipped.empty, "empty collections"),
        (skipped.modules, "values of modules"),
        (skipped.module_fields, "pieces of data of modules"),
        (skipped.functions, "libraries of functions in an early form"),
    ];
    for (count, what) in left_out.into_iter().filter(|(count, _)| *count > 0) {
        println!("left out: {count} {what}");
    }
}
