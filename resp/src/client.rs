//! A small blocking client with one connection: for tools and tests, not for load. The only file of the
//! package that opens a socket; feature `client`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::{Frame, FrameDecoder, FrameLimits, encode_command};

/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// Why a request has no reply, or not the one that was expected.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server answered with an error, with another type, or with bytes that are not the protocol.
    #[error("unexpected reply: {0}")]
    Reply(String),
    /// The operating system refused to connect, read or write.
    #[error("{what}: {source}")]
    Io {
        /// The attempt, with the server's address.
        what: String,
        /// The operating system's reason.
        source: io::Error,
    },
}

/// The result of a request.
pub type Result<T> = std::result::Result<T, ClientError>;

/// The integer in a reply. Any other reply is an error that shows it.
pub fn integer(reply: &Frame) -> Result<i64> {
    reply.as_integer().ok_or_else(|| ClientError::Reply(reply.to_string()))
}

/// The text of a string reply. Any other reply is an error that shows it.
pub fn text(reply: &Frame) -> Result<String> {
    let bytes = reply.as_bytes().ok_or_else(|| ClientError::Reply(reply.to_string()))?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// The texts of an array of strings.
pub fn texts(reply: &Frame) -> Result<Vec<String>> {
    elements(reply)?.iter().map(text).collect()
}

/// The elements of an array. Any other reply is an error that shows it.
pub fn elements(reply: &Frame) -> Result<&[Frame]> {
    reply.as_array().ok_or_else(|| ClientError::Reply(reply.to_string()))
}

/// Names the attempt when a call of the operating system failed.
trait Attempt<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| ClientError::Io { what: what(), source })
    }
}

/// A connection that waits for its replies.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    stream: TcpStream,
    requests: Vec<u8>,
    decoder: FrameDecoder,
    /// Bytes that were read; those from `taken` on are not decoded yet.
    received: Vec<u8>,
    taken: usize,
}

impl Client {
    /// Connects. Replies that take longer than `patience` are an error.
    pub fn connect(address: SocketAddr, patience: Duration) -> Result<Client> {
        let stream =
            TcpStream::connect_timeout(&address, patience).doing(|| format!("connect to {address}"))?;
        stream.set_nodelay(true).doing(|| format!("set up {address}"))?;
        stream.set_read_timeout(Some(patience)).doing(|| format!("set up {address}"))?;
        stream.set_write_timeout(Some(patience)).doing(|| format!("set up {address}"))?;
        let decoder = FrameDecoder::new(FrameLimits::default());
        Ok(Client { address, stream, requests: Vec::new(), decoder, received: Vec::new(), taken: 0 })
    }

    /// Sends a request and waits for its reply, which may be an error reply.
    pub fn ask(&mut self, arguments: &[impl AsRef<[u8]>]) -> Result<Frame> {
        self.queue(arguments);
        self.send()?;
        self.receive()
    }

    /// Sends a request and waits for its reply; an error reply is an error.
    pub fn call(&mut self, arguments: &[impl AsRef<[u8]>]) -> Result<Frame> {
        let reply = self.ask(arguments)?;
        if reply.is_error() {
            let command = String::from_utf8_lossy(arguments[0].as_ref()).into_owned();
            return Err(ClientError::Reply(format!("{command}: {reply}")));
        }
        Ok(reply)
    }

    /// Adds a request to the batch that [`send`](Client::send) will write.
    pub fn queue(&mut self, arguments: &[impl AsRef<[u8]>]) {
        encode_command(&mut self.requests, arguments);
    }

    /// Writes the queued requests.
    pub fn send(&mut self) -> Result<()> {
        let written = self.stream.write_all(&self.requests);
        self.requests.clear();
        written.doing(|| format!("write to {}", self.address))
    }

    /// Waits for the next reply.
    pub fn receive(&mut self) -> Result<Frame> {
        loop {
            let decoded = self.decoder.decode(&self.received, &mut self.taken);
            if let Some(reply) =
                decoded.map_err(|error| ClientError::Reply(format!("not the protocol: {error}")))?
            {
                return Ok(reply);
            }
            self.received.drain(..self.taken);
            self.taken = 0;
            let kept = self.received.len();
            self.received.resize(kept + READ_BYTES, 0);
            let read = match self.stream.read(&mut self.received[kept..]) {
                Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                other => other,
            };
            self.received.truncate(kept + *read.as_ref().unwrap_or(&0));
            read.doing(|| format!("read from {}", self.address))?;
        }
    }
}
