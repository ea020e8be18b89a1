//! Streams with a consumer group each: their entries, the requests of the load, and the clients that read for
//! the groups.
//!
//! ```text
//!   load       XADD to any of the 100 streams, which keep their length
//!   consumers  XREADGROUP … BLOCK of 25 streams each ─► XACK of all that came ─► a rest ─► …
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use tarn_resp::Frame;
use tarn_resp::client::{self, Client};

use crate::error::{LabError, Result};
use crate::load::{Arg, Cue, KeyChoice, Keys, Mix, Request, key_text};
use crate::process::Pinned;
use crate::server::Server;
use crate::setting::fill_silently;

/// Streams.
const STREAMS: u64 = 100;
/// Bytes of the value of an entry.
const VALUE_BYTES: usize = 100;
/// Bytes of memory that a server needs for an entry at most.
const ENTRY_BYTES_MAX: u64 = 400;
/// The group of each stream.
const GROUP: &str = "readers";
/// Consumers of the groups, each of which reads its share of the streams.
const CONSUMERS: u64 = 4;
/// Entries of a stream that one reading takes at most.
const COUNT: &str = "1000";
/// The time that a reading waits for the first entry, in milliseconds.
const BLOCK_MS: &str = "100";
/// The time between two readings of a consumer: it takes what has come meanwhile at once, as clients do that
/// work on entries.
const REST: Duration = Duration::from_millis(10);

const PREFIX: &str = "stream:";
const DIGITS: usize = 8;
const STREAM: Arg = Arg::Key { prefix: PREFIX, digits: DIGITS, scattered: false };

/// Memory that a server needs for so many entries at most, before any checkpoint.
pub(super) const fn need_bytes(entries: u64) -> u64 {
    entries * ENTRY_BYTES_MAX + (128 << 20)
}

/// Adds an entry to a stream, which keeps about its share of so many entries.
fn add(entries: u64) -> Request {
    Request::new(&[
        Arg::Text("XADD"),
        STREAM,
        Arg::Text("MAXLEN"),
        Arg::Text("~"),
        Arg::Same(entries.div_ceil(STREAMS)),
        Arg::Text("*"),
        Arg::Text("field"),
        Arg::Value(VALUE_BYTES),
    ])
}

/// The requests of the load.
pub(super) fn adds(entries: u64) -> Mix {
    Mix::of(add(entries), Keys::new(KeyChoice::Uniform, STREAMS))
}

/// Makes the streams of so many entries in all, and their groups, which begin behind these.
pub(super) fn fill(server: &Server, entries: u64, seed: u64) -> Result<()> {
    fill_silently(server, entries, Mix::in_order(add(entries), STREAMS), seed)?;
    let create = ["XGROUP", "CREATE"].map(Arg::Text);
    let create = [&create[..], &[STREAM], &[GROUP, "$", "MKSTREAM"].map(Arg::Text)].concat();
    fill_silently(server, STREAMS, Mix::in_order(Request::new(&create), STREAMS), seed)
}

/// Reads for the groups and acknowledges what comes, until the flag is set or the load ends. Returns how many
/// entries were acknowledged. An error ends the load.
pub(super) fn consume(server: &Server, cores: &[usize], cue: &Cue, is_over: &AtomicBool) -> Result<u64> {
    let run = |number: u64| {
        let acknowledged = consume_share(server, cores, cue, is_over, number);
        acknowledged.inspect_err(|_| cue.end())
    };
    let run = &run;
    let acknowledged = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CONSUMERS).map(|number| scope.spawn(move || run(number))).collect();
        let each = threads.into_iter().map(|thread| thread.join().expect("a consumer does not panic"));
        each.sum::<Result<u64>>()
    })?;
    match acknowledged {
        // The cost of groups that nobody reads for is not what is measured.
        0 => Err(LabError::Reply("no entry was read for a group".to_owned())),
        _ => Ok(acknowledged),
    }
}

/// The same of one consumer.
fn consume_share(
    server: &Server,
    cores: &[usize],
    cue: &Cue,
    is_over: &AtomicBool,
    number: u64,
) -> Result<u64> {
    let _pinned = Pinned::to(cores)?;
    let (mut connection, words) = (server.client()?, reading(number));
    let mut acknowledged = 0;
    loop {
        // Asked before the reading, so that one comes after all that was added before the end.
        let is_last = is_over.load(Ordering::Relaxed) || cue.has_ended();
        acknowledged += read_and_acknowledge(&mut connection, &words)?;
        if is_last {
            return Ok(acknowledged);
        }
        sleep(REST);
    }
}

/// The request by which a consumer reads what is new in its share of the streams.
fn reading(number: u64) -> Vec<String> {
    let consumer = format!("consumer:{number}");
    let head = ["XREADGROUP", "GROUP", GROUP, &consumer, "COUNT", COUNT, "BLOCK", BLOCK_MS, "STREAMS"];
    let own: Vec<u64> = (number..STREAMS).step_by(CONSUMERS as usize).collect();
    let names = own.iter().map(|stream| key_text(PREFIX, DIGITS, false, *stream));
    let new = own.iter().map(|_| ">".to_owned());
    head.map(str::to_owned).into_iter().chain(names).chain(new).collect()
}

/// Reads once, and acknowledges all entries that came. Returns their number, as the server counts them.
fn read_and_acknowledge(connection: &mut Client, words: &[String]) -> Result<u64> {
    let reply = connection.call(words)?;
    // There is no array where nothing came in time.
    let streams = reply.as_array().unwrap_or_default();
    for stream in streams {
        let [name, entries] = client::elements(stream)? else { return Err(unexpected(stream)) };
        let mut acknowledge = vec![&b"XACK"[..], text(name)?, GROUP.as_bytes()];
        for entry in client::elements(entries)? {
            let id = client::elements(entry)?.first().ok_or_else(|| unexpected(entry))?;
            acknowledge.push(text(id)?);
        }
        connection.queue(&acknowledge);
    }
    connection.send()?;
    let mut acknowledged = 0;
    for _ in streams {
        acknowledged += client::integer(&connection.receive()?)?.unsigned_abs();
    }
    Ok(acknowledged)
}

fn text(frame: &Frame) -> Result<&[u8]> {
    frame.as_bytes().ok_or_else(|| unexpected(frame))
}

fn unexpected(frame: &Frame) -> LabError {
    LabError::Reply(format!("no part of a reply to XREADGROUP: {frame}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use tarn_resp::encode_command;

    use super::*;

    #[test]
    fn each_stream_has_one_consumer() {
        let all: Vec<Vec<String>> = (0..CONSUMERS).map(reading).collect();
        let names = all.iter().flatten().filter(|word| word.starts_with(PREFIX));
        assert_eq!(names.clone().count() as u64, STREAMS);
        assert_eq!(names.collect::<BTreeSet<_>>().len() as u64, STREAMS);
        for own in &all {
            let place = own.iter().position(|word| word == "STREAMS").unwrap();
            let rest = &own[place + 1..];
            assert!(rest[rest.len() / 2..].iter().all(|word| word == ">"), "{own:?}");
        }
    }

    /// Has a server give this reply to a reading, and these to all that is sent then. Returns the result, and
    /// the requests behind the reading.
    fn played(reply: &'static str, then: &'static str, bytes: usize) -> (Result<u64>, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let words = reading(0);
        let mut request = Vec::new();
        encode_command(&mut request, &words);
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            stream.read_exact(&mut vec![0; request.len()]).unwrap();
            stream.write_all(reply.as_bytes()).unwrap();
            let mut behind = vec![0; bytes];
            stream.read_exact(&mut behind).unwrap();
            stream.write_all(then.as_bytes()).unwrap();
            behind
        });
        let mut connection = Client::connect(address, Duration::from_secs(60)).unwrap();
        let done = read_and_acknowledge(&mut connection, &words);
        (done, server.join().unwrap())
    }

    #[test]
    fn all_that_is_read_is_acknowledged_and_counted_by_the_server() {
        let reply = "*2\r\n*2\r\n$1\r\na\r\n*2\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n\
            *2\r\n$3\r\n2-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n*2\r\n$1\r\nb\r\n*1\r\n*2\r\n$3\r\n7-1\r\n*0\r\n";
        let mut expected = Vec::new();
        encode_command(&mut expected, &["XACK", "a", GROUP, "1-0", "2-0"]);
        encode_command(&mut expected, &["XACK", "b", GROUP, "7-1"]);
        let (done, behind) = played(reply, ":2\r\n:0\r\n", expected.len());
        assert_eq!((done.unwrap(), behind), (2, expected));
        assert_eq!(played("*-1\r\n", "", 0).0.unwrap(), 0);
        let refused = played("-NOGROUP gone\r\n", "", 0).0.unwrap_err().to_string();
        assert!(refused.contains("NOGROUP gone"), "{refused}");
        assert!(played("*1\r\n:7\r\n", "", 0).0.is_err());
    }
}
