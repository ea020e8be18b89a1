//! An interpreter: runs scripts one after the other, in one thread.

mod answer;
mod api;
mod library;
mod memory;
mod raise;
mod random;
mod registry;
mod reply;
mod sandbox;
mod state;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mlua::{
    Error, Function, HookTriggers, IntoLua, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState,
};
use tarn_resp::{Protocol, Writer};

use random::Random;
use sandbox::Sandbox;
use state::State;

use crate::errors::Errors;
use crate::failure::Failure;
use crate::host::{HOST, Host};
use crate::program::{Limits, Program, Purpose, Registered};

/// The instructions between two looks of the host.
const LOOK_EVERY: u32 = 10_000;

/// A text of the host that becomes a string.
struct Text<'t>(&'t [u8]);

impl IntoLua for Text<'_> {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        Ok(Value::String(lua.create_string(self.0)?))
    }
}

/// An interpreter of Lua.
pub struct Interpreter {
    lua: Lua,
    limits: Limits,
    globals: Table,
    pub(crate) state: Rc<State>,
    purpose: Purpose,
    sandbox: Sandbox,
    /// The errors that the last script has replied.
    errors: RefCell<Errors>,
}

impl Interpreter {
    /// An interpreter whose scripts find `version` as the version of Redis.
    pub fn new(limits: Limits, version: &str, purpose: Purpose) -> Result<Interpreter, Failure> {
        let failed = |error: Error| Failure::Error { message: error.to_string().into_bytes(), place: None };
        Interpreter::build(limits, version, purpose).map_err(failed)
    }

    fn build(limits: Limits, version: &str, purpose: Purpose) -> mlua::Result<Interpreter> {
        let options = LuaOptions::new().catch_rust_panics(false);
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS, options)?;
        let state = Rc::new(State {
            protocol: Cell::new(Protocol::Resp2),
            is_aborted: Cell::new(false),
            random: Random::default(),
            reply: RefCell::default(),
            is_loading: Cell::new(false),
            registered: RefCell::default(),
        });
        let server = api::table(&lua, &state, version, purpose)?;
        let registry = match purpose {
            Purpose::Scripts => None,
            Purpose::Functions => Some(registry::table(&lua, &state, version)?),
        };
        let xpcall: Function = lua.globals().raw_get("xpcall")?;
        let own = state.clone();
        raise::install(&lua, move || own.is_aborted.get())?;
        let sandbox = sandbox::close(&lua, &state, server, registry, xpcall)?;
        let hooked = state.clone();
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(LOOK_EVERY), move |_, _| {
            let goes_on = !HOST.is_set() || HOST.with(|host| host.look()).is_ok();
            if goes_on && !hooked.is_aborted.get() {
                return Ok(VmState::Continue);
            }
            hooked.is_aborted.set(true);
            Err(raise::abort())
        })?;
        lua.set_memory_limit(limits.memory_bytes)?;
        let globals = lua.globals();
        let errors = RefCell::default();
        Ok(Interpreter { lua, limits, globals, state, purpose, sandbox, errors })
    }

    /// Compiles a script, or the code of a library. `name` is what errors call it.
    pub fn compile(&self, name: &str, body: &[u8]) -> Result<Program, Failure> {
        let compiled = self
            .lua
            .load(body)
            .set_name(format!("@{name}"))
            .set_mode(mlua::chunk::ChunkMode::Text)
            .into_function();
        compiled.map(Program).map_err(|error| self.failure(&error))
    }

    /// Runs the code of a library; the functions that it has registered. REQUIRES: it was made for functions.
    pub fn register(&self, program: &Program, host: &mut dyn Host) -> Result<Vec<Registered>, Failure> {
        self.state.is_loading.set(true);
        let has_run = self.protected(|| {
            let environment = self.sandbox.environment.as_ref().ok_or(Error::BindError)?;
            let (globals, end): (Table, Function) = environment.call(())?;
            program.0.set_environment(globals)?;
            let result = HOST.set(host, || self.sandbox.guarded.call(&program.0))?;
            let outcome = self.value_of(result)?;
            end.call::<()>(())?;
            Ok(outcome.map(drop))
        });
        self.state.is_loading.set(false);
        let registered = self.state.registered.take();
        has_run.map(|()| registered).map_err(|(failure, _)| failure)
    }

    /// Runs a script and writes what it returns as a reply.
    pub fn run<'k>(
        &self,
        program: &Program,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        args: impl Iterator<Item = &'k [u8]> + Clone,
        host: &mut dyn Host,
        reply: &mut Writer<'_>,
    ) -> Result<(), Failure> {
        self.errors.take();
        let before = reply.len();
        let outcome = self.protected(|| self.run_inner(program, keys, args, host, reply));
        outcome.map_err(|(failure, is_known)| {
            reply.truncate(before);
            let text = if let Failure::Error { message, .. } = &failure { message } else { &b"ERR"[..] };
            // What it would have replied before that is not sent.
            self.errors.take();
            self.errors.borrow_mut().note(text, is_known);
            failure
        })
    }

    /// Runs something; its failure, and whether the host knows that.
    fn protected<T>(
        &self,
        run: impl FnOnce() -> mlua::Result<Result<T, (Failure, bool)>>,
    ) -> Result<T, (Failure, bool)> {
        self.state.protocol.set(Protocol::Resp2);
        self.state.is_aborted.set(false);
        let outcome = run().unwrap_or_else(|error| Err((self.failure(&error), false)));
        if self.memory_bytes() > self.limits.memory_bytes / 2 {
            // A script that failed for want of memory shall not leave the next one without.
            self.collect();
        }
        match outcome {
            outcome if !self.state.is_aborted.get() => outcome,
            Err((Failure::Error { place, .. }, _)) => Err((Failure::Aborted { place }, false)),
            Err(failure) => Err(failure),
            Ok(_) => Err((Failure::Aborted { place: None }, false)),
        }
    }

    /// The errors that the script which ran last has replied.
    pub fn take_errors(&self) -> Errors {
        self.errors.take()
    }

    fn run_inner<'k>(
        &self,
        program: &Program,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        args: impl Iterator<Item = &'k [u8]> + Clone,
        host: &mut dyn Host,
        reply: &mut Writer<'_>,
    ) -> mlua::Result<Result<(), (Failure, bool)>> {
        let bytes = keys.clone().chain(args.clone()).map(|text| text.len() + 1).sum();
        let guarded = &self.sandbox.guarded;
        let result = match self.purpose {
            Purpose::Scripts => {
                memory::make(&self.lua, bytes, || {
                    self.globals.raw_set("KEYS", self.strings(keys)?)?;
                    self.globals.raw_set("ARGV", self.strings(args)?)
                })?;
                HOST.set(host, || guarded.call(&program.0))?
            }
            Purpose::Functions => {
                let strings = || Ok((self.strings(keys)?, self.strings(args)?));
                let (keys, args) = memory::make(&self.lua, bytes, strings)?;
                HOST.set(host, || guarded.call((&program.0, keys, args)))?
            }
        };
        match self.value_of(result)? {
            Ok(value) => {
                let errors = &mut self.errors.borrow_mut();
                let write = || answer::write(reply, &value, self.state.protocol.get(), errors);
                memory::make(&self.lua, 0, write).map(Ok)
            }
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// The value or the failure that the sandbox has returned; of a failure, whether the host knows it.
    fn value_of(&self, result: MultiValue) -> mlua::Result<Result<Value, (Failure, bool)>> {
        let mut values = result.into_iter();
        let has_run = matches!(values.next(), Some(Value::Boolean(true)));
        let value = values.next().unwrap_or(Value::Nil);
        if has_run {
            return Ok(Ok(value));
        }
        let is_known = value.as_table().is_some_and(|table| answer::is_counted(table).unwrap_or(false));
        Ok(Err((self.failure_of(&value)?, is_known)))
    }

    fn strings<'k>(&self, strings: impl Iterator<Item = &'k [u8]>) -> mlua::Result<Table> {
        self.lua.create_sequence_from(strings.map(Text))
    }

    /// The failure that the sandbox has described by a table.
    fn failure_of(&self, described: &Value) -> mlua::Result<Failure> {
        let Value::Table(table) = described else {
            // There was no memory for the table.
            let text = match described {
                Value::String(text) => text.as_bytes().to_vec(),
                Value::Error(error) => raise::message(error),
                _ => b"unknown error".to_vec(),
            };
            return Ok(Failure::Error { message: [b"ERR ", &text[..]].concat(), place: None });
        };
        let message = api::error_text(table)?.unwrap_or_else(|| b"ERR unknown error".to_vec());
        let (source, line): (Option<String>, Option<usize>) =
            (table.raw_get("source")?, table.raw_get("line")?);
        Ok(Failure::Error { message, place: source.zip(line) })
    }

    fn failure(&self, error: &Error) -> Failure {
        let message = match error {
            Error::SyntaxError { message, .. } => message.clone().into_bytes(),
            error => format!("ERR {error}").into_bytes(),
        };
        Failure::Error { message, place: None }
    }

    /// Bytes of memory that it takes now.
    pub fn memory_bytes(&self) -> usize {
        self.lua.used_memory()
    }

    /// Gives back the memory of what nothing refers to any more.
    pub fn collect(&self) {
        // It fails only in finalizers, which scripts cannot have.
        let _ = self.lua.gc_collect();
    }
}
