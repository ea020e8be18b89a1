//! Commands that combine sets: intersection, union, difference.

use foldhash::quality::RandomState;
use hashbrown::HashSet;
use smallvec::SmallVec;
use tarn_engine::Entry;
use tarn_engine::record::{Change, Kind};
use tarn_engine::value::{ImageBuilder, SetRef, ValueRef};
use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};
use crate::execute::steps::{CAPACITY_MAX, LOOKED_UP, Steps, at_once};
use crate::execute::storing::Storing;

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

/// Of a union of so many sources, a member is looked for in those before its own. Of more, all members are
/// noted, and to free the notes takes longer than a step.
pub(super) const LOOKED_FOR_MAX: usize = 8;

/// Sets to combine; `None` for those that are missing.
type Sets<'c> = SmallVec<[Option<SetRef<'c>>; 4]>;

/// Their entries.
type Entries<'c> = SmallVec<[Option<&'c Entry>; 4]>;

/// The entries of `keys`, all of which have to be sets or missing.
fn entries_at<'c, 'k>(
    cx: &Context<'c, '_>,
    keys: impl Iterator<Item = &'k [u8]>,
) -> Result<Entries<'c>, CommandError> {
    keys.map(|key| cx.entry_of(key, Kind::Set)).collect()
}

fn sets_of<'e>(entries: impl Iterator<Item = Option<&'e Entry>>) -> Sets<'e> {
    let sets = entries.map(|entry| match entry.map(Entry::value) {
        Some(ValueRef::Set(set)) => Some(set),
        _ => None,
    });
    sets.collect()
}

impl Combine {
    /// Up to `limit` members of the combination, each once.
    async fn members<'c>(self, steps: &Steps, sets: Sets<'c>, limit: usize) -> Vec<&'c [u8]> {
        match self {
            Combine::Inter => inter(steps, sets, limit).await,
            Combine::Union => union(steps, &sets).await,
            Combine::Diff => diff(steps, &sets).await,
        }
    }
}

/// Whether any of the looks finds something.
pub(super) async fn is_in(steps: &Steps, looks: impl Iterator<Item = bool>) -> bool {
    steps.pass(1).await;
    for found in looks {
        if found {
            return true;
        }
        steps.pass(LOOKED_UP).await;
    }
    false
}

async fn inter<'c>(steps: &Steps, sets: Sets<'c>, limit: usize) -> Vec<&'c [u8]> {
    let Some(mut sets) = sets.into_iter().collect::<Option<SmallVec<[SetRef<'_>; 4]>>>() else {
        return Vec::new();
    };
    sets.sort_by_key(SetRef::len);
    let Some((smallest, others)) = sets.split_first() else { return Vec::new() };
    let mut members = Vec::with_capacity(limit.min(smallest.len()).min(CAPACITY_MAX));
    for member in smallest.iter() {
        if !is_in(steps, others.iter().map(|set| !set.contains(member))).await {
            members.push(member);
            if members.len() == limit {
                break;
            }
        }
    }
    members
}

async fn union<'c>(steps: &Steps, sets: &Sets<'c>) -> Vec<&'c [u8]> {
    let total: usize = sets.iter().flatten().map(SetRef::len).sum();
    // As large as it may become: to grow takes longer than a step.
    let mut members = Vec::with_capacity(total.min(CAPACITY_MAX));
    if sets.len() <= LOOKED_FOR_MAX {
        for (index, set) in sets.iter().enumerate() {
            let before = &sets[..index];
            for member in set.iter().flat_map(SetRef::iter) {
                if !is_in(steps, before.iter().flatten().map(|set| set.contains(member))).await {
                    members.push(member);
                }
            }
        }
        return members;
    }
    let mut seen =
        HashSet::<&[u8], _>::with_capacity_and_hasher(total.min(CAPACITY_MAX), RandomState::default());
    for member in sets.iter().flatten().flat_map(SetRef::iter) {
        if seen.insert(member) {
            members.push(member);
        }
        steps.pass(1 + LOOKED_UP).await;
    }
    members
}

async fn diff<'c>(steps: &Steps, sets: &Sets<'c>) -> Vec<&'c [u8]> {
    let Some((Some(first), others)) = sets.split_first() else { return Vec::new() };
    let mut members = Vec::with_capacity(first.len().min(CAPACITY_MAX));
    for member in first.iter() {
        if !is_in(steps, others.iter().flatten().map(|set| set.contains(member))).await {
            members.push(member);
        }
    }
    members
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
    let entries = entries_at(cx, args.tail(1).iter())?;
    if let Some(copies) = cx.copies_if_long(&entries) {
        cx.run_in_steps(copies.elements(), async move |steps| {
            let members = combine.members(&steps, sets_of(copies.entries()), usize::MAX).await;
            steps.hold(size_of_val(&members[..]))?;
            steps.reply(|reply| reply.set(members.len()));
            steps.each(members.into_iter(), |reply, member| reply.bulk(member)).await;
            Ok(())
        });
        return Ok(());
    }
    let sets = sets_of(entries.into_iter());
    let members = at_once(async |steps| combine.members(steps, sets, usize::MAX).await);
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
    let entries = entries_at(cx, args.tail(2).iter())?;
    if let Some(elements) = cx.put_ready(cx.db, args.at(1)) {
        cx.reply.integer(elements as i64);
        return Ok(());
    }
    if let Some(copies) = cx.copies_to_prepare(args.at(1), &entries) {
        let (target, sources): (_, Vec<_>) = ((cx.db, args.at(1)), args.tail(2).iter().collect());
        return cx.prepare(target, Kind::Set, &sources, copies.elements(), async move |steps, preparing| {
            let members = combine.members(&steps, sets_of(copies.entries()), usize::MAX).await;
            let mut storing = Storing::new(steps, preparing, Kind::Set);
            for member in members {
                storing.element(member).await?;
            }
            storing.end().await
        });
    }
    let sets = sets_of(entries.into_iter());
    let mut image = ImageBuilder::new(Kind::Set);
    for member in at_once(async |steps| combine.members(steps, sets, usize::MAX).await) {
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
    let entries = entries_at(cx, args.tail(2).iter().take(keys))?;
    if let Some(copies) = cx.copies_if_long(&entries) {
        cx.run_in_steps(copies.elements(), async move |steps| {
            let members = inter(&steps, sets_of(copies.entries()), limit).await;
            steps.reply(|reply| reply.integer(members.len() as i64));
            Ok(())
        });
        return Ok(());
    }
    let sets = sets_of(entries.into_iter());
    let members = at_once(async |steps| inter(steps, sets, limit).await);
    cx.reply.integer(members.len() as i64);
    Ok(())
}
