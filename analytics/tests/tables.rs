//! Tables over keys: their rows, and how they are declared.

#![allow(clippy::unwrap_used)]

mod house;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use futures::StreamExt;
use house::{BEGIN_MS, House, ask, options};
use tarn_analytics::sqlstate;
use tarn_engine::record::{Change, Kind};

async fn flights() -> House {
    let house = House::new().await;
    for (key, dest, distance) in [
        ("flight:1", "LAX", "120.5"),
        ("flight:2", "SFO", "300"),
        ("flight:3", "LAX", "far"),
        ("plane:1", "x", "1"),
    ] {
        house.hset(key, &[("dest", dest), ("distance", distance), ("note", "n")]);
    }
    house.hset("flight:4", &[("dest", "ORD")]);
    house.set(0, "flight:5", b"a string is no row", None);
    let session = house.session();
    let declared = ask(
        &session,
        "CREATE EXTERNAL TABLE flight (id TEXT, dest TEXT, distance DOUBLE) \
         STORED AS HASH LOCATION 'flight:*'",
    );
    assert!(declared.await.unwrap().is_empty());
    house
}

#[tokio::test]
async fn a_row_for_each_hash_of_the_pattern() {
    let house = flights().await;
    let session = house.session();
    let rows = ask(&session, "SELECT * FROM flight ORDER BY id").await.unwrap();
    assert_eq!(rows, ["1|LAX|120.5", "2|SFO|300.0", "3|LAX|NULL", "4|ORD|NULL"]);
    let rows = ask(
        &session,
        "SELECT dest, count(*), min(distance) FROM flight WHERE distance <= 400 GROUP BY dest ORDER BY 1",
    );
    assert_eq!(rows.await.unwrap(), ["LAX|1|120.5", "SFO|1|300.0"]);
    assert_eq!(ask(&session, "SELECT count(*) FROM flight").await.unwrap(), ["4"]);
    assert_eq!(ask(&session, "SELECT dest FROM flight LIMIT 2").await.unwrap().len(), 2);
    assert_eq!(house.analytics.queries().unreadable(), 2, "'far' in two statements");
    house.assert_nothing_kept();
}

#[tokio::test]
async fn the_schema_keyspace_is_there_without_a_declaration() {
    let house = flights().await;
    house.zadd("board", "ann", 1.5);
    house.zadd("board", "bob", 2.0);
    house.sadd("tags", "red");
    (0..100).for_each(|at| house.rpush("list", &at.to_string()));
    house.xadd("events", (7, 0), &[("b", "1"), ("a", "2"), ("b", "3")]);
    house.xadd("events", (7, 1), &[("", "")]);
    house.set(0, "text", b"value", Some(BEGIN_MS + 500));
    house.set(1, "other", b"of another database", None);
    let session = house.session();
    let types = "SELECT type, count(*) FROM keyspace.keys GROUP BY type ORDER BY type";
    assert_eq!(
        ask(&session, types).await.unwrap(),
        ["hash|5", "list|1", "set|1", "stream|1", "string|2", "zset|1"]
    );
    let ttl = "SELECT key, ttl_ms FROM keyspace.keys WHERE ttl_ms IS NOT NULL";
    assert_eq!(ask(&session, ttl).await.unwrap(), ["text|500"]);
    let board = "SELECT * FROM keyspace.zsets ORDER BY score DESC";
    assert_eq!(ask(&session, board).await.unwrap(), ["board|bob|2.0", "board|ann|1.5"]);
    assert_eq!(ask(&session, "SELECT * FROM keyspace.sets").await.unwrap(), ["tags|red"]);
    assert_eq!(
        ask(&session, "SELECT * FROM keyspace.streams").await.unwrap(),
        ["events|7-0|b|1", "events|7-0|a|2", "events|7-0|b|3", "events|7-1||"]
    );
    let third = "SELECT id FROM keyspace.streams WHERE field = 'b' AND value = '3'";
    assert_eq!(ask(&session, third).await.unwrap(), ["7-0"]);
    let list = "SELECT count(*), sum(index), sum(value::int) FROM keyspace.lists";
    assert_eq!(ask(&session, list).await.unwrap(), ["100|4950|4950"]);
    let field = "SELECT value FROM keyspace.hashes WHERE key = 'flight:1' AND field = 'dest'";
    assert_eq!(ask(&session, field).await.unwrap(), ["LAX"]);
    assert_eq!(
        ask(&session, "SELECT value FROM keyspace.strings WHERE key = 'text'").await.unwrap(),
        ["value"]
    );
    house.clock.advance(501);
    assert_eq!(
        ask(&session, "SELECT value FROM keyspace.strings WHERE key = 'text'").await.unwrap().len(),
        0
    );
    house.assert_nothing_kept();
}

#[tokio::test]
async fn long_collections_come_in_batches() {
    let house = House::new().await;
    for at in 0..20_000 {
        house.sadd("set", &format!("member:{at}"));
        house.rpush("list", &at.to_string());
        house.hset("hash", &[(&format!("field:{at}"), "1")]);
        house.xadd("stream", (at, 5), &[("n", &at.to_string())]);
    }
    let session = house.session();
    let tables = [("sets", "member"), ("lists", "value"), ("hashes", "field"), ("streams", "id")];
    for (table, column) in tables {
        let sql = format!("SELECT count(*), count(DISTINCT {column}) FROM keyspace.{table}");
        assert_eq!(ask(&session, &sql).await.unwrap(), ["20000|20000"], "{table}");
        let sql = format!("SELECT {column} FROM keyspace.{table} LIMIT 15000");
        assert_eq!(ask(&session, &sql).await.unwrap().len(), 15_000, "{table}");
    }
    let entries = "CREATE EXTERNAL TABLE entry (id TEXT, ms INT, n INT) STORED AS STREAM LOCATION 'str*'";
    ask(&session, entries).await.unwrap();
    let counted = "SELECT count(*), count(DISTINCT ms), sum(n), sum(ms), min(id) FROM entry";
    assert_eq!(ask(&session, counted).await.unwrap(), ["20000|20000|199990000|199990000|eam"]);
    let few = "SELECT ms FROM entry WHERE n >= 9000 AND n < 9003 ORDER BY ms";
    assert_eq!(ask(&session, few).await.unwrap(), ["9000", "9001", "9002"]);
    // Where each has one row, none is there twice, wherever a batch ends.
    let long = "x".repeat(100);
    for at in 0..20_000 {
        house.set(0, &format!("doc:{at}"), format!("{{\"n\":{at},\"x\":\"{long}\"}}").as_bytes(), None);
    }
    let declared = "CREATE EXTERNAL TABLE doc (id INT, n INT) STORED AS JSON LOCATION 'doc:*'";
    ask(&session, declared).await.unwrap();
    let counted = "SELECT count(*), count(DISTINCT id), sum(n) FROM doc";
    assert_eq!(ask(&session, counted).await.unwrap(), ["20000|20000|199990000"]);
    let bytes = "SELECT count(*), count(DISTINCT key) FROM keyspace.keys WHERE bytes > 0";
    assert_eq!(ask(&session, bytes).await.unwrap(), ["20004|20004"]);
    let twice = "CREATE EXTERNAL TABLE twice (id TEXT, a INT, b INT) STORED AS HASH LOCATION 'small*' \
                 OPTIONS ('column.a' 'f', 'column.b' 'f')";
    ask(&session, twice).await.unwrap();
    house.hset("small", &[("f", "7")]);
    assert_eq!(ask(&session, "SELECT a, b FROM twice").await.unwrap(), ["7|7"]);
    house.assert_nothing_kept();
}

#[tokio::test]
async fn types_are_read_as_postgresql_reads_them() {
    let house = House::new().await;
    house.hset(
        "t:1",
        &[("b", "yes"), ("s", "-7"), ("i", "+70"), ("l", "9000000000"), ("r", "1.5"), ("d", "-2.25e3")],
    );
    house.hset("t:1", &[("n", "12.345"), ("day", "2026-11-23"), ("at", "2026-11-23 01:02:03"), ("raw", "x")]);
    house.hset("t:2", &[("b", "maybe"), ("s", "70000"), ("i", "1.5"), ("l", ""), ("day", "soon")]);
    let session = house.session();
    let declared = "CREATE EXTERNAL TABLE t (id INT, b BOOLEAN, s SMALLINT, i INT, l BIGINT, r REAL, \
                    d DOUBLE, n DECIMAL(10, 2), day DATE, at TIMESTAMP, raw BYTEA) \
                    STORED AS HASH LOCATION 't:*'";
    ask(&session, declared).await.unwrap();
    assert_eq!(
        ask(&session, "SELECT * FROM t ORDER BY id").await.unwrap(),
        [
            "1|true|-7|70|9000000000|1.5|-2250.0|12.35|2026-11-23|2026-11-23T01:02:03|78",
            "2|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL"
        ]
    );
}

#[tokio::test]
async fn what_is_no_text_is_null_and_counted_wherever_it_is_read() {
    let house = House::new().await;
    let put = |key: &str, field: &str, value: &[u8]| {
        let change =
            Change::HashPut { field: field.as_bytes().to_vec().into(), value: value.to_vec().into() };
        house.change(0, 0, vec![(key.as_bytes().to_vec(), change)]);
    };
    for number in 0..100 {
        let key = format!("note:{number:02}");
        put(&key, "head", format!("head of {number}").as_bytes());
        put(&key, "text", if number == 50 { b"\xc3" } else { b"a text that no view has room for" });
        put(&key, "tail", if number == 50 { b"\xa4" } else { b"tail" });
    }
    let session = house.session();
    let declare = "CREATE EXTERNAL TABLE note (id TEXT, head TEXT, text TEXT, tail TEXT) STORED AS HASH \
                   LOCATION 'note:*'";
    ask(&session, declare).await.unwrap();
    let counts = "SELECT count(*), count(head), count(text), count(tail) FROM note";
    assert_eq!(ask(&session, counts).await.unwrap(), ["100|100|99|99"]);
    assert_eq!(house.analytics.queries().unreadable(), 2);
    let one = "SELECT id, head, text, tail FROM note WHERE text IS NULL";
    assert_eq!(ask(&session, one).await.unwrap(), ["50|head of 50|NULL|NULL"]);
    ask(&session, "DROP TABLE note").await.unwrap();
    ask(&session, &format!("{declare} OPTIONS (strict 'true')")).await.unwrap();
    let error = ask(&session, counts).await.unwrap_err().to_string();
    assert!(error.contains("note:50"), "{error}");
}

#[tokio::test]
async fn a_strict_table_refuses_what_is_not_of_its_type() {
    let house = flights().await;
    let session = house.session();
    let declared = "CREATE EXTERNAL TABLE f (id TEXT, distance DOUBLE) STORED AS HASH LOCATION 'flight:*' \
                    OPTIONS (strict 'true')";
    ask(&session, declared).await.unwrap();
    let error = ask(&session, "SELECT sum(distance) FROM f").await.unwrap_err();
    assert_eq!(sqlstate(&error), "22P02");
    assert!(error.to_string().contains("\"flight:3\"") && error.to_string().contains("distance"), "{error}");
    assert_eq!(ask(&session, "SELECT count(*) FROM f").await.unwrap(), ["4"]);
    house.assert_nothing_kept();
}

#[tokio::test]
async fn documents_are_read_by_paths() {
    let house = House::new().await;
    house.set(
        0,
        "doc:1",
        br#"{"name":"ann","age":30,"tags":["a","b"],"home":{"city":"Oslo"},"ok":true}"#,
        None,
    );
    house.set(0, "doc:2", br#"{"name":null,"age":"31","home":{}}"#, None);
    house.set(0, "doc:3", b"no document", None);
    let elements = br#"{"name":"eve"}"#.to_vec().into();
    let document = Change::Image { kind: Kind::Json, elements, expiry: None, sticky: false };
    house.change(0, 0, vec![(b"doc:4".to_vec(), document)]);
    let session = house.session();
    let declared = "CREATE EXTERNAL TABLE doc (id TEXT, name TEXT, age INT, city TEXT, last TEXT, home TEXT, \
                    ok BOOLEAN) \
                    STORED AS JSON LOCATION 'doc:*' \
                    OPTIONS ('column.city' '$.home.city', 'column.last' 'tags[-1]')";
    ask(&session, declared).await.unwrap();
    assert_eq!(
        ask(&session, "SELECT * FROM doc ORDER BY id").await.unwrap(),
        [
            r#"1|ann|30|Oslo|b|{"city":"Oslo"}|true"#,
            "2|NULL|31|NULL|NULL|{}|NULL",
            "4|eve|NULL|NULL|NULL|NULL|NULL"
        ]
    );
}

#[tokio::test]
async fn a_row_for_each_entry_of_each_stream() {
    let house = House::new().await;
    house.xadd("s:a", (1_700_000_000_123, 0), &[("name", "ann"), ("n", "1")]);
    // The first of a name counts, wherever the entry before had it.
    house.xadd("s:a", (1_700_000_000_123, 7), &[("n", "2"), ("x", "y"), ("name", "bob"), ("n", "no")]);
    house.xadd("s:a", (1_700_000_001_000, 0), &[("other", "1"), ("id", "an id")]);
    house.xadd("s:b", (0, 1), &[("n", "many")]);
    house.xadd("s:empty", (1, 1), &[("n", "1")]);
    house.xtrim("s:empty", (9, 0));
    house.hset("s:hash", &[("n", "1")]);
    let session = house.session();
    let declared = "CREATE EXTERNAL TABLE s \
                    (k TEXT, id TEXT, ms TIMESTAMP, seq INT, name TEXT, n INT, own TEXT) \
                    STORED AS STREAM LOCATION 's:*' OPTIONS ('column.own' 'id')";
    ask(&session, declared).await.unwrap();
    let in_order = "SELECT * FROM s ORDER BY k, ms, seq";
    let rows = [
        "a|1700000000123-0|2023-11-14T22:13:20.123|0|ann|1|NULL",
        "a|1700000000123-7|2023-11-14T22:13:20.123|7|bob|2|NULL",
        "a|1700000001000-0|2023-11-14T22:13:21|0|NULL|NULL|an id",
        "b|0-1|1970-01-01T00:00:00|1|NULL|NULL|NULL",
    ];
    assert_eq!(ask(&session, in_order).await.unwrap(), rows);
    assert!(session.warning().unwrap().starts_with("1 value cannot be read"));
    let late = "SELECT name FROM s WHERE ms >= TIMESTAMP '2023-11-14 22:13:20' AND seq = 7";
    assert_eq!(ask(&session, late).await.unwrap(), ["bob"]);
    assert_eq!(ask(&session, "SELECT n FROM s WHERE id = '1700000000123-0'").await.unwrap(), ["1"]);
    assert_eq!(ask(&session, "SELECT count(*), count(n) FROM s WHERE k = 'a'").await.unwrap(), ["3|2"]);
    assert_eq!(ask(&session, "SELECT count(*) FROM s").await.unwrap(), ["4"]);
    // More columns than are found in one pass, and two of one field.
    let columns: Vec<_> = (0..40).map(|at| format!("c{at} TEXT")).collect();
    let many = format!(
        "CREATE EXTERNAL TABLE many (k TEXT, {}, n TEXT, name TEXT, again TEXT) STORED AS STREAM \
         LOCATION 's:*' OPTIONS ('column.again' 'n', 'column.c39' 'x')",
        columns.join(", ")
    );
    ask(&session, &many).await.unwrap();
    let read = ask(&session, "SELECT * FROM many WHERE n = '2'").await.unwrap();
    assert_eq!(read, [format!("a|{}y|2|bob|2", "NULL|".repeat(39))]);
    assert_eq!(ask(&session, "SELECT n, again FROM many WHERE n = '2'").await.unwrap(), ["2|2"]);
    // Names that are guessed wrongly.
    let long = "l".repeat(300);
    house.xadd("g:1", (1, 0), &[(&long, "1"), ("a", "2")]);
    house.xadd("g:1", (2, 0), &[("", "3"), ("a", "4")]);
    let guessed = format!(
        "CREATE EXTERNAL TABLE g (k TEXT, l TEXT, e TEXT, a TEXT) STORED AS STREAM \
         LOCATION 'g:*' OPTIONS ('column.l' '{long}', 'column.e' '')"
    );
    ask(&session, &guessed).await.unwrap();
    assert_eq!(ask(&session, "SELECT l, e, a FROM g ORDER BY a").await.unwrap(), ["1|NULL|2", "NULL|3|4"]);
    let index = ask(&session, "CREATE INDEX ON s (n)").await.unwrap_err();
    assert!(index.to_string().starts_with("a table STORED AS STREAM has no indexes"), "{index}");
    house.assert_nothing_kept();
}

#[tokio::test]
async fn parts_of_an_id_are_read_as_the_types_of_their_columns() {
    let house = House::new().await;
    let most = u64::MAX;
    let hex =
        |number: u64| -> String { number.to_string().bytes().map(|digit| format!("{digit:x}")).collect() };
    house.xadd("t:1", (86_400_000, 5), &[("f", "1")]);
    house.xadd("t:2", (most, most), &[("f", "1")]);
    let session = house.session();
    for (table, types, rows) in [
        (
            "text",
            ["TEXT", "TEXT", "TEXT"],
            ["86400000-5|86400000|5", &format!("{most}-{most}|{most}|{most}")],
        ),
        (
            "whole",
            ["BYTEA", "BIGINT", "BIGINT"],
            ["38363430303030302d35|86400000|5", &format!("{}2d{}|NULL|NULL", hex(most), hex(most))],
        ),
        (
            "exact",
            ["TEXT", "DECIMAL(20, 0)", "DECIMAL(20, 0)"],
            ["86400000-5|86400000|5", &format!("{most}-{most}|{most}|{most}")],
        ),
        ("days", ["INT", "DATE", "SMALLINT"], ["NULL|1970-01-02|5", "NULL|NULL|NULL"]),
        (
            "real",
            ["DATE", "DOUBLE", "DOUBLE"],
            ["NULL|86400000.0|5.0", "NULL|1.8446744073709552e19|1.8446744073709552e19"],
        ),
        ("times", ["TIMESTAMP", "TIMESTAMP", "BOOLEAN"], ["NULL|1970-01-02T00:00:00|NULL", "NULL|NULL|NULL"]),
    ] {
        let [id, ms, seq] = types;
        let declare = |strict: &str| {
            format!(
                "CREATE EXTERNAL TABLE {table}{strict} (k TEXT, id {id}, ms {ms}, seq {seq}) \
                 STORED AS STREAM LOCATION 't:*' OPTIONS (strict '{}')",
                !strict.is_empty()
            )
        };
        ask(&session, &declare("")).await.unwrap();
        let read = |strict: &str| format!("SELECT id, ms, seq FROM {table}{strict} ORDER BY k");
        assert_eq!(ask(&session, &read("")).await.unwrap(), rows, "{table}");
        ask(&session, &declare("_strict")).await.unwrap();
        let strict = ask(&session, &read("_strict")).await;
        if rows.concat().contains("NULL") {
            let error = strict.unwrap_err();
            assert_eq!(sqlstate(&error), "22P02", "{table}: {error}");
            assert!(error.to_string().contains("\"t:"), "{table}: {error}");
        } else {
            assert_eq!(strict.unwrap(), rows, "{table}");
        }
    }
}

#[tokio::test]
async fn a_scan_of_a_stream_sees_what_was_there_when_it_began() {
    const ENTRIES: u64 = 30_000;
    let house = House::new().await;
    (1..=ENTRIES).for_each(|ms| house.xadd("s:1", (ms, 0), &[("n", &ms.to_string())]));
    house.xadd("s:2", (1, 0), &[("n", "0")]);
    let session = house.session();
    ask(&session, "CREATE EXTERNAL TABLE s (k TEXT, ms BIGINT, n BIGINT) STORED AS STREAM LOCATION 's:*'")
        .await
        .unwrap();
    let mut outcome = session.run("SELECT ms, n FROM s", None).await.unwrap();
    let mut batches = vec![outcome.rows.next().await.unwrap().unwrap()];
    let first = batches[0].num_rows() as u64;
    assert!(first < ENTRIES / 2, "{first} rows were made at once");
    // In front of the place where it reads, behind it, and between.
    house.xtrim("s:1", (ENTRIES / 2, 0));
    (1..=1_000).for_each(|more| house.xadd("s:1", (ENTRIES + more, 0), &[("n", "1")]));
    house.xadd("s:1", (ENTRIES - 10, 0), &[("n", "1000000")]);
    house.xadd("s:2", (2, 0), &[("n", "1000000")]);
    house.delete("s:1");
    while let Some(batch) = outcome.rows.next().await {
        batches.push(batch.unwrap());
    }
    let column = |at: usize| -> Vec<i64> {
        let of_batch = |batch: &RecordBatch| batch.column(at).as_primitive::<Int64Type>().values().to_vec();
        batches.iter().flat_map(of_batch).collect()
    };
    let mut all = column(1);
    all.sort_unstable();
    assert_eq!(all, (0..=ENTRIES as i64).collect::<Vec<_>>());
    assert_eq!(column(0).iter().sum::<i64>() as u64, ENTRIES * (ENTRIES + 1) / 2 + 1);
    drop(outcome);
    assert_eq!(ask(&session, "SELECT count(*) FROM s").await.unwrap(), ["2"]);
    house.assert_nothing_kept();
}

#[tokio::test]
async fn declarations_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let tables = [
        "CREATE EXTERNAL TABLE \"Fl ight\" (dest TEXT, \"a\"\"b\" BIGINT, n DECIMAL(5, 1), at TIMESTAMP) \
         STORED AS HASH LOCATION 'fl''ight:*:x' \
         OPTIONS (key_column 'a\"b', database '2', strict 'true', 'column.dest' 'to')",
        "CREATE EXTERNAL TABLE doc (id TEXT, city TEXT) STORED AS JSON LOCATION 'd*' \
         OPTIONS ('column.city' 'a.b[1]')",
        "CREATE EXTERNAL TABLE z (k TEXT, m TEXT, s DOUBLE) STORED AS ZSET LOCATION 'z*'",
        "CREATE EXTERNAL TABLE p (name TEXT, k TEXT, lon REAL, lat DOUBLE) STORED AS GEO LOCATION 'p*' \
         OPTIONS (key_column 'k')",
        "CREATE EXTERNAL TABLE x (k TEXT, id TEXT, ms BIGINT, seq TEXT, n TEXT) STORED AS STREAM \
         LOCATION 'x*' \
         OPTIONS ('column.ms' 'ms', 'column.seq' 'other', 'column.n' 'id')",
        "CREATE EXTERNAL TABLE gone (k TEXT, m TEXT) STORED AS SET LOCATION 's*'",
    ];
    let before = {
        let house = House::with(options(Some(folder.path()))).await;
        let session = house.session();
        for table in tables {
            ask(&session, table).await.unwrap();
        }
        ask(&session, "DROP TABLE gone").await.unwrap();
        assert_eq!(sqlstate(&ask(&session, "DROP TABLE gone").await.unwrap_err()), "42P01");
        ask(&session, "DROP TABLE IF EXISTS gone").await.unwrap();
        std::fs::read_to_string(folder.path().join("tables.sql")).unwrap()
    };
    for _ in 0..2 {
        let house = House::with(options(Some(folder.path()))).await;
        let session = house.session();
        let shown = "SELECT table_name, column_name, data_type FROM information_schema.columns \
                     WHERE table_schema = 'public' ORDER BY 1, ordinal_position";
        let columns = ask(&session, shown).await.unwrap();
        assert_eq!(columns.len(), 18, "{columns:?}");
        assert_eq!(ask(&session, "SELECT count(*) FROM \"Fl ight\"").await.unwrap(), ["0"]);
        house.xadd("x1", (1, 2), &[("ms", "70"), ("id", "the id"), ("other", "o")]);
        assert_eq!(ask(&session, "SELECT * FROM x").await.unwrap(), ["1|1-2|70|o|the id"]);
        let again = "CREATE EXTERNAL TABLE doc (id TEXT) STORED AS HASH LOCATION 'x*'";
        assert_eq!(sqlstate(&ask(&session, again).await.unwrap_err()), "42P07");
        ask(&session, "CREATE EXTERNAL TABLE IF NOT EXISTS doc (id TEXT) STORED AS HASH LOCATION 'x*'")
            .await
            .unwrap();
        // Another table, so that the file is written once more.
        ask(&session, "CREATE EXTERNAL TABLE other (id TEXT) STORED AS HASH LOCATION 'x*'").await.unwrap();
        ask(&session, "DROP TABLE other").await.unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("tables.sql")).unwrap(), before);
    }
}

#[tokio::test]
async fn errors_say_what_is_wrong_and_not_in_which_layer() {
    let house = flights().await;
    let session = house.session();
    let unclosed = "invalid regular expression: unclosed group";
    let large = "invalid regular expression: it takes more than 10 MB when it is compiled; repeat less in it";
    for (expression, code, message) in [
        ("1 / 0", "22012", "division by zero"),
        ("dest::int", "22P02", "Cannot cast string"),
        ("sqrt(-distance)", "22000", "cannot take square root of a negative number"),
        ("dest ~ '('", "2201B", unclosed),
        ("dest SIMILAR TO '('", "2201B", unclosed),
        ("dest ~ (dest || '(')", "2201B", unclosed),
        ("regexp_match(dest, '(')", "2201B", unclosed),
        ("regexp_count(dest, '(')", "2201B", "invalid regular expression: ( does not compile"),
        ("('regex parse error' || dest)::int", "22P02", "Cannot cast string 'regex parse error"),
        ("regexp_replace(dest, '(', 'x')", "2201B", unclosed),
        ("dest ~ '((a{1000}){1000})'", "2201B", large),
        ("regexp_replace(dest, '((a{1000}){1000})', 'x')", "2201B", large),
    ] {
        let error = ask(&session, &format!("SELECT {expression} FROM flight")).await.unwrap_err();
        assert_eq!(sqlstate(&error), code, "{expression}: {error}");
        assert!(error.to_string().starts_with(message), "{expression}: {error}");
    }
}

#[tokio::test]
async fn what_cannot_be_declared_is_refused_with_a_reason() {
    let house = House::new().await;
    let session = house.session();
    for (statement, state, said) in [
        ("CREATE EXTERNAL TABLE t (id TEXT) STORED AS PARQUET LOCATION 'x*'", "42P16", "use HASH, STRING"),
        ("CREATE EXTERNAL TABLE t STORED AS STREAM LOCATION 'x*'", "42P16", "needs its columns"),
        ("CREATE EXTERNAL TABLE t (k TEXT, id TEXT) STORED AS STREAM LOCATION 'x'", "42P16", "exactly one *"),
        (
            "CREATE EXTERNAL TABLE t (k TEXT, ms INTERVAL) STORED AS STREAM LOCATION 'x*'",
            "42P16",
            "column ms cannot be of type",
        ),
        (
            "CREATE EXTERNAL TABLE t (k TEXT, id TEXT) STORED AS STREAM LOCATION 'x*' \
             OPTIONS ('column.n' 'n')",
            "42P16",
            "option column.n is not there",
        ),
        ("CREATE EXTERNAL TABLE t (id TEXT) STORED AS HASH LOCATION 'x'", "42P16", "exactly one *"),
        ("CREATE EXTERNAL TABLE t (id TEXT) STORED AS HASH LOCATION '*x*'", "42P16", "exactly one *"),
        ("CREATE EXTERNAL TABLE t STORED AS HASH LOCATION 'x*'", "42P16", "needs its columns"),
        ("CREATE EXTERNAL TABLE t (id TEXT, a TEXT) STORED AS ZSET LOCATION 'x*'", "42P16", "3 columns"),
        (
            "CREATE EXTERNAL TABLE t (id TEXT, a TEXT, b DOUBLE) STORED AS GEO LOCATION 'x*'",
            "42P16",
            "4 columns, for the key, the member, the longitude and the latitude",
        ),
        (
            "CREATE EXTERNAL TABLE t (id TEXT, a INTERVAL) STORED AS HASH LOCATION 'x*'",
            "42P16",
            "cannot be of type",
        ),
        (
            "CREATE EXTERNAL TABLE t (id TEXT) STORED AS HASH LOCATION 'x*' OPTIONS (database '3')",
            "42P16",
            "use 0 to 2",
        ),
        (
            "CREATE EXTERNAL TABLE t (id TEXT) STORED AS HASH LOCATION 'x*' OPTIONS (speed 'high')",
            "42P16",
            "option speed is not there",
        ),
    ] {
        let error = ask(&session, statement).await.unwrap_err();
        assert!(error.to_string().contains(said), "{statement}: {error}");
        assert_eq!(sqlstate(&error), state, "{statement}: {error}");
    }
}

/// Scores as GEOADD sets them.
const PALERMO: f64 = 3_479_099_956_230_698.0;
const CATANIA: f64 = 3_479_447_370_796_909.0;

#[tokio::test]
async fn sorted_sets_of_points_have_longitudes_and_latitudes() {
    let house = House::new().await;
    house.zadd("map:sicily", "palermo", PALERMO);
    house.zadd("map:sicily", "catania", CATANIA);
    for (member, score) in [("half", 1.5), ("less", -1.0), ("infinite", f64::INFINITY)] {
        house.zadd("map:sicily", member, score);
    }
    house.sadd("map:set", "no points");
    // Too many for the part of a view in which they are found.
    (0..1_000).for_each(|at| house.zadd("map:large", &at.to_string(), PALERMO + f64::from(at)));
    let session = house.session();
    let declare = |name: &str, options: &str| {
        format!(
            "CREATE EXTERNAL TABLE {name} (region TEXT, name TEXT, longitude DOUBLE, latitude DOUBLE) \
             STORED AS GEO LOCATION 'map:*' {options}"
        )
    };
    ask(&session, &declare("place", "")).await.unwrap();
    let none = "SELECT name FROM place WHERE longitude IS NULL ORDER BY name";
    assert_eq!(ask(&session, none).await.unwrap(), ["half", "infinite", "less"]);
    assert_eq!(house.analytics.queries().unreadable(), 3);
    let points = "SELECT name, longitude, latitude FROM place \
                  WHERE region = 'sicily' AND latitude > 0 ORDER BY longitude";
    assert_eq!(
        ask(&session, points).await.unwrap(),
        ["palermo|13.361389338970184|38.1155563954963", "catania|15.087267458438873|37.50266842333162"]
    );
    let within = "SELECT name FROM place WHERE region = 'sicily' AND NOT (longitude < 14) AND latitude < 38";
    assert_eq!(ask(&session, within).await.unwrap(), ["catania"]);
    let large = "SELECT count(*), count(longitude) FROM place WHERE region = 'large' AND latitude > 38";
    assert_eq!(ask(&session, large).await.unwrap(), ["1000|1000"]);
    let apart = "SELECT count(*) FROM place a, place b WHERE a.name = 'palermo' AND b.name = 'catania' \
                 AND geo_distance(a.longitude, a.latitude, b.longitude, b.latitude) \
                     BETWEEN 166274.1515 AND 166274.1516";
    assert_eq!(ask(&session, apart).await.unwrap(), ["1"]);
    let near = "SELECT name FROM place \
                WHERE region = 'sicily' AND geo_distance(longitude, latitude, 15, 37.5) < 10000";
    assert_eq!(ask(&session, near).await.unwrap(), ["catania"]);
    let constants = "SELECT geo_distance(1, 2, 1.0, 2), geo_distance(NULL, 2, 1, 2)";
    assert_eq!(ask(&session, constants).await.unwrap(), ["0.0|NULL"]);
    assert!(ask(&session, "SELECT geo_distance(1, 2, 3)").await.is_err());
    ask(&session, &declare("careful", "OPTIONS (strict 'true')")).await.unwrap();
    let error = ask(&session, "SELECT longitude FROM careful").await.unwrap_err();
    assert_eq!(sqlstate(&error), "22P02", "{error}");
    assert!(error.to_string().contains("map:sicily"), "{error}");
    assert!(ask(&session, "SELECT name FROM careful").await.is_ok());
    house.assert_nothing_kept();
}

#[tokio::test]
async fn sql_does_not_write() {
    let house = flights().await;
    let session = house.session();
    for statement in [
        "INSERT INTO flight VALUES ('9', 'x', 1)",
        "INSERT INTO flight VALUES ('9')",
        "INSERT INTO nothing VALUES ('9')",
        "EXPLAIN UPDATE flight SET nothing = 'x'",
        "TRUNCATE flight",
        "MERGE INTO flight USING flight AS f ON false WHEN MATCHED THEN DELETE",
        "UPDATE flight SET dest = 'x'",
        "DELETE FROM flight",
        "CREATE TABLE copy AS SELECT * FROM flight",
        "CREATE VIEW v AS SELECT 1",
        "SELECT * INTO copy FROM flight",
        "CREATE SCHEMA s",
        "SET datafusion.execution.batch_size = 1",
        "EXPLAIN ANALYZE INSERT INTO flight VALUES ('9', 'x', 1)",
    ] {
        let error = ask(&session, statement).await.unwrap_err();
        assert_eq!(sqlstate(&error), "25006", "{statement}: {error}");
    }
    assert_eq!(ask(&session, "SELECT count(*) FROM flight").await.unwrap(), ["4"]);
    for statement in ["DROP TABLE keyspace.keys", "SELECT * FROM 'file.csv'", "SELECT * FROM nothing"] {
        let error = ask(&session, statement).await.unwrap_err();
        assert_eq!(sqlstate(&error), "42P01", "{statement}: {error}");
    }
    house.assert_nothing_kept();
}

#[tokio::test]
async fn a_join_keeps_the_smaller_table_in_memory() {
    let house = House::new().await;
    (0..2_000).for_each(|at| house.hset(&format!("big:{at}"), &[("n", "1")]));
    (0..100).for_each(|at| house.hset(&format!("small:{at}"), &[("n", "1")]));
    let session = house.session();
    for table in ["big", "small"] {
        let declared =
            format!("CREATE EXTERNAL TABLE {table} (id INT, n INT) STORED AS HASH LOCATION '{table}:*'");
        ask(&session, &declared).await.unwrap();
    }
    for tables in ["big JOIN small", "small JOIN big"] {
        let question = format!("SELECT count(*) FROM {tables} USING (id)");
        let plan = ask(&session, &format!("EXPLAIN {question}")).await.unwrap().join("\n");
        let place = |table: &str| plan.rfind(&format!("KeyScan: table={table}")).unwrap();
        assert!(place("small") < place("big"), "what is read first is kept: {plan}");
        assert_eq!(ask(&session, &question).await.unwrap(), ["100"]);
    }
}
