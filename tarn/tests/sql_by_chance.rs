//! Statements by chance, answered by a real PostgreSQL and by Tarn over the same rows: in hashes, in
//! documents, and where indexes are on them; in text and in binary, with parameters, and by cursors.
//!
//! `TARN_SEED` repeats a run, `TARN_STATEMENTS` is the number of statements of a run; a twentieth of them are
//! of the seed of each day in `TARN_DAYS`. Answers of both have to be equal, with the exceptions of
//! `chance/answers.rs`. Where no PostgreSQL is installed nothing is compared, and the test says so.

#![allow(clippy::unwrap_used)]

mod chance;
mod running;

use std::collections::BTreeMap;

use chance::answers::{Seen, Way, ask, difference};
use chance::peer::Peer;
use chance::statements::{Made, T, U, statement, value};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use running::postgres::Postgres;
use running::{Running, free_port};

/// The tables of a statement where Tarn answers it: hashes, documents, hashes with indexes.
const PLACES: [(&str, &str); 3] = [("t", "u"), ("tj", "uj"), ("ti", "ui")];

type Column = (&'static str, &'static str, chance::statements::Of);

fn number_of(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Fills a table at both, and declares it.
fn fill(
    rng: &mut StdRng,
    name: &str,
    columns: &[Column],
    rows: usize,
    running: &Running,
    peer: &mut Postgres,
    sql: &mut Postgres,
) {
    let plain = |answer: running::postgres::Answer| assert!(answer.error.is_none(), "{answer:?}");
    let listed: Vec<String> = columns.iter().map(|(column, kind, _)| format!("{column} {kind}")).collect();
    let listed = listed.join(", ");
    plain(peer.ask(&format!("CREATE TABLE {name} ({listed})")));
    let declared = listed.replace("DOUBLE PRECISION", "DOUBLE");
    for (suffix, stored) in [("", "HASH"), ("j", "JSON"), ("i", "HASH")] {
        let key = if suffix == "j" { format!("{name}j") } else { name.to_owned() };
        plain(sql.ask(&format!(
            "CREATE EXTERNAL TABLE {name}{suffix} ({declared}) STORED AS {stored} LOCATION '{key}:*'"
        )));
    }
    for (column, ..) in &columns[1..] {
        plain(sql.ask(&format!("CREATE INDEX ON {name}i ({column})")));
    }
    let mut client = running.connect();
    for id in 1..=rows {
        let values: Vec<Option<String>> = columns[1..].iter().map(|(_, _, of)| value(rng, *of)).collect();
        let quoted =
            |value: &Option<String>| value.as_ref().map_or("NULL".to_owned(), |value| format!("'{value}'"));
        let all: Vec<String> = values.iter().map(quoted).collect();
        plain(peer.ask(&format!("INSERT INTO {name} VALUES ({id}, {})", all.join(", "))));
        let present = columns[1..]
            .iter()
            .zip(&values)
            .filter_map(|((column, ..), value)| Some((column, value.as_ref()?)));
        let fields: Vec<String> =
            present.clone().map(|(column, value)| format!("{column} \"{value}\"")).collect();
        // A row of NULLs alone is a hash, too.
        assert!(client.ask(&format!("HSET {name}:{id} none 1 {}", fields.join(" "))).starts_with(':'));
        let members: Vec<String> = present
            .map(|(column, value)| {
                let is_bare =
                    value.parse::<f64>().is_ok() && *column != "s" || value == "true" || value == "false";
                if is_bare {
                    format!("\\\"{column}\\\":{value}")
                } else {
                    format!("\\\"{column}\\\":\\\"{value}\\\"")
                }
            })
            .collect();
        assert_eq!(client.ask(&format!("SET {name}j:{id} \"{{{}}}\"", members.join(","))), "+OK");
    }
}

/// The results of the statements.
#[derive(Default)]
struct Tally {
    equal: usize,
    refused_by_both: usize,
    /// By the words of the refusal.
    refused: BTreeMap<String, (usize, String)>,
    answered_here_alone: BTreeMap<String, (usize, String)>,
    wrong: Vec<String>,
}

impl Tally {
    fn add(&mut self, ours: &Seen, theirs: &Seen, made: &Made, sql: &str, how: &str) {
        let note = |map: &mut BTreeMap<String, (usize, String)>, words: &str| {
            let words: String = words.chars().take(90).collect();
            let entry = map.entry(words).or_insert_with(|| (0, sql.to_owned()));
            entry.0 += 1;
        };
        match (&ours.error, &theirs.error) {
            (Some(_), Some(_)) => self.refused_by_both += 1,
            (Some((code, said)), None) if code == "XX000" || code == "gone" => {
                self.wrong.push(format!("{how}: {code} {said}\n  {sql}"));
            }
            (Some((code, said)), None) => note(&mut self.refused, &format!("{code} {said}")),
            (None, Some((code, said))) => note(&mut self.answered_here_alone, &format!("{code} {said}")),
            (None, None) => match difference(ours, theirs, made.is_ordered) {
                None => self.equal += 1,
                Some(why) => self.wrong.push(format!("{how}: {why}\n  {sql}")),
            },
        }
    }
}

/// Statements of a run, in two halves that the test runner asks beside each other.
const STATEMENTS: u64 = 5_000;

#[test]
fn statements_by_chance_are_answered_as_postgresql_answers_them() {
    if let Some(seed) = number_of("TARN_SEED") {
        return compare(seed, number_of("TARN_STATEMENTS").unwrap_or(STATEMENTS));
    }
    compare(20_260_101, number_of("TARN_STATEMENTS").unwrap_or(STATEMENTS) / 2);
}

#[test]
fn statements_of_another_seed_and_of_the_day_are_answered_as_postgresql_answers_them() {
    if number_of("TARN_SEED").is_some() {
        return;
    }
    let count = number_of("TARN_STATEMENTS").unwrap_or(STATEMENTS);
    let days = std::env::var("TARN_DAYS").unwrap_or_default();
    let days: Vec<u64> = days.split_terminator(',').map(|day| day.parse().unwrap()).collect();
    let of_days = count / 20 * days.len() as u64;
    compare(20_260_102, (count / 2).saturating_sub(of_days));
    days.into_iter().for_each(|day| compare(day, count / 20));
}

/// Asks both servers statements of a seed.
fn compare(seed: u64, count: u64) {
    let peer = match Peer::start() {
        Ok(peer) => peer,
        Err(why) => return println!("SKIPPED: no answers were compared with PostgreSQL's: {why}"),
    };
    println!("TARN_SEED={seed} TARN_STATEMENTS={count}");
    let mut rng = StdRng::seed_from_u64(seed);
    let port = free_port();
    let running = Running::start(&["--sql-port", &port.to_string()]);
    let (mut there, mut here) = (peer.connect(), Postgres::connect_with(port, &["TimeZone", "UTC"]));
    fill(&mut rng, "t", &T, 60, &running, &mut there, &mut here);
    fill(&mut rng, "u", &U, 40, &running, &mut there, &mut here);
    let mut tally = Tally::default();
    for number in 0..count {
        let made = statement(&mut rng);
        let plain = made.plain("t", "u");
        let theirs = ask(&mut there, &plain, &[], Way::Simple);
        let (t, u) = PLACES[rng.random_range(0..3)];
        let ours = ask(&mut here, &made.plain(t, u), &[], Way::Simple);
        tally.add(&ours, &theirs, &made, &plain, &format!("{number} {t}"));
        if ours.error.is_some() || theirs.error.is_some() {
            continue;
        }
        let (t, u) = PLACES[rng.random_range(0..3)];
        let way = if number % 2 == 0 { Way::Binary } else { Way::Cursor };
        let ours = ask(&mut here, &made.plain(t, u), &[], way);
        tally.add(&ours, &theirs, &made, &plain, &format!("{number} {t} {way:?}"));
        let (text, values) = made.with_parameters("t", "u");
        if !values.is_empty() {
            let theirs = ask(&mut there, &text, &values, Way::Simple);
            let (text, values) = made.with_parameters(t, u);
            let ours = ask(&mut here, &text, &values, Way::Binary);
            tally.add(&ours, &theirs, &made, &text, &format!("{number} {t} with parameters {values:?}"));
        }
    }
    println!(
        "{} equal, {} wrong, {} refused by both, {} refused here, {} answered here alone",
        tally.equal,
        tally.wrong.len(),
        tally.refused_by_both,
        tally.refused.values().map(|(count, _)| count).sum::<usize>(),
        tally.answered_here_alone.values().map(|(count, _)| count).sum::<usize>(),
    );
    for (title, map) in
        [("refused here", &tally.refused), ("answered here alone", &tally.answered_here_alone)]
    {
        map.iter().for_each(|(words, (count, sql))| println!("{title}: {count} × {words}\n  {sql}"));
    }
    tally.wrong.iter().take(40).for_each(|wrong| println!("WRONG {wrong}"));
    assert!(tally.wrong.is_empty(), "{} wrong answers; TARN_SEED={seed}", tally.wrong.len());
    assert!(tally.equal as u64 > count, "too few are answered at all");
}
