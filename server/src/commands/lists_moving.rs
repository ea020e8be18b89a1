//! List commands that take from one list to give to another, or from the first of several lists.

use tarn_engine::record::{Change, Side};
use tarn_engine::value::ListRef;
use tarn_resp::Args;

use super::lists::{end_of, pop_many};
use super::multi_pop::MultiPop;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::spec::{Flags, KeySpec};

const GROW: Flags = Flags::WRITE.with(Flags::DENYOOM);

/// The two keys of commands that move an element.
pub(super) const MOVE_KEYS: &[KeySpec] =
    &[KeySpec::one(&["RW", "access", "delete"]), KeySpec::range(2, 0, 1, &["RW", "insert"])];

/// Complexity of commands that pop from the first of several keys.
pub(super) const MULTI_POP: &str = "O(N+M), N being the number of keys and M the number of elements taken";

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("lmove", 5, GROW, "6.2.0", "Moves an element from an end of a list to an end of another.", lmove)
        .keys(MOVE_KEYS),
    row(
        "rpoplpush",
        3,
        GROW,
        "1.2.0",
        "Moves the last element of a list to the front of another.",
        rpoplpush,
    )
    .keys(MOVE_KEYS),
    row(
        "lmpop",
        -4,
        Flags::WRITE.with(Flags::MOVABLEKEYS),
        "7.0.0",
        "Takes elements from the first list that has any.",
        lmpop,
    )
    .keys(&[KeySpec::counted(1, &["RW", "access", "delete"])])
    .complexity(MULTI_POP),
];

/// The end that an argument names.
pub(super) fn side(arg: &[u8]) -> Option<Side> {
    if arg.eq_ignore_ascii_case(b"left") {
        Some(Side::Front)
    } else if arg.eq_ignore_ascii_case(b"right") {
        Some(Side::Back)
    } else {
        None
    }
}

/// One element's way from list to list.
pub(super) struct Move<'a> {
    pub(super) source: &'a [u8],
    pub(super) target: &'a [u8],
    pub(super) take: Side,
    pub(super) put: Side,
}

impl<'a> Move<'a> {
    /// Of the arguments of `LMOVE` and `BLMOVE`.
    pub(super) fn parse(args: Args<'a>) -> Result<Move<'a>, CommandError> {
        let take = side(args.at(3)).ok_or(CommandError::Syntax)?;
        let put = side(args.at(4)).ok_or(CommandError::Syntax)?;
        Ok(Move { source: args.at(1), target: args.at(2), take, put })
    }

    /// Of the arguments of `RPOPLPUSH` and `BRPOPLPUSH`.
    pub(super) fn back_to_front(args: Args<'a>) -> Move<'a> {
        Move { source: args.at(1), target: args.at(2), take: Side::Back, put: Side::Front }
    }

    /// Moves the element of the source, which is `found`, and replies with it. `false`, without a reply, if
    /// there is none.
    pub(super) fn run<'c>(
        &self,
        cx: &mut Context<'c, 'a>,
        found: Option<ListRef<'c>>,
    ) -> Result<bool, CommandError> {
        let Some(list) = found else { return Ok(false) };
        cx.list(self.target)?;
        let element = end_of(list, self.take);
        cx.reply.bulk(element);
        let element = element.to_vec().into();
        if self.source == self.target && (self.take == self.put || list.len() == 1) {
            // Popping the only element would delete the key, and its expiry with it.
            let index = if self.take == Side::Front { 0 } else { list.len() as u64 - 1 };
            cx.write(self.source, Change::ListPut { index, element });
        } else {
            cx.write(self.source, Change::ListPop { side: self.take, count: 1 });
            cx.write(self.target, Change::ListPush { side: self.put, element });
        }
        Ok(true)
    }
}

fn lmove<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let wanted = Move::parse(args)?;
    let found = cx.list(wanted.source)?;
    if !wanted.run(cx, found)? {
        cx.reply.null();
    }
    Ok(())
}

fn rpoplpush<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let wanted = Move::back_to_front(args);
    let found = cx.list(wanted.source)?;
    if !wanted.run(cx, found)? {
        cx.reply.null();
    }
    Ok(())
}

fn lmpop<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let wanted = MultiPop::parse(args, 1, side)?;
    if !pop_from_first(cx, &wanted, Context::list)? {
        cx.reply.null_array();
    }
    Ok(())
}

/// Takes from the first list that `find` finds and replies with its key and the elements. `false`, without a
/// reply, if there is none.
pub(super) fn pop_from_first<'c, 'a>(
    cx: &mut Context<'c, 'a>,
    wanted: &MultiPop<'a, Side>,
    find: impl Fn(&Context<'c, 'a>, &[u8]) -> Result<Option<ListRef<'c>>, CommandError>,
) -> Result<bool, CommandError> {
    for key in wanted.keys() {
        if let Some(list) = find(cx, key)? {
            cx.reply.array(2);
            cx.reply.bulk(key);
            pop_many(cx, key, list, wanted.end, wanted.count);
            return Ok(true);
        }
    }
    Ok(false)
}
