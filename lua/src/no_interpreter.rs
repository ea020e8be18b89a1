//! The interpreter of a build without the feature `lua`: none can be made.

use std::convert::Infallible;

use tarn_resp::Writer;

use crate::errors::Errors;
use crate::failure::Failure;
use crate::host::Host;
use crate::program::{Limits, Program, Purpose, Registered};

/// An interpreter of Lua, which nobody can have.
pub struct Interpreter(Infallible);

impl Interpreter {
    /// Fails: this build has no Lua.
    pub fn new(_: Limits, _: &str, _: Purpose) -> Result<Interpreter, Failure> {
        let message = b"this build has no Lua: build tarn with the feature 'lua'".to_vec();
        Err(Failure::Error { message, place: None })
    }

    /// Compiles a script, or the code of a library.
    pub fn compile(&self, _: &str, _: &[u8]) -> Result<Program, Failure> {
        match self.0 {}
    }

    /// Runs the code of a library.
    pub fn register(&self, _: &Program, _: &mut dyn Host) -> Result<Vec<Registered>, Failure> {
        match self.0 {}
    }

    /// Runs a script.
    pub fn run<'k>(
        &self,
        _: &Program,
        _: impl Iterator<Item = &'k [u8]> + Clone,
        _: impl Iterator<Item = &'k [u8]> + Clone,
        _: &mut dyn Host,
        _: &mut Writer<'_>,
    ) -> Result<(), Failure> {
        match self.0 {}
    }

    /// The errors that the script which ran last has replied.
    pub fn take_errors(&self) -> Errors {
        match self.0 {}
    }

    /// Bytes of memory that it takes now.
    pub fn memory_bytes(&self) -> usize {
        match self.0 {}
    }

    /// Gives back the memory of what nothing refers to any more.
    pub fn collect(&self) {
        match self.0 {}
    }
}
