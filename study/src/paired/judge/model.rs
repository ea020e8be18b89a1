//! Tries all orders in which the client and the thread that dumps may act, by loom on two keys.
//! `cargo xtask ci models` runs it.

use std::collections::BTreeMap;
use std::convert::Infallible;

use loom::thread;

use super::super::hourglass::{self, HourglassRow};
use super::super::piggyback::{self, PiggybackRow};
use super::super::row::SnapRow;
use super::super::snapshot::Shown;
use super::super::store::Store;
use super::{Mutated, rejects};

/// The number of times that a thread may be interrupted where it need not wait.
const PREEMPTIONS: usize = 3;

/// Two keys are there, one of which was written in the last period. Both are written while a snapshot is
/// dumped, then a second snapshot is dumped, while both are written again.
fn check<R: SnapRow>() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(|| {
        let mut store = Store::<R>::new();
        let mut now = BTreeMap::new();
        let mut write = |store: &mut Store<R>, key: u8, value: u8| {
            store.set(&[key], &[(b"f", &[value])]).expect("it is a hash");
            let read = store.get(&[key], b"f", |value| value[0]);
            assert_eq!(read, Ok(Some(value)), "{}: the newest value is read", R::NAME);
            now.insert(key, value);
            now.clone()
        };
        write(&mut store, 0, 1);
        let mut cut = write(&mut store, 1, 1);
        for value in [2, 3] {
            let snapshot = store.take().expect("no other one lives");
            let dumper = thread::spawn(move || {
                let mut seen = BTreeMap::new();
                let Ok(()) = snapshot.dump(|shown| {
                    let Shown::Hash { key, fields } = shown else { panic!("there is no sorted set") };
                    seen.extend(fields.iter().map(|(_, value)| (key[0], value[0])));
                    Ok::<(), Infallible>(())
                });
                seen
            });
            let key = value % 2;
            let next = write(&mut store, key, value);
            assert_eq!(dumper.join().expect("it dumps"), cut, "{}: before {value}", R::NAME);
            cut = next;
        }
    });
}

macro_rules! models {
    ($($name:ident: $row:ty,)*) => {$(
        #[test]
        fn $name() {
            check::<$row>();
        }
    )*};
}

models! {
    hourglass_holds_in_every_order: HourglassRow,
    piggyback_holds_in_every_order: PiggybackRow,
}

macro_rules! rejected {
    ($($name:ident: $mutant:ty,)*) => {$(
        #[test]
        fn $name() {
            type Mutant = Mutated<$mutant>;
            rejects(Mutant::NAME, check::<Mutant>);
        }
    )*};
}

rejected! {
    hourglass_that_writes_as_published_is_rejected: hourglass::mutants::WritesAsPublished,
    hourglass_that_forgets_that_it_dumped_is_rejected: hourglass::mutants::ForgetsThatItDumped,
    piggyback_that_leaves_out_its_pass_is_rejected: piggyback::mutants::LeavesOutItsPass,
    piggyback_that_overwrites_the_newest_is_rejected: piggyback::mutants::OverwritesTheNewest,
}
