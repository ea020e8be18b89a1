//! Compaction of the log with the real program: the log stays short while clients write, and a restart finds
//! all data, whatever was compacted.

#![allow(clippy::unwrap_used)]

mod running;

use std::io::Write;

use running::scrape::Scrape;
use running::{Connection, Folder, Running, SmallDisk, digest, eventually, field, free_port, number};

/// Small files, compacted as soon as some of their records are obsolete.
const EAGER: [&str; 6] =
    ["--log-file-size", "65536", "--log-compaction-min-size", "0", "--log-compaction-file-percentage", "30"];

/// Writes to few keys of every type again and again, about half a megabyte of records a round.
fn churn(client: &mut Connection, rounds: std::ops::Range<usize>) {
    let value = "v".repeat(200);
    for round in rounds {
        let mut commands = Vec::new();
        for number in 0..300 {
            let slot = (round * 7 + number * 13) % 40;
            commands.push(format!("SET string:{slot} {value}{round}"));
            commands.push(format!("APPEND text:{} {number}", slot % 5));
            commands.push(format!("RPUSH list:{} {value}{number}", slot % 3));
            commands.push(format!("LPOP list:{}", slot % 3));
            commands.push(format!("HSET hash:{} f{} {value}{round}", slot % 4, slot / 4));
            commands.push(format!("HDEL hash:{} f{}", slot % 4, (slot + 5) / 4));
            commands.push(format!("SADD set:{} m{}", slot % 4, slot));
            commands.push(format!("SPOP set:{}", slot % 4));
            commands.push(format!("ZADD zset {number} m{slot}"));
            commands.push(format!("DEL string:{}", (slot + 1) % 40));
            commands.push(format!("PEXPIRE zset {}", 100_000_000 + number));
        }
        // Strings that were appended to start again, as do copies.
        commands.push(format!("SET text:{} new", round % 5));
        commands.push("SUNIONSTORE union set:0 set:1".to_owned());
        commands.push(format!("SREM union m{}", round % 40));
        commands.push("SWAPDB 0 1".to_owned());
        commands.push("SWAPDB 0 1".to_owned());
        commands.iter().for_each(|command| client.send(command));
        for command in &commands {
            let reply = client.reply();
            assert!(!reply.starts_with('-'), "{command}: {reply}");
        }
    }
}

/// Bytes of the log's files.
fn log_bytes(folder: &Folder, directories: &[&str]) -> u64 {
    let files = directories.iter().flat_map(|name| std::fs::read_dir(folder.path(name)).unwrap());
    // A file is reserved in its whole length before it is written.
    let used = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
    files.map(|file| std::fs::read(file.unwrap().path()).map_or(0, |bytes| used(&bytes))).sum()
}

#[test]
fn the_log_stays_short_and_a_restart_finds_everything() {
    for directories in [vec!["log"], vec!["one", "two", "three"]] {
        let mut running = Running::start(&["--appendfsync", "no"]);
        let paths: Vec<String> =
            directories.iter().map(|name| running.folder.path(name).to_str().unwrap().to_owned()).collect();
        let mut args = vec!["--appendfsync", "everysec"];
        args.extend(EAGER);
        if paths.len() > 1 {
            args.push("--log-dir");
            args.extend(paths.iter().map(String::as_str));
        }
        running.restart_with(&args);
        for stage in 0..4 {
            let mut client = running.connect();
            churn(&mut client, stage * 12..stage * 12 + 12);
            eventually(|| (number(&mut client, "log_compactions") > 0).then_some(()));
            assert_eq!(number(&mut client, "log_compaction_failures"), 0);
            assert_eq!(client.ask("BGREWRITEAOF"), "+Background append only file rewriting started");
            eventually(|| (field(&mut client, "aof_rewrite_in_progress")? == "0").then_some(()));
            assert_eq!(field(&mut client, "aof_last_bgrewrite_status").unwrap(), "ok");
            // Some six megabytes were written each time; a file may have been closed after the round.
            let bytes = log_bytes(&running.folder, &directories);
            assert!(bytes < 3_000_000, "{directories:?}, stage {stage}: {bytes} bytes");
            let before = digest(&mut client);
            if stage == 2 {
                running.server.take().unwrap().terminate();
            }
            running.restart();
            assert_eq!(digest(&mut running.connect()), before, "{directories:?}, stage {stage}");
        }
    }
}

/// Names of the log's files.
fn log_files(folder: &Folder, directories: &[&str]) -> Vec<String> {
    let files = directories.iter().flat_map(|name| std::fs::read_dir(folder.path(name)).unwrap());
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".tarnlog")).collect()
}

fn rewrite_log(client: &mut Connection) {
    assert_eq!(client.ask("BGREWRITEAOF"), "+Background append only file rewriting started");
    eventually(|| (field(client, "aof_rewrite_in_progress")? == "0").then_some(()));
    assert_eq!(field(client, "aof_last_bgrewrite_status").unwrap(), "ok");
}

#[test]
fn a_log_that_is_shorter_than_a_file_is_shortened_when_that_is_asked_for() {
    for (directories, mode, compaction) in [
        (vec!["log"], "everysec", "vtc"),
        (vec!["a", "b", "c"], "no", "none"),
        (vec!["log"], "no", "rewrite"),
    ] {
        let mut running = Running::start(&["--appendfsync", "no"]);
        let paths: Vec<String> =
            directories.iter().map(|name| running.folder.path(name).to_str().unwrap().to_owned()).collect();
        let mut args = vec!["--appendfsync", mode, "--log-compaction", compaction];
        if paths.len() > 1 {
            args.push("--log-dir");
            args.extend(paths.iter().map(String::as_str));
        }
        running.restart_with(&args);
        let mut client = running.connect();
        churn(&mut client, 0..12);
        assert_eq!(client.whole("WAITAOF 1 0 0"), "*[:1 :0]");
        let bytes = log_bytes(&running.folder, &directories);
        assert!(bytes > 1_500_000, "{bytes} bytes");
        let before = digest(&mut client);
        // There are no more writes.
        rewrite_log(&mut client);
        let bytes = log_bytes(&running.folder, &directories);
        assert!(bytes < 300_000, "{directories:?}: {bytes} bytes");
        let files = log_files(&running.folder, &directories).len();
        let live = number(&mut client, "log_live_bytes");
        assert_eq!(live + number(&mut client, "log_invalid_bytes"), number(&mut client, "aof_current_size"));
        let lines = (0..directories.len()).map(|at| field(&mut client, &format!("log_dir{at}")).unwrap());
        let lives = lines.map(|line| {
            let value = line.split(',').find_map(|part| part.strip_prefix("live_bytes=")).unwrap();
            value.parse::<u64>().unwrap()
        });
        assert_eq!(lives.sum::<u64>(), live);
        for _ in 0..5 {
            rewrite_log(&mut client);
        }
        // Each directory may have made its next file ready in the meantime.
        let kept = log_files(&running.folder, &directories);
        assert!(kept.len() <= files + directories.len(), "there is nothing to leave: {kept:?}");
        // Files with little left in them become one.
        for number in 0..12 {
            client.ask(&format!("SET string:{} again", number % 3));
            assert_eq!(client.whole("WAITAOF 1 0 0"), "*[:1 :0]");
            rewrite_log(&mut client);
        }
        let kept = log_files(&running.folder, &directories);
        assert!(kept.len() <= 4 * directories.len(), "{kept:?}");
        assert_ne!(digest(&mut client), before);
        let before = digest(&mut client);
        running.restart();
        assert_eq!(digest(&mut running.connect()), before, "{directories:?}");
    }
}

#[test]
fn what_a_checkpoint_has_and_was_deleted_since_stays_deleted() {
    let mut running = Running::start(&EAGER);
    let mut client = running.connect();
    for number in 0..100 {
        client.ask(&format!("SET key:{number} {}", "x".repeat(1000)));
        client.ask(&format!("RPUSH list:{} {number}", number % 10));
    }
    assert_eq!(client.ask("SAVE"), "+OK");
    for number in 0..100 {
        client.ask(&format!("DEL key:{number}"));
        client.ask(&format!("DEL list:{}", number % 10));
    }
    for _ in 0..2 {
        churn(&mut client, 0..3);
        assert_eq!(client.ask("BGREWRITEAOF"), "+Background append only file rewriting started");
        eventually(|| (field(&mut client, "aof_rewrite_in_progress")? == "0").then_some(()));
        let before = digest(&mut client);
        running.restart();
        client = running.connect();
        assert_eq!(client.ask("EXISTS key:1 key:50 list:1"), ":0");
        assert_eq!(digest(&mut client), before);
    }
    // The next checkpoint lacks them, so that the records of their removal can go.
    assert_eq!(client.ask("SAVE"), "+OK");
    assert_eq!(client.ask("BGREWRITEAOF"), "+Background append only file rewriting started");
    eventually(|| (field(&mut client, "aof_rewrite_in_progress")? == "0").then_some(()));
    let before = digest(&mut client);
    running.restart();
    assert_eq!(digest(&mut running.connect()), before);
}

#[test]
fn an_older_checkpoint_than_the_log_was_compacted_under_is_refused() {
    let mut running = Running::start(&EAGER);
    let mut client = running.connect();
    client.ask("SET gone x");
    assert_eq!(client.ask("SAVE"), "+OK");
    let (checkpoints, older) = (running.folder.path("checkpoints"), running.folder.path("older"));
    std::fs::create_dir(&older).unwrap();
    for file in std::fs::read_dir(&checkpoints).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), older.join(file.file_name())).unwrap();
    }
    client.ask("DEL gone");
    churn(&mut client, 0..3);
    assert_eq!(client.ask("SAVE"), "+OK");
    assert_eq!(client.ask("BGREWRITEAOF"), "+Background append only file rewriting started");
    eventually(|| (field(&mut client, "aof_rewrite_in_progress")? == "0").then_some(()));
    let before = digest(&mut client);
    running.server.take().unwrap().kill();
    std::fs::rename(&checkpoints, running.folder.path("newer")).unwrap();
    std::fs::rename(&older, &checkpoints).unwrap();
    let port = ["--port", &running.port.to_string()];
    let refusal = running.folder.refusal(&[&EAGER[..], &port].concat());
    assert!(refusal.contains("move it away to use the log alone"), "{refusal}");
    // Which is whole without any.
    std::fs::remove_dir_all(&checkpoints).unwrap();
    running.restart();
    assert_eq!(digest(&mut running.connect()), before);
}

#[test]
fn a_compaction_without_room_is_told_and_made_when_there_is_some() {
    let folder = Folder::new();
    let Some(disk) = SmallDisk::mount(&folder, "small", "size=8m") else { return };
    let log = disk.0.join("log");
    let (metrics, mut args) =
        (free_port(), vec!["--log-dir", log.to_str().unwrap(), "--log-compaction", "none"]);
    let metrics_text = metrics.to_string();
    args.extend(["--metrics-port", &metrics_text]);
    args.extend(EAGER);
    let mut running = Running::start(&args);
    let mut client = running.connect();
    churn(&mut client, 0..12);
    let before = digest(&mut client);
    // The file that is written to would give room when it is left; now there is nothing in it.
    assert_eq!(client.whole("WAITAOF 1 0 0"), "*[:1 :0]");
    running.restart();
    let mut client = running.connect();
    // No page is left for a copy.
    let filler = disk.0.join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    assert_eq!(client.ask("BGREWRITEAOF"), "+Background append only file rewriting started");
    eventually(|| (number(&mut client, "log_compaction_failures") > 0).then_some(()));
    assert_eq!(field(&mut client, "aof_last_bgrewrite_status").unwrap(), "err");
    let error = field(&mut client, "log_compaction_last_error").unwrap();
    assert!(error.contains("No space left on device"), "{error}");
    assert!(number(&mut client, "log_compaction_last_error_time") > 1_500_000_000);
    let scrape = Scrape::of(metrics);
    assert_eq!(scrape.number("tarn_compaction_failing"), 1.0);
    assert!(scrape.number("tarn_compaction_failures_total") >= 1.0);
    eventually(|| running.folder.messages().contains("The log could not be compacted: ").then_some(()));
    assert_eq!(digest(&mut client), before);

    drop(file);
    std::fs::remove_file(&filler).unwrap();
    eventually(|| (field(&mut client, "aof_rewrite_in_progress")? == "0").then_some(()));
    assert_eq!(field(&mut client, "aof_last_bgrewrite_status").unwrap(), "ok");
    let scrape = Scrape::of(metrics);
    assert_eq!(scrape.number("tarn_compaction_failing"), 0.0);
    assert!(scrape.number("tarn_compactions_total") >= 1.0);
    assert!(field(&mut client, "log_compaction_last_error").is_some(), "what was wrong is still told");
    // Whether a file was tried alone while there was no room is a matter of time.
    let gone_over = ["Compacted the log in ", " could not be compacted, "];
    for messages in [&["The log can be compacted again"][..], &gone_over] {
        let is_told = || messages.iter().any(|message| running.folder.messages().contains(message));
        eventually(|| is_told().then_some(()));
    }
    let bytes: u64 =
        std::fs::read_dir(&log).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes < 1_500_000, "{bytes} bytes");
    running.restart();
    assert_eq!(digest(&mut running.connect()), before);
    drop(client);
    running.server.take().unwrap().kill();
}

#[test]
fn without_a_log_there_is_nothing_to_compact() {
    let running = Running::start(&["--appendonly", "no"]);
    let reply = running.connect().ask("BGREWRITEAOF");
    assert_eq!(reply, "-ERR There is no log: the server runs with 'appendonly no'");
}

#[test]
fn a_log_that_is_rewritten_needs_its_checkpoint_and_has_everything_with_it() {
    let mut args = EAGER.to_vec();
    args.extend(["--log-compaction", "rewrite"]);
    let mut running = Running::start(&args);
    for stage in 0..3 {
        let mut client = running.connect();
        churn(&mut client, stage * 6..stage * 6 + 6);
        assert_eq!(client.ask("BGREWRITEAOF"), "+Background append only file rewriting started");
        churn(&mut client, 100..101);
        eventually(|| (field(&mut client, "aof_rewrite_in_progress")? == "0").then_some(()));
        // Three megabytes were written before; the writes since the checkpoint are there.
        let bytes = log_bytes(&running.folder, &["log"]);
        assert!(bytes < 2_000_000, "stage {stage}: {bytes} bytes");
        let before = digest(&mut client);
        assert_eq!(client.whole("WAITAOF 1 0 0"), "*[:1 :0]");
        running.restart();
        assert_eq!(digest(&mut running.connect()), before, "stage {stage}");
    }
    // Unasked, when the log is long: files of it have been dropped.
    let mut client = running.connect();
    let saves = number(&mut client, "rdb_saves");
    for round in 0..100 {
        churn(&mut client, round..round + 1);
        if number(&mut client, "rdb_saves") > saves {
            break;
        }
    }
    eventually(|| (number(&mut client, "rdb_saves") > saves).then_some(()));
    let before = digest(&mut client);
    assert_eq!(client.whole("WAITAOF 1 0 0"), "*[:1 :0]");
    running.restart();
    assert_eq!(digest(&mut running.connect()), before);
    // The log alone is not whole.
    drop(running.server.take());
    let checkpoints = running.folder.path("checkpoints");
    std::fs::rename(&checkpoints, running.folder.path("away")).unwrap();
    let refusal = running.folder.refusal(&["--port", &running.port.to_string()]);
    assert!(refusal.contains("the log goes on from a checkpoint"), "{refusal}");
}

#[test]
fn a_log_that_has_become_long_is_rewritten_with_one_checkpoint() {
    let args =
        ["--log-file-size", "65536", "--log-compaction", "none", "--log-compaction-min-size", "200000"];
    // So slowly that it is looked several times meanwhile whether a checkpoint is wanted.
    let slowly = ["--save", "", "--log-compaction-bytes-per-second", "200000"];
    let running = Running::start(&[&args[..], &slowly].concat());
    let mut client = running.connect();
    churn(&mut client, 0..4);
    let saves = number(&mut client, "rdb_saves");
    assert_eq!(client.ask("CONFIG SET log-compaction rewrite"), "+OK");
    // On a busy machine most of the log may be in its last file, which only a later write closes.
    let next = format!("SET next {}", "v".repeat(1000));
    eventually(|| {
        let is_begun = field(&mut client, "aof_rewrite_in_progress")? == "1";
        let is_done = number(&mut client, "log_compactions") > 0;
        if !is_begun && !is_done {
            client.ask(&next);
        }
        is_done.then_some(())
    });
    eventually(|| (field(&mut client, "aof_rewrite_in_progress")? == "0").then_some(()));
    // It is looked five times a second whether one is wanted.
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(number(&mut client, "rdb_saves"), saves + 1);
    assert_eq!(field(&mut client, "aof_rewrite_in_progress").unwrap(), "0");
}
