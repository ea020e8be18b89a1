//! Random histories of a store on the simulated disk, for the tests of what is done to its log meanwhile.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::Arc;

use rand::Rng;
use rand::rngs::SmallRng;
use tarn_engine::checkpoint::Checkpoints;
use tarn_engine::compactor::CompactionOptions;
use tarn_engine::io::{ManualClock, SimDisk};
use tarn_engine::log::{ClosedFile, Group, Log, LogOptions, OpenError, Sizes, SyncMode};
use tarn_engine::record::{Batch, Bytes, Change, Kind, Lsn, Made, Side, Write};
use tarn_engine::recovery::{self, Progress};
use tarn_engine::scrub::Scrubbed;
use tarn_engine::session::Access;
use tarn_engine::value::stream::{self, StreamId, StreamRef, element};
use tarn_engine::value::{ImageBuilder, ValueRef, elements_of};
use tarn_engine::{Background, CommitError, Compression, Engine, Preparation};
use tarn_engine::{KeyHash, ScanBudget};

pub(crate) const KINDS: [Kind; 7] =
    [Kind::String, Kind::List, Kind::Set, Kind::ZSet, Kind::Hash, Kind::Stream, Kind::Json];
pub(crate) const DATABASES: u8 = 3;
pub(crate) const NOW: u64 = 1_000;
/// Keys of a database that are written to, unless a test wants others.
pub(crate) const KEYS: u8 = 12;
/// So small that most entries that a compaction renews are renewed in parts.
pub(crate) const PART_BYTES: usize = 50;

/// How many random histories are tried, unless `TARN_SEEDS` says so.
pub(crate) fn seed_count() -> u64 {
    tarn_engine::io::seed_count(400)
}

pub(crate) type Contents = Vec<Vec<(String, String)>>;

/// All keys with their values and expiries.
pub(crate) fn contents_of(engine: &Engine) -> Contents {
    let session = engine.enter(0);
    let latched = session.latch(&[], Access::Read, NOW);
    let shown = |db| {
        let mut all = Vec::new();
        let scanned = latched.scan(db, 0, &mut ScanBudget::UNLIMITED.clone(), |entry| {
            let text = format!("{} {:?}", text_of(entry.value()), entry.expiry());
            all.push((String::from_utf8_lossy(entry.key()).into_owned(), text));
        });
        scanned.unwrap();
        all.sort();
        all
    };
    (0..DATABASES).map(shown).collect()
}

pub(crate) fn text_of(value: ValueRef<'_>) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let mut all = match value {
        ValueRef::String(value) => return text(&value.to_vec()),
        ValueRef::Json(value) => return format!("json {}", text(&value.to_vec())),
        ValueRef::List(list) => return list.iter_from(0).map(|element| text(element) + ",").collect(),
        ValueRef::Set(set) => set.iter().map(text).collect::<Vec<_>>(),
        ValueRef::ZSet(zset) => {
            zset.iter_from(0).map(|(member, score)| format!("{}:{score}", text(member))).collect()
        }
        ValueRef::Hash(hash) => hash
            .iter_timed()
            .map(|(field, value, time)| {
                let time = time.map_or(String::new(), |at| format!("@{at}"));
                format!("{}={}{time}", text(field), text(value))
            })
            .collect(),
        ValueRef::Stream(stream) => return text_of_stream(stream),
    };
    all.sort();
    all.concat()
}

/// The elements of a stream, and what follows from them.
fn text_of_stream(stream: StreamRef<'_>) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let elements = stream.elements().map(|(name, value)| format!("{}={} ", text(&name), text(value)));
    let mut all: String = elements.collect();
    all += &format!("{:?} of {} ", stream.head(), stream.len());
    for group in stream.groups() {
        for number in 0..CONSUMERS {
            let consumer = consumer_name(number);
            let owned: Vec<String> =
                group.owned_from(&consumer, StreamId::MIN).map(|id| id.to_string()).collect();
            all += &format!("{} {} {owned:?} ", text(group.name()), text(&consumer));
        }
    }
    for producer in stream.producers() {
        let messages: Vec<_> = producer.messages().collect();
        all += &format!("{} {messages:?} ", text(producer.name()));
    }
    all
}

/// Consumers of a group of a stream.
const CONSUMERS: u16 = 3;

fn consumer_name(number: u16) -> Vec<u8> {
    format!("c{}", number % CONSUMERS).into_bytes()
}

fn any_head(rng: &mut SmallRng) -> Change<'static> {
    let last_id = StreamId::new(rng.random_range(0..9), 0);
    let max_deleted_id = StreamId::new(0, rng.random_range(0..3));
    element::put_head(&stream::StreamHead { last_id, entries_added: rng.random_range(0..9), max_deleted_id })
}

/// A change of a stream that is there, with IDs, groups and pending entries out of so many.
pub(crate) fn stream_change(elements: u16, rng: &mut SmallRng) -> Change<'static> {
    let id = StreamId::new(rng.random_range(0..elements.max(1)).into(), 0);
    let group = format!("g{}", rng.random_range(0..elements.div_ceil(4).max(1)) % 3).into_bytes();
    let consumer = consumer_name(rng.random());
    let text: [u8; 3] = rng.random();
    match rng.random_range(0..31) {
        0 => any_head(rng),
        1 => Change::StreamGroupRemove { group: group.into() },
        2..4 => Change::StreamTrim { below: id },
        4..7 => element::remove_entry(id),
        7..10 => element::remove_pending(&group, id),
        10 => element::remove_consumer(&group, &consumer),
        11..13 => {
            let state = stream::GroupState { last_id: id, entries_read: rng.random_bool(0.5).then_some(3) };
            element::put_group(&group, &state)
        }
        13..15 => {
            let (seen, active) = (rng.random_range(0..9), rng.random_bool(0.5).then_some(3));
            element::put_consumer(&group, &stream::Consumer { name: &consumer, seen, active })
        }
        15..19 => {
            let (delivered, deliveries) = (rng.random_range(0..9), rng.random_range(0..9));
            let pending = stream::Pending { id, consumer: &consumer, delivered, deliveries };
            element::put_pending(&group, &pending)
        }
        19 => {
            let (duration_s, added) = (rng.random_range(1..9), rng.random_range(0..9));
            let how = stream::Idempotence { duration_s, messages_max: 3, added, duplicates: 1, forgotten: 0 };
            element::put_idempotence(&how)
        }
        20..23 => element::put_message(&consumer, &[b'm', text[0] % 8], rng.random_range(0..20), id),
        23 => element::remove_message(&consumer, &[b'm', text[0] % 8]),
        _ => element::put_entry(id, rng.random_range(0..300), [(&b"field"[..], &text[..])].into_iter()),
    }
}

pub(crate) struct Store {
    pub engine: Arc<Engine>,
    pub _background: Background,
    pub log: Log,
    pub last: Lsn,
    pub clock: Arc<ManualClock>,
    /// How many keys of a database are written to.
    pub keys: Cell<u8>,
    /// A key that is written to more often than others, but seldom said again as a whole.
    pub favourite: RefCell<Option<(u8, Vec<u8>)>>,
    /// Of how many elements the favourite may have some.
    pub favourite_elements: Cell<u16>,
    /// Values that are being prepared.
    preparing: RefCell<Vec<Preparing>>,
}

/// A value that is being prepared for a key.
struct Preparing {
    preparation: Preparation,
    db: u8,
    key: Vec<u8>,
    /// The bytes that the log does not have yet.
    rest: Vec<u8>,
    value: Made,
    sticky: bool,
}

impl Store {
    /// The files that a scrubber reads.
    pub(crate) fn scrubbed<'s>(&'s self, checkpoints: &'s Checkpoints) -> Scrubbed<'s> {
        Scrubbed { store: self.engine.store(), compactor: self.engine.compactor(), checkpoints }
    }

    pub(crate) fn open(disk: &SimDisk, options: &LogOptions) -> Result<Store, OpenError> {
        Store::open_on(disk, options, None)
    }

    /// As `open`, on the checkpoint if there is one.
    pub(crate) fn open_on(
        disk: &SimDisk,
        options: &LogOptions,
        checkpoints: Option<&Checkpoints>,
    ) -> Result<Store, OpenError> {
        let disk = Arc::new(disk.clone());
        let databases = usize::from(DATABASES);
        let progress = Progress::default();
        let opened = recovery::open(disk, options.clone(), checkpoints, databases, 2, &progress)?;
        let appender = Some(opened.log.appender());
        let clock = Arc::new(ManualClock::new(NOW));
        let (engine, background) = Engine::new(opened.tables, 1, appender, opened.validity, clock.clone());
        let options = CompactionOptions {
            enabled: false,
            bytes_per_second: 0,
            part_bytes: PART_BYTES,
            ..CompactionOptions::default()
        };
        engine.compactor().set_options(options);
        engine
            .compactor()
            .checkpoint_ended(checkpoints.and_then(Checkpoints::current).map(|found| found.cut));
        let (favourite, last) = (RefCell::default(), opened.recovered.last);
        let keys = Cell::new(KEYS);
        let favourite_elements = Cell::new(24);
        let (_background, log) = (background, opened.log);
        let preparing = RefCell::default();
        Ok(Store { engine, _background, log, last, clock, keys, favourite, favourite_elements, preparing })
    }

    pub(crate) fn files(&self) -> Vec<ClosedFile> {
        self.log.appender().closed_files()
    }

    /// The type of a key's value, and the length of a list.
    pub(crate) fn found(&self, db: u8, key: &[u8]) -> Option<(Kind, u64)> {
        let session = self.engine.enter(0);
        let latched = session.latch_places(&[(db, KeyHash::of(key))], Access::Read, NOW);
        let entry = latched.get(db, key)?;
        let length = if let ValueRef::List(list) = entry.value() { list.len() as u64 } else { 1 };
        Some((entry.kind(), length))
    }

    /// Whether what a record puts is still there, or a bit says that it is not: else nothing would ever.
    pub(crate) fn is_told(&self, (lsn, (db, key), kind, name, is_time): &Put) -> bool {
        let validity = self.engine.store().validity();
        let Some(db) = validity.place_now(*db, *lsn).filter(|_| validity.is_valid(*lsn)) else { return true };
        let session = self.engine.enter(0);
        let latched = session.latch_places(&[(db, KeyHash::of(key))], Access::Read, NOW);
        let Some(entry) = latched.get(db, key).filter(|entry| entry.kind() == *kind) else { return false };
        let Some(name) = name else { return entry.base() == *lsn };
        match entry.value() {
            ValueRef::Hash(hash) if *is_time => hash.time(name).is_some(),
            ValueRef::Hash(hash) => hash.get(name).is_some(),
            ValueRef::Set(set) => set.contains(name),
            ValueRef::ZSet(zset) => zset.score(name).is_some(),
            ValueRef::Stream(stream) => stream.elements().any(|(element, _)| element[..] == name[..]),
            _ => false,
        }
    }

    /// A write that fits. Keys change their kinds, and small ones become empty often.
    pub(crate) fn any_write(&self, rng: &mut SmallRng) -> Write<'static> {
        let db = rng.random_range(0..DATABASES);
        match rng.random_range(0..400) {
            0..4 => return Write::Flush { db: Some(db) },
            4 => return Write::Flush { db: None },
            5..9 => return Write::Swap { a: db, b: (db + 1) % DATABASES },
            _ => {}
        }
        let mut name = format!("k{}", rng.random_range(0..self.keys.get())).into_bytes();
        let mut dice = rng.random_range(0..12);
        let mut db = db;
        if let Some((its_db, key)) = &*self.favourite.borrow()
            && rng.random_bool(0.6)
        {
            (db, name) = (*its_db, key.clone());
            dice = match rng.random_range(0..20) {
                0 => dice,
                1..10 => dice.max(3),
                _ => 11,
            };
        }
        let found = self.found(db, &name);
        let any_kind = KINDS[rng.random_range(0..KINDS.len())];
        let (kind, length) = found.unwrap_or((any_kind, 0));
        let number: u16 = rng.random();
        let is_favourite = self.favourite.borrow().as_ref().is_some_and(|(_, key)| *key == name);
        let elements = if is_favourite { self.favourite_elements.get() } else { 4 };
        let element = || rng_element(number, elements);
        let expiry = rng.random_bool(0.3).then(|| NOW + rng.random_range(1_000..2_000u64));
        let change = match (kind, dice) {
            (_, 0) => Change::Delete,
            (_, 1) if length > 0 => Change::Expire(expiry),
            (_, 2) if any_kind != Kind::String => image(any_kind, expiry, rng),
            (Kind::String, 3..6) => Change::Patch { offset: rng.random_range(0..9), bytes: element() },
            (Kind::String, _) => Change::Put { value: element(), expiry },
            // Seldom again, so that its expiries build on it.
            (Kind::Json, 3..8) if length > 0 => Change::Expire(expiry),
            (Kind::Json, _) => image(Kind::Json, expiry, rng),
            (Kind::List, 3 | 4) if length > 0 => {
                Change::ListPop { side: any_side(rng), count: rng.random_range(1..=length) }
            }
            (Kind::List, 5) if length > 0 => Change::ListRemove { index: rng.random_range(0..length) },
            (Kind::List, 6) if length > 0 => {
                Change::ListPut { index: rng.random_range(0..length), element: element() }
            }
            (Kind::List, 7) if length > 0 => {
                Change::ListInsert { index: rng.random_range(0..=length), element: element() }
            }
            (Kind::List, _) => Change::ListPush { side: any_side(rng), element: element() },
            (Kind::Set, 3..7) => Change::SetRemove { member: element() },
            (Kind::Set, _) => Change::SetAdd { member: element() },
            (Kind::Hash, 3..6) => Change::HashRemove { field: element() },
            // Of a field that may not be there, and that may have no time.
            (Kind::Hash, 6..9) if length > 0 => hash_expire(element(), rng),
            (Kind::Hash, _) => {
                Change::HashPut { field: element(), value: rng.random::<[u8; 3]>().to_vec().into() }
            }
            // A stream never loses its head.
            (Kind::Stream, _) if length == 0 => any_head(rng),
            (Kind::Stream, _) => stream_change(elements, rng),
            (Kind::ZSet, 3..7) => Change::ZSetRemove { member: element() },
            (Kind::ZSet, _) => {
                Change::ZSetPut { member: element(), score: f64::from(rng.random_range(0..100)) }
            }
        };
        Write::Key { db, key: name.into(), change }
    }

    /// Begins to prepare a copy of a key for a key.
    fn begin_to_prepare(&self, rng: &mut SmallRng) -> Option<()> {
        let mut key = |favourite: f64| match &*self.favourite.borrow() {
            Some((db, key)) if rng.random_bool(favourite) => (*db, key.clone()),
            _ => {
                let name = format!("k{}", rng.random_range(0..self.keys.get()));
                (rng.random_range(0..DATABASES), name.into_bytes())
            }
        };
        let ((of_db, of), (db, key)) = (key(0.3), key(0.3));
        let (value, rest, kind, sticky) = {
            let session = self.engine.enter(0);
            let latched = session.latch_places(&[(of_db, KeyHash::of(&of))], Access::Read, NOW);
            let entry = latched.get(of_db, &of)?;
            let bytes = match entry.value() {
                ValueRef::String(value) => value.to_vec(),
                value => elements_of(value),
            };
            (entry.made(), bytes, entry.kind(), entry.sticky())
        };
        let preparation = Preparation::begin(self.engine.store(), db, &key, kind).ok()??;
        self.preparing.borrow_mut().push(Preparing { preparation, db, key, rest, value, sticky });
        Some(())
    }

    /// Goes on to prepare a value: logs a part, puts the value in its place after the last, or gives it up.
    /// Returns whether that went well; a value that the log refuses is given up.
    fn go_on_to_prepare(&self, rng: &mut SmallRng) -> bool {
        let mut all = self.preparing.borrow_mut();
        let store = self.engine.store();
        let index = rng.random_range(0..all.len());
        let Preparing { preparation, rest, .. } = &mut all[index];
        if rng.random_bool(0.05) {
            all.swap_remove(index).preparation.give_up(store);
            return true;
        }
        if !rest.is_empty() {
            let part: Vec<u8> = rest.drain(..rng.random_range(1..=rest.len())).collect();
            return match preparation.add(store, &part) {
                Ok(()) => true,
                Err(_) => {
                    all.swap_remove(index).preparation.end(store);
                    false
                }
            };
        }
        let Preparing { mut preparation, db, key, value, sticky, .. } = all.swap_remove(index);
        let expiry = rng.random_bool(0.3).then(|| NOW + rng.random_range(1_000..2_000u64));
        let change = preparation.change(value, expiry, sticky);
        let batch = Batch::from_iter([Write::Key { db, key: key.into(), change }]);
        let committed = self.engine.close_gate().commit(&batch, &mut Group::new());
        match committed {
            Ok(_) => preparation.end(store),
            Err(_) => preparation.give_up(store),
        }
        matches!(committed, Ok(_) | Err(CommitError::Unprepared))
    }

    /// Commits a write, or several that fit whatever the others do. Returns whether that went well.
    pub(crate) fn commit(&self, rng: &mut SmallRng) -> bool {
        // Each of them writes one group, as all else here does.
        if rng.random_bool(0.05) && self.begin_to_prepare(rng).is_some() {
            return true;
        }
        if rng.random_bool(0.15) && !self.preparing.borrow().is_empty() {
            return self.go_on_to_prepare(rng);
        }
        let mut batch = Batch::new();
        for _ in 0..if rng.random_bool(0.2) { 3 } else { 1 } {
            let write = self.any_write(rng);
            if batch.is_empty() || batch.iter().all(|other| are_apart(other, &write)) {
                batch.push(write);
            }
        }
        self.engine.close_gate().commit(&batch, &mut Group::new()).is_ok()
    }

    /// Puts many elements into the favourite at once, so that it becomes large. Returns whether that went
    /// well; of what has no elements, nothing happens.
    pub(crate) fn commit_many(&self, rng: &mut SmallRng) -> bool {
        let Some((db, key)) = self.favourite.borrow().clone() else { return true };
        let found = self.found(db, &key);
        let kind = found.map_or(KINDS[rng.random_range(1..6)], |(kind, _)| kind);
        let mut batch = Batch::new();
        if kind == Kind::Stream && found.is_none() {
            batch.push(Write::Key { db, key: key.clone().into(), change: any_head(rng) });
        }
        for _ in 0..rng.random_range(1..150) {
            let element = rng_element(rng.random(), self.favourite_elements.get());
            let change = match kind {
                Kind::List => Change::ListPush { side: any_side(rng), element },
                Kind::Set => Change::SetAdd { member: element },
                Kind::Hash if !batch.is_empty() && rng.random_bool(0.3) => hash_expire(element, rng),
                Kind::Hash => Change::HashPut { field: element, value: b"many"[..].into() },
                Kind::ZSet => Change::ZSetPut { member: element, score: f64::from(rng.random_range(0..100)) },
                Kind::Stream => stream_change(self.favourite_elements.get(), rng),
                Kind::String | Kind::Json => return true,
            };
            batch.push(Write::Key { db, key: key.clone().into(), change });
        }
        self.engine.close_gate().commit(&batch, &mut Group::new()).is_ok()
    }

    /// Compacts a file, or some that follow each other.
    pub(crate) fn compact_any(&self, rng: &mut SmallRng) -> bool {
        let files = self.files();
        if files.is_empty() {
            return true;
        }
        let first = rng.random_range(0..files.len());
        let mut end = first + 1;
        while end < files.len() && files[end - 1].is_followed_by(&files[end]) && rng.random_bool(0.5) {
            end += 1;
        }
        self.engine.compactor().compact_files(self.engine.store(), &files[first..end]).is_ok()
    }
}

/// A time of a field, or none.
pub(crate) fn hash_expire(field: Bytes<'static>, rng: &mut SmallRng) -> Change<'static> {
    let at = rng.random_bool(0.7).then(|| NOW + rng.random_range(1_000..2_000u64));
    Change::HashExpire { field, at }
}

/// Whether each of two writes fits without the other.
pub(crate) fn are_apart(one: &Write<'_>, other: &Write<'_>) -> bool {
    let place = |write: &Write<'_>| match write {
        Write::Key { db, key, .. } => Some((*db, key.to_vec())),
        _ => None,
    };
    let places = [place(one), place(other)];
    places.iter().all(Option::is_some) && places[0] != places[1]
}

pub(crate) fn rng_element(number: u16, elements: u16) -> std::borrow::Cow<'static, [u8]> {
    (number % elements).to_string().into_bytes().into()
}

pub(crate) fn any_side(rng: &mut SmallRng) -> Side {
    if rng.random() { Side::Front } else { Side::Back }
}

pub(crate) fn image(kind: Kind, expiry: Option<u64>, rng: &mut SmallRng) -> Change<'static> {
    if kind == Kind::Json {
        let number = rng.random_range(0..10u8).to_string();
        let elements = number.repeat(rng.random_range(1..4 * PART_BYTES)).into_bytes().into();
        return Change::Image { kind, elements, expiry, sticky: false };
    }
    let mut builder = ImageBuilder::new(kind);
    if kind == Kind::Stream {
        let mut changes = vec![any_head(rng)];
        (0..rng.random_range(1..9)).for_each(|_| changes.push(stream_change(4, rng)));
        for change in changes {
            if let Change::StreamPut { name, value } = change {
                builder.push_field(&name, &value);
            }
        }
        return Change::Image { kind, elements: builder.finish().into(), expiry, sticky: false };
    }
    for number in 0..rng.random_range(1..4u8) {
        let element = number.to_string().into_bytes();
        match kind {
            Kind::Hash => {
                let time = rng.random_bool(0.3).then(|| NOW + rng.random_range(1_000..2_000u64));
                builder.push_timed(&element, b"image", time);
            }
            Kind::ZSet => builder.push_scored(&element, f64::from(number)),
            _ => builder.push_element(&element),
        }
    }
    Change::Image { kind, elements: builder.finish().into(), expiry, sticky: false }
}

pub(crate) fn options(rng: &mut SmallRng) -> LogOptions {
    let directories =
        (0..rng.random_range(1..=3)).map(|index| PathBuf::from(format!("/log{index}"))).collect();
    let mut options = LogOptions::new(directories);
    options.mode = [SyncMode::Always, SyncMode::EverySec, SyncMode::No][rng.random_range(0..3)];
    // A condensed block seldom has more than some files have, or files have many of them.
    options.file_bytes =
        [rng.random_range(900..4_000), rng.random_range(4_000..20_000)][rng.random_range(0..2)];
    options.sizes = Sizes::SMALL;
    options.compression = if rng.random() { Compression::Lz4 } else { Compression::No };
    options
}

/// Fills files with records of other keys, until there are `count` closed ones.
pub(crate) fn fill(store: &Store, count: usize) {
    while store.files().len() < count {
        for number in 0..4 {
            let change = Change::Put { value: vec![b'x'; 100].into(), expiry: None };
            let key = format!("filler{number}").into_bytes().into();
            let batch = Batch::from_iter([Write::Key { db: 0, key, change }]);
            store.engine.close_gate().commit(&batch, &mut Group::new()).unwrap();
        }
        store.log.sync().unwrap();
    }
}

/// Writes other keys until a file is closed that began behind all that was committed before.
pub(crate) fn fill_on(store: &Store) {
    let last = store.log.appender().last();
    while !store.files().iter().filter_map(ClosedFile::lsns).any(|(first, _)| first > last) {
        fill(store, store.files().len() + 1);
    }
}

pub(crate) fn commit(store: &Store, key: &str, change: Change<'static>) {
    let write = Write::Key { db: 0, key: key.as_bytes().to_vec().into(), change };
    store.engine.close_gate().commit(&Batch::from_iter([write]), &mut Group::new()).unwrap();
}

pub(crate) fn records_of(disk: &SimDisk, options: &LogOptions, wanted: &str) -> usize {
    let mut reader = Log::read(Arc::new(disk.clone()), options.clone()).unwrap();
    let mut count = 0;
    while let Some(block) = reader.next_block().unwrap() {
        for record in block.records() {
            count += match record.unwrap().write {
                Write::Key { key, .. } => usize::from(*key == *wanted.as_bytes()),
                _ => 0,
            };
        }
    }
    count
}

/// A record that puts a value, or an element with a name: its number, database and key, the kind, the name;
/// and whether it is the time of that element which it puts.
pub(crate) type Put = (Lsn, (u8, Vec<u8>), Kind, Option<Vec<u8>>, bool);

/// All such records that are in a log; none if there is no log.
pub(crate) fn puts_in(disk: &SimDisk, options: &LogOptions) -> Vec<Put> {
    let mut puts = Vec::new();
    let Ok(mut reader) = Log::read(Arc::new(disk.clone()), options.clone()) else { return puts };
    while let Some(block) = reader.next_block().unwrap() {
        for record in block.records() {
            let record = record.unwrap();
            let Write::Key { db, key, change } = record.write else { continue };
            let is_time = matches!(change, Change::HashExpire { .. });
            let (kind, name) = match change {
                Change::Put { .. } => (Kind::String, None),
                Change::Image { kind, .. } => (kind, None),
                Change::HashPut { field, .. } | Change::HashExpire { field, at: Some(_) } => {
                    (Kind::Hash, Some(field))
                }
                Change::SetAdd { member } => (Kind::Set, Some(member)),
                Change::StreamPut { name, .. } => (Kind::Stream, Some(name)),
                Change::ZSetPut { member, .. } => (Kind::ZSet, Some(member)),
                _ => continue,
            };
            puts.push((record.lsn, (db, key.to_vec()), kind, name.map(|name| name.to_vec()), is_time));
        }
    }
    puts
}

/// All records that are in a log, a line each.
pub(crate) fn story(disk: &SimDisk, options: &LogOptions) -> String {
    let mut reader = Log::read(Arc::new(disk.clone()), options.clone()).unwrap();
    let mut lines = String::new();
    while let Some(block) = reader.next_block().unwrap() {
        for record in block.records() {
            let record = record.unwrap();
            lines += &format!("{} {:?} {}\n", record.lsn, record.write, block.path().display());
        }
    }
    lines
}
