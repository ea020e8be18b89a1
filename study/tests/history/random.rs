//! Random transactions under threads, while snapshot after snapshot is taken. `TARN_SEED` runs one seed
//! alone.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tarn_study::transaction::{
    Calc, Counts, Cpr, PartialCalc, Store, TransactionError, VirtualAlgorithm, VirtualHourglass,
    VirtualPiggyback,
};

use crate::graph::{Cut, Record, check};
use crate::recorder::{Clock, Merged, Notes, shape};

const TRANSACTIONS_LIMIT: usize = 4_000;

/// A transaction's error of its own.
#[derive(Debug)]
enum Stop {
    OnPurpose,
    Transaction,
}

impl From<TransactionError> for Stop {
    fn from(_: TransactionError) -> Stop {
        Stop::Transaction
    }
}

/// The access of a transaction to a row: it adds to the row, or reads it.
struct Step {
    row: usize,
    add: Option<u64>,
}

/// Payments between rows and reads of others. A third of the rows is written always, a third seldom, the rest
/// never.
fn plan(rng: &mut StdRng, rows: usize) -> Vec<Step> {
    let third = rows.div_ceil(3);
    let row = |rng: &mut StdRng| {
        let seldom = usize::from(rng.random_range(0..50) == 0) * third;
        (rng.random_range(0..third) + seldom).min(rows - 1)
    };
    let mut steps = Vec::new();
    for _ in 0..rng.random_range(0..3) {
        let amount = rng.random_range(1..100_u64);
        steps.push(Step { row: row(rng), add: Some(amount.wrapping_neg()) });
        steps.push(Step { row: row(rng), add: Some(amount) });
    }
    for _ in 0..rng.random_range(0..3) {
        let at = rng.random_range(0..=steps.len());
        steps.insert(at, Step { row: rng.random_range(0..rows), add: None });
    }
    steps
}

fn client<V: VirtualAlgorithm>(
    store: &Store<V>,
    thread: u64,
    mut rng: StdRng,
    clock: &Clock,
    stop: &AtomicBool,
) -> Vec<Record> {
    let mut records = Vec::new();
    let rows = store.shape().rows;
    while !stop.load(Ordering::Relaxed) && records.len() < TRANSACTIONS_LIMIT {
        let number = (records.len() as u64 + 1) << 8 | thread;
        let steps = plan(&mut rng, rows);
        let gives_up = rng.random_range(0..20) == 0;
        let yields = rng.random_range(0..4) == 0;
        let began = clock.tick();
        let outcome = store.run(|transaction| {
            let mut notes = Notes::default();
            for step in &steps {
                match step.add {
                    Some(amount) => notes.add(transaction, number, step.row, amount)?,
                    None => notes.read(transaction, step.row).map(|_| ())?,
                }
                if yields {
                    std::thread::yield_now();
                }
            }
            if gives_up { Err(Stop::OnPurpose) } else { Ok(notes) }
        });
        match outcome {
            Ok(notes) => records.push(notes.record(number, began, clock.tick())),
            Err(stop) => assert!(matches!(stop, Stop::OnPurpose), "{stop:?}"),
        }
    }
    records
}

/// Takes snapshots while clients run; some are abandoned, some only after they were shown in part.
fn history<V: VirtualAlgorithm>(seed: u64, snapshots: usize) -> (Vec<Record>, Vec<Cut>, Counts) {
    let mut rng = StdRng::seed_from_u64(seed);
    let rows = rng.random_range(2..=16);
    let (store, mut snapshotter) = Store::<V>::new(shape(rows)).unwrap();
    let (clock, stop) = (Clock::default(), AtomicBool::new(false));
    let mut cuts = Vec::new();
    let records = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..rng.random_range(2..5))
            .map(|thread| {
                let (store, clock, stop) = (&store, &clock, &stop);
                let rng = StdRng::seed_from_u64(seed * 100 + thread);
                scope.spawn(move || client(store, thread, rng, clock, stop))
            })
            .collect();
        let mut merged = Merged::new(rows);
        for _ in 0..snapshots {
            for _ in 0..rng.random_range(0..20) {
                std::thread::yield_now();
            }
            let called = clock.tick();
            let mut snapshot = snapshotter.take();
            let returned = clock.tick();
            if rng.random_range(0..4) == 0 {
                let mut left = rng.random_range(0..rows);
                let broken_off: Result<(), ()> = snapshot.traverse(|_, _| {
                    left = left.checked_sub(1).ok_or(())?;
                    Ok(())
                });
                if broken_off.is_err() && rng.random() {
                    continue;
                }
            }
            let versions = merged.add(&mut snapshot);
            let sum = merged.rows.iter().fold(0, |sum: u64, row| sum.wrapping_add(row[0]));
            assert_eq!(sum, 0, "{} seed {seed}: no money is made", V::NAME);
            cuts.push(Cut { versions, called, returned });
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    (records, cuts, store.counts())
}

fn checks<V: VirtualAlgorithm>() {
    let alone = std::env::var("TARN_SEED").ok().map(|seed| seed.parse().unwrap());
    let seeds = alone.map_or(0..16, |seed: u64| seed..seed + 1);
    let (mut transactions, mut total) = (0, Counts::default());
    for seed in seeds {
        let (records, cuts, counts) = history::<V>(seed, 30);
        if let Err(wrong) = check(&records, &cuts) {
            panic!("{}, TARN_SEED={seed}: {wrong}", V::NAME);
        }
        transactions += records.len();
        total.conflicts += counts.conflicts;
        total.restarts += counts.restarts;
    }
    println!("{}: {transactions} transactions, {total:?}", V::NAME);
}

#[test]
fn calc_shows_a_prefix_of_the_order() {
    checks::<Calc>();
}

#[test]
fn partial_calc_shows_a_prefix_of_the_order() {
    checks::<PartialCalc>();
}

#[test]
fn cpr_shows_a_prefix_of_the_order() {
    checks::<Cpr>();
}

#[test]
fn virtual_hourglass_shows_a_prefix_of_the_order() {
    checks::<VirtualHourglass>();
}

#[test]
fn virtual_piggyback_shows_a_prefix_of_the_order() {
    checks::<VirtualPiggyback>();
}
