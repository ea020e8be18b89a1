//! The directives of redis-server 7.0 that Tarn knows by name only, so that an existing `redis.conf` either
//! works or is refused with a reason.
//!
//! A row is *inert* where ignoring it harms nobody: any value is taken, remembered and shown, and one that is
//! not the default brings one line of warning. It is *only default* where another value would promise a
//! behaviour that is not there.

use super::directive::{BYTES_MAX, Directive as D, Home, INT_MAX, int, memory};
use super::shape::Shape;

/// Directives that are no settings but orders, which `CONFIG GET` does not show: name and why they are
/// refused.
pub(super) const REFUSED_ORDERS: &[(&str, &str)] = &[
    ("loadmodule", "there are no modules; remove the line"),
    ("sentinel", "there is no sentinel mode; remove the line"),
];

pub(super) const ONE_WAY: Home =
    Home::Inert("RDB files are written with a checksum and one sync at the end, and checked when read");
const NO_AOF: Home =
    Home::Inert("the log has its own files and is compacted in its own way, see log-dir and log-compaction");
pub(super) const NO_REPLICATION: Home = Home::Inert("there is no replication yet");
pub(super) const NO_CLUSTER: Home = Home::Inert("there is no cluster mode yet");
const NO_TLS_CLIENT: Home = Home::Inert("the server opens no encrypted connections yet");
pub(super) const OWN_DEFRAG: Home =
    Home::Inert("entries are moved for half a millisecond at a time; large values stay where they are");
const OWN_NODES: Home = Home::Inert("entries of streams stand in nodes of Tarn's own size");
const NO_SYSLOG: Home = Home::Inert("there is no syslog");
const PROCESS: Home = Home::Inert("the process leaves this to the operating system");
const NO_HUGE_PAGES: Home = Home::Inert("the heap has no huge pages");
const ALWAYS_LAZY: Home = Home::Inert("large values are always freed in the background");
const SHUTDOWN: Home = Home::Inert(
    "a shutdown takes a last checkpoint where rules of 'save' are in force, and flushes the log; it waits \
     for no replica",
);

pub(super) const fn only(why: &'static str) -> Home {
    Home::OnlyDefault(why)
}

pub(super) const BIT: Shape = Shape::Bool;
pub(super) const TEXT: Shape = Shape::Text;
pub(super) const COUNT: Shape = int(0, INT_MAX);
const POSITIVE: Shape = int(1, INT_MAX);
pub(super) const PORT: Shape = int(0, 65535);
pub(super) const WIDE: Shape = int(0, i64::MAX);
pub(super) const BYTES: Shape = memory(0, BYTES_MAX);
const SHUTDOWN_FLAGS: Shape = Shape::Flags(&["default", "save", "nosave", "now", "force"]);

pub(super) const fn inert(name: &'static str, shape: Shape, default: &'static str, home: Home) -> D {
    D::run_time(name, shape, default, home, "known, without effect")
}

pub(super) const fn fixed(name: &'static str, shape: Shape, default: &'static str, home: Home) -> D {
    D::at_start(name, shape, default, home, "known, not supported")
}

#[rustfmt::skip]
pub(super) static FOREIGN: &[D] = &[
    // What Tarn cannot do and would have to.
    inert("replicaof", Shape::List, "",
        only("there is no replication yet; remove the line")).alias("slaveof"),
    inert("min-replicas-to-write", COUNT, "0",
        only("there is no replication yet; leave it 0")).alias("min-slaves-to-write"),
    fixed("cluster-enabled", BIT, "no", only("there is no cluster mode yet; leave it 'no'")),
    inert("aof-load-truncated", BIT, "yes",
        only("a torn end of the log is always cut, with a message; leave it 'yes'")),
    fixed("socket-mark-id", int(0, u32::MAX as i64), "0", only("sockets cannot be marked; leave it 0")),

    // Files of Redis's persistence.
    fixed("rdbchecksum", BIT, "yes", ONE_WAY).does("yes"),
    inert("rdb-del-sync-files", BIT, "no", NO_REPLICATION),
    inert("rdb-save-incremental-fsync", BIT, "yes", ONE_WAY),
    inert("sanitize-dump-payload", Shape::Choice(&["no", "yes", "clients"]), "no", ONE_WAY).does("yes"),
    fixed("appendfilename", TEXT, "appendonly.aof", NO_AOF),
    fixed("appenddirname", TEXT, "appendonlydir", NO_AOF),
    inert("no-appendfsync-on-rewrite", BIT, "no", NO_AOF),
    inert("auto-aof-rewrite-percentage", COUNT, "100", NO_AOF),
    inert("auto-aof-rewrite-min-size", BYTES, "67108864", NO_AOF),
    inert("aof-use-rdb-preamble", BIT, "yes", NO_AOF),
    inert("aof-rewrite-incremental-fsync", BIT, "yes", NO_AOF),
    inert("aof-timestamp-enabled", BIT, "no", NO_AOF),
    inert("aof-disable-auto-gc", BIT, "no", NO_AOF),

    // Memory.
    inert("lazyfree-lazy-eviction", BIT, "no", ALWAYS_LAZY).does("yes"),
    inert("lazyfree-lazy-expire", BIT, "no", ALWAYS_LAZY).does("yes"),
    inert("lazyfree-lazy-server-del", BIT, "no", ALWAYS_LAZY).does("yes"),
    inert("lazyfree-lazy-user-del", BIT, "no", ALWAYS_LAZY).does("yes"),
    inert("lazyfree-lazy-user-flush", BIT, "no", ALWAYS_LAZY).does("yes"),
    inert("replica-lazy-flush", BIT, "no", ALWAYS_LAZY).does("yes").alias("slave-lazy-flush"),
    inert("active-defrag-max-scan-fields", int(1, i64::MAX), "1000", OWN_DEFRAG),
    inert("activerehashing", BIT, "yes", Home::Inert("tables grow in small steps by themselves"))
        .does("yes"),
    inert("jemalloc-bg-thread", BIT, "yes", PROCESS),
    inert("stream-node-max-bytes", BYTES, "4096", OWN_NODES),

    // Process.
    fixed("syslog-enabled", BIT, "no",
        Home::Inert("there is no syslog: messages go to standard error or to logfile alone")),
    fixed("enable-protected-configs", Shape::Choice(&["no", "yes", "local"]), "no",
        Home::Inert("dir and dbfilename cannot change at run time")),
    fixed("enable-module-command", Shape::Choice(&["no", "yes", "local"]), "no",
        Home::Inert("there are no modules")),
    inert("bind-source-addr", TEXT, "",
        Home::Inert("MIGRATE connects from whichever address the system chooses")),
    fixed("io-threads", int(1, 128), "1", Home::Inert("worker threads are set by 'threads'")),
    fixed("io-threads-do-reads", BIT, "no", Home::Inert("worker threads are set by 'threads'")),
    inert("dynamic-hz", BIT, "yes", Home::Inert("background work is paced by what there is to do"))
        .does("yes"),
    inert("shutdown-timeout", COUNT, "10", SHUTDOWN),
    inert("shutdown-on-sigint", SHUTDOWN_FLAGS, "default", SHUTDOWN).does("default"),
    inert("shutdown-on-sigterm", SHUTDOWN_FLAGS, "default", SHUTDOWN).does("default"),
    fixed("always-show-logo", BIT, "no", PROCESS),
    fixed("set-proc-title", BIT, "yes", PROCESS),
    inert("proc-title-template", TEXT, "{title} {listen-addr} {server-mode}", PROCESS),
    fixed("syslog-ident", TEXT, "redis", NO_SYSLOG),
    fixed("syslog-facility", Shape::Choice(&["user", "local0", "local1", "local2", "local3", "local4",
        "local5", "local6",
        "local7"]), "local0", NO_SYSLOG),
    inert("crash-log-enabled", BIT, "yes", PROCESS),
    inert("crash-memcheck-enabled", BIT, "yes", PROCESS),
    fixed("disable-thp", BIT, "yes", NO_HUGE_PAGES).does("yes"),
    inert("oom-score-adj", Shape::Choice(&["no", "yes", "relative", "absolute"]), "no", PROCESS),
    inert("oom-score-adj-values", Shape::List, "0 200 800", PROCESS),
    fixed("bio_cpulist", TEXT, "", PROCESS).alias("bio-cpulist"),
    fixed("aof_rewrite_cpulist", TEXT, "", PROCESS).alias("aof-rewrite-cpulist"),
    inert("ignore-warnings", TEXT, "", PROCESS),

    // Replication.
    inert("tls-replication", BIT, "no", NO_REPLICATION),
    inert("masteruser", TEXT, "", NO_REPLICATION).alias("primaryuser").sensitive(),
    inert("masterauth", TEXT, "", NO_REPLICATION).alias("primaryauth").sensitive(),
    inert("replica-serve-stale-data", BIT, "yes", NO_REPLICATION).alias("slave-serve-stale-data"),
    inert("replica-read-only", BIT, "yes", NO_REPLICATION).alias("slave-read-only"),
    inert("replica-priority", COUNT, "100", NO_REPLICATION).alias("slave-priority"),
    inert("replica-announced", BIT, "yes", NO_REPLICATION),
    inert("replica-announce-ip", TEXT, "", NO_REPLICATION).alias("slave-announce-ip"),
    inert("replica-announce-port", PORT, "0", NO_REPLICATION).alias("slave-announce-port"),
    inert("replica-ignore-maxmemory", BIT, "yes", NO_REPLICATION).alias("slave-ignore-maxmemory"),
    inert("replica-ignore-disk-write-errors", BIT, "no", NO_REPLICATION),
    inert("repl-diskless-sync", BIT, "yes", NO_REPLICATION),
    inert("repl-diskless-sync-delay", COUNT, "5", NO_REPLICATION),
    inert("repl-diskless-sync-max-replicas", COUNT, "0", NO_REPLICATION),
    inert("repl-diskless-load", Shape::Choice(&["disabled", "on-empty-db", "swapdb"]),
        "disabled", NO_REPLICATION),
    inert("repl-ping-replica-period", POSITIVE, "10", NO_REPLICATION).alias("repl-ping-slave-period"),
    inert("repl-timeout", POSITIVE, "60", NO_REPLICATION),
    inert("repl-disable-tcp-nodelay", BIT, "no", NO_REPLICATION),
    inert("repl-backlog-size", memory(1, BYTES_MAX), "1048576", NO_REPLICATION),
    inert("repl-backlog-ttl", WIDE, "3600", NO_REPLICATION),
    inert("min-replicas-max-lag", COUNT, "10", NO_REPLICATION).alias("min-slaves-max-lag"),
    inert("propagation-error-behavior", Shape::Choice(&["ignore", "panic", "panic-on-replicas"]),
        "ignore", NO_REPLICATION),

    // Cluster.
    inert("tls-cluster", BIT, "no", NO_CLUSTER),
    fixed("cluster-config-file", TEXT, "nodes.conf", NO_CLUSTER),
    fixed("cluster-port", PORT, "0", NO_CLUSTER),
    inert("cluster-node-timeout", WIDE, "15000", NO_CLUSTER),
    inert("cluster-migration-barrier", COUNT, "1", NO_CLUSTER),
    inert("cluster-replica-validity-factor", COUNT, "10", NO_CLUSTER).alias("cluster-slave-validity-factor"),
    inert("cluster-replica-no-failover", BIT, "no", NO_CLUSTER).alias("cluster-slave-no-failover"),
    inert("cluster-require-full-coverage", BIT, "yes", NO_CLUSTER),
    inert("cluster-allow-replica-migration", BIT, "yes", NO_CLUSTER),
    inert("cluster-allow-reads-when-down", BIT, "no", NO_CLUSTER),
    inert("cluster-allow-pubsubshard-when-down", BIT, "yes", NO_CLUSTER),
    inert("cluster-link-sendbuf-limit", BYTES, "0", NO_CLUSTER),
    inert("cluster-announce-ip", TEXT, "", NO_CLUSTER),
    inert("cluster-announce-hostname", TEXT, "", NO_CLUSTER),
    inert("cluster-announce-port", PORT, "0", NO_CLUSTER),
    inert("cluster-announce-bus-port", PORT, "0", NO_CLUSTER),
    inert("cluster-announce-tls-port", PORT, "0", NO_CLUSTER),
    inert("cluster-preferred-endpoint-type", Shape::Choice(&["ip", "hostname", "unknown-endpoint"]),
        "ip", NO_CLUSTER),

    // TLS.
    inert("tls-client-cert-file", TEXT, "", NO_TLS_CLIENT),
    inert("tls-client-key-file", TEXT, "", NO_TLS_CLIENT),
    inert("tls-client-key-file-pass", TEXT, "", NO_TLS_CLIENT).sensitive(),
    inert("tls-dh-params-file", TEXT, "", Home::Inert("keys are agreed upon over elliptic curves")),
];
