//! The scripts and functions that a worker has compiled.

use std::cell::Cell;

use tarn_lua::Program;

/// A script or a function that a worker has compiled.
pub(crate) struct Known {
    /// The SHA1 of the script in hexadecimal, or the name of the function: errors name it.
    pub(crate) name: String,
    /// The form that the interpreter runs.
    pub(crate) program: Program,
    /// It promises not to write.
    pub(crate) is_read_only: bool,
    /// It could promise that, and does not.
    pub(crate) may_write: bool,
    /// It has used keys that it does not declare.
    pub(crate) needs_gate: Cell<bool>,
}

impl Known {
    /// A script or a function; `has_flags`: it could promise not to write.
    pub(crate) fn new(name: String, program: Program, is_read_only: bool, has_flags: bool) -> Known {
        let may_write = has_flags && !is_read_only;
        Known { name, program, is_read_only, may_write, needs_gate: Cell::new(false) }
    }
}
