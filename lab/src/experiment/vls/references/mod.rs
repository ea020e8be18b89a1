//! Other stores with the same records, each through its client, and ours through SQL.

use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

mod duckdb;
mod postgres;

use super::cell::{Cell, Figures, Reference};
use super::store;
use crate::error::{IoContext, LabError, Result};
use crate::interrupt::wait_for;
use crate::report::Report;
use crate::server::{self, Persistence, Product, Server};
use crate::setting::Setting;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use tarn_resp::client::{self, Client};

/// Ours.
pub(super) const TARN: &str = "tarn, SQL";
/// The real one, read by a client.
pub(super) const REDIS: &str = "redis-server, SCAN + HGETALL";
/// The sum of a field of all records.
pub(super) const SUM: &str = "sum";
/// Records that are written, or read, in one round trip.
const RECORDS_AT_ONCE: u64 = 1000;
/// The time that a reply may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// Measures all references that are installed; reports those that are not.
pub(super) fn measure(setting: &Setting, cell: &Cell, report: &mut Report) -> Result<Figures> {
    let mut references = Vec::new();
    for subject in &setting.servers {
        let (mut plan, _dir) = setting.plan_of(subject, Persistence::None)?;
        if subject.product == Product::Tarn {
            plan.sql_port = server::free_port()?;
        }
        let server = plan.start()?;
        fill(&server, cell, setting.seed)?;
        match subject.product {
            Product::Tarn => tarn(setting, &server, cell, report, &mut references)?,
            Product::RedisServer => redis(setting, &server, cell, &mut references)?,
        }
    }
    if !setting.options.servers.is_empty() {
        // Those that were asked for, and no others.
        return Ok(Figures { references, ..Figures::default() });
    }
    let dir = setting.make_dir()?;
    let table = dir.path().join("record.csv");
    write_table(&table, cell, setting.seed).at(&table)?;
    // Another user may have to read it.
    for path in [dir.path(), &table] {
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, all).at(path)?;
    }
    type Measure = fn(&Setting, &Cell, &Path) -> Result<Vec<Reference>>;
    let others: [(_, Measure); 2] = [("postgresql", postgres::measure), ("duckdb", duckdb::measure)];
    for (name, measure) in others {
        references.extend(found(report, name, measure(setting, cell, &table))?);
    }
    Ok(Figures { references, ..Figures::default() })
}

/// The figures of another store. One that is not there, or fails as a peer may, is left out.
fn found(report: &mut Report, name: &str, measured: Result<Vec<Reference>>) -> Result<Vec<Reference>> {
    let measured = measured.map_err(|error| match error {
        LabError::Missing(why) => LabError::LeftOut { why, failed: false },
        failed => failed,
    });
    Ok(report.forgive(true, || name.to_owned(), measured)?.unwrap_or_default())
}

/// True if a store is there that these figures lack.
pub(super) fn lacks(setting: &Setting, references: &[Reference]) -> bool {
    let others: [(_, fn() -> bool); 2] =
        [(postgres::NAME, postgres::is_there), (duckdb::NAME, duckdb::is_there)];
    let is_new = |(name, is_there): &(&str, fn() -> bool)| {
        references.iter().all(|own| own.what != *name) && is_there()
    };
    setting.options.servers.is_empty() && others.iter().any(is_new)
}

/// The records as comma-separated values, without a line of heads.
fn write_table(path: &Path, cell: &Cell, seed: u64) -> std::io::Result<()> {
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    let mut rng = SmallRng::seed_from_u64(seed);
    for number in 0..cell.records {
        file.write_all(&store::key(number))?;
        for (_, value) in store::fields(number, &mut rng) {
            file.write_all(b",")?;
            file.write_all(&value)?;
        }
        file.write_all(b"\n")?;
    }
    file.flush()
}

/// Writes the records.
pub(super) fn fill(server: &Server, cell: &Cell, seed: u64) -> Result<()> {
    let mut client = Client::connect(server.address(), PATIENCE)?;
    let mut rng = SmallRng::seed_from_u64(seed);
    for number in (0..cell.records).step_by(RECORDS_AT_ONCE as usize) {
        let end = (number + RECORDS_AT_ONCE).min(cell.records);
        for number in number..end {
            let mut words: Vec<Vec<u8>> = vec![b"HSET".to_vec(), store::key(number)];
            for (name, value) in store::fields(number, &mut rng) {
                words.extend([name.to_vec(), value]);
            }
            client.queue(&words);
        }
        client.send()?;
        for _ in number..end {
            client::integer(&client.receive()?)?;
        }
    }
    Ok(())
}

fn repeated(setting: &Setting, mut run: impl FnMut() -> Result<u64>, expected: u64) -> Result<Vec<f64>> {
    let mut seconds = Vec::new();
    for _ in 0..setting.repeats() {
        let began = Instant::now();
        let got = run()?;
        seconds.push(began.elapsed().as_secs_f64());
        check("a query", got, expected)?;
    }
    Ok(seconds)
}

/// Refuses a wrong answer.
pub(super) fn check(who: &str, got: u64, expected: u64) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    Err(LabError::Reply(format!("{who} answers {got}, and {expected} is right")))
}

/// The declarations of all columns but the key.
fn columns(integer: &str, text: &str) -> String {
    let texts: String = (1..store::FIELDS).map(|at| format!(", f{at} {text}")).collect();
    format!("f0 {integer}{texts}")
}

/// The queries: their names, their text, and the right answer.
fn queries(cell: &Cell) -> [(&'static str, String, u64); 3] {
    let records = cell.records;
    let from = records - records / 20;
    [
        ("count", "SELECT count(*) FROM record".to_owned(), records),
        (SUM, "SELECT sum(f0) FROM record".to_owned(), records * (records - 1) / 2),
        ("range", format!("SELECT count(f5) FROM record WHERE f0 >= {from}"), records - from),
    ]
}

fn tarn(
    setting: &Setting,
    server: &Server,
    cell: &Cell,
    report: &mut Report,
    references: &mut Vec<Reference>,
) -> Result<()> {
    let mut client = Client::connect(server.address(), PATIENCE)?;
    declare(&mut client)?;
    let mut ask_all = |what: &str, client: &mut Client| -> Result<()> {
        for (name, sql, expected) in queries(cell) {
            let seconds = repeated(setting, || number_of(client, &sql), expected)?;
            references.push(Reference { what: what.to_owned(), query: name.to_owned(), seconds });
        }
        Ok(())
    };
    ask_all(TARN, &mut client)?;
    let reply = client.ask(&["SQL", "CREATE INDEX ON record (f0)"])?;
    if reply.is_error() {
        let note = format!("tarn has no index for SQL: {reply}");
        tell!("{note}");
        return report.note(&note);
    }
    wait_for_index(&mut client)?;
    ask_all("tarn, SQL with an index", &mut client)
}

/// Declares the records as a table.
pub(super) fn declare(client: &mut Client) -> Result<()> {
    let columns = columns("BIGINT", "TEXT");
    let declared =
        format!("CREATE EXTERNAL TABLE record (id TEXT, {columns}) STORED AS HASH LOCATION 'user:*'");
    client.call(&["SQL", &declared])?;
    Ok(())
}

/// The one number that a statement answers.
pub(super) fn number_of(client: &mut Client, sql: &str) -> Result<u64> {
    let reply = client.call(&["SQL", sql])?;
    let row = client::elements(&reply)?.get(1).map(client::elements).transpose()?;
    let cell = row.and_then(|row| row.first());
    let number = cell.and_then(|cell| match cell.as_integer() {
        Some(number) => u64::try_from(number).ok(),
        None => client::text(cell).ok()?.parse().ok(),
    });
    number.ok_or_else(|| LabError::Reply(reply.to_string()))
}

/// Waits until the one index is built; until then queries walk.
pub(super) fn wait_for_index(client: &mut Client) -> Result<()> {
    let built = wait_for(Duration::from_millis(10), PATIENCE, || {
        let reply = client.call(&["SQL", "SHOW INDEXES"])?;
        let row = client::elements(&reply)?.get(1).map(client::elements).transpose()?;
        Ok((row.and_then(|row| row.get(3)?.as_integer()) == Some(1000)).then_some(()))
    })?;
    built.ok_or_else(|| LabError::Reply("the index is not built".to_owned()))
}

/// Reads all records by `SCAN` and `HGETALL`, as a client must that wants a sum.
fn redis(setting: &Setting, server: &Server, cell: &Cell, references: &mut Vec<Reference>) -> Result<()> {
    let mut client = Client::connect(server.address(), PATIENCE)?;
    let expected = cell.records * (cell.records - 1) / 2;
    let count = RECORDS_AT_ONCE.to_string();
    let run = || {
        let (mut cursor, mut sum) = ("0".to_owned(), 0);
        loop {
            let reply = client.call(&["SCAN", &cursor, "MATCH", "user:*", "COUNT", &count])?;
            let [next, keys] = client::elements(&reply)? else {
                return Err(LabError::Reply(reply.to_string()));
            };
            let keys = client::texts(keys)?;
            keys.iter().for_each(|key| client.queue(&["HGETALL", key]));
            client.send()?;
            for _ in &keys {
                let record = client::texts(&client.receive()?)?;
                let found = record.chunks_exact(2).find(|pair| pair[0] == "f0");
                sum += found.and_then(|pair| pair[1].parse::<u64>().ok()).unwrap_or(0);
            }
            cursor = client::text(next)?;
            if cursor == "0" {
                return Ok(sum);
            }
        }
    };
    let seconds = repeated(setting, run, expected)?;
    references.push(Reference { what: REDIS.to_owned(), query: SUM.to_owned(), seconds });
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn another_store_that_is_not_there_or_fails_does_not_end_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vls.jsonl");
        let mut report = Report::new("vls", 1, dir.path(), Some(&path)).unwrap();
        let mut found = |outcome| found(&mut report, "postgresql", outcome).map(|all| all.len());
        assert_eq!(found(Err(LabError::Missing("it is not there".to_owned()))).unwrap(), 0);
        assert_eq!(found(Err(LabError::Reply("initdb: no locale".to_owned()))).unwrap(), 0);
        assert!(matches!(found(Err(LabError::Interrupted)), Err(LabError::Interrupted)));
        let lines = std::fs::read_to_string(&path).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let failed: Vec<_> = lines.map(|line| line["figures"]["failed"].clone()).collect();
        assert_eq!(failed, [false, true]);
    }
}
