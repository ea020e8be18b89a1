//! The times of the fields of a hash: when an entry is due, and what is over then.

use super::Entry;
use crate::record::UnixMs;

/// The part of an entry whose time is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The key, by its own expiry.
    Key,
    /// All fields of the hash, so many.
    AllFields(usize),
    /// These fields of the hash: the first to go, not more than were asked for.
    Fields(Vec<Box<[u8]>>),
}

impl Entry {
    /// Whether this is a hash that has fields with times.
    #[inline]
    pub fn is_timed(&self) -> bool {
        self.body.times().is_some()
    }

    /// Whether this is a hash that has no field but such whose time is over at `now`.
    pub(crate) fn is_spent(&self, now: UnixMs) -> bool {
        self.body.is_spent(now)
    }

    /// When something of the entry is over, if ever: the key, or its first field.
    #[inline]
    pub fn due(&self) -> Option<UnixMs> {
        let expiry = self.expiry();
        match self.body.times().and_then(|times| times.first()) {
            Some(first) => Some(expiry.map_or(first, |expiry| expiry.min(first))),
            None => expiry,
        }
    }

    /// When the next part of the entry is over, if its `passed` first fields are gone by then.
    pub(crate) fn due_behind(&self, passed: usize) -> Option<UnixMs> {
        let field = self.body.times().and_then(|times| times.nth(passed));
        [self.expiry(), field].into_iter().flatten().min()
    }

    /// The part that is over at `now`, of fields at most so many.
    pub(crate) fn over(&self, now: UnixMs, most: usize) -> Option<Over> {
        if self.expiry().is_some_and(|expiry| now > expiry) {
            return Some(Over::Key);
        }
        let times = self.body.times()?;
        if self.body.is_spent(now) {
            return Some(Over::AllFields(times.len()));
        }
        let fields: Vec<_> = times.over(now).take(most).map(Box::from).collect();
        (!fields.is_empty()).then_some(Over::Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::record::{Change, FIELD_TIME_MAX, Kind, Lsn};
    use crate::table::{Applied, Retired};
    use crate::value::{ImageBuilder, ValueRef, elements_of};

    fn put(field: &'static str) -> Change<'static> {
        Change::HashPut { field: field.as_bytes().into(), value: b"value".into() }
    }

    fn remove(field: &'static str) -> Change<'static> {
        Change::HashRemove { field: field.as_bytes().into() }
    }

    fn expire(field: &'static str, at: Option<UnixMs>) -> Change<'static> {
        Change::HashExpire { field: field.as_bytes().into(), at }
    }

    /// Applies changes with `Lsn`s from 1 on; the entry, and which records are not needed, in order.
    fn play(changes: &[Change<'static>]) -> (Entry, Vec<u64>) {
        let mut entry = Entry::create(b"key", &changes[0], Lsn(1)).unwrap();
        let mut retired = Retired::default();
        for (change, lsn) in changes[1..].iter().zip(2..) {
            assert_eq!(entry.apply(change, Lsn(lsn), &mut retired), Ok(Applied::Kept), "{change:?}");
        }
        (entry, retired.lsns.iter().map(|lsn| lsn.0).collect())
    }

    fn time(entry: &Entry, field: &str) -> Option<UnixMs> {
        let ValueRef::Hash(hash) = entry.value() else { panic!("it is a hash") };
        hash.time(field.as_bytes())
    }

    #[test]
    fn a_newer_time_or_value_retires_the_record_of_a_time() {
        let (entry, retired) = play(&[put("a"), expire("a", Some(500)), expire("a", Some(700))]);
        assert_eq!((time(&entry, "a"), &retired[..]), (Some(700), &[2][..]));
        assert!(
            entry.has_of(Lsn(3), &expire("a", Some(700))) && !entry.has_of(Lsn(2), &expire("a", Some(500)))
        );
        let (entry, retired) = play(&[put("a"), expire("a", Some(500)), put("a")]);
        assert_eq!((time(&entry, "a"), &retired[..]), (None, &[2, 1][..]));
        assert!(!entry.is_timed());
        let (entry, retired) = play(&[put("a"), expire("a", Some(500)), expire("a", None)]);
        assert_eq!((time(&entry, "a"), entry.is_timed(), &retired[..]), (None, false, &[2][..]));
        let (entry, retired) = play(&[put("a"), put("b"), expire("a", Some(500)), remove("a")]);
        assert_eq!((entry.count(), &retired[..]), (1, &[3, 1][..]));
        let (_, retired) = play(&[put("a"), expire("x", Some(500))]);
        assert_eq!(retired, [2], "of a field that is not there nothing is said");
    }

    #[test]
    fn all_records_of_a_hash_that_goes_are_reported() {
        let (entry, _) = play(&[put("a"), put("b"), expire("b", Some(500))]);
        let mut retired = Retired::default();
        entry.retire(&mut retired);
        retired.take_garbage();
        retired.lsns.sort_unstable();
        assert_eq!(retired.lsns[..], [Lsn(1), Lsn(2), Lsn(3)]);
    }

    #[test]
    fn what_is_over_is_found_and_hidden() {
        let (entry, _) =
            play(&[put("a"), put("b"), put("c"), expire("b", Some(500)), expire("c", Some(300))]);
        assert_eq!((entry.due(), entry.over(300, 9), entry.is_expired(u64::MAX)), (Some(300), None, false));
        assert_eq!(entry.over(301, 9), Some(Over::Fields(vec![(*b"c").into()])));
        assert_eq!(entry.over(999, 9), Some(Over::Fields(vec![(*b"c").into(), (*b"b").into()])));
        assert_eq!(entry.over(999, 1), Some(Over::Fields(vec![(*b"c").into()])));
        let hash = entry.hash().unwrap().at(400);
        assert_eq!((hash.len(), hash.get(b"c"), hash.time(b"c")), (2, None, None));
        assert_eq!((hash.get(b"b"), hash.time(b"b")), (Some(&b"value"[..]), Some(500)));
        assert_eq!((hash.iter().count(), hash.scan(0, 10).1.len()), (2, 2));
        let drawn = (0..64).map(|random| hash.sample(random << 58).unwrap().0);
        let drawn: BTreeMap<&[u8], usize> = drawn.fold(BTreeMap::new(), |mut counts, field| {
            *counts.entry(field).or_default() += 1;
            counts
        });
        assert_eq!(drawn, BTreeMap::from([(&b"a"[..], 32), (b"b", 32)]));
        assert_eq!(entry.hash().unwrap().at(501).sample(0).unwrap().0, b"a");

        let (entry, _) = play(&[put("a"), put("b"), expire("a", Some(500)), expire("b", Some(300))]);
        assert!(!entry.is_expired(500) && entry.is_expired(501));
        assert_eq!(entry.over(501, 1), Some(Over::AllFields(2)));
        let (entry, _) = play(&[put("a"), put("b"), expire("a", Some(500)), Change::Expire(Some(400))]);
        assert_eq!((entry.due(), entry.over(401, 9)), (Some(400), Some(Over::Key)));
    }

    #[test]
    fn each_shown_field_is_drawn_about_as_often() {
        let mut rng = SmallRng::seed_from_u64(7);
        for (hidden, timed, lasting) in [(300, 0, 3), (0, 300, 3), (40, 20, 40), (5, 7, 0)] {
            let mut image = ImageBuilder::new(Kind::Hash);
            let all = (0..hidden).map(|_| Some(100)).chain((0..timed).map(|_| Some(900)));
            for (number, time) in all.chain((0..lasting).map(|_| None)).enumerate() {
                image.push_timed(format!("field{number}").as_bytes(), b"value", time);
            }
            let elements = image.finish().into();
            let change = Change::Image { kind: Kind::Hash, elements, expiry: None, sticky: false };
            let entry = Entry::create(b"key", &change, Lsn(1)).unwrap();
            let hash = entry.hash().unwrap().at(500);
            let mut drawn = BTreeMap::<&[u8], u32>::new();
            for _ in 0..hash.len() * 1000 {
                *drawn.entry(hash.sample(rng.random()).unwrap().0).or_default() += 1;
            }
            let (least, most) = (drawn.values().min().unwrap(), drawn.values().max().unwrap());
            assert!(drawn.len() == timed + lasting && *least > 800 && *most < 1200, "{least} to {most}");
        }
    }

    #[test]
    fn an_image_keeps_times() {
        let mut image = ImageBuilder::new(Kind::Hash);
        for number in 0..500u64 {
            let time = (number % 3 == 0).then_some(number * 1000);
            image.push_timed(format!("field{number}").as_bytes(), b"value", time);
        }
        image.push_timed(b"last", &[7; 300], Some(FIELD_TIME_MAX));
        for elements in [image.finish(), {
            let mut small = ImageBuilder::new(Kind::Hash);
            small.push_timed(b"twice", b"1", Some(5));
            small.push_timed(b"last", b"2", Some(FIELD_TIME_MAX));
            small.push_timed(b"twice", b"3", None);
            small.finish()
        }] {
            let change =
                Change::Image { kind: Kind::Hash, elements: elements.into(), expiry: None, sticky: false };
            let entry = Entry::create(b"key", &change, Lsn(9)).unwrap();
            assert_eq!(time(&entry, "last"), Some(FIELD_TIME_MAX));
            assert_eq!((time(&entry, "twice"), time(&entry, "field1")), (None, None));
            let elements = elements_of(entry.value()).into();
            let again = Change::Image { kind: Kind::Hash, elements, expiry: None, sticky: false };
            let copy = Entry::create(b"copy", &again, Lsn(10)).unwrap();
            let sorted = |entry: &Entry| {
                let hash = entry.hash().unwrap();
                let own = |(field, value, time): (&[u8], &[u8], _)| (field.to_vec(), value.to_vec(), time);
                let mut fields: Vec<_> = hash.iter_timed().map(own).collect();
                fields.sort_unstable();
                fields
            };
            assert_eq!(sorted(&copy), sorted(&entry));
            // What an image said stays needed as long as the image is.
            let mut retired = Retired::default();
            let mut entry = entry;
            entry.apply(&expire("last", Some(77)), Lsn(11), &mut retired).unwrap();
            entry.apply(&expire("last", Some(78)), Lsn(12), &mut retired).unwrap();
            assert_eq!(retired.lsns[..], [Lsn(11)]);
        }
        let too_late = Change::Image {
            kind: Kind::Hash,
            elements: {
                let mut image = ImageBuilder::new(Kind::Hash);
                image.push_timed(b"a", b"1", Some(FIELD_TIME_MAX + 1));
                image.finish().into()
            },
            expiry: None,
            sticky: false,
        };
        assert!(Entry::create(b"key", &too_late, Lsn(1)).is_none());
    }

    #[test]
    fn times_change_the_encoding_and_cost_others_nothing() {
        let (timed, _) = play(&[put("a"), expire("a", Some(500))]);
        assert_eq!(timed.encoding(), "listpackex");
        let (other, _) = play(&[put("a")]);
        assert_eq!((other.encoding(), other.is_large()), ("listpack", false));
        assert!(other.bytes() < timed.bytes());
    }
}
