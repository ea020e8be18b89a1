//! `MULTI` and what belongs to it. Queueing and running is done in `exec`.

use std::sync::atomic::Ordering;

use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::spec::{Flags, KeySpec};
use crate::execute::transaction::Transaction;

const ANY_TIME: Flags = Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE);
const QUICK: Flags = ANY_TIME.with(Flags::FAST).with(Flags::ALLOW_BUSY);
const AT_ONCE: Flags = QUICK.with(Flags::AT_ONCE);

const fn of_transactions(command: Command) -> Command {
    command.categories(&["@transaction"])
}

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    of_transactions(row("discard", 1, AT_ONCE, "2.0.0", "Forgets the transaction.", discard))
        .complexity("O(N), N being the number of queued commands"),
    of_transactions(row(
        "exec",
        1,
        ANY_TIME.with(Flags::SKIP_SLOWLOG).with(Flags::AT_ONCE).with(Flags::EXEC),
        "1.2.0",
        "Runs the commands of the transaction as one.",
        exec,
    ))
    .complexity("Depends on the commands"),
    of_transactions(row("multi", 1, AT_ONCE, "1.2.0", "Begins a transaction.", multi)),
    of_transactions(row("unwatch", 1, QUICK, "2.2.0", "Forgets the watched keys.", unwatch)),
    of_transactions(row(
        "watch",
        -2,
        AT_ONCE,
        "2.2.0",
        "Lets the next transaction happen only if these keys are not changed until then.",
        watch,
    ))
    .keys(&[KeySpec::all(1, &["RO"])])
    .complexity("O(1) for each key"),
];

fn multi<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    if cx.client.transaction.is_some() {
        return Err(CommandError::text("ERR MULTI calls can not be nested"));
    }
    cx.client.transaction = Some(Box::new(Transaction::default()));
    cx.client.handle.queued.store(0, Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}

/// Never called: dispatch runs the queue in its stead.
fn exec<'a>(_: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    Err(CommandError::text("ERR EXEC without MULTI"))
}

fn discard<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    if cx.client.transaction.is_none() {
        return Err(CommandError::text("ERR DISCARD without MULTI"));
    }
    cx.client.discard();
    cx.reply.ok();
    Ok(())
}

fn watch<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if cx.client.transaction.is_some() {
        return Err(CommandError::text("ERR WATCH inside MULTI is not allowed"));
    }
    if cx.server.store().is_none() {
        // The data is being loaded, so that every key may change at any moment.
        cx.client.watching.lost = true;
    } else {
        for key in args.tail(1) {
            cx.client.watching.add(cx.keys, cx.db, key);
        }
        if cx.client.note_queued_bytes() > cx.server.live.query_buffer_limit_bytes() {
            cx.client.close_for("the keys that it watches are longer than client-query-buffer-limit");
            return Ok(());
        }
    }
    cx.reply.ok();
    Ok(())
}

fn unwatch<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    cx.client.unwatch();
    cx.reply.ok();
    Ok(())
}
