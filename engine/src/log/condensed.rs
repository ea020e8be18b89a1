//! A condensed block: the records that a compaction kept of one block or of several adjacent ones.
//!
//! ```text
//!  body:  | sequences - 1 | lsns | voids | start, lsns | { gap, lsns, sequences - 1, lsns } ... |
//!           varints                                                            | records | zeros |
//!
//!  source, directory 0:  block 1 [Lsn 1-9]   block 3 [20-31]   block 4 [32-40]   block 7 [60-70]
//!  condensed:            block 1-1 [1-9: 2, 5]                 block 7-7 [60-70: 61], void: 3-4 [20-40]
//! ```
//!
//! - Its header says the last of the blocks it stands for, the first `Lsn` of all of them, and how many
//!   records are left. `lsns` is how many there were.
//! - *Voids* are blocks before this one and behind the one before it in the file of which nothing is left, in
//!   whichever directories they were. Several files may tell of the same: see `voids`. Each begins `gap`
//!   blocks and `lsns` records behind the one before, the first so many before the block.
//! - Files of before that (no [`BLOCK_TELLS`]) tell of voids of their own directory alone, without the Lsns
//!   between them.
//! - A block of which a repair has cut off what told of them may be a void itself ([`BLOCK_VOID`]).

use std::ops::RangeInclusive;

use super::block::{BlockHeader, Stretch, padded_length, seal};
use super::file::{LSN_END, NUMBERS_END};
use super::format::{
    BLOCK_ALIGN_BYTES, BLOCK_CONDENSED, BLOCK_HEADER_BYTES, BLOCK_LZ4, BLOCK_TELLS, BLOCK_VOID, FormatError,
    put_varint, take_varint,
};
use super::options::Compression;
use super::packed::{Packed, RAW_BYTES_MAX, raw_length};
use super::records::Records;
use super::sizes::Sizes;
use super::voids::{Void, Voids};
use crate::record::{Lsn, Write};

/// Four numbers of a table are at most so long.
const RANGE_BYTES_MAX: usize = 40;

const LSNS_GONE: FormatError = FormatError::BadField("Lsns of blocks that are gone");

/// Blocks of which nothing is left, as a table tells of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) blocks: Stretch,
    /// The first of their records; an older table does not say it.
    pub(super) first: Option<Lsn>,
}

impl Told {
    /// The dropped range that it records, if it says where its records were.
    pub(super) fn void(&self) -> Option<Void> {
        let Stretch { from, to, lsns } = self.blocks;
        self.first.map(|first| Void { from, to, first, next: first.after(lsns) })
    }
}

/// The table that stands before the records of a condensed block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// The blocks it stands for.
    pub(super) own: Stretch,
    /// Whether nothing is left of them either, so that others may tell of them, too.
    pub(super) is_void: bool,
    /// Blocks before them of which nothing is left.
    pub(super) voids: Vec<Told>,
}

/// Writes the table of a block whose first record is or was `first`.
fn put_table(own: &Stretch, first: Lsn, voids: &[Void], bytes: &mut Vec<u8>) {
    put_varint(bytes, own.to - own.from);
    put_varint(bytes, own.lsns);
    put_varint(bytes, voids.len() as u64);
    let Some(begins) = voids.first() else { return };
    put_varint(bytes, own.from - begins.from);
    put_varint(bytes, first.0 - begins.first.0);
    let (mut next, mut next_lsn) = (begins.from, begins.first);
    for void in voids {
        put_varint(bytes, void.from - next);
        put_varint(bytes, void.first.0 - next_lsn.0);
        put_varint(bytes, void.to - void.from);
        put_varint(bytes, void.next.0 - void.first.0);
        (next, next_lsn) = (void.to + 1, void.next);
    }
    debug_assert!(next <= own.from && next_lsn <= first, "voids are before the block");
}

impl Table {
    /// The table of a block, if it has one, taken from the front of its body; else what it would say.
    pub(super) fn of(header: &BlockHeader, rest: &mut &[u8]) -> Result<Table, FormatError> {
        let (mut table, mut ranges) = Table::begin(header, rest)?;
        // Each takes three bytes at least, so that the length of the body bounds them.
        while let Some(told) = ranges.take(rest)? {
            table.voids.push(told);
        }
        Ok(table)
    }

    /// The same without the voids, which stand at the front of the body then.
    pub(super) fn begin(header: &BlockHeader, rest: &mut &[u8]) -> Result<(Table, Ranges), FormatError> {
        let BlockHeader { sequence, first, count, flags, .. } = *header;
        if flags & BLOCK_CONDENSED == 0 {
            let own = Stretch { from: sequence, to: sequence, lsns: u64::from(count) };
            return Ok((Table { own, is_void: false, voids: Vec::new() }, Ranges::default()));
        }
        let sequences = FormatError::BadField("table of sequences");
        let from = sequence.checked_sub(take_varint(rest)?).filter(|from| *from > 0).ok_or(sequences)?;
        let own = Stretch { from, to: sequence, lsns: take_lsns(rest)? };
        let table = Table { own, is_void: flags & BLOCK_VOID != 0, voids: Vec::new() };
        if table.is_void && count > 0 {
            return Err(FormatError::BadField("records of blocks that are gone"));
        }
        let left = take_varint(rest)?;
        if left == 0 {
            return Ok((table, Ranges::default()));
        }
        let next = from.checked_sub(take_varint(rest)?).filter(|next| *next > 0).ok_or(sequences)?;
        let says_lsns = flags & BLOCK_TELLS != 0;
        let next_lsn = match says_lsns {
            true => first.0.checked_sub(take_lsns(rest)?).filter(|lsn| *lsn > 0).ok_or(LSNS_GONE)?,
            false => 0,
        };
        Ok((table, Ranges { left, next, next_lsn, says_lsns, own_from: from, own_first: first }))
    }
}

/// The voids that a table records, as far as they have not been taken from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    /// Their number.
    left: u64,
    /// The block and the record behind the void before.
    next: u64,
    next_lsn: u64,
    /// Whether the table says where their records were.
    says_lsns: bool,
    /// The first of the blocks that the table's own stands for, and its first record.
    own_from: u64,
    own_first: Lsn,
}

impl Ranges {
    /// Takes the next void from the front of what is left of the table; `None` after the last.
    pub(super) fn take(&mut self, rest: &mut &[u8]) -> Result<Option<Told>, FormatError> {
        if self.left == 0 {
            return Ok(None);
        }
        let sequences = FormatError::BadField("table of sequences");
        let gap = take_varint(rest)?;
        let first = self.next_lsn + if self.says_lsns { take_lsns(rest)? } else { 0 };
        let length = take_varint(rest)?;
        let from = self.next.checked_add(gap).filter(|from| *from < NUMBERS_END).ok_or(sequences)?;
        let to = from.checked_add(length).filter(|to| *to < self.own_from).ok_or(sequences)?;
        let blocks = Stretch { from, to, lsns: take_lsns(rest)? };
        if self.says_lsns {
            self.next_lsn = first + blocks.lsns;
            if self.next_lsn > self.own_first.0 {
                return Err(LSNS_GONE);
            }
        }
        (self.left, self.next) = (self.left - 1, to + 1);
        Ok(Some(Told { blocks, first: self.says_lsns.then_some(Lsn(first)) }))
    }
}

fn take_lsns(rest: &mut &[u8]) -> Result<u64, FormatError> {
    let lsns = take_varint(rest)?;
    if lsns < LSN_END { Ok(lsns) } else { Err(FormatError::BadField("number of Lsns")) }
}

/// A block of a file that is being compacted.
#[derive(Debug)]
pub(super) struct Part<'b> {
    pub(super) table: Table,
    pub(super) first: Lsn,
    pub(super) count: u32,
    pub(super) records: &'b [u8],
}

/// The length of a condensed block in a file.
pub(super) struct Sealed {
    /// Before it was compressed.
    pub(super) raw: u64,
    /// As it is written.
    pub(super) length: u64,
    /// Whether it was to be compressed.
    pub(super) is_tried: bool,
}

/// A condensed block that is to be written.
#[derive(Debug)]
pub(super) struct Condensed {
    pub(super) sequence: u64,
    pub(super) first: Lsn,
    pub(super) count: u32,
    flags: u32,
    /// How many records there were.
    pub(super) lsns: u64,
    pub(super) body: Vec<u8>,
}

impl Condensed {
    /// Its bytes, in place of what is in `buffer`, at this offset of a file.
    pub(super) fn seal(
        &self,
        file_id: u64,
        offset: u64,
        compression: Compression,
        buffer: &mut Vec<u8>,
    ) -> Sealed {
        buffer.clear();
        buffer.resize(BLOCK_HEADER_BYTES, 0);
        buffer.extend_from_slice(&self.body);
        let length = padded_length(buffer.len(), offset, BLOCK_ALIGN_BYTES);
        let mut header = self.header(file_id, length);
        // As long as readers take: the table may have made a compressed block longer than a flush compresses.
        let is_short = self.body.len() <= RAW_BYTES_MAX;
        let is_tried = compression == Compression::Lz4 && self.count > 0 && is_short;
        if is_tried && let Some(packed) = Packed::shorter(buffer, length, offset, BLOCK_ALIGN_BYTES) {
            (*buffer, header.length) = (packed.bytes, packed.length);
            header.flags |= BLOCK_LZ4;
        }
        seal(buffer, header);
        Sealed { raw: length, length: header.length, is_tried }
    }

    fn header(&self, file_id: u64, length: u64) -> BlockHeader {
        let Condensed { sequence, first, count, flags, .. } = *self;
        // The file's header says what is durable.
        BlockHeader { file_id, sequence, durable: 0, first, count, flags, length, body_crc: 0 }
    }
}

/// Makes condensed blocks of the blocks of a directory, given in their order.
#[derive(Debug)]
pub(super) struct Condenser<'v> {
    /// The voids of the log, as files tell of them.
    known: &'v Voids,
    stream: u32,
    /// The files whose blocks are given.
    numbers: RangeInclusive<u64>,
    /// The last block before those that come.
    floor: u64,
    /// Bytes of records at which a block is left for the next one.
    bytes: usize,
    open: Option<Open>,
    /// The dropped ranges to record in the next block.
    voids: Vec<Void>,
    /// The last block, if it is a void that a repair wrote.
    tail: Option<Void>,
    /// All that was told.
    pub(super) told: Vec<Void>,
    /// Full blocks; for the caller to take.
    pub(super) full: Vec<Condensed>,
}

/// The records gathered for a block.
#[derive(Debug)]
struct Open {
    own: Stretch,
    first: Lsn,
    count: u32,
    /// The `Lsn` of the next record unless it says another.
    next: Lsn,
    records: Vec<u8>,
}

impl<'v> Condenser<'v> {
    /// For the blocks of the files with these numbers in a directory, whose files before them end with block
    /// `floor`.
    pub(super) fn new(
        known: &'v Voids,
        stream: u32,
        numbers: RangeInclusive<u64>,
        floor: u64,
        sizes: &Sizes,
    ) -> Self {
        let (voids, told, full) = (Vec::new(), Vec::new(), Vec::new());
        let bytes = sizes.condensed_bytes;
        Condenser { known, stream, numbers, floor, bytes, open: None, voids, tail: None, told, full }
    }

    /// Takes in a block; `keep` says which of its records are left.
    pub(super) fn push(
        &mut self,
        part: &Part<'_>,
        mut keep: impl FnMut(Lsn, &Write<'_>) -> bool,
    ) -> Result<(), FormatError> {
        let Table { own, is_void, ref voids } = part.table;
        if let Some(tail) = self.tail.take() {
            self.leave_out(tail);
        }
        for told in voids {
            self.close();
            self.leave_out(self.whole(told)?);
        }
        if is_void {
            self.close();
            self.tail = Some(self.whole(&Told { blocks: own, first: Some(part.first) })?);
            return Ok(());
        }
        if !self.has_room_for(part.records.len()) || !self.extend(own) {
            self.close();
        }
        let open = self.open.get_or_insert_with(|| Open {
            own,
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
        if open.records.len() >= self.bytes {
            self.close();
        }
        Ok(())
    }

    /// Takes in blocks that others told of, as the last ones of a file.
    pub(super) fn end_with(&mut self, void: Void) {
        if let Some(before) = self.tail.replace(void) {
            self.leave_out(before);
        }
    }

    /// Takes in what is left; the last block says where the file ends.
    pub(super) fn finish(&mut self) {
        if let Some(open) = self.open.take() {
            self.emit(open);
        }
        let Some(tail) = self.tail.take() else { return };
        // What is told goes on behind it, perhaps, but a file ends where it did.
        if let Some(last) = self.voids.last_mut().filter(|last| last.to >= tail.from) {
            (last.to, last.next) = (tail.from - 1, tail.first);
        }
        let own = Stretch { from: tail.from, to: tail.to, lsns: tail.next.0 - tail.first.0 };
        self.told.push(tail);
        self.emit(Open { own, first: tail.first, count: 0, next: tail.first, records: Vec::new() });
        if let Some(block) = self.full.last_mut() {
            block.flags |= BLOCK_VOID;
        }
    }

    /// The dropped range that a table records, with its records.
    fn whole(&self, told: &Told) -> Result<Void, FormatError> {
        // The reader of the log has found out where the blocks are which an older table records.
        let Stretch { from, to, .. } = told.blocks;
        let void = told.void().or_else(|| self.known.run_of(from, to).copied());
        void.filter(|void| void.from > self.floor).ok_or(FormatError::BadField("blocks that are gone"))
    }

    /// Has it told that nothing is left of some blocks, unless another file does.
    fn leave_out(&mut self, void: Void) {
        if self.known.is_told_elsewhere(void.from, void.to, self.stream, &self.numbers) {
            return;
        }
        let mut whole = self.known.widened(&void);
        if whole.from <= self.floor {
            // What a file tells comes behind what is before it in its directory.
            (whole.from, whole.first) = (void.from, void.first);
        }
        match self.voids.last_mut() {
            Some(last) if last.touches(&whole) => *last = last.with(&whole),
            _ => self.voids.push(whole),
        }
    }

    /// Whether the open block could still be compressed with so many bytes of records more, and the table.
    fn has_room_for(&self, records: usize) -> bool {
        let Some(open) = self.open.as_ref().filter(|open| open.count > 0) else { return true };
        let table = RANGE_BYTES_MAX * (2 + self.voids.len());
        let length = raw_length(table + open.records.len() + records) + BLOCK_ALIGN_BYTES as u64;
        length <= RAW_BYTES_MAX as u64
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
            Some(Open { own: Stretch { from, to, lsns }, first, .. }) => {
                self.leave_out(Void { from, to, first, next: first.after(lsns) });
            }
            None => {}
        }
    }

    fn emit(&mut self, open: Open) {
        let Open { own, first, count, records, .. } = open;
        let mut body = Vec::with_capacity(records.len() + 16 * (1 + self.voids.len()));
        put_table(&own, first, &self.voids, &mut body);
        body.extend_from_slice(&records);
        // Without voids a table is what it was before that flag came to be.
        let flags = BLOCK_CONDENSED | if self.voids.is_empty() { 0 } else { BLOCK_TELLS };
        self.told.append(&mut self.voids);
        self.floor = own.to;
        self.full.push(Condensed { sequence: own.to, first, count, flags, lsns: own.lsns, body });
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

    /// The records of a block, as (sequence, records); and the sequences that it stands for, with their
    /// `Lsn`s.
    fn read(block: &Condensed) -> (Vec<Stretch>, Vec<u64>) {
        let mut rest = &block.body[..];
        let table = table_of(block, &mut rest);
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
        (table.voids.into_iter().map(|told| told.blocks).chain([table.own]).collect(), numbers)
    }

    fn table_of(block: &Condensed, rest: &mut &[u8]) -> Table {
        Table::of(&block.header(1, 0), rest).unwrap()
    }

    fn condenser(known: &Voids) -> Condenser<'_> {
        Condenser::new(known, 0, 1..=1, 0, &Sizes::SMALL)
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
            let mut known = Voids::default();
            let mut condenser = condenser(&known);
            for (own, first, numbers) in &parts {
                let records = body(numbers);
                let table = Table { own: *own, is_void: false, voids: Vec::new() };
                let part = Part { table, first: *first, count: numbers.len() as u32, records: &records };
                condenser.push(&part, |lsn, _| keeps(lsn.0, kept[0])).unwrap();
            }
            condenser.finish();
            let Condenser { full: once, told, .. } = condenser;
            told.iter().for_each(|void| known.note(void, (0, 1)));
            let mut condenser = self::condenser(&known);
            for block in &once {
                let mut records = &block.body[..];
                let table = table_of(block, &mut records);
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
            for flags in [BLOCK_CONDENSED, BLOCK_CONDENSED | BLOCK_TELLS] {
                let (sequence, first) = (1 << 40, Lsn(1 << 40));
                let block = Condensed { sequence, first, count: 1, flags, lsns: 1, body: Vec::new() };
                let Ok(table) = Table::of(&block.header(1, 0), &mut &bytes[..]) else { continue };
                for void in table.voids.iter().filter_map(Told::void) {
                    prop_assert!(void.to < table.own.from && void.first <= void.next && void.next <= first);
                }
            }
        }
    }

    #[test]
    fn what_is_told_comes_behind_the_files_before() {
        // A run goes over block 10, the end of the file before, where a repair has told of it.
        let mut known = Voids::default();
        known.note(&Void { from: 3, to: 10, first: Lsn(30), next: Lsn(110) }, (1, 1));
        known.note(&Void { from: 12, to: 13, first: Lsn(120), next: Lsn(140) }, (1, 2));
        let mut condenser = Condenser::new(&known, 0, 2..=2, 10, &Sizes::SMALL);
        for sequence in [11, 15] {
            let own = Stretch { from: sequence, to: sequence, lsns: 10 };
            let table = Table { own, is_void: false, voids: Vec::new() };
            let part = Part { table, first: Lsn(sequence * 10), count: 0, records: &[] };
            condenser.push(&part, |_, _| false).unwrap();
        }
        condenser.finish();
        assert_eq!(condenser.told, [Void { from: 11, to: 13, first: Lsn(110), next: Lsn(140) }]);
        let block = condenser.full.pop().unwrap();
        assert_eq!(
            read(&block).0.iter().map(|it| (it.from, it.to)).collect::<Vec<_>>(),
            [(11, 13), (15, 15)]
        );
    }

    #[test]
    fn a_block_without_records_is_not_compressed() {
        for (count, is_packed) in [(0, false), (1, true)] {
            let (flags, lsns, body) = (BLOCK_CONDENSED, 1, vec![0; 1_000]);
            let block = Condensed { sequence: 1, first: Lsn(1), count, flags, lsns, body };
            let mut bytes = Vec::new();
            let sealed = block.seal(7, 512, Compression::Lz4, &mut bytes);
            let header = BlockHeader::parse(&bytes, 7).unwrap();
            assert_eq!((header.flags & BLOCK_LZ4 != 0, sealed.is_tried), (is_packed, is_packed));
            assert_eq!((sealed.length, bytes.len() as u64), (header.length, header.length));
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
        let table = Table { own, is_void: false, voids: Vec::new() };
        let known = Voids::default();
        let mut condenser = condenser(&known);
        let part = Part { table, first: Lsn(7), count: 3, records: &records };
        condenser.push(&part, |lsn, _| lsn != Lsn(8)).unwrap();
        condenser.finish();
        let block = condenser.full.pop().unwrap();
        let mut rest = &block.body[..];
        table_of(&block, &mut rest);
        let records: Vec<_> = Records::new(rest, block.first, block.count).map(Result::unwrap).collect();
        let seen: Vec<_> = records.iter().map(|record| (record.lsn.0, record.group)).collect();
        assert_eq!(seen, [(7, 1), (9, 1)]);
    }
}
