//! This module is the Lua library `cjson`, which reads and writes JSON.

mod decode;
mod encode;
mod options;
mod token;

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Result, Table, Value};

use crate::interpreter::library::args::Args;
use options::Config;

/// The settings of one instance of the library. Its functions share them.
type Shared = Rc<Cell<Config>>;

/// Creates the table of the library `cjson`.
pub(crate) fn library(lua: &Lua) -> Result<Table> {
    let next: Function = lua.globals().raw_get("next")?;
    instance(lua, next)
}

fn instance(lua: &Lua, next: Function) -> Result<Table> {
    let table = lua.create_table()?;
    let config: Shared = Rc::default();
    options::add(lua, &table, &config)?;
    add_encode(lua, &table, &config, next.clone())?;
    add_decode(lua, &table, &config)?;
    let new = lua.create_function(move |lua, ()| instance(lua, next.clone()))?;
    table.raw_set("new", new)?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}

fn add_encode(lua: &Lua, table: &Table, config: &Shared, next: Function) -> Result<()> {
    let config = Rc::clone(config);
    let function = lua.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, values);
        let value = only_argument(&args)?;
        lua.create_string(encode::encode(lua, &next, config.get(), value)?)
    })?;
    table.raw_set("encode", function)
}

fn add_decode(lua: &Lua, table: &Table, config: &Shared) -> Result<()> {
    let config = Rc::clone(config);
    let function = lua.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, values);
        only_argument(&args)?;
        let text = args.string(1)?;
        decode::decode(lua, config.get(), &text.as_bytes())
    })?;
    table.raw_set("decode", function)
}

fn only_argument<'a>(args: &'a Args) -> Result<&'a Value> {
    let value = args.get(1).filter(|_| args.count() == 1);
    value.ok_or_else(|| args.bad(1, "expected 1 argument"))
}

#[cfg(test)]
mod tests {
    use crate::interpreter::library::run;

    #[test]
    fn values_survive_a_round_trip() {
        let text = r#"[1,-0.5,1e+20,"a\"\/\\\u0001\u007f",true,null,{"k":[{}]}]"#;
        assert_eq!(run(&format!("return cjson.encode(cjson.decode([=[{text}]=]))")), text);
        assert_eq!(run(r#"return cjson.decode('"\\ud83d\\ude00\\u00e4"')"#), "😀ä");
    }

    #[test]
    fn errors_have_the_texts_of_the_c_library() {
        let fails = |call: &str| run(&format!("return select(2, pcall(function() return cjson.{call} end))"));
        assert_eq!(fails("decode('x')"), "s:1: Expected value but found invalid token at character 1");
        assert_eq!(fails("decode('[1')"), "s:1: Expected comma or array end but found T_END at character 3");
        assert_eq!(fails("encode(print)"), "s:1: Cannot serialise function: type not supported");
        assert_eq!(fails("encode({[100]=1})"), "s:1: Cannot serialise table: excessively sparse array");
        assert_eq!(fails("encode()"), "s:1: bad argument #1 to 'encode' (expected 1 argument)");
    }

    #[test]
    fn nesting_has_a_limit() {
        let code = "return select(2, pcall(cjson.decode, string.rep('[', 1001)))";
        assert_eq!(run(code), "Found too many nested data structures (1001) at character 1001");
        let code = "local t = {} t.t = t return select(2, pcall(cjson.encode, t))";
        assert_eq!(run(code), "Cannot serialise, excessive nesting (1001)");
    }

    #[test]
    fn instances_have_their_own_settings() {
        let code = "local c = cjson.new() c.encode_number_precision(3) \
                    return c.encode(1/3) .. cjson.encode(1/3)";
        assert_eq!(run(code), "0.3330.33333333333333");
    }
}
