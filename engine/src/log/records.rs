//! Reads records: an iterator over the body of a block, which borrows from it and trusts nothing in it.

use std::borrow::Cow;

use super::file::LSN_END;
use super::format::{
    FLAG_DB, FLAG_EXPIRY, FLAG_GROUP, FLAG_LSN, FLAG_STICKY, FLAGS_KNOWN, FormatError, kind, put_varint,
    take_varint,
};
use crate::record::{Bytes, Change, FIELD_TIME_MAX, Kind, Lsn, Made, Side, StreamId, UnixMs, Write};

/// One record of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Record<'a> {
    /// Its number.
    pub lsn: Lsn,
    /// How many records the atomic group has that begins with this one; 1 for a record alone, 0 inside a
    /// group.
    pub group: u32,
    /// The write that it records.
    pub write: Write<'a>,
}

/// The records of a block's body, in order. After an error it ends.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    next: Lsn,
    /// Records that the block still owes.
    count: u32,
    /// Records that the open group still owes.
    group: u32,
}

impl<'a> Records<'a> {
    /// The `count` records in `body`, of which the first has number `first`.
    pub fn new(body: &'a [u8], first: Lsn, count: u32) -> Records<'a> {
        Records { rest: body, next: first, count, group: 0 }
    }

    fn record(&mut self) -> Result<(Record<'a>, RawRecord<'a>), FormatError> {
        let head = Head::take(&mut self.rest)?;
        let group = if self.group > 0 { 0 } else { head.group };
        if group > 0 {
            if group > self.count {
                return Err(FormatError::BadCount);
            }
            self.group = group;
        } else if head.flags & FLAG_GROUP != 0 {
            return Err(FormatError::BadField("group inside a group"));
        }
        let lsn = self.next.0.checked_add(head.lsns_left_out).filter(|lsn| *lsn < LSN_END);
        let lsn = lsn.ok_or(FormatError::BadField("Lsn"))?;
        self.next = Lsn(lsn + 1);
        let write = take_write(&head, &mut self.rest)?;
        if let Write::Key { change: Change::RenewalEnds { begun, .. }, .. } = write
            && begun.0 >= lsn
        {
            return Err(FormatError::BadField("beginning of a renewal"));
        }
        self.group -= 1;
        self.count -= 1;
        let tail = &head.tail[..head.tail.len() - self.rest.len()];
        Ok((Record { lsn: Lsn(lsn), group, write }, RawRecord { kind: head.kind, flags: head.flags, tail }))
    }

    /// As `next`, with the bytes of the record.
    pub(super) fn next_raw(&mut self) -> Option<Result<(Record<'a>, RawRecord<'a>), FormatError>> {
        if self.count == 0 {
            // Zeros pad a block; no record begins with one.
            let left_over = self.rest.iter().any(|byte| *byte != 0);
            self.rest = &[];
            return left_over.then_some(Err(FormatError::BadCount));
        }
        let record = self.record();
        if record.is_err() {
            self.count = 0;
            self.rest = &[];
        }
        Some(record)
    }
}

/// The bytes of a record, without what depends on those around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawRecord<'a> {
    kind: u8,
    flags: u8,
    /// Database, expiry and fields.
    tail: &'a [u8],
}

impl RawRecord<'_> {
    /// Appends the record as one that is alone, behind `lsns_left_out` that are not there.
    pub(super) fn put(&self, bytes: &mut Vec<u8>, lsns_left_out: u64) {
        let flags = self.flags & !(FLAG_GROUP | FLAG_LSN);
        bytes.extend_from_slice(&[self.kind, flags | if lsns_left_out > 0 { FLAG_LSN } else { 0 }]);
        if lsns_left_out > 0 {
            put_varint(bytes, lsns_left_out);
        }
        bytes.extend_from_slice(self.tail);
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_raw().map(|record| record.map(|(record, _)| record))
    }
}

/// The bytes before the fields of a record.
struct Head<'a> {
    kind: u8,
    flags: u8,
    group: u32,
    lsns_left_out: u64,
    db: u8,
    expiry: Option<UnixMs>,
    /// The bytes after group and `Lsn`.
    tail: &'a [u8],
}

impl<'a> Head<'a> {
    fn take(rest: &mut &'a [u8]) -> Result<Head<'a>, FormatError> {
        let (kind, flags) = (take_u8(rest)?, take_u8(rest)?);
        if !(kind::PUT..=kind::HASH_EXPIRE).contains(&kind) {
            return Err(FormatError::UnknownType(kind));
        }
        let may_expire =
            matches!(kind, kind::PUT | kind::EXPIRE | kind::IMAGE | kind::PREPARED | kind::HASH_EXPIRE);
        let has_db = !matches!(kind, kind::FLUSH_ALL | kind::SWAP);
        if flags & !FLAGS_KNOWN != 0
            || flags & FLAG_EXPIRY != 0 && !may_expire
            || flags & FLAG_DB != 0 && !has_db
            || flags & FLAG_STICKY != 0 && !matches!(kind, kind::IMAGE | kind::PREPARED)
        {
            return Err(FormatError::BadFlags { kind, flags });
        }
        let mut head = Head { kind, flags, group: 1, lsns_left_out: 0, db: 0, expiry: None, tail: &[] };
        if flags & FLAG_GROUP != 0 {
            head.group = u32::try_from(take_varint(rest)?).map_err(|_| FormatError::BadNumber)?;
            if head.group < 2 {
                return Err(FormatError::BadField("group of fewer than two"));
            }
        }
        if flags & FLAG_LSN != 0 {
            head.lsns_left_out = take_varint(rest)?;
        }
        head.tail = rest;
        if flags & FLAG_DB != 0 {
            head.db = take_u8(rest)?;
        }
        if flags & FLAG_EXPIRY != 0 {
            head.expiry = Some(take_varint(rest)?);
        }
        Ok(head)
    }
}

fn take_write<'a>(head: &Head<'_>, rest: &mut &'a [u8]) -> Result<Write<'a>, FormatError> {
    let db = head.db;
    Ok(match head.kind {
        kind::FLUSH => Write::Flush { db: Some(db) },
        kind::FLUSH_ALL => Write::Flush { db: None },
        kind::SWAP => Write::Swap { a: take_u8(rest)?, b: take_u8(rest)? },
        _ => {
            let key = take_bytes(rest)?;
            Write::Key { db, key, change: take_change(head, rest)? }
        }
    })
}

fn take_change<'a>(head: &Head<'_>, rest: &mut &'a [u8]) -> Result<Change<'a>, FormatError> {
    let expiry = head.expiry;
    Ok(match head.kind {
        kind::PUT => Change::Put { value: take_bytes(rest)?, expiry },
        kind::PATCH => Change::Patch { offset: take_varint(rest)?, bytes: take_bytes(rest)? },
        kind::DELETE => Change::Delete,
        kind::EXPIRE => Change::Expire(expiry),
        kind::HASH_PUT => Change::HashPut { field: take_bytes(rest)?, value: take_bytes(rest)? },
        kind::HASH_REMOVE => Change::HashRemove { field: take_bytes(rest)? },
        kind::HASH_EXPIRE => {
            if expiry.is_some_and(|at| at > FIELD_TIME_MAX) {
                return Err(FormatError::BadField("time of a field"));
            }
            Change::HashExpire { field: take_bytes(rest)?, at: expiry }
        }
        kind::SET_ADD => Change::SetAdd { member: take_bytes(rest)? },
        kind::SET_REMOVE => Change::SetRemove { member: take_bytes(rest)? },
        kind::ZSET_PUT => Change::ZSetPut { member: take_bytes(rest)?, score: take_score(rest)? },
        kind::ZSET_REMOVE => Change::ZSetRemove { member: take_bytes(rest)? },
        kind::LIST_PUSH_FRONT => Change::ListPush { side: Side::Front, element: take_bytes(rest)? },
        kind::LIST_PUSH_BACK => Change::ListPush { side: Side::Back, element: take_bytes(rest)? },
        kind::LIST_POP_FRONT => Change::ListPop { side: Side::Front, count: take_pop_count(rest)? },
        kind::LIST_POP_BACK => Change::ListPop { side: Side::Back, count: take_pop_count(rest)? },
        kind::LIST_PUT => Change::ListPut { index: take_varint(rest)?, element: take_bytes(rest)? },
        kind::LIST_INSERT => Change::ListInsert { index: take_varint(rest)?, element: take_bytes(rest)? },
        kind::LIST_REMOVE => Change::ListRemove { index: take_varint(rest)? },
        kind::IMAGE => {
            let kind = Kind::from_u8(take_u8(rest)?).filter(|kind| *kind != Kind::String);
            let kind = kind.ok_or(FormatError::BadField("kind of an image"))?;
            let sticky = head.flags & FLAG_STICKY != 0;
            Change::Image { kind, elements: take_bytes(rest)?, expiry, sticky }
        }
        kind::RENEWAL_BEGIN => {
            let (kind, length) = (take_kind(rest)?, take_varint(rest)?);
            if length > kind.renewed_length_max() {
                return Err(FormatError::BadField("length of a rewritten value"));
            }
            Change::RenewalBegins { kind, length }
        }
        kind::RENEWAL_PART => {
            let kind = take_kind(rest)?;
            if !kind.is_bytes() && kind != Kind::List {
                return Err(FormatError::BadField("kind of a rewritten value"));
            }
            Change::RenewalPart { kind, at: take_varint(rest)?, bytes: take_bytes(rest)? }
        }
        kind::RENEWAL_END => Change::RenewalEnds { kind: take_kind(rest)?, begun: Lsn(take_varint(rest)?) },
        kind::PREPARED_PART => {
            let (kind, begun) = (take_prepared_kind(rest)?, Lsn(take_varint(rest)?));
            Change::PreparedPart { kind, begun, bytes: take_bytes(rest)? }
        }
        kind::PREPARED => {
            let (kind, begun) = (take_prepared_kind(rest)?, Lsn(take_varint(rest)?));
            let (parts, sticky) = (take_varint(rest)?, head.flags & FLAG_STICKY != 0);
            Change::Prepared { kind, begun, parts, expiry, sticky, value: Made::default() }
        }
        kind::STREAM_PUT => Change::StreamPut { name: take_bytes(rest)?, value: take_bytes(rest)? },
        kind::STREAM_REMOVE => Change::StreamRemove { name: take_bytes(rest)? },
        kind::STREAM_TRIM => {
            let (ms, seq) = (take_varint(rest)?, take_varint(rest)?);
            Change::StreamTrim { below: StreamId::new(ms, seq) }
        }
        kind::STREAM_GROUP_REMOVE => Change::StreamGroupRemove { group: take_bytes(rest)? },
        unknown => return Err(FormatError::UnknownType(unknown)),
    })
}

fn take_u8(rest: &mut &[u8]) -> Result<u8, FormatError> {
    let (&byte, after) = rest.split_first().ok_or(FormatError::CutOff)?;
    *rest = after;
    Ok(byte)
}

fn take_kind(rest: &mut &[u8]) -> Result<Kind, FormatError> {
    Kind::from_u8(take_u8(rest)?).ok_or(FormatError::BadField("kind of a rewritten value"))
}

fn take_prepared_kind(rest: &mut &[u8]) -> Result<Kind, FormatError> {
    Kind::from_u8(take_u8(rest)?).ok_or(FormatError::BadField("kind of a prepared value"))
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Result<Bytes<'a>, FormatError> {
    let length = usize::try_from(take_varint(rest)?).map_err(|_| FormatError::CutOff)?;
    let (bytes, after) = rest.split_at_checked(length).ok_or(FormatError::CutOff)?;
    *rest = after;
    Ok(Cow::Borrowed(bytes))
}

fn take_score(rest: &mut &[u8]) -> Result<f64, FormatError> {
    let (bytes, after) = rest.split_first_chunk().ok_or(FormatError::CutOff)?;
    *rest = after;
    let score = f64::from_le_bytes(*bytes);
    if score.is_nan() { Err(FormatError::BadField("score")) } else { Ok(score) }
}

fn take_pop_count(rest: &mut &[u8]) -> Result<u64, FormatError> {
    match take_varint(rest)? {
        0 => Err(FormatError::BadField("count of elements")),
        count => Ok(count),
    }
}
