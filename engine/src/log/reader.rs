//! Opening a log: the streams of all directories merged by block sequence, and what is done about the end.
//!
//! ```text
//!  directory 0:  41     43 44        47            kept: 41-45
//!  directory 1:     42        45  xx     48        46 is missing: cut off if D <= 45, else damage
//! ```
//!
//! - The longest prefix of consecutive sequences is kept.
//! - D is the highest sequence that anything whole says was durable: a block's `durable`, an epoch's `opened
//!   after`.
//! - Up to D nothing may be missing. What lies beyond, and after the first that is missing, was never
//!   acknowledged under `Always`.
//! - What is kept beyond D may be in the operating system's memory alone. It is written again, the same bytes
//!   to the same place, and synced before the next epoch claims it: a sync alone would not do, because an
//!   earlier one may have failed and forgotten it.
//! - The next epoch begins in new files only after that. From then on its headers void what is cut here,
//!   whether or not the cutting itself reached the disk.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::Receiver;

use super::block::Block;
use super::error::{Damage, OpenError};
use super::file::{FileHeader, LSN_END, NUMBERS_END, file_name};
use super::format::{BLOCK_CLOSED, FILE_HEADER_BYTES};
use super::identity::Directories;
use super::options::LogOptions;
use super::stream::{Fault, Found, StreamFile, read_ahead};
use crate::io::{Disk, DiskLock, DiskResult};
use crate::record::Lsn;

/// A log that is being opened: its blocks in order.
pub struct Reader {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: LogOptions,
    pub(super) directories: Directories,
    streams: Vec<Stream>,
    progress: OpenProgress,
    state: Merged,
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

/// What was found when a log was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Blocks kept.
    pub blocks: u64,
    /// The newest record kept.
    pub last: Lsn,
    /// Bytes cut off the end: blocks that came after a missing one, and what was not a whole block.
    pub bytes_cut: u64,
    /// Where the cut was made, if bytes were cut.
    pub cut: Option<(PathBuf, u64)>,
    /// Whether the log had been closed, not just left.
    pub closed: bool,
    /// Whether there was no log before.
    pub created: bool,
}

/// One directory's blocks on their way.
struct Stream {
    directory: PathBuf,
    files: Vec<StreamFile>,
    /// How far each file is kept.
    kept: Vec<u64>,
    incoming: Option<Receiver<Result<Vec<Found>, OpenError>>>,
    found: VecDeque<Found>,
    /// The last spoilt stretch since the last kept block.
    fault: Option<Fault>,
}

/// How far the merge has come.
#[derive(Default)]
struct Merged {
    /// The last block kept.
    sequence: u64,
    last: Lsn,
    /// D so far.
    durable: u64,
    epoch: u64,
    /// Kept blocks above D: stream, file, offset, length.
    unsure: VecDeque<(u64, usize, usize, u64, u64)>,
    ended: bool,
    recovered: Recovered,
}

impl Reader {
    /// Locks the directories and looks at all files.
    pub(super) fn open(disk: Arc<dyn Disk>, options: LogOptions) -> Result<Reader, OpenError> {
        let directories = Directories::open(&*disk, &options.directories)?;
        let mut streams = Vec::new();
        for (index, directory) in directories.paths.iter().enumerate() {
            let files = list_files(&*disk, &directories, index)?;
            let kept = vec![FILE_HEADER_BYTES as u64; files.len()];
            streams.push(Stream {
                directory: directory.clone(),
                files,
                kept,
                incoming: None,
                found: VecDeque::new(),
                fault: None,
            });
        }
        let headers: Vec<FileHeader> =
            streams.iter().flat_map(|stream| stream.files.iter().map(|file| file.header)).collect();
        let mut state = Merged::default();
        if let Some(newest) = headers.iter().max_by_key(|header| header.epoch) {
            state.epoch = newest.epoch;
            state.durable = newest.opened_after;
        }
        state.recovered.created = headers.is_empty();
        let bytes_read = Arc::new(AtomicU64::new(0));
        let mut bytes_total = 0;
        for stream in &mut streams {
            for file in &mut stream.files {
                file.sequence_limit = sequence_limit(&headers, file.header.epoch);
                bytes_total += file.bytes;
            }
            stream.incoming = Some(read_ahead(stream.files.clone(), bytes_read.clone()));
        }
        let progress = OpenProgress { bytes_read, bytes_total };
        Ok(Reader { disk, options, directories, streams, progress, state })
    }

    /// How much has been read.
    pub fn progress(&self) -> OpenProgress {
        self.progress.clone()
    }

    /// The next block, in the order of their sequences; `None` after the last.
    pub fn next_block(&mut self) -> Result<Option<Block>, OpenError> {
        while !self.state.ended {
            let wanted = self.state.sequence + 1;
            let mut taken = None;
            for index in 0..self.streams.len() {
                if self.streams[index].head()?.is_some_and(|block| block.sequence() <= wanted) {
                    taken = self.streams[index].take(index);
                    break;
                }
            }
            let Some(taken) = taken else {
                self.end()?;
                break;
            };
            let block = self.keep(taken)?;
            if block.count() > 0 {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// D, as far as it is known by now.
    #[cfg(test)]
    pub(super) fn durable_sequence(&self) -> u64 {
        self.state.durable
    }

    /// Notes that a block is kept.
    fn keep(&mut self, (stream, file, block): (usize, usize, Block)) -> Result<Block, OpenError> {
        let state = &mut self.state;
        let header = block.header;
        let damaged = |what: String| Damage::new(block.path().to_path_buf(), block.offset, what);
        if header.sequence != state.sequence + 1 {
            return Err(damaged(format!("block {} stands there once more", header.sequence)).into());
        }
        if state.sequence > 0 && header.first != state.last.after(1) {
            let what = format!(
                "block {} begins with record {}, not {}",
                header.sequence,
                header.first,
                state.last.after(1)
            );
            return Err(damaged(what).into());
        }
        state.sequence = header.sequence;
        state.last = block.last();
        state.durable = state.durable.max(header.durable);
        state.unsure.push_back((header.sequence, stream, file, block.offset, header.length));
        while state.unsure.front().is_some_and(|(sequence, ..)| *sequence <= state.durable) {
            state.unsure.pop_front();
        }
        state.recovered.blocks += 1;
        state.recovered.closed = header.flags & BLOCK_CLOSED != 0;
        self.streams[stream].kept[file] = block.offset + header.length;
        Ok(block)
    }

    /// No stream has the next block: reads what is left to find out whether that is an end or damage.
    fn end(&mut self) -> Result<(), OpenError> {
        let wanted = self.state.sequence + 1;
        let mut spoilt: Option<Fault> = None;
        let mut beyond: Option<(PathBuf, u64)> = None;
        let mut bytes_cut = 0;
        for index in 0..self.streams.len() {
            let stream = &mut self.streams[index];
            stream.head()?;
            if let Some(fault) = &stream.fault {
                bytes_cut += fault.bytes;
                spoilt.get_or_insert_with(|| fault.clone());
            }
            while let Some(found) = stream.next()? {
                match found {
                    Found::Block { block, .. } => {
                        self.state.durable = self.state.durable.max(block.header.durable);
                        bytes_cut += block.header.length;
                        beyond.get_or_insert_with(|| (block.path().to_path_buf(), block.offset));
                    }
                    Found::Fault(fault) => {
                        bytes_cut += fault.bytes;
                        spoilt.get_or_insert(fault);
                    }
                }
            }
        }
        let cut = spoilt.as_ref().map(|fault| (fault.path.to_path_buf(), fault.offset)).or(beyond);
        if self.state.durable >= wanted && !self.options.truncate_damage {
            let (path, offset, what) = match spoilt {
                Some(fault) => (fault.path.to_path_buf(), fault.offset, fault.what),
                None => {
                    let (path, offset) = cut.unwrap_or_else(|| (self.streams[0].directory.clone(), 0));
                    (path, offset, "a block before it is in no file")
                }
            };
            let what = format!("{what} (block {wanted} is missing, {} were durable)", self.state.durable);
            return Err(Damage::new(path, offset, what).into());
        }
        let recovered = &mut self.state.recovered;
        recovered.closed &= bytes_cut == 0;
        (recovered.bytes_cut, recovered.cut) = (bytes_cut, if bytes_cut > 0 { cut } else { None });
        recovered.last = self.state.last;
        self.state.ended = true;
        Ok(())
    }

    /// Refuses numbers that no log reaches by counting: going on from there would come to their end.
    fn refuse_forged_numbers(&self) -> Result<(), OpenError> {
        let numbers = self.streams.iter().filter_map(|stream| stream.files.last());
        let numbers = numbers.map(|file| file.header.number).chain([self.state.sequence, self.state.epoch]);
        if numbers.max() >= Some(NUMBERS_END / 2) || self.state.last.0 >= LSN_END / 2 {
            let what = "its files have numbers that no log reaches".to_string();
            return Err(Damage::new(self.streams[0].directory.clone(), 0, what).into());
        }
        Ok(())
    }

    /// Reads what was not read, cuts off what is not kept, and makes durable what is.
    pub(super) fn finish(mut self) -> Result<Finished, OpenError> {
        while self.next_block()?.is_some() {}
        self.refuse_forged_numbers()?;
        for (_, stream, file, offset, length) in &self.state.unsure {
            write_again(&self.streams[*stream].files[*file], *offset, *length)?;
        }
        let mut next_numbers = Vec::new();
        for (index, stream) in self.streams.iter().enumerate() {
            let unsure = |file: usize| {
                self.state
                    .unsure
                    .iter()
                    .any(|(_, in_stream, in_file, ..)| (*in_stream, *in_file) == (index, file))
            };
            let mut removed = false;
            for (file, kept) in stream.files.iter().zip(&stream.kept) {
                if *kept == FILE_HEADER_BYTES as u64 {
                    self.disk.remove(&file.path)?;
                    removed = true;
                } else {
                    if *kept < file.bytes {
                        file.file.set_len(*kept)?;
                    }
                    if *kept < file.bytes || unsure(file.index) {
                        file.file.sync_data()?;
                    }
                }
            }
            if removed {
                self.disk.sync_dir(&stream.directory)?;
            }
            next_numbers.push(stream.files.last().map_or(0, |file| file.header.number) + 1);
        }
        Ok(Finished {
            sequence: self.state.sequence,
            epoch: self.state.epoch + 1,
            next_numbers,
            log_id: self.directories.log_id,
            paths: self.directories.paths,
            locks: self.directories.locks,
            recovered: self.state.recovered,
            disk: self.disk,
            options: self.options,
        })
    }
}

/// What is known when everything old is read and settled.
pub(super) struct Finished {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: LogOptions,
    pub(super) log_id: u128,
    pub(super) paths: Vec<PathBuf>,
    pub(super) locks: Vec<Box<dyn DiskLock>>,
    pub(super) next_numbers: Vec<u64>,
    /// The last block kept.
    pub(super) sequence: u64,
    /// The epoch to begin.
    pub(super) epoch: u64,
    pub(super) recovered: Recovered,
}

impl Stream {
    /// The next whole block, if there is one.
    fn head(&mut self) -> Result<Option<&Block>, OpenError> {
        loop {
            match self.found.front() {
                Some(Found::Block { .. }) => break,
                Some(Found::Fault(_)) => {
                    if let Some(Found::Fault(fault)) = self.found.pop_front() {
                        self.fault = Some(fault);
                    }
                }
                None => {
                    if !self.receive()? {
                        return Ok(None);
                    }
                }
            }
        }
        match self.found.front() {
            Some(Found::Block { block, .. }) => Ok(Some(block)),
            _ => Ok(None),
        }
    }

    /// Takes the block that [`Stream::head`] showed.
    fn take(&mut self, index: usize) -> Option<(usize, usize, Block)> {
        self.fault = None;
        match self.found.pop_front() {
            Some(Found::Block { file, block }) => Some((index, file, block)),
            _ => None,
        }
    }

    fn next(&mut self) -> Result<Option<Found>, OpenError> {
        while self.found.is_empty() {
            if !self.receive()? {
                return Ok(None);
            }
        }
        Ok(self.found.pop_front())
    }

    fn receive(&mut self) -> Result<bool, OpenError> {
        let Some(incoming) = &self.incoming else { return Ok(false) };
        match incoming.recv() {
            Ok(found) => {
                self.found.extend(found?);
                Ok(true)
            }
            Err(_) => {
                self.incoming = None;
                Ok(false)
            }
        }
    }
}

fn list_files(
    disk: &dyn Disk,
    directories: &Directories,
    stream: usize,
) -> Result<Vec<StreamFile>, OpenError> {
    let mut files = Vec::new();
    for (index, name) in directories.files[stream].iter().enumerate() {
        let path = directories.paths[stream].join(name);
        let file = disk.open(&path)?;
        let header = FileHeader::read(&path, &*file)?;
        if header.log_id != directories.log_id || header.stream as usize != stream {
            let reason = "it belongs to another log or another directory".to_string();
            return Err(OpenError::WrongDirectories { path, reason });
        }
        if file_name(header.number) != *name {
            let what = format!("the file is called {name} and has number {}", header.number);
            return Err(Damage::new(path, 0, what).into());
        }
        let bytes = file.len()?;
        files.push(StreamFile { path: Arc::new(path), file, header, index, bytes, sequence_limit: u64::MAX });
    }
    Ok(files)
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
