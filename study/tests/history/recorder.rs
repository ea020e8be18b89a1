//! Transactions that record their reads and writes, and snapshots that record the rows that they show.
//!
//! A row has a balance and its version. The sum of the balances is 0, always and in every snapshot.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use tarn_study::transaction::{Snapshot, Transaction, TransactionError, VirtualAlgorithm};
use tarn_study::{Shape, SnapshotError};

use crate::graph::Record;

pub(crate) fn shape(rows: usize) -> Shape {
    Shape::new(rows, 16).unwrap()
}

/// Ticks at every look.
#[derive(Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// The reads and writes of a transaction so far.
#[derive(Default)]
pub(crate) struct Notes {
    read: BTreeMap<usize, u64>,
    written: Vec<usize>,
}

impl Notes {
    /// Reads a row; gives its balance.
    pub(crate) fn read<V: VirtualAlgorithm>(
        &mut self,
        transaction: &mut Transaction<'_, V>,
        row: usize,
    ) -> Result<u64, TransactionError> {
        let mut fields = [0; 2];
        transaction.read(row, &mut fields)?;
        if !self.written.contains(&row) {
            let noted = *self.read.entry(row).or_insert(fields[1]);
            assert_eq!(noted, fields[1], "a row that a transaction has read stays");
        }
        Ok(fields[0])
    }

    /// Adds to a row's balance, as the transaction with this number.
    pub(crate) fn add<V: VirtualAlgorithm>(
        &mut self,
        transaction: &mut Transaction<'_, V>,
        number: u64,
        row: usize,
        amount: u64,
    ) -> Result<(), TransactionError> {
        let balance = self.read(transaction, row)?;
        transaction.write(row, &[balance.wrapping_add(amount), number])?;
        if !self.written.contains(&row) {
            self.written.push(row);
        }
        Ok(())
    }

    pub(crate) fn record(self, number: u64, began: u64, ended: u64) -> Record {
        Record { number, read: self.read.into_iter().collect(), written: self.written, began, ended }
    }
}

/// The rows of one snapshot after the other: balance and version.
pub(crate) struct Merged {
    pub(crate) rows: Vec<[u64; 2]>,
    first: bool,
}

impl Merged {
    pub(crate) fn new(rows: usize) -> Merged {
        Merged { rows: vec![[0; 2]; rows], first: true }
    }

    /// Adds the rows of a snapshot, and returns the versions.
    pub(crate) fn add<V: VirtualAlgorithm>(&mut self, snapshot: &mut Snapshot<'_, V>) -> Vec<u64> {
        let mut shown = vec![false; self.rows.len()];
        let visit = |row: usize, fields: &[u64]| {
            assert!(!std::mem::replace(&mut shown[row], true), "{}: row {row} is shown once", V::NAME);
            self.rows[row].copy_from_slice(fields);
            std::thread::yield_now();
            Ok::<_, SnapshotError>(())
        };
        snapshot.traverse(visit).unwrap();
        if V::FULL || self.first {
            assert!(shown.iter().all(|shown| *shown), "{}: the snapshot is full", V::NAME);
        }
        self.first = false;
        self.rows.iter().map(|row| row[1]).collect()
    }
}
