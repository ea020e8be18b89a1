//! Money moves while queries count it: no sum is ever off, and nothing is kept at the end.

#![allow(clippy::unwrap_used)]

mod house;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use house::{House, ask, options};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_analytics::{AnalyticsOptions, sqlstate};
use tarn_engine::record::Change;
use tarn_engine::value::stream::StreamId;
use tarn_engine::value::stream::element::put_entry;

const ACCOUNTS: usize = 3_000;
const BALANCE: i64 = 100;
/// Sums of the run in continuous integration; `TARN_QUERIES` asks for more, best of a release build.
const QUERIES: usize = 120;

fn key_of(account: usize) -> Vec<u8> {
    format!("account:{account}").into_bytes()
}

fn put(account: usize, balance: i64) -> (Vec<u8>, Change<'static>) {
    let (field, value) = (b"balance".to_vec().into(), balance.to_string().into_bytes().into());
    (key_of(account), Change::HashPut { field, value })
}

/// Moves money between accounts of its own until told to stop: transactions of two keys, and now and then an
/// account that is emptied into another and deleted, or created again.
fn move_money(house: &House, writer: usize, stop: &AtomicBool) {
    let mut random = SmallRng::seed_from_u64(writer as u64);
    let mut balances: Vec<(usize, i64)> =
        (0..ACCOUNTS).filter(|at| at % 2 == writer).map(|at| (at, BALANCE)).collect();
    while !stop.load(Ordering::Relaxed) {
        let (from, to) = (random.random_range(0..balances.len()), random.random_range(0..balances.len()));
        if from == to {
            continue;
        }
        let amount = match random.random_range(0..10) {
            0 => balances[from].1,
            _ => random.random_range(0..=balances[from].1),
        };
        balances[from].1 -= amount;
        balances[to].1 += amount;
        let (from, to) = (balances[from], balances[to]);
        let of_from = match from.1 {
            0 => (key_of(from.0), Change::Delete),
            rest => put(from.0, rest),
        };
        house.change(1 + writer, 0, vec![of_from, put(to.0, to.1)]);
    }
}

async fn rich() -> Arc<House> {
    rich_with(1).await
}

async fn rich_with(threads: usize) -> Arc<House> {
    let house = Arc::new(House::with(AnalyticsOptions { threads, ..options(None) }).await);
    (0..ACCOUNTS).for_each(|account| house.change(0, 0, vec![put(account, BALANCE)]));
    let table = "CREATE EXTERNAL TABLE account (id INT, balance BIGINT) STORED AS HASH LOCATION 'account:*'";
    ask(&house.session(), table).await.unwrap();
    house
}

fn queries() -> usize {
    std::env::var("TARN_QUERIES").map_or(QUERIES, |text| text.parse().unwrap())
}

async fn beside_writers(house: &Arc<House>, questions: impl AsyncFnOnce()) {
    beside(house, move_money, questions).await;
}

/// Asks while two threads write.
async fn beside(house: &Arc<House>, write: fn(&House, usize, &AtomicBool), questions: impl AsyncFnOnce()) {
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let (house, stop) = (house.clone(), stop.clone());
            std::thread::spawn(move || write(&house, writer, &stop))
        })
        .collect();
    questions().await;
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    house.assert_nothing_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_sum_is_ever_off() {
    let house = rich().await;
    let all = (ACCOUNTS as i64 * BALANCE).to_string();
    beside_writers(&house, async || {
        let session = house.session();
        for number in 0..queries() {
            let sums = match number % 4 {
                0 => ask(&session, "SELECT sum(balance) FROM account").await.unwrap(),
                // Two scans of one instant: what one has, the other has.
                1 => {
                    let both = "SELECT sum(a.balance), sum(b.balance) \
                         FROM account a FULL JOIN account b ON a.id = b.id";
                    let rows = ask(&session, both).await.unwrap();
                    rows[0].split('|').map(str::to_owned).collect()
                }
                2 => {
                    let parts = "SELECT (SELECT sum(balance) FROM account WHERE id % 2 = 0) + \
                                 (SELECT sum(balance) FROM account WHERE id % 2 = 1)";
                    ask(&session, parts).await.unwrap()
                }
                _ => {
                    let fields = "SELECT sum(value::bigint) FROM keyspace.hashes WHERE field = 'balance'";
                    ask(&session, fields).await.unwrap()
                }
            };
            assert!(sums.iter().all(|sum| *sum == all), "query {number}: {sums:?}");
        }
    })
    .await;
}

/// Where there are several threads, each scan of many keys is in parts that are read side by side.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_sum_of_parts_is_ever_off() {
    const OTHERS: usize = 100_000;
    let house = rich_with(2).await;
    let groups = "EXPLAIN SELECT balance, count(*) FROM account GROUP BY balance";
    let plan = ask(&house.session(), groups).await.unwrap().join("\n");
    assert!(!plan.contains("Repartition"), "few keys are for one thread: {plan}");
    (0..OTHERS).for_each(|other| house.set(0, &format!("other:{other}"), b"", None));
    let all = (ACCOUNTS as i64 * BALANCE).to_string();
    let both = "SELECT sum(a.balance), sum(b.balance) FROM account a FULL JOIN account b ON a.id = b.id";
    let session = house.session();
    let plan = ask(&session, &format!("EXPLAIN {both}")).await.unwrap().join("\n");
    assert_eq!(plan.matches("by=all keys in 2 parts").count(), 2, "{plan}");
    house.engine.note_wait(Duration::from_secs(1));
    let plan = ask(&session, &format!("EXPLAIN {both}")).await.unwrap().join("\n");
    assert!(!plan.contains("in 2 parts"), "clients wait: {plan}");
    house.clock.advance(1_001);
    assert_eq!(
        ask(&session, "SELECT count(*) FROM keyspace.keys").await.unwrap(),
        [(OTHERS + ACCOUNTS).to_string()]
    );
    let some = ask(&session, "SELECT key FROM keyspace.keys LIMIT 70000").await.unwrap();
    assert_eq!(some.iter().collect::<HashSet<_>>().len(), 70_000);
    let stop = Arc::new(AtomicBool::new(false));
    // In the middle of statements parts begin to take turns, and read side by side again.
    let waits = std::thread::spawn({
        let (house, stop) = (house.clone(), stop.clone());
        let others = || (0..100).for_each(|_| std::thread::yield_now());
        move || {
            while !stop.load(Ordering::Relaxed) {
                house.engine.note_wait(Duration::from_secs(1));
                others();
                house.clock.advance(1_001);
                others();
            }
        }
    });
    beside_writers(&house, async || {
        for number in 0..queries() / 6 {
            let pinned = number % 3 == 2;
            if pinned {
                ask(&session, "BEGIN READ ONLY").await.unwrap();
            }
            let sums = ask(&session, if number % 3 == 0 { "SELECT sum(balance) FROM account" } else { both });
            for sum in sums.await.unwrap().iter().flat_map(|row| row.split('|')) {
                assert_eq!(sum, all, "query {number}");
            }
            if pinned {
                ask(&session, "COMMIT").await.unwrap();
            }
        }
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    waits.join().unwrap();
}

/// Entries of all streams; of which one gets the next while another loses its first.
const ENTRIES: u64 = 12_002;
const STREAMS: u64 = 4;

fn stream_of(entry: u64) -> Vec<u8> {
    format!("s:{}", entry % STREAMS).into_bytes()
}

fn add_entry(entry: u64) -> (Vec<u8>, Change<'static>) {
    let fields = [(&b"n"[..], &b"1"[..])].into_iter();
    (stream_of(entry), put_entry(StreamId::new(entry, 0), 1 + entry / STREAMS, fields))
}

fn move_entries(house: &House, writer: usize, stop: &AtomicBool) {
    let mut entry = 0;
    while writer == 0 && !stop.load(Ordering::Relaxed) {
        let trim = Change::StreamTrim { below: StreamId::new(entry + 1, 0) };
        house.change(1, 0, vec![add_entry(entry + ENTRIES), (stream_of(entry), trim)]);
        entry += 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_count_of_entries_is_ever_off() {
    let house = Arc::new(House::new().await);
    (0..ENTRIES).for_each(|entry| house.change(0, 0, vec![add_entry(entry)]));
    let table = "CREATE EXTERNAL TABLE s (k TEXT, ms BIGINT, n INT) STORED AS STREAM LOCATION 's:*'";
    ask(&house.session(), table).await.unwrap();
    beside(&house, move_entries, async || {
        let session = house.session();
        for number in 0..queries() / 4 {
            let counts = match number % 3 {
                0 => "SELECT count(*), sum(n), 1 + max(ms) - min(ms) FROM s",
                1 => "SELECT count(*), count(value), count(DISTINCT id) FROM keyspace.streams",
                _ => "SELECT count(*), sum(a.n), sum(b.n) FROM s a FULL JOIN s b ON a.ms = b.ms",
            };
            let counted = ask(&session, counts).await.unwrap();
            assert_eq!(counted, [[ENTRIES.to_string().as_str(); 3].join("|")], "query {number}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_that_finds_nothing_lets_other_statements_have_their_turn() {
    let house = House::with(AnalyticsOptions { threads: 1, ..options(None) }).await;
    (0..100_000).for_each(|key| house.set(0, &format!("key:{key}"), b"some", None));
    let ended = std::sync::Mutex::new(Vec::new());
    let long = async {
        let none = "SELECT count(*) FROM keyspace.strings WHERE value = 'none'";
        assert_eq!(ask(&house.session(), none).await.unwrap(), ["0"]);
        ended.lock().unwrap().push("long");
    };
    let short = async {
        assert_eq!(ask(&house.session(), "SELECT 1").await.unwrap(), ["1"]);
        ended.lock().unwrap().push("short");
    };
    tokio::join!(long, short);
    assert_eq!(*ended.lock().unwrap(), ["short", "long"], "there is one thread for both");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_sum_by_an_index_is_ever_off() {
    let house = rich().await;
    let all = (ACCOUNTS as i64 * BALANCE).to_string();
    beside_writers(&house, async || {
        let session = house.session();
        let mut read = 0;
        for number in 0..queries() {
            if number % 40 == 0 {
                ask(&session, "DROP INDEX IF EXISTS by_balance").await.unwrap();
                ask(&session, "CREATE INDEX by_balance ON account (balance)").await.unwrap();
            }
            let order = if number % 2 == 0 { "" } else { "DESC" };
            let sorted = format!("SELECT id, balance FROM account ORDER BY balance {order} LIMIT 100000");
            let question = match number % 3 {
                // All of it by the index.
                0 => format!("SELECT sum(balance) FROM ({sorted})"),
                // Rows that move to a place before or after the scan, beside all others.
                1 => "SELECT (SELECT sum(balance) FROM account WHERE balance BETWEEN 300 AND 1000000) + \
                      (SELECT sum(balance) FROM account WHERE balance < 300)"
                    .to_owned(),
                _ => format!(
                    "SELECT sum(a.balance) FROM ({sorted}) a \
                     JOIN account b ON a.id = b.id AND a.balance = b.balance"
                ),
            };
            let plan = ask(&session, &format!("EXPLAIN {question}")).await.unwrap().join("\n");
            read += usize::from(plan.contains("index by_balance"));
            match ask(&session, &question).await {
                Ok(sums) => assert_eq!(sums, [all.as_str()], "query {number}: {question}"),
                Err(error) => assert_eq!(sqlstate(&error), "40001", "query {number}: {error}"),
            }
        }
        assert!(read > queries() / 4, "{read} of {} queries were to read the index", queries());
    })
    .await;
    let statuses = house.engine.indexes();
    assert!(statuses.iter().all(|index| index.removed == 0), "{statuses:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_sees_one_instant() {
    let house = rich().await;
    beside_writers(&house, async || {
        let session = house.session();
        for round in 0..queries() / 30 {
            ask(&session, "BEGIN READ ONLY").await.unwrap();
            let question = "SELECT id, balance FROM account ORDER BY id";
            let first = ask(&session, question).await.unwrap();
            let sum: i64 =
                first.iter().map(|row| row.split('|').nth(1).unwrap().parse::<i64>().unwrap()).sum();
            assert_eq!(sum, ACCOUNTS as i64 * BALANCE, "round {round}");
            for _ in 0..2 {
                assert_eq!(ask(&session, question).await.unwrap(), first, "round {round}");
            }
            ask(&session, "COMMIT").await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_queries_than_there_are_views_wait_for_theirs() {
    let house = rich().await;
    let all = (ACCOUNTS as i64 * BALANCE).to_string();
    beside_writers(&house, async || {
        let question =
            "SELECT sum(a.balance) FROM account a JOIN account b USING (id) JOIN account c USING (id)";
        let many: Vec<_> = (0..64)
            .map(|_| {
                let session = house.session();
                tokio::spawn(async move { ask(&session, question).await.unwrap() })
            })
            .collect();
        for asked in many {
            assert_eq!(asked.await.unwrap(), [all.as_str()]);
        }
        assert_eq!(house.analytics.waiting(), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_early_gives_everything_back() {
    use futures::StreamExt;
    let house = rich().await;
    let endless =
        "SELECT count(*) FROM generate_series(1, 10000000) a CROSS JOIN generate_series(1, 10000000) b";
    beside_writers(&house, async || {
        let session = house.session();
        for _ in 0..20 {
            assert_eq!(ask(&session, "SELECT id FROM account LIMIT 1").await.unwrap().len(), 1);
            // Nobody reads it to its end.
            let mut outcome = session.run("SELECT id FROM account", None).await.unwrap();
            assert!(outcome.rows.next().await.unwrap().is_ok());
        }
        let timeout = Some(std::time::Duration::from_millis(200));
        let stopped = match session.run(endless, timeout).await {
            Ok(mut outcome) => outcome.rows.next().await.unwrap().map(drop).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(stopped.contains("statement timeout"), "{stopped}");
        let hungry = "SELECT a.id FROM account a CROSS JOIN account b ORDER BY a.balance";
        let limited = ask(&session, hungry).await.unwrap_err().to_string();
        assert!(limited.contains("analytics-max-memory"), "{limited}");
        let recursive = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT r.n + 1 FROM r \
                         JOIN account a ON a.id = r.n WHERE r.n < 5) SELECT max(n) FROM r";
        let counted = ask(&session, recursive).await.unwrap();
        assert!(counted[0].parse::<u64>().unwrap() >= 1);
    })
    .await;
}
