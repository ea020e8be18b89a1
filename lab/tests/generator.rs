//! The load generator against servers that misbehave on purpose.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
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

fn ping(address: SocketAddr, pace: Pace, until: Until) -> tarn_lab::error::Result<LoadResult> {
    let mix = Mix::of(Request::new(&[Arg::Text("PING")]), Keys::new(KeyChoice::Uniform, 1));
    let groups = vec![Group { name: "pings", connections: 1, pace, mix }];
    Load::new(address, groups, until, 1).run(|_| ())
}

/// A server that answers at once, but once sleeps for a while.
fn server_that_stalls(stall: Duration) -> SocketAddr {
    let begun = Instant::now();
    let stalled = std::cell::Cell::new(false);
    server(move |requests, stream| {
        if !stalled.get() && begun.elapsed() > Duration::from_millis(300) {
            stalled.set(true);
            std::thread::sleep(stall);
        }
        stream.write_all(&b"+PONG\r\n".repeat(requests))
    })
}

const STALL: Duration = Duration::from_millis(400);
const UNTIL: Until = Until::Time { warmup: Duration::from_millis(10), measured: Duration::from_millis(1500) };

/// Latencies of at least half the stall.
fn slow(result: &LoadResult) -> u64 {
    let histogram = &result.groups[0].latency_ns;
    histogram.count_between(STALL.as_nanos() as u64 / 2, histogram.max())
}

#[test]
fn an_open_loop_charges_a_stall_to_all_requests_that_were_due_in_it() {
    let result = ping(server_that_stalls(STALL), Pace::Open { rate: 1000.0 }, UNTIL).unwrap();
    // 1000 a second for 200 ms, the first half of the stall, had to wait for 200 ms or longer.
    assert!(slow(&result) >= 190, "{}", slow(&result));
}

#[test]
fn a_closed_loop_meets_a_stall_once() {
    let result = ping(server_that_stalls(STALL), Pace::Closed { pipeline: 1 }, UNTIL).unwrap();
    assert!(slow(&result) >= 1 && result.groups[0].requests > 0);
    assert!(slow(&result) < 190, "{}", slow(&result));
}

#[test]
fn so_many_requests_are_sent_as_were_asked_for() {
    let address = server(|requests, stream| stream.write_all(&b"+PONG\r\n".repeat(requests)));
    let result = ping(address, Pace::Closed { pipeline: 16 }, Until::Requests(1000)).unwrap();
    assert_eq!(result.groups[0].requests, 1000);
    assert_eq!(result.groups[0].errors, 0);
}

#[test]
fn error_replies_fail_the_run() {
    let address = server(|requests, stream| stream.write_all(&b"-ERR not today\r\n".repeat(requests)));
    let result = ping(address, Pace::Closed { pipeline: 2 }, Until::Requests(10)).unwrap();
    assert_eq!(result.groups[0].errors, 10);
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
    let request = Request::new(&[Arg::Text("PING")]).tallied();
    let mix = Mix::of(request, Keys::new(KeyChoice::Sequential, 3));
    let group = Group { name: "pings", connections: 1, pace: Pace::Closed { pipeline: 4 }, mix };
    let mut load = Load::new(address, vec![group], Until::Requests(100), 1);
    load.tallied_keys = 3;
    load.killed = Some(Arc::new(AtomicBool::new(true)));
    let tally = load.run(|_| ()).unwrap().tally;
    assert_eq!(tally.sent, [4, 4, 4]);
    // The last replies may be lost with the connection, but the first two batches were read before the third
    // was sent.
    let acknowledged: u32 = tally.acknowledged.iter().sum();
    assert!((8..=10).contains(&acknowledged), "{:?}", tally.acknowledged);
}

/// An open loop in beats of 2 ms with a cue: its first phase ends when the stall may begin.
fn beats(stall: Duration) -> LoadResult {
    let address = server_that_stalls(stall);
    let mix = Mix::of(Request::new(&[Arg::Text("PING")]), Keys::new(KeyChoice::Uniform, 1));
    let pace = Pace::Beats { rate: 2000.0, beat: Duration::from_millis(2) };
    let groups = vec![Group { name: "pings", connections: 1, pace, mix }];
    let cue = Arc::new(Cue::default());
    let mut load = Load::new(address, groups, Until::Told, 1);
    load.cue = Some(cue.clone());
    let began = Instant::now();
    let mut is_second = false;
    load.run(|_| {
        if !is_second && began.elapsed() > Duration::from_millis(200) {
            is_second = true;
            cue.next();
        }
        if began.elapsed() > Duration::from_millis(1500) {
            cue.end();
        }
    })
    .unwrap()
}

#[test]
fn beats_count_a_stall_for_all_that_was_due_in_it_and_in_its_phase() {
    let result = beats(STALL);
    let [before, after] = &result.watched.phases[..] else { panic!("{:?}", result.watched.phases.len()) };
    let half = (STALL / 2).as_nanos() as u64;
    let long = |phase: &tarn_lab::load::Phase| phase.latency_ns.count_between(half, u64::MAX);
    // 2000 a second over the first half of the stall; other machines' noise only adds.
    assert!(long(after) > 300, "{} of {}", long(after), after.requests);
    assert!(after.latency_ns.max() >= STALL.as_nanos() as u64 * 9 / 10);
    assert!(after.served_ns.max() >= STALL.as_nanos() as u64 * 9 / 10);
    assert!(before.requests > 0 && before.elapsed >= Duration::from_millis(200));
    let moments: u64 = result.watched.timeline.iter().map(|moment| u64::from(moment.requests)).sum();
    assert_eq!(moments, before.requests + after.requests);
    // The generator's own lateness does not have the server's stall in it: requests went out meanwhile.
    assert!(after.late_ns.value_at_quantile(0.5) < half);
}
