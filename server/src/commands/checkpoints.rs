//! `SAVE`, `BGSAVE`, `LASTSAVE` and `BGREWRITEAOF`.

use tarn_engine::compactor::Scope;
use tarn_resp::Args;

use crate::config::LogCompaction;
use crate::error::CommandError;
use crate::execute::client::After;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::spec::Flags;
use crate::persist::saver::Urgency;

const ADMIN: Flags = Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_ASYNC_LOADING);

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row(
        "bgrewriteaof",
        1,
        ADMIN,
        "1.0.0",
        "Starts to compact the whole log and returns at once.",
        bgrewriteaof,
    ),
    row("bgsave", -1, ADMIN, "1.0.0", "Starts a checkpoint and returns at once.", bgsave),
    row(
        "lastsave",
        1,
        Flags::LOADING.with(Flags::STALE).with(Flags::FAST),
        "1.0.0",
        "Returns when the last checkpoint was taken; the start, if there was none before.",
        lastsave,
    )
    .categories(&["@admin", "@dangerous"]),
    row(
        "save",
        1,
        ADMIN.with(Flags::NO_MULTI),
        "1.0.0",
        "Takes a checkpoint and returns when it is on disk.",
        save,
    )
    .complexity("O(N) where N is the number of keys; other clients do not wait"),
];

const NO_LOG: CommandError = CommandError::text("ERR There is no log: the server runs with 'appendonly no'");
const BUSY: CommandError = CommandError::text("ERR Background save already in progress");

fn bgrewriteaof<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let store = cx.server.store().filter(|store| store.log.load().is_some()).ok_or(NO_LOG)?;
    match cx.server.config.snapshot().log_compaction {
        LogCompaction::Rewrite => cx.server.saver.rewrite_log(),
        LogCompaction::Vtc | LogCompaction::None => store.engine.compactor().ask(Scope::All),
    }
    cx.reply.simple("Background append only file rewriting started");
    Ok(())
}

fn bgsave<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    match args.get(1) {
        None => {
            cx.server.saver.start(Urgency::Background).map_err(|_| BUSY)?;
            cx.reply.simple("Background saving started");
        }
        Some(word) if args.len() == 2 && word.eq_ignore_ascii_case(b"schedule") => {
            let waits = cx.server.saver.schedule();
            cx.reply.simple(if waits { "Background saving scheduled" } else { "Background saving started" });
        }
        Some(_) => return Err(CommandError::Syntax),
    }
    Ok(())
}

fn save<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let ticket = match cx.client.save.take() {
        Some(ticket) => ticket,
        None => cx.server.saver.start(Urgency::Awaited).map_err(|_| BUSY)?,
    };
    match cx.server.saver.outcome(ticket) {
        Some(Ok(())) => cx.reply.ok(),
        Some(Err(why)) => return Err(CommandError::owned(format!("ERR {why}"))),
        None => {
            cx.client.save = Some(ticket);
            cx.client.after = After::Postpone;
        }
    }
    Ok(())
}

fn lastsave<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    cx.reply.integer(cx.server.saver.status().last_save_unix_s as i64);
    Ok(())
}
