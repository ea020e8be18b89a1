//! The configuration in force, shared by all threads: `CONFIG GET`, `CONFIG SET`, and cheap reading.
//!
//! A configuration in force is never changed: a `CONFIG SET` publishes a new one and raises the generation.
//!
//! ```text
//! set:     lock `writer`, copy, change, apply    publish the Arc    generation + 1 (release)
//! reader:  generation (acquire) unchanged? the Arc it holds : take the new Arc
//! ```
//!
//! So a reader that has seen a generation sees the configuration of that generation or a newer one, at the
//! price of one atomic load.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tarn_engine::lock::{Mutex, RwLock, rank};

use super::directive::Directive;
use super::directives::{directives, find_directive};
use super::error::{RewriteError, SetError, ValueError};
use super::kinds::Phase;
use super::rewrite::rewrite_file;
use super::settings::Config;
use crate::glob;

/// The configuration in force.
#[derive(Debug)]
pub struct ConfigStore {
    current: RwLock<Arc<Config>>,
    generation: AtomicU64,
    /// Held while a change is prepared and applied: one at a time.
    writer: Mutex<(), rank::Configuration>,
    /// Held while the file is written.
    rewriting: Mutex<(), rank::Configuration>,
    /// Whether users are others than those of the file.
    has_other_users: AtomicBool,
    file: Option<PathBuf>,
}

/// The changes of a `CONFIG SET`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedDirective {
    /// The directive.
    pub name: &'static str,
    /// A line for the log, if the change has no effect although it is accepted.
    pub warning: Option<String>,
}

impl ConfigStore {
    /// Puts a configuration into force. `file` is where it came from, absolute, if from a file.
    pub fn new(config: Config, file: Option<PathBuf>) -> Self {
        let current = RwLock::new(Arc::new(config));
        Self {
            current,
            generation: AtomicU64::new(0),
            writer: Mutex::new(()),
            rewriting: Mutex::new(()),
            has_other_users: AtomicBool::new(false),
            file,
        }
    }

    /// The configuration in force now.
    pub fn snapshot(&self) -> Arc<Config> {
        self.current.read().clone()
    }

    /// A view of the configuration that follows its changes, for one thread.
    pub fn reader(self: &Arc<Self>) -> ConfigReader {
        let seen = self.generation.load(Ordering::Acquire);
        ConfigReader { store: self.clone(), seen, config: self.snapshot() }
    }

    /// The file that [`rewrite`](Self::rewrite) writes.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The names and values of the directives that match any of the patterns, each name once. A pattern
    /// without wildcards is a name, and comes back as it was written.
    pub fn get<P: AsRef<[u8]>>(&self, patterns: &[P]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let config = self.snapshot();
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut add = |name: &[u8], directive: &Directive| {
            if !found.iter().any(|(seen, _)| seen.eq_ignore_ascii_case(name)) {
                found.push((name.to_vec(), directive.print(&config)));
            }
        };
        for pattern in patterns.iter().map(AsRef::as_ref) {
            if !pattern.iter().any(|b| b"*?[".contains(b)) {
                if let Some(directive) = find_directive(pattern) {
                    add(pattern, directive);
                }
                continue;
            }
            for directive in directives() {
                for name in [Some(directive.name), directive.alias].into_iter().flatten() {
                    if glob::matches_ignoring_case(pattern, name.as_bytes()) {
                        add(name.as_bytes(), directive);
                    }
                }
            }
        }
        found
    }

    /// Sets several directives or, on an error, none. The caller brings into force what needs more than a new
    /// value.
    pub fn set<T: AsRef<[u8]>>(&self, pairs: &[(T, T)]) -> Result<Vec<ChangedDirective>, SetError> {
        self.set_and_apply(pairs, |_, _| Ok(()))
    }

    /// Like [`set`](Self::set), but calls `apply` with the old and the new configuration before anybody else
    /// sees the new one; if it fails with the name of a directive and the reason, nothing is changed.
    pub fn set_and_apply<T: AsRef<[u8]>>(
        &self,
        pairs: &[(T, T)],
        apply: impl FnOnce(&Config, &Config) -> Result<(), (&'static str, String)>,
    ) -> Result<Vec<ChangedDirective>, SetError> {
        let _alone = self.writer.lock();
        let old = self.snapshot();
        let rows = settable(pairs)?;
        let new = with(&old, &rows, pairs)?;
        apply(&old, &new).map_err(|(name, reason)| {
            let typed = pairs.iter().zip(&rows).find(|(_, row)| row.name == name);
            let name = typed.map_or_else(|| name.to_owned(), |((name, _), _)| shown(name.as_ref()));
            SetError::Value { name, reason: ValueError::Apply(reason) }
        })?;
        let is_changed = |row: &&&Directive| row.load(&old) != row.load(&new);
        let changed = rows.iter().filter(is_changed);
        let changed =
            changed.map(|row| ChangedDirective { name: row.name, warning: row.warning(&new) }).collect();
        *self.current.write() = Arc::new(new);
        self.generation.fetch_add(1, Ordering::Release);
        Ok(changed)
    }

    /// The configuration in force, and the one that [`set`](Self::set) would make of it.
    pub fn changed_by<T: AsRef<[u8]>>(&self, pairs: &[(T, T)]) -> Result<(Arc<Config>, Config), SetError> {
        let old = self.snapshot();
        let new = with(&old, &settable(pairs)?, pairs)?;
        Ok((old, new))
    }

    /// Calls `apply` with the configuration in force while nobody changes it, so that it can let changes
    /// reach something new: one that began before is seen, one that begins later finds the new thing there.
    pub fn apply_current<T>(&self, apply: impl FnOnce(&Config) -> T) -> T {
        let _alone = self.writer.lock();
        apply(&self.snapshot())
    }

    /// Notes that the users in force are not those of the file any more: they replace them there.
    pub fn note_users(&self) {
        self.has_other_users.store(true, Ordering::Release);
    }

    /// Whether that was noted.
    pub fn has_noted_users(&self) -> bool {
        // Pairs with the release in `note_users`: the users have changed before.
        self.has_other_users.load(Ordering::Acquire)
    }

    /// Writes the configuration in force into the file it came from. The file's comments and order stay,
    /// lines change in place, new ones come last; a crash leaves the old file or the new one. `users`: the
    /// lines that make all users, which are asked for where those of the file are not to stay. `check`: why
    /// the server would not start with the configuration, as far as this module cannot tell.
    pub fn rewrite(
        &self,
        users: impl FnOnce() -> Vec<Vec<u8>>,
        check: impl FnOnce(&Config) -> Result<(), String>,
    ) -> Result<(), RewriteError> {
        // Not the lock of those who set directives, who are inside the gate.
        let _alone = self.rewriting.lock();
        let path = self.file.as_deref().ok_or(RewriteError::NoFile)?;
        let users = self.has_noted_users().then(users);
        let config = self.snapshot();
        check(&config).map_err(RewriteError::Users)?;
        rewrite_file(path, &config, users.as_deref())
    }
}

/// One thread's view of the configuration.
#[derive(Debug, Clone)]
pub struct ConfigReader {
    store: Arc<ConfigStore>,
    seen: u64,
    config: Arc<Config>,
}

impl ConfigReader {
    /// The configuration in force: one atomic load unless it changed.
    pub fn current(&mut self) -> &Arc<Config> {
        // Pairs with the release in `set_and_apply`.
        let generation = self.store.generation.load(Ordering::Acquire);
        if generation != self.seen {
            self.seen = generation;
            self.config = self.store.snapshot();
        }
        &self.config
    }
}

/// The rows of the directives that a `CONFIG SET` names, if all may be set.
fn settable<T: AsRef<[u8]>>(pairs: &[(T, T)]) -> Result<Vec<&'static Directive>, SetError> {
    let mut rows: Vec<&'static Directive> = Vec::new();
    for (i, (name, _)) in pairs.iter().enumerate() {
        let name = name.as_ref();
        let Some(row) = find_directive(name) else { return Err(SetError::Unknown { name: shown(name) }) };
        if row.protected {
            return Err(SetError::Protected { name: shown(name) });
        }
        if !row.run_time {
            return Err(SetError::Immutable { name: shown(name) });
        }
        if pairs[..i].iter().any(|(before, _)| before.as_ref().eq_ignore_ascii_case(name)) {
            return Err(SetError::Duplicate { name: shown(name) });
        }
        rows.push(row);
    }
    Ok(rows)
}

/// A configuration with these values for these rows.
fn with<T: AsRef<[u8]>>(
    old: &Config,
    rows: &[&'static Directive],
    pairs: &[(T, T)],
) -> Result<Config, SetError> {
    let mut new = old.clone();
    for (row, (name, text)) in rows.iter().zip(pairs) {
        let value = row.shape.read_text(text.as_ref());
        let stored = value.and_then(|value| row.store(&mut new, value, Phase::RunTime));
        stored.map_err(|reason| SetError::Value { name: shown(name.as_ref()), reason })?;
    }
    new.settle();
    Ok(new)
}

fn shown(name: &[u8]) -> String {
    crate::error::printable(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{AppendFsync, ClientClass};
    use super::*;

    fn store() -> Arc<ConfigStore> {
        Arc::new(ConfigStore::new(Config::default(), None))
    }

    #[test]
    fn what_is_applied_meets_no_change_half_way() {
        let store = store();
        let (sender, seen) = std::sync::mpsc::channel();
        let mut latecomer = None;
        let set = store.set_and_apply(&[("hz", "77")], |_, _| {
            // What the change should reach comes to be there when it has been looked for.
            let store = store.clone();
            latecomer = Some(std::thread::spawn(move || {
                store.apply_current(|config| sender.send(config.hz).unwrap());
            }));
            // Long enough for one that does not wait; one that waits needs no time.
            let early = seen.recv_timeout(std::time::Duration::from_millis(200));
            assert!(early.is_err(), "hz is {early:?} for the latecomer, and stays so");
            Ok(())
        });
        set.unwrap();
        assert_eq!(seen.recv().unwrap(), 77);
        latecomer.unwrap().join().unwrap();
    }

    fn refusal(pairs: &[(&str, &str)]) -> String {
        store().set(pairs).unwrap_err().to_string()
    }

    fn get(store: &ConfigStore, pattern: &str) -> Vec<(String, String)> {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        store.get(&[pattern]).into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn several_directives_change_together_and_readers_see_it() {
        let store = store();
        let mut reader = store.reader();
        assert_eq!(reader.current().timeout_s, 0);
        let changed = store.set(&[("TIMEOUT", "5"), ("hz", "10"), ("appendfsync", "ALWAYS")]).unwrap();
        let names: Vec<_> = changed.iter().map(|change| change.name).collect();
        assert_eq!(names, ["timeout", "appendfsync"]);
        assert_eq!((reader.current().timeout_s, reader.current().appendfsync), (5, AppendFsync::Always));
    }

    #[test]
    fn one_bad_directive_keeps_all_as_they_were() {
        let store = store();
        let before = store.snapshot();
        store.set(&[("timeout", "5"), ("hz", "many")]).unwrap_err();
        let failing = |_: &Config, _: &Config| Err(("timeout", "the moon is full".to_owned()));
        let error = store.set_and_apply(&[("TimeOut", "5")], failing).unwrap_err();
        assert_eq!(
            error.to_string(),
            "CONFIG SET failed (possibly related to argument 'TimeOut') - the moon is full"
        );
        assert_eq!(store.snapshot(), before);
    }

    #[test]
    fn mistakes_are_answered_in_the_words_of_redis() {
        let failed = |name: &str, reason: &str| {
            format!("CONFIG SET failed (possibly related to argument '{name}') - {reason}")
        };
        let unknown = "Unknown option or number of arguments for CONFIG SET - 'foo'";
        assert_eq!(refusal(&[("foo", "1")]), unknown);
        assert_eq!(refusal(&[("hz", "x"), ("foo", "1")]), unknown);
        let cases = [
            ("databases", "3", "can't set immutable config"),
            ("dir", "/tmp", "can't set protected config"),
            ("appendfsync", "x", "argument(s) must be one of the following: everysec, always, no"),
            ("loglevel", "x", "argument(s) must be one of the following: debug, verbose, notice, warning"),
            ("protected-mode", "1", "argument must be 'yes' or 'no'"),
            ("timeout", "-1", "argument must be between 0 and 2147483647 inclusive"),
            ("timeout", "05", "argument couldn't be parsed into an integer"),
            ("maxclients", "0", "argument must be between 1 and 4294967295 inclusive"),
            ("proto-max-bulk-len", "1gib", "argument must be a memory value"),
            ("save", "60", "Invalid save parameters"),
            ("save", "60 1  30 1", "Invalid save parameters"),
            ("save", "0 1", "Invalid save parameters"),
            (
                "client-output-buffer-limit",
                "foo 1 2 3",
                "Invalid client class specified in buffer limit configuration.",
            ),
            (
                "client-output-buffer-limit",
                "normal 1 2",
                "Wrong number of arguments in buffer limit configuration.",
            ),
            (
                "client-output-buffer-limit",
                "normal 1xb 2 3",
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
            ),
        ];
        for (name, value, reason) in cases {
            assert_eq!(refusal(&[(name, value)]), failed(name, reason), "{name} {value}");
        }
        assert_eq!(refusal(&[("hz", "1"), ("HZ", "2")]), failed("HZ", "duplicate parameter"));
    }

    #[test]
    fn names_come_as_asked_for_and_patterns_bring_aliases_once() {
        let store = store();
        assert_eq!(get(&store, "PoRT"), [("PoRT".to_owned(), "6379".to_owned())]);
        let zset = get(&store, "ZSET-max-*-value");
        assert_eq!(zset.len(), 2);
        assert!(zset.iter().all(|(_, value)| value == "64"));
        assert_eq!(store.get(&["hz", "h?", "hz"]).len(), 1);
        assert!(store.get(&["no-such-thing"]).is_empty());
    }

    #[test]
    fn former_words_of_the_checkpoint_mode_are_taken_and_shown_as_the_new_ones() {
        let store = store();
        for (word, mode) in [
            ("piggyback", "full"),
            ("HourGlass", "incremental"),
            ("FORK", "fork"),
            ("Full", "full"),
            ("INCREMENTAL", "incremental"),
        ] {
            for name in ["checkpoint-mode", "snapshot-algorithm"] {
                store.set(&[(name, word)]).unwrap();
                for asked in ["checkpoint-mode", "Snapshot-Algorithm"] {
                    let shown = get(&store, asked);
                    assert_eq!(shown, [(asked.to_owned(), mode.to_owned())], "{name} {word}");
                }
            }
        }
        let reason = "argument(s) must be one of the following: full, incremental, fork";
        assert!(refusal(&[("checkpoint-mode", "naive")]).ends_with(reason));
    }

    #[test]
    fn values_are_shown_as_redis_shows_them() {
        let store = store();
        let pairs = [
            ("client-query-buffer-limit", "1gb"),
            ("save", "900 1 30 5"),
            ("client-output-buffer-limit", "normal 1mb 2 3 replica 4k 5 6"),
            ("latency-tracking-info-percentiles", "50 99.90 100"),
        ];
        store.set(&pairs).unwrap();
        let shown = |name: &str| get(&store, name).remove(0).1;
        assert_eq!(shown("client-query-buffer-limit"), "1073741824");
        assert_eq!(shown("save"), "900 1 30 5");
        let limits = "normal 1048576 2 3 slave 4000 5 6 pubsub 33554432 8388608 60";
        assert_eq!(shown("client-output-buffer-limit"), limits);
        assert_eq!(shown("latency-tracking-info-percentiles"), "50 99.9 100");
        store.set(&[("save", "")]).unwrap();
        assert_eq!(shown("save"), "");
        assert_eq!(store.snapshot().client_output_buffer_limit.of(ClientClass::Normal).soft_s, 3);
    }

    #[test]
    fn a_change_without_effect_is_told() {
        let changed = store().set(&[("activerehashing", "no")]).unwrap();
        assert_eq!(changed.len(), 1);
        assert!(changed[0].warning.as_ref().unwrap().contains("tables grow in small steps"));
        assert!(refusal(&[("import-mode", "yes")]).contains("keys expire always"));
        store().set(&[("import-mode", "no")]).unwrap();
    }

    #[test]
    fn the_memory_of_clients_is_a_number_of_bytes_or_a_share() {
        let store = store();
        let shown = || get(&store, "maxmemory-clients").remove(0).1;
        let cases = [
            ("1mb", "1048576", 1 << 20),
            ("5%", "5%", 50),
            ("0", "0", 0),
            ("100%", "100%", 1000),
            ("0%", "0", 0),
        ];
        for (said, is_shown, bytes) in cases {
            store.set(&[("maxmemory-clients", said)]).unwrap();
            let share = store.snapshot().memory.maxmemory_clients;
            assert_eq!((shown(), share.of(1000)), (is_shown.to_owned(), bytes));
        }
        for too_much in ["101%", "9223372036854775808"] {
            let refusal = refusal(&[("maxmemory-clients", too_much)]);
            assert!(refusal.contains("percentage argument must be less or equal to 100"), "{refusal}");
        }
    }

    #[test]
    fn without_a_file_there_is_nothing_to_rewrite() {
        let error = store().rewrite(Vec::new, |_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "The server is running without a config file");
    }
}
