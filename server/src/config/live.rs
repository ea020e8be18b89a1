//! Settings that the hot path reads: plain atomics, written by `CONFIG SET`.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tarn_resp::Limits;

use crate::config::{ClientClass, Config, EventClasses};

/// When a client that reads too slowly is disconnected; as in `OutputBufferLimit`.
#[derive(Debug, Default)]
struct OutputLimit {
    hard_bytes: AtomicU64,
    soft_bytes: AtomicU64,
    soft_s: AtomicU64,
}

/// Settings that change at run time and are read for each request.
#[derive(Debug)]
pub struct Live {
    proto_max_bulk_len: AtomicU64,
    query_buffer_limit_bytes: AtomicU64,
    /// Of each class of clients.
    output_limits: [OutputLimit; 3],
    timeout_s: AtomicU64,
    tcp_keepalive_s: AtomicU64,
    auth_timeout_s: AtomicU64,
    protected_mode: AtomicBool,
    trusts_local_clients: AtomicBool,
    maxclients: AtomicU64,
    slow_us: AtomicI64,
    /// Bytes from which a request, and a reply, are large; `u64::MAX`: none is.
    large_request_bytes: AtomicU64,
    large_reply_bytes: AtomicU64,
    busy_reply_threshold_ms: AtomicU64,
    latency_tracking: AtomicBool,
    latency_event_ms: AtomicU64,
    event_classes: AtomicU32,
    tracked_keys_max: AtomicUsize,
    stream_node_entries: AtomicUsize,
    eviction_time_us: AtomicU64,
    serve_while_loading: AtomicBool,
    hll_sparse_max_bytes: AtomicU64,
}

/// The time for which a command may evict, in microseconds, as Redis has it: in steps of 50 up to half a
/// millisecond, then longer and longer.
fn eviction_time_us(tenacity: u32) -> u64 {
    match tenacity {
        0..=10 => 50 * u64::from(tenacity),
        11..=99 => (500.0 * 1.15f64.powi(tenacity as i32 - 10)) as u64,
        _ => u64::MAX,
    }
}

impl Live {
    /// The settings of a configuration.
    pub fn of(config: &Config) -> Live {
        let live = Live {
            proto_max_bulk_len: AtomicU64::new(0),
            query_buffer_limit_bytes: AtomicU64::new(0),
            output_limits: Default::default(),
            timeout_s: AtomicU64::new(0),
            tcp_keepalive_s: AtomicU64::new(0),
            auth_timeout_s: AtomicU64::new(0),
            protected_mode: AtomicBool::new(false),
            trusts_local_clients: AtomicBool::new(true),
            maxclients: AtomicU64::new(0),
            slow_us: AtomicI64::new(0),
            large_request_bytes: AtomicU64::new(0),
            large_reply_bytes: AtomicU64::new(0),
            busy_reply_threshold_ms: AtomicU64::new(0),
            latency_tracking: AtomicBool::new(false),
            latency_event_ms: AtomicU64::new(0),
            event_classes: AtomicU32::new(0),
            tracked_keys_max: AtomicUsize::new(0),
            stream_node_entries: AtomicUsize::new(0),
            eviction_time_us: AtomicU64::new(0),
            serve_while_loading: AtomicBool::new(false),
            hll_sparse_max_bytes: AtomicU64::new(0),
        };
        live.update(config);
        live
    }

    /// Takes over the settings of a changed configuration.
    pub fn update(&self, config: &Config) {
        self.proto_max_bulk_len.store(config.proto_max_bulk_len_bytes as u64, Ordering::Relaxed);
        self.query_buffer_limit_bytes.store(config.client_query_buffer_limit_bytes as u64, Ordering::Relaxed);
        for class in ClientClass::ALL {
            let (live, limit) =
                (&self.output_limits[class as usize], config.client_output_buffer_limit.of(class));
            live.hard_bytes.store(limit.hard_bytes, Ordering::Relaxed);
            live.soft_bytes.store(limit.soft_bytes, Ordering::Relaxed);
            live.soft_s.store(limit.soft_s, Ordering::Relaxed);
        }
        self.timeout_s.store(config.timeout_s, Ordering::Relaxed);
        self.tcp_keepalive_s.store(config.tcp_keepalive_s.into(), Ordering::Relaxed);
        self.auth_timeout_s.store(config.auth_timeout_s, Ordering::Relaxed);
        self.protected_mode.store(config.protected_mode, Ordering::Relaxed);
        self.trusts_local_clients.store(config.tls.trust_local_clients, Ordering::Relaxed);
        self.maxclients.store(config.maxclients as u64, Ordering::Relaxed);
        self.slow_us.store(config.slowlog_log_slower_than_us, Ordering::Relaxed);
        let bytes = |bytes: i64| u64::try_from(bytes).unwrap_or(u64::MAX);
        let large_request = bytes(config.commandlog_request_larger_than);
        self.large_request_bytes.store(large_request, Ordering::Relaxed);
        self.large_reply_bytes.store(bytes(config.commandlog_reply_larger_than), Ordering::Relaxed);
        self.busy_reply_threshold_ms.store(config.busy_reply_threshold_ms, Ordering::Relaxed);
        self.latency_tracking.store(config.latency_tracking, Ordering::Relaxed);
        self.latency_event_ms.store(config.latency_monitor_threshold_ms, Ordering::Relaxed);
        let classes = config.notify_keyspace_events;
        let has_channels = classes.has(EventClasses::KEYSPACE) || classes.has(EventClasses::KEYEVENT);
        self.event_classes.store(if has_channels { classes.0 } else { 0 }, Ordering::Relaxed);
        self.tracked_keys_max.store(config.tracking_table_max_keys, Ordering::Relaxed);
        self.stream_node_entries.store(config.stream_node_max_entries, Ordering::Relaxed);
        let eviction_time_us = eviction_time_us(config.memory.maxmemory_eviction_tenacity);
        self.eviction_time_us.store(eviction_time_us, Ordering::Relaxed);
        self.serve_while_loading.store(config.serve_while_loading, Ordering::Relaxed);
        self.hll_sparse_max_bytes.store(config.hll_sparse_max_bytes, Ordering::Relaxed);
    }

    /// Clients at the same time.
    pub fn maxclients(&self) -> usize {
        self.maxclients.load(Ordering::Relaxed) as usize
    }

    /// Microseconds from which on a command is slow; negative: none is.
    pub fn slow_us(&self) -> i64 {
        self.slow_us.load(Ordering::Relaxed)
    }

    /// Whether a request of so many bytes is large.
    #[inline]
    pub fn is_large_request(&self, bytes: usize) -> bool {
        bytes as u64 >= self.large_request_bytes.load(Ordering::Relaxed)
    }

    /// Whether a reply of so many bytes is large.
    #[inline]
    pub fn is_large_reply(&self, bytes: usize) -> bool {
        bytes as u64 >= self.large_reply_bytes.load(Ordering::Relaxed)
    }

    /// How long a script runs before others are told.
    pub fn busy_reply_threshold(&self) -> Duration {
        match self.busy_reply_threshold_ms.load(Ordering::Relaxed) {
            0 => Duration::MAX,
            ms => Duration::from_millis(ms),
        }
    }

    /// Whether histograms of latency are kept.
    pub fn tracks_latency(&self) -> bool {
        self.latency_tracking.load(Ordering::Relaxed)
    }

    /// How long a wait is that is an event for `LATENCY`; `None`: none is.
    pub fn latency_event(&self) -> Option<Duration> {
        let ms = self.latency_event_ms.load(Ordering::Relaxed);
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// The keyspace events that are published; `None`: none.
    #[inline]
    pub fn event_classes(&self) -> Option<EventClasses> {
        match self.event_classes.load(Ordering::Relaxed) {
            0 => None,
            classes => Some(EventClasses(classes)),
        }
    }

    /// Keys that are tracked for clients at most; 0: as many as they read.
    pub fn tracked_keys_max(&self) -> usize {
        self.tracked_keys_max.load(Ordering::Relaxed)
    }

    /// Entries that a node of a stream has in Redis; 0: that depends on their bytes alone.
    pub fn stream_node_entries(&self) -> usize {
        self.stream_node_entries.load(Ordering::Relaxed)
    }

    /// The time for which a command may evict before it runs.
    pub fn eviction_time(&self) -> Duration {
        Duration::from_micros(self.eviction_time_us.load(Ordering::Relaxed))
    }

    /// Bytes from which on a HyperLogLog is dense.
    pub fn hll_sparse_max_bytes(&self) -> usize {
        self.hll_sparse_max_bytes.load(Ordering::Relaxed) as usize
    }

    /// Whether reads are answered while the data is being loaded.
    pub fn serves_while_loading(&self) -> bool {
        self.serve_while_loading.load(Ordering::Relaxed)
    }

    /// Longest string.
    pub fn proto_max_bulk_len(&self) -> u64 {
        self.proto_max_bulk_len.load(Ordering::Relaxed)
    }

    /// Largest input that waits for the rest of its request.
    pub fn query_buffer_limit_bytes(&self) -> u64 {
        self.query_buffer_limit_bytes.load(Ordering::Relaxed)
    }

    /// Hard limit of what waits for a client of this class; 0: none.
    pub fn output_limit_bytes(&self, class: ClientClass) -> usize {
        self.output_limits[class as usize].hard_bytes.load(Ordering::Relaxed) as usize
    }

    /// Where the output buffer ends that has `len` bytes when a command begins its reply.
    pub fn reply_end_max(&self, len: usize) -> usize {
        match self.output_limit_bytes(ClientClass::Normal) {
            0 => usize::MAX,
            limit => len.saturating_add(limit),
        }
    }

    /// Output that may wait for a client of this class for so long only; `None`: no such limit.
    pub fn soft_output_limit(&self, class: ClientClass) -> Option<(usize, Duration)> {
        let limit = &self.output_limits[class as usize];
        let bytes = limit.soft_bytes.load(Ordering::Relaxed) as usize;
        let time = Duration::from_secs(limit.soft_s.load(Ordering::Relaxed));
        (bytes > 0).then_some((bytes, time))
    }

    /// Seconds after which an idle client is closed; 0: never.
    pub fn timeout_s(&self) -> u64 {
        self.timeout_s.load(Ordering::Relaxed)
    }

    /// Seconds between probes of an idle connection; 0: none.
    pub fn tcp_keepalive_s(&self) -> u64 {
        self.tcp_keepalive_s.load(Ordering::Relaxed)
    }

    /// Seconds that a client may take to say the password.
    pub fn auth_timeout_s(&self) -> u64 {
        self.auth_timeout_s.load(Ordering::Relaxed)
    }

    /// Whether only clients on this machine are served while nobody must say a password.
    pub fn is_protected(&self) -> bool {
        self.protected_mode.load(Ordering::Relaxed)
    }

    /// Whether a client with a loopback address is on this machine.
    pub fn trusts_local_clients(&self) -> bool {
        self.trusts_local_clients.load(Ordering::Relaxed)
    }

    /// Limits of a request.
    pub fn decoder_limits(&self) -> Limits {
        Limits {
            proto_max_bulk_len: self.proto_max_bulk_len(),
            client_query_buffer_limit: self.query_buffer_limit_bytes(),
        }
    }
}
