//! Figure 9, and figure 12 of the arXiv text: the algorithms with spikes at the trigger, and those whose
//! latency stays flat.
//!
//! ```text
//!             triggered      taken                                    durable
//!                 |------------|---------- traverse and dump ----------|
//!     |--tick--|     |--tick--|  |--tick--|
//!      elsewhere    at the trigger   elsewhere
//! ```
//!
//! A tick is at the trigger if it meets the time from the trigger until the snapshot is taken. A spike that
//! the algorithm makes by taking its snapshot is there; a long tick elsewhere is none of it.

use super::super::cell::Figures;
use super::super::plan::Figure;
use super::data::Study;
use super::{Verdict, add, published};
use crate::report::short;

/// A spike is this many times the median tick.
const SPIKE: f64 = 3.0;

/// Judges both, in a figure's cells with the largest parameter.
pub(super) fn judge(study: &Study<'_>, figure: Figure, all: &mut Vec<Verdict>) {
    let mut measured = study.measured(figure);
    let largest = measured.iter().map(|(point, _)| point.x).fold(f64::NAN, f64::max);
    measured.retain(|(point, _)| point.x == largest);
    let mut judge = |printed, of: &[_], odd: fn(&Figures) -> Option<String>| {
        let own = measured.iter().filter(|(point, figures)| {
            of.contains(&point.cell.algorithm) && !figures.trace.is_empty() && figures.quiet.p50 > 0.0
        });
        let own: Vec<_> = own.map(|(point, figures)| (point.cell.algorithm.name(), odd(figures))).collect();
        let is_judged = !own.is_empty();
        let differences = own.into_iter().filter_map(|(name, odd)| Some(format!("{name}: {}", odd?)));
        let found = Verdict::new(figure, printed, differences.collect());
        add(all, figure, printed, is_judged.then_some(found));
    };
    judge("NS, COU, Fork and ZZ have spikes at the trigger", published::SPIKES, no_spike);
    judge("PP, HG and PB stay flat", published::FLAT, not_flat);
}

/// Says so where no tick at the trigger is a spike.
fn no_spike(figures: &Figures) -> Option<String> {
    let times = longest_at_trigger(figures).map(|us| us / figures.quiet.p50);
    let found = match times {
        Some(times) if times >= SPIKE => return None,
        Some(times) => format!("the longest tick at the trigger is {} times the median one", short(times)),
        None => "no tick is at the trigger".to_owned(),
    };
    let taken = short(figures.taken_us_max());
    Some(format!("{found}: the taken phase is {taken} µs at most, and {} for it", waits(figures)))
}

/// Says so where a tick is a spike, and whether that is at the trigger.
fn not_flat(figures: &Figures) -> Option<String> {
    let times = |us: f64| short(us / figures.quiet.p50);
    let longest = figures.max_us();
    if longest < figures.quiet.p50 * SPIKE {
        return None;
    }
    let there = match longest_at_trigger(figures) {
        // The trace has fewer digits.
        Some(at) if at >= longest * 0.999 => format!("it is at the trigger, where {}", waits(figures)),
        Some(at) => {
            let at = times(at);
            format!("it is not at the trigger, where the longest is {at} times and {}", waits(figures))
        }
        None => format!("it is not at the trigger, where {}", waits(figures)),
    };
    Some(format!("the longest tick is {} times the median one: {there}", times(longest)))
}

fn waits(figures: &Figures) -> String {
    match figures.longest_wait() {
        wait if wait >= 0.05 => format!("ticks wait {} µs at most", short(wait)),
        _ => "no tick waits".to_owned(),
    }
}

/// The longest tick at a trigger, in microseconds; `None` if there is none.
fn longest_at_trigger(figures: &Figures) -> Option<f64> {
    let phases = figures.snapshots_ms.iter().zip(&figures.overhead_us);
    let phases: Vec<_> = phases.map(|((triggered, durable), us)| (*triggered, durable - us / 1e3)).collect();
    let ticks = figures.trace.iter().map(|(began, us)| (f64::from(*began), f64::from(*us)));
    let met = ticks.filter(|(began, us)| {
        phases.iter().any(|(triggered, taken)| began <= taken && began + us / 1e3 >= *triggered)
    });
    met.map(|(_, us)| us).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::super::super::cell::Distribution;
    use super::*;

    /// Ticks of 1 ms every 10 ms, but for those given; a snapshot that is taken from 101 to 105 ms.
    fn figures(long: &[(usize, f32)]) -> Figures {
        let mut trace: Vec<_> = (0..40).map(|tick| (tick as f32 * 10.0, 1000.0)).collect();
        long.iter().for_each(|(tick, us)| trace[*tick].1 = *us);
        let times = trace.iter().map(|(_, us)| f64::from(*us)).collect();
        Figures {
            quiet: Distribution::of(times),
            waits_us: vec![2.0],
            taken_us: vec![4000.0],
            overhead_us: vec![100_000.0],
            snapshots_ms: vec![(101.0, 205.0)],
            trace,
            ..Figures::default()
        }
    }

    #[test]
    fn a_long_tick_at_the_trigger_is_a_spike_and_one_elsewhere_is_not() {
        // The tick that begins at 100 ms lasts until the snapshot is triggered.
        assert_eq!(no_spike(&figures(&[(10, 9000.0)])), None);
        let found = no_spike(&figures(&[(10, 1000.0), (15, 9000.0)])).expect("no spike is there");
        assert_eq!(
            found,
            "the longest tick at the trigger is 1 times the median one: the taken phase is 4000 µs at \
             most, and ticks wait 2 µs at most for it"
        );
        let found = no_spike(&figures(&[(10, 500.0), (15, 9000.0)])).expect("no tick is there");
        assert!(found.starts_with("no tick is at the trigger: the taken phase"), "{found}");
    }

    #[test]
    fn where_the_longest_tick_of_a_flat_one_is_is_said() {
        assert_eq!(not_flat(&figures(&[(10, 2900.0), (15, 2900.0)])), None);
        let found = not_flat(&figures(&[(10, 2000.0), (15, 9000.0)])).expect("it is not flat");
        assert_eq!(
            found,
            "the longest tick is 9 times the median one: it is not at the trigger, where the longest is 2 \
             times and ticks wait 2 µs at most"
        );
        let found = not_flat(&figures(&[(10, 9000.0)])).expect("it is not flat");
        assert!(found.ends_with("it is at the trigger, where ticks wait 2 µs at most"), "{found}");
        let unwaited = Figures { waits_us: vec![0.0], ..figures(&[(15, 9000.0)]) };
        assert!(not_flat(&unwaited).is_some_and(|found| found.ends_with("and no tick waits")));
    }
}
