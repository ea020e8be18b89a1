//! Damage that a checkpoint covers: a start that builds on it needs no record up to its cut.
//!
//! ```text
//!  directory 0:  41 [Lsn 810-819]   xx   44 [840-845]         42 and 43 had the records 820-839:
//!  directory 1:                    xx        45 [846-850]    passed over if the checkpoint has up to 839
//! ```
//!
//! - A replay on top of a checkpoint applies no record up to its cut: the entries of the checkpoint have what
//!   they say, removals included. So blocks that are missing need not be there if the next block that is, or
//!   the next epoch, begins with a record that is not behind the record after the cut.
//! - What is behind the cut is demanded as ever: each block, each record.
//! - What no file has a place for any more: a flush or a swap among the missing records, by which a
//!   compaction finds where an older record's key is now. Therefore no compaction of such a log relies on
//!   records up to there: its headers say that the log goes on from a checkpoint that has all up to the last
//!   one missing (`needed`), and such a gap is no news to the next start.
//! - Bytes that the disk does not give, and files whose header cannot be read, may hold what is missing; they
//!   hold nothing that counts if blocks behind them in their directory are kept, as sequences rise there, or
//!   if all blocks that count of their epoch are.
//! - Without the checkpoint, or with one that is older, the log is damaged as it always was.

use super::reader::Reader;
use super::stream::Unread;
use crate::log::error::{Damage, OpenError};
use crate::record::Lsn;

impl Reader {
    /// Lets damage pass of which a checkpoint has all records, which are those up to `cut`. REQUIRES: nothing
    /// has been read, and what is replayed goes on from that checkpoint.
    pub(crate) fn cover(&mut self, cut: Lsn) {
        self.covered = cut;
    }

    /// Whether blocks were passed over, so that what follows may not fit what is there.
    pub(crate) fn lacks_covered(&self) -> bool {
        self.state.voids.passed_to() > Lsn::ZERO
    }

    /// The next block is nowhere: goes on with the first one that is somewhere, if no record in between is
    /// needed; says whether.
    pub(in crate::log) fn pass_covered(&mut self) -> Result<bool, OpenError> {
        if self.covered == Lsn::ZERO {
            return Ok(false);
        }
        let wanted = self.state.sequence + 1;
        let mut next: Option<(u64, Lsn)> = None;
        for source in &mut self.sources {
            let head = source.head()?;
            let head = head.and_then(|head| Some((head.from(), head.first()?)));
            // An epoch says with which block and record it begins.
            let epochs = source.files.iter().map(|file| file.header);
            let epochs = epochs.map(|header| (header.opened_after + 1, header.first));
            let ahead = epochs.chain(head).filter(|(from, _)| *from > wanted).min();
            next = ahead.into_iter().chain(next).min();
        }
        let goes_on = |(_, first): &(u64, Lsn)| *first > self.state.last && first.0 <= self.covered.0 + 1;
        let Some((from, first)) = next.filter(goes_on) else { return Ok(false) };
        let before = self.state.recovered.covered.len();
        for source in &mut self.sources {
            // Before further blocks of its directory it is not known yet in place of which it stands.
            let is_settled = source.head()?.is_none();
            let misplaced = if is_settled { std::mem::take(&mut source.misplaced) } else { Vec::new() };
            let faults = source.faults.drain(..).chain(misplaced);
            let damages = faults.map(|fault| {
                let what = format!("{}; the checkpoint has what was there", fault.what);
                Damage::new(fault.path.to_path_buf(), fault.offset, what)
            });
            self.state.recovered.covered.extend(damages);
        }
        let lost = Lsn(first.0 - 1);
        // What a compaction has left out is no news.
        if self.state.recovered.covered.len() == before && lost > self.state.recovered.base {
            let what = format!("blocks {wanted} to {} are in no file; the checkpoint has them", from - 1);
            let path = self.sources[0].directory.clone();
            self.state.recovered.covered.push(Damage::new(path, 0, what));
        }
        (self.state.sequence, self.state.last) = (from - 1, lost);
        self.state.voids.note_passed(lost);
        Ok(true)
    }

    /// A block of a directory is kept: whatever could not be read before it holds no other that counts.
    pub(in crate::log) fn pass_unread(&mut self, index: usize) {
        let source = &mut self.sources[index];
        let Some(number) = source.number_of_head() else { return };
        while let Some((_, file)) = source.headless.pop_if(|(its, _)| *its < number) {
            source.passed.extend(file.path.file_name().and_then(|name| name.to_str()).map(str::to_owned));
            source.unread.push(file);
        }
        let unread = source.unread.drain(..).map(|unread| unread.into_damage());
        self.state.recovered.covered.extend(unread);
    }

    /// A range that could not be read and may hold a block that counts.
    pub(in crate::log) fn unread_that_counts(&mut self) -> Option<OpenError> {
        for source in &mut self.sources {
            for unread in std::mem::take(&mut source.unread) {
                let file = source.files.iter().find(|file| file.path == unread.path);
                if file.is_none_or(|file| file.sequence_limit > self.state.sequence) {
                    return Some(unread.error);
                }
                self.state.recovered.covered.push(unread.into_damage());
            }
            if let Some((_, unread)) = source.headless.pop() {
                return Some(unread.error);
            }
        }
        None
    }
}

impl Unread {
    fn into_damage(self) -> Damage {
        match self.error {
            OpenError::Damaged(damage) => damage,
            error => Damage::new(self.path.to_path_buf(), self.offset, error.to_string()),
        }
    }
}
