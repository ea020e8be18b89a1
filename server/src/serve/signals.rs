//! Signals: SIGTERM and SIGINT end the server in order, and a second SIGINT for the same end ends it at once;
//! SIGHUP opens the message file again.

use std::io;
use std::path::PathBuf;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::observe::logging;
use crate::persist::shutdown::Attempt;
use crate::serve::pidfile;

/// The signals that concern the server. From the moment they are caught none of them ends it the hard way.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// The attempt to end the server that SIGINT came for last, if it has come.
    interrupted: Option<Option<Attempt>>,
    /// To be removed before the process ends at once.
    pidfile: Option<PathBuf>,
}

/// A signal that came, by what is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caught {
    /// Look after files that may have changed.
    Hangup,
    /// End in order; at once, if it is a second time.
    End(Ending),
}

/// A signal that ends the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
}

impl Ending {
    /// Its name, and what a shell says of a process that it has ended.
    const fn name_and_code(self) -> (&'static str, i32) {
        match self {
            Ending::Terminate => ("SIGTERM", 143),
            Ending::Interrupt => ("SIGINT", 130),
        }
    }
}

impl Signals {
    /// Catches them. REQUIRES: a runtime's context.
    pub fn catch() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            interrupted: None,
            pidfile: None,
        })
    }

    /// Names the file that is to be removed before the process ends at once.
    pub fn remove_at_end(&mut self, pidfile: Option<PathBuf>) {
        self.pidfile = pidfile;
    }

    /// The next signal.
    pub async fn next(&mut self) -> Caught {
        let ending = tokio::select! {
            _ = self.hangup.recv() => {
                tracing::info!("Received SIGHUP");
                return Caught::Hangup;
            }
            _ = self.terminate.recv() => Ending::Terminate,
            _ = self.interrupt.recv() => Ending::Interrupt,
        };
        tracing::info!("Received {}", ending.name_and_code().0);
        Caught::End(ending)
    }

    /// Whether the server is to end at once, as this signal came before for the very attempt to end it that
    /// is under way. Who presses Ctrl-C twice does not want to wait. What looks after a process may send
    /// SIGTERM again and again, and a terminal and that may each send their own for the same wish.
    pub fn is_second(&self, ending: Ending, attempt: Option<Attempt>) -> bool {
        ending == Ending::Interrupt && self.interrupted == Some(attempt)
    }

    /// Notes that a signal came for this attempt.
    pub fn note(&mut self, ending: Ending, attempt: Option<Attempt>) {
        if ending == Ending::Interrupt {
            self.interrupted = Some(attempt);
        }
    }

    /// Ends the process at once, as a crash would.
    pub fn end_now(&self, ending: Ending) -> ! {
        let (name, code) = ending.name_and_code();
        tracing::warn!("{name} for the second time: ending at once, without saving anything");
        if let Some(pidfile) = &self.pidfile {
            pidfile::remove(pidfile);
        }
        #[expect(clippy::disallowed_methods, reason = "what is asked for twice is not waited for")]
        std::process::exit(code);
    }

    /// Looks after signals on a thread of its own while the server ends: nobody else does.
    pub fn watch(mut self, runtime: Runtime, attempt: Option<Attempt>) {
        let watch = move || {
            runtime.block_on(async {
                loop {
                    match self.next().await {
                        Caught::Hangup => look_around(),
                        Caught::End(ending) if self.is_second(ending, attempt) => self.end_now(ending),
                        Caught::End(ending) => self.note(ending, attempt),
                    }
                }
            })
        };
        if let Err(error) = std::thread::Builder::new().name("tarn-signals".to_owned()).spawn(watch) {
            tracing::warn!("cannot look after signals while the server ends: {error}");
        }
    }
}

/// Handles SIGHUP, but for certificates.
pub(super) fn look_around() {
    logging::reopen_file();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::Catalog;
    use crate::config::{Config, ConfigStore};
    use crate::execute::services::Services;
    use crate::net::moves::AcceptorHandle;
    use crate::persist::shutdown::How;
    use std::sync::Arc;

    #[test]
    fn only_the_second_interrupt_for_one_and_the_same_end_ends_at_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let mut signals = {
            let _context = runtime.enter();
            Signals::catch().expect("signals can be caught")
        };
        let store = Arc::new(ConfigStore::new(Config::default(), None));
        let server = || Services::new(store.clone(), AcceptorHandle::new().0, Catalog::new(Vec::new()));
        let (interrupt, terminate) = (Ending::Interrupt, Ending::Terminate);
        let asked = server();
        let first = asked.shutdown.begin(&asked, &asked.saver, How::default());
        assert!(!signals.is_second(interrupt, Some(first)));
        signals.note(interrupt, Some(first));
        assert!(signals.is_second(interrupt, Some(first)) && !signals.is_second(terminate, Some(first)));
        // That end was refused; somebody else asks for another.
        assert!(!signals.is_second(interrupt, None));
        let other = server();
        other.shutdown.begin(&other, &other.saver, How::default());
        other.shutdown.forget_for_test();
        let second = other.shutdown.begin(&other, &other.saver, How::default());
        assert_ne!(first, second);
        assert!(!signals.is_second(interrupt, Some(second)), "it is the first one for this end");
    }
}
