//! The register of connected clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tarn_engine::lock::Mutex;

use crate::net::handle::ClientHandle;

/// All connected clients by id.
#[derive(Debug, Default)]
pub struct Clients {
    by_id: Mutex<BTreeMap<u64, Arc<ClientHandle>>>,
    last_id: AtomicU64,
}

impl Clients {
    /// An id that no client had before.
    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Registers a client.
    pub fn insert(&self, client: Arc<ClientHandle>) {
        self.by_id.lock().insert(client.id, client);
    }

    /// Forgets a client.
    pub fn remove(&self, id: u64) {
        self.by_id.lock().remove(&id);
    }

    /// How many are connected.
    pub fn len(&self) -> usize {
        self.by_id.lock().len()
    }

    /// Whether none is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The client with this id.
    pub fn get(&self, id: u64) -> Option<Arc<ClientHandle>> {
        self.by_id.lock().get(&id).cloned()
    }

    /// All of them, oldest first.
    pub fn all(&self) -> Vec<Arc<ClientHandle>> {
        self.by_id.lock().values().cloned().collect()
    }
}
