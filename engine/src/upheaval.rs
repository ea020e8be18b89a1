//! What happens to whole databases: flushed, or changed places. Kept with its `Lsn`, so that an old record of
//! the log is looked up where its key is now.
//!
//! A flush of everything makes all before it forgotten; so does a flush of a database for those before it
//! that touch no other.

use crate::record::{Lsn, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upheaval {
    FlushAll,
    Flush(u8),
    Swap(u8, u8),
}

/// The upheavals so far, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upheavals(Vec<(Lsn, Upheaval)>);

impl Upheavals {
    /// Notes a write that concerns whole databases.
    pub fn note(&mut self, lsn: Lsn, write: &Write<'_>) {
        let upheaval = match *write {
            Write::Flush { db: None } => {
                self.0.clear();
                Upheaval::FlushAll
            }
            Write::Flush { db: Some(db) } => {
                // The same again says all that the last one said.
                self.0.pop_if(|(_, last)| *last == Upheaval::Flush(db));
                Upheaval::Flush(db)
            }
            Write::Swap { a, b } => Upheaval::Swap(a, b),
            Write::Key { .. } => return,
        };
        self.0.push((lsn, upheaval));
    }

    /// Whether there was one after the record `lsn`.
    pub fn is_later(&self, lsn: Lsn) -> bool {
        self.0.last().is_some_and(|(at, _)| *at > lsn)
    }

    /// Where the keys are now that were in database `db` right after the record `lsn`; `None` if they were
    /// flushed.
    pub fn place_now(&self, mut db: u8, lsn: Lsn) -> Option<u8> {
        let later = self.0.partition_point(|(at, _)| *at <= lsn);
        for (_, upheaval) in &self.0[later..] {
            match *upheaval {
                Upheaval::FlushAll => return None,
                Upheaval::Flush(flushed) if flushed == db => return None,
                Upheaval::Swap(a, b) if a == db => db = b,
                Upheaval::Swap(a, b) if b == db => db = a,
                Upheaval::Flush(_) | Upheaval::Swap(..) => {}
            }
        }
        Some(db)
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(upheavals.0.len(), 1);
    }
}
