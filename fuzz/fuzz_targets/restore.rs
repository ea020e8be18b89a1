//! Payloads of `RESTORE` up to the entry that they make: no panic, no more memory than they are worth, and
//! what `DUMP` says of that entry restores the same.
//!
//! ```text
//!  input:  | a value; the footer behind it fits |
//! ```
#![no_main]

use std::borrow::Cow;
use std::sync::Arc;

use cap::Cap;
use libfuzzer_sys::fuzz_target;
use tarn_engine::Engine;
use tarn_engine::Group;
use tarn_engine::io::ManualClock;
use tarn_engine::record::{Batch, Change, Write};
use tarn_engine::session::Access;
use tarn_engine::table::KeyHash;
use tarn_rdb::{crc64, payload};
use tarn_server::persist::rdb::{ChangeBuilder, payload_of};

/// A length that a payload only tells must not be allocated: beyond this the process is aborted. Names that
/// the entries of a stream share become 128 times as much.
#[global_allocator]
static ALLOCATOR: Cap<std::alloc::System> = Cap::new(std::alloc::System, 1 << 30);

/// The version of RDB that the footer tells.
const VERSION: u16 = 13;

fuzz_target!(|input: &[u8]| {
    let mut bytes = input.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    let crc = crc64(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    let Some(dumped) = restore_and_dump(&bytes) else { return };
    assert_eq!(restore_and_dump(&dumped).as_deref(), Some(&dumped[..]), "what was dumped restores the same");
});

fn restore_and_dump(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut builder = ChangeBuilder::default();
    payload::read(bytes, &mut builder).ok()?;
    let change: Change<'static> = builder.finish(None).ok()??;
    let (engine, _background) = Engine::unlogged(1, 1, Arc::new(ManualClock::new(1)));
    let session = engine.enter(0);
    let key = b"key";
    let mut latched = session.latch_places(&[(0, KeyHash::of(key))], Access::Write, 1);
    let mut batch = Batch::new();
    batch.push(Write::Key { db: 0, key: Cow::Borrowed(key), change });
    latched.commit(&batch, &mut Group::default()).expect("there is no log that could refuse");
    // A hash is gone at once if its fields are.
    latched.get(0, key).and_then(|entry| payload_of(entry, 0, VERSION))
}
