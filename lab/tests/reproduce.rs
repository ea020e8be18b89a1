//! `tarn-lab reproduce`, and the end of a run by signals: both need the program itself.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tarn_lab::interrupt;
use tarn_lab::setting::on_path;

fn lab() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tarn-lab"));
    command.stdin(Stdio::null());
    command
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_directory_of_results_says_what_made_it() {
    let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (results, page) = (dir.path().join("results"), dir.path().join("claims.md"));
    let mut command = lab();
    command.args(["reproduce", "--scale", "quick", "--only", "workers"]);
    let output =
        command.arg("--dir").arg(data.path()).arg("--claims").arg(&page).arg(&results).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // The file of lines has gone when this is read.
    assert!(!said.contains("drawn by"), "{said}");
    assert_eq!(names(&results), ["manifest.json", "workers.csv", "workers.html", "workers.jsonl.zst"]);
    let manifest = std::fs::read_to_string(results.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let done = &manifest["done"][0];
    assert_eq!((&done["experiment"], &done["measurements"]), (&"workers".into(), &4.into()));
    assert_eq!((&done["commit"], &done["left_out"]), (&manifest["commit"], &Value::Array(Vec::new())));
    assert!(done["began"].as_str() >= manifest["began"].as_str() && done["ended"] == manifest["ended"]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("| promise | target of Tarn |"), "{page}");
    assert_eq!(names(data.path()), Vec::<String>::new());
}

#[test]
fn a_second_run_is_compared_by_figure_and_cell() {
    let dir = tempfile::tempdir().unwrap();
    let text = include_str!("results/workers.jsonl");
    // Processor time of a request, in one cell.
    let other = text.replace("102.10237651482144", "204.20475302964288");
    assert_ne!(text, other);
    let [first, second, page] = ["first", "second", "noise.md"].map(|name| dir.path().join(name));
    for (own, text) in [(&first, text), (&second, other.as_str())] {
        std::fs::create_dir(own).unwrap();
        let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
        std::fs::write(own.join("workers.jsonl.zst"), packed).unwrap();
        std::fs::write(own.join("manifest.json"), r#"{"scale":"quick","seed":7,"done":[]}"#).unwrap();
    }
    let mut command = lab();
    command.args(["reproduce", "--draw", "--only", "workers"]).arg(&first);
    let output = command.arg("--against").arg(&second).arg("--noise").arg(&page).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(page).unwrap();
    let cell = "| 1.00x | 1.00x | 2.00x | read, workers-8 (102, then 204) |\n";
    assert!(page.contains("| Processor time of a request; processor time of a request | ns | "), "{page}");
    assert!(page.contains(cell) && page.contains("- first run: commit not recorded, seed 7;"), "{page}");
    assert!(page.contains("| requests/s | 16 | 1.00x | 1.00x | 1.00x | "), "{page}");
}

#[test]
fn a_reader_of_lines_that_goes_is_no_failure() {
    if on_path("redis-server").is_none() {
        // The reader must not believe that this was tested.
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no redis-server on the PATH");
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let mut command = lab();
    command.args(["run", "memory", "--quick", "--scale", "0.2", "--servers", "redis-server", "--dir"]);
    command.arg(data.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = command.spawn().unwrap();
    drop(run.stdout.take());
    let output = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("error"), "{said}");
    assert_eq!(names(data.path()), Vec::<String>::new());
}

#[test]
fn a_reader_of_tables_that_goes_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let (json, page) = (dir.path().join("workers.jsonl"), dir.path().join("workers.html"));
    let mut measure = lab();
    measure.args(["run", "workers", "--quick", "--seconds", "0.02", "--workers", "2", "--json"]);
    measure.arg(&json).arg("--dir").arg(dir.path());
    let mut draw = lab();
    draw.args(["report", "workers", "--json"]).arg(&json).arg("--out").arg(&page);
    for mut command in [measure, draw] {
        let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(run.stdout.take());
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(page.is_file());
}

#[test]
fn a_second_signal_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = lab();
    command.args(["run", "snapshots", "--quick", "--only", "trace", "--algorithms", "ns,hg,pb"]);
    command.arg("--json").arg(dir.path().join("snapshots.jsonl")).arg("--dir").arg(dir.path());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let is_mine = |name: &String| name.starts_with("tarn-snapshots-");
    let (often, patience) = (Duration::from_millis(5), Duration::from_secs(120));
    let began = || Ok(names(dir.path()).iter().any(is_mine).then_some(()));
    interrupt::wait_for(often, patience, began).unwrap().expect("it begins");
    // A cell takes longer than the time between two signals.
    let ended = interrupt::wait_for(often, patience, || {
        let ended = child.try_wait().unwrap();
        if ended.is_none() {
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        }
        Ok(ended)
    });
    assert_eq!(ended.unwrap().expect("it ends").code(), Some(i32::from(interrupt::EXIT_CODE)));
    let left: Vec<String> = names(dir.path()).into_iter().filter(is_mine).collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn the_first_signal_ends_a_cell_in_the_midst() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("snapshots.jsonl");
    let mut command = lab();
    command.args(["run", "snapshots", "--quick", "--only", "trace", "--algorithms", "fork"]);
    command.arg("--json").arg(&json).arg("--dir").arg(dir.path());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let (often, patience) = (Duration::from_millis(5), Duration::from_secs(120));
    let cell = || Ok(tarn_lab::process::children(child.id()).first().copied());
    let cell = interrupt::wait_for(often, patience, cell).unwrap().expect("a cell begins");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ended = interrupt::wait_for(often, patience, || Ok(child.try_wait().unwrap())).unwrap();
    assert_eq!(ended.expect("it ends").code(), Some(i32::from(interrupt::EXIT_CODE)));
    assert!(!Path::new("/proc").join(cell.to_string()).exists());
    let lines = std::fs::read_to_string(&json).unwrap();
    assert!(!lines.contains("parameters\":{"), "it was measured to its end: {lines}");
    assert_eq!(names(dir.path()), ["snapshots.jsonl"]);
}

/// A repository with a package of Tarn's name, whose build tells a port that it began, and goes on forever.
fn endless_build(repository: &Path) {
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(repository).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words);
        assert!(git.stdout(Stdio::null()).status().unwrap().success());
    };
    let build = "fn main() {
        let port = std::env::var(\"BEGAN\").unwrap();
        let mut stream = std::net::TcpStream::connect(format!(\"127.0.0.1:{port}\")).unwrap();
        std::io::Read::read_to_end(&mut stream, &mut Vec::new()).unwrap();
    }";
    let manifest = "[package]\nname = 'tarn'\nversion = '0.1.0'\nedition = '2024'\n[workspace]\n";
    std::fs::create_dir_all(repository.join("src")).unwrap();
    for (name, text) in [("Cargo.toml", manifest), ("build.rs", build), ("src/main.rs", "fn main() {}")] {
        std::fs::write(repository.join(name), text).unwrap();
    }
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "one"]);
}

#[test]
fn a_terminal_that_closes_and_a_second_signal_leave_no_worktree() {
    let dir = tempfile::tempdir().unwrap();
    let [repository, cache, temporary] = ["repository", "cache", "tmp"].map(|name| dir.path().join(name));
    endless_build(&repository);
    std::fs::create_dir(&temporary).unwrap();
    let began = TcpListener::bind("127.0.0.1:0").unwrap();
    began.set_nonblocking(true).unwrap();
    let mut command = lab();
    command.args(["compare", "HEAD", "HEAD"]).current_dir(&repository);
    command.env("BEGAN", began.local_addr().unwrap().port().to_string());
    command.env("XDG_CACHE_HOME", &cache).env("TMPDIR", &temporary);
    let mut child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let (often, patience) = (Duration::from_millis(5), Duration::from_secs(120));
    let accepted = interrupt::wait_for(often, patience, || Ok(began.accept().ok())).unwrap();
    let mut build = accepted.expect("the build begins").0;
    assert_eq!(names(&repository.join(".git/worktrees")).len(), 1);
    // Ignored if these tests were started so, by nohup for instance. Two signals of a kind could be delivered
    // as one, so the other is sent until the program has ended.
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    let ended = interrupt::wait_for(often, patience, || {
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        Ok(child.try_wait().unwrap())
    });
    let ended = ended.unwrap().expect("it ends");
    assert_eq!(ended.code(), Some(i32::from(interrupt::EXIT_CODE)));
    assert!(!repository.join(".git/worktrees").exists() && names(&temporary).is_empty());
    assert_eq!(build.read(&mut [0]).unwrap_or(0), 0, "the build has ended");
}
