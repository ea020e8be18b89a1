//! Hostile input at the port for SQL. Each fault is reported or the connection ends, and meanwhile a client
//! of Redis is answered.

#![allow(clippy::unwrap_used)]

mod running;

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use running::postgres::{Postgres, extended, message, start};
use running::{Running, eventually, free_port};

/// A server, and a client of Redis that writes and reads until the end.
struct Served {
    running: Running,
    port: u16,
    ends: Arc<AtomicBool>,
    client: Option<JoinHandle<()>>,
}

impl Served {
    fn start() -> Served {
        Served::start_with(&[])
    }

    fn start_with(more: &[&str]) -> Served {
        let port = free_port();
        let running = Running::start(&[&["--sql-port", &port.to_string()], more].concat());
        let mut client = running.connect();
        let ends = Arc::new(AtomicBool::new(false));
        let until = ends.clone();
        let client = std::thread::spawn(move || {
            let mut count = 0;
            loop {
                count += 1;
                assert_eq!(client.ask(&format!("SET count {count}")), "+OK");
                assert_eq!(client.whole("GET count"), format!("${count}"));
                if until.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        Served { running, port, ends, client: Some(client) }
    }

    /// The client of Redis was served all the time, and so is one of SQL now.
    fn end(mut self) {
        assert_eq!(Postgres::connect(self.port).ask("SELECT 1").text(), "1");
        self.ends.store(true, Ordering::Relaxed);
        self.client.take().unwrap().join().unwrap();
        assert_eq!(self.running.connect().ask("PING"), "+PONG");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

fn chain(first: &str, link: &str, count: usize) -> String {
    format!("SELECT {first}{}", link.repeat(count))
}

fn nested(open: &str, inner: &str, close: &str, count: usize) -> String {
    format!("SELECT {}{inner}{}", open.repeat(count), close.repeat(count))
}

/// Statements that would be parsed or planned to something deeper than any stack.
fn deep() -> Vec<(String, &'static str)> {
    let built: String = (1..10_000).map(|i| format!(", a{i} AS (SELECT 1 FROM a{})", i - 1)).collect();
    let doubled: String =
        (1..60).map(|i| format!(", a{i} AS (SELECT x.a FROM a{0} x, a{0} y)", i - 1)).collect();
    vec![
        (nested("(", "1", ")", 10_000), "54001"),
        (nested("(", "1", ")", 300), "42601"),
        (nested("abs(", "1", ")", 10_000), "54001"),
        (nested("(SELECT ", "1", ")", 300), "42601"),
        (nested("CASE WHEN true THEN ", "1", " END", 10_000), "54001"),
        (nested("NOT ", "true", "", 10_000), "54001"),
        (nested("NOT ", "true", "", 300), "42601"),
        (nested("- ", "1", "", 150), "42601"),
        (chain("1", " + 1", 201), "54001"),
        (nested("[", "1", "]", 10_000), "54001"),
        ("(".repeat(10_000), "54001"),
        (chain("1", " + 1", 50_000), "54001"),
        (chain("true", " OR 1 = 2", 50_000), "54001"),
        (chain("true", " AND 1 = 1", 50_000), "54001"),
        (chain("'a'", " || 'a'", 50_000), "54001"),
        (chain("1", "::int", 50_000), "54001"),
        (chain("1", " IS NOT NULL", 50_000), "54001"),
        (chain("1", " UNION ALL SELECT 1, 1", 50_000), "54001"),
        (chain("1", " EXCEPT SELECT 1, 1", 10_000), "54001"),
        (chain("1 FROM keyspace.keys", ", keyspace.keys", 10_000), "54001"),
        (chain("1 FROM keyspace.keys a", " JOIN keyspace.keys b ON true", 10_000), "54001"),
        (format!("WITH a0 AS (SELECT 1){built} SELECT 1 FROM a9999"), "54001"),
        (format!("WITH a0 AS (SELECT 1 AS a){doubled} SELECT 1 FROM a59"), "54001"),
        (format!("SELECT 1{}", " ".repeat(2_000_000)), "54001"),
    ]
}

#[test]
fn no_statement_is_deeper_than_the_stack() {
    let served = Served::start();
    let mut postgres = Postgres::connect(served.port);
    for (sql, code) in deep() {
        let shown = &sql[..sql.len().min(60)];
        for answer in [postgres.ask(&sql), postgres.ask_extended(&sql, &[])] {
            assert_eq!(answer.code(), code, "{shown}: {:?}", answer.error);
        }
    }
    // The command of Redis's port has the same bounds.
    let mut client = served.running.connect();
    for (sql, code) in deep() {
        let said = client.ask(&format!("*2\r\n$3\r\nSQL\r\n${}\r\n{sql}", sql.len()));
        assert!(said.starts_with(&format!("-ERR {code}")), "{}: {said}", &sql[..sql.len().min(60)]);
    }
    served.end();
}

#[test]
fn what_is_as_deep_as_it_may_be_runs() {
    let served = Served::start();
    let mut postgres = Postgres::connect(served.port);
    let union = chain("1", " UNION ALL SELECT 1", 150);
    assert_eq!(postgres.ask(&union).rows.len(), 151);
    assert_eq!(postgres.ask(&chain("1", " + 1", 190)).text(), "191");
    assert_eq!(postgres.ask(&chain("true", " AND 1 = 1", 400)).text(), "t");
    assert_eq!(postgres.ask(&chain("1", "::int", 400)).text(), "1");
    let list: String = (0..100_000).map(|i| format!(", 'k{i}'")).collect();
    let listed = format!("SELECT count(*) FROM keyspace.keys WHERE key IN ('count'{list})");
    assert_eq!(postgres.ask(&listed).text(), "1");
    assert_eq!(postgres.ask_extended(&listed, &[]).text(), "1");
    served.end();
}

#[test]
fn connections_that_say_half_of_something_and_go_are_forgotten() {
    let served = Served::start();
    let query = message(b'Q', b"SELECT 1\0");
    let opened = start(&["user", "default"]);
    let bind = extended("SELECT count(*) FROM keyspace.keys", &[], &[], &[], &[]);
    for round in 0..10_000 {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
        let bytes = match round % 6 {
            0 => Vec::new(),
            1 => opened[..round % opened.len()].to_vec(),
            2 => [&opened[..], &query[..round % query.len()]].concat(),
            3 => [&opened[..], &bind[..round % bind.len()]].concat(),
            4 => vec![round as u8; round % 100],
            _ => [&opened[..], &query].concat(),
        };
        // The server may have hung up.
        let _ = stream.write_all(&bytes);
    }
    eventually(|| served.running.connect().whole("INFO views").contains("views_open:0").then_some(()));
    served.end();
}

#[test]
fn messages_that_are_too_long_end_the_connection() {
    let served = Served::start();
    for head in [[0xff; 8], [0x7f; 8], [0, 0, 0, 4, 0, 0, 0, 0]] {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
        stream.write_all(&head).unwrap();
        assert_eq!(std::io::copy(&mut stream, &mut std::io::sink()).unwrap_or(0), 0);
    }
    for kind in [b'Q', b'P', b'B', b'd', b'p', b'?'] {
        let mut postgres = Postgres::connect(served.port);
        postgres.send(&[&[kind][..], &(1_u32 << 30).to_be_bytes(), &[b'x'; 1000]].concat());
        while postgres.receive().is_some() {}
    }
    let mut postgres = Postgres::connect(served.port);
    let garbage: Vec<u8> = (0..100_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let _ = postgres.stream.write_all(&garbage);
    while postgres.receive().is_some() {}
    served.end();
}

#[test]
fn messages_whose_parts_are_not_there_are_refused_and_nobody_panics() {
    let served = Served::start();
    let query = message(b'Q', b"SELECT 2\0");
    for body in [
        // Without its end it would continue in the query after it.
        &message(b'Q', b"SELECT 1")[..],
        &message(b'P', b"\0SELECT 1\0"),
        &message(b'P', b"\0SELECT 1\0\xff\xff"),
        &message(b'B', b"\0\0\0\0\0\x01\0\0\xff\xff"),
        &message(b'E', b"\0\0"),
        &message(b'D', b""),
        &message(b'S', b"SELECT 1\0"),
        &message(b'?', b""),
    ] {
        let mut postgres = Postgres::connect(served.port);
        postgres.send(&[body, &query].concat());
        let answer = postgres.answer();
        assert_eq!((answer.code(), answer.rows.len()), ("08P01", 0), "{}", body.escape_ascii());
        assert_eq!(answer.status, 0, "the connection goes on");
    }
    let cancel = [&12_u32.to_be_bytes()[..], &80_877_102_u32.to_be_bytes(), &[0; 4]].concat();
    let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
    stream.write_all(&cancel).unwrap();
    assert_eq!(std::io::copy(&mut stream, &mut std::io::sink()).unwrap_or(0), 0);
    assert!(!served.running.folder.messages().contains("panicked"));
    served.end();
}

#[test]
fn what_a_connection_keeps_is_bounded() {
    let served = Served::start();
    let mut postgres = Postgres::connect(served.port);
    let prepare = |i: u32| message(b'P', format!("s{i}\0SELECT {i}\0\0\0").as_bytes());
    let sync = message(b'S', b"");
    (0..1000).for_each(|i| postgres.send(&prepare(i)));
    postgres.send(&sync);
    assert_eq!(postgres.answer().code(), "");
    postgres.send(&[prepare(1000), sync.clone()].concat());
    assert_eq!(postgres.answer().code(), "53400");
    postgres.send(&[message(b'C', b"Ss1\0"), prepare(1000), sync.clone()].concat());
    assert_eq!(postgres.answer().code(), "");
    assert_eq!(postgres.ask("DEALLOCATE ALL").tags, ["DEALLOCATE ALL"]);
    postgres.send(&[prepare(0), sync.clone()].concat());
    assert_eq!(postgres.answer().code(), "");

    postgres.ask("BEGIN");
    let bind = |i: u32| message(b'B', format!("p{i}\0s0\0\0\0\0\0\0\0").as_bytes());
    (0..256).for_each(|i| postgres.send(&bind(i)));
    postgres.send(&[bind(256), sync.clone()].concat());
    assert_eq!(postgres.answer().code(), "53400");
    assert_eq!(postgres.ask("ROLLBACK; BEGIN").status, b'T');
    (0..256).for_each(|i| assert_eq!(postgres.ask(&format!("DECLARE c{i} CURSOR FOR SELECT 1")).code(), ""));
    assert_eq!(postgres.ask("DECLARE c CURSOR FOR SELECT 1").code(), "53400");
    assert_eq!(postgres.ask("ROLLBACK; BEGIN").status, b'T');
    (0..1000).for_each(|_| assert_eq!(postgres.ask("SAVEPOINT a").code(), ""));
    assert_eq!(postgres.ask("SAVEPOINT a").code(), "53400");
    served.end();
}

/// Statements that do not end in a lifetime: one whose operators pause now and then, and two that go through
/// all pairs of their rows and find none.
const ENDLESS: [&str; 3] = [
    "SELECT count(*) FROM generate_series(1, 100000000) a CROSS JOIN generate_series(1, 100000000) b",
    "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 100000000) b \
     WHERE a.value + b.value < 0",
    "SELECT count(*) FROM (SELECT value % 2 AS k, value FROM generate_series(1, 1000000)) a \
     JOIN (SELECT value % 2 AS k, value FROM generate_series(1, 100000000)) b \
     ON a.k = b.k AND a.value + b.value < 0",
];

/// A part of each.
const MARK: &str = "100000000";

/// A client whose statement runs, and another one.
fn busy(served: &Served, endless: &str) -> (Postgres, Postgres) {
    let mut busy = Postgres::connect(served.port);
    busy.send(&message(b'Q', &[endless.as_bytes(), b"\0"].concat()));
    let mut other = Postgres::connect(served.port);
    eventually(|| (other.ask("SHOW QUERIES").text().contains(MARK)).then_some(()));
    (busy, other)
}

#[test]
fn statements_without_end_are_cancelled() {
    let served = Served::start();
    for endless in ENDLESS {
        let mut postgres = Postgres::connect(served.port);
        postgres.ask("SET statement_timeout = 100");
        assert_eq!(postgres.ask(endless).code(), "57014", "{endless}");

        let (mut postgres, _) = busy(&served, endless);
        let request = [&16_u32.to_be_bytes()[..], &80_877_102_u32.to_be_bytes(), &postgres.key].concat();
        TcpStream::connect(("127.0.0.1", served.port)).unwrap().write_all(&request).unwrap();
        assert_eq!(postgres.answer().code(), "57014", "{endless}");
        assert_eq!(postgres.ask("SELECT 1").text(), "1");
    }
    served.end();
}

#[test]
fn statements_without_end_hold_up_nobody() {
    let served = Served::start_with(&["--analytics-threads", "1"]);
    for endless in ENDLESS {
        let (mut left, mut other) = busy(&served, endless);
        // There is one thread for statements.
        assert_eq!(other.ask("SELECT sum(value) FROM generate_series(1, 1000)").text(), "500500");
        assert!(!served.running.connect().ask("SQL 'SELECT 7'").starts_with('-'));
        let pid = i32::from_be_bytes(left.key[..4].try_into().unwrap());
        assert_eq!(other.ask(&format!("SELECT pg_cancel_backend({pid})")).text(), "t");
        assert_eq!(left.answer().code(), "57014", "{endless}");
    }
    served.end();
}

#[test]
fn numbers_in_statements_make_no_room_before_there_are_rows() {
    let served = Served::start();
    let mut postgres = Postgres::connect(served.port);
    let many = "SELECT value FROM generate_series(1, 3)";
    for number in ["1000001", "1000000000000000", "9223372036854775807"] {
        postgres.ask("BEGIN");
        assert_eq!(postgres.ask(&format!("DECLARE c CURSOR FOR {many}")).code(), "");
        let fetched = [format!("FETCH {number} FROM c"), format!("FETCH FORWARD {number} FROM c")];
        assert_eq!(postgres.ask(&fetched[0]).code(), "54000", "{number}");
        postgres.ask("ROLLBACK");
        postgres.ask("BEGIN");
        postgres.ask(&format!("DECLARE c CURSOR FOR {many}"));
        assert_eq!(postgres.ask(&fetched[1]).code(), "54000", "{number}");
        postgres.ask("ROLLBACK");
    }
    postgres.ask("BEGIN");
    postgres.ask(&format!("DECLARE c CURSOR FOR {many}"));
    assert_eq!(postgres.ask("FETCH 1000000 FROM c").text(), "1\n2\n3");
    postgres.ask("ROLLBACK");
    let largest = "SELECT DISTINCT value FROM generate_series(1, 3) ORDER BY value LIMIT 1000000000000000";
    assert_eq!(postgres.ask(largest).text(), "1\n2\n3");
    let grouped = "SELECT value % 2, max(value) AS m FROM generate_series(1, 3) GROUP BY 1 ORDER BY m DESC \
                   LIMIT 1000000000000000";
    assert_eq!(postgres.ask(grouped).text(), "1|3\n0|2");
    let percentile = |centroids: &str| {
        format!("SELECT approx_percentile_cont(value, 0.5, {centroids}) FROM generate_series(1, 3)")
    };
    assert_eq!(postgres.ask(&percentile("10000")).text(), "2");
    for centroids in ["10001", "1000000000000000", "1000000 * 1000000000"] {
        assert_eq!(postgres.ask(&percentile(centroids)).code(), "54001", "{centroids}");
    }
    served.end();
}

#[test]
fn what_a_client_that_is_gone_asked_for_is_given_up() {
    let served = Served::start();
    for endless in ENDLESS {
        let (gone, mut other) = busy(&served, endless);
        drop(gone);
        eventually(|| (!other.ask("SHOW QUERIES").text().contains(MARK)).then_some(()));
    }
    served.end();
}
