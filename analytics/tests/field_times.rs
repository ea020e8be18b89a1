//! Fields of hashes whose time is over: no query shows them, though they are still there, and an index has
//! their values.

#![allow(clippy::unwrap_used)]

mod house;

use house::{BEGIN_MS, House, ask};
use tarn_analytics::{Request, Tree};
use tarn_engine::record::Change;

/// The time after which some fields are gone, from the beginning of the store.
const LATER_MS: u64 = 500;

fn expire(house: &House, key: &str, field: &str) {
    let (field, at) = (field.as_bytes().to_vec().into(), Some(BEGIN_MS + LATER_MS));
    house.change(0, 0, vec![(key.as_bytes().to_vec(), Change::HashExpire { field, at })]);
}

/// Some hashes, and so many others that an index is worth its while.
async fn people() -> House {
    let house = House::new().await;
    house.hset("u:1", &[("name", "ann"), ("age", "30")]);
    house.hset("u:2", &[("name", "bob"), ("age", "20")]);
    house.hset("u:3", &[("age", "10")]);
    house.hset("u:4", &[("name", "dan")]);
    (0..200).for_each(|at| house.hset(&format!("u:more{at}"), &[("age", &(1_000 + at).to_string())]));
    house
}

#[tokio::test]
async fn a_field_whose_time_is_over_is_in_no_row() {
    let house = people().await;
    let session = house.session();
    for table in ["indexed", "plain"] {
        let declared = format!(
            "CREATE EXTERNAL TABLE {table} (id TEXT, name TEXT, age INT) STORED AS HASH LOCATION 'u:*'"
        );
        ask(&session, &declared).await.unwrap();
    }
    ask(&session, "CREATE INDEX ON indexed (age)").await.unwrap();
    while ask(&session, "SHOW INDEXES").await.unwrap()[0].split('|').nth(3) != Some("1000") {
        tokio::task::yield_now().await;
    }
    ["u:1", "u:3"].iter().for_each(|key| expire(&house, key, "age"));
    let questions: [(&str, &[&str], &[&str]); 6] = [
        (
            "SELECT id, name, age FROM TABLE WHERE id < '5' ORDER BY id",
            &["1|ann|30", "2|bob|20", "3|NULL|10", "4|dan|NULL"],
            &["1|ann|NULL", "2|bob|20", "4|dan|NULL"],
        ),
        ("SELECT id FROM TABLE WHERE age IS NULL ORDER BY id", &["4"], &["1", "4"]),
        ("SELECT id FROM TABLE WHERE age < 100 ORDER BY id", &["1", "2", "3"], &["2"]),
        ("SELECT min(age) FROM TABLE", &["10"], &["20"]),
        (
            "SELECT age FROM TABLE ORDER BY age NULLS FIRST LIMIT 3",
            &["NULL", "10", "20"],
            &["NULL", "NULL", "20"],
        ),
        ("SELECT count(*) FROM TABLE", &["204"], &["203"]),
    ];
    for is_over in [false, true] {
        for (question, before, after) in questions {
            for table in ["indexed", "plain"] {
                let rows = ask(&session, &question.replace("TABLE", table)).await.unwrap();
                let expected = if is_over { after } else { before };
                assert_eq!(rows, expected, "{question} of {table}, over: {is_over}");
            }
        }
        house.clock.advance(LATER_MS + 1);
    }
    let all = "SELECT key, field, value FROM keyspace.hashes WHERE key < 'u:5' ORDER BY key, field";
    let expected = ["u:1|name|ann", "u:2|age|20", "u:2|name|bob", "u:4|name|dan"];
    assert_eq!(ask(&session, all).await.unwrap(), expected);
    house.assert_nothing_kept();
}

#[tokio::test]
async fn an_index_answers_for_null_again_when_no_field_has_a_time() {
    let house = people().await;
    let session = house.session();
    let declared = "CREATE EXTERNAL TABLE person (id TEXT, name TEXT, age INT) STORED AS HASH LOCATION 'u:*'";
    ask(&session, declared).await.unwrap();
    ask(&session, "CREATE INDEX ON person (age)").await.unwrap();
    while ask(&session, "SHOW INDEXES").await.unwrap()[0].split('|').nth(3) != Some("1000") {
        tokio::task::yield_now().await;
    }
    let question = "EXPLAIN SELECT id FROM person WHERE age IS NULL";
    for (has_times, by_index) in [(false, true), (true, false), (false, true)] {
        if has_times {
            expire(&house, "u:1", "age");
        } else {
            let (field, at) = (b"age".to_vec().into(), None);
            house.change(0, 0, vec![(b"u:1".to_vec(), Change::HashExpire { field, at })]);
        }
        let plan = ask(&session, question).await.unwrap().join("\n");
        assert_eq!(plan.contains("by=index"), by_index, "{plan}");
    }
}

#[tokio::test]
async fn a_block_sees_what_was_over_as_it_began_whatever_became_of_it() {
    let house = people().await;
    let session = house.session();
    let declared = "CREATE EXTERNAL TABLE person (id TEXT, name TEXT, age INT) STORED AS HASH LOCATION 'u:*'";
    ask(&session, declared).await.unwrap();
    ask(&session, "CREATE INDEX ON person (age)").await.unwrap();
    while ask(&session, "SHOW INDEXES").await.unwrap()[0].split('|').nth(3) != Some("1000") {
        tokio::task::yield_now().await;
    }
    expire(&house, "u:1", "age");
    house.clock.advance(LATER_MS + 1);
    let missing = "SELECT id FROM person WHERE age IS NULL ORDER BY id";
    let first = "SELECT age FROM person ORDER BY age NULLS FIRST LIMIT 3";
    ask(&session, "BEGIN READ ONLY").await.unwrap();
    for is_timed in [true, false] {
        assert_eq!(house.engine.keyspace()[0].timed, usize::from(is_timed));
        assert_eq!(ask(&session, missing).await.unwrap(), ["1", "4"]);
        assert_eq!(ask(&session, first).await.unwrap(), ["NULL", "NULL", "10"]);
        house.hset("u:1", &[("age", "40")]);
    }
    ask(&session, "COMMIT").await.unwrap();
    assert_eq!(ask(&session, missing).await.unwrap(), ["4"]);
    assert_eq!(ask(&session, first).await.unwrap(), ["NULL", "10", "20"]);
}

/// A reply to `FT.SEARCH`, without its structure.
async fn search(house: &House, query: &str) -> Vec<String> {
    fn add(tree: &Tree, words: &mut Vec<String>) {
        match tree {
            Tree::Bulk(bytes) => words.push(String::from_utf8_lossy(bytes).into_owned()),
            Tree::Array(parts) | Tree::Set(parts) => parts.iter().for_each(|part| add(part, words)),
            Tree::Map(pairs) => pairs.iter().for_each(|(one, other)| {
                add(one, words);
                add(other, words);
            }),
            _ => {}
        }
    }
    let words = ["FT.SEARCH", "people", query].map(|word| word.as_bytes().to_vec()).to_vec();
    let request = Request { words, database: 0, is_resp3: false };
    let (reply, mut words) = (house.search.run(request).await.unwrap(), Vec::new());
    add(&reply, &mut words);
    words
}

#[tokio::test]
async fn a_search_finds_no_field_whose_time_is_over() {
    let house = people().await;
    let created = "FT.CREATE people ON HASH PREFIX 1 u: SCHEMA name TEXT age NUMERIC";
    let words = created.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    house.search.run(Request { words, database: 0, is_resp3: false }).await.unwrap();
    ["u:1", "u:3"].iter().for_each(|key| expire(&house, key, "age"));
    let found = search(&house, "@age:[0 100]").await;
    assert!(["u:1", "u:2", "u:3"].iter().all(|key| found.iter().any(|word| word == key)), "{found:?}");
    house.clock.advance(LATER_MS + 1);
    let found = search(&house, "@age:[0 100]").await;
    assert!(found.iter().filter(|word| word.starts_with("u:")).eq(["u:2"]), "{found:?}");
    let found = search(&house, "ann").await;
    assert_eq!(found, ["u:1", "name", "ann"]);
}
