//! Appends groups: a short critical section numbers the records of a group and copies them into the write
//! buffer.

use std::fmt;
use std::sync::Arc;

use super::durable::{Durable, Waker};
use super::group::Group;
use super::pipeline::{Active, BATCH_BYTES, Pipeline, State};
use crate::io::OsDisk;
use crate::log::error::LogError;
use crate::log::file::FileTemplate;
use crate::log::options::LogOptions;
use crate::log::threads::Ordering;
use crate::record::Lsn;

/// The way into the log. Cheap to clone; every worker has one.
#[derive(Clone)]
pub struct Appender {
    pub(in crate::log) pipeline: Arc<Pipeline>,
}

impl Appender {
    /// An appender without a log behind it: groups get their numbers, from `next` on, and are forgotten; all
    /// of them count as durable.
    pub fn unlogged(next: Lsn) -> (Appender, Durable) {
        let durable = Durable::new(0, Lsn(u64::MAX));
        let active = Active::new(next, 1, Vec::new(), State::Unlogged);
        let options = LogOptions::new(Vec::new());
        let template = FileTemplate::default();
        let pipeline = Pipeline::new(Arc::new(OsDisk), durable.clone(), active, template, &options);
        (Appender { pipeline: Arc::new(pipeline) }, durable)
    }

    /// Appends a group as one atomic step and returns the `Lsn` of its first record; the others follow by one
    /// each. Never waits for the disk. An empty group changes nothing and returns the `Lsn` that the next
    /// record will have.
    pub fn append(&self, group: &Group) -> Result<Lsn, LogError> {
        let mut active = self.pipeline.active.lock();
        let first = self.number(&mut active, group)?;
        self.pipeline.call_flight(&mut active);
        Ok(first)
    }

    /// As [`Appender::append`], but leaves the group to gather with others.
    ///
    /// REQUIRES: the caller calls [`Appender::depart`] soon.
    pub fn append_to_gather(&self, group: &Group) -> Result<Lsn, LogError> {
        self.number(&mut self.pipeline.active.lock(), group)
    }

    /// Sends off what has gathered, unless all flights are under way: then it goes with the next.
    pub fn depart(&self) {
        self.pipeline.call_flight(&mut self.pipeline.active.lock());
    }

    fn number(&self, active: &mut Active, group: &Group) -> Result<Lsn, LogError> {
        if active.next.0 + u64::from(group.count()) > Lsn::LIMIT.0 + 1 {
            return Err(LogError::Exhausted);
        }
        match &active.state {
            State::Running if !group.is_empty() => self.copy(active, group)?,
            State::Running | State::Unlogged => {}
            State::Failed(_, error) => return Err(error.clone()),
            State::Closing | State::Closed => return Err(LogError::Closed),
        }
        let first = active.next;
        active.next = first.after(u64::from(group.count()));
        Ok(first)
    }

    /// Makes durable what has been appended up to `lsn`, whatever the mode. Waits for the disk.
    pub fn sync_up_to(&self, lsn: Lsn) -> Result<(), LogError> {
        while self.pipeline.durable.lsn() < lsn {
            self.pipeline.hurry();
            self.pipeline.durable.wait_a_while_for(lsn)?;
        }
        Ok(())
    }

    /// Has the log made durable up to `lsn` as under `Always`, whatever the mode. Waits for nothing.
    pub fn demand(&self, lsn: Lsn) {
        self.pipeline.demand(lsn);
    }

    /// Has what was appended so far synced within a second, whatever the mode. Waits for nothing.
    pub fn want_sync(&self) {
        self.pipeline.wants_sync.store(true, Ordering::SeqCst);
    }

    /// Which log it is; 0 for none.
    pub fn log_id(&self) -> u128 {
        self.pipeline.template.log_id
    }

    /// The `Lsn` of the newest record.
    pub fn last(&self) -> Lsn {
        Lsn(self.pipeline.active.lock().next.0 - 1)
    }

    /// Bytes accepted and not yet written.
    pub fn backlog_bytes(&self) -> u64 {
        self.pipeline.backlog_bytes()
    }

    /// Bytes of memory for records on their way to the disk, with those that are kept until the device has
    /// them, and for use again.
    pub fn buffer_bytes(&self) -> u64 {
        self.pipeline.buffers.bytes()
    }

    /// Whether the disk keeps up, for the price of a relaxed load. If not, take no more requests that write
    /// until a waker of [`Appender::subscribe_room`] calls; what is appended in spite of that is taken until
    /// twice the limit waits, then refused, unless the group insists. Yes when the log has failed: appending
    /// says why.
    pub fn has_room(&self) -> bool {
        self.pipeline.has_room()
    }

    /// Adds a waker that is called when there is room again after [`Appender::has_room`] said no, or the log
    /// has failed. Any appending thread may call it: like that of [`Durable::subscribe`] it must be quick
    /// and must not call the log.
    pub fn subscribe_room(&self, waker: Waker) {
        self.pipeline.subscribe_room(waker);
    }

    fn copy(&self, active: &mut Active, group: &Group) -> Result<(), LogError> {
        // A block counts its records in 32 bits; that many only gather when the disk has stopped.
        let count = active.count.checked_add(group.count()).ok_or(LogError::Backlogged)?;
        let before = active.buffer.len();
        if !self.pipeline.admits(group.bytes_len()) && !group.insists() {
            return Err(LogError::Backlogged);
        }
        active.buffer.change(|bytes| group.copy_to(bytes));
        let after = active.buffer.len();
        self.pipeline.accepted(after - before);
        active.count = count;
        if active.collecting && before < BATCH_BYTES && after >= BATCH_BYTES {
            self.pipeline.full.notify_one();
        }
        Ok(())
    }
}

impl fmt::Debug for Appender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Appender").field("backlog_bytes", &self.backlog_bytes()).finish_non_exhaustive()
    }
}
