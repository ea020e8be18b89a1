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
use std::ops::Range;

use smallvec::SmallVec;

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
/// Bytes behind a changed run that are looked at for this, or more: there are five runs of at most two bytes,
/// each may vanish, and the neighbour of the last one counts.
const JOINED_BYTES: usize = 16;
/// Bytes that a change of a register has to do with: the run before, three in the place of one, those behind.
const EDITED_BYTES: usize = 2 + 5 + JOINED_BYTES;
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

fn push_zeros(bytes: &mut impl Extend<u8>, len: usize) {
    match len {
        0 => {}
        1..=ZERO_MAX => bytes.extend([len as u8 - 1]),
        _ => bytes.extend([0x40 | ((len - 1) >> 8) as u8, (len - 1) as u8]),
    }
}

fn value_run(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len - 1) as u8
}

fn push_values(bytes: &mut impl Extend<u8>, value: u8, len: usize) {
    if len > 0 {
        bytes.extend([value_run(value, len)]);
    }
}

/// A run of a sparse value.
struct Place {
    run: Run,
    /// Where it stands.
    at: usize,
    /// Where the one before it stands; if it is the first, where it does itself.
    previous: usize,
    /// Its first register.
    first: usize,
}

/// Bytes of runs that are looked at together.
const WORD: usize = size_of::<u64>();
/// One in each byte.
const EACH: u64 = u64::MAX / 0xff;

/// Registers of runs of one byte each, which are those of `runs` that `which` has all bits of: see `Run::at`.
#[inline]
fn registers_of(runs: u64, which: u64) -> usize {
    const PAIRS: u64 = u64::MAX / 0xffff;
    const LOW: u64 = 0xff * PAIRS;
    let is_value = runs >> 7 & EACH;
    // Six bits of a run of zeros, and two of one of values. There is one register more than they say.
    let more = ((runs & (0x3f * EACH - 0x3c * is_value)) + EACH) & which;
    let pairs = (more & LOW) + (more >> 8 & LOW);
    (pairs.wrapping_mul(PAIRS) >> 48) as usize
}

/// Has one in each byte that begins as a run of two bytes does.
#[inline]
fn wide_runs(runs: u64) -> u64 {
    runs >> 6 & !(runs >> 7) & EACH
}

impl Place {
    /// The run that a register is in.
    fn of(bytes: &[u8], index: usize) -> Result<Place, Corrupted> {
        let (mut at, mut previous, mut first) = (HEAD_BYTES, HEAD_BYTES, 0);
        // Many at once, as there are thousands of bytes.
        while let Some(runs) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            let runs = u64::from_le_bytes(*runs);
            let is_wide = wide_runs(runs);
            if is_wide == 0 {
                let registers = registers_of(runs, u64::MAX);
                if index < first + registers {
                    break;
                }
                previous = at + WORD - 1;
                at += WORD;
                first += registers;
                continue;
            }
            let narrow = is_wide.trailing_zeros() as usize / 8;
            let registers = registers_of(runs, is_wide.wrapping_sub(1) & !is_wide);
            let Some(wide) =
                Run::at(bytes, at + narrow).ok().filter(|run| index >= first + registers + run.len)
            else {
                break;
            };
            previous = at + narrow;
            at += narrow + wide.bytes;
            first += registers + wide.len;
        }
        loop {
            let run = Run::at(bytes, at)?;
            if index < first + run.len {
                return Ok(Place { run, at, previous, first });
            }
            previous = at;
            at += run.bytes;
            first += run.len;
        }
    }
}

/// A change of some bytes of a sparse value.
struct Edit {
    /// Where they stand.
    at: usize,
    len: usize,
    /// The bytes that take their place.
    bytes: SmallVec<[u8; EDITED_BYTES]>,
    /// Bytes that the run has become longer by, before runs were joined: as in Redis, a value that would be
    /// too long becomes dense, even if joining makes it shorter again.
    grows_by: usize,
}

impl Edit {
    /// The change that has a register be at least so much; `None` if it is.
    fn of(value: &[u8], index: usize, count: u8) -> Result<Option<Edit>, Corrupted> {
        let Place { run, at, previous, first } = Place::of(value, index)?;
        if run.value >= count {
            return Ok(None);
        }
        let mut bytes: SmallVec<[u8; EDITED_BYTES]> = SmallVec::from_slice(&value[previous..at]);
        let (before, behind) = (index - first, first + run.len - 1 - index);
        let push = |bytes: &mut SmallVec<[u8; EDITED_BYTES]>, len: usize| match run.value {
            0 => push_zeros(bytes, len),
            value => push_values(bytes, value, len),
        };
        push(&mut bytes, before);
        push_values(&mut bytes, count, 1);
        push(&mut bytes, behind);
        let grows_by = (bytes.len() - (at - previous)).saturating_sub(run.bytes);
        let end = value.len().min(at + run.bytes + JOINED_BYTES);
        bytes.extend_from_slice(&value[at + run.bytes..end]);
        join_runs(&mut bytes)?;
        Ok(Some(Edit { at: previous, len: end - previous, bytes, grows_by }))
    }
}

/// Joins runs of one value at the beginning of these.
fn join_runs(bytes: &mut SmallVec<[u8; EDITED_BYTES]>) -> Result<(), Corrupted> {
    let mut at = 0;
    for _ in 0..JOINED {
        if at >= bytes.len() {
            break;
        }
        let run = Run::at(bytes, at)?;
        let next = (run.value > 0 && at + 1 < bytes.len()).then(|| Run::at(bytes, at + 1)).transpose()?;
        match next {
            Some(next) if next.value == run.value && run.len + next.len <= VALUE_RUN_MAX => {
                bytes[at + 1] = value_run(run.value, run.len + next.len);
                bytes.remove(at);
            }
            _ => at += run.bytes,
        }
    }
    Ok(())
}

/// The outcome of adding an element.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// The value stays as it is.
    Nothing,
    /// The count is not known any more, and these bytes are others.
    Patch {
        /// Where they begin; they may end behind the end of the value.
        offset: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The value becomes dense, or shorter.
    Whole,
}

/// The register of an element, and what it is to be at least.
fn register_of(element: &[u8]) -> (usize, u8) {
    let hash = murmur64a(element, SEED);
    // One bit more ends the longest run.
    let rest = hash >> INDEX_BITS | 1 << RUN_BITS;
    (hash as usize & (REGISTERS - 1), rest.trailing_zeros() as u8 + 1)
}

/// The bytes of a dense value that a register is in.
fn bytes_of_register(index: usize) -> Range<usize> {
    HEAD_BYTES + index * REGISTER_BITS / 8..HEAD_BYTES + ((index + 1) * REGISTER_BITS).div_ceil(8)
}

/// The bytes that keep a count until something is added, and where they stand.
pub(super) fn kept_count(count: u64) -> (usize, [u8; 8]) {
    (COUNT_AT, count.to_le_bytes())
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

    /// Notes that the count is not known.
    pub(super) fn forget_count(&mut self) {
        if let Some((at, byte)) = self.forgotten_count() {
            self.0.to_mut()[at] = byte;
        }
    }

    /// The byte that says that the count is not known, and where it stands; `None` if it says so already.
    pub(super) fn forgotten_count(&self) -> Option<(usize, u8)> {
        let byte = self.0[HEAD_BYTES - 1];
        (byte & 0x80 == 0).then_some((HEAD_BYTES - 1, byte | 0x80))
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

    /// Adds an element; the register that this has changed.
    pub(super) fn add(&mut self, element: &[u8], sparse_max: usize) -> Result<Option<usize>, Corrupted> {
        let (index, count) = register_of(element);
        Ok(self.set(index, count, sparse_max)?.then_some(index))
    }

    /// The bytes of these registers, and where they stand. REQUIRES: it is dense.
    pub(super) fn bytes_of(&self, mut registers: Vec<usize>) -> impl Iterator<Item = (usize, &[u8])> {
        registers.sort_unstable();
        registers.dedup();
        registers.into_iter().map(move |index| {
            let place = bytes_of_register(index);
            (place.start, &self.0[place])
        })
    }

    /// The outcome of adding an element.
    pub(super) fn added(&self, element: &[u8], sparse_max: usize) -> Result<Added, Corrupted> {
        let (index, count) = register_of(element);
        let value = &self.0[..];
        if self.is_dense() {
            if dense(&value[HEAD_BYTES..], index) >= count {
                return Ok(Added::Nothing);
            }
            let place = bytes_of_register(index);
            let (offset, mut bytes) = (place.start, value[place].to_vec());
            put_dense(&mut bytes, index * REGISTER_BITS % 8, count);
            return Ok(Added::Patch { offset, bytes });
        }
        if count > VALUE_MAX {
            return Ok(Added::Whole);
        }
        let Some(edit) = Edit::of(value, index, count)? else { return Ok(Added::Nothing) };
        if edit.grows_by > 0 && value.len() + edit.grows_by > sparse_max || edit.bytes.len() < edit.len {
            return Ok(Added::Whole);
        }
        let (was, behind) = value[edit.at..].split_at(edit.len);
        let same = same_at_begin(was, &edit.bytes);
        let bytes = match edit.bytes.len() == was.len() {
            true => edit.bytes[same..was.len() - same_at_end(was, &edit.bytes)].to_vec(),
            false => [&edit.bytes[same..], behind].concat(),
        };
        Ok(Added::Patch { offset: edit.at + same, bytes })
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
        put_dense(&mut registers[index * REGISTER_BITS / 8..], index * REGISTER_BITS % 8, count);
        true
    }

    fn set_sparse(&mut self, index: usize, count: u8, sparse_max: usize) -> Result<bool, Corrupted> {
        if count > VALUE_MAX {
            self.make_dense()?;
            return Ok(self.set_dense(index, count));
        }
        let Some(edit) = Edit::of(&self.0, index, count)? else { return Ok(false) };
        if edit.grows_by > 0 && self.0.len() + edit.grows_by > sparse_max {
            self.make_dense()?;
            return Ok(self.set_dense(index, count));
        }
        self.0.to_mut().splice(edit.at..edit.at + edit.len, edit.bytes);
        self.forget_count();
        Ok(true)
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
            // Four registers are three bytes.
            let (own, _) = self.0[HEAD_BYTES..].as_chunks::<3>();
            for (registers, own) in registers.as_chunks_mut::<4>().0.iter_mut().zip(own) {
                let all = u32::from_le_bytes([own[0], own[1], own[2], 0]);
                for (at, register) in registers.iter_mut().enumerate() {
                    *register = (*register).max((all >> (at * REGISTER_BITS)) as u8 & REGISTER_MAX);
                }
            }
            return Ok(());
        }
        let (mut at, mut first) = (HEAD_BYTES, 0);
        while at < self.0.len() {
            let run = Run::at(&self.0, at)?;
            let covered = registers.get_mut(first..first + run.len).ok_or(Corrupted)?;
            if run.value > 0 {
                covered.iter_mut().for_each(|register| *register = (*register).max(run.value));
            }
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

/// Puts a register of the dense form into its byte, the first of these, and the next: from this bit on.
fn put_dense(bytes: &mut [u8], bit: usize, count: u8) {
    let (mask, value) = (u16::from(REGISTER_MAX) << bit, u16::from(count) << bit);
    bytes[0] = bytes[0] & !(mask as u8) | value as u8;
    if let Some(next) = bytes.get_mut(1) {
        *next = *next & !((mask >> 8) as u8) | (value >> 8) as u8;
    }
}

/// How many elements these registers have seen, by the estimator of Otmar Ertl ("New cardinality estimation
/// algorithms for HyperLogLog sketches").
pub(super) fn estimate(registers: &[u8; REGISTERS]) -> u64 {
    /// 0.5 / ln 2.
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    let counts = histogram(registers);
    let m = REGISTERS as f64;
    let mut z = m * tau((m - f64::from(counts[RUN_BITS + 1])) / m);
    for count in counts[1..=RUN_BITS].iter().rev() {
        z = (z + f64::from(*count)) * 0.5;
    }
    z += m * sigma(f64::from(counts[0]) / m);
    (ALPHA * m * m / z).round() as u64
}

/// How many registers have each value.
fn histogram(registers: &[u8; REGISTERS]) -> [u32; 1 << REGISTER_BITS] {
    // Neighbours are counted apart: most registers have one of a few values, and the processor would wait for
    // one sum again and again.
    const PARTS: usize = 8;
    let mut parts = [[0_u32; 1 << REGISTER_BITS]; PARTS];
    for neighbours in registers.as_chunks::<PARTS>().0 {
        for (counts, register) in parts.iter_mut().zip(neighbours) {
            counts[usize::from(register & REGISTER_MAX)] += 1;
        }
    }
    std::array::from_fn(|value| parts.iter().map(|counts| counts[value]).sum())
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
        let word = match bytes.last_chunk() {
            // The last eight bytes, without those that have been counted in.
            Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
            None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        hash = (hash ^ word).wrapping_mul(M);
    }
    hash = (hash ^ hash >> R).wrapping_mul(M);
    hash ^ hash >> R
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

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

    /// The value with these bytes in it.
    fn patched(value: &[u8], offset: usize, bytes: &[u8]) -> Vec<u8> {
        let mut value = value.to_vec();
        value.resize(value.len().max(offset + bytes.len()), 0);
        value[offset..offset + bytes.len()].copy_from_slice(bytes);
        value
    }

    #[test]
    fn a_patch_adds_an_element_as_all_else_does() {
        let (mut patches, mut others) = (0, 0);
        for (elements, sparse_max) in [(20_000, 3_000), (3_000, 1 << 20), (200, 0)] {
            let mut before = Sketch::default();
            before.forget_count();
            for element in 0..elements {
                if element % 7 == 0 {
                    let (at, bytes) = kept_count(element);
                    before = Sketch(patched(before.bytes(), at, &bytes).into());
                }
                let element = element.to_string().into_bytes();
                let mut after = before.clone();
                let is_changed = after.add(&element, sparse_max).expect("it is sound").is_some();
                if is_changed {
                    after.forget_count();
                }
                match before.added(&element, sparse_max).expect("it is sound") {
                    Added::Nothing => assert!(!is_changed && after == before),
                    Added::Patch { offset, bytes } => {
                        let mut patched = patched(before.bytes(), offset, &bytes);
                        if let Some((at, byte)) = before.forgotten_count() {
                            patched[at] = byte;
                        }
                        assert!(is_changed && patched == after.bytes(), "{offset} {bytes:?}");
                        patches += 1;
                    }
                    Added::Whole => {
                        let is_dense = after.is_dense() && !before.is_dense();
                        assert!(is_changed && (is_dense || after.bytes().len() < before.bytes().len()));
                        others += 1;
                    }
                }
                before = after;
            }
        }
        assert!(patches > 5_000 && others > 0, "{patches} {others}");
    }

    #[test]
    fn the_bytes_of_changed_registers_make_a_dense_value_what_it_has_become() {
        let mut before = Sketch::default();
        before.make_dense().expect("an empty one is sound");
        before.forget_count();
        for round in 0..500_u64 {
            let (mut after, mut registers) = (before.clone(), Vec::new());
            for element in 0..20 {
                let element = (round * 7 + element).to_string();
                registers.extend(after.add(element.as_bytes(), 0).expect("it is sound"));
            }
            let mut value = before.bytes().to_vec();
            for (offset, bytes) in after.bytes_of(registers) {
                value = patched(&value, offset, bytes);
            }
            assert_eq!(value, after.bytes());
            before = after;
        }
    }

    /// The run of a register, its place, the one before and its first register, looked at one by one.
    fn walked(value: &[u8], index: usize) -> Option<(Run, usize, usize, usize)> {
        let (mut at, mut previous, mut first) = (HEAD_BYTES, HEAD_BYTES, 0);
        loop {
            let run = Run::at(value, at).ok()?;
            if index < first + run.len {
                return Some((run, at, previous, first));
            }
            (previous, at, first) = (at, at + run.bytes, first + run.len);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_run_is_found_as_by_looking_at_one_after_the_other(
            // Few or many of the three kinds, and bytes of which some would begin one.
            runs in vec(prop_oneof![0x80..=0xff_u8, 0x00..=0x3f_u8, 0x00..=0x05_u8, any::<u8>()], 0..60)
        ) {
            let value = [&Sketch::default().0[..HEAD_BYTES], &runs].concat();
            for index in 0..3_000 {
                let found = Place::of(&value, index).ok();
                let found = found.map(|Place { run, at, previous, first }| (run, at, previous, first));
                prop_assert_eq!(found, walked(&value, index), "register {}", index);
            }
        }

        #[test]
        fn a_count_is_that_of_registers_merged_and_counted_one_by_one(
            set in vec((0..REGISTERS, 1..=51_u8), 0..3_000), is_dense in any::<bool>()
        ) {
            let (mut sketch, mut expected) = (Sketch::default(), [0; REGISTERS]);
            if is_dense {
                sketch.make_dense().expect("an empty one is sound");
            }
            for (index, count) in set {
                sketch.set(index, count, 3_000).expect("it is sound");
                expected[index] = count.max(expected[index]);
            }
            let mut registers = [0; REGISTERS];
            sketch.merge_into(&mut registers).expect("it is sound");
            prop_assert!(registers == expected);
            let counts = histogram(&registers);
            for (value, count) in counts.into_iter().enumerate() {
                let expected = expected.iter().filter(|register| usize::from(**register) == value).count();
                prop_assert_eq!(count as usize, expected, "registers of {}", value);
            }
        }
    }

    #[test]
    fn hashes_are_those_of_murmurhash64a() {
        // As another implementation has them, of no bytes, few and many behind the last word.
        let known = [
            (0, 0xd8df_ea65_85bc_9732),
            (1, 0xc506_4924_982a_33a9),
            (7, 0x559c_262a_7f70_60f4),
            (8, 0x4f52_9b65_1cb0_8252),
            (9, 0x1ec0_e700_8dc1_1df3),
            (12, 0xf3c9_a894_77e1_aae9),
            (15, 0x3fe8_c8f5_1a1e_3d6d),
            (23, 0xf8aa_2d61_7f60_0ce0),
        ];
        for (len, hash) in known {
            assert_eq!(murmur64a(&b"0123456789abcdefghijklmn"[..len], SEED), hash, "{len} bytes");
        }
    }

    #[test]
    fn a_sparse_value_whose_runs_end_early_is_corrupted() {
        let empty = Sketch::default();
        let head = &empty.0[..HEAD_BYTES];
        for runs in [&[][..], &[0x00], &[0x40], &[0x7f, 0xfe, 0x40], &[0x80; 5], &[0x41, 0x00]] {
            let mut sketch = Sketch([head, runs].concat().into());
            // Of a register behind the last run, as most are.
            assert_eq!(Edit::of(&sketch.0, REGISTERS - 1, 1).map(|_| ()), Err(Corrupted), "{runs:?}");
            assert_eq!(sketch.set(REGISTERS - 1, 1, 3_000), Err(Corrupted), "{runs:?}");
        }
    }
}
