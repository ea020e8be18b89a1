//! The store, as a checkpoint needs it.

use std::sync::Arc;

use crate::io::Clock;
use crate::log::LogError;
use crate::record::Lsn;
use crate::table::Table;
use crate::throttle::ClientLatency;
use crate::view::{View, ViewError};

/// The source of a checkpoint.
pub trait Source {
    /// Opens a view that is read once.
    fn view(&self) -> Result<View, ViewError>;

    /// Calls `look` with the newest change and the tables, once, while nobody else is inside the store.
    fn standing(&self, look: &mut dyn FnMut(Lsn, &[Arc<Table>]));

    /// The newest change.
    fn newest(&self) -> Lsn;

    /// Makes durable what was written up to `cut`, if it is logged: a log must not end before a checkpoint.
    /// Returns which log that is.
    fn settle(&self, cut: Lsn) -> Result<Option<u128>, LogError>;

    /// The time.
    fn clock(&self) -> &dyn Clock;

    /// The waits of clients meanwhile.
    fn clients(&self) -> &ClientLatency;
}
