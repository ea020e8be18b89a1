//! Messages of PostgreSQL's protocol, in any order and with faults, before and after a client has sent its
//! user name.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::Scene;
use crate::running::LIMIT;
use crate::running::postgres::{Postgres, message, start};

/// Connections of a seed.
const CONNECTIONS: usize = 60;

const SQL: [&str; 9] = [
    "SELECT 1",
    "SELECT $1::int + 1",
    "SELECT a, s FROM t WHERE a > $1 ORDER BY a",
    "BEGIN",
    "COMMIT",
    "SELECT nothing FROM nowhere",
    "DECLARE c CURSOR FOR SELECT * FROM t",
    "FETCH 3 FROM c",
    "",
];
const NAMES: [&str; 4] = ["", "s", "p", "none"];

fn name(rng: &mut SmallRng) -> Vec<u8> {
    [NAMES.choose(rng).unwrap().as_bytes(), b"\0"].concat()
}

fn count(rng: &mut SmallRng, right: i16) -> [u8; 2] {
    match rng.random_range(0..8) {
        0 => rng.random::<i16>().to_be_bytes(),
        1 => (right + 1).to_be_bytes(),
        _ => right.to_be_bytes(),
    }
}

/// A message that is right, or whose counts are not.
fn one(rng: &mut SmallRng) -> Vec<u8> {
    let text = [SQL.choose(rng).unwrap().as_bytes(), b"\0"].concat();
    match rng.random_range(0..16) {
        0 => message(b'Q', &text),
        1..=3 => {
            let types: Vec<u8> = [23_u32, 25, 0, 99_999].choose(rng).unwrap().to_be_bytes().to_vec();
            message(b'P', &[name(rng), text, count(rng, 1).to_vec(), types].concat())
        }
        4..=6 => {
            let value = [&1_i32.to_be_bytes()[..], b"7"].concat();
            let value =
                if rng.random_ratio(1, 5) { rng.random::<i32>().to_be_bytes().to_vec() } else { value };
            let formats = [count(rng, 1).to_vec(), vec![0, u8::from(rng.random_ratio(1, 4))]].concat();
            let results = [count(rng, 1).to_vec(), vec![0, u8::from(rng.random::<bool>())]].concat();
            let body = [name(rng), name(rng), formats, count(rng, 1).to_vec(), value, results].concat();
            message(b'B', &body)
        }
        7 => message(b'D', &[vec![*b"SPx".choose(rng).unwrap()], name(rng)].concat()),
        8..=9 => {
            let most = [0_i32, 1, -1, i32::MAX].choose(rng).unwrap().to_be_bytes();
            message(b'E', &[name(rng), most.to_vec()].concat())
        }
        10 => message(b'S', b""),
        11 => message(b'C', &[vec![*b"SPx".choose(rng).unwrap()], name(rng)].concat()),
        12 => message(b'H', b""),
        13 => message(*b"dcf".choose(rng).unwrap(), b"some rows\n"),
        14 => proof(rng),
        _ => message(rng.random(), &(0..rng.random_range(0..20)).map(|_| rng.random()).collect::<Vec<u8>>()),
    }
}

/// An answer to the question for a password, of the one way that there is, or of none.
fn proof(rng: &mut SmallRng) -> Vec<u8> {
    let mut first = b"n,,n=,r=fyko+d2lbbFgONRv9qkxdawL".to_vec();
    let mut last = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=".to_vec();
    for text in [&mut first, &mut last] {
        if rng.random_ratio(1, 3) {
            spoil(rng, text);
        }
    }
    let way: &[u8] = if rng.random_ratio(1, 6) { b"SCRAM-SHA-1\0" } else { b"SCRAM-SHA-256\0" };
    let first = [way, &(first.len() as i32).to_be_bytes(), &first].concat();
    match rng.random_range(0..4) {
        0 => message(b'p', b"password\0"),
        1 => message(b'p', &first),
        _ => [message(b'p', &first), message(b'p', &last)].concat(),
    }
}

/// Spoils bytes: one is changed, some are dropped or come twice, a length is another.
fn spoil(rng: &mut SmallRng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = rng.random_range(0..bytes.len());
    match rng.random_range(0..5) {
        0 => bytes[at] = rng.random(),
        1 => bytes.truncate(at),
        2 => bytes[at] ^= 1 << rng.random_range(0..8),
        3 => drop(bytes.drain(at..(at + rng.random_range(1..5)).min(bytes.len()))),
        _ => {
            let part = bytes[at..(at + 8).min(bytes.len())].to_vec();
            bytes.splice(at..at, part);
        }
    }
}

/// All bytes that one client sends.
fn conversation(rng: &mut SmallRng) -> Vec<u8> {
    let mut bytes = match rng.random_range(0..8) {
        0 => Vec::new(),
        1 => [&8_u32.to_be_bytes()[..], &80_877_103_u32.to_be_bytes()].concat(),
        2 => [&16_u32.to_be_bytes()[..], &80_877_102_u32.to_be_bytes(), &rng.random::<[u8; 8]>()].concat(),
        _ => start(&["user", "default", "database", "tarn"]),
    };
    if rng.random_ratio(1, 5) {
        spoil(rng, &mut bytes);
    }
    if rng.random_ratio(1, 4) {
        bytes.extend(proof(rng));
    }
    for _ in 0..rng.random_range(0..12) {
        let mut message = one(rng);
        if rng.random_ratio(1, 6) {
            spoil(rng, &mut message);
        }
        bytes.extend(message);
    }
    bytes
}

/// Sends it, hangs up halfway, and waits until the server has hung up, too.
fn talk(port: u16, bytes: &[u8], what: &str) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    // The server may have hung up before all is sent.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
            Err(error) => panic!("{what}: {error} after {}", bytes.escape_ascii()),
        }
    }
}

fn one_seed(scene: &mut Scene, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    for _ in 0..CONNECTIONS {
        talk(scene.sql_port, &conversation(&mut rng), &format!("seed {seed}"));
    }
    scene.check(&format!("seed {seed}"));
}

#[test]
fn messages_by_chance_end_a_connection_at_most() {
    let mut scene = Scene::start(&[]);
    for seed in tarn_engine::io::seeds(tarn_engine::io::seed_count(60)) {
        one_seed(&mut scene, seed);
        assert_eq!(Postgres::connect(scene.sql_port).ask("SELECT 1").text(), "1", "seed {seed}");
    }
}

#[test]
fn messages_by_chance_are_no_password() {
    let mut scene = Scene::start(&[]);
    scene.client.ask(&["CONFIG", "SET", "requirepass", "secret"]);
    for seed in tarn_engine::io::seeds(tarn_engine::io::seed_count(10)) {
        one_seed(&mut scene, seed);
    }
}
