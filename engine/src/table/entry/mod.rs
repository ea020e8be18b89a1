//! An entry: one key with its expiry, `Lsn`s and value, in 8 bytes and one allocation while it is small.
//!
//! An entry knows what a [`Change`] means: the engine applies each write here after it has logged it, and
//! recovery applies what it reads back by the same code.
//!
//! Which records of the log an entry still needs (what [`Retired`] reports as no longer needed):
//! - the newest of each field or member, and of the time of each field that has one;
//! - `base` and all after it, for a list, for a string changed in part, and for a string or a document given
//!   a new expiry, whose records build on each other;
//! - `base`, for a collection that an image or a prepared value began: one record, or the parts since it,
//!   for many elements, needed until the key goes; elements that say an older record came with it;
//! - the newest `Expire`.

use smallvec::SmallVec;

mod renewed;
mod timed;
mod used;

pub(crate) use renewed::ElementCursor;
pub(crate) use timed::Over;

use super::readers::Retained;
use crate::record::{BYTES_MAX, Change, Kind, Lsn, Made, Side, UnixMs};
use crate::value::block::Header;
use crate::value::body::Body;
use crate::value::left::Counted;
use crate::value::nodes::Nodes;
use crate::value::stored::{NotStored, Stored};
use crate::value::stream::element;
use crate::value::zset::ZSetTrees;
use crate::value::{Garbage, HashRef, ValueRef, left, limits};

/// The result of a change to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is there.
    Kept,
    /// It holds nothing any more, and the caller removes the key. All its records are reported already.
    Emptied,
}

/// A change that the entry cannot take: of another kind, out of range, or malformed. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the change does not fit the value")]
pub struct Mismatch;

/// The superseded records and the garbage that changes leave.
#[derive(Default)]
pub struct Retired {
    /// Records that are no longer the newest of their unit.
    pub lsns: SmallVec<[Lsn; 4]>,
    /// Large values to be walked and dropped where no client waits.
    pub garbage: Vec<Garbage>,
    /// Versions that were kept for views.
    pub kept: Retained,
    /// The leftovers of the last entry that lost its last element; for a replay, which may see a key empty
    /// where it never was.
    pub(crate) remains: Option<Remains>,
}

/// Trees that were built from those of a large sorted set and more members.
pub(crate) struct Built<'m> {
    /// The trees.
    pub trees: ZSetTrees,
    /// The longest member that is new.
    pub longest: Option<&'m [u8]>,
    /// The `Lsn`s of members that have newer ones.
    pub replaced: Vec<Lsn>,
    /// The newest.
    pub lsn: Lsn,
}

impl Retired {
    /// Walks and drops the large values here, as no client waits.
    pub(crate) fn take_garbage(&mut self) {
        let Retired { lsns, garbage, .. } = self;
        garbage.drain(..).for_each(|garbage| garbage.for_each_lsn(&mut |lsn| lsns.push(lsn)));
    }
}

/// The leftovers of a key that is absent, and which a later record may create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remains {
    /// The expiry.
    pub(crate) expiry: Option<UnixMs>,
    /// The record that says it, if it is one of its own.
    pub(crate) expiry_lsn: Option<Lsn>,
    /// The record that the value was built on.
    pub(crate) base: Option<Lsn>,
}

impl Remains {
    /// The records.
    pub(crate) fn lsns(&self) -> impl Iterator<Item = Lsn> + use<> {
        self.expiry_lsn.into_iter().chain(self.base)
    }
}

/// An entry as it was before a change.
pub(super) struct OldVersion {
    pub(super) entry: Entry,
    /// Bytes that it holds beyond what the changed entry and others do; an estimate if a large value was
    /// replaced.
    pub(super) bytes: usize,
}

/// A key and its value.
#[derive(Clone)]
pub struct Entry {
    body: Body,
}

impl Entry {
    /// The entry that `change` makes of a missing key; `None` if it makes none.
    pub fn create(key: &[u8], change: &Change<'_>, lsn: Lsn) -> Option<Entry> {
        let kind = match change {
            Change::Put { value, expiry } => {
                let header = Header { expiry: *expiry, ..Header::new(Kind::String, lsn) };
                return Some(Entry { body: Body::string(&header, key, value) });
            }
            Change::Image { kind, elements, expiry, sticky } => {
                let header = Header { expiry: *expiry, sticky: *sticky, ..Header::new(*kind, lsn) };
                return Entry::from_image(key, header, elements);
            }
            Change::RenewalBegins { kind, length } => return Entry::unfilled(key, *kind, *length, lsn),
            Change::Prepared { kind, begun, expiry, sticky, value, .. } => {
                let base = if *begun == Lsn::ZERO { lsn } else { *begun };
                let header = Header::new(*kind, lsn);
                let header = Header { sticky: *sticky, expiry: *expiry, base: Some(base), ..header };
                return Body::made(&header, key, value).map(|body| Entry { body });
            }
            Change::Patch { .. } => Kind::String,
            Change::HashPut { .. } => Kind::Hash,
            Change::SetAdd { .. } => Kind::Set,
            Change::ZSetPut { .. } => Kind::ZSet,
            Change::ListPush { .. } => Kind::List,
            Change::StreamPut { .. } => Kind::Stream,
            _ => return None,
        };
        let mut entry = Entry { body: Body::empty(&Header::new(kind, Lsn::ZERO), key) };
        let applied = entry.apply(change, lsn, &mut Retired::default());
        (applied == Ok(Applied::Kept)).then_some(entry)
    }

    fn from_image(key: &[u8], header: Header, image: &[u8]) -> Option<Entry> {
        // One record says all of a document: it has a base only while it is not the newest.
        let base = (header.kind != Kind::Json).then_some(header.lsn);
        let header = Header { base, ..header };
        Body::from_image(key, &header, image).map(|body| Entry { body })
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.body.block().key()
    }

    /// The type of the value.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.body.block().kind()
    }

    /// The newest record that changed anything here.
    #[inline]
    pub fn lsn(&self) -> Lsn {
        self.body.block().lsn()
    }

    /// The oldest record that the value is still made of; see the head of this file. Elements of hashes, sets
    /// and sorted sets may have older ones of their own where no image began the collection.
    pub fn base(&self) -> Lsn {
        let header = self.body.block().header();
        header.base.unwrap_or(header.lsn)
    }

    /// Whether one record says all of it: a string or a document that was put and not changed since.
    pub(crate) fn is_of_one_record(&self) -> bool {
        let header = self.body.block().header();
        header.kind.is_bytes() && header.base.is_none() && !header.sticky
    }

    /// Whether the record `lsn` of the key, which said `change`, is the newest of what it says: of a whole
    /// value, of an element, or of an expiry. So the entry needs it.
    pub(crate) fn has_of(&self, lsn: Lsn, change: &Change<'_>) -> bool {
        let newest = match change {
            Change::Expire(_) => self.expiry_record(),
            Change::HashExpire { field, .. } => {
                self.body.times().and_then(|times| times.get(field)).map(|(_, lsn)| lsn)
            }
            Change::HashPut { field: name, .. }
            | Change::SetAdd { member: name }
            | Change::ZSetPut { member: name, .. }
            | Change::StreamPut { name, .. } => self.element_lsn(name),
            _ => Some(self.base()),
        };
        newest == Some(lsn)
    }

    /// Whether the value was prepared since the record `begun`, and so needs its parts.
    pub(crate) fn is_prepared_since(&self, begun: Lsn) -> bool {
        self.body.block().header().base == Some(begun)
    }

    /// The value, for another key to hold it. If it is large, the two share nodes until one is changed.
    pub fn made(&self) -> Made {
        self.body.to_made()
    }

    /// The newest record of an element with a name.
    fn element_lsn(&self, name: &[u8]) -> Option<Lsn> {
        let found = match self.value() {
            ValueRef::Set(set) => set.form.find(name),
            ValueRef::ZSet(zset) => zset.index.find(name),
            ValueRef::Hash(hash) => hash.form.find(name),
            ValueRef::Stream(stream) => stream.form.find(name),
            ValueRef::String(_) | ValueRef::List(_) | ValueRef::Json(_) => None,
        };
        found.map(|item| item.lsn())
    }

    /// Whether the entry may need the record `lsn` of its key, which changes a value of this kind in part or
    /// belongs to a renewal of it. Elements are not asked for theirs.
    pub(crate) fn may_be_made_of(&self, lsn: Lsn, kind: Option<Kind>) -> bool {
        let has_elements = matches!(self.kind(), Kind::Hash | Kind::Set | Kind::ZSet | Kind::Stream);
        kind.is_none_or(|kind| kind == self.kind()) && (has_elements || self.base() <= lsn)
    }

    /// Whether an image that began the collection may hold an element that the record `lsn` took away.
    pub(crate) fn is_taken_from_image(&self, lsn: Lsn) -> bool {
        self.body.block().header().base.is_some_and(|image| image < lsn)
    }

    /// When the key expires.
    #[inline]
    pub fn expiry(&self) -> Option<UnixMs> {
        self.body.block().expiry()
    }

    /// Whether the key's time is over, or that of each of its fields: in the millisecond of its expiry it is
    /// still there.
    #[inline]
    pub fn is_expired(&self, now: UnixMs) -> bool {
        self.expiry().is_some_and(|expiry| now > expiry) || self.body.is_spent(now)
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> ValueRef<'_> {
        self.body.value()
    }

    /// The value, if it is a hash.
    #[inline]
    pub fn hash(&self) -> Option<HashRef<'_>> {
        self.body.hash()
    }

    /// How many elements a collection has; 0 for what is none.
    pub fn count(&self) -> usize {
        if self.kind().is_bytes() { 0 } else { self.body.count() }
    }

    /// Bytes in front of the end of the value, from the front of the block.
    #[inline]
    pub(super) fn block_len(&self) -> usize {
        self.body.block().len()
    }

    /// Reads the first and the last byte of the allocation, which brings a small value into the processor's
    /// cache.
    #[inline]
    fn touch(&self) -> usize {
        self.body.block().ends()
    }

    /// How many bytes of its allocation, from the front, have to be read to have read `part`; `None` if that
    /// is elsewhere.
    pub fn reach_of(&self, part: &[u8]) -> Option<usize> {
        let (all, part) = (self.body.block().as_bytes().as_ptr_range(), part.as_ptr_range());
        let is_inside = all.start <= part.start && part.end <= all.end;
        is_inside.then(|| part.end.addr() - all.start.addr())
    }

    /// Whether the value has outgrown its entry's allocation: a copy shares its nodes.
    pub fn is_large(&self) -> bool {
        self.body.nodes().is_some()
    }

    /// As `bytes`, estimated by what one look tells.
    pub fn bytes_about(&self) -> usize {
        self.body.bytes_about()
    }

    /// Bytes of memory that nobody else holds, itself included; nearly exact, in bounded time. So gaps of a
    /// string count as nothing, and an element as what it has, whatever the others have.
    pub(crate) fn bytes_own(&self) -> usize {
        self.body.bytes_of(Counted::Own)
    }

    /// The same, and what others hold as well.
    pub(super) fn bytes_near(&self) -> usize {
        self.body.bytes_of(Counted::All)
    }

    /// Whether a part takes long to free, so that another thread does it.
    pub(crate) fn is_slow_to_free(&self) -> bool {
        self.body.is_slow_to_free()
    }

    /// Bytes of memory that the entry holds, itself included.
    pub fn bytes(&self) -> usize {
        self.body.bytes()
    }

    /// Whether the value has passed a limit of Redis's small encodings, or the string was changed in part:
    /// the encoding remembers that, whatever became of the value since.
    pub fn sticky(&self) -> bool {
        self.body.block().sticky()
    }

    /// The reply of `OBJECT ENCODING`; the limits that were in force at each write decide, as in Redis.
    pub fn encoding(&self) -> &'static str {
        match (self.kind(), self.body.block().sticky()) {
            (Kind::String, false) if self.body.nodes().is_none() => {
                limits::string_encoding(self.body.block().payload())
            }
            (Kind::String | Kind::Json, _) => "raw",
            (Kind::List, _) => "quicklist",
            (Kind::Set, false) => "intset",
            (Kind::Hash, false) if self.is_timed() => "listpackex",
            (Kind::ZSet | Kind::Hash, false) => "listpack",
            (Kind::Set | Kind::Hash, true) => "hashtable",
            (Kind::ZSet, true) => "skiplist",
            (Kind::Stream, _) => "stream",
        }
    }

    /// Applies a change; says in `retired` which records and nodes it made obsolete.
    ///
    /// Errors: [`Mismatch`], and nothing has changed, if the change does not fit; a sound log never has one.
    pub fn apply(
        &mut self,
        change: &Change<'_>,
        lsn: Lsn,
        retired: &mut Retired,
    ) -> Result<Applied, Mismatch> {
        match change {
            Change::Put { value, expiry } => self.replace(value, *expiry, lsn, retired),
            Change::Image { .. } | Change::Prepared { .. } => {
                let image = Entry::create(self.key(), change, lsn).ok_or(Mismatch)?;
                std::mem::replace(self, image).retire(retired);
                return Ok(Applied::Kept);
            }
            Change::Delete => return Ok(self.empty_out(retired)),
            Change::RenewalBegins { kind, length } => {
                return Ok(self.begin_renewal(*kind, *length, lsn, retired));
            }
            Change::RenewalPart { kind, at, bytes } => self.renew_part(*kind, *at, bytes)?,
            Change::RenewalEnds { kind, begun } => self.end_renewal(*kind, *begun, retired),
            Change::Expire(expiry) => self.expire(*expiry, lsn, retired),
            Change::Patch { offset, bytes } => self.patch(*offset, bytes)?,
            Change::HashPut { .. } | Change::HashRemove { .. } | Change::HashExpire { .. } => {
                self.apply_hash(change, lsn, retired)?;
            }
            Change::SetAdd { .. } | Change::SetRemove { .. } => self.apply_set(change, lsn, retired)?,
            Change::ZSetPut { .. } | Change::ZSetRemove { .. } => self.apply_zset(change, lsn, retired)?,
            Change::StreamPut { .. }
            | Change::StreamRemove { .. }
            | Change::StreamTrim { .. }
            | Change::StreamGroupRemove { .. } => self.apply_stream(change, lsn, retired)?,
            _ => self.apply_list(change, lsn, retired)?,
        }
        if !self.kind().is_bytes() && self.body.count() == 0 {
            let Header { expiry, expiry_lsn, base, .. } = self.body.block().header();
            retired.remains = Some(Remains { expiry, expiry_lsn, base });
            return Ok(self.empty_out(retired));
        }
        self.body.block_mut().set_lsn(lsn);
        Ok(Applied::Kept)
    }

    /// As `apply`, but what was there before is kept, at the cost of a bounded copy: a value that is replaced
    /// as a whole is moved, nodes are shared, and what is in one allocation is copied. The allocations of
    /// what was there stay as they are: a view may be reading them (`table/pinned.rs`).
    pub(super) fn apply_and_keep(
        &mut self,
        change: &Change<'_>,
        lsn: Lsn,
        retired: &mut Retired,
    ) -> Result<(Applied, OldVersion), Mismatch> {
        let (new, applied) = match change {
            Change::Put { .. } | Change::Image { .. } | Change::Prepared { .. } => {
                (Entry::create(self.key(), change, lsn).ok_or(Mismatch)?, Applied::Kept)
            }
            Change::Delete => {
                let empty = Body::empty(&Header::new(self.kind(), Lsn::ZERO), self.key());
                (Entry { body: empty }, Applied::Emptied)
            }
            _ => {
                let mut new = self.clone();
                left::take_bytes();
                let applied = new.apply(change, lsn, retired)?;
                let entry = std::mem::replace(self, new);
                let left = left::take_bytes();
                let bytes = entry.body.bytes_of_clone() + left;
                return Ok((applied, OldVersion { entry, bytes }));
            }
        };
        let entry = std::mem::replace(self, new);
        // Before the nodes are garbage as well. What a copy of the key has is not kept for the view alone.
        let bytes = entry.bytes_own();
        entry.retire_records(retired);
        retired.garbage.extend(entry.body.records_of_nodes());
        Ok((applied, OldVersion { entry, bytes }))
    }

    /// Reports all records and nodes of an entry that is deleted or overwritten.
    pub fn retire(self, retired: &mut Retired) {
        self.retire_records(retired);
        retired.garbage.extend(self.body.discard());
    }

    fn retire_records(&self, retired: &mut Retired) {
        let header = self.body.block().header();
        if header.kind.is_bytes() && header.base.is_none() && header.expiry_lsn.is_none() {
            // Most strings have this record alone.
            if header.lsn != Lsn::ZERO {
                retired.lsns.push(header.lsn);
            }
            return;
        }
        let mut key_lsns: SmallVec<[Lsn; 3]> = header.base.into_iter().chain(header.expiry_lsn).collect();
        match header.kind {
            Kind::String | Kind::List | Kind::Json => key_lsns.push(header.lsn),
            Kind::Set | Kind::ZSet | Kind::Hash | Kind::Stream => {
                let lsns = self.body.packed_lsns();
                retired.lsns.extend(lsns.filter(|lsn| header.base.is_none_or(|base| *lsn > base)));
            }
        }
        key_lsns.sort_unstable();
        key_lsns.dedup();
        retired.lsns.extend(key_lsns.into_iter().filter(|lsn| *lsn != Lsn::ZERO));
    }

    /// Reports everything, and leaves an entry of which nothing is left to report.
    fn empty_out(&mut self, retired: &mut Retired) -> Applied {
        self.retire_records(retired);
        let empty = Body::empty(&Header::new(self.kind(), Lsn::ZERO), self.key());
        retired.garbage.extend(std::mem::replace(&mut self.body, empty).discard());
        Applied::Emptied
    }

    fn replace(&mut self, value: &[u8], expiry: Option<UnixMs>, lsn: Lsn, retired: &mut Retired) {
        self.retire_records(retired);
        let header = Header { expiry, ..Header::new(Kind::String, lsn) };
        if !self.body.overwrite(&header, value) {
            let string = Body::string(&header, self.key(), value);
            retired.garbage.extend(std::mem::replace(&mut self.body, string).discard());
        }
    }

    /// Gives a new entry what earlier records said of its key.
    pub(super) fn take_over(&mut self, remains: Remains) {
        let mut header = self.body.block().header();
        (header.expiry, header.expiry_lsn) = (remains.expiry, remains.expiry_lsn);
        header.base = remains.base.or(header.base);
        if header.kind.is_bytes() {
            header.base = header.base.or(Some(header.lsn));
        }
        self.body.block_mut().set_header(&header);
    }

    fn expire(&mut self, expiry: Option<UnixMs>, lsn: Lsn, retired: &mut Retired) {
        let mut header = self.body.block().header();
        retired.lsns.extend(header.expiry_lsn);
        if header.kind.is_bytes() {
            header.base = header.base.or(Some(header.lsn));
        }
        (header.expiry, header.expiry_lsn) = (expiry, Some(lsn));
        self.body.block_mut().set_header(&header);
    }

    fn patch(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Mismatch> {
        self.expect(Kind::String)?;
        let offset = usize::try_from(offset).map_err(|_| Mismatch)?;
        offset.checked_add(bytes.len()).filter(|end| *end <= BYTES_MAX).ok_or(Mismatch)?;
        let mut header = self.body.block().header();
        if header.lsn != Lsn::ZERO && (!header.sticky || header.base.is_none()) {
            (header.sticky, header.base) = (true, header.base.or(Some(header.lsn)));
            self.body.block_mut().set_header(&header);
        }
        self.body.block_mut().set_sticky();
        self.body.patch(offset, bytes);
        Ok(())
    }

    fn apply_hash(&mut self, change: &Change<'_>, lsn: Lsn, retired: &mut Retired) -> Result<(), Mismatch> {
        self.expect(Kind::Hash)?;
        let (old_time, old) = match change {
            Change::HashPut { field, value } => {
                (self.body.remove_time(field), self.body.hash_put(field, value, lsn))
            }
            Change::HashRemove { field } => (self.body.remove_time(field), self.body.remove(field)),
            Change::HashExpire { field, at: None } => (self.body.remove_time(field), None),
            Change::HashExpire { field, at: Some(at) } => match self.body.put_time(field, *at, lsn) {
                Some(old_time) => (old_time, None),
                // Only a replay comes here: what took the field away is behind it.
                None => {
                    retired.lsns.push(lsn);
                    (None, None)
                }
            },
            _ => return Err(Mismatch),
        };
        self.outdate(old_time, retired);
        self.outdate(old, retired);
        Ok(())
    }

    fn apply_set(&mut self, change: &Change<'_>, lsn: Lsn, retired: &mut Retired) -> Result<(), Mismatch> {
        self.expect(Kind::Set)?;
        let old = match change {
            Change::SetAdd { member } => self.body.set_add(member, lsn),
            Change::SetRemove { member } => self.body.remove(member),
            _ => return Err(Mismatch),
        };
        self.outdate(old, retired);
        Ok(())
    }

    fn apply_zset(&mut self, change: &Change<'_>, lsn: Lsn, retired: &mut Retired) -> Result<(), Mismatch> {
        self.expect(Kind::ZSet)?;
        let old = match change {
            Change::ZSetPut { score, .. } if score.is_nan() => return Err(Mismatch),
            Change::ZSetPut { member, score } => self.body.zset_put(member, *score, lsn),
            Change::ZSetRemove { member } => self.body.remove(member),
            _ => return Err(Mismatch),
        };
        self.outdate(old, retired);
        Ok(())
    }

    fn apply_stream(&mut self, change: &Change<'_>, lsn: Lsn, retired: &mut Retired) -> Result<(), Mismatch> {
        self.expect(Kind::Stream)?;
        let (from, to) = match change {
            Change::StreamPut { name, value } if element::is_sound(name, value) => {
                let old = self.body.stream_put(name, value, lsn);
                self.outdate(old, retired);
                return Ok(());
            }
            Change::StreamRemove { name } if element::is_removable(name) => {
                let old = self.body.stream_remove(name);
                self.outdate(old, retired);
                return Ok(());
            }
            Change::StreamTrim { below } => element::entries_below(*below),
            Change::StreamGroupRemove { group } => element::all_of_group(group),
            _ => return Err(Mismatch),
        };
        let base = self.body.block().header().base;
        let lsns = &mut retired.lsns;
        let garbage = self.body.stream_cut(&from, &to, |old| {
            lsns.extend(Some(old).filter(|old| base.is_none_or(|base| *old > base)));
        });
        retired.garbage.extend(garbage);
        Ok(())
    }

    /// Whether this is a sorted set in nodes.
    pub(crate) fn is_large_sorted_set(&self) -> bool {
        self.kind() == Kind::ZSet && self.body.nodes().is_some()
    }

    /// Gives packed members their scores, as so many changes would do of which the last is `lsn`. REQUIRES: a
    /// large sorted set.
    pub(super) fn put_members(&mut self, members: &[u8], lsn: Lsn, retired: &mut Retired) {
        let image = self.body.block().header().base;
        let retire =
            |old| retired.lsns.extend(Some(old).filter(|old| image.is_none_or(|image| *old > image)));
        self.body.zset_put_all(members, retire);
        self.body.block_mut().set_lsn(lsn);
    }

    /// The trees of a large sorted set.
    pub(crate) fn sorted_set(&self) -> Option<&ZSetTrees> {
        match self.body.nodes() {
            Some(Nodes::ZSet(trees)) => Some(trees),
            _ => None,
        }
    }

    /// Takes trees that were built from its own and other members, and returns its own. REQUIRES: a large
    /// sorted set.
    pub(super) fn put_built(&mut self, built: Built<'_>, retired: &mut Retired) -> Option<ZSetTrees> {
        let Built { trees, longest, replaced, lsn } = built;
        let image = self.body.block().header().base;
        let is_own = |old: &Lsn| image.is_none_or(|image| *old > image);
        retired.lsns.extend(replaced.into_iter().filter(is_own));
        self.body.block_mut().set_lsn(lsn);
        self.body.zset_replace(trees, longest)
    }

    fn apply_list(&mut self, change: &Change<'_>, lsn: Lsn, retired: &mut Retired) -> Result<(), Mismatch> {
        self.expect(Kind::List)?;
        let count = self.body.count();
        let index_of = |index: u64| usize::try_from(index).map_err(|_| Mismatch);
        match change {
            Change::ListPush { side: Side::Front, element } => self.body.list_insert(0, element),
            Change::ListPush { side: Side::Back, element } => self.body.list_insert(count, element),
            Change::ListInsert { index, element } if index_of(*index)? <= count => {
                self.body.list_insert(index_of(*index)?, element);
            }
            Change::ListPut { index, element } if index_of(*index)? < count => {
                self.body.list_put(index_of(*index)?, element);
            }
            Change::ListRemove { index } if index_of(*index)? < count => {
                self.body.list_remove(index_of(*index)?);
            }
            Change::ListPop { side, count } => {
                let count = usize::try_from(*count).unwrap_or(usize::MAX);
                retired.garbage.extend(self.body.list_pop(*side, count));
            }
            _ => return Err(Mismatch),
        }
        if self.body.block().header().base.is_none() {
            let header = self.body.block().header();
            self.body.block_mut().set_header(&Header { base: Some(lsn), ..header });
        }
        Ok(())
    }

    /// How the entry is stored.
    pub(crate) fn stored(&self) -> Stored<'_> {
        self.body.stored()
    }

    /// The entry of these bytes, as `stored` gave them, with nothing newer than `cut`.
    pub(crate) fn from_stored(bytes: &[u8], cut: Lsn) -> Result<Entry, NotStored> {
        Body::from_stored(bytes, cut).map(|body| Entry { body })
    }

    /// The entry of a block, the leaves of its nodes and those of the times of fields, with nothing newer
    /// than `cut`.
    pub(crate) fn from_stored_nodes(
        head: &[u8],
        leaves: &[&[u8]],
        times: &[&[u8]],
        cut: Lsn,
    ) -> Result<Entry, NotStored> {
        Body::from_stored_nodes(head, leaves, times, cut).map(|body| Entry { body })
    }

    /// The nodes of a large value.
    #[cfg(test)]
    pub(crate) fn nodes(&self) -> Option<&crate::value::nodes::Nodes> {
        self.body.nodes()
    }

    fn expect(&self, kind: Kind) -> Result<(), Mismatch> {
        if self.kind() == kind { Ok(()) } else { Err(Mismatch) }
    }

    /// Reports an element's former record, unless it is what the collection began with, which other elements
    /// may still need, or older: such an element came with a prepared value.
    fn outdate(&self, old: Option<Lsn>, retired: &mut Retired) {
        let Some(old) = old else { return };
        if self.body.block().header().base.is_none_or(|base| old > base) {
            retired.lsns.push(old);
        }
    }
}

/// Brings the ends of the allocations of entries into the processor's cache, all of short ones, side by side:
/// no look waits for another.
#[inline]
pub fn touch_all<'e>(entries: impl Iterator<Item = &'e Entry>) {
    std::hint::black_box(entries.map(Entry::touch).fold(0, usize::wrapping_add));
}

/// Brings the fronts of entries into the processor's cache: loads that do not wait for each other, with as
/// little between them as can be, so that many are under way.
#[inline]
pub(crate) fn touch_fronts<'e>(entries: impl Iterator<Item = &'e Entry>) {
    std::hint::black_box(entries.map(|entry| entry.body.block().len()).fold(0, usize::wrapping_add));
}

/// Bytes of an entry that are fetched at most before it is read.
pub(crate) const REACH_MAX: usize = 512;

/// The same for all lines, from the fronts of the allocations on as far as `reach`, for a thread about to
/// read what is there; of long entries up to `REACH_MAX`.
#[inline]
pub fn touch<'e>(entries: impl Iterator<Item = &'e Entry>, reach: usize) {
    let lines = |entry: &Entry| entry.body.block().lines(reach.min(REACH_MAX));
    std::hint::black_box(entries.map(lines).fold(0, usize::wrapping_add));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::borrow::Cow;

    use super::*;

    fn put(value: &[u8], expiry: Option<UnixMs>) -> Change<'_> {
        Change::Put { value: Cow::Borrowed(value), expiry }
    }

    fn string(entry: &Entry) -> &[u8] {
        match entry.value() {
            ValueRef::String(value) => value.whole().unwrap(),
            _ => panic!("the entry is a string"),
        }
    }

    #[test]
    fn a_put_replaces_value_and_expiry_and_retires_its_record() {
        let mut entry = Entry::create(b"key", &put(b"one", Some(7)), Lsn(1)).unwrap();
        assert_eq!((entry.key(), string(&entry), entry.expiry()), (&b"key"[..], &b"one"[..], Some(7)));
        assert!(!entry.is_expired(7) && entry.is_expired(8));
        let mut retired = Retired::default();
        assert_eq!(entry.apply(&put(b"longer", None), Lsn(2), &mut retired), Ok(Applied::Kept));
        assert_eq!((string(&entry), entry.expiry(), entry.lsn()), (&b"longer"[..], None, Lsn(2)));
        assert_eq!(retired.lsns[..], [Lsn(1)]);
    }

    #[test]
    fn the_reach_of_a_part_is_where_it_ends_in_the_allocation() {
        let entry = Entry::create(b"key", &put(b"value", None), Lsn(1)).unwrap();
        let end = entry.block_len();
        assert_eq!(entry.reach_of(string(&entry)), Some(end));
        assert_eq!(entry.reach_of(&string(&entry)[..2]), Some(end - 3));
        assert_eq!(entry.reach_of(&string(&entry)[5..]), Some(end));
        assert_eq!(entry.reach_of(entry.key()), Some(end - "value".len()));
        assert_eq!(entry.reach_of(b"value of another"), None);
    }

    #[test]
    fn a_patch_zero_fills_keeps_the_expiry_and_the_record_that_it_builds_on() {
        let mut entry = Entry::create(b"key", &put(b"one", Some(7)), Lsn(1)).unwrap();
        assert_eq!(entry.encoding(), "embstr");
        let mut retired = Retired::default();
        let patch = Change::Patch { offset: 5, bytes: Cow::Borrowed(b"xy") };
        entry.apply(&patch, Lsn(2), &mut retired).unwrap();
        assert_eq!((string(&entry), entry.expiry()), (&b"one\0\0xy"[..], Some(7)));
        assert_eq!((entry.base(), entry.lsn(), retired.lsns.len()), (Lsn(1), Lsn(2), 0));
        assert_eq!(entry.encoding(), "raw");
        entry.apply(&put(b"12", None), Lsn(3), &mut retired).unwrap();
        assert_eq!(retired.lsns[..], [Lsn(1), Lsn(2)]);
        assert_eq!(entry.encoding(), "int");
    }

    /// Applies changes from `Lsn` 2 on to what the first one, at 1, creates; the entry and all that was
    /// reported.
    fn play(changes: &[Change<'_>]) -> (Entry, Retired) {
        let mut entry = Entry::create(b"key", &changes[0], Lsn(1)).unwrap();
        let mut retired = Retired::default();
        for (change, lsn) in changes[1..].iter().zip(2..) {
            assert_eq!(entry.apply(change, Lsn(lsn), &mut retired), Ok(Applied::Kept));
        }
        (entry, retired)
    }

    fn hash_put(field: &'static str) -> Change<'static> {
        Change::HashPut { field: Cow::Borrowed(field.as_bytes()), value: Cow::Borrowed(b"value") }
    }

    fn add(member: &str) -> Change<'_> {
        Change::SetAdd { member: Cow::Borrowed(member.as_bytes()) }
    }

    #[test]
    fn a_newer_expiry_retires_the_one_before_and_a_put_retires_all() {
        let changes = [put(b"value", Some(9)), Change::Expire(Some(20)), Change::Expire(None)];
        let (mut entry, mut retired) = play(&changes);
        assert_eq!((entry.expiry(), entry.base(), entry.lsn()), (None, Lsn(1), Lsn(3)));
        assert_eq!(retired.lsns[..], [Lsn(2)]);
        entry.apply(&put(b"other", None), Lsn(4), &mut retired).unwrap();
        assert_eq!(retired.lsns[..], [Lsn(2), Lsn(1), Lsn(3)]);

        let (entry, mut retired) = play(&[hash_put("a"), Change::Expire(Some(20)), hash_put("a")]);
        assert_eq!((entry.expiry(), &retired.lsns[..]), (Some(20), &[Lsn(1)][..]));
        entry.retire(&mut retired);
        retired.lsns.sort_unstable();
        assert_eq!(retired.lsns[..], [Lsn(1), Lsn(2), Lsn(3)]);
    }

    #[test]
    fn an_image_is_needed_until_the_key_goes() {
        let mut elements = crate::value::ImageBuilder::new(Kind::Hash);
        elements.push_field(b"a", b"1");
        elements.push_field(b"b", b"2");
        let elements = Cow::Owned(elements.finish());
        let image = Change::Image { kind: Kind::Hash, elements, expiry: None, sticky: false };
        let remove = Change::HashRemove { field: Cow::Borrowed(b"b") };
        let (mut entry, mut retired) = play(&[image, hash_put("a"), hash_put("a"), remove.clone()]);
        assert_eq!(retired.lsns[..], [Lsn(2)]);
        let last = Change::HashRemove { field: Cow::Borrowed(b"a") };
        assert_eq!(entry.apply(&last, Lsn(5), &mut retired), Ok(Applied::Emptied));
        assert_eq!(retired.lsns[..], [Lsn(2), Lsn(3), Lsn(1)]);
        entry.retire(&mut retired);
        assert_eq!(retired.lsns.len(), 3, "nothing is reported twice");
    }

    #[test]
    fn changes_that_do_not_fit_change_nothing() {
        let at = |index| Change::ListInsert { index, element: Cow::Borrowed(b"x") };
        let push = Change::ListPush { side: Side::Back, element: Cow::Borrowed(b"x") };
        let (mut list, mut retired) = play(&[push.clone(), push]);
        let nan = Change::ZSetPut { member: Cow::Borrowed(b"m"), score: f64::NAN };
        let far = Change::Patch { offset: u64::MAX, bytes: Cow::Borrowed(b"x") };
        let image =
            Change::Image { kind: Kind::Set, elements: Cow::Borrowed(b"\x09x"), expiry: None, sticky: false };
        let put = Change::ListPut { index: 2, element: Cow::Borrowed(b"x") };
        let unfit =
            [hash_put("a"), add("a"), nan, far.clone(), at(3), put, Change::ListRemove { index: 2 }, image];
        for change in unfit {
            assert_eq!(list.apply(&change, Lsn(9), &mut retired), Err(Mismatch), "{change:?}");
            assert!(list.lsn() == Lsn(2) && matches!(list.value(), ValueRef::List(list) if list.len() == 2));
        }
        assert_eq!(list.apply(&at(2), Lsn(9), &mut retired), Ok(Applied::Kept));
        assert!(Entry::create(b"key", &far, Lsn(1)).is_none());
        assert!(Entry::create(b"key", &Change::Expire(Some(1)), Lsn(1)).is_none());
    }

    #[test]
    fn encodings_are_those_of_redis_and_do_not_turn_back() {
        let encoding = |changes: &[Change<'_>]| play(changes).0.encoding();
        let text = "x".repeat(65);
        for (value, name) in [
            ("0", "int"),
            ("-9223372036854775808", "int"),
            ("9223372036854775807", "int"),
            ("9223372036854775808", "embstr"),
            ("-0", "embstr"),
            ("01", "embstr"),
            ("+1", "embstr"),
            ("", "embstr"),
            (&text[..44], "embstr"),
            (&text[..45], "raw"),
        ] {
            assert_eq!(encoding(&[put(value.as_bytes(), None)]), name, "{value}");
        }
        assert_eq!(encoding(&[add("1"), add("-2")]), "intset");
        let remove = Change::SetRemove { member: Cow::Borrowed(b"x") };
        assert_eq!(encoding(&[add("1"), add("x"), remove]), "hashtable");
        let numbers: Vec<String> = (0..513).map(|number| number.to_string()).collect();
        let adds: Vec<_> = numbers.iter().map(|number| add(number)).collect();
        assert_eq!((encoding(&adds[..512]), encoding(&adds)), ("intset", "hashtable"));
        let zset =
            |number: &'static str| Change::ZSetPut { member: Cow::Borrowed(number.as_bytes()), score: 0.0 };
        assert_eq!(encoding(&[zset("m")]), "listpack");
        let member = Cow::Borrowed(text.as_bytes());
        assert_eq!(encoding(&[zset("m"), Change::ZSetPut { member, score: 0.0 }]), "skiplist");
        assert_eq!(encoding(&[hash_put("f")]), "listpack");
        let (field, value) = (Cow::Borrowed(&b"f"[..]), Cow::Borrowed(text.as_bytes()));
        assert_eq!(encoding(&[hash_put("f"), Change::HashPut { field, value }, hash_put("f")]), "hashtable");
    }

    #[test]
    fn large_strings_are_freed_elsewhere() {
        let large = vec![1; 1 << 20];
        let (_, retired) = play(&[put(&large, None), put(&large, None)]);
        assert!(retired.garbage.is_empty(), "the same length stays in place");
        let (entry, mut retired) = play(&[put(&large, None), put(b"small", None)]);
        assert_eq!((retired.garbage.len(), string(&entry)), (1, &b"small"[..]));
        entry.retire(&mut retired);
        assert_eq!(retired.garbage.len(), 1, "small ones are not");
    }
}
