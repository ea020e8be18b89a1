//! The life of a server: listen, load, serve, stop.
//!
//! ```text
//!   main thread: bind ── accept ─────────────────────── signal or SHUTDOWN ── stop workers ── close the log
//!   loader:               └─ load, replay ───────── doors open: from now on takes the checkpoints
//!   workers:              └─ LOADING … ───────────┴─ serve ─────────────────────────────── close connections
//! ```

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use tarn_engine::backup;
use tarn_engine::io::{Disk, OsDisk};
use tarn_engine::scrub::Scrubbed;
use tokio::sync::mpsc;

use crate::apply;
use crate::commands;
use crate::config::{Config, ConfigStore, Loaded};
use crate::execute::services::Services;
use crate::metrics::server::MetricsServer;
use crate::net::certificates::Prepared;
use crate::net::listen::{Listeners, Service};
use crate::net::moves::AcceptorHandle;
use crate::observe::logging;
use crate::observe::process;
use crate::persist::keeping;
use crate::serve::accept::Acceptor;
use crate::serve::error::ServeError;
use crate::serve::event_loop;
use crate::serve::load::load;
use crate::serve::pidfile::PidFile;
use crate::serve::signals::Signals;
use crate::serve::supervisor::Supervisor;
use crate::store::{OpenLog, Store};

/// Whether a server would start with the users of a configuration, and the names that it gives to commands.
/// They keep the names for as long as the process lives.
pub fn check_users(config: &Config) -> Result<(), ServeError> {
    commands::rename(&config.orders.renames)?;
    apply::check_users(config, &commands::catalog()).map_err(ServeError::Users)
}

/// Serves until a signal or `SHUTDOWN`. `Ok`: everything that was acknowledged is on disk.
pub fn serve(loaded: Loaded) -> Result<(), ServeError> {
    serve_beside(loaded, |_| {})
}

/// As [`serve`], for callers that work on the store in the same process: `tell` gets the services before
/// anything is loaded.
pub fn serve_beside(loaded: Loaded, tell: impl FnOnce(&Arc<Services>)) -> Result<(), ServeError> {
    let config = &loaded.config;
    prepare_directories(config)?;
    logging::init(config).map_err(|(path, source)| ServeError::LogFile { path, source })?;
    warn_of_settings(&loaded);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(not_accepting)?;
    let mut signals = {
        let _context = runtime.enter();
        Signals::catch().map_err(not_accepting)?
    };
    refuse_missing_cores(config)?;
    commands::rename(&config.orders.renames)?;
    let (threads, table) = (config.serving_threads(), commands::table());
    let store = ConfigStore::new(loaded.config.clone(), loaded.file.clone());
    let (acceptor, moves) = AcceptorHandle::new();
    let server = Arc::new(Services::new(Arc::new(store), acceptor, commands::catalog()));
    apply::load_users(&server, config).map_err(ServeError::Users)?;
    tell(&server);
    server.tls.apply(Prepared::read(config)?);
    let mut services = vec![Service::Redis, Service::RedisTls, Service::Metrics];
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
    apply::track_uses(config);
    fit_clients(&server, config);

    let mut incoming = Vec::with_capacity(threads);
    let mut workers: Vec<JoinHandle<io::Result<()>>> = Vec::with_capacity(threads);
    for index in 0..threads {
        let is_spare = index + 1 == threads;
        let (sender, receiver) = mpsc::unbounded_channel();
        incoming.push(sender);
        let (server, waker) = (server.clone(), server.wakers[index].clone());
        let cores = config.server_cores.clone();
        let run = move || {
            cores.confine()?;
            let serve = if is_spare { event_loop::run_spare } else { event_loop::run };
            serve(index, server, table, waker, receiver)
        };
        let name = if is_spare { "tarn-spare".to_owned() } else { format!("tarn-worker-{index}") };
        workers.push(spawn(name, run)?);
    }
    listeners.announce(config, server.acl.needs_password());
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

    let metrics = MetricsServer::new(server.clone(), table);
    let acceptor = Acceptor::new(server.clone(), listeners, moves, signals, incoming, metrics);
    let signals = runtime.block_on(acceptor.run()).map_err(not_accepting)?;
    signals.watch(runtime, server.shutdown.attempt());
    supervisor.stopping();
    tracing::info!("Stopping: no new connections, closing the open ones");
    // What clients were told is to be on disk all the same.
    let outcome = join_all(workers);
    server.saver.stop(&server);
    server.scrubber.stop();
    server.backups.stop();
    if server.shutdown.abandons_loading() && server.store().is_none() {
        // Its thread ends with the process; what it reads is as it was.
        tracing::info!("Loading is given up. Bye");
        return outcome;
    }
    let background = join(loader)?;
    drop(background);
    let Some(store) = server.store() else { return outcome };
    keeping::warn_of_losses(&server, store, &server.saver, &server.shutdown);
    let saved = server.shutdown.save_rest(&server, store).map_err(ServeError::LastCheckpoint);
    if let Some(open) = &*store.log.load() {
        close_log(open)?;
    }
    saved.and(outcome)
}

/// Warns of settings that are not obeyed, or hardly meant.
fn warn_of_settings(loaded: &Loaded) {
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    if let Some(line) = loaded.disobeyed_line() {
        tracing::warn!("{line}");
    }
    keeping::warn_if_nothing_is_kept(&loaded.config);
    apply::warn_of_closed_doors(&loaded.config);
}

fn refuse_missing_cores(config: &Config) -> Result<(), ServeError> {
    let lists = [("server_cpulist", &config.server_cores), ("bgsave_cpulist", &config.checkpoint_cores)];
    match lists.into_iter().find(|(_, cores)| cores.available() == Some(0)) {
        Some((directive, _)) => Err(ServeError::Cores { directive }),
        None => Ok(()),
    }
}

/// Takes checkpoints, looks for damage, and moves entries together, until the server stops.
fn look_after(server: &Services, store: &Store) {
    std::thread::scope(|scope| {
        let scrub = || {
            let tell = |what: &str| tracing::error!("Damage on the disk: {what}");
            let (engine, checkpoints) = (&store.engine, &*store.checkpoints);
            let scrubbed = Scrubbed { store: engine.store(), compactor: engine.compactor(), checkpoints };
            server.scrubber.run(scrubbed, tell);
        };
        if let Err(error) =
            std::thread::Builder::new().name("tarn-scrub".to_owned()).spawn_scoped(scope, scrub)
        {
            tracing::error!("Nobody looks for damage on the disk: no thread can be started: {error}");
        }
        let defrag = || server.defrag.run(&store.engine, || server.saver.status().running_since.is_some());
        if let Err(error) =
            std::thread::Builder::new().name("tarn-defrag".to_owned()).spawn_scoped(scope, defrag)
        {
            tracing::error!("Nobody moves entries together: no thread can be started: {error}");
        }
        server.saver.run(server, &store.engine, &store.checkpoints, || server.shutdown.save_and_end(server));
        server.scrubber.stop();
        server.defrag.stop();
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
fn fit_clients(server: &Services, config: &Config) {
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

fn spawn<T: Send + 'static>(
    name: String,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, ServeError> {
    let spawned = std::thread::Builder::new().name(name).spawn(run);
    spawned.map_err(|source| ServeError::System { what: "cannot start a thread", source })
}

/// Waits for all workers; the error of the first that has failed.
fn join_all(workers: Vec<JoinHandle<io::Result<()>>>) -> Result<(), ServeError> {
    let failed = workers.into_iter().map(join).filter_map(Result::err).reduce(|first, _| first);
    failed.map_or(Ok(()), |source| {
        tracing::error!("A worker failed: {source}");
        Err(ServeError::System { what: "a worker failed", source })
    })
}

fn join<T>(thread: JoinHandle<T>) -> T {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
