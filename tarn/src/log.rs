//! `tarn log check` and `tarn log repair`: what a log holds, and how to go on with one whose start is
//! refused.

use clap::{Args, Subcommand};
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tarn_engine::OpenError;
use tarn_engine::io::{Disk, OsDisk};
use tarn_engine::record::Lsn;
use tarn_engine::repair::{self, Damage, FileSurvey, Remedy, Repair, Survey};

/// Looks after a log while no server has it open.
#[derive(Args)]
pub struct LogCli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Reads a log as a start does, changes nothing, and says what is in it.
    ///
    /// Exits with 0 if a start would take the log, 1 if it is damaged, 2 if it could not be read.
    Check {
        /// All directories of the log: below --dir, `log` unless --log-dir names others.
        #[arg(required = true, value_name = "DIR")]
        directories: Vec<PathBuf>,
    },
    /// Cuts a damaged log before the first damage, so that the server starts again.
    ///
    /// What is cut off is kept in folders `damaged-1`, `damaged-2` … in the directories. Exits with 0 if a
    /// start takes the log now, 1 if it is damaged and --truncate was not given, 2 if it could not be
    /// repaired.
    Repair {
        /// Does it; without, only says what would be done.
        #[arg(long)]
        truncate: bool,
        /// All directories of the log: below --dir, `log` unless --log-dir names others.
        #[arg(required = true, value_name = "DIR")]
        directories: Vec<PathBuf>,
    },
}

const DAMAGED: u8 = 1;
const FAILED: u8 = 2;

/// Runs `tarn log`.
pub fn run(cli: LogCli) -> ExitCode {
    let done = match cli.command {
        Command::Check { directories } => check(directories),
        Command::Repair { truncate, directories } => repair(directories, truncate),
    };
    done.unwrap_or_else(|error| {
        eprintln!("tarn: {error}");
        ExitCode::from(FAILED)
    })
}

fn check(directories: Vec<PathBuf>) -> Result<ExitCode, OpenError> {
    let survey = repair::check(&disk(), &directories, threads())?;
    for file in &survey.files {
        say_file(file);
    }
    if say_damage(&survey) {
        let remedy = Remedy(directories);
        println!("to give up everything behind record {}: {remedy}", survey.recovered.last);
        return Ok(ExitCode::from(DAMAGED));
    }
    say_end(&survey);
    Ok(ExitCode::SUCCESS)
}

fn repair(directories: Vec<PathBuf>, truncate: bool) -> Result<ExitCode, OpenError> {
    let repair = Repair::begin(&disk(), &directories, threads())?;
    say_damage(&repair.survey);
    if !repair.is_needed() {
        say_end(&repair.survey);
        println!("nothing to repair");
        return Ok(ExitCode::SUCCESS);
    }
    if !truncate {
        println!("nothing was changed; to cut the log there: {}", Remedy(directories));
        return Ok(ExitCode::from(DAMAGED));
    }
    let last = repair.survey.recovered.last;
    for folder in repair.truncate()? {
        println!("what is cut off is kept in {}", folder.display());
    }
    println!("repaired: the log ends with record {last}, and the server starts again");
    Ok(ExitCode::SUCCESS)
}

fn say_file(file: &FileSurvey) {
    let FileSurvey { path, number, epoch, bytes, blocks, records, .. } = file;
    let lsns = file.lsns.map_or(String::new(), |(first, last)| format!(", Lsn {first} to {last}"));
    println!(
        "{}: epoch {epoch}, number {number}, {}, {}, {}{lsns}",
        path.display(),
        counted(*bytes, "byte"),
        counted(*blocks, "block"),
        counted(*records, "record"),
    );
}

/// Tells why a start refuses the log and what would be kept; `false` if there is no reason.
fn say_damage(survey: &Survey) -> bool {
    for Damage { path, offset, what, .. } in &survey.damage {
        println!("damage in {} at byte {offset}: {what}", path.display());
    }
    if survey.is_under_repair {
        println!("a repair was interrupted");
    }
    if survey.damage.is_empty() && !survey.is_under_repair {
        return false;
    }
    let (recovered, lost) = (&survey.recovered, &survey.lost);
    let blocks = counted(recovered.blocks, "block");
    println!("kept: the records up to Lsn {} in {blocks}", recovered.last);
    println!(
        "cut off: {}, in them {} with {} that can be read",
        counted(lost.bytes, "byte"),
        counted(lost.blocks, "block"),
        counted(lost.records, "record")
    );
    true
}

/// Tells how a log ends that a start takes.
fn say_end(survey: &Survey) {
    let recovered = &survey.recovered;
    match &recovered.cut {
        Some((path, offset)) => println!(
            "torn tail of {} behind Lsn {}, from {} byte {offset} on: harmless, the next start cuts it off",
            counted(recovered.bytes_cut, "byte"),
            recovered.last,
            path.display()
        ),
        None => println!(
            "whole: the records up to Lsn {} in {}, {}",
            recovered.last,
            counted(recovered.blocks, "block"),
            if recovered.closed { "closed in order" } else { "not closed in order" }
        ),
    }
    if recovered.base > Lsn::ZERO {
        println!(
            "it goes on from a checkpoint with all up to Lsn {}: whether its records fit that one is found \
             out by a start, or by `tarn export`, which changes nothing",
            recovered.base
        );
    }
}

fn counted(count: u64, noun: impl Display) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn disk() -> Arc<dyn Disk> {
    Arc::new(OsDisk)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
