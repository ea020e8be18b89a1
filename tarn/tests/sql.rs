//! SQL by the real program: psql, the command `SQL`, and `tarn sql`.

#![allow(clippy::unwrap_used)]

mod running;

use running::{Connection, Running, eventually, free_port};
use std::process::{Command, Output};

/// Asks by psql; what it prints, without alignment.
fn psql(port: u16, password: &str, statements: &[&str]) -> Output {
    let mut command = Command::new("psql");
    command.env("PGPASSWORD", password).env("PGCONNECT_TIMEOUT", "10");
    command.args([
        "-X",
        "-A",
        "-t",
        "-h",
        "127.0.0.1",
        "-U",
        "default",
        "-d",
        "tarn",
        "-p",
        &port.to_string(),
    ]);
    statements.iter().for_each(|statement| {
        command.args(["-c", statement]);
    });
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn fill(client: &mut Connection) {
    for (id, dest, distance) in [("1", "LAX", "120.5"), ("2", "SFO", "300"), ("3", "LAX", "far")] {
        client.ask(&format!("HSET flight:{id} dest {dest} distance {distance}"));
    }
}

const DECLARE: &str =
    "CREATE EXTERNAL TABLE flight (id TEXT, dest TEXT, distance DOUBLE) STORED AS HASH LOCATION 'flight:*'";

#[test]
fn psql_asks_as_it_asks_postgresql() {
    let port = free_port();
    let mut running = Running::start(&["--sql-port", &port.to_string()]);
    fill(&mut running.connect());
    let ask = |statements: &[&str]| said(&psql(port, "", statements));
    assert_eq!(ask(&[DECLARE]), "CREATE TABLE\n");
    let grouped = "SELECT dest, count(*), min(distance) FROM flight GROUP BY dest ORDER BY dest";
    assert_eq!(ask(&[grouped]), "LAX|2|120.5\nSFO|1|300.0\n");
    let block = ["BEGIN READ ONLY", "SELECT count(*) FROM flight", "COMMIT"];
    assert_eq!(ask(&block), "BEGIN\n3\nCOMMIT\n");
    let cursor = [
        "BEGIN",
        "DECLARE c CURSOR FOR SELECT id FROM flight ORDER BY id",
        "FETCH 2 FROM c",
        "FETCH ALL FROM c",
        "COMMIT",
    ];
    assert_eq!(ask(&cursor), "BEGIN\nDECLARE CURSOR\n1\n2\n3\nCOMMIT\n");
    for (statement, words) in [
        ("SELECT * FROM nothing", "nothing"),
        ("SELEC 1", "SELEC"),
        ("INSERT INTO flight VALUES ('4', 'x', 1)", "SQL reads"),
        ("DELETE FROM flight", "SQL reads"),
        (
            "SET statement_timeout = 200; SELECT count(*) FROM generate_series(1, 100000000) a \
          CROSS JOIN generate_series(1, 100000000) b",
            "statement timeout",
        ),
    ] {
        let said = ask(&[statement]);
        assert!(said.contains("ERROR:") && said.contains(words), "{statement}: {said}");
    }
    for listing in
        ["\\d", "\\dt", "\\d flight", "\\dn", "\\l", "SHOW TABLES", "DESCRIBE flight", "SHOW QUERIES"]
    {
        let output = psql(port, "", &[listing]);
        assert!(output.status.success(), "{listing}: {}", said(&output));
    }
    assert!(ask(&["\\dt"]).contains("flight"));
    assert!(ask(&["\\d flight"]).contains("distance"));
    // It is declared still, and nothing is kept of what was read.
    running.restart();
    eventually(|| (said(&psql(port, "", &["SELECT count(*) FROM flight"])) == "3\n").then_some(()));
    assert!(running.connect().whole("INFO views").contains("views_retained_bytes:0"));
}

#[test]
fn a_password_is_asked_for_as_redis_clients_are() {
    let port = free_port();
    let running = Running::start(&["--sql-port", &port.to_string()]);
    assert_eq!(said(&psql(port, "", &["SELECT 1"])), "1\n");
    assert_eq!(running.connect().ask("CONFIG SET requirepass s3cret"), "+OK");
    let refused = psql(port, "wrong", &["SELECT 1"]);
    assert!(
        !refused.status.success() && said(&refused).contains("authentication failed"),
        "{}",
        said(&refused)
    );
    assert_eq!(said(&psql(port, "s3cret", &["SELECT 1"])), "1\n");
    drop(running);
}

#[test]
fn redis_clients_ask_too() {
    let port = free_port();
    let running = Running::start(&["--sql-port", &port.to_string()]);
    let mut client = running.connect();
    fill(&mut client);
    let declared = format!("SQL \"{DECLARE}\"");
    assert_eq!(client.ask(&declared), "+OK");
    let asked = "SQL \"SELECT dest, count(*) AS n FROM flight GROUP BY dest ORDER BY dest\"";
    assert_eq!(client.whole(asked), "*[*[$dest $n] *[$LAX :2] *[$SFO :1]]");
    assert!(client.ask("SQL \"SELECT * FROM nothing\"").starts_with("-ERR 42P01"));
    assert!(client.ask("SQL \"DELETE FROM flight\"").starts_with("-ERR 25006"));
    let asked = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tarn"));
        command.args(["sql", "--port", &running.port.to_string()]).args(args);
        said(&command.output().unwrap())
    };
    let rows = "SELECT id, distance FROM flight ORDER BY id";
    assert_eq!(asked(&["--format", "csv", rows]), "id,distance\n1,120.5\n2,300\n3,\n");
    let json = asked(&["--format", "json", rows]);
    assert_eq!(json.lines().next(), Some("{\"id\":\"1\",\"distance\":120.5}"));
    assert_eq!(json.lines().last(), Some("{\"id\":\"3\",\"distance\":null}"));
    assert!(asked(&[rows]).contains("(3 rows)"));
    assert!(asked(&["SELEC"]).starts_with("tarn: 42601"));
}

#[test]
fn without_a_port_there_is_no_sql() {
    let running = Running::start(&[]);
    assert!(running.connect().ask("SQL \"SELECT 1\"").starts_with("-ERR SQL is not there"));
}
