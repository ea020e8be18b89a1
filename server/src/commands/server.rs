//! Commands about the server: `TIME`, `SHUTDOWN`, `SLOWLOG`.

use std::time::{SystemTime, UNIX_EPOCH};

use tarn_resp::Args;

use crate::commands::help::unknown_container;
use crate::error::CommandError;
use crate::execute::client::After;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::spec::Flags;
use crate::persist::shutdown::How;
use crate::shared::Shared;
use crate::store::Store;

const ANY_TIME: Flags = Flags::LOADING.with(Flags::STALE);
const ADMIN: Flags = ANY_TIME.with(Flags::ADMIN);

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("time", 1, ANY_TIME.with(Flags::FAST), "2.6.0", "Returns the time of the server.", time),
    row(
        "shutdown",
        -1,
        ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_MULTI).with(Flags::ALLOW_BUSY),
        "1.0.0",
        "Writes everything down and stops the server.",
        shutdown,
    ),
    row(
        "slowlog",
        -2,
        Flags::NONE,
        "2.2.12",
        "A container for commands about slow commands.",
        unknown_container,
    )
    .subcommands(&[
        row("get", -2, ADMIN, "2.2.12", "Returns the newest slow commands.", slowlog_get),
        row("help", 2, ANY_TIME, "6.2.0", "Lists the subcommands.", slowlog_help),
        row("len", 2, ADMIN, "2.2.12", "Counts the slow commands that are kept.", slowlog_len),
        row("reset", 2, ADMIN, "2.2.12", "Forgets the slow commands.", slowlog_reset),
    ]),
];

fn time<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    cx.reply.array(2);
    cx.reply.bulk_integer(now.as_secs() as i64);
    cx.reply.bulk_integer(now.subsec_micros().into());
    Ok(())
}

fn shutdown<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (mut save, mut nosave, mut abort, mut force, mut now) = (false, false, false, false, false);
    for word in args.tail(1) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        save |= is("save");
        nosave |= is("nosave");
        abort |= is("abort");
        force |= is("force");
        now |= is("now");
        if !(is("save") || is("nosave") || is("abort") || is("now") || is("force")) {
            return Err(CommandError::Syntax);
        }
    }
    if (save && nosave) || (abort && (save || nosave || force || now)) {
        return Err(CommandError::Syntax);
    }
    let ending = &cx.server.shutdown;
    if let Some(attempt) = cx.client.ending.take() {
        if ending.has_failed(attempt) {
            return Err(CommandError::text("ERR Errors trying to SHUTDOWN. Check logs."));
        }
        cx.client.ending = Some(attempt);
        cx.client.after = After::Postpone;
        return Ok(());
    }
    if abort {
        if !ending.abort(cx.server) {
            return Err(CommandError::text("ERR No shutdown in progress."));
        }
        cx.reply.ok();
        return Ok(());
    }
    if !force {
        refuse_to_lose_log(cx.server)?;
    }
    let saves = save || !nosave && cx.server.saves_by_rule();
    // Until the connection is closed, or the end has come to nothing.
    cx.client.ending =
        Some(ending.begin(cx.server, &cx.server.saver, How { saves, gives_up: nosave, forced: force }));
    cx.client.after = After::Postpone;
    Ok(())
}

/// Refuses to end the server while the log cannot be written.
fn refuse_to_lose_log(server: &Shared) -> Result<(), CommandError> {
    let Some(status) = server.store().and_then(Store::log_status) else { return Ok(()) };
    let Some((_, error)) = &status.failed else { return Ok(()) };
    let lost = status.lag_records();
    Err(CommandError::owned(format!(
        "ERR Errors trying to SHUTDOWN: {error}; {lost} records are not on disk and would be lost: make the \
         disk work again, or give them up with SHUTDOWN FORCE"
    )))
}

fn slowlog_get<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len() > 3 {
        return Err(CommandError::text(
            "ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.",
        ));
    }
    let count = match args.get(2) {
        None => 10,
        Some(count) => {
            let count = crate::execute::parse::integer(count).ok().filter(|count| *count >= -1);
            count.ok_or(CommandError::text("ERR count should be greater than or equal to -1"))?
        }
    };
    super::commandlog::write(cx, &cx.server.slowlog, count);
    Ok(())
}

fn slowlog_len<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    cx.reply.integer(cx.server.slowlog.len() as i64);
    Ok(())
}

fn slowlog_reset<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    cx.server.slowlog.clear();
    cx.reply.ok();
    Ok(())
}

fn slowlog_help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    crate::commands::help::help(cx, "SLOWLOG");
    Ok(())
}
