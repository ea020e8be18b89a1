//! The slow log: the last commands that took longer than `slowlog-log-slower-than`. And logs of the same
//! form, of large requests and of those with large replies.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use tarn_engine::lock::Mutex;
use tarn_resp::Args;

use crate::config::find_directive;
use crate::net::address::Address;

/// Arguments of a command that an entry keeps at most.
const ARGS_MAX: usize = 32;
/// Bytes of an argument that an entry keeps at most.
const ARG_BYTES_MAX: usize = 128;

/// The text in place of a password.
const REDACTED: &[u8] = b"(redacted)";

/// One command that is noted.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Rises with each entry since the start.
    pub id: u64,
    /// When it ran, in seconds since 1970.
    pub unix_s: u64,
    /// How long it ran, in microseconds; its bytes in the other logs.
    pub amount: u64,
    /// Its arguments, shortened.
    pub args: Vec<Vec<u8>>,
    /// Whose it was.
    pub addr: Address,
    /// The client's name.
    pub name: String,
}

/// The slow log.
#[derive(Debug, Default)]
pub struct SlowLog {
    entries: Mutex<(u64, VecDeque<Entry>)>,
    len_max: AtomicUsize,
}

impl SlowLog {
    /// Keeps at most `len` entries from now on.
    pub fn set_len_max(&self, len: usize) {
        self.len_max.store(len, Ordering::Relaxed);
        self.entries.lock().1.truncate(len);
    }

    /// Adds a command, of this full name: the first of its arguments may be another that it was given.
    pub fn push(
        &self,
        command: &str,
        args: Args<'_>,
        unix_s: u64,
        amount: u64,
        (addr, name): (Address, String),
    ) {
        let len_max = self.len_max.load(Ordering::Relaxed);
        if len_max == 0 {
            return;
        }
        let args = shorten(command, args);
        let mut entries = self.entries.lock();
        let id = entries.0;
        entries.0 += 1;
        entries.1.truncate(len_max - 1);
        entries.1.push_front(Entry { id, unix_s, amount, args, addr, name });
    }

    /// The newest `count` entries, newest first.
    pub fn newest(&self, count: usize) -> Vec<Entry> {
        self.entries.lock().1.iter().take(count).cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.lock().1.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.entries.lock().1.clear();
    }
}

fn shorten(command: &str, args: Args<'_>) -> Vec<Vec<u8>> {
    let kept = if args.len() > ARGS_MAX { ARGS_MAX - 1 } else { args.len() };
    let shown = |i| if is_secret(command, args, i) { REDACTED.to_vec() } else { shorten_word(args.at(i)) };
    let mut words: Vec<Vec<u8>> = (0..kept).map(shown).collect();
    if kept < args.len() {
        words.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    words
}

/// Whether an argument of a command of this full name is a password, which nobody may read here.
pub(crate) fn is_secret(command: &str, args: Args<'_>, i: usize) -> bool {
    let is = |at: usize, word: &[u8]| args.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word));
    match command {
        "auth" => i >= 1,
        "hello" => i >= 3 && (is(i - 1, b"auth") || is(i - 2, b"auth")),
        "migrate" => i >= 7 && (is(i - 1, b"auth") || is(i - 1, b"auth2") || is(i - 2, b"auth2")),
        // Names of users, too.
        "acl|setuser" | "acl|deluser" | "acl|getuser" => i >= 2,
        "config|set" if i >= 3 && !i.is_multiple_of(2) => {
            find_directive(args.at(i - 1)).is_some_and(|directive| directive.sensitive)
        }
        _ => false,
    }
}

fn shorten_word(word: &[u8]) -> Vec<u8> {
    if word.len() <= ARG_BYTES_MAX {
        return word.to_vec();
    }
    let more = word.len() - ARG_BYTES_MAX;
    [&word[..ARG_BYTES_MAX], format!("... ({more} more bytes)").as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tarn_resp::OwnedArgs;

    #[test]
    fn long_commands_are_kept_short() {
        let mut args = OwnedArgs::new();
        for _ in 0..40 {
            args.push(&[b'x'; 200]);
        }
        let words = shorten("get", args.as_args());
        assert_eq!(words.len(), 32);
        assert!(words[0].ends_with(b"... (72 more bytes)"));
        assert_eq!(words[31], b"... (9 more arguments)");
    }

    #[test]
    fn rules_and_names_of_users_are_secrets() {
        for command in ["setuser", "deluser", "getuser"] {
            let args: OwnedArgs = ["acl", command, "alice"].into_iter().collect();
            let secret: Vec<bool> =
                (0..3).map(|i| is_secret(&format!("acl|{command}"), args.as_args(), i)).collect();
            assert_eq!(secret, [false, false, true], "{command}");
        }
    }

    #[test]
    fn only_the_newest_entries_are_kept() {
        let log = SlowLog::default();
        log.set_len_max(2);
        let addr = Address::Tcp(([127, 0, 0, 1], 1).into());
        let mut args = OwnedArgs::new();
        args.push(b"get");
        for amount in 1..=3 {
            log.push("get", args.as_args(), 0, amount, (addr.clone(), String::new()));
        }
        let ids: Vec<u64> = log.newest(10).iter().map(|entry| entry.id).collect();
        assert_eq!(ids, [2, 1]);
    }
}
