//! Rewrites a large value (a *giant*) in the log in parts, while clients go on to change it, so that its old
//! changes can leave the log.
//!
//! ```text
//!   begin: "a list of n elements"    part: "from i on: …"   client: push   part …   end: "begun at B"
//!   ──B─────────────────────────────────────────────────────────────────────────────E──────> log
//!     what is older is needed until E; then what is as new as B is
//! ```
//!
//! Each record says what is true when it is written, under the latch of the key; the changes of clients in
//! between say what they always say. So a replay has nothing to put aside: it applies one record after the
//! other, and what it has at E is right, whether or not something older than B was there. If there was
//! nothing, or something else, as a compaction has dropped what is obsolete since E, the beginning makes as
//! many empty elements (or zeros) as there are, so that the changes in between meet the places that they were
//! made for, and the parts fill them. Elements of hashes, sets and sorted sets have names, so the parts are
//! the records of elements that clients would write, and at E what is older than B is gone.
//!
//! Where the next part of a list begins moves with what is pushed and popped before it: `rewrite_cursor`.
//!
//! `docs/design/0021`.

use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use crate::log::Group;
use crate::record::{Batch, Bytes, Change, Kind, Lsn, Write};
use crate::rewrite_cursor::RewriteCursor;
use crate::session::{Access, Latched};
use crate::store::Store;
use crate::table::{ElementCursor, Entry, KeyHash, KeyRef};
use crate::value::image::ImageItem;
use crate::value::stream::spelling;
use crate::value::{ImageBuilder, ValueRef, elements_of};

/// A larger value is logged in parts, each of about this many bytes.
pub(crate) const PART_BYTES: usize = 64 << 10;
/// The longest wait for a latch inside the gate: a script may have it for long.
const LATCH_WAIT: Duration = Duration::from_millis(10);
/// Elements with names that are looked at together.
const LOOKED_AT: usize = 32;
/// How often for one part: each element is put, under the latch.
const LOOKS: usize = 8;
/// The same for a replay.
const LOOKED_AT_IN_REPLAY: usize = 1024;
/// The approximate size of a record beside its key and its element.
const RECORD_BYTES: usize = 16;

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A part of so many bytes has been logged; there is more to do.
    Goes(u64),
    /// All is said, and what is older than the beginning is obsolete.
    Ended,
    /// The key is gone, or is another one, or nothing can be logged. What was logged does no harm.
    GivenUp,
}

/// The renewal of one key. At most one of an engine is under way.
pub struct Renewal<'e> {
    store: &'e Store,
    /// Where the key was when it began.
    db: u8,
    key: Box<[u8]>,
    hash: KeyHash,
    kind: Kind,
    /// The base `Lsn`, which distinguishes the value from others that the key had or will have.
    base: Lsn,
    /// The record of the beginning.
    begun: Lsn,
    parts: Parts,
    group: Group,
}

impl<'e> Renewal<'e> {
    /// Begins to renew a key, in parts of about so many bytes; `None` if there is nothing to renew, or
    /// another renewal is under way.
    pub fn begin(store: &'e Store, db: u8, key: &[u8], part_bytes: usize) -> Option<Renewal<'e>> {
        Renewal::begin_up_to(store, KeyRef::of(db, key), part_bytes, Kind::renewed_length_max)
    }

    /// As `begin`, for values that are no longer than that. There is nothing to renew for now if somebody has
    /// the latch for long.
    fn begin_up_to(
        store: &'e Store,
        key: KeyRef<'_>,
        part_bytes: usize,
        length_max: impl Fn(Kind) -> u64,
    ) -> Option<Renewal<'e>> {
        let databases = store.background();
        databases.log.as_ref()?;
        let keys = [key];
        let KeyRef { db, hash, key } = key;
        let limit = Some(LATCH_WAIT);
        let mut latched = Latched::within(store, &databases, &keys, Access::Write, store.now(), limit)?;
        let entry = latched.get(db, key)?;
        if entry.length() > length_max(entry.kind()) {
            return None;
        }
        let (kind, length, base) = (entry.kind(), entry.length(), entry.renewable_base()?);
        let write = |change| Write::Key { db, key: key.to_vec().into(), change };
        let mut batch = Batch::from_iter([write(Change::RenewalBegins { kind, length })]);
        if entry.expiry_record().is_none() {
            // The record that began the value says when the key expires, and will be dropped.
            batch.push(write(Change::Expire(entry.expiry())));
        }
        if !store.rewrite_cursor().begin(hash, base, length) {
            return None;
        }
        let mut group = Group::new();
        let Ok(last) = latched.commit_again((db, key), &batch, &mut group) else {
            store.rewrite_cursor().end();
            return None;
        };
        let begun = Lsn(last.0 + 1 - batch.len() as u64);
        let parts = Parts::new((kind, length), begun, key, part_bytes);
        Some(Renewal { store, db, key: key.into(), hash, kind, base, begun, parts, group })
    }

    /// Logs the next part, or that there is none. The key is latched for so long.
    pub fn step(&mut self) -> Step {
        let databases = self.store.background();
        let db = self.store.validity().place_now(self.db, self.begun);
        let (Some(db), true) = (db, databases.log.is_some()) else { return Step::GivenUp };
        let store = self.store;
        let keys = [KeyRef { db, hash: self.hash, key: &self.key }];
        let limit = Some(LATCH_WAIT);
        let latched = Latched::within(store, &databases, &keys, Access::Write, store.now(), limit);
        // The gate is left before it is tried again: others may want to close it.
        let Some(mut latched) = latched else { return Step::Goes(0) };
        let Some(entry) = latched.get(db, &self.key) else { return Step::GivenUp };
        if entry.kind() != self.kind || entry.renewable_base() != Some(self.base) {
            return Step::GivenUp;
        }
        let changes = match self.parts.are_said() {
            true => Vec::new(),
            false => self.parts.next(entry, self.store.rewrite_cursor()),
        };
        let bytes = changes.iter().map(|change| self.parts.bytes_of(change)).sum::<usize>() as u64;
        let is_end = changes.is_empty() && self.parts.are_said();
        let end = is_end.then_some(Change::RenewalEnds { kind: self.kind, begun: self.begun });
        let write = |change| Write::Key { db, key: (&*self.key).into(), change };
        let batch: Batch<'_> = changes.into_iter().chain(end).map(write).collect();
        if batch.is_empty() {
            return Step::Goes(0);
        }
        match latched.commit_again((db, &*self.key), &batch, &mut self.group) {
            Err(_) => Step::GivenUp,
            Ok(_) if is_end => Step::Ended,
            Ok(_) => Step::Goes(bytes),
        }
    }
}

impl Drop for Renewal<'_> {
    fn drop(&mut self) {
        self.store.rewrite_cursor().end();
    }
}

/// The progress of a rewrite: the parts of the value that are logged, and the rest.
pub(crate) struct Parts {
    kind: Kind,
    /// The record of the beginning.
    begun: Lsn,
    key_bytes: usize,
    /// Where the next part of a string begins, in bytes.
    at: u64,
    /// Where the next elements with names are.
    cursor: ElementCursor,
    /// Bytes of a string at the beginning.
    length: u64,
    /// All parts have been given.
    is_said: bool,
    /// About the bytes of a part.
    part_bytes: usize,
}

impl Parts {
    /// Nothing has been said since `begun` of a value that was so long then.
    pub(crate) fn new((kind, length): (Kind, u64), begun: Lsn, key: &[u8], part_bytes: usize) -> Parts {
        let key_bytes = key.len();
        let cursor = ElementCursor::default();
        Parts { kind, begun, key_bytes, at: 0, cursor, length, is_said: false, part_bytes: part_bytes.max(1) }
    }

    /// Whether all has been said.
    pub(crate) fn are_said(&self) -> bool {
        self.is_said
    }

    /// The changes for about one more part of the value; after the last, one that says that it is complete.
    pub(crate) fn next(&mut self, entry: &Entry, cursor: &RewriteCursor) -> Vec<Change<'static>> {
        match entry.value() {
            ValueRef::String(value) | ValueRef::Json(value) => {
                let from = self.at as usize;
                let to = (from + self.part_bytes).min(self.length as usize).min(value.len());
                let mut bytes = Vec::with_capacity(to.saturating_sub(from));
                if from < to {
                    value.pieces(from..to).for_each(|piece| bytes.extend_from_slice(piece));
                }
                (self.at, self.is_said) = (to as u64, to as u64 == self.length);
                let part = Change::RenewalPart { kind: self.kind, at: from as u64, bytes: bytes.into() };
                Vec::from_iter((from < to).then_some(part))
            }
            ValueRef::List(list) => {
                let (next, end) = cursor.place();
                let (mut run, left) = (ImageBuilder::new(Kind::List), end.saturating_sub(next) as usize);
                let mut bytes = 0;
                for element in list.iter_from(next as usize).take(left) {
                    run.push_element(element);
                    bytes += element.len() + 1;
                    if bytes >= self.part_bytes {
                        break;
                    }
                }
                cursor.pass(run.len() as u64);
                self.is_said = run.is_empty();
                let part = Change::RenewalPart { kind: Kind::List, at: next, bytes: run.finish().into() };
                Vec::from_iter((!self.is_said).then_some(part))
            }
            _ => self.elements(entry),
        }
    }

    /// Elements with names that nobody has put since the beginning.
    fn elements(&mut self, entry: &Entry) -> Vec<Change<'static>> {
        let (mut changes, mut bytes) = (Vec::new(), 0);
        for _ in 0..LOOKS {
            if self.is_said || bytes >= self.part_bytes {
                break;
            }
            let (next, found) = entry.older_than(self.begun, &self.cursor, LOOKED_AT);
            let mut found = found.into_iter();
            for item in found.by_ref() {
                let change = put(self.kind, &item);
                bytes += self.bytes_of(&change);
                changes.push(change);
                if item.time.is_some() {
                    // The put takes it away.
                    let change = Change::HashExpire { field: item.name.to_vec().into(), at: item.time };
                    bytes += self.bytes_of(&change);
                    changes.push(change);
                }
                if bytes >= self.part_bytes {
                    break;
                }
            }
            if found.next().is_some() {
                // What was put will be passed over when the others are looked for again.
                break;
            }
            self.is_said = next.is_none();
            self.cursor = next.unwrap_or_default();
        }
        changes
    }

    /// The approximate size of a change in the log.
    fn bytes_of(&self, change: &Change<'_>) -> usize {
        let fields = match change {
            Change::HashPut { field: name, value } | Change::StreamPut { name, value } => {
                name.len() + value.len()
            }
            Change::SetAdd { member: name } | Change::HashExpire { field: name, .. } => name.len(),
            Change::ZSetPut { member, .. } => member.len() + size_of::<f64>(),
            Change::RenewalPart { bytes, .. } => bytes.len(),
            _ => 0,
        };
        RECORD_BYTES + self.key_bytes + fields
    }
}

/// The changes that log a whole entry at once.
pub(crate) fn whole(entry: &Entry) -> SmallVec<[Change<'static>; 2]> {
    let expiry = entry.expiry();
    match entry.value() {
        ValueRef::String(value) => {
            let put = Change::Put { value: value.to_vec().into(), expiry };
            [put].into_iter().chain(entry.sticky().then_some(Change::MAKES_RAW)).collect()
        }
        collection => {
            let (kind, sticky) = (entry.kind(), entry.sticky());
            let elements = elements_of(collection).into();
            smallvec![Change::Image { kind, elements, expiry, sticky }]
        }
    }
}

/// The name of an element that was found, as the log has it.
fn name_of(kind: Kind, item: &ImageItem<'_>) -> Bytes<'static> {
    match kind {
        Kind::Stream => spelling::long(item.name).to_vec().into(),
        _ => item.name.to_vec().into(),
    }
}

/// The record of an element as it is.
fn put(kind: Kind, item: &ImageItem<'_>) -> Change<'static> {
    let name = name_of(kind, item);
    match kind {
        Kind::Hash => Change::HashPut { field: name, value: item.value.to_vec().into() },
        Kind::ZSet => Change::ZSetPut { member: name, score: item.score },
        Kind::Stream => Change::StreamPut { name, value: item.value.to_vec().into() },
        _ => Change::SetAdd { member: name },
    }
}

/// The change that removes an element.
fn removal(kind: Kind, item: &ImageItem<'_>) -> Change<'static> {
    let name = name_of(kind, item);
    match kind {
        Kind::Hash => Change::HashRemove { field: name },
        Kind::ZSet => Change::ZSetRemove { member: name },
        Kind::Stream => Change::StreamRemove { name },
        _ => Change::SetRemove { member: name },
    }
}

/// The removals of what a replay has of a hash, a set or a sorted set that is older than the beginning of a
/// renewal, which has ended: the records that took it away may have been dropped.
pub(crate) fn removals_of_older(entry: Option<&Entry>, kind: Kind, begun: Lsn) -> Vec<Change<'static>> {
    let (mut removals, mut cursor) = (Vec::new(), ElementCursor::default());
    let Some(entry) = entry.filter(|entry| entry.kind() == kind) else { return removals };
    loop {
        let (next, found) = entry.older_than(begun, &cursor, LOOKED_AT_IN_REPLAY);
        removals.extend(found.iter().map(|item| removal(kind, item)));
        let Some(next) = next else { return removals };
        cursor = next;
    }
}

/// Renews a key, `pace` being told after each part how many bytes were logged; says whether it did.
pub(crate) fn renew(
    store: &Store,
    key: KeyRef<'_>,
    part_bytes: usize,
    mut pace: impl FnMut(u64) -> bool,
) -> bool {
    let begun = Renewal::begin_up_to(store, key, part_bytes, Kind::renewed_length_max);
    let Some(mut renewal) = begun else { return false };
    loop {
        match renewal.step() {
            Step::Goes(bytes) if pace(bytes) => {}
            Step::Ended => return true,
            Step::Goes(_) | Step::GivenUp => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use super::*;
    use crate::engine::{Background, Engine};
    use crate::io::{ManualClock, SimDisk, SimOptions};
    use crate::log::{Log, LogOptions};
    use crate::record::Side;
    use crate::recovery::{self, Progress};
    use crate::table::{Applied, Retired};
    use crate::value::stream::{Pending, StreamHead, StreamId, element};

    /// An empty store with a log.
    fn store() -> (Arc<Engine>, Background, Log) {
        let disk = Arc::new(SimDisk::new(1, SimOptions::default()));
        let options = LogOptions::new(vec!["/log".into()]);
        let opened = recovery::open(disk, options, None, 1, 1, &Progress::default()).unwrap();
        let (log, clock) = (Some(opened.log.appender()), Arc::new(ManualClock::new(1)));
        let (engine, background) = Engine::new(opened.tables, 1, log, opened.validity, clock);
        (engine, background, opened.log)
    }

    /// The changes that make a value of this length that can be renewed.
    fn of_length(kind: Kind, length: u64) -> Vec<Change<'static>> {
        let bytes = || Bytes::Borrowed(b"x");
        match kind {
            Kind::String => vec![
                Change::Put { value: bytes(), expiry: None },
                Change::Patch { offset: length - 1, bytes: bytes() },
            ],
            _ => (0..length).map(|_| Change::ListPush { side: Side::Back, element: bytes() }).collect(),
        }
    }

    #[test]
    fn a_replay_takes_away_each_old_element_of_a_stream_and_reports_each_record_once() {
        let id = StreamId::new(1, 0);
        let head = element::put_head(&StreamHead::default());
        let entry = element::put_entry(id, 1, std::iter::empty());
        let pending = Pending { id, consumer: b"c", delivered: 1, deliveries: 1 };
        let mut image = ImageBuilder::new(Kind::Stream);
        for change in [&head, &entry, &element::put_pending(b"g", &pending)] {
            let Change::StreamPut { name, value } = change else { panic!("it is a put") };
            image.push_field(name, value);
        }
        let elements = image.finish().into();
        let image = Change::Image { kind: Kind::Stream, elements, expiry: None, sticky: false };
        let mut stream = Entry::create(b"key", &image, Lsn(1)).unwrap();
        let mut retired = Retired::default();
        let mut apply = |change: &Change<'_>, lsn| {
            assert_eq!(stream.apply(change, Lsn(lsn), &mut retired), Ok(Applied::Kept), "{change:?}");
            stream.clone()
        };
        // The head was put again before the end, and once more behind it: the first of the two is dropped.
        apply(&Change::RenewalBegins { kind: Kind::Stream, length: 4 }, 10);
        let there = apply(&entry, 12);
        let removals = removals_of_older(Some(&there), Kind::Stream, Lsn(10));
        assert_eq!(removals.len(), 2, "the head, and what is pending; what follows from it goes with it");
        let there = removals.iter().map(|removal| apply(removal, 15)).last().unwrap();
        assert!(matches!(there.value(), ValueRef::Stream(stream) if stream.elements().count() == 1));
        apply(&Change::RenewalEnds { kind: Kind::Stream, begun: Lsn(10) }, 15);
        apply(&head, 20);
        apply(&entry, 21);
        assert_eq!(retired.lsns[..], [Lsn(1), Lsn(12)]);
    }

    #[test]
    fn what_is_longer_than_the_longest_is_not_renewed() {
        for kind in [Kind::String, Kind::List] {
            let (engine, _background, _log) = store();
            let longest = 1 << 12;
            for (key, length) in [(b"long", longest), (b"more", longest + 1)] {
                let write = |change| Write::Key { db: 0, key: key.into(), change };
                let batch: Batch<'_> = of_length(kind, length).into_iter().map(write).collect();
                engine.close_gate().commit(&batch, &mut Group::new()).unwrap();
                let begins =
                    Renewal::begin_up_to(engine.store(), KeyRef::of(0, key), 100, |_| longest).is_some();
                assert_eq!(begins, length <= longest, "{kind:?} of {length}");
            }
        }
    }
}
