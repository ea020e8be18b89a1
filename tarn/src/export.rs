//! `tarn export`: writes the data of a server to an RDB file of Redis.

use crate::transfer::{PlaceArgs, ended, rate};
use clap::{ArgAction, Args, builder::BoolishValueParser};
use std::path::PathBuf;
use std::process::ExitCode;
use tarn_server::config::RdbVersion;
use tarn_server::persist::transfer::{self, Exported};

/// Writes the data of a server that does not run to an RDB file, which every Redis since 5, Valkey, KeyDB and
/// Dragonfly load.
///
/// The file gets the data that a start would load: the checkpoint, and the log that continues it. The file
/// gets its name when it is complete and on disk; it replaces a file of that name. Exits with 0 if it is, 1
/// if the data is refused, 2 if the disk failed; then the file that was there before, or none, is there.
#[derive(Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// As for `tarn serve`: with `no` the checkpoint alone is read, not the log.
    #[arg(
        long, value_name = "yes|no", default_value = "yes",
        action = ArgAction::Set, value_parser = BoolishValueParser::new(), hide_possible_values = true
    )]
    appendonly: bool,
    /// Version of the format: Redis 5 and later loads 9, Redis 7.0 and later 10, Redis 7.2 and Valkey 11,
    /// Redis 7.4 and later 12, Valkey 9 and later 80. 9 loses some of what streams know of themselves, 10
    /// less, others least. With functions it is at least 10, with times of fields 12.
    #[arg(long, value_name = "VERSION", default_value = "9", value_parser = rdb_version)]
    rdb_version: RdbVersion,
    /// The file.
    #[arg(value_name = "DUMP.rdb")]
    file: PathBuf,
}

fn rdb_version(text: &str) -> Result<RdbVersion, String> {
    let found = RdbVersion::ALL.iter().copied().find(|version| version.name() == text);
    found.ok_or_else(|| format!("the versions are {}", RdbVersion::NAMES.join(", ")))
}

/// Runs `tarn export`.
pub(crate) fn run(args: ExportArgs) -> ExitCode {
    ended(|report| {
        let (place, version) = (args.place.place(), args.rdb_version.number());
        let exported = transfer::export(&place, args.appendonly, version, &args.file, report)?;
        let Exported { keys, documents, bytes, read, all, warnings } = exported;
        println!("exported {}", rate(keys, all));
        println!(
            "reading the data took {:.2} s, the file has {:.1} MB",
            read.as_secs_f64(),
            bytes as f64 / 1e6
        );
        for warning in warnings {
            println!("WARNING: {warning}");
        }
        if documents > 0 {
            println!(
                "WARNING: {documents} of the keys are JSON documents: a Redis loads the file only with the \
                 module RedisJSON 2.0 or newer"
            );
        }
        Ok(())
    })
}
