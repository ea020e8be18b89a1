//! Nothing is shown before it is durable, where replies wait for the disk.

#![allow(clippy::unwrap_used)]

mod house;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use house::{House, ask};
use tarn_analytics::{Request, sqlstate};
use tarn_engine::checkpoint::Source;
use tarn_engine::record::Lsn;
use tokio::task::JoinHandle;

/// An event that has not happened by then will not happen.
const LIMIT: Duration = Duration::from_secs(60);

/// A disk of which the test says how far it has come.
#[derive(Default)]
struct Disk {
    durable: AtomicU64,
    failed: AtomicBool,
    /// How often a caller had to wait.
    refused: AtomicU64,
    /// Called after each look, with its answer.
    looked: Mutex<Option<Looked>>,
}

type Looked = Box<dyn FnMut(bool) + Send>;

impl Disk {
    fn may_show(&self, lsn: Lsn) -> Result<bool, String> {
        let may = lsn.0 <= self.durable.load(Ordering::SeqCst);
        if !may && self.failed.load(Ordering::SeqCst) {
            return Err("the log cannot be written".to_owned());
        }
        if let Some(looked) = &mut *self.looked.lock().unwrap() {
            looked(may);
        }
        self.refused.fetch_add(u64::from(!may), Ordering::SeqCst);
        Ok(may)
    }

    fn call(&self, looked: impl FnMut(bool) + Send + 'static) {
        *self.looked.lock().unwrap() = Some(Box::new(looked));
    }

    fn settle(&self, house: &House) {
        self.durable.store(house.engine.newest().0, Ordering::SeqCst);
    }
}

/// A table and an index of search over two keys, which are durable.
async fn house() -> (Arc<House>, Arc<Disk>) {
    let (house, disk) = (Arc::new(House::new().await), Arc::new(Disk::default()));
    let shows = disk.clone();
    house.analytics.show_by(move |lsn| shows.may_show(lsn));
    for at in 1..=2 {
        house.hset(&format!("n:{at}"), &[("value", &at.to_string())]);
    }
    let table = "CREATE EXTERNAL TABLE n (id INT, value INT) STORED AS HASH LOCATION 'n:*'";
    ask(&house.session(), table).await.unwrap();
    ask(&house.session(), "CREATE INDEX by_value ON n (value)").await.unwrap();
    search(&house, "FT.CREATE x ON HASH PREFIX 1 n: SCHEMA value NUMERIC").await.unwrap();
    disk.settle(&house);
    tokio::time::timeout(LIMIT, async {
        while !ask(&house.session(), "SHOW INDEXES").await.unwrap()[0].starts_with("by_value|n|value|1000|2|")
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .unwrap();
    (house, disk)
}

async fn search(house: &House, words: &str) -> Result<String, String> {
    let words = words.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let answer = house.search.run(Request { words, database: 0, is_resp3: false }).await;
    answer.map(|tree| format!("{tree:?}")).map_err(|error| error.to_string())
}

fn asked(house: &Arc<House>, text: &'static str) -> JoinHandle<Result<String, String>> {
    let house = house.clone();
    tokio::spawn(async move {
        if text.starts_with("FT.") {
            return search(&house, text).await;
        }
        let session = house.session();
        if let Some(text) = text.strip_prefix("BEGIN; ") {
            session.begin();
            return ask(&session, text).await.map(|lines| lines.join(";")).map_err(|e| e.to_string());
        }
        ask(&session, text).await.map(|lines| lines.join(";")).map_err(|error| error.to_string())
    })
}

/// The reading statements of SQL and the commands of search.
const QUESTIONS: &[&str] = &[
    "SELECT count(*) FROM n",
    "SELECT value FROM n WHERE id = 3",
    "SELECT id FROM n WHERE value = 3",
    "SELECT max(value) FROM n",
    "SELECT id FROM n ORDER BY value LIMIT 5",
    "SELECT a.id FROM n a JOIN n b ON a.id = b.value ORDER BY 1",
    "SELECT id / (value - 3) FROM n WHERE id = 3",
    "SELECT count(*) FROM keyspace.keys",
    "SELECT * FROM infer('n:*')",
    "BEGIN; SELECT count(*) FROM n",
    "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r JOIN n ON n.id = r.i) SELECT i FROM r",
    "EXPLAIN SELECT * FROM n",
    "EXPLAIN ANALYZE SELECT count(*) FROM n",
    "FT.SEARCH x *",
    "FT.AGGREGATE x * GROUPBY 0 REDUCE COUNT 0 AS n",
    "FT.INFO x",
];

#[tokio::test]
async fn no_statement_answers_before_what_it_reads_is_durable() {
    let (house, disk) = house().await;
    for question in QUESTIONS {
        disk.settle(&house);
        house.hset("n:3", &[("value", "3")]);
        let refused = disk.refused.load(Ordering::SeqCst);
        let mut asked = asked(&house, question);
        tokio::time::timeout(LIMIT, async {
            while disk.refused.load(Ordering::SeqCst) == refused {
                assert!(!asked.is_finished(), "{question} has answered: {:?}", (&mut asked).await);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await
        .unwrap();
        assert!(!asked.is_finished(), "{question} has answered");
        disk.settle(&house);
        let answer = tokio::time::timeout(LIMIT, asked).await.unwrap().unwrap();
        let is_error = question.contains(" / (value - 3)");
        assert_eq!(answer.is_err(), is_error, "{question}: {answer:?}");
        house.delete("n:3");
    }
    disk.settle(&house);
    house.assert_nothing_kept();
}

#[tokio::test]
async fn a_statement_that_waits_for_the_disk_keeps_no_view_open() {
    let (house, disk) = house().await;
    // The disk hangs from the beginning: no view is open when a statement has to wait.
    let early = Arc::new(AtomicU64::new(0));
    let (engine, told) = (house.engine.clone(), early.clone());
    disk.call(move |may| {
        let open = engine.views().status().open.len() as u64;
        told.fetch_add(if may { 0 } else { open }, Ordering::SeqCst);
    });
    for question in QUESTIONS {
        disk.settle(&house);
        house.hset("n:3", &[("value", "3")]);
        let refused = disk.refused.load(Ordering::SeqCst);
        let asked = asked(&house, question);
        until(|| disk.refused.load(Ordering::SeqCst) >= refused + 3).await;
        assert_eq!(early.load(Ordering::SeqCst), 0, "{question} waits with views that are open");
        disk.settle(&house);
        let _ = tokio::time::timeout(LIMIT, asked).await.unwrap().unwrap();
        house.delete("n:3");
    }
    disk.settle(&house);
    house.assert_nothing_kept();
}

#[tokio::test]
async fn views_that_were_opened_when_the_disk_began_to_hang_are_given_back() {
    let (house, disk) = house().await;
    for question in ["SELECT count(*) FROM n", "BEGIN; SELECT count(*) FROM n", "FT.SEARCH x *"] {
        disk.settle(&house);
        // A write during the wait for durability is in the statement's cut.
        let (writes, mut writing) = (house.clone(), true);
        disk.call(move |_| {
            if std::mem::take(&mut writing) {
                writes.hset("n:4", &[("value", "4")]);
            }
        });
        let refused = disk.refused.load(Ordering::SeqCst);
        let asked = asked(&house, question);
        until(|| disk.refused.load(Ordering::SeqCst) > refused).await;
        until(|| house.engine.views().status().open.is_empty()).await;
        assert!(!asked.is_finished(), "{question} has answered");
        disk.settle(&house);
        let _ = tokio::time::timeout(LIMIT, asked).await.unwrap().unwrap();
        house.delete("n:4");
    }
    // It has the house.
    *disk.looked.lock().unwrap() = None;
    disk.settle(&house);
    house.assert_nothing_kept();
}

async fn until(mut what: impl FnMut() -> bool) {
    let tries = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LIMIT, tries).await.unwrap();
}

#[tokio::test]
async fn who_waits_for_the_disk_can_be_cancelled_and_is_told_when_it_has_failed() {
    let (house, disk) = house().await;
    house.hset("n:3", &[("value", "3")]);
    let session = house.session();
    let late = session.run("SELECT count(*) FROM n", Some(Duration::from_millis(1))).await;
    let late = match late {
        Ok(mut outcome) => {
            use futures::StreamExt;
            sqlstate(&outcome.rows.next().await.unwrap().unwrap_err().into())
        }
        Err(error) => sqlstate(&error),
    };
    assert_eq!(late, "57014");
    let session = house.session();
    let pid = session.pid();
    let refused = disk.refused.load(Ordering::SeqCst);
    let waiting = tokio::spawn(async move { ask(&session, "SELECT count(*) FROM n").await });
    tokio::time::timeout(LIMIT, async {
        while disk.refused.load(Ordering::SeqCst) == refused {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .unwrap();
    ask(&house.session(), &format!("SELECT pg_cancel_backend({pid})")).await.unwrap();
    let cancelled = tokio::time::timeout(LIMIT, waiting).await.unwrap().unwrap().unwrap_err();
    assert_eq!(sqlstate(&cancelled), "57014");
    disk.failed.store(true, Ordering::SeqCst);
    let error = ask(&house.session(), "SELECT count(*) FROM n").await.unwrap_err();
    assert_eq!(sqlstate(&error), "58030");
    assert_eq!(error.to_string(), "what this would show is not durable: the log cannot be written");
    assert_eq!(ask(&house.session(), "SELECT 1").await.unwrap(), ["1"], "this shows nothing");
    let told = search(&house, "FT.SEARCH x *").await.unwrap_err();
    assert!(told.contains("not durable"), "{told}");
    house.assert_nothing_kept();
}

#[tokio::test]
async fn indexes_are_shown_without_numbers_that_are_not_durable() {
    let (house, disk) = house().await;
    house.hset("n:3", &[("value", "3")]);
    assert_eq!(
        ask(&house.session(), "SHOW INDEXES").await.unwrap(),
        ["by_value|n|value|NULL|NULL|NULL|NULL"]
    );
    disk.settle(&house);
    assert!(ask(&house.session(), "SHOW INDEXES").await.unwrap()[0].starts_with("by_value|n|value|1000|3|"));
}
