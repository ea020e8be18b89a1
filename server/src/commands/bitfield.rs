//! `BITFIELD`: integers of any width at any bit of a string.
//!
//! Later operations see what earlier ones wrote, so writes go to an [`Overlay`] of the bytes that they touch;
//! what differs from the string in the end becomes patches. A string of 100 MB is neither copied nor logged
//! whole for one counter in it.

use std::collections::BTreeMap;

use tarn_engine::record::Change;
use tarn_engine::value::StringRef;
use tarn_resp::Args;

use super::bits::bit_offset;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row(
        "bitfield",
        -2,
        Flags::WRITE.with(Flags::DENYOOM),
        "3.2.0",
        "Reads and changes integers of any width in a string.",
        bitfield,
    )
    .keys(&[KeySpec::one(&["RW", "access", "update", "variable_flags"])])
    .complexity("O(1) for each operation"),
    row(
        "bitfield_ro",
        -2,
        Flags::READONLY.with(Flags::FAST),
        "6.0.0",
        "Reads integers of any width in a string.",
        bitfield_ro,
    )
    .keys(&[KeySpec::one(&["RO", "access"])])
    .complexity("O(1) for each operation"),
];

/// How a result that does not fit its field is treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Overflow {
    /// The high bits are lost.
    Wrap,
    /// The nearest number that fits is taken.
    Saturate,
    /// Nothing is written.
    Fail,
}

/// Signedness and width of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    is_signed: bool,
    /// 1 to 64, of an unsigned one to 63.
    bits: u32,
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

#[derive(Clone, Copy)]
struct Operation {
    field: Field,
    offset: u64,
    action: Action,
}

impl Field {
    fn parse(text: &[u8]) -> Result<Field, CommandError> {
        const NO_TYPE: &str = "ERR Invalid bitfield type. Use something like i16 u8. \
                               Note that u64 is not supported but i64 is.";
        let (is_signed, digits, bits_max) = match text {
            [b'i', digits @ ..] => (true, digits, 64),
            [b'u', digits @ ..] => (false, digits, 63),
            _ => return Err(CommandError::text(NO_TYPE)),
        };
        match parse::integer(digits) {
            Ok(bits) if (1..=bits_max).contains(&bits) => Ok(Field { is_signed, bits: bits as u32 }),
            _ => Err(CommandError::text(NO_TYPE)),
        }
    }

    fn min(self) -> i128 {
        if self.is_signed { -(1 << (self.bits - 1)) } else { 0 }
    }

    fn max(self) -> i128 {
        if self.is_signed { (1 << (self.bits - 1)) - 1 } else { (1 << self.bits) - 1 }
    }

    /// The number that the low bits of `raw` are in this field.
    fn number(self, raw: u64) -> i128 {
        let raw = i128::from(raw) & ((1 << self.bits) - 1);
        if raw > self.max() { raw - (1 << self.bits) } else { raw }
    }

    /// The number that Redis takes for the argument of a `SET`. A negative one in an unsigned field is a
    /// large one. One that is further below the largest number of a signed field than 64 bits can tell is
    /// above it, so that it saturates there: the distance wraps.
    fn as_redis_reads(self, number: i64) -> i128 {
        let is_large = !self.is_signed || self.max() - i128::from(number) > i128::from(i64::MAX);
        if is_large && self.bits < 64 { i128::from(number as u64) } else { i128::from(number) }
    }

    /// The number stored for `number`; `None` if nothing must be stored.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i128> {
        if (self.min()..=self.max()).contains(&number) {
            return Some(number);
        }
        match overflow {
            Overflow::Wrap => Some(self.number(number as u64)),
            Overflow::Saturate => Some(number.clamp(self.min(), self.max())),
            Overflow::Fail => None,
        }
    }
}

impl Operation {
    /// The number to be stored and the reply, `None` if nothing is stored, from the number that is there.
    fn outcome(&self, old: i128) -> (Option<i128>, Option<i128>) {
        match self.action {
            Action::Get => (None, Some(old)),
            Action::Set(number, overflow) => {
                let stored = self.field.fit(self.field.as_redis_reads(number), overflow);
                (stored, stored.map(|_| old))
            }
            Action::Add(by, overflow) => {
                let stored = self.field.fit(old + i128::from(by), overflow);
                (stored, stored)
            }
        }
    }

    /// Number of the last byte that the field touches.
    fn last_byte(&self) -> u64 {
        (self.offset + u64::from(self.field.bits) - 1) / 8
    }
}

/// A string with changed bytes.
struct Overlay<'v> {
    value: StringRef<'v>,
    changed: BTreeMap<u64, u8>,
}

impl Overlay<'_> {
    fn byte(&self, at: u64) -> u8 {
        let below = || usize::try_from(at).ok().and_then(|at| self.value.get(at)).unwrap_or(0);
        self.changed.get(&at).copied().unwrap_or_else(below)
    }

    /// The `bits` bits from `offset` on, in the low bits of the result.
    fn read(&self, offset: u64, bits: u32) -> u64 {
        // 64 bits touch nine bytes at most.
        let (first, last) = (offset / 8, (offset + u64::from(bits) - 1) / 8);
        let bytes = (first..=last).fold(0u128, |all, at| all << 8 | u128::from(self.byte(at)));
        (bytes >> (last * 8 + 8 - offset - u64::from(bits))) as u64 & (u64::MAX >> (64 - bits))
    }

    fn write(&mut self, offset: u64, bits: u32, raw: u64) {
        let (first, last) = (offset / 8, (offset + u64::from(bits) - 1) / 8);
        let shift = last * 8 + 8 - offset - u64::from(bits);
        let mask = u128::from(u64::MAX >> (64 - bits)) << shift;
        let raw = u128::from(raw) << shift & mask;
        for at in first..=last {
            let down = (last - at) * 8;
            let byte = self.byte(at) & !((mask >> down) as u8) | (raw >> down) as u8;
            self.changed.insert(at, byte);
        }
    }

    /// The bytes to write so that the string is the overlay and reaches to `last_byte`: bytes that follow
    /// each other, with the offset of the first.
    fn patches(&self, last_byte: u64) -> Vec<(u64, Vec<u8>)> {
        let mut patches: Vec<(u64, Vec<u8>)> = Vec::new();
        let len = self.value.len() as u64;
        let grown = (last_byte >= len).then_some(last_byte);
        let mut written = self.changed.clone();
        if let Some(last_byte) = grown {
            written.entry(last_byte).or_insert(0);
        }
        for (&at, &byte) in &written {
            if at < len && self.value.get(at as usize) == Some(byte) {
                continue;
            }
            match patches.last_mut() {
                Some((start, bytes)) if *start + bytes.len() as u64 == at => bytes.push(byte),
                _ => patches.push((at, vec![byte])),
            }
        }
        patches
    }
}

fn bitfield<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let operations = parse_operations(cx, args)?;
    let key = args.at(1);
    let value = cx.string(key)?.unwrap_or_default();
    let mut overlay = Overlay { value, changed: BTreeMap::new() };
    cx.reply.array(operations.len());
    let mut last_byte = None;
    for operation in &operations {
        let Operation { field, offset, action } = *operation;
        let old = field.number(overlay.read(offset, field.bits));
        let (stored, reply) = operation.outcome(old);
        if let Some(number) = stored {
            overlay.write(offset, field.bits, number as u64);
        }
        if !matches!(action, Action::Get) {
            // Room is made even where the write then fails.
            last_byte = last_byte.max(Some(operation.last_byte()));
        }
        match reply {
            Some(number) => cx.reply.integer(number as i64),
            None => cx.reply.null(),
        }
    }
    if let Some(last_byte) = last_byte {
        cx.check_string_len(last_byte + 1)?;
        let patches = overlay.patches(last_byte);
        if patches.is_empty() {
            cx.touch_string(key);
        }
        for (offset, bytes) in patches {
            cx.write(key, Change::Patch { offset, bytes: bytes.into() });
        }
    }
    Ok(())
}

fn bitfield_ro<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let operations = parse_operations(cx, args)?;
    if operations.iter().any(|operation| !matches!(operation.action, Action::Get)) {
        return Err(CommandError::text("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    bitfield(cx, args)
}

fn parse_operations(cx: &Context<'_, '_>, args: Args<'_>) -> Result<Vec<Operation>, CommandError> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut index = 2;
    while let Some(word) = args.get(index) {
        if word.eq_ignore_ascii_case(b"overflow") {
            overflow = parse_overflow(args.get(index + 1).ok_or(CommandError::Syntax)?)?;
            index += 2;
            continue;
        }
        let sets = word.eq_ignore_ascii_case(b"set");
        let takes_number = sets || word.eq_ignore_ascii_case(b"incrby");
        let len = if takes_number { 4 } else { 3 };
        if !takes_number && !word.eq_ignore_ascii_case(b"get") || args.len() < index + len {
            return Err(CommandError::Syntax);
        }
        let field = Field::parse(args.at(index + 1))?;
        let offset = bit_offset(cx, args.at(index + 2), Some(field.bits))?;
        let action = if takes_number {
            let number = parse::integer(args.at(index + 3))?;
            if sets { Action::Set(number, overflow) } else { Action::Add(number, overflow) }
        } else {
            Action::Get
        };
        operations.push(Operation { field, offset, action });
        index += len;
    }
    Ok(operations)
}

fn parse_overflow(word: &[u8]) -> Result<Overflow, CommandError> {
    match word {
        _ if word.eq_ignore_ascii_case(b"wrap") => Ok(Overflow::Wrap),
        _ if word.eq_ignore_ascii_case(b"sat") => Ok(Overflow::Saturate),
        _ if word.eq_ignore_ascii_case(b"fail") => Ok(Overflow::Fail),
        _ => Err(CommandError::text("ERR Invalid OVERFLOW type specified")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const I8: Field = Field { is_signed: true, bits: 8 };
    const U4: Field = Field { is_signed: false, bits: 4 };
    const I64: Field = Field { is_signed: true, bits: 64 };

    #[test]
    fn types_have_a_letter_and_a_width_that_a_reply_can_hold() {
        assert_eq!(Field::parse(b"i64"), Ok(I64));
        assert_eq!(Field::parse(b"u4"), Ok(U4));
        for text in ["u64", "i65", "i0", "8", "x8", "i", "i 8", "i08", "I8"] {
            assert!(Field::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_wraps_saturates_or_fails() {
        assert_eq!(I8.fit(128, Overflow::Wrap), Some(-128));
        assert_eq!(I8.fit(-129, Overflow::Wrap), Some(127));
        assert_eq!(I8.fit(1000, Overflow::Saturate), Some(127));
        assert_eq!(I8.fit(-1000, Overflow::Saturate), Some(-128));
        assert_eq!(I8.fit(128, Overflow::Fail), None);
        assert_eq!(U4.fit(-1, Overflow::Wrap), Some(15));
        assert_eq!(U4.fit(-1, Overflow::Saturate), Some(0));
        assert_eq!(I64.fit(i128::from(i64::MAX) + 1, Overflow::Wrap), Some(i128::from(i64::MIN)));
        let set = Operation { field: U4, offset: 0, action: Action::Set(-1, Overflow::Saturate) };
        assert_eq!(set.outcome(3), (Some(15), Some(3)));
        for (number, stored) in [(i64::MIN, 127), (i64::MIN + 127, 127), (i64::MIN + 128, -128), (-129, -128)]
        {
            let set = Operation { field: I8, offset: 0, action: Action::Set(number, Overflow::Saturate) };
            assert_eq!(set.outcome(0).0, Some(stored), "{number}");
        }
    }

    #[test]
    fn patches_cover_what_changed_and_the_last_byte() {
        let mut overlay = Overlay { value: b"abc"[..].into(), changed: BTreeMap::new() };
        overlay.write(8, 8, u64::from(b'b'));
        assert!(overlay.patches(1).is_empty(), "the same byte again");
        overlay.write(0, 8, u64::from(b'x'));
        overlay.write(16, 16, 0x7a7a);
        assert_eq!(overlay.patches(3), [(0, b"x".to_vec()), (2, b"zz".to_vec())]);
        assert_eq!(
            Overlay { value: StringRef::default(), changed: BTreeMap::new() }.patches(5),
            [(5, vec![0])]
        );
    }

    proptest! {
        #[test]
        fn a_field_reads_back_and_its_neighbours_stay(
            value in prop::collection::vec(any::<u8>(), 0..24),
            offset in 0u64..100,
            bits in 1u32..=64,
            number: u64,
        ) {
            let mut overlay = Overlay { value: value[..].into(), changed: BTreeMap::new() };
            let before: Vec<u64> = (0..200).map(|at| overlay.read(at, 1)).collect();
            let number = number & (u64::MAX >> (64 - bits));
            overlay.write(offset, bits, number);
            prop_assert_eq!(overlay.read(offset, bits), number);
            for at in (0..200).filter(|at| !(offset..offset + u64::from(bits)).contains(at)) {
                prop_assert_eq!(overlay.read(at, 1), before[at as usize]);
            }
        }
    }
}
