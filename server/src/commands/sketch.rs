//! The bytes of a HyperLogLog, as Redis has them: 16,384 registers, each with the longest run of zeros at the
//! end of the hashes that it has seen, and one more.
//!
//! ```text
//! "HYLL"  encoding  0 0 0  count, 8 bytes little-endian; its top bit says that it is not known
//! dense   registers of 6 bits, the first in the lowest bits
//! sparse  runs of registers:  00nnnnnn           n + 1 are zero
//!                             01nnnnnn nnnnnnnn  n + 1 are zero
//!                             1vvvvvnn           n + 1 are v + 1
//! ```
//!
//! Which of several sparse forms an update leaves is part of the format: programs compare values, and so it
//! follows redis-server's steps.

use std::borrow::Cow;

/// Registers.
pub(super) const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of a hash that choose its register.
const INDEX_BITS: u32 = 14;
/// Bits of the hash that are left.
const RUN_BITS: usize = 64 - INDEX_BITS as usize;
const REGISTER_BITS: usize = 6;
const REGISTER_MAX: u8 = (1 << REGISTER_BITS) - 1;

const MAGIC: &[u8; 4] = b"HYLL";
const ENCODING_AT: usize = 4;
const COUNT_AT: usize = 8;
const HEAD_BYTES: usize = 16;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const DENSE_BYTES: usize = HEAD_BYTES + REGISTERS * REGISTER_BITS / 8;
/// Bytes of a value at most: `hll-sparse-max-bytes` is no greater than what this leaves.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// Longest runs.
const ZERO_MAX: usize = 64;
const VALUE_RUN_MAX: usize = 4;
/// Greatest value of a sparse run.
const VALUE_MAX: u8 = 32;
/// Runs that are looked at for neighbours to be joined.
const JOINED: usize = 5;
/// Bytes that are compared at once: a dense value has 12,304 of them, of which an addition changes two.
const COMPARED: usize = 256;
/// The seed of the hashes.
const SEED: u64 = 0xadc8_3b19;

/// The bytes are those of no HyperLogLog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corrupted;

/// A HyperLogLog: borrowed from its entry until it changes, which most additions do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sketch<'b>(Cow<'b, [u8]>);

impl Default for Sketch<'_> {
    fn default() -> Self {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        bytes[ENCODING_AT] = SPARSE;
        push_zeros(&mut bytes, REGISTERS);
        Sketch(bytes.into())
    }
}

/// A run of registers in the sparse form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// 0, or what all of them are.
    value: u8,
    len: usize,
    /// Its bytes.
    bytes: usize,
}

impl Run {
    fn at(bytes: &[u8], at: usize) -> Result<Run, Corrupted> {
        let first = *bytes.get(at).ok_or(Corrupted)?;
        if first & 0x80 != 0 {
            return Ok(Run { value: (first >> 2 & 0x1f) + 1, len: usize::from(first & 3) + 1, bytes: 1 });
        }
        let short = usize::from(first & 0x3f);
        if first & 0x40 == 0 {
            return Ok(Run { value: 0, len: short + 1, bytes: 1 });
        }
        let second = usize::from(*bytes.get(at + 1).ok_or(Corrupted)?);
        Ok(Run { value: 0, len: (short << 8 | second) + 1, bytes: 2 })
    }
}

/// How many bytes at the beginning are the same.
fn same_at_begin(was: &[u8], is: &[u8]) -> usize {
    let pairs = was.chunks_exact(COMPARED).zip(is.chunks_exact(COMPARED));
    let same = COMPARED * pairs.take_while(|(was, is)| was == is).count();
    same + was[same..].iter().zip(&is[same..]).take_while(|(was, is)| was == is).count()
}

/// How many bytes at the end are the same.
fn same_at_end(was: &[u8], is: &[u8]) -> usize {
    let pairs = was.rchunks_exact(COMPARED).zip(is.rchunks_exact(COMPARED));
    let same = COMPARED * pairs.take_while(|(was, is)| was == is).count();
    let (was, is) = (&was[..was.len() - same], &is[..is.len() - same]);
    same + was.iter().rev().zip(is.iter().rev()).take_while(|(was, is)| was == is).count()
}

fn push_zeros(bytes: &mut Vec<u8>, len: usize) {
    match len {
        0 => {}
        1..=ZERO_MAX => bytes.push(len as u8 - 1),
        _ => bytes.extend_from_slice(&[0x40 | ((len - 1) >> 8) as u8, (len - 1) as u8]),
    }
}

fn value_run(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len - 1) as u8
}

fn push_values(bytes: &mut Vec<u8>, value: u8, len: usize) {
    if len > 0 {
        bytes.push(value_run(value, len));
    }
}

impl<'b> Sketch<'b> {
    /// The HyperLogLog of these bytes; `None` if they are none.
    pub(super) fn of(bytes: Cow<'b, [u8]>) -> Option<Sketch<'b>> {
        let head = bytes.get(..HEAD_BYTES)?;
        let is_sound = head.starts_with(MAGIC)
            && (head[ENCODING_AT] == SPARSE || head[ENCODING_AT] == DENSE && bytes.len() == DENSE_BYTES);
        is_sound.then_some(Sketch(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0.into_owned()
    }

    pub(super) fn is_dense(&self) -> bool {
        self.0[ENCODING_AT] == DENSE
    }

    /// The count, if it is known.
    pub(super) fn known_count(&self) -> Option<u64> {
        let count = self.0[COUNT_AT..HEAD_BYTES].try_into().map(u64::from_le_bytes).ok()?;
        (count >> 63 == 0).then_some(count)
    }

    /// Keeps a count until something is added.
    pub(super) fn keep_count(&mut self, count: u64) {
        self.0.to_mut()[COUNT_AT..HEAD_BYTES].copy_from_slice(&count.to_le_bytes());
    }

    /// Notes that the count is not known.
    pub(super) fn forget_count(&mut self) {
        self.0.to_mut()[HEAD_BYTES - 1] |= 0x80;
    }

    /// The bytes that differ from those of `before`, which are no more, and where they stand.
    pub(super) fn changed_since(&self, before: &Sketch<'_>) -> Vec<(usize, &[u8])> {
        let (old, new) = (&before.0[..], &self.0[..]);
        let mut changed = Vec::new();
        // The head apart: else a patch would have all that is between it and what was added.
        let parts = [0..HEAD_BYTES, HEAD_BYTES..new.len()];
        for part in parts {
            let (was, is) = (&old[part.start..part.end.min(old.len()).max(part.start)], &new[part.clone()]);
            let same = same_at_begin(was, is);
            if same == is.len() && was.len() == is.len() {
                continue;
            }
            let end = match was.len() == is.len() {
                true => is.len() - same_at_end(was, is),
                false => is.len(),
            };
            changed.push((part.start + same, &is[same..end]));
        }
        changed
    }

    /// Adds an element; says whether that has changed anything.
    pub(super) fn add(&mut self, element: &[u8], sparse_max: usize) -> Result<bool, Corrupted> {
        let hash = murmur64a(element, SEED);
        let index = hash as usize & (REGISTERS - 1);
        // One bit more ends the longest run.
        let rest = hash >> INDEX_BITS | 1 << RUN_BITS;
        self.set(index, rest.trailing_zeros() as u8 + 1, sparse_max)
    }

    /// Has a register be at least so much; says whether that has changed it.
    pub(super) fn set(&mut self, index: usize, count: u8, sparse_max: usize) -> Result<bool, Corrupted> {
        if self.is_dense() {
            Ok(self.set_dense(index, count))
        } else {
            self.set_sparse(index, count, sparse_max)
        }
    }

    fn set_dense(&mut self, index: usize, count: u8) -> bool {
        if dense(&self.0[HEAD_BYTES..], index) >= count {
            return false;
        }
        let registers = &mut self.0.to_mut()[HEAD_BYTES..];
        let (byte, bit) = (index * REGISTER_BITS / 8, index * REGISTER_BITS % 8);
        let (mask, value) = (u16::from(REGISTER_MAX) << bit, u16::from(count) << bit);
        registers[byte] = registers[byte] & !(mask as u8) | value as u8;
        if let Some(next) = registers.get_mut(byte + 1) {
            *next = *next & !((mask >> 8) as u8) | (value >> 8) as u8;
        }
        true
    }

    fn set_sparse(&mut self, index: usize, count: u8, sparse_max: usize) -> Result<bool, Corrupted> {
        if count > VALUE_MAX {
            self.make_dense()?;
            return Ok(self.set_dense(index, count));
        }
        let (mut at, mut first, mut previous) = (HEAD_BYTES, 0, HEAD_BYTES);
        let run = loop {
            let run = Run::at(&self.0, at)?;
            if index < first + run.len {
                break run;
            }
            previous = at;
            at += run.bytes;
            first += run.len;
        };
        if run.value >= count {
            return Ok(false);
        }
        let mut runs = Vec::with_capacity(5);
        let (before, behind) = (index - first, first + run.len - 1 - index);
        let push = |runs: &mut Vec<u8>, len: usize| match run.value {
            0 => push_zeros(runs, len),
            value => push_values(runs, value, len),
        };
        push(&mut runs, before);
        push_values(&mut runs, count, 1);
        push(&mut runs, behind);
        if runs.len() > run.bytes && self.0.len() + runs.len() - run.bytes > sparse_max {
            self.make_dense()?;
            return Ok(self.set_dense(index, count));
        }
        self.0.to_mut().splice(at..at + run.bytes, runs);
        self.join_runs(previous)?;
        self.forget_count();
        Ok(true)
    }

    /// Joins runs of one value from `at` on.
    fn join_runs(&mut self, mut at: usize) -> Result<(), Corrupted> {
        for _ in 0..JOINED {
            if at >= self.0.len() {
                break;
            }
            let run = Run::at(&self.0, at)?;
            let next =
                (run.value > 0 && at + 1 < self.0.len()).then(|| Run::at(&self.0, at + 1)).transpose()?;
            match next {
                Some(next) if next.value == run.value && run.len + next.len <= VALUE_RUN_MAX => {
                    let bytes = self.0.to_mut();
                    bytes[at + 1] = value_run(run.value, run.len + next.len);
                    bytes.remove(at);
                }
                _ => at += run.bytes,
            }
        }
        Ok(())
    }

    /// Has the registers be dense.
    pub(super) fn make_dense(&mut self) -> Result<(), Corrupted> {
        if self.is_dense() {
            return Ok(());
        }
        let mut registers = [0; REGISTERS];
        self.merge_into(&mut registers)?;
        let bytes = self.0.to_mut();
        bytes.truncate(HEAD_BYTES);
        bytes.resize(DENSE_BYTES, 0);
        bytes[ENCODING_AT] = DENSE;
        for (index, count) in registers.iter().enumerate() {
            self.set_dense(index, *count);
        }
        Ok(())
    }

    /// Has each register be at least what it is here.
    pub(super) fn merge_into(&self, registers: &mut [u8; REGISTERS]) -> Result<(), Corrupted> {
        if self.is_dense() {
            let own = &self.0[HEAD_BYTES..];
            for (index, register) in registers.iter_mut().enumerate() {
                *register = (*register).max(dense(own, index));
            }
            return Ok(());
        }
        let (mut at, mut first) = (HEAD_BYTES, 0);
        while at < self.0.len() {
            let run = Run::at(&self.0, at)?;
            let covered = registers.get_mut(first..first + run.len).ok_or(Corrupted)?;
            covered.iter_mut().for_each(|register| *register = (*register).max(run.value));
            at += run.bytes;
            first += run.len;
        }
        if first == REGISTERS { Ok(()) } else { Err(Corrupted) }
    }

    /// The runs of a sparse one, as `PFDEBUG DECODE` shows them.
    pub(super) fn runs(&self) -> Option<String> {
        if self.is_dense() {
            return None;
        }
        let mut shown = Vec::new();
        let mut at = HEAD_BYTES;
        while let Ok(run) = Run::at(&self.0, at) {
            shown.push(match run {
                Run { value: 0, len, bytes: 1 } => format!("z:{len}"),
                Run { value: 0, len, .. } => format!("Z:{len}"),
                Run { value, len, .. } => format!("v:{value},{len}"),
            });
            at += run.bytes;
        }
        Some(shown.join(" "))
    }
}

/// A register of the dense form.
fn dense(registers: &[u8], index: usize) -> u8 {
    let (byte, bit) = (index * REGISTER_BITS / 8, index * REGISTER_BITS % 8);
    let next = registers.get(byte + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([registers[byte], next]) >> bit) as u8 & REGISTER_MAX
}

/// How many elements these registers have seen, by the estimator of Otmar Ertl ("New cardinality estimation
/// algorithms for HyperLogLog sketches").
pub(super) fn estimate(registers: &[u8; REGISTERS]) -> u64 {
    /// 0.5 / ln 2.
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    let mut counts = [0_u32; 1 << REGISTER_BITS];
    registers.iter().for_each(|register| counts[usize::from(register & REGISTER_MAX)] += 1);
    let m = REGISTERS as f64;
    let mut z = m * tau((m - f64::from(counts[RUN_BITS + 1])) / m);
    for count in counts[1..=RUN_BITS].iter().rev() {
        z = (z + f64::from(*count)) * 0.5;
    }
    z += m * sigma(f64::from(counts[0]) / m);
    (ALPHA * m * m / z).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if before == z {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if before == z {
            return z / 3.0;
        }
    }
}

/// `MurmurHash64A`, which the format prescribes.
fn murmur64a(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> R;
        hash = (hash ^ word.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    hash = (hash ^ hash >> R).wrapping_mul(M);
    hash ^ hash >> R
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_is_what_differs() {
        let dense = |set: &[(usize, u8)]| {
            let mut sketch = Sketch::default();
            sketch.make_dense().expect("an empty one is sound");
            set.iter().for_each(|(index, count)| _ = sketch.set_dense(*index, *count));
            sketch
        };
        let [first, last] = [0, REGISTERS - 1];
        let middle: Vec<usize> = (300..700).collect();
        for at in [&[first, last][..], &middle].concat() {
            let (before, after) = (dense(&[(at, 1), (5_000, 1)]), dense(&[(at, 2), (5_000, 1)]));
            let byte = HEAD_BYTES + at * REGISTER_BITS / 8;
            let changed = after.changed_since(&before);
            let [(offset, bytes)] = changed[..] else { panic!("{at}: {changed:?}") };
            assert!(
                (byte..=byte + 1).contains(&offset) && (1..=2).contains(&bytes.len()),
                "{at}: {changed:?}"
            );
            assert_eq!(bytes, &after.bytes()[offset..offset + bytes.len()]);
            assert_eq!(after.bytes()[..offset], before.bytes()[..offset]);
            assert_eq!(after.bytes()[offset + bytes.len()..], before.bytes()[offset + bytes.len()..]);
        }
        let both = dense(&[(first, 1), (last, 1)]);
        assert_eq!(both.changed_since(&dense(&[])), [(HEAD_BYTES, &both.bytes()[HEAD_BYTES..])]);
        assert_eq!(both.changed_since(&both), []);
        // What is longer has changed from its first difference to its end.
        let longer = Sketch([both.bytes(), &[7]].concat().into());
        assert_eq!(longer.changed_since(&both), [(DENSE_BYTES, &[7][..])]);
    }
}
