//! The scripts and functions that a worker has compiled.

use std::cell::Cell;

use tarn_lua::Program;

/// The promises that a script or a function makes in its flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Promises {
    /// It does not write.
    pub(crate) no_writes: bool,
    /// It may run, and write, while too much memory is in use.
    pub(crate) allow_oom: bool,
}

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
    /// Whether it runs while too much memory is in use; `None`: it can make no promises, so what it calls is
    /// looked at.
    pub(crate) allows_oom: Option<bool>,
    /// It has used keys that it does not declare.
    pub(crate) needs_gate: Cell<bool>,
}

impl Known {
    /// A script or a function with its promises; `None`: it could make none.
    pub(crate) fn new(name: String, program: Program, promises: Option<Promises>) -> Known {
        let is_read_only = promises.is_some_and(|promises| promises.no_writes);
        let may_write = promises.is_some() && !is_read_only;
        let allows_oom = promises.map(|promises| promises.no_writes || promises.allow_oom);
        Known { name, program, is_read_only, may_write, allows_oom, needs_gate: Cell::new(false) }
    }
}
