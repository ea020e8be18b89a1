//! This module writes Lua values as MessagePack.

use mlua::{Error, Lua, LuaString, MultiValue, Result, Table, Value};

use crate::interpreter::library::args::{Args, STACK_LIMIT};
use crate::interpreter::library::number;

/// The largest output. A script can ask for much more than it has memory.
const MAX_OUTPUT: usize = 256 << 20;

/// Tables that are nested deeper than this become nil.
const MAX_NESTING: usize = 16;

/// Packs all arguments, one after the other, into one string.
pub(crate) fn pack(lua: &Lua, values: MultiValue) -> Result<LuaString> {
    let args = Args::new(lua, values);
    if args.count() == 0 {
        return Err(args.bad(0, "MessagePack pack needs input."));
    }
    if args.count() > STACK_LIMIT / 2 {
        return Err(args.bad(0, "Too many arguments for MessagePack pack."));
    }
    let mut out = Vec::new();
    for index in 1..=args.count() {
        if let Some(value) = args.get(index) {
            put_value(&mut out, value, 0)?;
        }
    }
    lua.create_string(out)
}

fn put_value(out: &mut Vec<u8>, value: &Value, nesting: usize) -> Result<()> {
    if out.len() > MAX_OUTPUT {
        return Err(Error::MemoryError("not enough memory".to_owned()));
    }
    match value {
        Value::Boolean(flag) => out.push(if *flag { 0xc3 } else { 0xc2 }),
        Value::Integer(n) => put_integer(out, *n),
        Value::Number(n) => put_number(out, *n),
        Value::String(text) => put_string(out, &text.as_bytes()),
        Value::Table(table) if nesting < MAX_NESTING => put_table(out, table, nesting)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

fn put_number(out: &mut Vec<u8>, n: f64) {
    let integer = number::to_i64(n);
    let float = n as f32;
    if integer as f64 == n {
        put_integer(out, integer);
    } else if f64::from(float) == n {
        out.push(0xca);
        out.extend_from_slice(&float.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&n.to_be_bytes());
    }
}

/// Writes the low `size` bytes of a number after a tag.
fn put_tagged(out: &mut Vec<u8>, tag: u8, n: u64, size: usize) {
    out.push(tag);
    out.extend_from_slice(&n.to_be_bytes()[8 - size..]);
}

fn put_integer(out: &mut Vec<u8>, n: i64) {
    let bits = n.cast_unsigned();
    match n {
        -32..=0x7f => out.push(bits.to_le_bytes()[0]),
        0x80..=0xff => put_tagged(out, 0xcc, bits, 1),
        0x100..=0xffff => put_tagged(out, 0xcd, bits, 2),
        0x1_0000..=0xffff_ffff => put_tagged(out, 0xce, bits, 4),
        0x1_0000_0000.. => put_tagged(out, 0xcf, bits, 8),
        -0x80..=-33 => put_tagged(out, 0xd0, bits, 1),
        -0x8000..=-0x81 => put_tagged(out, 0xd1, bits, 2),
        -0x8000_0000..=-0x8001 => put_tagged(out, 0xd2, bits, 4),
        _ => put_tagged(out, 0xd3, bits, 8),
    }
}

fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    let len = text.len() as u64;
    match len {
        0..=31 => put_tagged(out, 0xa0 | len.to_le_bytes()[0], 0, 0),
        32..=0xff => put_tagged(out, 0xd9, len, 1),
        0x100..=0xffff => put_tagged(out, 0xda, len, 2),
        _ => put_tagged(out, 0xdb, len, 4),
    }
    out.extend_from_slice(text);
}

/// Writes the head of an array (`small` 0x90, `big` 0xdc) or of a map (0x80, 0xde).
fn put_head(out: &mut Vec<u8>, small: u8, big: u8, len: u64) {
    match len {
        0..=15 => put_tagged(out, small | len.to_le_bytes()[0], 0, 0),
        16..=0xffff => put_tagged(out, big, len, 2),
        _ => put_tagged(out, big + 1, len, 4),
    }
}

/// The shape of a table: the number of its entries, and whether their keys are 1 to n.
struct Shape {
    entries: u64,
    array: bool,
}

fn shape(table: &Table) -> Result<Shape> {
    let mut shape = Shape { entries: 0, array: true };
    let mut largest = 0;
    table.for_each(|key: Value, _: Value| {
        shape.entries += 1;
        match key {
            Value::Integer(n) if n > 0 => largest = largest.max(n.cast_unsigned()),
            _ => shape.array = false,
        }
        Ok(())
    })?;
    shape.array &= largest == shape.entries;
    Ok(shape)
}

fn put_table(out: &mut Vec<u8>, table: &Table, nesting: usize) -> Result<()> {
    let shape = shape(table)?;
    if !shape.array {
        put_head(out, 0x80, 0xde, shape.entries);
        return table.for_each(|key: Value, value: Value| {
            put_value(out, &key, nesting + 1)?;
            put_value(out, &value, nesting + 1)
        });
    }
    put_head(out, 0x90, 0xdc, shape.entries);
    for index in 1..=shape.entries {
        let key = i64::try_from(index).map_err(Error::external)?;
        put_value(out, &table.raw_get::<Value>(key)?, nesting + 1)?;
    }
    Ok(())
}
