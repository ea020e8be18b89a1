//! Sorted-set commands that take the lowest or highest members out, and wait for some if there are none.

use std::ops::Range;

use tarn_engine::record::{Change, Kind};
use tarn_engine::value::ZSetRef;
use tarn_resp::Args;
use tarn_resp::Protocol;

use super::lists_moving::MULTI_POP;
use super::multi_pop::MultiPop;
use super::zset_ranges::remove_range;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

const FAST_WRITE: Flags = Flags::WRITE.with(Flags::FAST);
const WAIT: Flags = FAST_WRITE.with(Flags::BLOCKING).with(Flags::NOSCRIPT);
const MULTI: Flags = Flags::WRITE.with(Flags::MOVABLEKEYS);

const POP: &[KeySpec] = &[KeySpec::one(&["RW", "access", "delete"])];
const POP_FIRST: &[KeySpec] = &[KeySpec::range(1, -2, 1, &["RW", "access", "delete"])];

const LOG: &str = "O(log(N)), N being the number of members in the sorted set";
const POP_SOME: &str = "O(M*log(N)), N being the number of members and M the number of those taken";

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("zpopmin", -2, FAST_WRITE, "5.0.0", "Takes the members with the lowest scores.", zpopmin)
        .keys(POP)
        .complexity(POP_SOME),
    row("zpopmax", -2, FAST_WRITE, "5.0.0", "Takes the members with the highest scores.", zpopmax)
        .keys(POP)
        .complexity(POP_SOME),
    row("zmpop", -4, MULTI, "7.0.0", "Takes members of the first sorted set that has any.", zmpop)
        .keys(&[KeySpec::counted(1, &["RW", "access", "delete"])])
        .complexity(MULTI_POP),
    row("bzpopmin", -3, WAIT, "5.0.0", "Takes the member with the lowest score, or waits for one.", bzpopmin)
        .keys(POP_FIRST)
        .complexity(LOG),
    row(
        "bzpopmax",
        -3,
        WAIT,
        "5.0.0",
        "Takes the member with the highest score, or waits for one.",
        bzpopmax,
    )
    .keys(POP_FIRST)
    .complexity(LOG),
    row("bzmpop", -5, MULTI.with(Flags::BLOCKING), "7.0.0", "As ZMPOP, or waits for a member.", bzmpop)
        .keys(&[KeySpec::counted(2, &["RW", "access", "delete"])])
        .complexity(MULTI_POP),
];

/// An end of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Lowest,
    Highest,
}

impl End {
    fn parse(arg: &[u8]) -> Option<End> {
        if arg.eq_ignore_ascii_case(b"min") {
            Some(End::Lowest)
        } else if arg.eq_ignore_ascii_case(b"max") {
            Some(End::Highest)
        } else {
            None
        }
    }

    /// The indices of up to `count` members at this end.
    fn indices(self, zset: ZSetRef<'_>, count: u64) -> Range<usize> {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(zset.len());
        match self {
            End::Lowest => 0..count,
            End::Highest => zset.len() - count..zset.len(),
        }
    }
}

/// Takes up to `count` members out and writes them as an array, each as a pair or in turn with its score.
fn pop_many<'a>(
    cx: &mut Context<'_, 'a>,
    key: &'a [u8],
    zset: ZSetRef<'_>,
    end: End,
    count: u64,
    nested: bool,
) {
    let range = end.indices(zset, count);
    cx.reply.array(if nested { range.len() } else { 2 * range.len() });
    let mut write = |(member, score): (&[u8], f64)| {
        if nested {
            cx.reply.array(2);
        }
        cx.reply.bulk(member);
        cx.reply.double(score);
    };
    match end {
        End::Lowest => zset.iter_from(0).take(range.len()).for_each(&mut write),
        End::Highest => zset.rev_iter_from(zset.len() - 1).take(range.len()).for_each(&mut write),
    }
    remove_range(cx, key, zset, range);
}

fn zpopmin<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    pop(cx, args, End::Lowest)
}

fn zpopmax<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    pop(cx, args, End::Highest)
}

fn pop<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>, end: End) -> Result<(), CommandError> {
    if args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let count = args.get(2).map(parse::count).transpose()?;
    let key = args.at(1);
    match cx.zset(key)? {
        None => cx.reply.array(0),
        Some(zset) => {
            let nested = count.is_some() && cx.reply.protocol() == Protocol::Resp3;
            pop_many(cx, key, zset, end, count.unwrap_or(1), nested);
        }
    }
    Ok(())
}

fn zmpop<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let wanted = MultiPop::parse(args, 1, End::parse)?;
    if !pop_from_first(cx, &wanted, Context::zset)? {
        cx.reply.null_array();
    }
    Ok(())
}

/// Takes from the first sorted set that `find` finds and replies with its key and the members. `false`,
/// without a reply, if there is none.
fn pop_from_first<'c, 'a>(
    cx: &mut Context<'c, 'a>,
    wanted: &MultiPop<'a, End>,
    find: impl Fn(&Context<'c, 'a>, &[u8]) -> Result<Option<ZSetRef<'c>>, CommandError>,
) -> Result<bool, CommandError> {
    for key in wanted.keys() {
        if let Some(zset) = find(cx, key)? {
            cx.reply.array(2);
            cx.reply.bulk(key);
            pop_many(cx, key, zset, wanted.end, wanted.count, true);
            return Ok(true);
        }
    }
    Ok(false)
}

fn bzpopmin<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    pop_one_or_wait(cx, args, End::Lowest)
}

fn bzpopmax<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    pop_one_or_wait(cx, args, End::Highest)
}

fn pop_one_or_wait<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>, end: End) -> Result<(), CommandError> {
    let timeout = parse::timeout(args.at(args.len() - 1), cx.now())?;
    let keys = 1..args.len() - 1;
    for key in keys.clone().map(|index| args.at(index)) {
        if let Some(zset) = cx.awaited_zset(key)? {
            let index = end.indices(zset, 1).start;
            let (member, score) = zset.get(index).expect("a sorted set is never empty");
            cx.reply.array(3);
            cx.reply.bulk(key);
            cx.reply.bulk(member);
            cx.reply.double(score);
            cx.write(key, Change::ZSetRemove { member: member.to_vec().into() });
            return Ok(());
        }
    }
    cx.wait_for(Kind::ZSet, keys, timeout, args);
    Ok(())
}

fn bzmpop<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let wanted = MultiPop::parse(args, 2, End::parse)?;
    let timeout = parse::timeout(args.at(1), cx.now())?;
    if !pop_from_first(cx, &wanted, Context::awaited_zset)? {
        cx.wait_for(Kind::ZSet, wanted.places, timeout, args);
    }
    Ok(())
}
