//! A snapshot, of the thread that dumps.

use std::cell::Cell;

use super::row::SnapRow;
use super::table::{Entry, Fields, List, batch, score};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Entries that are taken from the list at once, under its lock.
const BATCH: usize = 256;

/// A key of the store as it was at the cut.
pub enum Shown<'s, R: SnapRow> {
    /// A hash.
    Hash {
        /// Its key.
        key: &'s [u8],
        /// Its fields, at least one.
        fields: &'s FieldsAtCut,
    },
    /// The sorted set.
    Set {
        /// Its key.
        key: &'s [u8],
        /// Its members, at least one.
        members: MembersAtCut<'s, R>,
    },
}

/// Fields of a hash, copied out of the store.
#[derive(Default)]
pub struct FieldsAtCut {
    bytes: Vec<u8>,
    /// The ends of each name and of its value.
    ends: Vec<(usize, usize)>,
}

impl FieldsAtCut {
    /// Fields.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut from = 0;
        self.ends.iter().map(move |(name, value)| {
            let field = (&self.bytes[from..*name], &self.bytes[*name..*value]);
            from = *value;
            field
        })
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn push(&mut self, name: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(name);
        let name_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((name_end, self.bytes.len()));
    }
}

/// Entries that were there at the cut.
struct Part<T> {
    list: List<T>,
    len: usize,
}

impl<T> Part<T> {
    /// Calls `visit` with each entry, or until it fails.
    fn each<E>(&self, mut visit: impl FnMut(&Entry<T>) -> Result<(), E>) -> Result<(), E> {
        for from in (0..self.len).step_by(BATCH) {
            for entry in batch(&self.list, from, self.len.min(from + BATCH)) {
                visit(&entry)?;
            }
        }
        Ok(())
    }
}

/// Members of the sorted set, still in the store.
pub struct MembersAtCut<'s, R: SnapRow> {
    upper: usize,
    part: &'s Part<R>,
    is_shown: &'s Cell<bool>,
}

impl<R: SnapRow> MembersAtCut<'_, R> {
    /// Members.
    pub fn len(&self) -> usize {
        self.part.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.part.len == 0
    }

    /// Shows each with its score.
    pub fn each<E>(self, mut show: impl FnMut(&[u8], f64) -> Result<(), E>) -> Result<(), E> {
        self.part.each(|entry| {
            let mut row = entry.lock();
            let score = row.at_cut(self.upper).map(score);
            row.dumped(self.upper);
            drop(row);
            let score = score.unwrap_or_else(|| panic!("{}: a member of the cut has a score", R::NAME));
            show(&entry.key, score)
        })?;
        self.is_shown.set(true);
        Ok(())
    }
}

/// The store as it was at the cut. A snapshot that is dropped without being dumped leaves nothing behind: it
/// tells each row that it was dumped.
pub struct Snapshot<R: SnapRow> {
    upper: usize,
    hashes: Part<Fields<R>>,
    members: Part<R>,
    set: Option<Box<[u8]>>,
    busy: Arc<AtomicBool>,
    /// All rows know that they were dumped.
    is_over: bool,
}

impl<R: SnapRow> Snapshot<R> {
    pub(super) fn new(
        upper: usize,
        (hashes, hash_count): (List<Fields<R>>, usize),
        (members, member_count): (List<R>, usize),
        set: Option<Box<[u8]>>,
        busy: Arc<AtomicBool>,
    ) -> Snapshot<R> {
        let hashes = Part { list: hashes, len: hash_count };
        let members = Part { list: members, len: member_count };
        Snapshot { upper, hashes, members, set, busy, is_over: false }
    }

    /// The number of keys.
    pub fn keys(&self) -> usize {
        self.hashes.len + usize::from(self.set.is_some())
    }

    /// Shows all, hashes first. Values that are not the newest ones are freed as soon as they are copied, so
    /// a dump that fails cannot be tried again; the next snapshot is whole all the same.
    pub fn dump<E>(mut self, mut show: impl FnMut(Shown<'_, R>) -> Result<(), E>) -> Result<(), E> {
        self.bring_across();
        let upper = self.upper;
        let mut at_cut = FieldsAtCut::default();
        self.hashes.each(|entry| {
            at_cut.clear();
            for (name, row) in entry.lock().iter_mut() {
                if let Some(value) = row.at_cut(upper) {
                    at_cut.push(name, value);
                }
                row.dumped(upper);
            }
            show(Shown::Hash { key: &entry.key, fields: &at_cut })
        })?;
        let is_shown = Cell::new(self.set.is_none());
        if let Some(key) = &self.set {
            let members = MembersAtCut { upper, part: &self.members, is_shown: &is_shown };
            show(Shown::Set { key, members })?;
        }
        self.is_over = is_shown.get();
        Ok(())
    }

    /// Algorithm 3, `Snapshotter::WriteToOnline`: a pass of its own, before rows are dumped, because a dump
    /// takes as long as the disk does.
    fn bring_across(&self) {
        if R::BRINGS_ACROSS {
            self.each_row(|row| row.bring_across(self.upper));
        }
    }

    fn each_row(&self, mut act: impl FnMut(&mut R)) {
        let hashes = self.hashes.each(|entry| {
            entry.lock().iter_mut().for_each(|(_, row)| act(row));
            Ok::<(), std::convert::Infallible>(())
        });
        let members = self.members.each(|entry| {
            act(&mut entry.lock());
            Ok::<(), std::convert::Infallible>(())
        });
        let (Ok(()), Ok(())) = (hashes, members);
    }
}

impl<R: SnapRow> Drop for Snapshot<R> {
    fn drop(&mut self) {
        if !self.is_over {
            self.bring_across();
            self.each_row(|row| row.dumped(self.upper));
        }
        // Release: pairs with the Acquire of the next `take`.
        self.busy.store(false, Ordering::Release);
    }
}
