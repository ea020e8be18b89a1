//! Loads a checkpoint into the tables, on all cores. No two blocks hold the same key, so their order does
//! not matter.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender};
use smallvec::SmallVec;

use super::error::{CheckpointError, damaged};
use super::format::BLOCK_BYTES;
use super::reader::{Block, FileReader, Record, Records};
use crate::record::Lsn;
use crate::table::{END, Effect, Entry, KeyHash, Table};

/// Runs of blocks that may wait for a loader, and buffers that may wait to be filled again.
const RUNS_QUEUED: usize = 4;
/// Entries that are gathered, so that their segments are looked up side by side.
const GATHERED: usize = 16;
/// From so many keys it is told how many there are in all.
const TELLING: u64 = 256;
/// A checkpoint has at least so many bytes a key.
const KEY_BYTES_MIN: u64 = 10;

/// The result of loading a checkpoint.
pub struct Loaded {
    /// The databases.
    pub tables: Vec<Arc<Table>>,
    /// They are as of here.
    pub cut: Lsn,
    /// Keys in all.
    pub keys: u64,
}

/// Loads the rest of `reader` into `tables`, which are empty, with `threads` threads.
pub(super) fn load(
    mut reader: FileReader,
    tables: Vec<Arc<Table>>,
    threads: usize,
    progress: &dyn Fn(u64, u64),
) -> Result<Loaded, CheckpointError> {
    let path = reader.path().to_path_buf();
    let (_, bytes) = reader.progress()?;
    let loaded = AtomicU64::new(0);
    let cut = reader.header.cut;
    let loading = Loading { path: &path, tables: &tables, cut, keys_max: bytes / KEY_BYTES_MIN };
    let load_runs = |runs: Receiver<Vec<Block>>, give_back: Sender<Vec<u8>>| {
        for run in runs {
            loaded.fetch_add(loading.load_run(&run)?, Ordering::Relaxed);
            for block in run.into_iter().filter(|block| block.body.capacity() <= 2 * BLOCK_BYTES) {
                let _ = give_back.try_send(block.body);
            }
        }
        Ok::<(), CheckpointError>(())
    };
    std::thread::scope(|scope| {
        let (sender, runs) = crossbeam_channel::bounded::<Vec<Block>>(RUNS_QUEUED);
        let (give_back, bodies) = crossbeam_channel::bounded(RUNS_QUEUED);
        let loaders: Vec<_> = (0..threads.max(1))
            .map(|_| {
                let (load_runs, runs, give_back) = (&load_runs, runs.clone(), give_back.clone());
                scope.spawn(move || load_runs(runs, give_back))
            })
            .collect();
        drop(runs);
        let mut run = Vec::new();
        while let Some(block) = reader.next_block(bodies.try_recv().unwrap_or_default())? {
            let (read, bytes) = reader.progress()?;
            progress(read, bytes);
            let continues = block.continues();
            run.push(block);
            if !continues && sender.send(std::mem::take(&mut run)).is_err() {
                // All loaders have given up; they say why.
                break;
            }
        }
        drop(sender);
        for loader in loaders {
            loader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        if run.is_empty() { Ok(()) } else { Err(damaged(&path, 0, "the last large value has no end")) }
    })?;
    let keys = loaded.into_inner();
    if keys != reader.keys() {
        let what = format!("it holds {keys} keys and tells of {}", reader.keys());
        return Err(damaged(&path, 0, what));
    }
    Ok(Loaded { tables, cut, keys })
}

/// The state that loading threads share.
struct Loading<'l> {
    path: &'l Path,
    tables: &'l [Arc<Table>],
    /// The file is as of here.
    cut: Lsn,
    /// There cannot be more in the file.
    keys_max: u64,
}

impl Loading<'_> {
    fn table(&self, db: u8) -> Result<&Table, CheckpointError> {
        self.tables.get(usize::from(db)).map(|table| &**table).ok_or_else(|| {
            CheckpointError::TooFewDatabases {
                path: self.path.to_path_buf(),
                db,
                databases: self.tables.len(),
            }
        })
    }

    /// Loads blocks that belong together; the number of keys.
    fn load_run(&self, run: &[Block]) -> Result<u64, CheckpointError> {
        run.iter().try_for_each(|block| block.check(self.path))?;
        let mut db = run.first().map_or(0, Block::db);
        let mut records = Records::of(self.path, run);
        let mut gathered = SmallVec::new();
        let (mut keys, mut density) = (0, Density::default());
        while let Some(record) = records.next() {
            let entry = match record? {
                Record::Range { db: next, from, .. } => {
                    if next != db {
                        insert(self.table(db)?, &mut gathered, &records)?;
                        (db, density) = (next, Density::default());
                    }
                    density.note(from, keys);
                    continue;
                }
                Record::Entry(bytes) => Entry::from_stored(bytes, self.cut),
                Record::Nodes(head) => {
                    let (leaves, times) = leaves_of(&mut records)?;
                    Entry::from_stored_nodes(head, &leaves, &times, self.cut)
                }
                Record::Leaf(_) | Record::Times(_) | Record::End => {
                    return Err(records.damaged("a leaf belongs to no value"));
                }
            };
            let entry = entry.map_err(|error| records.damaged(&error.to_string()))?;
            gathered.push((KeyHash::of(entry.key()), entry));
            keys += 1;
            if gathered.len() == GATHERED {
                insert(self.table(db)?, &mut gathered, &records)?;
            }
        }
        let table = self.table(db)?;
        insert(table, &mut gathered, &records)?;
        table.make_room(density.keys_of_all().min(self.keys_max) as usize);
        Ok(keys)
    }
}

/// How many keys there are from one position on: positions are spread evenly, so a part tells of all.
#[derive(Default)]
struct Density {
    first: Option<(u64, u64)>,
    last: (u64, u64),
}

impl Density {
    /// So many keys stand before a range that begins at `position`.
    fn note(&mut self, position: u64, keys: u64) {
        self.first.get_or_insert((position, keys));
        self.last = (position, keys);
    }

    fn keys_of_all(&self) -> u64 {
        let (from, before) = self.first.unwrap_or_default();
        let (to, keys) = self.last;
        // Few keys tell little, and are large: growing costs little beside them.
        if keys - before < TELLING {
            return 0;
        }
        let all = u128::from(keys - before) * u128::from(END);
        all.checked_div(u128::from(to.saturating_sub(from))).and_then(|all| all.try_into().ok()).unwrap_or(0)
    }
}

/// The leaves of a large value, and those of the times of fields.
type Leaves<'b> = (Vec<&'b [u8]>, Vec<&'b [u8]>);

/// The leaves up to the end of a large value.
fn leaves_of<'b>(records: &mut Records<'b>) -> Result<Leaves<'b>, CheckpointError> {
    let (mut leaves, mut times) = (Vec::new(), Vec::new());
    loop {
        match records.next() {
            Some(Ok(Record::Leaf(leaf))) if times.is_empty() => leaves.push(leaf),
            Some(Ok(Record::Times(leaf))) => times.push(leaf),
            Some(Ok(Record::End)) => return Ok((leaves, times)),
            Some(Err(error)) => return Err(error),
            _ => return Err(records.damaged("a large value has no end")),
        }
    }
}

/// Inserts what was gathered.
fn insert(
    table: &Table,
    gathered: &mut SmallVec<[(KeyHash, Entry); GATHERED]>,
    records: &Records<'_>,
) -> Result<(), CheckpointError> {
    table.fetch(gathered.iter().map(|(hash, _)| *hash));
    for (hash, entry) in gathered.drain(..) {
        let effect = Effect::of_new(&entry);
        let (index, mut segment) = table.write_of(hash);
        if !segment.insert(hash, entry) {
            return Err(records.damaged("a key was there before"));
        }
        table.note(index, effect);
        let crowded = table.is_crowded(segment.len());
        drop(segment);
        if crowded {
            table.grow(4);
        }
    }
    Ok(())
}
