//! The parts of a stream, as visitors are told them and writers take them.

use std::fmt;

/// The ID of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Milliseconds since the Unix epoch.
    pub ms: u64,
    /// The number within them.
    pub seq: u64,
}

impl StreamId {
    pub(crate) fn of_bytes(bytes: [u8; 16]) -> StreamId {
        let number = u128::from_be_bytes(bytes);
        StreamId { ms: (number >> 64) as u64, seq: number as u64 }
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// A stream as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamHead {
    /// Not below the ID of any entry.
    pub last_id: StreamId,
    /// How many entries were added, at least as many as there are. Type 15 does not say it; then as many.
    pub entries_added: u64,
    /// The greatest ID of an entry that was removed. Type 15 does not say it; then `0-0`.
    pub max_deleted_id: StreamId,
}

/// A group of consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// The last entry that was delivered.
    pub last_id: StreamId,
    /// How many entries it has read, if that is known. Type 15 does not say it; then it is told where it
    /// follows from the IDs, as Redis does.
    pub entries_read: Option<u64>,
}

/// A consumer of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// When it asked for something last, in milliseconds since the Unix epoch.
    pub seen_ms: u64,
    /// When it got something last. Only types 21 and 26 say it; of others it is when it was seen, as in
    /// Redis.
    pub active_ms: Option<u64>,
}

/// An entry that was delivered and is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending<'a> {
    /// Its ID. The entry itself may be gone.
    pub id: StreamId,
    /// To whom it was delivered.
    pub consumer: &'a [u8],
    /// When it was delivered last, in milliseconds since the Unix epoch.
    pub delivered_ms: u64,
    /// How often.
    pub deliveries: u64,
}

/// A message of a producer, which is added once however often it comes. Only type 26 has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The name that the producer gave it.
    pub name: &'a [u8],
    /// The ID of its entry, which may be gone.
    pub id: StreamId,
}

/// The way in which a stream remembers messages of producers. Only type 26 says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idempotence {
    /// For how many seconds.
    pub duration_s: u64,
    /// How many of each producer at most.
    pub messages_max: u64,
    /// How many were added.
    pub added: u64,
    /// How many came again, and were not added.
    pub duplicates: u64,
}

/// In the place of the time at which a consumer got something last, if it never did.
pub(super) const NEVER: i64 = -1;
/// In the place of the number of entries that a group has read, if it is not known.
pub(super) const UNKNOWN: u64 = u64::MAX;
