//! Replies of commands as values of Lua.
//!
//! | reply | value |
//! | --- | --- |
//! | integer, bulk string, array | number, string, table |
//! | status, error | `{ok = text}`, `{err = text}` |
//! | null | `false`; `nil` in RESP3 |
//! | map, set | `{map = {…}}`, `{set = {element = true, …}}` |
//! | double, boolean | `{double = number}`, boolean |
//! | big number, verbatim string | `{big_number = digits}`, `{verbatim_string = {format = …, string = …}}` |

use mlua::{Lua, Result, Table, Value};

/// Reads one reply. REQUIRES: `bytes` begin with a whole reply, as the server writes it.
pub(crate) fn value(lua: &Lua, bytes: &[u8]) -> Result<Value> {
    Reader { lua, bytes, at: 0 }.value()
}

struct Reader<'r> {
    lua: &'r Lua,
    bytes: &'r [u8],
    at: usize,
}

impl<'r> Reader<'r> {
    fn value(&mut self) -> Result<Value> {
        let kind = self.bytes.get(self.at).copied().unwrap_or(b'_');
        self.at += 1;
        let line = self.line();
        Ok(match kind {
            b':' => Value::Number(number(line) as f64),
            b'$' => match self.bulk(line) {
                Some(bytes) => Value::String(self.lua.create_string(bytes)?),
                None => Value::Boolean(false),
            },
            b'+' => self.tagged("ok", line)?,
            b'-' => self.tagged("err", line)?,
            b'*' | b'>' if number(line) < 0 => Value::Boolean(false),
            b'*' | b'>' => Value::Table(self.array(number(line) as usize)?),
            b'%' => self.map(number(line) as usize)?,
            b'~' => self.set(number(line) as usize)?,
            b'#' => Value::Boolean(line == b"t"),
            b',' => self.holding("double", Value::Number(double(line)))?,
            b'(' => self.tagged("big_number", line)?,
            b'=' => self.verbatim(line)?,
            _ => Value::Nil,
        })
    }

    fn line(&mut self) -> &'r [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let len = rest.iter().position(|byte| *byte == b'\r').unwrap_or(rest.len());
        self.at += len + 2;
        &rest[..len]
    }

    fn bulk(&mut self, len: &[u8]) -> Option<&'r [u8]> {
        let len = usize::try_from(number(len)).ok()?;
        let bytes = self.bytes.get(self.at..self.at + len)?;
        self.at += len + 2;
        Some(bytes)
    }

    fn array(&mut self, len: usize) -> Result<Table> {
        let table = self.lua.create_table_with_capacity(len, 0)?;
        for index in 1..=len {
            table.raw_set(index, self.value()?)?;
        }
        Ok(table)
    }

    fn map(&mut self, pairs: usize) -> Result<Value> {
        let table = self.lua.create_table_with_capacity(0, pairs)?;
        for _ in 0..pairs {
            let (key, value) = (self.value()?, self.value()?);
            if !key.is_nil() {
                table.raw_set(key, value)?;
            }
        }
        self.holding("map", Value::Table(table))
    }

    fn set(&mut self, len: usize) -> Result<Value> {
        let table = self.lua.create_table_with_capacity(0, len)?;
        for _ in 0..len {
            let element = self.value()?;
            if !element.is_nil() {
                table.raw_set(element, true)?;
            }
        }
        self.holding("set", Value::Table(table))
    }

    fn verbatim(&mut self, len: &[u8]) -> Result<Value> {
        let text = self.bulk(len).unwrap_or_default();
        let (format, text) = text.split_at_checked(4).unwrap_or((b"txt:", text));
        let table = self.lua.create_table_with_capacity(0, 2)?;
        table.raw_set("format", self.lua.create_string(&format[..3])?)?;
        table.raw_set("string", self.lua.create_string(text)?)?;
        self.holding("verbatim_string", Value::Table(table))
    }

    fn tagged(&self, name: &str, text: &[u8]) -> Result<Value> {
        self.holding(name, Value::String(self.lua.create_string(text)?))
    }

    fn holding(&self, name: &str, value: Value) -> Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }
}

fn number(line: &[u8]) -> i64 {
    tarn_resp::parse_i64(line).unwrap_or_default()
}

fn double(line: &[u8]) -> f64 {
    std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}
