//! `INFO` has every field that redis-server has, by name, but for those that are listed here with the reason.
//! Left out where redis-server is not installed.

#![allow(clippy::unwrap_used)]

mod own_process;

use own_process::{Connection, Own, eventually, serve_if_told};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn serves() {
    serve_if_told();
}

/// Fields of Redis that Tarn has not, and why.
const LEFT_OUT: &[(&str, &str)] = &[];

fn fields(client: &mut Connection) -> BTreeSet<String> {
    let info = client.ask("INFO everything");
    let names = info.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.to_owned());
    // What there is a line for each of, or only when something was called, or has failed.
    let is_many = |name: &String| {
        ["cmdstat_", "latency_percentiles_", "errorstat_", "db", "slave"]
            .iter()
            .any(|many| name.starts_with(many))
    };
    names.filter(|name| !is_many(name)).collect()
}

#[test]
fn every_field_of_redis_is_there_or_left_out_for_a_reason() {
    let has_redis = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has_redis {
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no redis-server to compare with");
        return;
    }
    for appendonly in ["no", "yes"] {
        let mut own = Own::new();
        let mut tarn = own.start(&["--appendonly", appendonly]);
        let ours = fields(&mut tarn);
        let mut redis = Own::new();
        let (port, directory) = (redis.port.to_string(), redis.folder.path());
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--save", "", "--appendonly", appendonly, "--dir"]).arg(directory);
        redis.adopt(command.stdout(Stdio::null()).stdin(Stdio::null()).spawn().unwrap());
        let theirs = fields(&mut redis.connect());
        let is_left_out = |name: &&String| LEFT_OUT.iter().any(|(left, _)| left == name);
        let missing: Vec<&String> = theirs.difference(&ours).filter(|name| !is_left_out(name)).collect();
        assert!(missing.is_empty(), "appendonly {appendonly}: {missing:?}");
        let here: Vec<&String> = ours.iter().filter(is_left_out).collect();
        assert!(here.is_empty(), "they are there by now: {here:?}");
    }
    // Figures of what there is are true.
    let mut own = Own::new();
    let mut client = own.start(&["--appendonly", "no"]);
    let field = |client: &mut Connection, name: &str| client.field(name).unwrap();
    assert_eq!(field(&mut client, "lazyfreed_objects"), "0");
    assert_eq!(field(&mut client, "clients_in_timeout_table"), "0");
    let (mut for_a_time, mut for_ever) = (own.connect(), own.connect());
    for_a_time.send("BLPOP a b 1000");
    for_ever.send("BLPOP a b 0");
    eventually(|| (field(&mut client, "blocked_clients") == "2").then_some(()));
    assert_eq!(field(&mut client, "clients_in_timeout_table"), "1");
    (0..100).for_each(|number| assert_eq!(client.ask(&format!("SET key:{number} value")), "+OK"));
    assert_eq!(client.ask("SAVE"), "+OK");
    assert_eq!(client.ask("FLUSHALL"), "+OK");
    eventually(|| (field(&mut client, "lazyfreed_objects") != "0").then_some(()));
    client = own.start(&["--appendonly", "no"]);
    assert_eq!(field(&mut client, "rdb_last_load_keys_loaded"), "100");
    assert_eq!(field(&mut client, "rdb_last_load_keys_expired"), "0");
}
