//! A condensed block: what a compaction left of one block or of several that follow each other.
//!
//! ```text
//!  body:  | sequences - 1 | lsns | voids | start | { gap, sequences - 1, lsns } ... | records | zeros |
//!           varints
//!
//!  source, directory 0:  block 1 [Lsn 1-9]   block 3 [20-31]   block 4 [32-40]   block 7 [60-70]
//!  condensed:            block 1-1 [1-9: 2, 5]                 block 7-7 [60-70: 61], void: 3-4 [20-40]
//! ```
//!
//! - Its header says the last of the blocks it stands for, the first `Lsn` of all of them, and how many
//!   records are left. `lsns` is how many there were.
//! - *Voids* are the blocks between this one and the one before it in the file of which nothing is left,
//!   where other directories have some in between. `start` is how far before the first sequence of the block
//!   the first of them begins; `gap` how many sequences lie between two.
//! - So each sequence of the log is still in exactly one place, as long as nothing is lost.

use super::block::{BlockHeader, padded_length, seal};
use super::file::{LSN_END, NUMBERS_END};
use super::format::{
    BLOCK_ALIGN_BYTES, BLOCK_CONDENSED, BLOCK_HEADER_BYTES, FormatError, put_varint, take_varint,
};
use super::records::Records;
use crate::record::{Lsn, Write};

/// Bytes of records at which a condensed block is left for the next one.
const CONDENSED_BYTES: usize = if cfg!(test) { 300 } else { 256 << 10 };

/// Blocks that follow each other, and how many records they had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) lsns: u64,
}

/// What stands before the records of a condensed block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// The blocks it stands for.
    pub(super) own: Stretch,
    /// Blocks before them of which nothing is left.
    pub(super) voids: Vec<Stretch>,
}

impl Table {
    fn put(&self, bytes: &mut Vec<u8>) {
        put_varint(bytes, self.own.to - self.own.from);
        put_varint(bytes, self.own.lsns);
        put_varint(bytes, self.voids.len() as u64);
        let Some(first) = self.voids.first() else { return };
        put_varint(bytes, self.own.from - first.from);
        let mut next = first.from;
        for void in &self.voids {
            put_varint(bytes, void.from - next);
            put_varint(bytes, void.to - void.from);
            put_varint(bytes, void.lsns);
            next = void.to + 1;
        }
    }

    /// The table of a block, if it has one, taken from the front of its body; else what it would say.
    pub(super) fn of(header: &BlockHeader, rest: &mut &[u8]) -> Result<Table, FormatError> {
        let BlockHeader { sequence, count, flags, .. } = *header;
        if flags & BLOCK_CONDENSED != 0 {
            return Table::take(rest, sequence);
        }
        let own = Stretch { from: sequence, to: sequence, lsns: u64::from(count) };
        Ok(Table { own, voids: Vec::new() })
    }

    /// Takes the table of the block with this sequence from the front of its body.
    pub(super) fn take(rest: &mut &[u8], sequence: u64) -> Result<Table, FormatError> {
        let sequences = FormatError::BadField("table of sequences");
        let take_lsns = |rest: &mut &[u8]| {
            let lsns = take_varint(rest)?;
            if lsns < LSN_END { Ok(lsns) } else { Err(FormatError::BadField("number of Lsns")) }
        };
        let from = sequence.checked_sub(take_varint(rest)?).filter(|from| *from > 0).ok_or(sequences)?;
        let own = Stretch { from, to: sequence, lsns: take_lsns(rest)? };
        let count = take_varint(rest)?;
        let mut voids = Vec::new();
        if count > 0 {
            let mut next = from.checked_sub(take_varint(rest)?).filter(|next| *next > 0).ok_or(sequences)?;
            // Each takes three bytes at least, so that the length of the body bounds them.
            for _ in 0..count {
                let gap = take_varint(rest)?;
                let length = take_varint(rest)?;
                let from = next.checked_add(gap).filter(|from| *from < NUMBERS_END).ok_or(sequences)?;
                let to = from.checked_add(length).filter(|to| *to < own.from).ok_or(sequences)?;
                voids.push(Stretch { from, to, lsns: take_lsns(rest)? });
                next = to + 1;
            }
        }
        Ok(Table { own, voids })
    }
}

/// A block of a file that is being compacted.
#[derive(Debug)]
pub(super) struct Part<'b> {
    pub(super) table: Table,
    pub(super) first: Lsn,
    pub(super) count: u32,
    pub(super) records: &'b [u8],
}

/// A condensed block that is to be written.
#[derive(Debug)]
pub(super) struct Condensed {
    pub(super) sequence: u64,
    pub(super) first: Lsn,
    pub(super) count: u32,
    /// How many records there were.
    pub(super) lsns: u64,
    pub(super) body: Vec<u8>,
}

impl Condensed {
    /// Its bytes, in place of what is in `buffer`, at this offset of a file; and how many they are.
    pub(super) fn seal(&self, file_id: u64, offset: u64, buffer: &mut Vec<u8>) -> u64 {
        let Condensed { sequence, first, count, ref body, .. } = *self;
        buffer.clear();
        buffer.resize(BLOCK_HEADER_BYTES, 0);
        buffer.extend_from_slice(body);
        let length = padded_length(buffer.len(), offset, BLOCK_ALIGN_BYTES);
        // The file's header says what is durable.
        let (durable, flags, body_crc) = (0, BLOCK_CONDENSED, 0);
        seal(buffer, BlockHeader { file_id, sequence, durable, first, count, flags, length, body_crc });
        length
    }
}

/// Makes condensed blocks of the blocks of a directory, given in their order.
#[derive(Debug, Default)]
pub(super) struct Condenser {
    open: Option<Open>,
    /// Those before the open block of which nothing is left.
    voids: Vec<Stretch>,
    /// Full blocks; for the caller to take.
    pub(super) full: Vec<Condensed>,
}

/// What is gathered for a block.
#[derive(Debug)]
struct Open {
    own: Stretch,
    first: Lsn,
    count: u32,
    /// The `Lsn` of the next record unless it says another.
    next: Lsn,
    records: Vec<u8>,
}

impl Condenser {
    /// Takes in a block; `keep` says which of its records are left.
    pub(super) fn push(
        &mut self,
        part: &Part<'_>,
        mut keep: impl FnMut(Lsn, &Write<'_>) -> bool,
    ) -> Result<(), FormatError> {
        for void in &part.table.voids {
            if !self.extend(*void) {
                self.close();
                self.voids.push(*void);
            }
        }
        if !self.extend(part.table.own) {
            self.close();
        }
        let open = self.open.get_or_insert_with(|| Open {
            own: part.table.own,
            first: part.first,
            count: 0,
            next: part.first,
            records: Vec::new(),
        });
        let mut records = Records::new(part.records, part.first, part.count);
        while let Some(record) = records.next_raw() {
            let (record, raw) = record?;
            if keep(record.lsn, &record.write) {
                raw.put(&mut open.records, record.lsn.0 - open.next.0);
                open.next = record.lsn.after(1);
                open.count += 1;
            }
        }
        if open.records.len() >= CONDENSED_BYTES {
            self.close();
        }
        Ok(())
    }

    /// Takes in what is left; the last block says where the file ends.
    pub(super) fn finish(&mut self) {
        if let Some(open) = self.open.take() {
            self.emit(open);
        }
    }

    /// Adds a stretch to the open block; `false` if it does not follow on it.
    fn extend(&mut self, stretch: Stretch) -> bool {
        let Some(open) = self.open.as_mut().filter(|open| open.own.to + 1 == stretch.from) else {
            return false;
        };
        open.own.to = stretch.to;
        open.own.lsns += stretch.lsns;
        true
    }

    /// Leaves the open block, which others follow.
    fn close(&mut self) {
        match self.open.take() {
            Some(open) if open.count > 0 => self.emit(open),
            Some(open) => self.voids.push(open.own),
            None => {}
        }
    }

    fn emit(&mut self, open: Open) {
        let table = Table { own: open.own, voids: std::mem::take(&mut self.voids) };
        let mut body = Vec::with_capacity(open.records.len() + 16 * (1 + table.voids.len()));
        table.put(&mut body);
        body.extend_from_slice(&open.records);
        let Open { own, first, count, .. } = open;
        self.full.push(Condensed { sequence: own.to, first, count, lsns: own.lsns, body });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::log::Group;
    use crate::record::Change;

    /// A put of key `number` whose value says the number.
    fn body(numbers: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in numbers {
            let mut group = Group::new();
            let value = number.to_string().into_bytes().into();
            let change = Change::Put { value, expiry: number.is_multiple_of(3).then_some(*number) };
            let db = (number % 3) as u8;
            group.push(&Write::Key { db, key: number.to_be_bytes().to_vec().into(), change });
            group.copy_to(&mut bytes);
        }
        bytes
    }

    /// What is in a block, as (sequence, records); and the sequences that it stands for, with their `Lsn`s.
    fn read(block: &Condensed) -> (Vec<Stretch>, Vec<u64>) {
        let mut rest = &block.body[..];
        let table = Table::take(&mut rest, block.sequence).unwrap();
        let mut numbers = Vec::new();
        for record in Records::new(rest, block.first, block.count) {
            let record = record.unwrap();
            let Write::Key { db, key, change: Change::Put { value, expiry } } = record.write else {
                panic!()
            };
            let number = u64::from_be_bytes(key[..].try_into().unwrap());
            assert_eq!(value[..], *number.to_string().as_bytes());
            assert_eq!((u64::from(db), expiry), (number % 3, number.is_multiple_of(3).then_some(number)));
            assert_eq!(record.lsn, Lsn(number));
            numbers.push(number);
        }
        (table.voids.into_iter().chain([table.own]).collect(), numbers)
    }

    proptest! {
        /// Blocks of which a directory has some are condensed, twice; each time all sequences are there, in
        /// order, and just the records that were kept.
        #[test]
        fn condensing_keeps_sequences_and_chosen_records(
            blocks in prop::collection::vec((0..30_u64, any::<bool>()), 1..60),
            kept in prop::collection::vec(any::<u8>(), 2),
            share in prop::sample::select(vec![0_u8, 2, 60, 250]),
        ) {
            let mut lsn = 1;
            let mut parts: Vec<(Stretch, Lsn, Vec<u64>)> = Vec::new();
            for (sequence, (count, ours)) in (1..).zip(&blocks) {
                if *ours {
                    let stretch = Stretch { from: sequence, to: sequence, lsns: *count };
                    parts.push((stretch, Lsn(lsn), (lsn..lsn + count).collect()));
                }
                lsn += count;
            }
            prop_assume!(!parts.is_empty());
            let keeps = |number: u64, salt: u8| {
                (number.wrapping_mul(0x9E37_79B9).wrapping_add(u64::from(salt)) >> 3) as u8 <= share
            };
            let mut condenser = Condenser::default();
            for (own, first, numbers) in &parts {
                let records = body(numbers);
                let table = Table { own: *own, voids: Vec::new() };
                let part = Part { table, first: *first, count: numbers.len() as u32, records: &records };
                condenser.push(&part, |lsn, _| keeps(lsn.0, kept[0])).unwrap();
            }
            condenser.finish();
            let once = std::mem::take(&mut condenser.full);
            for block in &once {
                let mut records = &block.body[..];
                let table = Table::take(&mut records, block.sequence).unwrap();
                let part = Part { table, first: block.first, count: block.count, records };
                condenser.push(&part, |lsn, _| keeps(lsn.0, kept[1])).unwrap();
            }
            condenser.finish();
            for (blocks, salts) in [(&once, &kept[..1]), (&condenser.full, &kept[..])] {
                let read: Vec<_> = blocks.iter().map(read).collect();
                let expand = |stretch: &Stretch| stretch.from..=stretch.to;
                let all = read.iter().flat_map(|(all, _)| all);
                let sequences: Vec<u64> = all.flat_map(expand).collect();
                let expected: Vec<u64> = parts.iter().map(|(own, ..)| own.from).collect();
                prop_assert_eq!(sequences, expected);
                let lsns: u64 = read.iter().flat_map(|(all, _)| all).map(|stretch| stretch.lsns).sum();
                prop_assert_eq!(lsns, parts.iter().map(|(own, ..)| own.lsns).sum::<u64>());
                let numbers: Vec<u64> = read.into_iter().flat_map(|(_, numbers)| numbers).collect();
                let all = parts.iter().flat_map(|(.., numbers)| numbers.iter().copied());
                let expected: Vec<u64> =
                    all.filter(|number| salts.iter().all(|salt| keeps(*number, *salt))).collect();
                prop_assert_eq!(numbers, expected);
            }
        }

        #[test]
        fn a_table_of_any_bytes_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = Table::take(&mut &bytes[..], 1 << 40);
        }
    }

    #[test]
    fn groups_come_apart() {
        let mut group = Group::new();
        for key in ["a", "b", "c"] {
            group.push(&Write::Key { db: 0, key: key.as_bytes().into(), change: Change::Delete });
        }
        let mut records = Vec::new();
        group.copy_to(&mut records);
        let own = Stretch { from: 9, to: 9, lsns: 3 };
        let table = Table { own, voids: Vec::new() };
        let mut condenser = Condenser::default();
        let part = Part { table, first: Lsn(7), count: 3, records: &records };
        condenser.push(&part, |lsn, _| lsn != Lsn(8)).unwrap();
        condenser.finish();
        let block = condenser.full.pop().unwrap();
        let mut rest = &block.body[..];
        Table::take(&mut rest, 9).unwrap();
        let records: Vec<_> = Records::new(rest, block.first, block.count).map(Result::unwrap).collect();
        let seen: Vec<_> = records.iter().map(|record| (record.lsn.0, record.group)).collect();
        assert_eq!(seen, [(7, 1), (9, 1)]);
    }
}
