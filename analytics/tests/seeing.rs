//! Tests: clients see running and ended statements, and statements leave nothing open.

#![allow(clippy::unwrap_used)]

mod house;

use futures::StreamExt;
use house::{BEGIN_MS, House, ask, options};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tarn_analytics::{Session, sqlstate};
use tarn_engine::view::ViewLimits;

const NUMBERS: &str =
    "CREATE EXTERNAL TABLE n (id INT, value INT) STORED AS HASH LOCATION 'n:*' OPTIONS (database '0')";

/// Hashes, of which each tenth has a value that is no number.
async fn numbers(options: tarn_analytics::AnalyticsOptions, count: usize) -> House {
    let house = House::with(options).await;
    for at in 0..count {
        let value = if at % 10 == 9 { "many".to_owned() } else { at.to_string() };
        house.hset(&format!("n:{at}"), &[("value", &value)]);
    }
    ask(&house.session(), NUMBERS).await.unwrap();
    house
}

fn figure(house: &House, name: &str) -> u64 {
    let figures = house.analytics.figures();
    figures.iter().find(|(other, _)| *other == name).unwrap_or_else(|| panic!("{name}")).1
}

/// The columns of `SHOW QUERIES` for the only statement or block that there is.
async fn shown(session: &Arc<Session>) -> Vec<String> {
    let rows = ask(session, "SHOW QUERIES").await.unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].split('|').map(str::to_owned).collect()
}

#[tokio::test]
async fn figures_count_what_statements_did() {
    let house = numbers(options(None), 1000).await;
    let session = house.session();
    let before = figure(&house, "sql_statements_begun");
    assert_eq!(ask(&session, "SELECT count(value) FROM n").await.unwrap(), ["900"]);
    assert!(ask(&session, "SELECT nothing FROM n").await.is_err());
    assert_eq!(figure(&house, "sql_statements_begun") - before, 2);
    assert_eq!(figure(&house, "sql_statements_failed"), 1);
    assert_eq!(figure(&house, "sql_rows_scanned"), 1000);
    assert_eq!((figure(&house, "sql_rows_table"), figure(&house, "sql_rows_remset")), (1000, 0));
    assert_eq!(figure(&house, "sql_values_unreadable"), 100);
    assert_eq!(figure(&house, "sql_tables"), 1);
    assert_eq!(figure(&house, "sql_memory_limit_bytes"), 64 << 20);
    assert_eq!((figure(&house, "sql_bits_taken"), figure(&house, "sql_statements_running")), (0, 0));
    let block = house.session();
    block.begin();
    ask(&block, "SELECT count(*) FROM n").await.unwrap();
    assert_eq!((figure(&house, "sql_bits_taken"), figure(&house, "sql_blocks")), (1, 1));
    assert_eq!(figure(&house, "sql_remset_bytes"), 0);
    (0..1000).for_each(|at| house.hset(&format!("n:{at}"), &[("value", "7")]));
    assert!(figure(&house, "sql_remset_bytes") > 0);
    drop(block);
    assert_eq!((figure(&house, "sql_remset_bytes"), figure(&house, "sql_blocks")), (0, 0));
    house.assert_nothing_kept();
}

#[tokio::test]
async fn what_could_not_be_read_is_told_once() {
    let house = numbers(options(None), 100).await;
    let session = house.session();
    ask(&session, "SELECT sum(value) FROM n").await.unwrap();
    let warning = session.warning().unwrap();
    assert!(warning.starts_with("10 values cannot be read"), "{warning}");
    assert_eq!(session.warning(), None);
    ask(&session, "SELECT sum(id) FROM n").await.unwrap();
    assert_eq!(session.warning(), None, "all of these can be read");
}

#[tokio::test]
async fn a_statement_is_shown_with_what_it_has_read_and_what_is_kept_for_it() {
    let house = numbers(options(None), 40_000).await;
    let (session, other) = (house.session(), house.session());
    let mut outcome = session.run("SELECT id FROM n", None).await.unwrap();
    let first = outcome.rows.next().await.unwrap().unwrap();
    let row = shown(&other).await;
    assert_eq!(row[0], session.pid().to_string());
    assert_eq!(row[2], "running");
    let percent: f64 = row[4].parse().unwrap();
    assert!(percent > 10.0 && percent < 90.0, "{row:?}");
    assert_eq!(row[5], first.num_rows().to_string());
    assert_eq!((row[6].as_str(), row[7].as_str()), ("0", "SELECT id FROM n"));
    (0..1000).for_each(|at| house.delete(&format!("n:{at}")));
    let bytes: usize = shown(&other).await[6].parse().unwrap();
    assert_eq!(bytes, house.engine.views().status().retained.bytes);
    assert!(bytes > 0);
    while outcome.rows.next().await.is_some() {}
    assert!(ask(&other, "SHOW QUERIES").await.unwrap().is_empty());
    // A block that does nothing holds what it holds.
    session.begin();
    assert_eq!(ask(&session, "SELECT count(*) FROM n").await.unwrap(), ["39000"]);
    (1000..2000).for_each(|at| house.delete(&format!("n:{at}")));
    let row = shown(&other).await;
    assert_eq!((row[0].as_str(), row[1].as_str()), (session.pid().to_string().as_str(), "NULL"));
    assert_eq!((row[2].as_str(), row[7].as_str()), ("idle in block", "SELECT count(*) FROM n"));
    assert!(row[6].parse::<usize>().unwrap() > 0);
    session.end();
    assert!(ask(&other, "SHOW QUERIES").await.unwrap().is_empty());
    house.assert_nothing_kept();
}

#[tokio::test]
async fn who_waits_for_bits_is_shown_so() {
    let house = numbers(options(None), 10).await;
    let blocks: Vec<_> = (0..60).map(|_| house.session()).collect();
    for block in &blocks {
        block.begin();
        ask(block, "SELECT count(*) FROM n").await.unwrap();
    }
    let waiting = house.session();
    let mut outcome = waiting.run("SELECT count(*) FROM n", None).await.unwrap();
    {
        let next = outcome.rows.next();
        tokio::pin!(next);
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut next).await.is_err());
        let rows = ask(&house.session(), "SHOW QUERIES").await.unwrap();
        assert_eq!(rows.len(), 61);
        assert!(
            rows[0].starts_with(&format!("{}|", waiting.pid())) && rows[0].contains("|waiting for bits|")
        );
        assert_eq!((figure(&house, "sql_statements_waiting"), figure(&house, "sql_bits_taken")), (1, 60));
        drop(blocks);
        assert_eq!(next.await.unwrap().unwrap().num_rows(), 1);
    }
    assert_eq!(figure(&house, "sql_statements_waiting"), 0);
}

#[tokio::test]
async fn another_session_stops_a_statement_by_its_number() {
    let house = numbers(options(None), 20_000).await;
    let (session, other) = (house.session(), house.session());
    let pid = ask(&session, "SELECT pg_backend_pid()").await.unwrap();
    assert_eq!(pid, [session.pid().to_string()]);
    let cancel = format!("SELECT pg_cancel_backend({})", session.pid());
    assert_eq!(ask(&other, &cancel).await.unwrap(), ["false"], "nothing runs there");
    let mut outcome = session.run("SELECT id FROM n", None).await.unwrap();
    outcome.rows.next().await.unwrap().unwrap();
    ask(&other, &format!("EXPLAIN {cancel}")).await.unwrap();
    outcome.rows.next().await.unwrap().unwrap();
    assert_eq!(ask(&other, &cancel).await.unwrap(), ["true"]);
    let error = loop {
        match outcome.rows.next().await.unwrap() {
            Ok(_) => {}
            Err(error) => break error.into(),
        }
    };
    assert_eq!(sqlstate(&error), "57014");
    drop(outcome);
    house.assert_nothing_kept();
}

#[tokio::test]
async fn explain_analyze_tells_table_from_remset_and_explain_opens_nothing() {
    let house = numbers(options(None), 1000).await;
    let session = house.session();
    let opened = house.engine.views().status().opened;
    ask(&session, "EXPLAIN SELECT sum(id) FROM n").await.unwrap();
    assert_eq!(house.engine.views().status().opened, opened);
    session.begin();
    let explain = "EXPLAIN ANALYZE SELECT sum(id) FROM n";
    let plan = ask(&session, explain).await.unwrap().concat();
    assert!(plan.contains("rows_table=1.00 K") || plan.contains("rows_table=1000"), "{plan}");
    assert!(plan.contains("rows_remset=0") && plan.contains("parts="), "{plan}");
    (0..100).for_each(|at| house.hset(&format!("n:{at}"), &[("value", "7")]));
    house.set(0, "another", b"key", None);
    let plan = ask(&session, explain).await.unwrap().concat();
    assert!(plan.contains("rows_table=900") && plan.contains("rows_remset=100"), "{plan}");
}

#[tokio::test]
async fn what_queries_keep_is_bounded_by_their_memory() {
    let house = numbers(options(None), 5_000).await;
    house.engine.views().set_limits(ViewLimits {
        retained_bytes: 0,
        passing_bytes: 10_000,
        age: Duration::ZERO,
    });
    let session = house.session();
    session.begin();
    assert_eq!(ask(&session, "SELECT count(*) FROM n").await.unwrap(), ["5000"]);
    (0..5_000).for_each(|at| house.hset(&format!("n:{at}"), &[("value", "7")]));
    house.engine.views().enforce_limits();
    let error = ask(&session, "SELECT count(*) FROM n").await.unwrap_err();
    assert_eq!(sqlstate(&error), "53200");
    assert!(error.to_string().contains("analytics-max-memory"), "{error}");
    session.end();
    assert_eq!(ask(&session, "SELECT count(*) FROM n").await.unwrap(), ["5000"]);
    house.assert_nothing_kept();
}

#[tokio::test]
async fn a_proposed_table_reads_what_was_sampled() {
    let house = House::new().await;
    for at in 0..200 {
        let key = format!("user:{at}");
        let (age, paid) = (at.to_string(), format!("{at}.5"));
        house.hset(&key, &[("name", "ann"), ("age", &age), ("paid", &paid), ("zip", "0815")]);
        house.hset(&key, &[("since", "2026-11-23"), ("at", "2026-11-23 10:11:12"), ("ok", "true")]);
        if at % 50 == 0 {
            house.hset(&key, &[("nick name", "a"), ("id", "x")]);
        }
    }
    house.set(0, "user:text", b"text", None);
    house.set(0, "others", b"text", None);
    let session = house.session();
    let proposed = ask(&session, "SELECT * FROM infer('user:*')").await.unwrap().remove(0);
    assert_eq!(
        proposed,
        "-- 201 keys of 'user:*' were looked at\n\
         -- 1 of them hold something else than HASH, and are not in this table\n\
         CREATE EXTERNAL TABLE \"user\" (\n  \
           \"key\" TEXT,\n  \
           \"age\" BIGINT,\n  \
           \"at\" TIMESTAMP,\n  \
           \"name\" TEXT,\n  \
           \"ok\" BOOLEAN,\n  \
           \"paid\" DOUBLE,\n  \
           \"since\" DATE,\n  \
           \"zip\" TEXT,\n  \
           \"id\" TEXT,  -- rare: in 2.0 % of the keys\n  \
           \"nick name\" TEXT  -- rare: in 2.0 % of the keys\n\
         ) STORED AS HASH LOCATION 'user:*'"
    );
    ask(&session, &proposed).await.unwrap();
    let read =
        "SELECT count(*), sum(age), sum(paid), min(since), max(at), count(\"nick name\") FROM \"user\"";
    assert_eq!(ask(&session, read).await.unwrap(), ["200|19900|20000.0|2026-11-23|2026-11-23T10:11:12|4"]);
    assert_eq!(session.warning(), None);
    house.assert_nothing_kept();
}

#[tokio::test]
async fn tables_of_all_kinds_are_proposed() {
    let house = House::new().await;
    house.set(2, "doc:1", br#"{"n": 1, "deep": {"x": 1}, "s": "x"}"#, None);
    house.set(2, "doc:2", br#"{"n": 2.5}"#, None);
    house.set(0, "text:1", b"17", None);
    house.zadd("zset:1", "member", 1.5);
    house.rpush("list:1", "2026-11-23");
    house.sadd("set:a", "7");
    house.xadd("stream:1", (BEGIN_MS, 0), &[("n", "1"), ("id", "x"), ("n", "no number")]);
    (1..20).for_each(|seq| house.xadd("stream:1", (BEGIN_MS, seq), &[("n", "2")]));
    house.xadd("late:1", (u64::MAX, 0), &[("key", "1")]);
    let session = house.session();
    for (call, columns) in [
        (
            "infer('doc:*', 2)",
            "(\n  \"id\" BIGINT,\n  \"n\" DOUBLE,\n  \"deep\" TEXT,\n  \"s\" TEXT\n) STORED AS JSON",
        ),
        ("infer('text:*')", "(\n  \"key\" BIGINT,\n  \"value\" BIGINT\n) STORED AS STRING"),
        ("infer('zset:*')", "(\n  \"key\" BIGINT,\n  \"member\" TEXT,\n  \"score\" DOUBLE\n) STORED AS ZSET"),
        ("infer('list:*')", "(\n  \"key\" BIGINT,\n  \"index\" BIGINT,\n  \"value\" DATE\n) STORED AS LIST"),
        (
            "infer('stream:*')",
            "(\n  \"key\" BIGINT,\n  \"id\" TEXT,\n  \"ms\" TIMESTAMP,\n  \"n\" BIGINT,\n  \
             \"field_id\" TEXT  -- rare: in 5.0 % of the entries\n) \
             STORED AS STREAM LOCATION 'stream:*' OPTIONS ('column.field_id' 'id')",
        ),
        (
            "infer('late:*')",
            "(\n  \"key_1\" BIGINT,\n  \"id\" TEXT,\n  \"ms\" DECIMAL(20, 0),\n  \"key\" BIGINT\n) \
             STORED AS STREAM",
        ),
        ("infer('set:*')", "(\n  \"key\" TEXT,\n  \"member\" BIGINT\n) STORED AS SET"),
    ] {
        let proposed = ask(&session, &format!("SELECT * FROM {call}")).await.unwrap().remove(0);
        assert!(proposed.contains(columns), "{call}: {proposed}");
        ask(&session, &proposed).await.unwrap();
    }
    assert_eq!(ask(&session, "SELECT sum(n) FROM doc").await.unwrap(), ["3.5"]);
    let stream = "SELECT count(*), sum(n), max(field_id), max(ms) FROM stream";
    assert_eq!(ask(&session, stream).await.unwrap(), ["20|39|x|1970-01-01T00:16:40"]);
    assert_eq!(ask(&session, "SELECT ms FROM late").await.unwrap(), [u64::MAX.to_string()]);
    assert_eq!(session.warning(), None);
    let nothing = ask(&session, "SELECT * FROM infer('nothing*')").await.unwrap().remove(0);
    assert!(nothing.contains("0 keys") && !nothing.contains("CREATE"), "{nothing}");
    for wrong in ["infer()", "infer('x')", "infer(7)", "infer('x*', 3)", "infer('x*', 'y')"] {
        assert!(ask(&session, &format!("SELECT * FROM {wrong}")).await.is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn a_sample_ends_and_says_so() {
    let house = numbers(options(None), 10_500).await;
    let proposed = ask(&house.session(), "SELECT * FROM infer('n:*')").await.unwrap().remove(0);
    assert!(proposed.contains("these are a sample"), "{proposed}");
    let many = ask(&house.session(), "SELECT * FROM infer('n:1*')").await.unwrap().remove(0);
    assert!(!many.contains("these are a sample"), "{many}");
    house.assert_nothing_kept();
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn copy_writes_whole_files_into_its_directory_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let export = folder.path().join("export");
    std::fs::create_dir(&export).unwrap();
    let options =
        tarn_analytics::AnalyticsOptions { export_directory: Some(export.clone()), ..options(None) };
    let house = numbers(options, 20_000).await;
    let session = house.session();
    for (statement, name, lines) in [
        ("COPY (SELECT id, value FROM n ORDER BY id) TO 'n.csv'", "n.csv", 20_001),
        ("COPY n TO 'n.json'", "n.json", 20_000),
        ("COPY (SELECT id FROM n WHERE id < 0) TO 'none.csv'", "none.csv", 1),
    ] {
        let outcome = session.run(statement, None).await.unwrap();
        assert_eq!((outcome.tag, outcome.count.unwrap()), ("COPY", if lines == 1 { 0 } else { 20_000 }));
        assert_eq!(std::fs::read_to_string(export.join(name)).unwrap().lines().count(), lines, "{name}");
    }
    assert!(std::fs::read_to_string(export.join("n.csv")).unwrap().starts_with("id,value\n0,0\n1,1\n"));
    session.run("COPY (SELECT * FROM n) TO 'n.parquet'", None).await.unwrap();
    let read = std::fs::File::open(export.join("n.parquet")).unwrap();
    let reader =
        datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(read, 1024).unwrap();
    let rows: usize = reader.map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows, 20_000);
    let there = names_in(&export);
    for (to, state) in [
        ("n.csv", "58P02"),
        ("../n.csv", "42602"),
        ("/n.csv", "42602"),
        ("a/n.csv", "42602"),
        ("..csv", "42602"),
        (".n.csv", "42602"),
        ("", "42602"),
        ("n", "42602"),
        ("n.txt", "42602"),
        ("file:n.csv", "00000"),
    ] {
        let done = session.run(&format!("COPY (SELECT 1 AS one) TO '{to}'"), None).await;
        match done {
            Ok(_) => assert_eq!(state, "00000", "{to}"),
            Err(error) => assert_eq!(sqlstate(&error), state, "{to}: {error}"),
        }
    }
    std::fs::remove_file(export.join("file:n.csv")).unwrap();
    // A statement that fails or is stopped leaves nothing open.
    let fails = "COPY (SELECT 1 / (id - 19999) FROM n) TO 'fails.parquet'";
    assert_eq!(sqlstate(&session.run(fails, None).await.err().unwrap()), "22012");
    // It gathers nothing: a fast machine would fill the memory of a join before the time is over.
    let endless = "COPY (SELECT value FROM generate_series(1, 1000000000000000)) TO 'endless.csv'";
    let stopped = session.run(endless, Some(Duration::from_millis(200))).await.err().unwrap();
    assert_eq!(sqlstate(&stopped), "57014");
    // Another thread deletes the unfinished file of a statement that was stopped.
    for _ in 0..3_000 {
        if names_in(&export) == there {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(names_in(&export), there);
    assert_eq!(names_in(folder.path()), ["export"]);
    for statement in [
        "COPY n TO 'x.csv' STORED AS JSON",
        "COPY n TO 'x.csv' OPTIONS ('format.delimiter' ';')",
        "COPY (INSERT INTO n VALUES (1)) TO 'x.csv'",
        "EXPLAIN COPY n TO 'x.csv'",
    ] {
        assert!(session.run(statement, None).await.is_err(), "{statement}");
    }
    assert_eq!(names_in(&export), there);
    house.assert_nothing_kept();
}

#[tokio::test]
async fn without_a_directory_copy_is_refused() {
    let house = numbers(options(None), 10).await;
    let error = ask(&house.session(), "COPY n TO 'n.csv'").await.unwrap_err();
    assert_eq!(sqlstate(&error), "55000");
    assert!(error.to_string().contains("sql-export-dir"), "{error}");
}

#[test]
fn texts_become_parquet_of_their_types() {
    let columns = [
        ("n", "Int64"),
        ("x", "Float64"),
        ("t", "Utf8View"),
        ("b", "Boolean"),
        ("day", "Date32"),
        ("at", "Timestamp(ns)"),
        ("money", "Decimal128(10, 2)"),
        ("raw", "Binary"),
        ("list", "List(Int64)"),
    ];
    let columns = columns.map(|(name, data_type)| (name.to_owned(), data_type.to_owned()));
    let cells = ["7", "inf", "ä", "true", "2026-11-23", "2026-11-23T10:11:12", "12.50", "\u{0}x", "[1, 2]"];
    let row = cells.map(|cell| Some(cell.as_bytes().to_vec())).to_vec();
    let bytes = tarn_analytics::parquet_of(&columns, &[row, vec![None; 9]]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.parquet");
    std::fs::write(&path, bytes).unwrap();
    let read = std::fs::File::open(path).unwrap();
    let mut reader =
        datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(read, 1024).unwrap();
    let batch = reader.next().unwrap().unwrap();
    let types: Vec<_> = batch.schema().fields().iter().map(|field| field.data_type().to_string()).collect();
    assert_eq!(
        types,
        [
            "Int64",
            "Float64",
            "Utf8",
            "Boolean",
            "Date32",
            "Timestamp(ns)",
            "Decimal128(10, 2)",
            "Binary",
            "Utf8"
        ]
    );
    assert!(batch.columns().iter().all(|column| column.null_count() == 1 && column.len() == 2));
    let wrong = [("n".to_owned(), "Int64".to_owned())];
    assert!(tarn_analytics::parquet_of(&wrong, &[vec![Some(b"x".to_vec())]]).is_err());
}
