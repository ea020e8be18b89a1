//! Skips what Tarn cannot hold: the data of modules, and functions in an early form.

use crate::error::{Damage, ReadError};
use crate::format::module_op;
use crate::source::{Source, damaged};
use std::io::Read;

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
