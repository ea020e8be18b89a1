//! Chooses the files to compact next.
//!
//! A file is chosen where the share of obsolete records has passed a bound, or where the whole log is longer
//! than it may be against what is needed of it: then the one that gives back most. Removals and changes of
//! lists have no bits, so nobody knows what they would give back. Therefore a *round* over all files, the
//! oldest first, is made when the log is twice as long as after the last one; in that order, removals go too.
//!
//! All lengths here are raw bytes: see `stock`.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use crate::log::ClosedFile;
use crate::record::Lsn;

use super::estimates::Place;
use super::options::CompactionOptions;
use super::stock::Stock;

/// How long is waited after a compaction that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// A file with a smaller share of obsolete records is not worth it.
const WASTE_MIN: f64 = 0.05;
/// How long a file is left alone that could not be compacted, unless a round wants it.
const FAILED_PAUSE: Duration = Duration::from_secs(30);
/// A round is made when the log is this many times as long as after the last one.
const ROUND_GROWTH: u64 = 2;

/// The compactor's past and planned work.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    round: Option<Round>,
    /// How long a round took that has ended, and how many files could not be compacted; for the status to
    /// take.
    pub(super) ended: Option<(Duration, usize)>,
    /// Raw length of the log when the last round ended.
    after_round: Option<u64>,
    /// After a round in which files could not be compacted.
    no_round_before: Duration,
    retry_at: Duration,
    /// When files could not be compacted.
    failed: HashMap<Place, Duration>,
    /// Files that could not be compacted together: one of them may be why, so that each is tried alone.
    apart: HashSet<Place>,
}

/// A round over all files: those that were there when it began, and are still to be done.
#[derive(Debug)]
struct Round {
    began: Duration,
    /// Whatever is newer is left for the next round.
    up_to: Lsn,
    /// Whether entries were written again in it, and it began once more.
    is_extended: bool,
}

impl Plan {
    /// Whether nothing is done after a failure.
    pub(super) fn rests(&self, now: Duration) -> bool {
        now < self.retry_at
    }

    /// Whether the log has become so long that a round is to begin.
    pub(super) fn is_round_due(&mut self, stock: &Stock, options: &CompactionOptions, now: Duration) -> bool {
        let after_round = *self.after_round.get_or_insert_with(|| stock.raw_bytes_compacted());
        let bound = (after_round * ROUND_GROWTH).max(options.min_bytes * ROUND_GROWTH);
        // There may be nothing yet, of which nothing is twice as much.
        let may_begin = self.round.is_none() && now >= self.no_round_before;
        !stock.files.is_empty() && stock.raw_bytes() >= bound && may_begin
    }

    /// Begins a round over what was written up to now, be it in the files that are written to.
    pub(super) fn begin_round(&mut self, now: Duration, newest: Lsn) {
        self.round = Some(Round { began: now, up_to: newest, is_extended: false });
        self.retry_at = Duration::ZERO;
    }

    pub(super) fn has_round(&self) -> bool {
        self.round.is_some()
    }

    /// Goes over all files once more, now that changes can go of which entries were made; not again and
    /// again.
    pub(super) fn extend_round(&mut self, newest: Lsn) {
        if let Some(round) = self.round.as_mut().filter(|round| !round.is_extended) {
            (round.up_to, round.is_extended) = (newest, true);
        }
    }

    /// Has files tried again at once.
    pub(super) fn forgive(&mut self, places: &[Place]) {
        places.iter().for_each(|place| _ = self.failed.remove(place));
    }

    /// The first of these files that has not failed a short while ago.
    pub(super) fn first_of(&self, stock: &Stock, places: &[Place], now: Duration) -> Option<Range<usize>> {
        let rests = |place: &Place| self.failed.get(place).is_some_and(|failed| now < *failed + FAILED_PAUSE);
        let find = |place: &Place| stock.files.binary_search_by_key(place, ClosedFile::place).ok();
        let at = places.iter().filter(|place| !rests(place)).find_map(find)?;
        Some(at..at + 1)
    }

    /// The files to compact next, if any.
    pub(super) fn choose(
        &mut self,
        stock: &Stock,
        options: &CompactionOptions,
        now: Duration,
    ) -> Option<Range<usize>> {
        let mut chosen = self.next_of_round(stock, now);
        if chosen.is_none() && options.enabled && stock.raw_bytes() >= options.min_bytes {
            chosen = self.most_wasteful(stock, options, now);
        }
        Some(self.with_neighbours(stock, options, chosen?))
    }

    fn next_of_round(&mut self, stock: &Stock, now: Duration) -> Option<usize> {
        let round = self.round.as_ref()?;
        let of_round = |file: &ClosedFile| {
            // Each is tried once.
            let is_new = self.failed.get(&file.place()).is_none_or(|failed| *failed < round.began);
            let lies_in = file.lsns().is_some_and(|(first, _)| first <= round.up_to);
            is_new && lies_in && file.timestamp() < round.up_to
        };
        let files = &stock.files;
        // One that cannot be compacted comes behind those that can.
        let turn = |at: &usize| (self.failed.get(&files[*at].place()), files[*at].lsns());
        let chosen = (0..files.len()).filter(|at| of_round(&files[*at])).min_by_key(turn);
        if chosen.is_none() {
            let failures = self.failed.values().filter(|failed| **failed >= round.began).count();
            self.ended = Some((now.saturating_sub(round.began), failures));
            match failures {
                0 => self.after_round = Some(stock.raw_bytes()),
                // The log is as long as it was, so another is due; not at once.
                _ => self.no_round_before = now + FAILED_PAUSE,
            }
            self.round = None;
        }
        chosen
    }

    fn most_wasteful(&mut self, stock: &Stock, options: &CompactionOptions, now: Duration) -> Option<usize> {
        let Stock { files, wastes } = stock;
        let too_long = stock.raw_bytes() * 100 > stock.raw_live_bytes() * options.log_percent;
        let bound = if too_long { WASTE_MIN } else { options.file_percent as f64 / 100.0 };
        let is_there = |place: &Place| files.binary_search_by_key(place, ClosedFile::place).is_ok();
        self.failed.retain(|place, _| is_there(place));
        self.apart.retain(is_there);
        let rests = |file: &ClosedFile| {
            self.failed.get(&file.place()).is_some_and(|failed| now < *failed + FAILED_PAUSE)
        };
        let is_worth = |at: &usize| wastes[*at] >= bound && !rests(&files[*at]);
        (0..files.len()).filter(is_worth).max_by(|a, b| wastes[*a].total_cmp(&wastes[*b]))
    }

    /// Notes that files were compacted.
    pub(super) fn note_done(&mut self, files: &[ClosedFile]) {
        for place in files.iter().map(ClosedFile::place) {
            self.failed.remove(&place);
            self.apart.remove(&place);
        }
    }

    /// Notes that files could not be compacted.
    pub(super) fn note_failed(&mut self, files: &[ClosedFile], now: Duration) {
        self.retry_at = now + RETRY_PAUSE;
        match files {
            [file] => _ = self.failed.insert(file.place(), now),
            files => self.apart.extend(files.iter().map(ClosedFile::place)),
        }
    }

    /// Neighbours of which little is left become one with a file, unless that would copy much for little.
    fn with_neighbours(&self, stock: &Stock, options: &CompactionOptions, chosen: usize) -> Range<usize> {
        let files = &stock.files;
        let mut chosen = chosen..chosen + 1;
        let (mut live, mut length) = (stock.raw_live_bytes_of(chosen.start), files[chosen.start].raw_bytes());
        let mut joins = |at: usize| {
            let (its, bytes) = (stock.raw_live_bytes_of(at), files[at].raw_bytes());
            let fits = live + its <= options.file_bytes && length + bytes <= 4 * options.file_bytes;
            let joins = fits && its <= live.max(options.file_bytes / 16);
            if joins {
                (live, length) = (live + its, length + bytes);
            }
            joins
        };
        let is_apart = |file: &ClosedFile| {
            let place = file.place();
            self.apart.contains(&place) || self.failed.contains_key(&place)
        };
        let follow = |at: usize| {
            let (file, next) = (&files[at - 1], &files[at]);
            file.is_followed_by(next) && !is_apart(file) && !is_apart(next)
        };
        while chosen.end < files.len() && follow(chosen.end) && joins(chosen.end) {
            chosen.end += 1;
        }
        while chosen.start > 0 && follow(chosen.start) && joins(chosen.start - 1) {
            chosen.start -= 1;
        }
        chosen
    }
}
