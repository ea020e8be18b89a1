//! Consumer groups of streams: made, removed, moved, and what their consumers get and acknowledge.

use std::collections::BinaryHeap;
use std::ops::Range;

use tarn_engine::record::Change;
use tarn_engine::value::StreamRef;
use tarn_engine::value::stream::{Consumer, GroupRef, GroupState, Pending, StreamHead, StreamId, element};
use tarn_resp::Args;

use super::stream_args::{id, id_or_end, write_id};
use super::stream_budget::{Budget, check_names};
use super::streams::{write_entry, write_idle_entry};
use crate::error::{CommandError, printable};
use crate::execute::command::{Command, Run, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

const UPDATE: &[KeySpec] = &[KeySpec::range(2, 0, 1, &["RW", "update"])];
const INSERT: &[KeySpec] = &[KeySpec::range(2, 0, 1, &["RW", "insert"])];
const DELETE: &[KeySpec] = &[KeySpec::range(2, 0, 1, &["RW", "delete"])];
const MAKE: Flags = Flags::WRITE.with(Flags::DENYOOM);

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("xack", -4, Flags::WRITE.with(Flags::FAST), "5.0.0", "Acknowledges entries of a group.", xack)
        .keys(&[KeySpec::one(&["RW", "update"])])
        .complexity("O(log N) for each entry"),
    row("xgroup", -2, Flags::NONE, "5.0.0", "Manages consumer groups.", super::help::unknown_container)
        .complexity("depends on the subcommand")
        .subcommands(&[
            sub("create", -5, MAKE, "5.0.0", "Makes a group.", create, INSERT).complexity("O(log N)"),
            sub("createconsumer", 5, MAKE, "6.2.0", "Makes a consumer.", create_consumer, INSERT)
                .complexity("O(log N)"),
            sub("delconsumer", 5, Flags::WRITE, "5.0.0", "Removes a consumer.", remove_consumer, DELETE)
                .complexity("O(N log M) with N being what is pending for the consumer"),
            sub("destroy", 4, Flags::WRITE, "5.0.0", "Removes a group.", destroy, DELETE)
                .complexity("O(log N); what is pending is freed elsewhere"),
            row("help", 2, Flags::LOADING.with(Flags::STALE), "5.0.0", "Lists the subcommands.", help),
            sub("setid", -5, Flags::WRITE, "5.0.0", "Sets the last ID that was delivered.", set_id, UPDATE)
                .complexity("O(log N)"),
        ]),
];

const fn sub(
    name: &'static str,
    arity: i32,
    flags: Flags,
    since: &'static str,
    summary: &'static str,
    run: Run,
    keys: &'static [KeySpec],
) -> Command {
    row(name, arity, flags, since, summary, run).keys(keys)
}

const HELP_TEXT: [&str; 17] = [
    "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CREATE <key> <groupname> <id|$> [option]",
    "    Create a new consumer group. Options are:",
    "    * MKSTREAM",
    "      Create the empty stream if it does not exist.",
    "    * ENTRIESREAD entries_read",
    "      Set the group's entries_read counter (internal use).",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Create a new consumer in the specified group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Remove the specified consumer.",
    "DESTROY <key> <groupname>",
    "    Remove the specified group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
    "    Set the current group ID and entries_read counter.",
    "HELP",
    "    Prints this help.",
];

fn help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    super::help::lines(cx, &HELP_TEXT);
    Ok(())
}

const NO_STREAM: CommandError = CommandError::text(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the \
     MKSTREAM option to create an empty stream automatically.",
);

/// The error that a group is missing.
pub(super) fn no_group(key: &[u8], group: &[u8]) -> CommandError {
    let (group, key) = (printable(group), printable(key));
    CommandError::owned(format!("NOGROUP No such consumer group '{group}' for key name '{key}'"))
}

/// The error that a key or a group is missing.
pub(super) fn no_key_or_group(key: &[u8], group: &[u8]) -> CommandError {
    let (key, group) = (printable(key), printable(group));
    CommandError::owned(format!("NOGROUP No such key '{key}' or consumer group '{group}'"))
}

/// Whether entries from this one on may have been removed that were not the first.
pub(super) fn may_miss_some_from(stream: StreamRef<'_>, head: &StreamHead, from: StreamId) -> bool {
    let deleted = head.max_deleted_id;
    deleted != StreamId::MIN && from <= deleted && stream.first().is_some_and(|first| first.id <= deleted)
}

/// How many entries had been added up to this one, if that can be told.
pub(super) fn ordinal_of(stream: StreamRef<'_>, head: &StreamHead, id: StreamId) -> Option<u64> {
    let (len, added) = (stream.len() as u64, head.entries_added);
    let first = stream.first().map_or(StreamId::MIN, |first| first.id);
    if added == 0 {
        return Some(0);
    }
    if len == 0 && id <= head.last_id {
        return Some(added);
    }
    if id >= head.last_id {
        return (id == head.last_id).then_some(added);
    }
    let is_whole = head.max_deleted_id == StreamId::MIN || head.max_deleted_id < first;
    match id.cmp(&first) {
        std::cmp::Ordering::Less if is_whole => Some(added.saturating_sub(len)),
        std::cmp::Ordering::Equal if is_whole => Some(added.saturating_add(1).saturating_sub(len)),
        _ => None,
    }
}

/// How many entries a group has still to read, if that can be told.
pub(super) fn lag_of(stream: StreamRef<'_>, head: &StreamHead, group: &GroupState) -> Option<i64> {
    if head.entries_added == 0 {
        return Some(0);
    }
    let is_known = !may_miss_some_from(stream, head, group.last_id);
    let read = group.entries_read.filter(|_| is_known);
    let read = read.or_else(|| ordinal_of(stream, head, group.last_id))?;
    Some((head.entries_added as i64).wrapping_sub(read as i64))
}

/// Pending entries that one command looks at, at most, to find those that may be claimed.
const LOOKS_MAX: usize = 1 << 14;
/// And of each of its streams at least.
const LOOKS_MIN: usize = 16;

/// At how many pending entries of each stream a command looks at most that names so many streams.
pub(super) fn looks_at_each(streams: usize) -> usize {
    (LOOKS_MAX / streams.max(1)).max(LOOKS_MIN)
}

/// The parts of so many pending entries at which a command looks that looks at so many at most: all, or the
/// first ones, which most often were delivered first, and others that `random` says. So each has its turn.
fn parts(pending: usize, looks: usize, random: u64) -> [Range<usize>; 2] {
    if pending <= looks {
        return [0..pending, pending..pending];
    }
    let front = looks / 2;
    let others = looks - front;
    let places = (pending - looks + 1) as u64;
    let start = front + (random % places) as usize;
    [0..front, start..start + others]
}

/// Pending entries that nobody got for long, and may be claimed.
#[derive(Default)]
pub(super) struct Idle {
    /// When they were delivered, and their IDs; those that nobody got for longest come first.
    ids: Vec<(u64, StreamId)>,
    /// When another one may be claimed at the earliest.
    pub(super) next: Option<u64>,
}

impl Idle {
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// Hands entries of a stream to a consumer of a group.
pub(super) struct GroupReader<'c, 'a> {
    key: &'a [u8],
    stream: StreamRef<'c>,
    head: StreamHead,
    group: GroupRef<'c>,
    state: GroupState,
    consumer: &'a [u8],
    /// Whether the consumer was replied anything, and whether it got something.
    is_asked: bool,
    is_active: bool,
    /// Whether it has looked for what may be claimed: each entry is claimed once.
    has_claimed: bool,
}

impl<'c, 'a: 'c> GroupReader<'c, 'a> {
    pub(super) fn new(
        key: &'a [u8],
        stream: StreamRef<'c>,
        group: GroupRef<'c>,
        consumer: &'a [u8],
    ) -> GroupReader<'c, 'a> {
        let (head, state) = (stream.head(), group.state());
        let (is_asked, is_active, has_claimed) = (false, false, false);
        GroupReader { key, stream, head, group, state, consumer, is_asked, is_active, has_claimed }
    }

    /// Whether there are entries that nobody of the group got.
    pub(super) fn has_new(&self) -> bool {
        self.stream.last().is_some_and(|last| last.id > self.state.last_id)
    }

    /// The pending entries that nobody got for so many milliseconds, so many at most. Looks at no more than
    /// `looks` of all that are pending: those that are found are the longest idle ones of these.
    pub(super) fn find_idle(&mut self, now: u64, min_idle: u64, most: usize, looks: usize) -> Idle {
        let is_first = !std::mem::replace(&mut self.has_claimed, true);
        // Those before the first entry are gone.
        let Some(first) = self.stream.first().filter(|_| is_first) else { return Idle::default() };
        let gone = self.group.pending_rank(first.id);
        let there = self.group.pending_count() - gone;
        let mut oldest = BinaryHeap::<(u64, StreamId)>::new();
        // One that is not looked at may be claimed at once.
        let mut next = (there > looks).then_some(now);
        let parts = parts(there, looks, rand::random());
        let looked_at =
            parts.into_iter().flat_map(|part| self.group.pending_at(gone + part.start).take(part.len()));
        for pending in looked_at {
            let at = (pending.delivered, pending.id);
            let claimable = pending.delivered.saturating_add(min_idle);
            if claimable > now {
                next = Some(next.map_or(claimable, |next| next.min(claimable)));
                continue;
            }
            let is_among_them = oldest.len() < most || oldest.peek().is_some_and(|newest| at < *newest);
            if is_among_them && self.stream.get(pending.id).is_some() {
                oldest.push(at);
                if oldest.len() > most {
                    oldest.pop();
                }
            }
        }
        Idle { ids: oldest.into_sorted_vec(), next }
    }

    /// Gives a pending entry to the consumer and replies with it; whether it is there.
    fn claim(&self, cx: &mut Context<'_, 'a>, id: StreamId) -> bool {
        let (Some(entry), Some(pending)) = (self.stream.get(id), self.group.pending(id)) else {
            return false;
        };
        let now = cx.now();
        let idle_ms = now.saturating_sub(pending.delivered);
        write_idle_entry(&mut cx.reply, &entry, idle_ms, pending.deliveries);
        let (consumer, deliveries) = (self.consumer, pending.deliveries.saturating_add(1));
        let claimed = Pending { id, consumer, delivered: now, deliveries };
        cx.write(self.key, element::put_pending(self.group.name(), &claimed));
        true
    }

    /// Replies with entries that may be claimed, if that is asked for, and then with entries that nobody of
    /// the group got. These are pending from now on, unless they are to be acknowledged at once. The first
    /// one comes also if the budget is spent.
    pub(super) fn reply_new(
        &mut self,
        cx: &mut Context<'_, 'a>,
        budget: &mut Budget,
        count: usize,
        is_pending: bool,
        idle: Option<Idle>,
    ) {
        let deferred = cx.reply.defer(count.min(9));
        let (now, mut len) = (cx.now(), 0);
        let (before, shows_idle) = (self.state, idle.is_some());
        for (_, id) in idle.into_iter().flat_map(|idle| idle.ids) {
            if !budget.takes_one() && len > 0 {
                break;
            }
            len += usize::from(self.claim(cx, id));
        }
        let from = self.state.last_id.next().unwrap_or(StreamId::MAX);
        for entry in self.stream.iter_from(from).take(count.saturating_sub(len)) {
            if is_pending && !budget.takes_one() && len > 0 {
                break;
            }
            let id = entry.id;
            self.state.entries_read = match self.state.entries_read {
                Some(read) if !may_miss_some_from(self.stream, &self.head, id) => {
                    read.checked_add(1).filter(|read| i64::try_from(*read).is_ok())
                }
                _ => ordinal_of(self.stream, &self.head, id),
            };
            self.state.last_id = id;
            match shows_idle {
                true => write_idle_entry(&mut cx.reply, &entry, 0, 0),
                false => write_entry(&mut cx.reply, &entry),
            }
            if is_pending {
                let consumer = self.consumer;
                let pending = Pending { id, consumer, delivered: now, deliveries: 1 };
                cx.write(self.key, element::put_pending(self.group.name(), &pending));
            }
            len += 1;
        }
        cx.reply.finish_array(deferred, len);
        (self.is_asked, self.is_active) = (true, self.is_active || len > 0);
        if self.state != before {
            cx.write(self.key, element::put_group(self.group.name(), &self.state));
        }
    }

    /// Replies with entries behind an ID that are pending for the consumer; the first one as in `reply_new`.
    pub(super) fn reply_history(
        &mut self,
        cx: &mut Context<'_, 'a>,
        budget: &mut Budget,
        behind: StreamId,
        count: usize,
    ) {
        let deferred = cx.reply.defer(count.min(9));
        let mut len = 0;
        let from = behind.next();
        let ids = from.into_iter().flat_map(|from| self.group.owned_from(self.consumer, from)).take(count);
        for id in ids {
            if !budget.takes_one() && len > 0 {
                break;
            }
            len += 1;
            let Some(entry) = self.stream.get(id) else {
                cx.reply.array(2);
                write_id(&mut cx.reply, id);
                cx.reply.null_array();
                continue;
            };
            write_entry(&mut cx.reply, &entry);
            if let Some(pending) = self.group.pending(id) {
                let deliveries = pending.deliveries.saturating_add(1);
                let pending = Pending { delivered: cx.now(), deliveries, ..pending };
                cx.write(self.key, element::put_pending(self.group.name(), &pending));
            }
        }
        cx.reply.finish_array(deferred, len);
        (self.is_asked, self.is_active) = (true, self.is_active || len > 0);
    }

    /// Notes when the consumer has asked for something: as in Redis 7.0, if there was something.
    pub(super) fn note_consumer(&self, cx: &mut Context<'_, 'a>) {
        if !self.is_asked {
            return;
        }
        let known = self.group.consumer(self.consumer);
        let now = cx.now();
        let active = if self.is_active { Some(now) } else { known.and_then(|known| known.active) };
        let consumer = Consumer { name: self.consumer, seen: now, active };
        if known != Some(consumer) {
            cx.write(self.key, element::put_consumer(self.group.name(), &consumer));
        }
    }
}

fn xack<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, name) = (args.at(1), args.at(2));
    let Some(group) = cx.stream(key)?.and_then(|stream| stream.group(name)) else {
        cx.reply.integer(0);
        return Ok(());
    };
    let mut ids = args.tail(3).iter().map(id).collect::<Result<Vec<_>, _>>()?;
    if ids.len() > 1 {
        ids.sort_unstable();
        ids.dedup();
    }
    ids.retain(|id| group.pending(*id).is_some());
    let mut budget = Budget::new(cx, name, b"");
    for id in &ids {
        budget.take_one()?;
        cx.write(key, element::remove_pending(name, *id));
    }
    cx.reply.integer(ids.len() as i64);
    Ok(())
}

/// The options of `CREATE` and `SETID` behind the ID.
struct Options {
    makes_stream: bool,
    entries_read: Option<u64>,
}

fn options(args: Args<'_>, subcommand: &str) -> Result<Options, CommandError> {
    let mut options = Options { makes_stream: false, entries_read: None };
    let mut at = 5;
    while at < args.len() {
        if subcommand == "create" && args.at(at).eq_ignore_ascii_case(b"mkstream") {
            options.makes_stream = true;
            at += 1;
        } else if args.at(at).eq_ignore_ascii_case(b"entriesread") && at + 1 < args.len() {
            let read = parse::integer(args.at(at + 1))?;
            if read < -1 {
                return Err(CommandError::text("ERR value for ENTRIESREAD must be positive or -1"));
            }
            options.entries_read = u64::try_from(read).ok();
            at += 2;
        } else {
            return Err(CommandError::owned(format!(
                "ERR unknown subcommand or wrong number of arguments for '{}'. Try XGROUP HELP.",
                printable(args.at(1))
            )));
        }
    }
    Ok(options)
}

fn create<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let Options { makes_stream, entries_read } = options(args, "create")?;
    let (key, name) = (args.at(2), args.at(3));
    check_names(name, b"")?;
    let stream = cx.stream(key)?;
    if stream.is_none() && !makes_stream {
        return Err(NO_STREAM);
    }
    let last_id = match args.at(4) {
        b"$" => stream.map_or(StreamId::MIN, |stream| stream.head().last_id),
        given => id(given)?,
    };
    if stream.is_some_and(|stream| stream.group(name).is_some()) {
        return Err(CommandError::text("BUSYGROUP Consumer Group name already exists"));
    }
    if stream.is_none() {
        cx.write(key, element::put_head(&StreamHead::default()));
    }
    cx.write(key, element::put_group(name, &GroupState { last_id, entries_read }));
    cx.reply.ok();
    Ok(())
}

/// The stream and the group that a subcommand needs.
fn found<'c>(
    cx: &Context<'c, '_>,
    key: &[u8],
    name: &'c [u8],
) -> Result<(StreamRef<'c>, GroupRef<'c>), CommandError> {
    let stream = cx.stream(key)?.ok_or(NO_STREAM)?;
    stream.group(name).map(|group| (stream, group)).ok_or_else(|| no_group(key, name))
}

fn set_id<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let Options { entries_read, .. } = options(args, "setid")?;
    let (key, name) = (args.at(2), args.at(3));
    let (stream, _) = found(cx, key, name)?;
    let last_id = match args.at(4) {
        b"$" => stream.head().last_id,
        given => id_or_end(given)?,
    };
    cx.write(key, element::put_group(name, &GroupState { last_id, entries_read }));
    cx.reply.ok();
    Ok(())
}

fn destroy<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, name) = (args.at(2), args.at(3));
    let stream = cx.stream(key)?.ok_or(NO_STREAM)?;
    let is_there = stream.group(name).is_some();
    if is_there {
        keep_head(cx, key, stream);
        cx.write(key, Change::StreamGroupRemove { group: name.into() });
    }
    cx.reply.integer(is_there.into());
    Ok(())
}

/// Gives a stream of which nothing else may be left a head.
fn keep_head<'a>(cx: &mut Context<'_, 'a>, key: &'a [u8], stream: StreamRef<'_>) {
    if stream.last().is_none() {
        cx.write(key, element::put_head(&stream.head()));
    }
}

fn create_consumer<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, name, consumer) = (args.at(2), args.at(3), args.at(4));
    check_names(name, consumer)?;
    let (_, group) = found(cx, key, name)?;
    let is_new = group.consumer(consumer).is_none();
    if is_new {
        let consumer = Consumer { name: consumer, seen: cx.now(), active: None };
        cx.write(key, element::put_consumer(name, &consumer));
    }
    cx.reply.integer(is_new.into());
    Ok(())
}

fn remove_consumer<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, name, consumer) = (args.at(2), args.at(3), args.at(4));
    let (_, group) = found(cx, key, name)?;
    let mut pending = 0;
    if group.consumer(consumer).is_some() {
        let mut budget = Budget::new(cx, name, b"");
        for id in group.owned_from(consumer, StreamId::MIN) {
            budget.take_one()?;
            cx.write(key, element::remove_pending(name, id));
            pending += 1;
        }
        cx.write(key, element::remove_consumer(name, consumer));
    }
    cx.reply.integer(pending);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_what_is_pending_are_within_it_and_each_entry_is_in_some() {
        assert_eq!(parts(0, 8, 5), [0..0, 0..0]);
        assert_eq!(parts(8, 8, 5), [0..8, 8..8]);
        for (pending, looks) in [(9, 8), (10, 1), (100, 7), (1000, 16)] {
            let mut seen = vec![false; pending];
            for random in 0..pending as u64 {
                let parts = parts(pending, looks, random);
                assert_eq!(parts.iter().map(|part| part.len()).sum::<usize>(), looks);
                assert!(parts[0].end <= parts[1].start && parts[1].end <= pending, "{parts:?} of {pending}");
                parts.into_iter().flatten().for_each(|at| seen[at] = true);
            }
            assert!(seen.iter().all(|seen| *seen), "{looks} of {pending}");
        }
    }

    #[test]
    fn a_command_looks_at_as_much_in_many_streams_as_in_one() {
        assert_eq!(looks_at_each(1), LOOKS_MAX);
        assert_eq!(looks_at_each(4), LOOKS_MAX / 4);
        assert_eq!(looks_at_each(1_000_000), LOOKS_MIN);
    }
}
