//! The memory of a server while it takes a checkpoint.
//!
//! A forked child shares pages with its server, and each page counts once. Reading that from the page tables
//! of both (`smaps_rollup`) takes a tenth of a second for a gigabyte, and holds the lock that the server's
//! page faults need. Counters take microseconds and no lock:
//!
//! ```text
//!   anonymous memory of the machine │ laboratory │ server │ child's own │ all others
//!   resident size of the server                  │ server │             · taken before the child was there
//!   memory                                       │ server │ child's own │
//! ```
//!
//! While there is a child, memory of other processes that grows or shrinks is taken for the child's. If
//! theirs is another when the child has gone, the result is refused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::trial::Trial;
use crate::error::{LabError, Result};
use crate::load::Cue;
use crate::process::{self, beside};
use crate::server::Info;

/// Time between two samples of memory.
const EVERY: Duration = Duration::from_millis(5);
/// Time between two questions to the server, and between two points of the timeline.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Fewer samples than this during a checkpoint may have missed its highest moment.
const SAMPLES_LEAST: u64 = 10;
/// Memory of others may change by this much while there is a child: the kernel's counters lag, …
const OTHERS_BYTES: u64 = 16 << 20;
/// … and by this part of the server's.
const OTHERS_PART: u64 = 20;

/// Memory around checkpoints, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Peak {
    /// Before.
    pub before: u64,
    /// The most, of the server and of its child together; `None` if it is not known.
    pub most: Option<u64>,
    /// The most address space, sampled: of a server that forks, of both processes together.
    pub virtual_most: u64,
    /// `used_memory` before, as the server reports it.
    pub used_before: u64,
    /// The most of it, sampled.
    pub used_most: u64,
    /// The most that was swapped out under a limit of memory, sampled.
    pub swapped_most: u64,
    /// Samples.
    pub samples: u64,
    /// Samples in which there was a child, of the checkpoint that had fewest; `None` of a server that does
    /// not fork, and of lines before 2026-11-30.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child_samples: Option<u64>,
    /// The most by which memory of others had changed when a child had gone.
    pub others_changed: u64,
    /// By time: milliseconds since the start, and the most bytes, as in `most`, until the next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<(u32, u64)>,
}

impl Peak {
    /// Counts the samples during some checkpoints, whose phases these are. The most may turn out to be not
    /// known.
    pub(super) fn judge(mut self, seen: &[u64], checkpoints: impl Iterator<Item = usize>) -> Peak {
        self.child_samples = checkpoints.map(|phase| seen.get(phase).copied().unwrap_or(0)).min();
        if !self.is_known() {
            self.most = None;
        }
        self
    }

    /// False if a child lived too short to be sampled, or memory of others may be taken for its own.
    pub fn is_known(&self) -> bool {
        self.child_samples.is_none_or(|count| count >= SAMPLES_LEAST)
            && self.others_changed <= OTHERS_BYTES + self.before / OTHERS_PART
    }
}

/// The counters at one moment, in bytes.
#[derive(Debug, Clone, Copy)]
struct Counters {
    /// The resident size of the server.
    resident: u64,
    /// Anonymous memory of the machine without that of the server and of the laboratory.
    rest: i64,
    has_child: bool,
}

impl Counters {
    fn read(pid: u32) -> Result<Counters> {
        // First: a child that appears afterwards has no memory of its own yet.
        let has_child = !process::forked(pid).is_empty();
        let all = process::machine_anonymous_bytes()?;
        let (resident, own) = process::resident_bytes(pid)?;
        let (_, laboratory) = process::resident_bytes(std::process::id())?;
        Ok(Counters { resident, rest: all as i64 - own as i64 - laboratory as i64, has_child })
    }
}

/// Memory from one sample to the next.
#[derive(Debug)]
struct Sampler {
    /// Anonymous memory of all others, when there last was no child.
    others: i64,
    has_child: bool,
    /// The samples with a child, by phase of the load.
    seen: Vec<u64>,
    peak: Peak,
    /// The phase and the beginning of the newest point of the timeline.
    point: Option<(usize, Duration)>,
}

impl Sampler {
    fn new(first: Counters) -> Sampler {
        let peak = Peak { before: first.resident, most: Some(first.resident), ..Peak::default() };
        Sampler { others: first.rest, has_child: first.has_child, seen: Vec::new(), peak, point: None }
    }

    fn add(&mut self, now: Counters, phase: usize, at: Duration) {
        if !now.has_child {
            let changed = if self.has_child { now.rest.abs_diff(self.others) } else { 0 };
            self.peak.others_changed = self.peak.others_changed.max(changed);
            self.others = now.rest;
        }
        self.has_child = now.has_child;
        let bytes = (now.resident as i64 + now.rest - self.others).max(0) as u64;
        self.seen.resize(self.seen.len().max(phase + 1), 0);
        self.seen[phase] += u64::from(now.has_child);
        self.peak.samples += 1;
        self.peak.most = self.peak.most.max(Some(bytes));
        let is_same = |own: &(usize, Duration)| own.0 == phase && at.saturating_sub(own.1) < ASK_EVERY;
        match self.peak.timeline.last_mut().filter(|_| self.point.as_ref().is_some_and(is_same)) {
            Some((_, most)) => *most = bytes.max(*most),
            None => {
                self.peak.timeline.push((at.as_millis() as u32, bytes));
                self.point = Some((phase, at));
            }
        }
    }
}

/// Watches a server until `ended` is set. Returns its memory, and by phase of the load the samples in which
/// there was a child. Times count from `began`.
pub(super) fn watch(
    trial: &Trial,
    cue: &Cue,
    began: Instant,
    ended: &AtomicBool,
) -> Result<(Peak, Vec<u64>)> {
    let pid = trial.server.pid();
    process::forget_peak(pid)?;
    let sample = |is_over: &AtomicBool| {
        let mut sampler = Sampler::new(Counters::read(pid)?);
        loop {
            // In this order: a sample of a phase is not before it, and the last one is after the checkpoint.
            let (is_last, phase) = (is_over.load(Ordering::Relaxed), cue.phase());
            sampler.add(Counters::read(pid)?, phase, began.elapsed());
            if is_last {
                return Ok::<_, LabError>(sampler);
            }
            sleep(EVERY);
        }
    };
    // A server that stalls answers late, which must not delay a sample.
    let (sampler, asked) = beside(sample, || ask(trial, ended));
    let Sampler { mut peak, seen, .. } = sampler?;
    // The server alone, and nothing missed.
    peak.most = peak.most.max(Some(process::resident_bytes_max(pid)?));
    let Peak { virtual_most, used_before, used_most, swapped_most, .. } = asked?;
    Ok((Peak { virtual_most, used_before, used_most, swapped_most, ..peak }, seen))
}

/// Asks for what is no resident memory, until `ended` is set.
fn ask(trial: &Trial, ended: &AtomicBool) -> Result<Peak> {
    let mut client = trial.server.client()?;
    let mut used =
        || Ok::<u64, LabError>(Info::read(&mut client, "memory")?.number("used_memory").unwrap_or(0));
    let used_before = used()?;
    let mut peak = Peak { used_before, used_most: used_before, ..Peak::default() };
    while !ended.load(Ordering::Relaxed) {
        peak.virtual_most = peak.virtual_most.max(process::family_virtual_bytes(trial.server.pid()));
        peak.used_most = peak.used_most.max(used()?);
        let swapped = trial.limit.as_ref().map_or(0, |limit| limit.group.swapped_bytes());
        peak.swapped_most = peak.swapped_most.max(swapped);
        sleep(ASK_EVERY);
    }
    Ok(peak)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A sampler that has seen a server of 100 bytes, and 900 of others.
    fn sampler() -> Sampler {
        Sampler::new(counters(100, 900, false))
    }

    fn counters(resident: u64, rest: i64, has_child: bool) -> Counters {
        Counters { resident, rest, has_child }
    }

    #[test]
    fn a_page_of_server_and_child_counts_once_and_others_do_not_count() {
        let mut sampler = sampler();
        // Others have more, and then there is a child, which shares all but what the server writes to.
        for (at, (own, rest, has_child)) in (0_u32..).zip([
            (100, 5000, false),
            (100, 5000, true),
            (100, 5030, true),
            // The server grows besides.
            (120, 5070, true),
            (120, 4000, false),
        ]) {
            sampler.add(counters(own, rest, has_child), usize::from(at > 0), MS * 60 * at);
        }
        let bytes: Vec<u64> = sampler.peak.timeline.iter().map(|(_, bytes)| *bytes).collect();
        assert_eq!(bytes, [100, 100, 130, 190, 120]);
        assert_eq!((sampler.peak.most, sampler.peak.before, sampler.peak.samples), (Some(190), 100, 5));
        assert_eq!(sampler.seen, [0, 3]);
        // When the child had gone.
        assert_eq!(sampler.peak.others_changed, 1000);
    }

    #[test]
    fn a_point_of_the_timeline_has_the_most_of_its_time_and_of_one_phase() {
        let mut sampler = sampler();
        for (at, own, phase) in [(0, 1, 1), (20, 7, 1), (40, 3, 1), (45, 9, 2), (60, 4, 2), (95, 5, 2)] {
            sampler.add(counters(own, 900, false), phase, MS * at);
        }
        assert_eq!(sampler.peak.timeline, [(0, 7), (45, 9), (95, 5)]);
    }

    #[test]
    fn of_a_child_that_was_hardly_seen_the_most_is_not_known() {
        let of = |seen: &[u64], checkpoints: &[usize]| {
            let peak = Peak { most: Some(9), ..Peak::default() };
            let judged = peak.judge(seen, checkpoints.iter().copied());
            (judged.child_samples, judged.most)
        };
        let enough = SAMPLES_LEAST;
        assert_eq!(of(&[0, enough, 0, enough + 1], &[1, 3]), (Some(enough), Some(9)));
        assert_eq!(of(&[0, enough, 0, enough - 1], &[1, 3]), (Some(enough - 1), None));
        // The load ended before the next look.
        assert_eq!(of(&[0], &[1]), (Some(0), None));
        assert_eq!(of(&[0], &[]), (None, Some(9)));
        // Another program took memory meanwhile.
        let changed = |others_changed| {
            let before = 100 * OTHERS_BYTES;
            let peak = Peak { before, most: Some(before), others_changed, ..Peak::default() };
            peak.judge(&[enough], [0].into_iter()).most.is_none()
        };
        assert_eq!([OTHERS_BYTES * 5, OTHERS_BYTES * 7].map(changed), [false, true]);
    }
}
