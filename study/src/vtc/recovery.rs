//! Opening a store: a loader for each file reads its blocks, and one thread replays them in the order of
//! their timestamps.
//!
//! ```text
//!   file 0   4  9 ..  ──► loader ─┐
//!   file 1   5  6 10  ──► loader ─┼─► the least timestamp next ─► entries, bits
//!   file 2   7  8 ..  ──► loader ─┘
//! ```
//!
//! Blocks below the greatest compaction timestamp were durable when that compaction ended, so those that are
//! missing have been dropped. From there on timestamps rise by one, and at the first that is missing the log
//! ends: a later block may be there, but its device was faster.
//!
//! paper: vtc §3.5, which replays whatever is there, and inserts without a look-up below the least compaction
//! timestamp; a hash map looks up in any case.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::device::{Device, copy_of};
use super::error::{VtcError, io_error};
use super::format::{Block, FILE_HEADER_BYTES, timestamp_of};
use super::log::Log;
use super::positions::{Position, Positions};
use super::store::{Options, Store};
use super::table::{Entry, Table};

const BUFFER_BYTES: usize = 1 << 20;
/// Blocks that a loader is ahead.
const AHEAD: usize = 8;

type Loaded = io::Result<Block>;

impl<P: Positions> Store<P> {
    /// Opens the store whose log is in these directories, or begins one. The log ends with
    /// [`Store::durable`].
    pub fn open(options: &Options) -> Result<Store<P>, VtcError> {
        let paths: Vec<_> = (0..options.files()).map(|number| options.file(number)).collect();
        let table = Table::new(options.entries);
        let mut log = Log::new(paths.len(), options.block_bytes);
        let (mut readers, mut was_compacted) = (Vec::new(), false);
        for (path, file) in paths.iter().zip(&mut log.files) {
            // A compaction that was under way.
            remove(&copy_of(path))?;
            let reader = open_file(path)?;
            file.timestamp = reader.as_ref().map_or(0, |(timestamp, _)| *timestamp);
            was_compacted |= file.timestamp > 0;
            readers.push(reader.map(|(_, reader)| reader));
        }
        let exists: Vec<bool> = readers.iter().map(Option::is_some).collect();
        refuse_gaps(&paths, &exists, was_compacted)?;
        let ends = std::thread::scope(|scope| {
            let load = |reader: Option<BufReader<File>>| {
                let (to, from) = sync_channel(AHEAD);
                reader.map(|reader| scope.spawn(move || load(reader, &to)));
                from
            };
            replay(readers.into_iter().map(load).collect(), &table, &mut log)
        });
        let ends = ends.map_err(|(file, error)| io_error("read", &paths[file])(error))?;
        let bytes = ends.into_iter().zip(exists).map(|(end, exists)| exists.then_some(end));
        let devices: Result<Vec<_>, _> =
            paths.into_iter().zip(bytes).map(|(path, bytes)| Device::open(path, bytes)).collect();
        Ok(Store::of(table, log, devices?))
    }
}

/// Opens a file of a log. Returns its compaction timestamp, and its blocks to read.
fn open_file(path: &Path) -> Result<Option<(u64, BufReader<File>)>, VtcError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("open", path)(error)),
    };
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut header = [0; FILE_HEADER_BYTES];
    reader.read_exact(&mut header).map_err(io_error("read", path))?;
    let damaged = || VtcError::Damaged { path: path.to_owned(), what: "its header does not fit" };
    Ok(Some((timestamp_of(&header).ok_or_else(damaged)?, reader)))
}

/// Refuses a log that has records, or had some, and not all of its files. A crash while a log begins leaves
/// some of them, all empty.
fn refuse_gaps(paths: &[PathBuf], exists: &[bool], was_compacted: bool) -> Result<(), VtcError> {
    let Some(missing) = exists.iter().position(|exists| !exists) else { return Ok(()) };
    for path in paths.iter().zip(exists).filter(|(_, exists)| **exists).map(|(path, _)| path) {
        let bytes = fs::metadata(path).map_err(io_error("read", path))?.len();
        if was_compacted || bytes > FILE_HEADER_BYTES as u64 {
            let what = "it is missing, and other files of the log have records";
            return Err(VtcError::Damaged { path: paths[missing].clone(), what });
        }
    }
    Ok(())
}

/// Reads blocks until the file ends, a block is torn, or nobody takes them any more.
fn load(mut reader: BufReader<File>, to: &SyncSender<Loaded>) {
    while let Some(block) = Block::read(&mut reader).transpose() {
        if to.send(block).is_err() {
            return;
        }
    }
}

/// Replays blocks in order. Returns where each file ends.
fn replay<P: Positions>(
    files: Vec<Receiver<Loaded>>,
    table: &Table<P::InShard>,
    log: &mut Log<P>,
) -> Result<Vec<u64>, (usize, io::Error)> {
    let next = |file: usize| files[file].recv().ok().transpose().map_err(|error| (file, error));
    let mut heads = (0..files.len()).map(next).collect::<Result<Vec<_>, _>>()?;
    let mut ends = vec![FILE_HEADER_BYTES as u64; files.len()];
    let compacted = log.files.iter().map(|file| file.timestamp).max().unwrap_or(0);
    let mut last = compacted.saturating_sub(1);
    loop {
        let timestamp = |file: &usize| heads[*file].as_ref().map(|block| block.timestamp);
        let Some(file) = (0..heads.len()).filter(|file| heads[*file].is_some()).min_by_key(timestamp) else {
            break;
        };
        let block = heads[file].take().expect("it has a block");
        if block.timestamp >= compacted && block.timestamp != last + 1 {
            break;
        }
        last = last.max(block.timestamp);
        ends[file] += block.encoded_bytes() as u64;
        replay_block(file, &block, table, log);
        heads[file] = next(file)?;
    }
    log.continue_after(last);
    Ok(ends)
}

fn replay_block<P: Positions>(file: usize, block: &Block, table: &Table<P::InShard>, log: &mut Log<P>) {
    for record in block.records(P::NUMBERED) {
        let position = Position::new(file, log.positions.found(file, record.lsn));
        log.files[file].records += 1;
        let mut shard = table.latch(record.key);
        let old = match record.value {
            Some(value) => shard.entries.insert(record.key, Entry { value: value.into(), position }),
            None => shard.entries.remove(&record.key),
        };
        if let Some(old) = old {
            log.mark(old.position);
        }
    }
}

fn remove(path: &Path) -> Result<(), VtcError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path)(error)),
        _ => Ok(()),
    }
}
