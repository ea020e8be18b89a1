//! The large collections, and a client that does not keep their replies.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::error::{IoContext, LabError, Result};
use crate::load::{Arg, KeyChoice, Keys, Mix, Request};
use crate::server::Server;
use crate::setting::fill_silently;
use tarn_resp::encode_command;

/// Elements of a command that fills a collection.
const FILL: u64 = 100;
/// A read waits this long before it is checked whether to go on.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;
/// The reply to the request that follows a command: the end of the command's own.
const END: &[u8] = b"$24\r\nthe end of all the reply\r\n";

/// A large collection, under the key `giant`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Giant {
    /// A hash whose values have 16 bytes.
    Hash,
    /// A larger one.
    HugeHash,
    /// A set.
    Set,
    /// A list of numbers.
    List,
    /// A sorted set.
    SortedSet,
}

const KEY: Arg = Arg::Text("giant");

/// The number of the element at a place of the command that adds it.
fn number<const AT: u64>(key: u64) -> u64 {
    key * FILL + AT
}

/// The place of each element of a command: functions of the number of the command.
fn places() -> Vec<fn(u64) -> u64> {
    macro_rules! tens {
        ($($ten:literal)+) => { vec![$(
            number::<{ $ten * 10 }>, number::<{ $ten * 10 + 1 }>, number::<{ $ten * 10 + 2 }>,
            number::<{ $ten * 10 + 3 }>, number::<{ $ten * 10 + 4 }>, number::<{ $ten * 10 + 5 }>,
            number::<{ $ten * 10 + 6 }>, number::<{ $ten * 10 + 7 }>, number::<{ $ten * 10 + 8 }>,
            number::<{ $ten * 10 + 9 }>
        ),+] };
    }
    tens![0 1 2 3 4 5 6 7 8 9]
}

impl Giant {
    /// The number of its elements, at full scale.
    pub(super) fn elements(self) -> u64 {
        if self == Giant::HugeHash { 5_000_000 } else { 1_000_000 }
    }

    /// Makes it, of so many elements, a multiple of a hundred.
    pub(super) fn fill(self, server: &Server, elements: u64, seed: u64) -> Result<()> {
        let (name, prefix) = match self {
            Giant::Hash | Giant::HugeHash => ("HSET", "field:"),
            Giant::Set => ("SADD", "member:"),
            Giant::List => ("RPUSH", ""),
            Giant::SortedSet => ("ZADD", "member:"),
        };
        let mut arguments = vec![Arg::Text(name), KEY];
        for of in places() {
            let own = Arg::Derived { prefix, digits: 10, of };
            match self {
                Giant::Hash | Giant::HugeHash => arguments.extend([own, Arg::Value(16)]),
                Giant::SortedSet => arguments.extend([Arg::Derived { prefix: "", digits: 10, of }, own]),
                Giant::Set | Giant::List => arguments.push(own),
            }
        }
        let commands = elements.div_ceil(FILL);
        let mix = Mix::of(Request::new(&arguments), Keys::new(KeyChoice::Sequential, commands));
        fill_silently(server, commands, mix, seed)
    }
}

/// A client that reads whole replies and forgets them, so that it needs neither memory nor much time.
pub(super) struct Reader {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Reader {
    pub(super) fn connect(server: &Server) -> Result<Reader> {
        let address = server.address();
        let stream = TcpStream::connect(address).doing(|| format!("connect to {address}"))?;
        let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(LOOK_EVERY)));
        set.doing(|| format!("set up {address}"))?;
        Ok(Reader { stream, buffer: vec![0; READ_BYTES] })
    }

    /// Runs a command of words, and reads its reply to the end, for as long as `check` has nothing against
    /// it. An error reply is an error.
    pub(super) fn run(&mut self, words: &[&str], check: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut request = Vec::new();
        encode_command(&mut request, words);
        encode_command(&mut request, &["ECHO", "the end of all the reply"]);
        self.stream.write_all(&request).doing(|| format!("send {}", words[0]))?;
        // The last bytes that came, of which the end may be one; and the first ones.
        let (mut tail, mut head) = (Vec::new(), Vec::new());
        while !tail.ends_with(END) {
            check()?;
            let read = match self.stream.read(&mut self.buffer) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    continue;
                }
                read => read.doing(|| format!("read the reply to {}", words[0]))?,
            };
            if read == 0 {
                return Err(LabError::Reply(format!("the connection ended within {}", words[0])));
            }
            let new = &self.buffer[..read];
            if head.len() < 200 {
                head.extend_from_slice(&new[..read.min(200)]);
            }
            tail.extend_from_slice(&new[read.saturating_sub(END.len())..]);
            let surplus = tail.len().saturating_sub(END.len());
            tail.drain(..surplus);
        }
        if head.starts_with(b"-") {
            let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
            return Err(LabError::Reply(format!("{}: {}", words.join(" "), String::from_utf8_lossy(line))));
        }
        Ok(())
    }

    /// The same of a command as one text.
    pub(super) fn run_text(&mut self, command: &str, check: &dyn Fn() -> Result<()>) -> Result<()> {
        self.run(&command.split(' ').collect::<Vec<_>>(), check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_adds_elements_that_follow_each_other() {
        let all: Vec<u64> = (0..3).flat_map(|key| places().into_iter().map(move |of| of(key))).collect();
        assert_eq!(all, (0..300).collect::<Vec<_>>());
        assert_eq!(places().len() as u64, FILL);
    }
}
