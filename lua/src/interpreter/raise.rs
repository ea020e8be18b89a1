//! This module lets Rust callbacks raise plain string errors, like `luaL_error` does in C.
//!
//! mlua turns an `Err` of a callback into a userdata object. A script must see a string instead.
//! The mechanism has two halves:
//!
//! 1. A callback returns an error made by [`error`], [`argument`], [`plain`] or [`reply`]. The error
//!    carries a [`Raised`] value with the finished message. The message has the same position prefix
//!    as in C, because the callback is itself a C function on the Lua stack, and level 1 is its
//!    caller. This holds for tail calls (`return f(x)`) as well, which a wrapper in Lua could not
//!    offer.
//! 2. [`install`] replaces the few functions that catch errors (`pcall`, `xpcall`, `load`,
//!    `coroutine.resume` and `coroutine.wrap`). The new ones turn a caught error object into its
//!    message string.
//!
//! A call that succeeds costs nothing extra. A caught error costs one call from Lua into Rust.
//! The host sees an uncaught error as `mlua::Error` and reads it with [`raised`] or [`message`].

use std::fmt;

use mlua::{Error, Function, Lua, Result, Table, Value};

/// A `Raised` value is the payload of an error that a script sees as a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Raised {
    /// The message, with its position prefix if there is one.
    pub message: Vec<u8>,
    /// The place of the Lua code that called the failing function, if that was Lua code.
    pub place: Option<Place>,
    /// The form in which a script sees the error.
    pub form: Form,
}

/// A `Form` says in which form a script sees an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A string.
    Text,
    /// A table with the message in the field `err`, as `redis.call` raises it.
    ///
    /// `pcall` returns the message alone. Handlers of `xpcall` and coroutines get the table. If the
    /// flag is set, the table has a true field `ignore_error_stats_update`.
    Reply {
        /// The flag for the field `ignore_error_stats_update`.
        ignore_stats: bool,
    },
}

/// A `Place` names a line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The printable name of the chunk, such as `user_script`.
    pub source: String,
    /// The line number, which starts at 1.
    pub line: usize,
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.message))
    }
}

impl std::error::Error for Raised {}

/// Returns the place that called the running callback, or `None` if the caller is not Lua code.
pub(crate) fn caller(lua: &Lua) -> Option<Place> {
    lua.inspect_stack(1, |debug| {
        let line = debug.current_line().filter(|line| *line > 0)?;
        let source = debug.source().short_src?.into_owned();
        Some(Place { source, line })
    })
    .flatten()
}

/// Makes an error with the position of the caller in front of the message, like `luaL_error`.
#[cold]
pub(crate) fn error(lua: &Lua, message: impl AsRef<[u8]>) -> Error {
    let place = caller(lua);
    let mut text = match &place {
        Some(place) => format!("{}:{}: ", place.source, place.line).into_bytes(),
        None => Vec::new(),
    };
    text.extend_from_slice(message.as_ref());
    Error::external(Raised { message: text, place, form: Form::Text })
}

/// Makes an error whose message has no position prefix.
#[cold]
pub(crate) fn plain(lua: &Lua, message: impl AsRef<[u8]>) -> Error {
    shaped(lua, message, Form::Text)
}

/// Makes an error that scripts see as a table with the field `err`, as from `redis.call`.
#[cold]
pub(crate) fn reply(lua: &Lua, message: impl AsRef<[u8]>, ignore_stats: bool) -> Error {
    shaped(lua, message, Form::Reply { ignore_stats })
}

fn shaped(lua: &Lua, message: impl AsRef<[u8]>, form: Form) -> Error {
    let message = message.as_ref().to_vec();
    Error::external(Raised { message, place: caller(lua), form })
}

/// Makes an error about the argument with number `index`, like `luaL_argerror`.
///
/// The text names the function as the caller wrote it: `band`, `?` if there is no name.
#[cold]
pub(crate) fn argument(lua: &Lua, index: i32, detail: impl AsRef<[u8]>) -> Error {
    let names = lua.inspect_stack(0, |debug| {
        let names = debug.names();
        (names.name.map(|name| name.into_owned()), names.name_what == Some("method"))
    });
    let (name, method) = names.unwrap_or((None, false));
    let name = name.unwrap_or_else(|| "?".to_owned());
    let mut text = match (method, index) {
        (true, 1) => format!("calling '{name}' on bad self ("),
        (true, _) => format!("bad argument #{} to '{name}' (", index.saturating_sub(1)),
        (false, _) => format!("bad argument #{index} to '{name}' ("),
    }
    .into_bytes();
    text.extend_from_slice(detail.as_ref());
    text.push(b')');
    error(lua, text)
}

/// Returns the payload of an error that this module made, or `None` for other errors.
pub(crate) fn raised(error: &Error) -> Option<&Raised> {
    error.downcast_ref::<Raised>()
}

/// Returns the message that a script sees when it catches the error.
pub(crate) fn message(error: &Error) -> Vec<u8> {
    if let Some(raised) = raised(error) {
        return raised.message.clone();
    }
    match error {
        Error::CallbackError { cause, .. } => message(cause),
        Error::StackError => b"stack overflow".to_vec(),
        Error::RuntimeError(text) | Error::MemoryError(text) => without_traceback(text),
        other => without_traceback(&other.to_string()),
    }
}

/// Replaces the error of a full mlua stack with one that the C library would raise in that place.
pub(crate) fn instead_of_full_stack(error: Error, replacement: impl FnOnce() -> Error) -> Error {
    if matches!(error, Error::StackError) { replacement() } else { error }
}

fn without_traceback(text: &str) -> Vec<u8> {
    let end = text.find("\nstack traceback:").unwrap_or(text.len());
    text.as_bytes()[..end].to_vec()
}

/// The catching functions. All that they use is in local variables, out of reach of scripts.
///
/// `pcall` treats error tables as that of Redis does: it returns the field `err` alone if that is a
/// string or a number, and otherwise returns it after the table.
const CATCHERS: &str = r#"
local pcall, xpcall, load, resume, create, seen = ...
local type, error, select = type, error, select
local function settle(ok, ...)
  if ok then return ok, ... end
  local e = ...
  e = seen(e)
  if type(e) ~= 'table' then return false, e end
  local err = e.err
  local kind = type(err)
  if kind == 'string' or kind == 'number' then return false, err end
  return false, e, err
end
local function protected(...)
  if select('#', ...) == 0 then return false, 'attempt to call a boolean value' end
  return settle(pcall(...))
end
local function after(ok, ...)
  if not ok then seen() end
  return ok, ...
end
local function handled(...)
  local f, handler = ...
  if select('#', ...) < 2 then error("bad argument #2 to 'xpcall' (value expected)", 2) end
  return after(xpcall(f, function(e) return handler(seen(e)) end))
end
local function loaded(...)
  local reader = ...
  if type(reader) ~= 'function' then
    local got = select('#', ...) == 0 and 'no value' or type(reader)
    error("bad argument #1 to 'load' (function expected, got " .. got .. ")", 2)
  end
  local f, e = load(...)
  if f then return f end
  e = seen(e)
  return nil, e
end
if not resume then return protected, handled, loaded end
local function pass(ok, ...)
  if ok then return ok, ... end
  local e = ...
  e = seen(e)
  return false, e
end
local function resumed(co, ...)
  if type(co) ~= 'thread' then error("bad argument #1 to 'resume' (coroutine expected)", 2) end
  return pass(resume(co, ...))
end
local function results(ok, ...)
  if ok then return ... end
  local e = ...
  e = seen(e)
  error(e, 3)
end
local function wrapped(f)
  if type(f) ~= 'function' then
    error("bad argument #1 to 'wrap' (Lua function expected)", 2)
  end
  local co = create(f)
  local function same(...) return ... end
  return function(...) return same(results(resume(co, ...))) end
end
return protected, handled, loaded, resumed, wrapped
"#;

/// Ends a script: what catches errors raises it again.
#[derive(Debug)]
struct Aborted;

impl fmt::Display for Aborted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the script was ended")
    }
}

impl std::error::Error for Aborted {}

/// Makes the error that ends a script.
pub(crate) fn abort() -> Error {
    Error::external(Aborted)
}

/// Makes the value that a script sees for an error. Values that are no errors stay as they are.
fn seen(lua: &Lua, value: Value) -> Result<Value> {
    let Value::Error(error) = value else {
        return Ok(value);
    };
    let text = lua.create_string(message(&error))?;
    let Some(Form::Reply { ignore_stats }) = raised(&error).map(|raised| raised.form) else {
        return Ok(Value::String(text));
    };
    let table = lua.create_table()?;
    table.raw_set("err", text)?;
    if ignore_stats {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(Value::Table(table))
}

/// Replaces the functions that catch errors, so that scripts get strings and not error objects.
///
/// Call this once for each Lua state, after the standard libraries are there and before a script runs. While
/// `is_aborted`, nothing is caught: what ends a script may come out of a failing handler as another error.
pub(crate) fn install(lua: &Lua, is_aborted: impl Fn() -> bool + 'static) -> Result<()> {
    let globals = lua.globals();
    let coroutine: Option<Table> = globals.raw_get("coroutine")?;
    let pcall: Function = globals.raw_get("pcall")?;
    let xpcall: Function = globals.raw_get("xpcall")?;
    let load: Function = globals.raw_get("load")?;
    let (resume, create): (Option<Function>, Option<Function>) = match &coroutine {
        Some(table) => (table.raw_get("resume")?, table.raw_get("create")?),
        None => (None, None),
    };
    let seen =
        lua.create_function(move |lua, value| if is_aborted() { Err(abort()) } else { seen(lua, value) })?;
    let chunk = lua.load(CATCHERS).set_name("=catchers");
    let (protected, handled, loaded, resumed, wrapped): (Function, Function, Function, Value, Value) =
        chunk.call((pcall, xpcall, load, resume, create, seen))?;
    globals.raw_set("pcall", protected)?;
    globals.raw_set("xpcall", handled)?;
    globals.raw_set("load", loaded)?;
    if let Some(table) = coroutine {
        table.raw_set("resume", resumed)?;
        table.raw_set("wrap", wrapped)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn state() -> Lua {
        let lua = Lua::new();
        install(&lua, || false).unwrap();
        let fail = lua.create_function(|lua, ()| -> Result<()> { Err(error(lua, "oops")) }).unwrap();
        lua.globals().set("fail", fail).unwrap();
        lua
    }

    fn run(code: &str) -> String {
        state().load(code).set_name("=s").eval().unwrap()
    }

    #[test]
    fn pcall_returns_a_string_with_the_position_of_the_caller() {
        assert_eq!(run("local ok, e = pcall(fail) return type(e) .. e"), "stringoops");
        assert_eq!(run("return select(2, pcall(function() return fail() end))"), "s:1: oops");
        assert_eq!(run("return select(2, pcall(function()\n local x = fail() end))"), "s:2: oops");
    }

    #[test]
    fn other_catchers_return_strings_too() {
        assert_eq!(run("return select(2, xpcall(fail, function(e) return 'h' .. e end))"), "hoops");
        assert_eq!(
            run("return select(2, coroutine.resume(coroutine.create(function() fail() end)))"),
            "s:1: oops"
        );
        assert_eq!(run("return type(select(2, pcall(error, {})))"), "table");
    }

    #[test]
    fn reply_errors_are_tables_or_their_messages() {
        let lua = state();
        let call = lua.create_function(|lua, ()| -> Result<()> { Err(reply(lua, "ERR no", true)) });
        lua.globals().set("call", call.unwrap()).unwrap();
        let run = |code: &str| lua.load(code).set_name("=s").eval::<String>().unwrap();
        assert_eq!(run("return select(2, pcall(function() return call() end))"), "ERR no");
        assert_eq!(
            run("return select(2, xpcall(call, function(e) return type(e) .. e.err end))"),
            "tableERR no"
        );
        assert_eq!(run("return select(2, pcall(error, {err = 'x'}))"), "x");
        assert_eq!(run("return tostring(select('#', pcall(error, {})))"), "3");
    }

    #[test]
    fn the_host_sees_message_and_place() {
        let failure = state().load("return fail()").set_name("=s").exec().unwrap_err();
        let raised = raised(&failure).unwrap();
        assert_eq!(raised.message, b"s:1: oops");
        assert_eq!(raised.place, Some(Place { source: "s".into(), line: 1 }));
    }
}
