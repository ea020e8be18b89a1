//! Runs a load: groups of connections, each a closed or an open loop, all on the calling thread.
//!
//! *Closed loop*: every connection sends a batch, waits for all its replies, sends the next. It finds the
//! throughput.
//!
//! *Open loop*: requests are due at fixed intervals whatever the server does, and are sent when due even if
//! earlier ones are unanswered. Latency counts from the due time, so a stall costs all the requests that fell
//! into it (no coordinated omission).

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::connection::{Begun, Connection};
use super::errors::Errors;
use super::plan::{Load, Pace, Until};
use super::request::Source;
use super::result::{GroupResult, LoadResult, Tally};
use super::watch::{Watch, histogram};
use crate::error::{IoContext, LabError, Result};
use crate::interrupt;
use crate::process;

/// The token of the timer among those of connections.
const TIMER: u64 = u64::MAX;
/// One read takes at most this much.
const READ_BYTES: usize = 256 << 10;
/// The longest sleep of the loop: it looks for Ctrl-C and for the end of the measurement this often.
const SLEEP_LIMIT: Duration = Duration::from_millis(20);
/// An open loop does not sleep when the next request is due within this time: a wake-up may be that late.
const SPIN_WITHIN: Duration = Duration::from_micros(200);
/// Without any reply for this long, the load gives the server up.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// A group at work.
struct Worker {
    name: &'static str,
    pace: Pace,
    source: Source,
    /// Replies that each request gets.
    replies_each: u32,
    /// Requests that may still be sent (closed loops).
    left: u64,
    /// The time when the next request is due, and the time between two (open loops), in ns.
    due: f64,
    interval: f64,
    /// Requests that are due within a beat are due at its start (ns; 0 where there are none).
    beat: f64,
    /// Its connections are `first .. first + count`; `turn` is the one to use next (open loops).
    first: usize,
    count: usize,
    turn: usize,
    /// Replies within the measured time.
    replies: u64,
    latency_ns: Histogram<u64>,
}

impl Worker {
    /// The time when the next request is due, in ns; infinity in a closed loop.
    fn due_ns(&self) -> f64 {
        if self.beat > 0.0 { (self.due / self.beat).floor() * self.beat } else { self.due }
    }
}

struct Runner {
    poller: OwnedFd,
    /// Wakes the loop when a beat is due: the poller itself only sleeps for whole milliseconds.
    timer: OwnedFd,
    connections: Vec<Connection>,
    workers: Vec<Worker>,
    started: Instant,
    measuring: bool,
    buffer: Vec<u8>,
    tally: Tally,
    watch: Option<Watch>,
}

impl Load {
    /// Runs the load on the calling thread. Calls `tick` with the number of requests answered so far, a few
    /// times a second.
    pub fn run(self, mut tick: impl FnMut(u64)) -> Result<LoadResult> {
        let mut runner = Runner::new(&self)?;
        let (measure_from, measure_to) = match self.until {
            Until::Time { warmup, measured } => (warmup, warmup + measured),
            Until::Requests(_) | Until::Told => (Duration::ZERO, Duration::MAX),
        };
        runner.started = Instant::now();
        runner.watch.iter_mut().for_each(Watch::start);
        let mut opening: Option<Usage> = None;
        let mut answered = 0u64;
        let (mut last_tick, mut last_reply) = (Duration::ZERO, Duration::ZERO);
        for index in 0..runner.connections.len() {
            let now_ns = runner.now_ns();
            runner.send_batch(index, now_ns)?;
        }
        let mut events = Vec::with_capacity(1024);
        loop {
            let now = runner.started.elapsed();
            if opening.is_none() && now >= measure_from {
                opening = Some(Usage::now(self.watched_pid)?);
                runner.measuring = true;
            }
            let told = runner.watch.as_mut().is_some_and(|watch| watch.look(now.as_nanos() as u64));
            if told || now >= measure_to || runner.is_done() {
                break;
            }
            if now - last_tick > SLEEP_LIMIT {
                interrupt::check()?;
                tick(answered);
                last_tick = now;
                if now - last_reply > SILENCE_LIMIT {
                    return Err(LabError::Reply(format!("no reply for {} s", SILENCE_LIMIT.as_secs())));
                }
            }
            let ended = match runner.turn(&mut events, now) {
                Err(LabError::Io { .. }) if self.is_killed() => break,
                ended => ended?,
            };
            if ended > 0 {
                answered += u64::from(ended);
                last_reply = now;
            }
        }
        // A server that was killed reports no processor time any more.
        let watched = if self.is_killed() { None } else { self.watched_pid };
        let closing = Usage::now(watched)?;
        runner.finish(&opening.unwrap_or(closing), &closing)
    }
}

/// Times at one end of the measured time.
#[derive(Clone, Copy)]
struct Usage {
    at: Instant,
    generator: Duration,
    server: Duration,
    machine: Duration,
}

impl Usage {
    fn now(watched: Option<u32>) -> Result<Usage> {
        let server = watched.map(process::family_cpu_time).transpose()?.unwrap_or_default();
        let machine = process::machine_cpu_time()?;
        Ok(Usage { at: Instant::now(), generator: process::thread_cpu_time(), server, machine })
    }

    /// The processor time by elapsed time of the generator, of the server, and of all others, which has the
    /// errors of both: it may be below 0. The time of a server that was killed is 0.
    fn busy_since(&self, from: &Usage) -> (f64, f64, f64) {
        let seconds = (self.at - from.at).as_secs_f64().max(1e-9);
        let generator = (self.generator - from.generator).as_secs_f64();
        let server = self.server.saturating_sub(from.server).as_secs_f64();
        let machine = self.machine.saturating_sub(from.machine).as_secs_f64();
        (generator / seconds, server / seconds, (machine - server - generator) / seconds)
    }
}

impl Runner {
    fn new(load: &Load) -> Result<Runner> {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC).doing(|| "create a poller".to_owned())?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
            .doing(|| "create a timer".to_owned())?;
        epoll::add(&poller, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)
            .doing(|| "watch a timer".to_owned())?;
        let mut runner = Runner {
            poller,
            timer,
            connections: Vec::new(),
            workers: Vec::new(),
            started: Instant::now(),
            measuring: false,
            buffer: vec![0; READ_BYTES],
            tally: Tally::new(load.tallied_keys),
            watch: load.cue.clone().map(Watch::new),
        };
        for (index, group) in load.groups.iter().enumerate() {
            let first = runner.connections.len();
            for _ in 0..group.connections {
                let connection = Connection::open(load.address, index)?;
                let token = EventData::new_u64(runner.connections.len() as u64);
                epoll::add(&runner.poller, &connection.stream, token, EventFlags::IN)
                    .doing(|| "watch a connection".to_owned())?;
                runner.connections.push(connection);
            }
            let interval = match group.pace {
                Pace::Open { rate } | Pace::Beats { rate, .. } => 1e9 / rate,
                Pace::Closed { .. } => f64::INFINITY,
            };
            let replies_each = group.mix.replies();
            let is_simple = matches!(group.pace, Pace::Closed { .. }) && !group.mix.is_tallied();
            assert!(replies_each == 1 || is_simple, "only a closed loop without a tally joins requests");
            runner.workers.push(Worker {
                name: group.name,
                pace: group.pace,
                replies_each,
                source: Source::new(group.mix.clone(), load.seed.wrapping_add(index as u64)),
                left: if let Until::Requests(limit) = load.until { limit } else { u64::MAX },
                due: if interval.is_finite() { 0.0 } else { f64::INFINITY },
                interval,
                beat: if let Pace::Beats { beat, .. } = group.pace { beat.as_nanos() as f64 } else { 0.0 },
                first,
                count: group.connections,
                turn: 0,
                replies: 0,
                latency_ns: histogram(),
            });
        }
        Ok(runner)
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// True if nothing is to be sent any more and nothing awaited.
    fn is_done(&self) -> bool {
        self.workers.iter().all(|worker| worker.left == 0)
            && self.connections.iter().all(|connection| connection.awaited == 0)
    }

    /// Sends due requests, waits a little, and takes the replies. Returns their number.
    fn turn(&mut self, events: &mut Vec<Event>, now: Duration) -> Result<u32> {
        self.send_due()?;
        let next = self.workers.iter().min_by(|a, b| a.due_ns().total_cmp(&b.due_ns()));
        let (next_due, in_beats) =
            next.map_or((f64::INFINITY, false), |next| (next.due_ns(), next.beat > 0.0));
        let sleep = if next_due.is_finite() {
            let wait = Duration::from_nanos(next_due as u64).saturating_sub(now);
            if in_beats {
                self.wake_after(wait)?
            } else if wait < SPIN_WITHIN {
                Duration::ZERO
            } else {
                wait.min(SLEEP_LIMIT) - SPIN_WITHIN / 2
            }
        } else {
            SLEEP_LIMIT
        };
        let timeout = Timespec { tv_sec: 0, tv_nsec: sleep.as_nanos() as _ };
        events.clear();
        match epoll::wait(&self.poller, spare_capacity(events), Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(0),
            Err(error) => return Err(error).doing(|| "wait for replies".to_owned()),
        }
        let mut ended = 0;
        for event in events.drain(..) {
            if event.data.u64() == TIMER {
                continue;
            }
            let index = event.data.u64() as usize;
            let flags = event.flags;
            if flags.contains(EventFlags::OUT) {
                self.flush(index)?;
            }
            if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                ended += self.take_replies(index)?;
            }
        }
        Ok(ended)
    }

    /// Has the timer end the next wait after `wait`. Returns how long the poller is to wait at most.
    fn wake_after(&self, wait: Duration) -> Result<Duration> {
        if wait.is_zero() || wait >= SLEEP_LIMIT {
            return Ok(wait.min(SLEEP_LIMIT));
        }
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as _ };
        let when = Itimerspec { it_interval: once, it_value: at };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &when).doing(|| "set a timer".to_owned())?;
        Ok(SLEEP_LIMIT)
    }

    /// Appends and writes the next batch of a connection in a closed loop.
    fn send_batch(&mut self, index: usize, now_ns: u64) -> Result<()> {
        let connection = &mut self.connections[index];
        let worker = &mut self.workers[connection.group];
        let Pace::Closed { pipeline } = worker.pace else { return Ok(()) };
        let batch = u64::from(pipeline).min(worker.left) as u32;
        if batch == 0 {
            return Ok(());
        }
        if worker.left != u64::MAX {
            worker.left -= u64::from(batch);
        }
        for _ in 0..batch {
            let key = worker.source.append(&mut connection.out, index - worker.first);
            note_sent(&mut self.tally, connection, key);
        }
        connection.awaited += batch * worker.replies_each;
        connection.begun.push_back(Begun { due: now_ns, sent: now_ns });
        self.flush(index)
    }

    /// Appends the requests of open loops that are due, and writes them.
    fn send_due(&mut self) -> Result<()> {
        for worker in 0..self.workers.len() {
            if !self.workers[worker].due.is_finite() {
                continue;
            }
            let now_ns = self.now_ns();
            let now = now_ns as f64;
            let worker = &mut self.workers[worker];
            let begin_turn = worker.turn;
            let mut sent = 0;
            while worker.due_ns() <= now {
                let due = worker.due_ns() as u64;
                let connection = &mut self.connections[worker.first + worker.turn];
                let key = worker.source.append(&mut connection.out, worker.turn);
                note_sent(&mut self.tally, connection, key);
                connection.awaited += 1;
                connection.begun.push_back(Begun { due, sent: now_ns });
                if let Some(watch) = &mut self.watch {
                    watch.sent(due, now_ns);
                }
                worker.due += worker.interval;
                worker.turn = (worker.turn + 1) % worker.count;
                sent += 1;
            }
            let (first, count) = (worker.first, worker.count);
            for step in 0..sent.min(count) {
                self.flush(first + (begin_turn + step) % count)?;
            }
        }
        Ok(())
    }

    /// Writes, and asks the poller for room if not all could be written.
    fn flush(&mut self, index: usize) -> Result<()> {
        let connection = &mut self.connections[index];
        connection.write()?;
        let wants_room = !connection.out.is_empty();
        if wants_room != connection.wants_room {
            connection.wants_room = wants_room;
            let flags = if wants_room { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            epoll::modify(&self.poller, &connection.stream, EventData::new_u64(index as u64), flags)
                .doing(|| "watch a connection".to_owned())?;
        }
        Ok(())
    }

    /// Reads replies, records their latencies, and sends the next batch of a closed loop.
    fn take_replies(&mut self, index: usize) -> Result<u32> {
        let connection = &mut self.connections[index];
        let Some(ended) = connection.read(&mut self.buffer)? else {
            let closed = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(closed).doing(|| "read from the server".to_owned());
        };
        if ended == 0 {
            return Ok(0);
        }
        let now_ns = self.started.elapsed().as_nanos() as u64;
        for key in connection.named.drain(..(ended as usize).min(connection.named.len())).flatten() {
            self.tally.acknowledged[key as usize] += 1;
        }
        let worker = &mut self.workers[connection.group];
        if self.measuring {
            worker.replies += u64::from(ended);
        }
        // In a closed loop a batch is one entry, and has ended when all of its replies are there.
        let (entries, requests) = match worker.pace {
            Pace::Open { .. } | Pace::Beats { .. } => (ended as usize, 1),
            Pace::Closed { pipeline } => (usize::from(connection.awaited == 0), pipeline),
        };
        for Begun { due, sent } in connection.begun.drain(..entries) {
            if self.measuring {
                worker.latency_ns.saturating_record(now_ns.saturating_sub(due).max(1));
            }
            if let Some(watch) = &mut self.watch {
                watch.answered(now_ns, due, sent, requests);
            }
        }
        if connection.awaited == 0 {
            self.send_batch(index, now_ns)?;
        }
        Ok(ended)
    }

    fn finish(self, from: &Usage, to: &Usage) -> Result<LoadResult> {
        let elapsed = to.at - from.at;
        let seconds = elapsed.as_secs_f64().max(1e-9);
        let now_ns = self.now_ns();
        let connections = &self.connections;
        let groups = self.workers.into_iter().enumerate().map(|(index, worker)| {
            let mine = || connections.iter().filter(move |connection| connection.group == index);
            GroupResult {
                name: worker.name,
                requests: worker.replies / u64::from(worker.replies_each),
                errors: mine().fold(Errors::default(), |all, own| all.join(&own.replies.errors)),
                rate: worker.replies as f64 / f64::from(worker.replies_each) / seconds,
                latency_ns: worker.latency_ns,
            }
        });
        let (generator_busy, server_busy, others_busy) = to.busy_since(from);
        Ok(LoadResult {
            elapsed,
            groups: groups.collect(),
            generator_busy,
            server_busy,
            others_busy,
            tally: self.tally,
            watched: self.watch.map(|watch| watch.finish(now_ns)).unwrap_or_default(),
        })
    }
}

/// Remembers the key of a request whose reply is to be counted, `None` for one that is not, if a tally is
/// kept at all.
#[inline]
fn note_sent(tally: &mut Tally, connection: &mut Connection, key: Option<u64>) {
    if tally.is_empty() {
        return;
    }
    if let Some(key) = key {
        tally.sent[key as usize] += 1;
    }
    connection.named.push_back(key.map(|key| key as u32));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_time_of_the_machine_than_of_its_processes_is_not_hidden() {
        let from = Usage {
            at: Instant::now(),
            generator: Duration::from_secs(1),
            server: Duration::from_secs(10),
            machine: Duration::from_secs(100),
        };
        let to = |machine| Usage {
            at: from.at + Duration::from_secs(2),
            generator: Duration::from_secs(2),
            server: Duration::from_secs(12),
            machine: Duration::from_secs(machine),
        };
        assert_eq!(to(105).busy_since(&from), (0.5, 1.0, 1.0));
        assert_eq!(to(102).busy_since(&from), (0.5, 1.0, -0.5));
    }
}
