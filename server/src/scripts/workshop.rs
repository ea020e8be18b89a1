//! The interpreters of a worker, and the scripts that it has compiled.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tarn_lua::{Failure, Interpreter, Purpose};

use crate::error::CommandError;
use crate::scripts::known::Known;
use crate::scripts::library::Functions;
use crate::scripts::shelf::Shelf;
use crate::scripts::{Cache, Script, Sha, interpreter, sha_of, text_of};

/// Compiled scripts that a worker keeps, and bytes of their sources: a program may be many times as long.
const PROGRAMS_MAX: usize = 1_000;
const SOURCES_BYTES_MAX: usize = 4 << 20;

/// The error for a SHA1 that no known script has.
pub(crate) const NO_SCRIPT: CommandError =
    CommandError::text("NOSCRIPT No matching script. Please use EVAL.");

/// The interpreters of a worker, and the scripts that it has compiled.
#[derive(Default)]
pub struct Workshop {
    interpreter: Option<Interpreter>,
    programs: HashMap<Sha, Known, RandomState>,
    /// Bytes of the sources of these.
    sources_bytes: usize,
    /// That of the cache when the scripts were compiled.
    generation: u64,
    /// The functions that it has compiled.
    shelf: Shelf,
}

impl fmt::Debug for Workshop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workshop").field("programs", &self.programs.len()).finish_non_exhaustive()
    }
}

impl Workshop {
    /// The script of this source, ready to run.
    pub(crate) fn of_source(
        &mut self,
        cache: &Cache,
        source: &[u8],
    ) -> Result<(&Interpreter, &Known), CommandError> {
        let sha = sha_of(source);
        self.catch_up(cache);
        if !self.programs.contains_key(&sha) {
            let script = match cache.find(&sha) {
                Some(script) => script,
                None => Arc::new(Script::new(source)?),
            };
            self.compile(&script)?;
            cache.note_evaluated(&script);
        }
        self.known(&sha)
    }

    /// The script of this SHA1, ready to run.
    pub(crate) fn of_sha(
        &mut self,
        cache: &Cache,
        sha: &[u8],
    ) -> Result<(&Interpreter, &Known), CommandError> {
        let sha = sha_from(sha).ok_or(NO_SCRIPT)?;
        self.catch_up(cache);
        if !self.programs.contains_key(&sha) {
            let script = cache.find(&sha).ok_or(NO_SCRIPT)?;
            self.compile(&script)?;
        }
        self.known(&sha)
    }

    /// The function of this name, ready to run.
    pub(crate) fn function(
        &mut self,
        functions: &Functions,
        name: &[u8],
    ) -> Result<(&Interpreter, &Known), CommandError> {
        self.shelf.find(functions, name)
    }

    /// Notes that a function needs the store for itself, and forgets what it has done.
    pub(crate) fn note_gated(&mut self, function: &str) {
        self.shelf.note_gated(function);
    }

    /// Compiles a script and keeps it, here and in the cache.
    pub(crate) fn load(&mut self, cache: &Cache, source: &[u8]) -> Result<Arc<Script>, CommandError> {
        self.catch_up(cache);
        let script = Arc::new(Script::new(source)?);
        self.compile(&script)?;
        cache.load(&script);
        Ok(script)
    }

    /// Forgets what the cache has forgotten.
    fn catch_up(&mut self, cache: &Cache) {
        let generation = cache.generation();
        if self.generation != generation {
            self.generation = generation;
            self.forget();
        }
    }

    /// Forgets all programs: those that are used will be compiled again.
    fn forget(&mut self) {
        self.programs.clear();
        self.sources_bytes = 0;
        self.interpreter.iter().for_each(Interpreter::collect);
    }

    fn known(&self, sha: &Sha) -> Result<(&Interpreter, &Known), CommandError> {
        let interpreter = self.interpreter.as_ref().expect("it has compiled the script");
        Ok((interpreter, self.programs.get(sha).expect("the script was compiled")))
    }

    fn compile(&mut self, script: &Arc<Script>) -> Result<(), CommandError> {
        let bytes = script.code().len();
        if self.programs.len() >= PROGRAMS_MAX || self.sources_bytes + bytes > SOURCES_BYTES_MAX {
            self.forget();
        }
        let interpreter = match &mut self.interpreter {
            Some(interpreter) => interpreter,
            empty => empty.insert(interpreter(Purpose::Scripts)?),
        };
        let program =
            interpreter.compile("user_script", script.code()).map_err(|failure| not_compiled(&failure))?;
        let known = Known::new(script.name(), program, script.promises);
        self.programs.insert(script.sha, known);
        self.sources_bytes += bytes;
        Ok(())
    }
}

fn not_compiled(failure: &Failure) -> CommandError {
    let why = text_of(failure);
    CommandError::owned(format!("ERR Error compiling script (new function): {why}"))
}

/// A SHA1 in hexadecimal, in any case.
pub(crate) fn sha_from(text: &[u8]) -> Option<Sha> {
    let mut sha = Sha::default();
    if text.len() != 2 * sha.len() {
        return None;
    }
    let mut seen = 0;
    for (byte, digits) in sha.iter_mut().zip(text.chunks_exact(2)) {
        let (high, low) = (DIGITS[usize::from(digits[0])], DIGITS[usize::from(digits[1])]);
        seen |= high | low;
        *byte = high << 4 | low;
    }
    (seen & NO_DIGIT == 0).then_some(sha)
}

/// In the place of a byte that is no hexadecimal digit.
const NO_DIGIT: u8 = 0x10;
/// The number of each hexadecimal digit: `EVALSHA` reads forty.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut number = 0;
    while number < 16 {
        let digit = if number < 10 { b'0' + number } else { b'a' + number - 10 };
        digits[digit as usize] = number;
        digits[digit.to_ascii_uppercase() as usize] = number;
        number += 1;
    }
    digits
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_in_any_case_are_a_sha_and_nothing_else_is() {
        let text = b"00ffFf0123456789abcdefABCDEF9a00000000Fe";
        let sha = [
            0x00, 0xff, 0xff, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xab, 0xcd, 0xef, 0x9a, 0, 0,
            0, 0, 0xfe,
        ];
        assert_eq!(sha_from(text), Some(sha));
        for at in 0..text.len() {
            for byte in 0..=u8::MAX {
                let mut other = *text;
                other[at] = byte;
                assert_eq!(sha_from(&other).is_some(), byte.is_ascii_hexdigit(), "{byte} at {at}");
            }
        }
        assert_eq!(sha_from(&text[..39]), None);
    }
}
