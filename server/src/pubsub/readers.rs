//! The clients that read one channel, or one pattern, by worker.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;

/// Ids of clients.
pub(crate) type Ids = HashSet<u64, RandomState>;

/// The clients that read one channel, or one pattern, by worker.
#[derive(Debug, Default)]
pub(super) struct Readers {
    /// The workers that have such clients, and the ids of these. A message on its way shares them.
    by_worker: Vec<(usize, Arc<Ids>)>,
}

impl Readers {
    /// Adds a client of a worker.
    pub(super) fn add(&mut self, worker: usize, client: u64) {
        match self.by_worker.iter_mut().find(|(of, _)| *of == worker) {
            Some((_, clients)) => {
                Arc::make_mut(clients).insert(client);
            }
            None => self.by_worker.push((worker, Arc::new(Ids::from_iter([client])))),
        }
    }

    /// Takes a client of a worker out.
    pub(super) fn remove(&mut self, worker: usize, client: u64) {
        let Some(at) = self.by_worker.iter().position(|(of, _)| *of == worker) else { return };
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

    /// The workers that have such clients, each with the clients.
    pub(super) fn by_worker(&self) -> impl Iterator<Item = (usize, &Arc<Ids>)> {
        self.by_worker.iter().map(|(worker, clients)| (*worker, clients))
    }
}
