//! Loading the data at the start: the checkpoint, the log, or an RDB file.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Instant, UNIX_EPOCH};

use tarn_engine::Log;
use tarn_engine::checkpoint::{CheckpointError, Checkpoints};
use tarn_engine::io::OsDisk;
use tarn_engine::record::Lsn;
use tarn_engine::recovery;
use tarn_engine::{Background, Engine, EvictionListener, ExpiryListener};

use crate::apply;
use crate::config::{AppendFsync, Config, EventClasses};
use crate::execute::events;
use crate::execute::services::Services;
use crate::persist::log_switch::{self, Tail};
use crate::persist::transfer::{self, Stage};
use crate::serve::error::ServeError;
use crate::serve::redis_files;
use crate::store::{OpenLog, Store};

/// Opens the log, replays it and opens the doors.
pub(crate) fn load(server: &Arc<Services>, config: &Config) -> Result<Option<Background>, ServeError> {
    let began = Instant::now();
    let tail = if config.appendonly { Tail::Cut } else { Tail::LeftOut };
    server.loading.found.get_or_init(|| Box::new(move |found| log_switch::tell_recovered(found, tail)));
    server.libraries.open(&server.scripts.functions, &config.dir)?;
    let (checkpoints, rdb_file) = redis_files::open_checkpoints(server, config)?;
    let checkpoints = Arc::new(checkpoints);
    if let Some(checkpoint) = checkpoints.current() {
        server.saver.note_loaded(checkpoint.unix_ms);
    }
    if !config.appendonly {
        let (engine, background) = match load_unlogged(server, config, &checkpoints)? {
            Some(loaded) => {
                let seconds = began.elapsed().as_secs_f64();
                tracing::info!("Loaded {} keys in {seconds:.3} s", loaded.keys);
                server.saver.note_keys_loaded(loaded.keys, 0);
                Engine::loaded(loaded, config.serving_threads(), server.clock.clone())
            }
            None => {
                let new = Engine::unlogged(config.databases, config.serving_threads(), server.clock.clone());
                if let Some(path) = rdb_file {
                    load_rdb(server, config, &new.0, &path)?;
                }
                new
            }
        };
        open_doors(server, Store::new(engine, None, checkpoints));
        return Ok(Some(background));
    }
    let options = log_switch::options(config);
    let (databases, threads) = (config.databases, config.threads());
    let opened =
        recovery::open(Arc::new(OsDisk), options, Some(&checkpoints), databases, threads, &server.loading)?;
    let seconds = began.elapsed().as_secs_f64();
    tracing::info!("Loaded {} records in {seconds:.3} s", opened.replayed.records);
    server.saver.note_keys_loaded(opened.tables.iter().map(|table| table.len() as u64).sum(), 0);
    let torn = opened.replayed.torn.len();
    if torn > 0 {
        tracing::warn!(
            "A repair of the log had cut off the last records of keys whose older ones were compacted away: \
             logged {torn} of them again as they are now, which may be less than they were"
        );
    }
    let (engine, background) = Engine::new(
        opened.tables,
        config.serving_threads(),
        Some(opened.log.appender()),
        opened.validity,
        server.clock.clone(),
    );
    engine.compactor().checkpoint_ended(checkpoints.current().map(|checkpoint| checkpoint.cut));
    engine.compactor().note_covered(&opened.log.appender(), &opened.recovered.covered);
    let always = config.appendfsync == AppendFsync::Always;
    let log = OpenLog::new(opened.log, always, Lsn::ZERO, &server.wakers);
    open_doors(server, Store::new(engine, Some(log), checkpoints));
    Ok(Some(background))
}

/// Loads, for a server that logs nothing, the checkpoint and what a log goes on with from it, if there are
/// any.
fn load_unlogged(
    server: &Services,
    config: &Config,
    checkpoints: &Checkpoints,
) -> Result<Option<tarn_engine::checkpoint::Loaded>, ServeError> {
    let mut directories = Vec::new();
    for directory in config.log_dirs() {
        if Log::is_in(&OsDisk, std::slice::from_ref(&directory)).map_err(CheckpointError::from)? {
            directories.push(directory);
        }
    }
    if directories.is_empty() {
        let note = |read, bytes| server.loading.note(read, bytes);
        let tables = recovery::empty(config.databases);
        server.loading.early.begin(&tables, Lsn(u64::MAX));
        return Ok(checkpoints.load(tables, config.threads(), &note)?);
    }
    let (disk, databases, threads) = (Arc::new(OsDisk), config.databases, config.threads());
    let loaded = recovery::read(disk, directories, checkpoints, databases, threads, &server.loading)?;
    Ok(Some(loaded))
}

/// Loads the RDB file into an empty store.
fn load_rdb(server: &Services, config: &Config, engine: &Engine, path: &Path) -> Result<(), ServeError> {
    let (began, now) = (Instant::now(), server.clock.unix_ms());
    engine.show_early(&server.loading.early);
    let loaded = transfer::load(engine, path, config.databases, now, &mut |stage| {
        if let Stage::Reading { bytes, bytes_total, .. } = stage {
            server.loading.note(bytes, bytes_total);
        }
    })?;
    server.libraries.adopt(&server.scripts.functions, &loaded.functions)?;
    let (keys, expired) = (loaded.keys, loaded.expired);
    let saved = path.metadata().and_then(|metadata| metadata.modified()).ok();
    if let Some(age) = saved.and_then(|saved| saved.duration_since(UNIX_EPOCH).ok()) {
        server.saver.note_loaded(age.as_millis() as u64);
    }
    server.saver.note_keys_loaded(keys, expired);
    let seconds = began.elapsed().as_secs_f64();
    tracing::info!("Loaded {keys} keys of {} in {seconds:.3} s, {expired} had expired", path.display());
    Ok(())
}

/// Tells clients that keys have expired.
struct Expired(Weak<Services>);

impl ExpiryListener for Expired {
    fn has_expired(&self, db: u8, key: &[u8], lsn: Lsn) {
        if let Some(server) = self.0.upgrade() {
            events::tell_expired(&server, db, key, lsn);
            if server.blocking.awaits_groups() {
                // Who waits for entries on behalf of a group is told that there is no stream any more.
                server.blocking.postpone(std::iter::once((db, key.into())));
            }
        }
    }

    fn have_fields_expired(&self, db: u8, key: &[u8], lsn: Lsn, is_gone: bool) {
        if let Some(server) = self.0.upgrade() {
            events::tell_fields_expired(&server, db, key, lsn, is_gone);
        }
    }

    fn is_behind(&self) -> bool {
        self.0.upgrade().is_some_and(|server| {
            let tells = server.live.event_classes().is_some_and(events::tells_of_expiry);
            (tells || server.tracking.is_on()) && server.pubsub.is_full()
        })
    }
}

/// Knows how much memory is in use, and tells clients that keys were evicted.
struct Evicted(Weak<Services>);

impl EvictionListener for Evicted {
    fn excess_bytes(&self) -> u64 {
        let Some(server) = self.0.upgrade().filter(|server| server.memory_limit.is_set()) else { return 0 };
        server.memory_limit.look_behind_frees(server.freed());
        let excess = server.memory_excess();
        server.memory_limit.note_excess(excess);
        // A pause holds up all changes.
        if server.pause.holds(true, server.clock.unix_ms()) { 0 } else { excess }
    }

    fn was_evicted(&self, db: u8, key: &[u8], lsn: Lsn) {
        if let Some(server) = self.0.upgrade() {
            events::tell_evicted(&server, db, key, lsn);
            if server.blocking.awaits_groups() {
                server.blocking.postpone(std::iter::once((db, key.into())));
            }
        }
    }

    fn is_behind(&self) -> bool {
        self.0.upgrade().is_some_and(|server| {
            let tells = server.live.event_classes().is_some_and(|classes| classes.has(EventClasses::EVICTED));
            (tells || server.tracking.is_on()) && server.pubsub.is_full()
        })
    }
}

fn open_doors(server: &Arc<Services>, store: Store) {
    // The store is a part of the server.
    store.engine.expiry().tell(Box::new(Expired(Arc::downgrade(server))));
    store.engine.eviction().tell(Box::new(Evicted(Arc::downgrade(server))));
    apply::open_doors(server, store);
    tracing::info!("Ready to accept connections");
}
