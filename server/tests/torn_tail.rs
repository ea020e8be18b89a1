//! A start that cuts a torn tail off the log says so, and how much.

#![allow(clippy::unwrap_used)]

mod own_process;

use std::io::Write as _;

use own_process::{Own, serve_if_told};

#[test]
fn serves() {
    serve_if_told();
}

#[test]
fn what_is_cut_off_is_told_once() {
    let mut own = Own::new();
    let args = ["--appendonly", "yes", "--appendfsync", "everysec"];
    let mut client = own.start(&args);
    assert_eq!(client.ask("SET key value"), "+OK");
    own.terminate();
    let mut client = own.start(&args);
    assert!(!own.messages().contains("cut off"), "{}", own.messages());
    assert_eq!(client.ask("SET key other"), "+OK");
    assert_eq!(client.ask("WAITAOF 1 0 0"), "[:1 :0]");
    own.kill();
    let names = std::fs::read_dir(own.path("log")).unwrap().map(|entry| entry.unwrap().path());
    let newest = names.filter(|path| path.extension().is_some_and(|end| end == "tarnlog")).max().unwrap();
    let mut file = std::fs::File::options().append(true).open(newest).unwrap();
    file.write_all(&[7; 100]).unwrap();
    drop(file);
    let mut client = own.start(&args);
    assert_eq!(client.ask("GET key"), "other");
    let messages = own.messages();
    let told: Vec<_> = messages.lines().filter(|line| line.contains("cut off")).collect();
    assert!(told.len() == 1 && told[0].contains("WARN") && told[0].contains("100 bytes"), "{messages}");
    own.terminate();
    own.start(&args);
    assert_eq!(own.messages().matches("cut off").count(), 1);
}
