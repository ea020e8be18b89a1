//! Commands about replicas, of which there are none yet.

use crate::command::{Command, Flags, row};
use crate::context::Context;
use crate::error::CommandError;
use crate::parse;
use std::time::Duration;
use tarn_resp::request::Args;

/// The rows of this family.
pub const COMMANDS: &[Command] = &[row(
    "wait",
    3,
    Flags::NOSCRIPT,
    "3.0.0",
    "Waits until so many replicas have the writes of this connection; returns how many have.",
    wait,
)
.categories(&["@connection"])];

fn wait<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let replicas = parse::integer(args.at(1))?;
    let timeout_ms = parse::integer_or(args.at(2), "ERR timeout is not an integer or out of range")?;
    if timeout_ms < 0 {
        return Err(CommandError::text("ERR timeout is negative"));
    }
    if replicas <= 0 {
        cx.reply.integer(0);
        return Ok(());
    }
    let timeout = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms as u64));
    cx.wait_for_replicas(timeout, args);
    Ok(())
}
