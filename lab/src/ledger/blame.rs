//! Attributes the time of slow requests to the causes of the turns that it overlaps.
//!
//! ```text
//!   request        due ├────────────────────────────┤ reply
//!   turns       ├────────────┤     ├─────────┤  ├────────┤
//!   blame              ├─────┤     ├─────────┤  ├───┤        by the causes of the turns
//!                             ├───┤           ├┤             outside
//! ```
//!
//! A reply does not tell which worker wrote it, so the turns of all workers count. The time that any turn
//! covers is divided among the turns by how long each overlaps the request, and the part of a turn by its
//! causes. One worker has one turn after the other. With several, some of the time is another worker's: such
//! a part is an upper bound.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::collect::Ledger;
use super::turn::{Cause, Turn};
use crate::load::{Phase, Slow, Slowest};

const CAUSES: usize = Cause::ALL.len();

/// The causes of the slowest requests of a stretch of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Blame {
    /// The number of slow requests.
    pub requests: u64,
    /// The latency of the fastest of them, in microseconds.
    pub from_us: f64,
    /// Their mean latency.
    pub mean_us: f64,
    /// The part of each cause, in microseconds for each slow request. They add up to the mean.
    pub causes: BTreeMap<Cause, f64>,
    /// The thread that held what cost most of latches, gates and the appender; empty if there was none.
    pub holder: String,
    /// The part of that in the mean.
    pub held_us: f64,
    /// Fetches of the ledger before which turns may have been lost.
    pub gaps: u64,
}

/// The parts of a request, in nanoseconds: by cause, and by the thread that held what it waited for.
#[derive(Debug, Default)]
struct Parts<'t> {
    causes: [f64; CAUSES],
    holders: BTreeMap<&'t str, f64>,
}

impl Ledger {
    /// The causes of the slowest requests of some phases of a load that began at a time, in nanoseconds since
    /// 1970. `None` if nothing was answered.
    pub fn blame(&self, started_unix_ns: u64, phases: &[&Phase]) -> Option<Blame> {
        let requests = phases.iter().map(|phase| phase.latency_ns.len()).sum();
        let slow = Slowest::of(phases.iter().map(|phase| &phase.slowest), requests);
        let fastest = slow.last()?;
        let turns: Vec<&Turn> = self.turns.iter().collect();
        let longest_us = turns.iter().map(|turn| turn.duration_us).max().unwrap_or(0);
        let mut all = Parts::default();
        for Slow { latency_ns, due_ns } in &slow {
            let from = started_unix_ns.saturating_add(*due_ns);
            let to = from.saturating_add(*latency_ns);
            // Turns are in the order of their starts.
            let first = turns.partition_point(|turn| turn.start_us + longest_us < from / 1000);
            let until = turns.partition_point(|turn| turn.start_us <= to / 1000);
            all.add(from, to, &turns[first..until.max(first)]);
        }
        let count = slow.len() as f64;
        let us = |ns: f64| ns / count / 1e3;
        let holder = all.holders.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
        Some(Blame {
            requests: slow.len() as u64,
            from_us: fastest.latency_ns as f64 / 1e3,
            mean_us: us(slow.iter().map(|slow| slow.latency_ns as f64).sum()),
            causes: Cause::ALL.into_iter().map(|cause| (cause, us(all.causes[cause as usize]))).collect(),
            holder: holder.0.to_owned(),
            held_us: us(holder.1),
            gaps: self.gaps,
        })
    }
}

impl<'t> Parts<'t> {
    /// Adds the parts of a request that lasted from one time to another, in nanoseconds since 1970. The turns
    /// are in the order of their starts.
    fn add(&mut self, from: u64, to: u64, turns: &[&'t Turn]) {
        let (mut covered, mut covered_to, mut overlaps) = (0, from, 0);
        let mut own = Vec::new();
        for turn in turns {
            let start = turn.start_us.saturating_mul(1000);
            let end = start.saturating_add(turn.duration_us.saturating_mul(1000)).min(to);
            let overlap = end.saturating_sub(start.max(from));
            covered += end.saturating_sub(start.max(covered_to));
            covered_to = covered_to.max(end);
            overlaps += overlap;
            own.push((turn, overlap));
        }
        self.causes[Cause::Outside as usize] += (to.saturating_sub(from) - covered) as f64;
        for (turn, overlap) in own.into_iter().filter(|(_, overlap)| *overlap > 0) {
            let part = covered as f64 * overlap as f64 / overlaps as f64;
            // The server rounds causes: they count by their proportion.
            let sum = turn.causes.iter().map(|(_, us)| *us as f64).sum::<f64>();
            if sum == 0.0 {
                self.causes[Cause::Command as usize] += part;
            }
            for (cause, us) in turn.causes.iter().filter(|(_, us)| *us > 0) {
                let part = part * *us as f64 / sum;
                self.causes[*cause as usize] += part;
                if matches!(cause, Cause::Latch | Cause::Gate | Cause::Appender) && !turn.holder.is_empty() {
                    *self.holders.entry(&turn.holder).or_default() += part;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn turn(start_us: u64, duration_us: u64, causes: &[(Cause, u64)]) -> Turn {
        Turn { start_us, duration_us, causes: causes.to_vec(), holder: "tarn-expirer".into(), requests: 1 }
    }

    /// The parts that are not zero, in microseconds, of a request from 1,000 to 2,000 µs.
    fn parts(turns: &[Turn]) -> Vec<(Cause, f64)> {
        let mut parts = Parts::default();
        parts.add(1_000_000, 2_000_000, &turns.iter().collect::<Vec<_>>());
        let all = Cause::ALL.into_iter().map(|cause| (cause, parts.causes[cause as usize] / 1e3));
        all.filter(|(_, us)| *us != 0.0).collect()
    }

    #[test]
    fn time_is_divided_by_overlap_and_then_by_cause() {
        use Cause::{Command, Latch, Outside, Scheduler};
        assert_eq!(parts(&[]), [(Outside, 1000.0)]);
        // Half of a turn before the request, and a turn that is not over when the reply has come.
        let before = turn(800, 400, &[(Latch, 300), (Command, 100)]);
        let after = turn(1900, 500, &[(Scheduler, 500)]);
        let expected = [(Latch, 150.0), (Scheduler, 100.0), (Command, 50.0), (Outside, 700.0)];
        assert_eq!(parts(&[before, after]), expected);
        // Causes that do not add up to the turn count by proportion; without any it is the command.
        assert_eq!(parts(&[turn(1000, 1000, &[(Latch, 1)])]), [(Latch, 1000.0)]);
        assert_eq!(parts(&[turn(0, 9000, &[])]), [(Command, 1000.0)]);
        assert_eq!(
            parts(&[turn(1000, 0, &[(Latch, 7)]), turn(5000, 600, &[(Latch, 600)])]),
            [(Outside, 1000.0)]
        );
    }

    #[test]
    fn time_that_turns_of_two_workers_cover_counts_once() {
        use Cause::{Latch, Output, Outside};
        let two = [turn(1000, 600, &[(Latch, 600)]), turn(1400, 200, &[(Output, 200)])];
        assert_eq!(parts(&two), [(Latch, 450.0), (Output, 150.0), (Outside, 400.0)]);
    }

    #[test]
    fn the_parts_of_a_request_add_up_to_its_latency() {
        for seed in 0..2000 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut cause = || (Cause::ALL[rng.random_range(0..CAUSES - 1)], rng.random_range(0..900));
            let mut causes: Vec<_> = (0..40).map(|_| cause()).collect();
            let mut turns: Vec<Turn> = (0..rng.random_range(0..12))
                .map(|_| {
                    let own = causes.split_off(causes.len() - rng.random_range(0..4));
                    turn(rng.random_range(0..5000), rng.random_range(0..3000), &own)
                })
                .collect();
            turns.sort();
            let from = rng.random_range(0..5_000_000);
            let to = from + rng.random_range(0..5_000_000);
            let mut parts = Parts::default();
            parts.add(from, to, &turns.iter().collect::<Vec<_>>());
            let sum: f64 = parts.causes.iter().sum();
            assert!((sum - (to - from) as f64).abs() < 1e-3, "seed {seed}: {sum} of {}", to - from);
            assert!(parts.causes.iter().all(|part| *part >= 0.0), "seed {seed}: {:?}", parts.causes);
        }
    }

    #[test]
    fn the_blame_of_phases_is_that_of_their_slowest_request() {
        const START: u64 = 1_700_000_000_000_000;
        let mut phase = Phase::default();
        for (due_us, latency_us) in [(0_u64, 100_u64), (5000, 2000), (9000, 50)] {
            phase.latency_ns.record(latency_us * 1000).unwrap();
            phase.slowest.offer(Slow { latency_ns: latency_us * 1000, due_ns: due_us * 1000 });
        }
        // The first turn is long over, the second covers half of the request.
        let turns = [turn(START, 4000, &[(Cause::Disk, 1)]), turn(START + 6000, 1000, &[(Cause::Gate, 9)])];
        let ledger = Ledger { turns: turns.into(), gaps: 3 };
        let blame = ledger.blame(START * 1000, &[&phase]).unwrap();
        assert_eq!((blame.requests, blame.from_us, blame.mean_us, blame.gaps), (1, 2000.0, 2000.0, 3));
        assert_eq!((&*blame.holder, blame.held_us), ("tarn-expirer", 1000.0));
        assert_eq!((blame.causes[&Cause::Gate], blame.causes[&Cause::Outside]), (1000.0, 1000.0));
        assert_eq!(blame.causes.values().sum::<f64>(), blame.mean_us);
        let line = serde_json::to_value(&blame).unwrap();
        assert_eq!(line["causes"]["page-fault"], 0.0);
        assert_eq!(serde_json::from_value::<Blame>(line).unwrap(), blame);
        assert_eq!(ledger.blame(0, &[&Phase::default()]), None);
    }
}
