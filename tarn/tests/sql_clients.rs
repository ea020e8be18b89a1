//! The questions of PostgreSQL's clients when they connect and when they list tables, asked again.
//!
//! `clients/*.jsonl` hold recordings of the real clients, made by `clients/record.py`, which says how;
//! `clients/README.md` has the instructions for each.

#![allow(clippy::unwrap_used)]

mod running;

use running::postgres::{Answer, Postgres, extended, message};
use running::{Running, free_port};
use serde_json::Value;

const DECLARE: &str = "CREATE EXTERNAL TABLE flight (id TEXT, dest TEXT, distance DOUBLE, seats INT, \
     gone BOOLEAN, day DATE, at TIMESTAMP, price DECIMAL(10, 2), blob BYTEA) \
     STORED AS HASH LOCATION 'flight:*'";

/// A server with three flights.
fn server() -> (Running, u16) {
    let port = free_port();
    let running = Running::start(&["--sql-port", &port.to_string()]);
    let mut client = running.connect();
    for (id, dest, distance) in [("1", "LAX", "120.5"), ("2", "SFO", "300"), ("3", "LAX", "far")] {
        client.ask(&format!("HSET flight:{id} dest {dest} distance {distance}"));
    }
    assert_eq!(client.ask(&format!("SQL \"{DECLARE}\"")), "+OK");
    (running, port)
}

fn text(value: &Value, flight: &str) -> String {
    value.as_str().unwrap_or_default().replace("{flight}", flight)
}

fn numbers<T: TryFrom<i64>>(value: &Value) -> Vec<T> {
    let numbers = value.as_array().into_iter().flatten().filter_map(Value::as_i64);
    numbers.filter_map(|number| T::try_from(number).ok()).collect()
}

/// Asks a statement as it was recorded.
fn ask(postgres: &mut Postgres, line: &Value, flight: &str) -> Answer {
    if line.get("simple").is_some() {
        let sql = text(&line["simple"], flight);
        postgres.send(&message(b'Q', &[sql.as_bytes(), b"\0"].concat()));
        return postgres.answer();
    }
    let formats: Vec<i16> = numbers(&line["formats"]);
    let values = line["values"].as_array().into_iter().flatten().enumerate();
    let value = |(number, value): (usize, &Value)| {
        let is_binary = *formats.get(number).or(formats.first()).unwrap_or(&0) == 1;
        let value = (!value.is_null()).then(|| text(value, flight))?;
        let hex = |at: usize| u8::from_str_radix(&value[at..at + 2], 16).unwrap();
        Some(if is_binary { (0..value.len()).step_by(2).map(hex).collect() } else { value.into_bytes() })
    };
    let values: Vec<Option<Vec<u8>>> = values.map(value).collect();
    let (types, results) = (numbers::<u32>(&line["types"]), numbers::<i16>(&line["results"]));
    postgres.send(&extended(&text(&line["extended"], flight), &types, &formats, &values, &results));
    postgres.answer()
}

/// Asks everything that a client asked; returns the answers.
fn replay(client: &str) -> Vec<Answer> {
    let (_running, port) = server();
    let mut postgres = Postgres::connect(port);
    let flight = postgres.ask("SELECT oid FROM pg_class WHERE relname = 'flight'").text();
    let path = format!("{}/tests/clients/{client}.jsonl", std::env::var("CARGO_MANIFEST_DIR").unwrap());
    let lines = std::fs::read_to_string(path).unwrap();
    let mut answers = Vec::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let answer = ask(&mut postgres, &line, &flight);
        let fails = line.get("fails").and_then(Value::as_str).unwrap_or_default();
        assert_eq!(answer.code(), fails, "{client} asked {line}: {answer:?}");
        assert_ne!(answer.status, 0, "{client} asked {line}");
        answers.push(answer);
    }
    assert!(answers.len() >= 5, "{client} asked only {} statements", answers.len());
    answers
}

/// True if some row of some answer has all these values.
fn some_row_has(answers: &[Answer], values: &[&str]) -> bool {
    let has = |row: &Vec<Option<String>>, value: &str| row.iter().flatten().any(|found| found == value);
    let rows = answers.iter().flat_map(|answer| &answer.rows);
    rows.into_iter().any(|row| values.iter().all(|value| has(row, value)))
}

#[track_caller]
fn assert_some_row_has(answers: &[Answer], values: &[&str]) {
    assert!(some_row_has(answers, values), "no row has {values:?}");
}

#[test]
fn psql_describes_a_table() {
    let answers = replay("psql");
    assert_some_row_has(&answers, &["public", "flight", "table"]);
    assert_some_row_has(&answers, &["distance", "double precision"]);
    assert_some_row_has(&answers, &["day", "date"]);
}

#[test]
fn psycopg_asks_and_goes_back_to_savepoints() {
    let answers = replay("psycopg");
    assert_some_row_has(&answers, &["2", "SFO", "300"]);
    assert!(answers.iter().any(|answer| answer.tags == ["SAVEPOINT"]));
    assert!(answers.iter().any(|answer| answer.code() == "42P01" && answer.status == b'E'));
}

#[test]
fn sqlalchemy_lists_the_tables() {
    let answers = replay("sqlalchemy");
    assert_some_row_has(&answers, &["flight"]);
    assert_some_row_has(&answers, &["keyspace"]);
    assert_some_row_has(&answers, &["LAX", "2", "120.5"]);
}

#[test]
fn jdbc_reads_the_columns() {
    let answers = replay("jdbc");
    assert_some_row_has(&answers, &["public", "flight", "TABLE"]);
    assert_some_row_has(&answers, &["flight", "distance"]);
    assert_some_row_has(&answers, &["keyspace"]);
}

#[test]
fn jdbc_learns_types_keys_and_privileges() {
    let (_running, port) = server();
    let mut postgres = Postgres::connect(port);
    for (name, is_array) in [("_text", "t"), ("text", "f")] {
        let asked =
            format!("SELECT typinput = 'pg_catalog.array_in'::regproc FROM pg_type WHERE typname = '{name}'");
        assert_eq!(postgres.ask(&asked).text(), is_array, "{name}");
    }
    let most = "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'max_index_keys'";
    assert_eq!(postgres.ask(most).text(), "32");
    let privileges = postgres.ask("SELECT relacl, reloptions FROM pg_class WHERE relname = 'flight'");
    assert_eq!(privileges.rows, [[None, None]]);
    let keys = postgres.ask(
        "SELECT con.conname AS name, pos.n AS key FROM pg_catalog.pg_constraint con, \
         pg_catalog.generate_series(1, 32) pos(n) WHERE con.conkey[pos.n] = 1",
    );
    assert_eq!(keys.code(), "", "{keys:?}");
    assert!(keys.rows.is_empty() && keys.columns[1].0 == "key", "{keys:?}");
}

#[test]
fn node_postgres_asks() {
    let answers = replay("node-postgres");
    assert_some_row_has(&answers, &["1", "LAX", "120.5"]);
    let columns = answers.iter().flat_map(|answer| &answer.columns);
    assert!(columns.into_iter().any(|(name, oid)| name == "count" && *oid == 20));
}

#[test]
fn blocks_fail_and_go_on_from_a_savepoint() {
    let (_running, port) = server();
    let mut postgres = Postgres::connect(port);
    let mut expect = |sql: &str, code: &str, status: u8| {
        for extended in [false, true] {
            // A statement that ends a block or makes a savepoint is asked once.
            if extended && sql != "SELECT 1" && !sql.starts_with("ROLLBACK TO") {
                continue;
            }
            let answer = if extended { postgres.ask_extended(sql, &[]) } else { postgres.ask(sql) };
            assert_eq!((answer.code(), answer.status), (code, status), "{sql}, {extended}: {answer:?}");
        }
    };
    expect("SAVEPOINT a", "25P01", b'I');
    expect("RELEASE a", "25P01", b'I');
    expect("ROLLBACK TO a", "25P01", b'I');
    // Work that began before a fault stays valid.
    expect("BEGIN; SAVEPOINT a; SELECT * FROM nothing", "42P01", b'E');
    expect("SELECT 1", "25P02", b'E');
    expect("ROLLBACK TO b", "3B001", b'E');
    expect("", "", b'E');
    expect("ROLLBACK TO SAVEPOINT a", "", b'T');
    expect("SELECT 1", "", b'T');
    expect("SAVEPOINT A", "", b'T');
    expect("SELECT * FROM nothing", "42P01", b'E');
}

#[test]
fn a_block_keeps_its_instant_through_a_fault() {
    let (running, port) = server();
    let mut postgres = Postgres::connect(port);
    let count = "SELECT count(*) FROM flight";
    assert_eq!(postgres.ask("BEGIN READ ONLY; SAVEPOINT a").status, b'T');
    assert_eq!(postgres.ask(count).text(), "3");
    running.connect().ask("HSET flight:4 dest ZRH");
    assert_eq!(postgres.ask_extended("SELECT * FROM nothing", &[]).code(), "42P01");
    assert_eq!(postgres.ask_extended("ROLLBACK TO SAVEPOINT \"a\"", &[]).status, b'T');
    assert_eq!(postgres.ask(count).text(), "3");
    assert_eq!(postgres.ask("RELEASE SAVEPOINT a; COMMIT").status, b'I');
    assert_eq!(postgres.ask(count).text(), "4");
    assert!(running.connect().whole("INFO views").contains("views_retained_bytes:0"));
}

#[test]
fn settings_are_set_and_shown_as_in_postgresql() {
    let (_running, port) = server();
    let mut postgres =
        Postgres::connect_with(port, &["options", "-c statement_timeout=90s", "TimeZone", "UTC"]);
    for (sql, shown) in [
        ("SHOW statement_timeout", "90s"),
        ("SET statement_timeout = 5000; SHOW statement_timeout", "5s"),
        ("SET statement_timeout TO '2 min'; SHOW statement_timeout", "2min"),
        ("RESET statement_timeout; SHOW statement_timeout", "0"),
        ("SHOW idle_in_transaction_session_timeout", "10min"),
        ("SHOW standard_conforming_strings", "on"),
        ("SHOW TRANSACTION ISOLATION LEVEL", "repeatable read"),
        ("SHOW server_version_num", "160006"),
        ("SHOW TimeZone", "UTC"),
        ("SET application_name = 'x'; SHOW application_name", "x"),
        ("BEGIN; SET LOCAL work_mem = '1MB'; COMMIT; SHOW work_mem", "4MB"),
        ("SET work_mem = '1MB'; DISCARD ALL; SHOW work_mem", "4MB"),
        ("SELECT current_setting('server_version_num')", "160006"),
        ("SELECT count(*), count(*), 1, 1 FROM flight", "3|3|1|1"),
        ("SELECT 300::float8, 'NaN'::float8, '-Infinity'::float8, 1e20::float8", "300|NaN|-Infinity|1e+20"),
    ] {
        let answer = postgres.ask(sql);
        assert_eq!(answer.text(), shown, "{sql}: {answer:?}");
    }
    for (sql, code) in [
        ("SET statement_timeout = soon", "22023"),
        ("SET server_version = '1'", "55P02"),
        ("SET datafusion.execution.target_partitions = 1000000", "42704"),
        ("SHOW datafusion.execution.target_partitions", "42704"),
        ("SHOW nothing", "42704"),
    ] {
        assert_eq!(postgres.ask(sql).code(), code, "{sql}");
    }
    let tables = postgres.ask("SHOW TABLES").text();
    assert!(tables.contains("public|flight") && tables.contains("keyspace|keys"), "{tables}");
    assert!(!tables.contains("pg_catalog") && !tables.contains("information_schema"), "{tables}");
}

#[test]
fn a_block_that_is_left_alone_is_ended() {
    let (running, port) = server();
    let mut postgres = Postgres::connect(port);
    postgres.ask("SET idle_in_transaction_session_timeout = 100");
    // Out of a block it may wait.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(postgres.ask("BEGIN; SELECT count(*) FROM flight").text(), "3");
    let (kind, body) = postgres.receive().unwrap();
    assert_eq!(kind, b'E');
    let said = String::from_utf8_lossy(&body).into_owned();
    assert!(said.contains("FATAL") && said.contains("25P03"), "{said}");
    while postgres.receive().is_some() {}
    running::eventually(|| running.connect().whole("INFO views").contains("views_open:0").then_some(()));
}

#[test]
fn statements_end_at_their_timeout_in_both_protocols() {
    let (_running, port) = server();
    let mut postgres = Postgres::connect(port);
    postgres.ask("SET statement_timeout = '200ms'");
    let endless =
        "SELECT count(*) FROM generate_series(1, 100000000) a CROSS JOIN generate_series(1, 100000000) b";
    assert_eq!(postgres.ask(endless).code(), "57014");
    assert_eq!(postgres.ask_extended(endless, &[]).code(), "57014");
    assert_eq!(postgres.ask("SELECT 1").text(), "1");
}
