//! Commands that publish messages, and that subscribe to channels.

use tarn_resp::Args;

use crate::commands::help::unknown_container;
use crate::error::{CommandError, printable};
use crate::execute::client::Client;
use crate::execute::command::{Command, Run, row};
use crate::execute::context::Context;
use crate::execute::spec::{Flags, KeySpec};
use crate::glob::is_everything;
use crate::pubsub::{Kind, Publication, Staged, Subscriptions};

const ANY_TIME: Flags = Flags::PUBSUB.with(Flags::LOADING).with(Flags::STALE);
const SUBSCRIBES: Flags = ANY_TIME.with(Flags::NOSCRIPT).with(Flags::AMONG_MESSAGES);
const PUBLISHES: Flags = ANY_TIME.with(Flags::FAST).with(Flags::MAY_REPLICATE);
/// As Redis tells clients of a cluster; no key is latched for a channel.
const NO_KEY: &[&str] = &["not_key"];

const fn sub(
    name: &'static str,
    arity: i32,
    since: &'static str,
    summary: &'static str,
    run: Run,
) -> Command {
    row(name, arity, ANY_TIME, since, summary, run)
}

const LINEAR: &str = "O(N), N being the number of channels";

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("publish", 3, PUBLISHES, "2.0.0", "Sends a message to all that read the channel.", publish)
        .complexity("O(N+M), N being the clients that read the channel and M all patterns that are read"),
    row("spublish", 3, PUBLISHES, "7.0.0", "Sends a message to a channel of shards.", spublish)
        .channels(&[KeySpec::one(NO_KEY)])
        .complexity("O(N), N being the clients that read the channel"),
    row("subscribe", -2, SUBSCRIBES, "2.0.0", "Reads the messages to these channels.", subscribe)
        .complexity(LINEAR),
    row("psubscribe", -2, SUBSCRIBES, "2.0.0", "Reads the messages to all channels that match.", psubscribe)
        .complexity(LINEAR),
    row("ssubscribe", -2, SUBSCRIBES, "7.0.0", "Reads the messages to these channels of shards.", ssubscribe)
        .channels(&[KeySpec::all(1, NO_KEY)])
        .complexity(LINEAR),
    row("unsubscribe", -1, SUBSCRIBES, "2.0.0", "Reads these channels no longer, or none.", unsubscribe)
        .complexity(LINEAR),
    row("punsubscribe", -1, SUBSCRIBES, "2.0.0", "Reads what matches no longer, or nothing.", punsubscribe)
        .complexity(LINEAR),
    row(
        "sunsubscribe",
        -1,
        SUBSCRIBES,
        "7.0.0",
        "Reads these channels of shards no longer, or none.",
        sunsubscribe,
    )
    .channels(&[KeySpec::all(1, NO_KEY)])
    .complexity(LINEAR),
    row(
        "pubsub",
        -2,
        Flags::NONE,
        "2.8.0",
        "A container for commands about channels and who reads them.",
        unknown_container,
    )
    .subcommands(&[
        sub("channels", -2, "2.8.0", "Lists the channels that are read.", channels).complexity(LINEAR),
        row("help", 2, Flags::LOADING.with(Flags::STALE), "6.2.0", "Lists the subcommands.", help),
        sub("numpat", 2, "2.8.0", "Counts the patterns that are read.", numpat),
        sub("numsub", -2, "2.8.0", "Counts the clients that read each of these channels.", numsub)
            .complexity(LINEAR),
        sub("shardchannels", -2, "7.0.0", "Lists the channels of shards that are read.", shardchannels)
            .complexity(LINEAR),
        sub("shardnumsub", -2, "7.0.0", "The same as NUMSUB for channels of shards.", shardnumsub)
            .complexity(LINEAR),
    ]),
];

fn publish<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    publish_to(cx, Kind::Channel, args)
}

fn spublish<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    publish_to(cx, Kind::Shard, args)
}

fn publish_to(cx: &mut Context<'_, '_>, kind: Kind, args: Args<'_>) -> Result<(), CommandError> {
    let (channel, payload) = (args.at(1), args.at(2));
    let Client { worker, denies_waiting, staged, seen, .. } = cx.client;
    let receivers = if *denies_waiting {
        let receivers = cx.server.pubsub.receivers(kind, channel);
        if receivers > 0 {
            let publication = Publication { kind, channel: channel.into(), payload: payload.into() };
            staged.push(Staged::Message(publication));
        }
        receivers
    } else {
        cx.server.pubsub.publish(kind, channel, payload, *seen, Some(*worker))
    };
    cx.reply.integer(receivers as i64);
    Ok(())
}

fn subscribe<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    subscribe_to(cx, Kind::Channel, args)
}

fn psubscribe<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    subscribe_to(cx, Kind::Pattern, args)
}

fn ssubscribe<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    subscribe_to(cx, Kind::Shard, args)
}

/// The first word of a confirmation.
fn word_of(kind: Kind, subscribes: bool) -> &'static [u8] {
    match (kind, subscribes) {
        (Kind::Channel, true) => b"subscribe",
        (Kind::Channel, false) => b"unsubscribe",
        (Kind::Pattern, true) => b"psubscribe",
        (Kind::Pattern, false) => b"punsubscribe",
        (Kind::Shard, true) => b"ssubscribe",
        (Kind::Shard, false) => b"sunsubscribe",
    }
}

/// How many subscriptions of the kinds that count together a client has.
fn left(subscriptions: &Subscriptions, kind: Kind) -> i64 {
    let count = match kind {
        Kind::Shard => subscriptions.count(Kind::Shard),
        Kind::Channel | Kind::Pattern => {
            subscriptions.count(Kind::Channel) + subscriptions.count(Kind::Pattern)
        }
    };
    count as i64
}

fn subscribe_to(cx: &mut Context<'_, '_>, kind: Kind, args: Args<'_>) -> Result<(), CommandError> {
    cx.client.force_reply();
    let subscriptions = cx.client.subscriptions.get_or_insert_default();
    for name in args.tail(1) {
        cx.server.pubsub.subscribe(&cx.client.handle, subscriptions, kind, name);
        cx.reply.push(3);
        cx.reply.bulk(word_of(kind, true));
        cx.reply.bulk(name);
        cx.reply.integer(left(subscriptions, kind));
    }
    let bytes = subscriptions.bytes();
    cx.client.look_again_if_rules_have_changed(&cx.server.acl);
    if bytes as u64 > cx.server.live.query_buffer_limit_bytes() {
        cx.client.close_for("the channels that it reads are longer than client-query-buffer-limit");
    }
    Ok(())
}

fn unsubscribe<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    unsubscribe_from(cx, Kind::Channel, args)
}

fn punsubscribe<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    unsubscribe_from(cx, Kind::Pattern, args)
}

fn sunsubscribe<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    unsubscribe_from(cx, Kind::Shard, args)
}

fn unsubscribe_from(cx: &mut Context<'_, '_>, kind: Kind, args: Args<'_>) -> Result<(), CommandError> {
    cx.client.force_reply();
    let subscriptions = cx.client.subscriptions.get_or_insert_default();
    let mut confirm = |name: Option<&[u8]>, subscriptions: &Subscriptions| {
        cx.reply.push(3);
        cx.reply.bulk(word_of(kind, false));
        match name {
            Some(name) => cx.reply.bulk(name),
            None => cx.reply.null(),
        }
        cx.reply.integer(left(subscriptions, kind));
    };
    let all: Vec<Box<[u8]>> = match args.len() {
        1 => subscriptions.names(kind).map(Box::from).collect(),
        _ => args.tail(1).iter().map(Box::from).collect(),
    };
    for name in &all {
        cx.server.pubsub.unsubscribe(&cx.client.handle, subscriptions, kind, name);
        confirm(Some(name), subscriptions);
    }
    if all.is_empty() {
        confirm(None, subscriptions);
    }
    if subscriptions.is_empty() {
        cx.client.subscriptions = None;
    }
    Ok(())
}

/// The error of a subcommand that Redis gives no row of its own.
fn refuse(args: Args<'_>) -> CommandError {
    CommandError::owned(format!(
        "ERR unknown subcommand or wrong number of arguments for '{}'. Try PUBSUB HELP.",
        printable(args.at(1))
    ))
}

fn channels<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    list(cx, Kind::Channel, args)
}

fn shardchannels<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    list(cx, Kind::Shard, args)
}

fn list(cx: &mut Context<'_, '_>, kind: Kind, args: Args<'_>) -> Result<(), CommandError> {
    if args.len() > 3 {
        return Err(refuse(args));
    }
    let pattern = args.get(2).filter(|pattern| !is_everything(pattern));
    let channels = cx.server.pubsub.channels(kind, pattern);
    cx.reply.array(channels.len());
    channels.iter().for_each(|channel| cx.reply.bulk(channel));
    Ok(())
}

fn numsub<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    count(cx, Kind::Channel, args)
}

fn shardnumsub<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    count(cx, Kind::Shard, args)
}

fn count(cx: &mut Context<'_, '_>, kind: Kind, args: Args<'_>) -> Result<(), CommandError> {
    cx.reply.array(2 * (args.len() - 2));
    for channel in args.tail(2) {
        cx.reply.bulk(channel);
        cx.reply.integer(cx.server.pubsub.readers(kind, channel) as i64);
    }
    Ok(())
}

fn numpat<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    cx.reply.integer(cx.server.pubsub.count(Kind::Pattern) as i64);
    Ok(())
}

fn help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    crate::commands::help::help(cx, "PUBSUB");
    Ok(())
}
