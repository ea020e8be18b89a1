//! One call of a command: counted, timed, and noted if it was slow.

use crate::client::{After, Client};
use crate::command::{Command, Flags};
use crate::error::CommandError;
use crate::shared::Shared;
use crate::stats;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tarn_engine::record::UnixMs;
use tarn_resp::request::Args;

/// One of so many calls of a quick command is timed.
const SAMPLE: u64 = 16;
/// Commands that are quick if their arguments are short.
const QUICK: Flags = Flags::FAST.with(Flags::STEADY);
/// Arguments, and bytes of them, that can be stored in some microseconds.
const SHORT_ARGS: usize = 16;
const SHORT_BYTES: usize = 64 << 10;

/// A call of a command.
pub struct Call<'e> {
    /// The server.
    pub server: &'e Shared,
    /// Number of the worker.
    pub worker: usize,
    /// The time that the command takes for now.
    pub now: UnixMs,
    /// The command.
    pub command: &'static Command,
    /// The slot of its counters.
    pub slot: usize,
}

impl Call<'_> {
    /// Makes the call and counts it. Fast commands with short arguments are timed by sample: reading a clock
    /// costs as much as some of them.
    pub fn run<T>(
        self,
        client: &mut Client,
        args: Args<'_>,
        run: impl FnOnce(&mut Client) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        let Call { server, worker, now, command, slot } = self;
        let counter = &server.stats.workers[worker].commands[slot];
        let calls = counter.calls.load(Ordering::Relaxed);
        counter.calls.store(calls + 1, Ordering::Relaxed);
        let slow_us = server.live.slow_us();
        let short = args.len() <= SHORT_ARGS && args.total_bytes() < SHORT_BYTES;
        let quick = short && command.flags.has_any(QUICK);
        let weight = if quick && !(0..1000).contains(&slow_us) { SAMPLE } else { 1 };
        let began = calls.is_multiple_of(weight).then(Instant::now);
        let result = run(client);
        if let Some(began) = began {
            let took = began.elapsed();
            let nanos = took.as_nanos() as u64;
            stats::add(&counter.nanos, nanos * weight);
            if server.live.tracks_latency() {
                counter.latencies.note(nanos, weight);
            }
            if slow_us >= 0
                && took.as_micros() >= slow_us as u128
                && !command.flags.has(Flags::SKIP_SLOWLOG)
                && !matches!(client.after, After::Block(_))
            {
                let name = client.handle.info.lock().name.clone();
                let (took_us, addr) = (took.as_micros() as u64, client.handle.addr.clone());
                server.slowlog.push(args, now / 1000, took_us, addr, name);
            }
        }
        if result.is_err() {
            stats::add(&counter.failed, 1);
        }
        result
    }
}
