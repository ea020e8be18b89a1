//! Strings as arrays of bits: the first bit is the highest one of the first byte. `BITFIELD` is in
//! `bitfield.rs`.

use std::ops::Range;

use tarn_engine::record::{BYTES_MAX, Change};
use tarn_engine::value::StringRef;
use tarn_resp::Args;

use super::ranges;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

const READ: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const LINEAR: &str = "O(N) for N bytes";

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row(
        "setbit",
        4,
        Flags::WRITE.with(Flags::DENYOOM),
        "2.2.0",
        "Sets or clears a bit and returns the old one.",
        setbit,
    )
    .keys(&[KeySpec::one(&["RW", "access", "update"])]),
    row("getbit", 3, Flags::READONLY.with(Flags::FAST), "2.2.0", "Returns a bit.", getbit).keys(READ),
    row("bitcount", -2, Flags::READONLY, "2.6.0", "Counts the bits that are set.", bitcount)
        .keys(READ)
        .complexity(LINEAR),
    row("bitpos", -3, Flags::READONLY, "2.8.7", "Finds the first bit that is set, or that is clear.", bitpos)
        .keys(READ)
        .complexity(LINEAR),
    row(
        "bitop",
        -4,
        Flags::WRITE.with(Flags::DENYOOM),
        "2.6.0",
        "Combines strings bit by bit and stores the result.",
        bitop,
    )
    .keys(&[KeySpec::range(2, 0, 1, &["OW", "update"]), KeySpec::range(3, -1, 1, &["RO", "access"])])
    .complexity(LINEAR),
];

/// The offset of a bit in an argument. With `#n`, where fields of `field_bits` are counted, it is the one of
/// the `n`th field.
pub(super) fn bit_offset(
    cx: &Context<'_, '_>,
    text: &[u8],
    field_bits: Option<u32>,
) -> Result<u64, CommandError> {
    const NO_OFFSET: CommandError = CommandError::text("ERR bit offset is not an integer or out of range");
    let (digits, unit) = match (text, field_bits) {
        ([b'#', digits @ ..], Some(bits)) => (digits, bits),
        _ => (text, 1),
    };
    let number = parse::integer(digits).map_err(|_| NO_OFFSET)?;
    let offset = u64::try_from(number).ok().and_then(|number| number.checked_mul(u64::from(unit)));
    let bytes_max = cx.server.live.proto_max_bulk_len().min(BYTES_MAX as u64);
    offset.filter(|offset| offset / 8 < bytes_max).ok_or(NO_OFFSET)
}

fn setbit<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    const NO_BIT: CommandError = CommandError::text("ERR bit is not an integer or out of range");
    let offset = bit_offset(cx, args.at(2), None)?;
    let on = match parse::integer(args.at(3)) {
        Ok(bit @ (0 | 1)) => bit == 1,
        _ => return Err(NO_BIT),
    };
    let key = args.at(1);
    let value = cx.string(key)?;
    let (index, mask) = (offset / 8, 0x80 >> (offset % 8));
    let old = value.and_then(|value| value.get(index as usize));
    let was_on = old.unwrap_or(0) & mask != 0;
    if old.is_none() || was_on != on {
        let byte = if on { old.unwrap_or(0) | mask } else { old.unwrap_or(0) & !mask };
        cx.write(key, Change::Patch { offset: index, bytes: vec![byte].into() });
    } else {
        cx.touch_string(key);
    }
    cx.reply.integer(i64::from(was_on));
    Ok(())
}

fn getbit<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let offset = bit_offset(cx, args.at(2), None)?;
    let value = cx.string(args.at(1))?.unwrap_or_default();
    let byte = value.get((offset / 8) as usize).unwrap_or(0);
    cx.reply.integer(i64::from(byte >> (7 - offset % 8) & 1));
    Ok(())
}

/// The unit of the two indexes of a range.
#[derive(Clone, Copy)]
enum Unit {
    Bytes,
    Bits,
}

impl Unit {
    fn parse(word: Option<&[u8]>) -> Result<Unit, CommandError> {
        match word {
            None => Ok(Unit::Bytes),
            Some(word) if word.eq_ignore_ascii_case(b"byte") => Ok(Unit::Bytes),
            Some(word) if word.eq_ignore_ascii_case(b"bit") => Ok(Unit::Bits),
            Some(_) => Err(CommandError::Syntax),
        }
    }

    /// The range of bits that two inclusive indexes mean.
    fn bits(self, value: StringRef<'_>, start: i64, end: i64) -> Range<u64> {
        let len = value.len() as u64;
        match self {
            Unit::Bits => ranges::clamp(start, end, len * 8),
            Unit::Bytes => {
                let bytes = ranges::clamp(start, end, len);
                bytes.start * 8..bytes.end * 8
            }
        }
    }
}

fn bitcount<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let Some(value) = cx.string(args.at(1))? else {
        cx.reply.integer(0);
        return Ok(());
    };
    let range = match args.len() {
        2 => 0..value.len() as u64 * 8,
        4 | 5 => {
            let (start, end) = (parse::integer(args.at(2))?, parse::integer(args.at(3))?);
            // Before the unit is looked at, as Redis does.
            if ranges::is_crossed(start, end) {
                0..0
            } else {
                Unit::parse(args.get(4))?.bits(value, start, end)
            }
        }
        _ => return Err(CommandError::Syntax),
    };
    cx.reply.integer(count(value, range) as i64);
    Ok(())
}

fn bitpos<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let wanted = match parse::integer(args.at(2))? {
        bit @ (0 | 1) => bit == 1,
        _ => return Err(CommandError::text("ERR The bit argument must be 1 or 0.")),
    };
    let Some(value) = cx.string(args.at(1))? else {
        cx.reply.integer(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let range = match args.len() {
        3 => 0..value.len() as u64 * 8,
        4 => Unit::Bytes.bits(value, parse::integer(args.at(3))?, i64::MAX),
        5 | 6 => {
            let (start, unit) = (parse::integer(args.at(3))?, Unit::parse(args.get(5))?);
            unit.bits(value, start, parse::integer(args.at(4))?)
        }
        _ => return Err(CommandError::Syntax),
    };
    let end = range.end;
    let position = match find(value, range.clone(), wanted) {
        Some(position) => position as i64,
        // Without an end, zeros follow the string for ever.
        None if !wanted && args.len() < 5 && !range.is_empty() => end as i64,
        None => -1,
    };
    cx.reply.integer(position);
    Ok(())
}

/// The first byte that a range of bits meets and the last one, each with the bits of it that are in the range
/// cut to the range, and the whole bytes between them.
struct Split {
    first: (usize, u8),
    whole: Range<usize>,
    last: Option<(usize, u8)>,
}

/// REQUIRES: `range` is not empty.
fn split(range: Range<u64>) -> Split {
    let (first, last) = ((range.start / 8) as usize, ((range.end - 1) / 8) as usize);
    let head_mask = 0xffu8 >> (range.start % 8);
    let tail_mask = 0xffu8 << (7 - (range.end - 1) % 8);
    if first == last {
        return Split { first: (first, head_mask & tail_mask), whole: 0..0, last: None };
    }
    Split { first: (first, head_mask), whole: first + 1..last, last: Some((last, tail_mask)) }
}

/// Number of bits set in a range that ends in `value`.
fn count(value: StringRef<'_>, range: Range<u64>) -> u64 {
    if range.is_empty() {
        return 0;
    }
    let split = split(range);
    let at_edge = |(at, mask): (usize, u8)| u64::from((value.get(at).unwrap_or(0) & mask).count_ones());
    let at_edges: u64 = [Some(split.first), split.last].into_iter().flatten().map(at_edge).sum();
    at_edges + value.pieces(split.whole).map(count_all).sum::<u64>()
}

fn count_all(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let in_words: u64 = words.iter().map(|word| u64::from(u64::from_le_bytes(*word).count_ones())).sum();
    let in_rest: u32 = rest.iter().map(|byte| byte.count_ones()).sum();
    in_words + u64::from(in_rest)
}

/// Where the first bit of a range that ends in `value` is like `wanted`.
fn find(value: StringRef<'_>, range: Range<u64>, wanted: bool) -> Option<u64> {
    if range.is_empty() {
        return None;
    }
    let split = split(range);
    // Turned over where clear bits are looked for, so that the first set bit is what is wanted.
    let turn = if wanted { 0 } else { 0xff };
    let in_byte = |at: usize, mask: u8| {
        let byte = (value.get(at).unwrap_or(0) ^ turn) & mask;
        (byte != 0).then(|| at as u64 * 8 + u64::from(byte.leading_zeros()))
    };
    let (first, mask) = split.first;
    in_byte(first, mask)
        .or_else(|| {
            let mut at = split.whole.start;
            for piece in value.pieces(split.whole) {
                if let Some(found) = find_other(piece, turn) {
                    return in_byte(at + found, 0xff);
                }
                at += piece.len();
            }
            None
        })
        .or_else(|| split.last.and_then(|(last, mask)| in_byte(last, mask)))
}

/// Where the first byte is that is not `skipped`.
fn find_other(bytes: &[u8], skipped: u8) -> Option<usize> {
    let words = bytes.chunks_exact(8).take_while(|word| *word == [skipped; 8]).count();
    let at = bytes[words * 8..].iter().position(|byte| *byte != skipped)?;
    Some(words * 8 + at)
}

/// A combination of the bits that the sources of `BITOP` have at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
    /// In the first source and in no other.
    Diff,
    /// In another source and not in the first.
    Diff1,
    /// In the first source and in another.
    AndOr,
    /// In exactly one source.
    One,
}

const OPERATIONS: &[(&str, Operation)] = &[
    ("AND", Operation::And),
    ("OR", Operation::Or),
    ("XOR", Operation::Xor),
    ("NOT", Operation::Not),
    ("DIFF", Operation::Diff),
    ("DIFF1", Operation::Diff1),
    ("ANDOR", Operation::AndOr),
    ("ONE", Operation::One),
];

impl Operation {
    /// The operation of this name that takes so many sources.
    fn parse(word: &[u8], sources: usize) -> Result<Operation, CommandError> {
        let named = OPERATIONS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
        match named {
            None => Err(CommandError::Syntax),
            Some((_, Operation::Not)) if sources != 1 => {
                Err(CommandError::text("ERR BITOP NOT must be called with a single source key."))
            }
            Some((name, Operation::Diff | Operation::Diff1 | Operation::AndOr)) if sources < 2 => {
                Err(CommandError::owned(format!(
                    "ERR BITOP {name} must be called with at least two source keys."
                )))
            }
            Some((_, operation)) => Ok(*operation),
        }
    }

    /// The combination. REQUIRES: there are as many sources as the operation takes, and the longest has `len`
    /// bytes.
    fn combine(self, sources: &[StringRef<'_>], len: usize) -> Vec<u8> {
        match self {
            Operation::And => from_first(sources, len, |a, b| a & b),
            Operation::Or => from_first(sources, len, |a, b| a | b),
            Operation::Xor => from_first(sources, len, |a, b| a ^ b),
            Operation::Diff => from_first(sources, len, |a, b| a & !b),
            Operation::Diff1 => others_and_first(sources, len, |others, first| others & !first),
            Operation::AndOr => others_and_first(sources, len, |others, first| others & first),
            Operation::One => in_one(sources, len),
            Operation::Not => {
                let mut result = filled_up(sources[0], len);
                result.iter_mut().for_each(|byte| *byte = !*byte);
                result
            }
        }
    }
}

/// The bytes of a string, and zeros up to `len`.
fn filled_up(source: StringRef<'_>, len: usize) -> Vec<u8> {
    let mut bytes = source.to_vec();
    bytes.resize(len, 0);
    bytes
}

/// The first source, combined with one after the other.
fn from_first(sources: &[StringRef<'_>], len: usize, combine: impl Fn(u8, u8) -> u8 + Copy) -> Vec<u8> {
    let mut result = filled_up(sources[0], len);
    sources[1..].iter().for_each(|source| fold(&mut result, *source, combine));
    result
}

/// The bits that any but the first source has, combined with the first one.
fn others_and_first(sources: &[StringRef<'_>], len: usize, combine: impl Fn(u8, u8) -> u8) -> Vec<u8> {
    let mut result = filled_up(sources[1], len);
    sources[2..].iter().for_each(|source| fold(&mut result, *source, |a, b| a | b));
    fold(&mut result, sources[0], combine);
    result
}

/// Combines each byte with that of a string that is not longer.
fn fold(result: &mut [u8], source: StringRef<'_>, combine: impl Fn(u8, u8) -> u8) {
    let (mut covered, beyond) = result.split_at_mut(source.len());
    for piece in source.pieces(0..source.len()) {
        let (here, rest) = covered.split_at_mut(piece.len());
        here.iter_mut().zip(piece).for_each(|(byte, other)| *byte = combine(*byte, *other));
        covered = rest;
    }
    // A shorter string is as good as filled up with zeros.
    beyond.iter_mut().for_each(|byte| *byte = combine(*byte, 0));
}

/// The bits that exactly one of the sources has, the longest of which has `len` bytes.
fn in_one(sources: &[StringRef<'_>], len: usize) -> Vec<u8> {
    /// Bytes of which it is noted at a time whether a second source has their bits.
    const PART: usize = 4 << 10;
    let mut result = vec![0; len];
    for (number, some) in result.chunks_mut(PART).enumerate() {
        let mut several = [0u8; PART];
        let part = number * PART..number * PART + some.len();
        for source in sources {
            let end = part.end.min(source.len());
            let mut at = 0;
            for piece in source.pieces(part.start.min(end)..end) {
                let places = some[at..].iter_mut().zip(&mut several[at..]);
                places.zip(piece).for_each(|((some, several), byte)| {
                    *several |= *some & byte;
                    *some |= byte;
                });
                at += piece.len();
            }
        }
        some.iter_mut().zip(&several).for_each(|(some, several)| *some &= !several);
    }
    result
}

fn bitop<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let operation = Operation::parse(args.at(1), args.len() - 3)?;
    let sources = args.tail(3).iter().map(|key| Ok(cx.string(key)?.unwrap_or_default()));
    let sources = sources.collect::<Result<Vec<StringRef<'_>>, CommandError>>()?;
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let target = args.at(2);
    if len > 0 {
        let result = operation.combine(&sources, len);
        cx.write(target, Change::Put { value: result.into(), expiry: None });
        cx.write(target, Change::MAKES_RAW);
    } else if cx.entry(target).is_some() {
        cx.write(target, Change::Delete);
    }
    cx.reply.integer(len as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bit(value: &[u8], at: u64) -> bool {
        value[(at / 8) as usize] >> (7 - at % 8) & 1 == 1
    }

    /// Compares all operations on these sources with their definitions, bit by bit.
    fn check_operations(sources: &[Vec<u8>]) {
        let strings: Vec<StringRef<'_>> = sources.iter().map(|source| StringRef::from(&source[..])).collect();
        let len = sources.iter().map(Vec::len).max().unwrap_or(0);
        for (name, _) in OPERATIONS {
            let Ok(operation) = Operation::parse(name.as_bytes(), sources.len()) else { continue };
            let result = operation.combine(&strings, len);
            assert_eq!(result.len(), len, "{name}");
            for at in 0..len as u64 * 8 {
                let has = |source: &Vec<u8>| at / 8 < source.len() as u64 && bit(source, at);
                let (first, others) = (has(&sources[0]), sources[1..].iter().any(has));
                let count = sources.iter().filter(|&source| has(source)).count();
                let expected = match operation {
                    Operation::And => count == sources.len(),
                    Operation::Or => count > 0,
                    Operation::Xor => count % 2 == 1,
                    Operation::Not => !first,
                    Operation::Diff => first && !others,
                    Operation::Diff1 => others && !first,
                    Operation::AndOr => first && others,
                    Operation::One => count == 1,
                };
                assert_eq!(bit(&result, at), expected, "{name}, bit {at} of {sources:?}");
            }
        }
    }

    #[test]
    fn operations_go_beyond_the_parts_in_which_they_are_done() {
        let pattern = |len: usize, step: usize| (0..len).map(|at| (at * step) as u8).collect::<Vec<u8>>();
        check_operations(&[pattern(9_000, 7), pattern(5_000, 3), pattern(4_096, 11)]);
    }

    #[test]
    fn operations_say_how_many_sources_they_take() {
        for (name, sources) in [("not", 2), ("not", 0), ("diff", 1), ("DIFF1", 1), ("AndOr", 1), ("nand", 2)]
        {
            assert!(Operation::parse(name.as_bytes(), sources).is_err(), "{name} of {sources}");
        }
        for (name, sources) in [("not", 1), ("one", 1), ("and", 1), ("diff", 2), ("andor", 3)] {
            assert!(Operation::parse(name.as_bytes(), sources).is_ok(), "{name} of {sources}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn operations_agree_with_looking_at_every_bit(
            sources in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 1..5),
        ) {
            check_operations(&sources);
        }

        #[test]
        fn counting_and_finding_agree_with_looking_at_every_bit(
            value in prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 1..40),
            a: u16,
            b: u16,
        ) {
            let (bits, string) = (value.len() as u64 * 8, StringRef::from(&value[..]));
            let (a, b) = (u64::from(a) % (bits + 1), u64::from(b) % (bits + 1));
            let range = a.min(b)..a.max(b);
            let slow = range.clone().filter(|at| bit(&value, *at)).count() as u64;
            prop_assert_eq!(count(string, range.clone()), slow);
            for wanted in [false, true] {
                let slow = range.clone().find(|at| bit(&value, *at) == wanted);
                prop_assert_eq!(find(string, range.clone(), wanted), slow);
            }
        }
    }
}
