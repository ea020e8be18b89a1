//! Ways round the rules of a user, each of which is refused and named in `ACL LOG`: scripts and functions,
//! transactions, commands that look at other keys than they name, what shows the requests and the changes of
//! others, and all data at once. `testscripts/server/acl-ways-round.txt` plays those that Redis has as well
//! against redis-server.

#![allow(clippy::unwrap_used)]

mod running;

use running::{Connection, Running};

/// The rules of the user that tries.
const RULES: &str = "reset on nopass +@all ~own:* &own:*";
/// The value that it must not see.
const SECRET: &str = "s3cret-value";

/// A server with keys that the user may use, and with keys that it must not.
struct Scene {
    running: Running,
    admin: Connection,
}

impl Scene {
    fn new() -> Scene {
        let running = Running::start(&["--enable-debug-command", "yes", "--notify-keyspace-events", "KEA"]);
        let mut admin = running.connect();
        for request in [
            &format!("ACL SETUSER u {RULES}"),
            &format!("SET other {SECRET}"),
            &format!("SET other:1 {SECRET}"),
            &format!("HSET other:h f {SECRET}"),
            &format!("RPUSH other:l {SECRET}"),
            &format!("SADD other:s {SECRET}"),
            &format!("ZADD other:z 1 {SECRET}"),
            &format!("XADD other:x 1-1 f {SECRET}"),
            "SET own:1 v",
            "RPUSH own:l 1",
            "SADD own:s 1",
        ] {
            let reply = admin.whole(request);
            assert!(!reply.starts_with('-'), "{request}: {reply}");
        }
        Scene { running, admin }
    }

    /// A client of the user.
    fn user(&self) -> Connection {
        let mut user = self.running.connect();
        assert_eq!(user.ask("AUTH u x"), "+OK");
        user
    }

    /// The keys that the user must not change.
    fn others(&mut self) -> String {
        ["DEBUG DIGEST-VALUE other other:1 other:h other:l other:s other:z other:x", "DBSIZE"]
            .map(|request| self.admin.whole(request))
            .join(" ")
    }

    /// Tries requests, one after the other: the last is refused in these words, and that is in the log with
    /// the reason, the place and the object.
    fn tries(&mut self, requests: &[&str], why: &str, [reason, context, object]: [&str; 3]) {
        assert_eq!(self.admin.ask("ACL LOG RESET"), "+OK");
        let before = self.others();
        let mut user = self.user();
        let mut reply = String::new();
        for request in requests {
            reply = user.whole(request);
            assert!(!reply.contains(SECRET), "{request}: {reply}");
        }
        assert!(reply.contains(why), "{requests:?}: {reply}");
        let log = self.admin.whole("ACL LOG 1");
        for field in [
            format!("$reason ${reason} "),
            format!("$context ${context} "),
            format!("$object ${object} "),
            "$username $u ".to_owned(),
        ] {
            assert!(log.contains(&field), "{requests:?}: {field:?} is not in {log}");
        }
        assert_eq!(self.others(), before, "{requests:?} have changed something");
    }
}

const NO_KEY: &str = "-NOPERM this user has no permissions to access one of the keys used as arguments";
const NO_CHANNEL: &str =
    "-NOPERM this user has no permissions to access one of the channels used as arguments";
const NO_KEY_IN_SCRIPT: &str = "access at least one of the keys mentioned in the command arguments";
const NO_CHANNEL_IN_SCRIPT: &str = "publish to the channel mentioned in the command";

#[test]
fn commands_reach_no_key_that_the_user_must_not_use_wherever_it_stands() {
    let mut scene = Scene::new();
    for (request, object) in [
        ("GET other", "other"),
        ("GETEX other", "other"),
        ("MGET own:1 other:1", "other:1"),
        ("MSETNX own:2 v other:1 v", "other:1"),
        ("LCS own:1 other", "other"),
        ("COPY other own:c", "other"),
        ("COPY own:1 other REPLACE", "other"),
        ("RENAME other own:c", "other"),
        ("RENAMENX own:1 other:n", "other:n"),
        ("DUMP other", "other"),
        ("RESTORE other 0 x REPLACE", "other"),
        ("OBJECT FREQ other", "other"),
        ("MEMORY USAGE other", "other"),
        ("TOUCH own:1 other", "other"),
        ("DEL own:nokey other", "other"),
        ("EXPIRE other 1", "other"),
        ("WATCH own:1 other", "other"),
        ("MIGRATE 127.0.0.1 1 other 0 10", "other"),
        ("MIGRATE 127.0.0.1 1 \"\" 0 10 COPY KEYS own:1 other", "other"),
        ("SORT own:l STORE other:l", "other:l"),
        ("SORT_RO other:l", "other:l"),
        ("SORT own:l BY other:*", "sort"),
        ("SORT own:l BY nosort GET other:*", "sort"),
        ("SORT own:l GET other:* STORE own:c", "sort"),
        ("SORT_RO own:l GET other:*", "sort_ro"),
        ("BITOP NOT own:c other", "other"),
        ("LMOVE other:l own:l LEFT LEFT", "other:l"),
        ("RPOPLPUSH own:l other:l", "other:l"),
        ("LMPOP 2 own:nokey other:l LEFT", "other:l"),
        ("BLPOP own:nokey other:l 0", "other:l"),
        ("BLMPOP 0 2 own:nokey other:l LEFT", "other:l"),
        ("SMOVE own:s other:s 1", "other:s"),
        ("SINTERCARD 2 own:s other:s", "other:s"),
        ("SUNIONSTORE own:c own:s other:s", "other:s"),
        ("ZUNION 2 own:nokey other:z", "other:z"),
        ("ZRANGESTORE own:c other:z 0 -1", "other:z"),
        ("GEOSEARCHSTORE own:c other:z FROMLONLAT 0 0 BYRADIUS 1 m", "other:z"),
        ("GEORADIUS own:nokey 0 0 1 m STORE other:z", "other:z"),
        ("PFMERGE own:c other", "other"),
        ("XREAD STREAMS own:nokey other:x 0 0", "other:x"),
        ("XREADGROUP GROUP g c STREAMS own:nokey other:x > >", "other:x"),
        ("HRANDFIELD other:h 1 WITHVALUES", "other:h"),
        ("JSON.MGET own:nokey other $", "other"),
    ] {
        scene.tries(&[request], refusal_of(request), ["key", "toplevel", object]);
    }
}

/// `SORT` refuses other keys in its own words.
fn refusal_of(request: &str) -> &'static str {
    match request {
        _ if request.contains(" BY other") => {
            "-ERR BY option of SORT denied due to insufficient ACL permissions."
        }
        _ if request.contains(" GET other") => {
            "-ERR GET option of SORT denied due to insufficient ACL permissions."
        }
        _ => NO_KEY,
    }
}

#[test]
fn scripts_and_functions_have_the_rights_of_who_calls_them() {
    let mut scene = Scene::new();
    let script = "return redis.call('GET', KEYS[1] or 'other')";
    let sha = scene.admin.ask(&format!("SCRIPT LOAD \"{script}\""));
    let library = "#!lua name=l\\nlocal function get(keys) return redis.call('GET', keys[1] or 'other') end \
                   redis.register_function('f', get) \
                   redis.register_function{function_name='r', flags={'no-writes'}, callback=get}";
    assert_eq!(scene.admin.ask(&format!("FUNCTION LOAD \"{library}\"")), "l");
    let calls = [
        format!("EVAL \"{script}\""),
        format!("EVAL_RO \"{script}\""),
        format!("EVALSHA {sha}"),
        format!("EVALSHA_RO {sha}"),
        "FCALL f".to_owned(),
        "FCALL r".to_owned(),
        "FCALL_RO r".to_owned(),
    ];
    for call in &calls {
        scene.tries(&[&format!("{call} 1 other")], NO_KEY, ["key", "toplevel", "other"]);
        scene.tries(&[&format!("{call} 2 own:1 other")], NO_KEY, ["key", "toplevel", "other"]);
        scene.tries(&[&format!("{call} 0")], NO_KEY_IN_SCRIPT, ["key", "lua", "other"]);
        assert_eq!(scene.user().ask(&format!("{call} 1 own:1")), "v");
    }
    for (body, why, logged) in [
        ("return redis.pcall('GET', 'ot' .. 'her')['err']", NO_KEY_IN_SCRIPT, ["key", "lua", "other"]),
        ("return redis.pcall('RENAME', 'own:1', 'other')['err']", NO_KEY_IN_SCRIPT, ["key", "lua", "other"]),
        ("return redis.pcall('COPY', 'other', 'own:c')['err']", NO_KEY_IN_SCRIPT, ["key", "lua", "other"]),
        (
            "return redis.pcall('PUBLISH', 'other', 'm')['err']",
            NO_CHANNEL_IN_SCRIPT,
            ["channel", "lua", "other"],
        ),
        (
            "return redis.pcall('SORT', 'own:l', 'BY', 'other:*')['err']",
            "BY option of SORT denied",
            ["key", "lua", "sort"],
        ),
    ] {
        scene.tries(&[&format!("EVAL \"{body}\" 0")], why, logged);
    }
    // A script that was cached or loaded by another is none of that one's.
    assert_eq!(scene.admin.ask("ACL SETUSER u -eval"), "+OK");
    let refusal = "-NOPERM this user has no permissions to run the 'eval' command";
    scene.tries(&["EVAL \"return 1\" 0"], refusal, ["command", "toplevel", "eval"]);
    assert_eq!(scene.admin.ask("ACL SETUSER u +eval -get"), "+OK");
    let refusal = "run this command or subcommand";
    scene.tries(&["EVAL \"return redis.call('GET', 'own:1')\" 0"], refusal, ["command", "lua", "get"]);
}

#[test]
fn transactions_are_checked_when_they_are_queued_and_when_they_run() {
    let mut scene = Scene::new();
    scene.tries(&["MULTI", "GET other"], NO_KEY, ["key", "multi", "other"]);
    scene.tries(&["MULTI", "GET other", "EXEC"], "-EXECABORT", ["key", "multi", "other"]);
    scene.tries(&["MULTI", "PUBLISH other m"], NO_CHANNEL, ["channel", "multi", "other"]);
    let script = "EVAL \"return redis.call('GET', 'other')\" 0";
    scene.tries(&["MULTI", script, "EXEC"], NO_KEY_IN_SCRIPT, ["key", "lua", "other"]);
    scene.tries(&["MULTI", "SORT own:l BY other:*", "EXEC"], "BY option of SORT", ["key", "multi", "sort"]);
    let bcast = "CLIENT TRACKING ON BCAST PREFIX other";
    scene.tries(&["MULTI", bcast, "EXEC"], NO_KEY, ["key", "multi", "other"]);
    // The right to a key is lost while the request waits in the queue.
    for (rules, why, logged) in [
        ("resetkeys ~else:*", "no permission to touch the specified keys", ["key", "multi", "own:1"]),
        ("-get", "no permission to execute the command", ["command", "multi", "get"]),
    ] {
        let mut user = scene.user();
        assert_eq!((user.ask("MULTI"), user.ask("GET own:1")), ("+OK".to_owned(), "+QUEUED".to_owned()));
        assert_eq!(scene.admin.ask(&format!("ACL SETUSER u {rules}")), "+OK");
        let reply = user.whole("EXEC");
        assert!(reply.contains("-NOPERM ACLs rules changed") && reply.contains(why), "{reply}");
        let log = scene.admin.whole("ACL LOG 1");
        let [reason, context, object] = logged;
        let entry = format!("$reason ${reason} $context ${context} $object ${object} $username $u ");
        assert!(log.contains(&entry), "{entry} is not in {log}");
        assert_eq!(scene.admin.ask(&format!("ACL SETUSER u {RULES}")), "+OK");
    }
}

#[test]
fn a_request_that_waits_is_refused_when_its_user_has_lost_the_right_to_it() {
    let mut scene = Scene::new();
    let mut user = scene.user();
    user.send("BLPOP own:q 0");
    running::eventually(|| scene.admin.ask("INFO clients").contains("blocked_clients:1").then_some(()));
    assert_eq!(scene.admin.ask("ACL SETUSER u resetkeys ~else:*"), "+OK");
    assert_eq!(scene.admin.ask(&format!("RPUSH own:q {SECRET}")), ":1");
    let reply = user.reply();
    assert!(reply.starts_with("-NOPERM"), "{reply}");
    assert_eq!(scene.admin.ask("LLEN own:q"), ":1");
    let log = scene.admin.whole("ACL LOG 1");
    assert!(log.contains("$reason $key ") && log.contains("$object $own:q $username $u "), "{log}");
}

#[test]
fn nobody_is_shown_the_requests_and_the_changes_of_others() {
    let mut scene = Scene::new();
    scene.tries(&["MONITOR"], NO_KEY, ["key", "toplevel", "monitor"]);
    for channel in ["__keyspace@0__:other", "__keyevent@0__:set"] {
        scene.tries(&[&format!("SUBSCRIBE {channel}")], NO_CHANNEL, ["channel", "toplevel", channel]);
    }
    for pattern in ["*", "__key*__:*", "own:?"] {
        scene.tries(&[&format!("PSUBSCRIBE {pattern}")], NO_CHANNEL, ["channel", "toplevel", pattern]);
    }
    let tracking = "CLIENT TRACKING ON BCAST";
    scene.tries(&[tracking], NO_KEY, ["key", "toplevel", "client|tracking"]);
    for (prefixes, refused) in [
        ("PREFIX own:1 PREFIX other:", "other:"),
        ("PREFIX own", "own"),
        ("PREFIX o", "o"),
        ("PREFIX \"\"", "client|tracking"),
    ] {
        scene.tries(&[&format!("{tracking} {prefixes}")], NO_KEY, ["key", "toplevel", refused]);
    }
    // A key that was not read is not tracked.
    scene.tries(&["HELLO 3", "CLIENT TRACKING ON", "GET other"], NO_KEY, ["key", "toplevel", "other"]);
}

/// A client that is told of keys or requests as time goes by is not told for longer than it may be.
#[test]
fn who_is_told_of_more_than_it_may_know_is_closed_when_the_rules_change() {
    let mut scene = Scene::new();
    for (begin, rules, is_closed) in [
        ("CLIENT TRACKING ON BCAST PREFIX own:", "resetkeys ~own:1*", true),
        ("CLIENT TRACKING ON BCAST PREFIX own:", "resetkeys %W~own:*", true),
        ("CLIENT TRACKING ON BCAST PREFIX own:1", "resetkeys ~own:1*", false),
        ("CLIENT TRACKING ON BCAST PREFIX own:", "db=0", true),
        ("CLIENT TRACKING ON BCAST PREFIX own:", "-get", false),
        ("CLIENT TRACKING ON", "resetkeys ~own:1*", false),
        ("MONITOR", "resetkeys ~own:*", true),
        ("MONITOR", "db=0", true),
        ("MONITOR", "resetkeys %R~*", false),
        ("SUBSCRIBE own:1", "resetchannels &own:2", true),
        ("SUBSCRIBE own:1", "resetchannels &own:1", false),
    ] {
        let about = format!("{begin}, then {rules}");
        let all = if begin == "MONITOR" { "~*" } else { "" };
        assert_eq!(scene.admin.ask(&format!("ACL SETUSER u {RULES} {all}")), "+OK");
        let mut user = scene.user();
        if begin.starts_with("CLIENT") {
            user.whole("HELLO 3");
        }
        let reply = user.whole(begin);
        assert!(!reply.starts_with('-'), "{about}: {reply}");
        assert_eq!(scene.admin.ask(&format!("ACL SETUSER u {rules}")), "+OK");
        // Once the server has answered it, it has looked.
        let mut is_there = user.try_ask("PING");
        while is_there.as_ref().is_some_and(|line| !line.to_ascii_lowercase().contains("pong")) {
            is_there = user.try_reply();
            if begin == "MONITOR" && is_there.as_ref().is_some_and(|line| line.contains("PING")) {
                break;
            }
        }
        assert_eq!(is_there.is_none(), is_closed, "{about}");
    }
}

#[test]
fn all_data_at_once_are_for_who_may_use_every_key() {
    let mut scene = Scene::new();
    for (request, object) in [
        ("DEBUG DIGEST", "debug"),
        ("DEBUG DIGEST-VALUE other", "other"),
        ("DEBUG OBJECT other", "other"),
        ("DEBUG SDSLEN other", "other"),
        ("DEBUG LISTPACK other:h", "other:h"),
        ("DEBUG HTSTATS 0", "debug"),
        ("DEBUG RELOAD", "debug"),
        ("DEBUG POPULATE 3 other", "debug"),
        ("BACKUP there", "backup"),
        ("FT.CREATE i PREFIX 1 other SCHEMA f TEXT", "ft.create"),
        ("FT.SEARCH i *", "ft.search"),
        ("FT._LIST", "ft._list"),
    ] {
        scene.tries(&[request], NO_KEY, ["key", "toplevel", object]);
    }
    // With other databases out of reach, also with the right to every key.
    assert_eq!(scene.admin.ask("ACL SETUSER u allkeys db=0"), "+OK");
    let no_database = "-NOPERM No permissions to access database";
    for request in ["MONITOR", "BACKUP there", "FLUSHALL"] {
        scene.tries(&[request], no_database, ["database", "toplevel", "0"]);
    }
    for (request, db) in
        [("SELECT 1", "1"), ("SWAPDB 0 1", "1"), ("MOVE own:1 1", "1"), ("COPY own:1 own:1 DB 1", "1")]
    {
        scene.tries(&[request], no_database, ["database", "toplevel", db]);
    }
}

/// Messages reach a client while it waits in a command, and so does the change of its rules.
#[test]
fn who_waits_in_a_command_is_closed_as_well_when_it_is_told_of_more_than_it_may_know() {
    let mut scene = Scene::new();
    for (begin, waits, rules) in [
        ("SUBSCRIBE own:1", "BLPOP own:nokey 0", "resetchannels &own:2"),
        ("SUBSCRIBE own:1", "WAIT 1 0", "resetchannels &own:2"),
        ("SUBSCRIBE own:1", "XREAD BLOCK 0 STREAMS own:nokey $", "resetchannels &own:2"),
        ("CLIENT TRACKING ON BCAST PREFIX own:", "BLPOP own:nokey 0", "resetkeys ~own:1*"),
        ("MONITOR", "WAIT 1 0", "resetkeys ~own:*"),
    ] {
        let about = format!("{begin}, {waits}, then {rules}");
        let all = if begin == "MONITOR" { "~*" } else { "" };
        assert_eq!(scene.admin.ask(&format!("ACL SETUSER u {RULES} {all}")), "+OK");
        let mut user = scene.user();
        user.whole("HELLO 3");
        let reply = user.whole(begin);
        assert!(!reply.starts_with('-'), "{about}: {reply}");
        user.send(waits);
        running::eventually(|| scene.admin.ask("INFO clients").contains("blocked_clients:1").then_some(()));
        assert_eq!(scene.admin.ask(&format!("ACL SETUSER u {rules}")), "+OK");
        running::eventually(|| scene.admin.ask("INFO clients").contains("blocked_clients:0").then_some(()));
        while user.try_reply().is_some() {}
        assert_eq!(scene.admin.ask("PUBLISH own:1 message"), ":0", "{about}");
    }
}

#[test]
fn a_transaction_of_guesses_is_no_faster_than_guesses_that_stand_alone() {
    let mut scene = Scene::new();
    assert_eq!(scene.admin.ask("ACL SETUSER v on >right +@all"), "+OK");
    let mut user = scene.user();
    assert_eq!(user.ask("MULTI"), "+OK");
    for _ in 0..6 {
        assert_eq!(user.ask("AUTH v wrong"), "+QUEUED");
    }
    assert_eq!(user.ask("AUTH v right"), "+QUEUED");
    let reply = user.whole("EXEC");
    // Three cost nothing, and the fourth a delay.
    assert_eq!(reply.matches("-WRONGPASS invalid").count(), 4, "{reply}");
    assert_eq!(reply.matches("-WRONGPASS no password").count(), 3, "{reply}");
    assert_eq!(user.ask("ACL WHOAMI"), "u");
    assert_eq!(user.ask("AUTH v right"), "+OK");
}

/// A client that has become another user is told nothing of what only the first one may know.
#[test]
fn who_logs_in_as_another_user_is_told_of_what_that_one_may_know_or_is_closed() {
    let mut scene = Scene::new();
    for (begin, rules, is_closed) in [
        ("SUBSCRIBE own:1", "~* &other", true),
        ("SUBSCRIBE own:1", "~* &own:*", false),
        ("CLIENT TRACKING ON BCAST PREFIX own:", "~other", true),
        ("CLIENT TRACKING ON BCAST PREFIX own:", "~own:*", false),
    ] {
        let about = format!("{begin}, then {rules}");
        assert_eq!(scene.admin.ask(&format!("ACL SETUSER v reset on >right +@all {rules}")), "+OK");
        let mut user = scene.user();
        user.whole("HELLO 3");
        let reply = user.whole(begin);
        assert!(!reply.starts_with('-'), "{about}: {reply}");
        // Once the server has answered the second, it has looked.
        let mut line = user.try_ask("AUTH v right");
        while line.as_ref().is_some_and(|line| line != "+OK") {
            line = user.try_reply();
        }
        line = line.and_then(|_| user.try_ask("PING"));
        while line.as_ref().is_some_and(|line| line != "+PONG") {
            line = user.try_reply();
        }
        assert_eq!(line.is_none(), is_closed, "{about}");
    }
}

#[test]
fn statements_that_declare_or_write_files_need_more_than_the_right_to_read() {
    let mut scene = Scene::new();
    let declare = |name: &str| {
        format!("SQL \"CREATE EXTERNAL TABLE {name} (id TEXT, n INT) STORED AS HASH LOCATION '{name}:*'\"")
    };
    assert_eq!(scene.admin.ask(&declare("item")), "+OK");
    for rules in ["+@all %R~*", "~* +@all -@write", "~* +@all -@dangerous +sql", "~* -@all +sql"] {
        assert_eq!(scene.admin.ask(&format!("ACL SETUSER u reset on nopass {rules}")), "+OK");
        let mut user = scene.user();
        let reply = user.whole("SQL \"SELECT n FROM item\"");
        assert!(!reply.starts_with('-'), "{rules}: {reply}");
        for statement in [
            &*declare("other"),
            "SQL \"DROP TABLE item\"",
            "SQL \"CREATE INDEX ON item (n)\"",
            "SQL \"DROP INDEX nothing\"",
            "SQL \"COPY (SELECT n FROM item) TO 'x.csv'\"",
        ] {
            assert_eq!(scene.admin.ask("ACL LOG RESET"), "+OK");
            let reply = user.whole(statement);
            assert!(reply.starts_with("-NOPERM this user has no permissions to declare"), "{rules}: {reply}");
            let log = scene.admin.whole("ACL LOG 1");
            assert!(log.contains("$reason $command ") && log.contains("$object $sql $username $u "), "{log}");
        }
    }
    assert_eq!(scene.admin.ask("ACL SETUSER u reset on nopass ~* -@all +sql +ft.create"), "+OK");
    let mut user = scene.user();
    assert_eq!(user.ask(&declare("other")), "+OK");
    assert_eq!(user.ask("SQL \"DROP TABLE other\""), "+OK");
}
