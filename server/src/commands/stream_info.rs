//! `XINFO`: what streams, groups and consumers are like.

use tarn_engine::value::StreamRef;
use tarn_engine::value::stream::{GroupRef, StreamEntry, StreamHead, StreamId};
use tarn_resp::{Args, Writer};

use super::stream_args::write_id;
use super::stream_groups::{lag_of, no_group};
use super::stream_producers::Remembered;
use super::stream_trims::node_entries;
use super::streams::write_entry;
use crate::error::{CommandError, printable};
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

const KEY: &[KeySpec] = &[KeySpec::range(2, 0, 1, &["RO", "access"])];
/// Entries that `FULL` shows without a `COUNT`.
const SHOWN: usize = 10;

/// The rows of this family.
pub(super) const COMMANDS: &[Command] =
    &[row("xinfo", -2, Flags::NONE, "5.0.0", "Describes streams.", super::help::unknown_container)
        .complexity("depends on the subcommand")
        .subcommands(&[
            row("consumers", 4, Flags::READONLY, "5.0.0", "Describes the consumers of a group.", consumers)
                .keys(KEY)
                .complexity("O(N) with N being the number of consumers"),
            row("groups", 3, Flags::READONLY, "5.0.0", "Describes the groups of a stream.", groups)
                .keys(KEY)
                .complexity("O(N) with N being the number of groups"),
            row("help", 2, Flags::LOADING.with(Flags::STALE), "5.0.0", "Lists the subcommands.", help),
            row("stream", -3, Flags::READONLY, "5.0.0", "Describes a stream.", stream)
                .keys(KEY)
                .complexity("O(log N), and with FULL as much as is shown"),
        ])];

const HELP_TEXT: [&str; 9] = [
    "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CONSUMERS <key> <groupname>",
    "    Show consumers of <groupname>.",
    "GROUPS <key>",
    "    Show the stream consumer groups.",
    "STREAM <key> [FULL [COUNT <count>]",
    "    Show information about the stream.",
    "HELP",
    "    Prints this help.",
];

fn help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    super::help::lines(cx, &HELP_TEXT);
    Ok(())
}

fn integer(reply: &mut Writer<'_>, name: &str, number: usize) {
    reply.bulk(name.as_bytes());
    reply.integer(number as i64);
}

fn integer_or_null(reply: &mut Writer<'_>, name: &str, number: Option<i64>) {
    reply.bulk(name.as_bytes());
    match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
}

fn named_id(reply: &mut Writer<'_>, name: &str, id: StreamId) {
    reply.bulk(name.as_bytes());
    write_id(reply, id);
}

fn stream<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let is_full = args.get(3).is_some_and(|word| word.eq_ignore_ascii_case(b"full"));
    let counts = args.get(4).is_some_and(|word| word.eq_ignore_ascii_case(b"count"));
    let found = cx.stream(args.at(2))?.ok_or(CommandError::NoSuchKey)?;
    let shown = match args.len() {
        3 => None,
        4 if is_full => Some(SHOWN),
        6 if is_full && counts => {
            let count = parse::integer(args.at(5))?;
            Some(if count < 0 { SHOWN } else { count as usize })
        }
        _ => {
            return Err(CommandError::owned(format!(
                "ERR unknown subcommand or wrong number of arguments for '{}'. Try XINFO HELP.",
                printable(args.at(1))
            )));
        }
    };
    let node_entries = node_entries(cx.server.live.stream_node_entries());
    let (head, len) = (found.head(), found.len());
    let remembered = Remembered::of(found, cx.now());
    let reply = &mut cx.reply;
    let (plain, of_producers) = (if shown.is_some() { 9 } else { 10 }, remembered.as_ref().map_or(0, |_| 6));
    reply.map(plain + of_producers);
    integer(reply, "length", len);
    let nodes = len.div_ceil(node_entries);
    integer(reply, "radix-tree-keys", nodes);
    integer(reply, "radix-tree-nodes", nodes + 1);
    named_id(reply, "last-generated-id", head.last_id);
    named_id(reply, "max-deleted-entry-id", head.max_deleted_id);
    integer(reply, "entries-added", head.entries_added as usize);
    let first = found.first();
    named_id(reply, "recorded-first-entry-id", first.map_or(StreamId::MIN, |first| first.id));
    if let Some(remembered) = remembered {
        show_remembered(reply, &remembered);
    }
    match shown {
        Some(0) => show_in_full(reply, found, &head, usize::MAX),
        Some(shown) => show_in_full(reply, found, &head, shown),
        None => {
            integer(reply, "groups", found.groups().len());
            for (name, entry) in [("first-entry", first), ("last-entry", found.last())] {
                reply.bulk(name.as_bytes());
                show_entry(reply, entry);
            }
        }
    }
    Ok(())
}

/// Shows the messages of producers that a stream remembers, if it ever had to; Redis 8.6 does so always.
fn show_remembered(reply: &mut Writer<'_>, remembered: &Remembered) {
    let Remembered { how, producers, messages } = remembered;
    for (name, number) in [
        ("idmp-duration", how.duration_s),
        ("idmp-maxsize", how.messages_max),
        ("pids-tracked", *producers),
        ("iids-tracked", *messages),
        ("iids-added", how.added),
        ("iids-duplicates", how.duplicates),
    ] {
        integer(reply, name, number as usize);
    }
}

fn show_entry(reply: &mut Writer<'_>, entry: Option<StreamEntry<'_>>) {
    match entry {
        Some(entry) => write_entry(reply, &entry),
        None => reply.null(),
    }
}

fn show_in_full(reply: &mut Writer<'_>, stream: StreamRef<'_>, head: &StreamHead, shown: usize) {
    reply.bulk(b"entries");
    reply.array(stream.len().min(shown));
    stream.iter_at(0).take(shown).for_each(|entry| write_entry(reply, &entry));
    let groups = stream.groups();
    reply.bulk(b"groups");
    reply.array(groups.len());
    for group in groups {
        reply.map(7);
        show_group(reply, stream, head, group);
        integer(reply, "pel-count", group.pending_count());
        reply.bulk(b"pending");
        reply.array(group.pending_count().min(shown));
        for pending in group.pending_from(StreamId::MIN).take(shown) {
            reply.array(4);
            write_id(reply, pending.id);
            reply.bulk(pending.consumer);
            reply.integer(pending.delivered as i64);
            reply.integer(pending.deliveries as i64);
        }
        reply.bulk(b"consumers");
        reply.array(group.consumer_count());
        for consumer in group.consumers() {
            let owned = group.owned_count(consumer.name);
            reply.map(4);
            reply.bulk(b"name");
            reply.bulk(consumer.name);
            integer(reply, "seen-time", consumer.seen as usize);
            integer(reply, "pel-count", owned);
            reply.bulk(b"pending");
            let deferred = reply.defer(owned.min(shown));
            let mut len = 0;
            for pending in
                group.owned_from(consumer.name, StreamId::MIN).filter_map(|id| group.pending(id)).take(shown)
            {
                reply.array(3);
                write_id(reply, pending.id);
                reply.integer(pending.delivered as i64);
                reply.integer(pending.deliveries as i64);
                len += 1;
            }
            reply.finish_array(deferred, len);
        }
    }
}

/// The name of a group, and how far it has read.
fn show_group(reply: &mut Writer<'_>, stream: StreamRef<'_>, head: &StreamHead, group: GroupRef<'_>) {
    let state = group.state();
    reply.bulk(b"name");
    reply.bulk(group.name());
    named_id(reply, "last-delivered-id", state.last_id);
    integer_or_null(reply, "entries-read", state.entries_read.map(|read| read as i64));
    integer_or_null(reply, "lag", lag_of(stream, head, &state));
}

fn groups<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let stream = cx.stream(args.at(2))?.ok_or(CommandError::NoSuchKey)?;
    let (head, groups) = (stream.head(), stream.groups());
    let reply = &mut cx.reply;
    reply.array(groups.len());
    for group in groups {
        let state = group.state();
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(group.name());
        integer(reply, "consumers", group.consumer_count());
        integer(reply, "pending", group.pending_count());
        named_id(reply, "last-delivered-id", state.last_id);
        integer_or_null(reply, "entries-read", state.entries_read.map(|read| read as i64));
        integer_or_null(reply, "lag", lag_of(stream, &head, &state));
    }
    Ok(())
}

fn consumers<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, name) = (args.at(2), args.at(3));
    let stream = cx.stream(key)?.ok_or(CommandError::NoSuchKey)?;
    let group = stream.group(name).ok_or_else(|| no_group(key, name))?;
    let now = cx.now();
    cx.reply.array(group.consumer_count());
    for consumer in group.consumers() {
        let reply = &mut cx.reply;
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(consumer.name);
        integer(reply, "pending", group.owned_count(consumer.name));
        integer(reply, "idle", now.saturating_sub(consumer.seen) as usize);
    }
    Ok(())
}
