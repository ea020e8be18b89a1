//! One connection of the generator: the bytes to write, the replies to wait for, and the intended starts of
//! their requests.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::replies::Replies;
use crate::error::{IoContext, LabError, Result};

/// The intended and the actual start of a request, or of a batch of them, in nanoseconds since the start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    pub(super) due: u64,
    pub(super) sent: u64,
}

/// A non-blocking connection.
///
/// Times are nanoseconds since the start of the load. In a closed loop a batch is one entry of `begun`; in an
/// open loop each request is. Invariant: the entries of `begun` stand for `awaited` replies in all.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    /// The group of the load that it belongs to.
    pub(super) group: usize,
    /// Replies to the requests that were sent, or are in `out`, that have not come yet.
    pub(super) awaited: u32,
    /// The intended starts of the requests that are not answered yet, oldest first.
    pub(super) begun: VecDeque<Begun>,
    /// The keys of the requests not answered yet, oldest first, if a tally is kept; `None` for keys outside
    /// of the tally.
    pub(super) named: VecDeque<Option<u32>>,
    pub(super) replies: Replies,
    /// Requests; the first `written` bytes have been sent.
    pub(super) out: Vec<u8>,
    written: usize,
    /// True if the poller watches for room to write.
    pub(super) wants_room: bool,
}

impl Connection {
    pub(super) fn open(address: SocketAddr, group: usize) -> Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))
            .doing(|| format!("connect to {address}"))?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_nonblocking(true))
            .doing(|| format!("set up {address}"))?;
        Ok(Connection {
            stream,
            group,
            awaited: 0,
            begun: VecDeque::new(),
            named: VecDeque::new(),
            replies: Replies::default(),
            out: Vec::new(),
            written: 0,
            wants_room: false,
        })
    }

    /// Writes as much of `out` as the socket takes. Once all has left, it is empty.
    pub(super) fn write(&mut self) -> Result<()> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).doing(|| "write to the server".to_owned()),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads once. Returns how many replies ended, or `None` if the server closed the connection.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<Option<u32>> {
        match self.stream.read(buffer) {
            Ok(0) => Ok(None),
            Ok(count) => {
                let text = &buffer[..count];
                let ended = self.replies.take(text).ok_or_else(|| {
                    LabError::Reply(format!("not the protocol: {}", text[..count.min(120)].escape_ascii()))
                })?;
                if ended > self.awaited {
                    return Err(LabError::Reply("more replies than requests".to_owned()));
                }
                self.awaited -= ended;
                Ok(Some(ended))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Ok(Some(0))
            }
            Err(error) => Err(error).doing(|| "read from the server".to_owned()),
        }
    }
}
