//! Libraries of functions: the table that they find as `redis` while they are loaded.

use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Result, Table, Value};

use crate::interpreter::state::State;
use crate::interpreter::{api, raise};
use crate::program::{FunctionFlag, Program, Registered, valid_name};

/// The table that libraries find while they are loaded.
pub(crate) fn table(lua: &Lua, state: &Rc<State>, version: &str) -> Result<Table> {
    let table = api::about(lua, version)?;
    let own = state.clone();
    let register = lua.create_function(move |lua, args: MultiValue| {
        if !own.is_loading.get() {
            let text = "ERR redis.register_function can only be called on FUNCTION LOAD command";
            return Err(raise::reply(lua, text, false));
        }
        let registered = read(&args).map_err(|why| raise::reply(lua, format!("ERR {why}"), false))?;
        let mut all = own.registered.borrow_mut();
        if all.iter().any(|one| one.name == registered.name) {
            return Err(raise::reply(lua, "ERR Function already exists in the library", false));
        }
        all.push(registered);
        Ok(())
    })?;
    table.raw_set("register_function", register)?;
    Ok(table)
}

/// The function that a call of `register_function` describes.
fn read(args: &MultiValue) -> std::result::Result<Registered, &'static str> {
    let registered = match (args.len(), args.front()) {
        (1, Some(Value::Table(named))) => read_named(named)?,
        (1, _) => {
            return Err("calling redis.register_function with a single argument is only applicable to Lua \
                        table (representing named arguments).");
        }
        (2, Some(name)) => {
            let name = text(name).ok_or("first argument to redis.register_function must be a string")?;
            let Some(Value::Function(callback)) = args.get(1) else {
                return Err("second argument to redis.register_function must be a function");
            };
            new(&name, callback.clone())?
        }
        _ => return Err("wrong number of arguments to redis.register_function"),
    };
    Ok(registered)
}

fn new(name: &[u8], callback: Function) -> std::result::Result<Registered, &'static str> {
    let name = valid_name(name).ok_or(
        "Library names can only contain letters, numbers, or underscores(_) and must be at least one \
         character long",
    )?;
    Ok(Registered { name, description: None, flags: Vec::new(), program: Program(callback) })
}

fn text(value: &Value) -> Option<Vec<u8>> {
    api::with_text(value, <[u8]>::to_vec)
}

fn read_named(named: &Table) -> std::result::Result<Registered, &'static str> {
    let (mut name, mut callback, mut description, mut flags) = (None, None, None, Vec::new());
    for pair in named.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|_| "unknown argument given to redis.register_function")?;
        let key = text(&key).ok_or("named argument key given to redis.register_function is not a string")?;
        match key.to_ascii_lowercase().as_slice() {
            b"function_name" => {
                name = Some(
                    text(&value)
                        .ok_or("function_name argument given to redis.register_function must be a string")?,
                );
            }
            b"description" => {
                description = Some(
                    text(&value)
                        .ok_or("description argument given to redis.register_function must be a string")?,
                );
            }
            b"callback" => {
                let Value::Function(function) = value else {
                    return Err("callback argument given to redis.register_function must be a function");
                };
                callback = Some(function);
            }
            b"flags" => {
                let Value::Table(list) = value else {
                    return Err("flags argument to redis.register_function must be a table representing \
                                function flags");
                };
                flags = read_flags(&list)?;
            }
            _ => return Err("unknown argument given to redis.register_function"),
        }
    }
    let name = name.ok_or("redis.register_function must get a function name argument")?;
    let callback = callback.ok_or("redis.register_function must get a callback argument")?;
    Ok(Registered { description, flags, ..new(&name, callback)? })
}

fn read_flags(list: &Table) -> std::result::Result<Vec<FunctionFlag>, &'static str> {
    const UNKNOWN: &str = "unknown flag given";
    let mut flags = Vec::new();
    for index in 1.. {
        let name = match list.raw_get(index).map_err(|_| UNKNOWN)? {
            Value::Nil => break,
            value => text(&value).ok_or(UNKNOWN)?,
        };
        let is_named = |flag: &FunctionFlag| name.eq_ignore_ascii_case(flag.name().as_bytes());
        let flag = FunctionFlag::ALL.into_iter().find(is_named).ok_or(UNKNOWN)?;
        if !flags.contains(&flag) {
            flags.push(flag);
        }
    }
    flags.sort_by_key(|flag| *flag as u8);
    Ok(flags)
}
