//! Commands that combine sets: intersection, union, difference.

use hashbrown::HashSet;
use smallvec::SmallVec;
use tarn_engine::record::{Change, Kind};
use tarn_engine::value::{ImageBuilder, SetRef};
use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

const GROW: Flags = Flags::WRITE.with(Flags::DENYOOM);

const SOURCES: &[KeySpec] = &[KeySpec::all(1, &["RO", "access"])];
const UPDATE: &[KeySpec] = &[KeySpec::one(&["RW", "update"]), KeySpec::range(2, -1, 1, &["RO", "access"])];
const OVERWRITE: &[KeySpec] = &[KeySpec::one(&["OW", "update"]), KeySpec::range(2, -1, 1, &["RO", "access"])];

const INTER: &str = "O(N*M) at worst, N being the length of the smallest set and M the number of sets";
const TOTAL: &str = "O(N), N being the total length of the sets";

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("sinter", -2, Flags::READONLY, "1.0.0", "Returns the members that all sets share.", sinter)
        .keys(SOURCES)
        .complexity(INTER),
    row("sinterstore", -3, GROW, "1.0.0", "Stores the members that all sets share.", sinterstore)
        .keys(UPDATE)
        .complexity(INTER),
    row("sintercard", -3, CARD, "7.0.0", "Counts the members that all sets share.", sintercard)
        .keys(&[KeySpec::counted(1, &["RO", "access"])])
        .complexity(INTER),
    row("sunion", -2, Flags::READONLY, "1.0.0", "Returns the members of any of the sets.", sunion)
        .keys(SOURCES)
        .complexity(TOTAL),
    row("sunionstore", -3, GROW, "1.0.0", "Stores the members of any of the sets.", sunionstore)
        .keys(OVERWRITE)
        .complexity(TOTAL),
    row("sdiff", -2, Flags::READONLY, "1.0.0", "Returns the first set's members that no other has.", sdiff)
        .keys(SOURCES)
        .complexity(TOTAL),
    row("sdiffstore", -3, GROW, "1.0.0", "Stores the first set's members that no other has.", sdiffstore)
        .keys(OVERWRITE)
        .complexity(TOTAL),
];

const CARD: Flags = Flags::READONLY.with(Flags::MOVABLEKEYS);

/// How sets are combined.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Combine {
    Inter,
    Union,
    Diff,
}

/// Sets to combine; `None` for those that are missing.
type Sets<'c> = SmallVec<[Option<SetRef<'c>>; 4]>;

/// The sets at `keys`, all of which have to be sets or missing.
fn sets_at<'c, 'k>(
    cx: &Context<'c, '_>,
    keys: impl Iterator<Item = &'k [u8]>,
) -> Result<Sets<'c>, CommandError> {
    keys.map(|key| cx.set(key)).collect()
}

impl Combine {
    /// Up to `limit` members of the combination, each once.
    fn members<'c>(self, sets: Sets<'c>, limit: usize) -> Vec<&'c [u8]> {
        match self {
            Combine::Inter => inter(sets, limit),
            Combine::Union => union(&sets),
            Combine::Diff => diff(&sets),
        }
    }
}

fn inter(sets: Sets<'_>, limit: usize) -> Vec<&[u8]> {
    let Some(mut sets) = sets.into_iter().collect::<Option<SmallVec<[SetRef<'_>; 4]>>>() else {
        return Vec::new();
    };
    sets.sort_by_key(SetRef::len);
    let Some((smallest, others)) = sets.split_first() else { return Vec::new() };
    let shared = smallest.iter().filter(|member| others.iter().all(|set| set.contains(member)));
    shared.take(limit).collect()
}

fn union<'c>(sets: &Sets<'c>) -> Vec<&'c [u8]> {
    let mut members = Vec::with_capacity(sets.iter().flatten().map(SetRef::len).max().unwrap_or(0));
    if let [Some(set)] = sets.as_slice() {
        members.extend(set.iter());
        return members;
    }
    let mut seen = HashSet::<&[u8], foldhash::quality::RandomState>::default();
    for member in sets.iter().flatten().flat_map(SetRef::iter) {
        if seen.insert(member) {
            members.push(member);
        }
    }
    members
}

fn diff<'c>(sets: &Sets<'c>) -> Vec<&'c [u8]> {
    let Some((Some(first), others)) = sets.split_first() else { return Vec::new() };
    first.iter().filter(|member| !others.iter().flatten().any(|set| set.contains(member))).collect()
}

fn sinter<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    reply_with(cx, args, Combine::Inter)
}

fn sunion<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    reply_with(cx, args, Combine::Union)
}

fn sdiff<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    reply_with(cx, args, Combine::Diff)
}

fn reply_with<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>, combine: Combine) -> Result<(), CommandError> {
    let sets = sets_at(cx, args.tail(1).iter())?;
    let members = combine.members(sets, usize::MAX);
    cx.reply.set(members.len());
    members.iter().for_each(|member| cx.reply.bulk(member));
    Ok(())
}

fn sinterstore<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    store(cx, args, Combine::Inter)
}

fn sunionstore<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    store(cx, args, Combine::Union)
}

fn sdiffstore<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    store(cx, args, Combine::Diff)
}

fn store<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>, combine: Combine) -> Result<(), CommandError> {
    let sets = sets_at(cx, args.tail(2).iter())?;
    let mut image = ImageBuilder::new(Kind::Set);
    for member in combine.members(sets, usize::MAX) {
        image.push_element(member);
    }
    store_image(cx, args.at(1), Kind::Set, image);
    Ok(())
}

/// Makes `target` hold a collection, or be missing if that is empty, and replies with the number of elements.
pub(super) fn store_image<'a>(cx: &mut Context<'_, 'a>, target: &'a [u8], kind: Kind, image: ImageBuilder) {
    cx.reply.integer(image.len() as i64);
    if !image.is_empty() {
        cx.write(
            target,
            Change::Image { kind, elements: image.finish().into(), expiry: None, sticky: false },
        );
    } else if cx.entry(target).is_some() {
        cx.write(target, Change::Delete);
    }
}

fn sintercard<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let keys = parse::positive_or(args.at(1), "ERR numkeys should be greater than 0")?;
    let keys = usize::try_from(keys)
        .ok()
        .filter(|keys| *keys <= args.len() - 2)
        .ok_or(CommandError::text("ERR Number of keys can't be greater than number of args"))?;
    let mut limit = 0;
    let mut options = args.tail(2 + keys).into_iter();
    while let Some(option) = options.next() {
        let value = options.next().filter(|_| option.eq_ignore_ascii_case(b"limit"));
        limit = parse::count_or(value.ok_or(CommandError::Syntax)?, "ERR LIMIT can't be negative")?;
    }
    let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let sets = sets_at(cx, args.tail(2).iter().take(keys))?;
    let members = Combine::Inter.members(sets, limit);
    cx.reply.integer(members.len() as i64);
    Ok(())
}
