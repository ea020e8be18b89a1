//! The store that is read and updated: records in the engine, in this process, and an index of them.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use tarn_engine::Group;
use tarn_engine::io::SystemClock;
use tarn_engine::record::{Batch, Change, Write};
use tarn_engine::session::Access;
use tarn_engine::value::ValueRef;
use tarn_engine::{Background, Engine};
use tarn_engine::{Entry, IndexRange, IndexValue, Indexed, KeyHash};

use crate::error::{LabError, Result};

/// Bytes of a record, with its key and the names of its fields.
pub(super) const RECORD_BYTES: u64 = 240;
/// Fields of a record. The first has its number, by which it is indexed.
pub(super) const FIELDS: usize = 10;
/// Bytes of each.
const FIELD_BYTES: usize = 20;
const FIELD_NAMES: [&[u8]; FIELDS] = [b"f0", b"f1", b"f2", b"f3", b"f4", b"f5", b"f6", b"f7", b"f8", b"f9"];
/// The name of the index.
pub(super) const INDEX: &str = "number";

/// The key of a record: 20 bytes.
pub(super) fn key(number: u64) -> Vec<u8> {
    format!("user:{number:015}").into_bytes()
}

/// The fields of a record, each with its value.
pub(super) fn fields(number: u64, rng: &mut SmallRng) -> [(&'static [u8], Vec<u8>); FIELDS] {
    std::array::from_fn(|at| if at == 0 { indexed(number) } else { (FIELD_NAMES[at], text(rng)) })
}

fn text(rng: &mut SmallRng) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let (high, low): (u64, u64) = (rng.random(), rng.random());
    let digit = |at: usize| (if at < 16 { high >> (at * 4) } else { low >> ((at - 16) * 4) }) as usize & 15;
    (0..FIELD_BYTES).map(|at| DIGITS[digit(at)]).collect()
}

/// A drawn field that is not indexed, and a value for it.
pub(super) fn change(rng: &mut SmallRng) -> (&'static [u8], Vec<u8>) {
    (FIELD_NAMES[1 + rng.random_range(0..FIELDS - 1)], text(rng))
}

/// The name of the indexed field, and a value of it.
pub(super) fn indexed(number: u64) -> (&'static [u8], Vec<u8>) {
    (FIELD_NAMES[0], format!("{number:020}").into_bytes())
}

/// The number of a record.
struct ByNumber;

impl Indexed for ByNumber {
    fn covers(&self, key: &[u8]) -> bool {
        key.starts_with(b"user:")
    }

    fn value_of(&self, entry: &Entry) -> Option<IndexValue> {
        let ValueRef::Hash(hash) = entry.value() else { return None };
        std::str::from_utf8(hash.get(FIELD_NAMES[0])?).ok()?.parse().ok().map(IndexValue::integer)
    }
}

/// The records of the given share of all: those with the largest numbers.
pub(super) fn range_of(records: u64, share_percent: u32) -> IndexRange {
    let from = records - records * u64::from(share_percent) / 100;
    let (from, to) =
        (std::ops::Bound::Included(IndexValue::integer(from as i64)), std::ops::Bound::Unbounded);
    IndexRange { from, to }
}

/// Records in the engine.
pub(super) struct Store {
    /// The engine, with a worker for each writer.
    pub engine: Arc<Engine>,
    /// Records.
    pub records: u64,
    /// Writers that there may be.
    pub writers: usize,
    _background: Background,
}

impl Store {
    /// Fills a store for so many writers, and indexes it.
    pub(super) fn fill(records: u64, writers: usize, rng: &mut SmallRng) -> Result<Store> {
        let (engine, _background) = Engine::unlogged(1, writers, Arc::new(SystemClock::new()));
        let store = Store { engine, records, writers, _background };
        let mut writer = Writer::new(&store, 0);
        for number in 0..records {
            let puts = fields(number, rng);
            writer.put(key(number), puts.iter().map(|(name, value)| (*name, value.as_slice())))?;
        }
        let index = store.engine.create_index(0, INDEX, Arc::new(ByNumber));
        let index = index.map_err(LabError::refused)?;
        while !index.is_ready() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(store)
    }
}

/// A writer of records.
pub(super) trait Update {
    /// Writes a field that is not indexed, drawn, of a record.
    fn update(&mut self, number: u64, rng: &mut SmallRng) -> Result<()>;
    /// Writes the indexed field of a record.
    fn move_to(&mut self, number: u64, value: u64) -> Result<()>;
    /// Removes a record.
    fn remove(&mut self, number: u64) -> Result<()>;
    /// Inserts a record.
    fn insert(&mut self, number: u64, rng: &mut SmallRng) -> Result<()>;
}

/// A writer of records in the engine.
pub(super) struct Writer<'s> {
    store: &'s Store,
    worker: usize,
    group: Group,
}

impl Writer<'_> {
    /// A writer. There is one at a time of each number.
    pub(super) fn new(store: &Store, worker: usize) -> Writer<'_> {
        Writer { store, worker, group: Group::new() }
    }

    /// Writes fields of a key.
    pub(super) fn put<'v>(
        &mut self,
        key: Vec<u8>,
        fields: impl Iterator<Item = (&'v [u8], &'v [u8])>,
    ) -> Result<()> {
        let put = |(field, value): (&'v [u8], &'v [u8])| Change::HashPut {
            field: field.into(),
            value: value.into(),
        };
        self.commit(&key, fields.map(put))
    }

    fn commit<'v>(&mut self, key: &[u8], changes: impl Iterator<Item = Change<'v>>) -> Result<()> {
        let hash = KeyHash::of(key);
        let batch: Batch<'_> = changes.map(|change| Write::Key { db: 0, key: key.into(), change }).collect();
        let session = self.store.engine.enter(self.worker);
        let mut latched = session.latch_places(&[(0, hash)], Access::Write, 0);
        let committed = latched.commit(&batch, &mut self.group);
        latched.release();
        committed.map(|_| ()).map_err(LabError::refused)
    }
}

impl Update for Writer<'_> {
    #[inline]
    fn update(&mut self, number: u64, rng: &mut SmallRng) -> Result<()> {
        let (name, value) = change(rng);
        self.put(key(number), std::iter::once((name, value.as_slice())))
    }

    fn move_to(&mut self, number: u64, value: u64) -> Result<()> {
        let (name, value) = indexed(value);
        self.put(key(number), std::iter::once((name, value.as_slice())))
    }

    fn remove(&mut self, number: u64) -> Result<()> {
        self.commit(&key(number), std::iter::once(Change::Delete))
    }

    fn insert(&mut self, number: u64, rng: &mut SmallRng) -> Result<()> {
        let puts = fields(number, rng);
        self.put(key(number), puts.iter().map(|(name, value)| (*name, value.as_slice())))
    }
}
