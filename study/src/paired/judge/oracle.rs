//! Compares dumps with a model of the store, cloned at the cut, while a client writes.
//!
//! ```text
//!   client   set set | take  ·  set  ·  set add  ·  …        between any two entries that the dump shows
//!   dump             └────── entry ─ entry ─ entry ─ …       or breaks off, or never begins
//! ```
//!
//! A second form has a thread of its own dump, as the server does.

use std::collections::BTreeMap;
use std::sync::mpsc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::super::hourglass::{self, HourglassRow};
use super::super::piggyback::{self, PiggybackRow};
use super::super::row::SnapRow;
use super::super::snapshot::{Shown, Snapshot};
use super::super::store::Store;
use super::{Mutated, rejects};

const SEEDS: u64 = 40;
const SNAPSHOTS: usize = 30;
/// Few, so that a key is written often, and sometimes not for many periods.
const KEYS: u32 = 12;
const FIELDS: u32 = 4;
const SET: &[u8] = b"_indices";

/// The content of a store.
#[derive(Clone, Debug, Default, PartialEq)]
struct Content {
    hashes: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>,
    members: BTreeMap<Vec<u8>, f64>,
}

impl Content {
    /// Adds what is shown. Calls `between` after each entry.
    fn add<R: SnapRow, E>(
        &mut self,
        shown: Shown<'_, R>,
        mut between: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        match shown {
            Shown::Hash { key, fields } => {
                let fields = fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
                assert!(self.hashes.insert(key.to_vec(), fields).is_none(), "each key once");
                between()
            }
            Shown::Set { key, members } => {
                assert_eq!(key, SET);
                members.each(|member, score| {
                    assert!(self.members.insert(member.to_vec(), score).is_none(), "each member once");
                    between()
                })
            }
        }
    }
}

/// The thread that serves, with its model.
struct Client<R: SnapRow> {
    store: Store<R>,
    model: Content,
    rng: StdRng,
    writes: u64,
}

impl<R: SnapRow> Client<R> {
    fn new(seed: u64) -> Client<R> {
        let rng = StdRng::seed_from_u64(seed);
        Client { store: Store::new(), model: Content::default(), rng, writes: 0 }
    }

    /// Writes a field or a member, and reads another one.
    fn act(&mut self) {
        self.writes += 1;
        // The lower of two draws: some keys are written much more often than others.
        let mut draw = |most: u32| self.rng.random_range(0..most).min(self.rng.random_range(0..most));
        let key = format!("user{}", draw(KEYS)).into_bytes();
        let field = format!("field{}", draw(FIELDS)).into_bytes();
        let value = self.writes.to_string().into_bytes();
        if draw(4) > 0 {
            let score = self.writes as f64;
            let is_new = self.model.members.insert(key.clone(), score).is_none();
            assert_eq!(self.store.add(SET, &key, score), Ok(is_new), "{}: a new member", R::NAME);
            assert_eq!(self.store.score(&key), Some(score), "{}: the newest score is read", R::NAME);
        } else {
            let hash = self.model.hashes.entry(key.clone()).or_default();
            let is_new = hash.insert(field.clone(), value.clone()).is_none();
            let made = self.store.set(&key, &[(&field, &value)]);
            assert_eq!(made, Ok(usize::from(is_new)), "{}: a new field", R::NAME);
        }
        let other = format!("user{}", draw(KEYS)).into_bytes();
        let mut found = BTreeMap::new();
        let read = |_: usize, fields: &mut dyn Iterator<Item = (&[u8], &[u8])>| {
            found = fields.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        };
        self.store.get_all(&other, read).expect("it is no sorted set");
        let expected = self.model.hashes.get(&other).cloned().unwrap_or_default();
        assert_eq!(found, expected, "{}: the newest values are read", R::NAME);
    }

    fn act_some(&mut self, most: u32) {
        (0..self.rng.random_range(0..=most)).for_each(|_| self.act());
    }

    fn take(&mut self) -> Snapshot<R> {
        let snapshot = self.store.take().expect("no other one lives");
        assert!(self.store.take().is_none(), "there is one at a time");
        snapshot
    }
}

/// A reason to break off.
#[derive(Debug)]
struct Enough;

/// Dumps a snapshot, while the client acts between any two of its entries.
fn dump<R: SnapRow>(
    client: &mut Client<R>,
    snapshot: Snapshot<R>,
    mut left: usize,
) -> Result<Content, Enough> {
    let mut seen = Content::default();
    snapshot.dump(|shown| {
        seen.add(shown, || {
            client.act_some(3);
            left = left.checked_sub(1).ok_or(Enough)?;
            Ok(())
        })
    })?;
    Ok(seen)
}

fn check<R: SnapRow>(seed: u64) {
    let mut client = Client::<R>::new(seed);
    for number in 0..SNAPSHOTS {
        client.act_some(20);
        let snapshot = client.take();
        let cut = client.model.clone();
        client.act_some(5);
        match client.rng.random_range(0..8) {
            0 => drop(snapshot),
            1 => {
                let left = client.rng.random_range(0..2 * KEYS as usize);
                let _ = dump(&mut client, snapshot, left);
            }
            _ => {
                let seen = dump(&mut client, snapshot, usize::MAX).expect("nothing breaks it off");
                assert_eq!(seen, cut, "{}: seed {seed}: snapshot {number}", R::NAME);
            }
        }
    }
}

fn check_all<R: SnapRow>() {
    (0..SEEDS).for_each(check::<R>);
}

/// The client acts while a thread dumps.
fn check_with_a_thread<R: SnapRow>(seed: u64) {
    let (to_dump, snapshots) = mpsc::channel::<(Snapshot<R>, Content)>();
    let (done, is_done) = mpsc::channel();
    let dumper = std::thread::spawn(move || {
        for (snapshot, cut) in snapshots {
            let mut seen = Content::default();
            let Ok(()) = snapshot.dump(|shown| seen.add(shown, || Ok::<(), std::convert::Infallible>(())));
            assert_eq!(seen, cut, "{}: seed {seed}", R::NAME);
            done.send(()).expect("the client waits");
        }
    });
    let mut client = Client::<R>::new(seed);
    for _ in 0..SNAPSHOTS {
        client.act_some(10);
        let snapshot = client.take();
        to_dump.send((snapshot, client.model.clone())).expect("the dumper waits");
        while is_done.try_recv().is_err() {
            assert!(!dumper.is_finished(), "{}: the dump failed", R::NAME);
            client.act();
        }
    }
    drop(to_dump);
    dumper.join().expect("the dumps are right");
}

macro_rules! judged {
    ($($name:ident, $with_a_thread:ident: $row:ty,)*) => {$(
        #[test]
        fn $name() {
            check_all::<$row>();
        }

        #[test]
        fn $with_a_thread() {
            (0..SEEDS).for_each(check_with_a_thread::<$row>);
        }
    )*};
}

judged! {
    hourglass_dumps_the_store_at_the_cut, hourglass_dumps_it_in_another_thread: HourglassRow,
    piggyback_dumps_the_store_at_the_cut, piggyback_dumps_it_in_another_thread: PiggybackRow,
}

macro_rules! rejected {
    ($($name:ident: $mutant:ty,)*) => {$(
        #[test]
        fn $name() {
            type Mutant = Mutated<$mutant>;
            rejects(Mutant::NAME, check_all::<Mutant>);
        }
    )*};
}

rejected! {
    hourglass_that_writes_as_published_is_rejected: hourglass::mutants::WritesAsPublished,
    hourglass_that_forgets_that_it_dumped_is_rejected: hourglass::mutants::ForgetsThatItDumped,
    hourglass_that_keeps_marks_is_rejected: hourglass::mutants::KeepsMarks,
    piggyback_that_leaves_out_its_pass_is_rejected: piggyback::mutants::LeavesOutItsPass,
    piggyback_that_overwrites_the_newest_is_rejected: piggyback::mutants::OverwritesTheNewest,
}

/// Copies of the values of a hundred keys: after the load, after a dump, after a write to every second one,
/// and after the next dump. In between, all are written while a snapshot lives.
fn copies<R: SnapRow>() -> [usize; 5] {
    let mut store = Store::<R>::new();
    let keys: Vec<_> = (0..100).map(|number| format!("user{number}").into_bytes()).collect();
    let write = |store: &mut Store<R>, step: usize| {
        for key in keys.iter().step_by(step) {
            store.set(key, &[(b"field0", b"a value")]).expect("it is a hash");
        }
    };
    let dump = |snapshot: Option<Snapshot<R>>| {
        let Ok(()) = snapshot.expect("no other one lives").dump(|_| Ok::<(), std::convert::Infallible>(()));
    };
    write(&mut store, 1);
    let loaded = store.copies();
    dump(store.take());
    let dumped = store.copies();
    write(&mut store, 2);
    let written = store.copies();
    dump(store.take());
    let settled = store.copies();
    let snapshot = store.take();
    write(&mut store, 1);
    let kept = store.copies();
    dump(snapshot);
    [loaded, dumped, written, settled, kept]
}

#[test]
fn second_copies_are_there_as_long_as_the_algorithm_needs_them() {
    assert_eq!(copies::<HourglassRow>(), [100, 100, 100, 100, 200]);
    // Rows that nobody writes keep two copies that are alike.
    assert_eq!(copies::<PiggybackRow>(), [100, 200, 200, 200, 200]);
}

#[test]
fn a_key_is_a_hash_or_the_one_sorted_set() {
    let mut store = Store::<HourglassRow>::new();
    assert!(store.is_empty());
    assert_eq!(store.set(b"user1", &[(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]), Ok(2));
    assert_eq!(store.add(SET, b"user1", 2.5), Ok(true));
    assert_eq!(store.add(SET, b"user1", 3.5), Ok(false));
    assert_eq!(store.len(), 2);
    assert_eq!(store.get(b"user1", b"a", <[u8]>::to_vec), Ok(Some(b"3".to_vec())));
    assert_eq!(store.get(b"user1", b"c", <[u8]>::len), Ok(None));
    assert!(store.set(SET, &[(b"a", b"1")]).is_err() && store.get(SET, b"a", <[u8]>::len).is_err());
    assert!(store.add(b"user1", b"a", 1.0).is_err() && store.add(b"other", b"a", 1.0).is_err());
    assert_eq!((store.score(b"user1"), store.score(b"user2")), (Some(3.5), None));
}
