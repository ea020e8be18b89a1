//! Prints what views cost: a write while none is open pays one look at the cuts in force, and one at the
//! versions that its segment keeps; beside it a whole overwrite, without network and log. And how long it
//! takes to open a view.
//!
//! `cargo run --release -p tarn-engine --example views_bench [keys]`; a million unless said otherwise.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tarn_engine::Engine;
use tarn_engine::io::SystemClock;
use tarn_engine::log::Group;
use tarn_engine::record::{Batch, Change, Lsn, Write};
use tarn_engine::session::Access;
use tarn_engine::{KeyHash, ViewOptions};

const ROUNDS: usize = 5;
const OPENINGS: usize = 10_000;
const LOOKS: u64 = 100_000_000;
const VALUE_BYTES: usize = 100;

fn overwrite_all(engine: &Engine, keys: u64) -> f64 {
    let mut group = Group::new();
    let began = Instant::now();
    for number in 0..keys {
        // Neither in the order of the inserts nor in that of the table.
        let key = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys).to_string().into_bytes();
        let hash = KeyHash::of(&key);
        let change = Change::Put { value: vec![b'v'; VALUE_BYTES].into(), expiry: None };
        let batch = Batch::from_iter([Write::Key { db: 0, key: key.into(), change }]);
        let session = engine.enter(0);
        let mut latched = session.latch_places(&[(0, hash)], Access::Write, 0);
        latched.commit(&batch, &mut group).unwrap();
        latched.release();
    }
    began.elapsed().as_secs_f64() * 1e9 / keys as f64
}

/// The microseconds that it takes to open a view.
fn open_and_close(engine: &Engine) -> f64 {
    let began = Instant::now();
    let view = engine.open_view(ViewOptions::pinned("bench")).unwrap();
    let opening = began.elapsed().as_secs_f64() * 1e6;
    drop(view);
    opening
}

fn main() {
    let keys = std::env::args().nth(1).map_or(1_000_000, |keys| keys.parse().expect("a number of keys"));
    let (engine, _background) = Engine::unlogged(1, 1, Arc::new(SystemClock::new()));
    overwrite_all(&engine, keys);
    for round in 1..=ROUNDS {
        let began = Instant::now();
        for number in 0..LOOKS {
            black_box(engine.views().before(black_box(Lsn(number)), || Lsn(number)));
        }
        let look = began.elapsed().as_secs_f64() * 1e9 / LOOKS as f64;
        let idle = overwrite_all(&engine, keys);
        let mut openings: Vec<f64> = (0..OPENINGS).map(|_| open_and_close(&engine)).collect();
        openings.sort_by(f64::total_cmp);
        let view = engine.open_view(ViewOptions::pinned("bench")).unwrap();
        let kept = overwrite_all(&engine, keys);
        drop(view);
        println!(
            "round {round}: look at the cuts {look:.2} ns, {:.2} % of an overwrite of {idle:.0} ns; \
             view opened in {:.1} µs (median), {:.1} µs (99 %), {:.1} µs (longest); \
             overwrite that keeps the old value {kept:.0} ns",
            look / idle * 100.0,
            openings[OPENINGS / 2],
            openings[OPENINGS * 99 / 100],
            openings[OPENINGS - 1],
        );
    }
}
