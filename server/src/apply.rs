//! Bringing a configuration into force: at the start, and after each `CONFIG SET`.

use crate::config::{AppendFsync, Config};
use crate::logging;
use crate::process;
use crate::shared::{Shared, Store};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tarn_engine::SyncMode;
use tarn_engine::value::EncodingLimits;
use tarn_engine::value::limits::set_current;

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
    if new.hz != old.hz {
        set_expiry_cycle(server, new.hz);
    }
    if new.appendfsync != old.appendfsync {
        set_sync_mode(server, new.appendfsync);
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

/// Brings into force what needs the store, or was set while the log was still being opened.
pub fn after_loading(server: &Shared) {
    let config = server.config.snapshot();
    set_sync_mode(server, config.appendfsync);
    set_expiry_cycle(server, config.hz);
}

fn set_expiry_cycle(server: &Shared, hz: u32) {
    if let Some(engine) = server.engine() {
        engine.set_expiry_cycle(Duration::from_secs(1) / hz);
    }
}

fn set_sync_mode(server: &Shared, appendfsync: AppendFsync) {
    let Some(Store { log: Some(open), .. }) = server.store() else { return };
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
