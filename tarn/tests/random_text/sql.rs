//! Statements by the wire, in both of its protocols, and by the command `SQL`.

use rand::rngs::{SmallRng, StdRng};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tarn_resp::Frame;

use crate::client::Silence;
use crate::running::postgres::{Answer, Postgres, extended};
use crate::statements::statement;
use crate::{Faults, Scene, corpus, fault_of, mutation};

/// Tables that statements are about.
pub(crate) const DECLARATIONS: [&str; 7] = [
    "CREATE EXTERNAL TABLE t (id INT, a INT, b BIGINT, f DOUBLE, n DECIMAL(12,3), s TEXT, d DATE, \
     ts TIMESTAMP, p BOOLEAN) STORED AS HASH LOCATION 't:*'",
    "CREATE EXTERNAL TABLE u (id INT, a INT, f DOUBLE, n DECIMAL(9,2), s TEXT) STORED AS HASH \
     LOCATION 't:*'",
    "CREATE EXTERNAL TABLE flight (id TEXT, a INT, dest TEXT, distance INT) STORED AS JSON LOCATION 'j:*'",
    "CREATE EXTERNAL TABLE zs (id TEXT, member TEXT, score DOUBLE) STORED AS ZSET LOCATION 'z:*'",
    "CREATE EXTERNAL TABLE gs (id TEXT, member TEXT, longitude DOUBLE, latitude REAL) STORED AS GEO \
     LOCATION 'z:*'",
    "CREATE INDEX IF NOT EXISTS by_a ON t (a)",
    "CREATE INDEX IF NOT EXISTS by_s ON t (s)",
];

/// Statements of a seed.
const STATEMENTS: usize = 60;

fn connect(port: u16) -> Postgres {
    let mut postgres = Postgres::connect(port);
    postgres.ask("SET statement_timeout = 300");
    postgres
}

/// Why this is no answer to be content with.
fn fault(answer: &Answer) -> Option<(&'static str, String)> {
    if answer.status == 0 {
        return Some(("the connection was closed", format!("{:?}", answer.error)));
    }
    let (code, said) = answer.error.as_ref()?;
    if code == "XX000" {
        return Some(("it is a fault of the server", said.clone()));
    }
    if code.len() != 5 {
        return Some(("it has no code", said.clone()));
    }
    fault_of(said).map(|why| (why, said.clone()))
}

fn one_seed(scene: &mut Scene, seed: u64, corpus: &[String], faults: &mut Faults) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut made = StdRng::seed_from_u64(seed);
    let mut postgres = connect(scene.sql_port);
    scene.declare();
    for number in 0..STATEMENTS {
        let text = match rng.random() {
            true => statement(&mut made).plain("t", "u"),
            false => corpus.choose(&mut rng).unwrap().clone(),
        };
        let text = mutation::mutated(&mut rng, &text, corpus);
        if rng.random_ratio(1, 5) {
            postgres.ask("ROLLBACK");
        }
        // A statement may have changed it.
        postgres.ask("SET statement_timeout = 300");
        match number % 3 {
            0 => {
                let answer = postgres.ask(&text.replace('\0', ""));
                check(&answer, seed, &text, faults);
            }
            1 => {
                let values: Vec<_> = (0..rng.random_range(0..3)).map(|_| Some(b"1".to_vec())).collect();
                let formats: &[i16] = if rng.random() { &[1] } else { &[] };
                postgres.send(&extended(&text.replace('\0', ""), &[], &[], &values, formats));
                let answer = postgres.answer();
                check(&answer, seed, &text, faults);
            }
            _ => {
                // The command has no time limit: slow statements are not sent by it.
                let text = text.replace('\0', "");
                postgres.ask("ROLLBACK");
                postgres.ask("SET statement_timeout = 300");
                let answer = postgres.ask(&text);
                check(&answer, seed, &text, faults);
                if answer.code() != "57014" {
                    by_command(scene, seed, &text, faults);
                }
            }
        }
    }
    scene.check(&format!("seed {seed}"));
}

/// Asks by the command `SQL`.
fn by_command(scene: &mut Scene, seed: u64, text: &str, faults: &mut Faults) {
    match scene.client.try_ask(&["SQL", text]) {
        Ok(Frame::Error(said) | Frame::BulkError(said)) => {
            let said = String::from_utf8_lossy(&said).into_owned();
            let why = if said.contains("XX000") { Some("a fault") } else { fault_of(&said) };
            if let Some(why) = why {
                faults.add(seed, why, text, &said);
            }
        }
        Ok(_) => {}
        Err(Silence::Closed) => panic!("seed {seed}: the connection was closed: {text}"),
        Err(Silence::Fault(fault)) => panic!("seed {seed}: {fault}: {text}"),
    }
}

fn check(answer: &Answer, seed: u64, text: &str, faults: &mut Faults) {
    if let Some((why, said)) = fault(answer) {
        faults.add(seed, why, text, &said);
        assert!(answer.status != 0, "seed {seed}: {why}: {text}");
    }
}

#[test]
fn statements_that_are_nearly_right_are_answered_or_refused_with_a_reason() {
    let corpus = corpus::statements();
    let mut scene = Scene::start(&[]);
    let mut faults = Faults::default();
    for seed in tarn_engine::io::seeds(tarn_engine::io::seed_count(30)) {
        one_seed(&mut scene, seed, &corpus, &mut faults);
    }
    faults.end();
}
