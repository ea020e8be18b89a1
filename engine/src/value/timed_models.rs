//! Tests hashes whose fields have times against a plain model, with clones as views keep them, and through
//! images and files.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::elements_of;
use super::models::{Subject, through_a_file};
use crate::record::{Change, Kind, Lsn, UnixMs};
use crate::table::{Entry, Over};

/// A field: its value, the record of that, and its time with the record of it.
type Held = (Vec<u8>, Lsn, Option<(UnixMs, Lsn)>);
type Model = BTreeMap<Vec<u8>, Held>;

/// The changes of fields, by their numbers.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put(u8),
    Remove(u8),
    Expire(u8, UnixMs),
    Persist(u8),
    /// Keeps a clone, as a view does.
    Keep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    (1..=u8::MAX).prop_flat_map(|fields| {
        let field = move || 0..fields;
        let step = prop_oneof![
            6 => field().prop_map(Step::Put),
            3 => field().prop_map(Step::Remove),
            5 => (field(), 0..50 as UnixMs).prop_map(|(field, at)| Step::Expire(field, at)),
            2 => field().prop_map(Step::Persist),
            1 => Just(Step::Keep),
        ];
        vec(step, 1..1_000)
    })
}

fn name(number: u8) -> Vec<u8> {
    let padding = if number.is_multiple_of(50) { 200 } else { usize::from(number % 7) };
    format!("{number}{}", "x".repeat(padding)).into_bytes()
}

/// The records of a field that are not needed once it has a newer value, or is gone.
fn records_of(held: Option<Held>) -> Vec<Lsn> {
    held.map_or_else(Vec::new, |(_, lsn, time)| time.map(|(_, lsn)| lsn).into_iter().chain([lsn]).collect())
}

/// Takes a step in the model; the change that does the same as `lsn`, and the records that it has replaced.
fn play(model: &mut Model, step: Step, lsn: Lsn) -> Option<(Change<'static>, Vec<Lsn>)> {
    Some(match step {
        Step::Put(number) => {
            let (field, value) = (name(number), lsn.0.to_string().into_bytes());
            let old = model.insert(field.clone(), (value.clone(), lsn, None));
            (Change::HashPut { field: field.into(), value: value.into() }, records_of(old))
        }
        Step::Remove(number) => {
            let field = name(number);
            let old = model.remove(&field);
            (Change::HashRemove { field: field.into() }, records_of(old))
        }
        Step::Expire(number, at) => {
            let (field, is_key) = (name(number), !model.is_empty());
            let replaced = match model.get_mut(&field) {
                Some((.., time)) => time.replace((at, lsn)).map(|(_, lsn)| lsn),
                // Of a field that is not there nothing is said; without a key nobody is asked.
                None => is_key.then_some(lsn),
            };
            (Change::HashExpire { field: field.into(), at: Some(at) }, replaced.into_iter().collect())
        }
        Step::Persist(number) => {
            let field = name(number);
            let replaced = model.get_mut(&field).and_then(|(.., time)| time.take()).map(|(_, lsn)| lsn);
            (Change::HashExpire { field: field.into(), at: None }, replaced.into_iter().collect())
        }
        Step::Keep => return None,
    })
}

fn check(subject: &Subject, model: &Model) {
    subject.check();
    let Some(entry) = &subject.entry else { return assert!(model.is_empty()) };
    let elements = elements_of(entry.value()).into();
    let image = Change::Image { kind: Kind::Hash, elements, expiry: None, sticky: false };
    let (stored, copy) = (through_a_file(entry), Entry::create(b"copy", &image, Lsn(1)).unwrap());
    for entry in [entry, &stored, &copy] {
        let times = || model.values().filter_map(|(.., time)| time.map(|(at, _)| at));
        assert_eq!((entry.due(), entry.is_timed()), (times().min(), times().next().is_some()));
        for now in [0, 1, 25, 60] {
            let shown = model.iter().filter(|(_, (.., time))| time.is_none_or(|(at, _)| at >= now));
            let shown: Vec<(&[u8], &[u8], Option<UnixMs>)> = shown
                .map(|(field, (value, _, time))| (&field[..], &value[..], time.map(|(at, _)| at)))
                .collect();
            let hash = entry.hash().unwrap().at(now);
            let mut found: Vec<_> = hash.iter_timed().collect();
            found.sort_unstable();
            assert_eq!(found, shown, "at {now}");
            assert_eq!((hash.len(), entry.is_expired(now)), (shown.len(), shown.is_empty()));
            assert_eq!(hash.first_time(), shown.iter().filter_map(|(.., time)| *time).min());
            for random in (0..8).map(|eighth| eighth << 61) {
                let drawn = hash.sample(random).map(|(field, _)| field);
                assert!(
                    drawn.map_or(shown.is_empty(), |name| shown.iter().any(|(field, ..)| *field == name))
                );
            }
            let hidden = match entry.over(now, usize::MAX) {
                None => 0,
                Some(Over::AllFields(fields)) => fields,
                Some(Over::Fields(fields)) => fields.len(),
                Some(Over::Key) => panic!("the key has no expiry"),
            };
            assert_eq!(hidden, model.len() - shown.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hashes_with_times_are_as_their_model(phases in vec(steps(), 1..4)) {
        let (mut subject, mut model, mut kept) = (Subject::default(), Model::new(), Vec::new());
        for phase in phases {
            for step in phase {
                let Some((change, replaced)) = play(&mut model, step, subject.lsn.after(1)) else {
                    kept.extend(subject.entry.clone().map(|entry| (elements_of(entry.value()), entry)));
                    continue;
                };
                let retired = subject.apply(&change);
                prop_assert_eq!(&retired.lsns[..], &replaced[..], "{:?}", step);
            }
            check(&subject, &model);
        }
        for (elements, entry) in kept {
            prop_assert_eq!(elements_of(entry.value()), elements, "a clone stays as it was");
        }
        let mut records: Vec<Lsn> = model.into_values().flat_map(|held| records_of(Some(held))).collect();
        records.sort_unstable();
        prop_assert_eq!(subject.retire(), records);
    }
}
