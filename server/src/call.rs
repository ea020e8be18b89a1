//! One call of a command: counted, timed, and noted if it was slow.

use crate::client::{After, Client};
use crate::command::{Command, Flags};
use crate::error::CommandError;
use crate::shared::Shared;
use crate::stats;
use crate::stopwatch::tick_us;
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
    /// Makes the call and counts it. The times of fast commands with short arguments are counted by sample,
    /// as reading a clock costs as much as some of them; those that are slow are found all the same.
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
        let weight = if quick && !(0..tick_us()).contains(&slow_us) { SAMPLE } else { 1 };
        let watch = &server.stats.workers[worker].stopwatch;
        let began = calls.is_multiple_of(weight).then(Instant::now);
        let result = run(client);
        if matches!(result, Err(CommandError::GateBusy)) {
            // It has done nothing, and is run again.
            counter.calls.store(calls, Ordering::Relaxed);
            return result;
        }
        let took = match began {
            Some(began) => {
                let ended = Instant::now();
                watch.note(ended);
                let took = ended.duration_since(began);
                let nanos = took.as_nanos() as u64;
                stats::add(&counter.nanos, nanos * weight);
                if server.live.tracks_latency() {
                    counter.latencies.note(nanos, weight);
                }
                Some(took)
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
            let name = client.handle.info.lock().name.clone();
            let (took_us, addr) = (took.as_micros() as u64, client.handle.addr.clone());
            server.slowlog.push(args, now / 1000, took_us, addr, name);
        }
        if result.is_err() {
            stats::add(&counter.failed, 1);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accept::AcceptorHandle;
    use crate::address::Address;
    use crate::client::ClientHandle;
    use crate::commands;
    use crate::config::{Config, ConfigStore};
    use std::sync::Arc;
    use std::time::Duration;
    use tarn_resp::OwnedArgs;

    #[test]
    fn every_slow_call_of_a_fast_command_is_in_the_slow_log() {
        let config = Arc::new(ConfigStore::new(Config::default(), None));
        let server = Shared::new(config, AcceptorHandle::new().0);
        let address = Address::Unix("test".into());
        let handle = ClientHandle::new(1, address.clone(), address, 0);
        let mut client = Client::new(Arc::new(handle), true);
        let found = commands::find(b"get").expect("it is there");
        let args: OwnedArgs = ["GET", "k"].into_iter().collect();
        let mut call = |takes: Duration| {
            let call = Call { server: &server, worker: 0, now: 0, command: found.command, slot: found.slot };
            let run = |_: &mut Client| {
                std::thread::sleep(takes);
                Ok(())
            };
            call.run(&mut client, args.as_args(), run).expect("it has no error");
        };
        server.stats.workers[0].stopwatch.start();
        let slow = Duration::from_micros(server.live.slow_us() as u64);
        for _ in 0..20 {
            call(slow);
        }
        assert_eq!(server.slowlog.len(), 20);
        let newest = server.slowlog.newest(100);
        assert!(newest.iter().all(|entry| entry.duration_us >= slow.as_micros() as u64));
    }

    #[test]
    fn what_runs_within_a_slow_call_does_not_hide_it() {
        let config = Arc::new(ConfigStore::new(Config::default(), None));
        let server = Shared::new(config, AcceptorHandle::new().0);
        let address = Address::Unix("test".into());
        let mut client = Client::new(Arc::new(ClientHandle::new(1, address.clone(), address, 0)), true);
        let found = commands::find(b"lpush").expect("it is there");
        let args: OwnedArgs = ["LPUSH", "k", "v"].into_iter().collect();
        let watch = &server.stats.workers[0].stopwatch;
        watch.start();
        let slow = Duration::from_micros(server.live.slow_us() as u64);
        for _ in 0..20 {
            let call = Call { server: &server, worker: 0, now: 0, command: found.command, slot: found.slot };
            let run = |_: &mut Client| {
                std::thread::sleep(slow);
                // As for a waiter that it serves.
                let mark = watch.mark();
                watch.look();
                watch.note(Instant::now());
                watch.go_back_to(mark);
                Ok(())
            };
            call.run(&mut client, args.as_args(), run).expect("it has no error");
        }
        assert_eq!(server.slowlog.len(), 20);
    }
}
