//! The life of a server: listen, load, serve, stop.
//!
//! ```text
//!   main thread: bind ── accept ─────────────────────── signal or SHUTDOWN ── stop workers ── close the log
//!   loader:               └─ load, replay ───────── doors open: from now on takes the checkpoints
//!   workers:              └─ LOADING … ───────────┴─ serve ─────────────────────────────── close connections
//! ```

use crate::accept::{Acceptor, AcceptorHandle};
use crate::apply;
use crate::config::{AppendFsync, Config, ConfigStore, Loaded};
use crate::keeping;
use crate::listen::{ListenError, Listeners, Service};
use crate::log_switch::{self, Tail};
use crate::logging;
use crate::metrics::MetricsServer;
use crate::pidfile::PidFile;
use crate::process;
use crate::redis_files;
use crate::shared::{OpenLog, Shared, Store};
use crate::signals::Signals;
use crate::supervisor::Supervisor;
use crate::transfer::{self, Stage, TransferError};
use crate::worker;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Instant, UNIX_EPOCH};
use tarn_engine::backup;
use tarn_engine::checkpoint::{CheckpointError, Checkpoints};
use tarn_engine::engine::{Background, Engine};
use tarn_engine::io::{Disk, OsDisk};
use tarn_engine::record::Lsn;
use tarn_engine::recovery;
use tarn_engine::{Log, LogError, OpenError};
use thiserror::Error;
use tokio::sync::mpsc;

/// Why the server did not start, or had to stop. One line, which says what to do.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The data directory is missing or cannot be used.
    #[error("cannot use data directory {}: {source}; create it, or name another with --dir", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A directory of the log cannot be made or used; most often a file of that name is in its place.
    #[error(
        "cannot use log directory {}: {source}; {}name others with --log-dir",
        path.display(), first_try(source)
    )]
    LogDirectory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file for messages cannot be written.
    #[error("cannot write messages to {}: {source}; name another file with --logfile", path.display())]
    LogFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nobody could connect.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The log could not be opened.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// The checkpoint could not be opened.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The last checkpoint was not taken.
    #[error("the last checkpoint was not taken: {0}; what changed since the one before is lost")]
    LastCheckpoint(CheckpointError),
    /// A list of cores has none that this process may use.
    #[error("none of the cores of '{directive}' is one that this process may run on; name others, or none")]
    Cores {
        /// The directive that lists them.
        directive: &'static str,
    },
    /// The RDB file could not be loaded.
    #[error("{0}; or move the file away to start without it")]
    Rdb(#[from] TransferError),
    /// The append-only file of a Redis is there, and nothing of Tarn.
    #[error(
        "{} is the append-only file of a Redis, which Tarn does not read: have redis-server load it and \
         SAVE, then move it away, and the RDB file is loaded; or move it away to start without its data",
        path.display()
    )]
    Aof {
        /// The directory, or the file.
        path: PathBuf,
    },
    /// A checkpoint is there, and an RDB file that was written later.
    #[error(
        "the checkpoint in {} is older than {}: move away the one that is not wanted",
        checkpoints.display(), rdb.display()
    )]
    NewerRdb {
        /// Where the checkpoint is.
        checkpoints: PathBuf,
        /// The file.
        rdb: PathBuf,
    },
    /// The log could not be closed: what was written last may be lost.
    #[error(
        "the log was not closed in order: {source}; its newest {lost} records are not on disk: what was \
         acknowledged of them is lost"
    )]
    Close {
        /// Records that did not become durable.
        lost: u64,
        /// Why they did not.
        source: LogError,
    },
    /// The system refused something that a server cannot do without.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// What may be done about a directory instead of taking another.
fn first_try(refusal: &io::Error) -> &'static str {
    match refusal.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room for it, or ",
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => "move away what is in its place, or ",
        io::ErrorKind::PermissionDenied => "let this user write there, or ",
        _ => "",
    }
}

/// Serves until a signal or `SHUTDOWN`. `Ok`: everything that was acknowledged is on disk.
pub fn serve(loaded: Loaded) -> Result<(), ServeError> {
    serve_beside(loaded, |_| {})
}

/// As [`serve`], for those who work on the store in the same process: `tell` gets what the threads share,
/// before anything is loaded.
pub fn serve_beside(loaded: Loaded, tell: impl FnOnce(&Arc<Shared>)) -> Result<(), ServeError> {
    let config = &loaded.config;
    prepare_directories(config)?;
    logging::init(config).map_err(|(path, source)| ServeError::LogFile { path, source })?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    if let Some(line) = loaded.disobeyed_line() {
        tracing::warn!("{line}");
    }
    keeping::warn_if_nothing_is_kept(config);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(not_accepting)?;
    let mut signals = {
        let _context = runtime.enter();
        Signals::catch().map_err(not_accepting)?
    };
    refuse_missing_cores(config)?;
    let threads = config.threads();
    let store = ConfigStore::new(loaded.config.clone(), loaded.file.clone());
    let (acceptor, moves) = AcceptorHandle::new();
    let server = Arc::new(Shared::new(Arc::new(store), acceptor));
    tell(&server);
    let mut services = vec![Service::Redis, Service::Metrics];
    services.extend(server.sql().map(|_| Service::Sql));
    let listeners = {
        let _context = runtime.enter();
        Listeners::open(config, &services)?
    };
    let pidfile = config.pidfile_path().and_then(PidFile::write);
    signals.remove_at_end(pidfile.as_ref().map(|file| file.path().to_owned()));
    (loaded.listening)();
    let supervisor = Supervisor::tell(&server, config);
    apply::set_encoding_limits(config);
    fit_clients(&server, config);

    let mut incoming = Vec::with_capacity(threads);
    let mut workers: Vec<JoinHandle<io::Result<()>>> = Vec::with_capacity(threads);
    for index in 0..threads {
        let (sender, receiver) = mpsc::unbounded_channel();
        incoming.push(sender);
        let (server, waker) = (server.clone(), server.wakers[index].clone());
        let cores = config.server_cores.clone();
        let run = move || {
            cores.confine()?;
            worker::run(index, server, waker, receiver)
        };
        workers.push(spawn(format!("tarn-worker-{index}"), run)?);
    }
    listeners.announce(config);
    let loader = {
        let (server, config) = (server.clone(), config.clone());
        spawn("tarn-loader".to_owned(), move || {
            let loaded = load(&server, &config);
            server.loading.early.end();
            match (&loaded, server.store()) {
                (Ok(_), Some(store)) => {
                    if let Err(error) = config.checkpoint_cores.confine() {
                        tracing::warn!("bgsave_cpulist is not heeded: {error}");
                    }
                    look_after(&server, store);
                }
                _ => server.shut_down(),
            }
            loaded
        })?
    };

    let metrics = MetricsServer::new(server.clone());
    let acceptor = Acceptor::new(server.clone(), listeners, moves, signals, incoming, metrics);
    let signals = runtime.block_on(acceptor.run()).map_err(not_accepting)?;
    signals.watch(runtime, server.shutdown.attempt());
    supervisor.stopping();
    tracing::info!("Stopping: no new connections, closing the open ones");
    for worker in workers {
        join(worker).map_err(|source| ServeError::System { what: "a worker failed", source })?;
    }
    server.saver.stop(&server);
    server.scrubber.stop();
    server.backups.stop();
    if server.shutdown.abandons_loading() && server.store().is_none() {
        // Its thread ends with the process; what it reads is as it was.
        tracing::info!("Loading is given up. Bye");
        return Ok(());
    }
    let background = join(loader)?;
    drop(background);
    let Some(store) = server.store() else { return Ok(()) };
    keeping::warn_of_losses(&server, store);
    let saved = server.shutdown.save_rest(&server, store).map_err(ServeError::LastCheckpoint);
    if let Some(open) = &*store.log.load() {
        close_log(open)?;
    }
    saved
}

fn refuse_missing_cores(config: &Config) -> Result<(), ServeError> {
    let lists = [("server_cpulist", &config.server_cores), ("bgsave_cpulist", &config.checkpoint_cores)];
    match lists.into_iter().find(|(_, cores)| cores.available() == Some(0)) {
        Some((directive, _)) => Err(ServeError::Cores { directive }),
        None => Ok(()),
    }
}

/// Takes checkpoints, and looks for damage, until the server stops.
fn look_after(server: &Shared, store: &Store) {
    std::thread::scope(|scope| {
        let scrub = || {
            let tell = |what: &str| tracing::error!("Damage on the disk: {what}");
            server.scrubber.run(&store.engine, &store.checkpoints, tell);
        };
        if let Err(error) =
            std::thread::Builder::new().name("tarn-scrub".to_owned()).spawn_scoped(scope, scrub)
        {
            tracing::error!("Nobody looks for damage on the disk: no thread can be started: {error}");
        }
        server.saver.run(server, &store.engine, &store.checkpoints);
        server.scrubber.stop();
    });
}

/// Closes the log, or tells what is lost.
fn close_log(open: &OpenLog) -> Result<(), ServeError> {
    let Some(log) = open.log.lock().take() else { return Ok(()) };
    if let Err(source) = log.close() {
        let lost = open.appender.last().0.saturating_sub(open.durable.lsn().0);
        let error = ServeError::Close { lost, source };
        // Who reads the messages may not see what the program says at its end.
        tracing::error!("Stopped: {error}");
        return Err(error);
    }
    tracing::info!("The log is on disk. Bye");
    Ok(())
}

fn not_accepting(source: io::Error) -> ServeError {
    ServeError::System { what: "cannot accept connections", source }
}

/// Lowers `maxclients`, and `sql-max-clients` where few fit, to what the limit of open files allows, if that
/// cannot be raised.
fn fit_clients(server: &Shared, config: &Config) {
    let Some((redis, sql)) = process::fitting_clients(config) else { return };
    tracing::warn!(
        "only {redis} clients, and {sql} of SQL, fit the limit of open files, not {} and {}: see ulimit -n",
        config.maxclients,
        config.sql_max_clients
    );
    let fitted = [("maxclients", redis.to_string()), ("sql-max-clients", sql.to_string())];
    match server.config.set(&fitted.each_ref().map(|(name, count)| (*name, count.as_str()))) {
        Ok(_) => server.live.update(&server.config.snapshot()),
        Err(error) => tracing::warn!("{error}"),
    }
}

fn prepare_directories(config: &Config) -> Result<(), ServeError> {
    let failed = |path: &PathBuf| {
        let path = path.clone();
        move |source| ServeError::Directory { path, source }
    };
    if config.dir_is_default() {
        OsDisk.create_dir_all(&config.dir).map_err(|error| failed(&config.dir)(error.source))?;
    }
    let metadata = std::fs::metadata(&config.dir).map_err(failed(&config.dir))?;
    if !metadata.is_dir() {
        return Err(failed(&config.dir)(io::Error::from(io::ErrorKind::NotADirectory)));
    }
    backup::refuse_copies(&OsDisk, &config.dir)?;
    if config.appendonly {
        for path in config.log_dirs() {
            let made = OsDisk.create_dir_all(&path);
            made.map_err(|error| ServeError::LogDirectory { path, source: error.source })?;
        }
    }
    Ok(())
}

/// Opens the log, replays it and opens the doors.
fn load(server: &Shared, config: &Config) -> Result<Option<Background>, ServeError> {
    let began = Instant::now();
    let tail = if config.appendonly { Tail::Cut } else { Tail::LeftOut };
    server.loading.found.get_or_init(|| Box::new(move |found| log_switch::tell_recovered(found, tail)));
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
                Engine::loaded(loaded, config.threads(), server.clock.clone())
            }
            None => {
                let new = Engine::unlogged(config.databases, config.threads(), server.clock.clone());
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
             wrote {torn} of them anew as they are now, which may be less than they were"
        );
    }
    let (engine, background) = Engine::new(
        opened.tables,
        config.threads(),
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
    server: &Shared,
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
fn load_rdb(server: &Shared, config: &Config, engine: &Engine, path: &Path) -> Result<(), ServeError> {
    let (began, now) = (Instant::now(), server.clock.unix_ms());
    engine.show_early(&server.loading.early);
    let (keys, expired) = transfer::load(engine, path, config.databases, now, &mut |stage| {
        if let Stage::Reading { bytes, bytes_total, .. } = stage {
            server.loading.note(bytes, bytes_total);
        }
    })?;
    let saved = path.metadata().and_then(|metadata| metadata.modified()).ok();
    if let Some(age) = saved.and_then(|saved| saved.duration_since(UNIX_EPOCH).ok()) {
        server.saver.note_loaded(age.as_millis() as u64);
    }
    server.saver.note_keys_loaded(keys, expired);
    let seconds = began.elapsed().as_secs_f64();
    tracing::info!("Loaded {keys} keys of {} in {seconds:.3} s, {expired} had expired", path.display());
    Ok(())
}

fn open_doors(server: &Shared, store: Store) {
    apply::open_doors(server, store);
    tracing::info!("Ready to accept connections");
}

fn spawn<T: Send + 'static>(
    name: String,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, ServeError> {
    let spawned = std::thread::Builder::new().name(name).spawn(run);
    spawned.map_err(|source| ServeError::System { what: "cannot start a thread", source })
}

fn join<T>(thread: JoinHandle<T>) -> T {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
