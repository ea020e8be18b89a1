//! The life of a server: listen, load, serve, stop.
//!
//! ```text
//!   main thread: bind ── accept ─────────────────────── signal or SHUTDOWN ── stop workers ── close the log
//!   loader:               └─ load, replay ───────── doors open: from now on takes the checkpoints
//!   workers:              └─ LOADING … ───────────┴─ serve ─────────────────────────────── close connections
//! ```

use crate::accept::{Acceptor, AcceptorHandle, Signals};
use crate::apply;
use crate::config::{AppendFsync, CheckpointFormat, Config, ConfigStore, Loaded};
use crate::listen::{self, ListenError, Listeners};
use crate::log_switch;
use crate::logging;
use crate::metrics::MetricsServer;
use crate::pidfile::PidFile;
use crate::process;
use crate::saver::{self, Urgency};
use crate::shared::{OpenLog, Shared, Store};
use crate::transfer::{self, Stage, TransferError};
use crate::worker;
use arc_swap::ArcSwapOption;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Instant, UNIX_EPOCH};
use tarn_engine::backup;
use tarn_engine::checkpoint::{CheckpointError, Checkpoints};
use tarn_engine::engine::{Background, Engine};
use tarn_engine::io::OsDisk;
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
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(not_accepting)?;
    let (listeners, signals) = {
        let _context = runtime.enter();
        (Listeners::open(config)?, Signals::catch().map_err(not_accepting)?)
    };
    let metrics_listeners = listen::open_metrics(config)?;
    for (directive, cores) in
        [("server_cpulist", &config.server_cores), ("bgsave_cpulist", &config.checkpoint_cores)]
    {
        if cores.available() == Some(0) {
            return Err(ServeError::Cores { directive });
        }
    }
    let _pidfile = config.pidfile_path().and_then(PidFile::write);
    let threads = config.threads();
    let store = ConfigStore::new(loaded.config.clone(), loaded.file.clone());
    let (acceptor, moves) = AcceptorHandle::new();
    let server = Arc::new(Shared::new(Arc::new(store), acceptor));
    tell(&server);
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
    for address in listeners.addresses() {
        tracing::info!("Listening on {address}");
    }
    let metrics = MetricsServer::start(&server, metrics_listeners)?;
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
                    server.saver.run(&server, &store.engine, &store.checkpoints)
                }
                _ => server.shut_down(false),
            }
            loaded
        })?
    };

    let acceptor = Acceptor::new(server.clone(), listeners, moves, signals, incoming);
    runtime.block_on(acceptor.run()).map_err(not_accepting)?;
    tracing::info!("Stopping: no new connections, closing the open ones");
    drop(metrics);
    for worker in workers {
        join(worker).map_err(|source| ServeError::System { what: "a worker failed", source })?;
    }
    server.saver.stop(&server);
    server.backups.stop();
    let background = join(loader)?;
    drop(background);
    let Some(store) = server.store() else { return Ok(()) };
    let saved = save_at_end(&server, store);
    if let Some(open) = &*store.log.load() {
        close_log(open)?;
    }
    saved
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

/// Takes a last checkpoint if one is wanted and the last is not as of now. REQUIRES: nobody takes one.
fn save_at_end(server: &Shared, store: &Store) -> Result<(), ServeError> {
    // Of an RDB file nobody remembers which change was its last.
    let is_saved = server.config.snapshot().checkpoint_format == CheckpointFormat::Tarn
        && store.checkpoints.has_all_of(&*store.engine);
    // Without one, nothing would be found of what a log has that was switched on a moment ago.
    if server.saves_at_end() && !is_saved || log_switch::is_pending(store) {
        tracing::info!("Taking a last checkpoint");
        store.checkpoints.progress().resume();
        let taken = saver::take(server, &store.engine, &store.checkpoints, Urgency::Awaited, false);
        let taken = taken.map_err(ServeError::LastCheckpoint)?;
        tracing::info!("Checkpoint: {} keys, {:.1} MB", taken.keys, taken.bytes as f64 / 1e6);
    }
    Ok(())
}

fn not_accepting(source: io::Error) -> ServeError {
    ServeError::System { what: "cannot accept connections", source }
}

/// Lowers `maxclients` to what the limit of open files allows, if that cannot be raised.
fn fit_clients(server: &Shared, config: &Config) {
    let Err(fit) = process::allow_clients(config.maxclients) else { return };
    tracing::warn!(
        "only {fit} clients fit the limit of open files, not {}: see ulimit -n",
        config.maxclients
    );
    let lowered = server.config.set(&[("maxclients", &fit.max(1).to_string())]);
    match lowered {
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
        std::fs::create_dir_all(&config.dir).map_err(failed(&config.dir))?;
    }
    let metadata = std::fs::metadata(&config.dir).map_err(failed(&config.dir))?;
    if !metadata.is_dir() {
        return Err(failed(&config.dir)(io::Error::from(io::ErrorKind::NotADirectory)));
    }
    backup::refuse_copies(&OsDisk, &config.dir)?;
    if config.appendonly {
        for path in config.log_dirs() {
            std::fs::create_dir_all(&path).map_err(|source| ServeError::LogDirectory { path, source })?;
        }
    }
    Ok(())
}

/// Opens the log, replays it and opens the doors.
fn load(server: &Shared, config: &Config) -> Result<Option<Background>, ServeError> {
    let began = Instant::now();
    let checkpoints = Arc::new(Checkpoints::open(Arc::new(OsDisk), &config.checkpoint_dir())?);
    if let Some(checkpoint) = checkpoints.current() {
        server.saver.note_loaded(checkpoint.unix_ms);
    }
    let is_rdb = config.checkpoint_format == CheckpointFormat::Rdb;
    let rdb_file = Some(config.rdb_path()).filter(|path| path.exists());
    let saved = |path: &Path| {
        let age = path.metadata().and_then(|metadata| metadata.modified()).ok()?.duration_since(UNIX_EPOCH);
        age.ok().map(|age| age.as_millis() as u64)
    };
    if let (Some(checkpoint), Some(rdb)) = (checkpoints.current(), &rdb_file)
        && is_rdb
        && !config.appendonly
        && saved(rdb) > Some(checkpoint.unix_ms)
    {
        // A log that was switched on for a while has left the checkpoint.
        return Err(ServeError::NewerRdb { checkpoints: config.checkpoint_dir(), rdb: rdb.clone() });
    }
    let loads_rdb = is_rdb && !config.appendonly && checkpoints.current().is_none();
    if let Some(path) = rdb_file.as_ref().filter(|_| !loads_rdb && (is_rdb || is_new(config, &checkpoints))) {
        tracing::warn!(
            "{path} is not loaded: only 'checkpoint-format rdb' with 'appendonly no' loads it, where there \
             is no checkpoint; to begin with it otherwise: tarn import --dir NEW-DIRECTORY {path}",
            path = path.display()
        );
    }
    if !config.appendonly {
        let note = |read, bytes| server.loading.note(read, bytes);
        let tables = recovery::empty(config.databases);
        server.loading.early.begin(&tables, Lsn(u64::MAX));
        let loaded = checkpoints.load(tables, config.threads(), &note)?;
        let (engine, background) = match loaded {
            Some(loaded) => {
                let seconds = began.elapsed().as_secs_f64();
                tracing::info!("Loaded {} keys of a checkpoint in {seconds:.3} s", loaded.keys);
                Engine::loaded(loaded, config.threads(), server.clock.clone())
            }
            None => {
                let new = Engine::unlogged(config.databases, config.threads(), server.clock.clone());
                if let Some(path) = rdb_file.filter(|_| loads_rdb) {
                    load_rdb(server, config, &new.0, &path)?;
                }
                new
            }
        };
        open_doors(server, Store { engine, log: ArcSwapOption::empty(), checkpoints });
        return Ok(Some(background));
    }
    let options = log_switch::options(config);
    let (databases, threads) = (config.databases, config.threads());
    let opened =
        recovery::open(Arc::new(OsDisk), options, Some(&checkpoints), databases, threads, &server.loading)?;
    let seconds = began.elapsed().as_secs_f64();
    tracing::info!("Loaded {} records in {seconds:.3} s", opened.replayed.records);
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
    let log = OpenLog::new(opened.log, config.appendfsync == AppendFsync::Always, &server.wakers);
    open_doors(server, Store { engine, log: ArcSwapOption::from_pointee(log), checkpoints });
    Ok(Some(background))
}

/// Whether there is neither a checkpoint nor a log.
fn is_new(config: &Config, checkpoints: &Checkpoints) -> bool {
    checkpoints.current().is_none() && matches!(Log::is_in(&OsDisk, &config.log_dirs()), Ok(false))
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
