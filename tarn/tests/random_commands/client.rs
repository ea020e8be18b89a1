//! A client that sends any bytes and reads replies of both protocols.

use std::io::{Read, Write};
use std::net::TcpStream;

use tarn_resp::{Frame, FrameDecoder, encode_command};

use crate::running::{LIMIT, eventually};

/// A connection.
pub(crate) struct Client {
    stream: TcpStream,
    decoder: FrameDecoder,
    bytes: Vec<u8>,
}

/// Why there is no reply.
#[derive(Debug)]
pub(crate) enum Silence {
    /// The server closed the connection.
    Closed,
    /// The server is silent, or sends something that is no reply.
    Fault(String),
}

impl Client {
    /// Connects; `None` if no server listens.
    pub(crate) fn try_connect(port: u16) -> Option<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        Some(Client { stream, decoder: FrameDecoder::default(), bytes: Vec::new() })
    }

    /// Connects as soon as somebody listens, and answers.
    pub(crate) fn connect(port: u16) -> Client {
        eventually(|| {
            let mut client = Client::try_connect(port)?;
            let reply = client.try_ask(&["PING"]).ok()?;
            (reply == Frame::simple("PONG")).then_some(client)
        })
    }

    /// Sends bytes. A server that has closed the connection reads none of them, which the reply will show.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next reply.
    pub(crate) fn reply(&mut self) -> Result<Frame, Silence> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let mut pos = 0;
            let decoded = self.decoder.decode(&self.bytes, &mut pos);
            self.bytes.drain(..pos);
            if let Some(frame) = decoded.map_err(|error| Silence::Fault(format!("no reply: {error}")))? {
                return Ok(frame);
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(Silence::Closed),
                Ok(len) => self.bytes.extend_from_slice(&buffer[..len]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                    return Err(Silence::Closed);
                }
                Err(error) => return Err(Silence::Fault(format!("no reply: {error}"))),
            }
        }
    }

    /// Sends a request and returns its reply.
    pub(crate) fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Frame {
        self.try_ask(words).unwrap()
    }

    /// Sends a request and returns its reply, if there is one.
    pub(crate) fn try_ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Frame, Silence> {
        let mut bytes = Vec::new();
        encode_command(&mut bytes, words);
        self.send(&bytes);
        self.reply()
    }
}
