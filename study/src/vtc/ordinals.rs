//! The thesis: the position of a record is its place in its file.
//!
//! ```text
//!   file      A  b  C  d  d  E  F        capital: valid
//!   delta     0  1  1  2  3  3  3        records removed up to here
//!   copy      A  C  E  F
//!   entry C   2 ────► 2 - delta[2] = 1   by the walk
//! ```
//!
//! A record of the file that is replaced meanwhile cannot get its bit: before the walk its new place is not
//! in its entry, and the bitmap of the old file is cleared when the copy is complete. So its position stays
//! in the shard, as a *lazy* entry without key and value, and the walk corrects it and sets its bit. The
//! worker frees the lazy entries that the walk has seen to.

use std::marker::PhantomData;

use super::form::{Form, Repaired};
use super::positions::{Met, Position, Positions};

/// Positions by file and place.
#[derive(Debug)]
pub struct Ordinals<F = Repaired> {
    files: Vec<File>,
    /// The file under compaction.
    compacting: Option<usize>,
    /// Compactions begun.
    round: u64,
    form: PhantomData<fn() -> F>,
}

#[derive(Debug, Default)]
struct File {
    /// Records, which is the next ordinal.
    records: u64,
    /// paper: `invalid_bitmap`.
    invalid: Bitmap,
}

/// An entry that was replaced while its file was compacted.
#[derive(Debug)]
struct Lazy {
    position: Position,
    /// True once the walk has seen to it (paper: `lazy` = 2).
    is_done: bool,
}

/// The lazy entries of a shard.
#[derive(Debug, Default)]
pub struct InShard {
    lazy: Vec<Lazy>,
    /// The compaction whose walk came by last.
    walked: u64,
}

/// The array of a compaction.
#[derive(Debug)]
pub struct Job {
    file: usize,
    round: u64,
    removed: u64,
    /// For each record of the file, how many of those up to it were removed. 8 bytes each, as in the thesis.
    delta: Vec<u64>,
    /// Lazy entries that the walk has met.
    lazy: usize,
}

impl<F: Form> Positions for Ordinals<F> {
    const NAME: &'static str = "ordinals";
    const NUMBERED: bool = false;
    const WALKS: bool = true;
    type InShard = InShard;
    type Job = Job;

    fn new(files: usize) -> Ordinals<F> {
        let files = (0..files).map(|_| File::default()).collect();
        Ordinals { files, compacting: None, round: 0, form: PhantomData }
    }

    fn next(&mut self, file: usize) -> u64 {
        let records = &mut self.files[file].records;
        *records += 1;
        *records - 1
    }

    fn found(&mut self, file: usize, _lsn: u64) -> u64 {
        self.next(file)
    }

    fn supersede(&mut self, old: Position, shard: &mut InShard) -> bool {
        let was_walked = F::KNOWS_WALKED && shard.walked == self.round;
        if F::DEFERS && self.compacting == Some(old.file()) && !was_walked {
            shard.lazy.push(Lazy { position: old, is_done: false });
            return false;
        }
        self.mark(old)
    }

    fn mark(&mut self, position: Position) -> bool {
        self.files[position.file()].invalid.set(position.number())
    }

    fn begin(&mut self, file: usize, records: u64) -> Job {
        debug_assert_eq!(records, self.files[file].records);
        self.compacting = Some(file);
        self.round += 1;
        let delta = Vec::with_capacity(records as usize);
        Job { file, round: self.round, removed: 0, delta, lazy: 0 }
    }

    fn is_superseded(&self, met: Met) -> bool {
        self.files[met.file].invalid.has(met.ordinal)
    }

    fn note(&mut self, job: &mut Job, _met: Met, is_kept: bool) {
        job.removed += u64::from(!is_kept);
        job.delta.push(job.removed);
    }

    fn copied(&mut self, job: &mut Job) {
        let records = job.delta.len() as u64 - job.removed;
        self.files[job.file] = File { records, invalid: Bitmap::default() };
    }

    fn remap<'e>(
        job: &mut Job,
        shard: &mut InShard,
        positions: impl Iterator<Item = &'e mut Position>,
    ) -> Vec<Position> {
        let moved = |position: Position| {
            let removed = job.delta.get(position.number() as usize);
            let removed = removed.expect("the array has each record of the file");
            Position::new(job.file, position.number() - removed)
        };
        for position in positions.filter(|position| position.file() == job.file) {
            if F::REMAPS_ALL || position.number() % 8 != 7 {
                *position = moved(*position);
            }
        }
        let mut marks = Vec::new();
        for lazy in shard.lazy.iter_mut().filter(|lazy| !lazy.is_done && lazy.position.file() == job.file) {
            lazy.position = moved(lazy.position);
            lazy.is_done = true;
            marks.push(lazy.position);
        }
        job.lazy += marks.len();
        shard.walked = job.round;
        marks
    }

    fn finish(&mut self, _job: Job) {
        self.compacting = None;
    }

    fn sweep(shard: &mut InShard) {
        if !shard.lazy.is_empty() {
            shard.lazy.retain(|lazy| !lazy.is_done);
        }
    }

    fn needs_durable(began: u64, _now: u64) -> u64 {
        // What was replaced since has no bit, and was copied.
        if F::WAITS_UNTIL_DURABLE { began - 1 } else { 0 }
    }

    fn may_drop_delete(timestamp: u64, least: u64, began: u64) -> bool {
        may_drop_delete::<F>(timestamp, least, began)
    }

    fn bitmap_bytes(&self) -> usize {
        self.files.iter().map(|file| file.invalid.words.capacity() * 8).sum()
    }

    fn job_bytes(job: &Job) -> usize {
        job.delta.capacity() * 8 + job.lazy * size_of::<Lazy>()
    }
}

/// The rule of delete records, which both kinds of positions share.
///
/// paper: vtc §3.6.
pub(super) fn may_drop_delete<F: Form>(timestamp: u64, least: u64, began: u64) -> bool {
    let least = if F::REGARDS_ALL_FILES { least } else { began };
    timestamp < least || !F::KEEPS_DELETES_OF_THAT_BLOCK && timestamp == least
}

/// A bit for each record of a file.
#[derive(Debug, Default)]
struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    fn set(&mut self, number: u64) -> bool {
        let word = (number / 64) as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let was = self.words[word];
        self.words[word] |= 1 << (number % 64);
        was != self.words[word]
    }

    fn has(&self, number: u64) -> bool {
        self.words.get((number / 64) as usize).is_some_and(|word| word & 1 << (number % 64) != 0)
    }
}
