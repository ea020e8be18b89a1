//! Background work that rests while clients wait, by the real program (`engine/src/throttle.rs`).

#![allow(clippy::unwrap_used)]

mod running;

use running::{Connection, Running, eventually, number};

/// A number of `INFO views`.
fn of_views(client: &mut Connection, name: &str) -> u64 {
    let info = client.whole("INFO views");
    let value = info.split(name).nth(1).and_then(|rest| rest.strip_prefix(':')).unwrap();
    value.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

fn accepted(client: &mut Connection, command: &str) {
    let reply = client.whole(command);
    assert!(!reply.starts_with('-'), "{command}: {reply}");
}

/// Hashes with a number each.
fn fill(client: &mut Connection, keys: usize) {
    for group in 0..keys.div_ceil(100) {
        for number in group * 100..group * 100 + 100 {
            client.send(&format!("HSET record:{number} number {number} text {}", "t".repeat(100)));
        }
        (0..100).for_each(|_| assert!(!client.reply().starts_with('-')));
    }
}

#[test]
fn workers_tell_of_turns_that_waited_longer_than_the_target() {
    if !std::path::Path::new("/proc/thread-self/schedstat").exists() {
        eprintln!("skipped: this system does not tell how long a thread waits for a processor");
        return;
    }
    // Each time that a worker is woken it waits longer than that for its processor.
    let running = Running::start(&["--background-latency-target-us", "1", "--threads", "1"]);
    let mut client = running.connect();
    eventually(|| {
        (0..100).for_each(|_| assert_eq!(client.ask("PING"), "+PONG"));
        (of_views(&mut client, "slow_turns") > 0).then_some(())
    });
    accepted(&mut client, "CONFIG SET background-latency-target-us 0");
    let before = of_views(&mut client, "slow_turns");
    (0..1000).for_each(|_| assert_eq!(client.ask("PING"), "+PONG"));
    assert_eq!(of_views(&mut client, "slow_turns"), before);
}

#[test]
fn checkpoints_indexes_and_compactions_rest_unless_there_is_no_target() {
    type Work = fn(&mut Connection);
    let index: Work = |client| {
        let table = "CREATE EXTERNAL TABLE record (id TEXT, number BIGINT) \
                     STORED AS HASH LOCATION 'record:*'";
        accepted(client, &format!("SQL \"{table}\""));
        accepted(client, "SQL \"CREATE INDEX by_number ON record (number)\"");
        // Permille built, and the keys.
        eventually(|| client.whole("SQL \"SHOW INDEXES\"").contains(":1000 :20000 ").then_some(()));
    };
    let checkpoint: Work = |client| {
        let before = number(client, "rdb_saves");
        accepted(client, "BGSAVE");
        eventually(|| (number(client, "rdb_saves") > before).then_some(()));
    };
    let compaction: Work = |client| {
        eventually(|| {
            let before = number(client, "log_compactions");
            // Half of each file.
            for number in (0..20_000).step_by(2) {
                client.send(&format!("HSET record:{number} number 0"));
            }
            (0..10_000).for_each(|_| assert!(!client.reply().starts_with('-')));
            // Not so much that a round begins.
            eventually(|| {
                let is_short = number(client, "aof_current_size") <= 6_000_000;
                (is_short || number(client, "log_compactions") > before).then_some(())
            });
            (before > 10).then_some(())
        });
    };
    for (name, work) in [("index", index), ("checkpoint", checkpoint), ("compaction", compaction)] {
        for target in ["500", "0"] {
            let running = Running::start(&[
                "--background-latency-target-us",
                target,
                "--log-file-size",
                "262144",
                "--log-compaction-min-size",
                // Above this a file is compacted, and from twice this on all are, without a rest.
                if name == "compaction" { "5000000" } else { "1000000000" },
                "--log-compaction-file-percentage",
                "20",
                "--log-compaction-log-percentage",
                "10000",
            ]);
            let mut client = running.connect();
            fill(&mut client, 20_000);
            if name != "compaction" {
                assert_eq!(of_views(&mut client, "background_rested_ms"), 0, "{name} has not begun");
            }
            work(&mut client);
            let rested = of_views(&mut client, "background_rested_ms");
            assert_eq!(rested > 0, target != "0", "{name}, a target of {target}: {rested} ms");
        }
    }
}
