//! Measures a load phase by phase and moment by moment, and the delay of the generator itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;

use super::slowest::{Slow, Slowest};
use crate::error::{LabError, Result};
use crate::interrupt;
use crate::process;

/// The length of a moment of a timeline.
pub const MOMENT: Duration = Duration::from_millis(20);
/// Latencies above this are recorded as this.
const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// A histogram of nanoseconds, from 1 to [`LATENCY_NS_MAX`], with three significant digits.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are valid")
}

/// Messages of another thread to a load while it runs: a new phase begins, or the load may end. A load begins
/// in phase 0.
#[derive(Debug, Default)]
pub struct Cue {
    phase: AtomicUsize,
    ended: AtomicBool,
    answered: AtomicU64,
}

impl Cue {
    /// Begins the next phase, and returns its number.
    pub fn next(&self) -> usize {
        self.phase.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Lets the load end.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// The phase that it is.
    pub fn phase(&self) -> usize {
        self.phase.load(Ordering::Relaxed)
    }

    /// Requests answered so far, which the load tells.
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// True if the load may end.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Fails after Ctrl-C, and if the load has ended.
    pub fn check(&self) -> Result<()> {
        interrupt::check()?;
        match self.has_ended() {
            true => Err(LabError::Reply("the load ended before the work beside it".to_owned())),
            false => Ok(()),
        }
    }

    /// Waits for some time, and checks meanwhile.
    pub fn pause(&self, time: Duration) -> Result<()> {
        self.pause_until(time, u64::MAX)
    }

    /// The same, but no longer than until so many requests were answered.
    pub fn pause_until(&self, time: Duration, answered: u64) -> Result<()> {
        let began = Instant::now();
        while let Some(left) = time.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            self.check()?;
            if self.answered() >= answered {
                break;
            }
            sleep(left.min(MOMENT));
        }
        Ok(())
    }
}

/// The measurements of a phase. A request belongs to the phase in which its reply came.
#[derive(Debug, Clone)]
pub struct Phase {
    /// Its length.
    pub elapsed: Duration,
    /// Requests answered.
    pub requests: u64,
    /// From when a request was due until its reply had come.
    pub latency_ns: Histogram<u64>,
    /// From when a request was sent until its reply had come.
    pub served_ns: Histogram<u64>,
    /// From when a request was due until it was sent: the delay of the generator, or of a process that took
    /// its core.
    pub late_ns: Histogram<u64>,
    /// The slowest requests.
    pub slowest: Slowest,
    /// Processor time that the host gave to others, over all cores.
    pub stolen: Duration,
}

impl Default for Phase {
    fn default() -> Phase {
        let [latency_ns, served_ns, late_ns] = [(); 3].map(|()| histogram());
        let (elapsed, stolen) = (Duration::ZERO, Duration::ZERO);
        let slowest = Slowest::default();
        Phase { elapsed, requests: 0, latency_ns, served_ns, late_ns, slowest, stolen }
    }
}

/// The requests whose replies came in one [`MOMENT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// The number of requests.
    pub requests: u32,
    /// The longest latency, from when the request was due.
    pub latency_ns_max: u64,
    /// The latest sending, from when the request was due.
    pub late_ns_max: u64,
}

/// The measurements of a load that has a cue.
#[derive(Debug, Clone, Default)]
pub struct Watched {
    /// By number of the phase.
    pub phases: Vec<Phase>,
    /// From the start of the load on.
    pub timeline: Vec<Moment>,
    /// The start of the load by the system's clock, in nanoseconds since 1970.
    pub started_unix_ns: u64,
}

/// Sees a load. Times are nanoseconds since its start.
#[derive(Debug)]
pub(super) struct Watch {
    cue: Arc<Cue>,
    at: usize,
    since_ns: u64,
    answered: u64,
    stolen: Duration,
    watched: Watched,
}

impl Watch {
    pub(super) fn new(cue: Arc<Cue>) -> Watch {
        let watched = Watched { phases: vec![Phase::default()], ..Watched::default() };
        Watch { cue, at: 0, since_ns: 0, answered: 0, stolen: process::stolen_time(), watched }
    }

    /// Notes that the load starts now.
    pub(super) fn start(&mut self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.watched.started_unix_ns = now.as_nanos() as u64;
    }

    /// Reads the cue. Returns whether the load is to end.
    pub(super) fn look(&mut self, now_ns: u64) -> bool {
        self.cue.answered.store(self.answered, Ordering::Relaxed);
        let phase = self.cue.phase();
        if phase != self.at {
            self.close(now_ns);
            self.watched.phases.resize_with(phase + 1, Phase::default);
            self.at = phase;
        }
        self.cue.has_ended()
    }

    fn close(&mut self, now_ns: u64) {
        let stolen = process::stolen_time();
        let phase = &mut self.watched.phases[self.at];
        phase.elapsed += Duration::from_nanos(now_ns - self.since_ns);
        phase.stolen += stolen.saturating_sub(self.stolen);
        (self.since_ns, self.stolen) = (now_ns, stolen);
    }

    pub(super) fn sent(&mut self, due_ns: u64, now_ns: u64) {
        let late = now_ns.saturating_sub(due_ns);
        self.watched.phases[self.at].late_ns.saturating_record(late.max(1));
        let moment = self.moment(now_ns);
        moment.late_ns_max = moment.late_ns_max.max(late);
    }

    /// Records `requests` replies that came together, one of which was due and sent at these times.
    pub(super) fn answered(&mut self, now_ns: u64, due_ns: u64, sent_ns: u64, requests: u32) {
        let latency = now_ns.saturating_sub(due_ns);
        self.answered += u64::from(requests);
        let phase = &mut self.watched.phases[self.at];
        phase.requests += u64::from(requests);
        phase.latency_ns.saturating_record(latency.max(1));
        phase.served_ns.saturating_record(now_ns.saturating_sub(sent_ns).max(1));
        phase.slowest.offer(Slow { latency_ns: latency, due_ns });
        let moment = self.moment(now_ns);
        moment.requests += requests;
        moment.latency_ns_max = moment.latency_ns_max.max(latency);
    }

    fn moment(&mut self, now_ns: u64) -> &mut Moment {
        let place = (u128::from(now_ns) / MOMENT.as_nanos()) as usize;
        if self.watched.timeline.len() <= place {
            self.watched.timeline.resize(place + 1, Moment::default());
        }
        &mut self.watched.timeline[place]
    }

    pub(super) fn finish(mut self, now_ns: u64) -> Watched {
        self.close(now_ns);
        self.watched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_belongs_to_the_phase_and_the_moment_in_which_it_came() {
        const MS: u64 = 1_000_000;
        let cue = Arc::new(Cue::default());
        let mut watch = Watch::new(cue.clone());
        watch.sent(MS, 2 * MS);
        watch.answered(5 * MS, MS, 2 * MS, 1);
        watch.sent(6 * MS, 6 * MS);
        assert_eq!(cue.next(), 1);
        assert!(!watch.look(10 * MS));
        watch.answered(50 * MS, 6 * MS, 6 * MS, 3);
        assert!(cue.answered() == 1 && !watch.look(55 * MS) && cue.answered() == 4);
        // As many are answered, so that this does not wait.
        assert!(cue.pause_until(Duration::from_secs(3600), 4).is_ok());
        cue.end();
        assert!(watch.look(60 * MS));
        let Watched { phases, timeline, .. } = watch.finish(60 * MS);
        let near = |histogram: &Histogram<u64>, ms: u64| {
            assert!(histogram.max().abs_diff(ms * MS) <= ms * MS / 500, "{}", histogram.max());
        };
        assert_eq!(phases.iter().map(|phase| phase.requests).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(phases[0].elapsed, Duration::from_millis(10));
        assert_eq!(phases[1].elapsed, Duration::from_millis(50));
        near(&phases[0].latency_ns, 4);
        near(&phases[0].served_ns, 3);
        near(&phases[0].late_ns, 1);
        near(&phases[1].latency_ns, 44);
        let longest: Vec<_> = timeline.iter().map(|moment| moment.latency_ns_max / MS).collect();
        assert_eq!(longest, [4, 0, 44]);
        assert_eq!((timeline[2].requests, timeline[0].late_ns_max), (3, MS));
    }
}
