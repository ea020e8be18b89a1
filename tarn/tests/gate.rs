//! Commands that close the gate while clients are inside it, by the real program: no client waits for ever.

#![allow(clippy::unwrap_used)]

mod running;

use std::sync::atomic::{AtomicBool, Ordering};

use running::{Connection, Running, free_port};

#[test]
fn figures_and_indexes_that_come_and_go_do_not_wait_for_each_other() {
    let sql_port = free_port().to_string();
    let running = Running::start(&["--sql-port", &sql_port, "--threads", "4"]);
    let mut ddl = running.connect();
    for id in 0..100 {
        ddl.ask(&format!("HSET flight:{id} dest LAX"));
    }
    let declare = "CREATE EXTERNAL TABLE flight (id TEXT, dest TEXT) STORED AS HASH LOCATION 'flight:*'";
    let declared = ddl.whole(&format!("SQL \"{declare}\""));
    assert!(!declared.starts_with('-'), "{declared}");
    let over = AtomicBool::new(false);
    let askers: Vec<Connection> = (0..4).map(|_| running.connect()).collect();
    std::thread::scope(|scope| {
        for mut client in askers {
            let over = &over;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    client.send("INFO");
                    // Without a panic, so that all threads end.
                    if client.try_reply().is_none() {
                        return;
                    }
                    let mut info = String::new();
                    while !info.starts_with("db0:") {
                        let Some(line) = client.try_reply() else { return };
                        info = line;
                    }
                    client.try_reply();
                }
            });
        }
        for round in 0..20 {
            for statement in ["CREATE INDEX dests ON flight (dest)", "DROP INDEX dests"] {
                let reply = ddl.try_ask(&format!("SQL \"{statement}\""));
                if reply.as_deref() != Some("+OK") {
                    // Else the others would continue for ever.
                    over.store(true, Ordering::Relaxed);
                    panic!("{statement} of round {round}: {reply:?}");
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    // A client that waited for ever would have kept the server from its end.
    assert!(running.server.unwrap().terminate().success());
}
