//! This module is the Lua library `cmsgpack`, which reads and writes MessagePack.

mod pack;
mod unpack;

use mlua::{Lua, Result, Table};

/// Creates the table of the library `cmsgpack`.
pub(crate) fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(pack::pack)?)?;
    table.raw_set("unpack", lua.create_function(unpack::unpack)?)?;
    table.raw_set("unpack_one", lua.create_function(unpack::unpack_one)?)?;
    table.raw_set("unpack_limit", lua.create_function(unpack::unpack_limit)?)?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use crate::interpreter::library::run;

    #[test]
    fn values_survive_a_round_trip() {
        let code = "local t = cmsgpack.unpack(cmsgpack.pack({1, -5, 2^40, 0.1, 'x', true, {a = 1}})) \
                    return table.concat({t[1], t[2], t[3], t[4], t[5], tostring(t[6]), t[7].a}, ' ')";
        assert_eq!(run(code), "1 -5 1099511627776 0.1 x true 1");
    }

    #[test]
    fn broken_input_is_an_error() {
        assert_eq!(run("return select(2, pcall(cmsgpack.unpack, '\\146'))"), "Missing bytes in input.");
        assert_eq!(
            run("return select(2, pcall(cmsgpack.unpack, '\\221\\255\\255\\255\\255'))"),
            "Missing bytes in input."
        );
        assert_eq!(run("return select(2, pcall(cmsgpack.unpack, '\\193'))"), "Bad data format in input.");
        assert_eq!(run("return select(2, pcall(cmsgpack.unpack, '\\129\\192\\1'))"), "table index is nil");
    }

    #[test]
    fn deep_input_does_not_exhaust_the_stack() {
        let code = "return select(2, pcall(cmsgpack.unpack, string.rep('\\145', 100000)))";
        assert_eq!(run(code), "stack overflow (in function mp_decode_to_lua_array)");
    }
}
