//! This module checks the arguments of callbacks, with the texts of the C auxiliary library.

use mlua::{Error, Lua, LuaString, MultiValue, Result, Value};

use crate::interpreter::library::number;
use crate::interpreter::raise;

/// Lua 5.1 allows a C function this many stack slots.
pub(crate) const STACK_LIMIT: usize = 8000;

/// `Args` holds the arguments of one call. Indexes start at 1, as in Lua.
pub(crate) struct Args<'a> {
    lua: &'a Lua,
    values: MultiValue,
}

impl<'a> Args<'a> {
    /// Takes the arguments of a call.
    pub(crate) fn new(lua: &'a Lua, values: MultiValue) -> Self {
        Args { lua, values }
    }

    /// Returns the number of arguments.
    pub(crate) fn count(&self) -> usize {
        self.values.len()
    }

    /// Returns an argument, or `None` if the caller gave fewer.
    pub(crate) fn get(&self, index: usize) -> Option<&Value> {
        self.values.get(index.checked_sub(1)?)
    }

    /// Returns true if the argument is nil or absent.
    pub(crate) fn is_nil(&self, index: usize) -> bool {
        matches!(self.get(index), None | Some(Value::Nil))
    }

    /// Returns a number, as `luaL_checknumber` does. Strings that look like numbers count.
    pub(crate) fn number(&self, index: usize) -> Result<f64> {
        match self.get(index) {
            Some(Value::Integer(n)) => Ok(*n as f64),
            Some(Value::Number(n)) => Ok(*n),
            Some(value @ Value::String(_)) => {
                let found = self.lua.coerce_number(value.clone())?;
                found.ok_or_else(|| self.wrong_type(index, "number"))
            }
            _ => Err(self.wrong_type(index, "number")),
        }
    }

    /// Returns an integer, as `luaL_checkinteger` does on x86-64.
    pub(crate) fn integer(&self, index: usize) -> Result<i64> {
        Ok(number::to_i64(self.number(index)?))
    }

    /// Returns an integer, or the default if the argument is nil or absent.
    pub(crate) fn integer_or(&self, index: usize, default: i64) -> Result<i64> {
        if self.is_nil(index) { Ok(default) } else { self.integer(index) }
    }

    /// Returns a string, as `luaL_checklstring` does. Numbers become strings.
    pub(crate) fn string(&self, index: usize) -> Result<LuaString> {
        match self.get(index) {
            Some(Value::String(s)) => Ok(s.clone()),
            Some(value @ (Value::Integer(_) | Value::Number(_))) => {
                let found = self.lua.coerce_string(value.clone())?;
                found.ok_or_else(|| self.wrong_type(index, "string"))
            }
            _ => Err(self.wrong_type(index, "string")),
        }
    }

    /// Makes the error for an argument of a wrong type.
    pub(crate) fn wrong_type(&self, index: usize, expected: &str) -> Error {
        let got = self.get(index).map_or("no value", type_name);
        self.bad(index, format!("{expected} expected, got {got}"))
    }

    /// Makes an error about one argument.
    pub(crate) fn bad(&self, index: usize, detail: impl AsRef<[u8]>) -> Error {
        raise::argument(self.lua, i32::try_from(index).unwrap_or(i32::MAX), detail)
    }
}

/// Returns the name of a value's type as Lua prints it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        Value::LightUserData(_) | Value::Error(_) => "userdata",
        other => other.type_name(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn arguments_convert_like_in_c() {
        let lua = Lua::new();
        let text = |s: &str| Value::String(lua.create_string(s).unwrap());
        let values = MultiValue::from_vec(vec![text(" 0x10 "), Value::Number(1.5), Value::Nil, text("x")]);
        let args = Args::new(&lua, values);
        assert_eq!(args.number(1).unwrap(), 16.0);
        assert_eq!(args.string(2).unwrap().as_bytes(), b"1.5");
        assert_eq!(args.integer(2).unwrap(), 1);
        assert_eq!(args.integer_or(3, 7).unwrap(), 7);
        let failure = args.number(4).unwrap_err();
        let text = String::from_utf8(raise::message(&failure)).unwrap();
        assert_eq!(text, "bad argument #4 to '?' (number expected, got string)");
    }
}
