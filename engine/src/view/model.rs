//! Model test of writers, views and a table that grows and shrinks, in random orders of their steps: the
//! real tables and views, on the locks and atomics of shuttle.
//!
//! ```text
//!   3 writers: move amounts between keys, which come and go      the sum of all is the same
//!   2 readers: open views, read them, close some early           in every view
//!   1 that splits and merges segments                            nothing is kept at the end
//!   1 that moves entries to other allocations, as the mover does
//! ```
//!
//! And with a thread that cancels views while they are read: a view that is read to its end has the sum.
//!
//! And with an index of the amounts, which is made and built meanwhile, behind gates as the engine has them:
//! 2 writers, 2 readers of the index.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use shuttle::thread;

use super::{Cancelled, View, ViewLimits, ViewOptions, Views};
use crate::index::{Direction, Index, IndexRange, IndexValue, Indexed, Indexes, maintained};
use crate::io::SystemClock;
use crate::lock::{RwLock, rank};
use crate::record::{Change, Lsn, Stamped};
use crate::table::latch::{AtomicU64, Ordering, WriteLatch};
use crate::table::{END, Entry, KeyHash, KeyRef, Retired, Segment, Table};
use crate::value::ValueRef;

const KEYS: u64 = 5;
const BALANCE: u64 = 10;
const SUM: u64 = KEYS * BALANCE;

struct Store {
    tables: [Arc<Table>; 1],
    /// A gate for each writer, and one for the others. It protects which indexes there are.
    gates: [RwLock<[Indexes; 1], rank::Gate>; 4],
    views: Arc<Views>,
    newest: AtomicU64,
}

fn key_of(number: u64) -> Vec<u8> {
    format!("account:{number}").into_bytes()
}

fn amount_in(entry: &Entry) -> u64 {
    let ValueRef::String(text) = entry.value() else { panic!("accounts are strings") };
    std::str::from_utf8(text.whole().unwrap()).unwrap().parse().unwrap()
}

impl Store {
    fn filled() -> Arc<Store> {
        let views = Arc::new(Views::new(Arc::new(SystemClock::new()), Box::new(|_| {})));
        let (tables, gates) = ([Arc::default()], Default::default());
        let store = Store { tables, gates, views, newest: AtomicU64::new(0) };
        for number in 0..KEYS {
            let mut latched = store.latch([number, number]);
            store.put(&mut latched, number, BALANCE, Lsn(number + 1), &Indexes::default());
        }
        store.newest.store(KEYS, Ordering::Relaxed);
        Arc::new(store)
    }

    fn newest(&self) -> Lsn {
        Lsn(self.newest.fetch_add(0, Ordering::AcqRel))
    }

    /// Latches the segments of two keys, as a session does.
    fn latch(&self, numbers: [u64; 2]) -> Vec<(usize, WriteLatch<'_>)> {
        let table = &self.tables[0];
        loop {
            let places = || numbers.map(|number| table.index_of(KeyHash::of(&key_of(number))));
            let mut wanted = places().to_vec();
            wanted.sort_unstable();
            wanted.dedup();
            let latched: Vec<_> = wanted.iter().map(|index| (*index, table.write(*index))).collect();
            if places().iter().all(|index| wanted.contains(index)) {
                return latched;
            }
        }
    }

    /// Sets what a key has, by turns in a new value and in the bytes of the one that it has; a key without
    /// anything is deleted.
    fn put(
        &self,
        latched: &mut [(usize, WriteLatch<'_>)],
        number: u64,
        amount: u64,
        lsn: Lsn,
        indexes: &Indexes,
    ) {
        let (table, key) = (&self.tables[0], key_of(number));
        let key = KeyRef::of(0, &key);
        let index = table.index_of(key.hash);
        let (_, segment) = latched.iter_mut().find(|(other, _)| *other == index).expect("it is latched");
        let text = format!("{amount:03}").into_bytes();
        let change = match amount {
            0 => Change::Delete,
            _ if lsn.0.is_multiple_of(2) => Change::Patch { offset: 0, bytes: text.into() },
            _ => Change::Put { value: text.into(), expiry: None },
        };
        let readers = self.views.before(lsn, || self.newest());
        let waiting = table.waiting(readers, key.hash);
        let mut retired = Retired::default();
        let write = Stamped { lsn, change: &change };
        let apply = |segment: &mut Segment| segment.apply(key, write, waiting, &mut retired);
        let ((effect, fits), kept) = maintained(indexes, segment, key, write, apply);
        retired.kept.add_all(kept);
        assert!(fits);
        table.note(index, effect);
        self.views.note_kept(retired.kept);
    }

    /// Moves `share` of what one key has to another: two records, one group.
    fn transfer(&self, writer: usize, from: u64, to: u64, share: u64) {
        let gate = self.gates[writer].read();
        let mut latched = self.latch([from, to]);
        let balance = |number: u64| {
            let key = key_of(number);
            let hash = KeyHash::of(&key);
            latched.iter().find_map(|(_, segment)| segment.find(hash, &key)).map_or(0, amount_in)
        };
        let (of_from, of_to) = (balance(from), balance(to));
        let amount = of_from.min(share);
        let first = Lsn(1 + self.newest.fetch_add(2, Ordering::AcqRel));
        self.put(&mut latched, from, of_from - amount, first, &gate[0]);
        self.put(&mut latched, to, of_to + amount, first.after(1), &gate[0]);
    }

    /// Puts all entries into new allocations, but for those that views may be reading.
    fn move_entries(&self) {
        let (_gate, table) = (self.gates[3].read(), &self.tables[0]);
        for index in 0..table.segments() {
            let mut segment = table.write(index);
            let readers = self.views.before(Lsn(1 << 63), || self.newest());
            let old = segment.move_entries(|entry| table.is_pinned(readers, entry));
            drop(segment);
            drop(old);
        }
    }

    fn open(&self, options: &[ViewOptions]) -> Vec<View> {
        let gate = self.gates[3].read();
        View::open(&self.views, options, (&self.tables, &*gate), || self.newest()).unwrap()
    }

    /// Makes an index, or drops it, behind the closed gate.
    fn set_indexes(&self, indexes: &Indexes) {
        let mut closed: Vec<_> = self.gates.iter().map(|gate| gate.write()).collect();
        closed.iter_mut().for_each(|gate| gate[0] = indexes.clone());
    }

    /// Reads all by the index, if it is ready.
    fn read_indexed(&self, direction: Direction) {
        let view = self.open(&[ViewOptions::indexed_of(0, "test")]).remove(0);
        self.gates.iter().for_each(|gate| drop(gate.write()));
        let Some(mut scan) = view.scan_index(0, "amounts", &IndexRange::ALL, direction) else { return };
        let mut sum = 0;
        loop {
            let pointers = view.next_pointers(&mut scan, 2).unwrap();
            if pointers.is_empty() {
                assert_eq!(sum, SUM);
                return;
            }
            let keys: Vec<&[u8]> = pointers.iter().map(|pointer| pointer.key()).collect();
            let mut read = 0;
            let look = |at: usize, entry: &Entry| {
                assert_eq!(pointers[at].value().as_integer(), Some(amount_in(entry) as i64));
                (read, sum) = (read + 1, sum + amount_in(entry));
            };
            view.read_keys(0, &keys, 64, look).unwrap();
            assert_eq!(read, keys.len());
        }
    }

    fn read_once(&self) -> Result<(), Cancelled> {
        let mut view = self.open(&[ViewOptions::once("test")]).remove(0);
        let mut sum = 0;
        while view.step(&mut |entry: &Entry| sum += amount_in(entry))?.is_some() {}
        assert_eq!(sum, SUM);
        Ok(())
    }

    /// Two that have a part of the positions each, read by turns.
    fn read_in_parts(&self) -> Result<(), Cancelled> {
        let half = |number| ViewOptions { part: (number, 2), ..ViewOptions::once("test") };
        let (mut views, mut sum) = (self.open(&[half(0), half(1)]), 0);
        while !views.is_empty() {
            let view = views.len() - 1;
            match views[view].step(&mut |entry: &Entry| sum += amount_in(entry))? {
                Some(_) => views.rotate_right(1),
                None => drop(views.pop()),
            }
        }
        assert_eq!(sum, SUM);
        Ok(())
    }

    /// One that is closed early and one that is read twice, of the same instant.
    fn read_pinned(&self) -> Result<(), Cancelled> {
        let mut views = self.open(&[ViewOptions::once("test"), ViewOptions::pinned("test")]);
        let (pinned, mut once) = (views.pop().unwrap(), views.pop().unwrap());
        once.step(&mut |_: &Entry| {})?;
        for _ in 0..2 {
            let (mut sum, mut from) = (0, Some(0));
            while let Some(at) = from {
                from = pinned.read_at(0, at..END, &mut |entry: &Entry| sum += amount_in(entry))?;
            }
            assert_eq!(sum, SUM);
            if let Some(db) = once.next_db() {
                assert_eq!(db, 0);
            }
        }
        Ok(())
    }
}

/// Keys by what they have.
struct Amounts;

impl Indexed for Amounts {
    fn covers(&self, _: &[u8]) -> bool {
        true
    }

    fn value_of(&self, entry: &Entry) -> Option<IndexValue> {
        Some(IndexValue::integer(amount_in(entry) as i64))
    }
}

fn history() {
    let store = Store::filled();
    let mut threads = Vec::new();
    for writer in 0..3 {
        let store = store.clone();
        threads.push(thread::spawn(move || {
            // The second may take all that there is: the key is gone.
            store.transfer(writer as usize, writer, (writer + 1) % KEYS, 3);
            store.transfer(writer as usize, (writer + 3) % KEYS, writer, SUM);
        }));
    }
    for reader in 0..2 {
        let store = store.clone();
        threads.push(thread::spawn(move || {
            if reader == 0 {
                store.read_in_parts().unwrap();
                store.read_once().unwrap();
            } else {
                store.read_pinned().unwrap();
            }
        }));
    }
    {
        let store = store.clone();
        threads.push(thread::spawn(move || {
            // Room for 1,200 keys takes three segments; of so few keys one is enough.
            store.tables[0].make_room(1_200);
            store.tables[0].shrink(1);
            store.tables[0].make_room(1_200);
            store.tables[0].shrink(2);
        }));
    }
    {
        let store = store.clone();
        threads.push(thread::spawn(move || (0..2).for_each(|_| store.move_entries())));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    store.assert_at_rest();
}

fn cancelled_history() {
    let store = Store::filled();
    store.views.set_limits(ViewLimits { retained_bytes: 1, passing_bytes: 0, age: Duration::ZERO });
    let mut threads = Vec::new();
    for writer in 0..2 {
        let store = store.clone();
        threads.push(thread::spawn(move || {
            store.transfer(writer as usize, writer, (writer + 1) % KEYS, 3);
            store.transfer(writer as usize, (writer + 3) % KEYS, writer, SUM);
            store.transfer(writer as usize, writer, (writer + 2) % KEYS, 1);
        }));
    }
    for reads in [Store::read_once, Store::read_pinned] {
        let store = store.clone();
        threads.push(thread::spawn(move || reads(&store).unwrap_or_default()));
    }
    {
        let store = store.clone();
        threads.push(thread::spawn(move || (0..3).for_each(|_| _ = store.views.enforce_limits())));
    }
    {
        let store = store.clone();
        threads.push(thread::spawn(move || (0..2).for_each(|_| store.move_entries())));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    store.assert_at_rest();
}

fn indexed_history() {
    let store = Store::filled();
    let index = Arc::new(Index::new("amounts", Arc::new(Amounts)));
    let mut threads = Vec::new();
    for writer in 0..2 {
        let store = store.clone();
        threads.push(thread::spawn(move || {
            store.transfer(writer as usize, writer, writer + 1, 3);
            store.transfer(writer as usize, writer + 3, writer, SUM);
            store.transfer(writer as usize, writer, writer + 3, 5);
        }));
    }
    for direction in [Direction::Ascending, Direction::Descending] {
        let store = store.clone();
        threads.push(thread::spawn(move || {
            store.read_indexed(direction);
            store.read_indexed(direction);
        }));
    }
    {
        let (store, index) = (store.clone(), index.clone());
        threads.push(thread::spawn(move || {
            store.set_indexes(&[index.clone()].into());
            index.build(&store.tables[0], || true);
            store.tables[0].make_room(1_200);
            store.tables[0].shrink(2);
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    store.read_indexed(Direction::Ascending);
    index.assert_invariants();
    assert_eq!(index.status(0).removed, 0);
    store.set_indexes(&Indexes::default());
    store.assert_at_rest();
}

impl Store {
    fn assert_at_rest(&self) {
        self.tables[0].assert_invariants();
        self.read_once().unwrap();
        let status = self.views.status();
        assert_eq!((status.open.len(), status.retained.records, status.retained.bytes), (0, 0, 0));
    }
}

#[test]
fn every_view_has_the_sum_in_random_orders() {
    shuttle::check_random(history, 20_000);
}

#[test]
fn every_view_has_the_sum_when_any_thread_is_held_up() {
    shuttle::check_pct(history, 20_000, 4);
}

#[test]
fn every_view_that_is_not_cancelled_has_the_sum_in_random_orders() {
    shuttle::check_random(cancelled_history, 20_000);
}

#[test]
fn every_view_that_is_not_cancelled_has_the_sum_when_any_thread_is_held_up() {
    shuttle::check_pct(cancelled_history, 20_000, 4);
}

#[test]
fn every_scan_of_an_index_has_the_sum_in_random_orders() {
    shuttle::check_random(indexed_history, 20_000);
}

#[test]
fn every_scan_of_an_index_has_the_sum_when_any_thread_is_held_up() {
    shuttle::check_pct(indexed_history, 20_000, 4);
}
