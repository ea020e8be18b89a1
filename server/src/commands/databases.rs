//! Whole databases: emptied, exchanged. These commands have the store for themselves.

use tarn_engine::record::Write;
use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::Flags;

const fn alone(
    name: &'static str,
    arity: i32,
    flags: Flags,
    since: &'static str,
    summary: &'static str,
    run: crate::execute::command::Run,
) -> Command {
    row(name, arity, flags.with(Flags::EXCLUSIVE), since, summary, run)
        .categories(&["@keyspace", "@dangerous"])
}

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    alone("flushdb", -1, Flags::WRITE, "1.0.0", "Deletes all keys of the selected database.", flushdb)
        .complexity("O(1); the memory is freed in the background"),
    alone("flushall", -1, Flags::WRITE, "1.0.0", "Deletes all keys of all databases.", flushall)
        .complexity("O(1); the memory is freed in the background"),
    alone("swapdb", 3, Flags::WRITE.with(Flags::FAST), "4.0.0", "Lets two databases change places.", swapdb)
        .complexity("O(N) for N clients that wait for keys in either"),
];

/// Both ways to flush are the same here: nobody waits for the memory.
fn check_flush_option(args: Args<'_>) -> Result<(), CommandError> {
    match args.get(1) {
        None => Ok(()),
        Some(way)
            if args.len() == 2
                && [&b"async"[..], b"sync"].iter().any(|known| way.eq_ignore_ascii_case(known)) =>
        {
            Ok(())
        }
        Some(_) => Err(CommandError::Syntax),
    }
}

fn flushdb<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    check_flush_option(args)?;
    cx.batch.push(Write::Flush { db: Some(cx.db) });
    cx.reply.ok();
    Ok(())
}

fn flushall<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    check_flush_option(args)?;
    cx.batch.push(Write::Flush { db: None });
    cx.reply.ok();
    Ok(())
}

fn swapdb<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let read = |text, error| parse::int(text).map_err(|_| CommandError::text(error));
    let a = read(args.at(1), "ERR invalid first DB index")?;
    let b = read(args.at(2), "ERR invalid second DB index")?;
    let databases = cx.keys.databases();
    let check = |number| u8::try_from(number).ok().filter(|number| usize::from(*number) < databases);
    let (Some(a), Some(b)) = (check(a), check(b)) else { return Err(CommandError::DbOutOfRange) };
    if a != b {
        cx.batch.push(Write::Swap { a, b });
    }
    cx.reply.ok();
    Ok(())
}
