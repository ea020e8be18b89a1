//! Messages to the operator: where they go, and the level that `CONFIG SET loglevel` changes.
//!
//! Who rotates the file renames it; a new one of its name is begun then, at once by SIGHUP, and within a
//! second without.

use std::fs::{File, Metadata};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tarn_engine::lock::{Mutex, rank};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

use crate::config::{Config, LogLevel};

static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();
static FILE: OnceLock<MessageFile> = OnceLock::new();

/// Sets up messages as the configuration wants them: to `logfile`, below `dir` if relative, or to standard
/// error. Does nothing the second time. The error has the file that cannot be written.
pub(crate) fn init(config: &Config) -> Result<(), (PathBuf, io::Error)> {
    let (writer, colours) = match config.logfile_path() {
        None => (BoxMakeWriter::new(io::stderr), io::stderr().is_terminal()),
        Some(path) => {
            let file = MessageFile::open(&path).map_err(|error| (path, error))?;
            let file = FILE.get_or_init(|| file);
            (BoxMakeWriter::new(move || file), false)
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
pub(crate) fn set_level(level: LogLevel) {
    if let Some(handle) = LEVEL.get() {
        // It fails only when there is no subscriber any more, and then there is nothing to filter.
        let _ = handle.reload(filter_of(level));
    }
}

/// Goes on in a new file if the one of the messages is not found by its name any more.
pub(crate) fn follow_file() {
    if let Some(file) = FILE.get().filter(|file| !file.is_in_place()) {
        reopen(file);
    }
}

/// Opens the log file of messages again.
pub(crate) fn reopen_file() {
    FILE.get().into_iter().for_each(reopen);
}

fn reopen(file: &MessageFile) {
    match file.reopen() {
        Ok(()) => tracing::info!("The file of messages was opened again"),
        // Said in the file that it is, as there is no other.
        Err(error) => tracing::warn!("cannot open {} again: {error}", file.path.display()),
    }
}

/// The file of the messages.
#[derive(Debug)]
struct MessageFile {
    path: PathBuf,
    file: Mutex<File, rank::Messages>,
}

impl MessageFile {
    fn open(path: &Path) -> io::Result<MessageFile> {
        Ok(MessageFile { path: path.to_owned(), file: Mutex::new(append_to(path)?) })
    }

    fn reopen(&self) -> io::Result<()> {
        let file = append_to(&self.path)?;
        *self.file.lock() = file;
        Ok(())
    }

    fn is_in_place(&self) -> bool {
        let place = |found: Metadata| (found.dev(), found.ino());
        let found = std::fs::metadata(&self.path).map(place).ok();
        // Who cannot look at the open one leaves it.
        self.file.lock().metadata().map(place).map_or(true, |open| found == Some(open))
    }
}

impl Write for &MessageFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.lock().flush()
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

fn filter_of(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Debug => LevelFilter::TRACE,
        LogLevel::Verbose => LevelFilter::DEBUG,
        LogLevel::Notice => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
    }
}
