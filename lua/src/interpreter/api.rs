//! The functions that scripts find as `redis`, and as `server`.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Lua, MultiValue, Result, Table, Value, Variadic};
use sha1_smol::Sha1;
use tarn_resp::{OwnedArgs, Protocol};

use crate::host::HOST;
use crate::interpreter::library::number::format_g;
use crate::interpreter::memory;
use crate::interpreter::raise::{self, abort};
use crate::interpreter::reply;
use crate::interpreter::state::State;
use crate::program::Purpose;

/// Names and numbers of the levels of `redis.log`.
const LOG_LEVELS: [(&str, u8); 4] =
    [("LOG_DEBUG", 0), ("LOG_VERBOSE", 1), ("LOG_NOTICE", 2), ("LOG_WARNING", 3)];
/// Names and numbers of where effects are sent: Tarn sends all of them everywhere.
const REPLICATION: [(&str, u8); 5] =
    [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)];
/// Digits of a number as a text of Lua.
const TEXT_DIGITS: usize = 14;
/// Whole numbers from here on have an exponent.
const WHOLE_MAX: u64 = 100_000_000_000_000_000;
/// Bytes of the arguments of a command, at most.
const REQUEST_BYTES_MAX: usize = 512 << 20;
/// Digits of a number that make the same number again.
const DIGITS: usize = 17;
/// All of them.
const REPL_ALL: f64 = 3.0;

/// The text under `err` of a table that is an error.
pub(crate) fn error_text(table: &Table) -> Result<Option<Vec<u8>>> {
    Ok(match table.raw_get("err")? {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        _ => None,
    })
}

/// The table of what scripts and libraries of functions both find, also while these are loaded.
pub(crate) fn about(lua: &Lua, version: &str) -> Result<Table> {
    let table = lua.create_table()?;
    for (name, number) in LOG_LEVELS {
        table.raw_set(name, number)?;
    }
    table.raw_set("REDIS_VERSION", version)?;
    table.raw_set("REDIS_VERSION_NUM", version_number(version))?;
    table.raw_set("log", lua.create_function(|lua, args: MultiValue| log(lua, &args))?)?;
    Ok(table)
}

/// The table of the functions.
pub(crate) fn table(lua: &Lua, state: &Rc<State>, version: &str, purpose: Purpose) -> Result<Table> {
    let table = about(lua, version)?;
    for (name, number) in REPLICATION {
        table.raw_set(name, number)?;
    }
    let own = state.clone();
    let call = lua.create_function(move |lua, args: Variadic<Value>| call(lua, &own, &args, true))?;
    table.raw_set("call", call)?;
    let own = state.clone();
    let pcall = lua.create_function(move |lua, args: Variadic<Value>| self::call(lua, &own, &args, false))?;
    table.raw_set("pcall", pcall)?;
    let own = state.clone();
    table.raw_set(
        "setresp",
        lua.create_function(move |lua, args: MultiValue| set_protocol(lua, &own, &args))?,
    )?;
    table.raw_set("error_reply", lua.create_function(|lua, args: MultiValue| error_reply(lua, &args))?)?;
    table.raw_set("status_reply", lua.create_function(|lua, args: MultiValue| status_reply(lua, &args))?)?;
    table.raw_set("sha1hex", lua.create_function(|lua, args: MultiValue| sha1hex(lua, &args))?)?;
    table.raw_set("set_repl", lua.create_function(|lua, args: MultiValue| set_replication(lua, &args))?)?;
    if purpose == Purpose::Scripts {
        table.raw_set("replicate_commands", lua.create_function(|_, ()| Ok(true))?)?;
        table.raw_set("breakpoint", lua.create_function(|_, ()| Ok(false))?)?;
        table.raw_set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    }
    table.raw_set("acl_check_cmd", lua.create_function(|lua, args: Variadic<Value>| allows(lua, &args))?)?;
    Ok(table)
}

/// `7.0.15` as `0x0007000F`.
fn version_number(version: &str) -> u32 {
    version.split('.').take(3).fold(0, |number, part| number << 8 | part.parse::<u32>().unwrap_or_default())
}

fn call(lua: &Lua, state: &State, args: &[Value], raises: bool) -> Result<Value> {
    let refused = |text: &str| {
        if raises {
            return Err(raise::reply(lua, text, false));
        }
        let table = lua.create_table()?;
        table.raw_set("err", text)?;
        Ok(Value::Table(table))
    };
    if args.is_empty() {
        return refused("ERR Please specify at least one argument for this redis lib call");
    }
    let Some(request) = request(lua, args)? else {
        return refused("ERR Lua redis lib command arguments must be strings or integers");
    };
    if !HOST.is_set() {
        return refused("ERR redis.call/pcall can only be called inside a script invocation");
    }
    let mut out = state.reply.take();
    out.clear();
    if HOST.with(|host| host.call(request, state.protocol.get(), &mut out)).is_err() {
        state.is_aborted.set(true);
        return Err(abort());
    }
    let value = match out.strip_prefix(b"-") {
        Some(error) if raises => Err(raise::reply(lua, without_end(error), true)),
        Some(error) => memory::make(lua, out.len(), || failed(lua, without_end(error))),
        None => memory::make(lua, out.len(), || reply::value(lua, &out)),
    };
    state.reply.replace(out);
    value
}

/// The arguments of a command; `None` if one is neither a string nor a number.
fn request(lua: &Lua, args: &[Value]) -> Result<Option<OwnedArgs>> {
    let mut request = OwnedArgs::new();
    let mut bytes = 0_usize;
    for arg in args {
        match arg {
            Value::String(text) => {
                let text = text.as_bytes();
                bytes += text.len();
                if bytes > REQUEST_BYTES_MAX {
                    return Err(raise::reply(lua, "ERR the arguments of a command are too long", false));
                }
                request.push(&text);
            }
            Value::Integer(number) if number.unsigned_abs() < WHOLE_MAX => {
                request.push(number.to_string().as_bytes());
            }
            Value::Integer(number) => request.push(format_g(*number as f64, DIGITS).as_bytes()),
            Value::Number(number) => request.push(format_g(*number, DIGITS).as_bytes()),
            _ => return Ok(None),
        }
    }
    Ok(Some(request))
}

fn set_protocol(lua: &Lua, state: &State, args: &MultiValue) -> Result<()> {
    if args.len() != 1 {
        return Err(raise::reply(lua, "ERR redis.setresp() requires one argument.", false));
    }
    let protocol = match args.front().and_then(number_of) {
        Some(2.0) => Protocol::Resp2,
        Some(3.0) => Protocol::Resp3,
        _ => return Err(raise::reply(lua, "ERR RESP version must be 2 or 3.", false)),
    };
    state.protocol.set(protocol);
    Ok(())
}

fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(*number),
        Value::Integer(number) => Some(*number as f64),
        _ => None,
    }
}

fn error_reply(lua: &Lua, args: &MultiValue) -> Result<Table> {
    tagged(lua, args, "err", with_code)
}

/// The text of an error with its code: `ERR`, if it is one word.
fn with_code(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let (code, message) = match text.iter().position(|byte| *byte == b' ') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (&b"ERR"[..], text),
    };
    let is_line_end = |byte: &&u8| matches!(byte, b'\r' | b'\n');
    let start = message.iter().take_while(is_line_end).count();
    let end = message.len() - message[start..].iter().rev().take_while(is_line_end).count();
    [code, b" ", &message[start..end]].concat()
}

/// The table of an error that a command replied.
fn failed(lua: &Lua, error: &[u8]) -> Result<Value> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", lua.create_string(error)?)?;
    table.raw_set("ignore_error_stats_update", true)?;
    Ok(Value::Table(table))
}

fn without_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r\n").unwrap_or(line)
}

fn status_reply(lua: &Lua, args: &MultiValue) -> Result<Table> {
    tagged(lua, args, "ok", <[u8]>::to_vec)
}

fn tagged(lua: &Lua, args: &MultiValue, name: &str, text_of: impl Fn(&[u8]) -> Vec<u8>) -> Result<Table> {
    let table = lua.create_table()?;
    match args.front() {
        Some(Value::String(text)) if args.len() == 1 => {
            table.raw_set(name, lua.create_string(text_of(&text.as_bytes()))?)?;
        }
        _ => table.raw_set("err", "ERR wrong number or type of arguments")?,
    }
    Ok(table)
}

fn sha1hex(lua: &Lua, args: &MultiValue) -> Result<String> {
    if args.len() != 1 {
        return Err(raise::reply(lua, "ERR wrong number of arguments", false));
    }
    let digest = |text: &[u8]| Sha1::from(text).digest().to_string();
    Ok(match args.front() {
        Some(value) => with_text(value, digest).unwrap_or_else(|| digest(b"")),
        None => digest(b""),
    })
}

/// Hands the text of a string or number to `see`.
pub(crate) fn with_text<T>(value: &Value, see: impl FnOnce(&[u8]) -> T) -> Option<T> {
    match value {
        Value::String(text) => Some(see(&text.as_bytes())),
        Value::Number(number) => Some(see(format_g(*number, TEXT_DIGITS).as_bytes())),
        Value::Integer(number) => Some(see(format_g(*number as f64, TEXT_DIGITS).as_bytes())),
        _ => None,
    }
}

fn log(lua: &Lua, args: &MultiValue) -> Result<()> {
    let Some(level) = args.front().filter(|_| args.len() >= 2) else {
        return Err(raise::reply(lua, "ERR redis.log() requires two arguments or more.", false));
    };
    let Some(level) = number_of(level) else {
        return Err(raise::reply(lua, "ERR First argument must be a number (log level).", false));
    };
    if !(0.0..=3.0).contains(&level) {
        return Err(raise::reply(lua, "ERR Invalid debug level.", false));
    }
    let message = RefCell::new(Vec::new());
    for (index, value) in args.iter().skip(1).enumerate() {
        if index > 0 {
            message.borrow_mut().push(b' ');
        }
        with_text(value, |text| message.borrow_mut().extend_from_slice(text));
    }
    if HOST.is_set() {
        HOST.with(|host| host.log(level as u8, &message.borrow()));
    }
    Ok(())
}

fn set_replication(lua: &Lua, args: &MultiValue) -> Result<()> {
    if args.len() != 1 {
        return Err(raise::reply(lua, "ERR redis.set_repl() requires two arguments.", false));
    }
    match args.front().and_then(number_of) {
        Some(0.0..=REPL_ALL) => Ok(()),
        _ => Err(raise::reply(
            lua,
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
            false,
        )),
    }
}

fn allows(lua: &Lua, args: &[Value]) -> Result<bool> {
    if args.is_empty() {
        return Err(raise::reply(
            lua,
            "ERR Please specify at least one argument for this redis lib call",
            false,
        ));
    }
    let Some(request) = request(lua, args)? else {
        return Err(raise::reply(
            lua,
            "ERR Lua redis lib command arguments must be strings or integers",
            false,
        ));
    };
    let allowed = if HOST.is_set() { HOST.with(|host| host.allows(request.as_args())) } else { None };
    allowed.ok_or_else(|| raise::reply(lua, "ERR Invalid command passed to redis.acl_check_cmd()", false))
}
