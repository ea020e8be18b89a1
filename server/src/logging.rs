//! Messages to the operator: where they go, and the level that `CONFIG SET loglevel` changes.

use crate::config::{Config, LogLevel};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::OnceLock;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Sets up messages as the configuration wants them: to `logfile`, below `dir` if relative, or to standard
/// error. Does nothing the second time. The error has the file that cannot be written.
pub fn init(config: &Config) -> Result<(), (PathBuf, io::Error)> {
    let (writer, colours) = match config.logfile_path() {
        None => (BoxMakeWriter::new(io::stderr), io::stderr().is_terminal()),
        Some(path) => {
            let file = File::options().create(true).append(true).open(&path);
            (BoxMakeWriter::new(file.map_err(|error| (path, error))?), false)
        }
    };
    let (filter, handle) = reload::Layer::new(filter_of(config.loglevel));
    let lines = tracing_subscriber::fmt::layer().with_target(false).with_ansi(colours).with_writer(writer);
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        let _ = LEVEL.set(handle);
    }
    Ok(())
}

/// Changes the level of the messages from now on.
pub fn set_level(level: LogLevel) {
    if let Some(handle) = LEVEL.get() {
        // It fails only when there is no subscriber any more, and then there is nothing to filter.
        let _ = handle.reload(filter_of(level));
    }
}

fn filter_of(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Debug => LevelFilter::TRACE,
        LogLevel::Verbose => LevelFilter::DEBUG,
        LogLevel::Notice => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
    }
}
