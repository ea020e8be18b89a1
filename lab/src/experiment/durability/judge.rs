//! Decides whether the content of a restarted server keeps the promises of its acknowledgements.
//!
//! ```text
//! writes of one writer    1 2 3 4 5 6 7 8 9 10 11
//! acknowledged            ───────────────▶         (8)
//! sent                    ──────────────────────▶  (11)
//! found after restart     ─────────▶               (5)    6, 7, 8 are lost
//! ```
//!
//! - *Never altered:* the content is the state after some number of the writer's writes: a prefix.
//! - *No loss too large:* the first lost acknowledgement is within the limit of the mode (nothing, or the
//!   last second).
//! - *Nothing shown too early:* where no loss is allowed, all writes that a reader has seen are there too.
//! - *Never a hole:* if a write survived, so did every write of any writer that was acknowledged before that
//!   one was sent.

use std::time::{Duration, Instant};

use super::model::{Keys, Model, difference};

/// The writes of a writer between a start of the server and its end.
#[derive(Debug, Clone)]
pub(super) struct History {
    /// The highest value of this writer's counter that a reader was shown.
    pub seen: i64,
    /// Its keys before.
    pub before: Model,
    /// The time when each write was sent, the first after `before` first.
    pub sent: Vec<Instant>,
    /// The time when each write was acknowledged, from the first on; unacknowledged ones have none.
    pub acknowledged: Vec<Instant>,
}

/// The kinds of violations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Violation {
    /// The content is not the state after any prefix of the writer's writes.
    Altered(String),
    /// Acknowledged writes are missing that should not be.
    Lost(String),
    /// A later write survived an earlier, acknowledged one.
    Hole(String),
    /// A reader has seen a write that is missing, in a mode in which replies show only durable writes.
    Shown(String),
}

/// The judgement of the content.
#[derive(Debug, Clone, Default)]
pub(super) struct Verdict {
    /// The violations; empty if all is well.
    pub violations: Vec<Violation>,
    /// Each writer's keys as found, for it to continue from. Complete only if nothing was altered.
    pub survivors: Vec<Model>,
    /// Acknowledged writes that are missing.
    pub lost: u64,
    /// For the oldest of them, the time from its acknowledgement to the end.
    pub lost_age: Duration,
    /// Writes that survived without having been acknowledged.
    pub unacknowledged_survived: u64,
}

/// The writes of one writer that survived.
struct Survival {
    /// The least number of surviving writes, counted from the beginning of the history: a write that changed
    /// nothing may or may not be there.
    at_least: usize,
    /// The largest number.
    at_most: usize,
    /// The state.
    model: Model,
}

/// Compares histories with the content, writer by writer. `allowed` is the age that lost acknowledgements may
/// have at the moment of the end; `None` if none may be lost.
pub(super) fn judge(
    histories: &[History],
    found: &[Keys],
    ended: Instant,
    allowed: Option<Duration>,
) -> Verdict {
    let mut verdict = Verdict::default();
    let mut survivals = Vec::new();
    for (writer, (history, found)) in histories.iter().zip(found).enumerate() {
        match survival(history, found) {
            Some(survival) => survivals.push(survival),
            None => verdict.violations.push(Violation::Altered(describe(writer, history, found))),
        }
    }
    if !verdict.violations.is_empty() {
        return verdict;
    }
    for (writer, (history, survival)) in histories.iter().zip(&survivals).enumerate() {
        let counter = survival.model.keys.counter();
        if allowed.is_none() && history.seen > counter {
            verdict.violations.push(Violation::Shown(format!(
                "writer {writer}: a reader was shown {} in the counter, which is {counter} now",
                history.seen
            )));
        }
        let acknowledged = history.acknowledged.len();
        verdict.unacknowledged_survived += survival.at_most.saturating_sub(acknowledged) as u64;
        let Some(&first_lost) = history.acknowledged.get(survival.at_most) else { continue };
        verdict.lost += (acknowledged - survival.at_most) as u64;
        let age = ended.saturating_duration_since(first_lost);
        verdict.lost_age = verdict.lost_age.max(age);
        if allowed.is_none_or(|allowed| age > allowed) {
            verdict.violations.push(Violation::Lost(format!(
                "writer {writer}: {} acknowledged writes are lost, from number {} on, {} ms old at the kill",
                acknowledged - survival.at_most,
                history.before.done + survival.at_most as u64 + 1,
                age.as_millis()
            )));
        }
    }
    find_holes(histories, &survivals, &mut verdict);
    verdict.survivors = survivals.into_iter().map(|survival| survival.model).collect();
    verdict
}

/// A hole across writers: somebody's surviving write was sent after somebody's lost write was acknowledged.
fn find_holes(histories: &[History], survivals: &[Survival], verdict: &mut Verdict) {
    let last_sent = |(history, survival): (&History, &Survival)| {
        survival.at_least.checked_sub(1).map(|last| history.sent[last])
    };
    let Some((later, moment)) = histories
        .iter()
        .zip(survivals)
        .enumerate()
        .filter_map(|(writer, pair)| Some((writer, last_sent(pair)?)))
        .max_by_key(|&(_, moment)| moment)
    else {
        return;
    };
    for (writer, (history, survival)) in histories.iter().zip(survivals).enumerate() {
        if history.acknowledged.get(survival.at_most).is_some_and(|&first_lost| first_lost < moment) {
            verdict.violations.push(Violation::Hole(format!(
                "writer {writer} lost write {}, acknowledged before writer {later} sent one that survived",
                history.before.done + survival.at_most as u64 + 1
            )));
        }
    }
}

/// The prefix of the history that was found, if any.
fn survival(history: &History, found: &Keys) -> Option<Survival> {
    let mut model = history.before.clone();
    let mut survival: Option<Survival> = None;
    for count in 0..=history.sent.len() {
        if count > 0 {
            model.advance();
        }
        if model.keys == *found {
            // The writes since an earlier match, which cancel each other out, need not have survived.
            let at_least = survival.as_ref().map_or(count, |earlier| earlier.at_least);
            survival = Some(Survival { at_least, at_most: count, model: model.clone() });
        }
    }
    survival
}

/// Describes a state that is no prefix, against the acknowledged one.
fn describe(writer: usize, history: &History, found: &Keys) -> String {
    let mut model = history.before.clone();
    (0..history.acknowledged.len()).for_each(|_| drop(model.advance()));
    let difference = difference(&model.keys, found).unwrap_or_default();
    format!(
        "writer {writer}: the keys are as after none of its writes {} to {}; \
         after {} (acknowledged), {difference}",
        history.before.done,
        history.before.done + history.sent.len() as u64,
        model.done
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 21;

    /// A history of `sent` writes, one a millisecond from `begin`, each acknowledged half a millisecond
    /// later.
    fn history(writer: usize, begin: Instant, sent: usize, acknowledged: usize) -> History {
        let mut before = Model::new(writer, SEED);
        (0..50).for_each(|_| drop(before.advance()));
        let at = |index: usize, micros: u64| begin + Duration::from_micros(1000 * index as u64 + micros);
        History {
            seen: 0,
            before,
            sent: (0..sent).map(|index| at(index, 0)).collect(),
            acknowledged: (0..acknowledged).map(|index| at(index, 500)).collect(),
        }
    }

    /// The keys after a prefix of a history.
    fn after(history: &History, count: usize) -> Keys {
        let mut model = history.before.clone();
        (0..count).for_each(|_| drop(model.advance()));
        model.keys
    }

    /// The judgement of one writer.
    fn judged(history: &History, found: Keys, ended: Instant, allowed: Option<Duration>) -> Verdict {
        judge(std::slice::from_ref(history), &[found], ended, allowed)
    }

    #[test]
    fn a_prefix_with_all_acknowledged_writes_is_well() {
        let begin = Instant::now();
        let history = history(0, begin, 110, 100);
        for survived in 100..=110 {
            let found = after(&history, survived);
            let verdict = judged(&history, found, begin + Duration::from_secs(1), None);
            assert_eq!((verdict.violations, verdict.lost), (vec![], 0), "seed {SEED}, {survived}");
            assert!(verdict.survivors[0].done >= 50 + survived as u64);
        }
    }

    #[test]
    fn a_lost_acknowledged_write_is_found_and_an_old_one_is_too_much() {
        let begin = Instant::now();
        let history = history(0, begin, 110, 100);
        let ended = begin + Duration::from_millis(120);
        let lost = |allowed| judged(&history, after(&history, 60), ended, allowed);
        let verdict = lost(None);
        assert!(matches!(&verdict.violations[..], [Violation::Lost(_)]), "seed {SEED}: {verdict:?}");
        assert!((38..=40).contains(&verdict.lost), "seed {SEED}: {}", verdict.lost);
        assert!(matches!(&lost(Some(Duration::from_millis(40))).violations[..], [Violation::Lost(_)]));
        assert!(lost(Some(Duration::from_millis(80))).violations.is_empty());
    }

    #[test]
    fn a_write_missing_in_the_middle_is_found() {
        let begin = Instant::now();
        let history = history(0, begin, 100, 100);
        let mut undone = 0;
        for missing in 60..100 {
            // The state as if one write had never been, if none after it has changed the same.
            let (earlier, later) = (after(&history, missing - 1), after(&history, missing));
            let mut found = after(&history, 100);
            undo(&mut found.expiring, &earlier.expiring, &later.expiring);
            undo(&mut found.hash, &earlier.hash, &later.hash);
            undo(&mut found.list, &earlier.list, &later.list);
            undo(&mut found.sorted, &earlier.sorted, &later.sorted);
            undo(&mut found.set, &earlier.set, &later.set);
            for (name, text) in &mut found.strings {
                if let (Some(earlier), Some(later)) = (earlier.strings.get(name), later.strings.get(name)) {
                    undo(text, earlier, later);
                }
            }
            let is_whole = found == after(&history, 100);
            let verdict = judged(&history, found, begin + Duration::from_secs(9), None);
            // A write that is missing at the very end is a loss; before that only a prefix can explain the
            // state.
            assert_eq!(verdict.violations.is_empty(), is_whole, "seed {SEED}, write {missing}");
            undone += u32::from(!is_whole);
        }
        assert!(undone > 5, "seed {SEED}: {undone}");
    }

    fn undo<T: Clone + PartialEq>(found: &mut T, earlier: &T, later: &T) {
        if found == later {
            found.clone_from(earlier);
        }
    }

    #[test]
    fn a_pair_that_differs_is_found() {
        let begin = Instant::now();
        let history = history(1, begin, 200, 200);
        let mut found = after(&history, 200);
        found.strings.remove("left").expect("200 writes hold a pair");
        let verdict = judged(&history, found, begin, None);
        assert!(matches!(&verdict.violations[..], [Violation::Altered(_)]), "seed {SEED}: {verdict:?}");
    }

    #[test]
    fn a_reader_that_was_shown_too_much_is_found_where_no_loss_is_allowed() {
        let begin = Instant::now();
        let mut history = history(0, begin, 110, 100);
        let found = after(&history, 100);
        history.seen = found.counter();
        assert!(history.seen > 0, "seed {SEED}");
        assert!(judged(&history, found.clone(), begin, None).violations.is_empty());
        history.seen += 1;
        let verdict = judged(&history, found.clone(), begin, None);
        assert!(matches!(&verdict.violations[..], [Violation::Shown(_)]), "seed {SEED}: {verdict:?}");
        assert!(judged(&history, found, begin, Some(Duration::ZERO)).violations.is_empty());
    }

    #[test]
    fn a_hole_between_writers_is_found_even_where_loss_is_allowed() {
        let begin = Instant::now();
        let histories = [history(0, begin, 100, 100), history(1, begin, 100, 100)];
        let judged = |one: usize, two: usize| {
            let found = [after(&histories[0], one), after(&histories[1], two)];
            judge(&histories, &found, begin + Duration::from_millis(100), Some(Duration::from_secs(1)))
        };
        let verdict = judged(90, 70);
        assert!(matches!(&verdict.violations[..], [Violation::Hole(_)]), "seed {SEED}: {verdict:?}");
        // Writes that overlap in time may survive in any order.
        let mut overlapping = histories.clone();
        overlapping[1].acknowledged[80..].fill(begin + Duration::from_millis(99));
        let found = [after(&overlapping[0], 85), after(&overlapping[1], 80)];
        let verdict =
            judge(&overlapping, &found, begin + Duration::from_millis(100), Some(Duration::from_secs(1)));
        assert!(verdict.violations.is_empty(), "seed {SEED}: {verdict:?}");
    }
}
