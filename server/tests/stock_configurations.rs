//! The configuration files that Redis and Valkey come with are taken, with the command line on top, and what
//! of them the server does not obey is named.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use tarn_server::config::{Invocation, Loaded, SaveRule, Supervised, parse_serve_args};

/// The files in `stock`, in order.
fn files() -> Vec<PathBuf> {
    let folder = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("tests/stock");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 8, "{files:?}");
    files
}

fn load(file: &Path, args: &[&str]) -> Result<Loaded, String> {
    let words = std::iter::once(file.to_str().unwrap()).chain(args.iter().copied());
    match parse_serve_args(words.map(Into::into)) {
        Ok(Invocation::Serve(loaded)) => Ok(*loaded),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn every_stock_file_is_taken_with_the_command_line_on_top() {
    for file in files() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().to_str().unwrap();
        // What Debian's unit adds, and an operator.
        let args = ["--supervised", "systemd", "--daemonize", "no", "--port", "7000", "--dir", dir];
        let loaded = load(&file, &args).unwrap();
        assert_eq!(loaded.config.supervised, Supervised::Systemd, "{file:?}");
        assert_eq!((loaded.config.port, loaded.config.daemonize), (7000, false), "{file:?}");
        let alone = load(&file, &[]).unwrap();
        assert_eq!(alone.config.port, 6379);
        assert_eq!(alone.config.daemonize, file.to_str().unwrap().contains("debian"), "{file:?}");
        let rules = [(3600, 1), (300, 100), (60, 10_000)];
        let rules = rules.map(|(after_s, changes)| SaveRule { after_s, changes });
        assert_eq!(alone.config.save.rules, rules, "{file:?}: nobody has said what to keep");
    }
}

#[test]
fn what_of_a_stock_file_is_not_obeyed_is_named_in_one_line() {
    for file in files() {
        let loaded = load(&file, &[]).unwrap();
        assert_eq!(loaded.warnings, Vec::<String>::new(), "{file:?}");
        let line = loaded.disobeyed_line().unwrap();
        assert_eq!(line.lines().count(), 1);
        for name in ["rdb-save-incremental-fsync", "set-proc-title", "repl-diskless-sync"] {
            assert!(loaded.disobeyed.contains(&name) && line.contains(name), "{file:?}: {line}");
        }
        for name in [
            "disable-thp",
            "port",
            "databases",
            "rdbchecksum",
            "oom-score-adj",
            "activerehashing",
            "maxmemory-policy",
        ] {
            assert!(!loaded.disobeyed.contains(&name), "{file:?}: {line}");
        }
    }
    let default = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(load(default.path(), &[]).unwrap().disobeyed_line(), None, "nobody has said anything");
}

#[test]
fn newer_names_and_both_spellings_are_taken() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for cores in ["server", "bgsave", "bio", "aof-rewrite"] {
        for name in [format!("--{cores}-cpulist"), format!("--{}_cpulist", cores.replace('-', "_"))] {
            let loaded = load(file.path(), &[&name, "0"]).unwrap();
            let is_obeyed = ["server", "bgsave"].contains(&cores);
            assert_eq!(loaded.warnings.is_empty(), is_obeyed, "{name}: {:?}", loaded.warnings);
        }
    }
    let names = [
        ("--hide-user-data-from-log", "yes"),
        ("--dual-channel-replication-enabled", "yes"),
        ("--io-threads-do-reads", "yes"),
        ("--lua-time-limit", "5000"),
        ("--busy-reply-threshold", "5000"),
        ("--primaryauth", "s3cret"),
        ("--max-new-connections-per-cycle", "10"),
        ("--replica-full-sync-buffer-limit", "1gb"),
        ("--commandlog-execution-slower-than", "1"),
        ("--tls-auth-clients-user", "cn"),
    ];
    for (name, value) in names {
        load(file.path(), &[name, value]).unwrap();
    }
    let slow = load(file.path(), &["--commandlog-execution-slower-than", "5"]).unwrap();
    assert_eq!(slow.config.slowlog_log_slower_than_us, 5);
}

#[test]
fn any_number_of_databases_is_taken_and_told_where_there_are_fewer() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for (number, there, is_told) in [("256", 256, false), ("1000", 256, true), ("2147483647", 256, true)] {
        let loaded = load(file.path(), &["--databases", number]).unwrap();
        assert_eq!(loaded.config.databases, there);
        assert_eq!(loaded.disobeyed.contains(&"databases"), is_told);
        let warning = format!("'databases {number}' is accepted, but there are 256 databases at most");
        assert_eq!(
            loaded.warnings.iter().any(|line| line.starts_with(&warning)),
            is_told,
            "{:?}",
            loaded.warnings
        );
    }
    assert!(load(file.path(), &["--databases", "0"]).is_err());
}

#[test]
fn what_would_be_dangerous_to_ignore_is_refused_by_name() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let cases: [(&[&str], &str); 3] = [
        (&["--loadmodule", "m.so"], "'loadmodule' is not supported by Tarn: there are no modules"),
        (&["--replicaof", "a", "1"], "'replicaof' is not supported by Tarn: there is no replication"),
        (&["--cluster-enabled", "yes"], "'cluster-enabled' is not supported by Tarn: there is no cluster"),
    ];
    for (args, refusal) in cases {
        let error = load(file.path(), args).unwrap_err();
        assert!(error.contains(refusal) && !error.contains("s3cret"), "{error}");
    }
}
