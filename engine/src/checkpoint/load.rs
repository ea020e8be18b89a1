//! From a checkpoint to the tables, on all cores: no two blocks hold the same key, so their order does not
//! matter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::Receiver;

use super::error::CheckpointError;
use super::reader::{Block, FileReader, Record, Records, damaged};
use crate::record::Lsn;
use crate::table::{Entry, KeyHash, Table};

/// Runs of blocks that may wait for a loader.
const RUNS_QUEUED: usize = 4;

/// What was loaded.
pub struct Loaded {
    /// The databases.
    pub tables: Vec<Arc<Table>>,
    /// They are as of here.
    pub cut: Lsn,
    /// Keys in all.
    pub keys: u64,
}

/// Loads the rest of `reader` into `databases` tables with `threads` threads.
pub(super) fn load(
    mut reader: FileReader,
    databases: usize,
    threads: usize,
    progress: &dyn Fn(u64, u64),
) -> Result<Loaded, CheckpointError> {
    let tables: Vec<Arc<Table>> = (0..databases).map(|_| Arc::default()).collect();
    let path = reader.path().to_path_buf();
    let loaded = AtomicU64::new(0);
    let load_runs = |runs: Receiver<(u8, Vec<Block>)>| {
        for (db, run) in runs {
            let keys = load_run(&tables, db, Records::of(&path, &run))?;
            loaded.fetch_add(keys, Ordering::Relaxed);
        }
        Ok::<(), CheckpointError>(())
    };
    std::thread::scope(|scope| {
        let (sender, runs) = crossbeam_channel::bounded(RUNS_QUEUED);
        let loaders: Vec<_> = (0..threads.max(1))
            .map(|_| {
                let (load_runs, runs) = (&load_runs, runs.clone());
                scope.spawn(move || load_runs(runs))
            })
            .collect();
        drop(runs);
        let (mut run, mut db) = (Vec::new(), 0);
        while let Some(block) = reader.next_block()? {
            let (read, bytes) = reader.progress()?;
            progress(read, bytes);
            let continues = block.continues;
            run.push(block);
            if continues {
                continue;
            }
            let begins_in = db;
            db = last_database(&path, &run, db)?;
            if sender.send((begins_in, std::mem::take(&mut run))).is_err() {
                // All loaders have given up; they say why.
                break;
            }
        }
        drop(sender);
        for loader in loaders {
            loader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        if run.is_empty() { Ok(()) } else { Err(damaged(&path, 0, "the last collection has no end")) }
    })?;
    let keys = loaded.into_inner();
    if keys != reader.keys() {
        let what = format!("it holds {keys} keys and tells of {}", reader.keys());
        return Err(damaged(&path, 0, what));
    }
    Ok(Loaded { tables, cut: reader.header.cut, keys })
}

/// The database that the next block begins in.
fn last_database(path: &std::path::Path, run: &[Block], mut db: u8) -> Result<u8, CheckpointError> {
    for record in Records::of(path, run) {
        if let Record::Range { db: next, .. } = record? {
            db = next;
        }
    }
    Ok(db)
}

/// Loads blocks that belong together; the number of keys.
fn load_run(tables: &[Arc<Table>], mut db: u8, mut records: Records<'_>) -> Result<u64, CheckpointError> {
    let mut keys = 0;
    while let Some(record) = records.next() {
        let entry = match record? {
            Record::Range { db: next, .. } => {
                db = next;
                continue;
            }
            Record::Entry(bytes) => Entry::from_stored(bytes),
            Record::Nodes(head) => {
                let mut elements = Vec::new();
                loop {
                    match records.next() {
                        Some(Ok(Record::Leaf(leaf))) => elements.extend_from_slice(leaf),
                        Some(Ok(Record::End)) => break,
                        Some(Err(error)) => return Err(error),
                        _ => return Err(records.damaged("a collection has no end")),
                    }
                }
                Entry::from_stored_nodes(head, &elements)
            }
            Record::Leaf(_) | Record::End => return Err(records.damaged("a leaf belongs to no collection")),
        };
        let Some(entry) = entry else { return Err(records.damaged("this is no entry")) };
        let Some(table) = tables.get(db as usize) else {
            let databases = tables.len();
            return Err(CheckpointError::TooFewDatabases {
                path: records.path().to_path_buf(),
                db,
                databases,
            });
        };
        if !insert(table, entry) {
            return Err(records.damaged("this key was there before"));
        }
        keys += 1;
    }
    Ok(keys)
}

fn insert(table: &Table, entry: Entry) -> bool {
    let (hash, expiry) = (KeyHash::of(entry.key()), entry.expiry());
    let (index, mut segment) = table.write_of(hash);
    if !segment.insert(hash, entry) {
        return false;
    }
    table.note(index, 1, expiry);
    let crowded = table.is_crowded(segment.len());
    drop(segment);
    if crowded {
        table.grow(4);
    }
    true
}
