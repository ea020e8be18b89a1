//! The prefixes of keys that clients want to be told of: `CLIENT TRACKING ON BCAST PREFIX …`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use crate::net::handle::ClientHandle;

/// Prefixes of one client. None of them begins with another.
pub(crate) type OwnPrefixes = BTreeSet<Box<[u8]>>;

/// The prefixes of all clients, and whose they are.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    clients: HashMap<Box<[u8]>, BTreeMap<u64, Arc<ClientHandle>>>,
    /// How many prefixes have each length: a key is looked up by its beginnings of these lengths.
    lengths: BTreeMap<usize, usize>,
}

impl Prefixes {
    /// Adds a prefix of a client.
    pub(super) fn add(&mut self, prefix: &[u8], client: &Arc<ClientHandle>) {
        if let Some(clients) = self.clients.get_mut(prefix) {
            clients.insert(client.id, client.clone());
            return;
        }
        *self.lengths.entry(prefix.len()).or_default() += 1;
        self.clients.insert(prefix.into(), BTreeMap::from([(client.id, client.clone())]));
    }

    /// Takes a prefix of a client out.
    pub(super) fn remove(&mut self, prefix: &[u8], client: u64) {
        let Some(clients) = self.clients.get_mut(prefix) else { return };
        clients.remove(&client);
        if !clients.is_empty() {
            return;
        }
        self.clients.remove(prefix);
        if let Some(count) = self.lengths.get_mut(&prefix.len()) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&prefix.len());
            }
        }
    }

    /// The prefixes that some of these keys begin with, each with these keys in their order.
    pub(super) fn of_keys<'p, 'k>(&'p self, keys: &[&'k [u8]]) -> BTreeMap<&'p [u8], BTreeSet<&'k [u8]>> {
        let mut met = BTreeMap::<&[u8], BTreeSet<&[u8]>>::new();
        for &key in keys {
            for (&len, _) in self.lengths.range(..=key.len()) {
                if let Some((prefix, _)) = self.clients.get_key_value(&key[..len]) {
                    met.entry(prefix).or_default().insert(key);
                }
            }
        }
        met
    }

    /// Whose a prefix is.
    pub(super) fn clients(&self, prefix: &[u8]) -> impl Iterator<Item = &Arc<ClientHandle>> {
        self.clients.get(prefix).into_iter().flat_map(BTreeMap::values)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.clients.len()
    }
}

/// Two prefixes of which one begins with the other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Overlap<'p> {
    /// A new one and one that the client has.
    Existing(&'p [u8], &'p [u8]),
    /// Two new ones.
    Provided(&'p [u8], &'p [u8]),
}

/// The first of new prefixes that begins with another, or another with it. Takes no longer than sorting them.
pub(crate) fn overlap<'p>(own: &'p OwnPrefixes, new: &[&'p [u8]]) -> Option<Overlap<'p>> {
    let overlaps = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    let existing = |prefix: &[u8]| {
        // All keys, which `BCAST` without a prefix adds to others.
        if let Some(all) = own.get(&b""[..]) {
            return Some(all);
        }
        // Before it, the next one is the longest that it may begin with, as none of them begins with another.
        let before = own.range::<[u8], _>((Bound::Unbounded, Bound::Included(prefix))).next_back();
        let behind = own.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded)).next();
        before.into_iter().chain(behind).find(|other| overlaps(other, prefix))
    };
    // In their order those that begin with a prefix stand right behind it.
    let mut sorted: Vec<(&[u8], usize)> = new.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    let mut first = usize::MAX;
    let mut above: Option<(&[u8], usize)> = None;
    for &(prefix, at) in &sorted {
        match above {
            Some((start, start_at)) if prefix.starts_with(start) => first = first.min(start_at).min(at),
            _ => above = Some((prefix, at)),
        }
    }
    for (at, &prefix) in new.iter().enumerate() {
        if let Some(other) = existing(prefix) {
            return Some(Overlap::Existing(prefix, other));
        }
        if at == first {
            let other = new[at + 1..].iter().find(|other| overlaps(other, prefix));
            return other.map(|other| Overlap::Provided(prefix, other));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As the definition has it: each new one is compared with all others.
    fn slow<'p>(own: &'p OwnPrefixes, new: &[&'p [u8]]) -> Option<Overlap<'p>> {
        let overlaps = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
        for (at, prefix) in new.iter().enumerate() {
            if let Some(other) = own.iter().find(|other| overlaps(other, prefix)) {
                return Some(Overlap::Existing(prefix, other));
            }
            if let Some(other) = new[at + 1..].iter().find(|other| overlaps(other, prefix)) {
                return Some(Overlap::Provided(prefix, other));
            }
        }
        None
    }

    proptest! {
        #[test]
        fn overlaps_are_found_as_if_all_pairs_were_compared(
            has_all: bool,
            own in prop::collection::vec("[ab]{1,5}", 0..6),
            new in prop::collection::vec("[abc]{0,6}", 0..6),
        ) {
            let mut prefixes = OwnPrefixes::new();
            if has_all {
                prefixes.insert(Box::default());
            }
            for prefix in &own {
                if overlap(&prefixes, &[prefix.as_bytes()]).is_none() {
                    prefixes.insert(prefix.as_bytes().into());
                }
            }
            let new: Vec<&[u8]> = new.iter().map(String::as_bytes).collect();
            prop_assert_eq!(overlap(&prefixes, &new), slow(&prefixes, &new));
        }
    }
}
