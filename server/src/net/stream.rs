//! A connected socket of either kind: TCP, or a Unix socket.

use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::net::address::Address;

/// A connection in an event loop.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

/// A connection on its way from one event loop to another.
#[derive(Debug)]
pub enum Detached {
    /// Over TCP.
    Tcp(std::net::TcpStream),
    /// Over a Unix socket.
    Unix(std::os::unix::net::UnixStream),
}

impl Stream {
    /// Enters the event loop of this thread.
    pub fn attach(detached: Detached) -> io::Result<Stream> {
        match detached {
            Detached::Tcp(stream) => TcpStream::from_std(stream).map(Stream::Tcp),
            Detached::Unix(stream) => UnixStream::from_std(stream).map(Stream::Unix),
        }
    }

    /// Leaves its event loop.
    pub fn detach(self) -> io::Result<Detached> {
        match self {
            Stream::Tcp(stream) => stream.into_std().map(Detached::Tcp),
            Stream::Unix(stream) => stream.into_std().map(Detached::Unix),
        }
    }

    /// Its number in this process.
    pub fn descriptor(&self) -> i32 {
        match self {
            Stream::Tcp(stream) => stream.as_raw_fd(),
            Stream::Unix(stream) => stream.as_raw_fd(),
        }
    }

    /// This end, where the other one is `peer`.
    pub fn local_address(&self, peer: &Address) -> io::Result<Address> {
        match self {
            Stream::Tcp(stream) => stream.local_addr().map(Address::Tcp),
            Stream::Unix(_) => Ok(peer.clone()),
        }
    }

    /// Reads what there is; `buf` stays as it was at the end of the stream.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }

    /// Whether the peer has closed its sending side or has gone, whatever of it has not been read. Costs a
    /// system call.
    pub fn peer_sends_no_more(&self) -> bool {
        let flags = PollFlags::RDHUP;
        let socket = match self {
            Stream::Tcp(stream) => PollFd::new(stream, flags),
            Stream::Unix(stream) => PollFd::new(stream, flags),
        };
        // Errors and a full close are told whether or not they are asked for.
        poll(&mut [socket], Some(&Timespec::default())).is_ok_and(|changed| changed > 0)
    }

    /// Waits for room to write.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => stream.poll_write_ready(cx),
            Stream::Unix(stream) => stream.poll_write_ready(cx),
        }
    }

    /// Writes as much as there is room for, at once.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.try_write(bytes),
            Stream::Unix(stream) => stream.try_write(bytes),
        }
    }
}
