//! Hashes: fields with values, each with the `Lsn` of its newest record.
//!
//! A field may have a time (`timed`). It is there until somebody takes it out, also when its time is over:
//! who shows a hash to others says by [`HashRef::at`] what time it is.

use super::Scanned;
use super::form::Form;
use super::packed::{self, Buffer, HASH, Item, Layout, Varint};
use super::scattered::{ByPosition, HashOrder};
use super::timed::{TimedHash, Times};
use super::tree::Tree;
use crate::record::{Lsn, UnixMs};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::ops::Range;

/// How often a field without a time is drawn at random among others.
const DRAWS: usize = 32;

/// A hash, borrowed from its entry. It shows all fields, unless [`HashRef::at`] has it hide some.
#[derive(Clone, Copy)]
pub struct HashRef<'a> {
    pub(crate) form: Form<'a, HashOrder>,
    /// The times of fields, if one has any.
    times: Option<&'a Times>,
    /// Fields are hidden whose time is before this.
    now: UnixMs,
}

/// A field of a hash, chosen by chance.
#[derive(Clone, Copy, Debug)]
pub enum Chosen<'a> {
    /// This one, with its value.
    Field(&'a [u8], &'a [u8]),
    /// Any of the fields without a time: the one at this place among them ([`HashRef::iter_lasting`]), or one
    /// that is drawn ([`HashRef::draw_lasting`]), which is quicker unless they are few.
    Lasting(usize),
}

fn pair<'a>(item: Item<'a>) -> (&'a [u8], &'a [u8]) {
    (item.name, item.value)
}

impl<'a> HashRef<'a> {
    /// A hash without times.
    #[inline]
    pub(crate) fn of(form: Form<'a, HashOrder>) -> HashRef<'a> {
        HashRef { form, times: None, now: 0 }
    }

    /// A hash with times.
    pub(crate) fn timed(hash: &'a TimedHash) -> HashRef<'a> {
        HashRef { form: Form::Tree(&hash.fields), times: Some(&hash.times), now: 0 }
    }

    /// The hash without the fields whose time is over at `now`.
    #[inline]
    pub fn at(self, now: UnixMs) -> HashRef<'a> {
        HashRef { now, ..self }
    }

    /// Whether a field is shown.
    #[inline]
    fn shows(&self, field: &[u8]) -> bool {
        self.times.and_then(|times| times.get(field)).is_none_or(|(at, _)| at >= self.now)
    }

    /// How many fields there are; 0 only if all are hidden.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.form.len() - self.times.map_or(0, |times| times.count_over(self.now))
    }

    /// How many places [`HashRef::iter_range`] goes through: as many as fields, hidden ones included.
    pub fn places(&self) -> usize {
        self.form.len()
    }

    /// The value of a field.
    #[inline]
    pub fn get(&self, field: &[u8]) -> Option<&'a [u8]> {
        let value = self.form.find(field).map(|item| item.value)?;
        (self.times.is_none() || self.shows(field)).then_some(value)
    }

    /// The time of a field that has one, and is shown.
    pub fn time(&self, field: &[u8]) -> Option<UnixMs> {
        let (at, _) = self.times?.get(field)?;
        (at >= self.now).then_some(at)
    }

    /// Whether any field has a time, hidden ones included.
    pub fn has_times(&self) -> bool {
        self.times.is_some()
    }

    /// The first time of a field that is shown.
    pub fn first_time(&self) -> Option<UnixMs> {
        let times = self.times?;
        times.nth(times.count_over(self.now))
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
        self.iter_range(0..usize::MAX)
    }

    /// As `iter`, of those at these places. Hidden ones have places, too.
    pub fn iter_range(&self, range: Range<usize>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let hash = *self;
        let places = self.form.walk_from(range.start).take(range.len());
        places.filter(move |item| hash.times.is_none() || hash.shows(item.name)).map(pair)
    }

    /// As `iter`, with the time of each field that has one.
    pub fn iter_timed(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8], Option<UnixMs>)> + use<'a> {
        let hash = *self;
        self.iter().map(move |(field, value)| (field, value, hash.time(field)))
    }

    /// One step of a scan: about `count` fields from `cursor`, and the cursor to go on with, 0 at the end. A
    /// field that is there during the whole scan is returned at least once, however the hash changes
    /// meanwhile.
    pub fn scan(&self, cursor: u64, count: usize) -> Scanned<(&'a [u8], &'a [u8])> {
        let (next, mut found) = self.form.scan(cursor, count, pair);
        if self.times.is_some() {
            found.retain(|(field, _)| self.shows(field));
        }
        (next, found)
    }

    /// The number of fields without a time.
    pub fn lasting(&self) -> usize {
        self.form.len() - self.times.map_or(0, Times::len)
    }

    /// Each place, with its field; `None` where that is hidden. For who counts places as work.
    pub fn iter_places(&self) -> impl Iterator<Item = Option<(&'a [u8], &'a [u8])>> + use<'a> {
        let hash = *self;
        let shows = move |item: &Item<'_>| hash.times.is_none() || hash.shows(item.name);
        self.form.walk_from(0).map(move |item| shows(&item).then(|| pair(item)))
    }

    /// As `iter_places`, with fields without a time alone.
    pub fn iter_lasting(&self) -> impl Iterator<Item = Option<(&'a [u8], &'a [u8])>> + use<'a> {
        let hash = *self;
        self.form.walk_from(0).map(move |item| hash.lasts(&item).then(|| pair(item)))
    }

    /// Whether a field has no time.
    fn lasts(&self, item: &Item<'_>) -> bool {
        self.times.is_none_or(|times| times.get(item.name).is_none())
    }

    /// The choice of a uniform random number; `None` if all fields are hidden. A field with a time is found
    /// by its place among the times.
    pub fn choose(&self, random: u64) -> Option<Chosen<'a>> {
        let field = |item: Item<'a>| Chosen::Field(item.name, item.value);
        let Some(times) = self.times else { return self.form.sample(random).map(field) };
        let (over, all) = (times.count_over(self.now), self.form.len());
        if over == all {
            return None;
        }
        let place = over + super::scale(random, all - over);
        match place.checked_sub(times.len()) {
            Some(place) => Some(Chosen::Lasting(place)),
            None => self.form.find(times.field(place)?).map(field),
        }
    }

    /// A field without a time, if draws among all fields, which `random` begins, find one: they seldom fail
    /// unless few fields are without.
    pub fn draw_lasting(&self, random: u64) -> Option<(&'a [u8], &'a [u8])> {
        let rng = SmallRng::seed_from_u64(random);
        let mut drawn = rng.random_iter().take(DRAWS).filter_map(|random| self.form.sample(random));
        drawn.find(|item| self.lasts(item)).map(pair)
    }

    /// A field, chosen by a uniform random number; `None` if all are hidden.
    #[cfg(test)]
    pub(crate) fn sample(&self, random: u64) -> Option<(&'a [u8], &'a [u8])> {
        match self.choose(random)? {
            Chosen::Field(field, value) => Some((field, value)),
            Chosen::Lasting(place) => {
                self.draw_lasting(random).or_else(|| self.iter_lasting().flatten().nth(place))
            }
        }
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
