//! SQL by the real program: psql, the command `SQL`, and `tarn sql`.

#![allow(clippy::unwrap_used)]

mod running;

use running::{Connection, Running, eventually, free_port};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output};

/// Asks by psql; its output, without alignment.
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

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The types of the messages that answer a statement of the extended protocol.
fn messages_of(port: u16, statement: &str) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut read_until_ready = |sent: &[u8]| {
        socket.write_all(sent).unwrap();
        let mut types = String::new();
        while !types.ends_with('Z') {
            let mut head = [0; 5];
            socket.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
            socket.read_exact(&mut vec![0; length - 4]).unwrap();
            types.push(head[0] as char);
        }
        types
    };
    let message = |kind: &[u8], body: &[u8]| [kind, &(body.len() as u32 + 4).to_be_bytes(), body].concat();
    read_until_ready(&message(b"", b"\0\x03\0\0user\0default\0\0"));
    let parse = message(b"P", format!("\0{statement}\0\0\0").as_bytes());
    let (bind, execute) = (message(b"B", &[0; 8]), message(b"E", &[0; 5]));
    read_until_ready(&[parse, bind, execute, message(b"S", b"")].concat())
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
    // With it comes a warning that one distance is no number.
    assert_eq!(printed(&psql(port, "", &[grouped])), "LAX|2|120.5\nSFO|1|300\n");
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
    // It is still declared, and nothing that was read is kept.
    running.restart();
    eventually(|| (said(&psql(port, "", &["SELECT count(*) FROM flight"])) == "3\n").then_some(()));
    assert!(running.connect().whole("INFO views").contains("views_retained_bytes:0"));
}

#[test]
fn values_that_cannot_be_read_are_told_before_the_end() {
    let port = free_port();
    let running = Running::start(&["--sql-port", &port.to_string()]);
    fill(&mut running.connect());
    said(&psql(port, "", &[DECLARE]));
    let output = psql(port, "", &["SELECT count(distance) FROM flight; SELECT count(*) FROM flight"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2\n3\n");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.starts_with("WARNING:  1 value cannot be read") && told.lines().count() == 1, "{told}");
    // As a statement that was prepared, too.
    let prepared = messages_of(port, "SELECT count(distance) FROM flight");
    assert_eq!(prepared, "12DNCZ", "parsed, bound, a row, the warning, the end");
    let mut client = running.connect();
    let asked = "SQL \"SELECT count(distance) FROM flight\" WARNINGS";
    assert!(client.whole(asked).starts_with("*[*[$1 value cannot be read as the type of its column"));
    assert_eq!(client.whole("SQL \"SELECT 1 AS one\" WARNINGS"), "*[*[] *[*[$one] *[:1]]]");
    let info = client.whole("INFO analytics");
    assert!(info.contains("sql_values_unreadable:3"), "{info}");
    assert!(info.contains("sql_tables:1") && info.contains("sql_connections_accepted:3"), "{info}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tarn"));
    let rows = "SELECT sum(distance) AS all FROM flight";
    let output =
        command.args(["sql", "--port", &running.port.to_string(), "-f", "csv", rows]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "all\n420.5\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("warning: 1 value"), "{output:?}");
}

#[test]
fn a_statement_is_stopped_from_another_connection() {
    let port = free_port();
    // Another thread, so that a new client need not wait for the statement to give way.
    let running = Running::start(&["--sql-port", &port.to_string(), "--analytics-threads", "2"]);
    let endless = "SELECT count(*) FROM generate_series(1, 1000000000000)";
    let stopped = std::thread::spawn(move || psql(port, "", &[endless]));
    let pid = eventually(|| {
        let shown = said(&psql(port, "", &["SHOW QUERIES"]));
        let row = shown.lines().find(|row| row.contains("1000000000000"))?;
        Some(row.split('|').next()?.to_owned())
    });
    let cancel = format!("SELECT pg_cancel_backend({pid})");
    eventually(|| (said(&psql(port, "", &[&cancel])) == "t\n").then_some(()));
    let output = stopped.join().unwrap();
    assert!(said(&output).contains("canceling statement due to user request"), "{}", said(&output));
    drop(running);
}

#[test]
fn files_are_written_on_the_server_and_on_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let (port, export) = (free_port(), folder.path().display().to_string());
    let unfinished = ["1-1", "2-1"].map(|number| folder.path().join(format!(".tarn-copy-{number}.tmp")));
    let [_, of_another] = unfinished.each_ref().map(|path| std::fs::File::create(path).unwrap());
    of_another.lock().unwrap();
    let running = Running::start(&["--sql-port", &port.to_string(), "--sql-export-dir", &export]);
    assert_eq!(
        unfinished.each_ref().map(|path| path.exists()),
        [false, true],
        "somebody writes to the other"
    );
    fill(&mut running.connect());
    said(&psql(port, "", &[DECLARE]));
    let there = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert_eq!(said(&psql(port, "", &["COPY (SELECT id FROM flight ORDER BY id) TO 'x.csv'"])), "COPY 3\n");
    assert_eq!(there("x.csv"), b"id\n1\n2\n3\n");
    let refused = said(&psql(port, "", &["COPY flight TO '../x.csv'"]));
    assert!(refused.contains("cannot be the name of a file"), "{refused}");
    let mut client = running.connect();
    assert_eq!(client.whole("SQL \"COPY flight TO 'x.parquet'\""), "*[*[$rows] *[:3]]");
    assert!(client.ask("SQL \"COPY flight TO 'x.parquet'\"").starts_with("-ERR 58P02"));
    assert!(there("x.parquet").starts_with(b"PAR1"));
    let here = folder.path().join("here.parquet").display().to_string();
    let asked = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tarn"));
        command.args(["sql", "--port", &running.port.to_string()]).args(args).output().unwrap()
    };
    let output = asked(&["--format", "parquet", "--output", &here, "SELECT id, dest, distance FROM flight"]);
    assert!(output.status.success(), "{output:?}");
    let written = there("here.parquet");
    assert!(written.starts_with(b"PAR1") && written.ends_with(b"PAR1"));
    assert!(!asked(&["--format", "parquet", "SELECT 1"]).status.success(), "it needs a file");
    let proposed = said(&asked(&["--infer", "flight:*"]));
    assert!(proposed.contains("-- 3 keys of 'flight:*'") && proposed.contains("\"dest\" TEXT"), "{proposed}");
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
        command.output().unwrap()
    };
    let rows = "SELECT id, distance FROM flight ORDER BY id";
    assert_eq!(printed(&asked(&["--format", "csv", rows])), "id,distance\n1,120.5\n2,300\n3,\n");
    let json = printed(&asked(&["--format", "json", rows]));
    assert_eq!(json.lines().next(), Some("{\"id\":\"1\",\"distance\":120.5}"));
    assert_eq!(json.lines().last(), Some("{\"id\":\"3\",\"distance\":null}"));
    assert!(printed(&asked(&[rows])).contains("(3 rows)"));
    assert!(said(&asked(&["SELEC"])).starts_with("tarn: 42601"));
}

#[test]
fn the_command_needs_no_port() {
    let running = Running::start(&[]);
    let answer = running.connect().whole("SQL \"SELECT 40 + 2 AS sum\"");
    assert!(answer.contains("sum") && answer.contains("42"), "{answer}");
}
