//! Every experiment, small, against every server there is: `redis-server` on the PATH, and ours where
//! `TARN_BINARY` names it.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::Path;

use clap::Parser;
use serde_json::Value;
use tarn_lab::setting::on_path;
use tarn_lab::{Conclusion, LabCli, machine};

/// Runs an experiment on each server that there is, and returns the JSON lines of its runs, goals left out.
fn runs(experiment: &str, more: &[&str]) -> Vec<Value> {
    let tarn = std::env::var_os("TARN_BINARY").map(|path| path.to_string_lossy().into_owned());
    let mut servers = Vec::new();
    if tarn.is_some() {
        servers.push("tarn");
    }
    if on_path("redis-server").is_some() {
        servers.push("redis-server");
    }
    if servers.is_empty() {
        skipped("there is no server to try: neither redis-server on the PATH nor TARN_BINARY");
        return Vec::new();
    }
    let servers = servers.join(",");
    let mut words = vec!["--servers", &servers];
    if let Some(tarn) = &tarn {
        words.extend(["--tarn", tarn]);
    }
    words.extend(more);
    runs_of(experiment, &words)
}

/// The same with all of its own options.
fn runs_of(experiment: &str, more: &[&str]) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("runs.json");
    let mut words = vec!["tarn-lab", "run", experiment, "--quick", "--scale", "0.2", "--seed", "7"];
    let (dir_text, json_text) = (text(dir.path()), text(&json));
    words.extend(["--dir", &dir_text, "--json", &json_text]);
    words.extend(more);
    let conclusion = tarn_lab::execute(LabCli::parse_from(words)).unwrap();
    assert!(matches!(conclusion, Conclusion { broken: 0, .. }), "{conclusion:?}");
    let lines = std::fs::read_to_string(&json).unwrap();
    let runs: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let leftovers: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| *path != json && *path != json.with_extension("series.csv"))
        .collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
    assert!(runs.iter().all(|run| run["seed"] == 7 && run["experiment"] == experiment));
    runs.into_iter().filter(|run| run["case"] != "goal").collect()
}

/// Says that something was not tried: the reader must not believe that it was.
fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[test]
fn throughput_runs_small() {
    let runs = runs("throughput", &["--seconds", "0.05"]);
    // On a busy machine a single case of so short a time may see no reply.
    let rates = runs.iter().filter_map(|run| run["figures"]["requests_per_s"].as_f64());
    assert!(runs.is_empty() || rates.sum::<f64>() > 0.0);
    let flushes = runs.iter().find(|run| run["case"] == "device flushes");
    assert!(runs.is_empty() || flushes.unwrap()["figures"]["four"].as_f64().unwrap() > 0.0);
}

#[test]
fn families_are_measured_beside_a_peer() {
    let Some(redis) = on_path("redis-server") else {
        skipped("there is no redis-server on the PATH");
        return;
    };
    let peer = format!("other={} --io-threads 1", redis.display());
    let more = ["--seconds", "0.05", "--only", "families", "--families", "multi,del,get", "--peer", &peer];
    let runs = runs("throughput", &more);
    let cases = |server: &str| {
        let own = runs.iter().filter(|run| run["server"] == server);
        own.map(|run| run["case"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(cases("other").len(), 9, "{:?}", cases("other"));
    assert_eq!(cases("other"), cases("redis-server"));
    assert!(cases("other").contains(&"families: MULTI of 5 SET pipeline 64"));
    let version = |server: &str| &runs.iter().find(|run| run["server"] == server).unwrap()["version"];
    assert_eq!(version("other"), version("redis-server"));
    let rates = runs.iter().filter_map(|run| run["figures"]["requests_per_s"].as_f64());
    assert!(rates.sum::<f64>() > 0.0);
}

/// The error of a command line, which leaves no results where they are by default: tests run in the source.
fn error_of(words: &[&str]) -> String {
    let left = || std::fs::read_dir("lab-results").map_or(0, Iterator::count);
    let (before, all) = (left(), [&["tarn-lab"], words].concat());
    let error = tarn_lab::execute(LabCli::parse_from(all)).unwrap_err().to_string();
    assert_eq!(left(), before, "{words:?} leaves results: --json");
    error
}

#[test]
fn peers_that_cannot_be_are_refused() {
    let run = |peers: &[&str]| {
        // Any file will do for ours: nothing is started.
        let words = [&["run", "throughput", "--quick", "--servers", "tarn", "--tarn", "/bin/sh"], peers];
        error_of(&words.concat())
    };
    let twice = run(&["--peer", "a=sh", "--peer", "a=sh"]);
    assert_eq!(twice, "--peer a=sh: a is there twice");
    assert_eq!(
        run(&["--peer", "a=no-such-program"]),
        "--peer a=no-such-program: no-such-program is not on the PATH; --peer a=/the/path/of/it says where \
         it is"
    );
    let fixed = error_of(&["run", "vls", "--quick", "--peer", "a=sh"]);
    assert_eq!(fixed, "vls compares variants of its own: it has no --peer");
}

#[test]
fn the_experiments_with_variants_measure_a_peer_beside_the_real_one() {
    let Some(redis) = on_path("redis-server") else {
        skipped("there is no redis-server on the PATH");
        return;
    };
    let peer = format!("other={} --io-threads 1", redis.display());
    let of = |experiment: &str, more: &[&str]| {
        let own = ["--seconds", "0.05", "--repeats", "1", "--servers", "redis-server", "--peer", &peer];
        let runs = runs_of(experiment, &[&own[..], more].concat());
        let mut names: Vec<_> = runs.iter().map(|run| run["server"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(of("store", &["--only", "time", "--sizes", "1"]), ["other", "redis-server"]);
    let vtc = of("vtc", &["--only", "files", "--variants", "redis-rdb,redis-aof"]);
    assert_eq!(vtc, ["other-aof", "other-rdb", "redis-aof", "redis-rdb"]);
    let recovery = ["--only", "recovery", "--memory", "ample", "--models", "snapshot"];
    assert_eq!(of("persistence", &recovery), ["other", "redis-server"]);
    assert_eq!(of("stalls", &["--only", "checkpoint", "--rate", "2000"]), ["other", "redis-server"]);
}

#[test]
fn what_a_peer_does_not_know_is_left_out_and_the_run_goes_on() {
    let Some(redis) = on_path("redis-server") else {
        skipped("there is no redis-server on the PATH");
        return;
    };
    // Runs beside a peer without a command, and one that does not start. Returns all that was left out, and
    // the servers of lines.
    let of = |experiment: &str, command: &str, more: &[&str]| {
        let peer = format!("other={} --rename-command {command} gone", redis.display());
        let own =
            ["--repeats", "1", "--servers", "redis-server", "--peer", &peer, "--peer", "none=/bin/false"];
        let runs = runs_of(experiment, &[&own[..], more].concat());
        let (out, runs): (Vec<_>, Vec<_>) = runs.into_iter().partition(|run| run["case"] == "left-out");
        let out = out.iter().map(|run| run["figures"].clone()).collect::<Vec<_>>();
        assert!(out.iter().all(|own| own["failed"] == true), "{out:?}");
        let mut servers: Vec<_> = runs.iter().map(|run| run["server"].as_str().unwrap().to_owned()).collect();
        servers.dedup();
        (out.iter().map(|own| own["what"].as_str().unwrap().to_owned()).collect::<Vec<_>>(), servers)
    };
    let (out, servers) = of("throughput", "ZRANK", &["--only", "structures", "--seconds", "0.05"]);
    // Of one that does not start, each case.
    assert!(out.len() == 10 && out[..9].iter().all(|own| own.ends_with(", none")), "{out:?}");
    assert_eq!((&*out[0], &*out[9]), ("HSET, none", "ZRANK pipeline 16, other"));
    assert!(servers.len() > 10 && servers.last().unwrap() == "other", "{servers:?}");
    let (out, _) = of("throughput", "PUBLISH", &["--only", "channels", "--seconds", "0.05"]);
    assert!(out.contains(&"channels: PUBLISH to 100 pipeline 1, other".to_owned()), "{out:?}");
    // The error that takes the place of the confirmation is no message.
    let (out, servers) = of("throughput", "SUBSCRIBE", &["--only", "channels", "--seconds", "0.05"]);
    assert!(out.contains(&"channels: PUBLISH to 1000, other".to_owned()), "{out:?}");
    assert_eq!(servers, ["redis-server"]);
    let (out, servers) = of("recovery", "BGREWRITEAOF", &["--only", "warm"]);
    let kind = "strings of 16 B";
    let gone = ["other", "none", "none, RDB"].map(|name| format!("{kind}, {name}"));
    assert_eq!(out, gone);
    assert_eq!(servers, ["redis-server", "redis-server, RDB", "other, RDB"]);
    let (out, servers) = of("memory", "HMSET", &[]);
    assert!(out.len() >= 4 && servers.contains(&"redis-server".to_owned()), "{out:?} {servers:?}");
    assert!(out.contains(&"YCSB, log none, other".to_owned()), "{out:?}");
    let (out, servers) = of("durability", "LTRIM", &["--kills", "1", "--modes", "always"]);
    assert_eq!(out, ["other", "none"].map(|name| format!("always with 1 directories, {name}")));
    assert_eq!(servers, ["redis-server"]);
    let more = ["--seconds", "0.05", "--rate", "2000", "--only", "nothing,lrange"];
    let (out, servers) = of("stalls", "RPUSH", &more);
    assert_eq!(out.len(), 3, "{out:?}");
    assert_eq!(servers, ["redis-server", "other"]);
}

#[test]
fn the_control_runs_ycsb_or_says_how_it_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let json = text(&dir.path().join("runs.jsonl"));
    let own = ["run", "ycsb-control", "--servers", "tarn", "--tarn", "/bin/sh", "--json", &json];
    let error = error_of(&[&own[..], &["--classes", "/no/such"]].concat());
    assert!(error.contains("/no/such/lib is missing: mvn -q -f lab/ycsb process-classes"), "{error}");
    let classes = Path::new(env!("CARGO_MANIFEST_DIR")).join("ycsb/target");
    if !classes.join("lib").is_dir() || on_path("java").is_none() {
        skipped("there is no YCSB to try: mvn -q -f lab/ycsb process-classes, and Java");
        return;
    }
    let runs = runs("ycsb-control", &["--seconds", "0.3", "--rate", "1000", "--classes", &text(&classes)]);
    for run in &runs {
        let calls = |name: &str| run["figures"]["calls"][name].as_u64().unwrap();
        assert!(calls("hgetall") > 0 && calls("hmset") > 0, "{run}");
        assert!(run["figures"]["mean_us"].as_f64().unwrap() > 0.0, "{run}");
    }
    let by = |name: &str| runs.iter().filter(|run| run["parameters"]["generator"] == name).count();
    assert!(by("ours") == by("ycsb") && (runs.is_empty() || by("ycsb") > 0));
}

#[test]
fn two_builds_are_compared_and_held_against_the_limit() {
    let Some(tarn) = std::env::var_os("TARN_BINARY") else {
        skipped("there is no server to try: no TARN_BINARY");
        return;
    };
    let tarn = tarn.to_string_lossy();
    let dir = tempfile::tempdir().unwrap();
    let compare = |limit: &str| {
        let json = dir.path().join(limit).join("runs.jsonl");
        let (dir_text, json_text) = (text(dir.path()), text(&json));
        let mut words = vec!["tarn-lab", "compare", &tarn, &tarn, "--quick", "--families", "set"];
        words.extend(["--dir", &dir_text, "--json", &json_text, "--limit", limit]);
        let conclusion = tarn_lab::execute(LabCli::parse_from(words)).unwrap();
        let page = std::fs::read_to_string(json.with_extension("html")).unwrap();
        assert!(page.contains("Two builds of Tarn"));
        let lines = std::fs::read_to_string(&json).unwrap();
        let runs = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let servers: Vec<_> =
            runs.filter(|run| run["case"] != "goal").map(|run| run["server"].clone()).collect();
        assert_eq!(servers, ["A", "B", "A", "B", "A", "B"]);
        conclusion
    };
    assert_eq!(compare("1000"), Conclusion { strict: true, ..Conclusion::default() });
    assert!(compare("0.001").goals_missed > 0);
}

#[test]
fn ratios_are_stored_and_later_ones_held_against_them() {
    let (Some(tarn), Some(_)) = (std::env::var_os("TARN_BINARY"), on_path("redis-server")) else {
        skipped("there are no two servers to try: no TARN_BINARY, or no redis-server on the PATH");
        return;
    };
    let (tarn, dir) = (tarn.to_string_lossy(), tempfile::tempdir().unwrap());
    let (file, json) = (text(&dir.path().join("ratios.toml")), text(&dir.path().join("runs.jsonl")));
    let ratios = |more: &[&str]| {
        let mut words = vec!["tarn-lab", "ratios", &file, "--tarn", &tarn, "--json", &json];
        words.extend(["--families", "set", "--seconds", "0.3", "--repeats", "1"]);
        words.extend(more);
        tarn_lab::execute(LabCli::parse_from(words)).unwrap()
    };
    let met = Conclusion { strict: true, ..Conclusion::default() };
    assert_eq!(ratios(&["--limit", "0.001"]), met, "nothing is stored yet");
    assert_eq!(ratios(&["--store"]), met);
    let stored = std::fs::read_to_string(&file).unwrap();
    assert!(stored.contains("build = "), "{stored}");
    // In so short a time a busy machine may show no processor time at all.
    if stored.contains("\"SET\" = ") {
        assert_eq!(ratios(&["--limit", "1000000"]), met);
        assert_eq!(ratios(&["--limit", "0.000001"]).goals_missed, 1);
    }
    let scaled = error_of(&["ratios", &file, "--scale", "0.5"]);
    assert!(scaled.starts_with("ratios has no --servers, "), "{scaled}");
}

#[test]
fn a_comparison_of_nothing_is_refused() {
    let missing = error_of(&["compare", "--quick", "/bin/sh", "no-such-revision"]);
    assert!(missing.starts_with("no-such-revision is neither a file nor a revision: "), "{missing}");
    let own = error_of(&["compare", "/bin/sh", "/bin/sh", "--servers", "tarn"]);
    assert!(own.ends_with("its servers are A and B"), "{own}");
    let limit = LabCli::try_parse_from(["tarn-lab", "compare", "/bin/sh", "/bin/sh", "--limit", "0"]);
    let limit = limit.unwrap_err().to_string();
    assert!(limit.contains("a number from 0.000001 to 1000000"), "{limit}");
}

#[test]
fn durability_runs_small() {
    for run in runs("durability", &["--kills", "2"]) {
        assert_eq!(run["figures"]["kills"], 2);
        assert!(run["figures"]["acknowledged"].as_u64().unwrap() > 0);
    }
}

#[test]
fn memory_runs_small() {
    for run in runs("memory", &[]).iter().filter(|run| run["case"] != "validity") {
        assert_eq!(run["figures"]["records"], run["parameters"]["records"]);
        assert!(run["figures"]["resident_by_values"].as_f64().unwrap() > 1.0);
    }
}

#[test]
fn recovery_runs_small() {
    for run in runs("recovery", &[]) {
        assert!(run["figures"]["records_per_s"].as_f64().unwrap() > 0.0);
        assert_eq!(run["parameters"]["cold"], run["figures"]["device_bytes_per_s"] != 0.0);
    }
}

#[test]
fn a_server_takes_checkpoints_where_memory_is_short_unless_the_machine_refuses() {
    let own = ["--seconds", "0.05", "--only", "short", "--memory-ratios", "1.5,2"];
    let runs = runs("vtc", &[&own[..], &["--variants", "vtc,redis-rdb"]].concat());
    let (left, cells): (Vec<_>, Vec<_>) = runs.iter().partition(|run| run["case"] == "left-out");
    assert!(left.is_empty() || cells.is_empty());
    // Where a swap file or a group is refused though the machine allows it, tests of these fail.
    for why in left.iter().map(|run| &run["figures"]["why"]) {
        assert!(why.as_str().unwrap().starts_with("memory cannot be made short: "), "{why}");
        skipped(&why.to_string());
    }
    for run in cells {
        let (figures, shortage) = (&run["figures"], &run["parameters"]["shortage"]);
        let raw_bytes = run["parameters"]["records"].as_u64().unwrap() * 1000;
        let percent = shortage["percent"].as_u64().unwrap();
        assert!([150, 200].contains(&percent), "{run}");
        assert_eq!(figures["limit_bytes"], raw_bytes * percent / 100 + (16 << 20), "{run}");
        let taken = figures["course"]["taken"].as_array().unwrap();
        assert!(!taken.is_empty() || figures["ended"].as_str().is_some_and(|why| !why.is_empty()), "{run}");
    }
}

#[test]
fn files_are_measured_with_compression_and_without() {
    let runs = runs("persistence", &["--seconds", "0.05", "--only", "compression"]);
    for (server, model) in [("redis-server", "snapshot"), ("tarn", "snapshot"), ("tarn", "log-periodical")] {
        let bytes = |values: &str, compresses: bool| {
            let is_own = |run: &&Value| {
                let own = &run["parameters"];
                let is_of = run["server"] == server && own["model"] == model;
                is_of && own["values"] == values && own["compresses"] == compresses
            };
            runs.iter().find(is_own).map(|run| run["figures"]["last_file_bytes"].as_u64().unwrap())
        };
        let (Some(random), Some(repeated)) = (bytes("random", false), bytes("repeated", false)) else {
            continue;
        };
        // The values of 2,000 records.
        assert!(random > 2_000_000 && repeated > 2_000_000, "{server}: {random} and {repeated}");
        let (random, smaller) = (bytes("random", true).unwrap(), bytes("repeated", true).unwrap());
        assert!(random > 1_500_000, "{server}, {model}: {random}");
        match (server, model) {
            ("redis-server", _) => assert!(smaller < 1_000_000, "{smaller}"),
            ("tarn", "snapshot") => assert!(smaller > 2_000_000, "{smaller}"),
            // By chance most blocks may have been overtaken.
            _ => assert!(smaller < repeated, "{smaller} of {repeated}"),
        }
    }
    for run in &runs {
        let figures = &run["figures"];
        let is_snapshot = run["parameters"]["model"] == "snapshot";
        assert_eq!(figures["saved_s"].as_f64().is_some_and(|seconds| seconds > 0.0), is_snapshot, "{run}");
        // The kernel counts in hundredths of a second: so few records may take none.
        assert!(figures["loading_cpu_s"].as_f64().is_some(), "{run}");
        assert!(figures["started_s"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn starts_from_inserts_alone_and_from_the_disk_and_flushed_files_are_measured() {
    let runs = runs("persistence", &["--seconds", "0.05", "--only", "inserts,cold,fsync"]);
    // As of a directory in memory.
    let (left, runs): (Vec<_>, Vec<_>) = runs.into_iter().partition(|run| run["case"] == "left-out");
    let cold = if left.is_empty() { 3 } else { 0 };
    left.iter().for_each(|run| assert_eq!(run["figures"]["cell"]["part"], "cold", "{run}"));
    for server in ["redis-server", "tarn"] {
        let of = |part: &str| {
            let is_own = |run: &&Value| run["server"] == server && run["parameters"]["part"] == part;
            runs.iter().filter(is_own).collect::<Vec<_>>()
        };
        let counts = ["inserts", "cold", "fsync"].map(|part| of(part).len());
        assert!([[0, 0, 0], [3, cold, 4]].contains(&counts), "{server}: {counts:?}");
        let flushing =
            of("fsync").iter().filter(|run| run["parameters"]["incremental_fsync"] == true).count();
        assert_eq!(flushing, counts[2] / 2);
        // Bytes after the inserts, and of the files of the start.
        let whole_log = |part: &str| {
            let is_own = |run: &&&Value| {
                run["parameters"]["model"] == "log-periodical" && run["parameters"]["shortens"] == false
            };
            let own = of(part).into_iter().find(|run| is_own(&run))?;
            Some(["file_bytes", "last_file_bytes"].map(|name| own["figures"][name].as_u64().unwrap()))
        };
        if let (Some(inserts), Some(cold)) = (whole_log("inserts"), whole_log("cold")) {
            assert!(inserts[1] < inserts[0] * 11 / 10, "{server}: {inserts:?}");
            assert!(cold[1] > cold[0] * 3 / 2, "{server}: {cold:?}");
        }
    }
    for run in &runs {
        let figures = &run["figures"];
        let is_written = run["parameters"]["model"] == "snapshot" || run["parameters"]["shortens"] == true;
        assert_eq!(figures["saved_s"].as_f64().is_some_and(|seconds| seconds > 0.0), is_written, "{run}");
        assert!(figures["started_s"].as_f64().unwrap() > 0.0, "{run}");
        assert_eq!(figures["forgotten"].is_string(), run["parameters"]["part"] == "cold", "{run}");
    }
}

#[test]
fn a_start_from_the_disk_is_left_out_where_the_files_are_in_memory() {
    let memory = Path::new("/dev/shm");
    if !machine::is_in_memory(&machine::file_system(memory)) {
        skipped("/dev/shm is no file system in memory");
        return;
    }
    for (experiment, more, count) in [("persistence", &["--memory", "ample"][..], 3), ("recovery", &[], 2)] {
        let dir = tempfile::tempdir_in(memory).unwrap();
        let json = dir.path().join("runs.jsonl");
        let (dir_text, json_text) = (text(dir.path()), text(&json));
        // Any file will do for ours: nothing is started.
        let mut words = vec!["tarn-lab", "run", experiment, "--quick", "--only", "cold"];
        words.extend(["--servers", "tarn", "--tarn", "/bin/sh", "--dir", &dir_text, "--json", &json_text]);
        words.extend(more);
        tarn_lab::execute(LabCli::parse_from(words)).unwrap();
        let lines = std::fs::read_to_string(&json).unwrap();
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), count);
        for line in lines {
            let why = line["figures"]["why"].as_str().unwrap();
            assert!(why.starts_with("files in memory are not read from a disk: "), "{line}");
            assert_eq!(line["figures"]["failed"], false);
        }
    }
}

#[test]
fn maxmemory_bounds_the_loads_of_who_has_it_only() {
    let Some(redis) = on_path("redis-server") else {
        skipped("there is no redis-server on the PATH");
        return;
    };
    let redis = text(&redis);
    // Any file will do for ours: it is not started.
    let own = ["--tarn", "/bin/sh", "--redis-server", &redis, "--seconds", "0.05"];
    let more = ["--memory", "short", "--short-by", "maxmemory", "--models", "no-save,snapshot"];
    let runs = runs_of("persistence", &[&own[..], &more].concat());
    let cells: Vec<_> = runs.iter().map(|run| (&run["server"], &run["parameters"]["part"])).collect();
    assert!(cells.len() == 2 && cells.iter().all(|own| *own.0 == "redis-server" && *own.1 == "load"));
    let dir = tempfile::tempdir().unwrap();
    let json = text(&dir.path().join("runs.jsonl"));
    let own = ["run", "vtc", "--quick", "--tarn", "/bin/sh", "--short-by", "maxmemory", "--json", &json];
    let refused = error_of(&own);
    assert_eq!(refused, "vtc has no --short-by maxmemory: it bounds no child process");
}

#[test]
fn eviction_runs_small() {
    for run in runs("eviction", &[]) {
        let figures = &run["figures"];
        match run["parameters"]["part"].as_str().unwrap() {
            "hits" => assert!((0.2..1.0).contains(&figures["hit_ratio"].as_f64().unwrap()), "{run}"),
            _ => assert!(figures["longest_ms"].as_f64().unwrap() > 0.0, "{run}"),
        }
    }
}

#[test]
fn access_runs_small() {
    for run in runs("access", &["--seconds", "1"]) {
        let (part, figures) = (run["parameters"]["part"].as_str().unwrap(), &run["figures"]);
        let names: &[&str] = match part {
            "handshakes" => &["handshakes_per_s", "handshake_us"],
            // A hundred connections may find room in memory that the server has.
            "idle" => &[],
            _ => &["plain_per_s", "own_per_s"],
        };
        for name in names {
            assert!(figures[name].as_f64().unwrap() > 0.0, "{run}");
        }
    }
}

#[test]
fn workers_run_small() {
    for run in runs_of("workers", &["--seconds", "0.02", "--workers", "2"]) {
        let counts = run["figures"]["counts"].as_array().unwrap();
        let of = |own: &Value| own["workers"].as_u64().unwrap();
        assert_eq!(counts.iter().map(of).collect::<Vec<_>>(), [1, 2]);
        for own in counts {
            for name in ["requests_per_s", "processor_ns"] {
                assert!(own[name][0].as_f64().unwrap() > 0.0, "{run}");
            }
        }
    }
}

#[test]
fn stalls_run_small() {
    let runs = runs("stalls", &["--seconds", "0.05", "--rate", "2000"]);
    for run in &runs {
        let figures = &run["figures"];
        let stretches = |of: &str| figures[of].as_array().unwrap();
        let empties = run["parameters"]["work"] == "flushall";
        assert_eq!(stretches("without").len(), if empties { 1 } else { 2 }, "{run}");
        assert!(!stretches("during").is_empty() && figures["took_s"].as_array().unwrap().len() == 1, "{run}");
        assert!(figures["during_all"]["rate"].as_f64().unwrap() > 0.0, "{run}");
        let has_groups = run["parameters"]["work"].as_str().unwrap().starts_with("streams-");
        assert_eq!(figures["acknowledged"].as_u64().is_some_and(|count| count > 0), has_groups, "{run}");
    }
    let of = |server: &str| runs.iter().filter(|run| run["server"] == server).count();
    assert!([0, 21].contains(&of("tarn")) && [0, 16].contains(&of("redis-server")));
}

#[test]
fn vls_runs_small() {
    let runs = runs("vls", &["--seconds", "0.02"]);
    let of =
        |part: &str| runs.iter().filter(move |run| run["parameters"]["part"] == part).collect::<Vec<_>>();
    for run in of("alone") {
        let variants = run["figures"]["variants"].as_array().unwrap();
        assert!(variants.len() >= 2);
        for variant in variants {
            assert!(variant["turns"][0]["rows_per_s"].as_f64().unwrap() > 0.0, "{variant}");
        }
    }
    for run in of("remset") {
        assert_eq!(run["figures"]["remset"]["left"], 0);
    }
    for run in of("separate") {
        let kept = run["figures"]["separate"].as_array().unwrap();
        assert_eq!(kept.len(), 5, "{run}");
        for own in kept {
            assert!(own["left"] == 0 && !own["moments"].as_array().unwrap().is_empty(), "{own}");
        }
    }
    for run in ["versions", "moves", "served"].into_iter().flat_map(of) {
        let variants = run["figures"]["variants"].as_array().unwrap();
        assert!(
            variants.len() >= 3 && variants.iter().all(|own| own["turns"][0]["versions_left"] == 0),
            "{run}"
        );
    }
    for run in of("opening") {
        let opening = &run["figures"]["opening"];
        assert!(opening["asked"].as_u64().unwrap() > 0 && opening["stale"] == 0, "{opening}");
    }
    for run in of("references") {
        for reference in run["figures"]["references"].as_array().unwrap() {
            assert!(reference["seconds"][0].as_f64().unwrap() > 0.0, "{reference}");
        }
    }
    let parts = [
        "alone",
        "updates",
        "latency",
        "remset",
        "separate",
        "masks",
        "versions",
        "moves",
        "opening",
        "served",
        "references",
    ];
    assert!(runs.is_empty() || parts.iter().all(|part| !of(part).is_empty()));
}
