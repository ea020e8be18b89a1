//! Sets: members, each with the `Lsn` of its newest record.

use super::Scanned;
use super::form::Form;
use super::packed::{self, Buffer, SET, Varint};
use super::scattered::{ByPosition, SetOrder};
use super::tree::Tree;
use crate::record::Lsn;

/// A set, borrowed from its entry.
#[derive(Clone, Copy)]
pub struct SetRef<'a> {
    pub(crate) form: Form<'a, SetOrder>,
}

impl<'a> SetRef<'a> {
    /// How many members there are; never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.form.len()
    }

    /// Whether `member` is one.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> bool {
        self.form.find(member).is_some()
    }

    /// The members, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.iter_from(0)
    }

    /// As `iter`, behind the first `index` of them.
    pub fn iter_from(&self, index: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.form.walk_from(index).map(|item| item.name)
    }

    /// One step of a scan: about `count` members from `cursor`, and the cursor to go on with, 0 at the end. A
    /// member that is there during the whole scan is returned at least once, however the set changes
    /// meanwhile.
    pub fn scan(&self, cursor: u64, count: usize) -> Scanned<&'a [u8]> {
        self.form.scan(cursor, count, |item| item.name)
    }

    /// A member, chosen by a uniform random number.
    pub fn sample(&self, random: u64) -> Option<&'a [u8]> {
        self.form.sample(random).map(|item| item.name)
    }
}

/// Adds a member, or notes its newer record; the `Lsn` that it had.
pub(crate) fn add(buffer: &mut impl Buffer, member: &[u8], lsn: Lsn) -> Option<Lsn> {
    let layout = buffer.admit(SET, lsn);
    let (len, lsn) = (Varint::new(member.len()), layout.lsn_bytes(lsn));
    match packed::find(layout, buffer.bytes(), member).map(|item| (item.at, item.lsn())) {
        Some((at, old)) => {
            buffer.splice(at..at + layout.width(), &[lsn.as_slice()]);
            Some(old)
        }
        None => {
            buffer.insert(buffer.bytes().len(), &[lsn.as_slice(), len.as_slice(), member]);
            None
        }
    }
}

impl Tree<SetOrder> {
    /// Adds a member, or notes its newer record; the `Lsn` that it had.
    pub(crate) fn add(&mut self, member: &[u8], lsn: Lsn) -> Option<Lsn> {
        self.edit(&mut ByPosition::of(member), |leaf, _| add(leaf, member, lsn))
    }
}
