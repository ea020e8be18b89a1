//! The work beside the writing of blocks: prepares files, syncs them every half second (`SYNC_PAUSE`), and
//! cuts them when they are full.
//!
//! A thread for each directory makes files ready there, which may take long when they are written over with
//! zeros: as long as the directory takes for as many records. Another syncs, cuts, says in an empty block
//! what has become durable when nothing more comes, and takes up the work again after a failure (`rescue`).

use std::sync::Arc;
use std::time::Duration;

use super::flusher::Flight;
use super::pipeline::{Active, Leaving, Pipeline, State, Taken};
use super::rescue::Rescue;
use crate::io::DiskError;
use crate::log::closed::ClosedFile;
use crate::log::file::{FileHeader, LogFile, Preparation};
use crate::log::format::BLOCK_CLAIM;
use crate::log::options::SyncMode;
use crate::log::threads::Ordering;
use crate::record::Lsn;

/// Pause between two syncs under `EverySec`. A record is durable after at most a pause, the sync that was
/// under way when it came, and its own: half a second leaves time for two slow syncs within the second that
/// may be lost.
const SYNC_PAUSE: Duration = Duration::from_millis(500);
/// How often a failed disk is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const A_MOMENT: Duration = Duration::from_millis(5);

impl Pipeline {
    /// Makes a directory's files ready before they are needed, until the log is closed.
    pub(in crate::log) fn run_preparer(&self, lane: usize) {
        let mut retry_at = Duration::ZERO;
        loop {
            let mut active = self.active.lock();
            match active.state {
                State::Closing if active.count == 0 => return,
                State::Closed | State::Unlogged => return,
                _ => {}
            }
            let ours = &active.lanes[lane];
            let rests = ours.trouble.is_some() && self.clock.monotonic() < retry_at;
            let is_wanted = ours.next.is_none() && !rests && !matches!(active.state, State::Failed(..));
            if is_wanted {
                drop(active);
                if !self.prepare(lane) {
                    retry_at = self.clock.monotonic() + RETRY_PAUSE;
                }
            } else if let Some(error) = self.stuck(&active) {
                drop(active);
                self.fail(error);
            } else {
                self.chores.wait_for(&mut active, RETRY_PAUSE);
            }
        }
    }

    /// Makes the next file of a directory; says whether that went well.
    pub(in crate::log) fn prepare(&self, lane: usize) -> bool {
        let file_id = self.disk.random();
        let (header, directory) = {
            let mut active = self.active.lock();
            active.lanes[lane].preparing = true;
            (active.next_header(lane, self.template.log_id, file_id), active.lanes[lane].directory.clone())
        };
        let preparation = Preparation::of(self.mode());
        let create =
            || LogFile::create(&*self.disk, &directory, header, self.template, preparation, |_| Ok(()));
        let closed = self.closer.closed();
        let created = match create() {
            // Space of files that are gone may come a moment later.
            Err(error) if error.is_full() && self.closer.settle() > closed => create(),
            answer => answer,
        };
        let mut active = self.active.lock();
        active.lanes[lane].preparing = false;
        match created {
            Ok(file) if active.epoch == header.epoch => {
                active.lanes[lane].next = Some(Arc::new(file));
                active.lanes[lane].trouble = None;
                self.work.notify_all();
                true
            }
            Ok(file) => {
                drop(active);
                self.discard(&file);
                true
            }
            Err(error) => {
                self.note_error(lane, &error);
                active.lanes[lane].trouble = Some(Arc::new(error));
                false
            }
        }
    }

    /// Removes a file of an older epoch that no block went to.
    pub(in crate::log) fn discard(&self, file: &LogFile) {
        let removed = self.disk.remove(file.keeper_handle().path());
        // The next start removes it where this fails.
        let _ = removed.inspect_err(|error| self.note_error(file.lane(), error));
    }

    /// Why no directory can take the records that wait, if that is so for want of files.
    pub(in crate::log) fn stuck(&self, active: &Active) -> Option<Arc<DiskError>> {
        if active.count == 0
            || self.can_take(active, false)
            || active.lanes.iter().any(|lane| lane.preparing)
            || !matches!(active.state, State::Running | State::Closing)
        {
            return None;
        }
        let troubles: Option<Vec<_>> = active.lanes.iter().map(|lane| lane.trouble.clone()).collect();
        troubles?.into_iter().next()
    }

    /// Syncs and cuts files, until the log is closed.
    pub(in crate::log) fn run_syncer(&self) {
        let (mut hurry, mut is_stuck) = (0, false);
        // The pauses since all files were synced.
        let mut paused = Duration::ZERO;
        loop {
            let hurried = {
                let mut active = self.active.lock();
                match active.state {
                    State::Closing | State::Closed | State::Unlogged => return,
                    _ => {}
                }
                if let Some(pause) = active.pause_of_syncer(hurry, is_stuck) {
                    let pause = pause.min(SYNC_PAUSE.saturating_sub(paused));
                    self.chores.wait_for(&mut active, pause);
                    paused += pause;
                }
                std::mem::replace(&mut hurry, active.hurry) != hurry
            };
            if self.failed() {
                self.rescue_or_wait();
                continue;
            }
            let wanted = self.wants_sync.swap(false, Ordering::SeqCst);
            let last = wanted.then(|| Lsn(self.active.lock().next.0 - 1));
            let is_due = paused >= SYNC_PAUSE;
            if is_due && self.mode() != SyncMode::No || hurried || wanted {
                self.sync_all();
            }
            if is_due || hurried || wanted {
                paused = Duration::ZERO;
            }
            // What was not written yet is synced the next time.
            if last.is_some_and(|last| self.durable.lsn() < last) {
                self.wants_sync.store(true, Ordering::SeqCst);
            }
            is_stuck = !self.leave_files();
            self.claim();
        }
    }

    /// Tries to take up the work again, and gives the disk time if that fails.
    fn rescue_or_wait(&self) {
        let retry_at = self.clock.monotonic() + RETRY_PAUSE;
        let rescued = self.rescue();
        let mut active = self.active.lock();
        if rescued == Rescue::NotYet {
            // A flight is still under way, for milliseconds as a rule.
            self.chores.wait_for(&mut active, A_MOMENT);
            return;
        }
        while matches!(active.state, State::Failed(..)) && self.clock.monotonic() < retry_at {
            self.chores.wait_for(&mut active, RETRY_PAUSE);
        }
    }

    /// Syncs every file that holds blocks that were written and may not be durable.
    pub(in crate::log) fn sync_all(&self) {
        for file in self.durable.files_written() {
            Flight::of_keeper(&file).sync(self, &file);
        }
    }

    /// Cuts full files to their length and syncs them, once all their blocks are written. `false` if there
    /// are such files and none could be cut yet.
    pub(in crate::log) fn leave_files(&self) -> bool {
        let leaving = self.active.lock().leaving.clone();
        let mut got_on = leaving.is_empty();
        for Leaving { file, length, contents } in leaving {
            if self.failed() || self.durable.writes_in(&file) {
                continue;
            }
            let sequences = self.durable.written_in(&file);
            let handle = file.keeper_handle();
            let cut = handle.set_len(length).inspect_err(|error| self.note_error(file.lane(), error));
            match cut.and_then(|()| self.sync_file(&file, file.handles.len() - 1)) {
                Ok(()) => {
                    self.settle(&sequences);
                    // First there, then here no more: a compaction that looks meanwhile sees it.
                    let closed = ClosedFile::new(handle.path(), &file.header, length, contents);
                    self.note_closed(closed.of_log_opened_in(self.opened_in));
                    self.active.lock().leaving.retain(|other| !Arc::ptr_eq(&other.file, &file));
                    got_on = true;
                }
                Err(error) => self.fail(error),
            }
        }
        got_on
    }

    /// Has the files that hold records up to `lsn` left, so that they can be compacted; to be called until it
    /// says that there is nothing to wait for. Waits for nothing itself, and nobody who writes waits for it.
    pub(in crate::log) fn begin_to_leave(&self, lsn: Lsn) -> bool {
        let mut active = self.active.lock();
        // What a log holds that has failed is written once more, to other files.
        let is_done = !matches!(active.state, State::Running) || active.leave_records(lsn);
        self.chores.notify_all();
        is_done
    }

    /// Cuts and syncs the files that are written to, too. REQUIRES: nobody writes any more.
    pub(in crate::log) fn leave_all_files(&self) {
        {
            let mut guard = self.active.lock();
            let active = &mut *guard;
            for lane in &mut active.lanes {
                let (length, contents) = (lane.offset, std::mem::take(&mut lane.contents));
                let leaving = lane.current.take().map(|file| Leaving { file, length, contents });
                active.leaving.extend(leaving);
            }
        }
        self.leave_files();
    }

    /// Writes an empty block that says what is durable, if no block says so yet and none is on its way: so
    /// that damage to the last blocks before a pause is told from a torn tail.
    pub(in crate::log) fn claim(&self) {
        let taken = {
            let mut active = self.active.lock();
            let durable = self.durable.sequence();
            let quiet = active.count == 0 && durable + 1 == active.next_sequence;
            if !quiet || active.claimed || durable == active.opened_after {
                return;
            }
            self.take_mark(&mut active, BLOCK_CLAIM)
        };
        if let Some(taken) = taken {
            self.write_alone(taken);
        }
    }

    /// Takes an empty block of a directory that has a file: behind a rescue others wait for theirs.
    pub(in crate::log) fn take_mark(&self, active: &mut Active, flags: u32) -> Option<Taken> {
        let lane = active.lanes.iter().position(|lane| lane.current.is_some() || lane.next.is_some())?;
        self.take(active, lane, flags)
    }

    /// Writes and syncs a block on the thread of the caller.
    pub(in crate::log) fn write_alone(&self, taken: Taken) {
        let file = taken.file.clone();
        let flight = Flight::of_keeper(&file);
        if flight.write(self, taken) {
            flight.sync(self, &file);
        }
    }

    pub(in crate::log) fn failed(&self) -> bool {
        matches!(self.active.lock().state, State::Failed(..))
    }
}

impl Active {
    /// How long the thread that syncs and cuts waits before its next turn, unless it is called or a sync is
    /// due. `hurry`: the wishes that it has heard; `is_stuck`: no file could be cut in its last turn.
    pub(in crate::log) fn pause_of_syncer(&self, hurry: u64, is_stuck: bool) -> Option<Duration> {
        if self.hurry != hurry || matches!(self.state, State::Failed(..)) {
            None
        } else if self.leaving.is_empty() {
            Some(SYNC_PAUSE)
        } else {
            // A block is on its way to the file, for long if the disk is slow.
            is_stuck.then_some(A_MOMENT)
        }
    }

    /// The header of the next new file of a directory, whose number is used up.
    pub(in crate::log) fn next_header(&mut self, lane: usize, log_id: u128, file_id: u64) -> FileHeader {
        let number = self.lanes[lane].next_number;
        self.lanes[lane].next_number += 1;
        FileHeader {
            log_id,
            stream: lane as u32,
            number,
            file_id,
            epoch: self.epoch,
            opened_after: self.opened_after,
            first: self.epoch_first,
            era: self.era,
            compaction: None,
        }
    }
}
