//! Question: does a cache at its limit of memory hold what redis-server's holds, and what does it cost?
//!
//! Variables: the server, the policy (`allkeys-lru`, `allkeys-lfu`), the trace (Zipf's law with an exponent
//! of 0.8, 0.99 or 1.2; or of 0.99, beside reads of keys that come once). Expected: the share of reads that
//! find their key is within 1 % of redis-server's; the processor time of a request is not more; memory stays
//! at the limit; and no client waits for long while most keys go, after the limit was lowered.
//!
//! Each server gets the limit at which it holds the same number of keys: the memory of a key is another
//! question. A client reads keys, and writes those that it has not found, many at once. Both servers note the
//! use of a key in seconds. So a trace has to last for many of them: with `--quick`, LRU is little more than
//! chance.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::contract::{self, Experiment, Measured};
use crate::error::{LabError, Result};
use crate::interrupt;
use crate::load::{Arg, Mix, Request, key_text};
use crate::process::{self, Pinned, Preferred};
use crate::report::Report;
use crate::server::{Info, Persistence, Server, is_peer};
use crate::setting::{Setting, fill_silently, is_asked};
use tarn_resp::client::Client;

/// Keys that have room, and the fewest: with less memory, buffers would decide what has room.
const KEPT: u64 = 400_000;
const KEPT_MIN: u64 = 20_000;
/// Keys that are asked for, for each that has room.
const ASKED_FOR: u64 = 5;
/// Requests of a trace that count, for each key that has room; with `--quick`. As many come before them.
const REQUESTS: u64 = 6;
const REQUESTS_QUICK: u64 = 2;
/// Bytes of a value.
const VALUE_BYTES: usize = 200;
/// Keys that have room where the limit is lowered, and the bytes of a value there.
const LOWERED_KEPT: u64 = 4_000_000;
const LOWERED_BYTES: usize = 1000;
/// Of the memory beyond that of an empty server, the new limit leaves one part of so many.
const LOWERED_TO: u64 = 4;
/// Requests that are sent together.
const PIPELINE: u64 = 64;
/// Between two looks at the memory in use so many requests are sent together.
const LOOK_AFTER: u64 = 200;
/// Memory beyond the limit, as a part of it, at which the limit counts as reached: a fiftieth.
const REACHED: u64 = 50;
/// The longest time that a server may take for that.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time for which the client's waits are measured before; with `--quick`.
const QUIET: Duration = Duration::from_secs(10);
const QUIET_QUICK: Duration = Duration::from_millis(500);
/// One of so many keys is written then.
const QUIET_KEYS: u64 = 100;
/// The longest wait that is told apart.
const WAIT_NS_MAX: u64 = 100_000_000_000;
const POLICIES: [&str; 2] = ["allkeys-lru", "allkeys-lfu"];

named! {
    /// The part of the experiment.
    pub enum Part {
        /// Hits, cost and memory at the limit.
        Hits = "hits",
        /// The limit is lowered beside a client.
        Lowered = "lowered",
    }
}

named! {
    /// The keys that are asked for.
    pub enum Trace {
        /// By Zipf's law with this exponent.
        Flat = "zipf-0.8" | "flat",
        /// The same.
        Usual = "zipf-0.99" | "usual",
        /// The same.
        Steep = "zipf-1.2" | "steep",
        /// Of ten reads nine as in `Usual`, and one of a key that comes once.
        Scans = "scans",
    }
}

impl Trace {
    fn exponent(self) -> f64 {
        match self {
            Trace::Flat => 0.8,
            Trace::Usual | Trace::Scans => 0.99,
            Trace::Steep => 1.2,
        }
    }
}

/// The experiment's own options.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Measure these parts only.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<Part>,
    /// In the part `hits`, play these traces only.
    #[arg(long, value_name = "TRACE", value_delimiter = ',')]
    pub traces: Vec<Trace>,
    /// In the part `hits`, measure these policies only.
    #[arg(long, value_name = "POLICY", value_delimiter = ',', value_parser = POLICIES)]
    pub policies: Vec<String>,
}

/// The parameters of one measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    part: Part,
    server: String,
    policy: String,
    trace: Trace,
    /// Keys that have room.
    kept: u64,
    value_bytes: usize,
    quick: bool,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { part, server, policy, trace, .. } = self;
        write!(f, "{}: {server}, {policy}, {}", part.name(), trace.name())
    }
}

impl Cell {
    /// Reads of a trace that count.
    fn requests(&self) -> u64 {
        self.kept * if self.quick { REQUESTS_QUICK } else { REQUESTS }
    }
}

impl contract::Cell for Cell {
    fn need_bytes(&self) -> u64 {
        self.kept * (self.value_bytes as u64 + 200)
    }

    fn is_quick(&self) -> bool {
        self.quick
    }

    fn is_of_peer(&self) -> bool {
        is_peer(&self.server)
    }
}

/// The results of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// The limit.
    limit_bytes: u64,
    /// Keys at the end.
    keys: u64,
    /// Of the reads those that found their key.
    hit_ratio: f64,
    /// Reads, and writes of what they did not find, in a second.
    requests_per_s: f64,
    /// Processor time of the server for a request, in microseconds.
    server_us: f64,
    /// The most memory in use that the limit counts, by the limit.
    most_by_limit: f64,
    /// Seconds in which the lowered limit was reached.
    lowered_s: f64,
    /// The longest wait of a client meanwhile, and those that one of a hundred and of a thousand requests
    /// exceeds, in milliseconds.
    longest_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    /// The same before the limit was lowered: what the machine and the server cost without that.
    quiet_longest_ms: f64,
    quiet_p99_ms: f64,
    quiet_p999_ms: f64,
    /// Processor time that the host gave to others, in milliseconds, while the limit was lowered.
    stolen_ms: f64,
    /// Writes that were refused meanwhile, of all.
    refused_share: f64,
}

/// The experiment.
pub struct Eviction {
    pub(crate) setting: Setting,
    pub(crate) own: Options,
}

impl Experiment for Eviction {
    const NAME: &'static str = "eviction";
    const QUESTION: &'static str =
        "Does a cache at its limit hold what redis-server's holds, and at what cost?";
    const FIGURES: &'static str = include_str!("../../figures/eviction.toml");
    const HAS_PEERS: bool = true;
    type Cell = Cell;
    type Figures = Figures;

    /// Lines of before have no waits from before the limit is lowered.
    fn lacks(&self, cell: &Cell, figures: &Figures) -> bool {
        cell.part == Part::Lowered && figures.quiet_longest_ms == 0.0
    }

    fn plan(&mut self) -> Result<Vec<Cell>> {
        let Eviction { setting, own } = self;
        let cell = |part: Part, server: &str, policy: &str, trace: Trace| {
            let (kept, value_bytes) = match part {
                Part::Hits => (KEPT, VALUE_BYTES),
                Part::Lowered => (LOWERED_KEPT, LOWERED_BYTES),
            };
            let (server, policy) = (server.to_owned(), policy.to_owned());
            let (kept, quick) = (setting.scaled(kept).max(KEPT_MIN), setting.options.quick);
            Cell { part, server, policy, trace, kept, value_bytes, quick }
        };
        let servers: Vec<&str> = setting.servers.iter().map(|own| own.name.as_str()).collect();
        let mut cells = Vec::new();
        // What is compared is measured one after the other: the machine may differ an hour later.
        let is_played = |trace: &Trace| is_asked(&own.traces, trace);
        for policy in POLICIES.into_iter().filter(|policy| is_asked(&own.policies, &(*policy).to_owned())) {
            for trace in Trace::ALL.into_iter().filter(is_played) {
                let parts = servers.iter().filter(|_| is_asked(&own.only, &Part::Hits));
                cells.extend(parts.map(|server| cell(Part::Hits, server, policy, trace)));
            }
        }
        if is_asked(&own.only, &Part::Lowered) {
            cells.extend(servers.iter().map(|server| cell(Part::Lowered, server, POLICIES[0], Trace::Usual)));
        }
        Ok(cells)
    }

    fn measure(&mut self, cell: &Cell, _: &mut Report) -> Result<Option<Measured<Figures>>> {
        let (server, _dir) = self.start(cell)?;
        let key = Arg::Key { prefix: PREFIX, digits: DIGITS, scattered: false };
        let set = Request::new(&[Arg::Text("SET"), key, Arg::Value(cell.value_bytes)]);
        fill_silently(&server, cell.kept, Mix::in_order(set, cell.kept), self.setting.seed)?;
        let mut figures = match cell.part {
            Part::Hits => self.hits(cell, &server)?,
            Part::Lowered => self.lower(cell, &server)?,
        };
        figures.keys = server.key_count()?;
        let version = server.version()?;
        Ok(Some(Measured { server: cell.server.clone(), version, figures }))
    }
}

const PREFIX: &str = "key:";
const DIGITS: usize = 12;

fn key_of(number: u64) -> String {
    key_text(PREFIX, DIGITS, false, number)
}

impl Eviction {
    fn start(&self, cell: &Cell) -> Result<(Server, TempDir)> {
        let (mut plan, dir) = self.setting.plan_of(self.setting.subject(&cell.server)?, Persistence::None)?;
        plan.directives.push(("maxmemory-policy", cell.policy.clone()));
        self.setting.keep_off_the_generator(&mut plan);
        Ok((plan.start()?, dir))
    }

    fn hits(&self, cell: &Cell, server: &Server) -> Result<Figures> {
        let mut client = server.client()?;
        let limit = counted(&mut client)?;
        set_limit(&mut client, limit)?;
        let (mut draws, requests) = (Draws::new(cell, self.setting.seed), cell.requests());
        let value = "v".repeat(cell.value_bytes);
        let _pinned = Pinned::to(&self.setting.load_cores)?;
        let _preferred = Preferred::ask();
        play(&mut client, &mut draws, requests, &value)?;
        let (before, began) = (server.cpu_time()?, Instant::now());
        let played = play(&mut client, &mut draws, requests, &value)?;
        let (cpu, seconds) = (server.cpu_time()?.saturating_sub(before), began.elapsed().as_secs_f64());
        let all = (played.reads + played.reads - played.hits) as f64;
        Ok(Figures {
            limit_bytes: limit,
            hit_ratio: played.hits as f64 / played.reads as f64,
            requests_per_s: all / seconds,
            server_us: cpu.as_secs_f64() * 1e6 / all,
            most_by_limit: played.most as f64 / limit as f64,
            ..Figures::default()
        })
    }

    fn lower(&self, cell: &Cell, server: &Server) -> Result<Figures> {
        let (mut operator, mut client) = (server.client()?, server.client()?);
        let time = if cell.quick { QUIET_QUICK } else { QUIET };
        // Few keys: what they had is gone, and as much is to be evicted afterwards.
        let few = (cell.kept / QUIET_KEYS).max(1);
        let (quiet, ()) = self.waits_while(&mut client, few, 0, || {
            let began = Instant::now();
            while began.elapsed() < time {
                // As often as below, for a fair comparison.
                counted(&mut operator)?;
                rest()?;
            }
            Ok(())
        })?;
        let (used, empty) = (counted(&mut operator)?, empty(&mut operator)?);
        let limit = empty + used.saturating_sub(empty) / LOWERED_TO;
        let stolen = process::stolen_time();
        let (waits, took) = self.waits_while(&mut client, cell.kept, 1, || reach(&mut operator, limit))?;
        let stolen = process::stolen_time().saturating_sub(stolen);
        Ok(Figures {
            limit_bytes: limit,
            lowered_s: took.as_secs_f64(),
            longest_ms: waits.ms(1.0),
            p99_ms: waits.ms(0.99),
            p999_ms: waits.ms(0.999),
            quiet_longest_ms: quiet.ms(1.0),
            quiet_p99_ms: quiet.ms(0.99),
            quiet_p999_ms: quiet.ms(0.999),
            stolen_ms: stolen.as_secs_f64() * 1e3,
            refused_share: waits.refused as f64 / waits.ns.len().max(1) as f64,
            ..Figures::default()
        })
    }

    /// The waits of a client that writes so many keys for as long as `work` takes, and its outcome. The order
    /// of the keys differs by the number of the phase.
    fn waits_while<T>(
        &self,
        client: &mut Client,
        keys: u64,
        phase: u64,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<(Waits, T)> {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let _pinned = Pinned::to(&self.setting.load_cores)?;
                let _preferred = Preferred::ask();
                wait(client, keys, self.setting.seed.wrapping_add(phase), &is_over)
            });
            let outcome = work();
            is_over.store(true, Ordering::Relaxed);
            Ok((waits.join().expect("a client does not panic")?, outcome?))
        })
    }
}

/// Memory in use that the limit counts.
fn counted(client: &mut Client) -> Result<u64> {
    let info = Info::read(client, "memory")?;
    let used = info.number::<u64>("used_memory");
    let used = used.ok_or_else(|| LabError::Reply("INFO memory without used_memory".to_owned()))?;
    Ok(used.saturating_sub(info.number::<u64>("mem_not_counted_for_evict").unwrap_or(0)))
}

/// Memory that was in use before there was any key.
fn empty(client: &mut Client) -> Result<u64> {
    Ok(Info::read(client, "memory")?.number::<u64>("used_memory_startup").unwrap_or(0))
}

fn set_limit(client: &mut Client, limit: u64) -> Result<()> {
    let limit = limit.to_string();
    client.call(&["CONFIG", "SET", "maxmemory", limit.as_str()])?;
    Ok(())
}

/// The numbers of the keys of a trace.
struct Draws {
    /// The shares of the ranks up to each, added up.
    sums: Vec<f64>,
    rng: SmallRng,
    scans: bool,
    drawn: u64,
}

impl Draws {
    fn new(cell: &Cell, seed: u64) -> Draws {
        let (mut sum, exponent) = (0.0, cell.trace.exponent());
        let sums = (1..=ASKED_FOR * cell.kept).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        let (sums, rng) = (sums.collect(), SmallRng::seed_from_u64(seed));
        Draws { sums, rng, scans: cell.trace == Trace::Scans, drawn: 0 }
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        let ranks = self.sums.len() as u64;
        if self.scans && self.drawn.is_multiple_of(10) {
            return ranks + self.drawn;
        }
        let at = self.rng.random::<f64>() * self.sums.last().copied().unwrap_or(0.0);
        (self.sums.partition_point(|sum| *sum < at) as u64).min(ranks - 1)
    }
}

/// The outcome of a trace.
#[derive(Default)]
struct Played {
    reads: u64,
    hits: u64,
    /// The most memory in use.
    most: u64,
}

/// Reads keys, about so many, and writes those that were not there.
fn play(client: &mut Client, draws: &mut Draws, requests: u64, value: &str) -> Result<Played> {
    let mut played = Played::default();
    for batch in 0..requests.div_ceil(PIPELINE) {
        let keys: Vec<String> = (0..PIPELINE).map(|_| key_of(draws.draw())).collect();
        for key in &keys {
            client.queue(&["GET", key.as_str()]);
        }
        client.send()?;
        let mut missing = Vec::new();
        for key in &keys {
            let reply = client.receive()?;
            if reply.is_null() {
                missing.push(key);
            } else if reply.as_bytes().is_none() {
                return Err(LabError::Reply(reply.to_string()));
            }
        }
        for key in &missing {
            client.queue(&["SET", key.as_str(), value]);
        }
        client.send()?;
        for _ in &missing {
            let reply = client.receive()?;
            if reply.is_error() {
                return Err(LabError::Reply(reply.to_string()));
            }
        }
        played.reads += PIPELINE;
        played.hits += PIPELINE - missing.len() as u64;
        if batch.is_multiple_of(LOOK_AFTER) {
            interrupt::check()?;
            played.most = played.most.max(counted(client)?);
        }
    }
    Ok(played)
}

/// Sets the limit, and waits until no more is in use.
fn reach(operator: &mut Client, limit: u64) -> Result<Duration> {
    let began = Instant::now();
    set_limit(operator, limit)?;
    while counted(operator)? > limit + limit / REACHED {
        if began.elapsed() > PATIENCE {
            return Err(LabError::Reply(format!("no limit after {} s", PATIENCE.as_secs())));
        }
        rest()?;
    }
    Ok(began.elapsed())
}

/// The rest between two looks at the memory in use.
fn rest() -> Result<()> {
    interrupt::check()?;
    std::thread::sleep(Duration::from_millis(5));
    Ok(())
}

/// The waits of a client.
struct Waits {
    refused: u64,
    ns: Histogram<u64>,
}

impl Waits {
    /// The wait that no more than this share of the requests exceeds, in milliseconds.
    fn ms(&self, share: f64) -> f64 {
        self.ns.value_at_quantile(share) as f64 / 1e6
    }
}

/// Writes small values, one after the other, until it is over.
fn wait(client: &mut Client, keys: u64, seed: u64, is_over: &AtomicBool) -> Result<Waits> {
    let ns = Histogram::new_with_bounds(1, WAIT_NS_MAX, 3).expect("the bounds are valid");
    let (mut rng, mut waits) = (SmallRng::seed_from_u64(seed), Waits { refused: 0, ns });
    while !is_over.load(Ordering::Relaxed) {
        let key = key_of(rng.random_range(0..keys));
        let began = Instant::now();
        let reply = client.ask(&["SET", key.as_str(), "value"])?;
        waits.ns.saturating_record(began.elapsed().as_nanos() as u64);
        waits.refused += u64::from(reply.is_error());
    }
    Ok(waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_the_shares_of_its_ranks() {
        let cell = |trace| Cell {
            part: Part::Hits,
            server: String::new(),
            policy: String::new(),
            trace,
            kept: 200,
            value_bytes: 1,
            quick: true,
        };
        let mut draws = Draws::new(&cell(Trace::Usual), 7);
        let drawn: Vec<u64> = (0..100_000).map(|_| draws.draw()).collect();
        let of = |rank: u64| drawn.iter().filter(|number| **number == rank).count() as f64;
        assert!((of(0) / of(9) / 10f64.powf(0.99) - 1.0).abs() < 0.2, "{} {}", of(0), of(9));
        assert!(drawn.iter().all(|number| *number < 1000));
        let mut draws = Draws::new(&cell(Trace::Scans), 7);
        let mut scanned: Vec<u64> =
            (0..1000).map(|_| draws.draw()).filter(|number| *number >= 1000).collect();
        assert_eq!(scanned.len(), 100);
        scanned.dedup();
        assert_eq!(scanned.len(), 100, "each comes once");
    }
}
