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
