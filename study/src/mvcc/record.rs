//! A record: its newest row, and the chain of those that it had before.

use std::collections::VecDeque;

use super::keep::Keep;
use crate::vls::table::Keyed;

/// A row that was replaced or removed. Scans from `begin` on see it, those from `end` on do not.
pub(crate) struct Version {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) row: Box<[u64]>,
}

pub(crate) struct Record {
    pub(crate) key: u64,
    /// The timestamp of the write that made the newest row.
    pub(crate) begin: u64,
    /// The newest row; none: it was removed, and some scan may still read it.
    pub(crate) row: Option<Box<[u64]>>,
    /// Oldest first; the ends ascend.
    pub(crate) older: VecDeque<Version>,
}

impl Keyed for Record {
    fn key(&self) -> u64 {
        self.key
    }
}

impl Record {
    /// The row that a scan sees. It goes from the newest version to older ones, as along a list.
    pub(crate) fn seen_by<K: Keep>(&self, scan: u64) -> Option<&[u64]> {
        if let Some(row) = self.row.as_deref().filter(|_| K::sees(scan, self.begin, u64::MAX)) {
            return Some(row);
        }
        let mut older = self.older.iter().rev();
        older.find(|version| K::sees(scan, version.begin, version.end)).map(|version| &*version.row)
    }

    /// True if it has a version with this value in a field.
    pub(crate) fn has_value(&self, field: usize, value: u64) -> bool {
        let rows = self.row.iter().chain(self.older.iter().rev().map(|version| &version.row));
        rows.into_iter().any(|row| row[field] == value)
    }

    /// True if neither a reader nor a scan can find anything in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.row.is_none() && self.older.is_empty()
    }

    /// Frees the versions that are garbage; returns them.
    pub(crate) fn prune<K: Keep>(&mut self, horizon: u64) -> Vec<Version> {
        let count = self.older.partition_point(|version| K::is_garbage(version.end, horizon));
        self.older.drain(..count).collect()
    }
}
