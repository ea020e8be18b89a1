//! A message to one, a hundred or a thousand clients: the processor time that `PUBLISH` costs the server,
//! which delivers it to all of them.
//!
//! ```text
//!   generator ──PUBLISH──> server ──> the clients, whose messages a thread reads and counts
//! ```

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use serde_json::json;

use super::contest::{self, Case};
use crate::error::{IoContext, LabError, Result};
use crate::interrupt::wait_for;
use crate::load::{Arg, Group, KeyChoice, Keys, Mix, Pace, Request};
use crate::process::Pinned;
use crate::report::Report;
use crate::server::Persistence;
use crate::setting::Setting;

/// Clients that read the channel.
const READERS: [usize; 3] = [1, 100, 1000];
/// Bytes of a message.
const PAYLOAD_BYTES: usize = 64;
/// The length of a measurement in seconds unless another is wished.
const USUAL_S: f64 = 2.0;
/// The time that a look at the sockets waits, and a client for the confirmation, and for its first message.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval between two looks for the first message.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// The reply to `SUBSCRIBE news`.
const CONFIRMATION: &[u8] = b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n";

/// Runs the part.
pub(super) fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let case_of = |readers: usize| format!("channels: PUBLISH to {readers}");
    let contenders = setting.contenders(report, &READERS.map(case_of), Persistence::None)?;
    let publish = Request::new(&[Arg::Text("PUBLISH"), Arg::Text("news"), Arg::Value(PAYLOAD_BYTES)]);
    for readers in READERS {
        let mut all: Vec<Readers> = Vec::new();
        let ready = contest::prepared(report, &[case_of(readers)], &contenders, |own| {
            all.push(Readers::start(own.server.address(), readers, &setting.load_cores)?);
            Ok(())
        })?;
        for pipeline in [1, 16] {
            let request = format!("PUBLISH to {readers}");
            let parameters = json!({
                "persistence": "none", "clients": 1, "pipeline": pipeline, "readers": readers,
                "payload_bytes": PAYLOAD_BYTES, "request": request,
            });
            let group = Group {
                name: "publisher",
                connections: 1,
                pace: Pace::Closed { pipeline },
                mix: Mix::of(publish.clone(), Keys::new(KeyChoice::Uniform, 1)),
            };
            let name = format!("channels: {request} pipeline {pipeline}");
            let case = Case { name: &name, parameters: &parameters, groups: &[group], usual_s: USUAL_S };
            contest::hold_for(setting, report, &case, &ready, |place| all[place].check())?;
        }
    }
    Ok(())
}

/// Clients that read the channel, whose messages a thread takes.
struct Readers {
    ends: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    /// Nothing once it has failed.
    thread: Option<JoinHandle<Result<()>>>,
}

impl Readers {
    /// Connects so many clients, and subscribes them.
    fn start(address: SocketAddr, count: usize, cores: &[usize]) -> Result<Readers> {
        let streams: Vec<TcpStream> = (0..count).map(|_| subscribed(address)).collect::<Result<_>>()?;
        let (ends, bytes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = std::thread::spawn({
            let (ends, bytes, cores) = (ends.clone(), bytes.clone(), cores.to_vec());
            move || {
                let _pinned = Pinned::to(&cores)?;
                read_all(streams, &ends, &bytes)
            }
        });
        Ok(Readers { ends, bytes, thread: Some(thread) })
    }

    /// Fails unless messages have come and all clients still read: the cost of a message that nobody gets is
    /// not what is measured.
    fn check(&mut self) -> Result<()> {
        let is_over = || self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        let has_come = || self.bytes.load(Ordering::Relaxed) > 0;
        let seen = wait_for(LOOK_AGAIN, PATIENCE, || Ok((has_come() || is_over()).then_some(())))?;
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) {
            thread.join().map_err(|_| LabError::Reply("the readers panicked".to_owned()))??;
        }
        match (&self.thread, seen) {
            (Some(_), Some(())) => Ok(()),
            (Some(_), None) => Err(LabError::Reply("no message was delivered".to_owned())),
            (None, _) => Err(LabError::Reply("the clients that read have ended".to_owned())),
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Its failure was found where it mattered.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A client that reads the channel.
fn subscribed(address: SocketAddr) -> Result<TcpStream> {
    let connect = || -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"*2\r\n$9\r\nSUBSCRIBE\r\n$4\r\nnews\r\n")?;
        let mut reply = vec![0; CONFIRMATION.len()];
        stream.read_exact(&mut reply)?;
        if reply != CONFIRMATION {
            let text = format!("the reply begins with {:?}", String::from_utf8_lossy(&reply));
            return Err(std::io::Error::new(ErrorKind::InvalidData, text));
        }
        stream.set_nonblocking(true)?;
        Ok(stream)
    };
    connect().doing(|| format!("subscribe at {address}"))
}

/// Reads what comes to all of them, and counts the bytes.
fn read_all(mut streams: Vec<TcpStream>, ends: &AtomicBool, bytes: &AtomicU64) -> Result<()> {
    let poller = epoll::create(CreateFlags::CLOEXEC).doing(|| "watch the readers".to_owned())?;
    for (index, stream) in streams.iter().enumerate() {
        epoll::add(&poller, stream, EventData::new_u64(index as u64), EventFlags::IN)
            .doing(|| "watch the readers".to_owned())?;
    }
    let (mut events, mut buffer) = (Vec::with_capacity(1024), vec![0; 64 << 10]);
    while !ends.load(Ordering::Relaxed) {
        events.clear();
        match epoll::wait(&poller, spare_capacity(&mut events), Some(&LOOK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).doing(|| "wait for messages".to_owned()),
        }
        for event in &events {
            match streams[event.data.u64() as usize].read(&mut buffer) {
                Ok(0) => return Err(LabError::Reply("the server closed a client that reads".to_owned())),
                Ok(count) => bytes.fetch_add(count as u64, Ordering::Relaxed),
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error).doing(|| "read messages".to_owned()),
            };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn clients_that_have_ended_are_found_and_those_with_a_message_are_well() {
        let of = |message: &'static [u8], more: fn(TcpStream)| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = std::thread::spawn(move || {
                let mut stream = listener.accept().unwrap().0;
                assert!(stream.read(&mut [0; 64]).unwrap() > 0);
                stream.write_all(&[CONFIRMATION, message].concat()).unwrap();
                more(stream);
            });
            let mut readers = Readers::start(address, 1, &[]).unwrap();
            let found = [(); 2].map(|()| readers.check().map_err(|error| error.to_string()));
            drop(readers);
            server.join().unwrap();
            found
        };
        let stays = |mut stream: TcpStream| assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        assert_eq!(of(b"message", stays), [Ok(()), Ok(())]);
        let ended = ["the server closed a client that reads", "the clients that read have ended"];
        assert_eq!(of(b"", drop), ended.map(|why| Err(format!("unexpected reply: {why}"))));
    }
}
