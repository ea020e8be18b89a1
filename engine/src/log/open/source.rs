//! One directory as a source of the merge: the headers of its files, its blocks on the way, and counts of
//! each file.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use crossbeam_channel::Receiver;

use super::ahead::StreamFile;
use super::identity::Directories;
use super::stream::{Fault, Found, Message, Unread};
use crate::io::Disk;
use crate::log::block::Block;
use crate::log::closed::Contents;
use crate::log::condensed::Told;
use crate::log::error::{Damage, OpenError};
use crate::log::file::{Era, FileHeader, file_name, file_number};
use crate::log::format::FILE_HEADER_BYTES;
use crate::log::voids::{Teller, Void};
use crate::record::Lsn;

/// One directory's blocks on their way.
pub(in crate::log) struct Source {
    pub(in crate::log) directory: PathBuf,
    pub(in crate::log) files: Vec<StreamFile>,
    /// The counts of each file.
    pub(in crate::log) tallies: Vec<Tally>,
    /// The replaced files that an interrupted compaction left, and the files of eras that do not count.
    pub(in crate::log) superseded: Vec<PathBuf>,
    /// Files whose blocks cannot be read; only an examination gets as far as having any.
    pub(in crate::log) unreadable: Vec<Unreadable>,
    /// The channel for the rest of its files, until all are read.
    pub(in crate::log) incoming: Option<Receiver<Message>>,
    /// The blocks that have arrived and were not looked at.
    pub(in crate::log) found: VecDeque<Found>,
    /// The voids that are kept since the last kept block, if the log is examined.
    pub(in crate::log) untold: Vec<Void>,
    /// The file of the first block that is not kept.
    pub(in crate::log) teller: Option<usize>,
    /// The spoilt stretches since the last kept block.
    pub(in crate::log) faults: Vec<Fault>,
    /// Whole blocks behind higher ones of their file, since a block was kept that is higher still: see
    /// [`Source::set_aside_misplaced`].
    pub(in crate::log) misplaced: Vec<Fault>,
    /// The file and the number of the highest block that was kept.
    highest: (usize, u64),
    /// The ranges that could not be read since the last kept block.
    pub(in crate::log) unread: Vec<Unread>,
    /// Files whose header cannot be read, with their numbers, the newest first, as far as none behind them
    /// has been come to. An examination has none.
    pub(in crate::log) headless: Vec<(u64, Unread)>,
    /// The names of those that were passed over.
    pub(in crate::log) passed: Vec<String>,
}

/// The next item of a directory.
pub(in crate::log) enum Head<'s> {
    Block(&'s Block),
    Void(Told),
}

impl Head<'_> {
    /// The first of the sequences that it stands for.
    pub(in crate::log) fn from(&self) -> u64 {
        match self {
            Head::Block(block) => block.own.from,
            Head::Void(told) => told.blocks.from,
        }
    }

    /// The first of their records, if it is known.
    pub(in crate::log) fn first(&self) -> Option<Lsn> {
        match self {
            Head::Block(block) => Some(block.first()),
            Head::Void(told) => told.first,
        }
    }

    /// The dropped ranges that it records, if nothing is left of them.
    pub(in crate::log) fn told(&self) -> Option<Told> {
        match self {
            Head::Block(block) => {
                block.is_void.then(|| Told { blocks: block.own, first: Some(block.first()) })
            }
            Head::Void(told) => Some(*told),
        }
    }
}

/// The records that a start or a repair cuts off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Whole blocks.
    pub blocks: u64,
    /// The records in them.
    pub records: u64,
    /// Bytes, those that are no whole block too.
    pub bytes: u64,
}

/// A file's blocks, those that are kept and those that come too late.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Tally {
    /// How far the file is kept.
    pub(in crate::log) kept_bytes: u64,
    pub(in crate::log) blocks: u64,
    pub(in crate::log) contents: Contents,
    pub(in crate::log) lost: Lost,
    /// A repair has put the file away.
    pub(in crate::log) is_gone: bool,
}

/// A file that has a spoilt header or a wrong name.
#[derive(Clone, Debug)]
pub(in crate::log) struct Unreadable {
    pub(in crate::log) name: String,
    pub(in crate::log) bytes: u64,
    pub(in crate::log) damage: Damage,
}

impl Tally {
    fn new() -> Tally {
        Tally {
            kept_bytes: FILE_HEADER_BYTES as u64,
            blocks: 0,
            contents: Contents::default(),
            lost: Lost::default(),
            is_gone: false,
        }
    }

    /// Notes a block that is kept.
    pub(in crate::log) fn keep(&mut self, block: &Block) {
        self.kept_bytes = block.offset + block.header.length;
        self.blocks += 1;
        self.contents.add(block.own.from, block.first(), block.last());
        self.contents.records -= block.own.lsns - u64::from(block.count());
        self.contents.saved += block.saved;
        self.contents.last_sequence = block.header.sequence;
    }

    /// Whether nothing in the file counts.
    pub(in crate::log) fn is_empty(&self) -> bool {
        self.kept_bytes == FILE_HEADER_BYTES as u64
    }
}

impl Source {
    /// Looks at the headers of a directory's files. With `examines` the unreadable ones are set aside.
    pub(in crate::log) fn new(
        disk: &dyn Disk,
        directories: &Directories,
        index: usize,
        examines: bool,
    ) -> Result<Source, OpenError> {
        let directory = directories.paths[index].clone();
        let (mut files, mut unreadable, mut headless) = (Vec::new(), Vec::new(), Vec::new());
        let mut superseded = Vec::new();
        // From the newest on: the header of a compacted file says which numbers before its own it stands for.
        let mut compacted: Option<RangeInclusive<u64>> = None;
        for name in directories.files[index].iter().rev() {
            let path = directory.join(name);
            let superseded_by = |number| compacted.as_ref().is_some_and(|numbers| numbers.contains(&number));
            if file_number(name).is_some_and(superseded_by) {
                superseded.push(path);
                continue;
            }
            let file = disk.open(&path)?;
            let bytes = file.len()?;
            let header = FileHeader::read(&path, &*file).and_then(|header| {
                if header.log_id != directories.log_id || header.stream as usize != index {
                    let reason = "it belongs to another log or another directory".to_string();
                    return Err(OpenError::WrongDirectories { path: path.clone(), reason });
                }
                if file_name(header.number) != *name {
                    let what = format!("the file is called {name} and has number {}", header.number);
                    return Err(Damage::new(path.clone(), 0, what).into());
                }
                Ok(header)
            });
            match header {
                Ok(header) => {
                    compacted = Some(header.numbers());
                    let (path, index, sequence_limit) = (Arc::new(path), 0, u64::MAX);
                    files.push(StreamFile { path, file, header, index, bytes, sequence_limit });
                }
                Err(OpenError::Damaged(damage)) if examines => {
                    unreadable.push(Unreadable { name: name.clone(), bytes, damage });
                }
                Err(error @ (OpenError::Damaged(_) | OpenError::Disk(_))) if !examines => {
                    // What is behind it decides whether it matters.
                    let number = file_number(name).unwrap_or(u64::MAX);
                    headless.push((number, Unread { path: Arc::new(path), offset: 0, error }));
                }
                Err(error) => return Err(error),
            }
        }
        files.reverse();
        unreadable.reverse();
        files.iter_mut().enumerate().for_each(|(index, file)| file.index = index);
        let tallies = vec![Tally::new(); files.len()];
        Ok(Source {
            directory,
            files,
            tallies,
            superseded,
            unreadable,
            incoming: None,
            found: VecDeque::new(),
            untold: Vec::new(),
            teller: None,
            faults: Vec::new(),
            misplaced: Vec::new(),
            highest: (0, 0),
            unread: Vec::new(),
            headless,
            passed: Vec::new(),
        })
    }

    /// Sets the files aside whose era does not count.
    pub(in crate::log) fn set_aside(&mut self, counts: impl Fn(Era) -> bool) {
        let superseded = &mut self.superseded;
        self.files.retain(|file| {
            let counts = counts(file.header.era);
            superseded.extend((!counts).then(|| file.path.to_path_buf()));
            counts
        });
        self.files.iter_mut().enumerate().for_each(|(index, file)| file.index = index);
        self.tallies.truncate(self.files.len());
    }

    /// The next whole block or void, if there is one.
    pub(in crate::log) fn head(&mut self) -> Result<Option<Head<'_>>, OpenError> {
        loop {
            match self.found.front() {
                Some(Found::Block { .. } | Found::Voids { .. }) => break,
                Some(Found::Fault(_) | Found::Unread(_)) => match self.found.pop_front() {
                    Some(Found::Fault(fault)) => self.faults.push(fault),
                    Some(Found::Unread(unread)) => self.unread.push(unread),
                    _ => {}
                },
                None => {
                    if !self.receive()? {
                        return Ok(None);
                    }
                }
            }
        }
        match self.found.front() {
            Some(Found::Block { block, .. }) => Ok(Some(Head::Block(block))),
            Some(Found::Voids { tells, .. }) => Ok(Some(Head::Void(tells.next))),
            _ => Ok(None),
        }
    }

    /// The number of the file that has what [`Source::head`] showed.
    pub(in crate::log) fn number_of_head(&self) -> Option<u64> {
        match self.found.front()? {
            Found::Block { file, .. } | Found::Voids { file, .. } => Some(self.files[*file].header.number),
            Found::Fault(_) | Found::Unread(_) => None,
        }
    }

    /// The dropped blocks that [`Source::head`] showed, if nothing is left of them, and their file.
    pub(in crate::log) fn told(&self) -> Option<(Told, Teller)> {
        let (file, head) = match self.found.front()? {
            Found::Block { file, block } => (*file, Head::Block(block)),
            Found::Voids { file, tells } => (*file, Head::Void(tells.next)),
            Found::Fault(_) | Found::Unread(_) => return None,
        };
        let header = &self.files[file].header;
        head.told().map(|told| (told, (header.stream, header.number)))
    }

    /// Takes what [`Source::head`] showed; `None` for a void.
    pub(in crate::log) fn take(&mut self) -> Option<(usize, Block)> {
        self.faults.clear();
        match self.found.pop_front() {
            Some(Found::Block { file, block }) => {
                self.untold.clear();
                Some((file, block))
            }
            Some(Found::Voids { file, mut tells }) => {
                if tells.advance() {
                    self.found.push_front(Found::Voids { file, tells });
                }
                None
            }
            _ => None,
        }
    }

    /// Sets the block that comes next aside, with the voids that it tells, if a higher one of its file was
    /// kept: a device has put a copy of that one or of this one in place of another. Says whether. Blocks of
    /// other files are left alone: they may be of another history.
    pub(in crate::log) fn set_aside_misplaced(&mut self) -> bool {
        let block = self.found.iter().enumerate().find_map(|(at, found)| match found {
            Found::Block { file, block } => Some((at, *file, block)),
            _ => None,
        });
        let Some((at, file, block)) = block else { return false };
        if file != self.highest.0 || block.header.sequence > self.highest.1 {
            return false;
        }
        let what = "a block stands there once more, or too late";
        let (path, offset, bytes) = (block.path.clone(), block.offset, block.header.length);
        self.misplaced.push(Fault { path, offset, bytes, what });
        self.found.drain(..=at);
        true
    }

    /// Notes that a block was kept. If it is higher than all before, nothing before it is missing that was
    /// not passed over: gives the blocks that were set aside since the last such one.
    pub(in crate::log) fn rise_to(&mut self, file: usize, sequence: u64) -> Vec<Fault> {
        if (file, sequence) <= self.highest {
            return Vec::new();
        }
        self.highest = (file, sequence);
        std::mem::take(&mut self.misplaced)
    }

    /// Notes what is not kept.
    pub(in crate::log) fn lose(&mut self, found: &Found) {
        match found {
            Found::Block { file, block } => {
                let lost = &mut self.tallies[*file].lost;
                lost.blocks += 1;
                lost.records += u64::from(block.count());
                lost.bytes += block.header.length;
            }
            Found::Voids { .. } | Found::Unread(_) => {}
            Found::Fault(fault) => {
                let file = self.files.iter().position(|file| file.path == fault.path);
                let file = file.expect("a spoilt stretch is in a file that was read");
                self.tallies[file].lost.bytes += fault.bytes;
            }
        }
    }

    /// Whatever comes, kept or not; `None` at the end.
    pub(in crate::log) fn next(&mut self) -> Result<Option<Found>, OpenError> {
        while self.found.is_empty() {
            if !self.receive()? {
                return Ok(None);
            }
        }
        Ok(self.found.pop_front())
    }

    /// Waits for the next part; `false` if there is none. Not to be called again after an error.
    fn receive(&mut self) -> Result<bool, OpenError> {
        let Some(incoming) = &self.incoming else { return Ok(false) };
        match incoming.recv().expect("the checking thread says how it ends")? {
            Some(found) => {
                self.found.extend(found);
                Ok(true)
            }
            None => {
                self.incoming = None;
                Ok(false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "the checking thread says how it ends")]
    fn a_reading_that_dies_is_not_taken_for_the_end_of_the_log() {
        let (sender, receiver) = crossbeam_channel::unbounded();
        sender.send(Ok(Some(Vec::new()))).expect("the receiver is there");
        drop(sender);
        let mut source = Source {
            directory: PathBuf::new(),
            files: Vec::new(),
            tallies: Vec::new(),
            superseded: Vec::new(),
            unreadable: Vec::new(),
            incoming: Some(receiver),
            found: VecDeque::new(),
            untold: Vec::new(),
            teller: None,
            faults: Vec::new(),
            misplaced: Vec::new(),
            highest: (0, 0),
            unread: Vec::new(),
            headless: Vec::new(),
            passed: Vec::new(),
        };
        assert!(source.head().is_err(), "this is not reached");
    }
}
