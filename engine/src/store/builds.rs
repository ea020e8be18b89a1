//! The queue to the index builder, the thread that fills new indexes; and the memory of all indexes.

use crate::index::Index;
use crate::lock::Mutex;
use crate::table::Table;
use crossbeam_channel::{Receiver, Sender};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An index that is to be built from a table.
pub(crate) struct Build {
    /// The table of the database that the index is of.
    pub(crate) table: Arc<Table>,
    /// The index.
    pub(crate) index: Arc<Index>,
}

/// The end of the queue that is sent to; `None` ends the builder.
pub(crate) type BuildSender = Sender<Option<Build>>;

/// The other end, for the builder's thread.
pub(crate) type BuildQueue = Receiver<Option<Build>>;

/// The memory that all indexes take, as the expirer has found it last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexMemory {
    /// Bytes, about.
    pub bytes: usize,
    /// The indexes that were given up, as all took more than they may: the database and the name of each.
    pub given_up: Vec<(u8, String)>,
}

/// The limit of that memory, and the memory.
#[derive(Default)]
pub(crate) struct IndexLimit {
    /// Bytes of memory that all indexes may take; 0: any number.
    bytes_max: AtomicUsize,
    memory: Mutex<IndexMemory>,
}

impl IndexLimit {
    pub(crate) fn set(&self, bytes: usize) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of memory that all indexes may take; 0: any number.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max.load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, memory: IndexMemory) {
        *self.memory.lock() = memory;
    }

    /// The memory that was noted last.
    pub(crate) fn memory(&self) -> IndexMemory {
        self.memory.lock().clone()
    }
}
