//! Entries of streams that are removed with regard to what groups know of them: by trims, `XDELEX` and
//! `XACKDEL`.
//!
//! ```text
//!   ACKED:  read and acknowledged by all groups   │ here a group has something pending, or has not read all
//!           one record removes all of them        │ each is looked at by itself
//! ```

use std::collections::HashSet;

use tarn_engine::record::Change;
use tarn_engine::value::StreamRef;
use tarn_engine::value::stream::{GroupRef, StreamHead, StreamId, element};
use tarn_resp::Args;

use super::stream_args;
use super::stream_budget::Budget;
use super::stream_trims::{Refs, Trim};
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

const DELETE: Flags = Flags::WRITE.with(Flags::FAST);

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row(
        "xdelex",
        -5,
        DELETE,
        "8.2.0",
        "Removes entries of a stream, and what groups know of them or only if they need them no more.",
        xdelex,
    )
    .keys(&[KeySpec::one(&["RW", "delete"])])
    .complexity("O(G log N) for each entry with G being the number of groups"),
    row(
        "xackdel",
        -6,
        DELETE,
        "8.2.0",
        "Acknowledges entries of a group and removes them from the stream.",
        xackdel,
    )
    .keys(&[KeySpec::one(&["RW", "update", "delete"])])
    .complexity("O(G log N) for each entry with G being the number of groups"),
];

/// `XDELEX` and `XACKDEL` ask groups for entries so often at most.
const LOOKS_MAX: usize = 1 << 20;
/// And trims, of which each `XADD` may ask for one.
const TRIM_LOOKS_MAX: usize = 1 << 16;

const MANY_GROUPS: CommandError =
    CommandError::text("ERR the stream has too many groups to be trimmed with ACKED or DELREF");

/// Entries that a trim removes.
#[derive(Default)]
pub(super) struct Removal {
    /// How many of the first.
    front: usize,
    /// Below which ID those are; all are, that of the greatest ID too, if there is none.
    below: Option<StreamId>,
    /// Others behind them, in their order.
    others: Vec<StreamId>,
}

impl Removal {
    /// Those that a trim removes of a stream to which the entry `added` is about to be added.
    pub(super) fn of(
        cx: &Context<'_, '_>,
        trim: &Trim,
        stream: StreamRef<'_>,
        added: Option<StreamId>,
    ) -> Result<Removal, CommandError> {
        if trim.refs == Refs::Acked {
            return Removal::of_acknowledged(cx, trim, stream, added);
        }
        let len = stream.len() + usize::from(added.is_some());
        let (mut front, _) = trim.most_and_reach(stream, added);
        match (trim.refs, trim.about) {
            (Refs::Keep, Some(_)) => {
                front = front.min(trim.limit());
                // The last node, which may not be full, goes if all entries do.
                if front < len {
                    front -= front % trim.node_entries;
                }
            }
            _ => front = front.min(in_nodes(trim, len)),
        }
        if front == 0 {
            return Ok(Removal::default());
        }
        Ok(Removal { front, below: below_rank(stream, added, front), others: Vec::new() })
    }

    fn of_acknowledged(
        cx: &Context<'_, '_>,
        trim: &Trim,
        stream: StreamRef<'_>,
        added: Option<StreamId>,
    ) -> Result<Removal, CommandError> {
        let (there, (most, reach)) = (stream.len(), trim.most_and_reach(stream, added));
        if most == 0 {
            return Ok(Removal::default());
        }
        let groups = stream.groups_within(TRIM_LOOKS_MAX).ok_or(MANY_GROUPS)?;
        let len = there + usize::from(added.is_some());
        let first = stream.first().map(|first| first.id);
        let needed = groups.iter().filter_map(|group| first_needed(*group, first)).min();
        let free = needed.map_or(len, |needed| {
            stream.rank(needed) + usize::from(added.is_some_and(|added| added < needed))
        });
        let front = free.min(reach).min(most).min(in_nodes(trim, len));
        let mut removal = Removal { front, below: below_rank(stream, added, front), others: Vec::new() };
        let last_read = groups.iter().map(|group| group.state().last_id).min().unwrap_or(StreamId::MAX);
        let mut budget = Budget::new(cx, b"", b"");
        // Each has been asked already for what it needs first.
        let mut looks = TRIM_LOOKS_MAX - groups.len();
        let behind = (front < there).then(|| stream.iter_at(front));
        let ids = behind.into_iter().flatten().map(|entry| entry.id);
        for (rank, id) in (front..reach).zip(ids.chain(added.filter(|_| front < len))) {
            let removed = removal.count();
            let node = trim.node_entries.min(len - rank);
            let is_over = rank.is_multiple_of(trim.node_entries) && removed + node > trim.limit();
            // All that follow are unread by some group.
            if removed == most || is_over || last_read < id || looks < groups.len() {
                break;
            }
            looks -= groups.len();
            if groups.iter().all(|group| group.pending(id).is_none()) {
                budget.take_one()?;
                removal.others.push(id);
            }
        }
        Ok(removal)
    }

    /// Those that a trim removes of a stream that has this entry alone, and no groups.
    pub(super) fn of_the_only(trim: &Trim, id: StreamId) -> Removal {
        match trim.takes_the_only(id) {
            true => Removal { front: 1, below: id.next(), others: Vec::new() },
            false => Removal::default(),
        }
    }

    /// How many entries there are.
    pub(super) fn count(&self) -> usize {
        self.front + self.others.len()
    }

    /// Removes them from a stream of which the newest entry is this one, and which has this head else.
    pub(super) fn write<'a>(
        &self,
        cx: &mut Context<'_, 'a>,
        key: &'a [u8],
        newest: StreamId,
        head: &StreamHead,
    ) {
        let takes_front = self.front > 0 && self.below.is_none_or(|below| below > newest);
        if takes_front || self.others.last() == Some(&newest) {
            cx.write(key, element::put_head(head));
        }
        if self.front > 0 {
            cx.write(key, Change::StreamTrim { below: self.below.unwrap_or(StreamId::MAX) });
            if self.below.is_none() {
                cx.write(key, element::remove_entry(StreamId::MAX));
            }
        }
        self.others.iter().for_each(|id| cx.write(key, element::remove_entry(*id)));
    }

    /// Removes what is pending of them. REQUIRES: they are the first of all.
    pub(super) fn write_refs<'a>(
        &self,
        cx: &mut Context<'_, 'a>,
        key: &'a [u8],
        stream: StreamRef<'_>,
        added: Option<StreamId>,
    ) -> Result<(), CommandError> {
        let Some(first) = stream.first().map(|first| first.id).or(added) else { return Ok(()) };
        if self.front == 0 {
            return Ok(());
        }
        let groups = stream.groups_within(TRIM_LOOKS_MAX).ok_or(MANY_GROUPS)?;
        let mut budget = Budget::new(cx, longest_name(&groups), b"");
        for group in groups {
            let ids = group.pending_from(first).map(|pending| pending.id);
            for id in ids.take_while(|id| self.below.is_none_or(|below| *id < below)) {
                if stream.get(id).is_some() || added == Some(id) {
                    budget.take_one()?;
                    cx.write(key, element::remove_pending(group.name(), id));
                }
            }
        }
        Ok(())
    }
}

/// The longest name of a group.
fn longest_name<'s>(groups: &[GroupRef<'s>]) -> &'s [u8] {
    groups.iter().map(|group| group.name()).max_by_key(|name| name.len()).unwrap_or_default()
}

/// How many of the first of so many entries stand in whole nodes that have no more entries together than the
/// limit of a trim says.
fn in_nodes(trim: &Trim, len: usize) -> usize {
    let limit = trim.limit();
    if len <= limit { len } else { limit - limit % trim.node_entries }
}

/// The ID below which the first so many entries are; none, if that of the greatest ID is among them.
fn below_rank(stream: StreamRef<'_>, added: Option<StreamId>, rank: usize) -> Option<StreamId> {
    let there = stream.len();
    let stays = if rank < there { stream.nth(rank).map(|entry| entry.id) } else { None };
    // Of what is there nothing stays.
    stays.or_else(|| match added {
        Some(added) if rank == there => Some(added),
        _ => added.or(stream.last().map(|last| last.id)).and_then(StreamId::next),
    })
}

/// The first entry from this one on that a group has still to read, or that is pending; there may be none
/// with this ID.
fn first_needed(group: GroupRef<'_>, from: Option<StreamId>) -> Option<StreamId> {
    let pending = group.pending_from(from.unwrap_or(StreamId::MIN)).next().map(|pending| pending.id);
    group.state().last_id.next().into_iter().chain(pending).min()
}

/// Entries that a command names, and what becomes of what groups know of them.
struct Named {
    refs: Refs,
    /// Where the first ID stands.
    at: usize,
    count: usize,
}

impl Named {
    fn parse(args: Args<'_>, mut at: usize) -> Result<Named, CommandError> {
        const TOO_FEW: CommandError =
            CommandError::text("ERR The `numids` parameter must match the number of arguments");
        let (mut refs, mut ids) = (None, None);
        while at < args.len() {
            let word = args.at(at);
            if refs.is_none() && Refs::parse(word).is_some() {
                refs = Refs::parse(word);
                at += 1;
            } else if word.eq_ignore_ascii_case(b"ids") && at + 1 < args.len() {
                let count =
                    parse::positive_or(args.at(at + 1), "ERR Number of IDs must be a positive integer")?;
                let there = args.len() - at - 2;
                let count = usize::try_from(count).ok().filter(|count| *count <= there).ok_or(TOO_FEW)?;
                ids = Some((at + 2, count));
                at += 2 + count;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        let (at, count) = ids.ok_or(CommandError::text("ERR IDS option is required"))?;
        Ok(Named { refs: refs.unwrap_or_default(), at, count })
    }

    fn ids(&self, args: Args<'_>) -> Result<Vec<StreamId>, CommandError> {
        args.tail(self.at).iter().take(self.count).map(stream_args::id).collect()
    }

    /// Replies that none of the entries is there.
    fn reply_missing(&self, cx: &mut Context<'_, '_>) {
        cx.reply.array(self.count);
        (0..self.count).for_each(|_| cx.reply.integer(MISSING));
    }
}

// Of each entry that is named, as Redis numbers it.
const MISSING: i64 = -1;
const REMOVED: i64 = 1;
const NEEDED: i64 = 2;

/// Entries that one command removes, one after the other.
struct Removals<'c, 'a> {
    key: &'a [u8],
    stream: StreamRef<'c>,
    groups: Vec<GroupRef<'c>>,
    refs: Refs,
    budget: Budget,
    /// Those that were looked at.
    seen: HashSet<StreamId>,
    removed: Vec<StreamId>,
    /// Entries that are to be pending no more, by groups.
    settled: Vec<(&'c [u8], StreamId)>,
}

impl<'c, 'a> Removals<'c, 'a> {
    /// To remove so many entries of a stream.
    fn new(
        cx: &Context<'_, 'a>,
        key: &'a [u8],
        stream: StreamRef<'c>,
        refs: Refs,
        count: usize,
    ) -> Result<Removals<'c, 'a>, CommandError> {
        const TOO_MANY: CommandError =
            CommandError::text("ERR the command names too many entries of a stream with so many groups");
        let groups = match refs {
            Refs::Keep => Vec::new(),
            _ => stream.groups_within(LOOKS_MAX / count.max(1)).ok_or(TOO_MANY)?,
        };
        let budget = Budget::new(cx, longest_name(&groups), b"");
        let (seen, removed, settled) = (HashSet::new(), Vec::new(), Vec::new());
        Ok(Removals { key, stream, groups, refs, budget, seen, removed, settled })
    }

    /// Removes an entry that `but`, a group of which it is pending no more, does not need; what became of it.
    fn remove(&mut self, id: StreamId, but: Option<&[u8]>) -> Result<i64, CommandError> {
        let is_other = |group: &&GroupRef<'c>| Some(group.name()) != but;
        let is_pending = |group: &&GroupRef<'c>| group.pending(id).is_some();
        let is_unread = |group: &GroupRef<'c>| group.state().last_id < id;
        let is_new = self.seen.insert(id);
        match self.refs {
            Refs::Keep => {}
            Refs::Remove if !is_new => {}
            Refs::Remove => {
                for group in self.groups.iter().filter(is_other).filter(is_pending) {
                    self.budget.take_one()?;
                    self.settled.push((group.name(), id));
                }
            }
            Refs::Acked => {
                let is_needed = self.groups.iter().any(is_unread)
                    || self.groups.iter().filter(is_other).any(|group| is_pending(&group));
                if is_needed {
                    return Ok(NEEDED);
                }
            }
        }
        if !is_new || self.stream.get(id).is_none() {
            return Ok(MISSING);
        }
        self.budget.take_one()?;
        self.removed.push(id);
        Ok(REMOVED)
    }

    /// Asks for the changes.
    fn finish(self, cx: &mut Context<'_, 'a>) {
        if let Some(greatest) = self.removed.iter().max() {
            let head = self.stream.head();
            let max_deleted_id = head.max_deleted_id.max(*greatest);
            cx.write(self.key, element::put_head(&StreamHead { max_deleted_id, ..head }));
            self.removed.iter().for_each(|id| cx.write(self.key, element::remove_entry(*id)));
        }
        for (group, id) in self.settled {
            cx.write(self.key, element::remove_pending(group, id));
        }
    }
}

fn xdelex<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let stream = cx.stream(key)?;
    let named = Named::parse(args, 2)?;
    let Some(stream) = stream else {
        named.reply_missing(cx);
        return Ok(());
    };
    let ids = named.ids(args)?;
    let mut removals = Removals::new(cx, key, stream, named.refs, ids.len())?;
    cx.reply.array(ids.len());
    for id in ids {
        let became = removals.remove(id, None)?;
        cx.reply.integer(became);
    }
    removals.finish(cx);
    Ok(())
}

fn xackdel<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, name) = (args.at(1), args.at(2));
    let stream = cx.stream(key)?;
    let named = Named::parse(args, 3)?;
    let Some((stream, group)) = stream.and_then(|stream| Some((stream, stream.group(name)?))) else {
        named.reply_missing(cx);
        return Ok(());
    };
    let ids = named.ids(args)?;
    let mut removals = Removals::new(cx, key, stream, named.refs, ids.len())?;
    let mut acknowledged = HashSet::new();
    cx.reply.array(ids.len());
    for id in ids {
        let became = if group.pending(id).is_none() || !acknowledged.insert(id) {
            MISSING
        } else {
            removals.budget.take_one()?;
            // One that is gone already is none that anybody needs.
            removals.remove(id, Some(name))?.max(REMOVED)
        };
        cx.reply.integer(became);
    }
    removals.finish(cx);
    acknowledged.into_iter().for_each(|id| cx.write(key, element::remove_pending(name, id)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::stream_trims::Bound;
    use tarn_resp::OwnedArgs;

    #[test]
    fn a_limit_takes_whole_nodes_or_all() {
        for (len, limit, node_entries, expected) in [
            (0, 1, 100, 0),
            (99, 100, 100, 99),
            (100, 100, 100, 100),
            (250, 0, 100, 250),
            (250, 250, 100, 250),
            (250, 249, 100, 200),
            (250, 99, 100, 0),
            (250, 99, 10, 90),
            (250, 249, usize::MAX, 0),
        ] {
            let trim = Trim { bound: Bound::Length(0), about: Some(limit), node_entries, refs: Refs::Remove };
            assert_eq!(in_nodes(&trim, len), expected, "{limit} of {len}");
        }
    }

    #[test]
    fn entries_are_named_behind_their_number_and_the_last_time_counts() {
        let parse = |words: &str| {
            let args: OwnedArgs = words.split(' ').collect();
            let named = Named::parse(args.as_args(), 0).map_err(|error| error.to_string())?;
            let ids = named.ids(args.as_args()).map_err(|error| error.to_string())?;
            Ok::<_, String>((named.refs, ids))
        };
        let id = |ms| StreamId::new(ms, 0);
        assert_eq!(parse("IDS 1 5"), Ok((Refs::Keep, vec![id(5)])));
        assert_eq!(parse("delref ids 2 5 5"), Ok((Refs::Remove, vec![id(5), id(5)])));
        assert_eq!(parse("IDS 1 5 ACKED"), Ok((Refs::Acked, vec![id(5)])));
        assert_eq!(parse("IDS 1 5 IDS 1 6"), Ok((Refs::Keep, vec![id(6)])));
        let no_match = "ERR The `numids` parameter must match the number of arguments";
        for (words, expected) in [
            ("ACKED", "ERR IDS option is required"),
            ("IDS", "ERR syntax error"),
            ("IDS 0 5", "ERR Number of IDs must be a positive integer"),
            ("IDS 2 5", no_match),
            ("IDS 18446744073709551615 5", "ERR Number of IDs must be a positive integer"),
            ("IDS 9223372036854775807 5", no_match),
            ("IDS 1 5 6", "ERR syntax error"),
            ("KEEPREF DELREF IDS 1 5", "ERR syntax error"),
        ] {
            assert_eq!(parse(words), Err(expected.to_owned()), "{words}");
        }
    }
}
