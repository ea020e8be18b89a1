//! Reserves room in the tables for the keys that the rest of the log will make.
//!
//! A table that grows by itself moves each key about twice. How many keys there will be is not known, but so
//! many have come of so many bytes, and so many bytes are still to come. Bytes are those on disk: of what is
//! still to come nobody knows how much of it is compressed. Where compressed blocks lie before others, there
//! is room for too many keys, up to the bound, and it is given back in the end; the other way round, for too
//! few.

use crate::log::Block;
use crate::table::Table;
use std::sync::Arc;

/// Bytes of the log after which it is looked at first how many keys there are; then whenever as many have
/// been read again as before.
const FIRST_BYTES: u64 = 256 << 10;
/// Room is made for so many times the keys that there are, at most: those that come may be other values of
/// the same keys from now on.
const AHEAD: usize = 4;

/// How much has been read, and how many keys came of it.
#[derive(Default)]
pub(super) struct Room {
    bytes: u64,
    bytes_before: u64,
    /// Of each table, when it was looked at last.
    keys: Vec<usize>,
}

impl Room {
    /// Notes that a block has been replayed, and makes room.
    pub(super) fn note(&mut self, block: &Block, tables: &[Arc<Table>]) {
        self.bytes += block.bytes_len();
        if self.bytes < FIRST_BYTES.max(2 * self.bytes_before) {
            return;
        }
        let bytes = self.bytes - std::mem::replace(&mut self.bytes_before, self.bytes);
        self.keys.resize(tables.len(), 0);
        for (table, before) in tables.iter().zip(&mut self.keys) {
            let keys = table.len();
            let made = keys.saturating_sub(std::mem::replace(before, keys));
            let to_come = made as u128 * u128::from(block.bytes_behind()) / u128::from(bytes);
            table.make_room((keys as u128 + to_come).min((AHEAD * keys) as u128) as usize);
        }
    }

    /// Gives back what was too much.
    pub(super) fn end(&self, tables: &[Arc<Table>]) {
        tables.iter().for_each(|table| table.give_back_room());
    }
}
