//! Question: does a thread that inserts wait while the table grows?
//!
//! One thread inserts keys into an empty table, then writes over the same keys, during which nothing grows.
//! Other work on the machine disturbs single commands; so all is repeated, in a fresh table that grows at the
//! very same keys, and each command's least time is what it costs itself. Expected: no insert over 1 ms.
//!
//! `cargo run --release -p tarn-engine --example growth_bench [keys]`; ten million keys unless said
//! otherwise.

#![allow(clippy::disallowed_methods)]

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tarn_engine::io::ManualClock;
use tarn_engine::log::Validity;
use tarn_engine::record::{Batch, Change, Write};
use tarn_engine::session::Access;
use tarn_engine::table::Table;
use tarn_engine::{Engine, Group, KeyHash};

/// Passes of which each command's least time is taken.
const REPEATS: usize = 3;

fn main() {
    let keys = std::env::args().nth(1).map_or(10_000_000, |text| text.parse().expect("a number of keys"));
    let mut least = [vec![Duration::MAX; keys], vec![Duration::MAX; keys]];
    println!("pass             commands      p50    p99.9  p99.999      max  (µs)");
    for repeat in 1..=REPEATS {
        let tables = vec![Arc::new(Table::default())];
        let clock = Arc::new(ManualClock::new(1));
        let (engine, _background) = Engine::new(tables, 1, None, Arc::new(Validity::new()), clock);
        for (pass, least) in ["insert", "overwrite"].iter().zip(&mut least) {
            let times: Vec<Duration> = (0..keys).map(|key| set(&engine, key)).collect();
            least.iter_mut().zip(&times).for_each(|(least, time)| *least = (*time).min(*least));
            print(&format!("{pass} {repeat}"), times);
        }
    }
    for (pass, least) in ["insert", "overwrite"].iter().zip(least) {
        print(&format!("{pass}, least"), least);
    }
}

/// Sets a key. Returns how long that took.
fn set(engine: &Engine, key: usize) -> Duration {
    let key = format!("key:{key:012}");
    let start = Instant::now();
    let session = engine.enter(0);
    let mut latched = session.latch_places(&[(0, KeyHash::of(key.as_bytes()))], Access::Write, 1);
    let change = Change::Put { value: Cow::Borrowed(&[b'v'; 32]), expiry: None };
    let write = Write::Key { db: 0, key: Cow::Borrowed(key.as_bytes()), change };
    latched.commit(&Batch::from_iter([write]), &mut Group::default()).expect("nothing is logged");
    latched.release();
    drop(session);
    start.elapsed()
}

fn print(pass: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    let (p50, p999, p99999, max) = (at(0.5), at(0.999), at(0.99999), at(1.0));
    println!("{pass:<17}{:>8} {p50:>8.2} {p999:>8.2} {p99999:>8.1} {max:>8.1}", times.len());
}
