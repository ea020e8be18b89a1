//! A writer: one connection that sends the writes of a model until the server dies. A reader checks
//! meanwhile.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::judge::History;
use super::model::Model;
use crate::error::{LabError, Result};
use tarn_resp::Frame;
use tarn_resp::client::{self, Client, ClientError};

/// A server that does not answer for this time is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// Writes, `pipeline` at once, until the connection breaks or `stop` is set. Fails if a reply is wrong, or if
/// the connection broke while `killed` was not set.
pub(super) fn write_until_the_end(
    address: SocketAddr,
    before: Model,
    pipeline: usize,
    killed: &AtomicBool,
    stop: &AtomicBool,
) -> Result<History> {
    let mut model = before.clone();
    let mut history = History { seen: 0, before, sent: Vec::new(), acknowledged: Vec::new() };
    let excused = |history: History, error: ClientError| {
        // The flag is set before the signal, so a connection that the kill broke always finds it set.
        if killed.load(Ordering::SeqCst) { Ok(history) } else { Err(error.into()) }
    };
    let mut client = match Client::connect(address, PATIENCE) {
        Ok(client) => client,
        Err(error) => return excused(history, error),
    };
    while !stop.load(Ordering::Relaxed) {
        let writes: Vec<_> = (0..pipeline).map(|_| model.advance()).collect();
        for write in &writes {
            write.requests.iter().for_each(|request| client.queue(request));
        }
        let now = Instant::now();
        history.sent.resize(history.sent.len() + pipeline, now);
        if let Err(error) = client.send() {
            return excused(history, error);
        }
        for write in &writes {
            // The last is that of the request, or of EXEC.
            let replies: client::Result<Vec<Frame>> =
                write.requests.iter().map(|_| client.receive()).collect();
            let reply = match replies.map(|mut replies| replies.pop()) {
                Ok(reply) => reply.expect("a write has a request"),
                Err(error) => return excused(history, error),
            };
            let is_right = match write.integer {
                Some(expected) => reply.as_integer() == Some(expected),
                None if write.requests.len() > 1 => {
                    client::elements(&reply).is_ok_and(|replies| replies.len() == write.requests.len() - 2)
                }
                None => reply.as_bytes() == Some(b"OK"),
            };
            // A server whose disk has failed refuses writes until it is killed.
            if !is_right && killed.load(Ordering::SeqCst) {
                return Ok(history);
            }
            if !is_right {
                let requests = write.requests.iter().flatten().cloned().collect::<Vec<_>>().join(" ");
                let expected = write.integer;
                return Err(LabError::Reply(format!("{requests}: {reply}, expected {expected:?}")));
            }
            history.acknowledged.push(Instant::now());
        }
    }
    Ok(history)
}

/// Reads counters, one after the other, until the connection breaks or `stop` is set. Returns the highest
/// value of each.
pub(super) fn read_until_the_end(
    address: SocketAddr,
    counters: &[String],
    killed: &AtomicBool,
    stop: &AtomicBool,
) -> Result<Vec<i64>> {
    let mut seen = vec![0; counters.len()];
    let mut look = || -> Result<()> {
        let mut client = Client::connect(address, PATIENCE)?;
        while !stop.load(Ordering::Relaxed) {
            for (counter, seen) in counters.iter().zip(&mut seen) {
                let reply = client.call(&["GET", counter])?;
                if !reply.is_null() {
                    let text = client::text(&reply)?;
                    *seen = text.parse::<i64>().map_err(|_| LabError::Reply(text))?.max(*seen);
                }
            }
        }
        Ok(())
    };
    match look() {
        Err(error) if !killed.load(Ordering::SeqCst) => Err(error),
        _ => Ok(seen),
    }
}
