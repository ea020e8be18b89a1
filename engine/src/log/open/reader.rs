//! Opens a log: merges the blocks of all directories by block sequence, and decides where the log ends.
//!
//! ```text
//!  directory 0:  41     43 44        47            kept: 41-45
//!  directory 1:     42        45  xx     48        46 is missing: cut off if D <= 45, else damage
//! ```
//!
//! - The longest prefix of consecutive sequences is kept. Of blocks of which nothing is left several
//!   directories may tell.
//! - D is the highest sequence that anything whole says was durable: a block's `durable`, an epoch's `opened
//!   after`.
//! - Files of an era before the newest are no part of the log: see [`Era`].
//! - A whole block behind a higher one of its file is a copy that a device has put in place of another, or
//!   stands behind such a copy. It is set aside; what that other block had is missing.
//! - Up to D nothing may be missing, but for blocks whose records are all in the checkpoint that a start
//!   builds on: see `covered`. What lies beyond D, and after the first that is missing, was never
//!   acknowledged under `Always`.
//! - What is kept beyond D may be in the operating system's memory alone. It is written again, the same bytes
//!   to the same place, and synced before the next epoch claims it: a sync alone would not do, because an
//!   earlier one may have failed and forgotten it.
//! - The next epoch begins in new files only after that. From then on its headers void what is cut here,
//!   whether or not the cutting itself reached the disk.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ahead::StreamFile;
use super::identity::{Directories, remove_pending};
use super::put_away::put_headless_away;
use super::source::{Head, Source};
use super::stream::{Fault, Found, read_ahead};
use crate::io::{Disk, DiskLock, DiskResult, OnOneLine};
use crate::log::block::Block;
use crate::log::closed::ClosedFile;
use crate::log::condensed::Told;
use crate::log::error::{Damage, OpenError};
use crate::log::file::{Compaction, Era, FileHeader, LSN_END, NUMBERS_END};
use crate::log::format::BLOCK_CLOSED;
use crate::log::options::LogOptions;
use crate::log::sizes::Sizes;
use crate::log::voids::{Void, Voids};
use crate::record::Lsn;

/// A log is gone on with only if its newest record is before this one. None that was written by appending
/// reaches it: behind [`Lsn::LIMIT`] nothing is numbered but where a log begins that is switched on.
const LSNS_GONE_ON_FROM: Lsn = Lsn(LSN_END - (1 << 33));

/// A log that is being opened: its blocks in order.
pub struct Reader {
    pub(in crate::log) disk: Arc<dyn Disk>,
    pub(in crate::log) options: LogOptions,
    pub(in crate::log) directories: Directories,
    pub(in crate::log) sources: Vec<Source>,
    progress: OpenProgress,
    pub(in crate::log) state: Merged,
    /// Damage ends the reading as a torn tail does, and is told by [`Reader::survey`].
    pub(in crate::log) examines: bool,
    /// No block from this one on is kept, for this reason.
    pub(in crate::log) stop: Option<(u64, Damage)>,
    /// A checkpoint that the start builds on has all up to here; 0 for none.
    pub(in crate::log) covered: Lsn,
}

/// How much of a log has been read. Cheap to clone; for another thread to look at.
#[derive(Clone, Debug)]
pub struct OpenProgress {
    bytes_read: Arc<AtomicU64>,
    /// Length of all files.
    pub bytes_total: u64,
}

impl OpenProgress {
    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }
}

/// The result of opening a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Blocks kept.
    pub blocks: u64,
    /// The newest record kept.
    pub last: Lsn,
    /// Bytes cut off the end: blocks that came after a missing one, and what was not a whole block.
    pub bytes_cut: u64,
    /// The first file that was cut and the byte from which on, if bytes were cut. Files are in the order of
    /// their directories and numbers.
    pub cut: Option<(PathBuf, u64)>,
    /// How many files were cut.
    pub files_cut: usize,
    /// Of what was cut off, blocks that were whole: one before them is missing.
    pub blocks_cut: u64,
    /// Records in those blocks.
    pub records_cut: u64,
    /// Whether the log had been closed, not just left.
    pub closed: bool,
    /// Whether there was no log before.
    pub created: bool,
    /// All up to this record is in a checkpoint that the log goes on from; 0 if it needs none.
    pub base: Lsn,
    /// Damage that was passed over: the checkpoint has all records that were there.
    pub covered: Vec<Damage>,
}

impl Recovered {
    /// Where the log was cut, in words; `None` if it was not.
    pub fn place_of_cut(&self) -> Option<String> {
        let (path, offset) = self.cut.as_ref()?;
        let others = match self.files_cut.saturating_sub(1) {
            0 => String::new(),
            1 => " and in 1 other file".to_owned(),
            others => format!(" and in {others} other files"),
        };
        Some(format!("from byte {offset} of {} on{others}", OnOneLine(path)))
    }

    /// The whole blocks that were cut off, in words, with a comma before them; empty if there were none.
    pub fn blocks_cut_in_words(&self) -> String {
        let counted = |count: u64, noun| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        match self.blocks_cut {
            0 => String::new(),
            blocks => {
                let records = counted(self.records_cut, "record");
                format!(", {} with {records} among them", counted(blocks, "whole block"))
            }
        }
    }
}

/// A block that was kept and that nothing says is durable.
struct Unsure {
    sequence: u64,
    first: Lsn,
    source: usize,
    file: usize,
    offset: u64,
    length: u64,
}

/// How far the merge has come.
#[derive(Default)]
pub(in crate::log) struct Merged {
    /// The last block kept.
    pub(in crate::log) sequence: u64,
    pub(in crate::log) last: Lsn,
    /// Bytes of the blocks kept.
    bytes: u64,
    /// D so far.
    durable: u64,
    epoch: u64,
    era: Era,
    /// The first block goes on from this record.
    begins: Lsn,
    checkpoint_wanted: Lsn,
    /// The blocks of which nothing is left.
    pub(in crate::log) voids: Voids,
    /// Kept blocks above D.
    unsure: VecDeque<Unsure>,
    ended: bool,
    pub(in crate::log) recovered: Recovered,
    /// Why the reading ended before the end; only an examination gets as far as having it.
    pub(in crate::log) damage: Option<Damage>,
}

impl Reader {
    /// Locks the directories and looks at all files.
    pub(in crate::log) fn open(disk: Arc<dyn Disk>, options: LogOptions) -> Result<Reader, OpenError> {
        let directories = Directories::open(&*disk, &options.directories)?;
        Reader::begin(disk, options, directories, false)
    }

    /// Looks at all files and starts to read them.
    pub(in crate::log) fn begin(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        directories: Directories,
        examines: bool,
    ) -> Result<Reader, OpenError> {
        let sources = (0..directories.paths.len())
            .map(|index| Source::new(&*disk, &directories, index, examines))
            .collect::<Result<Vec<_>, _>>();
        let mut sources = sources.map_err(|error| error.with_remedy(&options.directories))?;
        let pending = directories.pending.filter(|behind| options.base < *behind && !examines);
        let era = choose_era(&mut sources, pending);
        let headers: Vec<FileHeader> =
            sources.iter().flat_map(|source| source.files.iter().map(|file| file.header)).collect();
        let mut state = Merged::default();
        if let Some(newest) = headers.iter().max_by_key(|header| header.epoch) {
            state.epoch = newest.epoch;
            state.durable = newest.opened_after;
        }
        let compactions = || headers.iter().filter_map(|header| header.compaction);
        // What the files dropped was replaced by blocks up to there.
        state.durable = compactions().map(|compaction| compaction.durable).fold(state.durable, u64::max);
        state.recovered.created = headers.is_empty();
        // The first epoch begins behind the base of the log, be it that nothing was ever written in it.
        let oldest = headers.iter().min_by_key(|header| header.epoch);
        state.checkpoint_wanted =
            compactions().map(|compaction| compaction.checkpoint).max().unwrap_or(Lsn::ZERO);
        // Its files may have become one with newer ones.
        let of_epoch = oldest.map_or(options.base, |header| Lsn(header.first.0.saturating_sub(1)));
        let of_compactions = compactions().map(|compaction| compaction.base).max();
        state.begins = of_compactions.unwrap_or(of_epoch);
        if era != Era::default() {
            (state.begins, state.sequence) = (era.behind, era.after);
        }
        (state.era, state.last) = (era, state.begins);
        let needed = compactions().map(|compaction| compaction.needed);
        state.recovered.base = needed.fold(state.begins, Lsn::max);
        let bytes_read = Arc::new(AtomicU64::new(0));
        let mut bytes_total = 0;
        for source in &mut sources {
            for file in &mut source.files {
                file.sequence_limit = sequence_limit(&headers, file.header.epoch);
                bytes_total += file.bytes;
            }
            let (files, read) = (source.files.clone(), bytes_read.clone());
            source.incoming = Some(read_ahead(disk.clone(), files, read, options.sizes));
        }
        let progress = OpenProgress { bytes_read, bytes_total };
        let (stop, covered) = (None, Lsn::ZERO);
        Ok(Reader { disk, options, directories, sources, progress, state, examines, stop, covered })
    }

    /// How much is read at a time.
    pub(crate) fn sizes(&self) -> Sizes {
        self.options.sizes
    }

    /// Which log it is.
    pub fn log_id(&self) -> u128 {
        self.directories.log_id
    }

    /// All up to this record is in a checkpoint that the log goes on from; 0 if it needs none.
    pub fn base(&self) -> Lsn {
        self.state.recovered.base
    }

    /// Records up to here may not fit what those before them made, as a repair has cut off what was said of
    /// their keys later.
    pub fn unfit(&self) -> Lsn {
        self.compactions().map(|compaction| compaction.unfit).max().unwrap_or(Lsn::ZERO)
    }

    /// Whether compacted files rely on more than what has been kept.
    pub fn claims_more(&self) -> bool {
        self.compactions().any(|compaction| self.state.is_beyond(&compaction))
    }

    fn compactions(&self) -> impl Iterator<Item = Compaction> {
        self.sources.iter().flat_map(|source| source.files.iter().filter_map(|file| file.header.compaction))
    }

    /// Up to where a checkpoint must have all that the log is to go on from; the log alone needs none.
    pub fn checkpoint_wanted(&self) -> Lsn {
        self.state.checkpoint_wanted
    }

    /// The newest record that has been read, or the base before the first.
    pub fn last(&self) -> Lsn {
        self.state.last
    }

    /// The newest record that has been read and that was durable when the log was left.
    pub fn sure(&self) -> Lsn {
        self.state.unsure.front().map_or(self.state.last, |block| Lsn(block.first.0.saturating_sub(1)))
    }

    /// Compacted files have left out what blocks up to this one made obsolete, or what they did before it; 0
    /// without such files. As a crash could end the log at any block from there on, what is made of all up to
    /// such a block is what was.
    pub fn relied_on(&self) -> u64 {
        self.compactions().map(|compaction| compaction.durable).max().unwrap_or(0)
    }

    /// How much has been read.
    pub fn progress(&self) -> OpenProgress {
        self.progress.clone()
    }

    /// The next block, in the order of their sequences; `None` after the last.
    pub fn next_block(&mut self) -> Result<Option<Block>, OpenError> {
        while !self.state.ended {
            let wanted = self.state.sequence + 1;
            if let Some((_, damage)) = self.stop.take_if(|(sequence, _)| *sequence <= wanted) {
                self.end(Some(damage))?;
                break;
            }
            let mut head = None;
            for index in 0..self.sources.len() {
                if let Some(outcome) = self.look_at(index)? {
                    head = Some((index, outcome));
                    break;
                }
            }
            if head.is_none() && self.pass_covered()? {
                continue;
            }
            let damage = match head {
                Some((index, Ok(()))) => match self.keep(index) {
                    Some(block) if block.count() > 0 => return Ok(Some(block)),
                    _ => continue,
                },
                Some((_, Err(damage))) => Some(damage),
                // Whatever it was put in place of is missing.
                None => self.sources.iter().find_map(|source| source.misplaced.first()).map(Fault::to_damage),
            };
            self.end(damage)?;
        }
        Ok(None)
    }

    /// Whether what comes next in a directory is what follows; `None` if it is to come later. What a device
    /// has put there is damage of its place, and set aside.
    fn look_at(&mut self, index: usize) -> Result<Option<Result<(), Damage>>, OpenError> {
        let source = &mut self.sources[index];
        let wanted = self.state.sequence + 1;
        while let Some(found) = source.head()?.filter(|found| found.from() <= wanted) {
            let outcome = self.state.follows(&found, &self.directories.paths[index]);
            if outcome.is_ok() || !source.set_aside_misplaced() {
                return Ok(Some(outcome));
            }
        }
        Ok(None)
    }

    /// D, as far as it is known by now.
    #[cfg(test)]
    pub(in crate::log) fn durable_sequence(&self) -> u64 {
        self.state.durable
    }

    /// Keeps what is next in a source; `None` if that is no block.
    fn keep(&mut self, index: usize) -> Option<Block> {
        self.pass_unread(index);
        let state = &mut self.state;
        let source = &mut self.sources[index];
        if let Some((told, teller)) = source.told()
            && let Some(void) = state.void(&told)
        {
            if void.to > state.sequence {
                (state.sequence, state.last) = (void.to, Lsn(void.next.0 - 1));
                source.untold.extend(self.examines.then_some(void));
            }
            state.voids.note(&void, teller);
        }
        let (file, mut block) = source.take()?;
        let header = block.header;
        let misplaced = source.rise_to(file, header.sequence);
        state.recovered.covered.extend(misplaced.iter().map(Fault::to_damage));
        state.bytes += header.length;
        block.behind = self.progress.bytes_total.saturating_sub(state.bytes);
        if !block.is_void {
            (state.sequence, state.last) = (header.sequence, block.last());
        }
        state.durable = state.durable.max(header.durable);
        state.unsure.push_back(Unsure {
            sequence: header.sequence,
            first: header.first,
            source: index,
            file,
            offset: block.offset,
            length: header.length,
        });
        while state.unsure.front().is_some_and(|block| block.sequence <= state.durable) {
            state.unsure.pop_front();
        }
        state.recovered.blocks += 1;
        state.recovered.closed = header.flags & BLOCK_CLOSED != 0;
        self.sources[index].tallies[file].keep(&block);
        Some(block)
    }

    /// The next block is in no source, or there is damage before it: reads what is left to find out whether
    /// that is an end or damage.
    fn end(&mut self, damage: Option<Damage>) -> Result<(), OpenError> {
        if let (Some(damage), false) = (&damage, self.examines) {
            return Err(self.damaged(damage.clone()));
        }
        let mut spoilt: Option<Fault> = None;
        let mut beyond: Option<(PathBuf, u64)> = None;
        for source in &mut self.sources {
            source.head()?;
            let misplaced = std::mem::take(&mut source.misplaced);
            for fault in misplaced.into_iter().chain(std::mem::take(&mut source.faults)) {
                spoilt.get_or_insert_with(|| fault.clone());
                source.lose(&Found::Fault(fault));
            }
            while let Some(found) = source.next()? {
                source.lose(&found);
                match found {
                    Found::Block { block, file } => {
                        source.teller.get_or_insert(file);
                        self.state.durable = self.state.durable.max(block.header.durable);
                        beyond.get_or_insert_with(|| (block.path().to_path_buf(), block.offset));
                    }
                    Found::Fault(fault) => _ = spoilt.get_or_insert(fault),
                    Found::Voids { .. } => {}
                    Found::Unread(unread) => source.unread.push(unread),
                }
            }
        }
        if let Some(error) = self.unread_that_counts() {
            return Err(error.with_remedy(&self.options.directories));
        }
        let damage = damage.or_else(|| self.missing(spoilt, beyond));
        match damage {
            Some(damage) if !self.examines => return Err(self.damaged(damage)),
            damage => self.state.damage = damage,
        }
        self.count_cut();
        self.state.recovered.last = self.state.last;
        self.state.ended = true;
        Ok(())
    }

    /// Notes what will be cut off, and where: [`Reader::finish`] cuts each file after its last kept block.
    fn count_cut(&mut self) {
        let recovered = &mut self.state.recovered;
        let files = self.sources.iter().flat_map(|source| source.files.iter().zip(&source.tallies));
        for (file, tally) in files.filter(|(_, tally)| tally.lost.bytes > 0) {
            recovered.bytes_cut += tally.lost.bytes;
            recovered.blocks_cut += tally.lost.blocks;
            recovered.records_cut += tally.lost.records;
            recovered.files_cut += 1;
            recovered.cut.get_or_insert_with(|| (file.path.to_path_buf(), tally.kept_bytes));
        }
        recovered.closed &= recovered.bytes_cut == 0;
    }

    /// The result of reading. REQUIRES: all blocks have been read.
    pub fn recovered(&self) -> &Recovered {
        &self.state.recovered
    }

    /// The damage if the block that is in no source was durable. `beyond`: the first whole block that is
    /// left.
    fn missing(&self, spoilt: Option<Fault>, beyond: Option<(PathBuf, u64)>) -> Option<Damage> {
        let wanted = self.state.sequence + 1;
        if self.state.durable < wanted {
            return None;
        }
        let (path, offset, what) = match spoilt {
            Some(fault) => (fault.path.to_path_buf(), fault.offset, fault.what),
            None => {
                let (path, offset) = beyond.unwrap_or_else(|| (self.sources[0].directory.clone(), 0));
                (path, offset, "a block before it is in no file")
            }
        };
        let what = format!("{what} (block {wanted} is missing, {} were durable)", self.state.durable);
        Some(Damage::new(path, offset, what))
    }

    fn damaged(&self, damage: Damage) -> OpenError {
        OpenError::from(damage).with_remedy(&self.options.directories)
    }

    /// Refuses numbers that no log reaches by counting: going on from there would come to their end.
    pub(in crate::log) fn refuse_forged_numbers(&self) -> Result<(), OpenError> {
        let numbers = self.sources.iter().filter_map(|source| source.files.last());
        let numbers = numbers.map(|file| file.header.number).chain([self.state.sequence, self.state.epoch]);
        if numbers.max() >= Some(NUMBERS_END / 2) || self.state.last >= LSNS_GONE_ON_FROM {
            let what = "its files have numbers that no log reaches".to_string();
            return Err(Damage::new(self.sources[0].directory.clone(), 0, what).into());
        }
        Ok(())
    }

    /// Reads what was not read, cuts off what is not kept, and makes durable what is.
    pub(in crate::log) fn finish(mut self) -> Result<Finished, OpenError> {
        while self.next_block()?.is_some() {}
        self.refuse_forged_numbers()?;
        put_headless_away(&*self.disk, &self.sources)?;
        for &Unsure { source, file, offset, length, .. } in &self.state.unsure {
            write_again(&self.sources[source].files[file], offset, length)?;
        }
        let mut next_numbers = Vec::new();
        let mut closed = Vec::new();
        for (index, source) in self.sources.iter().enumerate() {
            let unsure = |file: usize| {
                self.state.unsure.iter().any(|block| (block.source, block.file) == (index, file))
            };
            let mut removed = false;
            for (file, tally) in source.files.iter().zip(&source.tallies) {
                let kept = tally.kept_bytes;
                if tally.is_gone {
                    // A repair has put it away.
                } else if tally.is_empty() && !file.header.needs_checkpoint() {
                    self.disk.remove(&file.path)?;
                    removed = true;
                } else {
                    // Also where it is as long as that: a process that was killed has left space behind the
                    // end, which was reserved, and which a length does not tell of.
                    file.file.set_len(kept)?;
                    closed.push(ClosedFile::new(&file.path, &file.header, kept, tally.contents));
                    if kept < file.bytes || unsure(file.index) {
                        file.file.sync_data()?;
                    }
                }
            }
            for path in &source.superseded {
                self.disk.remove(path)?;
                removed = true;
            }
            if removed {
                self.disk.sync_dir(&source.directory)?;
            }
            next_numbers.push(source.files.last().map_or(0, |file| file.header.number) + 1);
        }
        if self.directories.pending.is_some() {
            remove_pending(&*self.disk, &self.directories.paths[0])?;
        }
        Ok(Finished {
            era: self.state.era,
            begins: self.state.begins,
            voids: self.state.voids,
            sequence: self.state.sequence,
            epoch: self.state.epoch + 1,
            next_numbers,
            log_id: self.directories.log_id,
            paths: self.directories.paths,
            locks: self.directories.locks,
            recovered: self.state.recovered,
            closed,
            disk: self.disk,
            options: self.options,
        })
    }
}

impl Merged {
    /// Whether a compaction relies on more than what is kept.
    pub(in crate::log) fn is_beyond(&self, compaction: &Compaction) -> bool {
        compaction.durable > self.sequence || compaction.timestamp > self.last
    }

    /// The last block kept.
    pub(in crate::log) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether what comes next in `directory` is what follows.
    fn follows(&self, found: &Head<'_>, directory: &Path) -> Result<(), Damage> {
        let sequence = found.from();
        let place = match found {
            Head::Block(block) => (block.path().to_path_buf(), block.offset),
            Head::Void(_) => (directory.to_path_buf(), 0),
        };
        let damaged = |what: String| Err(Damage::new(place.0, place.1, what));
        let told = found.told();
        if sequence != self.sequence + 1 {
            // Several may tell that nothing is left of a block, if they agree.
            let agree = told.is_some_and(|told| self.agrees(&told));
            return if agree { Ok(()) } else { damaged(format!("block {sequence} stands there once more")) };
        }
        let first = match (told, found) {
            (Some(told), _) => told.first,
            (None, Head::Block(block)) => Some(block.first()),
            (None, Head::Void(_)) => None,
        };
        let expected = self.last.after(1);
        match first.filter(|first| self.sequence > 0 && *first != expected) {
            Some(first) => damaged(format!("block {sequence} begins with record {first}, not {expected}")),
            None => Ok(()),
        }
    }

    /// Whether nothing is left of those of the blocks that have been read, and the others go on behind them.
    fn agrees(&self, told: &Told) -> bool {
        let blocks = told.blocks;
        let goes_on = || self.void(told).is_some_and(|void| void.next > self.last);
        self.voids.run_of(blocks.from, blocks.to.min(self.sequence)).is_some()
            && (blocks.to <= self.sequence || goes_on())
    }

    /// The dropped range that is recorded, with its records. Where its first record is not recorded, it
    /// begins after the last one; no record is new where others have recorded all.
    fn void(&self, told: &Told) -> Option<Void> {
        let is_next = told.blocks.from == self.sequence + 1;
        let first = told.first.or_else(|| is_next.then(|| self.last.after(1)));
        Told { first, ..*told }.void()
    }
}

/// The state after all old blocks are read and settled.
pub(in crate::log) struct Finished {
    pub(in crate::log) disk: Arc<dyn Disk>,
    pub(in crate::log) options: LogOptions,
    pub(in crate::log) log_id: u128,
    pub(in crate::log) paths: Vec<PathBuf>,
    pub(in crate::log) locks: Vec<Box<dyn DiskLock>>,
    pub(in crate::log) next_numbers: Vec<u64>,
    /// The last block kept.
    pub(in crate::log) sequence: u64,
    /// The epoch to begin.
    pub(in crate::log) epoch: u64,
    /// The era that it belongs to.
    pub(in crate::log) era: Era,
    /// The log goes on from this record.
    pub(in crate::log) begins: Lsn,
    pub(in crate::log) recovered: Recovered,
    /// The files that have something.
    pub(in crate::log) closed: Vec<ClosedFile>,
    /// The blocks of which nothing is left.
    pub(in crate::log) voids: Voids,
}

/// Sets aside all files but those of the newest era that counts, and returns that. The one behind `pending`
/// does not.
fn choose_era(sources: &mut [Source], pending: Option<Lsn>) -> Era {
    let counts = |era: Era| pending.is_none_or(|behind| era.behind != behind);
    let eras = sources.iter().flat_map(|source| source.files.iter().map(|file| file.header.era));
    let newest = eras.filter(|era| counts(*era)).max().unwrap_or_default();
    sources.iter_mut().for_each(|source| source.set_aside(|era| era == newest));
    newest
}

/// The highest block that counts in files of an epoch.
fn sequence_limit(headers: &[FileHeader], epoch: u64) -> u64 {
    let later = headers.iter().filter(|header| header.epoch > epoch);
    later.map(|header| header.opened_after).min().unwrap_or(u64::MAX)
}

fn write_again(file: &StreamFile, offset: u64, length: u64) -> DiskResult<()> {
    let mut bytes = vec![0; usize::try_from(length).expect("a block that was read fits the address space")];
    let count = file.file.read_full_at(&mut bytes, offset)?;
    file.file.write_all_at(&bytes[..count], offset)
}
