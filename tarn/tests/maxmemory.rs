//! A server with a memory limit: what is in use stays near it, what was evicted does not come back, and
//! clients do not wait for evictions.

#![allow(clippy::unwrap_used)]

mod running;

use std::io::Write;
use std::time::{Duration, Instant};

use running::postgres::Postgres;
use running::{Connection, Running, eventually, free_port};

/// Bytes of a value.
const VALUE: usize = 1000;
/// Requests that are sent before their replies are read.
const PIPELINE: usize = 500;
/// Bytes beyond the limit that count as none: buffers of the connections, and what the allocator keeps for
/// threads.
const SLACK: u64 = 4 << 20;

/// Fields of a section of `INFO` that are numbers.
fn fields<const N: usize>(client: &mut Connection, section: &str, names: [&str; N]) -> [u64; N] {
    let info = client.ask(&format!("INFO {section}"));
    names.map(|name| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("{name} is in {info}")).trim_end().parse().unwrap()
    })
}

fn info(client: &mut Connection, section: &str, name: &str) -> u64 {
    let [value] = fields(client, section, [name]);
    value
}

/// Bytes that the limit counts. Of one reply, as the log's buffers come and go.
fn counted(client: &mut Connection) -> u64 {
    let [used, not_counted] = fields(client, "memory", ["used_memory", "mem_not_counted_for_evict"]);
    used.saturating_sub(not_counted)
}

/// Writes the values of these numbers; how many replies were errors.
fn write(client: &mut Connection, numbers: std::ops::Range<usize>) -> usize {
    let value = "v".repeat(VALUE);
    let (mut errors, numbers) = (0, numbers.collect::<Vec<_>>());
    for part in numbers.chunks(PIPELINE) {
        let requests: String = part.iter().map(|number| format!("SET key:{number} {value}\r\n")).collect();
        client.0.get_mut().write_all(requests.as_bytes()).unwrap();
        errors += part.iter().filter(|_| client.reply() != "+OK").count();
    }
    errors
}

#[test]
fn memory_stays_at_the_limit_and_what_was_evicted_stays_away() {
    let mut server = Running::start(&["--appendfsync", "no"]);
    let mut client = server.connect();
    let limit = counted(&mut client) + (16 << 20);
    assert_eq!(client.ask("CONFIG SET maxmemory-policy allkeys-lru"), "+OK");
    assert_eq!(client.ask(&format!("CONFIG SET maxmemory {limit}")), "+OK");
    for part in 0..10 {
        assert_eq!(write(&mut client, part * 5000..(part + 1) * 5000), 0, "all writes have room");
        let used = counted(&mut client);
        assert!(used < limit + SLACK, "{used} bytes are in use, and {limit} may be");
    }
    // Nothing is evicted any more, but for what is being evicted at this moment.
    assert_eq!(client.ask("CONFIG SET maxmemory 0"), "+OK");
    let left = eventually(|| {
        let evicted = info(&mut client, "stats", "evicted_keys");
        let left: u64 = client.ask("DBSIZE").trim_start_matches(':').parse().unwrap();
        (left + evicted == 50_000).then_some(left)
    });
    assert!(left > 5_000, "{left} keys are left of what has room");
    let digest = running::digest(&mut client);
    assert_eq!(client.whole("WAITAOF 1 0 0"), "*[:1 :0]");
    server.restart();
    let mut client = server.connect();
    let again = (client.ask("DBSIZE"), running::digest(&mut client));
    assert_eq!(again, (format!(":{left}"), digest));
}

#[test]
fn memory_stays_at_the_limit_where_strings_have_gaps() {
    let server = Running::start(&["--appendfsync", "no"]);
    let mut client = server.connect();
    let limit = counted(&mut client) + (16 << 20);
    assert_eq!(client.ask("CONFIG SET maxmemory-policy allkeys-lru"), "+OK");
    // Used least, so they go first. Each would be half a gigabyte without its gap, and has a few KiB.
    for number in 0..400 {
        assert_eq!(client.ask(&format!("SETBIT gap:{number} 4294967295 1")), ":0");
    }
    // The clock of uses goes by seconds.
    eventually(|| (client.ask("OBJECT IDLETIME gap:399") != ":0").then_some(()));
    assert_eq!(client.ask(&format!("CONFIG SET maxmemory {limit}")), "+OK");
    for part in 0..10 {
        assert_eq!(write(&mut client, part * 5000..(part + 1) * 5000), 0, "all writes have room");
        let used = counted(&mut client);
        assert!(used < limit + SLACK, "{used} bytes are in use, and {limit} may be");
    }
    assert!(info(&mut client, "stats", "evicted_keys") > 20_000);
    let left: u64 = client.ask("DBSIZE").trim_start_matches(':').parse().unwrap();
    assert!(left > 5_000, "{left} keys are left of what has room");
}

#[test]
fn a_flushed_database_that_a_view_reads_leaves_its_room_to_others() {
    let port = free_port();
    let server = Running::start(&["--appendfsync", "no", "--sql-port", &port.to_string()]);
    let mut client = server.connect();
    let declare = "CREATE EXTERNAL TABLE t (id TEXT, name TEXT) STORED AS HASH LOCATION 't:*'";
    assert_eq!(client.ask(&format!("SQL \"{declare}\"")), "+OK");
    client.ask("HSET t:1 name one");
    assert_eq!(write(&mut client, 0..20_000), 0);
    let mut reader = Postgres::connect(port);
    reader.ask("BEGIN READ ONLY");
    assert_eq!(reader.ask("SELECT count(*) FROM t").text(), "1");
    let limit = counted(&mut client) + (4 << 20);
    assert_eq!(client.ask(&format!("CONFIG SET maxmemory {limit}")), "+OK");
    let left = |client: &mut Connection| info(client, "memory", "mem_not_counted_for_evict");
    // The log's buffers are among what is not counted. Only writes change how many there are.
    let (before, flushed) = (left(&mut client), 20_000 * VALUE as u64);
    assert_eq!(client.ask("FLUSHALL"), "+OK");
    eventually(|| (left(&mut client) > before + flushed * 9 / 10).then_some(()));
    assert_eq!(write(&mut client, 0..10_000), 0, "the limit does not count what the view alone has");
    let before = left(&mut client);
    reader.ask("COMMIT");
    eventually(|| (left(&mut client) + flushed * 9 / 10 < before).then_some(()));
}

#[test]
fn a_limit_that_is_lowered_is_reached_beside_clients() {
    let server = Running::start(&["--appendfsync", "no"]);
    let (mut client, mut other) = (server.connect(), server.connect());
    assert_eq!(write(&mut client, 0..30_000), 0);
    let limit = counted(&mut client) - (20 << 20);
    assert_eq!(client.ask("CONFIG SET maxmemory-policy allkeys-random"), "+OK");
    assert_eq!(client.ask(&format!("CONFIG SET maxmemory {limit}")), "+OK");
    let mut longest = Duration::ZERO;
    eventually(|| {
        let began = Instant::now();
        assert_eq!(other.ask("SET other value"), "+OK", "there are keys to evict, so no write is refused");
        longest = longest.max(began.elapsed());
        (counted(&mut client) <= limit).then_some(())
    });
    assert!(longest < Duration::from_secs(2), "a client waited for {longest:?}");
    let evicted = info(&mut client, "stats", "evicted_keys");
    assert!((10_000..30_000).contains(&evicted), "{evicted} keys were evicted");
    assert_eq!(client.ask("CONFIG SET maxmemory-policy noeviction"), "+OK");
    assert_eq!(client.ask("CONFIG SET maxmemory 1"), "+OK");
    eventually(|| (info(&mut client, "stats", "current_eviction_exceeded_time") > 0).then_some(()));
}

/// Bytes of the allocator's pages that no object takes.
fn wasted(client: &mut Connection) -> u64 {
    let [active, allocated] =
        ["allocator_active", "allocator_allocated"].map(|name| info(client, "memory", name));
    active.saturating_sub(allocated)
}

#[test]
fn pages_that_are_partly_empty_are_given_back() {
    const KEYS: usize = 60_000;
    let server = Running::start(&["--appendfsync", "no"]);
    let mut client = server.connect();
    let requests = ["MEMORY PURGE", "CONFIG SET active-defrag-ignore-bytes 1mb activedefrag yes"];
    for (round, request) in requests.into_iter().enumerate() {
        assert_eq!(write(&mut client, round * KEYS..(round + 1) * KEYS), 0);
        // One of eight is left, in the midst of what the others took.
        for first in (round * KEYS..(round + 1) * KEYS).step_by(8) {
            let keys: String = (first + 1..first + 8).map(|number| format!(" key:{number}")).collect();
            assert_eq!(client.ask(&format!("DEL{keys}")), ":7");
        }
        let before = wasted(&mut client);
        assert!(before > 30 << 20, "{before} bytes are wasted");
        let digest = running::digest(&mut client);
        assert_eq!(client.ask(request), "+OK");
        eventually(|| (wasted(&mut client) < before / 3).then_some(()));
        assert_eq!(running::digest(&mut client), digest);
    }
    let moved = info(&mut client, "stats", "active_defrag_hits");
    assert!(moved as usize > KEYS / 8, "{moved} entries were moved");
}

#[test]
fn a_value_that_is_deleted_makes_room() {
    let server = Running::start(&[]);
    let mut client = server.connect();
    let limit = counted(&mut client) + (8 << 20);
    // No zeros: these would take no memory.
    let part = "v".repeat(50_000);
    for number in 1..=320 {
        assert_eq!(client.ask(&format!("APPEND big {part}")), format!(":{}", number * part.len()));
    }
    assert_eq!(client.ask(&format!("CONFIG SET maxmemory {limit}")), "+OK");
    assert_eq!(client.ask("SET k v"), "-OOM command not allowed when used memory > 'maxmemory'.");
    assert_eq!(client.ask("GET k"), "$-1");
    assert_eq!(client.ask("DEL big"), ":1");
    eventually(|| (client.ask("SET k v") == "+OK").then_some(()));
}

/// Queues about so many bytes of requests.
fn queue(client: &mut Connection, bytes: usize) {
    let value = "v".repeat(50_000);
    assert_eq!(client.ask("MULTI"), "+OK");
    for _ in 0..bytes / value.len() {
        client.send(&format!("SET k {value}"));
        if client.try_reply().is_none() {
            return;
        }
    }
}

#[test]
fn the_clients_with_the_largest_buffers_are_disconnected_unless_they_are_spared() {
    let server = Running::start(&["--maxmemory-clients", "1mb"]);
    let mut operator = server.connect();
    assert_eq!(operator.ask("CLIENT NO-EVICT on"), "+OK");
    let mut small = server.connect();
    assert_eq!(small.ask("PING"), "+PONG");
    let mut large = server.connect();
    queue(&mut large, 2 << 20);
    eventually(|| (info(&mut operator, "stats", "evicted_clients") > 0).then_some(()));
    assert!(large.try_ask("PING").is_none(), "it is closed");
    assert_eq!(small.ask("PING"), "+PONG", "the memory of the others is not too much");
    let mut spared = server.connect();
    assert_eq!(spared.ask("CLIENT NO-EVICT on"), "+OK");
    queue(&mut spared, 2 << 20);
    let mut next = server.connect();
    queue(&mut next, 100_000);
    eventually(|| (info(&mut operator, "stats", "evicted_clients") > 1).then_some(()));
    assert_eq!(small.ask("PING"), "+PONG", "who has no buffer stays");
    assert!(spared.whole("EXEC").starts_with("*[+OK"));
}
