//! The limits of what one command on streams changes and looks at, by the real program.

#![allow(clippy::unwrap_used)]

mod running;

use running::{Connection, Running};

/// Adds entries `1-1`, `1-2` … to a stream.
fn fill(client: &mut Connection, stream: &str, entries: usize) {
    for number in 1..=entries {
        assert_eq!(client.ask(&format!("XADD {stream} 1-{number} f v")), format!("1-{number}"));
    }
}

/// The number of entries that are pending for a group.
fn pending(client: &mut Connection, stream: &str, group: &str) -> String {
    let reply = client.whole(&format!("XPENDING {stream} {group}"));
    reply.strip_prefix("*[:").and_then(|reply| reply.split(' ').next()).unwrap_or(&reply).to_owned()
}

#[test]
fn streams_that_are_read_together_share_one_limit() {
    let running = Running::start(&["--client-query-buffer-limit", "1mb"]);
    let mut client = running.connect();
    // 2066 bytes for each that becomes pending: 507 fit.
    let group = "g".repeat(1000);
    for stream in ["s", "t", "u"] {
        fill(&mut client, stream, 600);
        assert_eq!(client.ask(&format!("XGROUP CREATE {stream} {group} 0")), "+OK");
    }
    let new = format!("XREADGROUP GROUP {group} c STREAMS s t u > > >");
    let reply = client.whole(&new);
    assert_eq!(reply.matches("*[$f $v]").count(), 507);
    assert!(reply.starts_with("*[*[$s ") && !reply.contains("*[$t "), "{reply:.100}");
    // One for the second stream itself, and 93 for what was left of the first.
    let reply = client.whole(&new);
    assert_eq!(reply.matches("*[$f $v]").count(), 506);
    assert!(reply.contains("*[$t ") && !reply.contains("*[$u "), "{reply:.100}");
    let counts = ["s", "t", "u"].map(|stream| pending(&mut client, stream, &group));
    assert_eq!(counts, ["600", "413", "0"]);
    // Entries that are read again are changed, too.
    let reply = client.whole(&format!("XREADGROUP GROUP {group} c STREAMS t s 0 0"));
    assert_eq!(reply.matches("*[$f $v]").count(), 413 + 93);
    assert!(reply.starts_with("*[*[$t ") && reply.contains("*[$s "), "{reply:.100}");
}

/// Sends so many requests, some at a time, that are answered with `+OK`.
fn ask_many(client: &mut Connection, requests: impl Iterator<Item = String>) {
    let requests: Vec<String> = requests.collect();
    for some in requests.chunks(500) {
        some.iter().for_each(|request| client.send(request));
        some.iter().for_each(|request| assert_eq!(client.reply(), "+OK", "{request}"));
    }
}

#[test]
fn trims_ask_no_more_groups_than_their_limit_says() {
    const GROUPS: usize = 1 << 16;
    let running = Running::start(&[]);
    let mut client = running.connect();
    fill(&mut client, "s", 3);
    ask_many(&mut client, (0..GROUPS).map(|number| format!("XGROUP CREATE s g{number} 0")));
    assert_eq!(client.ask("XTRIM s ACKED MAXLEN 0"), ":0", "nobody has read any");
    assert_eq!(client.ask("XDELEX s ACKED IDS 1 1-3"), "*1");
    assert_eq!(client.reply(), ":2");
    assert_eq!(client.ask("XGROUP CREATE s more 0"), "+OK");
    let refusal = "-ERR the stream has too many groups to be trimmed with ACKED or DELREF";
    for trim in ["ACKED MAXLEN 0", "ACKED MINID 1-2", "DELREF MAXLEN 1"] {
        assert_eq!(client.ask(&format!("XTRIM s {trim}")), refusal, "{trim}");
        assert_eq!(client.ask(&format!("XADD s {trim} 2-1 f v")), refusal, "{trim}");
    }
    let named = (0..32).map(|number| format!(" 1-{number}")).collect::<String>();
    let refusal = "-ERR the command names too many entries of a stream with so many groups";
    assert_eq!(client.ask(&format!("XDELEX s ACKED IDS 32{named}")), refusal);
    // Nothing is to be removed, or nobody is asked.
    assert_eq!(client.ask("XADD s ACKED MAXLEN 9 2-1 f v"), "2-1");
    assert_eq!(client.ask("XADD s MAXLEN 3 3-1 f v"), "3-1");
    assert_eq!(client.ask("XLEN s"), ":3");
}
