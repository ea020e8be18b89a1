//! List commands that wait when there is nothing to take.

use tarn_engine::record::{Change, Kind, Side};
use tarn_resp::Args;

use super::lists::write_end;
use super::lists_moving::{MOVE_KEYS, MULTI_POP, Move, pop_from_first, side};
use super::multi_pop::MultiPop;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

const WAIT: Flags = Flags::WRITE.with(Flags::BLOCKING);
const WAIT_NOSCRIPT: Flags = WAIT.with(Flags::NOSCRIPT);
const POP: &[KeySpec] = &[KeySpec::range(1, -2, 1, &["RW", "access", "delete"])];

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("blpop", -3, WAIT_NOSCRIPT, "2.0.0", "Takes the first element of a list, or waits for one.", blpop)
        .keys(POP)
        .complexity("O(N), N being the number of keys"),
    row("brpop", -3, WAIT_NOSCRIPT, "2.0.0", "Takes the last element of a list, or waits for one.", brpop)
        .keys(POP)
        .complexity("O(N), N being the number of keys"),
    row(
        "blmove",
        6,
        WAIT_NOSCRIPT.with(Flags::DENYOOM),
        "6.2.0",
        "As LMOVE, or waits for an element.",
        blmove,
    )
    .keys(MOVE_KEYS),
    row(
        "brpoplpush",
        4,
        WAIT_NOSCRIPT.with(Flags::DENYOOM),
        "2.2.0",
        "As RPOPLPUSH, or waits for an element.",
        brpoplpush,
    )
    .keys(MOVE_KEYS),
    row("blmpop", -5, WAIT.with(Flags::MOVABLEKEYS), "7.0.0", "As LMPOP, or waits for an element.", blmpop)
        .keys(&[KeySpec::counted(2, &["RW", "access", "delete"])])
        .complexity(MULTI_POP),
];

fn blpop<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    pop_one(cx, args, Side::Front)
}

fn brpop<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    pop_one(cx, args, Side::Back)
}

fn pop_one<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>, side: Side) -> Result<(), CommandError> {
    let timeout = parse::timeout(args.at(args.len() - 1), cx.now())?;
    let keys = 1..args.len() - 1;
    for key in keys.clone().map(|index| args.at(index)) {
        if let Some(list) = cx.awaited_list(key)? {
            cx.reply.array(2);
            cx.reply.bulk(key);
            write_end(cx, list, side);
            cx.write(key, Change::ListPop { side, count: 1 });
            return Ok(());
        }
    }
    cx.wait_for(Kind::List, keys, timeout, args);
    Ok(())
}

fn blmove<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    move_or_wait(cx, args, &Move::parse(args)?)
}

fn brpoplpush<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    move_or_wait(cx, args, &Move::back_to_front(args))
}

fn move_or_wait<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>, wanted: &Move<'a>) -> Result<(), CommandError> {
    let timeout = parse::timeout(args.at(args.len() - 1), cx.now())?;
    let found = cx.awaited_list(wanted.source)?;
    if wanted.run(cx, found)? {
        return Ok(());
    }
    if cx.client.denies_waiting {
        // Redis answers another null here than when the time is over.
        cx.reply.null();
    } else {
        cx.wait_for(Kind::List, 1..2, timeout, args);
    }
    Ok(())
}

fn blmpop<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let wanted = MultiPop::parse(args, 2, side)?;
    let timeout = parse::timeout(args.at(1), cx.now())?;
    if !pop_from_first(cx, &wanted, Context::awaited_list)? {
        cx.wait_for(Kind::List, wanted.places, timeout, args);
    }
    Ok(())
}
