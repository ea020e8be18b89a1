//! The clients that read one channel, or one pattern, by worker.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;

/// Ids of clients.
pub(crate) type Ids = HashSet<u64, RandomState>;

/// Clients of a part, at most.
const PART: usize = 256;

/// The clients that read one channel, or one pattern, by worker.
#[derive(Debug, Default)]
pub(super) struct Readers {
    /// The workers that have such clients, and the ids of these, in parts. A message on its way shares them:
    /// a part that changes meanwhile is copied.
    by_worker: Vec<(usize, Arc<Ids>)>,
}

impl Readers {
    /// Adds a client of a worker.
    pub(super) fn add(&mut self, worker: usize, client: u64) {
        match self.by_worker.iter_mut().find(|(of, part)| *of == worker && part.len() < PART) {
            Some((_, clients)) => {
                Arc::make_mut(clients).insert(client);
            }
            None => self.by_worker.push((worker, Arc::new(Ids::from_iter([client])))),
        }
    }

    /// Takes a client of a worker out.
    pub(super) fn remove(&mut self, worker: usize, client: u64) {
        let has = |(of, part): &(usize, Arc<Ids>)| *of == worker && part.contains(&client);
        let Some(at) = self.by_worker.iter().position(has) else { return };
        let clients = &mut self.by_worker[at].1;
        Arc::make_mut(clients).remove(&client);
        if clients.is_empty() {
            self.by_worker.remove(at);
        }
    }

    /// How many they are.
    pub(super) fn count(&self) -> usize {
        self.by_worker.iter().map(|(_, clients)| clients.len()).sum()
    }

    /// The workers that have such clients, each with the clients; one comes again for each part of them.
    pub(super) fn by_worker(&self) -> impl Iterator<Item = (usize, &Arc<Ids>)> {
        self.by_worker.iter().map(|(worker, clients)| (*worker, clients))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_comes_or_goes_copies_one_part_while_a_message_is_on_its_way() {
        let mut readers = Readers::default();
        (0..10 * PART as u64).for_each(|client| readers.add(1, client));
        let on_its_way: Vec<Arc<Ids>> = readers.by_worker().map(|(_, part)| part.clone()).collect();
        assert!(on_its_way.iter().all(|part| part.len() <= PART));
        readers.remove(1, 5);
        readers.add(1, 1 << 20);
        let copied = readers.by_worker().zip(&on_its_way).filter(|((_, now), then)| !Arc::ptr_eq(now, then));
        assert_eq!(copied.count(), 1);
        assert_eq!(readers.count(), 10 * PART);
        (0..10 * PART as u64).for_each(|client| readers.remove(1, client));
        readers.remove(1, 1 << 20);
        assert_eq!((readers.count(), readers.by_worker().count()), (0, 0));
    }
}
