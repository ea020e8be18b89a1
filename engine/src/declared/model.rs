//! Model test of declarations: two threads declare and drop indexes, workers show figures and set
//! directives, and the store starts, in random orders of their steps.
//!
//! ```text
//!   2 declare and drop     turn ── file, which may fail ── gate closed ── published
//!   2 workers              gate ── figures of what is declared ── a directive, which is locked
//!   1 start                shows the store under the lock of directives, then has the wanted indexes made
//!                          nobody waits for ever; what is declared is what the store has
//! ```

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread;

use super::{Declared, Wanted, WantedIndexes};
use crate::gate::Gates;
use crate::lock::{Mutex, rank};

const WORKERS: usize = 2;

/// Which indexes the gate protects.
type Store = Gates<BTreeSet<u8>>;

struct Index(u8);

impl Wanted for Index {
    type Store = Store;
    type Error = ();

    fn make(self: &Arc<Self>, store: &Store) -> Result<(), ()> {
        let mut closed = store.close();
        closed.iter_mut().for_each(|indexes| assert!(indexes.insert(self.0), "it is made twice"));
        Ok(())
    }

    fn drop_from(&self, store: &Store) {
        let mut closed = store.close();
        closed.iter_mut().for_each(|indexes| assert!(indexes.remove(&self.0), "it was never made"));
    }

    fn is_same_as(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

struct House {
    store: Arc<Store>,
    is_there: AtomicBool,
    configuration: Mutex<(), rank::Configuration>,
    declared: Declared<BTreeSet<u8>>,
    wanted: WantedIndexes<Index>,
}

impl House {
    fn new() -> Arc<House> {
        let house = House {
            store: Arc::new(Gates::new((0..WORKERS).map(|_| BTreeSet::new()))),
            is_there: AtomicBool::new(false),
            configuration: Mutex::default(),
            declared: Declared::new([0].into()),
            wanted: WantedIndexes::default(),
        };
        // As a start finds it in the file.
        house.wanted.want(Arc::new(Index(0)), || None).unwrap();
        Arc::new(house)
    }

    fn find(&self) -> Option<Arc<Store>> {
        self.is_there.load(Ordering::SeqCst).then(|| self.store.clone())
    }

    fn make_all(&self) {
        self.wanted.make_all(|| self.find(), |_, ()| panic!("it can be made"));
    }

    /// As `CREATE INDEX`.
    fn declare(&self, index: u8) {
        self.make_all();
        let turn = self.declared.turn();
        let mut new = BTreeSet::clone(&turn.now());
        assert!(new.insert(index));
        self.wanted.want(Arc::new(Index(index)), || self.find()).unwrap();
        thread::yield_now();
        if thread_rng().gen_bool(0.3) {
            // The file could not be written.
            return self.wanted.want_no_more(&Index(index), || self.find());
        }
        turn.publish(new);
    }

    /// As `DROP INDEX`.
    fn drop_index(&self, index: u8) {
        self.make_all();
        let turn = self.declared.turn();
        let mut new = BTreeSet::clone(&turn.now());
        if !new.remove(&index) {
            return;
        }
        thread::yield_now();
        turn.publish(new);
        self.wanted.want_no_more(&Index(index), || self.find());
    }

    /// As a worker that runs `INFO` and `CONFIG SET` in one batch.
    fn work(&self, number: usize) {
        let Some(store) = self.find() else { return };
        let indexes = store.enter(number);
        let before = indexes.clone();
        assert!(self.declared.now().len() <= 3);
        drop(self.configuration.lock());
        thread::yield_now();
        assert_eq!(*indexes, before, "indexes change for who is inside the gate");
    }

    /// As a start: who sets a directive either is seen here or sees the store.
    fn open_doors(&self) {
        let configuration = self.configuration.lock();
        self.is_there.store(true, Ordering::SeqCst);
        thread::yield_now();
        drop(configuration);
        self.make_all();
    }
}

#[test]
fn what_is_declared_is_what_the_store_has_and_nobody_waits_for_ever() {
    let run = || {
        let house = House::new();
        let spawn = |act: Box<dyn Fn(&House) + Send>| {
            let house = house.clone();
            thread::spawn(move || act(&house))
        };
        let mut threads = vec![
            spawn(Box::new(House::open_doors)),
            spawn(Box::new(|house| {
                house.declare(1);
                house.drop_index(1);
                house.declare(1);
            })),
            spawn(Box::new(|house| {
                house.declare(2);
                house.drop_index(0);
            })),
        ];
        for number in 0..WORKERS {
            threads.push(spawn(Box::new(move |house| (0..3).for_each(|_| house.work(number)))));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let declared = house.declared.now();
        assert!((0..WORKERS).all(|number| *house.store.enter(number) == *declared));
    };
    shuttle::check_random(run, 5_000);
    shuttle::check_pct(run, 5_000, 4);
}
