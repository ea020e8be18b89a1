//! The queue to the index builder, the thread that fills new indexes.

use crate::index::Index;
use crate::table::Table;
use crossbeam_channel::{Receiver, Sender};
use std::sync::Arc;

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
