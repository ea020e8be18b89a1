//! Requests of search.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tarn_resp::Frame;

use crate::client::Silence;
use crate::{Faults, Scene, fault_of, mutation};

/// Indexes that requests are about.
pub(crate) const DECLARATIONS: [&str; 2] = [
    "FT.CREATE i ON HASH PREFIX 1 t: SCHEMA a NUMERIC SORTABLE s TEXT d TAG SEPARATOR - f NUMERIC p TAG",
    "FT.CREATE k ON JSON PREFIX 1 j: SCHEMA $.a AS a NUMERIC $.s AS s TEXT $.l[*] AS l TAG",
];

/// Requests that are right; words are parted by `|`.
const RIGHT: [&str; 22] = [
    "FT.SEARCH|i|*",
    "FT.SEARCH|i|ab @a:[-3 (10] -@d:{2020|15}|SORTBY|a|DESC|LIMIT|0|5",
    "FT.SEARCH|i|@s:(a* | \"ab c\") @p:{true}|RETURN|2|a|AS|b|NOCONTENT",
    "FT.SEARCH|i|*b*|INFIELDS|1|s|INKEYS|2|t:1|t:2|WITHSCORES|VERBATIM",
    "FT.SEARCH|i|@a:[$low +inf]|PARAMS|2|low|3|DIALECT|2|TIMEOUT|100",
    "FT.SEARCH|i|*|FILTER|a|1|(5|LIMIT|0|0",
    "FT.SEARCH|k|@l:{1}|RETURN|1|$.a|SORTBY|a",
    "FT.SEARCH|k|-@s:ab (@a:[0 3] | @a:[7 9])",
    "FT.AGGREGATE|i|*|GROUPBY|1|@p|REDUCE|COUNT|0|AS|n|REDUCE|AVG|1|@a|AS|m|SORTBY|2|@n|DESC",
    "FT.AGGREGATE|i|@a:[0 9]|LOAD|2|@a|@f|APPLY|sqrt(@a) + @f * 2 ^ 3|AS|x|FILTER|@x > 3 && !(@a == 4)",
    "FT.AGGREGATE|i|*|GROUPBY|2|@d|@p|REDUCE|QUANTILE|2|@a|0.5|REDUCE|TOLIST|1|@s|REDUCE|STDDEV|1|@f",
    "FT.AGGREGATE|i|*|GROUPBY|0|REDUCE|FIRST_VALUE|4|@s|BY|@a|DESC|REDUCE|COUNT_DISTINCT|1|@s",
    "FT.AGGREGATE|k|*|LOAD|*|APPLY|upper(substr(@s, 0, 2))|AS|u|APPLY|case(exists(@a), to_str(@a), 'no')",
    "FT.AGGREGATE|i|*|APPLY|strlen(@s) % 3 / 2|SORTBY|1|@a|MAX|3|WITHCURSOR|COUNT|2|MAXIDLE|1000",
    "FT.CURSOR|READ|i|1|COUNT|2",
    "FT.CURSOR|DEL|i|1",
    "FT.CREATE|m|ON|HASH|PREFIX|2|t:|j:|SCHEMA|a|AS|b|NUMERIC|SORTABLE|UNF|NOINDEX|s|TEXT|WEIGHT|2.0|NOSTEM",
    "FT.CREATE|m|ON|JSON|SCHEMA|$.l[0].x|AS|x|TAG|SEPARATOR|;|CASESENSITIVE",
    "FT.ALTER|m|SCHEMA|ADD|c|TAG",
    "FT.DROPINDEX|m",
    "FT.INFO|i",
    "FT.EXPLAIN|i|@a:[1 2] | (ab -@p:{true})",
];

/// Requests of a seed.
const REQUESTS: usize = 60;

fn words(rng: &mut SmallRng, corpus: &[String]) -> Vec<String> {
    let mut words: Vec<String> = RIGHT.choose(rng).unwrap().split('|').map(str::to_owned).collect();
    // The alternative of a query is parted, too, which does no harm here.
    for _ in 0..rng.random_range(0..4) {
        let (at, other) = (rng.random_range(1..=words.len()), rng.random_range(1..=words.len()));
        match rng.random_range(0..6) {
            0 if at < words.len() && other < words.len() => words.swap(at, other),
            1 if at < words.len() => drop(words.remove(at)),
            2 if other < words.len() => words.insert(at, words[other].clone()),
            3 => {
                let other = corpus.choose(rng).unwrap();
                words.insert(at, mutation::mutated(rng, other, corpus));
            }
            _ if at < words.len() => words[at] = mutation::mutated(rng, &words[at], corpus),
            _ => {}
        }
    }
    words
}

fn one_seed(scene: &mut Scene, seed: u64, corpus: &[String], faults: &mut Faults) {
    let mut rng = SmallRng::seed_from_u64(seed);
    scene.declare();
    for number in 0..REQUESTS {
        if number % 50 == 49 {
            scene.declare();
        }
        let words = words(&mut rng, corpus);
        match scene.client.try_ask(&words) {
            Ok(Frame::Error(said) | Frame::BulkError(said)) => {
                let said = String::from_utf8_lossy(&said).into_owned();
                if let Some(why) = fault_of(&said) {
                    faults.add(seed, why, &format!("{words:?}"), &said);
                }
            }
            Ok(_) => {}
            Err(Silence::Closed) => panic!("seed {seed}: the connection was closed: {words:?}"),
            Err(Silence::Fault(fault)) => panic!("seed {seed}: {fault}: {words:?}"),
        }
    }
    scene.check(&format!("seed {seed}"));
}

#[test]
fn requests_of_search_that_are_nearly_right_are_answered_or_refused_with_a_reason() {
    let corpus: Vec<String> =
        RIGHT.iter().flat_map(|request| request.split('|')).map(str::to_owned).collect();
    let mut scene = Scene::start(&[]);
    let mut faults = Faults::default();
    for seed in tarn_engine::io::seeds(tarn_engine::io::seed_count(30)) {
        one_seed(&mut scene, seed, &corpus, &mut faults);
    }
    faults.end();
}
