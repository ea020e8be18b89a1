//! The threads that plan and run statements.
//!
//! ```text
//!   connections, cancel requests, timeouts ── work ──▶ analytics-threads: plans, batches
//!                (the caller's thread)      ◀── done ──
//! ```
//!
//! They are separate from the threads that talk to clients. So long work delays no connection, and the thread
//! that waits for it can abandon it even if the work does not respond.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_util::task::AbortOnDropHandle;

use crate::error::QueryError;
use crate::guard::complexity::STACK_BYTES;
use crate::statement::constants::new_turn;

/// The priority of queries: a tenth of what others get where there is not enough for all.
const PRIORITY: i32 = 10;

/// Threads to which work without a pause may go, beyond those that there are for all.
const ASIDE_MAX: usize = 64;

/// How long a caller that stops work waits for its end.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// How long work waits for another thread to take over the rest.
const HANDOVER: Duration = Duration::from_millis(1);

/// The threads that plan and run statements.
#[derive(Debug)]
pub(crate) struct Compute(Option<Runtime>);

impl Compute {
    /// Starts them.
    pub(crate) fn start(threads: usize) -> io::Result<Compute> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .max_blocking_threads(ASIDE_MAX)
            .thread_name("tarn-query")
            .thread_stack_size(STACK_BYTES)
            .on_thread_start(give_way)
            .enable_all()
            .build()?;
        Ok(Compute(Some(runtime)))
    }

    /// Has work done there, unless it is to stop before. Dropping what is returned stops it at its next
    /// pause.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, QueryError>> + Send + 'static,
        stop: impl Future<Output = QueryError>,
    ) -> Result<T, QueryError> {
        let runtime = self.0.as_ref().expect("it is there until it is dropped");
        let mut work = Box::pin(work);
        let work = std::future::poll_fn(move |cx| {
            new_turn();
            work.as_mut().poll(cx)
        });
        let mut task = AbortOnDropHandle::new(runtime.spawn(work));
        let done = tokio::select! {
            biased;
            done = &mut task => done,
            reason = stop => {
                task.abort();
                // Its resources are released before the result is reported, unless it does not respond.
                let _ = tokio::time::timeout(END_PATIENCE, task).await;
                return Err(reason);
            }
        };
        done.unwrap_or_else(|error| Err(QueryError::GivenUp(error)))
    }
}

impl Drop for Compute {
    fn drop(&mut self) {
        // The code that drops it may be in the middle of something that must not wait.
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// Lets other statements have the calling thread's turn: what goes on here has a thread of its own from now
/// on, until its next pause.
pub(crate) fn step_aside() {
    tokio::task::block_in_place(|| std::thread::sleep(HANDOVER));
}

thread_local! {
    /// Whether this thread works for queries.
    static RUNS_APART: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread works for queries: a panic there ends its statement, and nothing else.
pub fn runs_apart() -> bool {
    RUNS_APART.get()
}

/// Makes the calling thread give way to threads that serve Redis's clients. Called by each thread that works
/// for queries.
pub fn give_way() {
    RUNS_APART.set(true);
    // Without it queries are as fast, and clients wait longer: nothing that a query depends on.
    if let Err(error) = rustix::process::setpriority_process(None, PRIORITY) {
        tracing::debug!("queries run at the priority of all others: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn what_steps_aside_holds_up_nobody() {
        let compute = Compute::start(1).expect("threads");
        let ends = Arc::new(AtomicBool::new(false));
        let until = ends.clone();
        let busy = compute.run(
            async move {
                while !until.load(Ordering::Relaxed) {
                    step_aside();
                }
                Ok(())
            },
            pending(),
        );
        let other = async {
            compute.run(async { Ok(()) }, pending()).await.expect("it has its turn");
            ends.store(true, Ordering::Relaxed);
        };
        let (busy, ()) = tokio::join!(busy, other);
        busy.expect("it ends");
    }

    #[tokio::test]
    async fn what_is_stopped_has_given_back_what_it_held() {
        let compute = Compute::start(1).expect("threads");
        let held = Arc::new(());
        let holds = held.clone();
        let work = async move {
            let _holds = holds;
            pending::<Result<(), QueryError>>().await
        };
        let stopped = compute.run(work, async { QueryError::Cancelled }).await;
        assert!(matches!(stopped, Err(QueryError::Cancelled)));
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[tokio::test]
    async fn a_panic_is_an_error_of_its_statement() {
        let compute = Compute::start(1).expect("threads");
        let error =
            compute.run::<()>(async { panic!("on purpose") }, pending()).await.expect_err("it panicked");
        assert!(matches!(error, QueryError::GivenUp(_)), "{error}");
        compute.run(async { Ok(()) }, pending()).await.expect("the thread goes on");
    }
}
