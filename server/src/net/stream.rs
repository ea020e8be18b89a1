//! A connected socket of any kind: TCP, with or without TLS, or a Unix socket.

use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::net::address::Address;
use crate::net::encrypted::Encrypted;

/// A connection in an event loop.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
    /// Over TLS over TCP.
    Tls(Box<Encrypted>),
}

/// A connection on its way from one event loop to another.
#[derive(Debug)]
pub enum Detached {
    /// Over TCP.
    Tcp(std::net::TcpStream),
    /// Over a Unix socket.
    Unix(std::os::unix::net::UnixStream),
    /// Over TCP, for TLS whose handshake is still to come.
    Tls(std::net::TcpStream, Arc<ServerConfig>),
}

impl Stream {
    /// Enters the event loop of this thread.
    pub fn attach(detached: Detached) -> io::Result<Stream> {
        match detached {
            Detached::Tcp(stream) => TcpStream::from_std(stream).map(Stream::Tcp),
            Detached::Unix(stream) => UnixStream::from_std(stream).map(Stream::Unix),
            Detached::Tls(stream, config) => {
                let stream = TcpStream::from_std(stream)?;
                Encrypted::new(stream, config).map(|stream| Stream::Tls(Box::new(stream)))
            }
        }
    }

    /// Leaves its event loop. One that speaks TLS already cannot.
    pub fn detach(self) -> io::Result<Detached> {
        match self {
            Stream::Tcp(stream) => stream.into_std().map(Detached::Tcp),
            Stream::Unix(stream) => stream.into_std().map(Detached::Unix),
            Stream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The handshake of TLS, if there is one; afterwards requests may be read.
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => stream.poll_handshake(cx),
        }
    }

    /// Its TLS, if it speaks that.
    pub fn encrypted(&self) -> Option<&Encrypted> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => None,
            Stream::Tls(stream) => Some(stream),
        }
    }

    /// Whether it is to end, as its keys of TLS have encrypted nearly all that they may. It reads no more.
    #[inline]
    pub fn is_worn(&self) -> bool {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => false,
            Stream::Tls(stream) => stream.is_worn(),
        }
    }

    /// Its number in this process.
    pub fn descriptor(&self) -> i32 {
        match self {
            Stream::Tcp(stream) => stream.as_raw_fd(),
            Stream::Unix(stream) => stream.as_raw_fd(),
            Stream::Tls(stream) => stream.socket().as_raw_fd(),
        }
    }

    /// This end, where the other one is `peer`.
    pub fn local_address(&self, peer: &Address) -> io::Result<Address> {
        match self {
            Stream::Tcp(stream) => stream.local_addr().map(Address::Tcp),
            Stream::Unix(_) => Ok(peer.clone()),
            Stream::Tls(stream) => stream.socket().local_addr().map(Address::Tcp),
        }
    }

    /// Reads what there is; `buf` stays as it was at the end of the stream.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Tls(stream) => stream.poll_read(cx, buf),
        }
    }

    /// Whether the peer has closed its sending side or has gone, whatever of it has not been read. Costs a
    /// system call.
    pub fn peer_sends_no_more(&self) -> bool {
        let flags = PollFlags::RDHUP;
        let socket = match self {
            Stream::Tcp(stream) => PollFd::new(stream, flags),
            Stream::Unix(stream) => PollFd::new(stream, flags),
            Stream::Tls(stream) => PollFd::new(stream.socket(), flags),
        };
        // Errors and a full close are told whether or not they are asked for.
        poll(&mut [socket], Some(&Timespec::default())).is_ok_and(|changed| changed > 0)
    }

    /// Waits for room to write.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => stream.poll_write_ready(cx),
            Stream::Unix(stream) => stream.poll_write_ready(cx),
            Stream::Tls(stream) => stream.socket().poll_write_ready(cx),
        }
    }

    /// Writes as much as there is room for, at once. Over TLS, some of what was taken may still be here: see
    /// [`flush`](Stream::flush).
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.try_write(bytes),
            Stream::Unix(stream) => stream.try_write(bytes),
            Stream::Tls(stream) => stream.try_write(bytes),
        }
    }

    /// Sends what was taken and is still here. Whether all of it has left.
    #[inline]
    pub fn flush(&mut self) -> io::Result<bool> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(true),
            Stream::Tls(stream) => stream.flush(),
        }
    }

    /// Bytes that were taken and are still here, about.
    #[inline]
    pub fn unsent_bytes(&self) -> usize {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => 0,
            Stream::Tls(stream) => stream.unsent_bytes(),
        }
    }
}
