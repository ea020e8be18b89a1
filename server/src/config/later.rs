//! The directives of Redis newer than 7.0, and of Valkey, that Tarn knows by name only. The rules are those
//! of [`foreign`](super::foreign).

use super::directive::{BYTES_MAX, Directive as D, Home, INT_MAX, int, memory};
use super::foreign::{
    BIT, BYTES, COUNT, NO_CLUSTER, NO_REPLICATION, OWN_DEFRAG, PORT, TEXT, WIDE, fixed, inert, only,
};
use super::shape::Shape;

const BY_BYTES: Home = Home::Inert("text is compared byte by byte");
const OWN_LUA: Home = Home::Inert("scripts have what is safe of the older functions");
const OWN_SETS: Home = Home::Inert("sets of other members than integers have one form of their own");
const NO_IO_THREADS: Home = Home::Inert("each of the worker threads reads, runs and answers; see threads");
const ACCEPTS_ALL: Home = Home::Inert("all connections that wait are accepted together");
const NO_MPTCP: Home = Home::Inert("there is no Multipath TCP");
const ONE_FORMAT: Home = Home::Inert("messages have one format, with the time in UTC as ISO 8601 has it");

/// Sizes and thresholds where -1 stands for none.
const OR_NONE: Shape = int(-1, i64::MAX);

#[rustfmt::skip]
pub(super) static LATER: &[D] = &[
    // What Tarn cannot do and would have to.
    inert("import-mode", BIT, "no", only("keys expire always; leave it 'no'")),
    fixed("rdma-port", PORT, "0", only("there is no RDMA; leave it 0")),
    fixed("rdma-bind", Shape::List, "", only("there is no RDMA; remove the line")),

    // Text, sets, and files.
    inert("locale-collate", TEXT, "", BY_BYTES),
    inert("set-max-listpack-entries", WIDE, "128", OWN_SETS),
    inert("set-max-listpack-value", BYTES, "64", OWN_SETS),
    inert("rdb-version-check", Shape::Choice(&["strict", "relaxed"]), "strict",
        Home::Inert("RDB files of versions that are not known are refused")).does("strict"),
    inert("extended-redis-compatibility", BIT, "no", Home::Inert("the server calls itself Tarn")),
    fixed("hash-seed", TEXT, "", Home::Inert("the order of keys follows a seed of its own")).sensitive(),

    // Messages and the process.
    inert("hide-user-data-from-log", BIT, "no", Home::Inert("no message shows data of users")).does("yes"),
    inert("log-format", Shape::Choice(&["legacy", "logfmt"]), "legacy", ONE_FORMAT),
    inert("log-timestamp-format", Shape::Choice(&["legacy", "iso8601", "milliseconds"]), "legacy", ONE_FORMAT)
        .does("iso8601"),
    inert("availability-zone", TEXT, "", Home::Inert("it is not told to clients")),
    inert("events-per-io-thread", COUNT, "2", NO_IO_THREADS),
    inert("io-threads-always-active", BIT, "no", NO_IO_THREADS),
    inert("prefetch-batch-max-size", COUNT, "16", NO_IO_THREADS),
    inert("lookahead", COUNT, "16", NO_IO_THREADS),
    inert("min-io-threads-avoid-copy-reply", COUNT, "7", NO_IO_THREADS),
    inert("min-string-size-avoid-copy-reply", BYTES, "16384", NO_IO_THREADS),
    inert("min-string-size-avoid-copy-reply-threaded", BYTES, "65536", NO_IO_THREADS),
    inert("vset-force-single-threaded-execution", BIT, "no", Home::Inert("there are no vector sets yet")),
    inert("lua-enable-deprecated-api", BIT, "no", OWN_LUA),
    inert("lua-enable-insecure-api", BIT, "no", OWN_LUA),
    inert("active-defrag-cycle-us", int(0, 100_000), "500", OWN_DEFRAG),

    // Network.
    inert("max-new-connections-per-cycle", int(1, INT_MAX), "10", ACCEPTS_ALL),
    inert("max-new-tls-connections-per-cycle", int(1, INT_MAX), "1", ACCEPTS_ALL),
    fixed("mptcp", BIT, "no", NO_MPTCP),
    fixed("unixsocketgroup", TEXT, "", Home::Inert("the Unix socket has the group of the process")),
    inert("tls-auto-reload-interval", COUNT, "0",
        Home::Inert("files of certificates are looked at once a second, and read when they have changed")),

    // Replication.
    inert("dual-channel-replication-enabled", BIT, "no", NO_REPLICATION),
    inert("repl-rdb-channel", BIT, "no", NO_REPLICATION),
    inert("repl-mptcp", BIT, "no", NO_REPLICATION),
    inert("replica-full-sync-buffer-limit", memory(0, BYTES_MAX), "0", NO_REPLICATION),

    // Cluster.
    inert("cluster-announce-human-nodename", TEXT, "", NO_CLUSTER),
    inert("cluster-announce-client-ipv4", TEXT, "", NO_CLUSTER),
    inert("cluster-announce-client-ipv6", TEXT, "", NO_CLUSTER),
    inert("cluster-announce-client-port", PORT, "0", NO_CLUSTER),
    inert("cluster-announce-client-tls-port", PORT, "0", NO_CLUSTER),
    inert("cluster-blacklist-ttl", WIDE, "60", NO_CLUSTER),
    inert("cluster-compatibility-sample-ratio", int(0, 100), "0", NO_CLUSTER),
    inert("cluster-config-save-behavior", TEXT, "sync", NO_CLUSTER),
    fixed("cluster-databases", int(1, INT_MAX), "1", NO_CLUSTER),
    inert("cluster-manual-failover-timeout", WIDE, "5000", NO_CLUSTER),
    inert("cluster-message-gossip-perc", int(0, 100), "10", NO_CLUSTER),
    inert("cluster-ping-interval", WIDE, "1000", NO_CLUSTER),
    inert("cluster-slot-migration-log-max-len", WIDE, "1000", NO_CLUSTER),
    inert("cluster-slot-migration-handoff-max-lag-bytes", BYTES, "1048576", NO_CLUSTER),
    inert("cluster-slot-migration-write-pause-timeout", WIDE, "10000", NO_CLUSTER),
    inert("cluster-slot-stats-enabled", TEXT, "no", NO_CLUSTER),
    inert("slot-migration-max-failover-repl-bytes", OR_NONE, "0", NO_CLUSTER),
];

impl D {
    /// Whether redis-server 7.0 does not have it, and newer ones or Valkey do.
    pub fn is_newer(&self) -> bool {
        LATER.iter().any(|row| row.name == self.name)
    }
}
