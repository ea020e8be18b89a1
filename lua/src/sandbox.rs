//! The sandbox: which globals scripts find, and how errors reach them.

use std::rc::Rc;
use std::time::Instant;

use mlua::{Error, Function, Lua, MultiValue, Result, Table, Value};

use crate::api::{Raised, abort, raise};
use crate::interpreter::State;

/// Frames that are looked at for the place of an error.
const FRAMES_MAX: usize = 32;

/// Closes the globals, and returns the function that calls a script: it returns `true` and the script's value,
/// or `false` and a table with `err`, `source` and `line`.
pub(crate) fn close(lua: &Lua, state: &Rc<State>, server: Table) -> Result<Function> {
    let globals = lua.globals();
    let set_readonly: Function = globals.raw_get("setreadonly")?;
    let libraries = lua.create_table()?;
    for (name, library) in crate::library::all(lua)? {
        libraries.raw_set(name, library)?;
    }
    let tools = tools(lua, state)?;
    let closing = lua.load(include_str!("sandbox.lua")).set_name("=sandbox").into_function()?;
    closing.call((server, libraries, tools, set_readonly))
}

fn tools(lua: &Lua, state: &Rc<State>) -> Result<Table> {
    let tools = lua.create_table()?;
    // An abort that meets a failing handler comes out as another error: the state knows of it.
    let own = state.clone();
    let text_of = lua.create_function(move |lua, problem: Value| {
        if own.is_aborted.get() { Err(abort()) } else { text_of(lua, problem) }
    })?;
    tools.raw_set("text_of", text_of)?;
    let own = state.clone();
    let value_of = lua.create_function(move |lua, problem: Value| {
        if own.is_aborted.get() { Err(abort()) } else { value_of(lua, problem) }
    })?;
    tools.raw_set("value_of", value_of)?;
    tools.raw_set("describe", lua.create_function(|lua, problem: Value| describe(lua, &problem))?)?;
    let began = Instant::now();
    tools.raw_set("clock", lua.create_function(move |_, _: MultiValue| Ok(began.elapsed().as_secs_f64()))?)?;
    let own = state.clone();
    tools.raw_set("random", lua.create_function(move |_, args: MultiValue| random(&own, &args))?)?;
    let own = state.clone();
    let seed = lua.create_function(move |_, seed: f64| {
        own.random.seed(seed as i64 as i32);
        Ok(())
    })?;
    tools.raw_set("randomseed", seed)?;
    Ok(tools)
}

/// The text of an error of a function of the server.
fn message_of(error: &Error) -> Vec<u8> {
    if let Some(Raised(text)) = error.downcast_ref() {
        return text.clone();
    }
    match error {
        Error::CallbackError { cause, .. } => message_of(cause),
        Error::RuntimeError(message) | Error::MemoryError(message) => message.clone().into_bytes(),
        error => error.to_string().into_bytes(),
    }
}

/// An error as `pcall` returns it: a text, or the value that the script has raised.
fn text_of(lua: &Lua, problem: Value) -> Result<Value> {
    match &problem {
        Value::Error(error) => Ok(Value::String(lua.create_string(message_of(error))?)),
        Value::Table(table) => match table.raw_get("err")? {
            Value::String(text) => Ok(Value::String(text)),
            _ => Ok(problem),
        },
        _ => Ok(problem),
    }
}

/// An error as handlers and `coroutine.resume` get it: a table with `err`, if the server has raised it.
fn value_of(lua: &Lua, problem: Value) -> Result<Value> {
    match &problem {
        Value::Error(error) => {
            let table = lua.create_table()?;
            table.raw_set("err", lua.create_string(message_of(error))?)?;
            Ok(Value::Table(table))
        }
        _ => Ok(problem),
    }
}

/// A table with what happened, and where. Runs before the stack of the error is gone.
fn describe(lua: &Lua, problem: &Value) -> Result<Table> {
    let table = match problem {
        Value::Table(table) if matches!(table.raw_get("err")?, Value::String(_)) => table.clone(),
        _ => lua.create_table()?,
    };
    let text = match problem {
        Value::Table(_) => None,
        Value::Error(error) if error.downcast_ref::<Raised>().is_some() => Some(message_of(error)),
        Value::Error(error) => Some([b"ERR ", message_of(error).as_slice()].concat()),
        Value::String(text) => Some([b"ERR ", &*text.as_bytes()].concat()),
        other => Some(format!("ERR {}", other.to_string()?).into_bytes()),
    };
    if let Some(text) = text {
        table.raw_set("err", lua.create_string(text)?)?;
    }
    if let Some((source, line)) = place(lua) {
        table.raw_set("source", source)?;
        table.raw_set("line", line)?;
    }
    Ok(table)
}

/// The name and the line of the script's innermost function.
fn place(lua: &Lua) -> Option<(String, usize)> {
    let of_frame = |level| {
        let look = |frame: &mlua::debug::Debug<'_>| {
            let source = frame.source().source.map(|name| name.into_owned());
            Some((source.filter(|name| name.starts_with('@'))?, frame.current_line()?))
        };
        lua.inspect_stack(level, look)
    };
    (1..FRAMES_MAX).map_while(of_frame).flatten().next()
}

fn random(state: &State, args: &MultiValue) -> Result<f64> {
    let number = |index: usize| -> Result<f64> {
        match args.get(index) {
            Some(Value::Number(number)) => Ok(number.trunc()),
            Some(Value::Integer(number)) => Ok(*number as f64),
            _ => Err(raise("ERR bad argument to 'random' (number expected)")),
        }
    };
    let fraction = state.random.fraction();
    let (low, high) = match args.len() {
        0 => return Ok(fraction),
        1 => (1.0, number(0)?),
        2 => (number(0)?, number(1)?),
        _ => return Err(raise("ERR wrong number of arguments")),
    };
    if low > high {
        return Err(raise(format!("ERR bad argument #{} to 'random' (interval is empty)", args.len())));
    }
    Ok((fraction * (high - low + 1.0)).floor() + low)
}
