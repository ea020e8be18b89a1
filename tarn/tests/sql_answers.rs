//! Statements that the libraries answer otherwise than PostgreSQL, with PostgreSQL's answers; and the
//! questions of tools about the catalog.

#![allow(clippy::unwrap_used)]

mod running;

use running::postgres::{Postgres, extended};
use running::{Running, free_port};

/// A server with a few rows.
fn server() -> (Running, Postgres) {
    let port = free_port();
    let running = Running::start(&["--sql-port", &port.to_string()]);
    let mut client = running.connect();
    for (id, t, v, n) in [
        (1, "a", "1", "0.5"),
        (2, "b", "2", "1.25"),
        (3, "a", "3", "2.5"),
        (4, "c", "", "10"),
        (5, "", "5", ""),
    ] {
        let field = |name: &str, value: &str| {
            if value.is_empty() { String::new() } else { format!("{name} {value}") }
        };
        let fields = [field("t", t), field("v", v), field("n", n)].join(" ");
        client.ask(&format!("HSET o:{id} none 1 {fields}"));
    }
    for (id, x) in [(1, "100000000000000000"), (2, "NaN"), (3, "3"), (4, "4")] {
        client.ask(&format!("HSET w:{id} x {x}"));
    }
    let mut postgres = Postgres::connect_with(port, &["TimeZone", "UTC"]);
    for sql in [
        "CREATE EXTERNAL TABLE o (id INT, t TEXT, v INT, n DECIMAL(10,2)) STORED AS HASH LOCATION 'o:*'",
        "CREATE EXTERNAL TABLE w (id INT, x DOUBLE) STORED AS HASH LOCATION 'w:*'",
    ] {
        assert_eq!(postgres.ask(sql).error, None);
    }
    (running, postgres)
}

/// Statements with PostgreSQL's answers: lines of a row each.
const ANSWERS: [(&str, &str); 87] = [
    ("SELECT id, (SELECT count(*) FROM o y WHERE y.t = x.t) FROM o x ORDER BY id", "1|2\n2|1\n3|2\n4|1\n5|0"),
    ("SELECT id FROM o WHERE id = 1 OR v NOT IN (SELECT v FROM o)", "1"),
    ("SELECT count(*) FROM o x WHERE v NOT IN (SELECT v FROM o y WHERE y.id = x.id + 100)", "5"),
    ("SELECT id, v IN (SELECT v FROM o WHERE id > 2) FROM o ORDER BY id", "1|NULL\n2|NULL\n3|t\n4|NULL\n5|t"),
    ("SELECT id FROM o WHERE (id, t) IN (SELECT id, t FROM o WHERE id < 3) ORDER BY 1", "1\n2"),
    ("SELECT id FROM o WHERE (id, t) IN ((1, 'a'), (2, 'x')) ORDER BY 1", "1"),
    ("SELECT id FROM o WHERE id = ANY (SELECT v FROM o) ORDER BY 1", "1\n2\n3\n5"),
    ("SELECT to_char(TIMESTAMP '2020-01-05 13:07:09', 'YYYY-MM')", "2020-01"),
    ("SELECT true IS DISTINCT FROM true OR true", "t"),
    ("SELECT bool_or((v > 1) IS TRUE) FILTER (WHERE (v > 1) IS TRUE) FROM o", "t"),
    ("SELECT bool_and((v > 1) IS UNKNOWN) FILTER (WHERE (v > 1) IS UNKNOWN) FROM o", "t"),
    ("SELECT DISTINCT (v > 1) IS NOT UNKNOWN FROM o ORDER BY 1", "f\nt"),
    ("SELECT false AND 1 IS NOT DISTINCT FROM 1 OR true", "t"),
    ("SELECT t FROM o INTERSECT ALL SELECT t FROM o WHERE id <> 1 ORDER BY 1", "a\nb\nc\nNULL"),
    ("SELECT t FROM o EXCEPT ALL SELECT t FROM o WHERE id <> 1", "a"),
    ("SELECT v FROM (SELECT v FROM o ORDER BY id OFFSET 2) x ORDER BY 1", "3\n5\nNULL"),
    ("SELECT count(*) FROM o x JOIN o y ON x.v = round(y.n, 1)", "0"),
    ("SELECT count(*) FROM o x JOIN o y ON x.id * 10 = round(y.n, 1) * x.id", "5"),
    (
        "SELECT id, sum(x) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM w ORDER BY id",
        "1|1e+17\n2|NaN\n3|NaN\n4|7",
    ),
    (
        "SELECT count(*) FROM o x RIGHT JOIN o y ON x.t = y.t AND x.v IS NOT DISTINCT FROM y.id \
         WHERE split_part(x.t, 'z', 1) NOT LIKE 'q'",
        "3",
    ),
    (
        "SELECT EXISTS (SELECT 1 FROM o y WHERE y.v = x.id) FROM o x UNION SELECT NULL ORDER BY 1",
        "f\nt\nNULL",
    ),
    (
        "SELECT EXISTS (SELECT 1 FROM o y WHERE y.v = x.id) FROM o x UNION SELECT 1 = 2 FROM w ORDER BY 1",
        "f\nt",
    ),
    ("SELECT (-2)^2, -2^2", "4|4"),
    ("SELECT 'abc' SIMILAR TO 'a%', 'abc' SIMILAR TO 'a'", "t|f"),
    (
        "SELECT json_build_object('a', 1, 'b', 'x\"y', 'c', NULL)",
        "{\"a\" : 1, \"b\" : \"x\\\"y\", \"c\" : null}",
    ),
    ("SELECT 5.5::numeric::int, (-5.5)::numeric::int, 2.5::float8::int", "6|-6|2"),
    (
        "SELECT round(2.5::float8), round(2.5), round(-2.5), round(2.345, 2), round(1234.5, -2)",
        "2|3|-3|2.35|1200",
    ),
    ("SELECT 1.0 / 3 = 0.33333333333333333333, 7 / 2, -7 / 2, 7 % -2", "t|3|-3|1"),
    ("SELECT avg(v) = 2.75, avg(n) = 3.5625 FROM o", "t|t"),
    ("SELECT DATE '2020-01-31' + INTERVAL '1 month'", "2020-02-29 00:00:00"),
    (
        "SELECT TIMESTAMP '2020-02-03 01:02:03.5', TIMESTAMP '2020-02-03 01:02:03', NULL::timestamp",
        "2020-02-03 01:02:03.5|2020-02-03 01:02:03|NULL",
    ),
    ("SELECT TIMESTAMP '2020-01-05 13:07:09.5'::text", "2020-01-05 13:07:09.5"),
    ("SELECT 12.0::float8::text, 12.0::text, 1e20::float8::text", "12|12.0|1e+20"),
    ("SELECT 'abc'::varchar(2)", "ab"),
    ("SELECT 0.1 + 0.2 = 0.3, 0.1 + 0.2", "t|0.3"),
    ("SELECT 0.0::float8 = -0.0::float8, '-0'::float8 = 0", "t|t"),
    ("SELECT extract(second FROM TIMESTAMP '2020-01-05 13:07:09.5') = 9.5", "t"),
    ("SELECT id FROM o ORDER BY id FETCH FIRST 2 ROWS ONLY", "1\n2"),
    ("SELECT mod(7, 4), sign(-2.5::float8), ceiling(1.5), trunc(-1.57, 1)", "3|-1|2|-1.5"),
    ("SELECT variance(v) > 2, every(v > 0) FROM o", "t|t"),
    ("SELECT pg_typeof(1.5), pg_typeof('a'::text), pg_typeof(DATE '2020-01-01')", "numeric|text|date"),
    ("SELECT substring('foobar' FROM 'o(.)b'), substring('foobar' FROM 'o+')", "o|oo"),
    ("SELECT sum(9223372036854775807::bigint) FROM o", "46116860184273879035"),
    ("SELECT x FROM generate_series(1, 3) AS g(x)", "1\n2\n3"),
    ("SELECT 7.25::numeric, '1.50'::numeric", "7.25|1.50"),
    (
        "SELECT column_name, data_type, udt_name, ordinal_position FROM information_schema.columns \
         WHERE table_name = 'o' ORDER BY ordinal_position",
        "id|integer|int4|1\nt|text|text|2\nv|integer|int4|3\nn|numeric|numeric|4",
    ),
    ("SELECT count(*) FROM information_schema.table_constraints WHERE table_name = 'o'", "0"),
    (
        "SELECT rc.constraint_name FROM information_schema.referential_constraints rc JOIN \
         information_schema.key_column_usage k ON k.constraint_name = rc.constraint_name",
        "",
    ),
    ("SELECT usename, state FROM pg_stat_activity", "default|active"),
    ("SELECT usename FROM pg_catalog.pg_stat_activity WHERE datname = 'tarn'", "default"),
    (
        "SELECT age(TIMESTAMP '2001-04-10', TIMESTAMP '1957-06-13') = INTERVAL '43 years 9 months 27 days'",
        "t",
    ),
    ("SELECT 1 WHERE 'a' = ANY (ARRAY['a', 'b']) AND 'c' <> ALL (ARRAY['a', 'b'])", "1"),
    ("SELECT id FROM (VALUES (1, 5), (2, 7)) t(id, c0) WHERE c0 < ANY (SELECT 6)", "1"),
    ("SELECT id FROM (VALUES (1, 5), (2, 7)) t(id, c1) WHERE (id, c1) IN (SELECT 1, 5)", "1"),
    ("SELECT CASE 0.1::float8 + 0.2::float8 WHEN 0.3 THEN 'eq' ELSE 'ne' END", "ne"),
    ("SELECT CASE 9007199254740993 WHEN 9007199254740992 THEN 'eq' WHEN 0.5::float8 THEN 'h' END", "NULL"),
    (
        "SELECT CASE n WHEN 1.25 THEN 'n' WHEN v::float8 * 0.5 THEN 'v' END FROM o WHERE id < 3 ORDER BY 1",
        "n\nv",
    ),
    ("SELECT sum(CASE WHEN id > 1 THEN 1 ELSE 0.5 END) FROM o", "4.5"),
    ("SELECT sum(x) FROM (SELECT 1 AS x UNION ALL SELECT 0.5) t", "1.5"),
    ("SELECT x FROM (SELECT 1e-20::float8 AS x UNION ALL SELECT 0.5) t ORDER BY 1", "1e-20\n0.5"),
    ("SELECT x FROM (SELECT 1e16::float8 AS x UNION SELECT 0.5) t ORDER BY 1", "0.5\n1e+16"),
    (
        "SELECT pg_typeof(x), x FROM (SELECT 0.1::float4 AS x UNION ALL SELECT 0.5) t ORDER BY x",
        "real|0.1\nreal|0.5",
    ),
    (
        "SELECT pg_typeof(x), x FROM (VALUES (0.5), (1e-20::float8), (NULL)) t(x) ORDER BY x",
        "double precision|1e-20\ndouble precision|0.5\ndouble precision|NULL",
    ),
    (
        "SELECT x FROM (VALUES (1e-20::float8), (0.5)) t(x) \
         WHERE EXISTS (SELECT 1 FROM (VALUES (0.5)) u(y) WHERE y = x)",
        "0.5",
    ),
    (
        "SELECT x FROM (SELECT 1 AS x UNION ALL SELECT 0.5) w \
         WHERE EXISTS (SELECT 1 FROM o WHERE n = w.x / 1)",
        "0.5",
    ),
    ("VALUES ('2'::int), (3)", "2\n3"),
    ("SELECT 1 WHERE 0.1::float8 + 0.2::float8 IN (SELECT 0.3)", ""),
    ("SELECT 1 WHERE 0.1::float8 + 0.2::float8 NOT IN (SELECT 0.3)", "1"),
    ("SELECT 0.1::float8 + 0.2::float8 IN (SELECT 0.3), 0.5::float8 IN (SELECT 0.5)", "f|t"),
    ("SELECT 0.1::float8 + 0.2::float8 INTERSECT SELECT 0.3", ""),
    ("SELECT 0.1::float8 + 0.2::float8 EXCEPT SELECT 0.3", "0.30000000000000004"),
    ("SELECT 0.1::float8 + 0.2::float8 EXCEPT ALL SELECT 0.3", "0.30000000000000004"),
    ("SELECT x FROM (VALUES (0.3), (0.30000000000000000001)) t(x) EXCEPT SELECT 1::float8", "0.3"),
    ("SELECT x / 2 = 0.5 FROM (SELECT 1 AS x INTERSECT SELECT 1.0) t", "t"),
    ("SELECT ARRAY[0.1::float8 + 0.2::float8, 0.3]", "{0.30000000000000004,0.3}"),
    ("SELECT coalesce(0.1::float4, 0.5), 16777217 = 16777216::float4", "0.1|f"),
    ("SELECT lag(id, 1, 0.5) OVER (ORDER BY id) FROM o WHERE id < 3 ORDER BY 1", "0.5\n1.0"),
    ("SELECT lag(n, 1, 1e-20::float8) OVER (ORDER BY id) FROM o WHERE id < 3 ORDER BY 1", "1e-20\n0.5"),
    ("SELECT json_build_object('a', json_build_array(1, 2))", "{\"a\" : [1, 2]}"),
    ("SELECT json_build_object('x', j) FROM (SELECT json_build_array(1) AS j) t", "{\"x\" : [1]}"),
    ("SELECT json_build_object('x', (SELECT json_build_array(id) FROM o WHERE id = 1))", "{\"x\" : [1]}"),
    ("SELECT json_build_object('x', coalesce(json_build_array(1), json_build_array(2)))", "{\"x\" : [1]}"),
    ("SELECT json_build_object('x', json_build_array(1)::text)", "{\"x\" : \"[1]\"}"),
    (
        "SELECT json_build_object('x', jsonb_build_object('z', 1, 'a', 2, 'z', 3))",
        "{\"x\" : {\"a\": 2, \"z\": 3}}",
    ),
    (
        "SELECT jsonb_build_object('b', 1, 'aa', NULL, 'b', 3, 'a', 'x')",
        "{\"a\": \"x\", \"b\": 3, \"aa\": null}",
    ),
    ("SELECT pg_typeof(json_build_array()), pg_typeof(jsonb_build_array())", "json|jsonb"),
    ("SELECT regr_count(x, id) OVER (ORDER BY id ROWS 1 PRECEDING) FROM w ORDER BY id", "1\n2\n2\n2"),
];

#[test]
fn statements_are_answered_as_postgresql_answers_them() {
    let (_running, mut postgres) = server();
    let mut wrong = Vec::new();
    for (sql, wanted) in ANSWERS {
        let answer = postgres.ask(sql);
        if answer.text() != wanted || answer.error.is_some() {
            wrong.push(format!("{sql}\n  {:?} {:?}, not {wanted:?}", answer.text(), answer.error));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), ANSWERS.len(), wrong.join("\n"));
}

/// Statements that are refused, with PostgreSQL's code or that of a missing feature.
const REFUSED: [(&str, &str); 27] = [
    ("SELECT (SELECT v FROM o)", "21000"),
    ("SELECT 9223372036854775807 + 1", "22003"),
    ("SELECT 1 / 0", "22012"),
    ("SELECT 1::float8 / 0", "22012"),
    ("SELECT 1e308::float8 * 10", "22003"),
    ("SELECT 3000000000::int", "22003"),
    ("SELECT 'a'::char(2)", "0A000"),
    ("SELECT t SIMILAR TO t FROM o", "0A000"),
    ("SELECT (1, 2) < (3, 4)", "0A000"),
    ("SELECT * FROM o EXCEPT ALL SELECT * FROM o", "0A000"),
    ("SELECT id FROM o ORDER BY id FETCH FIRST 2 ROWS WITH TIES", "0A000"),
    ("SELECT to_char(1.5, '9.9')", "42883"),
    ("SELECT stddev(x) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM w", "0A000"),
    ("SELECT sqrt(-1::float8)", "22000"),
    ("SELECT regr_slope(x, id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM w", "0A000"),
    ("SELECT CASE n + 1 WHEN 1.5 THEN 1 WHEN 0.5::float8 THEN 2 END FROM o", "0A000"),
    ("SELECT x FROM (SELECT 0.3 AS x) a JOIN (SELECT 0.3::float8 AS x) b USING (x)", "0A000"),
    ("SELECT id FROM o NATURAL JOIN (SELECT 1.0 AS id) b", "0A000"),
    ("SELECT id FROM o RIGHT JOIN (SELECT 9 AS id) b USING (id)", "0A000"),
    ("SELECT id FROM o NATURAL FULL JOIN (SELECT 9 AS id) b", "0A000"),
    (
        "WITH RECURSIVE r(x) AS (SELECT 0.5 UNION ALL SELECT x + 0.25 FROM r WHERE x < 0.7) SELECT x FROM r",
        "0A000",
    ),
    ("SELECT jsonb_build_array(json_build_array(1))", "0A000"),
    ("SELECT json_build_object(json_build_array(1), 2)", "0A000"),
    ("SELECT max(json_build_array(id)) FROM o", "0A000"),
    ("SELECT DISTINCT json_build_array(id) FROM o", "0A000"),
    ("SELECT jsonb_build_array(id) FROM o ORDER BY 1", "0A000"),
    ("SELECT json_build_array(1) || 'x'", "0A000"),
];

#[test]
fn what_cannot_be_answered_is_refused_by_its_name() {
    let (_running, mut postgres) = server();
    let mut wrong = Vec::new();
    for (sql, code) in REFUSED {
        let answer = postgres.ask(sql);
        if answer.code() != code {
            wrong.push(format!("{sql}: {:?} {:?}, not {code}", answer.text(), answer.error));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn columns_are_described_by_the_types_that_they_have() {
    let (_running, mut postgres) = server();
    let mut ask = |sql: &str| {
        postgres.send(&extended(sql, &[], &[], &[], &[0]));
        let answer = postgres.answer();
        assert_eq!(answer.error, None, "{sql}");
        (answer.columns.iter().map(|column| column.1).collect::<Vec<_>>(), answer.text())
    };
    let case = ask("SELECT CASE t WHEN 'a' THEN 1 ELSE 0.5 END FROM o WHERE id < 3 ORDER BY id");
    assert_eq!(case, (vec![1700], "1.0\n0.5".to_owned()));
    let union = ask("SELECT 1 UNION ALL SELECT 0.5::float8 ORDER BY 1");
    assert_eq!(union, (vec![701], "0.5\n1".to_owned()));
    let union = ask("SELECT 1e16::float8 UNION ALL SELECT 0.5 ORDER BY 1");
    assert_eq!(union, (vec![701], "0.5\n1e+16".to_owned()));
}

#[test]
fn a_prepared_fetch_is_described_and_sent_in_the_format_that_is_wanted() {
    let (_running, mut postgres) = server();
    for sql in ["BEGIN READ ONLY", "DECLARE c CURSOR FOR SELECT id, t FROM o ORDER BY id"] {
        assert_eq!(postgres.ask(sql).error, None, "{sql}");
    }
    postgres.send(&extended("FETCH 1 FROM c", &[], &[], &[], &[]));
    let answer = postgres.answer();
    let columns: Vec<_> = answer.columns.iter().map(|(name, oid)| (name.as_str(), *oid)).collect();
    assert_eq!((columns, answer.text()), (vec![("id", 23), ("t", 25)], "1|a".to_owned()));
    postgres.send(&extended("FETCH 1 FROM c", &[], &[], &[], &[1]));
    assert_eq!(postgres.answer().text(), "\0\0\0\u{2}|b");
    assert_eq!(postgres.ask("FETCH ALL FROM c").text(), "3|a\n4|c\n5|NULL");
}
