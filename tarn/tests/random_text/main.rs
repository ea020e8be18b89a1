//! Random text: statements of SQL, requests of search and messages of PostgreSQL's protocol that are nearly
//! right. Whatever comes, the server neither ends nor hangs, its memory stays bounded, and an error names its
//! reason: one of the libraries' own faults ("Internal error") is a fault here.
//!
//! Statements come from those in the documentation and in other tests, with words swapped, dropped, doubled,
//! nested and replaced. `TARN_SEEDS` is the number of seeds, `TARN_FIRST_SEED` the first one.
//!
//! The planner is not among the fuzz targets, because it takes very long to build with libFuzzer's
//! instrumentation.

#![allow(clippy::unwrap_used)]

#[path = "../random_commands/client.rs"]
#[allow(dead_code)]
mod client;
mod corpus;
mod frames;
mod mutation;
#[path = "../running/mod.rs"]
mod running;
mod search;
mod sql;
#[path = "../chance/statements.rs"]
#[allow(dead_code)]
mod statements;

use client::Client;
use running::Running;
use tarn_resp::Frame;

/// Bytes by which a server may have grown, whatever it was asked.
const GROWTH_MAX: u64 = 700 << 20;

/// A server with some keys, tables over them and a search index.
struct Scene {
    running: Running,
    sql_port: u16,
    client: Client,
    resident_before: u64,
}

impl Scene {
    fn start(args: &[&str]) -> Scene {
        let sql_port = running::free_port();
        let port = sql_port.to_string();
        let memory = ["--sql-port", &port, "--analytics-max-memory", "64mb", "--appendonly", "no"];
        let running = Running::start(&[&memory, args].concat());
        let mut client = Client::connect(running.port);
        for id in 0..40_i64 {
            let (number, text) =
                ((id * 7 % 23 - 5).to_string(), ["a", "ab", "Ab c", "é", "7"][id as usize % 5]);
            let day = format!("2020-0{}-15", 1 + id % 9);
            let half = format!("{}.5", id - 20);
            client.ask(&[
                "HSET",
                &format!("t:{id}"),
                "a",
                &number,
                "b",
                &number,
                "f",
                &half,
                "n",
                &half,
                "s",
                text,
                "d",
                &day,
                "ts",
                &day,
                "p",
                ["true", "false"][id as usize % 2],
            ]);
            let document = format!("{{\"a\":{number},\"s\":\"{text}\",\"l\":[1,{{\"x\":null}}]}}");
            client.ask(&["JSON.SET", &format!("j:{id}"), "$", &document]);
            client.ask(&["ZADD", "z:1", &half, &format!("m{id}")]);
        }
        let mut scene = Scene { running, sql_port, client, resident_before: 0 };
        scene.declare();
        scene.resident_before = scene.resident_bytes();
        scene
    }

    /// Declares the tables and indexes of the statements, if they are missing.
    fn declare(&mut self) {
        sql::DECLARATIONS.iter().for_each(|statement| drop(self.client.ask(&["SQL", statement])));
        search::DECLARATIONS.iter().for_each(|request| {
            drop(self.client.ask(&request.split(' ').collect::<Vec<_>>()));
        });
    }

    fn resident_bytes(&self) -> u64 {
        let pid = self.running.server.as_ref().unwrap().pid();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let line = line.unwrap_or_else(|| panic!("the server has gone:\n{}", self.running.folder.messages()));
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }

    /// The server is there, has not panicked, and has not grown without bounds.
    fn check(&mut self, what: &str) {
        let growth = self.resident_bytes().saturating_sub(self.resident_before);
        assert!(growth < GROWTH_MAX, "{what}: {growth} bytes more than before");
        let messages = self.running.folder.messages();
        assert!(!messages.contains("panicked"), "{what}: {messages}");
        assert_eq!(self.client.ask(&["PING"]), Frame::simple("PONG"), "{what}");
    }
}

/// Why an error is not one that a user can do something with.
fn fault_of(said: &str) -> Option<&'static str> {
    let has = |words: &str| said.contains(words);
    match () {
        _ if said.trim().is_empty() => Some("it says nothing"),
        _ if has("Internal error") || has("caused by a bug") => Some("a fault of a library is shown"),
        _ if has("panicked") => Some("a panic is shown"),
        _ => None,
    }
}

/// Collects faults, so that one run shows all of them.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn add(&mut self, seed: u64, why: &str, text: &str, said: &str) {
        let short = |text: &str| text.chars().take(600).collect::<String>();
        let fault = format!("seed {seed}: {why}: {}\n  {}", short(said), short(text));
        println!("{fault}");
        self.0.push(fault);
    }

    /// REQUIRES: nothing is in it.
    fn end(self) {
        assert!(self.0.is_empty(), "{} faults, which are said above", self.0.len());
    }
}
