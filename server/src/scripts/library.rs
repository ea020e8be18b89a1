//! Libraries of functions: what `FUNCTION LOAD` brings and `FCALL` finds.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tarn_engine::declared::{Declared, Turn};
use tarn_lua::{Abort, Failure, FunctionFlag, Host, Interpreter, Purpose, Registered, valid_name};
use tarn_resp::{Args, OwnedArgs, Protocol};

use crate::config::split_args;
use crate::error::{CommandError, printable};
use crate::scripts::{interpreter, log};

/// Looks at the code of a library while it is loaded, each after some ten thousand instructions: about half a
/// second. Not a time, so that what was loaded once is loaded again, however busy the machine is.
const LOOKS_MAX: u32 = 5_000;

/// A function of a library.
#[derive(Debug)]
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// Says for what it is.
    pub(crate) description: Option<Vec<u8>>,
    /// Its promises.
    pub(crate) flags: Vec<FunctionFlag>,
}

/// A library of functions.
#[derive(Debug)]
pub(crate) struct Library {
    /// Its name.
    pub(crate) name: String,
    source: Box<[u8]>,
    /// Where the code begins: at the end of the first line.
    code_at: usize,
    /// Its functions, in the order of their registration.
    pub(crate) functions: Vec<Function>,
}

impl Library {
    /// Reads a library, and runs its code to see which functions it has. That takes an interpreter of its
    /// own, and as long as the code runs, which is limited.
    pub(crate) fn read(source: &[u8]) -> Result<Library, CommandError> {
        let (name, code_at) = metadata(source)?;
        let mut library = Library { name, source: source.into(), code_at, functions: Vec::new() };
        let interpreter = interpreter(Purpose::Functions)?;
        let functions = library.register(&interpreter)?;
        library.functions = functions
            .into_iter()
            .map(|Registered { name, description, flags, .. }| Function { name, description, flags })
            .collect();
        Ok(library)
    }

    /// The whole source.
    pub(crate) fn source(&self) -> &[u8] {
        &self.source
    }

    /// Has an interpreter run the code; the functions, ready to run.
    pub(crate) fn register(&self, interpreter: &Interpreter) -> Result<Vec<Registered>, CommandError> {
        let compiled = interpreter.compile("user_function", &self.source[self.code_at..]);
        let program = compiled.map_err(|failure| {
            CommandError::owned(format!("ERR Error compiling function: {}", text_of(&failure)))
        })?;
        let registered = interpreter.register(&program, &mut Loading { looks: 0 });
        let registered = registered.map_err(|failure| not_loaded(&failure))?;
        if registered.is_empty() {
            return Err(CommandError::text("ERR No functions registered"));
        }
        Ok(registered)
    }
}

fn not_loaded(failure: &Failure) -> CommandError {
    CommandError::owned(format!("ERR Error registering functions: {}", text_of(failure)))
}

fn text_of(failure: &Failure) -> String {
    match failure {
        Failure::Aborted { .. } => "ERR FUNCTION LOAD timeout".to_owned(),
        Failure::Error { message, .. } => String::from_utf8_lossy(message).replace(['\r', '\n'], " "),
    }
}

/// The name of a library, and where its code begins, by its first line: `#!lua name=…`.
fn metadata(source: &[u8]) -> Result<(String, usize), CommandError> {
    const INVALID: CommandError = CommandError::text("ERR Invalid library metadata");
    if !source.starts_with(b"#!") {
        return Err(CommandError::text("ERR Missing library metadata"));
    }
    let end = source.iter().position(|byte| *byte == b'\n').ok_or(INVALID)?;
    let words = split_args(&source[..end]).ok_or(INVALID)?;
    let (first, words) = words.split_first().ok_or(INVALID)?;
    let engine = first.strip_prefix(b"#!").ok_or(INVALID)?;
    let mut name = None;
    for word in words {
        let Some((_, value)) = word.split_at_checked(5).filter(|(key, _)| key.eq_ignore_ascii_case(b"name="))
        else {
            let word = printable(word);
            return Err(CommandError::owned(format!("ERR Invalid metadata value given: {word}")));
        };
        if name.replace(value).is_some() {
            return Err(CommandError::text(
                "ERR Invalid metadata value, name argument was given multiple times",
            ));
        }
    }
    let name = name.ok_or_else(|| CommandError::text("ERR Library name was not given"))?;
    let name = valid_name(name).ok_or_else(|| {
        CommandError::text(
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one \
             character long",
        )
    })?;
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(CommandError::owned(format!("ERR Engine '{}' not found", printable(engine))));
    }
    Ok((name, end))
}

/// The host of a library that is being loaded: there are no commands.
struct Loading {
    looks: u32,
}

impl Host for Loading {
    fn call(&mut self, _: OwnedArgs, _: Protocol, _: &mut Vec<u8>) -> Result<(), Abort> {
        Err(Abort)
    }

    fn log(&mut self, level: u8, message: &[u8]) {
        log(level, message);
    }

    fn allows(&mut self, _: Args<'_>) -> Option<bool> {
        None
    }

    fn look(&mut self) -> Result<(), Abort> {
        self.looks += 1;
        if self.looks > LOOKS_MAX { Err(Abort) } else { Ok(()) }
    }
}

/// Some libraries, no two of which share the name of a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Libraries {
    by_name: BTreeMap<String, Arc<Library>>,
    /// By the names of functions in lower case: these are found in any case.
    by_function: HashMap<String, Arc<Library>>,
}

impl Libraries {
    /// All of them, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// Their number, and that of their functions.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.by_name.len(), self.iter().map(|library| library.functions.len()).sum())
    }

    /// Bytes of their sources.
    pub(crate) fn bytes(&self) -> usize {
        self.iter().map(|library| library.source.len()).sum()
    }

    /// The library that has a function, and the function.
    pub(crate) fn find(&self, function: &[u8]) -> Option<(&Arc<Library>, &Function)> {
        let function = std::str::from_utf8(function).ok()?.to_ascii_lowercase();
        let library = self.by_function.get(&function)?;
        let is_it = |one: &&Function| one.name.eq_ignore_ascii_case(&function);
        Some((library, library.functions.iter().find(is_it)?))
    }

    /// Adds a library, in place of one of its name if `replaces`.
    pub(crate) fn add(&mut self, library: Arc<Library>, replaces: bool) -> Result<(), CommandError> {
        let name = &library.name;
        if !replaces && self.by_name.contains_key(name) {
            return Err(CommandError::owned(format!("ERR Library '{name}' already exists")));
        }
        let is_taken = |function: &&Function| {
            let other = self.by_function.get(&function.name.to_ascii_lowercase());
            other.is_some_and(|other| other.name != *name)
        };
        if let Some(function) = library.functions.iter().find(is_taken) {
            return Err(CommandError::owned(format!("ERR Function {} already exists", function.name)));
        }
        self.remove(&name.clone());
        for function in &library.functions {
            self.by_function.insert(function.name.to_ascii_lowercase(), library.clone());
        }
        self.by_name.insert(name.clone(), library);
        Ok(())
    }

    /// Removes a library; `false` if there is none of this name.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        if self.by_name.remove(name).is_none() {
            return false;
        }
        self.by_function.retain(|_, library| library.name != name);
        true
    }

    /// Adds libraries, all or none.
    pub(crate) fn restore(&mut self, libraries: &[Arc<Library>], replaces: bool) -> Result<(), CommandError> {
        let mut all = self.clone();
        if let Some(one) =
            libraries.iter().find(|library| !replaces && all.by_name.contains_key(&library.name))
        {
            return Err(CommandError::owned(format!("ERR Library {} already exists", one.name)));
        }
        if replaces {
            for library in libraries {
                all.remove(&library.name);
            }
        }
        libraries.iter().try_for_each(|library| all.add(library.clone(), false))?;
        *self = all;
        Ok(())
    }
}

/// The libraries of a server.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    libraries: Declared<Libraries>,
    /// Goes up with each change.
    generation: AtomicU64,
}

impl Functions {
    /// Goes up with each change.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The libraries as they are now.
    pub(crate) fn now(&self) -> Arc<Libraries> {
        self.libraries.now()
    }

    /// Waits until nobody else changes them. REQUIRES: the caller is not inside the gate.
    pub(crate) fn turn(&self) -> Turn<'_, Libraries> {
        self.libraries.turn()
    }

    /// Shows these to everybody from now on.
    pub(crate) fn publish(&self, turn: &Turn<'_, Libraries>, libraries: Libraries) {
        turn.publish(libraries);
        self.generation.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn library(name: &str, functions: &[&str]) -> Arc<Library> {
        let register = |name: &&str| format!("redis.register_function('{name}', function() end)\n");
        let source = format!("#!lua name={name}\n{}", functions.iter().map(register).collect::<String>());
        Arc::new(Library::read(source.as_bytes()).unwrap())
    }

    #[test]
    fn functions_are_found_in_any_case_and_belong_to_one_library() {
        let mut all = Libraries::default();
        all.add(library("a", &["f", "G"]), false).unwrap();
        assert_eq!(all.find(b"F").unwrap().1.name, "f");
        assert_eq!(all.find(b"g").unwrap().1.name, "G");
        assert!(all.find(b"h").is_none() && all.find(b"\xff").is_none());
        let refused = all.add(library("b", &["h", "g"]), false).unwrap_err();
        assert_eq!(refused.to_string(), "ERR Function g already exists");
        let refused = all.add(library("a", &["h"]), false).unwrap_err();
        assert_eq!(refused.to_string(), "ERR Library 'a' already exists");
        all.add(library("a", &["h"]), true).unwrap();
        assert!(all.find(b"f").is_none() && all.find(b"h").is_some());
        assert_eq!(all.count(), (1, 1));
        assert!(all.remove("a") && !all.remove("a") && all.find(b"h").is_none());
    }

    #[test]
    fn libraries_are_restored_all_or_none() {
        let mut all = Libraries::default();
        all.add(library("a", &["f"]), false).unwrap();
        let brought = [library("b", &["g"]), library("a", &["h"])];
        assert_eq!(all.restore(&brought, false).unwrap_err().to_string(), "ERR Library a already exists");
        assert_eq!(all.count(), (1, 1));
        // A function may move from one to the other.
        let brought = [library("b", &["f"]), library("a", &["g"])];
        all.restore(&brought, true).unwrap();
        assert_eq!(all.find(b"f").unwrap().0.name, "b");
        let clash = [library("c", &["x"]), library("d", &["g"])];
        assert!(all.restore(&clash, true).is_err());
        assert_eq!(all.count(), (2, 2));
    }

    #[test]
    fn a_library_that_runs_for_long_is_not_loaded() {
        let endless = Library::read(b"#!lua name=a\nwhile true do end").unwrap_err();
        assert_eq!(endless.to_string(), "ERR Error registering functions: ERR FUNCTION LOAD timeout");
    }
}
