//! The configuration as typed fields, one per directive that Tarn implements. The defaults come from the
//! table of directives (`directives.rs`), in the words that a file would use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::cores::Cores;
use super::kinds::{
    AclPubsubDefault, AppendFsync, AuthClients, CheckpointFormat, CheckpointMode, CheckpointPace,
    DebugAccess, FileName, LogCompaction, LogCompression, LogLevel, MaxmemoryPolicy, MemoryShare,
    MetricsAuth, OutputBufferLimits, RdbVersion, SaveRules, SqlTls, Supervised, settled,
};
use super::notifications::EventClasses;
use super::shape::Value;
use super::tls::TlsSettings;

/// Where the data is if nobody says otherwise, relative to the working directory.
const DEFAULT_DIR: &str = "tarn-data";

/// Logical databases that the engine can tell apart.
pub(super) const DATABASES_MAX: usize = 256;

/// Settings of users beside their rules.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AclSettings {
    /// Entries of `ACL LOG`.
    pub log_max_len: usize,
    /// The channels that new users may read and write.
    pub pubsub_default: AclPubsubDefault,
}

/// Lines about users and commands, which are known later than the settings are read.
#[derive(Clone, Default, PartialEq)]
pub struct Orders {
    /// The lines that make users, each without the word `user`: a name, and rules.
    pub users: Vec<Vec<Vec<u8>>>,
    /// The lines that give commands other names, in order: the old name and the new one.
    pub renames: Vec<[Vec<u8>; 2]>,
}

/// Limits of memory, the keys that are evicted past them, and the moving together of what is left.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemorySettings {
    /// Bytes of memory in use from which on keys are evicted or writes refused; 0 for no limit.
    pub maxmemory_bytes: u64,
    /// The keys that are evicted, and their order.
    pub maxmemory_policy: MaxmemoryPolicy,
    /// Keys that are looked at for each that is evicted.
    pub maxmemory_samples: usize,
    /// The time for which a command may evict before it runs: 0 the shortest, 100 as long as it takes.
    pub maxmemory_eviction_tenacity: u32,
    /// Memory of the buffers of all clients past which those with the largest are disconnected.
    pub maxmemory_clients: MemoryShare,
    /// The greater, the slower the counter of a key's uses grows.
    pub lfu_log_factor: u32,
    /// Minutes in which it shrinks by one; 0: it does not.
    pub lfu_decay_time_minutes: u32,
    /// Bytes of memory that all indexes of SQL may take; 0 for no limit.
    pub index_max_memory_bytes: usize,
    /// Whether entries are moved together where pages of the allocator are partly empty.
    pub activedefrag: bool,
    /// Fewer bytes of such pages are left as they are.
    pub active_defrag_ignore_bytes: u64,
    /// Those bytes in percent of what is in use, from which on entries are moved.
    pub active_defrag_threshold_lower: u32,
    /// Those from which on that takes the most time.
    pub active_defrag_threshold_upper: u32,
    /// The least percent of the time that it takes.
    pub active_defrag_cycle_min: u32,
    /// The most.
    pub active_defrag_cycle_max: u32,
}

/// Everything that can be configured. `Config::default()` is what a server without file and flags has.
#[derive(Clone, PartialEq)]
pub struct Config {
    /// Addresses to listen on; a leading `-` means that it may be missing on this machine, `*` any IPv4,
    /// `::*` any IPv6 address.
    pub bind: Vec<String>,
    /// TCP port; 0 means no TCP at all.
    pub port: u16,
    /// Refuse strangers while there is no password.
    pub protected_mode: bool,
    /// Connections that may wait to be accepted.
    pub tcp_backlog: u32,
    /// Path of a Unix socket to listen on as well; empty for none.
    pub unixsocket: Vec<u8>,
    /// Permissions of the Unix socket; 0 leaves them to the umask.
    pub unixsocket_mode: u32,
    /// Seconds after which an idle client is disconnected; 0 for never.
    pub timeout_s: u64,
    /// Seconds that a client may take to say the password.
    pub auth_timeout_s: u64,
    /// Seconds between probes of an idle TCP connection; 0 for none.
    pub tcp_keepalive_s: u32,
    /// Clients at the same time.
    pub maxclients: usize,
    /// TCP port that answers `/metrics` over HTTP; 0 for none.
    pub metrics_port: u16,
    /// Addresses to listen on at `metrics_port`; none: those of `bind`.
    pub metrics_bind: Vec<String>,
    /// Whom metrics ask for the password, if there is one.
    pub metrics_auth: MetricsAuth,
    /// TCP port for clients of PostgreSQL's protocol; 0 for none.
    pub sql_port: u16,
    /// Addresses to listen on at `sql_port`; none: those of `bind`.
    pub sql_bind: Vec<String>,
    /// Clients of PostgreSQL's protocol at the same time.
    pub sql_max_clients: usize,
    /// Whether their connections must be encrypted.
    pub sql_tls: SqlTls,
    /// Encryption at all ports, and proxies in front of them.
    pub tls: TlsSettings,
    /// Threads that run queries; 0: one for each core.
    pub(super) analytics_threads_setting: usize,
    /// Bytes that all queries may use for sorting, grouping and joining.
    pub analytics_max_memory_bytes: usize,
    /// Where `COPY … TO` writes; empty: nowhere.
    pub sql_export_dir: Vec<u8>,
    /// Worker threads as configured, 0 for one per core; see [`Config::threads`].
    pub(super) threads_setting: usize,
    /// Cores of the threads that serve clients.
    pub server_cores: Cores,
    /// Cores of the threads that take checkpoints, or of the child process.
    pub checkpoint_cores: Cores,
    /// Password that clients must give; empty for none.
    pub requirepass: Vec<u8>,
    /// File whose first line is the password, where `requirepass` says none; empty for none.
    pub requirepass_file: Vec<u8>,
    /// The content of that file.
    pub(super) fetched_password: Vec<u8>,
    /// Whether the server goes to the background, where nobody supervises it.
    pub daemonize: bool,
    /// Who is told that the server is ready.
    pub supervised: Supervised,
    /// The least important messages that are logged.
    pub loglevel: LogLevel,
    /// File for messages; empty for standard error.
    pub logfile: Vec<u8>,
    /// File that holds the process id while the server runs; empty for none.
    pub pidfile: Vec<u8>,
    /// Number of logical databases that there are, at most `DATABASES_MAX`.
    pub databases: usize,
    /// Number of logical databases as configured.
    pub(super) databases_setting: usize,
    /// Turns of the background work a second.
    pub hz: u32,
    /// How much of the time active expiry may take, 1 to 10.
    pub active_expire_effort: u32,
    /// The limits of memory, and what is done past them.
    pub memory: MemorySettings,
    /// Directory of the data, absolute.
    pub dir: PathBuf,
    /// Whether writes are logged.
    pub appendonly: bool,
    /// When the log is flushed.
    pub appendfsync: AppendFsync,
    /// When checkpoints are taken.
    pub save: SaveRules,
    /// Whether writes are refused while checkpoints that rules want fail.
    pub stop_writes_on_bgsave_error: bool,
    /// How a checkpoint gets the store as of one instant.
    pub checkpoint_mode: CheckpointMode,
    /// The format of checkpoints.
    pub checkpoint_format: CheckpointFormat,
    /// Whether strings in RDB files are compressed.
    pub rdbcompression: bool,
    /// The version of RDB files without functions and times of fields; one with functions is at least of
    /// version 10, one with times of 12.
    pub rdb_version: RdbVersion,
    /// The RDB file, in `dir`.
    pub(super) dbfilename: FileName,
    /// How hard checkpoints work.
    pub checkpoint_pace: CheckpointPace,
    /// Microseconds that requests may wait for a processor or a lock before background work rests; 0 for any.
    pub background_latency_target_us: u64,
    /// Whether keys that are loaded already can be read while others are not.
    pub serve_while_loading: bool,
    /// Bytes of old versions kept for views, past which the oldest is cancelled; 0 for no limit.
    pub view_memory_limit_bytes: usize,
    /// Directories of the log as configured; see [`Config::log_dirs`].
    pub(super) log_dir_setting: Vec<PathBuf>,
    /// Flushes of one log directory that may be on their way to the device at once.
    pub log_flushes_in_flight: usize,
    /// Bytes of records that wait to be written from which on commands that write wait, too.
    pub log_backlog_limit_bytes: usize,
    /// How the log is kept short.
    pub log_compaction: LogCompaction,
    /// Bytes that compaction reads and writes in a second at most; 0 for no limit.
    pub log_compaction_bytes_per_second: usize,
    /// Share of replaced records from which a log file is compacted.
    pub log_compaction_file_percentage: u64,
    /// Length of the log, in percent of what is needed of it, from which files are compacted.
    pub log_compaction_log_percentage: u64,
    /// Length up to which the log is not compacted unasked.
    pub log_compaction_min_bytes: usize,
    /// How the blocks of the log are written.
    pub log_compression: LogCompression,
    /// Bytes of the log and the checkpoint that are read again in a second, to find damage; 0 for none.
    pub log_scrub_bytes_per_second: usize,
    /// Length at which a log file is left for the next one.
    pub log_file_bytes: usize,
    /// Directories of backups as configured; see [`Config::backup_dirs`].
    pub(super) backup_dir_setting: Vec<PathBuf>,
    /// Backups that may be below `dir`, or below a directory of `backup-dir`; 0 for any number.
    pub backup_max: usize,
    /// Limits on the unread output of slow clients.
    pub client_output_buffer_limit: OutputBufferLimits,
    /// Bytes of one client's unparsed input.
    pub client_query_buffer_limit_bytes: usize,
    /// Bytes of one argument, and of one string value.
    pub proto_max_bulk_len_bytes: usize,
    /// Commands that take longer, in microseconds, go to the slow log; -1 for none, 0 for all.
    pub slowlog_log_slower_than_us: i64,
    /// Milliseconds that a script runs before others are told; 0 for never.
    pub busy_reply_threshold_ms: u64,
    /// New users, and the log of what was refused.
    pub acl: AclSettings,
    /// File of users; empty for none.
    pub aclfile: Vec<u8>,
    /// Lines that are no settings.
    pub orders: Orders,
    /// Entries of the slow log.
    pub slowlog_max_len: usize,
    /// Bytes from which a request is large; -1 for none, 0 for all.
    pub commandlog_request_larger_than: i64,
    /// Large requests that are kept.
    pub commandlog_large_request_max_len: usize,
    /// Bytes from which a reply is large; -1 for none, 0 for all.
    pub commandlog_reply_larger_than: i64,
    /// Requests with large replies that are kept.
    pub commandlog_large_reply_max_len: usize,
    /// Whether the latency of each command is kept in histograms.
    pub latency_tracking: bool,
    /// The percentiles that `INFO latencystats` prints.
    pub latency_tracking_info_percentiles: Vec<f64>,
    /// Events that take longer, in milliseconds, are kept for `LATENCY`; 0 for none.
    pub latency_monitor_threshold_ms: u64,
    /// The keyspace events that are published.
    pub notify_keyspace_events: EventClasses,
    /// Keys that are tracked for client-side caching at most; 0: no limit.
    pub tracking_table_max_keys: usize,
    /// Fields of a hash that is kept in one allocation.
    pub hash_max_listpack_entries: usize,
    /// Bytes of a field or value of such a hash.
    pub hash_max_listpack_value_bytes: usize,
    /// Elements of a list node, or its bytes: -1 to -5 for 4, 8, 16, 32, 64 KB.
    pub list_max_listpack_size: i32,
    /// List nodes at each end that are not compressed; 0 for no compression.
    pub list_compress_depth: usize,
    /// Members of a set of integers that is kept as a sorted array.
    pub set_max_intset_entries: usize,
    /// Members of a sorted set that is kept in one allocation.
    pub zset_max_listpack_entries: usize,
    /// Bytes of a member of such a sorted set.
    pub zset_max_listpack_value_bytes: usize,
    /// Bytes of a HyperLogLog that is kept in its sparse form.
    pub hll_sparse_max_bytes: u64,
    /// Seconds for which a stream remembers messages of producers, unless `XCFGSET` says otherwise.
    pub stream_idmp_duration_s: u64,
    /// Messages of one producer that it remembers at most.
    pub stream_idmp_messages_max: u64,
    /// Entries of a stream that are removed together where that is enough; 0: 100.
    pub stream_node_max_entries: usize,
    /// Who may use `DEBUG`.
    pub enable_debug_command: DebugAccess,
    /// Values of the Redis directives that Tarn takes without acting on them, by name.
    pub(super) inert: BTreeMap<&'static str, Value>,
}

impl Config {
    /// Worker threads: as configured, or one per core they may run on.
    pub fn threads(&self) -> usize {
        match self.threads_setting {
            0 => self
                .server_cores
                .available()
                .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
                .max(1),
            n => n,
        }
    }

    /// Threads that may serve clients: the workers, and the spare one behind them, which takes new
    /// connections while scripts occupy all of these.
    pub fn serving_threads(&self) -> usize {
        self.threads() + 1
    }

    /// Whether every client of SQL has to encrypt: one that does not could show no certificate.
    pub fn sql_must_encrypt(&self) -> bool {
        self.sql_tls == SqlTls::Required || self.tls.sql_auth_clients == AuthClients::Yes
    }

    /// Threads that run queries: as configured, or for 0 one per core, up to 8.
    pub fn analytics_threads(&self) -> usize {
        match self.analytics_threads_setting {
            0 => std::thread::available_parallelism().map_or(1, usize::from).min(8),
            n => n,
        }
    }

    /// Directories of the log: as configured, relative ones below `dir`, or `<dir>/log`.
    pub fn log_dirs(&self) -> Vec<PathBuf> {
        if self.log_dir_setting.is_empty() {
            return vec![self.dir.join("log")];
        }
        self.log_dir_setting.iter().map(|path| self.dir.join(path)).collect()
    }

    /// Directories below which backups may be taken, beside `dir`; relative ones below `dir`.
    pub fn backup_dirs(&self) -> Vec<PathBuf> {
        self.backup_dir_setting.iter().map(|path| settled(&self.dir.join(path))).collect()
    }

    /// Directory of the checkpoints.
    pub fn checkpoint_dir(&self) -> PathBuf {
        self.dir.join("checkpoints")
    }

    /// The RDB file that `checkpoint-format rdb` writes.
    pub fn rdb_path(&self) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        self.dir.join(std::ffi::OsStr::from_bytes(&self.dbfilename.0))
    }

    /// Whether a restart finds nothing of what clients write: there is no log, and no rule takes
    /// checkpoints.
    pub fn keeps_nothing(&self) -> bool {
        !self.appendonly && self.save.rules.is_empty()
    }

    /// Makes what follows from other directives follow: without a log, and without a word about `save`,
    /// Redis's rules are in force. To be called whenever a directive has been set.
    pub(super) fn settle(&mut self) {
        self.save.follow(self.appendonly);
    }

    /// The configuration as a file would say it: what comes from elsewhere is not in it.
    pub(super) fn as_said(&self) -> Config {
        let mut said = self.clone();
        if !said.fetched_password.is_empty() && said.requirepass == said.fetched_password {
            said.requirepass.clear();
        }
        said.fetched_password.clear();
        said
    }

    /// The file with the password, below `dir` if relative; `None`: there is none.
    pub(super) fn requirepass_path(&self) -> Option<PathBuf> {
        self.below_dir(&self.requirepass_file)
    }

    /// File of users, below `dir` if relative; `None`: there is none.
    pub fn aclfile_path(&self) -> Option<PathBuf> {
        self.below_dir(&self.aclfile)
    }

    /// File for messages, below `dir` if relative; `None`: standard error.
    pub fn logfile_path(&self) -> Option<PathBuf> {
        self.below_dir(&self.logfile)
    }

    /// File for the process id, below `dir` if relative; `None`: no such file.
    pub fn pidfile_path(&self) -> Option<PathBuf> {
        self.below_dir(&self.pidfile)
    }

    /// The Unix socket, below `dir` if relative; `None`: none.
    pub fn unixsocket_path(&self) -> Option<PathBuf> {
        self.below_dir(&self.unixsocket)
    }

    /// The directory of files that SQL writes, below `dir` if relative; `None`: none.
    pub fn sql_export_path(&self) -> Option<PathBuf> {
        self.below_dir(&self.sql_export_dir)
    }

    /// A file or a directory that a directive names, below `dir` if relative; `None`: none.
    pub fn below_dir(&self, path: &[u8]) -> Option<PathBuf> {
        use std::os::unix::ffi::OsStrExt;
        (!path.is_empty()).then(|| self.dir.join(Path::new(std::ffi::OsStr::from_bytes(path))))
    }

    /// Whether nobody chose `dir`: then, and only then, the server makes it when it is missing.
    pub fn dir_is_default(&self) -> bool {
        std::path::absolute(Path::new(DEFAULT_DIR)).is_ok_and(|default| default == self.dir)
    }

    /// All fields zero or empty: what the defaults are applied to.
    pub(super) fn blank() -> Self {
        Self {
            bind: Vec::new(),
            port: 0,
            protected_mode: false,
            tcp_backlog: 0,
            unixsocket: Vec::new(),
            unixsocket_mode: 0,
            timeout_s: 0,
            auth_timeout_s: 0,
            tcp_keepalive_s: 0,
            maxclients: 0,
            metrics_port: 0,
            metrics_bind: Vec::new(),
            metrics_auth: MetricsAuth::default(),
            sql_port: 0,
            sql_bind: Vec::new(),
            sql_max_clients: 0,
            sql_tls: SqlTls::default(),
            tls: TlsSettings::default(),
            analytics_threads_setting: 0,
            analytics_max_memory_bytes: 0,
            sql_export_dir: Vec::new(),
            threads_setting: 0,
            server_cores: Cores::default(),
            checkpoint_cores: Cores::default(),
            requirepass: Vec::new(),
            requirepass_file: Vec::new(),
            fetched_password: Vec::new(),
            daemonize: false,
            supervised: Supervised::default(),
            loglevel: LogLevel::default(),
            logfile: Vec::new(),
            pidfile: Vec::new(),
            databases: 0,
            databases_setting: 0,
            hz: 0,
            active_expire_effort: 0,
            memory: MemorySettings::default(),
            dir: PathBuf::new(),
            appendonly: false,
            appendfsync: AppendFsync::default(),
            save: SaveRules::default(),
            stop_writes_on_bgsave_error: false,
            checkpoint_mode: CheckpointMode::default(),
            checkpoint_format: CheckpointFormat::default(),
            dbfilename: FileName::default(),
            rdbcompression: false,
            rdb_version: RdbVersion::default(),
            checkpoint_pace: CheckpointPace::default(),
            background_latency_target_us: 500,
            serve_while_loading: false,
            view_memory_limit_bytes: 0,
            log_dir_setting: Vec::new(),
            log_flushes_in_flight: 0,
            log_backlog_limit_bytes: 0,
            log_compaction_bytes_per_second: 0,
            log_compaction_file_percentage: 0,
            log_compaction_log_percentage: 0,
            log_compaction_min_bytes: 0,
            log_scrub_bytes_per_second: 0,
            log_file_bytes: 0,
            log_compaction: LogCompaction::default(),
            log_compression: LogCompression::default(),
            backup_dir_setting: Vec::new(),
            backup_max: 0,
            client_output_buffer_limit: OutputBufferLimits::default(),
            client_query_buffer_limit_bytes: 0,
            proto_max_bulk_len_bytes: 0,
            slowlog_log_slower_than_us: 0,
            busy_reply_threshold_ms: 0,
            acl: AclSettings::default(),
            aclfile: Vec::new(),
            orders: Orders::default(),
            slowlog_max_len: 0,
            commandlog_request_larger_than: 0,
            commandlog_large_request_max_len: 0,
            commandlog_reply_larger_than: 0,
            commandlog_large_reply_max_len: 0,
            latency_tracking: false,
            latency_tracking_info_percentiles: Vec::new(),
            latency_monitor_threshold_ms: 0,
            notify_keyspace_events: EventClasses::default(),
            tracking_table_max_keys: 0,
            hash_max_listpack_entries: 0,
            hash_max_listpack_value_bytes: 0,
            list_max_listpack_size: 0,
            list_compress_depth: 0,
            set_max_intset_entries: 0,
            zset_max_listpack_entries: 0,
            zset_max_listpack_value_bytes: 0,
            hll_sparse_max_bytes: 0,
            stream_idmp_duration_s: 0,
            stream_idmp_messages_max: 0,
            stream_node_max_entries: 0,
            enable_debug_command: DebugAccess::default(),
            inert: BTreeMap::new(),
        }
    }
}
