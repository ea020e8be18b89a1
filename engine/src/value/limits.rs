//! The limits up to which Redis uses its small encodings.
//!
//! Tarn's own forms do not depend on them; only what `OBJECT ENCODING` replies does. Redis converts when a
//! write passes a limit, and never back, so an entry notes at the write that it passed ([`current`] is read
//! then).

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::record::Kind;

/// Longest string that Redis keeps in one allocation with its object.
const EMBSTR_BYTES_MAX: usize = 44;

/// `hash-max-listpack-entries` and its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodingLimits {
    /// `hash-max-listpack-entries`: fields.
    pub hash_listpack_entries: usize,
    /// `hash-max-listpack-value`: bytes of a field or a value.
    pub hash_listpack_value: usize,
    /// `set-max-intset-entries`: members.
    pub set_intset_entries: usize,
    /// `zset-max-listpack-entries`: members.
    pub zset_listpack_entries: usize,
    /// `zset-max-listpack-value`: bytes of a member.
    pub zset_listpack_value: usize,
}

impl EncodingLimits {
    /// The defaults of Redis 7.0.
    pub const REDIS: EncodingLimits = EncodingLimits {
        hash_listpack_entries: 512,
        hash_listpack_value: 64,
        set_intset_entries: 512,
        zset_listpack_entries: 128,
        zset_listpack_value: 64,
    };
}

impl EncodingLimits {
    /// Whether Redis leaves the small encoding when a collection has `len` elements and one of them is this.
    pub(crate) fn passed(&self, kind: Kind, len: usize, name: &[u8], value: &[u8]) -> bool {
        match kind {
            Kind::String | Kind::List | Kind::Json | Kind::Stream => false,
            Kind::Set => len > self.set_intset_entries || !is_integer(name),
            Kind::ZSet => len > self.zset_listpack_entries || name.len() > self.zset_listpack_value,
            Kind::Hash => {
                len > self.hash_listpack_entries || name.len().max(value.len()) > self.hash_listpack_value
            }
        }
    }
}

impl Default for EncodingLimits {
    fn default() -> Self {
        Self::REDIS
    }
}

static HASH_ENTRIES: AtomicUsize = AtomicUsize::new(EncodingLimits::REDIS.hash_listpack_entries);
static HASH_VALUE: AtomicUsize = AtomicUsize::new(EncodingLimits::REDIS.hash_listpack_value);
static SET_ENTRIES: AtomicUsize = AtomicUsize::new(EncodingLimits::REDIS.set_intset_entries);
static ZSET_ENTRIES: AtomicUsize = AtomicUsize::new(EncodingLimits::REDIS.zset_listpack_entries);
static ZSET_VALUE: AtomicUsize = AtomicUsize::new(EncodingLimits::REDIS.zset_listpack_value);

/// The limits in force for writes.
pub fn current() -> EncodingLimits {
    EncodingLimits {
        hash_listpack_entries: HASH_ENTRIES.load(Relaxed),
        hash_listpack_value: HASH_VALUE.load(Relaxed),
        set_intset_entries: SET_ENTRIES.load(Relaxed),
        zset_listpack_entries: ZSET_ENTRIES.load(Relaxed),
        zset_listpack_value: ZSET_VALUE.load(Relaxed),
    }
}

/// Puts limits in force for later writes (`CONFIG SET`).
pub fn set_current(limits: EncodingLimits) {
    HASH_ENTRIES.store(limits.hash_listpack_entries, Relaxed);
    HASH_VALUE.store(limits.hash_listpack_value, Relaxed);
    SET_ENTRIES.store(limits.set_intset_entries, Relaxed);
    ZSET_ENTRIES.store(limits.zset_listpack_entries, Relaxed);
    ZSET_VALUE.store(limits.zset_listpack_value, Relaxed);
}

/// The encoding of a string that was put as a whole.
pub(crate) fn string_encoding(value: &[u8]) -> &'static str {
    match value {
        _ if is_integer(value) => "int",
        _ if value.len() <= EMBSTR_BYTES_MAX => "embstr",
        _ => "raw",
    }
}

/// Whether Redis would keep `bytes` as an integer: the shortest decimal form of an `i64`, no sign but a
/// minus.
pub fn is_integer(bytes: &[u8]) -> bool {
    let (negative, digits) = match bytes.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, bytes),
    };
    match digits {
        [b'0'] => !negative,
        [b'1'..=b'9', rest @ ..] if digits.len() <= 19 && rest.iter().all(u8::is_ascii_digit) => {
            let magnitude = digits.iter().fold(0u64, |n, d| n * 10 + u64::from(d - b'0'));
            magnitude <= i64::MAX as u64 + u64::from(negative)
        }
        _ => false,
    }
}
