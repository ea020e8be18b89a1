//! `tarn backup`: makes a running server back up its log, and waits for it.

use crate::remote::{RemoteArgs, Trouble, ask};
use crate::transfer::progress_bar;
use clap::Args;
use indicatif::ProgressBar;
use std::collections::HashMap;
use std::process::ExitCode;
use std::time::Duration;
use tarn_resp::client::{Client, text};

/// The time that the server may take for a reply.
const PATIENCE: Duration = Duration::from_secs(30);
/// The interval between two questions about the progress.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Makes a running server write a consistent copy of its log, of the checkpoint under it and of the tables
/// and indexes that have been declared, into a directory.
///
/// The server writes it, on its own machine: a relative DIR is below its data directory, and one outside of
/// that must be below a directory that the server's backup-dir names. On one file system the files share
/// their bytes with the log's and take no space until the log gives its own up; such a copy does not outlive
/// the disk.
///
/// Prints the newest record that it has: the LSN for --since of the next increment. Exits with 0 if the
/// backup is complete and on disk, 1 if the server refused or failed, 2 if there was no server or it went
/// away.
#[derive(Args)]
pub(crate) struct BackupArgs {
    /// Back up only the records after this one, with which an earlier backup ended.
    #[arg(long, value_name = "LSN", default_value_t = 0)]
    since: u64,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Directory to write to, on the machine of the server: an empty one, or one that does not exist yet.
    #[arg(value_name = "DIR")]
    directory: String,
}

/// Runs `tarn backup`.
pub(crate) fn run(args: BackupArgs) -> ExitCode {
    let bar = progress_bar();
    let done = back_up(&args, &bar);
    bar.finish_and_clear();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => trouble.tell(),
    }
}

fn back_up(args: &BackupArgs, bar: &ProgressBar) -> Result<(), Trouble> {
    let mut client = args.remote.connect(PATIENCE)?;
    let since = args.since.to_string();
    let mut command = vec!["BACKUP", &args.directory];
    if args.since > 0 {
        command.extend(["SINCE", &since]);
    }
    // A user that may not ask for the progress begins none.
    info(&mut client)?;
    let directory = {
        ask(&mut client, &command)?;
        let begun = info(&mut client)?;
        let names = ["current_backup_dir", "last_backup_dir"];
        names.iter().find_map(|name| begun.get(*name).cloned()).unwrap_or_default()
    };
    loop {
        let info = info(&mut client)?;
        let number = |name: &str| info.get(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        if info.get("current_backup_dir") != Some(&directory) {
            return conclude(&info, &directory);
        }
        let (done, all) = (number("current_backup_bytes"), number("current_backup_bytes_total"));
        bar.set_length(all);
        bar.set_position(done);
        bar.set_message(format!("backing up: {:.0} of {:.0} MB", done as f64 / 1e6, all as f64 / 1e6));
        std::thread::sleep(ASK_EVERY);
    }
}

/// Prints the server's report on the last backup.
fn conclude(info: &HashMap<String, String>, directory: &str) -> Result<(), Trouble> {
    let field = |name: &str| info.get(name).map_or("", String::as_str);
    if field("last_backup_dir") != directory {
        return Err(Trouble::Away(format!(
            "another backup has ended since, in {}: whether this one was made, {directory} tells",
            field("last_backup_dir")
        )));
    }
    if field("last_backup_status") != "ok" {
        return Err(Trouble::Refused(field("last_backup_error").to_owned()));
    }
    let (lsn, files) = (field("last_backup_lsn"), field("last_backup_files"));
    let (here, linked) = (field("last_backup_files_here"), field("last_backup_files_linked"));
    let (bytes, msec) = (field("last_backup_bytes"), field("last_backup_msec"));
    println!("backed up in {directory}, up to record {lsn}");
    println!("{here} of {files} files, {linked} of them shared with the log, {bytes} bytes, in {msec} ms");
    match lsn {
        // It would be a full one by the server's rules, too.
        "0" => println!("it is empty: let the next one be a full one, without --since"),
        _ => println!("what comes after it: --since {lsn}"),
    }
    Ok(())
}

/// The fields of `INFO persistence`.
fn info(client: &mut Client) -> Result<HashMap<String, String>, Trouble> {
    let said = text(&ask(client, &["INFO", "persistence"])?)?;
    let fields = said.lines().filter_map(|line| line.split_once(':'));
    Ok(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}
