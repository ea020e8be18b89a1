//! The load generator against servers that misbehave on purpose.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use tarn_lab::load::{Arg, Cue, Group, KeyChoice, Keys, Load, LoadResult, Mix, Pace, Request, Until};

/// The length of a `PING`.
const PING_BYTES: usize = b"*1\r\n$4\r\nPING\r\n".len();

/// Serves one connection after the other on a thread: `answer` gets the number of requests that came and the
/// stream.
fn server(answer: impl Fn(usize, &mut TcpStream) -> std::io::Result<()> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut buffer = [0; 16 << 10];
            let mut bytes = 0;
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                let requests = (bytes + count) / PING_BYTES - bytes / PING_BYTES;
                bytes += count;
                if answer(requests, &mut stream).is_err() {
                    break;
                }
            }
        }
    });
    address
}

/// A load of `PING` on one connection.
fn pings(address: SocketAddr, pace: Pace, until: Until) -> Load {
    let mix = Mix::of(Request::new(&[Arg::Text("PING")]).tallied(), Keys::new(KeyChoice::Sequential, 3));
    Load::new(address, vec![Group { name: "pings", connections: 1, pace, mix }], until, 1)
}

fn ping(address: SocketAddr, pace: Pace, until: Until) -> tarn_lab::error::Result<LoadResult> {
    pings(address, pace, until).run(|_| ())
}

/// A stall of a server: it begins when the test asks for it, and lasts until enough has happened, however
/// long that takes where other work runs.
#[derive(Default)]
struct Stall {
    asked: AtomicBool,
    over: AtomicBool,
    /// Its length.
    ns: AtomicU64,
}

/// A server that answers at once, but for one stall. In it, `wanted` requests come and are not answered, and
/// the stall is at least as long as `least`.
fn server_that_stalls(stall: &Arc<Stall>, wanted: usize, least: Duration) -> SocketAddr {
    let stall = stall.clone();
    server(move |mut requests, stream| {
        if stall.asked.load(Relaxed) && !stall.over.load(Relaxed) {
            let began = Instant::now();
            let mut buffer = [0; 16 << 10];
            let mut bytes = 0;
            let more = wanted.saturating_sub(requests);
            while bytes / PING_BYTES < more {
                bytes += stream.read(&mut buffer[..(more * PING_BYTES - bytes).min(16 << 10)])?;
            }
            requests += more;
            std::thread::sleep(least.saturating_sub(began.elapsed()));
            stall.ns.store(began.elapsed().as_nanos() as u64, Relaxed);
            stall.over.store(true, Relaxed);
        }
        stream.write_all(&b"+PONG\r\n".repeat(requests))
    })
}

/// The measurements of a load at `pace` on a server that stalls until `wanted` requests have come: its phase
/// before, and that of the stall. Also the length of the stall, in ns.
fn stalled(pace: Pace, wanted: usize, least: Duration) -> (LoadResult, u64) {
    let stall = Arc::new(Stall::default());
    let address = server_that_stalls(&stall, wanted, least);
    let cue = Arc::new(Cue::default());
    let mut load = pings(address, pace, Until::Told);
    load.cue = Some(cue.clone());
    let mut begun_at = None;
    let result = load.run(|answered| {
        // One step each time: first some quiet replies, then the second phase, in it the stall.
        match begun_at {
            None if answered >= 100 => {
                cue.next();
                begun_at = Some(answered);
            }
            Some(before) if answered > before => {
                stall.asked.store(true, Relaxed);
                if stall.over.load(Relaxed) && answered >= before + wanted as u64 {
                    cue.end();
                }
            }
            _ => {}
        }
    });
    (result.unwrap(), stall.ns.load(Relaxed))
}

/// The length of a stall that only a test causes.
const LEAST: Duration = Duration::from_millis(400);

/// Latencies of at least half the stall.
fn slow(result: &LoadResult, stall_ns: u64) -> u64 {
    result.watched.phases[1].latency_ns.count_between(stall_ns / 2, u64::MAX)
}

#[test]
fn an_open_loop_charges_a_stall_to_all_requests_that_were_due_in_it() {
    let (result, stall_ns) = stalled(Pace::Open { rate: 1000.0 }, 400, Duration::ZERO);
    // Of the requests that came in it, those that were due in its first half waited for half of it or longer.
    assert!(slow(&result, stall_ns) >= 190, "{}", slow(&result, stall_ns));
}

#[test]
fn a_closed_loop_meets_a_stall_once() {
    let (result, stall_ns) = stalled(Pace::Closed { pipeline: 1 }, 1, LEAST);
    assert!(slow(&result, stall_ns) >= 1 && result.groups[0].requests > 0);
    assert!(slow(&result, stall_ns) < 190, "{}", slow(&result, stall_ns));
}

#[test]
fn so_many_requests_are_sent_as_were_asked_for() {
    let address = server(|requests, stream| stream.write_all(&b"+PONG\r\n".repeat(requests)));
    let result = ping(address, Pace::Closed { pipeline: 16 }, Until::Requests(1000)).unwrap();
    assert_eq!(result.groups[0].requests, 1000);
    assert_eq!(result.groups[0].errors.count(), 0);
}

#[test]
fn joined_requests_count_as_one() {
    let came = Arc::new(AtomicU64::new(0));
    let seen = came.clone();
    let address = server(move |requests, stream| {
        seen.fetch_add(requests as u64, Relaxed);
        stream.write_all(&b"+PONG\r\n".repeat(requests))
    });
    let three = Request::joined(&[(); 3].map(|()| Request::new(&[Arg::Text("PING")])));
    let mix = Mix::of(three, Keys::new(KeyChoice::Sequential, 1));
    let group = Group { name: "pings", connections: 1, pace: Pace::Closed { pipeline: 4 }, mix };
    let result = Load::new(address, vec![group], Until::Requests(10), 1).run(|_| ()).unwrap();
    assert_eq!((result.groups[0].requests, came.load(Relaxed)), (10, 30));
    // Each batch has a latency: two of four requests, one of two.
    assert_eq!(result.groups[0].latency_ns.len(), 3);
}

#[test]
fn error_replies_fail_the_run() {
    let address = server(|requests, stream| stream.write_all(&b"-ERR not today\r\n".repeat(requests)));
    let result = ping(address, Pace::Closed { pipeline: 2 }, Until::Requests(10)).unwrap();
    assert_eq!(result.groups[0].errors.count(), 10);
    let error = result.check().unwrap_err().to_string();
    assert!(error.contains("ERR not today"), "{error}");
}

#[test]
fn a_closed_connection_and_a_foreign_protocol_fail_the_run() {
    let address = server(|_, _| Err(std::io::ErrorKind::Other.into()));
    assert!(ping(address, Pace::Closed { pipeline: 1 }, Until::Requests(10)).is_err());
    let address = server(|_, stream| stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n"));
    assert!(ping(address, Pace::Closed { pipeline: 1 }, Until::Requests(10)).is_err());
    let address = server(|requests, stream| stream.write_all(&b"+PONG\r\n".repeat(requests + 1)));
    assert!(ping(address, Pace::Closed { pipeline: 1 }, Until::Requests(10)).is_err());
}

#[test]
fn a_tally_tells_what_was_sent_and_what_was_acknowledged_when_the_server_was_killed() {
    // 10 replies, then the end: as a kill would have it, with requests on their way.
    let left = std::cell::Cell::new(10);
    let address = server(move |requests, stream| {
        let answered = requests.min(left.get());
        left.set(left.get() - answered);
        stream.write_all(&b"+PONG\r\n".repeat(answered))?;
        if left.get() == 0 { Err(std::io::ErrorKind::Other.into()) } else { Ok(()) }
    });
    let mut load = pings(address, Pace::Closed { pipeline: 4 }, Until::Requests(100));
    load.tallied_keys = 3;
    load.killed = Some(Arc::new(AtomicBool::new(true)));
    let tally = load.run(|_| ()).unwrap().tally;
    assert_eq!(tally.sent, [4, 4, 4]);
    // The last replies may be lost with the connection, but the first two batches were read before the third
    // was sent.
    let acknowledged: u32 = tally.acknowledged.iter().sum();
    assert!((8..=10).contains(&acknowledged), "{:?}", tally.acknowledged);
}

#[test]
fn beats_count_a_stall_for_all_that_was_due_in_it_and_in_its_phase() {
    let pace = Pace::Beats { rate: 2000.0, beat: Duration::from_millis(2) };
    // That the stall ends shows that requests go out during it.
    let (result, stall_ns) = stalled(pace, 800, Duration::ZERO);
    let [before, after] = &result.watched.phases[..] else { panic!("{:?}", result.watched.phases.len()) };
    assert!(slow(&result, stall_ns) >= 390, "{} of {}", slow(&result, stall_ns), after.requests);
    assert!(after.latency_ns.max() >= stall_ns * 9 / 10);
    assert!(after.served_ns.max() >= stall_ns * 9 / 10);
    assert!(before.requests >= 100, "{}", before.requests);
    let moments: u64 = result.watched.timeline.iter().map(|moment| u64::from(moment.requests)).sum();
    assert_eq!(moments, before.requests + after.requests);
}
