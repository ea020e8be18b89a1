//! Ends the process, loudly, at a panic, unless it is of a statement that runs apart.
//!
//! ```text
//!   panic ── the message, on standard error ── is it of a statement, and outside of the engine?
//!              yes: unwinds; the statement has an error         no: a line for the log ── abort
//! ```
//!
//! Between a change's place in the log and its place in the table, in a flight of the log or with a lock
//! held, a thread that goes on, or is missed, leaves what no log has, or a server that waits for ever. The
//! log holds all that was acknowledged, so a start finds more than such a process has
//! (`docs/design/0028-panics-end-the-process.md`).

use std::cell::Cell;
use std::io::Write as _;
use std::panic::{self, PanicHookInfo};
use std::sync::mpsc;
use std::time::Duration;

/// How long the line for the log may take: the thread that panicked may hold a lock of the writer.
const LOG_PATIENCE: Duration = Duration::from_secs(1);

thread_local! {
    /// Whether this thread is at a panic already.
    static ENDING: Cell<bool> = const { Cell::new(false) };
}

/// Has panics end the process from now on: all but those of threads of which `runs_apart` says that what
/// they work at is given up, and nothing else with it. A panic within the engine is never one of them.
pub fn end_the_process(runs_apart: fn() -> bool) {
    let show = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if ENDING.get() {
            std::process::abort();
        }
        let in_engine = info.location().is_some_and(|place| tarn_engine::is_its_source(place.file()));
        if runs_apart() && !in_engine {
            tracing::error!("a statement is given up: {}", told(info));
            return;
        }
        ENDING.set(true);
        show(info);
        end(&told(info));
    }));
}

/// Where and why, in a line.
fn told(info: &PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a thread");
    let why = info.payload_as_str().unwrap_or("without a message");
    match info.location() {
        Some(place) => format!("{name} panicked at {place}: {why}"),
        None => format!("{name} panicked: {why}"),
    }
}

fn end(told: &str) -> ! {
    let line = format!(
        "{told}; the server ends here, as what this thread was changing may be half done: start it again, \
         and report this"
    );
    let _ = writeln!(std::io::stderr(), "tarn: {line}");
    let (sender, written) = mpsc::channel();
    let logs = move || {
        tracing::error!("{line}");
        let _ = sender.send(());
    };
    if std::thread::Builder::new().spawn(logs).is_ok() {
        let _ = written.recv_timeout(LOG_PATIENCE);
    }
    std::process::abort();
}
