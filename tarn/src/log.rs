//! `tarn log check`, `dump` and `repair`: the content of a log, and the repair of one whose start is refused.

use clap::{Args, Subcommand};
use std::ffi::OsStr;
use std::fmt::{self, Display, Write as _};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tarn_engine::io::{Disk, OnOneLine, OsDisk};
use tarn_engine::record::{Change, Lsn, Side, Write};
use tarn_engine::repair::{self, Damage, FileSurvey, Places, Remedy, Repair, Survey};
use tarn_engine::{Log, OpenError};

/// Checks, prints and repairs a log while no server has it open.
#[derive(Args)]
pub(crate) struct LogCli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Reads a log as a start does, changes nothing, and prints a summary of it.
    ///
    /// Exits with 0 if a start would take the log, 1 if it is damaged, 2 if it could not be read.
    Check {
        #[command(flatten)]
        checkpoints: CheckpointsAt,
        /// All directories of the log: below --dir, `log` unless --log-dir names others.
        #[arg(required = true, value_name = "DIR")]
        directories: Vec<PathBuf>,
    },
    /// Prints the records of a log, a line each, and changes nothing.
    ///
    /// A line has the Lsn, the database, the change, the key, and then the parts of the change. `+` marks the
    /// records of a group after its first. Exits as `check` does.
    Dump {
        /// Cuts longer keys and values to this number of bytes, and shows their length.
        #[arg(long, value_name = "BYTES", default_value_t = 64)]
        width: usize,
        /// All directories of the log: below --dir, `log` unless --log-dir names others.
        #[arg(required = true, value_name = "DIR")]
        directories: Vec<PathBuf>,
    },
    /// Cuts a damaged log before the first damage, so that the server starts again.
    ///
    /// Moves the cut parts to folders `damaged-1`, `damaged-2` … in the directories. Exits with 0 if a start
    /// takes the log now, 1 if it is damaged and --truncate was not given, 2 if it could not be repaired.
    Repair {
        /// Repair the log; without it, only print what would be done.
        #[arg(long)]
        truncate: bool,
        #[command(flatten)]
        checkpoints: CheckpointsAt,
        /// All directories of the log: below --dir, `log` unless --log-dir names others.
        #[arg(required = true, value_name = "DIR")]
        directories: Vec<PathBuf>,
    },
}

/// The directory of the checkpoints.
#[derive(Args)]
struct CheckpointsAt {
    /// Directory of the checkpoints that a start builds on; without, `checkpoints` beside those of the log.
    ///
    /// Damage to records that the checkpoint has as well stops no start, and a repair cuts nothing there.
    #[arg(long = "checkpoints", value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl CheckpointsAt {
    fn beside<'p>(&'p self, log: &'p [PathBuf]) -> Places<'p> {
        Places { log, checkpoints: self.directory.as_deref() }
    }

    /// The repair that would help, of a log in these directories.
    fn remedy(&self, log: Vec<PathBuf>) -> Remedy {
        let remedy = Remedy::new(log);
        match &self.directory {
            Some(directory) => remedy.with_checkpoints(directory),
            None => remedy,
        }
    }
}

const DAMAGED: u8 = 1;
const FAILED: u8 = 2;

/// Runs `tarn log`.
pub(crate) fn run(cli: LogCli) -> ExitCode {
    let (Command::Check { directories, .. }
    | Command::Dump { directories, .. }
    | Command::Repair { directories, .. }) = &cli.command;
    let cut_off = directories.iter().find(|directory| is_cut_off(directory)).cloned();
    let done = match cli.command {
        Command::Repair { .. } if cut_off.is_some() => Ok(ExitCode::from(FAILED)),
        Command::Check { checkpoints, directories } => check(&checkpoints, directories, cut_off.is_none()),
        Command::Dump { width, directories } => dump(&directories, width),
        Command::Repair { truncate, checkpoints, directories } => repair(&checkpoints, directories, truncate),
    };
    let code = done.unwrap_or_else(|mut error| {
        if let (OpenError::Damaged(damage), Some(_)) = (&mut error, &cut_off) {
            damage.remedy = None;
        }
        eprintln!("tarn: {error}");
        ExitCode::from(FAILED)
    });
    if let Some(folder) = cut_off {
        eprintln!(
            "tarn: {} is no log: a repair has kept there what it has cut off from one, as it was. Who puts \
             the files back in their places before the next start undoes the repair; see \
             docs/format/log.md",
            folder.display()
        );
    }
    code
}

/// True for a folder in which a repair keeps the parts that it cuts off.
fn is_cut_off(directory: &Path) -> bool {
    let whole = directory.canonicalize();
    let name = whole.as_deref().ok().and_then(Path::file_name).and_then(OsStr::to_str).unwrap_or_default();
    let number = name.strip_prefix("damaged-");
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

fn check(
    checkpoints: &CheckpointsAt,
    directories: Vec<PathBuf>,
    is_log: bool,
) -> Result<ExitCode, OpenError> {
    let survey = repair::check(&disk(), checkpoints.beside(&directories), threads())?;
    for file in &survey.files {
        say_file(file);
    }
    say_covered(&survey);
    if say_damage(&survey) {
        if is_log {
            let remedy = checkpoints.remedy(directories);
            println!("to give up everything behind record {}: {remedy}", survey.recovered.last);
        }
        return Ok(ExitCode::from(DAMAGED));
    }
    println!("{}", end_of(&survey));
    Ok(ExitCode::SUCCESS)
}

fn dump(directories: &[PathBuf], width: usize) -> Result<ExitCode, OpenError> {
    let mut reader = Log::examine(disk(), directories, false)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    while let Some(block) = reader.next_block()? {
        for record in block.records() {
            let record = record.map_err(|error| block.not_understood(error))?;
            let follows = if record.group == 0 { "+" } else { "" };
            let line = writeln!(out, "{} {follows}{}", record.lsn, Shown { write: &record.write, width });
            if line.is_err() {
                // The reader of the lines has seen enough.
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
    if out.flush().is_err() {
        return Ok(ExitCode::SUCCESS);
    }
    drop(out);
    let survey = reader.survey()?;
    if say_damage(&survey) {
        return Ok(ExitCode::from(DAMAGED));
    }
    if survey.recovered.cut.is_some() {
        eprintln!("{}", end_of(&survey));
    }
    Ok(ExitCode::SUCCESS)
}

/// A record as `dump` shows it.
struct Shown<'w> {
    write: &'w Write<'w>,
    width: usize,
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (db, key, change) = match self.write {
            Write::Flush { db: Some(db) } => return write!(f, "db{db} flush"),
            Write::Flush { db: None } => return write!(f, "flush all"),
            Write::Swap { a, b } => return write!(f, "swap db{a} db{b}"),
            Write::Key { db, key, change } => (db, key, change),
        };
        let text = |bytes: &[u8]| {
            let shown = bytes[..bytes.len().min(self.width)].escape_ascii();
            let rest = bytes.len() > self.width;
            if rest { format!("\"{shown}\"... ({} bytes)", bytes.len()) } else { format!("\"{shown}\"") }
        };
        let expires = |expiry: &Option<u64>| expiry.map_or(String::new(), |at| format!(" expires {at}"));
        let end = |side: &Side| if *side == Side::Front { "front" } else { "back" };
        let (name, rest) = match change {
            Change::Put { value, expiry } => ("put", format!(" {}{}", text(value), expires(expiry))),
            Change::Patch { offset, bytes } => ("patch", format!(" at {offset} {}", text(bytes))),
            Change::Delete => ("delete", String::new()),
            Change::Expire(None) => ("persist", String::new()),
            Change::Expire(expiry) => ("expire", expires(expiry)),
            Change::HashPut { field, value } => ("hash-put", format!(" {} {}", text(field), text(value))),
            Change::HashRemove { field } => ("hash-remove", format!(" {}", text(field))),
            Change::HashExpire { field, at: None } => ("hash-persist", format!(" {}", text(field))),
            Change::HashExpire { field, at } => ("hash-expire", format!(" {}{}", text(field), expires(at))),
            Change::StreamPut { name, value } => ("stream-put", format!(" {} {}", text(name), text(value))),
            Change::StreamRemove { name } => ("stream-remove", format!(" {}", text(name))),
            Change::StreamTrim { below } => ("stream-trim", format!(" below {below}")),
            Change::StreamGroupRemove { group } => ("stream-group-remove", format!(" {}", text(group))),
            Change::SetAdd { member } => ("set-add", format!(" {}", text(member))),
            Change::SetRemove { member } => ("set-remove", format!(" {}", text(member))),
            Change::ZSetPut { member, score } => ("zset-put", format!(" {} score {score}", text(member))),
            Change::ZSetRemove { member } => ("zset-remove", format!(" {}", text(member))),
            Change::ListPush { side, element } => ("list-push", format!(" {} {}", end(side), text(element))),
            Change::ListPop { side, count } => ("list-pop", format!(" {} {count}", end(side))),
            Change::ListPut { index, element } => ("list-put", format!(" at {index} {}", text(element))),
            Change::ListInsert { index, element } => {
                ("list-insert", format!(" at {index} {}", text(element)))
            }
            Change::ListRemove { index } => ("list-remove", format!(" at {index}")),
            Change::Image { kind, elements, expiry, .. } => {
                let bytes = counted(elements.len() as u64, "byte");
                ("image", format!(" {} of {bytes}{}", kind.name(), expires(expiry)))
            }
            Change::PreparedPart { begun: Lsn::ZERO, kind, .. } => {
                ("prepared-begin", format!(" {}", kind.name()))
            }
            Change::PreparedPart { begun, bytes, .. } if bytes.is_empty() => {
                ("prepared-end", format!(" given up, begun {begun}"))
            }
            Change::PreparedPart { kind, begun, bytes } => {
                let bytes = counted(bytes.len() as u64, "byte");
                ("prepared-part", format!(" {} begun {begun} of {bytes}", kind.name()))
            }
            Change::Prepared { kind, begun, parts, expiry, .. } => {
                let parts = counted(*parts, "part");
                ("prepared", format!(" {} begun {begun} of {parts}{}", kind.name(), expires(expiry)))
            }
            Change::RenewalBegins { kind, length } => {
                ("renewal-begin", format!(" {} of length {length}", kind.name()))
            }
            Change::RenewalPart { kind, at, bytes } => {
                let bytes = counted(bytes.len() as u64, "byte");
                ("renewal-part", format!(" {} at {at} of {bytes}", kind.name()))
            }
            Change::RenewalEnds { kind, begun } => ("renewal-end", format!(" {} begun {begun}", kind.name())),
        };
        write!(f, "db{db} {name} {}{rest}", text(key))
    }
}

fn repair(
    checkpoints: &CheckpointsAt,
    directories: Vec<PathBuf>,
    truncate: bool,
) -> Result<ExitCode, OpenError> {
    let repair = Repair::begin(&disk(), checkpoints.beside(&directories), threads())?;
    say_covered(&repair.survey);
    say_damage(&repair.survey);
    if !repair.is_needed() {
        println!("{}", end_of(&repair.survey));
        println!("nothing to repair");
        return Ok(ExitCode::SUCCESS);
    }
    if !truncate {
        println!("nothing was changed; to cut the log there: {}", checkpoints.remedy(directories));
        return Ok(ExitCode::from(DAMAGED));
    }
    let last = repair.survey.recovered.last;
    for folder in repair.truncate()? {
        println!("what is cut off is kept in {}", OnOneLine(&folder));
    }
    println!("repaired: the log ends with record {last}, and the server starts again");
    Ok(ExitCode::SUCCESS)
}

fn say_file(file: &FileSurvey) {
    let FileSurvey { path, number, epoch, bytes, blocks, records, .. } = file;
    let lsns = file.lsns.map_or(String::new(), |(first, last)| format!(", Lsn {first} to {last}"));
    let compacted = file.compacted.map_or(String::new(), |lsn| format!(", compacted at Lsn {lsn}"));
    println!(
        "{}: epoch {epoch}, number {number}, {}, {}, {}{lsns}{compacted}",
        OnOneLine(path),
        counted(*bytes, "byte"),
        counted(*blocks, "block"),
        counted(*records, "record"),
    );
}

/// Prints damage that stops no start.
fn say_covered(survey: &Survey) {
    for Damage { path, offset, what, .. } in &survey.recovered.covered {
        println!("harmless damage in {} at byte {offset}: {what}", OnOneLine(path));
    }
}

/// Prints why a start refuses the log and which part would be kept; `false` if there is no reason.
fn say_damage(survey: &Survey) -> bool {
    for Damage { path, offset, what, .. } in &survey.damage {
        println!("damage in {} at byte {offset}: {what}", OnOneLine(path));
    }
    if survey.is_under_repair {
        println!("a repair was interrupted");
    }
    if survey.damage.is_empty() && !survey.is_under_repair {
        return false;
    }
    let (recovered, lost) = (&survey.recovered, &survey.lost);
    let blocks = counted(recovered.blocks, "block");
    let records = counted(survey.files.iter().map(|file| file.records).sum(), "record");
    println!("kept: the records up to Lsn {} in {blocks}, {records}", recovered.last);
    if survey.lacks_older {
        println!(
            "this log was compacted by what is cut off: keys whose last change is cut off may be lacking \
             altogether, or have older values than they had at Lsn {}",
            recovered.last
        );
    }
    println!(
        "cut off: {}, in them {} with {} that can be read",
        counted(lost.bytes, "byte"),
        counted(lost.blocks, "block"),
        counted(lost.records, "record")
    );
    true
}

/// The words for the end of a log that a start takes.
fn end_of(survey: &Survey) -> String {
    let recovered = &survey.recovered;
    let mut end = match recovered.place_of_cut() {
        Some(place) => format!(
            "torn tail of {} behind Lsn {}{}, {place}: {}, the next start cuts it off",
            counted(recovered.bytes_cut, "byte"),
            recovered.last,
            recovered.blocks_cut_in_words(),
            if recovered.blocks_cut > 0 { "a block before them is missing" } else { "harmless" }
        ),
        None => format!(
            "whole: the records up to Lsn {} in {}, {}",
            recovered.last,
            counted(recovered.blocks, "block"),
            if recovered.closed { "closed in order" } else { "not closed in order" }
        ),
    };
    if recovered.base > Lsn::ZERO {
        let _ = write!(
            end,
            "\nit goes on from a checkpoint with all up to Lsn {}: whether its records fit that one is found \
             out by a start, or by `tarn export`, which changes nothing",
            recovered.base
        );
    }
    end
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
