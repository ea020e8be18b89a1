//! The libraries that scripts find beside those of Lua: they do what those of Redis do.

mod args;
mod bit;
mod cjson;
mod cmsgpack;
pub(crate) mod number;
mod structs;

use mlua::{Lua, Result, Table};

/// All of them, by name.
pub(crate) fn all(lua: &Lua) -> Result<[(&'static str, Table); 4]> {
    Ok([
        ("bit", bit::library(lua)?),
        ("cjson", cjson::library(lua)?),
        ("cmsgpack", cmsgpack::library(lua)?),
        ("struct", structs::library(lua)?),
    ])
}

/// Runs a chunk that finds the libraries, and returns its text.
#[cfg(test)]
fn run(code: &str) -> String {
    let lua = Lua::new();
    crate::interpreter::raise::install(&lua, || false).expect("the functions are there");
    for (name, library) in all(&lua).expect("the libraries can be made") {
        lua.globals().set(name, library).expect("globals are open");
    }
    lua.load(code).set_name("=s").eval().expect("the chunk of a test runs")
}
