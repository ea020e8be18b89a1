//! The libraries that scripts find beside those of Lua.

use mlua::{Lua, Result, Table};

/// All of them, by name.
pub(crate) fn all(lua: &Lua) -> Result<[(&'static str, Table); 4]> {
    Ok([("bit", lua.create_table()?), ("cjson", lua.create_table()?), ("cmsgpack", lua.create_table()?), ("struct", lua.create_table()?)])
}
