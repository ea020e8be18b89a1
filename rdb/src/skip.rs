//! Skips the values that Tarn cannot hold: streams, and the data of modules and functions.

use crate::error::{Damage, ReadError};
use crate::format::module_op;
use crate::source::{Source, damaged};
use std::io::Read;

const STREAM: &str = "a stream";
const ID_BYTES: u64 = 16;
const TIME_BYTES: u64 = 8;

/// Passes over a stream, in the form of Redis 5 (1), 7.0 (2) or 7.2 (3).
pub(crate) fn stream<R: Read>(source: &mut Source<R>, form: u8) -> Result<(), ReadError> {
    for _ in 0..source.number()? {
        // The id that the entries of a listpack count from, and the listpack.
        strings(source, 2)?;
    }
    // How many entries, and the last id; then the first one, the last deleted one, and how many there ever
    // were.
    numbers(source, if form >= 2 { 8 } else { 3 })?;
    for _ in 0..source.number()? {
        group(source, form)?;
    }
    Ok(())
}

/// Passes over a group of consumers.
fn group<R: Read>(source: &mut Source<R>, form: u8) -> Result<(), ReadError> {
    source.skip_string()?;
    // The last id that was delivered, and how many entries were read.
    numbers(source, if form >= 2 { 3 } else { 2 })?;
    for _ in 0..source.number()? {
        // An entry that is not acknowledged: when it was delivered, and how often.
        source.skip(ID_BYTES + TIME_BYTES, STREAM)?;
        source.number()?;
    }
    for _ in 0..source.number()? {
        source.skip_string()?;
        // When the consumer was seen, and when it did something.
        source.skip(if form >= 3 { 2 * TIME_BYTES } else { TIME_BYTES }, STREAM)?;
        for _ in 0..source.number()? {
            source.skip(ID_BYTES, STREAM)?;
        }
    }
    Ok(())
}

/// Skips a module's data, whose parts name their kinds, up to its end.
pub(crate) fn module_parts<R: Read>(source: &mut Source<R>) -> Result<(), ReadError> {
    const PART: &str = "the data of a module";
    loop {
        let offset = source.offset();
        match source.number()? {
            module_op::EOF => return Ok(()),
            module_op::SINT | module_op::UINT => _ = source.number()?,
            module_op::FLOAT => source.skip(4, PART)?,
            module_op::DOUBLE => source.skip(8, PART)?,
            module_op::STRING => source.skip_string()?,
            other => return Err(damaged(offset, Damage::Module(other))),
        }
    }
}

/// Passes over a library of functions in the form of the release candidates of Redis 7.0.
pub(crate) fn early_function<R: Read>(source: &mut Source<R>) -> Result<(), ReadError> {
    strings(source, 2)?;
    let has_description = source.number()? != 0;
    strings(source, if has_description { 2 } else { 1 })
}

pub(crate) fn numbers<R: Read>(source: &mut Source<R>, count: usize) -> Result<(), ReadError> {
    (0..count).try_for_each(|_| source.number().map(|_| ()))
}

pub(crate) fn strings<R: Read>(source: &mut Source<R>, count: usize) -> Result<(), ReadError> {
    (0..count).try_for_each(|_| source.skip_string())
}
