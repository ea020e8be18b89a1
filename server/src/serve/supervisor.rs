//! Telling who supervises the process, systemd or Upstart, how the server is doing.
//!
//! ```text
//!   systemd:  EXTEND_TIMEOUT_USEC … READY ── the last checkpoint: EXTEND_TIMEOUT_USEC … ┬─ refused: STATUS
//!                                                                                      └─ STOPPING ── end
//!   Upstart:  the process stops itself when it is ready, and Upstart lets it go on
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use sd_notify::NotifyState;
use tarn_engine::lock::{Condvar, Mutex};

use crate::config::{Config, Supervised};
use crate::execute::services::Services;

/// How often it is looked whether the data is loaded.
const LOOKED_EVERY: Duration = Duration::from_millis(100);
/// How often it is looked, while the server serves, whether its end is asked for.
const END_LOOKED_FOR_EVERY: Duration = Duration::from_secs(1);
/// How often systemd is told that loading or stopping goes on.
const TOLD_EVERY: u32 = 50;
/// How long systemd then waits for the next word, in microseconds.
const PATIENCE_US: u32 = 60_000_000;

/// Who supervises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Systemd,
    Upstart,
}

/// Whether somebody supervises the process as the configuration says; then it stays in the foreground.
pub fn is_supervised(config: &Config) -> bool {
    kind(config.supervised, |name| std::env::var_os(name).is_some()).is_some()
}

/// Who supervises, as the configuration says and the environment has it.
fn kind(supervised: Supervised, is_set: impl Fn(&str) -> bool) -> Option<Kind> {
    let systemd = is_set("NOTIFY_SOCKET").then_some(Kind::Systemd);
    let upstart = is_set("UPSTART_JOB").then_some(Kind::Upstart);
    match supervised {
        Supervised::No => None,
        Supervised::Systemd => systemd,
        Supervised::Upstart => upstart,
        Supervised::Auto => upstart.or(systemd),
    }
}

/// How far the server is.
#[derive(Debug, Default)]
struct Phase {
    stopping: bool,
    /// Nothing follows. What has not been told yet still is.
    ended: bool,
}

type SharedPhase = (Mutex<Phase>, Condvar);

/// Tells until it is dropped.
#[derive(Debug)]
pub struct Supervisor {
    phase: Arc<SharedPhase>,
    thread: Option<JoinHandle<()>>,
}

impl Supervisor {
    /// Tells how `server` is doing, if the configuration wants that and somebody supervises it.
    pub fn tell(server: &Arc<Services>, config: &Config) -> Supervisor {
        let phase = Arc::<SharedPhase>::default();
        let kind = kind(config.supervised, |name| std::env::var_os(name).is_some());
        if kind.is_none() && matches!(config.supervised, Supervised::Systemd | Supervised::Upstart) {
            tracing::warn!(
                "'supervised {}' is told to nobody: the environment has no NOTIFY_SOCKET or UPSTART_JOB for \
                 it",
                config.supervised.name()
            );
        }
        let thread = kind.and_then(|kind| {
            let (server, phase) = (server.clone(), phase.clone());
            let tell = move || tell(&server, kind, &phase);
            let spawned = std::thread::Builder::new().name("tarn-supervised".to_owned()).spawn(tell);
            spawned.inspect_err(|error| tracing::warn!("nobody is told of the start: {error}")).ok()
        });
        Supervisor { phase, thread }
    }

    /// The server stops from now on.
    pub fn stopping(&self) {
        self.change(|phase| phase.stopping = true);
    }

    fn change(&self, change: impl FnOnce(&mut Phase)) {
        change(&mut self.phase.0.lock());
        self.phase.1.notify_all();
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.change(|phase| phase.ended = true);
        if let Some(thread) = self.thread.take() {
            // It does nothing that could panic, and if it did, the server ends all the same.
            let _ = thread.join();
        }
    }
}

fn tell(server: &Services, kind: Kind, phase: &SharedPhase) {
    let serving = || match server.store() {
        None => Doing::Loading,
        Some(_) if server.shutdown.is_running() => Doing::Saving,
        Some(_) => Doing::Serving,
    };
    look_until_the_end(phase, serving, |told, doing| {
        let status = match doing {
            Doing::Loading => loading(server),
            Doing::Serving => "Ready to accept connections".to_owned(),
            Doing::Saving => "Taking the last checkpoint".to_owned(),
            Doing::Stopping => "Stopping".to_owned(),
        };
        let status = NotifyState::Status(&status);
        match told {
            Told::Nothing => {}
            Told::Ready if kind == Kind::Upstart => stop_until_upstart_goes_on(),
            Told::Ready => notify(kind, &[NotifyState::Ready, status]),
            Told::Status => notify(kind, &[status]),
            Told::GoesOn => notify(kind, &[status, NotifyState::ExtendTimeoutUsec(PATIENCE_US)]),
            Told::Stopping => {
                let goes_on = NotifyState::ExtendTimeoutUsec(PATIENCE_US);
                notify(kind, &[NotifyState::Stopping, status, goes_on]);
            }
        }
    });
}

/// Looks again and again what the server does, and tells. A server that ends before this thread gets its turn
/// is told to stop all the same.
fn look_until_the_end(phase: &SharedPhase, serving: impl Fn() -> Doing, mut say: impl FnMut(Told, Doing)) {
    let mut teller = Teller::default();
    loop {
        // Before the phase is locked, which is a leaf.
        let serving = serving();
        let mut now = phase.0.lock();
        let doing = if now.stopping { Doing::Stopping } else { serving };
        if now.stopping || !now.ended {
            say(teller.look(doing), doing);
        }
        if now.ended {
            return;
        }
        let pause = if doing == Doing::Serving { END_LOOKED_FOR_EVERY } else { LOOKED_EVERY };
        phase.1.wait_for(&mut now, pause);
    }
}

/// The phase of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Loading,
    Serving,
    /// It takes the checkpoint that its end waits for; that may be refused or aborted.
    Saving,
    Stopping,
}

/// The state that is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Ready,
    Status,
    /// That it goes on, and needs time.
    GoesOn,
    Stopping,
}

/// Decides what to tell, from look to look.
#[derive(Debug, Default)]
struct Teller {
    last: Option<Doing>,
    is_ready: bool,
    /// Looks since the last word.
    silent: u32,
}

impl Teller {
    fn look(&mut self, doing: Doing) -> Told {
        let is_new = self.last.replace(doing) != Some(doing);
        self.silent += 1;
        let is_due = is_new || self.silent >= TOLD_EVERY;
        let told = match doing {
            Doing::Serving if !std::mem::replace(&mut self.is_ready, true) => Told::Ready,
            Doing::Serving if is_new => Told::Status,
            Doing::Serving => Told::Nothing,
            // systemd takes this word back from nobody, so it is said when nothing refuses the end any more.
            Doing::Stopping if is_new => Told::Stopping,
            Doing::Loading | Doing::Saving | Doing::Stopping if is_due => Told::GoesOn,
            Doing::Loading | Doing::Saving | Doing::Stopping => Told::Nothing,
        };
        if told != Told::Nothing {
            self.silent = 0;
        }
        told
    }
}

fn loading(server: &Services) -> String {
    let read = server.loading.bytes_read.load(Ordering::Relaxed);
    let bytes = server.loading.bytes.load(Ordering::Relaxed);
    format!("Loading: {} %", (100 * u128::from(read)).checked_div(u128::from(bytes)).unwrap_or(0).min(100))
}

fn notify(kind: Kind, states: &[NotifyState]) {
    if kind == Kind::Systemd
        && let Err(error) = sd_notify::notify(false, states)
    {
        tracing::warn!("systemd cannot be told: {error}");
    }
}

fn stop_until_upstart_goes_on() {
    if let Err(error) =
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)
    {
        tracing::warn!("Upstart cannot be told: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_supervisor_is_the_one_that_is_asked_for_and_is_there() {
        let both = |_: &str| true;
        let systemd = |name: &str| name == "NOTIFY_SOCKET";
        let nobody = |_: &str| false;
        assert_eq!(kind(Supervised::No, both), None);
        assert_eq!(kind(Supervised::Systemd, both), Some(Kind::Systemd));
        assert_eq!(kind(Supervised::Upstart, both), Some(Kind::Upstart));
        assert_eq!(kind(Supervised::Upstart, systemd), None);
        assert_eq!(kind(Supervised::Auto, systemd), Some(Kind::Systemd));
        assert_eq!(kind(Supervised::Systemd, nobody), None);
        assert_eq!(kind(Supervised::Auto, nobody), None);
    }

    #[test]
    fn an_end_that_is_quick_is_told() {
        let told = |stopping: bool, ended: bool| {
            let phase = SharedPhase::default();
            *phase.0.lock() = Phase { stopping, ended };
            let mut all = Vec::new();
            look_until_the_end(&phase, || Doing::Serving, |told, _| all.push(told));
            all
        };
        assert_eq!(told(true, true), [Told::Stopping]);
        // A start that failed.
        assert_eq!(told(false, true), []);
    }

    #[test]
    fn a_last_checkpoint_gets_its_time_and_a_refused_end_is_taken_back() {
        let mut teller = Teller::default();
        let mut told = |doing, looks: u32| {
            let told: Vec<Told> = (0..looks).map(|_| teller.look(doing)).collect();
            told.into_iter().filter(|told| *told != Told::Nothing).collect::<Vec<_>>()
        };
        assert_eq!(told(Doing::Loading, 2 * TOLD_EVERY), [Told::GoesOn; 2]);
        assert_eq!(told(Doing::Serving, 1000), [Told::Ready]);
        assert_eq!(told(Doing::Saving, 3 * TOLD_EVERY), [Told::GoesOn; 3]);
        assert_eq!(told(Doing::Serving, 1000), [Told::Status]);
        assert_eq!(told(Doing::Saving, 1), [Told::GoesOn]);
        assert_eq!(told(Doing::Stopping, 2 * TOLD_EVERY), [Told::Stopping, Told::GoesOn]);
    }
}
