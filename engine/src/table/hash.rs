//! The hash of a key, a key with its hash, and the order of positions that follows from the hash.

use crate::value::POSITION_BITS;

#[cfg(debug_assertions)]
thread_local! {
    /// How many keys this thread has hashed.
    static HASHED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The last position of a scan.
pub(super) const LAST_POSITION: u64 = (1 << POSITION_BITS) - 1;
/// The number of positions: where a walk ends.
pub const END: u64 = LAST_POSITION + 1;

/// The seeded hash of a key, computed once a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(pub u64);

impl KeyHash {
    /// Hashes `key` with the seed of this process.
    #[inline]
    pub fn of(key: &[u8]) -> KeyHash {
        #[cfg(debug_assertions)]
        HASHED.set(HASHED.get() + 1);
        KeyHash(crate::value::hash_of(key))
    }

    /// How many times this thread has hashed a key with `of`, for tests: a command hashes each of its keys
    /// once.
    #[cfg(debug_assertions)]
    #[doc(hidden)]
    pub fn hashed() -> u64 {
        HASHED.get()
    }

    /// As `of`, for the key of an entry that moves within the table, which is not the work of one command.
    #[inline]
    pub(crate) fn of_stored(key: &[u8]) -> KeyHash {
        KeyHash(crate::value::hash_of(key))
    }

    /// The order in which scans go: segments divide it into contiguous ranges however often they split.
    /// `POSITION_BITS` bits, as clients may keep cursors as doubles.
    pub const fn position(self) -> u64 {
        self.0.reverse_bits() >> (64 - POSITION_BITS)
    }

    /// A hash that stands at `position`.
    pub const fn at(position: u64) -> KeyHash {
        KeyHash((position << (64 - POSITION_BITS)).reverse_bits())
    }
}

/// A key of a database, and its hash.
///
/// A command makes one for each key that it declares, and hands it on instead of the key: so a key is hashed
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRef<'k> {
    /// The logical database.
    pub db: u8,
    /// The hash of `key`.
    pub hash: KeyHash,
    /// The key.
    pub key: &'k [u8],
}

impl<'k> KeyRef<'k> {
    /// Hashes a key.
    #[inline]
    pub fn of(db: u8, key: &'k [u8]) -> KeyRef<'k> {
        KeyRef { db, hash: KeyHash::of(key), key }
    }
}

/// Where a key is looked for: its database and its hash.
pub(crate) trait Placed: Copy {
    fn place(self) -> (u8, KeyHash);
}

impl Placed for KeyRef<'_> {
    #[inline]
    fn place(self) -> (u8, KeyHash) {
        (self.db, self.hash)
    }
}

impl Placed for (u8, KeyHash) {
    #[inline]
    fn place(self) -> (u8, KeyHash) {
        self
    }
}
