//! Tests which threads wait for the locks that a compaction holds, and that requests are heard.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::{CompactionOptions, Compactor};
use crate::Engine;
use crate::io::Clock;
use crate::record::UnixMs;

const PACED: &str = "paced";
/// A thread that has not ended by then never will.
const END_LIMIT: Duration = Duration::from_secs(60);
/// Long enough for a thread to go on to where it waits, or else the test finds nothing.
const A_MOMENT: Duration = Duration::from_millis(20);
/// A thread that keeps pace looks at the clock so often before it is about to wait.
const LOOKS: usize = 1;

/// A clock that stands still. Who keeps pace and asks what time it is, about to wait, hears it when somebody
/// wants the turn, and has had the time to say so.
#[derive(Debug)]
struct Late {
    compactor: Arc<Compactor>,
    asked: Mutex<Option<Sender<()>>>,
    /// The looks at the clock before that.
    looks: AtomicUsize,
}

impl Clock for Late {
    fn unix_ms(&self) -> UnixMs {
        1
    }

    fn monotonic(&self) -> Duration {
        if thread::current().name() == Some(PACED)
            && self.looks.fetch_add(1, Ordering::Relaxed) == LOOKS
            && let Some(asked) = self.asked.lock().unwrap().take()
        {
            asked.send(()).unwrap();
            while !self.compactor.gives_up() {
                thread::yield_now();
            }
            thread::sleep(A_MOMENT);
        }
        Duration::ZERO
    }
}

#[test]
fn who_pauses_compactions_is_heard_by_one_that_is_about_to_wait() {
    let compactor = Arc::new(Compactor::default());
    let (asked, is_asked) = channel();
    let (compactor_too, asked, looks) = (compactor.clone(), Mutex::new(Some(asked)), AtomicUsize::new(0));
    let clock = Late { compactor: compactor_too, asked, looks };
    let (engine, _background) = Engine::unlogged(1, 1, Arc::new(clock));
    let paced = compactor.clone();
    let compaction = thread::Builder::new().name(PACED.to_owned()).spawn(move || {
        let _turn = paced.turn(|| true).unwrap();
        // So much, so slowly, that it waits for days.
        let options = CompactionOptions { bytes_per_second: 1, ..CompactionOptions::default() };
        paced.keep_pace(engine.store(), Duration::ZERO, 1_000_000, &options)
    });
    is_asked.recv_timeout(END_LIMIT).unwrap();
    let (done, is_done) = channel();
    thread::spawn(move || {
        drop(compactor.pause());
        done.send(()).unwrap();
    });
    is_done.recv_timeout(END_LIMIT).expect("the compaction gives up its turn");
    assert!(!compaction.unwrap().join().unwrap(), "it is told to give up");
}

#[test]
fn who_waits_for_the_turn_gets_it_before_the_next_compaction() {
    let compactor = Compactor::default();
    let (engine, _background) = Engine::unlogged(1, 1, Arc::new(crate::io::SystemClock::new()));
    let has_stepped = std::sync::atomic::AtomicBool::new(false);
    let turn = compactor.turn(|| true).unwrap();
    thread::scope(|scope| {
        let (begins, has_begun) = channel();
        let (compactor, has_stepped) = (&compactor, &has_stepped);
        let waiting = scope.spawn(move || {
            let _turn = compactor
                .turn(|| {
                    let _ = begins.send(());
                    true
                })
                .unwrap();
            has_stepped.load(std::sync::atomic::Ordering::SeqCst)
        });
        has_begun.recv_timeout(END_LIMIT).unwrap();
        scope.spawn(|| {
            compactor.step(engine.store());
            has_stepped.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        thread::sleep(A_MOMENT);
        drop(turn);
        assert!(!waiting.join().unwrap(), "a compaction was made first");
    });
}
