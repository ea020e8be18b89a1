//! Measures the time that other clients wait while a large value is read, combined, copied, renamed or moved;
//! asserts no time.
//!
//! `TARN_GIANTS=1000000 cargo test --release -p tarn --test giants -- --nocapture` measures with a million
//! elements. Without the variable it runs small, to keep the code working. It prints a line for each kind and
//! command: the time that the command took, and the longest time that a reader and a writer of other keys
//! waited meanwhile. These two send requests continuously, from connections of their own. With one worker,
//! they share it with the command; with two, they have the other one.
//! `docs/design/0034-long-commands-run-in-steps.md` and `0037-large-values-are-prepared.md` have the numbers.

// A measurement may end by panicking.
#![allow(clippy::unwrap_used)]

mod running;

use std::io::{BufRead, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use running::{Client, Folder, free_port};

/// Elements of a giant, unless the environment says how many.
const ELEMENTS: usize = 1000;
/// Elements sent with one command, and commands sent at once.
const AT_ONCE: usize = 100;
/// Other keys, so that the table has many segments.
const OTHERS: usize = 100_000;

type Element = fn(usize) -> String;

/// Sends commands in batches and checks that none is refused.
fn load(client: &mut Client<TcpStream>, commands: impl Iterator<Item = String>) {
    let commands: Vec<String> = commands.collect();
    for batch in commands.chunks(AT_ONCE) {
        client.0.get_mut().write_all(batch.concat().as_bytes()).unwrap();
        for _ in batch {
            let mut line = String::new();
            client.0.read_line(&mut line).unwrap();
            assert!(!line.starts_with('-'), "{line}");
        }
    }
}

/// Asks on and on until `stop`; the longest wait.
fn longest_wait(
    mut client: Client<TcpStream>,
    stop: &AtomicBool,
    request: impl Fn(usize) -> String,
) -> Duration {
    let mut longest = Duration::ZERO;
    for number in 0.. {
        let began = Instant::now();
        client.ask(&request(number * 7919 % OTHERS));
        longest = longest.max(began.elapsed());
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    longest
}

/// Runs a command and reads all of its reply, in whatever it consists.
fn run(client: &mut Client<TcpStream>, command: &str) {
    const END: &str = "the end of the reply";
    client.0.get_mut().write_all(format!("{command}\r\nECHO \"{END}\"\r\n").as_bytes()).unwrap();
    let mut line = String::new();
    client.0.read_line(&mut line).unwrap();
    assert!(!line.starts_with('-'), "{command}: {line}");
    while line.trim_end() != END {
        line.clear();
        client.0.read_line(&mut line).unwrap();
    }
}

fn measure(port: u16, client: &mut Client<TcpStream>, kind: &str, command: &str) {
    // Connections are dealt to the two workers in turn, and the client has the first worker: so reader and
    // writer are with the other one.
    let [reader, _, writer, _] = [(); 4].map(|()| {
        let mut client = Client::tcp("127.0.0.1", port);
        assert_eq!(client.ask("PING"), "+PONG");
        client
    });
    let stop = AtomicBool::new(false);
    let (took, reader, writer) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| longest_wait(reader, &stop, |number| format!("GET other:{number}")));
        let writer = scope.spawn(|| longest_wait(writer, &stop, |number| format!("SET other:{number} w")));
        std::thread::sleep(Duration::from_millis(300));
        let began = Instant::now();
        run(client, command);
        let took = began.elapsed();
        stop.store(true, Ordering::Relaxed);
        (took, reader.join().unwrap(), writer.join().unwrap())
    });
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    println!(
        "{kind:4} {command:26} took {:8.1} ms; a reader waited {:8.1} ms at most, a writer {:8.1} ms",
        ms(took),
        ms(reader),
        ms(writer)
    );
}

/// The kinds of values, with the commands that make them and that go through all of them.
const KINDS: [(&str, &str, Element, &[&str]); 4] = [
    (
        "zset",
        "ZADD",
        |number| format!(" {number} member:{number}"),
        &["ZRANGE a 0 -1 WITHSCORES", "ZUNION 2 a a", "ZUNIONSTORE d 2 a a"],
    ),
    ("hash", "HSET", |number| format!(" field:{number} value:{number}"), &["HGETALL a", "HVALS a"]),
    (
        "set",
        "SADD",
        |number| format!(" member:{number}"),
        &["SMEMBERS a", "SUNION a a", "SINTER a a", "SORT a ALPHA", "SUNIONSTORE d a a"],
    ),
    ("list", "RPUSH", |number| format!(" {number}"), &["LRANGE a 0 -1", "SORT a DESC", "SORT a STORE d"]),
];

fn measure_all(threads: &str, appendonly: &str, commands: impl Fn(&[&'static str]) -> Vec<&'static str>) {
    let elements = std::env::var("TARN_GIANTS").map_or(ELEMENTS, |number| number.parse().unwrap());
    println!("{threads} workers, appendonly {appendonly}, {elements} elements:");
    for (kind, command, element, of_kind) in KINDS {
        let (folder, port) = (Folder::new(), free_port());
        let _server =
            folder.serve(&["--port", &port.to_string(), "--threads", threads, "--appendonly", appendonly]);
        let mut client = Client::tcp("127.0.0.1", port);
        assert_eq!(client.ask("PING"), "+PONG");
        load(&mut client, (0..OTHERS).map(|number| format!("SET other:{number} v\r\n")));
        let fill = |from: usize| {
            let all: String = (from..from + AT_ONCE).map(element).collect();
            format!("{command} a{all}\r\n")
        };
        load(&mut client, (0..elements).step_by(AT_ONCE).map(fill));
        for command in commands(of_kind) {
            measure(port, &mut client, kind, command);
        }
    }
}

#[test]
fn others_wait_while_a_giant_is_renamed() {
    for appendonly in ["no", "yes"] {
        measure_all("2", appendonly, |_| vec!["COPY a c", "RENAME a b", "MOVE b 1"]);
    }
}

#[test]
fn others_wait_while_a_giant_is_read() {
    // Without a command: what the machine alone makes others wait.
    measure_all("1", "no", |of_kind| [&["PING"], of_kind, &["KEYS *", "DEL a"]].concat());
}
