//! Entries that consumers of a group got and did not acknowledge: looked at, and given to others.

use std::collections::HashMap;

use tarn_engine::value::StreamRef;
use tarn_engine::value::stream::{Consumer, GroupRef, GroupState, Pending, StreamId, element};
use tarn_resp::{Args, parse_i64};

use super::stream_args::{id, interval, start, write_id};
use super::stream_budget::{Budget, check_names};
use super::stream_groups::no_key_or_group;
use super::streams::{count, write_entry};
use crate::error::{CommandError, printable};
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

/// Pending entries that `XAUTOCLAIM` looks at for each that it may claim.
const ATTEMPTS: usize = 10;
/// The most that it may be asked to claim.
const CLAIMS_MAX: i64 = i64::MAX / 16;

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("xpending", -3, Flags::READONLY, "5.0.0", "Tells of entries that are not acknowledged.", xpending)
        .keys(&[KeySpec::one(&["RO", "access"])])
        .complexity("O(N) with N being the number of entries or consumers looked at"),
    row(
        "xclaim",
        -6,
        Flags::WRITE.with(Flags::FAST),
        "5.0.0",
        "Gives pending entries to a consumer.",
        xclaim,
    )
    .keys(&[KeySpec::one(&["RW", "update"])])
    .complexity("O(log N) for each entry"),
    row(
        "xautoclaim",
        -6,
        Flags::WRITE.with(Flags::FAST),
        "6.2.0",
        "Gives entries to a consumer that are pending for long.",
        xautoclaim,
    )
    .keys(&[KeySpec::one(&["RW", "delete"])])
    .complexity("O(log N) for each entry looked at"),
];

/// The stream and the group at a key.
fn found<'c>(
    cx: &Context<'c, '_>,
    key: &[u8],
    name: &'c [u8],
) -> Result<(StreamRef<'c>, GroupRef<'c>), CommandError> {
    let stream = cx.stream(key)?;
    let found = stream.and_then(|stream| Some((stream, stream.group(name)?)));
    found.ok_or_else(|| no_key_or_group(key, name))
}

fn xpending<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, name) = (args.at(1), args.at(2));
    if args.len() == 3 {
        let (_, group) = found(cx, key, name)?;
        summarize(cx, group);
        return Ok(());
    }
    if args.len() < 6 || args.len() > 9 {
        return Err(CommandError::Syntax);
    }
    let (mut at, mut min_idle) = (3, 0);
    if args.at(3).eq_ignore_ascii_case(b"idle") {
        min_idle = parse::integer(args.at(4))?;
        if args.len() < 8 {
            return Err(CommandError::Syntax);
        }
        at = 5;
    }
    let count = count(args.at(at + 2))?;
    let ids = interval(args.at(at), args.at(at + 1))?;
    let wanted = args.get(at + 3);
    let (_, group) = found(cx, key, name)?;
    let now = cx.now();
    let deferred = cx.reply.defer(count.min(9));
    let mut len = 0;
    let mut write = |pending: Pending<'_>| {
        let idle = idle(now, &pending);
        if min_idle != 0 && idle < min_idle {
            return false;
        }
        cx.reply.array(4);
        write_id(&mut cx.reply, pending.id);
        cx.reply.bulk(pending.consumer);
        cx.reply.integer(idle.max(0));
        cx.reply.integer(pending.deliveries as i64);
        len += 1;
        true
    };
    let mut left = count;
    match wanted {
        Some(consumer) => {
            let owned = group.owned_from(consumer, *ids.start()).take_while(|id| id <= ids.end());
            for pending in owned.filter_map(|id| group.pending(id)) {
                if left == 0 {
                    break;
                }
                left -= usize::from(write(pending));
            }
        }
        None => {
            for pending in group.pending_from(*ids.start()).take_while(|it| it.id <= *ids.end()) {
                if left == 0 {
                    break;
                }
                left -= usize::from(write(pending));
            }
        }
    }
    cx.reply.finish_array(deferred, len);
    Ok(())
}

/// For how many milliseconds nobody got an entry; a payload may say that somebody did after now.
fn idle(now: u64, pending: &Pending<'_>) -> i64 {
    (now as i64).saturating_sub(i64::try_from(pending.delivered).unwrap_or(i64::MAX))
}

fn summarize(cx: &mut Context<'_, '_>, group: GroupRef<'_>) {
    let first = group.pending_from(StreamId::MIN).next();
    let ends = first.and_then(|first| Some((first.id, group.last_pending()?.id)));
    cx.reply.array(4);
    cx.reply.integer(group.pending_count() as i64);
    let Some((first, last)) = ends else {
        cx.reply.null();
        cx.reply.null();
        cx.reply.null_array();
        return;
    };
    write_id(&mut cx.reply, first);
    write_id(&mut cx.reply, last);
    let deferred = cx.reply.defer(group.consumer_count());
    let mut len = 0;
    for consumer in group.consumers() {
        let owned = group.owned_count(consumer.name);
        if owned > 0 {
            cx.reply.array(2);
            cx.reply.bulk(consumer.name);
            cx.reply.bulk_integer(owned as i64);
            len += 1;
        }
    }
    cx.reply.finish_array(deferred, len);
}

/// A number that an option says, or the error that names it.
fn number_of(option: &str, text: &[u8]) -> Result<i64, CommandError> {
    parse_i64(text)
        .ok_or_else(|| CommandError::owned(format!("ERR Invalid {option} option argument for XCLAIM")))
}

/// The options of `XCLAIM`.
#[derive(Default)]
struct ClaimOptions {
    forces: bool,
    only_ids: bool,
    delivered: Option<i64>,
    deliveries: Option<i64>,
    last_id: StreamId,
}

impl ClaimOptions {
    fn parse(args: Args<'_>, mut at: usize, now: u64) -> Result<ClaimOptions, CommandError> {
        let mut options = ClaimOptions::default();
        while at < args.len() {
            let is = |option: &str| args.at(at).eq_ignore_ascii_case(option.as_bytes());
            let more = args.get(at + 1);
            let passed = match more {
                _ if is("force") => {
                    options.forces = true;
                    1
                }
                _ if is("justid") => {
                    options.only_ids = true;
                    1
                }
                Some(value) if is("idle") => {
                    options.delivered = Some((now as i64).wrapping_sub(number_of("IDLE", value)?));
                    2
                }
                Some(value) if is("time") => {
                    options.delivered = Some(number_of("TIME", value)?);
                    2
                }
                Some(value) if is("retrycount") => {
                    options.deliveries = Some(number_of("RETRYCOUNT", value)?);
                    2
                }
                Some(value) if is("lastid") => {
                    options.last_id = id(value)?;
                    2
                }
                _ => {
                    let option = printable(args.at(at));
                    return Err(CommandError::owned(format!("ERR Unrecognized XCLAIM option '{option}'")));
                }
            };
            at += passed;
        }
        Ok(options)
    }

    /// When entries are said to have been delivered: not after now.
    fn delivered(&self, now: u64) -> u64 {
        self.delivered.and_then(|at| u64::try_from(at).ok()).filter(|at| *at <= now).unwrap_or(now)
    }
}

/// Gives pending entries of a group to a consumer.
struct Claims<'c, 'a> {
    key: &'a [u8],
    name: &'a [u8],
    group: GroupRef<'c>,
    consumer: &'a [u8],
    has_claimed: bool,
}

impl<'a> Claims<'_, 'a> {
    fn claim(&mut self, cx: &mut Context<'_, 'a>, pending: &Pending<'_>) {
        cx.write(self.key, element::put_pending(self.name, pending));
        self.has_claimed = true;
    }

    /// Notes that the consumer got something.
    fn finish(&self, cx: &mut Context<'_, 'a>) {
        if self.has_claimed {
            let now = cx.now();
            let consumer = Consumer { name: self.consumer, seen: now, active: Some(now) };
            cx.write(self.key, element::put_consumer(self.group.name(), &consumer));
        }
    }
}

fn xclaim<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, name, consumer) = (args.at(1), args.at(2), args.at(3));
    let (stream, group) = found(cx, key, name)?;
    check_names(name, consumer)?;
    const INVALID: CommandError = CommandError::text("ERR Invalid min-idle-time argument for XCLAIM");
    let min_idle = parse_i64(args.at(4)).ok_or(INVALID)?.max(0);
    let ids: Vec<StreamId> = args.tail(5).iter().map_while(|text| id(text).ok()).collect();
    let now = cx.now();
    let options = ClaimOptions::parse(args, 5 + ids.len(), now)?;
    let delivered = options.delivered(now);
    if options.last_id > group.state().last_id {
        let state = GroupState { last_id: options.last_id, ..group.state() };
        cx.write(key, element::put_group(name, &state));
    }
    let mut claims = Claims { key, name, group, consumer, has_claimed: false };
    let deferred = cx.reply.defer(ids.len());
    let mut len = 0;
    let mut budget = Budget::new(cx, name, consumer);
    // An ID may come twice.
    let mut seen = HashMap::new();
    for id in ids {
        let before: Option<Pending<'_>> = seen.get(&id).copied().unwrap_or_else(|| group.pending(id));
        budget.take_one()?;
        let Some(entry) = stream.get(id) else {
            if before.is_some() {
                cx.write(key, element::remove_pending(name, id));
                seen.insert(id, None);
            }
            continue;
        };
        let deliveries = match before {
            Some(before) if min_idle > 0 && idle(now, &before) < min_idle => continue,
            Some(before) => before.deliveries,
            None if options.forces => 1,
            None => continue,
        };
        let deliveries = match options.deliveries.and_then(|count| u64::try_from(count).ok()) {
            Some(count) => count,
            None => deliveries.saturating_add(u64::from(!options.only_ids)),
        };
        let pending = Pending { id, consumer, delivered, deliveries };
        claims.claim(cx, &pending);
        seen.insert(id, Some(pending));
        match options.only_ids {
            true => write_id(&mut cx.reply, id),
            false => write_entry(&mut cx.reply, &entry),
        }
        len += 1;
    }
    cx.reply.finish_array(deferred, len);
    claims.finish(cx);
    Ok(())
}

fn xautoclaim<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, name, consumer) = (args.at(1), args.at(2), args.at(3));
    const INVALID: CommandError = CommandError::text("ERR Invalid min-idle-time argument for XAUTOCLAIM");
    let min_idle = parse_i64(args.at(4)).ok_or(INVALID)?.max(0);
    let from = start(args.at(5))?;
    let (mut most, mut only_ids) = (100, false);
    let mut at = 6;
    while at < args.len() {
        if args.at(at).eq_ignore_ascii_case(b"count") && at + 1 < args.len() {
            const NO_COUNT: CommandError = CommandError::text("ERR COUNT must be > 0");
            let count = parse::integer_or(args.at(at + 1), "ERR COUNT must be > 0")?;
            most =
                usize::try_from(count).ok().filter(|_| (1..=CLAIMS_MAX).contains(&count)).ok_or(NO_COUNT)?;
            at += 2;
        } else if args.at(at).eq_ignore_ascii_case(b"justid") {
            only_ids = true;
            at += 1;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    let (stream, group) = found(cx, key, name)?;
    check_names(name, consumer)?;
    let now = cx.now();
    let mut budget = Budget::new(cx, name, consumer);
    let mut claims = Claims { key, name, group, consumer, has_claimed: false };
    let mut pending = group.pending_from(from).peekable();
    let (mut claimed, mut gone) = (Vec::new(), Vec::new());
    for _ in 0..most.saturating_mul(ATTEMPTS) {
        let done = claimed.len() + gone.len();
        if done == most || !budget.takes_one() && done > 0 {
            break;
        }
        let Some(next) = pending.next() else { break };
        let Some(entry) = stream.get(next.id) else {
            cx.write(key, element::remove_pending(name, next.id));
            gone.push(next.id);
            continue;
        };
        if min_idle > 0 && idle(now, &next) < min_idle {
            continue;
        }
        let deliveries = next.deliveries.saturating_add(u64::from(!only_ids));
        claims.claim(cx, &Pending { consumer, delivered: now, deliveries, ..next });
        claimed.push(entry);
    }
    let goes_on = pending.peek().map_or(StreamId::MIN, |next| next.id);
    cx.reply.array(3);
    write_id(&mut cx.reply, goes_on);
    cx.reply.array(claimed.len());
    for entry in &claimed {
        match only_ids {
            true => write_id(&mut cx.reply, entry.id),
            false => write_entry(&mut cx.reply, entry),
        }
    }
    cx.reply.array(gone.len());
    gone.iter().for_each(|id| write_id(&mut cx.reply, *id));
    claims.finish(cx);
    Ok(())
}
