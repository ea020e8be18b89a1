//! `HDEL`, `SREM` and `ZREM`: elements taken out by their names, each of which may come twice.

use tarn_engine::record::Change;
use tarn_resp::Args;

use crate::commands::decided::Decided;
use crate::error::CommandError;
use crate::execute::context::Context;

/// Takes out those elements of the key that are there; replies how many.
fn remove<'a>(
    cx: &mut Context<'_, 'a>,
    args: Args<'a>,
    is_there: impl Fn(&[u8]) -> bool,
    removal: fn(&'a [u8]) -> Change<'a>,
) {
    let several = args.len() > 3;
    let mut named = Decided::default();
    let mut removed = 0;
    for name in args.tail(2) {
        if is_there(name) && (!several || named.is_first(name)) {
            cx.write(args.at(1), removal(name));
            removed += 1;
        }
    }
    cx.reply.integer(removed);
}

pub(super) fn hdel<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let hash = cx.hash(args.at(1))?;
    let is_there = |field: &[u8]| hash.is_some_and(|hash| hash.get(field).is_some());
    remove(cx, args, is_there, |field| Change::HashRemove { field: field.into() });
    Ok(())
}

pub(super) fn srem<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let set = cx.set(args.at(1))?;
    let is_there = |member: &[u8]| set.is_some_and(|set| set.contains(member));
    remove(cx, args, is_there, |member| Change::SetRemove { member: member.into() });
    Ok(())
}

pub(super) fn zrem<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let zset = cx.zset(args.at(1))?;
    let is_there = |member: &[u8]| zset.is_some_and(|zset| zset.score(member).is_some());
    remove(cx, args, is_there, |member| Change::ZSetRemove { member: member.into() });
    Ok(())
}
