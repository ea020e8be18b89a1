//! Measures the time that other clients wait while a large value is copied, renamed or moved; asserts no
//! time.
//!
//! `TARN_GIANTS=1000000 cargo test --release -p tarn --test giants -- --nocapture` measures with a million
//! elements. Without the variable it runs small, to keep the code working. It prints a line for each kind and
//! command: the time that the command took, and the longest time that a reader and a writer of other keys
//! waited meanwhile. These two send requests continuously, from connections of their own.
//! `docs/design/0009-renaming-giants.md` has the numbers.

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
        assert!(!client.ask(command).starts_with('-'), "{command}");
        let took = began.elapsed();
        stop.store(true, Ordering::Relaxed);
        (took, reader.join().unwrap(), writer.join().unwrap())
    });
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    println!(
        "{kind:4} {command:15} took {:8.1} ms; a reader waited {:8.1} ms at most, a writer {:8.1} ms",
        ms(took),
        ms(reader),
        ms(writer)
    );
}

#[test]
fn others_wait_while_a_giant_is_renamed() {
    let kinds: [(&str, &str, Element); 4] = [
        ("zset", "ZADD", |number| format!(" {number} member:{number}")),
        ("hash", "HSET", |number| format!(" field:{number} value:{number}")),
        ("set", "SADD", |number| format!(" member:{number}")),
        ("list", "RPUSH", |number| format!(" element:{number}")),
    ];
    let elements = std::env::var("TARN_GIANTS").map_or(ELEMENTS, |number| number.parse().unwrap());
    for appendonly in ["no", "yes"] {
        println!("appendonly {appendonly}, {elements} elements:");
        for (kind, command, element) in kinds {
            let (folder, port) = (Folder::new(), free_port());
            let _server =
                folder.serve(&["--port", &port.to_string(), "--threads", "2", "--appendonly", appendonly]);
            let mut client = Client::tcp("127.0.0.1", port);
            assert_eq!(client.ask("PING"), "+PONG");
            load(&mut client, (0..OTHERS).map(|number| format!("SET other:{number} v\r\n")));
            let fill = |from: usize| {
                let all: String = (from..from + AT_ONCE).map(element).collect();
                format!("{command} a{all}\r\n")
            };
            load(&mut client, (0..elements).step_by(AT_ONCE).map(fill));
            for command in ["COPY a c", "RENAME a b", "MOVE b 1"] {
                measure(port, &mut client, kind, command);
            }
        }
    }
}
