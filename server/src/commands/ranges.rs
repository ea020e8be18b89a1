//! Parts of strings: appending, overwriting, cutting out.

use std::ops::Range;

use tarn_engine::record::{Change, Kind};
use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

const READ: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const CUT_OUT: &str = "O(N) for N bytes returned";

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row(
        "append",
        3,
        Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
        "2.0.0",
        "Adds bytes to the end of a string; a missing key becomes a string.",
        append,
    )
    .keys(&[KeySpec::one(&["RW", "insert"])])
    .complexity("O(N) for N bytes appended, amortized"),
    row(
        "setrange",
        4,
        Flags::WRITE.with(Flags::DENYOOM),
        "2.2.0",
        "Overwrites a part of a string, filling up with zeros.",
        setrange,
    )
    .keys(&[KeySpec::one(&["RW", "update"])])
    .complexity("O(N) for N bytes written or filled up"),
    row("getrange", 4, Flags::READONLY, "2.4.0", "Returns a part of a string.", getrange)
        .keys(READ)
        .complexity(CUT_OUT),
    row(
        "substr",
        4,
        Flags::READONLY,
        "1.0.0",
        "Returns a part of a string; the old name of GETRANGE.",
        getrange,
    )
    .keys(READ)
    .complexity(CUT_OUT),
];

fn append<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, bytes) = (args.at(1), args.at(2));
    let len = match cx.string(key)? {
        // A whole value, so that `OBJECT ENCODING` says what Redis says.
        None => {
            cx.write(key, Change::Put { value: bytes.into(), expiry: None });
            bytes.len()
        }
        Some(value) => {
            let len = value.len() + bytes.len();
            cx.check_string_len(len as u64)?;
            match bytes {
                [] => cx.touch_string(key),
                _ => cx.write(key, Change::Patch { offset: value.len() as u64, bytes: bytes.into() }),
            }
            len
        }
    };
    cx.reply.integer(len as i64);
    Ok(())
}

fn setrange<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, bytes) = (args.at(1), args.at(3));
    let offset = parse::integer(args.at(2))?;
    let offset = u64::try_from(offset).map_err(|_| CommandError::text("ERR offset is out of range"))?;
    let len = cx.string(key)?.map_or(0, |value| value.len()) as u64;
    if bytes.is_empty() {
        cx.reply.integer(len as i64);
        return Ok(());
    }
    let end = offset + bytes.len() as u64;
    cx.check_string_len(end)?;
    cx.write(key, Change::Patch { offset, bytes: bytes.into() });
    cx.reply.integer(len.max(end) as i64);
    Ok(())
}

fn getrange<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (start, end) = (parse::integer(args.at(2))?, parse::integer(args.at(3))?);
    let entry = cx.entry_of(args.at(1), Kind::String)?;
    let Some((entry, value)) = entry.and_then(|entry| Some((entry, entry.value().bytes()?))) else {
        cx.reply.bulk(b"");
        return Ok(());
    };
    let range = resolve(start, end, value.len() as u64);
    cx.reply_part_of(entry, value, range.start as usize..range.end as usize);
    Ok(())
}

/// The half-open range that two inclusive indexes mean among `len` elements, where negative ones count from
/// the end. Empty if they meet nothing.
pub(super) fn resolve(start: i64, end: i64, len: u64) -> Range<u64> {
    if is_crossed(start, end) { 0..0 } else { clamp(start, end, len) }
}

/// Whether both indexes count from the end and stand the wrong way round: nothing, though clamping might make
/// them the first element.
pub(super) fn is_crossed(start: i64, end: i64) -> bool {
    start < 0 && end < 0 && start > end
}

/// As [`resolve`], where indexes before the beginning mean the first element whatever their order.
pub(super) fn clamp(start: i64, end: i64, len: u64) -> Range<u64> {
    let clamp = |index: i64| match index {
        0.. => index as u64,
        _ => len.saturating_sub(index.unsigned_abs()),
    };
    let (first, last) = (clamp(start), clamp(end));
    if first > last || first >= len { 0..0 } else { first..last.saturating_add(1).min(len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_clamped_to_what_is_there() {
        assert_eq!(resolve(0, -1, 5), 0..5);
        assert_eq!(resolve(1, 3, 5), 1..4);
        assert_eq!(resolve(-3, -2, 5), 2..4);
        assert_eq!(resolve(-100, 2, 5), 0..3);
        assert_eq!(resolve(3, 100, 5), 3..5);
        assert_eq!(resolve(i64::MIN, i64::MAX, 5), 0..5);
        assert_eq!(resolve(-9, -8, 5), 0..1);
        for (start, end, len) in [(3, 2, 5), (5, 9, 5), (-1, -2, 5), (-8, -9, 5), (0, -1, 0), (0, 0, 0)] {
            assert!(resolve(start, end, len).is_empty(), "{start} {end} among {len}");
        }
        assert_eq!(clamp(-8, -9, 5), 0..1);
    }
}
