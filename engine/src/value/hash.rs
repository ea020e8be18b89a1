//! Hashes: fields with values, each with the `Lsn` of its newest record.

use super::Scanned;
use super::form::Form;
use super::packed::{self, Buffer, HASH, Item, Layout, Varint};
use super::scattered::{ByPosition, HashOrder};
use super::tree::Tree;
use crate::record::Lsn;

/// A hash, borrowed from its entry.
#[derive(Clone, Copy)]
pub struct HashRef<'a> {
    pub(crate) form: Form<'a, HashOrder>,
}

fn pair<'a>(item: Item<'a>) -> (&'a [u8], &'a [u8]) {
    (item.name, item.value)
}

impl<'a> HashRef<'a> {
    /// How many fields there are; never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.form.len()
    }

    /// The value of a field.
    #[inline]
    pub fn get(&self, field: &[u8]) -> Option<&'a [u8]> {
        self.form.find(field).map(|item| item.value)
    }

    /// Hands each field with its value to `work`, in no order that means anything: `iter` for who has
    /// millions of hashes to read.
    #[inline]
    pub fn for_each(&self, mut work: impl FnMut(&'a [u8], &'a [u8])) {
        match self.form {
            Form::Packed { layout, bytes, .. } => {
                packed::items(Layout { pair: true, ..layout }, bytes)
                    .for_each(|item| work(item.name, item.value));
            }
            Form::Tree(_) => self.iter().for_each(|(name, value)| work(name, value)),
        }
    }

    /// The fields with their values, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.iter_from(0)
    }

    /// As `iter`, behind the first `index` of them.
    pub fn iter_from(&self, index: usize) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.form.walk_from(index).map(pair)
    }

    /// One step of a scan: about `count` fields from `cursor`, and the cursor to go on with, 0 at the end. A
    /// field that is there during the whole scan is returned at least once, however the hash changes
    /// meanwhile.
    pub fn scan(&self, cursor: u64, count: usize) -> Scanned<(&'a [u8], &'a [u8])> {
        self.form.scan(cursor, count, pair)
    }

    /// A field, chosen by a uniform random number.
    pub fn sample(&self, random: u64) -> Option<(&'a [u8], &'a [u8])> {
        self.form.sample(random).map(pair)
    }
}

/// Gives a field a value; the `Lsn` that it had.
pub(crate) fn put(buffer: &mut impl Buffer, field: &[u8], value: &[u8], lsn: Lsn) -> Option<Lsn> {
    let (field_len, value_len) = (Varint::new(field.len()), Varint::new(value.len()));
    let layout = buffer.admit(HASH, lsn);
    let lsn = layout.lsn_bytes(lsn);
    let parts = [lsn.as_slice(), field_len.as_slice(), field, value_len.as_slice(), value];
    match packed::find(layout, buffer.bytes(), field).map(|item| (item.range(), item.lsn())) {
        Some((range, old)) => {
            buffer.splice(range, &parts);
            Some(old)
        }
        None => {
            buffer.insert(buffer.bytes().len(), &parts);
            None
        }
    }
}

impl Tree<HashOrder> {
    /// Gives a field a value; the `Lsn` that it had.
    pub(crate) fn put(&mut self, field: &[u8], value: &[u8], lsn: Lsn) -> Option<Lsn> {
        self.edit(&mut ByPosition::of(field), |leaf, _| put(leaf, field, value, lsn))
    }
}
