//! This module is the Lua library `struct`, which packs values into binary strings.

use mlua::{Error, Lua, LuaString, MultiValue, Result, Table, Value};

use crate::interpreter::library::args::{Args, STACK_LIMIT};
use crate::interpreter::library::number;
use crate::interpreter::raise;

const MAX_INTEGER: usize = 32;
const DEFAULT_ALIGNMENT: usize = 8;

/// Creates the table of the library `struct`.
pub(crate) fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(pack)?)?;
    table.raw_set("unpack", lua.create_function(unpack)?)?;
    table.raw_set("size", lua.create_function(size)?)?;
    Ok(table)
}

/// One option of a format, with its size and the padding before it.
struct Field {
    option: u8,
    size: usize,
    padding: usize,
}

/// A `Format` reads the options of a format string one after the other.
struct Format<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
    big: bool,
    alignment: usize,
}

impl<'a> Format<'a> {
    /// Starts to read. A zero byte ends the format, as in C.
    fn new(lua: &'a Lua, text: &'a [u8]) -> Self {
        let end = text.iter().position(|c| *c == 0).unwrap_or(text.len());
        Format { lua, rest: &text[..end], big: false, alignment: 1 }
    }

    /// Reads the next option. `len` is the number of bytes before the option.
    fn next(&mut self, len: usize) -> Result<Option<Field>> {
        let Some((&option, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        self.rest = rest;
        let size = self.option_size(option)?;
        Ok(Some(Field { option, size, padding: self.padding(len, option, size) }))
    }

    fn option_size(&mut self, option: u8) -> Result<usize> {
        Ok(match option {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.read_number(1)?,
            b'i' | b'I' => {
                let size = self.read_number(4)?;
                if size > MAX_INTEGER {
                    let text = format!("integral size {size} is larger than limit of {MAX_INTEGER}");
                    return Err(raise::error(self.lua, text));
                }
                size
            }
            _ => 0,
        })
    }

    fn read_number(&mut self, default: usize) -> Result<usize> {
        if !self.rest.first().is_some_and(u8::is_ascii_digit) {
            return Ok(default);
        }
        let mut value = 0i32;
        while let Some((digit, rest)) = self.rest.split_first().filter(|(c, _)| c.is_ascii_digit()) {
            let next = value.checked_mul(10).and_then(|v| v.checked_add(i32::from(*digit - b'0')));
            value = next.ok_or_else(|| raise::error(self.lua, "integral size overflow"))?;
            self.rest = rest;
        }
        Ok(usize::try_from(value).unwrap_or(0))
    }

    fn padding(&self, len: usize, option: u8, size: usize) -> usize {
        let size = size.min(self.alignment);
        if size == 0 || option == b'c' {
            return 0;
        }
        let mask = size - 1;
        size.wrapping_sub(len & mask) & mask
    }

    /// Applies an option that carries no data.
    fn control(&mut self, option: u8) -> Result<()> {
        match option {
            b' ' => {}
            b'>' => self.big = true,
            b'<' => self.big = false,
            b'!' => {
                let alignment = self.read_number(DEFAULT_ALIGNMENT)?;
                if !alignment.is_power_of_two() {
                    let text = format!("alignment {alignment} is not a power of 2");
                    return Err(raise::error(self.lua, text));
                }
                self.alignment = alignment;
            }
            other => {
                let mut text = b"invalid format option '".to_vec();
                text.extend_from_slice(&[other, b'\'']);
                return Err(raise::argument(self.lua, 1, text));
            }
        }
        Ok(())
    }

    /// Puts little-endian bytes into the byte order of the format.
    fn order(&self, bytes: &mut [u8]) {
        if self.big {
            bytes.reverse();
        }
    }
}

fn pack(lua: &Lua, values: MultiValue) -> Result<LuaString> {
    let args = Args::new(lua, values);
    let text = args.string(1)?;
    let text = text.as_bytes();
    let mut format = Format::new(lua, &text);
    let mut out = Vec::new();
    let mut index = 2;
    while let Some(field) = format.next(out.len())? {
        out.resize(out.len() + field.padding, 0);
        match field.option {
            b'x' => out.push(0),
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let value = to_bits(packed_number(&args, index)?);
                let mut bytes = [0; MAX_INTEGER];
                bytes[..8].copy_from_slice(&value.to_le_bytes());
                push_ordered(&format, &mut out, &mut bytes[..field.size]);
            }
            b'f' => {
                let value = packed_number(&args, index)? as f32;
                push_ordered(&format, &mut out, &mut value.to_le_bytes());
            }
            b'd' => {
                let value = packed_number(&args, index)?;
                push_ordered(&format, &mut out, &mut value.to_le_bytes());
            }
            b'c' | b's' => pack_string(&args, index, &field, &mut out)?,
            other => {
                format.control(other)?;
                continue;
            }
        }
        index += usize::from(field.option != b'x');
    }
    lua.create_string(out)
}

fn push_ordered(format: &Format, out: &mut Vec<u8>, bytes: &mut [u8]) {
    format.order(bytes);
    out.extend_from_slice(bytes);
}

fn to_bits(n: f64) -> u64 {
    if n < 0.0 { number::to_i64(n).cast_unsigned() } else { number::to_u64(n) }
}

/// Makes the error for an absent argument. The C library keeps a nil in that place.
fn absent(args: &Args, index: usize, expected: &str) -> Option<Error> {
    let absent = args.get(index).is_none();
    absent.then(|| args.bad(index, format!("{expected} expected, got nil")))
}

fn packed_number(args: &Args, index: usize) -> Result<f64> {
    absent(args, index, "number").map_or_else(|| args.number(index), Err)
}

fn pack_string(args: &Args, index: usize, field: &Field, out: &mut Vec<u8>) -> Result<()> {
    let text = absent(args, index, "string").map_or_else(|| args.string(index), Err)?;
    let text = text.as_bytes();
    let size = if field.size == 0 { text.len() } else { field.size };
    let Some(part) = text.get(..size) else {
        return Err(args.bad(index + 1, "string too short"));
    };
    out.extend_from_slice(part);
    if field.option == b's' {
        out.push(0);
    }
    Ok(())
}

fn too_many(lua: &Lua) -> Error {
    raise::error(lua, "stack overflow (too many results)")
}

fn unpack(lua: &Lua, values: MultiValue) -> Result<MultiValue> {
    let args = Args::new(lua, values);
    let results = unpack_all(lua, &args);
    results.map_err(|error| raise::instead_of_full_stack(error, || too_many(lua)))
}

fn unpack_all(lua: &Lua, args: &Args) -> Result<MultiValue> {
    let text = args.string(1)?;
    let text = text.as_bytes();
    let data = args.string(2)?;
    let data = data.as_bytes();
    let start = args.integer_or(3, 1)?;
    if start == 0 {
        return Err(args.bad(3, "offset must be 1 or greater"));
    }
    let format = Format::new(lua, &text);
    // A negative offset becomes a huge one, so that no data is there.
    let at = usize::try_from(start.cast_unsigned() - 1).unwrap_or(usize::MAX);
    let mut unpacker = Unpacker { lua, args, format, data: &data, at, results: MultiValue::new() };
    while let Some(field) = unpacker.format.next(unpacker.at)? {
        unpacker.read(&field)?;
    }
    // Positions beyond the signed range come back as the negative number that the caller gave.
    let next = (unpacker.at as u64).wrapping_add(1).cast_signed();
    unpacker.results.push_back(Value::Number(next as f64));
    Ok(unpacker.results)
}

struct Unpacker<'a> {
    lua: &'a Lua,
    args: &'a Args<'a>,
    format: Format<'a>,
    data: &'a [u8],
    at: usize,
    results: MultiValue,
}

impl<'a> Unpacker<'a> {
    fn take(&mut self, size: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(size);
        let found = end.and_then(|end| Some((end, self.data.get(self.at..end)?)));
        let (end, bytes) = found.ok_or_else(|| self.args.bad(2, "data string too short"))?;
        self.at = end;
        Ok(bytes)
    }

    fn push_string(&mut self, bytes: &[u8]) -> Result<()> {
        self.results.push_back(Value::String(self.lua.create_string(bytes)?));
        Ok(())
    }

    fn read(&mut self, field: &Field) -> Result<()> {
        self.at = self.at.saturating_add(field.padding);
        let bytes = self.take(field.size)?;
        if self.args.count() + self.results.len() + 2 > STACK_LIMIT {
            return Err(too_many(self.lua));
        }
        match field.option {
            b'x' => Ok(()),
            b'c' if field.size == 0 => {
                let size = previous_size(self.lua, &mut self.results)?;
                let bytes = self.take(size)?;
                self.push_string(bytes)
            }
            b'c' => self.push_string(bytes),
            b's' => {
                let rest = self.data.get(self.at..).unwrap_or(b"");
                let end = rest.iter().position(|c| *c == 0);
                let end = end.ok_or_else(|| raise::error(self.lua, "unfinished string in data"))?;
                let bytes = self.take(end + 1)?;
                self.push_string(&bytes[..end])
            }
            other => match read_number(&self.format, other, bytes) {
                Some(value) => {
                    self.results.push_back(Value::Number(value));
                    Ok(())
                }
                None => self.format.control(other),
            },
        }
    }
}

fn previous_size(lua: &Lua, results: &mut MultiValue) -> Result<usize> {
    let last = results.pop_back().map_or(Ok(None), |value| lua.coerce_number(value))?;
    let size = last.ok_or_else(|| raise::error(lua, "format 'c0' needs a previous size"))?;
    Ok(usize::try_from(number::to_u64(size)).unwrap_or(usize::MAX))
}

/// Reads a number of the given option, or returns `None` if the option is not numeric.
fn read_number(format: &Format, option: u8, bytes: &[u8]) -> Option<f64> {
    let mut buffer = [0; MAX_INTEGER];
    let buffer = buffer.get_mut(..bytes.len())?;
    buffer.copy_from_slice(bytes);
    format.order(buffer);
    match option {
        b'f' => Some(f64::from(f32::from_le_bytes((&*buffer).try_into().ok()?))),
        b'd' => Some(f64::from_le_bytes((&*buffer).try_into().ok()?)),
        b'b' | b'h' | b'l' | b'i' => {
            let value = read_unsigned(buffer);
            // The shift count wraps as on x86-64, which shows for sizes beyond 8 bytes.
            let sign = u32::try_from(buffer.len() * 8).unwrap_or(0).wrapping_sub(1);
            let mask = u64::MAX.wrapping_shl(sign);
            let value = if value & mask != 0 { value | mask } else { value };
            Some(value.cast_signed() as f64)
        }
        b'B' | b'H' | b'L' | b'T' | b'I' => Some(read_unsigned(buffer) as f64),
        _ => None,
    }
}

/// Reads the low 64 bits of a little-endian number.
fn read_unsigned(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte))
}

fn size(lua: &Lua, values: MultiValue) -> Result<f64> {
    let args = Args::new(lua, values);
    let text = args.string(1)?;
    let text = text.as_bytes();
    let mut format = Format::new(lua, &text);
    let mut total = 0usize;
    while let Some(field) = format.next(total)? {
        total = total.saturating_add(field.padding).saturating_add(field.size);
        match field.option {
            b's' => return Err(args.bad(1, "option 's' has no fixed size")),
            b'c' if field.size == 0 => return Err(args.bad(1, "option 'c0' has no fixed size")),
            option if !option.is_ascii_alphanumeric() => format.control(option)?,
            _ => {}
        }
    }
    Ok(total as f64)
}

#[cfg(test)]
mod tests {
    use crate::interpreter::library::run;

    #[test]
    fn values_survive_a_round_trip() {
        let code = "return table.concat({struct.unpack('>!4bi3hdsxc2', \
                    struct.pack('>!4bi3hdsxc2', -3, -70000, 513, 1.5, 'ab', 'xyz'))}, ' ')";
        assert_eq!(run(code), "-3 -70000 513 1.5 ab xy 23");
    }

    #[test]
    fn errors_have_the_texts_of_the_c_library() {
        let fails =
            |call: &str| run(&format!("return select(2, pcall(function() return struct.{call} end))"));
        assert_eq!(fails("pack('!3')"), "s:1: alignment 3 is not a power of 2");
        assert_eq!(fails("pack('i33', 1)"), "s:1: integral size 33 is larger than limit of 32");
        assert_eq!(fails("unpack('s', 'ab')"), "s:1: unfinished string in data");
        assert_eq!(fails("unpack('i', 'ab')"), "s:1: bad argument #2 to 'unpack' (data string too short)");
    }
}
