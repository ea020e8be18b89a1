//! The directives that Tarn implements: name, what it takes, default, the field it sets, and a sentence about
//! it.

use super::directive::{BYTES_MAX, Directive, Home, INT_MAX, int, memory};
use super::kinds::{
    AclPubsubDefault, AppendFsync, AuthClients, CertificateUser, CheckpointFormat, CheckpointMode,
    CheckpointPace, ClientClass, DebugAccess, Encryption, LogCompaction, LogCompression, LogLevel,
    MaxmemoryPolicy, MetricsAuth, RdbVersion, SqlTls, Stored, Supervised,
};
use super::settings::{Config, DATABASES_MAX};
use super::shape::Shape;

/// The home of a directive whose value is one field that implements [`Stored`].
macro_rules! field {
    ($($field:ident).+) => {
        Home::Field {
            load: |config| config.$($field).+.to_value(),
            store: |config, value, phase| config.$($field).+.store(value, phase),
        }
    };
}

const CHECKPOINT_MODES: Shape =
    Shape::RenamedChoice { names: CheckpointMode::NAMES, former: CheckpointMode::FORMER_NAMES };
const EXPIRES_ALL: &str = "every turn of the background work deletes all keys that are due";
const LIST_NODES: &str = "the nodes of lists have a size of their own, and are never compressed";
const NO_MORE_DATABASES: &str = "there are 256 databases at most; SELECT of others is refused";
const NO_OTHER_CLASSES: &str = "there are no replicas yet";

/// The limits of the class that no client is of, if they were set.
fn unheeded_limits(config: &Config) -> Option<String> {
    let (limits, defaults) =
        (config.client_output_buffer_limit, Config::default().client_output_buffer_limit);
    let class = ClientClass::Replica;
    (limits.of(class) != defaults.of(class)).then(|| limits.words_of(class).join(" "))
}

/// The number of databases, if there are fewer.
fn unheeded_databases(config: &Config) -> Option<String> {
    (config.databases_setting > DATABASES_MAX).then(|| config.databases_setting.to_string())
}

/// The versions of TLS that are known and not there.
fn unheeded_protocols(config: &Config) -> Option<String> {
    let said = String::from_utf8_lossy(&config.tls.protocols).into_owned();
    let is_old = |word: &&str| ["tlsv1", "tlsv1.1"].contains(&&*word.to_ascii_lowercase());
    let old: Vec<&str> = said.split(' ').filter(is_old).collect();
    (!old.is_empty()).then(|| old.join(" "))
}

#[rustfmt::skip]
pub(super) static IMPLEMENTED: &[Directive] = &[
    // Network.
    Directive::run_time("bind", Shape::List, "127.0.0.1 -::1", field!(bind),
        "addresses to listen on; '-' before one means that this machine may lack it"),
    Directive::run_time("port", int(0, 65535), "6379", field!(port), "TCP port to listen on; 0 for none"),
    Directive::run_time("protected-mode", Shape::Bool, "yes", field!(protected_mode),
        "without a password, answer only clients on this machine"),
    Directive::at_start("tcp-backlog", int(0, INT_MAX), "511", field!(tcp_backlog),
        "connections that may wait to be accepted"),
    Directive::at_start("unixsocket", Shape::Text, "", field!(unixsocket),
        "path of a Unix socket to listen on as well"),
    Directive::at_start("unixsocketperm", Shape::Octal, "0", field!(unixsocket_mode),
        "permissions of the Unix socket, in octal; 0 leaves them to the umask"),
    Directive::run_time("timeout", int(0, INT_MAX), "0", field!(timeout_s),
        "disconnect a client idle for so many seconds; 0 never"),
    Directive::run_time("tcp-keepalive", int(0, INT_MAX), "300", field!(tcp_keepalive_s),
        "seconds between probes of an idle connection; 0 for none"),
    Directive::run_time("auth-timeout", int(1, 3600), "60", field!(auth_timeout_s),
        "seconds in which a client has to say the password, if there is one, or to begin at 'sql-port'"),
    Directive::run_time("maxclients", int(1, u32::MAX as i64), "10000", field!(maxclients),
        "clients connected at the same time"),
    Directive::run_time("metrics-port", int(0, 65535), "0", field!(metrics_port),
        "TCP port for Prometheus: http://HOST:PORT/metrics; 0 for none"),
    Directive::run_time("metrics-bind", Shape::List, "", field!(metrics_bind),
        "addresses to listen on at 'metrics-port'; empty for those of 'bind'"),
    Directive::run_time("metrics-auth", Shape::Choice(MetricsAuth::NAMES), "remote", field!(metrics_auth),
        "who has to give a user that may run INFO, and its password, by HTTP's basic scheme, at \
         'metrics-port', unless the user default may run it and needs no password: those that are not on \
         this machine, all, or none"),
    Directive::run_time("sql-port", int(0, 65535), "5433", field!(sql_port),
        "TCP port for SQL by clients of PostgreSQL's protocol; 0 for none: the commands SQL and FT.* need \
         none"),
    Directive::run_time("sql-bind", Shape::List, "", field!(sql_bind),
        "addresses to listen on at 'sql-port'; empty for those of 'bind'"),
    Directive::run_time("sql-max-clients", int(1, 100_000), "100", field!(sql_max_clients),
        "clients of PostgreSQL's protocol connected at the same time"),
    Directive::at_start("sql-tls", Shape::Choice(SqlTls::NAMES), "optional", field!(sql_tls),
        "whether connections at 'sql-port' are encrypted for those who ask, or all must be"),
    Directive::run_time("sql-tls-auth-clients", Shape::Choice(AuthClients::NAMES), "no",
        field!(tls.sql_auth_clients),
        "whether clients at 'sql-port' must encrypt and show a certificate, may show one, or are asked for \
         none"),
    Directive::run_time("metrics-tls", Shape::Bool, "no", field!(tls.metrics),
        "whether 'metrics-port' speaks HTTPS, and no HTTP"),
    Directive::run_time("metrics-tls-auth-clients", Shape::Choice(AuthClients::NAMES), "no",
        field!(tls.metrics_auth_clients),
        "whether clients at 'metrics-port' must show a certificate, may, or are asked for none"),
    Directive::run_time("tls-port", int(0, 65535), "0", field!(tls.port),
        "TCP port to listen on for the Redis protocol over TLS; 0 for none"),
    Directive::run_time("tls-cert-file", Shape::Text, "", field!(tls.cert_file),
        "certificate of the server, as PEM, with those that it was signed with, below dir if relative; it is \
         read again when it changes; empty for none"),
    Directive::run_time("tls-key-file", Shape::Text, "", field!(tls.key_file),
        "key, as PEM, of the certificate of 'tls-cert-file'"),
    Directive::run_time("tls-key-file-pass", Shape::Text, "", field!(tls.key_file_pass),
        "passphrase of 'tls-key-file', if it has one; a key in PKCS#8, as 'openssl pkcs8 -topk8' writes it")
        .sensitive(),
    Directive::run_time("tls-ca-cert-file", Shape::Text, "", field!(tls.ca_cert_file),
        "certificates, as PEM, of the authorities that sign those of clients"),
    Directive::run_time("tls-ca-cert-dir", Shape::Text, "", field!(tls.ca_cert_dir),
        "directory of files with such certificates"),
    Directive::run_time("tls-crl-file", Shape::Text, "", field!(tls.crl_file),
        "lists of revoked certificates, as PEM, of the authorities that sign those of clients; with it, a \
         client is refused unless the list of who signed its certificate is there and does not name it"),
    Directive::run_time("tls-auth-clients", Shape::Choice(AuthClients::NAMES), "yes",
        field!(tls.auth_clients),
        "whether clients at 'tls-port' must show a certificate, may, or are asked for none"),
    Directive::run_time("tls-auth-clients-user", Shape::Choice(CertificateUser::NAMES), "off",
        field!(tls.auth_clients_user),
        "the part of a client's certificate at 'tls-port' that names the user whom it logs in as, without \
         AUTH: the common name, the first URI that names one, or none"),
    Directive::run_time("tls-protocols", Shape::Text, "", field!(tls.protocols),
        "versions of TLS, of TLSv1.2 and TLSv1.3; empty for both")
        .partly(unheeded_protocols, "versions before TLSv1.2 are not safe, and not there"),
    Directive::run_time("tls-ciphers", Shape::Text, "", field!(tls.ciphers),
        "suites of TLS 1.2, as a list of OpenSSL, of ECDHE-ECDSA and ECDHE-RSA, each with AES256-GCM-SHA384, \
         AES128-GCM-SHA256 and CHACHA20-POLY1305; words for others mean nothing; empty for all"),
    Directive::run_time("tls-ciphersuites", Shape::Text, "", field!(tls.ciphersuites),
        "suites of TLS 1.3, parted by colons, of TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256 and \
         TLS_CHACHA20_POLY1305_SHA256; empty for all"),
    Directive::run_time("tls-prefer-server-ciphers", Shape::Bool, "no", field!(tls.prefer_server_ciphers),
        "whether the server's order of suites counts, and not the client's"),
    Directive::run_time("tls-session-caching", Shape::Bool, "yes", field!(tls.session_caching),
        "whether clients that are asked for no certificate may resume their sessions"),
    Directive::run_time("tls-session-cache-size", int(0, i64::MAX), "20480", field!(tls.session_cache_size),
        "sessions that are kept for that; 0 for 131072, which are the most"),
    Directive::run_time("tls-session-cache-timeout", int(0, i64::MAX), "300",
        field!(tls.session_cache_timeout_s), "seconds for which they are"),
    Directive::run_time("tls-required", Shape::Choice(Encryption::NAMES), "no", field!(tls.required),
        "whose connections are refused at every TCP port unless they are encrypted: nobody's, those of \
         clients that are not on this machine, or all"),
    Directive::run_time("proxy-protocol-from", Shape::List, "", field!(tls.proxies),
        "addresses and networks of proxies, whose connections have to begin with a header of the PROXY \
         protocol, version 2, at every TCP port; the client that it names counts, and never as one on this \
         machine"),
    Directive::run_time("trust-local-clients", Shape::Bool, "yes", field!(tls.trust_local_clients),
        "whether clients with a loopback address are on this machine, for 'protected-mode', \
         'enable-debug-command', 'metrics-auth' and 'tls-required'; with no, only those of the Unix \
         socket are"),
    Directive::at_start("analytics-threads", int(0, 64), "0", field!(analytics_threads_setting),
        "threads that run queries, at a lower priority than those that serve clients; 0 for one per core, at \
         most 8"),
    Directive::at_start("analytics-max-memory", memory(1 << 20, BYTES_MAX), "268435456",
        field!(analytics_max_memory_bytes),
        "memory of all queries for sorting, grouping and joining: one that needs more ends with an error; \
         and of old versions kept for queries: past it the oldest is cancelled"),
    Directive::at_start("sql-export-dir", Shape::Text, "", field!(sql_export_dir),
        "existing directory, below dir if relative, into which SQL's COPY … TO writes files; empty for none")
        .protected(),
    Directive::at_start("threads", int(0, 1024), "0", field!(threads_setting),
        "worker threads; 0 for one per core"),
    Directive::at_start("server_cpulist", Shape::Text, "", field!(server_cores),
        "cores of the threads that serve clients, as in 0,2-5,8-15:2; empty for all").alias("server-cpulist"),
    Directive::at_start("bgsave_cpulist", Shape::Text, "", field!(checkpoint_cores),
        "cores of what takes checkpoints while clients are served; empty for all").alias("bgsave-cpulist"),

    // Process.
    Directive::run_time("requirepass", Shape::Text, "", field!(requirepass),
        "password that clients must give; on the command line others may see it for a moment, in a file not")
        .sensitive(),
    Directive::at_start("requirepass-file", Shape::Text, "", field!(requirepass_file),
        "file, below dir if relative, whose first line is the password, where 'requirepass' says none; it is \
         read at the start"),
    Directive::at_start("aclfile", Shape::Text, "", field!(aclfile),
        "file of users, below dir if relative, which ACL LOAD reads and ACL SAVE writes; lines 'user' are \
         refused beside it"),
    Directive::run_time("acl-pubsub-default", Shape::Choice(AclPubsubDefault::NAMES), "resetchannels",
        field!(acl.pubsub_default), "channels that new users may read and write: none, or all"),
    Directive::run_time("acllog-max-len", int(0, i64::MAX), "128", field!(acl.log_max_len),
        "entries of ACL LOG"),
    Directive::at_start("daemonize", Shape::Bool, "no", field!(daemonize),
        "go to the background as soon as clients can connect; not under a supervisor. Messages that \
         'logfile' takes nowhere are lost"),
    Directive::at_start("supervised", Shape::Choice(Supervised::NAMES), "no", field!(supervised),
        "tell systemd (Type=notify) or Upstart (expect stop) when the server is ready, how far it is with \
         loading, and that it stops; auto: whichever has started it"),
    Directive::run_time("loglevel", Shape::Choice(LogLevel::NAMES), "notice", field!(loglevel),
        "least important messages to log"),
    Directive::at_start("logfile", Shape::Text, "", field!(logfile),
        "file for messages; empty for standard error"),
    Directive::at_start("pidfile", Shape::Text, "", field!(pidfile),
        "file that holds the process id while the server runs"),
    Directive::at_start("databases", int(1, INT_MAX), "16", Home::Field {
        load: |config| config.databases_setting.to_value(),
        store: |config, value, phase| {
            config.databases_setting.store(value, phase)?;
            config.databases = config.databases_setting.min(DATABASES_MAX);
            Ok(())
        },
    }, "number of logical databases").partly(unheeded_databases, NO_MORE_DATABASES),
    Directive::run_time("hz", int(0, INT_MAX), "10", Home::Field {
        load: |config| config.hz.to_value(),
        store: |config, value, phase| {
            config.hz.store(value, phase)?;
            config.hz = config.hz.clamp(1, 500);
            Ok(())
        },
    }, "turns a second of the background work that deletes expired keys, 1 to 500"),
    Directive::run_time("active-expire-effort", int(1, 10), "1", field!(active_expire_effort),
        "how much time active expiry may take").without_effect(EXPIRES_ALL).does("1"),
    Directive::at_start("enable-debug-command", Shape::Choice(DebugAccess::NAMES), "no",
        field!(enable_debug_command),
        "who may use DEBUG: nobody, everybody, or clients on this machine"),

    // Durability.
    Directive::at_start("dir", Shape::Text, "tarn-data", field!(dir), "directory of the data").protected(),
    Directive::run_time("appendonly", Shape::Bool, "yes", field!(appendonly),
        "whether writes are logged, to survive a restart"),
    Directive::run_time("appendfsync", Shape::Choice(AppendFsync::NAMES), "everysec", field!(appendfsync),
        "flush the log every second, always before replying, or when the system decides"),
    Directive::run_time("save", Shape::List, "", field!(save),
        "checkpoint after so many seconds with so many changes, and at the end; \"\" for none. Without a \
         word about it: none with a log, and with 'appendonly no' as Redis 3600 1 300 100 60 10000"),
    Directive::run_time("stop-writes-on-bgsave-error", Shape::Bool, "yes",
        field!(stop_writes_on_bgsave_error),
        "refuse writes after a checkpoint that a rule of 'save' or BGSAVE asked for has failed, until one is \
         taken; without rules nothing is refused"),
    Directive::run_time("checkpoint-mode", CHECKPOINT_MODES, "full", field!(checkpoint_mode),
        "how a checkpoint gets the data: full reads all, incremental what has changed since the last, and \
         fork has a child process write all; full was called piggyback, and incremental hourglass")
        .alias("snapshot-algorithm"),
    Directive::run_time("checkpoint-format", Shape::Choice(CheckpointFormat::NAMES), "tarn",
        field!(checkpoint_format),
        "what SAVE, BGSAVE and rules write: a checkpoint; or the RDB file 'dbfilename', whatever the \
         mode, which a start with 'appendonly no' loads where there is no checkpoint"),
    Directive::at_start("dbfilename", Shape::Text, "dump.rdb", field!(dbfilename),
        "name of the RDB file in dir: checkpoint-format rdb writes it, and a start that finds neither a \
         checkpoint nor a log makes a checkpoint of it").protected(),
    Directive::run_time("rdbcompression", Shape::Bool, "yes", field!(rdbcompression),
        "whether strings in RDB files are compressed by LZF, where that makes them shorter"),
    Directive::run_time("rdb-version", Shape::Choice(RdbVersion::NAMES), "9", field!(rdb_version),
        "version of RDB files that are written, at least 10 if there are functions, and 12 if fields of \
         hashes have times: Redis 5 and later loads 9, Redis 7.0 and later 10, Redis 7.2 and Valkey 11, \
         Redis 7.4 and later 12, Valkey 9 and later 80; 10 loses less of streams, and later ones least"),
    Directive::run_time("checkpoint-pace", Shape::Choice(CheckpointPace::NAMES), "quiet",
        field!(checkpoint_pace),
        "whether checkpoints rest while clients wait (background-latency-target-us), or work as fast as they \
         can"),
    Directive::run_time("background-latency-target-us", int(0, 60_000_000), "500",
        field!(background_latency_target_us),
        "microseconds that requests may wait for a processor or a lock; the more often they wait longer, the \
         more checkpoints at the quiet pace, building an index, and compaction of a log that is not too \
         long rest, and scans of queries are not divided among threads; 0: as if none waited"),
    Directive::run_time("serve-while-loading", Shape::Bool, "no", field!(serve_while_loading),
        "whether a start answers reads of keys that are loaded already; with a log, each may be older than \
         what was acknowledged before the stop, and what was written together may be seen in part"),
    Directive::run_time("view-memory-limit", memory(0, BYTES_MAX), "0", field!(view_memory_limit_bytes),
        "old versions kept for views past which the oldest is cancelled; 0 for none"),
    Directive::at_start("log-dir", Shape::Paths, "", field!(log_dir_setting),
        "directories of the log, one per device; empty for DIR/log"),
    Directive::at_start("log-flushes-in-flight", int(1, 64), "4", field!(log_flushes_in_flight),
        "flushes of one log directory that may overlap"),
    Directive::at_start("log-backlog-limit", memory(1 << 10, BYTES_MAX), "67108864",
        field!(log_backlog_limit_bytes),
        "records that wait to be written from which on commands that write wait"),
    Directive::run_time("log-compaction", Shape::Choice(LogCompaction::NAMES), "vtc", field!(log_compaction),
        "how the log is kept short: copy valid records; never; or take a checkpoint, which a start needs \
         from then on, and drop what it has"),
    Directive::run_time("log-compaction-bytes-per-second", memory(0, BYTES_MAX), "134217728",
        field!(log_compaction_bytes_per_second),
        "bytes that compaction reads and writes in a second at most, more while the log is longer than \
         log-compaction-log-percentage says; 0 for no limit"),
    Directive::run_time("log-compaction-file-percentage", int(1, 100), "75",
        field!(log_compaction_file_percentage),
        "share of replaced records from which a log file is compacted"),
    Directive::run_time("log-compaction-log-percentage", int(110, 10_000), "170",
        field!(log_compaction_log_percentage),
        "length of the log, against what is needed of it, from which files are compacted"),
    Directive::run_time("log-compaction-min-size", memory(0, BYTES_MAX), "67108864",
        field!(log_compaction_min_bytes),
        "length up to which the log is not compacted unasked. Of removals and of changes within lists and \
         strings nobody knows what they would give back; so whatever the percentages say, all full files \
         are compacted when the log is twice as long as after the last time, and as this"),
    Directive::run_time("log-compression", Shape::Choice(LogCompression::NAMES), "no",
        field!(log_compression),
        "lz4: new blocks of the log, and those that compaction writes, are compressed where that makes them \
         shorter; blocks of both kinds are read, whatever this says. Programs from before this directive \
         refuse a log with compressed blocks"),
    Directive::run_time("log-scrub-bytes-per-second", memory(0, BYTES_MAX), "1048576",
        field!(log_scrub_bytes_per_second),
        "bytes of full log files and of the checkpoint that are read again from the device in a second, to \
         find damage while what was there is in memory; 0 for none"),
    Directive::at_start("log-file-size", memory(16 << 10, BYTES_MAX), "67108864", field!(log_file_bytes),
        "length at which a log file is left for the next one"),
    Directive::at_start("backup-dir", Shape::Paths, "", field!(backup_dir_setting),
        "directories, below dir if relative, below which BACKUP may write beside dir itself").protected(),
    Directive::at_start("backup-max", int(0, INT_MAX), "32", field!(backup_max),
        "backups that may be below dir, and below each directory of 'backup-dir', before BACKUP refuses to \
         add one; 0 for any number").protected(),

    // Limits.
    Directive::run_time("client-output-buffer-limit", Shape::List,
        "normal 1073741824 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
            field!(client_output_buffer_limit),
        "CLASS HARD SOFT SECONDS: unread output that disconnects a client, at once or after seconds; a \
         command whose reply alone is longer than HARD of 'normal' is refused, unless it can wait")
            .partly(unheeded_limits, NO_OTHER_CLASSES),
    Directive::run_time("client-query-buffer-limit", memory(1 << 20, BYTES_MAX), "1073741824",
        field!(client_query_buffer_limit_bytes),
        "unparsed input of one client that connects from now on"),
    Directive::run_time("proto-max-bulk-len", memory(1 << 20, BYTES_MAX), "536870912",
        field!(proto_max_bulk_len_bytes),
        "size of one argument, for clients that connect from now on, and of one string"),

    // Observation.
    Directive::run_time("slowlog-log-slower-than", int(-1, i64::MAX), "10000",
        field!(slowlog_log_slower_than_us),
        "microseconds from which a command is slow; -1 for never, 0 for always")
        .alias("commandlog-execution-slower-than"),
    Directive::run_time("busy-reply-threshold", int(0, i64::MAX), "5000", field!(busy_reply_threshold_ms),
        "milliseconds that a script runs before others are told BUSY and it can be killed; 0 for never")
        .alias("lua-time-limit"),
    Directive::run_time("slowlog-max-len", int(0, i64::MAX), "128", field!(slowlog_max_len),
        "entries of the slow log").alias("commandlog-slow-execution-max-len"),
    Directive::run_time("commandlog-request-larger-than", int(-1, i64::MAX), "1048576",
        field!(commandlog_request_larger_than),
        "bytes from which a request is noted in COMMANDLOG; -1 for never, 0 for always"),
    Directive::run_time("commandlog-large-request-max-len", int(0, i64::MAX), "128",
        field!(commandlog_large_request_max_len), "large requests that are kept"),
    Directive::run_time("commandlog-reply-larger-than", int(-1, i64::MAX), "1048576",
        field!(commandlog_reply_larger_than),
        "bytes from which a reply is noted in COMMANDLOG; -1 for never, 0 for always"),
    Directive::run_time("commandlog-large-reply-max-len", int(0, i64::MAX), "128",
        field!(commandlog_large_reply_max_len), "requests with large replies that are kept"),
    Directive::run_time("latency-tracking", Shape::Bool, "yes", field!(latency_tracking),
        "keep a histogram of each command's latency, for INFO latencystats"),
    Directive::run_time("latency-tracking-info-percentiles", Shape::List, "50 99 99.9",
        field!(latency_tracking_info_percentiles),
        "percentiles that INFO latencystats shows"),
    Directive::run_time("latency-monitor-threshold", int(0, i64::MAX), "0",
        field!(latency_monitor_threshold_ms),
        "milliseconds of one cause from which a wait is an event for LATENCY; 0 for none"),
    Directive::run_time("tracking-table-max-keys", int(0, i64::MAX), "1000000",
        field!(tracking_table_max_keys),
        "keys tracked for client-side caching at most, long ones counted more than once; 0: no limit"),
    Directive::run_time("notify-keyspace-events", Shape::Text, "", field!(notify_keyspace_events),
        "keyspace events that are published: K and E say in which channels, g$lshzxetdmn which classes; A \
         stands for g$lshzxetd"),

    // Memory.
    Directive::run_time("maxmemory", memory(0, BYTES_MAX), "0", field!(memory.maxmemory_bytes),
        "memory in use past which 'maxmemory-policy' says what becomes of keys and of writes; not counted \
         are the log's buffers, and what is kept for views; 0 for no limit"),
    Directive::run_time("maxmemory-policy", Shape::Choice(MaxmemoryPolicy::NAMES), "noeviction",
        field!(memory.maxmemory_policy),
        "which keys are evicted past 'maxmemory': of all, or of those that expire (volatile), those that \
         have not been used (lru) or changed (lrm) for the longest time, that are used least often (lfu), \
         that expire first (ttl), or any; with noeviction none: commands that may need more memory are \
         refused"),
    Directive::run_time("maxmemory-samples", int(1, INT_MAX), "5", field!(memory.maxmemory_samples),
        "keys that are looked at for each that is evicted"),
    Directive::run_time("maxmemory-eviction-tenacity", int(0, 100), "10",
        field!(memory.maxmemory_eviction_tenacity),
        "how long a command that writes past 'maxmemory' evicts before it runs, for what its worker has \
         written: 10 for half a millisecond at most, 0 for one key, 100 for as long as it takes"),
    Directive::run_time("maxmemory-clients", Shape::MemoryOrPercent, "0", field!(memory.maxmemory_clients),
        "memory of the buffers of all clients, or percent of 'maxmemory', past which those with the largest \
         are disconnected, but for those with CLIENT NO-EVICT; 0 for no limit"),
    Directive::run_time("lfu-log-factor", int(0, INT_MAX), "10", field!(memory.lfu_log_factor),
        "how slowly the counter of a key's uses grows under an lfu policy; 0: by one at each use"),
    Directive::run_time("lfu-decay-time", int(0, INT_MAX), "1", field!(memory.lfu_decay_time_minutes),
        "minutes in which that counter shrinks by one; 0: it does not"),
    Directive::run_time("index-max-memory", memory(0, BYTES_MAX), "0", field!(memory.index_max_memory_bytes),
        "memory of all indexes of SQL, about, past which the largest is given up: queries read without it, \
         until there is room for it again; 0 for no limit"),
    Directive::run_time("activedefrag", Shape::Bool, "no", field!(memory.activedefrag),
        "whether small entries are moved together, beside clients, where pages of the allocator are partly \
         empty, so that the system gets the empty ones; MEMORY PURGE asks for that once"),
    Directive::run_time("active-defrag-ignore-bytes", memory(1, BYTES_MAX), "104857600",
        field!(memory.active_defrag_ignore_bytes),
        "fewer unused bytes of such pages are left as they are"),
    Directive::run_time("active-defrag-threshold-lower", int(0, 1000), "10",
        field!(memory.active_defrag_threshold_lower),
        "those unused bytes in percent of the memory in use, from which on entries are moved"),
    Directive::run_time("active-defrag-threshold-upper", int(0, 1000), "100",
        field!(memory.active_defrag_threshold_upper),
        "those from which on that takes the most time"),
    Directive::run_time("active-defrag-cycle-min", int(1, 99), "1", field!(memory.active_defrag_cycle_min),
        "percent of the time of one thread that it takes at the lower threshold"),
    Directive::run_time("active-defrag-cycle-max", int(1, 99), "25", field!(memory.active_defrag_cycle_max),
        "percent of the time of one thread that it takes at the upper threshold, and for MEMORY PURGE"),

    // Small collections.
    Directive::run_time("hash-max-listpack-entries", int(0, i64::MAX), "512",
        field!(hash_max_listpack_entries),
        "fields of a hash kept in one allocation").alias("hash-max-ziplist-entries"),
    Directive::run_time("hash-max-listpack-value", memory(0, i64::MAX), "64",
        field!(hash_max_listpack_value_bytes),
        "bytes of a field or value of such a hash").alias("hash-max-ziplist-value"),
    Directive::run_time("list-max-listpack-size", int(i32::MIN as i64, INT_MAX), "-2",
        field!(list_max_listpack_size),
        "elements of a list node, or its size: -1 to -5 for 4 to 64 KB").alias("list-max-ziplist-size")
            .without_effect(LIST_NODES),
    Directive::run_time("list-compress-depth", int(0, INT_MAX), "0", field!(list_compress_depth),
        "list nodes at each end that stay uncompressed; 0 for no compression").without_effect(LIST_NODES),
    Directive::run_time("set-max-intset-entries", int(0, i64::MAX), "512", field!(set_max_intset_entries),
        "members of a set of integers kept as an array"),
    Directive::run_time("zset-max-listpack-entries", int(0, i64::MAX), "128",
        field!(zset_max_listpack_entries),
        "members of a sorted set kept in one allocation").alias("zset-max-ziplist-entries"),
    Directive::run_time("zset-max-listpack-value", memory(0, i64::MAX), "64",
        field!(zset_max_listpack_value_bytes),
        "bytes of a member of such a sorted set").alias("zset-max-ziplist-value"),
    Directive::run_time("hll-sparse-max-bytes", memory(0, i64::MAX), "3000", field!(hll_sparse_max_bytes),
        "bytes of a HyperLogLog that has a form of its own while it is sparse"),
    Directive::run_time("stream-idmp-duration", int(1, 86_400), "100", field!(stream_idmp_duration_s),
        "seconds for which a stream remembers messages that XADD adds with IDMP or IDMPAUTO, until XCFGSET \
         says otherwise"),
    Directive::run_time("stream-idmp-maxsize", int(1, 10_000), "100", field!(stream_idmp_messages_max),
        "such messages of one producer that a stream remembers at most, until XCFGSET says otherwise"),
    Directive::run_time("stream-node-max-entries", int(0, i64::MAX), "100", field!(stream_node_max_entries),
        "entries of a stream that '~' removes together, as Redis has so many in a node; 0: 100"),
];
