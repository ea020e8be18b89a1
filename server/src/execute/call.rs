//! One call of a command: counted, timed, and noted if it was slow.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tarn_engine::record::UnixMs;
use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::client::{After, Client};
use crate::execute::command::Command;
use crate::execute::spec::Flags;
use crate::execute::steps::Rest;
use crate::net::address::Address;
use crate::observe::counter::add;
use crate::observe::slowlog::SlowLog;
use crate::observe::stats::CommandCounter;
use crate::observe::stopwatch::{Stopwatch, tick_us};
use crate::shared::Shared;

/// One of so many calls of a quick command is timed.
const SAMPLE: u64 = 16;
/// Commands that are quick if their arguments are short.
const QUICK: Flags = Flags::FAST.with(Flags::STEADY);
/// Arguments, and bytes of them, that can be stored in some microseconds.
const SHORT_ARGS: usize = 16;
const SHORT_BYTES: usize = 64 << 10;

/// Bytes that clients put around an argument at most: `$`, its length in digits, and twice the end of a line.
const AROUND_ARG_MAX: usize = 1 + 20 + 4;

/// A call of a command that is under way.
#[must_use = "a call that is not finished is not timed"]
pub(crate) struct Call<'e> {
    server: &'e Shared,
    watch: &'e Stopwatch,
    counter: &'e CommandCounter,
    command: &'static Command,
    /// The slot of its counters.
    slot: usize,
    /// Calls before this one.
    calls: u64,
    /// The time of this call stands for this many calls.
    weight: u64,
    /// Microseconds from which on a command is slow; negative: none is.
    slow_us: i64,
    /// When it began, if it is timed.
    began: Option<Instant>,
    /// The time for which it ran before, to prepare a value.
    before: Duration,
}

impl<'e> Call<'e> {
    /// Counts a call if it is new, and starts to time it. One that ran `before` to prepare a value is not.
    /// A look of one that waits is not, either. Fast commands with short arguments are timed by sample, as
    /// reading a clock costs as much as some of them; those that are slow are found all the same.
    #[inline]
    pub(crate) fn begin(
        server: &'e Shared,
        worker: usize,
        command: &'static Command,
        slot: usize,
        args: Args<'_>,
        before: Option<Duration>,
        is_new: bool,
    ) -> Call<'e> {
        let stats = &server.stats.workers[worker];
        let counter = &stats.commands[slot];
        let calls = counter.calls.load(Ordering::Relaxed);
        counter.calls.store(calls + u64::from(is_new), Ordering::Relaxed);
        let slow_us = server.live.slow_us();
        let short = args.len() <= SHORT_ARGS && args.total_bytes() < SHORT_BYTES;
        let quick = short && command.flags.has_any(QUICK) && before.is_none() && is_new;
        let weight = if quick && !(0..tick_us()).contains(&slow_us) { SAMPLE } else { 1 };
        let began = calls.is_multiple_of(weight).then(Instant::now);
        let before = before.unwrap_or_default();
        Call {
            server,
            watch: &stats.stopwatch,
            counter,
            command,
            slot,
            calls,
            weight,
            slow_us,
            began,
            before,
        }
    }

    /// Ends the call: notes how long it took, whether it was slow, and whether it failed. `now` is the time
    /// of the command.
    #[inline]
    pub(crate) fn finish<T>(
        self,
        client: &Client,
        args: Args<'_>,
        now: UnixMs,
        result: &Result<T, CommandError>,
    ) {
        let Call { server, watch, counter, command, slot, calls, weight, slow_us, began, before } = self;
        if matches!(result, Err(CommandError::GateBusy | CommandError::LogBehind | CommandError::Unprepared))
        {
            // It has changed nothing, and is run again.
            counter.calls.store(calls, Ordering::Relaxed);
            return;
        }
        if matches!(client.after, After::Steps(_)) && result.is_ok() {
            // Noted when the steps have run.
            return;
        }
        let took = match began {
            Some(began) => {
                let ended = Instant::now();
                watch.note(ended);
                let took = ended.duration_since(began);
                let nanos = took.as_nanos() as u64;
                add(&counter.nanos, nanos * weight);
                let goes_on = matches!(client.after, After::Block(_) | After::Postpone);
                if server.live.tracks_latency() && !goes_on {
                    counter.latencies.note(nanos + before.as_nanos() as u64, weight);
                }
                Some(took + before)
            }
            None if slow_us < 0 => None,
            None => watch.look(),
        };
        if let Some(took) = took
            && slow_us >= 0
            && took.as_micros() >= slow_us as u128
            && !command.flags.has(Flags::SKIP_SLOWLOG)
            && !matches!(client.after, After::Block(_))
        {
            note_slow(server, client, (slot, args), now, took);
        }
        if result.is_err() {
            add(&counter.failed, 1);
        }
    }
}

/// A request, behind the slot of its command.
type Slotted<'a> = (usize, Args<'a>);

fn note_slow(server: &Shared, client: &Client, (slot, args): Slotted<'_>, now: UnixMs, took: Duration) {
    let (command, took_us) = (server.acl.catalog().name(slot), took.as_micros() as u64);
    server.slowlog.push(command, args, now / 1000, took_us, named(client));
}

/// The address and the name of a client.
fn named(client: &Client) -> (Address, String) {
    (client.handle.addr.clone(), client.handle.info.lock().name.clone())
}

/// Notes a request whose arguments, or whose reply, are large.
#[inline]
pub(crate) fn note_large(
    server: &Shared,
    client: &Client,
    request: Slotted<'_>,
    now: UnixMs,
    reply_bytes: usize,
) {
    let (slot, args) = request;
    let live = &server.live;
    // Nearly all are told from large ones without counting digits.
    if live.is_large_request(encoded_len_max(args)) {
        let request_bytes = encoded_len(args);
        if live.is_large_request(request_bytes) {
            push_large(server, &server.large_requests, client, (slot, args), now, request_bytes);
        }
    }
    if live.is_large_reply(reply_bytes) {
        push_large(server, &server.large_replies, client, (slot, args), now, reply_bytes);
    }
}

#[cold]
fn push_large(
    server: &Shared,
    log: &SlowLog,
    client: &Client,
    (slot, args): Slotted<'_>,
    now: UnixMs,
    bytes: usize,
) {
    log.push(server.acl.catalog().name(slot), args, now / 1000, bytes as u64, named(client));
}

/// No fewer than `encoded_len`.
fn encoded_len_max(args: Args<'_>) -> usize {
    args.total_bytes() + (args.len() + 1) * AROUND_ARG_MAX
}

/// Bytes of a request as clients encode it, `*` and `$` with their numbers among them.
fn encoded_len(args: Args<'_>) -> usize {
    let digits = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 1;
    let head = |number: usize| digits(number) + 3;
    head(args.len()) + args.iter().map(|arg| head(arg.len()) + arg.len() + 2).sum::<usize>()
}

/// Notes the time of a call whose rest has run in steps, whether it was slow, and whether it failed.
pub(crate) fn note_rest(server: &Shared, worker: usize, client: &Client, rest: &Rest, now: UnixMs) {
    let Some((flags, slot, args, took)) = rest.call() else { return };
    let counter = &server.stats.workers[worker].commands[slot];
    let nanos = took.as_nanos() as u64;
    add(&counter.nanos, nanos);
    if rest.runs_again() {
        // Noted as a whole when it has.
        return;
    }
    if !flags.has(Flags::SKIP_SLOWLOG) {
        note_large(server, client, (slot, args), now, rest.replied);
    }
    if server.live.tracks_latency() {
        counter.latencies.note(nanos, 1);
    }
    let slow_us = server.live.slow_us();
    if slow_us >= 0 && took.as_micros() >= slow_us as u128 && !flags.has(Flags::SKIP_SLOWLOG) {
        note_slow(server, client, (slot, args), now, took);
    }
    add(&counter.failed, u64::from(rest.has_failed));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands;
    use crate::config::{Config, ConfigStore};
    use crate::net::handle::ClientHandle;
    use std::sync::Arc;
    use tarn_resp::OwnedArgs;

    #[test]
    fn every_slow_call_of_a_fast_command_is_in_the_slow_log() {
        let config = Arc::new(ConfigStore::new(Config::default(), None));
        let server = Shared::new(config, commands::catalog());
        let address = Address::Unix("test".into());
        let handle = ClientHandle::new(1, address.clone(), address, 0);
        let client = Client::new(Arc::new(handle), true);
        let found = commands::table().find(b"get").expect("it is there");
        let args: OwnedArgs = ["GET", "k"].into_iter().collect();
        let call = |takes: Duration| {
            let call = Call::begin(&server, 0, found.command, found.slot, args.as_args(), None, true);
            std::thread::sleep(takes);
            call.finish(&client, args.as_args(), 0, &Ok(()));
        };
        server.stats.workers[0].stopwatch.start(Instant::now());
        let slow = Duration::from_micros(server.live.slow_us() as u64);
        for _ in 0..20 {
            call(slow);
        }
        assert_eq!(server.slowlog.len(), 20);
        let newest = server.slowlog.newest(100);
        assert!(newest.iter().all(|entry| entry.amount >= slow.as_micros() as u64));
    }

    #[test]
    fn the_length_of_a_request_is_that_of_its_encoding() {
        for args in [&["GET", "k"][..], &["SET", "k", &"x".repeat(1000)], &["ECHO", ""], &["A"; 12]] {
            let owned: OwnedArgs = args.iter().copied().collect();
            let parts: String = args.iter().map(|arg| format!("${}\r\n{arg}\r\n", arg.len())).collect();
            assert_eq!(encoded_len(owned.as_args()), format!("*{}\r\n{parts}", args.len()).len());
            assert!(encoded_len(owned.as_args()) <= encoded_len_max(owned.as_args()));
        }
    }

    #[test]
    fn what_runs_within_a_slow_call_does_not_hide_it() {
        let config = Arc::new(ConfigStore::new(Config::default(), None));
        let server = Shared::new(config, commands::catalog());
        let address = Address::Unix("test".into());
        let client = Client::new(Arc::new(ClientHandle::new(1, address.clone(), address, 0)), true);
        let found = commands::table().find(b"lpush").expect("it is there");
        let args: OwnedArgs = ["LPUSH", "k", "v"].into_iter().collect();
        let watch = &server.stats.workers[0].stopwatch;
        watch.start(Instant::now());
        let slow = Duration::from_micros(server.live.slow_us() as u64);
        for _ in 0..20 {
            let call = Call::begin(&server, 0, found.command, found.slot, args.as_args(), None, true);
            std::thread::sleep(slow);
            // As for a waiter that it serves.
            let mark = watch.mark();
            watch.look();
            watch.note(Instant::now());
            watch.go_back_to(mark);
            call.finish(&client, args.as_args(), 0, &Ok(()));
        }
        assert_eq!(server.slowlog.len(), 20);
    }

    #[test]
    fn a_look_of_one_that_waits_stands_for_itself() {
        let config = Arc::new(ConfigStore::new(Config::default(), None));
        let server = Shared::new(config, commands::catalog());
        let address = Address::Unix("test".into());
        let client = Client::new(Arc::new(ClientHandle::new(1, address.clone(), address, 0)), true);
        let found = commands::table().find(b"bzpopmin").expect("it is there");
        let args: OwnedArgs = ["BZPOPMIN", "k", "0"].into_iter().collect();
        let counter = &server.stats.workers[0].commands[found.slot];
        let look = |is_new| {
            let call = Call::begin(&server, 0, found.command, found.slot, args.as_args(), None, is_new);
            assert!(is_new || call.weight == 1 && call.began.is_some());
            call.finish(&client, args.as_args(), 0, &Ok(()));
        };
        look(false);
        look(true);
        look(false);
        assert_eq!(counter.calls.load(Ordering::Relaxed), 1);
    }
}
