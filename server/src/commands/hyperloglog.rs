//! HyperLogLogs: how many different elements were added, about, in at most 12 KB. The value is a string in
//! Redis's own bytes: see `sketch`.

use std::borrow::Cow;

use tarn_engine::record::Change;
use tarn_resp::Args;

use super::sketch::{self, Added, Corrupted, REGISTERS, Sketch};
use crate::error::{CommandError, printable};
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::spec::{Flags, KeySpec};

const ADD: Flags = Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST);
const CHANGE: Flags = Flags::WRITE.with(Flags::DENYOOM);
/// It keeps what it counts in the value, and is known as a reader all the same. A value that has not changed
/// since is answered from there, and no value has more than some thousand runs.
const COUNT: Flags = Flags::READONLY.with(Flags::WRITE).with(Flags::MAY_REPLICATE).with(Flags::STEADY);

/// Registers of a dense value that are logged one by one, at most: between the first and the last of a few
/// are thousands of bytes as a rule.
const PATCHES_MAX: usize = 32;

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("pfadd", -2, ADD, "2.8.9", "Adds elements to a HyperLogLog.", pfadd)
        .keys(&[KeySpec::one(&["RW", "insert"])])
        .complexity("O(1) for each element"),
    row("pfcount", -2, COUNT, "2.8.9", "Estimates how many elements were added.", pfcount)
        .keys(&[KeySpec::range(1, -1, 1, &["RW", "access"])])
        .complexity("O(1) for one key that has not changed since, else O(N) with N being the number of keys"),
    row("pfmerge", -2, CHANGE, "2.8.9", "Stores the union of HyperLogLogs.", pfmerge)
        .keys(&[KeySpec::one(&["RW", "access", "insert"]), KeySpec::range(2, -1, 1, &["RO", "access"])])
        .complexity("O(N) with N being the number of keys"),
    row("pfdebug", 3, CHANGE.with(Flags::ADMIN), "2.8.9", "Shows how a HyperLogLog is kept.", pfdebug)
        .keys(&[KeySpec::range(2, 0, 1, &["RW", "access"])])
        .complexity("O(N) with N being the number of registers"),
    row("pfselftest", 1, Flags::ADMIN, "2.8.9", "Tests the registers of HyperLogLogs.", pfselftest)
        .complexity("O(N) with N being the number of registers"),
];

impl From<Corrupted> for CommandError {
    fn from(_: Corrupted) -> CommandError {
        CommandError::text("INVALIDOBJ Corrupted HLL object detected")
    }
}

/// The sketch at a key.
fn found<'c>(cx: &Context<'c, '_>, key: &[u8]) -> Result<Option<Sketch<'c>>, CommandError> {
    const NONE: CommandError = CommandError::text("WRONGTYPE Key is not a valid HyperLogLog string value.");
    let Some(string) = cx.string(key)? else { return Ok(None) };
    if string.len() > sketch::BYTES_MAX {
        return Err(NONE);
    }
    Sketch::of(string.to_bytes()).map(Some).ok_or(NONE)
}

/// Has a key hold a sketch that was made of `before`.
fn store<'a>(cx: &mut Context<'_, 'a>, key: &'a [u8], before: Option<&Sketch<'_>>, after: Sketch<'_>) {
    let Some(before) = before else {
        // Not put as a whole: so it is a raw string, as in Redis.
        return cx.write(key, Change::Patch { offset: 0, bytes: after.into_bytes().into() });
    };
    if after.bytes().len() < before.bytes().len() {
        // No patch makes a string shorter.
        let expiry = cx.entry(key).and_then(|entry| entry.expiry());
        cx.write(key, Change::Put { value: after.into_bytes().into(), expiry });
        cx.write(key, Change::MAKES_RAW);
        return;
    }
    let changed = after.changed_since(before);
    if changed.is_empty() {
        cx.write(key, Change::MAKES_RAW);
    }
    for (offset, bytes) in changed {
        cx.write(key, Change::Patch { offset: offset as u64, bytes: Cow::Owned(bytes.to_vec()) });
    }
}

fn patch<'a>(cx: &mut Context<'_, 'a>, key: &'a [u8], offset: usize, bytes: Vec<u8>) {
    cx.write(key, Change::Patch { offset: offset as u64, bytes: bytes.into() });
}

fn sparse_max(cx: &Context<'_, '_>) -> usize {
    cx.server.live.hll_sparse_max_bytes()
}

fn pfadd<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let before = found(cx, key)?;
    // One element, as most have it: the value is neither copied nor compared.
    if let (Some(before), 3) = (&before, args.len()) {
        match before.added(args.at(2), sparse_max(cx))? {
            Added::Nothing => {
                cx.reply.integer(0);
                return Ok(());
            }
            Added::Patch { offset, bytes } => {
                if let Some((at, byte)) = before.forgotten_count() {
                    patch(cx, key, at, vec![byte]);
                }
                patch(cx, key, offset, bytes);
                cx.reply.integer(1);
                return Ok(());
            }
            Added::Whole => {}
        }
    }
    let mut after = before.clone().unwrap_or_default();
    let most = sparse_max(cx);
    let mut registers = Vec::new();
    for element in args.tail(2) {
        registers.extend(after.add(element, most)?);
    }
    let is_changed = before.is_none() || !registers.is_empty();
    match &before {
        Some(before) if is_changed && before.is_dense() && registers.len() <= PATCHES_MAX => {
            if let Some((at, byte)) = before.forgotten_count() {
                patch(cx, key, at, vec![byte]);
            }
            after.bytes_of(registers).for_each(|(at, bytes)| patch(cx, key, at, bytes.to_vec()));
        }
        before if is_changed => {
            after.forget_count();
            store(cx, key, before.as_ref(), after);
        }
        _ => {}
    }
    cx.reply.integer(is_changed.into());
    Ok(())
}

fn pfcount<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len() > 2 {
        let mut registers = [0; REGISTERS];
        for key in args.tail(1) {
            if let Some(sketch) = found(cx, key)? {
                sketch.merge_into(&mut registers)?;
            }
        }
        cx.reply.integer(sketch::estimate(&registers) as i64);
        return Ok(());
    }
    let key = args.at(1);
    let Some(before) = found(cx, key)? else {
        cx.reply.integer(0);
        return Ok(());
    };
    if let Some(count) = before.known_count() {
        cx.reply.integer(count as i64);
        return Ok(());
    }
    let mut registers = [0; REGISTERS];
    before.merge_into(&mut registers)?;
    let count = sketch::estimate(&registers);
    let (offset, bytes) = sketch::kept_count(count);
    patch(cx, key, offset, bytes.to_vec());
    cx.reply.integer(count as i64);
    Ok(())
}

fn pfmerge<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let mut registers = [0; REGISTERS];
    let mut is_dense = false;
    for key in args.tail(1) {
        if let Some(sketch) = found(cx, key)? {
            is_dense |= sketch.is_dense();
            sketch.merge_into(&mut registers)?;
        }
    }
    let key = args.at(1);
    let before = found(cx, key)?;
    let mut after = before.clone().unwrap_or_default();
    if is_dense {
        after.make_dense()?;
    }
    let most = sparse_max(cx);
    for (index, count) in registers.iter().enumerate().filter(|(_, count)| **count > 0) {
        after.set(index, *count, most)?;
    }
    after.forget_count();
    store(cx, key, before.as_ref(), after);
    cx.reply.ok();
    Ok(())
}

fn pfdebug<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (subcommand, key) = (args.at(1), args.at(2));
    let Some(before) = found(cx, key)? else {
        return Err(CommandError::text("ERR The specified key does not exist"));
    };
    let is = |name: &str| subcommand.eq_ignore_ascii_case(name.as_bytes());
    if is("getreg") || is("todense") {
        let mut after = before.clone();
        let is_converted = !after.is_dense();
        after.make_dense()?;
        if is("getreg") {
            let mut registers = [0; REGISTERS];
            after.merge_into(&mut registers)?;
            cx.reply.array(REGISTERS);
            registers.iter().for_each(|count| cx.reply.integer(i64::from(*count)));
        } else {
            cx.reply.integer(is_converted.into());
        }
        if is_converted {
            store(cx, key, Some(&before), after);
        }
    } else if is("decode") {
        let runs = before.runs().ok_or(CommandError::text("ERR HLL encoding is not sparse"))?;
        cx.reply.bulk(runs.as_bytes());
    } else if is("encoding") {
        cx.reply.simple(if before.is_dense() { "dense" } else { "sparse" });
    } else {
        let subcommand = printable(subcommand);
        return Err(CommandError::owned(format!("ERR Unknown PFDEBUG subcommand '{subcommand}'")));
    }
    Ok(())
}

/// Whether registers keep what is set, and not a bit of their neighbours.
fn pfselftest<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let mut sketch = Sketch::default();
    sketch.make_dense()?;
    let mut expected = [0_u8; REGISTERS];
    for step in 0..4 * REGISTERS {
        let index = step * 7919 % REGISTERS;
        let count = (step * 31 % 51 + 1) as u8;
        expected[index] = expected[index].max(count);
        sketch.set(index, count, 0)?;
    }
    let mut registers = [0; REGISTERS];
    sketch.merge_into(&mut registers)?;
    if registers != expected {
        return Err(CommandError::text("ERR TESTFAILED a register is not what was set"));
    }
    cx.reply.ok();
    Ok(())
}
