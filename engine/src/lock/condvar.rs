//! A condition variable for locks with ranks.

use super::{MutexGuard, Rank};
use std::time::Duration;

#[cfg(shuttle)]
pub use by_shuttle::Condvar;
#[cfg(not(shuttle))]
pub use plainly::Condvar;

impl Condvar {
    /// Waits as long as the condition holds.
    #[track_caller]
    pub fn wait_while<T, R: Rank>(
        &self,
        guard: &mut MutexGuard<'_, T, R>,
        mut holds: impl FnMut(&mut T) -> bool,
    ) {
        while holds(guard) {
            self.wait(guard);
        }
    }
}

#[cfg(not(shuttle))]
mod plainly {
    use super::{Duration, MutexGuard, Rank};
    use crate::lock::{plain, waits};

    /// As that of the standard library.
    #[derive(Debug, Default)]
    pub struct Condvar(plain::Condvar);

    impl Condvar {
        /// One that nobody waits for.
        pub fn new() -> Condvar {
            Condvar::default()
        }

        /// Wakes one who waits.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        /// Wakes all who wait.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }

        /// Gives the lock back until somebody notifies.
        #[track_caller]
        pub fn wait<T, R: Rank>(&self, guard: &mut MutexGuard<'_, T, R>) {
            guard.held.may_wait();
            self.0.wait(&mut guard.raw);
            waits::note_only::<R>();
        }

        /// Gives the lock back until somebody notifies, but for no longer than this.
        #[track_caller]
        pub fn wait_for<T, R: Rank>(&self, guard: &mut MutexGuard<'_, T, R>, time: Duration) {
            guard.held.may_wait();
            self.0.wait_for(&mut guard.raw, time);
            waits::note_only::<R>();
        }
    }
}

#[cfg(shuttle)]
mod by_shuttle {
    use super::{Duration, MutexGuard, Rank};
    use shuttle_parking_lot::MutexGuard as Raw;

    /// As that of the standard library, for the checker's locks. Each notified thread wakes all: a wait may
    /// end without a reason at any time. A wait with a limit ends at once.
    #[derive(Debug, Default)]
    pub struct Condvar {
        /// How often somebody was notified.
        notified: shuttle::sync::Mutex<u64>,
        changed: shuttle::sync::Condvar,
    }

    impl Condvar {
        /// One that nobody waits for.
        pub fn new() -> Condvar {
            Condvar::default()
        }

        /// As `notify_all`.
        pub fn notify_one(&self) {
            self.notify_all();
        }

        /// Wakes all who wait.
        pub fn notify_all(&self) {
            *self.notified.lock().expect("nobody panics here") += 1;
            self.changed.notify_all();
        }

        /// Gives the lock back until somebody notifies.
        pub fn wait<T, R: Rank>(&self, guard: &mut MutexGuard<'_, T, R>) {
            // Before it is unlocked: a thread that changes what is waited for notifies after that.
            let mut notified = self.notified.lock().expect("nobody panics here");
            let before = *notified;
            Raw::unlocked(&mut guard.raw, move || {
                while *notified == before {
                    notified = self.changed.wait(notified).expect("nobody panics here");
                }
            });
        }

        /// Gives the lock back for a moment.
        pub fn wait_for<T, R: Rank>(&self, guard: &mut MutexGuard<'_, T, R>, _: Duration) {
            Raw::unlocked(&mut guard.raw, shuttle::thread::yield_now);
        }
    }
}
