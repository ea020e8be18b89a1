//! Digests of data that do not depend on the order in which it is stored, equal to those of `redis-server`'s
//! `DEBUG DIGEST`.
//!
//! Two operations on 20 bytes: *add* is an exclusive or with the SHA-1 of some bytes, so it forgets the
//! order; *mix* adds and hashes the result, so it keeps it. A list mixes its elements; a set adds its
//! members, a hash the digests of its fields with their values.

use std::fmt;

use sha1_smol::Sha1;
use tarn_engine::Entry;
use tarn_engine::record::{Kind, UnixMs};
use tarn_engine::value::ValueRef;
use tarn_engine::value::stream::StreamId;
use tarn_resp::format_double;

/// 20 bytes that say whether two sets of data are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest([u8; 20]);

impl Digest {
    /// Takes in `bytes`; the order of calls matters.
    pub fn mix(&mut self, bytes: &[u8]) {
        self.mix_pieces(std::iter::once(bytes));
    }

    /// As `mix`, with bytes that stand in several places.
    fn mix_pieces<'p>(&mut self, pieces: impl Iterator<Item = &'p [u8]>) {
        let mut hash = Sha1::new();
        pieces.for_each(|piece| hash.update(piece));
        self.add_hash(&hash);
        self.0 = Sha1::from(self.0).digest().bytes();
    }

    /// Takes in `bytes`; the order of calls does not matter.
    pub fn add(&mut self, bytes: &[u8]) {
        self.add_hash(&Sha1::from(bytes));
    }

    fn add_hash(&mut self, hash: &Sha1) {
        self.0.iter_mut().zip(hash.digest().bytes()).for_each(|(a, b)| *a ^= b);
    }

    /// Takes in another digest; the order of calls does not matter.
    pub fn merge(&mut self, other: &Digest) {
        self.add(&other.0);
    }

    fn of_parts(parts: &[&[u8]]) -> Digest {
        let mut digest = Digest::default();
        parts.iter().for_each(|part| digest.mix(part));
        digest
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

const fn number_of(kind: Kind) -> u32 {
    match kind {
        Kind::String => 0,
        Kind::List => 1,
        Kind::Set => 2,
        Kind::ZSet => 3,
        Kind::Hash => 4,
        Kind::Json => 5,
        Kind::Stream => 6,
    }
}

/// The digest of an entry's value as of `now`, and of its key if `with_key`.
pub fn of_entry(entry: &Entry, now: UnixMs, with_key: bool) -> Digest {
    let mut digest = Digest::default();
    if with_key {
        digest.mix(entry.key());
    }
    digest.mix(&number_of(entry.kind()).to_be_bytes());
    match entry.value().at(now) {
        ValueRef::String(value) | ValueRef::Json(value) => digest.mix_pieces(value.pieces(0..value.len())),
        ValueRef::List(list) => list.iter_from(0).for_each(|element| digest.mix(element)),
        ValueRef::Set(set) => set.iter().for_each(|member| digest.add(member)),
        ValueRef::ZSet(zset) => {
            for (member, score) in zset.iter_from(0) {
                let score = format_double(score);
                digest.merge(&Digest::of_parts(&[member, score.as_ref()]));
            }
        }
        // In the order of IDs: the digest of a stream is that of its entries, as in Redis.
        ValueRef::Stream(stream) => {
            for entry in stream.iter_from(StreamId::MIN) {
                digest.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
                for (field, value) in entry.fields.iter() {
                    digest.mix(field);
                    digest.mix(value);
                }
            }
        }
        ValueRef::Hash(hash) => {
            for (field, value, time) in hash.iter_timed() {
                let mut of_field = Digest::of_parts(&[field, value]);
                if time.is_some() {
                    // Of no account when, as of a key.
                    of_field.add(b"!!hexpire!!");
                }
                digest.merge(&of_field);
            }
        }
    }
    if entry.expiry().is_some() {
        digest.add(b"!!expire!!");
    }
    digest
}
