//! The sources of scripts by their SHA1.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha1_smol::Sha1;
use tarn_engine::lock::{Mutex, rank};

use crate::error::{CommandError, printable};
use crate::scripts::known::Promises;

/// The SHA1 of a source.
pub(crate) type Sha = [u8; 20];

/// Scripts that `EVAL` has run are forgotten when there are more; those of `SCRIPT LOAD` are not.
const EVALUATED_MAX: usize = 500;

/// The SHA1 of a source.
pub(crate) fn sha_of(source: &[u8]) -> Sha {
    Sha1::from(source).digest().bytes()
}

/// A script.
#[derive(Debug)]
pub(crate) struct Script {
    /// The SHA1 of its source.
    pub(crate) sha: Sha,
    /// Its source.
    source: Box<[u8]>,
    /// Where the code begins: behind the name of the engine and the flags, at the end of that line.
    code_at: usize,
    /// The promises of its first line, if that is one for flags.
    pub(crate) promises: Option<Promises>,
}

impl Script {
    /// A script of this source; it may name its engine and flags in its first line: `#!lua flags=…`.
    pub(crate) fn new(source: &[u8]) -> Result<Script, CommandError> {
        let mut script = Script { sha: sha_of(source), source: source.into(), code_at: 0, promises: None };
        if source.starts_with(b"#!") {
            script.code_at = source
                .iter()
                .position(|byte| *byte == b'\n')
                .ok_or_else(|| CommandError::text("ERR Invalid script shebang"))?;
            script.promises = Some(promises(&source[..script.code_at])?);
        }
        Ok(script)
    }

    /// The whole source.
    pub(crate) fn source(&self) -> &[u8] {
        &self.source
    }

    /// The code.
    pub(crate) fn code(&self) -> &[u8] {
        &self.source[self.code_at..]
    }

    /// The SHA1 in hexadecimal.
    pub(crate) fn name(&self) -> String {
        hex(&self.sha)
    }
}

pub(crate) fn hex(sha: &Sha) -> String {
    sha.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a script of this source promises not to write.
pub(crate) fn promises_no_writes(source: &[u8]) -> bool {
    let line = source.split(|byte| *byte == b'\n').next().unwrap_or_default();
    source.starts_with(b"#!") && promises(line).is_ok_and(|promises| promises.no_writes)
}

/// The promises in the first line of a script.
fn promises(line: &[u8]) -> Result<Promises, CommandError> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    if engine != b"#!lua" {
        return Err(CommandError::owned(format!(
            "ERR Unexpected engine in script shebang: {}",
            printable(engine)
        )));
    }
    let mut promises = Promises::default();
    for word in words {
        let Some(flags) = word.strip_prefix(b"flags=") else {
            return Err(CommandError::owned(format!("ERR Unknown lua shebang option: {}", printable(word))));
        };
        for flag in flags.split(|byte| *byte == b',').filter(|_| !flags.is_empty()) {
            match flag {
                b"no-writes" => promises.no_writes = true,
                b"allow-oom" => promises.allow_oom = true,
                // Nothing here depends on these.
                b"allow-stale" | b"no-cluster" | b"allow-cross-slot-keys" => {}
                _ => {
                    let flag = printable(flag);
                    return Err(CommandError::owned(format!(
                        "ERR Unexpected flag in script shebang: {flag}"
                    )));
                }
            }
        }
    }
    Ok(promises)
}

#[derive(Debug, Default)]
struct Sources {
    by_sha: HashMap<Sha, Arc<Script>>,
    /// Those that `EVAL` alone has brought, the oldest first.
    evaluated: VecDeque<Sha>,
    bytes: usize,
}

impl Sources {
    fn add(&mut self, script: &Arc<Script>) {
        if self.by_sha.insert(script.sha, script.clone()).is_none() {
            self.bytes += script.source.len();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(sha) = self.evaluated.pop_front()
            && let Some(script) = self.by_sha.remove(&sha)
        {
            self.bytes -= script.source.len();
        }
    }
}

/// The known scripts.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    sources: Mutex<Sources, rank::Leaf>,
    /// Goes up when all scripts are forgotten.
    generation: AtomicU64,
}

impl Cache {
    /// Goes up when all scripts are forgotten.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The script of this SHA1.
    pub(crate) fn find(&self, sha: &Sha) -> Option<Arc<Script>> {
        self.sources.lock().by_sha.get(sha).cloned()
    }

    /// Keeps a script until all are forgotten.
    pub(crate) fn load(&self, script: &Arc<Script>) {
        let mut sources = self.sources.lock();
        sources.add(script);
        sources.evaluated.retain(|sha| *sha != script.sha);
    }

    /// Keeps a script that `EVAL` runs, for some time.
    pub(crate) fn note_evaluated(&self, script: &Arc<Script>) {
        let mut sources = self.sources.lock();
        if sources.by_sha.contains_key(&script.sha) {
            return;
        }
        sources.add(script);
        sources.evaluated.push_back(script.sha);
        if sources.evaluated.len() > EVALUATED_MAX {
            sources.forget_oldest();
        }
    }

    /// Forgets all scripts.
    pub(crate) fn flush(&self) {
        let mut sources = self.sources.lock();
        *sources = Sources::default();
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// How many there are, and the bytes of their sources.
    pub(crate) fn size(&self) -> (usize, usize) {
        let sources = self.sources.lock();
        (sources.by_sha.len(), sources.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_eval_are_forgotten_in_the_end_and_loaded_ones_are_not() {
        let cache = Cache::default();
        let script =
            |number: usize| Arc::new(Script::new(format!("return {number}").as_bytes()).expect("no shebang"));
        cache.note_evaluated(&script(0));
        cache.note_evaluated(&script(1));
        cache.load(&script(1));
        for number in 2..=EVALUATED_MAX + 1 {
            cache.note_evaluated(&script(number));
        }
        assert!(cache.find(&script(0).sha).is_none());
        assert!(cache.find(&script(1).sha).is_some() && cache.find(&script(2).sha).is_some());
        let (scripts, bytes) = cache.size();
        assert_eq!(scripts, EVALUATED_MAX + 1);
        assert_eq!(
            bytes,
            (1..=EVALUATED_MAX + 1).map(|number| format!("return {number}").len()).sum::<usize>()
        );
        cache.flush();
        assert_eq!(cache.size(), (0, 0));
    }
}
