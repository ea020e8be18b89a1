//! `BACKUP`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tarn_engine::record::Lsn;
use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse::integer;
use crate::execute::spec::Flags;
use crate::persist::backup_place::Places;

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[row(
    "backup",
    -2,
    Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_ASYNC_LOADING).with(Flags::READS_ALL),
    "1.0.0",
    "Starts a backup of the log into a directory, or of what came after an earlier one, and returns at once.",
    backup,
)];

/// Such a name would spoil the lines of `INFO`.
const CONTROL: CommandError =
    CommandError::text("ERR BACKUP takes a directory without control characters in its name");

/// Subcommands of the command `BACKUP` of Redis 8.10, which is another one. A script that means those would
/// otherwise make backups of such names.
const SUBCOMMANDS: [&[u8]; 7] = [b"abort", b"cleanup", b"help", b"list", b"seal", b"start", b"status"];

fn backup<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let since = match args.len() {
        2 => Lsn::ZERO,
        4 if args[2].eq_ignore_ascii_case(b"since") => {
            Lsn(u64::try_from(integer(&args[3])?).map_err(|_| CommandError::NotAnInteger)?)
        }
        _ => return Err(CommandError::Syntax),
    };
    if args[1].iter().any(u8::is_ascii_control) {
        return Err(CONTROL);
    }
    if SUBCOMMANDS.iter().any(|name| args[1].eq_ignore_ascii_case(name)) {
        return Err(CommandError::owned(format!(
            "ERR BACKUP {} is a command of Redis; here BACKUP takes a directory (of that name: ./{0})",
            String::from_utf8_lossy(&args[1])
        )));
    }
    let given = Path::new(OsStr::from_bytes(&args[1]));
    let places = Places::of(&cx.server.config.snapshot());
    let path = places.named(given).map_err(|error| CommandError::owned(format!("ERR {error}")))?;
    let begun = cx.server.backups.clone().start(cx.server, places, path, since);
    begun.map_err(|error| CommandError::owned(format!("ERR {error}")))?;
    cx.reply.simple("Background backup started");
    Ok(())
}
