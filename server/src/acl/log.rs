//! `ACL LOG`: what was refused, to whom and why. The same refusal again within a minute counts with the one
//! before.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tarn_engine::lock::Mutex;

use crate::acl::rules::has_spaces;

/// Refusals that are the same count together for so long, in milliseconds.
const GROUPED_MS: u64 = 60_000;
/// The newest entries that are looked through for the same.
const LOOKED_THROUGH: usize = 10;
/// The longest object and name that are kept, in bytes.
const KEPT_BYTES_MAX: usize = 1024;
/// The longest description of a client that is kept, in bytes: names of its own choice stand in it.
const CLIENT_BYTES_MAX: usize = 2048;
/// The longest name that a description of a client of another protocol has, in bytes.
const SHOWN_NAME_BYTES_MAX: usize = 256;

/// The thing that was not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// A database.
    Database,
    /// To log in.
    Auth,
    /// To log in by a certificate, as no user that is enabled has the name in it.
    Certificate,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 6] =
        [Reason::Command, Reason::Key, Reason::Channel, Reason::Database, Reason::Auth, Reason::Certificate];

    /// As the log has it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Database => "database",
            Reason::Auth => "auth",
            Reason::Certificate => "tls-cert",
        }
    }
}

/// The place of a request that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// It stood alone.
    TopLevel,
    /// It was of a transaction.
    Multi,
    /// A script asked for it.
    Lua,
}

impl Context {
    /// As the log has it.
    pub fn name(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        }
    }
}

/// A refusal, and how often it came.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Rises with each entry.
    pub id: u64,
    /// The times it came.
    pub count: u64,
    /// The thing that was not allowed.
    pub reason: Reason,
    /// The place of the request.
    pub context: Context,
    /// The command, the key, the channel or the database, shortened; empty for a certificate.
    pub object: Vec<u8>,
    /// Whose request it was, or who wanted to log in.
    pub username: Vec<u8>,
    /// The client, as `CLIENT LIST` shows it, at the last time.
    pub client: String,
    /// The first time, as Unix time.
    pub created_ms: u64,
    /// The last time.
    pub updated_ms: u64,
}

/// The log.
#[derive(Debug)]
pub struct AclLog {
    /// The next id, and the entries, newest first.
    entries: Mutex<(u64, VecDeque<Entry>)>,
    len_max: AtomicUsize,
    denied: [AtomicU64; Reason::ALL.len()],
}

impl Default for AclLog {
    fn default() -> AclLog {
        AclLog {
            entries: Mutex::new((0, VecDeque::new())),
            len_max: AtomicUsize::new(128),
            denied: Default::default(),
        }
    }
}

impl AclLog {
    /// Keeps at most `len` entries, from the next one on.
    pub fn set_len_max(&self, len: usize) {
        self.len_max.store(len, Ordering::Relaxed);
    }

    /// Notes a refusal at Unix time `now_ms`.
    pub fn push(
        &self,
        now_ms: u64,
        reason: Reason,
        context: Context,
        (object, username): (&[u8], &[u8]),
        client: String,
    ) {
        self.denied[reason as usize].fetch_add(1, Ordering::Relaxed);
        let shorten = |text: &[u8]| text[..text.len().min(KEPT_BYTES_MAX)].to_vec();
        let (object, username, client) = (shorten(object), shorten(username), shorten_text(client));
        let mut entries = self.entries.lock();
        let (next_id, entries) = &mut *entries;
        let is_same = |entry: &Entry| {
            (entry.reason, entry.context) == (reason, context)
                && now_ms.abs_diff(entry.updated_ms) <= GROUPED_MS
                && entry.object == object
                && entry.username == username
        };
        let same = entries.iter().take(LOOKED_THROUGH).position(is_same);
        let entry = match same.and_then(|at| entries.remove(at)) {
            Some(entry) => Entry { count: entry.count + 1, client, updated_ms: now_ms, ..entry },
            None => {
                let id = *next_id;
                *next_id += 1;
                let (created_ms, updated_ms) = (now_ms, now_ms);
                Entry { id, count: 1, reason, context, object, username, client, created_ms, updated_ms }
            }
        };
        entries.push_front(entry);
        entries.truncate(self.len_max.load(Ordering::Relaxed));
    }

    /// The newest `count` entries, newest first.
    pub fn newest(&self, count: usize) -> Vec<Entry> {
        self.entries.lock().1.iter().take(count).cloned().collect()
    }

    /// Forgets all entries.
    pub fn clear(&self) {
        self.entries.lock().1.clear();
    }

    /// The times something was refused for this reason.
    pub fn denied(&self, reason: Reason) -> u64 {
        self.denied[reason as usize].load(Ordering::Relaxed)
    }

    /// Counts refusals from zero again.
    pub fn reset_counts(&self) {
        self.denied.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

/// A client that speaks another protocol, with the fields of `CLIENT LIST`: programs expect all of them. A
/// name with white space would look like more fields, and is left out; so is the end of a long one.
pub fn client_at_port(peer: impl fmt::Display, command: &str, name: &[u8]) -> String {
    let name = if has_spaces(name) { "".into() } else { String::from_utf8_lossy(name) };
    let name = &name[..name.floor_char_boundary(SHOWN_NAME_BYTES_MAX)];
    format!(
        "id=0 addr={peer} laddr= fd=-1 name= age=0 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=0 \
         qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd={command} \
         user={name} redir=-1 resp=2 lib-name= lib-ver="
    )
}

/// A text as far as it is kept, in memory of its own size.
fn shorten_text(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(CLIENT_BYTES_MAX));
    text.shrink_to_fit();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_of_another_protocol_has_all_fields_and_no_forged_one() {
        let line = client_at_port("[::1]:7", "sql", b"alice");
        assert!(line.contains(" addr=[::1]:7 ") && line.contains(" cmd=sql user=alice "), "{line}");
        let forged = client_at_port("[::1]:7", "sql", b"alice id=1");
        assert_eq!(forged, line.replace("alice", ""));
        let long = client_at_port("[::1]:7", "sql", &[b'\xff'; 2000]);
        assert!(long.len() < CLIENT_BYTES_MAX && long.ends_with("lib-ver="), "{long}");
    }

    #[test]
    fn the_same_refusal_counts_with_the_one_before_for_a_minute() {
        let log = AclLog::default();
        let push = |now, object: &[u8]| {
            log.push(now, Reason::Key, Context::TopLevel, (object, b"alice"), "id=1".to_owned());
        };
        push(1000, b"k");
        push(1001, b"other");
        push(61_000, b"k");
        push(122_000, b"k");
        let newest = log.newest(10);
        let counts: Vec<(u64, u64)> = newest.iter().map(|entry| (entry.id, entry.count)).collect();
        assert_eq!(counts, [(2, 1), (0, 2), (1, 1)]);
        assert_eq!((newest[1].created_ms, newest[1].updated_ms), (1000, 61_000));
        assert_eq!(log.denied(Reason::Key), 4);
    }

    #[test]
    fn no_more_is_kept_than_was_asked_for() {
        let log = AclLog::default();
        log.set_len_max(2);
        for number in 0..5u8 {
            log.push(0, Reason::Command, Context::Multi, (&[number], b""), String::new());
        }
        log.push(0, Reason::Auth, Context::TopLevel, (&[b'x'; 5000], b""), String::new());
        let kept: Vec<usize> = log.newest(10).iter().map(|entry| entry.object.len()).collect();
        assert_eq!(kept, [KEPT_BYTES_MAX, 1]);
        log.push(0, Reason::Auth, Context::TopLevel, (b"", b""), "é".repeat(5001) + "x");
        log.push(0, Reason::Auth, Context::TopLevel, (b"y", b""), format!("x{}", "é".repeat(5000)));
        let kept: Vec<usize> = log.newest(10).iter().map(|entry| entry.client.len()).collect();
        assert_eq!(kept, [CLIENT_BYTES_MAX - 1, CLIENT_BYTES_MAX]);
        log.clear();
        assert!(log.newest(10).is_empty());
    }
}
