//! `CONFIG SET appendonly` with the real program: the data that a start finds before, while and after the log
//! is switched.

#![allow(clippy::unwrap_used)]

mod running;

use running::{Connection, Running, digest, eventually, field, number};

/// Changes of every kind to a few hundred keys.
fn write(client: &mut Connection, round: usize) {
    for number in 0..300 {
        client.send(&format!("SET string:{number} {round}-{number}"));
        client.send(&format!("RPUSH list:{} {round}:{number}", number % 7));
        client.send(&format!("HSET hash:{} f{number} {round}", number % 5));
        client.send(&format!("DEL string:{}", (number + round) % 300));
    }
    (0..1200).for_each(|_| _ = client.reply());
}

/// Waits until the log that was switched on counts.
fn is_on(client: &mut Connection) {
    eventually(|| {
        let on = field(client, "aof_enabled")? == "1" && field(client, "aof_rewrite_in_progress")? == "0";
        on.then_some(())
    });
}

fn is_off(client: &mut Connection) {
    eventually(|| (field(client, "aof_enabled")? == "0").then_some(()));
}

#[test]
fn a_log_that_is_switched_on_has_everything() {
    for dirs in [1, 3] {
        let mut running = Running::start(&["--appendonly", "no"]);
        let names: Vec<String> = (0..dirs)
            .map(|number| running.folder.path(&format!("log{number}")).to_str().unwrap().to_owned())
            .collect();
        let mut args = vec!["--appendfsync", "always", "--log-dir"];
        args.extend(names.iter().map(String::as_str));
        let mut without = args.clone();
        without.extend(["--appendonly", "no"]);
        running.restart_with(&without);
        let mut client = running.connect();
        write(&mut client, 1);
        for round in 2..5 {
            assert_eq!(client.ask("CONFIG SET appendonly yes"), "+OK");
            write(&mut client, round);
            is_on(&mut client);
            write(&mut client, round + 10);
            let before = digest(&mut client);
            running.restart_with(&args);
            client = running.connect();
            assert_eq!(digest(&mut client), before, "{dirs} directories, round {round}");
            assert_eq!(client.ask("CONFIG SET appendonly no"), "+OK");
            is_off(&mut client);
            write(&mut client, round + 20);
        }
    }
}

/// Under `always`, nothing that is written after `CONFIG SET` is acknowledged before a start would find it.
#[test]
fn what_is_written_while_the_log_is_switched_on_is_acknowledged_when_it_is_kept() {
    let without = ["--appendfsync", "always", "--appendonly", "no", "--checkpoint-mode", "full"];
    let with = ["--appendfsync", "always", "--appendonly", "yes"];
    let mut running = Running::start(&without);
    let mut client = running.connect();
    assert_eq!(client.ask("SET old before"), "+OK");
    let calls = |client: &mut Connection, command: &str| {
        let stats = client.ask("INFO commandstats");
        stats.contains(&format!("cmdstat_{command}:")).then_some(())
    };
    for lets_it_count in [false, true] {
        // The temporary names of the next checkpoints are taken.
        let taken = |number: u32| running.folder.path(&format!("checkpoints/checkpoint-{number}.tarn.new"));
        (1..100).for_each(|number| std::fs::create_dir_all(taken(number)).unwrap());
        assert_eq!(client.ask("CONFIG SET appendonly yes"), "+OK");
        let mut writer = running.connect();
        writer.send("HSET new field value");
        eventually(|| calls(&mut client, "hset"));
        // A checkpoint has failed that began after the write.
        let failed = |client: &mut Connection| field(client, "rdb_last_bgsave_status").unwrap() == "err";
        eventually(|| failed(&mut client).then_some(()));
        assert_eq!(field(&mut client, "aof_rewrite_in_progress").unwrap(), "1");
        // The old data can be read all the while.
        assert_eq!(client.ask("GET old"), "before");
        let mut reader = running.connect();
        reader.send("HGET new field");
        eventually(|| calls(&mut client, "hget"));
        if lets_it_count {
            (1..100).for_each(|number| std::fs::remove_dir(taken(number)).unwrap());
            assert_eq!((writer.reply(), reader.reply()), (":1".to_owned(), "$value".to_owned()));
            running.restart_with(&with);
            let mut client = running.connect();
            assert_eq!(client.ask("HGET new field"), "value");
            assert_eq!(client.ask("GET old"), "before");
        } else {
            running.server.take().unwrap().kill();
            assert_eq!((writer.try_reply(), reader.try_reply()), (None, None));
            (1..100).for_each(|number| _ = std::fs::remove_dir(taken(number)));
            running.restart_with(&without);
            client = running.connect();
            assert_eq!(client.ask("EXISTS new"), ":0");
            assert_eq!(client.ask("SET old before"), "+OK");
        }
    }
}

#[test]
fn a_connection_may_want_more_than_the_server_or_less() {
    let mut running = Running::start(&["--appendfsync", "no"]);
    let (mut plain, mut careful) = (running.connect(), running.connect());
    assert_eq!(careful.ask("CLIENT DURABILITY always"), "+OK");
    for round in 0..50 {
        assert_eq!(plain.ask(&format!("SET plain {round}")), "+OK");
        let before = number(&mut plain, "log_durable_lsn");
        assert_eq!(careful.ask(&format!("SET careful {round}")), "+OK");
        let after = number(&mut plain, "log_durable_lsn");
        assert!(after >= before + 2, "round {round}: {before} records were durable, then {after}");
    }
    // Within a second, without anybody being held.
    let mut patient = running.connect();
    assert_eq!(patient.ask("CLIENT DURABILITY everysec"), "+OK");
    assert_eq!(patient.ask("SET patient 1"), "+OK");
    let last = 2 * 50 + 1;
    eventually(|| (number(&mut plain, "log_durable_lsn") >= last).then_some(()));

    running.restart_with(&["--appendfsync", "always"]);
    let mut hasty = running.connect();
    assert_eq!(hasty.ask("CLIENT DURABILITY no"), "+OK");
    assert_eq!(hasty.ask("SET hasty 1"), "+OK");
    assert_eq!(hasty.whole("WAITAOF 1 0 0"), "*[:1 :0]");
    assert!(number(&mut hasty, "log_durable_lsn") > last);
}

#[test]
fn what_is_older_than_the_switched_log_or_the_file_beside_it_is_refused() {
    let without = ["--appendonly", "no"];
    let mut running = Running::start(&without);
    let mut client = running.connect();
    assert_eq!(client.ask("SET key before"), "+OK");
    assert_eq!(client.ask("SAVE"), "+OK");
    let (checkpoints, older) = (running.folder.path("checkpoints"), running.folder.path("older"));
    std::fs::create_dir(&older).unwrap();
    for file in std::fs::read_dir(&checkpoints).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), older.join(file.file_name())).unwrap();
    }
    assert_eq!(client.ask("SET key after"), "+OK");
    assert_eq!(client.ask("CONFIG SET appendonly yes"), "+OK");
    is_on(&mut client);
    drop(running.server.take());
    let newer = running.folder.path("newer");
    std::fs::rename(&checkpoints, &newer).unwrap();
    std::fs::rename(&older, &checkpoints).unwrap();
    let port = running.port.to_string();
    let refusal = running.folder.refusal(&["--port", &port]);
    assert!(refusal.contains("and the log goes on from one with all up to"), "{refusal}");
    std::fs::rename(&checkpoints, &older).unwrap();
    std::fs::rename(&newer, &checkpoints).unwrap();

    // A switched log has left a checkpoint; then an RDB file was written.
    let rdb = ["--checkpoint-format", "rdb", "--appendonly", "no"];
    running.restart_with(&["--checkpoint-format", "rdb"]);
    let mut client = running.connect();
    assert_eq!(client.ask("GET key"), "after");
    assert_eq!(client.ask("CONFIG SET appendonly no"), "+OK");
    is_off(&mut client);
    assert_eq!(client.ask("SET key last"), "+OK");
    assert_eq!(client.ask("SAVE"), "+OK");
    drop(running.server.take());
    let refusal = running.folder.refusal(&[&["--port", &port], &rdb[..]].concat());
    assert!(refusal.contains("is older than") && refusal.contains("dump.rdb"), "{refusal}");
    std::fs::rename(&checkpoints, running.folder.path("away")).unwrap();
    running.restart_with(&rdb);
    assert_eq!(running.connect().ask("GET key"), "last");
}

/// More directories are added unchanged; fewer are a log of their own, which continues from a checkpoint.
#[test]
fn a_log_moves_to_more_directories_and_to_fewer() {
    let mut running = Running::start(&["--log-dir", "a", "b", "c"]);
    let mut client = running.connect();
    write(&mut client, 1);
    assert_eq!(client.whole("WAITAOF 1 0 0"), "*[:1 :0]");
    let before = digest(&mut client);
    running.restart_with(&["--log-dir", "a", "b", "c", "d"]);
    assert_eq!(digest(&mut running.connect()), before);
    client = running.connect();
    write(&mut client, 2);
    let written = digest(&mut client);
    let port = running.port.to_string();
    let fewer = ["--log-dir", "n"];
    client.send("SHUTDOWN SAVE");
    assert!(running.server.take().unwrap().wait().success());
    let refusal = running.folder.refusal(&["--port", &port, "--log-dir", "a", "b", "c"]);
    assert!(refusal.contains("it is one of 4 directories of a log, and only 3 are given"), "{refusal}");
    assert!(refusal.contains("to go on with fewer"), "{refusal}");

    running.restart_with(&[&fewer[..], &["--appendonly", "no"]].concat());
    client = running.connect();
    assert_eq!(digest(&mut client), written);
    assert_eq!(client.ask("CONFIG SET appendonly yes"), "+OK");
    is_on(&mut client);
    write(&mut client, 3);
    assert_eq!(client.whole("WAITAOF 1 0 0"), "*[:1 :0]");
    let written = digest(&mut client);
    running.restart_with(&fewer);
    assert_eq!(digest(&mut running.connect()), written);
}
