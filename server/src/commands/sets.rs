//! Set commands that name members. Random members are in `random`, `SSCAN` is in `element_scans`, and what
//! combines sets is in
//! `set_algebra`.

use tarn_engine::Entry;
use tarn_engine::record::{Change, Kind};
use tarn_engine::value::ValueRef;
use tarn_resp::Args;

use crate::commands::decided::Decided;
use crate::commands::removals;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::spec::{Flags, KeySpec};

const FAST_READ: Flags = Flags::READONLY.with(Flags::FAST);
const FAST_WRITE: Flags = Flags::WRITE.with(Flags::FAST);

const LOOK: &[KeySpec] = &[KeySpec::one(&["RO"])];
const ACCESS: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];

const PER_MEMBER: &str = "O(N), N being the number of members named";

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("sadd", -3, FAST_WRITE.with(Flags::DENYOOM), "1.0.0", "Adds members to a set.", sadd)
        .keys(&[KeySpec::one(&["RW", "insert"])])
        .complexity(PER_MEMBER),
    row("srem", -3, FAST_WRITE, "1.0.0", "Removes members; the key goes with the last one.", removals::srem)
        .keys(&[KeySpec::one(&["RW", "delete"])])
        .complexity(PER_MEMBER),
    row("smembers", 2, Flags::READONLY, "1.0.0", "Returns all members.", smembers)
        .keys(ACCESS)
        .complexity("O(N), N being the number of members in the set"),
    row("sismember", 3, FAST_READ, "1.0.0", "Says whether something is a member.", sismember).keys(LOOK),
    row("smismember", -3, FAST_READ, "6.2.0", "Says which of several are members.", smismember)
        .keys(ACCESS)
        .complexity(PER_MEMBER),
    row("scard", 2, FAST_READ, "1.0.0", "Returns the number of members.", scard).keys(LOOK),
    row("smove", 4, FAST_WRITE, "1.0.0", "Moves a member from one set to another.", smove)
        .keys(&[KeySpec::one(&["RW", "access", "delete"]), KeySpec::range(2, 0, 1, &["RW", "insert"])]),
];

fn sadd<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let set = cx.set(key)?;
    let is_new = |member: &[u8]| set.is_none_or(|set| !set.contains(member));
    let several = args.len() > 3;
    let mut named = Decided::default();
    let mut added = 0;
    for member in args.tail(2) {
        if is_new(member) && (!several || named.is_first(member)) {
            cx.write(key, Change::SetAdd { member: member.into() });
            added += 1;
        }
    }
    cx.reply.integer(added);
    Ok(())
}

fn smembers<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let entry = cx.entry_of(args.at(1), Kind::Set)?;
    cx.reply.set(entry.map_or(0, Entry::count));
    if let Some(entry) = entry {
        cx.reply_elements(entry, 0..entry.count(), |reply, value, range| {
            if let ValueRef::Set(set) = value {
                set.iter_from(range.start).take(range.len()).for_each(|member| reply.bulk(member));
            }
        });
    }
    Ok(())
}

fn sismember<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let is_member = cx.set(args.at(1))?.is_some_and(|set| set.contains(args.at(2)));
    cx.reply.integer(i64::from(is_member));
    Ok(())
}

fn smismember<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let set = cx.set(args.at(1))?;
    cx.reply.array(args.len() - 2);
    for member in args.tail(2) {
        cx.reply.integer(i64::from(set.is_some_and(|set| set.contains(member))));
    }
    Ok(())
}

fn scard<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let len = cx.set(args.at(1))?.map_or(0, |set| set.len());
    cx.reply.integer(len as i64);
    Ok(())
}

fn smove<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (source, target, member) = (args.at(1), args.at(2), args.at(3));
    let mut moved = false;
    if let Some(from) = cx.set(source)? {
        let to = cx.set(target)?;
        moved = from.contains(member);
        if moved && source != target {
            cx.write(source, Change::SetRemove { member: member.into() });
            if to.is_none_or(|to| !to.contains(member)) {
                cx.write(target, Change::SetAdd { member: member.into() });
            }
        }
    }
    cx.reply.integer(i64::from(moved));
    Ok(())
}
