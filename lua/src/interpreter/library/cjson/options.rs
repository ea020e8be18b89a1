//! This module holds the settings of `cjson` and the functions that change them.

use std::rc::Rc;

use mlua::{Lua, MultiValue, Result, Table, Value};

use super::Shared;
use crate::interpreter::library::args::Args;

/// An `Invalid` value says what to do with numbers that JSON does not have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// They are errors.
    Off,
    /// They are allowed.
    On,
    /// They become null.
    Null,
}

impl From<bool> for Invalid {
    fn from(flag: bool) -> Self {
        if flag { Invalid::On } else { Invalid::Off }
    }
}

/// The settings of one instance of the library.
#[derive(Clone, Copy)]
pub(crate) struct Config {
    /// Sparse arrays become objects instead of errors.
    pub sparse_convert: bool,
    /// An array is sparse if it has this many times more slots than items. 0 turns the check off.
    pub sparse_ratio: i32,
    /// Arrays up to this length are never sparse.
    pub sparse_safe: i32,
    /// The deepest nesting that `encode` accepts.
    pub encode_depth: i32,
    /// The deepest nesting that `decode` accepts.
    pub decode_depth: i32,
    /// The number of significant digits.
    pub precision: i32,
    /// A flag without effect, kept for scripts that read it.
    pub keep_buffer: bool,
    /// The treatment of infinities and NaN by `encode`.
    pub encode_invalid: Invalid,
    /// `decode` accepts hexadecimal numbers, infinities and NaN.
    pub decode_invalid: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: 1000,
            decode_depth: 1000,
            precision: 14,
            keep_buffer: true,
            encode_invalid: Invalid::Off,
            decode_invalid: true,
        }
    }
}

/// Adds the functions that change settings to a table.
pub(crate) fn add(lua: &Lua, table: &Table, config: &Shared) -> Result<()> {
    add_sparse(lua, table, config)?;
    add_integer(lua, table, config, "encode_max_depth", i32::MAX, |c| &mut c.encode_depth)?;
    add_integer(lua, table, config, "decode_max_depth", i32::MAX, |c| &mut c.decode_depth)?;
    add_integer(lua, table, config, "encode_number_precision", 14, |c| &mut c.precision)?;
    add_flag(lua, table, config, "encode_keep_buffer", |c| &mut c.keep_buffer)?;
    add_flag(lua, table, config, "decode_invalid_numbers", |c| &mut c.decode_invalid)?;
    let config = Rc::clone(config);
    let function = lua.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, values);
        at_most(&args, 1)?;
        let mut settings = config.get();
        read_choice(&args, 1, &mut settings.encode_invalid, true)?;
        config.set(settings);
        Ok(match settings.encode_invalid {
            Invalid::Null => Value::String(lua.create_string("null")?),
            other => Value::Boolean(other == Invalid::On),
        })
    })?;
    table.raw_set("encode_invalid_numbers", function)
}

fn add_sparse(lua: &Lua, table: &Table, config: &Shared) -> Result<()> {
    let config = Rc::clone(config);
    let function = lua.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, values);
        at_most(&args, 3)?;
        // Each setting that is read stays, even if a later one is wrong.
        let mut settings = config.get();
        read_flag(&args, 1, &mut settings.sparse_convert)?;
        config.set(settings);
        read_integer(&args, 2, &mut settings.sparse_ratio, 0, i32::MAX)?;
        config.set(settings);
        read_integer(&args, 3, &mut settings.sparse_safe, 0, i32::MAX)?;
        config.set(settings);
        Ok((settings.sparse_convert, settings.sparse_ratio, settings.sparse_safe))
    })?;
    table.raw_set("encode_sparse_array", function)
}

fn add_integer(
    lua: &Lua,
    table: &Table,
    config: &Shared,
    name: &str,
    max: i32,
    field: fn(&mut Config) -> &mut i32,
) -> Result<()> {
    let config = Rc::clone(config);
    let function = lua.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, values);
        at_most(&args, 1)?;
        let mut settings = config.get();
        read_integer(&args, 1, field(&mut settings), 1, max)?;
        config.set(settings);
        Ok(*field(&mut settings))
    })?;
    table.raw_set(name, function)
}

fn add_flag(
    lua: &Lua,
    table: &Table,
    config: &Shared,
    name: &str,
    field: fn(&mut Config) -> &mut bool,
) -> Result<()> {
    let config = Rc::clone(config);
    let function = lua.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, values);
        at_most(&args, 1)?;
        let mut settings = config.get();
        read_flag(&args, 1, field(&mut settings))?;
        config.set(settings);
        Ok(*field(&mut settings))
    })?;
    table.raw_set(name, function)
}

fn at_most(args: &Args, count: usize) -> Result<()> {
    if args.count() <= count { Ok(()) } else { Err(args.bad(count + 1, "found too many arguments")) }
}

/// Reads an integer if the argument is not nil. The text always names argument 1, as in C.
fn read_integer(args: &Args, index: usize, target: &mut i32, min: i32, max: i32) -> Result<()> {
    if args.is_nil(index) {
        return Ok(());
    }
    // The C library keeps the low 32 bits of larger numbers.
    let value = args.integer(index)? as i32;
    if value < min || value > max {
        return Err(args.bad(1, format!("expected integer between {min} and {max}")));
    }
    *target = value;
    Ok(())
}

fn read_flag(args: &Args, index: usize, target: &mut bool) -> Result<()> {
    let mut choice = Invalid::from(*target);
    read_choice(args, index, &mut choice, false)?;
    *target = choice == Invalid::On;
    Ok(())
}

fn read_choice(args: &Args, index: usize, target: &mut Invalid, allow_null: bool) -> Result<()> {
    if args.is_nil(index) {
        return Ok(());
    }
    if let Some(Value::Boolean(flag)) = args.get(index) {
        *target = Invalid::from(*flag);
        return Ok(());
    }
    let text = args.string(index)?;
    let text = text.as_bytes();
    // C compares up to the first zero byte.
    let text = text.split(|c| *c == 0).next().unwrap_or(b"");
    *target = match text {
        b"off" => Invalid::Off,
        b"on" => Invalid::On,
        b"null" if allow_null => Invalid::Null,
        other => return Err(args.bad(index, [b"invalid option '", other, b"'"].concat())),
    };
    Ok(())
}
