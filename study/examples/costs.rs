//! Counts what an update costs with each algorithm, and a transaction with each virtual one: instructions,
//! accesses to memory and misses of simulated caches. These counts do not depend on what else the machine
//! does, as times do.
//!
//! `cargo run --release -p tarn-study --example costs [rows [bytes of a row [algorithm …]]]`; 16 million rows
//! of 64 bytes and all algorithms unless said otherwise. It needs `valgrind`, which runs this program again
//! for each count, and takes some minutes.
//!
//! ```text
//!   one run      |array made|updates of some rows|(taken)|                      |
//!   and another  |array made|updates of some rows|(taken)|the same updates again|
//!                                                        |-- the difference ----|
//! ```
//!
//! - One client, and rows at random, of which none comes twice. A transaction reads and writes ten of them.
//! - "quiet" is without a snapshot. "first" is after a snapshot was taken, of which nothing was shown: each
//!   update is the first of its row, and the row was written in the period before.
//! - The caches are those of one core here: 48 KB, and 32 MB behind it. The simulator knows no cache between
//!   them, fetches nothing ahead, and does not count page tables.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use tarn_study::transaction::{
    Calc, Cpr, Store, TransactionError, VirtualAlgorithm, VirtualHourglass, VirtualPiggyback,
};
use tarn_study::{
    Algorithm, Array, CopyOnUpdate, Hourglass, Naive, Piggyback, PingPong, PublishedHourglass,
    PublishedPiggyback, Shape, Zigzag,
};

/// Updates that are counted, each of another row. The marks of 16 million rows are then all in use.
const UPDATES: usize = 1_000_000;
/// Rows of a transaction.
const ROWS: usize = 10;

/// The task of a run.
struct Work {
    shape: Shape,
    /// A snapshot is taken before the updates that are counted.
    taken: bool,
    /// The updates that are counted are made.
    counted: bool,
}

type Run = fn(&Work) -> Result<(), TransactionError>;

/// The algorithms, with the updates of a unit that is counted: one, or those of a transaction.
const SUBJECTS: [(&str, Run, usize); 12] = [
    (Naive::NAME, updates::<Naive>, 1),
    (CopyOnUpdate::NAME, updates::<CopyOnUpdate>, 1),
    (Zigzag::NAME, updates::<Zigzag>, 1),
    (PingPong::NAME, updates::<PingPong>, 1),
    (Hourglass::NAME, updates::<Hourglass>, 1),
    (Piggyback::NAME, updates::<Piggyback>, 1),
    (PublishedHourglass::NAME, updates::<PublishedHourglass>, 1),
    (PublishedPiggyback::NAME, updates::<PublishedPiggyback>, 1),
    (Calc::<false>::NAME, transactions::<Calc>, ROWS),
    (Cpr::NAME, transactions::<Cpr>, ROWS),
    (VirtualHourglass::NAME, transactions::<VirtualHourglass>, ROWS),
    (VirtualPiggyback::NAME, transactions::<VirtualPiggyback>, ROWS),
];

/// The columns of the table, and the simulator's events that they are the sums of.
const COLUMNS: [(&str, &[&str]); 7] = [
    ("instr.", &["Ir"]),
    ("branches", &["Bc", "Bi"]),
    ("loads", &["Dr"]),
    ("stores", &["Dw"]),
    ("48 KB missed", &["D1mr", "D1mw"]),
    ("32 MB, loads", &["DLmr"]),
    ("32 MB, stores", &["DLmw"]),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.as_slice() {
        [flag, name, rows, row_bytes, taken, counted] if flag == "--run" => {
            run(name, rows, row_bytes, taken == "true", counted == "true")
        }
        _ => print_all(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("costs [rows [bytes of a row [algorithm …]]]: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The work that is counted, in a process of its own.
fn run(name: &str, rows: &str, row_bytes: &str, taken: bool, counted: bool) -> Result<(), Box<dyn Error>> {
    let shape = Shape::new(rows.parse()?, row_bytes.parse()?)?;
    let (_, run, _) = SUBJECTS.iter().find(|(subject, ..)| *subject == name).ok_or("no such algorithm")?;
    Ok(run(&Work { shape, taken, counted })?)
}

fn print_all(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let rows = arguments.first().map_or("16000000", String::as_str);
    let row_bytes = arguments.get(1).map_or("64", String::as_str);
    let wanted = arguments.get(2..).unwrap_or_default();
    if rows.parse::<usize>()? < UPDATES {
        return Err(format!("at least {UPDATES} rows, as each is updated once").into());
    }
    let directory = tempfile::tempdir()?;
    print!("{:<22} {:>5}", "", "");
    COLUMNS.iter().for_each(|(column, _)| print!(" {column:>13}"));
    println!();
    for (name, _, updates) in SUBJECTS {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        for (taken, when) in [("false", "quiet"), ("true", "first")] {
            let file = directory.path().join("counts");
            let [without, with] = ["false", "true"]
                .map(|counted| counts(&["--run", name, rows, row_bytes, taken, counted], &file));
            let (without, with) = (without?, with?);
            print!("{name:<22} {when:>5}");
            for (_, events) in COLUMNS {
                let sum = |counts: &HashMap<String, f64>| {
                    events.iter().filter_map(|event| counts.get(*event)).sum::<f64>()
                };
                print!(" {:>13.2}", (sum(&with) - sum(&without)) / (UPDATES / updates) as f64);
            }
            println!();
        }
    }
    Ok(())
}

/// The events of a run of this program under the simulator.
fn counts(arguments: &[&str], file: &Path) -> Result<HashMap<String, f64>, Box<dyn Error>> {
    let status = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes"])
        .args(["--I1=32768,8,64", "--D1=49152,12,64", "--LL=33554432,16,64"])
        .arg(format!("--cachegrind-out-file={}", file.display()))
        .arg(std::env::current_exe()?)
        .args(arguments)
        .stderr(Stdio::null())
        .status()
        .map_err(|error| format!("valgrind: {error}"))?;
    if !status.success() {
        return Err(format!("valgrind: {status}").into());
    }
    let text = fs::read_to_string(file)?;
    let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    let sums = line("summary: ").split_whitespace().map(str::parse::<f64>);
    let named = line("events: ").split_whitespace().zip(sums);
    named.map(|(event, sum)| Ok((event.to_owned(), sum?))).collect()
}

/// All rows at random, each once, always in the same order: those among the numbers below a power of two,
/// which are scattered.
fn rows(shape: Shape) -> impl Iterator<Item = usize> {
    let bits = (u64::BITS - (shape.rows as u64 - 1).leading_zeros()).max(2);
    let (largest, half) = ((1_u64 << bits) - 1, bits / 2);
    // Both steps of a turn can be undone, so no two numbers become the same.
    let turn = move |number: u64, odd: u64| {
        let product = number.wrapping_mul(odd) & largest;
        product ^ (product >> half)
    };
    let scatter = move |number| turn(turn(number, 0x9e37_79b9_7f4a_7c15), 0xbf58_476d_1ce4_e5b9) as usize;
    (0..=largest).map(scatter).filter(move |row| *row < shape.rows)
}

/// Updates of whole rows.
fn updates<A: Algorithm>(work: &Work) -> Result<(), TransactionError> {
    let (mut clients, mut snapshotter) = Array::<A>::new(work.shape, 1)?;
    let mut fields = vec![0; work.shape.fields];
    let mut update = || {
        let mut turn = clients[0].turn();
        rows(work.shape).take(UPDATES).try_for_each(|row| {
            fields[0] += 1;
            turn.write(row, &fields)
        })
    };
    update()?;
    let snapshot = work.taken.then(|| snapshotter.take()).transpose()?;
    if work.counted {
        update()?;
    }
    // To abandon it would count as well.
    std::mem::forget(snapshot);
    Ok(())
}

/// The same updates, by transactions that read the rows as well.
fn transactions<V: VirtualAlgorithm>(work: &Work) -> Result<(), TransactionError> {
    let (store, mut snapshotter) = Store::<V>::new(work.shape)?;
    let mut fields = vec![0; work.shape.fields];
    let mut transact = || {
        let mut rows = rows(work.shape);
        (0..UPDATES / ROWS).try_for_each(|_| {
            let rows: [usize; ROWS] = std::array::from_fn(|_| rows.next().unwrap_or_default());
            store.run(|transaction| {
                rows.iter().try_for_each(|row| {
                    transaction.read(*row, &mut fields)?;
                    fields[0] += 1;
                    transaction.write(*row, &fields)
                })
            })
        })
    };
    transact()?;
    let snapshot = work.taken.then(|| snapshotter.take());
    if work.counted {
        transact()?;
    }
    std::mem::forget(snapshot);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_comes_once_and_not_in_order() {
        for count in [1, 2, 3, 4, 1000, 1024, 1025] {
            let shape = Shape::new(count, 64).expect("it has rows");
            let mut all: Vec<usize> = rows(shape).collect();
            let next = all.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
            assert!(count < 1000 || next < count / 50, "{next} of {count}");
            all.sort_unstable();
            assert!(all.into_iter().eq(0..count), "{count}");
        }
    }
}
