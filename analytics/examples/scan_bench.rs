//! Prints how many rows a second statements read on one core, in process: hashes of ten fields, 240 bytes
//! each with their key and the names of the fields. Above them what the engine alone does with the same
//! hashes: a walk that looks at entries, one that reads a number of each, and one that touches every field.
//! Below them statements that an index finds the rows of.
//!
//! `cargo run --release --workspace --example scan_bench [rows] [rounds] [statement]`; a million and five
//! unless said otherwise. A statement of one's own is over the tables `record` (id, number BIGINT, f1 … f9
//! TEXT) and `texts` (id, f0 … f9 TEXT); it alone is run then, without an index on `number` and with it.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use tarn_analytics::{Analytics, AnalyticsOptions, Session};
use tarn_engine::Engine;
use tarn_engine::io::SystemClock;
use tarn_engine::record::{Batch, Change, Write};
use tarn_engine::session::Access;
use tarn_engine::value::ValueRef;
use tarn_engine::{Entry, Group, KeyHash, ViewOptions};

/// That of the server: how fast memory is read depends on the pages that it gives out.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const TEXTS: usize = 9;
const TEXT_BYTES: usize = 21;
/// Numbers are below this.
const NUMBERS: u64 = 1_000_000;
const STATEMENTS: [&str; 8] = [
    "SELECT count(*) FROM record",
    "SELECT sum(number) FROM record",
    "SELECT count(*) FROM record WHERE number < 50000",
    "SELECT f1 FROM record WHERE number < 50000",
    "SELECT number % 100, count(*) FROM record GROUP BY 1",
    "SELECT f5 FROM texts",
    "SELECT f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 FROM texts",
    "SELECT * FROM record",
];

/// Statements that are read by an index.
const BY_INDEX: [&str; 2] =
    ["SELECT count(f5) FROM record WHERE number < 50000", "SELECT f1 FROM record WHERE number < 50000"];

/// The fields that are read of an entry, added up.
type Look = fn(&Entry) -> u64;

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (number ^ (number >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn fill(engine: &Engine, rows: u64) {
    let names: Vec<Vec<u8>> = (0..=TEXTS).map(|at| format!("f{at}").into_bytes()).collect();
    let mut group = Group::new();
    let mut bytes = 0;
    for number in 0..rows {
        let key = format!("record:{number:08}").into_bytes();
        let value_of = |at: usize| match at {
            0 => (mixed(number) % NUMBERS).to_string().into_bytes(),
            _ => format!("{:0TEXT_BYTES$x}", mixed(number * 16 + at as u64)).into_bytes(),
        };
        let puts: Vec<_> = names.iter().enumerate().map(|(at, name)| (name, value_of(at))).collect();
        bytes += key.len() + puts.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        let put = |(name, value): (&Vec<u8>, Vec<u8>)| {
            let change = Change::HashPut { field: name.clone().into(), value: value.into() };
            Write::Key { db: 0, key: key.clone().into(), change }
        };
        let batch: Batch<'_> = puts.into_iter().map(put).collect();
        let session = engine.enter(0);
        let mut latched = session.latch_places(&[(0, KeyHash::of(&key))], Access::Write, 0);
        latched.commit(&batch, &mut group).unwrap();
        latched.release();
    }
    println!("{rows} hashes, {:.0} bytes each", bytes as f64 / rows as f64);
}

/// Seconds that a walk of a view takes.
fn walk(engine: &Engine, mut look: impl FnMut(&Entry) -> u64) -> f64 {
    let began = Instant::now();
    let mut view = engine.open_view(ViewOptions::once_of(0, "bench")).unwrap();
    let mut sum = 0;
    let mut visit = |entry: &Entry| sum += look(entry);
    while view.step(&mut visit).unwrap().is_some() {}
    black_box(sum);
    began.elapsed().as_secs_f64()
}

fn number_in(entry: &Entry) -> u64 {
    let ValueRef::Hash(hash) = entry.value() else { return 0 };
    std::str::from_utf8(hash.get(b"f0").unwrap()).unwrap().parse().unwrap()
}

fn bytes_in(entry: &Entry) -> u64 {
    let ValueRef::Hash(hash) = entry.value() else { return 0 };
    let sum = |value: &[u8]| value.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    hash.iter().map(|(_, value)| sum(value)).sum()
}

/// Seconds that a statement takes, and the rows that it answers.
async fn ask(session: &Arc<Session>, sql: &str) -> (f64, usize) {
    let began = Instant::now();
    let mut rows = 0;
    let mut outcome = session.run(sql, None).await.unwrap();
    while let Some(batch) = outcome.rows.next().await {
        rows += black_box(batch.unwrap()).num_rows();
    }
    (began.elapsed().as_secs_f64(), rows)
}

fn tell(what: &str, rows: u64, mut seconds: Vec<f64>, answered: usize) {
    seconds.sort_by(f64::total_cmp);
    let speed = |seconds: f64| rows as f64 / seconds / 1e6;
    println!("{:>7.2} {:>7.2} {answered:>9}  {what}", speed(seconds[0]), speed(seconds[seconds.len() / 2]),);
}

async fn measure(session: &Arc<Session>, sql: &str, rows: u64, rounds: usize) {
    let (mut seconds, mut answered) = (Vec::new(), 0);
    for _ in 0..rounds {
        let (of_round, rows) = ask(session, sql).await;
        seconds.push(of_round);
        answered = rows;
    }
    tell(sql, rows, seconds, answered);
}

async fn declare(analytics: &Arc<Analytics>) -> Arc<Session> {
    let session = analytics.session();
    let columns = |from: usize| (from..=TEXTS).map(|at| format!(", f{at} TEXT")).collect::<String>();
    let of_hashes = "STORED AS HASH LOCATION 'record:*'";
    let options = "OPTIONS ('column.number' 'f0')";
    for sql in [
        format!("CREATE EXTERNAL TABLE record (id TEXT, number BIGINT{}) {of_hashes} {options}", columns(1)),
        format!("CREATE EXTERNAL TABLE texts (id TEXT{}) {of_hashes}", columns(0)),
    ] {
        ask(&session, &sql).await;
    }
    session
}

fn main() {
    let mut args = std::env::args().skip(1);
    let rows = args.next().map_or(1_000_000, |rows| rows.parse().expect("a number of rows"));
    let rounds = args.next().map_or(5, |rounds| rounds.parse().expect("a number of rounds"));
    let own = args.next();
    let statements = own.as_deref().map_or(STATEMENTS.to_vec(), |own| vec![own]);
    let (engine, _background) = Engine::unlogged(1, 1, Arc::new(SystemClock::new()));
    fill(&engine, rows);
    println!("   best  median  answered  (million rows a second, {rounds} rounds)");
    let looks: [(&str, Look); 3] = [
        ("walk of a view", |entry| entry.key().len() as u64),
        ("walk of a view, a number of each", number_in),
        ("walk of a view, all bytes of each", bytes_in),
    ];
    if own.is_none() {
        for (what, look) in looks {
            let seconds = (0..rounds).map(|_| walk(&engine, look)).collect();
            tell(what, rows, seconds, rows as usize);
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = AnalyticsOptions {
            databases: 1,
            memory_bytes: 256 << 20,
            threads: 1,
            directory: None,
            export_directory: None,
        };
        let analytics = Analytics::open(options).await.unwrap();
        let store = engine.clone();
        analytics.read_from(move || Some(store.clone()));
        let session = declare(&analytics).await;
        for sql in statements {
            measure(&session, sql, rows, rounds).await;
        }
        ask(&session, "CREATE INDEX by_number ON record (number)").await;
        while !engine.index(0, "by_number").is_some_and(|index| index.is_ready()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        println!("by an index:");
        for sql in own.as_deref().map_or(BY_INDEX.to_vec(), |own| vec![own]) {
            measure(&session, sql, rows, rounds).await;
        }
    });
}
