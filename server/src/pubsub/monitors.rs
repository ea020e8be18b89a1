//! The clients that `MONITOR` what others send, and the lines that they read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tarn_engine::lock::{Mutex, rank};
use tarn_resp::Args;

use crate::net::address::Address;
use crate::net::handle::ClientHandle;
use crate::pubsub::readers::{Ids, Readers};

/// Bytes of arguments of a request that is shown. Longer ones are not put into lines: who monitors is closed.
pub(super) const ARGS_BYTES_MAX: usize = 32 << 20;

/// Bytes of lines that a script keeps. One with more has the store for itself, and keeps none.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The clients that monitor.
#[derive(Debug, Default)]
pub(super) struct Monitors {
    readers: Mutex<Readers, rank::Channels>,
    /// How many they are: nobody takes the lock for none.
    count: AtomicUsize,
}

impl Monitors {
    /// Whether there is any.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Adds a client.
    pub(super) fn add(&self, client: &ClientHandle) {
        let mut readers = self.readers.lock();
        readers.add(client.worker, client.id);
        self.count.store(readers.count(), Ordering::Relaxed);
        client.note_monitoring(true);
    }

    /// Takes a client out.
    pub(super) fn remove(&self, client: &ClientHandle) {
        let mut readers = self.readers.lock();
        readers.remove(client.worker, client.id);
        self.count.store(readers.count(), Ordering::Relaxed);
        client.note_monitoring(false);
    }

    /// Calls `visit` with each worker that has such clients, and with these. All calls together are one step
    /// for others that do the same.
    pub(super) fn each(&self, mut visit: impl FnMut(usize, &Arc<Ids>)) {
        self.readers.lock().by_worker().for_each(|(worker, clients)| visit(worker, clients));
    }
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sender<'a> {
    /// A client.
    Client(&'a Address),
    /// A script.
    Script,
}

/// The lines of a script that may run again.
#[derive(Debug, Default)]
pub(crate) struct KeptLines {
    lines: Vec<Vec<u8>>,
    bytes: usize,
}

impl KeptLines {
    /// Adds a line.
    pub(crate) fn push(&mut self, line: Vec<u8>) {
        self.bytes += line.len();
        self.lines.push(line);
    }

    /// The lines.
    pub(crate) fn into_lines(self) -> Vec<Vec<u8>> {
        self.lines
    }

    /// Whether they are too much.
    pub(crate) fn is_too_much(&self) -> bool {
        self.bytes > KEPT_BYTES_MAX
    }

    /// Forgets all but the first, that of the script itself.
    pub(crate) fn begin_again(&mut self) {
        self.lines.truncate(1);
        self.bytes = 0;
    }
}

/// The line that shows a request to those who monitor, which ran at `time` since 1970 in database `db`.
/// Arguments that `is_secret` are not in it.
pub(crate) fn line(
    time: Duration,
    db: u8,
    sender: Sender<'_>,
    args: Args<'_>,
    is_secret: impl Fn(usize) -> bool,
) -> Vec<u8> {
    let head = match sender {
        Sender::Client(Address::Unix(path)) => format!("unix:{path}"),
        Sender::Client(address) => address.to_string(),
        Sender::Script => "lua".into(),
    };
    let mut line = format!("+{}.{:06} [{db} {head}]", time.as_secs(), time.subsec_micros()).into_bytes();
    line.reserve(args.total_bytes() + 3 * args.len() + 2);
    for (i, arg) in args.iter().enumerate() {
        line.push(b' ');
        quote(&mut line, if is_secret(i) { b"(redacted)" } else { arg });
    }
    line.extend_from_slice(b"\r\n");
    line
}

/// Appends a word in quotes, without bytes that would end the line.
fn quote(line: &mut Vec<u8>, word: &[u8]) {
    line.push(b'"');
    for &byte in word {
        match byte {
            b'\\' | b'"' => line.extend_from_slice(&[b'\\', byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            0x07 => line.extend_from_slice(b"\\a"),
            0x08 => line.extend_from_slice(b"\\b"),
            b' '..=b'~' => line.push(byte),
            _ => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use tarn_resp::OwnedArgs;

    #[test]
    fn a_line_is_that_of_redis_whatever_the_bytes() {
        let mut args = OwnedArgs::new();
        for arg in [&b"set"[..], b"a\0\n\"\\\xc3", b"secret", b""] {
            args.push(arg);
        }
        let address = Address::Tcp(([127, 0, 0, 1], 1234).into());
        let written = |sender| {
            let time = Duration::from_micros(1_700_000_000_000_123);
            String::from_utf8(line(time, 3, sender, args.as_args(), |i| i == 2)).expect("it is text")
        };
        let words = r#""set" "a\x00\n\"\\\xc3" "(redacted)" """#;
        let client = Sender::Client(&address);
        assert_eq!(written(client), format!("+1700000000.000123 [3 127.0.0.1:1234] {words}\r\n"));
        assert_eq!(written(Sender::Script), format!("+1700000000.000123 [3 lua] {words}\r\n"));
        let path = Address::Unix("/run/s".into());
        assert!(written(Sender::Client(&path)).contains(" [3 unix:/run/s] "));
    }
}
