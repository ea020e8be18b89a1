//! The ways in which servers of Redis's protocol are started: how each is told its port, its directory, its
//! threads and its log.

use std::path::Path;

named! {
    /// The way in which a server is started.
    pub enum Dialect {
        /// Directives of redis-server as options: Tarn, Redis, Valkey, KeyDB.
        Redis = "redis",
        /// Dragonfly, which has snapshots and no log.
        Dragonfly = "dragonfly",
        /// Garnet.
        Garnet = "garnet",
        /// Kvrocks, which keeps its data on disk, in RocksDB, always with a log.
        Kvrocks = "kvrocks",
        /// Tarantool with an application of the laboratory, which has the commands that are sent here.
        Tarantool = "tarantool",
    }
}

/// The application that Tarantool runs.
const TARANTOOL: &str = include_str!("../tarantool/resp.lua");

impl Dialect {
    /// True if the log has this treatment of a write, `None` for no log at all.
    pub fn has_log(self, fsync: Option<&str>) -> bool {
        match self {
            Dialect::Redis => true,
            Dialect::Garnet => fsync != Some("no"),
            Dialect::Dragonfly | Dialect::Kvrocks => fsync.is_none(),
            Dialect::Tarantool => fsync != Some("everysec"),
        }
    }

    /// True if `BGREWRITEAOF` makes the log shorter.
    pub fn rewrites(self) -> bool {
        self == Dialect::Redis
    }

    /// Bytes of the values under one key at most, if there is a bound: Tarantool writes the whole row at each
    /// update, and a row has a mebibyte with all of its names.
    pub fn value_bytes_max(self) -> Option<u64> {
        (self == Dialect::Tarantool).then_some(900 << 10)
    }

    /// True if it has commands for lists.
    pub fn has_lists(self) -> bool {
        self != Dialect::Tarantool
    }

    /// True if all of its data are in memory.
    pub fn is_in_memory(self) -> bool {
        self != Dialect::Kvrocks
    }

    /// The command line of a server that does not know Redis's directives; that of Redis is nothing here.
    pub fn arguments(self, port: u16, dir: &Path, threads: usize, fsync: Option<&str>) -> Vec<String> {
        let dir = dir.to_string_lossy();
        match self {
            Dialect::Redis => Vec::new(),
            Dialect::Dragonfly => vec![
                format!("--port={port}"),
                "--bind=127.0.0.1".to_owned(),
                format!("--dir={dir}"),
                // Without a time in its name, one file takes the place of the last.
                "--dbfilename=dump".to_owned(),
                "--snapshot_cron=".to_owned(),
                format!("--proactor_threads={threads}"),
                "--compression_mode=0".to_owned(),
                "--version_check=false".to_owned(),
                "--logtostderr".to_owned(),
            ],
            Dialect::Garnet => {
                let port = port.to_string();
                let mut words = vec!["--port", &port, "--bind", "127.0.0.1", "--logdir", &dir];
                words.extend(["--checkpointdir", &dir, "--recover"]);
                match fsync {
                    None => {}
                    Some("always") => words.extend(["--aof", "--aof-commit-freq", "0", "--aof-commit-wait"]),
                    Some(_) => words.extend(["--aof", "--aof-commit-freq", "1000"]),
                }
                words.into_iter().map(str::to_owned).collect()
            }
            Dialect::Kvrocks => vec!["-c".to_owned(), format!("{dir}/kvrocks.conf")],
            Dialect::Tarantool => {
                let wal_mode = match fsync {
                    None => "none",
                    Some("always") => "fsync",
                    Some(_) => "write",
                };
                vec![format!("{dir}/resp.lua"), port.to_string(), dir.to_string(), wal_mode.to_owned()]
            }
        }
    }

    /// The file that it reads, of directives or with its application, and the name of that in the directory.
    pub fn file(self, port: u16, dir: &Path, threads: usize) -> Option<(&'static str, String)> {
        let dir = dir.to_string_lossy();
        match self {
            Dialect::Kvrocks => {
                let text = format!(
                    "port {port}\nbind 127.0.0.1\ndir {dir}\nlog-dir stdout\nworkers {threads}\n\
                     daemonize no\npidfile {dir}/kvrocks.pid\n"
                );
                Some(("kvrocks.conf", text))
            }
            Dialect::Tarantool => Some(("resp.lua", TARANTOOL.to_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_server_is_told_its_port_and_its_directory() {
        let dir = Path::new("/data/one");
        for dialect in [Dialect::Dragonfly, Dialect::Garnet, Dialect::Kvrocks, Dialect::Tarantool] {
            let mut told = dialect.arguments(6400, dir, 3, None).join(" ");
            told += &dialect.file(6400, dir, 3).map(|(_, text)| text).unwrap_or_default();
            for word in ["6400", "/data/one", "127.0.0.1"] {
                assert!(told.contains(word), "{}: {told}", dialect.name());
            }
        }
        assert!(Dialect::Redis.arguments(6400, dir, 3, None).is_empty());
    }

    #[test]
    fn a_log_is_asked_for_where_there_is_one() {
        let garnet = |fsync| Dialect::Garnet.arguments(1, Path::new("/d"), 1, fsync).join(" ");
        assert!(!garnet(None).contains("--aof") && garnet(Some("always")).ends_with(" --aof-commit-wait"));
        assert!(garnet(Some("everysec")).ends_with("--aof --aof-commit-freq 1000"));
        let tarantool = |fsync| Dialect::Tarantool.arguments(1, Path::new("/d"), 1, fsync).pop().unwrap();
        let modes = [None, Some("no"), Some("always")].map(tarantool);
        assert_eq!(modes, ["none", "write", "fsync"]);
        let logs = |dialect: Dialect| [None, Some("no"), Some("always")].map(|fsync| dialect.has_log(fsync));
        assert_eq!(logs(Dialect::Redis), [true, true, true]);
        assert_eq!(logs(Dialect::Garnet), [true, false, true]);
        assert_eq!(logs(Dialect::Dragonfly), [true, false, false]);
        assert_eq!(logs(Dialect::Kvrocks), [true, false, false]);
        assert_eq!(logs(Dialect::Tarantool), [true, true, true]);
        assert!(!Dialect::Tarantool.has_log(Some("everysec")));
    }
}
