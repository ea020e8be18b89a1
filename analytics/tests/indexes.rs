//! Indexes of tables: the same answers as without, found in another way.

#![allow(clippy::unwrap_used)]

mod house;

use std::sync::Arc;

use house::{House, ask, options};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_analytics::{AnalyticsOptions, Session, sqlstate};

const KEYS: usize = 2_000;

/// Hashes whose fields are numbers, texts, nothing, or what is neither, in a table with indexes and in one
/// without.
async fn indexed() -> House {
    let house = House::new().await;
    let mut random = SmallRng::seed_from_u64(7);
    for at in 0..KEYS {
        let number = match random.random_range(0..20) {
            0 => "none".to_owned(),
            1 => String::new(),
            2 => "-0.0".to_owned(),
            3 => "NaN".to_owned(),
            _ => (f64::from(random.random_range(-400..400) | 1) / 4.0).to_string(),
        };
        let word: String = (0..random.random_range(0..5)).map(|_| random.random_range('a'..'d')).collect();
        let word = if at % 500 == 0 { "b".repeat(1_500 + at) } else { word };
        let key = format!("item:{at}");
        match at % 10 {
            0 => house.hset(&key, &[("word", &word)]),
            1 => house.hset(&key, &[("number", &number)]),
            _ => house.hset(&key, &[("number", &number), ("word", &word)]),
        }
    }
    let session = house.session();
    for table in ["item", "plain"] {
        let declared = format!(
            "CREATE EXTERNAL TABLE {table} (id TEXT, number DOUBLE, word TEXT, whole BIGINT) \
             STORED AS HASH LOCATION 'item:*' OPTIONS ('column.whole' 'number')"
        );
        ask(&session, &declared).await.unwrap();
    }
    for column in ["number", "word", "whole"] {
        ask(&session, &format!("CREATE INDEX ON item ({column})")).await.unwrap();
    }
    ready(&session).await;
    house
}

/// Waits until all indexes are built.
async fn ready(session: &Arc<Session>) {
    while ask(session, "SHOW INDEXES").await.unwrap().iter().any(|row| row.split('|').nth(3) != Some("1000"))
    {
        tokio::task::yield_now().await;
    }
}

fn any_condition(random: &mut SmallRng) -> String {
    let number = f64::from(random.random_range(-420..420)) / 4.0;
    let whole = random.random_range(-110..110);
    let word: String = (0..random.random_range(1..4)).map(|_| random.random_range('a'..'e')).collect();
    match random.random_range(0..22) {
        0 => format!("number = {number}"),
        1 => format!("number > {number}"),
        2 => format!("{number} >= number"),
        3 => format!("number BETWEEN {number} AND {}", number + 9.0),
        4 => format!("number NOT BETWEEN {number} AND {}", number + 90.0),
        5 => format!("number IN ({number}, {}, 1.5, 2.5, 3.5)", number + 1.0),
        6 => format!("number NOT IN ({number}, 1.5, 2.5, 3.5, 7.0)"),
        7 => "number IS NULL".to_owned(),
        8 => "number IS NOT NULL AND word IS NULL".to_owned(),
        9 => "number = 0.0".to_owned(),
        10 => "number > 1e300".to_owned(),
        11 => format!("word = '{word}'"),
        12 => format!("word LIKE '{word}%'"),
        13 => format!("word LIKE '{word}%a'"),
        14 => format!("word > '{word}'"),
        15 => format!("word < '{word}' OR word LIKE 'c%'"),
        16 => format!("whole = {whole}"),
        17 => format!("whole > {whole} AND whole <= {}", whole + 30),
        18 => format!("whole <> {whole}"),
        19 => format!("word LIKE '{}%'", "b".repeat(1_100)),
        20 => format!("word > '{}' AND word < '{}c'", "b".repeat(1_030), "b".repeat(1_040)),
        _ => {
            format!("id IN ('{}', '{}', 'none')", random.random_range(0..KEYS), random.random_range(0..KEYS))
        }
    }
}

#[tokio::test]
async fn an_index_answers_as_a_walk_does() {
    let house = indexed().await;
    let session = house.session();
    let seed = 11;
    let mut random = SmallRng::seed_from_u64(seed);
    let mut by_index = 0;
    for number in 0..400 {
        let mut condition = any_condition(&mut random);
        if random.random_bool(0.4) {
            let word = if random.random_bool(0.5) { "AND" } else { "OR" };
            condition = format!("({condition}) {word} ({})", any_condition(&mut random));
        }
        if random.random_bool(0.1) {
            condition = format!("NOT ({condition})");
        }
        let question = |table: &str| format!("SELECT id FROM {table} WHERE {condition} ORDER BY id");
        let plan = ask(&session, &format!("EXPLAIN {}", question("item"))).await.unwrap().join("\n");
        by_index += usize::from(plan.contains("by=index"));
        let (found, wanted) = (question("item"), question("plain"));
        let (found, wanted) = (ask(&session, &found), ask(&session, &wanted));
        let (found, wanted) = (found.await.unwrap(), wanted.await.unwrap());
        assert_eq!(found, wanted, "seed {seed}, question {number}: {condition}\n{plan}");
    }
    assert!(by_index > 60, "{by_index} of 400 questions were to be answered by an index");
    house.assert_nothing_kept();
}

#[tokio::test]
async fn conditions_mean_what_the_operators_mean() {
    let house = indexed().await;
    let session = house.session();
    let mut random = SmallRng::seed_from_u64(13);
    for number in 0..200 {
        let condition = any_condition(&mut random);
        let fast = format!("SELECT count(*) FROM plain WHERE {condition}");
        // Asked of rows that were aggregated before, so that no scan sees the condition.
        let slow = format!(
            "SELECT count(*) FROM (SELECT id, max(number) AS number, max(word) AS word, max(whole) AS whole \
             FROM plain GROUP BY id, id || 'x') WHERE {condition}"
        );
        // A condition on what is grouped by would be pushed down.
        if condition.contains("id IN") {
            continue;
        }
        let (fast, slow) = (ask(&session, &fast).await.unwrap(), ask(&session, &slow).await.unwrap());
        assert_eq!(fast, slow, "question {number}: {condition}");
    }
}

#[tokio::test]
async fn the_first_rows_of_an_order_are_read_in_that_order() {
    let house = indexed().await;
    let session = house.session();
    for column in ["number", "word", "whole"] {
        for order in ["", "DESC", "NULLS FIRST", "DESC NULLS LAST"] {
            for condition in ["", "WHERE number > 3", "WHERE word >= 'b' OR word IS NULL"] {
                let question = |table: &str| {
                    format!(
                        "SELECT {column} FROM {table} {condition} \
                         ORDER BY {column} {order} LIMIT 700 OFFSET 3"
                    )
                };
                let plan = ask(&session, &format!("EXPLAIN {}", question("item"))).await.unwrap().join("\n");
                let is_of_it = condition.is_empty() || condition.contains(column);
                assert_eq!(plan.contains(&format!("by=index item_{column}_idx in")), is_of_it, "{plan}");
                assert_eq!(plan.contains("SortExec"), !is_of_it, "{plan}");
                assert_eq!(plan.contains("limit=703"), is_of_it, "{plan}");
                let found = ask(&session, &question("item")).await.unwrap();
                let wanted = ask(&session, &question("plain")).await.unwrap();
                // Not shown by `assert_eq`: some of them are long.
                assert!(found == wanted, "{plan}");
            }
        }
    }
    house.assert_nothing_kept();
}

#[tokio::test]
async fn the_least_and_the_greatest_are_read_at_the_ends() {
    let house = indexed().await;
    let session = house.session();
    let values =
        ["min(number)", "max(whole)", "min(word)", "max(word)", "min(whole), max(whole), max(number)"];
    let all = ["", "number > 3", "number < -1e9", "word LIKE 'b%'", "number IS NULL", "whole <= 7"];
    let mut by_index = 0;
    for values in values {
        for condition in all {
            let clause = if condition.is_empty() { String::new() } else { format!("WHERE {condition}") };
            let question = |table: &str| format!("SELECT {values} FROM {table} {clause}");
            let plan = ask(&session, &format!("EXPLAIN {}", question("item"))).await.unwrap().join("\n");
            let column = |name: &str| !values.contains(name) || condition.starts_with(name);
            let is_at_ends = condition.is_empty() || ["number", "whole", "word"].into_iter().all(column);
            let scans = values.matches('(').count();
            let read = plan.matches("limit=1").count();
            assert_eq!(read, if is_at_ends { scans } else { 0 }, "{values} {clause}: {plan}");
            by_index += usize::from(is_at_ends);
            let found = ask(&session, &question("item")).await.unwrap();
            let wanted = ask(&session, &question("plain")).await.unwrap();
            assert!(found == wanted, "{values} {clause}: {plan}");
        }
    }
    assert_eq!(by_index, 5 + 3 + 1 + 2);
    let some = "EXPLAIN SELECT max(number) FROM (SELECT number FROM item LIMIT 5)";
    let plan = ask(&session, some).await.unwrap().join("\n");
    assert!(plan.contains("by=all keys"), "{plan}");
    // Any other condition on the rows needs them all.
    for values in ["min(number), count(*)", "max(number) FILTER (WHERE word = 'a')", "max(number + 1)"] {
        let question = |table: &str| format!("SELECT {values} FROM {table}");
        let plan = ask(&session, &format!("EXPLAIN {}", question("item"))).await.unwrap().join("\n");
        assert!(plan.contains("by=all keys"), "{plan}");
        let found = ask(&session, &question("item")).await.unwrap();
        assert_eq!(found, ask(&session, &question("plain")).await.unwrap(), "{values}");
    }
    house.assert_nothing_kept();
}

#[tokio::test]
async fn keys_are_found_by_their_names() {
    let house = indexed().await;
    let session = house.session();
    let question = "SELECT word FROM plain WHERE id = '9'";
    let plan = ask(&session, &format!("EXPLAIN {question}")).await.unwrap().join("\n");
    assert!(plan.contains("by=1 keys by name"), "{plan}");
    assert_eq!(ask(&session, question).await.unwrap().len(), 1);
    let fields = "SELECT field FROM keyspace.hashes WHERE key IN ('item:9', 'item:0') ORDER BY field";
    assert_eq!(ask(&session, fields).await.unwrap(), ["number", "word", "word"]);
    assert_eq!(ask(&session, "SELECT word FROM plain WHERE id = '9' AND id = '8'").await.unwrap().len(), 0);
    house.assert_nothing_kept();
}

#[tokio::test]
async fn documents_and_strings_are_indexed_too() {
    let house = House::new().await;
    for at in 0..500 {
        house.set(0, &format!("doc:{at}"), format!("{{\"a\":{{\"n\":{at}}}}}").as_bytes(), None);
        house.set(0, &format!("text:{at}"), format!("{}", at * 2).as_bytes(), None);
    }
    house.set(0, "doc:x", b"no document", None);
    let session = house.session();
    for sql in [
        "CREATE EXTERNAL TABLE doc (id TEXT, n INT) STORED AS JSON LOCATION 'doc:*' \
         OPTIONS ('column.n' '$.a.n')",
        "CREATE EXTERNAL TABLE text (id TEXT, value DECIMAL(9, 2)) STORED AS STRING LOCATION 'text:*'",
        "CREATE INDEX ON doc (n)",
        "CREATE INDEX ON text (value)",
    ] {
        ask(&session, sql).await.unwrap();
    }
    ready(&session).await;
    for (sql, answer) in [
        ("SELECT id FROM doc WHERE n BETWEEN 41 AND 42 ORDER BY n", "41 42"),
        ("SELECT id FROM doc ORDER BY n DESC LIMIT 3", "499 498 497"),
        ("SELECT id FROM text WHERE value = 84", "42"),
        ("SELECT id FROM text ORDER BY value LIMIT 2", "0 1"),
    ] {
        let plan = ask(&session, &format!("EXPLAIN {sql}")).await.unwrap().join("\n");
        assert!(plan.contains("by=index"), "{plan}");
        assert_eq!(ask(&session, sql).await.unwrap().join(" "), answer, "{sql}");
    }
}

#[tokio::test]
async fn indexes_are_kept_and_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let declared =
        "CREATE EXTERNAL TABLE \"Item\" (id TEXT, \"The Number\" DOUBLE) STORED AS HASH LOCATION 'i:*'";
    {
        let house = House::with(options(Some(directory.path()))).await;
        let session = house.session();
        ask(&session, declared).await.unwrap();
        ask(&session, "CREATE INDEX ON \"Item\" (\"The Number\")").await.unwrap();
        ask(&session, "CREATE INDEX other ON \"Item\" (id)").await.unwrap();
        ask(&session, "CREATE INDEX IF NOT EXISTS other ON \"Item\" (id)").await.unwrap();
        ask(&session, "DROP INDEX other").await.unwrap();
        assert_eq!(house.engine.indexes().len(), 1);
    }
    let house = House::with(options(Some(directory.path()))).await;
    house.analytics.make_indexes();
    let indexes = house.engine.indexes();
    assert_eq!(indexes.iter().map(|index| index.name.as_str()).collect::<Vec<_>>(), ["Item_The Number_idx"]);
    let session = house.session();
    house.hset("i:1", &[("The Number", "4")]);
    ready(&session).await;
    let shown = ask(&session, "SHOW INDEXES").await.unwrap();
    assert!(shown[0].starts_with("Item_The Number_idx|Item|The Number|1000|1|0|"), "{shown:?}");
    for (sql, code) in [
        ("CREATE INDEX \"Item_The Number_idx\" ON \"Item\" (id)", "42P07"),
        ("CREATE UNIQUE INDEX ON \"Item\" (id)", "42601"),
        ("CREATE INDEX ON \"Item\" USING hash (id)", "42601"),
        ("CREATE INDEX ON \"Item\" (id, \"The Number\")", "42601"),
        ("CREATE INDEX ON \"Item\" (nothing)", "42703"),
        ("CREATE INDEX ON nothing (id)", "42P01"),
        ("CREATE INDEX ON keyspace.keys (key)", "42809"),
        ("DROP INDEX nothing", "42704"),
    ] {
        let error = ask(&session, sql).await.unwrap_err();
        assert_eq!(sqlstate(&error), code, "{sql}: {error}");
    }
    ask(&session, "DROP INDEX IF EXISTS nothing").await.unwrap();
    ask(&session, "CREATE EXTERNAL TABLE s (id TEXT, m TEXT) STORED AS SET LOCATION 's:*'").await.unwrap();
    let many = ask(&session, "CREATE INDEX ON s (m)").await.unwrap_err();
    assert_eq!(sqlstate(&many), "42P16", "{many}");
    ask(&session, "DROP TABLE \"Item\"").await.unwrap();
    assert!(house.engine.indexes().is_empty() && ask(&session, "SHOW INDEXES").await.unwrap().is_empty());
}

/// Operators between a limit and an index may run in parts that the index does not have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_rows_by_an_index_are_found_by_several_threads_too() {
    let house = House::with(AnalyticsOptions { threads: 2, ..options(None) }).await;
    (0..100_000).for_each(|other| house.set(0, &format!("other:{other}"), b"", None));
    (0..100).for_each(|at| house.hset(&format!("item:{at}"), &[("number", &at.to_string())]));
    let session = house.session();
    let table = "CREATE EXTERNAL TABLE item (id TEXT, number BIGINT) STORED AS HASH LOCATION 'item:*'";
    ask(&session, table).await.unwrap();
    ask(&session, "CREATE INDEX ON item (number)").await.unwrap();
    ready(&session).await;
    let first = "SELECT number, upper(id) FROM item WHERE number > 4 ORDER BY number LIMIT 3";
    let plan = ask(&session, &format!("EXPLAIN {first}")).await.unwrap().join("\n");
    assert!(plan.contains("by=index"), "{plan}");
    let rows = ask(&session, first).await.unwrap();
    assert_eq!(rows, ["5|5", "6|6", "7|7"], "{plan}");
}
