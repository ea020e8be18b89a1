//! The names of members or fields that a collection had so far, to find duplicates.
//!
//! A name is remembered as 128 bits of two hashes, whose seeds differ in each process. So two names with the
//! same bits are unlikely to occur, and the author of a file cannot find them.

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};

/// Above this number of names, the memory is given back after a collection.
const KEPT_MAX: usize = 1 << 16;

/// The names of one collection.
#[derive(Default)]
pub(crate) struct Names {
    seen: HashTable<[u64; 2]>,
    seeds: [RandomState; 2],
}

impl Names {
    /// Begins another collection.
    pub(crate) fn clear(&mut self) {
        self.seen.clear();
        if self.seen.capacity() > KEPT_MAX {
            self.seen = HashTable::new();
        }
    }

    /// True if the name is new.
    pub(crate) fn is_first(&mut self, name: &[u8]) -> bool {
        self.is_first_of(0, name)
    }

    /// True if the name is new among those of this scope.
    pub(crate) fn is_first_of(&mut self, scope: u64, name: &[u8]) -> bool {
        let bits = [0, 1].map(|index| {
            let mut hasher = self.seeds[index].build_hasher();
            hasher.write_u64(scope);
            hasher.write(name);
            hasher.finish()
        });
        if self.seen.find(bits[0], |other| *other == bits).is_some() {
            return false;
        }
        self.seen.insert_unique(bits[0], bits, |other| other[0]);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_first_once_and_again_in_the_next_collection() {
        let mut names = Names::default();
        for round in 0..2 {
            for number in 0..KEPT_MAX * 2 {
                assert!(names.is_first(number.to_string().as_bytes()), "{number} in round {round}");
            }
            assert!(!names.is_first(b"7"));
            assert!(names.is_first(b"") && !names.is_first(b""));
            assert!(names.is_first_of(1, b"7") && !names.is_first_of(1, b"7") && names.is_first_of(2, b"7"));
            names.clear();
            assert!(names.seen.capacity() <= KEPT_MAX);
        }
    }
}
