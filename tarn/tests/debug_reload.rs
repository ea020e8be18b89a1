//! `DEBUG RELOAD` with the real program: the data is as it was, also after a start, and no change is lost
//! that somebody makes meanwhile.

#![allow(clippy::unwrap_used)]

mod running;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use running::{Running, digest};

#[test]
fn all_keys_are_as_they_were_and_a_start_finds_them() {
    for appendonly in ["yes", "no"] {
        let mut running = Running::start(&["--appendonly", appendonly, "--appendfsync", "always"]);
        let mut client = running.connect();
        for command in [
            "SET s value",
            "SET volatile value PX 100000000",
            "RPUSH l a b 3",
            "SADD set a b c",
            "ZADD z 1 a -inf b",
            "HSET h f v g w",
            "HSET timed f v g w",
            "HPEXPIRE timed 100000000 FIELDS 1 f",
            "XADD x 1-1 f v",
            "XADD x 2-1 f v",
            "XDEL x 2-1",
            "XGROUP CREATE x g 0 ENTRIESREAD 1",
            "PFADD hll a b c",
            "SELECT 5",
            "SET other value",
            "SELECT 0",
        ] {
            let reply = client.whole(command);
            assert!(!reply.starts_with('-'), "{command}: {reply}");
        }
        let (before, stream) = (digest(&mut client), client.whole("XINFO STREAM x FULL"));
        assert_eq!(client.ask("DEBUG RELOAD"), "+OK");
        assert_eq!((digest(&mut client), client.whole("XINFO STREAM x FULL")), (before.clone(), stream));
        assert!(!running.folder.path("dump.rdb").exists(), "a start would take it for data");
        // What is put now is logged as any change is.
        if appendonly == "yes" {
            running.restart();
            assert_eq!(digest(&mut running.connect()), before);
        }
    }
}

#[test]
fn a_damaged_file_changes_nothing() {
    let running = Running::start(&[]);
    let mut client = running.connect();
    assert_eq!(client.ask("SET k v"), "+OK");
    std::fs::write(running.folder.path("dump.rdb"), b"REDIS0011\xff12345678").unwrap();
    let refused = "-ERR Error trying to load the RDB dump, check server logs.";
    assert_eq!(client.ask("DEBUG RELOAD NOSAVE"), refused);
    assert_eq!(client.ask("GET k"), "v");
    assert!(running.folder.messages().contains("its checksum is"), "{}", running.folder.messages());
}

#[test]
fn no_change_is_lost_that_is_made_meanwhile() {
    let running = Running::start(&["--threads", "2"]);
    let (running, is_over) = (&running, &AtomicBool::new(false));
    let mut client = running.connect();
    assert_eq!(client.ask("DEBUG POPULATE 1000"), "+OK");
    let counted = thread::scope(|scope| {
        let counting = scope.spawn(move || {
            let (mut client, mut number) = (running.connect(), 0_u64);
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                assert_eq!(client.ask("INCR counter"), format!(":{number}"));
                if number.is_multiple_of(20) {
                    // So that a reload comes through now and then.
                    thread::sleep(Duration::from_millis(200));
                }
            }
            number
        });
        let mut done = 0;
        for _ in 0..30 {
            match client.ask("DEBUG RELOAD").as_str() {
                "+OK" => done += 1,
                refused => assert!(refused.contains("keys changed whenever they were saved"), "{refused}"),
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(done > 0, "none came through");
        counting.join().unwrap()
    });
    assert_eq!(client.ask("GET counter"), counted.to_string());
    assert_eq!(client.ask("DBSIZE"), ":1001");
}
