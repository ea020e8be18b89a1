//! The gate: while a command is slow inside it, neither a compaction nor a closer of the gate holds up the
//! others.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tarn_engine::Engine;
use tarn_engine::io::ManualClock;

/// As often as a worker comes in again while another one is slow.
const TURNS: usize = 200;

/// Another worker comes and goes while worker 1 is inside and `closes` waits for it.
fn others_go_on(closes: impl Fn(&Engine) + Sync) {
    let (engine, _background) = Engine::unlogged(1, 2, Arc::new(ManualClock::new(0)));
    let (slow, over, closed) = (engine.enter(1), AtomicBool::new(false), AtomicBool::new(false));
    let (sender, entered) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            closes(&engine);
            closed.store(true, Ordering::Relaxed);
        });
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                drop(engine.enter(0));
                let _ = sender.send(());
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let turns = (0..TURNS).map_while(|_| entered.recv_timeout(Duration::from_secs(30)).ok()).count();
        let early = closed.load(Ordering::Relaxed);
        over.store(true, Ordering::Relaxed);
        drop(slow);
        assert_eq!(turns, TURNS, "a worker was held while another one was slow");
        assert!(!early, "somebody was still inside");
    });
    assert!(closed.into_inner());
}

#[test]
fn who_closes_waits_for_a_slow_one_and_holds_nobody_else() {
    others_go_on(|engine| drop(engine.close_gate()));
}

#[test]
fn a_fork_waits_for_a_slow_one_and_holds_nobody_else() {
    others_go_on(|engine| drop(engine.fork_scan(0)));
}

/// A thread that shows figures is inside, and one that declares something closes the gate.
#[test]
#[cfg(debug_assertions)]
fn the_turn_of_who_declares_is_not_taken_inside_the_gate() {
    let (engine, _background) = Engine::unlogged(1, 1, Arc::new(ManualClock::new(0)));
    let declared = tarn_engine::declared::Declared::new(0);
    let inside = engine.enter(0);
    assert_eq!(*declared.now(), 0);
    let taken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(declared.turn())));
    drop(inside);
    let told = *taken.expect_err("it was taken").downcast::<String>().unwrap();
    assert!(told.contains("\"declarations\"") && told.contains("\"gate\""), "{told}");
    drop(declared.turn());
}
