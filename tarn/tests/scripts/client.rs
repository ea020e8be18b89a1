//! A connection that sends commands and waits for replies, with a limit on the waiting.

use crate::reply::Reply;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// No reply of a script takes longer, even on a busy machine.
const REPLY_LIMIT: Duration = Duration::from_secs(120);

/// One client.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects.
    pub(crate) fn connect(address: &str) -> std::io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_LIMIT))?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    /// Sends a command as an array of bulk strings.
    pub(crate) fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) -> std::io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.as_ref().len()).as_bytes());
            bytes.extend_from_slice(word.as_ref());
            bytes.extend_from_slice(b"\r\n");
        }
        self.send_raw(&bytes)
    }

    /// Sends bytes as they are.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Waits for the next reply.
    pub(crate) fn receive(&mut self) -> std::io::Result<Reply> {
        Reply::read(&mut self.stream)
    }

    /// Sends a command and waits for its reply. A server that hung up already answers `(closed)`.
    pub(crate) fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> std::io::Result<Reply> {
        match self.send(words).and_then(|()| self.receive()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Reply::Closed),
            reply => reply,
        }
    }

    /// True if a reply, or the end of the connection, can be read without waiting.
    pub(crate) fn has_answer(&self) -> std::io::Result<bool> {
        Ok(self.peek()?.is_some())
    }

    /// True if unread bytes have come: a reply that was not asked for.
    pub(crate) fn has_unread(&self) -> std::io::Result<bool> {
        match self.peek() {
            Ok(seen) => Ok(seen.is_some_and(|count| count > 0)),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The number of bytes that can be read without waiting, 0 at the end of the connection; `None` if
    /// nothing can be read yet.
    fn peek(&self) -> std::io::Result<Option<usize>> {
        if !self.stream.buffer().is_empty() {
            return Ok(Some(self.stream.buffer().len()));
        }
        let stream = self.stream.get_ref();
        stream.set_nonblocking(true)?;
        let seen = stream.peek(&mut [0]);
        stream.set_nonblocking(false)?;
        match seen {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}
