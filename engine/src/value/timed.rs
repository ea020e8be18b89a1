//! Hashes of which some fields have times: points in time after which the fields are gone.
//!
//! ```text
//!   fields   a: 1   b: 2   c: 3          as in every large hash
//!   times    by field   b: 700  c: 500   each with the `Lsn` of the record that said it
//!            by time    c  b             so the next one is found at once
//! ```
//!
//! The times stand beside the fields, as a sorted set of the fields by their times would. A hash none of
//! whose fields has a time has nothing of this. One that gets its first time moves to nodes.
//!
//! Invariants: there is a time; each is of a field that is there; its record is not older than the field's.

use super::form::Form;
use super::left::Counted;
use super::packed::{self, ZSET};
use super::scattered::HashOrder;
use super::tree::Tree;
use super::zset::{self, ZSetRef, ZSetTrees};
use crate::record::{FIELD_TIME_MAX, Lsn, UnixMs};

/// The times of fields. Their clone shares nodes with them.
#[derive(Clone)]
pub(crate) struct Times(ZSetTrees);

impl Times {
    /// The time of one field. REQUIRES: it is at most [`FIELD_TIME_MAX`].
    pub(crate) fn of(field: &[u8], at: UnixMs, lsn: Lsn) -> Times {
        let mut packed = Vec::new();
        zset::pack(&mut packed, field, at as f64, lsn);
        Times::build(&packed)
    }

    /// Times that are packed as members of a sorted set, of which the scores are the times.
    pub(crate) fn build(packed: &[u8]) -> Times {
        Times(ZSetTrees::build(packed::items(ZSET, packed)))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.index.len()
    }

    /// The time of a field, and the record that said it.
    #[inline]
    pub(crate) fn get(&self, field: &[u8]) -> Option<(UnixMs, Lsn)> {
        self.0.index.find(field).map(|item| (item.score() as UnixMs, item.lsn()))
    }

    /// The time at `index`, the first of all at 0.
    pub(crate) fn nth(&self, index: usize) -> Option<UnixMs> {
        self.ranked().get(index).map(|(_, at)| at as UnixMs)
    }

    /// The field whose time is at `index`.
    pub(crate) fn field(&self, index: usize) -> Option<&[u8]> {
        self.ranked().get(index).map(|(field, _)| field)
    }

    /// The first of all.
    pub(crate) fn first(&self) -> Option<UnixMs> {
        self.nth(0)
    }

    /// The last of all.
    pub(crate) fn last(&self) -> Option<UnixMs> {
        self.nth(self.len().checked_sub(1)?)
    }

    /// How many are over at `now`. In the millisecond of its time a field is still there.
    pub(crate) fn count_over(&self, now: UnixMs) -> usize {
        self.ranked().lower_bound_score(now.min(FIELD_TIME_MAX + 1) as f64, false)
    }

    /// The fields whose times are over at `now`, the first to go first.
    pub(crate) fn over(&self, now: UnixMs) -> impl Iterator<Item = &[u8]> {
        self.ranked().iter_from(0).take(self.count_over(now)).map(|(field, _)| field)
    }

    /// All of them, the first to go first.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], UnixMs)> {
        self.ranked().iter_from(0).map(|(field, at)| (field, at as UnixMs))
    }

    /// Gives a field a time; the `Lsn` of the one that it had. REQUIRES: as `of`.
    pub(crate) fn put(&mut self, field: &[u8], at: UnixMs, lsn: Lsn) -> Option<Lsn> {
        self.0.put(field, at as f64, lsn)
    }

    /// Takes away the time of a field; its `Lsn`.
    pub(crate) fn remove(&mut self, field: &[u8]) -> Option<Lsn> {
        self.0.remove(field)
    }

    /// Calls `visit` with the leaves of the index: times as `build` takes them.
    pub(crate) fn for_each_leaf(&self, visit: &mut impl FnMut(&[u8])) {
        self.0.index.for_each_leaf(&mut |leaf| visit(leaf));
    }

    /// Calls `visit` with the `Lsn` of each.
    pub(crate) fn for_each_lsn(&self, visit: &mut impl FnMut(Lsn)) {
        self.for_each_leaf(&mut |leaf| packed::items(ZSET, leaf).for_each(|item| visit(item.lsn())));
    }

    /// Bytes of memory, this included; nodes that others own too count in full.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Times>() + self.0.index.bytes() + self.0.ranking.bytes()
    }

    /// As `bytes`, by the number of times and the first leaves.
    pub(crate) fn bytes_about(&self) -> usize {
        size_of::<Times>() + self.0.index.bytes_about() + self.0.ranking.bytes_about()
    }

    /// As `bytes`, of these nodes; about, if there are many.
    pub(crate) fn bytes_of(&self, counted: Counted) -> usize {
        size_of::<Times>() + self.0.index.bytes_of(counted) + self.0.ranking.bytes_of(counted)
    }

    /// The trees.
    #[cfg(test)]
    pub(crate) fn trees(&self) -> &ZSetTrees {
        &self.0
    }

    fn ranked(&self) -> ZSetRef<'_> {
        ZSetRef { index: Form::Tree(&self.0.index), ranking: Form::Tree(&self.0.ranking) }
    }
}

/// A hash of which some fields have times.
#[derive(Clone)]
pub(crate) struct TimedHash {
    /// All fields, those included whose time is over.
    pub(crate) fields: Tree<HashOrder>,
    /// Apart, so that large values without times are no larger.
    pub(crate) times: Box<Times>,
}

impl TimedHash {
    /// Whether at `now` the time of every field is over.
    pub(crate) fn is_spent(&self, now: UnixMs) -> bool {
        self.times.len() == self.fields.len() && self.times.last().is_none_or(|last| last < now)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn times_are_found_by_field_and_by_time() {
        let mut times = Times::of(b"b", 700, Lsn(1));
        assert_eq!(times.put(b"c", 500, Lsn(2)), None);
        assert_eq!(times.put(b"a", FIELD_TIME_MAX, Lsn(3)), None);
        assert_eq!((times.get(b"b"), times.get(b"x")), (Some((700, Lsn(1))), None));
        assert_eq!((times.first(), times.last()), (Some(500), Some(FIELD_TIME_MAX)));
        assert_eq!([0, 500, 501, 700, 701].map(|now| times.count_over(now)), [0, 0, 1, 1, 2]);
        assert_eq!(times.count_over(u64::MAX), 3);
        assert_eq!(times.over(701).collect::<Vec<_>>(), [b"c", b"b"]);
        assert_eq!(times.put(b"b", 400, Lsn(4)), Some(Lsn(1)));
        assert_eq!((times.first(), times.remove(b"b")), (Some(400), Some(Lsn(4))));
        assert_eq!((times.remove(b"b"), times.len()), (None, 2));
        assert_eq!(times.iter().map(|(field, _)| field).collect::<Vec<_>>(), [b"c", b"a"]);
    }

    #[test]
    fn stored_leaves_make_the_same_times() {
        let mut times = Times::of(b"field", 1, Lsn(1));
        for number in 0..5000u64 {
            times.put(format!("field:{number}").as_bytes(), 10_000 - number, Lsn(number + 2));
        }
        let mut packed = Vec::new();
        times.for_each_leaf(&mut |leaf| packed.extend_from_slice(leaf));
        let read = Times::build(&packed);
        assert!(read.iter().eq(times.iter()) && read.len() == 5001);
        assert!((0..5000u64).all(|number| {
            let field = format!("field:{number}");
            read.get(field.as_bytes()) == Some((10_000 - number, Lsn(number + 2)))
        }));
        let mut lsns = Vec::new();
        read.for_each_lsn(&mut |lsn| lsns.push(lsn.0));
        lsns.sort_unstable();
        assert!(lsns.into_iter().eq(1..=5001));
    }
}
