//! Requests of chance: no command looks at a key that it has not declared, whatever its options look like.
//! One that did would end the server.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::waiters_tests::Served;
use crate::commands;
use crate::execute::spec::Flags;
use crate::execute::table::Found;

#[allow(dead_code, reason = "the lists that are not of commands with keys")]
#[path = "../../../tests/durable_before_visible/samples.rs"]
mod samples;

/// Names of keys of all types and of options, which may be keys, too; and options with what follows them.
const WORDS: [&str; 36] = [
    "s",
    "l",
    "h",
    "set",
    "z",
    "x",
    "geo",
    "new",
    "nokey",
    "0",
    "1",
    "-1",
    ">",
    "STORE",
    "STOREDIST",
    "COUNT",
    "BY",
    "GET",
    "LIMIT",
    "STREAMS",
    "GROUP",
    "BLOCK",
    "WEIGHTS",
    "DB",
    "KEYS",
    "STORE z",
    "STORE STOREDIST",
    "STOREDIST new",
    "COUNT 2",
    "BY w_*",
    "GET s",
    "LIMIT 0 1",
    "DB 1",
    "WEIGHTS 1 2",
    "STREAMS x 0",
    "GROUP g c",
];

/// Requests with keys that are right; and those of commands whose keys do not stand at fixed places.
fn samples() -> [Vec<&'static str>; 2] {
    let found =
        |request: &str| commands::table().find(request.split(' ').next().unwrap_or_default().as_bytes());
    let writes = samples::WRITES.iter().flat_map(|write| write.requests);
    let all = writes.chain(samples::READS).copied();
    let all: Vec<_> =
        all.filter(|own| found(own).is_some_and(|found| !found.command.keys.is_empty())).collect();
    let moves =
        |found: Found| found.command.flags.has(Flags::MOVABLEKEYS) || found.command.more_keys.is_some();
    let moving = all.iter().copied().filter(|own| found(own).is_some_and(moves)).collect();
    [all, moving]
}

/// One word more, or another one in the place of one; behind the name.
fn change(request: &mut Vec<&'static str>, place: Index, word: &'static str, inserts: bool) {
    let place = 1 + place.index(request.len());
    if inserts || place == request.len() {
        request.insert(place, word);
    } else {
        request[place] = word;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_command_looks_at_keys_that_it_has_not_declared(
        changed in vec(
            (any::<bool>(), any::<Index>(), vec((any::<Index>(), select(&WORDS[..]), any::<bool>()), 0..5)),
            200,
        ),
    ) {
        let served = Served::new();
        let ask = |request: &str| served.ask(&mut served.client(0), request);
        samples::PRELUDE.iter().for_each(|request| _ = ask(request));
        let samples = samples();
        for (moves, which, changes) in &changed {
            let mut request: Vec<_> = which.get(&samples[usize::from(*moves)]).split(' ').collect();
            changes.iter().for_each(|(place, word, inserts)| change(&mut request, *place, word, *inserts));
            ask(&request.join(" "));
        }
    }
}
