//! Entries of streams: added, read by their IDs, removed and trimmed.

use std::ops::{Range, RangeInclusive};

use tarn_engine::record::{BYTES_MAX, Kind};
use tarn_engine::value::stream::{Fields, StreamEntry, StreamHead, StreamId, element};
use tarn_engine::value::{StreamRef, ValueRef};
use tarn_resp::{Args, Writer};

use super::stream_args::{self, NewId, interval, write_id};
use super::stream_removals::Removal;
use super::stream_trims::Refs;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

const ADD: Flags = Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST);

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("xadd", -5, ADD, "5.0.0", "Adds an entry to a stream.", xadd)
        .keys(&[KeySpec::one(&["RW", "update"])])
        .complexity("O(log N), and for each node of entries that is trimmed as much"),
    row("xlen", 2, Flags::READONLY.with(Flags::FAST), "5.0.0", "Counts the entries of a stream.", xlen)
        .keys(&[KeySpec::one(&["RO"])])
        .complexity("O(log N)"),
    row("xrange", -4, Flags::READONLY, "5.0.0", "Returns the entries of an interval of IDs.", xrange)
        .keys(&[KeySpec::one(&["RO", "access"])])
        .complexity("O(log(N)+M) with M being the number of entries returned"),
    row("xrevrange", -4, Flags::READONLY, "5.0.0", "As XRANGE, the greatest ID first.", xrevrange)
        .keys(&[KeySpec::one(&["RO", "access"])])
        .complexity("O(log(N)+M) with M being the number of entries returned"),
    row("xdel", -3, Flags::WRITE.with(Flags::FAST), "5.0.0", "Removes entries of a stream.", xdel)
        .keys(&[KeySpec::one(&["RW", "delete"])])
        .complexity("O(log N) for each entry"),
    row("xtrim", -4, Flags::WRITE, "5.0.0", "Removes entries with the smallest IDs.", xtrim)
        .keys(&[KeySpec::one(&["RW", "delete"])])
        .complexity("O(log N); the entries are freed elsewhere"),
    row("xsetid", -3, ADD, "5.0.0", "Sets the last ID of a stream.", xsetid)
        .keys(&[KeySpec::one(&["RW", "update"])])
        .complexity("O(log N)"),
];

/// Bytes that an entry has for the length of a field or a value, at most.
const PART_BYTES: usize = 5;

const TOO_SMALL: CommandError =
    CommandError::text("ERR The ID specified in XADD is equal or smaller than the target stream top item");
const EXHAUSTED: CommandError =
    CommandError::text("ERR The stream has exhausted the last possible ID, unable to add more items");

/// The ID of the next entry.
fn next_id(wanted: NewId, last: StreamId, now: u64) -> Result<StreamId, CommandError> {
    match wanted {
        NewId::Auto if now > last.ms => Ok(StreamId::new(now, 0)),
        NewId::Auto => last.next().ok_or(EXHAUSTED),
        NewId::AutoSeq(ms) if ms == last.ms => {
            last.seq.checked_add(1).map(|seq| StreamId::new(ms, seq)).ok_or(TOO_SMALL)
        }
        NewId::AutoSeq(ms) if ms > last.ms => Ok(StreamId::new(ms, 0)),
        NewId::Given(id) if id > last => Ok(id),
        NewId::AutoSeq(_) | NewId::Given(_) => Err(TOO_SMALL),
    }
}

fn xadd<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let options = stream_args::options(args, true, cx.server.live.stream_node_entries())?;
    let arity = || CommandError::Arity("xadd".into());
    let (fields_at, wanted) = options.entry.ok_or_else(arity)?;
    let fields = args.len().saturating_sub(fields_at);
    if fields < 2 || fields % 2 == 1 {
        return Err(arity());
    }
    if wanted == NewId::Given(StreamId::MIN) {
        return Err(CommandError::text("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let key = args.at(1);
    let stream = cx.stream(key)?;
    if stream.is_none() && !options.makes_stream {
        cx.reply.null();
        return Ok(());
    }
    let parts = args.tail(fields_at);
    let message = options.produced.map(|produced| produced.message(cx, stream, parts));
    if let (Some(message), Some(stream)) = (&message, stream)
        && let Some(id) = message.entry(stream, cx.now())
    {
        message.count_again(cx, key);
        write_id(&mut cx.reply, id);
        return Ok(());
    }
    let head = stream.map(|stream| stream.head()).unwrap_or_default();
    if head.last_id == StreamId::MAX {
        return Err(EXHAUSTED);
    }
    if parts.total_bytes() + PART_BYTES * (parts.len() + 4) > BYTES_MAX {
        return Err(CommandError::text("ERR Elements are too large to be stored"));
    }
    let id = next_id(wanted, head.last_id, cx.now())?;
    let entries_added = head.entries_added.saturating_add(1);
    let pairs =
        (0..fields / 2).map(|pair| (args.at(fields_at + 2 * pair), args.at(fields_at + 2 * pair + 1)));
    cx.write(key, element::put_entry(id, entries_added, pairs));
    write_id(&mut cx.reply, id);
    if let Some(message) = message {
        message.remember(cx, key, stream, id);
    }
    let Some(trim) = options.trim else { return Ok(()) };
    let removal = match stream {
        Some(stream) => Removal::of(cx, &trim, stream, Some(id))?,
        None => Removal::of_the_only(&trim, id),
    };
    removal.write(cx, key, id, &StreamHead { last_id: id, entries_added, ..head });
    match (trim.refs, stream) {
        (Refs::Remove, Some(stream)) => removal.write_refs(cx, key, stream, Some(id)),
        _ => Ok(()),
    }
}

fn xlen<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let len = cx.stream(args.at(1))?.map_or(0, |stream| stream.len());
    cx.reply.integer(len as i64);
    Ok(())
}

fn xrange<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let ids = interval(args.at(2), args.at(3))?;
    range(cx, args, &ids, false)
}

fn xrevrange<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    // The start is read first, whichever comes first.
    let ids = interval(args.at(3), args.at(2))?;
    range(cx, args, &ids, true)
}

fn range<'a>(
    cx: &mut Context<'_, 'a>,
    args: Args<'a>,
    ids: &RangeInclusive<StreamId>,
    is_backward: bool,
) -> Result<(), CommandError> {
    let mut most = usize::MAX;
    let mut at = 4;
    while at < args.len() {
        if !args.at(at).eq_ignore_ascii_case(b"count") || at + 1 >= args.len() {
            return Err(CommandError::Syntax);
        }
        most = count(args.at(at + 1))?;
        at += 2;
    }
    let Some(entry) = cx.entry_of(args.at(1), Kind::Stream)? else {
        cx.reply.array(0);
        return Ok(());
    };
    if most == 0 {
        cx.reply.null_array();
        return Ok(());
    }
    let ValueRef::Stream(stream) = entry.value() else { return Err(CommandError::WrongType) };
    let ranks = ranks(stream, ids);
    let len = ranks.len().min(most);
    cx.reply.array(len);
    if len == 0 {
        return Ok(());
    }
    let (start, last) = (ranks.start, ranks.end - 1);
    cx.reply_elements(entry, 0..len, move |reply, value, part| {
        let ValueRef::Stream(stream) = value else { return };
        if is_backward {
            let entries = stream.rev_iter_at(last - part.start);
            entries.take(part.len()).for_each(|entry| write_entry(reply, &entry));
        } else {
            let entries = stream.iter_at(start + part.start);
            entries.take(part.len()).for_each(|entry| write_entry(reply, &entry));
        }
    });
    Ok(())
}

/// Where the entries of an interval of IDs stand.
pub(super) fn ranks(stream: StreamRef<'_>, ids: &RangeInclusive<StreamId>) -> Range<usize> {
    let start = stream.rank(*ids.start());
    let end = ids.end().next().map_or_else(|| stream.len(), |behind| stream.rank(behind));
    start..end.max(start)
}

/// The number behind `COUNT`; a negative one is 0.
pub(super) fn count(text: &[u8]) -> Result<usize, CommandError> {
    let count = parse::integer(text)?;
    Ok(usize::try_from(count.max(0)).unwrap_or(usize::MAX))
}

/// Writes an entry: its ID and its fields.
pub(super) fn write_entry(reply: &mut Writer<'_>, entry: &StreamEntry<'_>) {
    reply.array(2);
    write_id(reply, entry.id);
    write_fields(reply, entry.fields);
}

/// Writes an entry as `CLAIM` shows it: with for how many milliseconds it was pending, and how often it had
/// been delivered.
pub(super) fn write_idle_entry(
    reply: &mut Writer<'_>,
    entry: &StreamEntry<'_>,
    idle_ms: u64,
    deliveries: u64,
) {
    reply.array(4);
    write_id(reply, entry.id);
    write_fields(reply, entry.fields);
    reply.integer(i64::try_from(idle_ms).unwrap_or(i64::MAX));
    reply.integer(deliveries as i64);
}

fn write_fields(reply: &mut Writer<'_>, fields: Fields<'_>) {
    reply.array(fields.len() * 2);
    for (field, value) in fields.iter() {
        reply.bulk(field);
        reply.bulk(value);
    }
}

fn xdel<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let Some(stream) = cx.stream(key)? else {
        cx.reply.integer(0);
        return Ok(());
    };
    let mut ids = args.tail(2).iter().map(stream_args::id).collect::<Result<Vec<_>, _>>()?;
    ids.sort_unstable();
    ids.dedup();
    ids.retain(|id| stream.get(*id).is_some());
    if let Some(greatest) = ids.last() {
        let head = stream.head();
        let max_deleted_id = head.max_deleted_id.max(*greatest);
        cx.write(key, element::put_head(&StreamHead { max_deleted_id, ..head }));
        ids.iter().for_each(|id| cx.write(key, element::remove_entry(*id)));
    }
    cx.reply.integer(ids.len() as i64);
    Ok(())
}

fn xtrim<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let options = stream_args::options(args, false, cx.server.live.stream_node_entries())?;
    let trim = options.trim.ok_or(CommandError::Syntax)?;
    let key = args.at(1);
    let Some(stream) = cx.stream(key)? else {
        cx.reply.integer(0);
        return Ok(());
    };
    let removal = Removal::of(cx, &trim, stream, None)?;
    if let Some(last) = stream.last() {
        removal.write(cx, key, last.id, &stream.head());
    }
    if trim.refs == Refs::Remove {
        removal.write_refs(cx, key, stream, None)?;
    }
    cx.reply.integer(removal.count() as i64);
    Ok(())
}

fn xsetid<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let last_id = stream_args::id(args.at(2))?;
    let (mut added, mut deleted) = (None, StreamId::MIN);
    let mut at = 3;
    while at < args.len() {
        let word = args.at(at);
        let Some(value) = args.get(at + 1) else { return Err(CommandError::Syntax) };
        if word.eq_ignore_ascii_case(b"entriesadded") {
            let number = parse::integer(value)?;
            const NEGATIVE: CommandError = CommandError::text("ERR entries_added must be positive");
            added = Some(u64::try_from(number).map_err(|_| NEGATIVE)?);
        } else if word.eq_ignore_ascii_case(b"maxdeletedid") {
            deleted = stream_args::id(value)?;
            if last_id < deleted {
                return Err(CommandError::text(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
        } else {
            return Err(CommandError::Syntax);
        }
        at += 2;
    }
    let key = args.at(1);
    let stream = cx.stream(key)?.ok_or(CommandError::NoSuchKey)?;
    let head = stream.head();
    if stream.last().is_some_and(|last| last_id < last.id) {
        return Err(CommandError::text(
            "ERR The ID specified in XSETID is smaller than the target stream top item",
        ));
    }
    if added.is_some_and(|added| added < stream.len() as u64) {
        return Err(CommandError::text(
            "ERR The entries_added specified in XSETID is smaller than the target stream length",
        ));
    }
    let max_deleted_id = if deleted == StreamId::MIN { head.max_deleted_id } else { deleted };
    let entries_added = added.unwrap_or(head.entries_added);
    cx.write(key, element::put_head(&StreamHead { last_id, entries_added, max_deleted_id }));
    cx.reply.ok();
    Ok(())
}
