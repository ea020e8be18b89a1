//! The commands `FT.*` by the real program: both protocols, a restart, and clients that go away.

#![allow(clippy::unwrap_used)]

mod running;

use running::{Connection, Running, eventually, free_port, number};

fn fill(client: &mut Connection) {
    for (id, dest, distance) in [("1", "LAX", "120.5"), ("2", "SFO", "300"), ("3", "LAX", "far")] {
        client.ask(&format!("HSET flight:{id} dest {dest} distance {distance}"));
    }
}

const CREATE: &str = "FT.CREATE flights ON HASH PREFIX 1 flight: SCHEMA dest TAG SORTABLE distance NUMERIC";

#[test]
fn both_protocols_have_their_replies() {
    let mut running = Running::start(&["--sql-port", &free_port().to_string()]);
    let mut client = running.connect();
    fill(&mut client);
    assert_eq!(client.ask(CREATE), "+OK");
    assert_eq!(client.whole("FT._LIST"), "*[$flights]");
    let search = "FT.SEARCH flights \"@distance:[200 300]\" LIMIT 0 1";
    assert_eq!(client.whole(search), "*[:1 $flight:2 *[$dest $SFO $distance $300]]");
    let group = "FT.AGGREGATE flights * GROUPBY 1 @dest REDUCE COUNT 0 AS n SORTBY 1 @dest";
    assert_eq!(client.whole(group), "*[:2 *[$dest $LAX $n $2] *[$dest $SFO $n $1]]");
    assert_eq!(client.ask("FT.SEARCH nothing *"), "-ERR nothing: no such index");
    assert!(client.ask("FT.SEARCH flights far").contains("has no TEXT field"));
    client.ask("SELECT 1");
    assert!(client.ask("FT.SEARCH flights *").contains("db != 0"));
    running.restart();
    let found = || running.connect().whole("FT.SEARCH flights @dest:{lax} NOCONTENT");
    assert_eq!(
        eventually(|| Some(found()).filter(|reply| reply.starts_with('*'))),
        "*[:2 $flight:1 $flight:3]"
    );
    assert!(running.connect().whole("INFO views").contains("views_retained_bytes:0"));
}

#[test]
fn a_cursor_is_of_its_instant_and_may_be_left() {
    let running = Running::start(&["--sql-port", &free_port().to_string()]);
    let mut client = running.connect();
    for id in 0..2_000 {
        client.ask(&format!("HSET flight:{id} dest LAX distance 1"));
    }
    assert_eq!(client.ask(CREATE), "+OK");
    let begun = client.whole("FT.AGGREGATE flights * LOAD 1 @distance WITHCURSOR COUNT 1500");
    let id = begun.rsplit(':').next().unwrap().trim_end_matches(']').to_owned();
    // The cursor does not see later changes.
    assert_eq!(client.ask("FLUSHALL"), "+OK");
    let rest = client.whole(&format!("FT.CURSOR READ flights {id}"));
    assert_eq!(rest.matches("$distance $1").count(), 500, "{rest}");
    assert!(rest.ends_with(":0]"), "{rest}");
    for id in 0..2_000 {
        client.ask(&format!("HSET flight:{id} dest LAX distance 1"));
    }
    client.whole("FT.AGGREGATE flights * LOAD 1 @distance WITHCURSOR COUNT 1 MAXIDLE 1");
    drop(client);
    eventually(|| running.connect().whole("INFO views").contains("views_retained_bytes:0").then_some(()));
}

#[test]
fn search_needs_no_port() {
    let running = Running::start(&[]);
    let mut client = running.connect();
    assert_eq!(client.ask("FT.CREATE i SCHEMA dest TAG"), "+OK");
    client.ask("HSET flight:1 dest LAX");
    let found = client.whole("FT.SEARCH i @dest:{LAX}");
    assert!(found.contains("flight:1"), "{found}");
}

#[test]
fn what_belongs_to_indexes_outlives_a_restart() {
    let mut running = Running::start(&[]);
    let mut client = running.connect();
    client.ask("HSET flight:1 dest LAX note plane");
    for declared in [
        "FT.CREATE flights ON HASH PREFIX 1 flight: SCHEMA dest TAG note TEXT",
        "FT.ALIASADD trips flights",
        "FT.ALTER trips SCHEMA ADD distance NUMERIC",
        "FT.SYNUPDATE trips craft plane aircraft",
    ] {
        assert_eq!(client.ask(declared), "+OK", "{declared}");
    }
    assert_eq!(client.ask("FT.DICTADD words a b"), ":2");
    running.restart();
    let found = || running.connect().whole("FT.SEARCH trips aircraft NOCONTENT");
    assert_eq!(eventually(|| Some(found()).filter(|reply| reply.starts_with('*'))), "*[:1 $flight:1]");
    let mut client = running.connect();
    assert_eq!(client.whole("FT.SYNDUMP flights"), "*[$aircraft *[$craft] $plane *[$craft]]");
    assert_eq!(client.whole("FT.DICTDUMP words"), "*[$a $b]");
    assert_eq!(client.whole("FT.TAGVALS trips dest"), "*[$lax]");
    assert_eq!(client.whole("FT.SEARCH trips \"@distance:[0 1]\" NOCONTENT"), "*[:0]");
    assert_eq!(client.ask("FT.DROPINDEX trips"), "+OK");
    assert_eq!(client.ask("FT.ALIASDEL trips"), "-Alias does not exist");
    running.restart();
    let listed = || running.connect().whole("FT._LIST");
    assert_eq!(eventually(|| Some(listed()).filter(|reply| reply.starts_with('*'))), "*[]");
}

#[test]
fn an_index_is_dropped_with_its_keys_for_good() {
    let mut running = Running::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut client = running.connect();
    for id in 0..1_000 {
        client.ask(&format!("HSET flight:{id} dest LAX"));
    }
    client.ask("SET flight:text kept");
    client.ask("HSET train:1 dest LAX");
    assert_eq!(client.ask("WATCH flight:7"), "+OK");
    let mut other = running.connect();
    assert_eq!(other.ask("FT.CREATE flights ON HASH PREFIX 1 flight: SCHEMA dest TAG"), "+OK");
    assert_eq!(other.ask("FT.DROPINDEX flights DD"), "+OK");
    assert_eq!(other.ask("DBSIZE"), ":2");
    // Those who watch a key hear of it.
    client.ask("MULTI");
    client.ask("SET flight:7 x");
    assert_eq!(client.whole("EXEC"), "*-1");
    running.restart();
    let size = || Some(running.connect().ask("DBSIZE")).filter(|reply| reply.starts_with(':'));
    assert_eq!(eventually(size), ":2");
}

#[test]
fn names_and_declarations_and_the_words_of_a_query_have_limits() {
    let running = Running::start(&[]);
    let mut client = running.connect();
    let fields: Vec<String> = (0..10).map(|number| format!("f{number} TEXT")).collect();
    assert_eq!(client.ask(&format!("FT.CREATE shop ON HASH SCHEMA {}", fields.join(" "))), "+OK");
    let (longest, longer) = ("n".repeat(1024), "n".repeat(1025));
    for request in ["FT.ALIASADD NAME shop", "FT.DICTADD NAME term", "FT.SYNUPDATE shop NAME term"] {
        let reply = client.ask(&request.replace("NAME", &longer));
        assert!(reply.starts_with('-') && reply.contains("a name has at most 1024 bytes"), "{reply}");
        let reply = client.ask(&request.replace("NAME", &longest));
        assert!(!reply.starts_with('-'), "{reply}");
    }
    assert!(client.ask(&format!("FT.CREATE {longer} ON HASH SCHEMA f TEXT")).starts_with("-"));
    let mut declare = |number: usize| {
        let field = |part: usize| format!("{} AS f{number}p{part} TEXT", "f".repeat(1000));
        client.ask(&format!("FT.ALTER shop SCHEMA ADD {}", (0..50).map(field).collect::<Vec<_>>().join(" ")))
    };
    let refused = (0..30).map(&mut declare).find(|reply| reply != "+OK").unwrap();
    assert!(refused.contains("an index is declared by at most"), "{refused}");

    // Words, of which each stands for 2 MB of others.
    assert_eq!(
        client.ask(
            "FT.CREATE hats ON HASH SCHEMA f0 TEXT f1 TEXT f2 TEXT f3 TEXT f4 TEXT f5 TEXT \
                           f6 TEXT f7 TEXT f8 TEXT f9 TEXT"
        ),
        "+OK"
    );
    assert_eq!(client.ask("HSET hat f3 cap0x7"), ":1");
    for part in 0..40 {
        let words: Vec<String> = (0..1600).map(|number| format!("cap{part}x{number}")).collect();
        assert_eq!(client.ask(&format!("FT.SYNUPDATE hats g hat {}", words.join(" "))), "+OK");
    }
    assert_eq!(client.whole("FT.SEARCH hats @f3:hat NOCONTENT"), "*[:1 $hat]");
    let refused = client.ask("FT.SEARCH hats hat NOCONTENT");
    assert!(refused.contains("the query looks for more than"), "{refused}");
    let many = (0..20).map(|number| format!("@f3:cap0x{number}")).collect::<Vec<_>>().join("|");
    let refused = client.ask(&format!("FT.SEARCH hats {many} NOCONTENT"));
    assert!(refused.contains("the query looks for more than"), "{refused}");
}

/// Keys of an index that are more than are deleted at once.
const MANY: usize = 3_000;

fn fill_with_many(client: &mut Connection) {
    for id in 0..MANY {
        client.send(&format!("HSET flight:{id} dest LAX"));
    }
    (0..MANY).for_each(|_| assert_eq!(client.reply(), ":1"));
    assert_eq!(client.ask("FT.CREATE flights ON HASH PREFIX 1 flight: SCHEMA dest TAG"), "+OK");
}

#[test]
fn keys_that_go_with_their_index_count_as_changes() {
    let running = Running::start(&[]);
    let mut client = running.connect();
    fill_with_many(&mut client);
    assert_eq!(client.ask("SAVE"), "+OK");
    assert_eq!(number(&mut client, "rdb_changes_since_last_save"), 0);
    assert_eq!(client.ask("FT.DROPINDEX flights DD"), "+OK");
    assert_eq!(number(&mut client, "rdb_changes_since_last_save"), MANY as u64);
}

#[test]
fn who_tracks_keys_is_told_of_those_that_go_with_their_index() {
    let running = Running::start(&[]);
    let (mut client, mut told, mut tracking) = (running.connect(), running.connect(), running.connect());
    fill_with_many(&mut client);
    let id = told.ask("CLIENT ID").replace(':', "");
    told.whole("SUBSCRIBE __redis__:invalidate");
    assert_eq!(tracking.ask(&format!("CLIENT TRACKING on REDIRECT {id} BCAST")), "+OK");
    assert_eq!(client.ask("FT.DROPINDEX flights DD"), "+OK");
    let mut keys = 0;
    while keys < MANY {
        let message = told.reply();
        assert!(message.contains("$flight:"), "{message}");
        keys += message.matches("$flight:").count();
    }
}

#[test]
fn a_pause_of_writes_holds_back_the_keys_that_go_with_their_index() {
    let running = Running::start(&["--threads", "2"]);
    let (mut client, mut dropping) = (running.connect(), running.connect());
    fill_with_many(&mut client);
    assert_eq!(client.ask("CLIENT PAUSE 1000000 WRITE"), "+OK");
    dropping.send("FT.DROPINDEX flights DD");
    eventually(|| client.ask("INFO clients").contains("blocked_clients:1\r\n").then_some(()));
    // It would read the keys meanwhile, and delete them.
    assert_eq!(client.whole("FT.SEARCH flights * LIMIT 0 0"), format!("*[:{MANY}]"));
    assert_eq!(client.ask("DBSIZE"), format!(":{MANY}"));
    assert_eq!(client.ask("CLIENT UNPAUSE"), "+OK");
    assert_eq!(dropping.reply(), "+OK");
    assert_eq!(client.ask("DBSIZE"), ":0");
}

#[test]
fn an_index_is_dropped_with_its_keys_while_the_log_is_behind() {
    // One group of deletes is more than may wait for the disk.
    let running = Running::start(&["--appendonly", "yes", "--log-backlog-limit", "4096"]);
    let mut client = running.connect();
    fill_with_many(&mut client);
    assert_eq!(client.ask("FT.DROPINDEX flights DD"), "+OK");
    assert_eq!(client.ask("DBSIZE"), ":0");
}
