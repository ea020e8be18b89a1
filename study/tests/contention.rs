//! Transactions that all want the same row make progress.

#![allow(clippy::unwrap_used)]

use std::sync::mpsc;
use std::time::Duration;

use tarn_study::Shape;
use tarn_study::transaction::{
    Calc, Cpr, PartialCalc, Store, TransactionError, VirtualAlgorithm, VirtualHourglass, VirtualPiggyback,
};

const THREADS: u64 = 16;
const TRANSACTIONS: u64 = 500;
/// None of them takes long unless they keep each other from it for ever.
const LIMIT: Duration = Duration::from_secs(100);

fn all_read_and_write_one_row<V: VirtualAlgorithm + 'static>() {
    let (store, _snapshotter) = Store::<V>::new(Shape::new(4, 8).unwrap()).unwrap();
    let (done, is_done) = mpsc::channel();
    for _ in 0..THREADS {
        let (store, done) = (store.clone(), done.clone());
        std::thread::spawn(move || {
            let mut fields = [0];
            for _ in 0..TRANSACTIONS {
                let one_more = store.run(|transaction| {
                    transaction.read(1, &mut fields)?;
                    fields[0] += 1;
                    // Time for others to read it, too.
                    std::thread::yield_now();
                    transaction.write(1, &fields)?;
                    Ok::<_, TransactionError>(())
                });
                one_more.unwrap();
            }
            done.send(()).unwrap();
        });
    }
    for thread in 0..THREADS {
        is_done.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("only {thread} threads have come to an end"));
    }
    let mut fields = [0];
    store.run(|transaction| transaction.read(1, &mut fields)).unwrap();
    assert_eq!(fields, [THREADS * TRANSACTIONS]);
    // Many times as many where they wait for each other's reading.
    let conflicts = store.counts().conflicts;
    assert!(conflicts < 10 * THREADS * TRANSACTIONS, "{conflicts} conflicts");
}

#[test]
fn sixteen_threads_that_read_and_write_one_row_come_on() {
    all_read_and_write_one_row::<Calc>();
    all_read_and_write_one_row::<PartialCalc>();
    all_read_and_write_one_row::<Cpr>();
    all_read_and_write_one_row::<VirtualHourglass>();
    all_read_and_write_one_row::<VirtualPiggyback>();
}
