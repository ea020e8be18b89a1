//! A change is durable before it is visible: on a disk whose syncs stand still, no reply tells of anything
//! that a loss of power would take back.
//!
//! ```text
//!   one server:      the prelude, durable ─ every read: what a loss of power leaves
//!   one per write:   the prelude, durable ─ syncs stand still ─ the write ─ each read: the same or withheld
//! ```

#![allow(clippy::unwrap_used)]

mod samples;
mod scene;

use std::sync::atomic::Ordering;

use samples::{LIBRARY, OF_ANALYTICS, OF_THE_PROCESS, PRELUDE, READS, WATCHED, WRITES, Write};
use scene::{Peer, Scene, eventually};
use tarn_engine::SyncMode;
use tarn_server::commands;
use tarn_server::execute::spec::Flags;

/// How long it takes until what is written expires, and a little longer.
const PASSED_MS: u64 = 10_000;

/// How a client reads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    /// One request.
    Alone,
    /// A transaction of that request.
    Transaction,
}

/// How the commands run that can run in steps.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    /// The keys are small, so all of them at once.
    AtOnce,
    /// All of them in steps.
    Steps,
}

/// Turns of the worker in which all reads that are sent together run all of their steps.
const STEPS_MAX: usize = 500;

/// A read, as it is sent.
fn packet(read: &'static str, how: How) -> Vec<&'static str> {
    // Keys of which one is drawn by chance are alone in their database.
    let database = if read == "RANDOMKEY" { "SELECT 9" } else { "SELECT 0" };
    match how {
        How::Alone => vec![database, read],
        How::Transaction => vec![database, "MULTI", read, "EXEC"],
    }
}

/// A reply without what differs from server to server, or is no promise while the disk stands still.
fn comparable(read: &str, reply: &str) -> String {
    // The clock of uses is that of the process: the servers of tests beside this one set it, too.
    if read.starts_with("OBJECT IDLETIME") {
        return reply.replace(|c: char| c.is_ascii_digit(), "");
    }
    let mut out = without_numbers_after("at:0x", char::is_ascii_hexdigit, reply);
    for clock in [" lru:", " lru_seconds_idle:"] {
        out = without_numbers_after(clock, char::is_ascii_digit, &out);
    }
    if !out.contains(",avg_ttl=") {
        return out;
    }
    // The number decides on the length, too.
    let body = out.find("# Keyspace").unwrap_or(0);
    without_numbers_after(",avg_ttl=", char::is_ascii_digit, &out[body..])
}

/// The text without the digits behind each `name`.
fn without_numbers_after(name: &str, digit: fn(&char) -> bool, text: &str) -> String {
    let mut parts = text.split(name);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, rest| out + name + rest.trim_start_matches(|c: char| digit(&c)))
}

/// A server with the prelude.
fn prepared(mode: SyncMode) -> Scene {
    let scene = Scene::new(mode);
    let mut peer = scene.connect();
    assert_eq!(peer.ask_bulk(LIBRARY), "lib\r\n");
    for request in PRELUDE {
        let reply = peer.ask(request);
        assert!(!reply.starts_with('-'), "{request}: {reply}");
    }
    scene.settle();
    scene
}

/// The reply of every read to the prelude alone.
fn told_without_a_write(expired: bool, hows: &[How]) -> Vec<String> {
    let mut scene = prepared(SyncMode::Always);
    let before = scene.newest();
    if expired {
        scene.clock.advance(PASSED_MS);
    }
    let mut told = Vec::new();
    let mut peer = scene.connect();
    for how in hows {
        for read in READS {
            peer.send(&packet(read, *how));
            scene.fence();
            let reply = peer.received();
            let lines = packet(read, *how).len();
            assert!(reply.matches("\r\n").count() >= lines, "{how:?} {read}: {reply:?}");
            assert_eq!(scene.newest(), before, "{read} changes something");
            told.push(reply);
        }
    }
    told
}

/// How many replies were the same, and how many were withheld.
#[derive(Debug, Default)]
struct Count {
    same: usize,
    withheld: usize,
    revealed: Vec<String>,
}

impl Count {
    /// A reply that is complete is the same as `told`; else something in it is withheld.
    fn add(&mut self, read: &str, what: impl FnOnce() -> String, found: &str, told: &str) -> bool {
        if comparable(read, found) == comparable(read, told) {
            self.same += 1;
            return true;
        }
        if told.starts_with(found) {
            self.withheld += 1;
        } else {
            self.revealed.push(format!("{}: {found:?} instead of {told:?}", what()));
        }
        false
    }
}

/// Reads everything on a server that has `write`, and no sync ends.
fn read_behind(
    write: &Write,
    (mode, pace): (SyncMode, Pace),
    hows: &[How],
    told: &[String],
    count: &mut Count,
) {
    let mut scene = prepared(mode);
    if pace == Pace::Steps {
        scene.server.steps_from.store(0, Ordering::Relaxed);
    }
    let mut watchers: Vec<(&str, Peer)> = WATCHED.iter().map(|key| (*key, scene.connect_strict())).collect();
    for (key, peer) in &mut watchers {
        assert_eq!(peer.ask(&format!("WATCH {key}")), "+OK\r\n");
    }
    scene.stall();
    let before = scene.newest();
    let mut writer = scene.connect();
    writer.send(write.requests);
    scene.fence();
    assert!(scene.newest() > before, "{:?} changes something", write.requests);
    if write.expires {
        scene.clock.advance(PASSED_MS);
    }
    let all: Vec<(How, &'static str)> =
        hows.iter().flat_map(|how| READS.iter().map(|read| (*how, *read))).collect();
    let mut idle: Vec<Peer> = Vec::new();
    for (reads, told) in all.chunks(100).zip(told.chunks(100)) {
        let mut peers: Vec<Peer> =
            reads.iter().map(|_| idle.pop().unwrap_or_else(|| scene.connect_strict())).collect();
        for (peer, (how, read)) in peers.iter_mut().zip(reads) {
            peer.send(&packet(read, *how));
        }
        // One step runs in each turn of the worker.
        (0..if pace == Pace::Steps { STEPS_MAX } else { 1 }).for_each(|_| scene.fence());
        for (((how, read), told), mut peer) in reads.iter().zip(told).zip(peers) {
            let what = || format!("{mode:?}: {:?}, then {read} {how:?}", write.requests);
            if count.add(read, what, &peer.received(), told) {
                idle.push(peer);
            }
        }
    }
    watchers.iter_mut().for_each(|(_, peer)| peer.send(&["MULTI", "PING", "EXEC"]));
    scene.fence();
    for (key, peer) in &mut watchers {
        let what = || format!("{mode:?}: {:?}, then EXEC of a client that watches {key}", write.requests);
        count.add("EXEC", what, &peer.received(), "+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
    }
}

/// Reads behind every write, and asserts that nothing is told.
fn nothing_is_told(mode: SyncMode, pace: Pace, hows: &[How]) {
    let (told, told_later) = (told_without_a_write(false, hows), told_without_a_write(true, hows));
    let mut count = Count::default();
    for write in WRITES {
        read_behind(write, (mode, pace), hows, if write.expires { &told_later } else { &told }, &mut count);
    }
    let Count { same, withheld, revealed } = count;
    let pairs = same + withheld + revealed.len();
    println!(
        "{mode:?} {pace:?}: {} writes, {} reads, {pairs} pairs: {same} replies as before, {withheld} \
         withheld, {} reveal a change",
        WRITES.len(),
        READS.len() * hows.len() + WATCHED.len(),
        revealed.len()
    );
    assert!(revealed.is_empty(), "{}", revealed[..revealed.len().min(40)].join("\n"));
    assert!(same > pairs / 2, "whoever withholds everything reveals nothing either: {same} of {pairs}");
    assert!(withheld > pairs / 20, "{withheld} of {pairs}");
}

#[test]
fn no_reply_tells_of_a_change_that_is_not_durable() {
    nothing_is_told(SyncMode::Always, Pace::AtOnce, &[How::Alone, How::Transaction]);
}

#[test]
fn no_reply_tells_a_client_that_asked_for_durability_either() {
    nothing_is_told(SyncMode::EverySec, Pace::AtOnce, &[How::Alone]);
}

#[test]
fn no_reply_in_steps_tells_of_a_change_that_is_not_durable() {
    nothing_is_told(SyncMode::Always, Pace::Steps, &[How::Alone]);
}

#[test]
fn every_command_has_a_sample() {
    let words =
        |request: &str| request.to_ascii_lowercase().split(' ').map(str::to_owned).collect::<Vec<_>>();
    let names = |request: &str| {
        let words = words(request);
        let sub = words.get(1).map(|sub| format!("{}|{sub}", words[0])).unwrap_or_default();
        [words[0].clone(), sub]
    };
    let written: Vec<String> =
        WRITES.iter().flat_map(|write| write.requests.iter().flat_map(|request| names(request))).collect();
    let read: Vec<String> = READS.iter().flat_map(|read| names(read)).collect();
    let mut missing = Vec::new();
    for found in commands::table().all() {
        let command = found.command;
        let rows: Vec<(String, Flags)> = match command.subcommands {
            [] => vec![(command.name.to_owned(), command.flags)],
            subs => subs.iter().map(|sub| (format!("{}|{}", command.name, sub.name), sub.flags)).collect(),
        };
        for (name, flags) in rows {
            let is_listed = |list: &[&str]| list.contains(&name.as_str()) || list.contains(&command.name);
            let is_sampled = if flags.has(Flags::WRITE) {
                written.contains(&name) || is_listed(OF_THE_PROCESS)
            } else {
                read.contains(&name)
                    || is_listed(OF_THE_PROCESS)
                    || OF_ANALYTICS.iter().any(|prefix| name.starts_with(prefix))
            };
            if !is_sampled {
                missing.push(name);
            }
        }
    }
    assert!(missing.is_empty(), "give these a sample in samples.rs: {missing:?}");
}

/// The null of a client that waited in vain tells that there was nothing.
#[test]
fn the_null_of_a_wait_that_is_over_is_held_as_any_reply_is() {
    let mut scene = prepared(SyncMode::Always);
    scene.stall();
    scene.connect().send(&["DEL l1"]);
    scene.connect().send(&["DEL z1"]);
    scene.fence();
    let mut peers: Vec<Peer> = (0..4).map(|_| scene.connect()).collect();
    peers[0].send(&["BLPOP l1 0.01"]);
    peers[1].send(&["BZPOPMIN z1 0.01"]);
    peers[2].send(&["BLMOVE l1 l LEFT LEFT 0"]);
    peers[3].send(&["SELECT 3", "BLPOP q 0.01"]);
    let blocked = |id| scene.server.clients.get(id).unwrap().info.lock().blocked;
    eventually(|| blocked(peers[2].id).then_some(()));
    assert_eq!(scene.connect().ask(&format!("CLIENT UNBLOCK {} TIMEOUT", peers[2].id)), ":1\r\n");
    peers[3].expect("+OK\r\n*-1\r\n");
    for peer in &peers[..3] {
        eventually(|| (!blocked(peer.id)).then_some(()));
    }
    scene.fence();
    for peer in &mut peers[..3] {
        assert_eq!(peer.received(), "", "a loss of power would bring the keys back");
    }
    scene.resume();
    peers.iter_mut().take(2).for_each(|peer| peer.expect("*-1\r\n"));
}

/// A reply without bytes, held behind one that leaves, must not take the worker along.
#[test]
fn a_worker_goes_on_when_a_reply_that_is_held_has_no_bytes() {
    let mut scene = prepared(SyncMode::Always);
    scene.stall();
    let mut peer = scene.connect();
    peer.send(&["PING", "CLIENT REPLY SKIP", "SET a 1"]);
    peer.expect("+PONG\r\n");
    scene.fence();
    peer.send(&["PING"]);
    scene.fence();
    assert_eq!(peer.received(), "", "what stands behind the SET waits for it");
    // Keys of its segment have just been deleted.
    scene.connect().send(&["DEL l1"]);
    let mut waiting = scene.connect();
    waiting.send(&["ECHO x", "BLPOP l1 0"]);
    waiting.expect("$1\r\nx\r\n");
    scene.fence();
    scene.resume();
    peer.expect("+PONG\r\n");
    scene.connect().send(&["RPUSH l1 y"]);
    waiting.expect("*2\r\n$2\r\nl1\r\n$1\r\ny\r\n");
}

#[test]
fn a_reply_to_be_skipped_is_that_of_the_command_that_waited() {
    let scene = Scene::new(SyncMode::EverySec);
    let mut peer = scene.connect();
    peer.send(&["CLIENT REPLY SKIP", "BLPOP q 0", "ECHO behind"]);
    eventually(|| scene.server.clients.get(peer.id).unwrap().info.lock().blocked.then_some(()));
    assert_eq!(scene.connect().ask("RPUSH q x"), ":1\r\n");
    peer.expect("$6\r\nbehind\r\n");
    assert_eq!(peer.ask("ECHO x"), "$1\r\n");
}

/// A client that waits, for whom the log has no room at the moment, is served when there is some.
#[test]
fn who_waits_keeps_its_place_while_the_log_has_no_room() {
    let mut scene = Scene::with_log(SyncMode::Always, 4 << 10, 1);
    let mut waiting = scene.connect();
    waiting.send(&["BLPOP q 0"]);
    eventually(|| scene.server.clients.get(waiting.id).unwrap().info.lock().blocked.then_some(()));
    scene.stall();
    // The only flight stays with this block, so what comes behind it gathers.
    let before = scene.newest_block();
    scene.connect().send(&["SET k v"]);
    eventually(|| (scene.newest_block() > before).then_some(()));
    let element = "x".repeat(20 << 10);
    scene.connect().send(&[&format!("RPUSH q {element}")]);
    scene.fence();
    assert_eq!(waiting.received(), "");
    assert!(!scene.server.has_room(), "the log has no room");
    scene.resume();
    waiting.expect(&format!("*2\r\n$1\r\nq\r\n${}\r\n{element}\r\n", element.len()));
}

#[test]
fn a_client_that_has_gone_is_forgotten_while_the_log_has_no_room() {
    let mut scene = stalled_with_little_room();
    let push = format!("RPUSH q {}", "x".repeat(6 << 10));
    scene.connect().send(&[&push, &push]);
    scene.fence();
    assert!(!scene.server.has_room(), "the log has no room");
    let mut peer = scene.connect();
    peer.send(&["SET a 1"]);
    eventually(|| scene.server.clients.get(peer.id).unwrap().info.lock().blocked.then_some(()));
    let id = peer.id;
    drop(peer);
    eventually(|| scene.server.clients.get(id).is_none().then_some(()));
    assert!(!scene.server.has_room(), "the log still has no room");
}

#[test]
fn the_socket_closes_of_a_client_whose_replies_wait_no_longer() {
    let mut scene = Scene::new(SyncMode::Always);
    let mut peer = scene.connect();
    scene.stall();
    peer.send(&["SET a 1"]);
    scene.fence();
    peer.send(&["CLIENT DURABILITY no", "QUIT"]);
    peer.expect("+OK\r\n+OK\r\n+OK\r\n");
    peer.expect_end();
}

/// Nobody takes an element while writes are paused, whatever brought it.
#[test]
fn who_waits_is_served_after_a_pause_of_writes() {
    let mut scene = Scene::with_log(SyncMode::Always, 4 << 10, 1);
    let mut waiting = [scene.connect(), scene.connect()];
    for (peer, key) in waiting.iter_mut().zip(["p", "q"]) {
        peer.send(&[&format!("BLPOP {key} 0")]);
        eventually(|| scene.server.clients.get(peer.id).unwrap().info.lock().blocked.then_some(()));
    }
    scene.stall();
    let before = scene.newest_block();
    scene.connect().send(&["SET k v"]);
    eventually(|| (scene.newest_block() > before).then_some(()));
    let element = "x".repeat(20 << 10);
    scene.connect().send(&[&format!("RPUSH q {element}")]);
    scene.fence();
    assert!(!scene.server.has_room(), "the log has no room");
    assert_eq!(scene.connect().ask("CLIENT PAUSE 5000 WRITE"), "+OK\r\n");
    scene.resume();
    eventually(|| scene.server.has_room().then_some(()));
    scene.settle();
    scene.fence();
    assert_eq!(scene.connect().ask("LLEN q"), ":1\r\n", "the pause holds");
    scene.clock.advance(PASSED_MS);
    waiting[1].expect(&format!("*2\r\n$1\r\nq\r\n${}\r\n{element}\r\n", element.len()));
    scene.connect().send(&["MULTI", "RPUSH p 1", "CLIENT PAUSE 5000 WRITE", "EXEC"]);
    scene.fence();
    assert_eq!(scene.connect().ask("LLEN p"), ":1\r\n", "the pause holds");
    scene.clock.advance(PASSED_MS);
    waiting[0].expect("*2\r\n$1\r\np\r\n$1\r\n1\r\n");
}

/// A server of which the log is full of what gathers behind a block as soon as something large is written.
fn stalled_with_little_room() -> Scene {
    let scene = Scene::with_log(SyncMode::Always, 4 << 10, 1);
    assert_eq!(scene.connect().ask(&format!("SET watched 1 PX {}", PASSED_MS / 2)), "+OK\r\n");
    scene.stall();
    // The only flight stays with this block.
    let before = scene.newest_block();
    scene.connect().send(&["SET k v"]);
    eventually(|| (scene.newest_block() > before).then_some(()));
    scene
}

/// A transaction that the log has no room for has not run: what it does beside its changes happens once.
#[test]
fn a_transaction_waits_for_room_in_the_log_before_it_runs() {
    let mut scene = stalled_with_little_room();
    let mut waiting = scene.connect();
    waiting.send(&["BLPOP other 0"]);
    eventually(|| scene.server.clients.get(waiting.id).unwrap().info.lock().blocked.then_some(()));
    let (push, unblock) =
        (format!("RPUSH q {}", "x".repeat(6 << 10)), format!("CLIENT UNBLOCK {}", waiting.id));
    let mut peer = scene.connect();
    peer.send(&[&push, &push, "MULTI", &unblock, "SET a 1", "EXEC"]);
    scene.fence();
    assert!(!scene.server.has_room(), "the log has no room");
    scene.resume();
    peer.expect(":1\r\n:2\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n+OK\r\n");
    for name in ["exec", "client|unblock"] {
        let calls = scene.connect().ask_bulk("INFO commandstats");
        assert!(calls.contains(&format!("cmdstat_{name}:calls=1,")), "{calls}");
    }
}

#[test]
fn a_transaction_that_waits_for_room_in_the_log_still_watches() {
    let mut scene = stalled_with_little_room();
    let push = format!("RPUSH q {}", "x".repeat(6 << 10));
    let mut peer = scene.connect();
    peer.send(&["WATCH watched", &push, &push, "MULTI", "UNWATCH", "SET a 1", "EXEC"]);
    scene.fence();
    assert!(!scene.server.has_room(), "the log has no room");
    scene.clock.advance(PASSED_MS);
    scene.resume();
    peer.expect("+OK\r\n:1\r\n:2\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*-1\r\n");
}

#[test]
fn a_client_that_kills_itself_in_a_transaction_that_fails_is_gone() {
    let scene = Scene::new(SyncMode::EverySec);
    let mut peer = scene.connect();
    let log = scene.server.store().unwrap().log.load_full().unwrap();
    let open = log.log.lock().take();
    open.unwrap().close().unwrap();
    let kill = format!("CLIENT KILL ID {} SKIPME no", peer.id);
    peer.send(&["MULTI", &kill, "SET a 1", "EXEC"]);
    peer.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n-EXECABORT Transaction discarded because of: ");
    eventually(|| scene.server.clients.get(peer.id).is_none().then_some(()));
}

/// Settings of a transaction are in force for the rest of its packet.
#[test]
fn replies_behind_a_transaction_that_has_them_wait_do_wait() {
    let mut scene = prepared(SyncMode::EverySec);
    scene.stall();
    let mut peer = scene.connect();
    peer.send(&["MULTI", "CONFIG SET appendfsync always", "EXEC", "SET a 1"]);
    peer.expect("+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n");
    scene.fence();
    assert_eq!(peer.received(), "", "the change is not durable");
    scene.resume();
    peer.expect("+OK\r\n");
}

/// Counts are told at once, as operators ask while the disk stands still: those of the last moment that is
/// durable.
#[test]
fn keys_are_counted_as_of_the_last_moment_that_is_durable() {
    let mut scene = prepared(SyncMode::Always);
    let keys = |scene: &mut Scene| {
        let mut peer = scene.connect();
        peer.send(&["INFO keyspace"]);
        scene.fence();
        let info = peer.received();
        info.split("db0:keys=").nth(1).and_then(|rest| rest.split(',').next()).map(str::to_owned)
    };
    let before = keys(&mut scene).unwrap();
    assert_eq!(scene.connect().ask("SET new 1"), "+OK\r\n");
    let after = keys(&mut scene).unwrap();
    assert_eq!(after.parse::<u32>().unwrap(), before.parse::<u32>().unwrap() + 1, "what is durable counts");
    scene.stall();
    scene.connect().send(&["FLUSHALL"]);
    scene.fence();
    assert_eq!(keys(&mut scene), Some(after));
    let told = scene.server.keyspace().unwrap();
    assert!(told[0].keys > 1, "the metrics tell the same: {told:?}");
    scene.resume();
    eventually(|| keys(&mut scene).is_none().then_some(()));
}

/// The text of a message to channel `c`.
fn message(payload: &str) -> String {
    format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n${}\r\n{payload}\r\n", payload.len())
}

/// Reads channel `c` from now on.
fn subscribe(reader: &mut Peer) {
    reader.send(&["SUBSCRIBE c"]);
    reader.expect("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
}

/// A message of a transaction, or behind a change of the same client, leaves with that change.
#[test]
fn a_message_tells_of_no_change_that_is_not_durable() {
    let mut scene = Scene::new(SyncMode::Always);
    let mut reader = scene.connect();
    subscribe(&mut reader);
    scene.stall();
    scene.connect().send(&["MULTI", "SET a 1", "PUBLISH c within", "EXEC"]);
    scene.connect().send(&["SET b 1", "PUBLISH c behind"]);
    scene.connect().send(&["SET b 2", "MULTI", "PUBLISH c later", "EXEC"]);
    scene.fence();
    assert_eq!(reader.received(), "");
    assert_eq!(scene.connect().ask("PUBLISH c other"), ":1\r\n", "who has changed nothing waits for nothing");
    scene.resume();
    reader.expect(&(["within", "behind", "later", "other"].map(message).concat()));
}

#[test]
fn a_message_does_not_wait_for_the_disk_where_replies_do_not() {
    let mut scene = Scene::new(SyncMode::EverySec);
    let mut reader = scene.connect();
    subscribe(&mut reader);
    scene.stall();
    scene.connect().send(&["MULTI", "SET a 1", "PUBLISH c within", "EXEC"]);
    reader.expect(&message("within"));
    let mut strict = scene.connect_strict();
    subscribe(&mut strict);
    scene.connect().send(&["MULTI", "SET a 2", "PUBLISH c again", "EXEC"]);
    reader.expect(&message("again"));
    scene.fence();
    assert_eq!(strict.received(), "", "it asked for what is durable alone");
    scene.resume();
    strict.expect(&message("again"));
}

/// A message comes behind the rest of a reply that is made in steps, in one piece.
#[test]
fn a_message_does_not_part_a_reply() {
    let scene = Scene::new(SyncMode::EverySec);
    scene.server.steps_from.store(0, Ordering::Relaxed);
    let mut reader = scene.connect();
    let elements: Vec<String> = (0..5000).map(|number| number.to_string()).collect();
    scene.connect().ask(&format!("RPUSH l {}", elements.join(" ")));
    reader.send(&["HELLO 3", "SUBSCRIBE c", "LRANGE l 0 -1"]);
    let mut publisher = scene.connect();
    let mut text = String::new();
    eventually(|| {
        publisher.ask("PUBLISH c m");
        text += &reader.received();
        text.contains(">3\r\n$7\r\nmessage\r\n").then_some(())
    });
    let of_list: String =
        elements.iter().map(|element| format!("${}\r\n{element}\r\n", element.len())).collect();
    let reply = format!("*5000\r\n{of_list}");
    let at = text.find("*5000").unwrap_or_else(|| panic!("{text:?}"));
    eventually(|| {
        text += &reader.received();
        (text.len() >= at + reply.len()).then_some(())
    });
    assert_eq!(&text[at..at + reply.len()], reply);
}
