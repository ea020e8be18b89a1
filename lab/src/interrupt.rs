//! Ctrl-C: the first one asks the experiment to stop, so that its servers and directories go away; the second
//! ends the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::{LabError, Result};

static ASKED_TO_STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Starts to listen for Ctrl-C and for `SIGTERM`.
pub fn listen() {
    for signal in [SIGINT, SIGTERM] {
        // Conditional shutdown comes first: it must see the flag of an earlier signal, not of this one.
        let armed = signal_hook::flag::register_conditional_shutdown(signal, 130, ASKED_TO_STOP.clone())
            .and_then(|_| signal_hook::flag::register(signal, ASKED_TO_STOP.clone()));
        if let Err(error) = armed {
            eprintln!("cannot listen for signals: {error}");
        }
    }
}

/// True once somebody pressed Ctrl-C.
pub fn asked() -> bool {
    ASKED_TO_STOP.load(Ordering::Relaxed)
}

/// Fails once somebody pressed Ctrl-C. Long loops call this in every turn.
pub fn check() -> Result<()> {
    if asked() { Err(LabError::Interrupted) } else { Ok(()) }
}

/// Looks again and again, at intervals of `every`, until there is something; `None` if there is nothing when
/// `patience` is over. Fails once somebody pressed Ctrl-C.
pub fn wait_for<T>(
    every: Duration,
    patience: Duration,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let began = Instant::now();
    loop {
        let found = look()?;
        if found.is_some() || began.elapsed() > patience {
            return Ok(found);
        }
        check()?;
        std::thread::sleep(every);
    }
}
