//! Commands that wait until others have what was written: the disk; and replicas, of which there are none.

use std::time::Duration;

use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::blocking::{AwaitedLog, LOG_IS_OFF};
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::Flags;
use crate::store::Kept;

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row(
        "wait",
        3,
        Flags::NOSCRIPT,
        "3.0.0",
        "Waits until so many replicas have the writes of this connection; returns how many have.",
        wait,
    )
    .categories(&["@connection"]),
    row(
        "waitaof",
        4,
        Flags::NOSCRIPT,
        "7.2.0",
        "Waits until the log has the writes of this connection on disk; returns whether it has, and how many \
         replicas have.",
        waitaof,
    )
    .categories(&["@connection"]),
];

fn wait<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let replicas = parse::integer(args.at(1))?;
    let timeout = timeout(args.at(2))?;
    if replicas <= 0 {
        cx.reply.integer(0);
        return Ok(());
    }
    cx.wait_for_replicas(timeout, args);
    Ok(())
}

fn waitaof<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let out_of_range = "ERR value is out of range, must be between 0 and 1";
    let local = parse::integer_or(args.at(1), "ERR value is not an integer or out of range")?;
    if !(0..=1).contains(&local) {
        return Err(CommandError::text(out_of_range));
    }
    let replicas = parse::integer_or(args.at(2), "ERR value is out of range, must be positive")?;
    if replicas < 0 {
        return Err(CommandError::text("ERR value is out of range, must be positive"));
    }
    let timeout = timeout(args.at(3))?;
    if local == 1 && cx.server.kept() == Kept::Off {
        return Err(CommandError::text(LOG_IS_OFF));
    }
    let local = (local == 1).then_some(cx.client.seen);
    cx.wait_for_log(AwaitedLog { local, replicas: replicas > 0 }, timeout, args);
    Ok(())
}

/// A timeout in milliseconds; `None`: for ever.
fn timeout(word: &[u8]) -> Result<Option<Duration>, CommandError> {
    let timeout_ms = parse::integer_or(word, "ERR timeout is not an integer or out of range")?;
    if timeout_ms < 0 {
        return Err(CommandError::text("ERR timeout is negative"));
    }
    Ok((timeout_ms > 0).then(|| Duration::from_millis(timeout_ms as u64)))
}
