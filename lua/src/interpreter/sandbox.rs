//! The sandbox: which globals scripts find, and how errors reach them.

use std::rc::Rc;
use std::time::Instant;

use mlua::{Function, Lua, MultiValue, Result, Table, Value};

use crate::interpreter::raise::{self, Form};
use crate::interpreter::state::State;

/// Frames that are looked at for the place of an error.
const FRAMES_MAX: usize = 32;

/// Sources of functions that no script has brought.
const NOT_OF_SCRIPTS: [&str; 4] = ["=[C]", "=(tail call)", "=sandbox", "=catchers"];

/// The functions of the closed sandbox.
pub(crate) struct Sandbox {
    /// Calls a script or a function: returns `true` and its value, or `false` and a table with `err`,
    /// `source` and `line`.
    pub(crate) guarded: Function,
    /// Makes the globals of a library of functions, and the function that ends its loading.
    pub(crate) environment: Option<Function>,
}

/// Closes the globals. `registry` is what libraries of functions find while they are loaded.
pub(crate) fn close(
    lua: &Lua,
    state: &Rc<State>,
    server: Table,
    registry: Option<Table>,
    xpcall: Function,
) -> Result<Sandbox> {
    let globals = lua.globals();
    let set_readonly: Function = globals.raw_get("setreadonly")?;
    let libraries = lua.create_table()?;
    for (name, library) in crate::interpreter::library::all(lua)? {
        libraries.raw_set(name, library)?;
    }
    let tools = tools(lua, state)?;
    tools.raw_set("xpcall", xpcall)?;
    let closing = lua.load(include_str!("sandbox.lua")).set_name("=sandbox").into_function()?;
    let (guarded, environment) = closing.call((server, libraries, tools, set_readonly, registry))?;
    Ok(Sandbox { guarded, environment })
}

fn tools(lua: &Lua, state: &Rc<State>) -> Result<Table> {
    let tools = lua.create_table()?;
    tools.raw_set("describe", lua.create_function(|lua, problem: Value| describe(lua, &problem))?)?;
    let began = Instant::now();
    tools
        .raw_set("clock", lua.create_function(move |_, _: MultiValue| Ok(began.elapsed().as_secs_f64()))?)?;
    let own = state.clone();
    tools.raw_set("random", lua.create_function(move |lua, args: MultiValue| random(lua, &own, &args))?)?;
    let own = state.clone();
    let seed = lua.create_function(move |_, seed: f64| {
        own.random.seed(seed as i64 as i32);
        Ok(())
    })?;
    tools.raw_set("randomseed", seed)?;
    Ok(tools)
}

/// A table with what happened, and where. Runs before the stack of the error is gone.
fn describe(lua: &Lua, problem: &Value) -> Result<Table> {
    let table = match problem {
        Value::Table(table) if matches!(table.raw_get("err")?, Value::String(_)) => table.clone(),
        _ => lua.create_table()?,
    };
    let text = match problem {
        Value::Table(_) => None,
        Value::Error(error) => Some(match raise::raised(error).map(|raised| raised.form) {
            Some(Form::Reply { .. }) => raise::message(error),
            _ => [b"ERR ", raise::message(error).as_slice()].concat(),
        }),
        Value::String(text) => Some([b"ERR ", &*text.as_bytes()].concat()),
        other => Some(format!("ERR {}", other.to_string()?).into_bytes()),
    };
    if let Value::Error(error) = problem
        && matches!(raise::raised(error).map(|raised| raised.form), Some(Form::Reply { ignore_stats: true }))
    {
        table.raw_set("ignore_error_stats_update", true)?;
    }
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
            Some((source.filter(|name| !NOT_OF_SCRIPTS.contains(&name.as_str()))?, frame.current_line()?))
        };
        lua.inspect_stack(level, look)
    };
    (1..FRAMES_MAX).map_while(of_frame).flatten().next()
}

fn random(lua: &Lua, state: &State, args: &MultiValue) -> Result<f64> {
    let number = |index: usize| -> Result<f64> {
        match args.get(index) {
            Some(Value::Number(number)) => Ok(number.trunc()),
            Some(Value::Integer(number)) => Ok(*number as f64),
            _ => Err(raise::argument(lua, index as i32 + 1, "number expected")),
        }
    };
    let fraction = state.random.fraction();
    let (low, high) = match args.len() {
        0 => return Ok(fraction),
        1 => (1.0, number(0)?),
        2 => (number(0)?, number(1)?),
        _ => return Err(raise::error(lua, "wrong number of arguments")),
    };
    if low > high {
        return Err(raise::argument(lua, args.len() as i32, "interval is empty"));
    }
    Ok((fraction * (high - low + 1.0)).floor() + low)
}
