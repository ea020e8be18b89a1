//! The mutexes below those with ranks: the standard library's, without poison. A panic ends the process
//! anyhow (`docs/design/0028-panics-end-the-process.md`).
//!
//! Not those of `parking_lot`: to be fair, its mutex is handed over, now and then, to a thread that waits.
//! That thread holds it from then on, and on busy processors it may take milliseconds until it runs. Here a
//! mutex that is given back is free, and a running thread takes it (`docs/design/0032-latency-ledger.md`).

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::sync::TryLockError;
use std::time::Duration;

/// A mutex.
pub struct Mutex<T>(std::sync::Mutex<T>);

/// A mutex that is held. It is `None` only while its thread waits for a condition.
pub struct MutexGuard<'l, T>(Option<std::sync::MutexGuard<'l, T>>);

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(MutexGuard(Some(guard))),
            Err(TryLockError::Poisoned(guard)) => Some(MutexGuard(Some(guard.into_inner()))),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_deref().expect("a thread that waits for a condition does nothing else")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_deref_mut().expect("a thread that waits for a condition does nothing else")
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A condition variable for such mutexes.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(held) = guard.0.take() {
            guard.0 = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }
    }

    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) {
        if let Some(held) = guard.0.take() {
            let waited = self.0.wait_timeout(held, time);
            guard.0 = Some(waited.unwrap_or_else(PoisonError::into_inner).0);
        }
    }
}
