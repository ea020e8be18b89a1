//! Decisions of one command about elements that its arguments may name more than once.
//!
//! A command does not see the effects of its own writes, so `SADD s m m` has to remember that the first `m`
//! is new. Few names are compared one by one; many are found by hash.

use hashbrown::HashMap;
use smallvec::SmallVec;

/// Names up to this number are compared one by one.
const FEW: usize = 16;

/// Names with what was decided about each.
pub(super) struct Decided<'a, V> {
    items: SmallVec<[(&'a [u8], V); 8]>,
    /// The place of each name in `items`, as soon as these are more than `FEW`.
    index: HashMap<&'a [u8], usize, foldhash::quality::RandomState>,
}

impl<V> Default for Decided<'_, V> {
    fn default() -> Self {
        Decided { items: SmallVec::new(), index: HashMap::default() }
    }
}

impl<'a, V> Decided<'a, V> {
    /// No names yet, with room for so many.
    pub(super) fn with_capacity(names: usize) -> Self {
        let index = if names > FEW { names } else { 0 };
        Decided {
            items: SmallVec::with_capacity(names),
            index: HashMap::with_capacity_and_hasher(index, Default::default()),
        }
    }

    /// The number of names.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// The decision about `name`, made by `decide` at its first use.
    pub(super) fn entry(&mut self, name: &'a [u8], decide: impl FnOnce() -> V) -> &mut V {
        let place = match self.place(name) {
            Some(place) => place,
            None => self.push(name, decide()),
        };
        &mut self.items[place].1
    }

    /// The names in the order in which they first came.
    pub(super) fn into_items(self) -> impl Iterator<Item = (&'a [u8], V)> {
        self.items.into_iter()
    }

    fn place(&self, name: &[u8]) -> Option<usize> {
        if self.items.len() <= FEW {
            self.items.iter().position(|(other, _)| *other == name)
        } else {
            self.index.get(name).copied()
        }
    }

    fn push(&mut self, name: &'a [u8], value: V) -> usize {
        let place = self.items.len();
        self.items.push((name, value));
        if place == FEW {
            self.index.extend(self.items.iter().enumerate().map(|(place, (name, _))| (*name, place)));
        } else if place > FEW {
            self.index.insert(name, place);
        }
        place
    }
}

impl<'a> Decided<'a, ()> {
    /// Whether `name` comes for the first time.
    pub(super) fn is_first(&mut self, name: &'a [u8]) -> bool {
        let new = self.place(name).is_none();
        if new {
            self.push(name, ());
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_for_the_first_time_once_however_many_there_are() {
        let names: Vec<String> = (0..100).map(|i| format!("name{}", i % 40)).collect();
        let mut decided = Decided::default();
        let firsts = names.iter().filter(|name| decided.is_first(name.as_bytes())).count();
        let order: Vec<&[u8]> = decided.into_items().map(|(name, ())| name).collect();
        assert_eq!((firsts, order.len()), (40, 40));
        assert!(order.iter().zip(&names).all(|(a, b)| *a == b.as_bytes()));
    }

    #[test]
    fn a_decision_can_be_revised() {
        let names: Vec<String> = (0..20).map(|i| i.to_string()).collect();
        let mut decided = Decided::default();
        for round in 0..3 {
            for name in &names {
                assert_eq!(*decided.entry(name.as_bytes(), || 0), round);
                *decided.entry(name.as_bytes(), || 0) += 1;
            }
        }
        assert_eq!((*decided.entry(b"7", || 0), *decided.entry(b"x", || 0)), (3, 0));
    }
}
