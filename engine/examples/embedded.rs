//! The engine as an embedded library: open a store, write, read, read a view, take a checkpoint, close.
//!
//! `cargo run -p tarn-engine --example embedded`

use std::error::Error;
use std::sync::Arc;

use tarn_engine::checkpoint::{CheckpointMode, Checkpoints, Pace, TakeOptions};
use tarn_engine::io::{Clock, OsDisk, SystemClock};
use tarn_engine::record::{Batch, Change, Write};
use tarn_engine::recovery::{self, Progress};
use tarn_engine::session::Access;
use tarn_engine::value::ValueRef;
use tarn_engine::{Engine, Group, KeyRef, LogOptions, ViewOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (disk, clock): (_, Arc<dyn Clock>) = (Arc::new(OsDisk), Arc::new(SystemClock::new()));

    // Open: load the newest checkpoint and replay the log. One database, one thread that loads.
    let checkpoints = Checkpoints::open(disk.clone(), &folder.path().join("checkpoints"))?;
    let options = LogOptions::new(vec![folder.path().join("log")]);
    let opened = recovery::open(disk, options, Some(&checkpoints), 1, 1, &Progress::default())?;
    let appender = Some(opened.log.appender());
    let (engine, background) = Engine::new(opened.tables, 1, appender, opened.validity, clock.clone());

    // Write: latch the key, then append to the log and change the table in one step.
    let (key, now) = ([KeyRef::of(0, b"greeting")], clock.unix_ms());
    let session = engine.enter(0);
    let mut latched = session.latch(&key, Access::Write, now);
    let change = Change::Put { value: b"hello".into(), expiry: None };
    let lsn = latched.commit(
        &Batch::from_iter([Write::Key { db: 0, key: b"greeting".into(), change }]),
        &mut Group::default(),
    )?;

    // Read under the same latch.
    let bytes = match latched.get(0, b"greeting").map(|entry| entry.value()) {
        Some(ValueRef::String(value)) => value.to_vec(),
        _ => return Err("the key has no string".into()),
    };
    println!("record {lsn} set greeting to {}", bytes.escape_ascii());
    latched.release();
    drop(session);

    // A view shows the store as of one instant, whatever is written meanwhile.
    let view = engine.open_view(ViewOptions::once("example"))?;
    view.for_each(|db, entry| println!("database {db} has {}", entry.key().escape_ascii()))?;

    // A checkpoint is a view on the disk. Close: stop the threads, then write and sync the rest of the log.
    checkpoints.take(&*engine, CheckpointMode::Full, TakeOptions { pace: Pace::Fast, writers: 1 }, now)?;
    drop((engine, background));
    opened.log.close()?;
    Ok(())
}
