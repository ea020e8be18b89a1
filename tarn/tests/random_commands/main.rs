//! Random requests to the program: in pipelines, transactions, either protocol, without replies, beside
//! declarations, backups and changes of the configuration. Whatever clients send, no server panics or hangs,
//! and a start has its data. Where a `redis-server` is installed, replies of single requests equal its.
//!
//! The build of the tests checks that a command looks at no key that it has not declared
//! (`engine/src/session/latched.rs`): one that does panics, and so a life ends here.
//!
//! `TARN_SEEDS` says how many seeds are tried, `TARN_FIRST_SEED` with which to begin; a failure names its
//! seed and shows the last requests.

#![allow(clippy::unwrap_used)]

mod against_redis;
mod alike;
mod client;
mod lives;
mod newer_streams;
mod points;
#[path = "../running/mod.rs"]
mod running;
mod sketches;
mod streams;
mod words;

use client::Client;
use tarn_resp::Frame;
use words::Known;

/// The commands and subcommands that a server says it has, by their full names.
fn commands_of(client: &mut Client) -> Vec<Known> {
    let mut found = Vec::new();
    let Frame::Array(rows) = client.ask(&["COMMAND"]) else { panic!("COMMAND answers with an array") };
    rows.iter().for_each(|row| add(row, &mut found));
    assert!(found.len() > 150, "COMMAND names {}", found.len());
    found
}

/// A row of `COMMAND`: name, arity, flags, first key, last key, step, categories, tips, specs, subcommands.
fn add(row: &Frame, found: &mut Vec<Known>) {
    let Frame::Array(fields) = row else { panic!("a row is an array: {row}") };
    let (Frame::Bulk(name), Frame::Integer(arity), Frame::Integer(first)) =
        (&fields[0], &fields[1], &fields[3])
    else {
        panic!("a row begins with a name and an arity: {row}")
    };
    let name = String::from_utf8(name.clone()).unwrap();
    found.push(Known { name, arity: *arity, first_key: *first });
    if let Some(Frame::Array(subcommands)) = fields.get(9) {
        subcommands.iter().for_each(|row| add(row, found));
    }
}
