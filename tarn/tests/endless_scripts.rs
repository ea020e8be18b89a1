//! Scripts that do not end by themselves, by the real program: others are told, and can end them.

#![allow(clippy::unwrap_used)]

mod running;

use std::time::Duration;

use running::{Connection, Running, eventually};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// Connections to two workers in turn: what one of them runs does not keep the other waiting.
fn two(running: &Running) -> [Connection; 2] {
    let mut clients = [running.connect(), running.connect()];
    for client in &mut clients {
        assert_eq!(client.ask("PING"), "+PONG");
    }
    clients
}

/// A server with these arguments that tells others soon.
fn started(args: &[&str]) -> (Running, [Connection; 2]) {
    let running = Running::start(&[&["--threads", "2", "--busy-reply-threshold", "50"], args].concat());
    let clients = two(&running);
    (running, clients)
}

/// Waits until the client is told that a script runs.
fn be_told(client: &mut Connection) {
    eventually(|| client.ask("PING").starts_with("-BUSY").then_some(()));
}

#[test]
fn an_endless_script_is_ended_by_another_client() {
    let (_running, [mut one, mut other]) = started(&[]);
    // With its keys latched; with the store for itself; within a transaction; in a pattern.
    for script in [
        "EVAL \"while true do end\" 1 k",
        "EVAL \"redis.call('GET', 'undeclared') while true do end\" 0",
        "EVAL \"while true do pcall(redis.call, 'GET', 'undeclared') end\" 0",
        "EVAL \"return ('a'):rep(300000):find(('a*'):rep(20) .. 'b')\" 0",
    ] {
        assert!(other.ask("SCRIPT KILL").starts_with("-NOTBUSY"));
        one.send(script);
        be_told(&mut other);
        assert!(other.ask("GET k").starts_with("-BUSY"));
        assert_eq!(other.ask("SCRIPT KILL"), "+OK");
        let reply = one.reply();
        assert!(reply.starts_with("-ERR Script killed by user with SCRIPT KILL. script: "), "{reply}");
        assert_eq!(other.ask("PING"), "+PONG");
    }
    assert_eq!(one.ask("MULTI"), "+OK");
    assert_eq!(one.ask("SET k 1"), "+QUEUED");
    assert_eq!(one.ask("EVAL \"while true do end\" 0"), "+QUEUED");
    one.send("EXEC");
    be_told(&mut other);
    assert_eq!(other.ask("SCRIPT KILL"), "+OK");
    assert!(one.reply().starts_with("-EXECABORT"), "the transaction is undone");
    assert_eq!(other.ask("EXISTS k"), ":0");
}

#[test]
fn clients_that_wait_for_the_keys_of_an_endless_script_keep_no_worker_from_ending_it() {
    let (running, [mut one, mut other]) = started(&["--busy-reply-threshold", "500"]);
    let [_, mut third] = two(&running);
    one.send("EVAL \"redis.log(redis.LOG_WARNING, 'it has begun') while true do end\" 1 k");
    eventually(|| running.folder.messages().contains("it has begun").then_some(()));
    // Others are not told yet: they wait for the key, on the one worker that is left.
    other.send("SET k 1");
    third.send("GET k");
    let replies = [other.reply(), third.reply()];
    assert!(replies.iter().all(|reply| reply.starts_with("-BUSY")), "{replies:?}");
    assert_eq!(other.ask("SCRIPT KILL"), "+OK");
    assert!(one.reply().starts_with("-ERR Script killed by user"));
    assert_eq!(other.ask("SET k 1"), "+OK");
    assert_eq!(third.ask("GET k"), "1");
}

#[test]
fn a_transaction_that_goes_through_all_keys_waits_for_those_of_a_script() {
    let running = Running::start(&["--threads", "2"]);
    let [mut one, mut other] = two(&running);
    for (number, (request, found)) in
        [("SCAN 0", "*[$0 *[$k]]"), ("KEYS *", "*[$k]"), ("RANDOMKEY", "$k")].into_iter().enumerate()
    {
        let script = format!(
            "redis.call('SET', KEYS[1], 1) redis.log(redis.LOG_WARNING, 'it has begun {number}') \
             local began = redis.call('TIME')[1] repeat until redis.call('TIME')[1] - began > 1"
        );
        one.send(&format!("EVAL \"{script}\" 1 k"));
        eventually(|| running.folder.messages().contains(&format!("it has begun {number}")).then_some(()));
        assert_eq!(other.ask("MULTI"), "+OK");
        assert_eq!(other.ask(request), "+QUEUED");
        assert_eq!(other.whole("EXEC"), format!("*[{found}]"), "{request}");
        assert_eq!(one.reply(), "$-1");
    }
}

/// Waits until the server tells that a script has run for long.
fn wait_until_overdue(running: &Running) {
    eventually(|| running.folder.messages().contains("a script has run for").then_some(()));
}

#[test]
fn who_waits_for_the_store_while_an_endless_script_has_it_keeps_no_worker_from_ending_that() {
    let (running, [mut one, mut other]) = started(&["--busy-reply-threshold", "1500"]);
    let [_, mut third] = two(&running);
    // Its worker knows that this one needs the store for itself.
    let short = "EVAL \"return redis.call('EXISTS', 'undeclared')\" 0";
    assert_eq!(other.ask(short), ":0");
    one.send(
        "EVAL \"redis.call('GET', 'x') redis.log(redis.LOG_WARNING, 'it has begun') while true do end\" 0",
    );
    eventually(|| running.folder.messages().contains("it has begun").then_some(()));
    other.send(short);
    third.send("SET k 1");
    let replies = [other.reply(), third.reply()];
    assert!(replies.iter().all(|reply| reply.starts_with("-BUSY")), "{replies:?}");
    assert_eq!(third.ask("SCRIPT KILL"), "+OK");
    assert!(one.reply().starts_with("-ERR Script killed by user"));
    assert_eq!(other.ask(short), ":0");
    assert_eq!(third.ask("SET k 1"), "+OK");
}

#[test]
fn a_statement_that_has_begun_is_answered_although_a_script_runs_for_long() {
    let (running, [mut one, mut other]) = started(&["--sql-port", "0"]);
    let [_, mut third] = two(&running);
    other.send("SQL \"SELECT count(*) FROM generate_series(1, 20000000)\"");
    one.send("EVAL \"while true do end\" 1 k");
    be_told(&mut third);
    let first = other.reply();
    assert!(!first.starts_with("-BUSY"), "{first}");
    assert_eq!(third.ask("SCRIPT KILL"), "+OK");
    assert!(one.reply().starts_with("-ERR Script killed by user"));
    // Not what the one before has found.
    assert!(other.ask("SQL \"SELECT missing\"").starts_with("-ERR"));
}

#[test]
fn who_connects_while_an_endless_script_occupies_the_only_worker_is_told_and_ends_it() {
    for script in
        ["EVAL \"while true do end\" 1 k", "EVAL \"redis.call('GET', 'undeclared') while true do end\" 0"]
    {
        let running = Running::start(&["--threads", "1", "--busy-reply-threshold", "50"]);
        let mut one = running.connect();
        assert_eq!(one.ask("SET k 1"), "+OK");
        one.send(script);
        wait_until_overdue(&running);
        let mut other = running.connect();
        assert!(other.ask("PING").starts_with("-BUSY"));
        assert!(other.ask("GET k").starts_with("-BUSY"));
        assert_eq!(other.ask("SCRIPT KILL"), "+OK");
        assert!(one.reply().starts_with("-ERR Script killed by user"));
        // The connection goes on where it is, and runs all that others run.
        assert_eq!(other.ask("GET k"), "1");
        assert_eq!(other.ask("EVAL \"return redis.call('INCR', KEYS[1])\" 1 k"), ":2");
        assert_eq!(one.ask("GET k"), "2");
        assert_eq!(running.connect().ask("PING"), "+PONG");
    }
}

#[test]
fn who_connects_while_the_worker_without_a_script_is_silent_is_dealt_to_the_spare_one() {
    let (running, [mut one, mut other]) = started(&["--busy-reply-threshold", "500"]);
    other.send("DEBUG SLEEP 3600");
    one.send("EVAL \"while true do end\" 1 k");
    wait_until_overdue(&running);
    // Those that come before the worker counts as silent wait in vain.
    eventually(|| {
        let mut third = running.connect();
        third.0.get_ref().set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        third.try_ask("SCRIPT KILL").filter(|reply| reply == "+OK")
    });
    assert!(one.reply().starts_with("-ERR Script killed by user"));
}

#[test]
fn the_server_of_an_endless_script_on_the_only_worker_is_ended_by_who_connects() {
    let mut running = Running::start(&["--threads", "1", "--busy-reply-threshold", "50"]);
    let mut one = running.connect();
    one.send("EVAL \"redis.call('SET', KEYS[1], 1) while true do end\" 1 k");
    wait_until_overdue(&running);
    let mut other = running.connect();
    assert!(other.ask("SCRIPT KILL").starts_with("-UNKILLABLE"));
    other.send("SHUTDOWN NOSAVE");
    assert!(running.server.take().unwrap().wait().success());
}

#[test]
fn scripts_that_begin_together_leave_one_worker_to_end_them() {
    let running = Running::start(&["--threads", "1", "--busy-reply-threshold", "500"]);
    let mut one = running.connect();
    assert_eq!(one.ask("SET k 1"), "+OK");
    one.send("EVAL \"while true do end\" 0");
    wait_until_overdue(&running);
    let mut other = running.connect();
    assert_eq!(other.ask("SCRIPT KILL"), "+OK");
    assert!(one.reply().starts_with("-ERR Script killed by user"));
    // Both begin before others are told: one of them has to wait.
    one.send("EVAL \"while true do end\" 1 a");
    other.send("EVAL \"while true do end\" 1 b");
    let soon = Some(Duration::from_millis(100));
    let replies = [one, other].map(|mut client| {
        client.0.get_ref().set_read_timeout(soon).unwrap();
        eventually(|| {
            // Dealt to the worker of a script that has not run for long, this one waits in vain.
            let third = &mut running.connect();
            third.0.get_ref().set_read_timeout(soon).unwrap();
            third.try_ask("SCRIPT KILL");
            client.try_reply()
        })
    });
    let is_ended = |reply: &String| reply.starts_with("-ERR Script killed");
    assert!(replies.iter().all(|reply| is_ended(reply) || reply.starts_with("-BUSY")), "{replies:?}");
    assert!(replies.iter().any(is_ended), "{replies:?}");
}

#[test]
fn sweeps_over_all_keys_wait_for_no_endless_script() {
    let (running, [mut one, mut other]) = started(&["--busy-reply-threshold", "500"]);
    assert_eq!(one.ask("SET k 1"), "+OK");
    let mut sweeping: Vec<Connection> = Vec::new();
    // Those of one worker, which is not that of the script.
    for _ in 0..3 {
        let [_, client] = two(&running);
        sweeping.push(client);
    }
    one.send("EVAL \"redis.log(redis.LOG_WARNING, 'it has begun') while true do end\" 1 k");
    eventually(|| running.folder.messages().contains("it has begun").then_some(()));
    // Before others are told.
    for (client, command) in sweeping.iter_mut().zip(["SCAN 0", "KEYS *", "RANDOMKEY"]) {
        client.send(command);
    }
    for client in &mut sweeping {
        let reply = client.reply();
        assert!(reply.starts_with("-BUSY"), "{reply}");
    }
    assert_eq!(other.ask("SCRIPT KILL"), "+OK");
    assert!(one.reply().starts_with("-ERR Script killed by user"));
    for (client, command) in sweeping.iter_mut().zip(["SCAN 0", "KEYS *", "RANDOMKEY"]) {
        assert!(client.whole(command).contains("$k"), "{command}");
    }
}

#[test]
fn a_sweep_in_steps_waits_for_an_endless_script_and_keeps_no_worker_from_ending_it() {
    let (running, [mut one, mut other]) = started(&["--busy-reply-threshold", "500"]);
    let [_, mut sweeping] = two(&running);
    let fill = "for i = 1, 3000 do redis.call('SET', 'k' .. i, i) end return redis.call('DBSIZE')";
    assert_eq!(one.ask(&format!("EVAL \"{fill}\" 0")), ":3000");
    one.send("EVAL \"redis.log(redis.LOG_WARNING, 'it has begun') while true do end\" 1 k1");
    eventually(|| running.folder.messages().contains("it has begun").then_some(()));
    sweeping.send("KEYS *");
    be_told(&mut other);
    assert_eq!(other.ask("SCRIPT KILL"), "+OK");
    assert!(one.reply().starts_with("-ERR Script killed by user"));
    assert_eq!(sweeping.reply().split(' ').count(), 3000);
    assert_eq!(sweeping.ask("PING"), "+PONG");
}

#[test]
fn a_sweep_in_steps_whose_client_is_ended_keeps_no_worker_from_ending_an_endless_script() {
    let (running, [mut one, mut other]) = started(&["--busy-reply-threshold", "2000"]);
    let [_, mut sweeping] = two(&running);
    let fill = "for i = 1, 3000 do redis.call('SET', 'k' .. i, i) end return redis.call('DBSIZE')";
    assert_eq!(one.ask(&format!("EVAL \"{fill}\" 0")), ":3000");
    let id = sweeping.ask("CLIENT ID");
    one.send("EVAL \"redis.log(redis.LOG_WARNING, 'it has begun') while true do end\" 1 k1");
    eventually(|| running.folder.messages().contains("it has begun").then_some(()));
    sweeping.send("KEYS *");
    // Both before others are told.
    let views = |client: &mut Connection| client.whole("INFO views").contains("KEYS");
    eventually(|| views(&mut other).then_some(()));
    assert_eq!(other.ask(&format!("CLIENT KILL ID {}", &id[1..])), ":1");
    assert_eq!(sweeping.try_reply(), None);
    be_told(&mut other);
    assert_eq!(other.ask("SCRIPT KILL"), "+OK");
    assert!(one.reply().starts_with("-ERR Script killed by user"));
    eventually(|| (!views(&mut other)).then_some(()));
}

#[test]
fn a_value_that_is_stored_in_steps_waits_for_an_endless_script_and_keeps_no_worker_from_ending_it() {
    let (running, [mut one, mut other]) = started(&["--busy-reply-threshold", "2000", "--appendonly", "yes"]);
    let [_, mut storing] = two(&running);
    let fill = "for i = 1, 1000 do \
                    local members = {} \
                    for j = 1, 1000 do members[j] = 'member:' .. i * 1000 + j end \
                    redis.call('SADD', KEYS[1], unpack(members)) \
                end \
                return redis.call('SCARD', KEYS[1])";
    assert_eq!(one.ask(&format!("EVAL \"{fill}\" 1 large")), ":1000000");
    assert_eq!(one.ask("DEBUG STEPS-FROM 0"), "+OK");
    // The script closes the gate while the value is being logged.
    storing.send("COPY large to");
    one.send("EVAL \"redis.call('GET', 'undeclared') while true do end\" 0");
    be_told(&mut other);
    assert_eq!(other.ask("SCRIPT KILL"), "+OK");
    assert!(one.reply().starts_with("-ERR Script killed by user"));
    // If all of it was logged before, the command was about to run again, and was told as others are.
    let reply = storing.reply();
    assert!(reply == ":1" || reply.starts_with("-BUSY"), "{reply}");
    assert_eq!(other.ask("SCARD to"), if reply == ":1" { ":1000000" } else { ":0" });
}

/// Lets the server open so many files more and no others.
fn leave_descriptors(running: &Running, count: usize) {
    let pid = running.server.as_ref().unwrap().pid();
    let used: Vec<u64> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .collect();
    let limit = (0..).filter(|number| !used.contains(number)).nth(count);
    let limit = Rlimit { current: limit, maximum: limit };
    prlimit(Pid::from_raw(pid as i32), Resource::Nofile, limit).unwrap();
}

#[test]
fn the_spare_worker_is_there_when_no_more_files_can_be_opened() {
    let running = Running::start(&["--threads", "1", "--busy-reply-threshold", "50"]);
    let mut one = running.connect();
    one.send("EVAL \"while true do end\" 1 k");
    wait_until_overdue(&running);
    leave_descriptors(&running, 1);
    let mut other = running.connect();
    assert_eq!(other.ask("SCRIPT KILL"), "+OK");
    assert!(one.reply().starts_with("-ERR Script killed by user"));
}

#[test]
fn a_script_that_has_written_is_not_ended_but_with_the_server_and_leaves_nothing() {
    let (mut running, [mut one, mut other]) = started(&["--appendonly", "yes"]);
    assert_eq!(one.ask("SET a 0"), "+OK");
    one.send("EVAL \"redis.call('SET', KEYS[1], 1) while true do end redis.call('SET', KEYS[2], 1)\" 2 a b");
    be_told(&mut other);
    assert!(other.ask("SCRIPT KILL").starts_with("-UNKILLABLE"));
    assert!(running.server.take().unwrap().terminate().success());
    running.restart();
    let mut client = running.connect();
    assert_eq!((client.ask("GET a"), client.ask("EXISTS b")), ("0".to_owned(), ":0".to_owned()));
}

#[test]
fn a_client_that_waits_gets_its_element_although_another_script_runs_for_long() {
    let (running, [mut one, mut other]) = started(&["--busy-reply-threshold", "500"]);
    let [_, mut waiting] = two(&running);
    waiting.send("BLPOP list 0");
    eventually(|| other.whole("INFO clients").contains("blocked_clients:1").then_some(()));
    // It pushes when others are told to wait, and while the other script still runs.
    let late =
        "local t = os.clock() + 1.5 while os.clock() < t do end return redis.call('RPUSH', KEYS[1], 'v')";
    one.send("EVAL \"while true do end\" 0");
    assert_eq!(other.ask(&format!("EVAL \"{late}\" 1 list")), ":1");
    assert_eq!(waiting.reply(), "*[$list $v]");
    assert_eq!(other.ask("SCRIPT KILL"), "+OK");
    assert!(one.reply().starts_with("-ERR Script killed"));
}

#[test]
fn scripts_without_number_or_end_leave_room_for_others() {
    let (_running, [mut one, _other]) = started(&[]);
    for number in 0..60 {
        let numbers: String = (0..20_000).map(|at| format!("{},", at * 100 + number)).collect();
        let script = format!("local x = {{{numbers}}} return #x");
        one.send(&format!("*3\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n0", script.len()));
        assert_eq!(one.reply(), ":20000", "{number}");
    }
    assert_eq!(one.ask("EVAL \"return 1\" 0"), ":1");
    let bomb = "local s = 'x' while true do s = s .. s end";
    assert!(one.ask(&format!("EVAL \"{bomb}\" 0")).starts_with("-ERR "));
    assert_eq!(one.ask("EVAL \"return 1\" 0"), ":1");
}
