//! `HOTKEYS`, of Redis 8.6: the keys on which most time and most bytes are spent.

use std::time::Duration;

use tarn_resp::Args;

use crate::commands::help::unknown_container;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::Flags;
use crate::observe::hotkeys::{Metric, Told, Wanted};

const ADMIN: Flags = Flags::ADMIN.with(Flags::NOSCRIPT);
/// Keys that are told of, if nothing is said, and at most.
const COUNT: usize = 10;
const COUNT_MAX: i64 = 64;
/// Seconds that it may take.
const DURATION_MAX_S: i64 = 1_000_000;
/// Slots of keys: without a cluster all of them are looked at.
const LAST_SLOT: i64 = 16383;

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[row(
    "hotkeys",
    -2,
    Flags::NONE,
    "8.6.0",
    "A container for commands about hot keys.",
    unknown_container,
)
.subcommands(&[
    row("get", 2, ADMIN, "8.6.0", "Returns the keys on which most was spent.", get),
    row("help", 2, Flags::LOADING.with(Flags::STALE), "8.6.0", "Lists the subcommands.", help),
    row("reset", 2, ADMIN, "8.6.0", "Forgets what was counted.", reset),
    row("start", -2, ADMIN, "8.6.0", "Begins to count what is spent on keys.", start),
    row("stop", 2, ADMIN, "8.6.0", "Ends the counting; the counts stay.", stop),
])];

fn start<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let wanted = wanted(args)?;
    if !cx.server.hot_keys.start(wanted, cx.server.clock.unix_ms()) {
        return Err(CommandError::text("ERR hotkey tracking session already in progress"));
    }
    cx.reply.ok();
    Ok(())
}

fn wanted(args: Args<'_>) -> Result<Wanted, CommandError> {
    let mut wanted = Wanted { metrics: [false; 2], count: COUNT, duration: None, sample: 1 };
    let is =
        |at: usize, word: &str| args.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let number = |at: usize, min: i64, max: i64, error: &'static str| -> Result<i64, CommandError> {
        let number = args.get(at).and_then(|arg| parse::integer(arg).ok());
        number.filter(|number| (min..=max).contains(number)).ok_or(CommandError::text(error))
    };
    if !is(2, "metrics") {
        return Err(CommandError::text("ERR METRICS parameter is required"));
    }
    let metrics = number(3, 1, 2, "ERR METRICS count must be 1 or 2")? as usize;
    let mut at = 4;
    for _ in 0..metrics {
        let metric = if is(at, "cpu") {
            Metric::Time
        } else if is(at, "net") {
            Metric::Bytes
        } else {
            return Err(CommandError::text("ERR METRICS takes CPU and NET, as many as its count says"));
        };
        if std::mem::replace(&mut wanted.metrics[metric as usize], true) {
            return Err(CommandError::text("ERR a metric is given twice"));
        }
        at += 1;
    }
    while at < args.len() {
        if is(at, "count") {
            wanted.count = number(at + 1, 1, COUNT_MAX, "ERR COUNT must be between 1 and 64")? as usize;
        } else if is(at, "duration") {
            let error = "ERR DURATION must be between 0 and 1000000";
            let seconds = number(at + 1, 0, DURATION_MAX_S, error)? as u64;
            wanted.duration = (seconds > 0).then(|| Duration::from_secs(seconds));
        } else if is(at, "sample") {
            let error = "ERR SAMPLE ratio must be between 1 and 2147483647";
            wanted.sample = number(at + 1, 1, i32::MAX.into(), error)? as u64;
        } else if is(at, "slots") {
            return Err(CommandError::text("ERR SLOTS parameter cannot be used in non-cluster mode"));
        } else {
            return Err(CommandError::Syntax);
        }
        at += 2;
    }
    Ok(wanted)
}

fn stop<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    if cx.server.hot_keys.stop() {
        cx.reply.ok();
    } else {
        cx.reply.null();
    }
    Ok(())
}

fn reset<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    if !cx.server.hot_keys.reset() {
        return Err(CommandError::text("ERR hotkey tracking session in progress, stop tracking first"));
    }
    cx.reply.ok();
    Ok(())
}

fn get<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let Some(told) = cx.server.hot_keys.told() else {
        cx.reply.null();
        return Ok(());
    };
    let Told { wanted, is_active, began_unix_ms, took, all, cpu_ms, keys } = told;
    let [by_time, by_bytes] = wanted.metrics;
    let reply = &mut cx.reply;
    reply.array(1);
    reply.map(7 + 3 * usize::from(by_time) + 2 * usize::from(by_bytes));
    let mut field = |name: &str, value: i64| {
        reply.bulk(name.as_bytes());
        reply.integer(value);
    };
    field("tracking-active", is_active.into());
    field("sample-ratio", wanted.sample as i64);
    field("all-commands-all-slots-us", all[0] as i64);
    field("net-bytes-all-commands-all-slots", all[1] as i64);
    field("collection-start-time-unix-ms", began_unix_ms as i64);
    field("collection-duration-ms", took.as_millis() as i64);
    if by_time {
        field("total-cpu-time-user-ms", cpu_ms[0] as i64);
        field("total-cpu-time-sys-ms", cpu_ms[1] as i64);
    }
    if by_bytes {
        field("total-net-bytes", all[1] as i64);
    }
    reply.bulk(b"selected-slots");
    reply.array(1);
    reply.array(2);
    reply.integer(0);
    reply.integer(LAST_SLOT);
    let names = [("by-cpu-time-us", by_time), ("by-net-bytes", by_bytes)];
    for ((name, _), keys) in names.iter().zip(&keys).filter(|((_, is_wanted), _)| *is_wanted) {
        reply.bulk(name.as_bytes());
        reply.array(2 * keys.len());
        for (key, count) in keys {
            reply.bulk(key);
            reply.integer(*count as i64);
        }
    }
    Ok(())
}

fn help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    crate::commands::help::help(cx, "HOTKEYS");
    Ok(())
}
