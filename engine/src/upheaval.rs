//! Records flushes and swaps of whole databases, each with its `Lsn`, so that an old record of the log is
//! looked up where its key is now.
//!
//! Each database that is filled has an identity. A flush begins a new one, and a swap lets two change places:
//!
//! ```text
//!   Lsn        1      swap 0, 1 @10    flush 1 @20    now
//!   database 0 A      B                               B
//!   database 1 B      A                C              C      a record of database 1 before 10: B, now in 0
//! ```
//!
//! A flush of everything makes all before it forgotten.

use std::collections::HashMap;

use crate::record::{Lsn, Write};

/// The identity of a database's contents, from one flush to the next.
type Identity = u64;

/// The upheavals so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upheavals {
    /// Since when each database has had which identity, the oldest first. One that is not there has had its
    /// number as identity ever since everything was flushed.
    since: HashMap<u8, Vec<(Lsn, Identity)>>,
    /// Where those identities are that are not where their number says.
    moved: HashMap<Identity, Option<u8>>,
    /// When everything was flushed last.
    flushed: Lsn,
    /// Identities given out; the first ones are the numbers of databases.
    given: Identity,
    /// The newest upheaval.
    last: Lsn,
}

impl Upheavals {
    /// Notes a write that concerns whole databases. REQUIRES: they come in the order of their `Lsn`s.
    pub fn note(&mut self, lsn: Lsn, write: &Write<'_>) {
        match *write {
            Write::Flush { db: None } => *self = Upheavals { flushed: lsn, ..Upheavals::default() },
            Write::Flush { db: Some(db) } => {
                self.given += 1;
                let (gone, new) = (self.identity(db), Identity::from(u8::MAX) + self.given);
                self.moved.insert(gone, None);
                self.put(lsn, db, new);
            }
            Write::Swap { a, b } if a != b => {
                let (in_a, in_b) = (self.identity(a), self.identity(b));
                self.put(lsn, a, in_b);
                self.put(lsn, b, in_a);
            }
            Write::Swap { .. } | Write::Key { .. } => return,
        }
        self.last = lsn;
    }

    /// Whether there was one after the record `lsn`.
    pub fn is_later(&self, lsn: Lsn) -> bool {
        self.last > lsn
    }

    /// Where the keys are now that were in database `db` right after the record `lsn`; `None` if they were
    /// flushed.
    pub fn place_now(&self, db: u8, lsn: Lsn) -> Option<u8> {
        if lsn < self.flushed {
            return None;
        }
        let since = self.since.get(&db).map_or(&[][..], Vec::as_slice);
        let then = match since.partition_point(|(since, _)| *since <= lsn) {
            0 => Identity::from(db),
            count => since[count - 1].1,
        };
        match self.moved.get(&then) {
            Some(place) => *place,
            None => u8::try_from(then).ok(),
        }
    }

    /// The identity of a database's contents now.
    fn identity(&self, db: u8) -> Identity {
        self.since
            .get(&db)
            .and_then(|since| since.last())
            .map_or(Identity::from(db), |(_, identity)| *identity)
    }

    fn put(&mut self, lsn: Lsn, db: u8, identity: Identity) {
        self.since.entry(db).or_default().push((lsn, identity));
        self.moved.insert(identity, Some(db));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_are_found_where_their_keys_are_now() {
        let mut upheavals = Upheavals::default();
        upheavals.note(Lsn(10), &Write::Swap { a: 0, b: 1 });
        upheavals.note(Lsn(20), &Write::Flush { db: Some(1) });
        upheavals.note(Lsn(22), &Write::Flush { db: Some(1) });
        upheavals.note(Lsn(30), &Write::Swap { a: 1, b: 2 });
        let now = |db, lsn| upheavals.place_now(db, Lsn(lsn));
        assert_eq!([now(0, 9), now(1, 9), now(2, 9), now(3, 9)], [None, Some(0), Some(1), Some(3)]);
        assert_eq!([now(0, 10), now(1, 10), now(1, 22), now(1, 30)], [Some(0), None, Some(2), Some(1)]);
        upheavals.note(Lsn(40), &Write::Flush { db: None });
        assert_eq!(upheavals.place_now(3, Lsn(39)), None);
        assert_eq!(upheavals.place_now(3, Lsn(40)), Some(3));
    }

    fn any_write() -> impl Strategy<Value = Write<'static>> {
        prop_oneof![
            4 => (0..4_u8, 0..4_u8).prop_map(|(a, b)| Write::Swap { a, b }),
            3 => (0..4_u8).prop_map(|db| Write::Flush { db: Some(db) }),
            1 => Just(Write::Flush { db: None }),
        ]
    }

    proptest! {
        /// One step after the other tells the same.
        #[test]
        fn it_agrees_with_following_each_step(writes in prop::collection::vec(any_write(), 0..40)) {
            let mut upheavals = Upheavals::default();
            for (index, write) in writes.iter().enumerate() {
                upheavals.note(Lsn(10 * (index as u64 + 1)), write);
            }
            for (index, from) in (0..=writes.len()).flat_map(|index| (0..4_u8).map(move |db| (index, db))) {
                let mut place = Some(from);
                for write in &writes[index..] {
                    place = place.and_then(|db| match *write {
                        Write::Flush { db: flushed } if flushed.is_none_or(|flushed| flushed == db) => None,
                        Write::Swap { a, b } if a == db => Some(b),
                        Write::Swap { a, b } if b == db => Some(a),
                        _ => Some(db),
                    });
                }
                for lsn in [10 * index as u64, 10 * index as u64 + 9] {
                    prop_assert_eq!(upheavals.place_now(from, Lsn(lsn)), place);
                }
            }
        }
    }
}
