//! The functions that a worker has compiled.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tarn_lua::{FunctionFlag, Interpreter, Purpose};

use crate::error::CommandError;
use crate::scripts::known::{Known, Promises};
use crate::scripts::library::{Functions, Libraries, Library};
use crate::scripts::{MEMORY_BYTES, interpreter};

const NOT_FOUND: CommandError = CommandError::text("ERR Function not found");

/// A library that was compiled, with its functions by name.
struct Compiled {
    library: Arc<Library>,
    functions: HashMap<String, Known>,
}

/// The functions that a worker has compiled, and the interpreter that runs them. The locals of a library last
/// as long as it is compiled here.
#[derive(Default)]
pub(crate) struct Shelf {
    interpreter: Option<Interpreter>,
    compiled: HashMap<String, Compiled>,
    /// The functions that have used keys that they do not declare.
    gated: HashSet<String>,
    /// The libraries of the server, as they were at this generation.
    libraries: Arc<Libraries>,
    generation: u64,
}

impl Shelf {
    /// The function of this name, ready to run.
    pub(crate) fn find(
        &mut self,
        functions: &Functions,
        name: &[u8],
    ) -> Result<(&Interpreter, &Known), CommandError> {
        self.catch_up(functions);
        self.give_up_memory();
        let (library, function) = self.libraries.find(name).ok_or(NOT_FOUND)?;
        if !self.compiled.contains_key(&library.name) {
            let interpreter = match &mut self.interpreter {
                Some(interpreter) => interpreter,
                empty => empty.insert(interpreter(Purpose::Functions)?),
            };
            let known = library.register(interpreter)?.into_iter().map(|registered| {
                let promises = Promises {
                    no_writes: registered.flags.contains(&FunctionFlag::NoWrites),
                    allow_oom: registered.flags.contains(&FunctionFlag::AllowOom),
                };
                let known = Known::new(registered.name.clone(), registered.program, Some(promises));
                known.needs_gate.set(self.gated.contains(&registered.name));
                (registered.name, known)
            });
            let functions = known.collect();
            self.compiled.insert(library.name.clone(), Compiled { library: library.clone(), functions });
        }
        let compiled = self.compiled.get(&library.name).expect("the library was compiled");
        // A library may register others each time.
        let known = compiled.functions.get(&function.name).ok_or(NOT_FOUND)?;
        Ok((self.interpreter.as_ref().expect("it has compiled the library"), known))
    }

    /// Notes that a function needs the store for itself, and forgets its library: what the function has
    /// changed of the locals of that shall not be there when it runs again.
    pub(crate) fn note_gated(&mut self, name: &str) {
        self.gated.insert(name.to_owned());
        self.compiled.retain(|_, compiled| !compiled.functions.contains_key(name));
    }

    /// Forgets all if what functions keep takes half of the memory: the next ones would have too little.
    fn give_up_memory(&mut self) {
        if self.interpreter.as_ref().is_some_and(|one| one.memory_bytes() > MEMORY_BYTES / 2) {
            self.compiled.clear();
            self.interpreter = None;
        }
    }

    /// Forgets libraries that are not those of the server any more.
    fn catch_up(&mut self, functions: &Functions) {
        let generation = functions.generation();
        if self.generation == generation {
            return;
        }
        self.generation = generation;
        self.libraries = functions.now();
        self.gated.clear();
        let libraries = &self.libraries;
        let is_current =
            |compiled: &Library| libraries.iter().any(|library| std::ptr::eq(&**library, compiled));
        let before = self.compiled.len();
        self.compiled.retain(|_, compiled| is_current(&compiled.library));
        if self.compiled.len() < before {
            self.interpreter.iter().for_each(Interpreter::collect);
        }
    }
}
