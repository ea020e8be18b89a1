//! The owner's handle of the log: opens, switches, queries and closes it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::closed::{ClosedFile, Contents};
use super::error::{LogError, OpenError};
use super::file::{Era, FileHeader, FileTemplate, LogFile, Preparation};
use super::format::{BLOCK_CLOSED, FILE_HEADER_BYTES};
use super::open::identity::{remove_if_there, remove_pending, write_pending};
use super::open::reader::{Finished, Reader, Recovered};
use super::options::{Compression, LogOptions, SyncMode};
use super::voids::Voids;
use super::write::appender::Appender;
use super::write::durable::Durable;
use super::write::flusher::Flight;
use super::write::pipeline::{Active, Lane, Pipeline, State};
use super::write::status::LogStatus;
use crate::io::{Disk, DiskError, DiskLock, DiskResult};
use crate::lock::Mutex;
use crate::record::Lsn;

/// Length of the first file of an epoch under `Always`: short, so that a start does not wait for many zeros.
const FIRST_FILE_BYTES: u64 = 4 << 20;
/// How far behind the newest record a log begins that is switched on: more than a store without a log numbers
/// while its log is made.
const ERA_GAP: u64 = 1 << 24;

/// An open log. Close it with [`Log::close`]; dropped, it writes what was appended, but does not wait for the
/// disk.
pub struct Log {
    pipeline: Arc<Pipeline>,
    flights: Vec<JoinHandle<()>>,
    keepers: Vec<JoinHandle<()>>,
    replaced: Arc<Replaced>,
}

/// The files that a log that was switched on replaces: see [`Reader::into_log_behind`].
pub struct Replaced {
    disk: Arc<dyn Disk>,
    /// The first of the log's directories.
    directory: PathBuf,
    /// The files that go when the log counts; `None` once it does.
    files: Mutex<Option<Vec<ClosedFile>>>,
    /// Nobody else opens the log before the last of its files is gone, be it closed meanwhile.
    _locks: Vec<Box<dyn DiskLock>>,
}

impl Log {
    /// Begins to open a log, or makes one where there is none: read it with [`Reader::next_block`], then
    /// [`Reader::into_log`].
    pub fn open(disk: Arc<dyn Disk>, options: LogOptions) -> Result<Reader, OpenError> {
        Reader::open(disk, options)
    }

    /// A way into the log.
    pub fn appender(&self) -> Appender {
        Appender { pipeline: self.pipeline.clone() }
    }

    /// The watermark.
    pub fn durable(&self) -> Durable {
        self.pipeline.durable.clone()
    }

    /// When records become durable.
    pub fn mode(&self) -> SyncMode {
        self.pipeline.mode()
    }

    /// Changes when records become durable, from now on; what waits is synced at once.
    pub fn set_mode(&self, mode: SyncMode) {
        self.pipeline.set_mode(mode);
    }

    /// Changes how blocks are written, from now on.
    pub fn set_compression(&self, compression: Compression) {
        self.pipeline.set_compression(compression);
    }

    /// Makes durable what has been appended so far, whatever the mode, and returns the newest of it. Waits
    /// for the disk.
    pub fn sync(&self) -> Result<Lsn, LogError> {
        let appender = self.appender();
        let last = appender.last();
        appender.sync_up_to(last)?;
        Ok(last)
    }

    /// Makes durable what was appended, marks the log as closed, and lets the directories go.
    pub fn close(mut self) -> Result<(), LogError> {
        self.sync()?;
        self.stop();
        self.pipeline.close()
    }

    /// How the log is doing.
    pub fn status(&self) -> LogStatus {
        self.pipeline.status()
    }

    /// The log begins behind this record.
    pub fn base(&self) -> Lsn {
        self.pipeline.base
    }

    /// Whether a log that was switched on still waits for its checkpoint: see [`Reader::into_log_behind`].
    pub fn is_pending(&self) -> bool {
        self.replaced.files.lock().is_some()
    }

    /// The files that it replaces, if it was switched on.
    pub fn replaced(&self) -> Arc<Replaced> {
        self.replaced.clone()
    }

    fn stop(&mut self) {
        self.pipeline.stop();
        self.pipeline.closer.end();
        for thread in self.flights.drain(..).chain(self.keepers.drain(..)) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

impl Replaced {
    /// Lets the log count, and removes what it replaces, which may take long. REQUIRES: a checkpoint of the
    /// log has all up to its base.
    pub fn confirm(&self) -> DiskResult<()> {
        let mut replaced = self.files.lock();
        let Some(files) = &mut *replaced else { return Ok(()) };
        while let Some(file) = files.last() {
            remove_if_there(&*self.disk, file.path())?;
            files.pop();
        }
        // The names that are left after a loss of power are of an era that does not count.
        remove_pending(&*self.disk, &self.directory)?;
        *replaced = None;
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.stop();
        self.pipeline.durable.set_stop(Some(LogError::Closed));
        self.pipeline.durable.wake();
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("mode", &self.mode()).finish_non_exhaustive()
    }
}

impl Reader {
    /// Reads what was not read yet, cuts off a torn tail, and begins to log behind it.
    pub fn into_log(self) -> Result<(Log, Recovered), OpenError> {
        self.finish()?.into_log(None)
    }

    /// As [`Reader::into_log`], for a store whose newest record is `newest` and which is not what the log
    /// tells: begins behind both, and everything that was read is no part of the log any more as soon as
    /// [`Replaced::confirm`] is called. Who opens the log before that finds it as it was, unless there is a
    /// checkpoint by then that has all up to its new beginning.
    pub fn into_log_behind(self, newest: Lsn) -> Result<(Log, Recovered), OpenError> {
        let mut finished = self.finish()?;
        let behind = finished.recovered.last.max(newest).after(ERA_GAP);
        if behind > Lsn::LIMIT {
            return Err(LogError::Exhausted.into());
        }
        write_pending(&*finished.disk, &finished.paths[0], behind)?;
        finished.era = Era { behind, after: finished.sequence };
        (finished.recovered.last, finished.recovered.base, finished.begins) = (behind, behind, behind);
        let replaced = std::mem::take(&mut finished.closed);
        finished.voids = Voids::default();
        finished.into_log(Some(replaced))
    }
}

impl Finished {
    fn into_log(self, replaced: Option<Vec<ClosedFile>>) -> Result<(Log, Recovered), OpenError> {
        let finished = self;
        let recovered = finished.recovered.clone();
        let flights_each = finished.options.flushes_in_flight.max(1);
        let (lanes, directory) = (finished.paths.len(), finished.paths[0].clone());
        let (disk, files) = (finished.disk.clone(), Mutex::new(replaced));
        let (pipeline, _locks) = begin(finished)?;
        let pipeline = Arc::new(pipeline);
        let replaced = Arc::new(Replaced { disk, directory, files, _locks });
        let mut log = Log { pipeline, flights: Vec::new(), keepers: Vec::new(), replaced };
        for index in 0..lanes * flights_each {
            let flight = Flight { lane: index % lanes, handle: index / lanes };
            log.flights.push(spawn("tarn-log-flight", &log.pipeline, move |pipeline| flight.run(pipeline))?);
        }
        for lane in 0..lanes {
            let work = move |pipeline: &Pipeline| pipeline.run_preparer(lane);
            log.keepers.push(spawn("tarn-log-files", &log.pipeline, work)?);
        }
        log.keepers.push(spawn("tarn-log-sync", &log.pipeline, |pipeline| pipeline.run_syncer())?);
        log.keepers.push(spawn("tarn-log-close", &log.pipeline, |pipeline| pipeline.closer.run())?);
        Ok((log, recovered))
    }
}

fn spawn(
    name: &str,
    pipeline: &Arc<Pipeline>,
    work: impl FnOnce(&Pipeline) + Send + 'static,
) -> DiskResult<JoinHandle<()>> {
    let moved = pipeline.clone();
    let thread = std::thread::Builder::new().name(name.to_string()).spawn(move || work(&moved));
    let place = &pipeline.active.lock().lanes[0].directory;
    thread.map_err(|error| DiskError::new("start a thread for the log in", place, error))
}

/// Begins an epoch: a new file in each directory, and a pipeline that writes to them.
pub(super) fn begin(finished: Finished) -> Result<(Pipeline, Vec<Box<dyn DiskLock>>), OpenError> {
    let Finished { disk, mut options, paths, next_numbers, sequence, recovered, .. } = finished;
    options.base = finished.begins;
    let first = recovered.last.after(1);
    let handles = options.flushes_in_flight.max(1) + 1;
    let template = FileTemplate { log_id: finished.log_id, file_bytes: options.file_bytes, handles };
    let mut lanes = Vec::new();
    for (index, (directory, number)) in paths.into_iter().zip(next_numbers).enumerate() {
        let header = FileHeader {
            log_id: finished.log_id,
            stream: index as u32,
            number,
            file_id: disk.random(),
            epoch: finished.epoch,
            opened_after: sequence,
            first,
            era: finished.era,
            compaction: None,
        };
        let current = first_file(&*disk, &directory, header, template, options.mode)?;
        let offset = FILE_HEADER_BYTES as u64;
        let (current, next_number) = (Some(Arc::new(current)), number + 1);
        let contents = Contents::default();
        let (next, trouble, idle) = (None, None, 0);
        lanes.push(Lane {
            directory,
            current,
            offset,
            contents,
            next,
            next_number,
            trouble,
            preparing: false,
            idle,
        });
    }
    let durable = Durable::new(sequence, recovered.last);
    let mut active = Active::new(first, sequence + 1, lanes, State::Running);
    (active.epoch, active.epoch_tried) = (finished.epoch, finished.epoch);
    active.opened_after = sequence;
    active.era = finished.era;
    let pipeline = Pipeline::new(disk, durable, active, template, &options);
    *pipeline.closed.lock() = finished.closed;
    *pipeline.voids.lock() = finished.voids;
    Ok((pipeline, finished.locks))
}

fn first_file(
    disk: &dyn Disk,
    directory: &Path,
    header: FileHeader,
    template: FileTemplate,
    mode: SyncMode,
) -> DiskResult<LogFile> {
    let preparation = Preparation::of(mode);
    let file_bytes = match preparation {
        Preparation::Zero => template.file_bytes.min(FIRST_FILE_BYTES),
        Preparation::Reserve => template.file_bytes,
    };
    LogFile::create(disk, directory, header, FileTemplate { file_bytes, ..template }, preparation, |_| Ok(()))
}

impl Pipeline {
    /// Takes no more records; what has been taken is still written.
    pub(super) fn stop(&self) {
        let mut active = self.active.lock();
        active.state = match active.state {
            State::Running => State::Closing,
            State::Failed(..) => State::Closed,
            _ => return,
        };
        self.work.notify_all();
        self.full.notify_all();
        self.chores.notify_all();
        drop(active);
    }

    /// Writes the mark of a clean close. REQUIRES: all threads have ended and everything appended is written.
    pub(super) fn close(&self) -> Result<(), LogError> {
        // Something may have been appended after the last sync. The mark says that all before it is durable.
        self.sync_all();
        let taken = self.take_mark(&mut self.active.lock(), BLOCK_CLOSED);
        if let Some(taken) = taken {
            self.write_alone(taken);
        }
        self.leave_all_files();
        let mut active = self.active.lock();
        match std::mem::replace(&mut active.state, State::Closed) {
            // What failed in the meantime has said so to the watermark.
            State::Closed => Err(self.durable.stopped().unwrap_or(LogError::Closed)),
            _ => Ok(()),
        }
    }
}
