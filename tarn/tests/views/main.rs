//! Views of a server's store while its clients write: the sum of all accounts, and random commands against
//! `DEBUG DIGEST` at the moment of the cut.
//!
//! ```text
//!   connections ──commands──> a server in this process ── its engine ──> views of the test
//! ```

#![allow(clippy::unwrap_used)]

#[path = "../transactions/commands.rs"]
#[allow(dead_code)]
mod commands;
#[path = "../running/mod.rs"]
mod running;

mod history;

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use running::{Client, Connection, Folder, eventually, free_port};
use tarn_engine::Engine;
use tarn_engine::Entry;
use tarn_engine::value::ValueRef;
use tarn_engine::view::{View, ViewOptions};
use tarn_server::Services;
use tarn_server::config::{Invocation, parse_serve_args};
use tarn_server::serve::{ServeError, serve_beside};

/// A server in this process.
struct Server {
    shared: Arc<Services>,
    port: u16,
    running: Option<JoinHandle<Result<(), ServeError>>>,
    _folder: Folder,
}

impl Server {
    fn start(args: &[&str]) -> Server {
        let (folder, port) = (Folder::new(), free_port());
        let port_text = port.to_string();
        let dir = folder.path("").into_os_string().into_string().unwrap();
        let always = ["--dir", &dir, "--port", &port_text, "--enable-debug-command", "yes", "--save", ""];
        let args: Vec<_> = always.iter().chain(args).map(OsString::from).collect();
        let Ok(Invocation::Serve(loaded)) = parse_serve_args(args) else { panic!("these are arguments") };
        let (sender, told) = mpsc::channel();
        let serve = move || serve_beside(*loaded, |shared| sender.send(shared.clone()).unwrap());
        let running = Some(std::thread::spawn(serve));
        let shared: Arc<Services> = told.recv().expect("the server starts");
        eventually(|| shared.engine().map(drop));
        Server { shared, port, running, _folder: folder }
    }

    fn connect(&self) -> Connection {
        Client::tcp("127.0.0.1", self.port)
    }

    fn engine(&self) -> &Engine {
        self.shared.engine().unwrap()
    }

    /// A view with these options.
    fn view(&self, options: ViewOptions) -> View {
        self.engine().open_view(options).unwrap()
    }

    /// Nothing is kept for a view: all are closed.
    fn assert_nothing_kept(&self) {
        eventually(|| {
            let status = self.engine().views().status();
            (status.open.is_empty() && (status.retained.records, status.retained.bytes) == (0, 0))
                .then_some(())
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.shut_down();
        let ended = self.running.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

const ACCOUNTS: usize = 300;
const BALANCE: i64 = 100;
const TELLERS: usize = 16;
const VIEWS: u64 = 10_000;

/// One account in two is a key; the others are fields and members of some collections, two of them large.
fn deposit(number: usize, amount: i64) -> String {
    match number % 6 {
        0..3 => format!("INCRBY account:{number} {amount}"),
        3 => format!("HINCRBY accounts:{} account:{number} {amount}", number % 7),
        4 => format!("HINCRBY accounts:large account:{number} {amount}"),
        _ => format!("ZINCRBY ranked {amount} account:{number}"),
    }
}

/// One transfer: by a transaction, or by one command with two keys.
fn transfer(client: &mut Connection, rng: &mut SmallRng, teller: usize) {
    let (from, to) = (rng.random_range(0..ACCOUNTS), rng.random_range(0..ACCOUNTS));
    let amount = rng.random_range(1..10);
    match rng.random_range(0..6) {
        0..3 => {
            client.send("MULTI");
            client.send(&deposit(from, -amount));
            client.send(&deposit(to, amount));
            client.send("EXEC");
            let executed = (0..4).map(|_| client.reply()).last().unwrap();
            assert!(executed.starts_with("*["), "{executed}");
        }
        // Between two names an account is under neither, unless it is watched at one instant.
        3 => {
            let between = format!("between:{teller}");
            client.send("MULTI");
            client.send(&format!("SET {between} {amount}"));
            client.send(&deposit(from, -amount));
            client.send("EXEC");
            (0..4).for_each(|_| _ = client.reply());
            client.whole(&format!("RENAME {between} moved:{teller}"));
            client.send("MULTI");
            client.send(&format!("GETDEL moved:{teller}"));
            client.send(&deposit(to, amount));
            client.send("EXEC");
            (0..4).for_each(|_| _ = client.reply());
        }
        4 => {
            client.whole("LMOVE tokens:a tokens:b LEFT RIGHT");
            client.whole("LMOVE tokens:b tokens:a LEFT RIGHT");
        }
        _ => {
            let token = rng.random_range(0..ACCOUNTS);
            let [a, b] = if rng.random_bool(0.5) { ["a", "b"] } else { ["b", "a"] };
            client.whole(&format!("SMOVE coins:{a} coins:{b} {token}"));
        }
    }
}

/// The sum of a store: money, tokens in lists, coins in sets.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wealth {
    money: i64,
    tokens: usize,
    coins: usize,
}

impl Wealth {
    fn add(&mut self, entry: &Entry) {
        match entry.value() {
            ValueRef::String(text) => self.money += number(&text.to_bytes()),
            ValueRef::Hash(hash) => self.money += hash.iter().map(|(_, value)| number(value)).sum::<i64>(),
            ValueRef::ZSet(zset) => {
                self.money += zset.iter_from(0).map(|(_, score)| score as i64).sum::<i64>()
            }
            ValueRef::List(list) => self.tokens += list.len(),
            ValueRef::Set(set) => self.coins += set.len(),
            ValueRef::Json(_) | ValueRef::Stream(_) => panic!("there are no documents and no streams"),
        }
    }
}

fn number(text: &[u8]) -> i64 {
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

#[test]
fn every_view_has_all_that_sixteen_connections_move_about() {
    let server = Server::start(&["--threads", "2"]);
    let mut first = server.connect();
    for account in 0..ACCOUNTS {
        assert!(!first.ask(&deposit(account, BALANCE)).starts_with('-'));
        first.whole(&format!("RPUSH tokens:{} {account}", if account % 2 == 0 { "a" } else { "b" }));
        first.whole(&format!("SADD coins:{} {account}", if account % 2 == 0 { "a" } else { "b" }));
    }
    // Keys of no worth, so that a view takes a while.
    for first_key in (0..4_000).step_by(500) {
        let pairs: Vec<String> = (first_key..first_key + 500).map(|key| format!("other:{key} 0")).collect();
        first.whole(&format!("MSET {}", pairs.join(" ")));
    }
    let all = Wealth { money: ACCOUNTS as i64 * BALANCE, tokens: ACCOUNTS, coins: ACCOUNTS };
    let (stop, transfers, uneven) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for teller in 0..TELLERS {
            let (mut client, stop, transfers) = (server.connect(), &stop, &transfers);
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(teller as u64);
                while !stop.load(Ordering::Relaxed) {
                    transfer(&mut client, &mut rng, teller);
                    transfers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let ends = StopAtEnd(&stop);
        for round in 0..VIEWS {
            let mut wealth = Wealth::default();
            let mut view = server.view(ViewOptions::once("sum"));
            let changes = transfers.load(Ordering::Relaxed);
            while view.step(&mut |entry: &Entry| wealth.add(entry)).unwrap().is_some() {
                if round.is_multiple_of(4) {
                    std::thread::yield_now();
                }
            }
            assert_eq!(wealth, all, "view {round}");
            uneven.fetch_add(u64::from(transfers.load(Ordering::Relaxed) > changes), Ordering::Relaxed);
        }
        drop(ends);
    });
    assert!(uneven.load(Ordering::Relaxed) > VIEWS / 100, "transfers ended while views were read");
    server.assert_nothing_kept();
}

/// Lets the tellers end, also if a view is wrong.
struct StopAtEnd<'s>(&'s AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
