//! Histories in which an older and a newer transaction meet, step by step. The algorithms show the right
//! rows, and the mutants are detected.

use tarn_study::SnapshotError;
use tarn_study::transaction::{
    Calc, Cpr, PartialCalc, Store, Transaction, TransactionError, VirtualAlgorithm, VirtualHourglass,
    VirtualPiggyback,
};

use crate::graph::{Cut, check};
use crate::mutants::{
    CalcByWrite, CprWithoutRestarts, EndedHourglass, EndedPiggyback, PartialCalcByWrite, PublishedHourglass,
    PublishedPiggyback, WritersOnly, WrittenOnly,
};
use crate::recorder::{Clock, Merged, Notes, shape};

const OLDER: u64 = 1;
const NEWER: u64 = 2;

/// A transaction's reads and writes.
type Body<'b, V> = &'b dyn Fn(&mut Notes, &mut Transaction<'_, V>) -> Result<(), TransactionError>;

/// The actions of the newer and the older transaction. The newer one writes rows 0 and 1 at most.
struct Story<'b, V: VirtualAlgorithm> {
    newer: Body<'b, V>,
    older: Body<'b, V>,
}

/// The older transaction begins, a snapshot is taken, the newer transaction runs, then the older one.
fn tell<V: VirtualAlgorithm>(story: &Story<'_, V>) -> (Result<(), String>, u64) {
    let (store, mut snapshotter) = Store::<V>::new(shape(3)).unwrap();
    let clock = Clock::default();
    let mut merged = Merged::new(3);
    merged.add(&mut snapshotter.take());
    let older_began = clock.tick();
    let mut older = store.begin();
    let called = clock.tick();
    let mut snapshot = snapshotter.take();
    let returned = clock.tick();

    let newer_began = clock.tick();
    let mut newer = store.begin();
    let mut notes = Notes::default();
    (story.newer)(&mut notes, &mut newer).unwrap();
    newer.commit().unwrap();
    let mut records = vec![notes.record(NEWER, newer_began, clock.tick())];

    let mut notes = Notes::default();
    if let Err(error) = (story.older)(&mut notes, &mut older) {
        assert!(matches!(error, TransactionError::Newer { .. }), "{error}");
        assert_eq!(older.commit(), Err(error));
        older = store.begin();
        notes = Notes::default();
        (story.older)(&mut notes, &mut older).unwrap();
    }
    older.commit().unwrap();
    records.push(notes.record(OLDER, older_began, clock.tick()));

    let versions = merged.add(&mut snapshot);
    (check(&records, &[Cut { versions, called, returned }]), store.counts().restarts)
}

/// The older one writes a row that the newer one has written.
fn writes_after_a_write<V: VirtualAlgorithm>() -> (Result<(), String>, u64) {
    tell::<V>(&Story {
        newer: &|notes, newer| {
            notes.add(newer, NEWER, 0, 1)?;
            notes.add(newer, NEWER, 1, 1)
        },
        older: &|notes, older| notes.add(older, OLDER, 0, 1),
    })
}

/// The older one reads a row that the newer one has written, and writes elsewhere.
fn reads_after_a_write<V: VirtualAlgorithm>() -> (Result<(), String>, u64) {
    tell::<V>(&Story {
        newer: &|notes, newer| notes.add(newer, NEWER, 0, 1),
        older: &|notes, older| {
            notes.read(older, 0)?;
            notes.add(older, OLDER, 2, 1)
        },
    })
}

/// The older one writes a row that the newer one has read. The newer one has written elsewhere.
fn writes_after_a_read<V: VirtualAlgorithm>() -> (Result<(), String>, u64) {
    tell::<V>(&Story {
        newer: &|notes, newer| {
            notes.read(newer, 2)?;
            notes.add(newer, NEWER, 0, 1)
        },
        older: &|notes, older| notes.add(older, OLDER, 2, 1),
    })
}

/// The older one holds a row for reading when the newer one reads it; then it writes it.
fn writes_after_both_have_read<V: VirtualAlgorithm>() -> (Result<(), String>, u64) {
    let (store, mut snapshotter) = Store::<V>::new(shape(2)).unwrap();
    let mut merged = Merged::new(2);
    let (mut older, mut notes) = (store.begin(), Notes::default());
    notes.read(&mut older, 0).unwrap();
    let mut snapshot = snapshotter.take();
    let (mut newer, mut notes_of_newer) = (store.begin(), Notes::default());
    notes_of_newer.read(&mut newer, 0).unwrap();
    notes_of_newer.add(&mut newer, NEWER, 1, 1).unwrap();
    newer.commit().unwrap();
    let mut records = vec![notes_of_newer.record(NEWER, 2, 3)];
    if notes.add(&mut older, OLDER, 0, 1).is_ok() {
        older.commit().unwrap();
        records.push(notes.record(OLDER, 0, 3));
    } else {
        drop(older);
    }
    let versions = merged.add(&mut snapshot);
    (check(&records, &[Cut { versions, called: 0, returned: 1 }]), store.counts().restarts)
}

/// The two read the same row: none follows the other one.
fn reads_after_a_read<V: VirtualAlgorithm>() -> (Result<(), String>, u64) {
    tell::<V>(&Story {
        newer: &|notes, newer| {
            notes.read(newer, 2)?;
            notes.add(newer, NEWER, 0, 1)
        },
        older: &|notes, older| {
            notes.read(older, 2)?;
            notes.add(older, OLDER, 1, 1)
        },
    })
}

/// A transaction writes in the phase prepare. After the point of consistency it reads a row that a newer one
/// has written, and commits.
fn commits_on_the_other_side<V: VirtualAlgorithm>() -> Result<(), String> {
    let (store, mut snapshotter) = Store::<V>::new(shape(2)).unwrap();
    let (mut merged, clock) = (Merged::new(2), Clock::default());
    let of_rest = store.begin();
    let called = clock.tick();
    let (mut snapshot, mut across, mut notes, began) = std::thread::scope(|scope| {
        let taking = scope.spawn(|| snapshotter.take());
        // Until it has begun in the phase prepare, which lasts as long as the transaction of rest.
        let (mut across, began) = loop {
            let began = clock.tick();
            let transaction = store.begin();
            if transaction.period() > of_rest.period() {
                break (transaction, began);
            }
            std::thread::yield_now();
        };
        let mut notes = Notes::default();
        notes.add(&mut across, OLDER, 0, 1).unwrap();
        of_rest.commit().unwrap();
        (taking.join().unwrap(), across, notes, began)
    });
    let returned = clock.tick();
    let newer_began = clock.tick();
    let (mut newer, mut notes_of_newer) = (store.begin(), Notes::default());
    notes_of_newer.add(&mut newer, NEWER, 1, 1).unwrap();
    newer.commit().unwrap();
    let mut records = vec![notes_of_newer.record(NEWER, newer_began, clock.tick())];
    notes.read(&mut across, 1).unwrap();
    across.commit().unwrap();
    records.push(notes.record(OLDER, began, clock.tick()));
    let versions = merged.add(&mut snapshot);
    check(&records, &[Cut { versions, called, returned }])
}

/// A transaction writes two rows. Then snapshots are taken, and while one has shown the first row and not yet
/// the second, another transaction writes both again. Before each snapshot one may be abandoned.
fn written_while_they_are_shown<V: VirtualAlgorithm>(abandons: bool) -> Result<(), String> {
    let (store, mut snapshotter) = Store::<V>::new(shape(2)).unwrap();
    let (clock, mut records, mut cuts, mut shown) = (Clock::default(), Vec::new(), Vec::new(), [0; 2]);
    let mut write = |number| {
        let (began, mut transaction, mut notes) = (clock.tick(), store.begin(), Notes::default());
        notes.add(&mut transaction, number, 0, 1).unwrap();
        notes.add(&mut transaction, number, 1, 1).unwrap();
        transaction.commit().unwrap();
        records.push(notes.record(number, began, clock.tick()));
    };
    write(1);
    for number in 2..6 {
        if abandons {
            drop(snapshotter.take());
        }
        let called = clock.tick();
        let mut snapshot = snapshotter.take();
        let returned = clock.tick();
        let mut is_first = true;
        let visit = |row: usize, fields: &[u64]| {
            if std::mem::take(&mut is_first) {
                write(number);
            }
            shown[row] = fields[1];
            Ok::<_, SnapshotError>(())
        };
        snapshot.traverse(visit).unwrap();
        cuts.push(Cut { versions: shown.to_vec(), called, returned });
    }
    check(&records, &cuts)
}

fn rejected((outcome, restarts): (Result<(), String>, u64)) {
    let cycle = outcome.expect_err("a mutant is found out");
    assert!(cycle.contains("snapshot 0") && cycle.contains("transaction 2"), "{cycle}");
    assert_eq!(restarts, 0);
}

fn restarts_where_it_must<V: VirtualAlgorithm>() {
    assert_eq!(writes_after_a_write::<V>(), (Ok(()), 1));
    assert_eq!(reads_after_a_write::<V>(), (Ok(()), 1));
    assert_eq!(writes_after_a_read::<V>(), (Ok(()), 1));
    assert_eq!(writes_after_both_have_read::<V>(), (Ok(()), 1));
    assert_eq!(reads_after_a_read::<V>(), (Ok(()), 0));
}

#[test]
fn older_transactions_restart_where_they_would_follow_a_newer_one() {
    restarts_where_it_must::<VirtualHourglass>();
    restarts_where_it_must::<VirtualPiggyback>();
    restarts_where_it_must::<Cpr>();
}

#[test]
fn the_published_rule_for_older_transactions_is_rejected() {
    rejected(writes_after_a_write::<PublishedHourglass>());
    rejected(reads_after_a_write::<PublishedHourglass>());
    rejected(writes_after_a_write::<PublishedPiggyback>());
    rejected(reads_after_a_write::<PublishedPiggyback>());
    rejected(reads_after_a_write::<CprWithoutRestarts>());
    rejected(writes_after_a_read::<CprWithoutRestarts>());
}

#[test]
fn a_rule_that_overlooks_reads_is_rejected() {
    rejected(writes_after_a_read::<WrittenOnly>());
    rejected(writes_after_both_have_read::<WrittenOnly>());
    rejected(reads_after_a_write::<WritersOnly>());
}

#[test]
fn calc_decides_by_the_commit() {
    assert_eq!(commits_on_the_other_side::<Calc>(), Ok(()));
    assert_eq!(commits_on_the_other_side::<PartialCalc>(), Ok(()));
    for found in
        [commits_on_the_other_side::<CalcByWrite>(), commits_on_the_other_side::<PartialCalcByWrite>()]
    {
        let cycle = found.expect_err("the mutant is found out");
        assert!(cycle.contains("snapshot 0"), "{cycle}");
    }
}

#[test]
fn rows_that_a_snapshot_has_still_to_show_are_not_written_over() {
    for abandons in [false, true] {
        assert_eq!(written_while_they_are_shown::<Calc>(abandons), Ok(()));
        assert_eq!(written_while_they_are_shown::<PartialCalc>(abandons), Ok(()));
        assert_eq!(written_while_they_are_shown::<Cpr>(abandons), Ok(()));
        assert_eq!(written_while_they_are_shown::<VirtualHourglass>(abandons), Ok(()));
        assert_eq!(written_while_they_are_shown::<VirtualPiggyback>(abandons), Ok(()));
        for found in [
            written_while_they_are_shown::<EndedHourglass>(abandons),
            written_while_they_are_shown::<EndedPiggyback>(abandons),
        ] {
            let cycle = found.expect_err("the mutant is found out");
            assert!(cycle.contains("snapshot 0"), "{cycle}");
        }
    }
}
