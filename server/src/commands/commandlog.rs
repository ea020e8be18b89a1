//! `COMMANDLOG`, of Valkey 8.1: the slow log, and those of large requests and large replies.

use tarn_resp::Args;

use crate::commands::help::unknown_container;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::services::Services;
use crate::execute::spec::Flags;
use crate::observe::slowlog::SlowLog;

const ANY_TIME: Flags = Flags::LOADING.with(Flags::STALE);
const ADMIN: Flags = ANY_TIME.with(Flags::ADMIN);

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[row(
    "commandlog",
    -2,
    Flags::NONE,
    "8.1.0",
    "A container for commands about slow and large commands.",
    unknown_container,
)
.subcommands(&[
    row("get", 4, ADMIN, "8.1.0", "Returns the newest entries of slow, large-request or large-reply.", get),
    row("help", 2, ANY_TIME, "8.1.0", "Lists the subcommands.", help),
    row("len", 3, ADMIN, "8.1.0", "Counts the entries of slow, large-request or large-reply.", len),
    row("reset", 3, ADMIN, "8.1.0", "Forgets the entries of slow, large-request or large-reply.", reset),
])];

/// The log of a type.
fn log_of<'s>(server: &'s Services, word: &[u8]) -> Result<&'s SlowLog, CommandError> {
    let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    if is("slow") {
        Ok(&server.slowlog)
    } else if is("large-request") {
        Ok(&server.large_requests)
    } else if is("large-reply") {
        Ok(&server.large_replies)
    } else {
        Err(CommandError::text("ERR type should be one of the following: slow, large-request, large-reply"))
    }
}

/// Replies so many of the newest entries, all for a negative number.
pub(super) fn write(cx: &mut Context<'_, '_>, log: &SlowLog, count: i64) {
    let entries = log.newest(usize::try_from(count).unwrap_or(usize::MAX));
    cx.reply.array(entries.len());
    for entry in entries {
        cx.reply.array(6);
        cx.reply.integer(entry.id as i64);
        cx.reply.integer(entry.unix_s as i64);
        cx.reply.integer(entry.amount as i64);
        cx.reply.array(entry.args.len());
        entry.args.iter().for_each(|arg| cx.reply.bulk(arg));
        cx.reply.bulk(entry.addr.to_string().as_bytes());
        cx.reply.bulk(entry.name.as_bytes());
    }
}

fn get<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let count = parse::integer(args.at(2)).ok().filter(|count| *count >= -1);
    let count = count.ok_or(CommandError::text("ERR count should be greater than or equal to -1"))?;
    let log = log_of(cx.server, args.at(3))?;
    write(cx, log, count);
    Ok(())
}

fn len<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let len = log_of(cx.server, args.at(2))?.len();
    cx.reply.integer(len as i64);
    Ok(())
}

fn reset<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    log_of(cx.server, args.at(2))?.clear();
    cx.reply.ok();
    Ok(())
}

fn help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    crate::commands::help::help(cx, "COMMANDLOG");
    Ok(())
}
