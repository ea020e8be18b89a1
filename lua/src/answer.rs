//! The value that a script returns, as the reply to its client.

use mlua::{LuaString, Result, Table, Value};
use tarn_resp::{Protocol, Writer};

/// Tables within tables, at most.
const DEPTH_MAX: usize = 128;

/// Writes a value as a reply. `protocol` is the one that the script has chosen.
pub(crate) fn write(reply: &mut Writer<'_>, value: &Value, protocol: Protocol) -> Result<()> {
    write_at(reply, value, protocol, 0)
}

fn write_at(reply: &mut Writer<'_>, value: &Value, protocol: Protocol, depth: usize) -> Result<()> {
    match value {
        Value::String(text) => reply.bulk(&text.as_bytes()),
        Value::Integer(number) => reply.integer(*number),
        Value::Number(number) => reply.integer(truncated(*number)),
        Value::Boolean(truth) if protocol == Protocol::Resp3 => reply.boolean(*truth),
        Value::Boolean(true) => reply.integer(1),
        Value::Table(_) if depth > DEPTH_MAX => reply.error("ERR reached lua stack limit"),
        Value::Table(table) => write_table(reply, table, protocol, depth)?,
        _ => reply.null(),
    }
    Ok(())
}

/// A number without its fraction; those that no integer holds are the smallest one, as on x86.
fn truncated(number: f64) -> i64 {
    let limit = -(i64::MIN as f64);
    if (-limit..limit).contains(&number) { number as i64 } else { i64::MIN }
}

fn write_table(reply: &mut Writer<'_>, table: &Table, protocol: Protocol, depth: usize) -> Result<()> {
    if let Some(text) = text_at(table, "err")? {
        reply.error(&*text.as_bytes());
    } else if let Some(text) = text_at(table, "ok")? {
        reply.simple(&*text.as_bytes());
    } else if let Some(number) = number_at(table, "double")? {
        reply.double(number);
    } else if let Value::Table(map) = table.raw_get("map")? {
        write_map(reply, &map, protocol, depth)?;
    } else if let Value::Table(set) = table.raw_get("set")? {
        write_set(reply, &set, protocol, depth)?;
    } else if let Some(digits) = text_at(table, "big_number")? {
        let digits: Vec<u8> = digits.as_bytes().iter().map(|byte| one_line(*byte)).collect();
        reply.big_number(&digits);
    } else if let Some((format, text)) = verbatim_of(table)? {
        reply.verbatim(format, &text.as_bytes());
    } else {
        write_array(reply, table, protocol, depth)?;
    }
    Ok(())
}

fn write_array(reply: &mut Writer<'_>, table: &Table, protocol: Protocol, depth: usize) -> Result<()> {
    let deferred = reply.defer(table.raw_len());
    let mut len = 0;
    // A table may hold itself: its reply grows without an end.
    while !reply.is_over() {
        let element: Value = table.raw_get(len + 1)?;
        if element.is_nil() {
            break;
        }
        write_at(reply, &element, protocol, depth + 1)?;
        len += 1;
    }
    reply.finish_array(deferred, len);
    Ok(())
}

fn write_map(reply: &mut Writer<'_>, map: &Table, protocol: Protocol, depth: usize) -> Result<()> {
    let deferred = reply.defer(map.raw_len());
    let mut pairs = 0;
    for pair in map.pairs::<Value, Value>() {
        let (key, value) = pair?;
        if reply.is_over() {
            break;
        }
        write_at(reply, &key, protocol, depth + 1)?;
        write_at(reply, &value, protocol, depth + 1)?;
        pairs += 1;
    }
    reply.finish_map(deferred, pairs);
    Ok(())
}

fn write_set(reply: &mut Writer<'_>, set: &Table, protocol: Protocol, depth: usize) -> Result<()> {
    let deferred = reply.defer(set.raw_len());
    let mut len = 0;
    for pair in set.pairs::<Value, Value>() {
        let (element, _) = pair?;
        if reply.is_over() {
            break;
        }
        write_at(reply, &element, protocol, depth + 1)?;
        len += 1;
    }
    reply.finish_set(deferred, len);
    Ok(())
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
