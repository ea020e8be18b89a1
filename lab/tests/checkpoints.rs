//! Checkpoints of a real server under a load.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::time::Duration;

use clap::Parser;
use tarn_lab::checkpoint::{Ask, Script, Trial, play};
use tarn_lab::load::{Group, KeyChoice, Mix, Pace};
use tarn_lab::server::{Plan, Product, Subject};
use tarn_lab::setting::{Options, Setting, fill_silently, on_path};
use tarn_lab::ycsb;

const RECORDS: u64 = 100;

#[derive(Parser)]
struct Asked {
    #[command(flatten)]
    options: Options,
}

#[test]
fn one_that_takes_too_long_is_cut_off_and_is_the_last() {
    let Some(redis) = on_path("redis-server") else {
        // The reader must not believe that this was tested.
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no redis-server on the PATH");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let mut plan = Plan::new(Subject::new(Product::RedisServer, &redis), dir.path());
    // A second for each key.
    plan.directives.push(("rdb-key-save-delay", "1000000".to_owned()));
    let mut trial = Trial::start(&plan, vec![dir], Some(Ask::Save), true).unwrap();
    trial.patience = Some(Duration::from_millis(50));
    let options = Asked::parse_from(["lab", "--quick", "--seed", "1"]).options;
    let setting = Setting::of(Vec::new(), options).unwrap();
    fill_silently(&trial.server, RECORDS, Mix::in_order(ycsb::insert(), RECORDS), 1).unwrap();
    let stretch = Duration::from_millis(20);
    let script = Script {
        warmup: stretch,
        first: stretch,
        rest_least: stretch,
        rest_most: stretch,
        checkpoints: 3,
        time: Duration::from_secs(3600),
        operations: u64::MAX,
        rests_at_end: true,
        sql: None,
    };
    let mix = ycsb::updates(50, KeyChoice::Uniform, RECORDS);
    let group = Group { name: "closed", connections: 1, pace: Pace::Closed { pipeline: 1 }, mix };
    let course = play(&setting, &trial, group, &script, true).unwrap();
    let [taken] = course.taken[..] else { panic!("{:?}", course.taken) };
    assert!(taken.is_cut_off && taken.seconds >= 0.05, "{taken:?}");
    assert_eq!((course.without.len(), course.during.len()), (1, 1));
    // It ends its child, too.
    trial.server.stop().unwrap();
}
