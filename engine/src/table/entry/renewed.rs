//! Applies the records of a rewrite (renewal) to an entry (`docs/design/0021`).

use super::{Applied, Entry, Mismatch, Remains, Retired};
use crate::record::{Kind, Lsn};
use crate::value::ValueRef;
use crate::value::block::Header;
use crate::value::body::Body;
use crate::value::image::{ImageItem, decode};
use crate::value::packed::Item;
use crate::value::stream::{element, spelling};

/// Where a walk over the elements of a value goes on, whatever changed meanwhile.
#[derive(Debug, Default)]
pub(crate) struct ElementCursor {
    /// In the order of positions, in which elements of hashes, sets and sorted sets stand.
    position: u64,
    /// In the order of names, in which elements of streams stand.
    name: Box<[u8]>,
}

impl Entry {
    /// The record that the value began with, if it needs that and those after it as long as nobody says it
    /// again: then it can be renewed.
    pub(crate) fn renewable_base(&self) -> Option<Lsn> {
        self.body.block().header().base
    }

    /// The record, if it is one of its own, that says when the key expires, or that it does not.
    pub(crate) fn expiry_record(&self) -> Option<Lsn> {
        self.body.block().header().expiry_lsn
    }

    /// Elements, or bytes of a string or a document.
    pub(crate) fn length(&self) -> u64 {
        self.value().bytes().map_or_else(|| self.body.count(), |bytes| bytes.len()) as u64
    }

    /// Whether a renewal may begin here that says so.
    pub(crate) fn is_as(&self, kind: Kind, length: u64) -> bool {
        let counts = kind.is_bytes() || kind == Kind::List;
        self.kind() == kind && (!counts || self.length() == length)
    }

    /// Where a renewal begins and what it builds on is not there, as it is obsolete: so many empty elements,
    /// or zeros, which its parts will fill. `None` for a hash, a set or a sorted set: their parts make them.
    pub(super) fn unfilled(key: &[u8], kind: Kind, length: u64, lsn: Lsn) -> Option<Entry> {
        let length = usize::try_from(length).ok().filter(|_| length <= kind.renewed_length_max())?;
        match kind {
            Kind::String | Kind::Json => {
                let sticky = kind == Kind::String;
                let header = Header { sticky, base: Some(lsn), ..Header::new(kind, lsn) };
                let mut body = Body::empty(&header, key);
                if length > 0 {
                    body.patch(length - 1, &[0]);
                }
                Some(Entry { body })
            }
            // Each byte is the length of an element.
            Kind::List => Entry::from_image(key, Header::new(kind, lsn), &vec![0; length]),
            _ => None,
        }
    }

    /// Notes that a renewal begins: what is there has to be as it says.
    pub(super) fn begin_renewal(
        &mut self,
        kind: Kind,
        length: u64,
        lsn: Lsn,
        retired: &mut Retired,
    ) -> Applied {
        if self.is_as(kind, length) {
            self.keep_base();
            let mut header = self.body.block().header();
            (header.lsn, header.sticky) = (lsn, header.sticky || kind == Kind::String);
            self.body.block_mut().set_header(&header);
            return Applied::Kept;
        }
        // Only a replay comes here. What is there is obsolete; what was said of its expiry may not be.
        let Header { expiry, expiry_lsn, .. } = self.body.block().header();
        let remains = Remains { expiry, expiry_lsn, base: None };
        let Some(mut new) = Entry::unfilled(self.key(), kind, length, lsn) else {
            retired.remains = Some(remains);
            return self.empty_out(retired);
        };
        new.take_over(remains);
        std::mem::replace(self, new).retire(retired);
        retired.lsns.retain(|lsn| Some(*lsn) != expiry_lsn);
        Applied::Kept
    }

    /// Has a string or a document remember the record that it began with, before another one is its newest.
    /// It does since its renewal began, unless a replay did not see that.
    fn keep_base(&mut self) {
        let header = self.body.block().header();
        if header.kind.is_bytes() && header.base.is_none() {
            self.body.block_mut().set_header(&Header { base: Some(header.lsn), ..header });
        }
    }

    /// Notes that what is older than `begun` is obsolete.
    pub(super) fn end_renewal(&mut self, kind: Kind, begun: Lsn, retired: &mut Retired) {
        self.keep_base();
        let mut header = self.body.block().header();
        if header.kind == kind
            && let Some(base) = header.base.filter(|base| *base < begun)
        {
            retired.lsns.push(base);
            header.base = (kind.is_bytes() || kind == Kind::List).then_some(begun);
            self.body.block_mut().set_header(&header);
        }
    }

    /// Has this be there from `at` on. What is there already is left alone, as it is in all but a replay.
    pub(super) fn renew_part(&mut self, kind: Kind, at: u64, bytes: &[u8]) -> Result<(), Mismatch> {
        self.expect(kind)?;
        self.keep_base();
        let at = usize::try_from(at).map_err(|_| Mismatch)?;
        let Some(value) = self.value().bytes() else { return self.list_put_run(at, bytes) };
        let end = at.checked_add(bytes.len()).filter(|end| *end <= value.len()).ok_or(Mismatch)?;
        let (mut rest, mut is_there) = (bytes, true);
        for piece in value.pieces(at..end) {
            let (here, behind) = rest.split_at(piece.len());
            (rest, is_there) = (behind, is_there && here == piece);
        }
        if !is_there {
            self.body.patch(at, bytes);
        }
        Ok(())
    }

    /// Has these elements stand from `index` on.
    fn list_put_run(&mut self, index: usize, elements: &[u8]) -> Result<(), Mismatch> {
        let ValueRef::List(list) = self.value() else { return Err(Mismatch) };
        let mut changed = Vec::new();
        let mut there = list.iter_from(index);
        for (at, item) in decode(Kind::List, elements).enumerate() {
            let item = item.map_err(|_| Mismatch)?;
            if there.next().ok_or(Mismatch)? != item.name {
                changed.push((index + at, item.name));
            }
        }
        drop(there);
        for (at, element) in changed {
            self.body.list_put(at, element);
        }
        Ok(())
    }

    /// One step over the elements whose record is older than `begun`: those among about `count` elements from
    /// `cursor` on, and where to go on; nowhere at the end. Strings, documents and lists have none. Names of
    /// a stream are as they stand in it, short or long (`spelling`).
    pub(crate) fn older_than(
        &self,
        begun: Lsn,
        cursor: &ElementCursor,
        count: usize,
    ) -> (Option<ElementCursor>, Vec<ImageItem<'_>>) {
        fn plain(item: Item<'_>) -> (Lsn, ImageItem<'_>) {
            (item.lsn(), ImageItem { name: item.name, value: item.value, score: 0.0, time: None })
        }
        fn scored(item: Item<'_>) -> (Lsn, ImageItem<'_>) {
            (item.lsn(), ImageItem { name: item.name, value: &[], score: item.score(), time: None })
        }
        let (next, found) = match self.value() {
            ValueRef::String(_) | ValueRef::List(_) | ValueRef::Json(_) => (0, Vec::new()),
            ValueRef::Set(set) => set.form.scan(cursor.position, count, plain),
            ValueRef::Hash(hash) => hash.form.scan(cursor.position, count, |item| {
                let (lsn, plain) = plain(item);
                (lsn, ImageItem { time: hash.time(item.name), ..plain })
            }),
            ValueRef::ZSet(zset) => zset.index.scan(cursor.position, count, scored),
            ValueRef::Stream(stream) => {
                let mut walk = stream.form.walk_from(stream.form.lower_bound(&cursor.name));
                let found: Vec<Item<'_>> = walk.by_ref().take(count).collect();
                let own = found.into_iter().filter(|item| !element::is_derived(item.name)).map(plain);
                let old = own.filter(|(lsn, _)| *lsn < begun).map(|(_, item)| item).collect();
                let next = walk.next().map(|item| {
                    let name = spelling::long(item.name);
                    ElementCursor { name: name[..].into(), position: 0 }
                });
                return (next, old);
            }
        };
        let next = (next > 0).then(|| ElementCursor { position: next, name: Box::default() });
        (next, found.into_iter().filter(|(lsn, _)| *lsn < begun).map(|(_, item)| item).collect())
    }
}
