//! Commands that take long, by the real program: they run in steps, and other clients are served meanwhile.

#![allow(clippy::unwrap_used)]

mod running;

use std::io::{BufRead, Write};
use std::time::Duration;

use running::large::{ELEMENTS, at_once, loaded};
use running::{Connection, Running, eventually};

/// Commands whose reply depends on the data alone.
const READS: &[&str] = &[
    "HGETALL h",
    "HKEYS h",
    "HVALS h",
    "HRANDFIELD h 5000 WITHVALUES",
    "SMEMBERS s",
    "SRANDMEMBER s 10000",
    "SUNION s t",
    "SUNION s s nokey t",
    "SINTER s t s t s",
    "SDIFF s t t nokey",
    "SINTER s t",
    "SDIFF s t",
    "SINTERCARD 2 s t",
    "SINTERCARD 2 s t LIMIT 7",
    "LRANGE l 0 -1",
    "LRANGE l -4000 3000",
    "ZRANGE z 0 -1",
    "ZRANGE z 0 -1 WITHSCORES",
    "ZRANGE z 2 4001 REV WITHSCORES",
    "ZRANGEBYSCORE z 3 70 WITHSCORES LIMIT 5 4000",
    "ZREVRANGEBYSCORE z 70 3 LIMIT 5 4000",
    "ZRANDMEMBER z 5000 WITHSCORES",
    "ZUNION 2 z y WITHSCORES",
    "ZUNION 3 z y s WEIGHTS 2 -1 0.5 AGGREGATE MAX WITHSCORES",
    "ZINTER 2 z y WITHSCORES",
    "ZINTER 2 s y",
    "ZDIFF 2 z y WITHSCORES",
    "ZINTERCARD 2 z y",
    "GEOSEARCH geo FROMLONLAT 0 2 BYRADIUS 500 km ASC WITHDIST",
    "GEOSEARCH geo FROMMEMBER member:2050 BYBOX 300 900 km COUNT 900 DESC WITHHASH",
    "GEOSEARCH geo FROMLONLAT 0 2 BYBOX 9000 9000 km COUNT 7 ANY",
    "GEOSEARCH geo BYPOLYGON 4 -4 0.05 4 0.5 3 4 -1 3 DESC WITHCOORD",
    "GEORADIUS_RO geo 0 2 1 m",
    "SORT l",
    "SORT l DESC LIMIT 10 3000 GET # GET x",
    "SORT s ALPHA",
    "SORT z BY nosort DESC",
    "SORT_RO s ALPHA DESC",
    "SORT s",
    "LCS a b",
    "LCS a b LEN",
    "LCS b giantless LEN",
    "LCS short broad LEN",
    "LCS broad short",
    "LCS a b IDX MINMATCHLEN 2 WITHMATCHLEN",
    "GET giant",
    "GETRANGE giant 5 2000000",
    "DIGEST giant",
    "KEYS *",
    "KEYS key:1*",
    "KEYS nokey*",
];

/// A reply of keys, which come in no order that means anything, in order.
fn in_order(command: &str, reply: String) -> String {
    if !command.starts_with("KEYS") {
        return reply;
    }
    let mut keys: Vec<&str> = reply.split(['[', ' ', ']']).collect();
    keys.sort_unstable();
    keys.join(" ")
}

#[test]
fn a_reply_in_steps_is_that_of_the_same_command_without_steps() {
    let (_running, mut client) = loaded(&["--threads", "1"]);
    for protocol in ["2", "3"] {
        client.send(&format!("HELLO {protocol}"));
        client.send("ECHO end-of-hello");
        while !client.reply().contains("end-of-hello") {}
        for steps_from in ["1024", "0"] {
            assert_eq!(client.ask(&format!("DEBUG STEPS-FROM {steps_from}")), "+OK");
            for read in READS {
                let expected = at_once(&mut client, read);
                let found = in_order(read, client.whole(read));
                assert!(
                    found == in_order(read, expected),
                    "RESP{protocol} {steps_from} {read}: {:.200}",
                    found
                );
            }
        }
    }
}

#[test]
fn fields_that_are_over_are_never_drawn_with_steps_or_without() {
    let running = Running::start(&["--threads", "1"]);
    let mut client = running.connect();
    assert_eq!(client.ask("DEBUG SET-ACTIVE-EXPIRE 0"), "+OK");
    assert_eq!(client.ask("HSET h stay 1"), ":1");
    for part in 0..5 {
        let fields: String = (0..1000).map(|number| format!(" f{part}:{number} v")).collect();
        assert_eq!(client.ask(&format!("HSETEX h PX 500 FIELDS 1000{fields}")), ":1");
    }
    eventually(|| (client.ask("HLEN h") == ":1").then_some(()));
    for (draw, expected) in [
        ("HRANDFIELD h", "$stay".to_owned()),
        ("HRANDFIELD h 1", "*[$stay]".to_owned()),
        ("HRANDFIELD h 9 WITHVALUES", "*[$stay $1]".to_owned()),
        ("HRANDFIELD h -300", format!("*[{}]", ["$stay"; 300].join(" "))),
    ] {
        for steps_from in ["1024", "0"] {
            assert_eq!(client.ask(&format!("DEBUG STEPS-FROM {steps_from}")), "+OK");
            assert_eq!(client.whole(draw), expected, "{draw} {steps_from}");
        }
        assert_eq!(at_once(&mut client, draw), expected, "{draw}");
    }
    assert_eq!(client.ask("HLEN h"), ":1");
}

/// A client that asks and reads nothing: its reply fills the buffers of its socket, and stands still.
fn standing_still(running: &Running, client: &mut Connection, command: &str) -> Connection {
    let mut slow = running.connect();
    let name = command.split(' ').next().unwrap().to_lowercase();
    let calls = |client: &mut Connection| {
        let stats = client.ask("INFO commandstats");
        let line =
            stats.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:"))).map(str::to_owned);
        line.unwrap_or_default()
    };
    let before = calls(client);
    slow.send(command);
    eventually(|| (calls(client) != before).then_some(()));
    slow
}

/// A hash of some 40 MB, more than the buffers of a socket take.
fn load_wide(client: &mut Connection) {
    for from in (0..ELEMENTS).step_by(5) {
        let fields: String =
            (from..from + 5).map(|number| format!(" field:{number} {}", "v".repeat(8000))).collect();
        assert_eq!(client.ask(&format!("HSET wide{fields}")), ":5");
    }
}

#[test]
fn a_reply_that_nobody_reads_shows_one_instant_and_keeps_nobody_waiting() {
    let (running, mut client) = loaded(&["--threads", "1"]);
    load_wide(&mut client);
    let mut slow = standing_still(&running, &mut client, "HGETALL wide");
    slow.send("PING");
    // Neither its latch nor its worker is held, and no more of the reply waits than of others.
    assert_eq!(client.ask("HSET wide field:0 changed field:4999 changed"), ":0");
    // Time for a server that would go on whether anybody reads or not.
    std::thread::sleep(Duration::from_millis(300));
    let waiting = eventually(|| {
        let list = client.ask("CLIENT LIST");
        let line = list.lines().find(|line| line.contains("cmd=hgetall")).unwrap();
        let waiting = line.split(' ').find_map(|field| field.strip_prefix("omem=")).unwrap();
        waiting.parse::<usize>().ok().filter(|waiting| *waiting > 0)
    });
    assert!(waiting < 1 << 20, "{waiting} bytes wait");
    assert_eq!(client.ask("DEL wide"), ":1");
    assert_eq!(client.ask("FLUSHALL"), "+OK");
    let reply = slow.reply();
    assert_eq!(reply.matches("$field:").count(), ELEMENTS);
    assert!(!reply.contains("changed"), "the reply shows what was written after the command");
    assert_eq!(slow.reply(), "+PONG");
}

#[test]
fn a_client_that_goes_or_is_killed_ends_its_command() {
    let (running, mut client) = loaded(&["--threads", "1"]);
    load_wide(&mut client);
    let clients = |client: &mut Connection| client.ask("CLIENT LIST").lines().count();
    drop(standing_still(&running, &mut client, "HGETALL wide"));
    eventually(|| (clients(&mut client) == 1).then_some(()));
    let mut slow = standing_still(&running, &mut client, "HVALS wide");
    let list = client.ask("CLIENT LIST");
    let line = list.lines().find(|line| line.contains("cmd=hvals")).unwrap();
    let id = line.strip_prefix("id=").and_then(|rest| rest.split(' ').next()).unwrap();
    assert_eq!(client.ask(&format!("CLIENT KILL ID {id}")), ":1");
    eventually(|| (clients(&mut client) == 1).then_some(()));
    let mut rest = Vec::new();
    while slow.0.read_until(b'\n', &mut rest).is_ok_and(|len| len > 0) {
        rest.clear();
    }
    // A server ends with such a client, too.
    let _slow = standing_still(&running, &mut client, "HKEYS wide");
    let _slower = standing_still(&running, &mut client, "HGETALL wide");
    let Running { server, .. } = running;
    assert!(server.unwrap().terminate().success());
}

#[test]
fn replies_keep_their_order_and_those_that_are_not_wanted_do_not_come() {
    let (_running, mut client) = loaded(&["--threads", "1"]);
    let packet = "CLIENT REPLY SKIP\r\nHGETALL h\r\nECHO one\r\nSORT s\r\nSINTERCARD 2 s t\r\nECHO two\r\n\
        CLIENT REPLY OFF\r\nSMEMBERS s\r\nSORT s\r\nCLIENT REPLY ON\r\nLRANGE l 0 -1\r\nECHO three\r\n";
    client.0.get_mut().write_all(packet.as_bytes()).unwrap();
    assert_eq!(client.reply(), "$one");
    assert!(client.reply().starts_with("-ERR One or more scores can't be converted"));
    assert_eq!(client.reply(), ":2500");
    assert_eq!(client.reply(), "$two");
    assert_eq!(client.reply(), "+OK");
    assert_eq!(client.reply().matches('$').count(), ELEMENTS);
    assert_eq!(client.reply(), "$three");
}

#[test]
fn a_command_in_steps_is_counted_and_timed_as_one_call() {
    let (_running, mut client) = loaded(&["--threads", "1", "--slowlog-log-slower-than", "0"]);
    client.ask("CONFIG RESETSTAT");
    client.whole("SUNION s t");
    assert!(client.ask("SORT s").starts_with("-ERR"));
    let stats = client.ask("INFO commandstats");
    let line = |name: &str| stats.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    let union = line("cmdstat_sunion:calls=1,usec=");
    assert!(!union.contains("usec=0,") && union.contains("failed_calls=0"), "{union}");
    assert!(line("cmdstat_sort:calls=1,").contains("failed_calls=1"));
    let slow = client.whole("SLOWLOG GET 10");
    assert_eq!(slow.matches("*[$SUNION $s $t]").count(), 1, "{slow}");
    assert_eq!(slow.matches("*[$SORT $s]").count(), 1, "{slow}");
}

#[test]
fn keys_are_counted_as_found_once_however_their_commands_run() {
    let (_running, mut client) = loaded(&["--threads", "1"]);
    client.ask("SADD tiny a b");
    for command in
        ["SUNION tiny tiny nokey", "SUNION s t nokey", "ZINTER 3 z y nokey", "SINTERCARD 3 s t nokey"]
    {
        client.ask("CONFIG RESETSTAT");
        client.whole(command);
        let stats = client.ask("INFO stats");
        assert!(stats.contains("keyspace_hits:2\r\nkeyspace_misses:1\r\n"), "{command}: {stats}");
    }
}

#[test]
fn gathered_members_count_as_output_and_are_limited_as_it_is() {
    let (running, mut client) = loaded(&["--threads", "1"]);
    client.ask("SADD one a");
    let mut slow = standing_still(&running, &mut client, "SRANDMEMBER one -3000000");
    let held = eventually(|| {
        let list = client.ask("CLIENT LIST");
        let line = list.lines().find(|line| line.contains("cmd=srandmember"))?.to_owned();
        let held = line.split(' ').find_map(|field| field.strip_prefix("omem=")).unwrap();
        held.parse::<usize>().ok().filter(|held| *held > 0)
    });
    assert!(held > 3_000_000 * 16, "{held} bytes");
    assert_eq!(client.ask("CONFIG SET client-output-buffer-limit \"normal 20000000 0 0\""), "+OK");
    for refused in ["SRANDMEMBER one -3000000", "SRANDMEMBER s -3000000"] {
        let reply = client.whole(refused);
        assert!(reply.starts_with("-ERR the reply would be longer"), "{reply:.100}");
    }
    // The names of the keys alone are more.
    assert_eq!(client.ask("CONFIG SET client-output-buffer-limit \"normal 50000 0 0\""), "+OK");
    assert!(client.whole("KEYS *").starts_with("-ERR the reply would be longer"));
    // What holds nothing is not limited: it waits for its client.
    assert_eq!(client.whole("HGETALL h").matches("$field").count(), ELEMENTS);
    let (mut line, mut lines) = (String::new(), 0);
    while slow.0.read_line(&mut line).is_ok_and(|len| len > 0) && lines < 6_000_000 {
        lines += 1;
        line.clear();
    }
    assert_eq!(lines, 6_000_000);
}

#[test]
fn a_view_of_keys_is_closed_before_its_client_reads() {
    let (running, mut client) = loaded(&["--threads", "1"]);
    for from in (0..60_000).step_by(20) {
        let keys: String =
            (from..from + 20).map(|number| format!(" {}:{number} v", "k".repeat(300))).collect();
        client.ask(&format!("MSET{keys}"));
    }
    let _slow = standing_still(&running, &mut client, "KEYS *");
    eventually(|| client.ask("INFO views").contains("views_open:0\r\n").then_some(()));
    assert!(client.ask("CLIENT LIST").contains("cmd=keys"));
}
