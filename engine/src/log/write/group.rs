//! Encodes the writes of one command as records, outside every lock.
//!
//! ```text
//! type u8 | flags u8 | [group varint] | [lsn varint] | [db u8] | [expiry varint] | fields of the type
//! ```
//!
//! A record says neither its `Lsn` nor its length: the first is one more than that of the record before, the
//! second follows from the fields. So a group is copied into the block as it stands, whatever `Lsn` it gets.

use crate::log::format::{FLAG_DB, FLAG_EXPIRY, FLAG_GROUP, FLAG_STICKY, kind, put_varint};
use crate::record::{Change, Kind, Lsn, Side, UnixMs, Write};

/// Bytes of capacity that a cleared group keeps at most, so that one giant command does not hold memory for
/// ever.
const CAPACITY_KEPT_BYTES: usize = 1 << 20;

/// The encoded records of one command: one atomic group of the log. Made once, cleared and used again.
#[derive(Debug, Default)]
pub struct Group {
    bytes: Vec<u8>,
    count: u32,
    insists: bool,
    /// The first part of the prepared value that it puts in its place.
    prepared: Option<Lsn>,
}

impl Group {
    /// A group without records.
    pub fn new() -> Group {
        Group::default()
    }

    /// Lets the log take what is committed next however much waits to be written. For who cannot do again
    /// what the records tell of, and has seen before that there is room.
    pub fn insist(&mut self) {
        self.insists = true;
    }

    /// Whether the log is to take it however much waits.
    pub(in crate::log) fn insists(&self) -> bool {
        self.insists
    }

    /// Lets the log refuse again, for want of room, the next commit.
    pub(crate) fn end_insisting(&mut self) {
        self.insists = false;
    }

    /// Adds a record behind those that are there.
    pub fn push(&mut self, write: &Write<'_>) {
        self.count = self.count.checked_add(1).expect("a group has fewer than 2^32 records");
        match write {
            Write::Key { db, key, change } => self.push_change(*db, key, change),
            Write::Flush { db: Some(db) } => self.head(kind::FLUSH, 0, *db, None),
            Write::Flush { db: None } => self.head(kind::FLUSH_ALL, 0, 0, None),
            Write::Swap { a, b } => {
                self.head(kind::SWAP, 0, 0, None);
                self.bytes.extend_from_slice(&[*a, *b]);
            }
        }
    }

    /// How many records there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that the group takes in a block, give or take a few.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets the records and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(CAPACITY_KEPT_BYTES);
        self.count = 0;
        self.prepared = None;
    }

    /// The first part of the prepared value that a record here says a key holds.
    pub(crate) fn prepared(&self) -> Option<Lsn> {
        self.prepared
    }

    /// Copies the group to the end of a block's body. REQUIRES: it is not empty.
    pub(in crate::log) fn copy_to(&self, body: &mut Vec<u8>) {
        if self.count == 1 {
            body.extend_from_slice(&self.bytes);
            return;
        }
        let (head, rest) = self.bytes.split_at(2);
        body.extend_from_slice(&[head[0], head[1] | FLAG_GROUP]);
        put_varint(body, u64::from(self.count));
        body.extend_from_slice(rest);
    }

    fn push_change(&mut self, db: u8, key: &[u8], change: &Change<'_>) {
        let (record_kind, expiry) = kind_and_expiry(change);
        let sticky =
            matches!(change, Change::Image { sticky: true, .. } | Change::Prepared { sticky: true, .. });
        let flags = if sticky { FLAG_STICKY } else { 0 };
        self.head(record_kind, flags, db, expiry);
        self.field(key);
        match change {
            Change::Delete | Change::Expire(_) => {}
            Change::Put { value, .. } => self.field(value),
            Change::Patch { offset: number, bytes }
            | Change::ListPut { index: number, element: bytes }
            | Change::ListInsert { index: number, element: bytes } => {
                put_varint(&mut self.bytes, *number);
                self.field(bytes);
            }
            Change::HashPut { field: name, value } | Change::StreamPut { name, value } => {
                self.field(name);
                self.field(value);
            }
            Change::HashRemove { field: bytes }
            | Change::HashExpire { field: bytes, .. }
            | Change::SetAdd { member: bytes }
            | Change::SetRemove { member: bytes }
            | Change::ZSetRemove { member: bytes }
            | Change::ListPush { element: bytes, .. }
            | Change::StreamRemove { name: bytes }
            | Change::StreamGroupRemove { group: bytes } => self.field(bytes),
            Change::StreamTrim { below } => {
                put_varint(&mut self.bytes, below.ms);
                put_varint(&mut self.bytes, below.seq);
            }
            Change::ZSetPut { member, score } => {
                debug_assert!(!score.is_nan(), "no score is NaN");
                self.field(member);
                self.bytes.extend_from_slice(&score.to_le_bytes());
            }
            Change::ListPop { count: number, .. } | Change::ListRemove { index: number } => {
                put_varint(&mut self.bytes, *number);
            }
            Change::Image { kind, elements, .. } => {
                debug_assert!(*kind != Kind::String, "the image of a string is a Put");
                self.bytes.push(*kind as u8);
                self.field(elements);
            }
            Change::PreparedPart { kind, begun, bytes } => {
                self.bytes.push(*kind as u8);
                put_varint(&mut self.bytes, begun.0);
                self.field(bytes);
            }
            Change::Prepared { kind, begun, parts, .. } => {
                self.bytes.push(*kind as u8);
                put_varint(&mut self.bytes, begun.0);
                put_varint(&mut self.bytes, *parts);
                self.prepared = Some(*begun);
            }
            Change::RenewalPart { kind, at, bytes } => {
                self.bytes.push(*kind as u8);
                put_varint(&mut self.bytes, *at);
                self.field(bytes);
            }
            Change::RenewalBegins { kind, length: number }
            | Change::RenewalEnds { kind, begun: Lsn(number) } => {
                self.bytes.push(*kind as u8);
                put_varint(&mut self.bytes, *number);
            }
        }
    }

    fn head(&mut self, record_kind: u8, flags: u8, db: u8, expiry: Option<UnixMs>) {
        let flags =
            flags | if db == 0 { 0 } else { FLAG_DB } | if expiry.is_none() { 0 } else { FLAG_EXPIRY };
        self.bytes.extend_from_slice(&[record_kind, flags]);
        if db != 0 {
            self.bytes.push(db);
        }
        if let Some(expiry) = expiry {
            put_varint(&mut self.bytes, expiry);
        }
    }

    fn field(&mut self, bytes: &[u8]) {
        put_varint(&mut self.bytes, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }
}

fn kind_and_expiry(change: &Change<'_>) -> (u8, Option<UnixMs>) {
    let record_kind = match change {
        Change::Put { expiry, .. } => return (kind::PUT, *expiry),
        Change::Expire(expiry) => return (kind::EXPIRE, *expiry),
        Change::HashExpire { at, .. } => return (kind::HASH_EXPIRE, *at),
        Change::Image { expiry, .. } => return (kind::IMAGE, *expiry),
        Change::Prepared { expiry, .. } => return (kind::PREPARED, *expiry),
        Change::PreparedPart { .. } => kind::PREPARED_PART,
        Change::Patch { .. } => kind::PATCH,
        Change::Delete => kind::DELETE,
        Change::HashPut { .. } => kind::HASH_PUT,
        Change::HashRemove { .. } => kind::HASH_REMOVE,
        Change::StreamPut { .. } => kind::STREAM_PUT,
        Change::StreamRemove { .. } => kind::STREAM_REMOVE,
        Change::StreamTrim { .. } => kind::STREAM_TRIM,
        Change::StreamGroupRemove { .. } => kind::STREAM_GROUP_REMOVE,
        Change::SetAdd { .. } => kind::SET_ADD,
        Change::SetRemove { .. } => kind::SET_REMOVE,
        Change::ZSetPut { .. } => kind::ZSET_PUT,
        Change::ZSetRemove { .. } => kind::ZSET_REMOVE,
        Change::ListPush { side: Side::Front, .. } => kind::LIST_PUSH_FRONT,
        Change::ListPush { side: Side::Back, .. } => kind::LIST_PUSH_BACK,
        Change::ListPop { side: Side::Front, .. } => kind::LIST_POP_FRONT,
        Change::ListPop { side: Side::Back, .. } => kind::LIST_POP_BACK,
        Change::ListPut { .. } => kind::LIST_PUT,
        Change::ListInsert { .. } => kind::LIST_INSERT,
        Change::ListRemove { .. } => kind::LIST_REMOVE,
        Change::RenewalBegins { .. } => kind::RENEWAL_BEGIN,
        Change::RenewalPart { .. } => kind::RENEWAL_PART,
        Change::RenewalEnds { .. } => kind::RENEWAL_END,
    };
    (record_kind, None)
}
