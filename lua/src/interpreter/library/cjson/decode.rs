//! This module reads JSON and makes Lua values.
//!
//! The reader keeps its own stack of open tables, so that nested input cannot exhaust the machine
//! stack. It counts the Lua stack slots that the C library would use, to fail at the same depth.

use mlua::{Error, Lua, LuaString, Result, Table, Value};

use super::options::Config;
use super::token::{Kind, Lexer, Token};
use crate::interpreter::library::args::STACK_LIMIT;
use crate::interpreter::raise;

/// Decodes one JSON text.
pub(crate) fn decode(lua: &Lua, config: Config, text: &[u8]) -> Result<Value> {
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(raise::error(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let lexer = Lexer::new(text, config.decode_invalid);
    let mut reader = Reader { lua, config, lexer, used: 1, frames: Vec::new() };
    let value = match reader.read() {
        Err(error) => return Err(raise::instead_of_full_stack(error, || reader.too_deep())),
        Ok(value) => value,
    };
    let token = reader.lexer.next();
    match token.kind {
        Kind::End => Ok(value),
        _ => Err(reader.unexpected("the end", &token)),
    }
}

/// An open table. `Object` keeps the key of the value that comes next.
enum Frame {
    Array { table: Table, index: i64 },
    Object { table: Table, key: Vec<u8> },
}

impl Frame {
    fn slots(&self) -> usize {
        match self {
            Frame::Array { .. } => 1,
            Frame::Object { .. } => 2,
        }
    }

    fn store(&mut self, value: Value) -> Result<()> {
        match self {
            Frame::Array { table, index } => {
                *index += 1;
                table.raw_set(*index, value)
            }
            Frame::Object { table, key } => table.raw_set(LuaString::wrap(&key[..]), value),
        }
    }

    fn into_value(self) -> Value {
        match self {
            Frame::Array { table, .. } | Frame::Object { table, .. } => Value::Table(table),
        }
    }
}

struct Reader<'a> {
    lua: &'a Lua,
    config: Config,
    lexer: Lexer<'a>,
    /// The number of stack slots that the C library would have in use.
    used: usize,
    frames: Vec<Frame>,
}

impl Reader<'_> {
    fn unexpected(&self, expected: &str, token: &Token) -> Error {
        let found = token.kind.name();
        let at = token.at + 1;
        raise::error(self.lua, format!("Expected {expected} but found {found} at character {at}"))
    }

    fn read(&mut self) -> Result<Value> {
        let mut token = self.lexer.next();
        loop {
            let mut complete = self.begin(token)?;
            // Store the complete value, and close tables as long as they end here.
            loop {
                let Some(value) = complete.take() else {
                    token = self.lexer.next();
                    break;
                };
                let Some(frame) = self.frames.last_mut() else {
                    return Ok(value);
                };
                frame.store(value)?;
                if !self.separator()? {
                    complete = self.close();
                }
            }
        }
    }

    /// Starts a value. Returns it if it is complete, and `None` if it is a table with content.
    fn begin(&mut self, token: Token) -> Result<Option<Value>> {
        Ok(Some(match token.kind {
            Kind::String(text) => Value::String(self.lua.create_string(text)?),
            Kind::Number(n) => Value::Number(n),
            Kind::Boolean(flag) => Value::Boolean(flag),
            Kind::Null => Value::NULL,
            Kind::ObjectBegin => return self.begin_object(),
            Kind::ArrayBegin => return self.begin_array(),
            _ => return Err(self.unexpected("value", &token)),
        }))
    }

    fn close(&mut self) -> Option<Value> {
        let frame = self.frames.pop()?;
        self.used -= frame.slots();
        Some(frame.into_value())
    }

    fn open(&mut self, frame: Frame) {
        self.used += frame.slots();
        self.frames.push(frame);
    }

    fn check_depth(&self, slots: usize) -> Result<()> {
        let depth = self.frames.len() + 1;
        let limit = usize::try_from(self.config.decode_depth).unwrap_or(0);
        if depth <= limit && self.used + slots <= STACK_LIMIT {
            return Ok(());
        }
        Err(self.too_deep())
    }

    fn too_deep(&self) -> Error {
        let depth = self.frames.len() + 1;
        let at = self.lexer.position();
        let text = format!("Found too many nested data structures ({depth}) at character {at}");
        raise::error(self.lua, text)
    }

    fn begin_object(&mut self) -> Result<Option<Value>> {
        self.check_depth(3)?;
        let table = self.lua.create_table()?;
        let token = self.lexer.next();
        if matches!(token.kind, Kind::ObjectEnd) {
            return Ok(Some(Value::Table(table)));
        }
        let key = self.key(token)?;
        self.open(Frame::Object { table, key });
        Ok(None)
    }

    fn begin_array(&mut self) -> Result<Option<Value>> {
        self.check_depth(2)?;
        let table = self.lua.create_table()?;
        if self.lexer.skip_array_end() {
            return Ok(Some(Value::Table(table)));
        }
        self.open(Frame::Array { table, index: 0 });
        Ok(None)
    }

    fn key(&mut self, token: Token) -> Result<Vec<u8>> {
        let Kind::String(key) = token.kind else {
            return Err(self.unexpected("object key string", &token));
        };
        let colon = self.lexer.next();
        if !matches!(colon.kind, Kind::Colon) {
            return Err(self.unexpected("colon", &colon));
        }
        Ok(key)
    }

    /// Reads what follows a value in the table on top. Returns false if the table ends.
    fn separator(&mut self) -> Result<bool> {
        let token = self.lexer.next();
        let object = matches!(self.frames.last(), Some(Frame::Object { .. }));
        match (&token.kind, object) {
            (Kind::ObjectEnd, true) | (Kind::ArrayEnd, false) => Ok(false),
            (Kind::Comma, false) => Ok(true),
            (Kind::Comma, true) => {
                let token = self.lexer.next();
                let new_key = self.key(token)?;
                if let Some(Frame::Object { key, .. }) = self.frames.last_mut() {
                    *key = new_key;
                }
                Ok(true)
            }
            (_, true) => Err(self.unexpected("comma or object end", &token)),
            (_, false) => Err(self.unexpected("comma or array end", &token)),
        }
    }
}
