//! This module is the Lua library `bit`, which works on the low 32 bits of numbers.

use mlua::{Lua, MultiValue, Result, Table};

use crate::interpreter::library::args::Args;

/// Adding 2^52 + 2^51 moves the integral part of a double to the low bits, rounded to even.
const SHIFTER: f64 = 6_755_399_441_055_744.0;

/// Creates the table of the library `bit`.
pub(crate) fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    unary(lua, &table, "tobit", |a| a)?;
    unary(lua, &table, "bnot", |a| !a)?;
    unary(lua, &table, "bswap", u32::swap_bytes)?;
    fold(lua, &table, "band", |a, b| a & b)?;
    fold(lua, &table, "bor", |a, b| a | b)?;
    fold(lua, &table, "bxor", |a, b| a ^ b)?;
    shift(lua, &table, "lshift", |a, n| a << n)?;
    shift(lua, &table, "rshift", |a, n| a >> n)?;
    shift(lua, &table, "arshift", |a, n| (a.cast_signed() >> n).cast_unsigned())?;
    shift(lua, &table, "rol", u32::rotate_left)?;
    shift(lua, &table, "ror", u32::rotate_right)?;
    table.raw_set("tohex", lua.create_function(tohex)?)?;
    Ok(table)
}

fn normalize(n: f64) -> u32 {
    // The cast keeps the low 32 bits, which is the point.
    (n + SHIFTER).to_bits() as u32
}

fn bits(args: &Args, index: usize) -> Result<u32> {
    Ok(normalize(args.number(index)?))
}

fn unary(lua: &Lua, table: &Table, name: &str, op: fn(u32) -> u32) -> Result<()> {
    let function = lua.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, values);
        Ok(op(bits(&args, 1)?).cast_signed())
    })?;
    table.raw_set(name, function)
}

fn fold(lua: &Lua, table: &Table, name: &str, op: fn(u32, u32) -> u32) -> Result<()> {
    let function = lua.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, values);
        let mut result = bits(&args, 1)?;
        for index in (2..=args.count()).rev() {
            result = op(result, bits(&args, index)?);
        }
        Ok(result.cast_signed())
    })?;
    table.raw_set(name, function)
}

fn shift(lua: &Lua, table: &Table, name: &str, op: fn(u32, u32) -> u32) -> Result<()> {
    let function = lua.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, values);
        let value = bits(&args, 1)?;
        Ok(op(value, bits(&args, 2)? & 31).cast_signed())
    })?;
    table.raw_set(name, function)
}

fn tohex(lua: &Lua, values: MultiValue) -> Result<String> {
    let args = Args::new(lua, values);
    let value = bits(&args, 1)?;
    let width = if args.get(2).is_none() { 8 } else { bits(&args, 2)?.cast_signed() };
    let digits = if width < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    let keep = usize::try_from(width.unsigned_abs()).unwrap_or(8).min(8);
    Ok(digits[8 - keep..].to_owned())
}

#[cfg(test)]
mod tests {
    use crate::interpreter::library::run;

    #[test]
    fn numbers_wrap_to_32_bits() {
        assert_eq!(run("return tostring(bit.tobit(0xffffffff))"), "-1");
        assert_eq!(run("return tostring(bit.tobit(2.5)) .. bit.tobit('0x10')"), "216");
        assert_eq!(run("return bit.tohex(-1, -4) .. bit.tohex(1)"), "FFFF00000001");
        assert_eq!(run("return tostring(bit.rol(0x12345678, 12))"), "1164411171");
    }

    #[test]
    fn bad_arguments_are_named() {
        let text = "s:1: bad argument #1 to 'band' (number expected, got nil)";
        assert_eq!(run("return select(2, pcall(function() return bit.band(nil) end))"), text);
    }
}
