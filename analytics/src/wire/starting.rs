//! Connections without a password yet: their number is limited, and one more ends the oldest, so that neither
//! silent clients nor many of them lock out others.

use std::collections::VecDeque;
use std::sync::Arc;

use tarn_engine::lock::Mutex;
use tokio::task::{AbortHandle, JoinHandle};

/// How many may be at their start at once.
pub(super) const STARTING_MAX: usize = 32;

/// The connections that are at their start, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Starting(Arc<Mutex<VecDeque<(u64, AbortHandle)>>>);

/// A connection at its start. Dropped, it is that no longer.
#[derive(Debug)]
pub(super) struct AtStart {
    all: Starting,
    number: u64,
}

impl Starting {
    /// Runs a connection; what `talk` gets is held by it while it is at its start.
    pub(super) fn spawn<T: Future<Output = ()> + Send + 'static>(
        &self,
        number: u64,
        talk: impl FnOnce(AtStart) -> T,
    ) -> JoinHandle<()> {
        let talking = talk(AtStart { all: self.clone(), number });
        let mut all = self.0.lock();
        // It cannot have begun before it is noted, as it is forgotten under the same lock.
        let task = tokio::spawn(talking);
        all.push_back((number, task.abort_handle()));
        let one_too_many = if all.len() > STARTING_MAX { all.pop_front() } else { None };
        drop(all);
        if let Some((_, oldest)) = one_too_many {
            oldest.abort();
        }
        task
    }
}

impl Drop for AtStart {
    fn drop(&mut self) {
        self.all.0.lock().retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_too_many_ends_the_oldest_and_who_has_started_is_left_alone() {
        let starting = Starting::default();
        let begin = |number| {
            let (entered, may_enter) = tokio::sync::oneshot::channel::<()>();
            let talk = |at_start: AtStart| async move {
                let _ = may_enter.await;
                drop(at_start);
                std::future::pending::<()>().await;
            };
            (starting.spawn(number, talk), entered)
        };
        let mut first = begin(0);
        let (second, is_in) = begin(1);
        is_in.send(()).expect("it waits");
        tokio::task::yield_now().await;
        let others: Vec<_> = (2..2 + STARTING_MAX as u64).map(begin).collect();
        assert!((&mut first.0).await.is_err_and(|error| error.is_cancelled()));
        assert!(!second.is_finished() && others.iter().all(|(task, _)| !task.is_finished()));
        assert_eq!(starting.0.lock().len(), STARTING_MAX);
    }
}
