//! Plays every behaviour script of `testscripts/` against Tarn and, where it is installed, against the real
//! `redis-server`.
//!
//! A script is commands, `---`, replies: `testscripts/README.md` describes the notation. Each script is two
//! tests, named `tarn::strings/get` and `redis::strings/get`, and each gets a fresh server on a free loopback
//! port, so scripts cannot disturb each other and any of them runs alone: `cargo test -p tarn --test scripts
//! -- tarn::strings/get`.
//!
//! The environment chooses more:
//! - `TARN_SCRIPTS_RECORD=1` writes the replies of `redis-server` into the scripts instead of comparing them;
//! - `TARN_SCRIPTS_SERVER=host:port` plays them one after the other against a server that runs already, whose
//!   data is lost.

// This program is meant to print to the terminal, and a test may fail by panicking.
#![allow(clippy::unwrap_used)]

mod client;
mod coverage;
mod described;
mod player;
mod reply;
mod script;
mod selfcheck;
mod server;
mod words;

use client::Client;
use libtest_mimic::{Arguments, Failed, Trial};
use script::Script;
use server::{Kind, Server};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let scripts = match read_all(&folder()) {
        Ok(scripts) => Arc::new(scripts),
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    let trials = if let Ok(address) = std::env::var("TARN_SCRIPTS_SERVER") {
        arguments.test_threads = Some(1);
        trials_on_running_server(&scripts, &address)
    } else if std::env::var_os("TARN_SCRIPTS_RECORD").is_some() {
        recording_trials(&scripts)
    } else {
        comparing_trials(&scripts)
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The folder of the scripts in the source tree.
fn folder() -> PathBuf {
    Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
        .parent()
        .expect("the package lies in the workspace")
        .join("testscripts")
}

/// All scripts, by name. A script that cannot be read or parsed stops everything with its file and line.
fn read_all(folder: &Path) -> Result<Vec<Script>, String> {
    let mut scripts = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inside) = folders.pop() {
        let entries = std::fs::read_dir(&inside).map_err(|error| format!("{}: {error}", inside.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| format!("{}: {error}", inside.display()))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "txt") {
                scripts.push(Script::read(folder, &path)?);
            }
        }
    }
    scripts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scripts)
}

fn comparing_trials(scripts: &Arc<Vec<Script>>) -> Vec<Trial> {
    let mut kinds = vec![Kind::Tarn];
    if Kind::Redis.is_installed() {
        kinds.push(Kind::Redis);
    } else {
        eprintln!("redis-server is not on the PATH: the scripts are played against Tarn alone");
    }
    let mut trials = coverage::trials(scripts);
    trials.extend(described::trials());
    trials.extend(selfcheck::trials());
    for kind in kinds {
        for (index, script) in scripts.iter().enumerate() {
            let scripts = Arc::clone(scripts);
            trials.push(Trial::test(format!("{}::{}", kind.name(), script.name), move || {
                let server = Server::start(kind)?;
                verdict(player::compare(&scripts[index], server.address(), kind))
            }));
        }
    }
    trials
}

fn trials_on_running_server(scripts: &Arc<Vec<Script>>, address: &str) -> Vec<Trial> {
    let on_server = |index: usize| {
        let (scripts, address) = (Arc::clone(scripts), address.to_owned());
        let name = format!("server::{}", scripts[index].name);
        Trial::test(name, move || {
            Client::connect(&address)?.ask(&["FLUSHALL"])?;
            verdict(player::compare(&scripts[index], &address, Kind::Tarn))
        })
    };
    let leaves_server_running = |index: &usize| scripts[*index].name != "server/shutdown";
    (0..scripts.len()).filter(leaves_server_running).map(on_server).collect()
}

fn recording_trials(scripts: &Arc<Vec<Script>>) -> Vec<Trial> {
    let recording = |index: usize| {
        let scripts = Arc::clone(scripts);
        let name = format!("record::{}", scripts[index].name);
        Trial::test(name, move || {
            let server = Server::start(Kind::Redis)?;
            let (text, problems) = player::record(&scripts[index], server.address())?;
            if text != scripts[index].text {
                std::fs::write(&scripts[index].path, text)?;
            }
            verdict(Ok(problems))
        })
    };
    (0..scripts.len()).map(recording).collect()
}

fn verdict(problems: Result<Vec<String>, String>) -> Result<(), Failed> {
    let problems = problems?;
    if problems.is_empty() { Ok(()) } else { Err(Failed::from(problems.join("\n\n"))) }
}
