//! A panic of the engine or of a thread of the log ends the process; one of a statement does not. Each scene
//! is played by this test's program in a process of its own.

#![allow(clippy::unwrap_used)]

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tarn_engine::io::{Clock, ManualClock, SimDisk, SimOptions};
use tarn_engine::record::{UnixMs, Write};
use tarn_engine::recovery;
use tarn_engine::{Engine, Group, Log, LogOptions};
use tarn_server::serve::panics::end_the_process;

/// Holds what the process is to do.
const SCENE: &str = "TARN_TEST_PANICS";
/// The line printed where a process goes on.
const GOES_ON: &str = "it goes on";

/// Who has not ended by then goes on.
const LIMIT: Duration = Duration::from_secs(60);

/// Plays a scene, if this process was started for that.
#[test]
fn plays() {
    match std::env::var(SCENE).as_deref() {
        Ok("a flight of the log") => {
            end_the_process(|| false);
            write_with_a_flight_that_panics();
        }
        Ok("the engine, below a statement") => {
            end_the_process(|| true);
            let (engine, _background) =
                Engine::new(recovery::empty(1), 1, None, Arc::default(), Arc::new(ManualClock::new(1)));
            let statement = std::thread::spawn(move || engine.enter(0).is_beyond_cache(7));
            assert!(statement.join().is_err(), "there is no database 7");
        }
        Ok("a statement") => {
            end_the_process(|| true);
            let statement = std::thread::spawn(|| panic!("a library's fault"));
            assert!(statement.join().is_err());
        }
        Ok(other) => panic!("there is no scene {other}"),
        Err(_) => return,
    }
    println!("{GOES_ON}");
}

/// A clock that those cannot read who write the log.
#[derive(Debug)]
struct Broken;

impl Clock for Broken {
    fn unix_ms(&self) -> UnixMs {
        1
    }

    fn monotonic(&self) -> Duration {
        let thread = std::thread::current();
        assert!(
            !thread.name().is_some_and(|name| name.starts_with("tarn-log-flight")),
            "the clock is broken"
        );
        Duration::ZERO
    }
}

fn write_with_a_flight_that_panics() {
    let disk = Arc::new(SimDisk::new(1, SimOptions::default()));
    let options = LogOptions { clock: Arc::new(Broken), ..LogOptions::new(vec!["/log".into()]) };
    let (log, _) = Log::open(disk, options).unwrap().into_log().unwrap();
    let mut group = Group::new();
    group.push(&Write::Flush { db: None });
    let appender = log.appender();
    let last = appender.append(&group).unwrap();
    // Where the panic ends its thread alone, this waits for ever.
    std::thread::spawn(move || appender.sync_up_to(last));
    std::thread::sleep(LIMIT);
}

/// The exit status and output of a process that plays a scene.
fn play(scene: &str) -> (ExitStatus, String, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "plays", "--nocapture"]).env(SCENE, scene);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status, text(&output.stdout), text(&output.stderr))
}

#[track_caller]
fn assert_ends(scene: &str, why: &str) {
    let (status, printed, errors) = play(scene);
    assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()), "{printed}{errors}");
    assert!(!printed.contains(GOES_ON), "{printed}");
    assert!(errors.lines().any(|line| line.starts_with("tarn: ") && line.contains(why)), "{errors}");
}

#[test]
fn of_a_flight_of_the_log() {
    assert_ends("a flight of the log", "tarn-log-flight panicked");
}

#[test]
fn of_the_engine_where_a_statement_called_it() {
    assert_ends("the engine, below a statement", "session/mod.rs");
}

#[test]
fn none_of_a_statement_itself() {
    let (status, printed, errors) = play("a statement");
    assert!(status.success() && printed.contains(GOES_ON), "{status}: {errors}");
}
