//! The value that a script returns, as the reply to its client.

use mlua::{LuaString, Result, Table, Value};
use tarn_resp::{Protocol, Writer};

use crate::errors::Errors;

/// Tables within tables, at most.
const DEPTH_MAX: usize = 128;

/// Writes a value as a reply, and adds the errors in it to `errors`. `protocol` is the one that the script
/// has chosen.
pub(crate) fn write(
    reply: &mut Writer<'_>,
    value: &Value,
    protocol: Protocol,
    errors: &mut Errors,
) -> Result<()> {
    Answer { reply, protocol, errors }.write(value, 0)
}

struct Answer<'r, 'w> {
    reply: &'r mut Writer<'w>,
    protocol: Protocol,
    errors: &'r mut Errors,
}

impl Answer<'_, '_> {
    fn write(&mut self, value: &Value, depth: usize) -> Result<()> {
        match value {
            Value::String(text) => self.reply.bulk(&text.as_bytes()),
            Value::Integer(number) => self.reply.integer(*number),
            Value::Number(number) => self.reply.integer(truncated(*number)),
            Value::Boolean(truth) if self.protocol == Protocol::Resp3 => self.reply.boolean(*truth),
            Value::Boolean(true) => self.reply.integer(1),
            Value::Table(_) if depth > DEPTH_MAX => self.write_error(b"ERR reached lua stack limit", false),
            Value::Table(table) => self.write_table(table, depth)?,
            _ => self.reply.null(),
        }
        Ok(())
    }

    fn write_error(&mut self, text: &[u8], is_counted: bool) {
        self.errors.note(text, is_counted);
        self.reply.error(text);
    }

    fn write_table(&mut self, table: &Table, depth: usize) -> Result<()> {
        if let Some(text) = text_at(table, "err")? {
            self.write_error(&text.as_bytes(), is_counted(table)?);
        } else if let Some(text) = text_at(table, "ok")? {
            self.reply.simple(&*text.as_bytes());
        } else if let Some(number) = number_at(table, "double")? {
            self.reply.double(number);
        } else if let Value::Table(map) = table.raw_get("map")? {
            self.write_map(&map, depth)?;
        } else if let Value::Table(set) = table.raw_get("set")? {
            self.write_set(&set, depth)?;
        } else if let Some(digits) = text_at(table, "big_number")? {
            let digits: Vec<u8> = digits.as_bytes().iter().map(|byte| one_line(*byte)).collect();
            self.reply.big_number(&digits);
        } else if let Some((format, text)) = verbatim_of(table)? {
            self.reply.verbatim(format, &text.as_bytes());
        } else {
            self.write_array(table, depth)?;
        }
        Ok(())
    }

    fn write_array(&mut self, table: &Table, depth: usize) -> Result<()> {
        let deferred = self.reply.defer(table.raw_len());
        let mut len = 0;
        // A table may hold itself: its reply grows without an end.
        while !self.reply.is_over() {
            let element: Value = table.raw_get(len + 1)?;
            if element.is_nil() {
                break;
            }
            self.write(&element, depth + 1)?;
            len += 1;
        }
        self.reply.finish_array(deferred, len);
        Ok(())
    }

    fn write_map(&mut self, map: &Table, depth: usize) -> Result<()> {
        let deferred = self.reply.defer(map.raw_len());
        let mut pairs = 0;
        for pair in map.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if self.reply.is_over() {
                break;
            }
            self.write(&key, depth + 1)?;
            self.write(&value, depth + 1)?;
            pairs += 1;
        }
        self.reply.finish_map(deferred, pairs);
        Ok(())
    }

    fn write_set(&mut self, set: &Table, depth: usize) -> Result<()> {
        let deferred = self.reply.defer(set.raw_len());
        let mut len = 0;
        for pair in set.pairs::<Value, Value>() {
            let (element, _) = pair?;
            if self.reply.is_over() {
                break;
            }
            self.write(&element, depth + 1)?;
            len += 1;
        }
        self.reply.finish_set(deferred, len);
        Ok(())
    }
}

/// Whether the error in a table was counted when a command replied it.
pub(crate) fn is_counted(table: &Table) -> Result<bool> {
    Ok(matches!(table.raw_get("ignore_error_stats_update")?, Value::Boolean(true)))
}

/// A number without its fraction; those that no integer holds are the smallest one, as on x86.
fn truncated(number: f64) -> i64 {
    let limit = -(i64::MIN as f64);
    if (-limit..limit).contains(&number) { number as i64 } else { i64::MIN }
}

fn text_at(table: &Table, name: &str) -> Result<Option<LuaString>> {
    Ok(match table.raw_get(name)? {
        Value::String(text) => Some(text),
        _ => None,
    })
}

fn number_at(table: &Table, name: &str) -> Result<Option<f64>> {
    Ok(match table.raw_get(name)? {
        Value::Number(number) => Some(number),
        Value::Integer(number) => Some(number as f64),
        _ => None,
    })
}

fn verbatim_of(table: &Table) -> Result<Option<([u8; 3], LuaString)>> {
    let Value::Table(verbatim) = table.raw_get("verbatim_string")? else { return Ok(None) };
    let (Some(text), Some(format)) = (text_at(&verbatim, "string")?, text_at(&verbatim, "format")?) else {
        return Ok(None);
    };
    let mut three = *b"   ";
    for (to, from) in three.iter_mut().zip(format.as_bytes().iter()) {
        *to = one_line(*from);
    }
    Ok(Some((three, text)))
}

fn one_line(byte: u8) -> u8 {
    if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }
}
