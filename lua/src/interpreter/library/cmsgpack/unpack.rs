//! This module reads MessagePack and makes Lua values.
//!
//! The reader keeps its own stack of open tables, so that nested input cannot exhaust the machine
//! stack. It counts the Lua stack slots that the C library would use, to fail at the same depth.

use mlua::{Lua, MultiValue, Result, Table, Value};

use crate::interpreter::library::args::{Args, STACK_LIMIT};
use crate::interpreter::raise;

const TOO_MANY: &str =
    "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)";
const TOO_DEEP: &str = "stack overflow (in function mp_decode_to_lua_array)";

/// Unpacks all values of a string.
pub(crate) fn unpack(lua: &Lua, values: MultiValue) -> Result<MultiValue> {
    let args = Args::new(lua, values);
    unpack_range(lua, &args, None, 0)
}

/// Unpacks one value and returns the offset of the next one before it.
pub(crate) fn unpack_one(lua: &Lua, values: MultiValue) -> Result<MultiValue> {
    let args = Args::new(lua, values);
    let offset = args.integer_or(2, 0)?;
    unpack_range(lua, &args, Some(1), offset)
}

/// Unpacks a limited number of values and returns the offset of the next one before them.
pub(crate) fn unpack_limit(lua: &Lua, values: MultiValue) -> Result<MultiValue> {
    let args = Args::new(lua, values);
    let limit = args.integer(2)?;
    let offset = args.integer_or(3, 0)?;
    unpack_range(lua, &args, Some(limit), offset)
}

fn unpack_range(lua: &Lua, args: &Args, limit: Option<i64>, offset: i64) -> Result<MultiValue> {
    let data = args.string(1)?;
    let data = data.as_bytes();
    let count = limit.unwrap_or(0);
    if offset < 0 || count < 0 {
        let shown = c_int(offset);
        let text = format!("Invalid request to unpack with offset of {shown} and limit of {}.", data.len());
        return Err(raise::error(lua, text));
    }
    let Some(start) = usize::try_from(offset).ok().filter(|start| *start <= data.len()) else {
        let text = format!("Start offset {} greater than input length {}.", c_int(offset), data.len());
        return Err(raise::error(lua, text));
    };
    // A limit and an offset of 0 mean the same as no limit.
    let full = count == 0 && offset == 0;
    let base = if limit.is_none() { args.count() } else { 1 };
    let mut reader = Reader { lua, data: &data, at: start, used: base, frames: Vec::new() };
    let mut results = MultiValue::new();
    while reader.at < data.len() && (full || (results.len() as i64) < count) {
        let value = reader.read();
        let value = value.map_err(|e| raise::instead_of_full_stack(e, || raise::error(lua, TOO_MANY)))?;
        results.push_back(value);
        reader.used += 1;
    }
    if !full {
        let next = if reader.at == data.len() { -1 } else { reader.at as i64 };
        results.push_front(Value::Integer(next));
    }
    Ok(results)
}

/// Keeps the low 32 bits, as the C library does when it prints with `%d`.
fn c_int(n: i64) -> i32 {
    n as i32
}

/// An open table. `left` counts the entries that are not complete.
enum Frame {
    Array { table: Table, left: u32, index: i64 },
    Map { table: Table, left: u32, key: Option<Value> },
}

impl Frame {
    /// Returns the number of stack slots that the C library uses for the frame.
    fn slots(&self) -> usize {
        if matches!(self, Frame::Map { key: None, .. }) { 1 } else { 2 }
    }

    fn is_done(&self) -> bool {
        matches!(self, Frame::Array { left: 0, .. } | Frame::Map { left: 0, .. })
    }

    fn into_table(self) -> Table {
        match self {
            Frame::Array { table, .. } | Frame::Map { table, .. } => table,
        }
    }

    /// Puts a value into the table. A map takes keys and values by turns.
    fn store(&mut self, lua: &Lua, value: Value) -> Result<()> {
        match self {
            Frame::Array { table, left, index } => {
                if !value.is_nil() {
                    table.raw_set(*index, value)?;
                }
                *index += 1;
                *left -= 1;
            }
            Frame::Map { table, left, key } => match key.take() {
                None => *key = Some(value),
                Some(key) => {
                    check_key(lua, &key)?;
                    table.raw_set(key, value)?;
                    *left -= 1;
                }
            },
        }
        Ok(())
    }
}

fn check_key(lua: &Lua, key: &Value) -> Result<()> {
    match key {
        Value::Nil => Err(raise::plain(lua, "table index is nil")),
        Value::Number(n) if n.is_nan() => Err(raise::plain(lua, "table index is NaN")),
        _ => Ok(()),
    }
}

/// An item is a complete value or the head of a table.
enum Item {
    Value(Value),
    Array(u32),
    Map(u32),
}

struct Reader<'a> {
    lua: &'a Lua,
    data: &'a [u8],
    at: usize,
    /// The number of stack slots that the C library would have in use.
    used: usize,
    frames: Vec<Frame>,
}

impl Reader<'_> {
    /// Reads one complete value.
    fn read(&mut self) -> Result<Value> {
        loop {
            self.check(1, TOO_MANY)?;
            let item = self.read_item()?;
            let mut complete = match item {
                Item::Value(value) => Some(value),
                Item::Array(left) => {
                    self.check(2, TOO_DEEP)?;
                    let table = self.lua.create_table()?;
                    self.open(Frame::Array { table, left, index: 1 });
                    None
                }
                Item::Map(left) => {
                    let table = self.lua.create_table()?;
                    self.open(Frame::Map { table, left, key: None });
                    None
                }
            };
            loop {
                if let Some(value) = complete.take() {
                    let Some(frame) = self.frames.last_mut() else {
                        return Ok(value);
                    };
                    self.used -= frame.slots();
                    frame.store(self.lua, value)?;
                    self.used += frame.slots();
                }
                let Some(frame) = self.frames.pop_if(|frame| frame.is_done()) else {
                    break;
                };
                self.used -= frame.slots();
                complete = Some(Value::Table(frame.into_table()));
            }
        }
    }

    fn check(&self, slots: usize, text: &str) -> Result<()> {
        if self.used + slots > STACK_LIMIT { Err(raise::error(self.lua, text)) } else { Ok(()) }
    }

    fn open(&mut self, frame: Frame) {
        self.used += frame.slots();
        self.frames.push(frame);
    }

    fn take(&mut self, len: usize) -> Result<&[u8]> {
        let end = self.at.checked_add(len);
        let bytes = end.and_then(|end| self.data.get(self.at..end));
        let bytes = bytes.ok_or_else(|| raise::error(self.lua, "Missing bytes in input."))?;
        self.at += len;
        Ok(bytes)
    }

    fn unsigned(&mut self, size: usize) -> Result<u64> {
        Ok(self.take(size)?.iter().fold(0, |n, byte| (n << 8) | u64::from(*byte)))
    }

    /// Reads a length of up to 4 bytes.
    fn len(&mut self, size: usize) -> Result<u32> {
        Ok(u32::try_from(self.unsigned(size)?).unwrap_or(u32::MAX))
    }

    fn string(&mut self, len: u32) -> Result<Item> {
        let lua = self.lua;
        let bytes = self.take(usize::try_from(len).unwrap_or(usize::MAX))?;
        Ok(Item::Value(Value::String(lua.create_string(bytes)?)))
    }

    fn signed(&mut self, size: usize) -> Result<Item> {
        let shift = 64 - 8 * size;
        let value = (self.unsigned(size)? << shift).cast_signed() >> shift;
        Ok(number(value as f64))
    }

    fn read_item(&mut self) -> Result<Item> {
        let tag = self.unsigned(1)?.to_le_bytes()[0];
        Ok(match tag {
            0..=0x7f => number(f64::from(tag)),
            0xe0.. => number(f64::from(tag.cast_signed())),
            0x80..=0x8f => Item::Map(u32::from(tag & 15)),
            0x90..=0x9f => Item::Array(u32::from(tag & 15)),
            0xa0..=0xbf => self.string(u32::from(tag & 31))?,
            0xc0 => Item::Value(Value::Nil),
            0xc2 | 0xc3 => Item::Value(Value::Boolean(tag == 0xc3)),
            0xca => number(f64::from(f32::from_bits(self.len(4)?))),
            0xcb => number(f64::from_bits(self.unsigned(8)?)),
            // The C library makes a signed number of the largest size, even of an unsigned one.
            0xcf => self.signed(8)?,
            0xcc..=0xce => number(self.unsigned(1 << (tag & 3))? as f64),
            0xd0..=0xd3 => self.signed(1 << (tag & 3))?,
            0xd9..=0xdb => {
                let len = self.len(1 << (tag - 0xd9))?;
                self.string(len)?
            }
            0xdc | 0xdd => Item::Array(self.len(2 << (tag & 1))?),
            0xde | 0xdf => Item::Map(self.len(2 << (tag & 1))?),
            _ => return Err(raise::error(self.lua, "Bad data format in input.")),
        })
    }
}

fn number(n: f64) -> Item {
    Item::Value(Value::Number(n))
}
