//! `XREAD` and `XREADGROUP`: entries behind an ID, of several streams, which may be waited for.

use std::ops::Range;
use std::time::Duration;

use tarn_engine::Entry;
use tarn_engine::record::Kind;
use tarn_engine::value::stream::StreamId;
use tarn_engine::value::{StreamRef, ValueRef};
use tarn_resp::{Args, OwnedArgs, Protocol, Writer, parse_i64};

use super::decided::Decided;
use super::stream_args::id;
use super::stream_budget::{Budget, check_names};
use super::stream_groups::{GroupReader, looks_at_each};
use super::streams::{count, write_entry};
use crate::error::{CommandError, printable};
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::spec::{Begin, Find, Flags, KeySpec};

const READ: Flags = Flags::READONLY.with(Flags::BLOCKING).with(Flags::MOVABLEKEYS);
const READ_GROUP: Flags = Flags::WRITE.with(Flags::BLOCKING).with(Flags::MOVABLEKEYS);

/// The first half of what follows the word, which stands at `from` or behind it.
const fn keys_behind(from: i32) -> KeySpec {
    KeySpec {
        begin: Begin::Option("STREAMS", from, first_key),
        find: Find::Range { last: -1, step: 1, limit: 2 },
        flags: &["RO", "access"],
    }
}

/// Where the first key stands, as `Reading::parse` finds it: values of options may look like others.
fn first_key(args: Args<'_>) -> Option<usize> {
    let mut at = 1;
    while at < args.len() {
        let is = |option: &str| args.at(at).eq_ignore_ascii_case(option.as_bytes());
        let more = args.len() - at - 1;
        at += match () {
            () if more > 0 && is("streams") => return Some(at + 1),
            () if more > 0 && (is("block") || is("count") || is("claim")) => 2,
            () if more > 1 && is("group") => 3,
            () => 1,
        };
    }
    None
}

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("xread", -4, READ, "5.0.0", "Returns entries behind IDs, or waits for some.", xread)
        .keys(&[keys_behind(1)])
        .complexity("O(log(N)+M) for each stream with M being the number of entries returned"),
    row(
        "xreadgroup",
        -7,
        READ_GROUP,
        "5.0.0",
        "Returns entries that no consumer of a group got, or those that one has to acknowledge.",
        xreadgroup,
    )
    .keys(&[keys_behind(4)])
    .complexity("O(log N) for each entry returned"),
];

/// The arguments of both commands.
struct Reading<'a> {
    args: Args<'a>,
    count: usize,
    /// How long to wait, if at all; `None` within: for ever.
    block: Option<Option<Duration>>,
    group: Option<(&'a [u8], &'a [u8])>,
    /// For how many milliseconds nobody got an entry that is claimed, if any is.
    claim: Option<u64>,
    /// Whether entries are acknowledged as they are delivered.
    acknowledges: bool,
    /// Where the keys stand; as many IDs follow.
    keys: Range<usize>,
}

impl<'a> Reading<'a> {
    fn parse(cx: &Context<'_, 'a>, args: Args<'a>, is_group: bool) -> Result<Reading<'a>, CommandError> {
        let (block, group, claim) = (None, None, None);
        let mut reading =
            Reading { args, count: usize::MAX, block, group, claim, acknowledges: false, keys: 0..0 };
        let only_of_groups = |option: &str| {
            CommandError::owned(format!(
                "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
            ))
        };
        let mut at = 1;
        while at < args.len() {
            let is = |option: &str| args.at(at).eq_ignore_ascii_case(option.as_bytes());
            let more = args.len() - at - 1;
            if more > 0 && is("claim") {
                if !is_group {
                    return Err(only_of_groups("CLAIM"));
                }
                at += 1;
                reading.claim = Some(min_idle(args.at(at))?);
            } else if more > 0 && is("block") {
                if cx.client.runs_script {
                    return Err(CommandError::owned(format!(
                        "ERR {} command is not allowed with BLOCK option from scripts",
                        printable(args.at(0))
                    )));
                }
                at += 1;
                reading.block = Some(timeout(args.at(at), cx.now())?);
            } else if more > 0 && is("count") {
                at += 1;
                reading.count = match count(args.at(at))? {
                    0 => usize::MAX,
                    count => count,
                };
            } else if more > 0 && is("streams") {
                let keys = more / 2;
                if more % 2 == 1 {
                    return Err(CommandError::text(
                        "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be \
                         specified.",
                    ));
                }
                reading.keys = at + 1..at + 1 + keys;
                break;
            } else if more > 1 && is("group") {
                if !is_group {
                    return Err(only_of_groups("GROUP"));
                }
                reading.group = Some((args.at(at + 1), args.at(at + 2)));
                at += 2;
            } else if is("noack") {
                if !is_group {
                    return Err(only_of_groups("NOACK"));
                }
                reading.acknowledges = true;
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        if reading.keys.is_empty() {
            return Err(CommandError::Syntax);
        }
        if is_group && reading.group.is_none() {
            return Err(CommandError::text("ERR Missing GROUP option for XREADGROUP"));
        }
        Ok(reading)
    }

    /// Whether the client is to wait for what others wait for already. What may be claimed is none of theirs.
    fn joins_others(&self) -> bool {
        self.block.is_some() && self.claim.is_none()
    }

    /// The keys with the arguments that say where to read from.
    fn streams(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let (args, len) = (self.args, self.keys.len());
        self.keys.clone().map(move |place| (args.at(place), args.at(place + len)))
    }
}

/// How long to wait, in milliseconds.
fn timeout(text: &[u8], now: u64) -> Result<Option<Duration>, CommandError> {
    const NO_NUMBER: CommandError = CommandError::text("ERR timeout is not an integer or out of range");
    let ms = parse_i64(text).ok_or(NO_NUMBER)?;
    let ms = u64::try_from(ms).map_err(|_| CommandError::text("ERR timeout is negative"))?;
    let ends = ms > 0 && ms <= i64::MAX as u64 - now;
    Ok(ends.then(|| Duration::from_millis(ms)))
}

/// For how many milliseconds nobody must have got an entry that is claimed.
fn min_idle(text: &[u8]) -> Result<u64, CommandError> {
    const NO_NUMBER: CommandError = CommandError::text("ERR min-idle-time is not an integer or out of range");
    let ms = parse_i64(text).ok_or(NO_NUMBER)?;
    u64::try_from(ms).map_err(|_| CommandError::text("ERR min-idle-time must be a positive integer"))
}

/// Writes a key, before its entries.
fn write_key(reply: &mut Writer<'_>, key: &[u8]) {
    if reply.protocol() == Protocol::Resp2 {
        reply.array(2);
    }
    reply.bulk(key);
}

/// The stream at a key. Who waits passes other kinds over.
fn stream<'c>(cx: &Context<'c, '_>, key: &[u8]) -> Result<Option<(&'c Entry, StreamRef<'c>)>, CommandError> {
    match cx.entry_of(key, Kind::Stream) {
        Err(_) if cx.client.waits => Ok(None),
        entry => Ok(entry?.and_then(|entry| match entry.value() {
            ValueRef::Stream(stream) => Some((entry, stream)),
            _ => None,
        })),
    }
}

/// The ID behind which the last entry alone stands; that of the stream if it has no entries.
fn before_last(stream: StreamRef<'_>) -> StreamId {
    let last = stream.len().checked_sub(1).and_then(|at| stream.iter_at(at).next());
    last.and_then(|entry| entry.id.previous()).unwrap_or_else(|| stream.head().last_id)
}

fn xread<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let reading = Reading::parse(cx, args, false)?;
    let mut found = Vec::new();
    let mut ids = Vec::new();
    for (key, from) in reading.streams() {
        let stream = stream(cx, key)?;
        let behind = match from {
            b"$" => stream.map_or(StreamId::MIN, |(_, stream)| stream.head().last_id),
            b"+" => stream.map_or(StreamId::MIN, |(_, stream)| before_last(stream)),
            b">" => {
                return Err(CommandError::text(
                    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
                     <consumer> option.",
                ));
            }
            from => id(from)?,
        };
        ids.push(behind);
        let (Some((entry, stream)), Some(next)) = (stream, behind.next()) else { continue };
        let start = stream.rank(next);
        let range = start..stream.len().min(start.saturating_add(reading.count));
        if !range.is_empty() {
            found.push((key, entry, range));
        }
    }
    if !found.is_empty() {
        reply_found(cx, &found);
    } else if let Some(timeout) = reading.block {
        // A later look must not take what comes until then for old.
        let resolved: OwnedArgs = (args.iter().take(reading.keys.end).map(<[u8]>::to_vec))
            .chain(ids.iter().map(|id| id.to_string().into_bytes()))
            .collect();
        cx.wait_for_entries(reading.keys, None, timeout, resolved.as_args());
    } else {
        cx.reply.null_array();
    }
    Ok(())
}

/// Replies with parts of streams, in steps if they are long.
fn reply_found(cx: &mut Context<'_, '_>, found: &[(&[u8], &Entry, Range<usize>)]) {
    match cx.reply.protocol() {
        Protocol::Resp2 => cx.reply.array(found.len()),
        Protocol::Resp3 => cx.reply.map(found.len()),
    }
    if !cx.runs_long(found.iter().map(|(_, entry, range)| (*entry, range.len()))) {
        for (key, entry, range) in found {
            let ValueRef::Stream(stream) = entry.value() else { continue };
            write_key(&mut cx.reply, key);
            cx.reply.array(range.len());
            let entries = stream.iter_at(range.start).take(range.len());
            entries.for_each(|entry| write_entry(&mut cx.reply, &entry));
        }
        return;
    }
    let copies: Vec<_> =
        found.iter().map(|(key, entry, range)| (key.to_vec(), cx.keys.copy(entry), range.clone())).collect();
    cx.run_in_steps(0, async move |steps| {
        for (key, copy, range) in &copies {
            let ValueRef::Stream(stream) = copy.value() else { continue };
            steps.reply(|reply| {
                write_key(reply, key);
                reply.array(range.len());
            });
            let entries = stream.iter_at(range.start).take(range.len());
            steps.each(entries, |reply, entry| write_entry(reply, &entry)).await;
        }
        Ok(())
    });
}

fn xreadgroup<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let reading = Reading::parse(cx, args, true)?;
    let Some((group, consumer)) = reading.group else { return Err(CommandError::Syntax) };
    check_names(group, consumer)?;
    for (key, from) in reading.streams() {
        let stream = stream(cx, key)?;
        if stream.and_then(|(_, stream)| stream.group(group)).is_none() {
            return Err(match stream {
                _ if !cx.client.waits => CommandError::owned(format!(
                    "NOGROUP No such key '{}' or consumer group '{}' in XREADGROUP with GROUP option",
                    printable(key),
                    printable(group)
                )),
                None => CommandError::text("UNBLOCKED the stream key no longer exists"),
                Some(_) => CommandError::text(
                    "NOGROUP the consumer group this client was blocked on no longer exists",
                ),
            });
        }
        match from {
            b"$" => {
                return Err(CommandError::text(
                    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history \
                     of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ \
                     ID would just return an empty result set.",
                ));
            }
            b"+" => {
                return Err(CommandError::text(
                    "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history \
                     of this consumer by specifying a proper ID, or use the > ID to get new messages. The + \
                     ID would just return an empty result set.",
                ));
            }
            b">" => {}
            from => _ = id(from)?,
        }
    }
    let before = cx.reply.len();
    let outer = cx.reply.defer(1);
    let (mut replied, now) = (0, cx.now());
    // When something is pending for long enough, at the earliest: what is delivered from now on is later.
    let mut claimable = reading.claim.map(|min_idle| now.saturating_add(min_idle));
    let looks = looks_at_each(reading.keys.len());
    let mut budget = Budget::new(cx, group, consumer);
    let (mut readers, mut places) = (Vec::<GroupReader<'_, 'a>>::new(), Decided::default());
    for (key, from) in reading.streams() {
        let found = stream(cx, key)?.and_then(|(_, stream)| Some((stream, stream.group(group)?)));
        let Some((stream, found)) = found else { continue };
        let place = *places.entry(key, || {
            readers.push(GroupReader::new(key, stream, found, consumer));
            readers.len() - 1
        });
        let reader = &mut readers[place];
        let is_new = from == b">";
        let min_idle = reading.claim.filter(|_| is_new);
        let idle = min_idle.map(|min_idle| reader.find_idle(now, min_idle, reading.count, looks));
        claimable = claimable.into_iter().chain(idle.as_ref().and_then(|idle| idle.next)).min();
        // Who waits already comes first.
        let joins_others = reading.joins_others() && cx.is_behind_readers(key, group);
        let has_new = reader.has_new() && !joins_others;
        if !is_new || has_new || idle.as_ref().is_some_and(|idle| !idle.is_empty()) {
            // Streams behind what fits are left out: nothing of them is delivered.
            if replied > 0 && !budget.takes_one() {
                break;
            }
            replied += 1;
            write_key(&mut cx.reply, key);
            match is_new {
                true => reader.reply_new(cx, &mut budget, reading.count, !reading.acknowledges, idle),
                false => reader.reply_history(cx, &mut budget, id(from)?, reading.count),
            }
        }
    }
    readers.iter().for_each(|reader| reader.note_consumer(cx));
    if replied > 0 {
        match cx.reply.protocol() {
            Protocol::Resp2 => cx.reply.finish_array(outer, replied),
            Protocol::Resp3 => cx.reply.finish_map(outer, replied),
        }
        return Ok(());
    }
    cx.reply.truncate(before);
    let Some(timeout) = reading.block else {
        cx.reply.null_array();
        return Ok(());
    };
    cx.wait_for_entries(reading.keys, Some(group), timeout, args);
    if let Some(at) = claimable {
        cx.look_again_after(Duration::from_millis(at.saturating_sub(now)));
    }
    Ok(())
}
