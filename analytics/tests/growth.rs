//! Results that grow beyond their arguments: they fit the memory limit, or are a helpful error.

#![allow(clippy::unwrap_used)]

mod house;

use futures::StreamExt;
use house::{House, ask};
use tarn_analytics::sqlstate;

/// Rows of the table.
const ROWS: usize = 3_000;

async fn filled() -> House {
    let house = House::new().await;
    for number in 0..ROWS {
        let (name, number) = (format!("name {number}"), number.to_string());
        house.hset(&format!("n:{number}"), &[("number", &number), ("name", &name)]);
    }
    let table = "CREATE EXTERNAL TABLE n (id TEXT, number BIGINT, name TEXT) STORED AS HASH LOCATION 'n:*'";
    ask(&house.session(), table).await.unwrap();
    house
}

/// Each would be gigabytes.
const TOO_LARGE: [&str; 28] = [
    "SELECT length(repeat('x', 2000000000))",
    "SELECT sum(length(repeat(name, 100000))) FROM n",
    "SELECT sum(length(repeat(name, number * 100))) FROM n",
    "SELECT length(lpad('x', 2000000000, 'ab'))",
    "SELECT sum(length(rpad(name, 100000, 'ab'))) FROM n",
    "SELECT length(replace(repeat('a', 1000000), 'a', repeat('b', 100000)))",
    "SELECT length(regexp_replace(repeat('a', 1000000), 'a', repeat('b', 1000), 'g'))",
    "SELECT max(length(concat(a, a, a, a))) FROM (SELECT repeat(name, 2000) AS a FROM n)",
    "SELECT length(concat_ws(repeat('b', 10000000), '1', '2', '3', '4'))",
    "SELECT array_length(string_to_array(repeat('a', 5000000), NULL))",
    "SELECT length(array_to_string(range(0, 100000), repeat('b', 100000)))",
    "SELECT array_length(range(0, 2000000000))",
    "SELECT array_length(generate_series(0, 2000000000))",
    "SELECT array_length(generate_series(0, 9000000000000000000, 1000))",
    "SELECT sum(array_length(range(0, number * 1000))) FROM n",
    "SELECT array_length(generate_series(TIMESTAMP '2020-01-01', TIMESTAMP '2024-01-01', \
     INTERVAL '1 second'))",
    "SELECT array_length(generate_series(TIMESTAMP '2020-01-01', TIMESTAMP '2024-01-01', \
     INTERVAL '1 month -30 days'))",
    "SELECT array_length(range(-9223372036854775807, 9223372036854775807))",
    "SELECT array_length(array_resize(make_array(1), 9223372036854775807, 7))",
    "SELECT array_length(list_repeat(1, 2000000000))",
    "SELECT max(array_length([a, a, a, a])) FROM (SELECT repeat(name, 2000) AS a FROM n)",
    "SELECT array_length(array_repeat(1, 2000000000))",
    "SELECT sum(array_length(array_repeat(name, 100000))) FROM n",
    "SELECT array_length(array_resize(make_array(1), 2000000000, 7))",
    "SELECT array_length(array_replace_all(array_repeat(1, 1000000), 1, 2) || array_repeat(1, 9000000))",
    "SELECT max(length(a || a)) FROM (SELECT repeat(name, 2000) AS a FROM n)",
    "SELECT array_length(a || a) FROM (SELECT range(0, 3000000) AS a)",
    "SELECT length(repeat(repeat(repeat(repeat('x', 1000), 1000), 1000), 1000))",
];

#[tokio::test]
async fn what_would_be_too_large_is_an_error_that_names_the_limit() {
    let house = filled().await;
    for sql in TOO_LARGE {
        let error = ask(&house.session(), sql).await.expect_err(sql);
        assert_eq!(sqlstate(&error), "53200", "{sql}: {error}");
        assert!(error.to_string().contains("'analytics-max-memory'"), "{sql}: {error}");
        house.assert_nothing_kept();
    }
    assert_eq!(ask(&house.session(), "SELECT count(*) FROM n").await.unwrap(), [ROWS.to_string()]);
}

#[tokio::test]
async fn what_is_not_answers_as_before() {
    let house = filled().await;
    let cases = [
        ("SELECT length(repeat('x', 10000000))", "10000000"),
        ("SELECT sum(length(repeat(name, 1000))) FROM n", "25890000"),
        ("SELECT lpad('7', 3, '0') || rpad('7', 3, '0')", "007700"),
        ("SELECT 'a' || NULL || 'b'", "NULL"),
        ("SELECT 'a' || 1 || true", "a1true"),
        ("SELECT concat('a', NULL, 'b')", "ab"),
        ("SELECT replace('banana', 'an', 'AN')", "bANANa"),
        ("SELECT regexp_replace('banana', '(an)', '[\\1]', 'g')", "b[an][an]a"),
        ("SELECT array_length(range(0, 1000000))", "1000000"),
        ("SELECT array_length(range(5)) + array_length(generate_series(10, 1, -3))", "9"),
        (
            "SELECT array_length(generate_series(TIMESTAMP '2020-01-01', TIMESTAMP '2020-12-31', \
          INTERVAL '1 month'))",
            "12",
        ),
        ("SELECT [1, 2]", "[1, 2]"),
        ("SELECT range(1, 4) || 4 || make_array(5)", "[1, 2, 3, 4, 5]"),
        ("SELECT 0 || range(1, 3)", "[0, 1, 2]"),
        ("SELECT array_to_string(array_repeat('x', 3), '-')", "x-x-x"),
        (
            "SELECT array_length(generate_series(DATE '2020-01-01', DATE '2020-12-31', INTERVAL '1 day'))",
            "366",
        ),
        ("SELECT max(length(name || repeat('x', 15000))) FROM n", "15009"),
        ("SELECT sum(length(concat(name, repeat('b', 10000)))) FROM n", "30025890"),
        ("SELECT sum(length(overlay(name placing repeat('b', 10000) from 2))) FROM n", "30003000"),
        ("SELECT count(*) FROM n WHERE name || '!' = 'name 7!'", "1"),
        ("SELECT count(*) FROM generate_series(1, length(repeat('x', 1000)))", "1000"),
    ];
    for (sql, answer) in cases {
        assert_eq!(ask(&house.session(), sql).await.unwrap(), [answer], "{sql}");
    }
}

#[tokio::test]
async fn window_functions_hold_back_what_there_is_memory_for() {
    let house = filled().await;
    for sql in [
        "SELECT max(s), max(id) FROM (SELECT sum(a.number) OVER () AS s, a.id FROM n a, n b)",
        "SELECT max(s), max(id) FROM (SELECT lead(a.number, 100000000) OVER () AS s, a.id FROM n a, n b)",
    ] {
        let error = ask(&house.session(), sql).await.expect_err(sql);
        assert_eq!(sqlstate(&error), "53200", "{sql}: {error}");
        assert!(error.to_string().contains("window functions"), "{sql}: {error}");
    }
    for (sql, answer) in [
        ("SELECT max(s) FROM (SELECT sum(number) OVER () AS s, id FROM n)", "4498500"),
        ("SELECT max(s) FROM (SELECT lead(number, 10) OVER (ORDER BY number) AS s FROM n)", "2999"),
        // Rows that go on at once are not held: 9,000,000 are more than there is room for.
        ("SELECT max(s) FROM (SELECT row_number() OVER () AS s, a.id FROM n a, n b)", "9000000"),
    ] {
        assert_eq!(ask(&house.session(), sql).await.unwrap(), [answer], "{sql}");
    }
    let lists = "SELECT max(array_length(s)) FROM (SELECT array_agg(id) OVER (ORDER BY id) AS s FROM n)";
    let error = ask(&house.session(), lists).await.expect_err(lists);
    assert_eq!(sqlstate(&error), "0A000", "{error}");
}

/// An operator makes one of a constant for each row of a batch.
#[tokio::test]
async fn of_large_constants_few_are_made_at_a_time() {
    let house = filled().await;
    let text = "x".repeat(200_000);
    for sql in [
        format!("SELECT '{text}', id FROM n"),
        "SELECT repeat('x', 200000), id FROM n".to_owned(),
        format!("SELECT CASE WHEN number >= 0 THEN '{text}' ELSE name END FROM n"),
        format!("SELECT coalesce(NULLIF(name, name), '{text}') FROM n"),
    ] {
        let mut outcome = house.session().run(&sql, None).await.unwrap();
        let mut rows = 0;
        while let Some(batch) = outcome.rows.next().await {
            let batch = batch.unwrap();
            assert!(batch.get_array_memory_size() < 16 << 20, "{} rows: {}", batch.num_rows(), &sql[..40]);
            rows += batch.num_rows();
        }
        assert_eq!(rows, ROWS);
    }
    // A value that is only compared costs nothing.
    let compared = format!("SELECT count(*) FROM n WHERE name = '{text}' OR name IN ('name 5', '{text}')");
    assert_eq!(ask(&house.session(), &compared).await.unwrap(), ["1"]);
}
