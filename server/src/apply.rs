//! Bringing a configuration into force: at the start, and after each `CONFIG SET`.

use crate::config::{AppendFsync, Config, LogCompaction};
use crate::logging;
use crate::process;
use crate::shared::{Shared, Store};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tarn_engine::SyncMode;
use tarn_engine::compactor::CompactionOptions;
use tarn_engine::value::EncodingLimits;
use tarn_engine::value::limits::set_current;
use tarn_engine::view::ViewLimits;

/// Brings a changed configuration into force. `Err` names the directive that the system does not allow, and
/// why; then nothing has changed.
pub fn apply(server: &Shared, old: &Config, new: &Config) -> Result<(), (&'static str, String)> {
    if new.maxclients > old.maxclients {
        process::allow_clients(new.maxclients).map_err(|fit| ("maxclients", too_many_clients(fit)))?;
    }
    if new.port != old.port || new.bind != old.bind {
        listen_elsewhere(server, old, new)?;
    }
    server.live.update(new);
    server.slowlog.set_len_max(new.slowlog_max_len);
    set_encoding_limits(new);
    if new.loglevel != old.loglevel {
        logging::set_level(new.loglevel);
    }
    // What is set before there is a store is brought into force with it.
    if let Some(store) = server.store() {
        if new.hz != old.hz {
            set_expiry_cycle(store, new.hz);
        }
        set_view_limits(store, new);
        set_compaction(store, new);
        if new.appendfsync != old.appendfsync {
            set_sync_mode(store, new.appendfsync);
        }
        if new.appendonly != old.appendonly {
            server.saver.switch_log();
        }
    }
    Ok(())
}

/// What a start sets beside the server's own fields.
pub fn set_encoding_limits(config: &Config) {
    set_current(EncodingLimits {
        hash_listpack_entries: config.hash_max_listpack_entries,
        hash_listpack_value: config.hash_max_listpack_value_bytes,
        set_intset_entries: config.set_max_intset_entries,
        zset_listpack_entries: config.zset_max_listpack_entries,
        zset_listpack_value: config.zset_max_listpack_value_bytes,
    });
}

/// The log's word for a value of `appendfsync`.
pub fn sync_mode(appendfsync: AppendFsync) -> SyncMode {
    match appendfsync {
        AppendFsync::Always => SyncMode::Always,
        AppendFsync::EverySec => SyncMode::EverySec,
        AppendFsync::No => SyncMode::No,
    }
}

/// Opens the doors to a store that has been loaded, with the settings of now: some may have changed
/// meanwhile, and one that is changing at this moment either is seen here or sees the store.
pub fn open_doors(server: &Shared, store: Store) {
    server.config.apply_current(|config| {
        set_sync_mode(&store, config.appendfsync);
        set_expiry_cycle(&store, config.hz);
        set_view_limits(&store, config);
        set_compaction(&store, config);
        server.set_store(store);
    });
}

fn set_expiry_cycle(store: &Store, hz: u32) {
    store.engine.set_expiry_cycle(Duration::from_secs(1) / hz);
}

fn set_view_limits(store: &Store, config: &Config) {
    store.engine.views().set_limits(ViewLimits {
        retained_bytes: config.view_memory_limit_bytes,
        passing_bytes: config.analytics_max_memory_bytes,
        age: Duration::ZERO,
    });
}

fn set_compaction(store: &Store, config: &Config) {
    store.engine.compactor().set_options(CompactionOptions {
        enabled: config.log_compaction == LogCompaction::Vtc,
        rewrites: config.log_compaction == LogCompaction::Rewrite,
        bytes_per_second: config.log_compaction_bytes_per_second as u64,
        file_percent: config.log_compaction_file_percentage,
        log_percent: config.log_compaction_log_percentage,
        min_bytes: config.log_compaction_min_bytes as u64,
        file_bytes: config.log_file_bytes as u64,
        ..CompactionOptions::default()
    });
}

/// Brings `appendfsync` into force.
pub fn set_sync_mode(store: &Store, appendfsync: AppendFsync) {
    let Some(open) = &*store.log.load() else { return };
    if let Some(log) = open.log.lock().as_ref() {
        log.set_mode(sync_mode(appendfsync));
    }
    open.always.store(appendfsync == AppendFsync::Always, Ordering::Relaxed);
}

/// Moves the listeners to another `port` or other addresses to `bind`.
fn listen_elsewhere(server: &Shared, old: &Config, new: &Config) -> Result<(), (&'static str, String)> {
    server.acceptor.listen_as(new).map_err(|error| {
        match error {
            Some(error) => tracing::warn!("CONFIG SET failed: {error}"),
            None => tracing::warn!("CONFIG SET failed: the server is stopping"),
        }
        if new.port != old.port {
            ("port", "Unable to listen on this port. Check server logs.".to_owned())
        } else {
            ("bind", "Failed to bind to specified addresses.".to_owned())
        }
    })
}

fn too_many_clients(fit: usize) -> String {
    format!("The operating system is not able to handle the specified number of clients, try with {fit}")
}
