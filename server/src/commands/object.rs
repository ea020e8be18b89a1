//! `OBJECT`: how a value is kept, and how its key is used. The encodings are those that Redis would have.

use tarn_engine::Entry;
use tarn_engine::value::ValueRef;
use tarn_engine::value::usage::Use;
use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::command::{Command, Run, row};
use crate::execute::context::Context;
use crate::execute::spec::{Flags, KeySpec};

const KEY: &[KeySpec] = &[KeySpec::range(2, 0, 1, &["RO"])];

/// The rows of this family.
pub(super) const COMMANDS: &[Command] =
    &[row("object", -2, Flags::NONE, "2.2.3", "Tells how values are kept.", super::help::unknown_container)
        .complexity("depends on the subcommand")
        .subcommands(&[
            of_key("encoding", "2.2.3", "Returns the name of the encoding that a value has.", encoding),
            of_key("freq", "4.0.0", "Returns how often a key is used, on a logarithmic scale.", freq),
            of_key("idletime", "2.2.3", "Returns for how many seconds a key was not used.", idletime),
            of_key("refcount", "2.2.3", "Returns the number of references to a value.", refcount),
            row("help", 2, Flags::LOADING.with(Flags::STALE), "6.2.0", "Lists the subcommands.", help),
        ])];

const fn of_key(name: &'static str, since: &'static str, summary: &'static str, run: Run) -> Command {
    row(name, 3, Flags::READONLY.with(Flags::NO_TOUCH), since, summary, run).keys(KEY)
}

/// Integers below this are one shared object in Redis.
const SHARED_INTEGERS: i64 = 10_000;
/// The number of references that Redis shows for a shared object.
const SHARED_REFERENCES: i64 = i32::MAX as i64;

fn help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    super::help::help(cx, "OBJECT");
    Ok(())
}

/// Hands the entry of the key to `show`; replies null if there is none.
fn with_entry(
    cx: &mut Context<'_, '_>,
    args: Args<'_>,
    show: impl FnOnce(&mut Context<'_, '_>, &Entry) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    match cx.entry(args.at(2)) {
        Some(entry) => show(cx, entry),
        None => {
            cx.reply.null();
            Ok(())
        }
    }
}

fn encoding<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    with_entry(cx, args, |cx, entry| {
        cx.reply.bulk(entry.encoding().as_bytes());
        Ok(())
    })
}

fn freq<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    const NOT_TRACKED: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
        Please note that when switching between policies at runtime \
        LRU and LFU data will take some time to adjust.";
    with_entry(cx, args, |cx, entry| {
        if !cx.server.config.snapshot().memory.maxmemory_policy.is_lfu() {
            return Err(CommandError::text(NOT_TRACKED));
        }
        // A key that has no room for a note counts as one that is used often.
        cx.reply.integer(entry.used().map_or(u8::MAX, Use::frequency).into());
        Ok(())
    })
}

fn idletime<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    const NOT_TRACKED: &str = "ERR An LFU maxmemory policy is selected, idle time not tracked. \
        Please note that when switching between policies at runtime \
        LRU and LFU data will take some time to adjust.";
    with_entry(cx, args, |cx, entry| {
        if cx.server.config.snapshot().memory.maxmemory_policy.is_lfu() {
            return Err(CommandError::text(NOT_TRACKED));
        }
        cx.reply.integer(entry.used().map_or(0, Use::idle_s) as i64);
        Ok(())
    })
}

fn refcount<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    with_entry(cx, args, |cx, entry| {
        let is_shared = match entry.value() {
            ValueRef::String(value) if entry.encoding() == "int" => {
                let number = value.whole().and_then(|text| crate::execute::parse::integer(text).ok());
                number.is_some_and(|number| (0..SHARED_INTEGERS).contains(&number))
            }
            _ => false,
        };
        cx.reply.integer(if is_shared { SHARED_REFERENCES } else { 1 });
        Ok(())
    })
}
