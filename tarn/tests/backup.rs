//! `tarn backup` and `tarn restore` with the real program: a restore has the data of the backup, and an
//! incomplete backup is refused.

#![allow(clippy::unwrap_used)]

mod running;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use running::redis::Redis;
use running::{Connection, Folder, Running, digest, eventually, field, number};

/// Small files, compacted as soon as some of their records are obsolete.
const EAGER: [&str; 6] =
    ["--log-file-size", "65536", "--log-compaction-min-size", "0", "--log-compaction-file-percentage", "30"];

/// The output and the exit code of the program; standard output and standard error in one.
fn tarn(args: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_tarn")).args(args).output().unwrap();
    let said = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
    (status.code().unwrap(), said)
}

/// Backs up to a folder beside the data and returns the newest record that the backup has.
fn back_up(running: &Running, name: &str, since: u64) -> u64 {
    let (port, since) = (running.port.to_string(), since.to_string());
    let (code, said) = tarn(&["backup", "-p", &port, "--since", &since, name]);
    assert_eq!(code, 0, "{said}");
    said.trim_end().rsplit(' ').next().unwrap().parse().unwrap()
}

fn restore(folder: &Folder, backups: &[&str], to: &str) -> (i32, String) {
    let paths: Vec<String> =
        backups.iter().chain([&to]).map(|name| folder.path(name).to_str().unwrap().to_owned()).collect();
    let (to, backups) = paths.split_last().unwrap();
    let mut args = vec!["restore", "--dir", to];
    args.extend(backups.iter().map(String::as_str));
    tarn(&args)
}

/// The data of a server that runs on a restored directory.
fn digest_of(path: PathBuf, directories: usize) -> String {
    let port = running::free_port().to_string();
    let dir = path.to_str().unwrap().to_owned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tarn"));
    command.args(["serve", "--port", &port, "--enable-debug-command", "yes", "--dir", &dir]);
    if directories > 1 {
        command.arg("--log-dir").args((0..directories).map(|index| format!("log-{index}")));
    }
    let mut server = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut client = running::Client::tcp("127.0.0.1", port.parse().unwrap());
    while client.ask("PING") != "+PONG" {}
    let found = digest(&mut client);
    server.kill().unwrap();
    server.wait().unwrap();
    found
}

/// Writes to few keys of several types again and again, and deletes them.
fn churn(client: &mut Connection, rounds: std::ops::Range<usize>) {
    let value = "v".repeat(200);
    for round in rounds {
        let mut commands = Vec::new();
        for number in 0..200 {
            let slot = (round * 7 + number * 13) % 40;
            commands.push(format!("SET string:{slot} {value}{round}"));
            commands.push(format!("RPUSH list:{} {value}{number}", slot % 3));
            commands.push(format!("LPOP list:{}", slot % 3));
            commands.push(format!("HSET hash:{} f{} {value}{round}", slot % 4, slot / 4));
            commands.push(format!("HDEL hash:{} f{}", slot % 4, (slot + 5) / 4));
            commands.push(format!("SADD set:{} m{}", slot % 4, slot));
            commands.push(format!("SREM set:{} m{}", slot % 4, (slot + 3) % 40));
            commands.push(format!("DEL string:{}", (slot + 1) % 40));
        }
        commands.iter().for_each(|command| client.send(command));
        for command in &commands {
            let reply = client.reply();
            assert!(!reply.starts_with('-'), "{command}: {reply}");
        }
    }
}

#[test]
fn a_full_backup_and_its_increments_come_back_as_the_store_was_at_their_ends() {
    for directories in [1, 3] {
        for checkpoint in [false, true] {
            let mut args = EAGER.to_vec();
            let names = ["one", "two", "three"];
            if directories > 1 {
                args.push("--log-dir");
                args.extend(names);
            }
            let mut running = Running::start(&args);
            let mut client = running.connect();
            let (mut ends, mut digests, mut backups) = (vec![0], Vec::new(), Vec::new());
            for stage in 0..4 {
                churn(&mut client, stage * 6..stage * 6 + 6);
                client.ask(&format!("SET stage:{stage} {}", "x".repeat(1000)));
                client.ask(&format!("DEL stage:{}", (stage + 3) % 4));
                if checkpoint && stage % 2 == 0 {
                    assert_eq!(client.ask("SAVE"), "+OK");
                }
                if stage == 2 {
                    running.restart();
                    client = running.connect();
                }
                let name = ["full", "second", "third", "fourth"][stage];
                ends.push(back_up(&running, name, ends[stage]));
                backups.push(name);
                digests.push(digest(&mut client));
                assert_eq!(client.ask("BGREWRITEAOF"), "+Background append only file rewriting started");
                eventually(|| (field(&mut client, "aof_rewrite_in_progress")? == "0").then_some(()));
            }
            assert!(number(&mut client, "log_compactions") > 0);
            for count in 1..=4 {
                let to = format!("restored-{count}");
                let (code, said) = restore(&running.folder, &backups[..count], &to);
                assert_eq!(code, 0, "{said}");
                assert!(said.starts_with(&format!("restored up to record {}: ", ends[count])), "{said}");
                let found = digest_of(running.folder.path(&to), directories);
                assert_eq!(found, digests[count - 1], "{directories}, {checkpoint}, {count}");
            }
        }
    }
}

/// Tells a thread to end when it is dropped.
struct Ends<'t>(&'t AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_backup_under_load_has_what_was_acknowledged_before_it_and_no_hole() {
    let running = Running::start(&EAGER);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also if the test fails: else it would wait for the writer for ever.
        let _ends = Ends(&is_over);
        let writer = scope.spawn(|| {
            let mut client = running.connect();
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                client.ask(&format!("SET counter {number}"));
                client.ask(&format!("RPUSH list {number}"));
            }
        });
        let mut client = running.connect();
        for round in 0..5 {
            eventually(|| {
                let counted: u64 = client.ask("GET counter").parse().unwrap_or(0);
                (counted > round * 500).then_some(())
            });
            let before: u64 = client.ask("GET counter").parse().unwrap();
            let name = format!("full-{round}");
            back_up(&running, &name, 0);
            let (code, said) = restore(&running.folder, &[&name], &format!("restored-{round}"));
            assert_eq!(code, 0, "{said}");
            let dir = running.folder.path(&format!("restored-{round}"));
            let found = Found::in_data(&dir);
            assert!(found.counter >= before, "{} of {before}", found.counter);
            assert!((0..=1).contains(&(found.counter - found.elements)), "{found:?}");
        }
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
}

#[test]
fn what_was_declared_comes_back_as_it_was_at_the_end_of_each_backup() {
    let sql_port = running::free_port().to_string();
    let mut running = Running::start(&["--sql-port", &sql_port]);
    let mut client = running.connect();
    let declare = |name: &str| {
        format!("SQL \"CREATE EXTERNAL TABLE {name} (id TEXT, age INT) STORED AS HASH LOCATION 'user:*'\"")
    };
    client.ask("HSET user:1 age 41");
    for command in [
        &declare("people"),
        "SQL \"CREATE INDEX by_age ON people (age)\"",
        "FT.CREATE users SCHEMA age NUMERIC",
    ] {
        assert_eq!(client.ask(command), "+OK", "{command}");
    }
    let end = back_up(&running, "full", 0);
    client.ask("HSET user:1 age 42");
    for command in ["SQL \"DROP TABLE people\"", &declare("humans"), "FT.DROPINDEX users"] {
        assert_eq!(client.ask(command), "+OK", "{command}");
    }
    back_up(&running, "second", end);
    running.server.take().unwrap().terminate();

    let mut found = |backups: &[&str], to: &str, commands: &[&str]| -> Vec<String> {
        let (code, said) = restore(&running.folder, backups, to);
        assert_eq!(code, 0, "{said}");
        let dir = running.folder.path(to);
        running.restart_with(&["--sql-port", &sql_port, "--dir", dir.to_str().unwrap()]);
        let mut client = running.connect();
        let found = commands.iter().map(|command| client.whole(command)).collect();
        running.server.take().unwrap().terminate();
        found
    };
    let (indexes, searches) = ("SQL \"SHOW INDEXES\"", "FT._LIST");
    let columns = "$index $table $column $built_permille $keys $kept_for_views $bytes";
    let old = found(&["full"], "old", &["SQL \"SELECT id, age FROM people\"", indexes, searches]);
    assert_eq!(old[0], "*[*[$id $age] *[$1 :41]]");
    assert!(old[1].starts_with(&format!("*[*[{columns}] *[$by_age $people $age ")), "{}", old[1]);
    assert_eq!(old[2], "*[$users]");
    let new = found(
        &["full", "second"],
        "new",
        &["SQL \"SELECT id, age FROM humans\"", indexes, searches, "SQL \"SELECT * FROM people\""],
    );
    assert_eq!(new[..3], ["*[*[$id $age] *[$1 :42]]", &format!("*[*[{columns}]]"), "*[]"]);
    assert!(new[3].starts_with("-ERR 42P01 "), "{}", new[3]);

    let path = running.folder.path("full/tables.sql");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("people", "peoble")).unwrap();
    let (code, said) = restore(&running.folder, &["full"], "spoilt");
    assert!(code == 1 && said.contains("tables.sql: its checksum is not what it was"), "{said}");
    std::fs::write(&path, text).unwrap();
    assert_eq!(restore(&running.folder, &["full"], "spoilt").0, 0, "nothing is left of what was refused");
}

/// The progress of the writer of a test.
#[derive(Debug)]
struct Found {
    counter: u64,
    elements: u64,
}

impl Found {
    fn in_data(dir: &Path) -> Found {
        let port = running::free_port().to_string();
        let args = ["serve", "--port", &port, "--dir", dir.to_str().unwrap()];
        let mut command = Command::new(env!("CARGO_BIN_EXE_tarn"));
        let mut server = command.args(args).stderr(std::process::Stdio::null()).spawn().unwrap();
        let mut client = running::Client::tcp("127.0.0.1", port.parse().unwrap());
        let counter = client.ask("GET counter").parse().unwrap();
        let elements = client.ask("LLEN list")[1..].parse().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        Found { counter, elements }
    }
}

/// A server with a full backup and two increments, which has ended.
struct Set {
    folder: Folder,
    log_file: PathBuf,
}

fn set() -> Set {
    let mut running = Running::start(&EAGER);
    let mut client = running.connect();
    let mut end = 0;
    for (stage, name) in ["full", "second", "third"].into_iter().enumerate() {
        churn(&mut client, stage * 3..stage * 3 + 3);
        end = back_up(&running, name, end);
    }
    running.server.take().unwrap().terminate();
    let folder = running.folder;
    let log_file = log_files(&folder.path("third")).pop().unwrap();
    Set { folder, log_file }
}

fn log_files(backup: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(backup).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "tarnlog")).collect();
    files.sort();
    files
}

#[test]
fn a_set_that_is_damaged_incomplete_or_mixed_is_refused_by_name() {
    let (set, other) = (set(), set());
    let folder = &set.folder;
    let all = ["full", "second", "third"];
    let refused = |backups: &[&str], why: &str| {
        let (code, said) = restore(folder, backups, "restored");
        assert_eq!(code, 1, "{backups:?}: {said}");
        assert!(
            said.starts_with("tarn: ") && said.contains(why) && said.lines().count() == 1,
            "{why}: {said}"
        );
        assert!(!folder.path("restored/restore.unfinished").exists(), "{backups:?}");
    };
    refused(&["second"], "second: it is an increment, of what came after record ");
    refused(&["full", "third"], "third: it has what came after record ");
    refused(&["full", "third", "second"], "third: it has what came after record ");
    refused(&["full", "full"], "full: it is a full backup, as ");
    refused(&["nowhere"], "nowhere holds no backup");
    let foreign = other.folder.path("second");
    refused(&["full", foreign.to_str().unwrap()], "second: it is of another log than ");

    let content = std::fs::read(&set.log_file).unwrap();
    let name = set.log_file.file_name().unwrap().to_str().unwrap().to_owned();
    std::fs::remove_file(&set.log_file).unwrap();
    refused(&all, &format!("{name}: it is missing"));
    for at in [0, 100, content.len() / 2, content.len() - 1] {
        let mut spoilt = content.clone();
        spoilt[at] ^= 0x10;
        std::fs::write(&set.log_file, spoilt).unwrap();
        refused(&all, &format!("{name}: its checksum is not what it was"));
    }
    std::fs::write(&set.log_file, &content[..content.len() - 8]).unwrap();
    refused(&all, &format!("{name}: it is shorter than it was"));
    // A file of the same name from another backup.
    let last_of_other = log_files(&other.folder.path("third")).pop().unwrap();
    std::fs::copy(last_of_other, &set.log_file).unwrap();
    // Two files that are a header alone have the same CRC, because a header ends with its own; then the log
    // shows the difference.
    refused(&all, name.trim_start_matches("0-"));
    std::fs::write(&set.log_file, &content).unwrap();

    let manifest = folder.path("third/backup.manifest");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("directories 1", "directories 2")).unwrap();
    refused(&all, "backup.manifest: it is no manifest, or its checksum is wrong");
    std::fs::write(&manifest, text.replace("tarn backup 2", "tarn backup 3")).unwrap();
    refused(&all, "backup.manifest: its first line is not known here");
    std::fs::rename(&manifest, folder.path("third/backup.unfinished")).unwrap();
    refused(&all, "third holds no finished backup");
    std::fs::remove_file(folder.path("third/backup.unfinished")).unwrap();
    std::fs::write(&manifest, &text).unwrap();

    std::fs::create_dir(folder.path("occupied")).unwrap();
    std::fs::write(folder.path("occupied/note"), "mine").unwrap();
    let (code, said) = restore(folder, &all, "occupied");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("occupied is not empty: name another directory"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path("occupied")).unwrap().count(), 1);

    // A refused restore has left nothing that prevents the next one.
    let (code, said) = restore(folder, &all, "restored");
    assert_eq!(code, 0, "{said}");
    assert!(digest_of(folder.path("restored"), 1).len() > 40);
}

#[test]
fn a_server_starts_neither_on_a_backup_nor_on_half_of_a_restore() {
    let running = Running::start(&EAGER);
    running.connect().ask("SET key value");
    back_up(&running, "full", 0);
    let backup = running.folder.path("full");
    let port = running::free_port().to_string();
    let serve = |args: &[&str]| tarn(&[&["serve", "--port", &port], args].concat());
    let elsewhere = Folder::new();
    let (dir, other) = (backup.to_str().unwrap(), elsewhere.path("data"));
    std::fs::create_dir(&other).unwrap();
    let other = other.to_str().unwrap();
    let names = || std::fs::read_dir(&backup).unwrap().count();
    let before = names();
    for args in
        [&["--dir", dir][..], &["--dir", dir, "--appendonly", "no"], &["--dir", other, "--log-dir", dir]]
    {
        let (code, said) = serve(args);
        assert_eq!(code, 1, "{args:?}: {said}");
        assert!(said.contains("it holds a backup, which is not worked on"), "{args:?}: {said}");
        assert_eq!(names(), before, "{args:?}");
    }
    std::fs::rename(backup.join("backup.manifest"), backup.join("backup.unfinished")).unwrap();
    let (code, said) = serve(&["--dir", dir]);
    assert!(code == 1 && said.contains("it holds a backup that was not finished"), "{said}");
    std::fs::write(Path::new(other).join("restore.unfinished"), "").unwrap();
    let (code, said) = serve(&["--dir", other]);
    assert!(code == 1 && said.contains("a backup was being restored to it and is not all there"), "{said}");
}

#[test]
fn a_backup_that_cannot_be_made_says_why_and_the_server_goes_on() {
    let running = Running::start(&EAGER);
    let mut client = running.connect();
    churn(&mut client, 0..4);
    let port = running.port.to_string();
    let refused = |args: &[&str], code: i32, why: &str| {
        let (found, said) = tarn(&[&["backup", "-p", &port], args].concat());
        assert_eq!(found, code, "{args:?}: {said}");
        assert!(
            said.starts_with("tarn: ") && said.contains(why) && said.lines().count() == 1,
            "{why}: {said}"
        );
    };
    back_up(&running, "full", 0);
    refused(&["full"], 1, "full is not empty, it holds a backup: name another directory");
    refused(&["log"], 1, "log is where the server keeps its log or its checkpoints");
    refused(&["log/full"], 1, "log/full is where the server keeps its log or its checkpoints");
    refused(
        &["--since", "999999999", "ahead"],
        1,
        "before 999999999: SINCE takes the end of an earlier backup",
    );
    assert!(!running.folder.path("ahead").exists(), "nothing is left of what is refused");
    std::fs::write(running.folder.path("file"), "").unwrap();
    refused(&["file"], 1, "cannot list ");
    let nobody = running::free_port().to_string();
    let (code, said) = tarn(&["backup", "-p", &nobody, "other"]);
    assert!(code == 2 && said.contains("connect to "), "{said}");
    assert_eq!(client.ask("BACKUP"), "-ERR wrong number of arguments for 'backup' command");
    assert_eq!(client.ask("BACKUP a SINCE"), "-ERR syntax error");
    assert_eq!(client.ask("BACKUP a SINCE x"), "-ERR value is not an integer or out of range");
    assert_eq!(client.ask("BACKUP a AFTER 1"), "-ERR syntax error");
    for subcommand in ["START", "abort"] {
        let told = client.ask(&format!("BACKUP {subcommand}"));
        let why = format!("-ERR BACKUP {subcommand} is a command of Redis; here BACKUP takes a directory");
        assert!(told.starts_with(&why), "{told}");
        assert!(!running.folder.path(subcommand).exists());
    }
    assert_eq!(client.ask("SET key value"), "+OK");
    assert_eq!(field(&mut client, "last_backup_status").unwrap(), "err");

    // However short compaction has made the rest.
    for number in 0..10 {
        assert_eq!(client.ask(&format!("SET large:{number} {}", "v".repeat(10_000))), "+OK");
    }
    if let Some(small) = running::SmallDisk::mount(&running.folder, "small", "size=16k") {
        refused(&[&format!("{}/full", small.path())], 1, "No space left on device");
        assert_eq!(std::fs::read_dir(Path::new(small.path()).join("full")).unwrap().count(), 0);
    }
    if let Some(large) = running::SmallDisk::mount(&running.folder, "large", "size=64m") {
        // Another file system: nothing can be shared.
        let path = format!("{}/full", large.path());
        back_up(&running, &path, 0);
        assert_eq!(number(&mut client, "last_backup_files_linked"), 0);
        let before = digest(&mut client);
        let (code, said) = restore(&running.folder, &["large/full"], "restored");
        assert_eq!(code, 0, "{said}");
        assert_eq!(digest_of(running.folder.path("restored"), 1), before);
    }
    assert_eq!(field(&mut client, "aof_last_write_status").unwrap(), "ok");
}

#[test]
fn another_server_than_tarn_is_called_one() {
    let Some(redis) = Redis::start() else { return };
    let (code, said) = tarn(&["backup", "-p", &redis.port.to_string(), "full"]);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.starts_with("tarn: the server does not know the command BACKUP: it is another server"),
        "{said}"
    );
}

#[test]
fn backups_go_where_the_configuration_lets_them_and_no_further() {
    let (elsewhere, away) = (Folder::new(), Folder::new());
    let [allowed, other] = [&elsewhere, &away].map(|folder| folder.path("").to_str().unwrap().to_owned());
    let running = Running::start(&["--backup-dir", &allowed, "--backup-max", "3"]);
    let mut client = running.connect();
    client.ask("SET key value");
    // From the machine itself, as from anywhere: a proxy may act for another client.
    for path in [format!("{other}full"), "../full".to_owned(), format!("{allowed}../full"), "/".to_owned()] {
        let said = client.ask(&format!("BACKUP {path}"));
        assert!(
            said.contains("is neither below 'dir' nor below a directory that 'backup-dir' names"),
            "{said}"
        );
    }
    std::os::unix::fs::symlink(away.path(""), running.folder.path("link")).unwrap();
    let port = running.port.to_string();
    let (code, said) = tarn(&["backup", "-p", &port, "link/full"]);
    assert!(code == 1 && said.contains("link/full is neither below 'dir'"), "{said}");
    assert_eq!(std::fs::read_dir(away.path("")).unwrap().count(), 0);

    for name in ["one", "week/two", "week/three"] {
        back_up(&running, name, 0);
    }
    let (code, said) = tarn(&["backup", "-p", &port, "four"]);
    assert!(
        code == 1 && said.contains("there are 3 backups below ") && said.contains("backup-max"),
        "{said}"
    );
    back_up(&running, &format!("{allowed}one"), 0);
    // One that is moved away makes room.
    std::fs::rename(running.folder.path("one"), away.path("one")).unwrap();
    back_up(&running, "four", 0);
    assert_eq!(
        client.ask("CONFIG SET backup-max 0"),
        "-ERR CONFIG SET failed (possibly related to argument 'backup-max') - can't set protected config"
    );
}

#[test]
fn a_server_without_a_log_has_nothing_to_back_up_and_a_password_is_asked_for() {
    let mut running = Running::start(&["--appendonly", "no"]);
    let port = running.port.to_string();
    let (code, said) = tarn(&["backup", "-p", &port, "full"]);
    assert_eq!(
        (code, said.as_str()),
        (1, "tarn: There is no log: the server runs with 'appendonly no', or switched it on a moment ago\n")
    );
    running.restart_with(&[]);
    running.connect().ask("CONFIG SET requirepass secret");
    let (code, said) = tarn(&["backup", "-p", &port, "full"]);
    assert!(code == 1 && said.contains("NOAUTH"), "{said}");
    let (code, said) = tarn(&["backup", "-p", &port, "-a", "wrong", "full"]);
    assert!(code == 1 && said.contains("WRONGPASS"), "{said}");
    let (code, said) = tarn(&["backup", "-p", &port, "-a", "secret", "full"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("it is empty: let the next one be a full one, without --since\n"), "{said}");
}

#[test]
fn a_server_that_stops_gives_a_backup_up_and_says_that_it_is_not_finished() {
    let mut running = Running::start(&[]);
    let mut client = running.connect();
    for number in 0..100 {
        client.ask(&format!("SET key:{number} {}", "x".repeat(10_000)));
    }
    client.ask("CONFIG SET log-compaction-bytes-per-second 1000");
    assert_eq!(client.ask("BACKUP slow"), "+Background backup started");
    assert_eq!(client.ask("BACKUP other"), "-ERR Background backup already in progress");
    eventually(|| (number(&mut client, "current_backup_bytes") > 0).then_some(()));
    assert!(running.server.take().unwrap().terminate().success());
    assert!(!running.folder.path("slow/backup.manifest").exists());
    let (code, said) = restore(&running.folder, &["slow"], "restored");
    assert!(code == 1 && said.contains("slow holds no backup"), "{said}");
    running.restart();
    assert_eq!(running.connect().ask("GET key:99").len(), 10_000);
}
