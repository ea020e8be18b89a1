//! The types of a committed change, which the log and the tables share.
//!
//! A command reads entries and answers with a [`Batch`] of [`Write`]s; the engine appends the batch to the
//! log as one atomic group, which gives each write its [`Lsn`], and then applies the same writes to the
//! table. Recovery reads the same writes back and applies them by the same code, so a change has one meaning.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Log sequence number: 1, 2, 3 …, one for each record; 0 means "before everything".
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The `Lsn` before the first record.
    pub const ZERO: Lsn = Lsn(0);

    /// All are below this: tables keep them in 48 bits.
    pub(crate) const END: Lsn = Lsn(1 << 48);

    /// A change that would be numbered beyond this is refused. That is far enough before the end for whatever
    /// begins behind the newest record to have room.
    pub const LIMIT: Lsn = Lsn((1 << 48) - (1 << 34));

    /// The `Lsn` `count` records later.
    pub const fn after(self, count: u64) -> Lsn {
        Lsn(self.0 + count)
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lsn({})", self.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A point in time, in milliseconds since the Unix epoch.
pub type UnixMs = u64;

/// Number of logical databases at most; a record holds the database in one byte.
pub const DATABASES_MAX: usize = 256;

/// The latest point in time that a field of a hash may have: a double holds it exactly.
pub const FIELD_TIME_MAX: UnixMs = (1 << 53) - 1;

/// Longest key or element in bytes (`proto-max-bulk-len` of Redis).
pub const BYTES_MAX: usize = 512 << 20;

/// Most elements of a list that is logged again in parts: a replay makes room for them when it begins.
pub const RENEWED_LENGTH_MAX: u64 = 1 << 26;
/// Most bytes of such a string.
const RENEWED_BYTES_MAX: u64 = BYTES_MAX as u64;

/// The ID of an entry: a time in milliseconds since the Unix epoch, and a number within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Milliseconds.
    pub ms: u64,
    /// The number.
    pub seq: u64,
}

impl StreamId {
    /// `0-0`, which no entry has.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The greatest.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// With these numbers.
    pub const fn new(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    /// The next greater one.
    pub fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The next smaller one.
    pub fn previous(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// The type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A byte string.
    String = 0,
    /// A list of byte strings.
    List = 1,
    /// A set of byte strings.
    Set = 2,
    /// Byte strings ordered by a score.
    ZSet = 3,
    /// Fields with values.
    Hash = 4,
    /// A JSON document: its text, of which the engine knows nothing more (`docs/design/0022`).
    Json = 5,
    /// Entries in the order of their IDs, and who has read them.
    Stream = 6,
}

impl Kind {
    /// The name that `TYPE` replies.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::ZSet => "zset",
            Kind::Hash => "hash",
            Kind::Json => "ReJSON-RL",
            Kind::Stream => "stream",
        }
    }

    /// Whether the value is one run of bytes, a string or the text of a document, and has no elements.
    pub const fn is_bytes(self) -> bool {
        matches!(self, Kind::String | Kind::Json)
    }

    /// How long a value may be that is logged again in parts: elements of a list, bytes of a string.
    pub const fn renewed_length_max(self) -> u64 {
        match self {
            Kind::String | Kind::Json => RENEWED_BYTES_MAX,
            Kind::List => RENEWED_LENGTH_MAX,
            Kind::Set | Kind::ZSet | Kind::Hash | Kind::Stream => u64::MAX,
        }
    }

    /// The kind with this number, if there is one.
    pub const fn from_u8(number: u8) -> Option<Kind> {
        Some(match number {
            0 => Kind::String,
            1 => Kind::List,
            2 => Kind::Set,
            3 => Kind::ZSet,
            4 => Kind::Hash,
            5 => Kind::Json,
            6 => Kind::Stream,
            _ => return None,
        })
    }
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Index 0.
    Front,
    /// Index -1.
    Back,
}

/// Bytes that a change carries: borrowed from a request or a block where they stand there, owned where a
/// command made them.
pub type Bytes<'a> = Cow<'a, [u8]>;

/// A value that is made already, beside the records that say it: `Change::Prepared` hands it to the entry, so
/// that nobody waits until it is made. No record has it. What it is made of is known to `value` alone.
#[derive(Clone, Default)]
pub struct Made(Option<Arc<dyn Any + Send + Sync>>);

impl Made {
    /// A value, in whatever form.
    pub(crate) fn of(value: impl Any + Send + Sync) -> Made {
        Made(Some(Arc::new(value)))
    }

    /// The value, if it is there and has this form.
    pub(crate) fn as_form<T: Any>(&self) -> Option<&T> {
        self.0.as_deref().and_then(|value| value.downcast_ref())
    }
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "made" } else { "not made" })
    }
}

/// Changes are equal whose records are.
impl PartialEq for Made {
    fn eq(&self, _: &Made) -> bool {
        true
    }
}

/// One change of one key. An after-image of the smallest unit that changes, or, for lists and for strings
/// changed in part, a delta that is valid with the records before it. Replayed in order of `Lsn` for each
/// key.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<'a> {
    /// The key is this string now, whatever it was before.
    Put {
        /// The whole value.
        value: Bytes<'a>,
        /// When the key expires.
        expiry: Option<UnixMs>,
    },
    /// The string has these bytes at `offset` now, zero-filled up to there (`APPEND`, `SETRANGE`, `SETBIT`).
    /// Keeps the expiry; creates the key.
    Patch {
        /// Where the bytes begin.
        offset: u64,
        /// The bytes.
        bytes: Bytes<'a>,
    },
    /// The key is gone.
    Delete,
    /// The key expires then, or never.
    Expire(Option<UnixMs>),
    /// A field of a hash has this value; creates the key.
    HashPut {
        /// The field.
        field: Bytes<'a>,
        /// Its value.
        value: Bytes<'a>,
    },
    /// A field of a hash is gone; the last one takes the key with it.
    HashRemove {
        /// The field.
        field: Bytes<'a>,
    },
    /// A field of a hash is gone after this point in time, or never goes by itself. Of a field that is not
    /// there nothing is said. A `HashPut` takes the time of its field away.
    HashExpire {
        /// The field.
        field: Bytes<'a>,
        /// The point in time, at most [`FIELD_TIME_MAX`].
        at: Option<UnixMs>,
    },
    /// The set has this member; creates the key.
    SetAdd {
        /// The member.
        member: Bytes<'a>,
    },
    /// The set lacks this member; the last one takes the key with it.
    SetRemove {
        /// The member.
        member: Bytes<'a>,
    },
    /// The member of the sorted set has this score; creates the key.
    ZSetPut {
        /// The member.
        member: Bytes<'a>,
        /// Its score, never NaN.
        score: f64,
    },
    /// The sorted set lacks this member; the last one takes the key with it.
    ZSetRemove {
        /// The member.
        member: Bytes<'a>,
    },
    /// One element more at an end; creates the key.
    ListPush {
        /// The end.
        side: Side,
        /// The element.
        element: Bytes<'a>,
    },
    /// `count` elements less at an end; the last one takes the key with it.
    ListPop {
        /// The end.
        side: Side,
        /// How many, at least 1.
        count: u64,
    },
    /// The element at `index` is this one now.
    ListPut {
        /// From the front, 0 first.
        index: u64,
        /// The element.
        element: Bytes<'a>,
    },
    /// A new element stands at `index`; what stood there and behind moves back by one.
    ListInsert {
        /// From the front, 0 first.
        index: u64,
        /// The element.
        element: Bytes<'a>,
    },
    /// The element at `index` is gone; the last one takes the key with it.
    ListRemove {
        /// From the front, 0 first.
        index: u64,
    },
    /// An element of a stream, such as an entry or a group, has this value; creates the key.
    StreamPut {
        /// The name of the element; see `value::stream::element`.
        name: Bytes<'a>,
        /// Its value.
        value: Bytes<'a>,
    },
    /// An element of a stream is gone. No command takes away the head.
    StreamRemove {
        /// The name of the element.
        name: Bytes<'a>,
    },
    /// The entries of a stream with smaller IDs are gone. What their groups know of them stays.
    StreamTrim {
        /// The smallest ID that stays.
        below: StreamId,
    },
    /// A group of a stream is gone, with its consumers and what is pending for them.
    StreamGroupRemove {
        /// The name of the group.
        group: Bytes<'a>,
    },
    /// The key holds this collection or this document now, whatever it was before (`RENAME`, `COPY`,
    /// `…STORE`, `JSON.SET`). Never empty.
    Image {
        /// The type; never a string, which is a `Put`.
        kind: Kind,
        /// Its elements in the form of `value::image`, or the text of a document.
        elements: Bytes<'a>,
        /// When the key expires.
        expiry: Option<UnixMs>,
        /// Whether it has passed a limit of Redis's small encodings, whatever its elements say.
        sticky: bool,
    },
    /// A part of a value that no key holds yet (`docs/design/0037`): `Prepared` will say that one does.
    PreparedPart {
        /// The type.
        kind: Kind,
        /// The first part, which is empty; `Lsn::ZERO` in that part itself.
        begun: Lsn,
        /// Elements in the form of `value::image`, or bytes of a string or of a document. Empty in a later
        /// part: the value is given up.
        bytes: Bytes<'a>,
    },
    /// The key holds the value now that the parts since `begun` say, whatever it was before.
    Prepared {
        /// The type.
        kind: Kind,
        /// The first part; `Lsn::ZERO` if there is none, as nothing is logged.
        begun: Lsn,
        /// How many parts there are, the first included.
        parts: u64,
        /// When the key expires.
        expiry: Option<UnixMs>,
        /// As in an image; of a string, that it was changed in part.
        sticky: bool,
        /// The value.
        value: Made,
    },
    /// The value of the key, of this type and length, is about to be logged again, part by part; see
    /// `renewal`.
    RenewalBegins {
        /// The type.
        kind: Kind,
        /// Elements, or bytes of a string.
        length: u64,
    },
    /// A part of a list or of a string that is being logged again: from `at` on, this is there.
    RenewalPart {
        /// `List`, `String` or `Json`; other kinds are logged again by their elements.
        kind: Kind,
        /// An index, or an offset, from 0.
        at: u64,
        /// Elements in the form of `value::image`, or bytes.
        bytes: Bytes<'a>,
    },
    /// All that the value is made of has been said since the record `begun`: what is older is not needed, and
    /// elements of a hash, a set or a sorted set that are older are gone.
    RenewalEnds {
        /// The type of the key's value.
        kind: Kind,
        /// Where that began.
        begun: Lsn,
    },
}

impl Change<'_> {
    /// Leaves a string as it is, but changed in part: `OBJECT ENCODING` says `raw` from then on.
    pub const MAKES_RAW: Change<'static> = Change::Patch { offset: 0, bytes: Cow::Borrowed(b"") };

    /// Whether it belongs to a renewal in parts.
    pub(crate) const fn is_of_renewal(&self) -> bool {
        use Change::{RenewalBegins, RenewalEnds, RenewalPart};
        matches!(self, RenewalBegins { .. } | RenewalPart { .. } | RenewalEnds { .. })
    }

    /// The type that the change makes or fits; `None` if it fits any.
    pub const fn kind(&self) -> Option<Kind> {
        Some(match self {
            Change::Put { .. } | Change::Patch { .. } => Kind::String,
            Change::Delete | Change::Expire(_) => return None,
            Change::HashPut { .. } | Change::HashRemove { .. } | Change::HashExpire { .. } => Kind::Hash,
            Change::SetAdd { .. } | Change::SetRemove { .. } => Kind::Set,
            Change::ZSetPut { .. } | Change::ZSetRemove { .. } => Kind::ZSet,
            Change::ListPush { .. }
            | Change::ListPop { .. }
            | Change::ListPut { .. }
            | Change::ListInsert { .. }
            | Change::ListRemove { .. } => Kind::List,
            Change::StreamPut { .. }
            | Change::StreamRemove { .. }
            | Change::StreamTrim { .. }
            | Change::StreamGroupRemove { .. } => Kind::Stream,
            Change::Image { kind, .. }
            | Change::PreparedPart { kind, .. }
            | Change::Prepared { kind, .. }
            | Change::RenewalBegins { kind, .. }
            | Change::RenewalPart { kind, .. }
            | Change::RenewalEnds { kind, .. } => *kind,
        })
    }
}

/// A change, and the number of its record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stamped<'c, 'a> {
    /// The number.
    pub lsn: Lsn,
    /// The change.
    pub change: &'c Change<'a>,
}

/// A change and where it happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Write<'a> {
    /// A change of one key.
    Key {
        /// The logical database.
        db: u8,
        /// The key.
        key: Bytes<'a>,
        /// The change of the key.
        change: Change<'a>,
    },
    /// A database loses all its keys; `None`: every database does.
    Flush {
        /// Which one.
        db: Option<u8>,
    },
    /// Two databases change places.
    Swap {
        /// One.
        a: u8,
        /// The other.
        b: u8,
    },
}

impl Write<'_> {
    /// Bytes that a command has made for this write. Those that it borrows from its request are not among
    /// them.
    pub fn owned_bytes(&self) -> usize {
        let owned = |bytes: &Bytes<'_>| if let Cow::Owned(bytes) = bytes { bytes.len() } else { 0 };
        let Write::Key { key, change, .. } = self else { return 0 };
        let of_change = match change {
            Change::Put { value: bytes, .. }
            | Change::Patch { bytes, .. }
            | Change::HashRemove { field: bytes }
            | Change::HashExpire { field: bytes, .. }
            | Change::SetAdd { member: bytes }
            | Change::SetRemove { member: bytes }
            | Change::ZSetPut { member: bytes, .. }
            | Change::ZSetRemove { member: bytes }
            | Change::ListPush { element: bytes, .. }
            | Change::ListPut { element: bytes, .. }
            | Change::ListInsert { element: bytes, .. }
            | Change::StreamRemove { name: bytes }
            | Change::StreamGroupRemove { group: bytes }
            | Change::Image { elements: bytes, .. }
            | Change::PreparedPart { bytes, .. }
            | Change::RenewalPart { bytes, .. } => owned(bytes),
            Change::HashPut { field: name, value } | Change::StreamPut { name, value } => {
                owned(name) + owned(value)
            }
            Change::Delete
            | Change::Expire(_)
            | Change::ListPop { .. }
            | Change::ListRemove { .. }
            | Change::StreamTrim { .. }
            | Change::Prepared { .. }
            | Change::RenewalBegins { .. }
            | Change::RenewalEnds { .. } => 0,
        };
        owned(key) + of_change
    }
}

/// The writes of one command: one atomic group in the log.
pub type Batch<'a> = smallvec::SmallVec<[Write<'a>; 1]>;
