//! The state that the gate protects: the table of each logical database, and the log that commits go to.

use crate::index::Indexes;
use crate::log::Appender;
use crate::record::Lsn;
use crate::table::Table;
use std::sync::Arc;

/// The logical databases and the log. Each lock of the gate protects a copy of it.
#[derive(Clone, Default)]
pub(crate) struct Databases {
    /// The table of each logical database.
    pub(crate) tables: Vec<Arc<Table>>,
    /// The indexes of each logical database.
    pub(crate) indexes: Vec<Indexes>,
    /// How often each logical database was swapped with another.
    pub(crate) swaps: Vec<u64>,
    /// The newest flush or swap of each logical database: every look at it reveals that.
    pub(crate) floors: Vec<Lsn>,
    /// Where commits go; `None` while nothing is logged.
    pub(crate) log: Option<Appender>,
}

impl Databases {
    /// Databases with these tables, without indexes.
    pub(super) fn new(tables: Vec<Arc<Table>>, log: Option<Appender>) -> Databases {
        let indexes = tables.iter().map(|_| Indexes::default()).collect();
        let (swaps, floors) = (vec![0; tables.len()], vec![Lsn::ZERO; tables.len()]);
        Databases { tables, indexes, swaps, floors, log }
    }
}
