//! Clients that wait in `SAVE`, and what others see meanwhile.

use super::running::{Connection, Running, eventually};
use super::{MANY_KEYS, digest, field, fill_many, number, wait_until_saved};

const BUSY: &str = "-ERR Background save already in progress";

/// Whether a checkpoint is seen under way before there are `saves`: on a busy machine it may be over before
/// anybody looks.
fn is_seen(client: &mut Connection, saves: u64) -> bool {
    loop {
        if number(client, "rdb_bgsave_in_progress") == 1 {
            return true;
        }
        if number(client, "rdb_saves") >= saves {
            return false;
        }
    }
}

#[test]
fn one_checkpoint_is_taken_at_a_time() {
    let running = Running::start(&["--appendonly", "no", "--save", ""]);
    let mut client = running.connect();
    fill_many(&mut client);
    client.send("BGSAVE\r\nSAVE\r\nBGSAVE\r\nBGSAVE SCHEDULE\r\nBGSAVE SCHEDULE");
    let replies: Vec<String> = (0..5).map(|_| client.reply()).collect();
    let scheduled = "+Background saving scheduled";
    assert_eq!(replies, ["+Background saving started", BUSY, BUSY, scheduled, scheduled]);
    eventually(|| (number(&mut client, "rdb_saves") == 2).then_some(()));
    wait_until_saved(&mut client);
    assert_eq!(number(&mut client, "rdb_saves"), 2, "however often another was wanted");
}

#[test]
fn who_waits_in_save_holds_up_nobody_and_keeps_the_order_of_its_replies() {
    let running = Running::start(&["--appendonly", "no", "--save", "", "--threads", "1"]);
    let (mut waiting, mut other) = (running.connect(), running.connect());
    fill_many(&mut other);
    let mut saves = 0;
    eventually(|| {
        saves += 2;
        waiting.send("SET a 1\r\nSAVE\r\nINCR a\r\nSAVE\r\nGET a\r\nINFO nosuch");
        // The same worker answers while the checkpoint is being taken.
        let is_seen = is_seen(&mut other, saves);
        let replies: Vec<String> = (0..6).map(|_| waiting.reply()).collect();
        assert_eq!(replies, ["+OK", "+OK", ":2", "+OK", "$2", "$"]);
        assert_eq!(number(&mut other, "rdb_saves"), saves);
        is_seen.then_some(())
    });
}

#[test]
fn info_tells_of_the_checkpoint_that_is_being_taken_and_of_the_last() {
    let running = Running::start(&["--appendonly", "no", "--save", "", "--checkpoint-pace", "quiet"]);
    let mut client = running.connect();
    fill_many(&mut client);
    assert_eq!(field(&mut client, "rdb_last_bgsave_time_sec").unwrap(), "-1");
    let changes = number(&mut client, "rdb_changes_since_last_save");
    assert_eq!(changes, MANY_KEYS as u64);
    let (persistence, views) = eventually(|| {
        client.ask("BGSAVE");
        let info = (client.ask("INFO persistence"), client.ask("INFO views"));
        (info.0.contains("current_save_keys_total:30000") && info.1.contains("views_open:1")).then_some(info)
    });
    for line in ["rdb_bgsave_in_progress:1\r\n", "checkpoint_progress_perc:", "checkpoint_bytes_written:"] {
        assert!(persistence.contains(line), "{line} is not in {persistence}");
    }
    assert!(views.contains("view0:purpose=checkpoint,cut="), "{views}");
    wait_until_saved(&mut client);
    let views = client.ask("INFO views");
    assert!(views.contains("views_open:0\r\n") && !views.contains("view0"), "{views}");
    assert_eq!(field(&mut client, "rdb_last_bgsave_status").unwrap(), "ok");
    assert_eq!(number(&mut client, "checkpoint_last_keys"), MANY_KEYS as u64);
    let bytes = std::fs::read_dir(running.folder.path("checkpoints")).unwrap();
    let bytes: Vec<u64> = bytes.map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    assert!(bytes.contains(&number(&mut client, "checkpoint_last_bytes")), "{bytes:?}");
    assert_eq!(number(&mut client, "rdb_changes_since_last_save"), 0);
    assert_eq!(client.ask("LASTSAVE"), format!(":{}", number(&mut client, "rdb_last_save_time")));
}

#[test]
fn who_leaves_while_it_waits_in_save_leaves_a_checkpoint_behind() {
    let mut running = Running::start(&["--appendonly", "no", "--save", "", "--threads", "1"]);
    let mut other = running.connect();
    fill_many(&mut other);
    for round in 1..=5 {
        assert_eq!(other.ask(&format!("SET round {round}")), "+OK");
        running.connect().send("SAVE");
        eventually(|| (number(&mut other, "rdb_saves") == round).then_some(()));
        eventually(|| (other.ask("CLIENT LIST").lines().count() == 1).then_some(()));
    }
    assert_eq!(other.ask("SAVE"), "+OK");
    let saved = digest(&mut other);
    running.restart();
    assert_eq!(digest(&mut running.connect()), saved);
}

#[test]
fn who_waits_in_save_does_not_hold_up_the_end() {
    let mut running = Running::start(&["--appendonly", "no", "--save", "", "--threads", "1"]);
    let mut other = running.connect();
    fill_many(&mut other);
    assert_eq!(other.ask("SAVE"), "+OK");
    let saved = digest(&mut other);
    let mut waiting = running.connect();
    for command in ["SHUTDOWN NOSAVE", "SHUTDOWN SAVE"] {
        assert_eq!(other.ask("SET k v"), "+OK");
        let changed = digest(&mut other);
        eventually(|| {
            let saves = number(&mut other, "rdb_saves");
            waiting.send("SAVE");
            let is_seen = is_seen(&mut other, saves + 1);
            if !is_seen {
                assert_eq!(waiting.reply(), "+OK");
            }
            is_seen.then_some(())
        });
        other.send(command);
        assert!(running.server.take().unwrap().wait().success());
        running.restart();
        (waiting, other) = (running.connect(), running.connect());
        let found = digest(&mut other);
        // Without a last checkpoint it is luck whether the one of SAVE was complete.
        assert!(found == changed || (found == saved && command == "SHUTDOWN NOSAVE"), "{command}");
        super::assert_one_checkpoint(&running.folder);
    }
}
