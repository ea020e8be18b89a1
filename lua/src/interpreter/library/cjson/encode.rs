//! This module writes Lua values as JSON.
//!
//! The writer keeps its own stack of open tables, so that nested tables cannot exhaust the machine
//! stack. It counts the Lua stack slots that the C library would use, to fail at the same depth.

use mlua::{Error, Function, Lua, Result, Table, Value};

use super::options::{Config, Invalid};
use crate::interpreter::library::args::{STACK_LIMIT, type_name};
use crate::interpreter::library::number;
use crate::interpreter::raise;

/// The largest output. A script can ask for arrays that are much longer than its data.
const MAX_OUTPUT: usize = 256 << 20;

/// Encodes a value. `next` is the function of that name of the Lua base library.
pub(crate) fn encode(lua: &Lua, next: &Function, config: Config, value: &Value) -> Result<Vec<u8>> {
    let mut writer = Writer { lua, next, config, out: Vec::new(), used: 1, frames: Vec::new() };
    match writer.run(value) {
        Ok(()) => Ok(writer.out),
        Err(error) => Err(raise::instead_of_full_stack(error, || writer.too_deep())),
    }
}

/// An open table.
enum Frame {
    Array { table: Table, index: i64, len: i64 },
    Object { table: Table, key: Value },
}

impl Frame {
    fn slots(&self) -> usize {
        match self {
            Frame::Array { .. } => 1,
            Frame::Object { .. } => 2,
        }
    }

    /// Writes what comes before the next value and returns that value, or closes the table.
    fn advance(&mut self, writer: &mut Writer) -> Result<Option<Value>> {
        match self {
            Frame::Array { table, index, len } => {
                if *index == *len {
                    writer.out.push(b']');
                    return Ok(None);
                }
                if *index > 0 {
                    writer.out.push(b',');
                }
                *index += 1;
                writer.check_size()?;
                table.raw_get(*index).map(Some)
            }
            Frame::Object { table, key } => {
                let first = key.is_nil();
                let (new_key, value): (Value, Value) = writer.next.call((&*table, &*key))?;
                if new_key.is_nil() {
                    writer.out.push(b'}');
                    return Ok(None);
                }
                if !first {
                    writer.out.push(b',');
                }
                writer.put_key(&new_key)?;
                *key = new_key;
                Ok(Some(value))
            }
        }
    }
}

struct Writer<'a> {
    lua: &'a Lua,
    next: &'a Function,
    config: Config,
    out: Vec<u8>,
    /// The number of stack slots that the C library would have in use.
    used: usize,
    frames: Vec<Frame>,
}

impl Writer<'_> {
    fn run(&mut self, value: &Value) -> Result<()> {
        self.put_value(value)?;
        while let Some(mut frame) = self.frames.pop() {
            match frame.advance(self)? {
                Some(value) => {
                    self.frames.push(frame);
                    self.put_value(&value)?;
                }
                None => self.used -= frame.slots(),
            }
        }
        Ok(())
    }

    fn too_deep(&self) -> Error {
        let depth = self.frames.len() + 1;
        raise::error(self.lua, format!("Cannot serialise, excessive nesting ({depth})"))
    }

    fn put_value(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::String(text) => put_string(&mut self.out, &text.as_bytes()),
            Value::Integer(n) => self.put_number(*n as f64)?,
            Value::Number(n) => self.put_number(*n)?,
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Table(table) => self.open(table)?,
            Value::Nil => self.out.extend_from_slice(b"null"),
            value if *value == Value::NULL => self.out.extend_from_slice(b"null"),
            _ => return Err(self.unsupported(value, "type not supported")),
        }
        self.check_size()
    }

    fn unsupported(&self, value: &Value, reason: &str) -> Error {
        raise::error(self.lua, format!("Cannot serialise {}: {reason}", type_name(value)))
    }

    fn check_size(&self) -> Result<()> {
        if self.out.len() > MAX_OUTPUT { Err(raise::plain(self.lua, "not enough memory")) } else { Ok(()) }
    }

    fn open(&mut self, table: &Table) -> Result<()> {
        let depth = self.frames.len() + 1;
        let limit = usize::try_from(self.config.encode_depth).unwrap_or(0);
        if depth > limit || self.used + 3 > STACK_LIMIT {
            return Err(self.too_deep());
        }
        let table = table.clone();
        let frame = match self.array_len(&table)? {
            Some(len) if len > 0 => {
                self.out.push(b'[');
                Frame::Array { table, index: 0, len }
            }
            _ => {
                self.out.push(b'{');
                Frame::Object { table, key: Value::Nil }
            }
        };
        self.used += frame.slots();
        self.frames.push(frame);
        Ok(())
    }

    /// Returns the length of an array, or `None` if the table must become an object.
    fn array_len(&self, table: &Table) -> Result<Option<i64>> {
        let mut items = 0i32;
        let mut max = 0i32;
        let mut array = true;
        let walk = table.for_each(|key: Value, _: Value| {
            let n = match key {
                Value::Integer(n) => n as f64,
                Value::Number(n) => n,
                _ => f64::NAN,
            };
            if n >= 1.0 && n.floor() == n {
                if n > f64::from(max) {
                    // The C library gets the smallest integer for keys that are too large.
                    max = i32::try_from(number::to_i64(n)).unwrap_or(i32::MIN);
                }
                items = items.wrapping_add(1);
                return Ok(());
            }
            array = false;
            // This error only ends the walk.
            Err(Error::StackError)
        });
        if !array {
            return Ok(None);
        }
        walk?;
        let config = &self.config;
        let dense = items.wrapping_mul(config.sparse_ratio);
        if config.sparse_ratio > 0 && max > dense && max > config.sparse_safe {
            if config.sparse_convert {
                return Ok(None);
            }
            let text = "Cannot serialise table: excessively sparse array";
            return Err(raise::error(self.lua, text));
        }
        // Each gap needs the 5 bytes of "null,". This fails early if the output cannot fit.
        let gaps = usize::try_from(i64::from(max) - i64::from(items)).unwrap_or(0);
        if gaps > MAX_OUTPUT / 5 {
            return Err(raise::plain(self.lua, "not enough memory"));
        }
        Ok(Some(i64::from(max)))
    }

    fn put_key(&mut self, key: &Value) -> Result<()> {
        let n = match key {
            Value::String(text) => {
                put_string(&mut self.out, &text.as_bytes());
                self.out.push(b':');
                return Ok(());
            }
            Value::Integer(n) => *n as f64,
            Value::Number(n) => *n,
            _ => return Err(self.unsupported(key, "table key must be a number or string")),
        };
        self.out.push(b'"');
        self.put_number(n)?;
        self.out.extend_from_slice(b"\":");
        Ok(())
    }

    fn put_number(&mut self, n: f64) -> Result<()> {
        if !n.is_finite() {
            match self.config.encode_invalid {
                Invalid::Off => {
                    let text = "Cannot serialise number: must not be NaN or Inf";
                    return Err(raise::error(self.lua, text));
                }
                Invalid::Null => {
                    self.out.extend_from_slice(b"null");
                    return Ok(());
                }
                Invalid::On if n.is_nan() => {
                    self.out.extend_from_slice(b"nan");
                    return Ok(());
                }
                Invalid::On => {}
            }
        }
        let precision = usize::try_from(self.config.precision).unwrap_or(14);
        self.out.extend_from_slice(number::format_g(n, precision).as_bytes());
        Ok(())
    }
}

fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    for &c in text {
        match c {
            b'"' | b'\\' | b'/' => out.extend_from_slice(&[b'\\', c]),
            8 => out.extend_from_slice(b"\\b"),
            9 => out.extend_from_slice(b"\\t"),
            10 => out.extend_from_slice(b"\\n"),
            12 => out.extend_from_slice(b"\\f"),
            13 => out.extend_from_slice(b"\\r"),
            0..=31 | 127 => out.extend_from_slice(format!("\\u{c:04x}").as_bytes()),
            _ => out.push(c),
        }
    }
    out.push(b'"');
}
