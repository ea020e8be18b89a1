//! Directories of checkpoints that cannot be written to, and can again later.

use super::running::{Connection, Folder, Running, SmallDisk, eventually, free_port};
use super::{assert_one_checkpoint, digest, field, fill, number, wait_until_saved};

/// A checkpoint fails for this reason, and only that: clients continue, and the last one stays valid.
fn assert_fails(client: &mut Connection, reason: &str) {
    let (saves, last) = (number(client, "rdb_saves"), client.ask("LASTSAVE"));
    assert_eq!(client.ask("BGSAVE"), "+Background saving started");
    wait_until_saved(client);
    assert_eq!(field(client, "rdb_last_bgsave_status").unwrap(), "err");
    let why = field(client, "checkpoint_failure").unwrap();
    assert!(why.contains(reason), "{why}");
    let refusal = client.ask("SAVE");
    assert!(refusal.starts_with("-ERR ") && refusal.contains(reason), "{refusal}");
    assert_eq!(client.ask("SET while-it-fails x"), "+OK");
    assert!(number(client, "rdb_changes_since_last_save") > 0);
    assert_eq!((number(client, "rdb_saves"), client.ask("LASTSAVE")), (saves, last));
}

fn assert_works_again(client: &mut Connection) {
    assert_eq!(client.ask("SAVE"), "+OK");
    assert_eq!(field(client, "rdb_last_bgsave_status").unwrap(), "ok");
    assert_eq!(field(client, "checkpoint_failure"), None);
}

#[test]
fn a_log_that_cannot_be_rewritten_says_so() {
    let running = Running::start(&["--log-compaction", "rewrite", "--save", ""]);
    let mut client = running.connect();
    fill(&mut client, 1);
    let (directory, away) = (running.folder.path("checkpoints"), running.folder.path("away"));
    std::fs::rename(&directory, &away).unwrap();
    std::fs::write(&directory, "in the way").unwrap();
    let rewrite = |client: &mut Connection, outcome: &str| {
        assert!(client.ask("BGREWRITEAOF").starts_with('+'));
        eventually(|| (field(client, "aof_last_bgrewrite_status")? == outcome).then_some(()));
    };
    rewrite(&mut client, "err");
    std::fs::remove_file(&directory).unwrap();
    std::fs::rename(&away, &directory).unwrap();
    rewrite(&mut client, "ok");
}

#[test]
fn a_file_in_the_way_fails_checkpoints_until_it_is_gone() {
    for mode in ["full", "incremental", "fork"] {
        let mut running = Running::start(&["--appendonly", "no", "--save", "", "--checkpoint-mode", mode]);
        let mut client = running.connect();
        fill(&mut client, 1);
        assert_eq!(client.ask("SAVE"), "+OK");
        let saved = digest(&mut client);
        let (directory, away) = (running.folder.path("checkpoints"), running.folder.path("away"));
        let block = || {
            std::fs::rename(&directory, &away).unwrap();
            std::fs::write(&directory, "in the way").unwrap();
        };
        let unblock = || {
            std::fs::remove_file(&directory).unwrap();
            std::fs::rename(&away, &directory).unwrap();
        };
        block();
        fill(&mut client, 2);
        assert_fails(&mut client, "Not a directory");
        unblock();
        running.restart();
        client = running.connect();
        assert_eq!(digest(&mut client), saved, "the last one is as it was");
        assert_one_checkpoint(&running.folder);

        block();
        fill(&mut client, 3);
        assert_fails(&mut client, "Not a directory");
        unblock();
        assert_works_again(&mut client);
        // A rule tries again by itself.
        block();
        fill(&mut client, 4);
        let saves = number(&mut client, "rdb_saves");
        assert_eq!(client.ask("CONFIG SET save \"1 1\""), "+OK");
        eventually(|| (field(&mut client, "rdb_last_bgsave_status")? == "err").then_some(()));
        unblock();
        eventually(|| (number(&mut client, "rdb_saves") == saves + 1).then_some(()));
        let changed = digest(&mut client);
        running.restart();
        assert_eq!(digest(&mut running.connect()), changed);
        assert_one_checkpoint(&running.folder);
    }
}

#[test]
fn a_full_disk_fails_checkpoints_until_there_is_room() {
    for mode in ["full", "incremental", "fork"] {
        let folder = Folder::new();
        let Some(disk) = SmallDisk::mount(&folder, "checkpoints", "size=8m") else { return };
        let args = ["--appendonly", "no", "--save", "", "--checkpoint-mode", mode].map(str::to_owned);
        let mut running = Running { folder, port: free_port(), server: None, args: args.to_vec() };
        running.restart();
        let mut client = running.connect();
        for key in 0..20 {
            assert_eq!(client.ask(&format!("SET k{key} {}", "v".repeat(50_000))), "+OK");
        }
        assert_eq!(client.ask("SAVE"), "+OK");
        let filler = disk.0.join("filler");
        std::fs::write(&filler, vec![1; 7_000_000 - 100_000]).unwrap();
        fill(&mut client, 1);
        assert_fails(&mut client, "No space left on device");
        std::fs::remove_file(&filler).unwrap();
        assert_one_checkpoint(&running.folder);
        assert_works_again(&mut client);
        let saved = digest(&mut client);
        running.restart();
        assert_eq!(digest(&mut running.connect()), saved);
        assert_one_checkpoint(&running.folder);
    }
}
