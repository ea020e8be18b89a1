//! Users at the port for SQL, and by the command `SQL`: how they log in, and the ways round their rules, each
//! of which is refused and named in `ACL LOG`.

#![allow(clippy::unwrap_used)]

mod running;

use std::process::Command;

use running::postgres::{Answer, Postgres, extended, message};
use running::{Connection, Folder, Running, eventually, free_port};

/// The rules of the user that tries.
const RULES: &str = "reset on >pw +@all ~own:*";
/// The value that it must not see.
const SECRET: &str = "s3cret-value";

/// A server with keys and tables that the user may read, and with others.
struct Scene {
    running: Running,
    port: u16,
    admin: Connection,
    exports: Folder,
}

impl Scene {
    fn new() -> Scene {
        let (port, exports) = (free_port(), Folder::new());
        let directory = exports.path("").display().to_string();
        let running = Running::start(&["--sql-port", &port.to_string(), "--sql-export-dir", &directory]);
        let mut admin = running.connect();
        for (id, number) in [(1, 10), (2, 20), (3, 30)] {
            admin.ask(&format!("HSET own:{id} n {number} v mine"));
            admin.ask(&format!("HSET other:{id} n {number} v {SECRET}"));
        }
        admin.ask(&format!("SET other:s {SECRET}"));
        let table = |name: &str, pattern: &str, options: &str| {
            format!(
                "SQL \"CREATE EXTERNAL TABLE {name} (id TEXT, n BIGINT, v TEXT) STORED AS HASH LOCATION \
                 '{pattern}' {options}\""
            )
        };
        for request in [
            format!("ACL SETUSER u {RULES}"),
            table("own", "own:*", ""),
            table("part", "own:1*", ""),
            table("other", "other:*", ""),
            table("everything", "*", ""),
            table("ending", "*:1", ""),
            table("far", "own:*", "OPTIONS (database '3')"),
            "SQL \"CREATE INDEX ON other (n)\"".to_owned(),
            "SQL \"CREATE INDEX ON own (n)\"".to_owned(),
        ] {
            assert_eq!(admin.ask(&request), "+OK", "{request}");
        }
        let is_built = |reply: String| (reply.matches(":1000").count() == 2).then_some(());
        eventually(|| is_built(admin.whole("SQL \"SHOW INDEXES\"")));
        Scene { running, port, admin, exports }
    }

    fn rules(&mut self, rules: &str) {
        assert_eq!(self.admin.ask(&format!("ACL SETUSER u {rules}")), "+OK", "{rules}");
    }

    /// A client of the user at the port for SQL.
    fn user(&self) -> Postgres {
        Postgres::log_in(self.port, "u", "pw").unwrap()
    }

    /// A client of the user at the other port.
    fn redis_user(&self) -> Connection {
        let mut user = self.running.connect();
        assert_eq!(user.ask("AUTH u pw"), "+OK");
        user
    }

    /// The newest refusal of the user is this one.
    fn assert_noted(&mut self, [reason, object]: [&str; 2], about: &str) {
        let log = self.admin.whole("ACL LOG 1");
        for field in [
            format!("$reason ${reason} "),
            "$context $toplevel ".to_owned(),
            format!("$object ${object} "),
            "$username $u ".to_owned(),
            "cmd=sql".to_owned(),
            "addr=127.0.0.1:".to_owned(),
        ] {
            assert!(log.contains(&field), "{about}: {field:?} is not in {log}");
        }
    }

    /// Tries a statement in each way that there is; it is refused, and that is noted.
    fn tries(&mut self, statement: &str, noted: [&str; 2]) {
        let mut user = self.user();
        for is_extended in [false, true] {
            assert_eq!(self.admin.ask("ACL LOG RESET"), "+OK");
            let answer = if is_extended { user.ask_extended(statement, &[]) } else { user.ask(statement) };
            assert_refused(&answer, statement);
            self.assert_noted(noted, statement);
        }
        assert_eq!(self.admin.ask("ACL LOG RESET"), "+OK");
        let reply = self.redis_user().whole(&format!("SQL \"{statement}\""));
        assert!(reply.starts_with("-NOPERM ") && !reply.contains(SECRET), "{statement}: {reply}");
        self.assert_noted(noted, statement);
        assert_eq!(std::fs::read_dir(self.exports.path("")).unwrap().count(), 0, "{statement}");
    }
}

fn assert_refused(answer: &Answer, about: &str) {
    assert_eq!(answer.code(), "42501", "{about}: {answer:?}");
    assert!(answer.rows.is_empty() && !format!("{answer:?}").contains(SECRET), "{about}: {answer:?}");
}

#[test]
fn no_statement_reaches_keys_that_its_user_must_not_read() {
    let mut scene = Scene::new();
    assert_eq!(scene.user().ask("SELECT sum(n) FROM own").text(), "60");
    assert_eq!(scene.user().ask("SELECT sum(n) FROM part").text(), "10");
    for statement in [
        "SELECT * FROM other",
        "SELECT v FROM other WHERE id = '1'",
        "SELECT v FROM other WHERE n = 10",
        "SELECT v FROM other ORDER BY n LIMIT 1",
        "SELECT min(n) FROM other",
        "SELECT count(*) FROM other",
        "SELECT own.n, other.v FROM own JOIN other ON own.n = other.n",
        "SELECT other.v FROM own, other",
        "SELECT own.n FROM own LEFT JOIN other ON own.n = other.n AND other.v = 'x'",
        "SELECT n FROM own WHERE n IN (SELECT n FROM other)",
        "SELECT n FROM own WHERE EXISTS (SELECT 1 FROM other WHERE other.n = own.n)",
        "SELECT (SELECT max(v) FROM other)",
        "SELECT v FROM own UNION ALL SELECT v FROM other",
        "WITH o AS (SELECT * FROM other) SELECT v FROM o",
        "WITH RECURSIVE o AS (SELECT n FROM other UNION SELECT n + 100 FROM o WHERE n < 200) SELECT n FROM o",
        "EXPLAIN SELECT * FROM other",
        "EXPLAIN VERBOSE SELECT * FROM other",
        "EXPLAIN ANALYZE SELECT * FROM other",
        "SELECT * FROM infer('other:*')",
        "SELECT * FROM own, infer('other:*')",
    ] {
        scene.tries(statement, ["key", "other:*"]);
    }
    for (statement, pattern) in [
        ("SELECT v FROM everything WHERE id = 'own:1'", "*"),
        ("SELECT v FROM ending", "*:1"),
        ("SELECT * FROM infer('*')", "*"),
        ("SELECT * FROM infer('own*')", "own*"),
    ] {
        scene.tries(statement, ["key", pattern]);
    }
}

#[test]
fn tables_of_other_databases_and_of_keys_that_may_only_be_written_are_out_of_reach() {
    let mut scene = Scene::new();
    assert_eq!(scene.user().ask("SELECT count(*) FROM far").text(), "0");
    scene.rules(&format!("{RULES} db=0"));
    assert_eq!(scene.user().ask("SELECT count(*) FROM own").text(), "3");
    scene.tries("SELECT count(*) FROM far", ["database", "3"]);
    scene.tries("SELECT count(*) FROM own, far", ["database", "3"]);
    scene.rules(&format!("{RULES} db=3"));
    assert_eq!(scene.user().ask("SELECT count(*) FROM far").text(), "0");
    assert_refused(&scene.user().ask("SELECT count(*) FROM own"), "own");
    assert_refused(&scene.user().ask("SELECT count(*) FROM keyspace.keys"), "keyspace");
    scene.rules("reset on >pw +@all %W~own:* %R~own:1*");
    scene.tries("SELECT count(*) FROM own", ["key", "own:*"]);
    assert_eq!(scene.user().ask("SELECT count(*) FROM part").text(), "1");
    // One selector has to allow all of a statement.
    scene.rules("reset on >pw +sql ~own:* (+sql ~other:*)");
    assert_eq!(scene.user().ask("SELECT count(*) FROM other").text(), "3");
    scene.tries("SELECT count(*) FROM other, own", ["key", "own:*"]);
}

#[test]
fn statements_that_declare_or_write_files_need_more_than_the_right_to_read() {
    let mut scene = Scene::new();
    let declares = "CREATE EXTERNAL TABLE mine (id TEXT) STORED AS HASH LOCATION 'own:*'";
    for rules in ["+@all ~own:*", "+@all %R~*", "~* +@all -@write", "~* -@all +sql", "~* +@all db=0"] {
        scene.rules(&format!("reset on >pw {rules}"));
        for statement in [
            declares,
            "DROP TABLE own",
            "CREATE INDEX ON own (v)",
            "DROP INDEX own_n_idx",
            "COPY (SELECT n FROM own) TO 'x.csv'",
            "COPY own TO 'x.csv'",
        ] {
            scene.tries(statement, ["command", "sql"]);
        }
    }
    scene.rules("reset on >pw ~* -@all +sql +ft.create");
    assert_eq!(scene.user().ask(declares).code(), "");
    assert_eq!(scene.user().ask("COPY (SELECT n FROM own) TO 'x.csv'").tags, ["COPY 3"]);
}

#[test]
fn the_schema_keyspace_shows_keys_that_the_user_may_read_and_no_others() {
    let mut scene = Scene::new();
    let shown = |scene: &Scene, statement: &str| {
        let answer = scene.user().ask(statement);
        let reply = scene.redis_user().whole(&format!("SQL \"{statement}\""));
        assert!(!format!("{answer:?}{reply}").contains(SECRET), "{statement}: {answer:?} {reply}");
        answer.text().replace('\n', " ")
    };
    for (statement, rows) in [
        ("SELECT key FROM keyspace.keys ORDER BY key", "own:1 own:2 own:3"),
        ("SELECT count(*) FROM keyspace.keys", "3"),
        ("SELECT count(*), min(key), max(key) FROM keyspace.hashes", "6|own:1|own:3"),
        ("SELECT count(*) FROM keyspace.strings", "0"),
        ("SELECT value FROM keyspace.hashes WHERE key IN ('own:1', 'other:1') AND field = 'v'", "mine"),
        ("SELECT count(*) FROM keyspace.strings WHERE key = 'other:s'", "0"),
        ("SELECT key FROM keyspace.keys WHERE key > 'own:1' ORDER BY key LIMIT 1", "own:2"),
        ("SELECT count(*) FROM keyspace.keys a JOIN keyspace.hashes b ON a.key = b.key", "6"),
        ("SELECT count(*) FROM own JOIN keyspace.keys ON key = 'own:' || id", "3"),
    ] {
        assert_eq!(shown(&scene, statement), rows, "{statement}");
    }
    // Estimates count all keys.
    let all = Postgres::connect(scene.port).ask("EXPLAIN VERBOSE SELECT key FROM keyspace.keys").text();
    assert!(all.contains("Rows=Inexact("), "{all}");
    let plan = shown(&scene, "EXPLAIN VERBOSE SELECT key FROM keyspace.keys");
    assert!(plan.contains("KeyScan") && !plan.contains("Rows=Inexact("), "{plan}");
    let plan = shown(&scene, "EXPLAIN ANALYZE SELECT key FROM keyspace.keys");
    assert!(plan.contains("rows_table=3"), "{plan}");
    scene.rules("%W~other:*");
    assert_eq!(shown(&scene, "SELECT count(*) FROM keyspace.keys"), "3");
    scene.rules("(+sql %R~part:*)");
    assert_eq!(scene.admin.ask("SET part:1 x"), "+OK");
    assert_eq!(shown(&scene, "SELECT count(*) FROM keyspace.keys"), "4");
    // The second selector does not allow the table.
    assert_eq!(shown(&scene, "SELECT count(*) FROM keyspace.keys WHERE (SELECT count(*) FROM own) > 0"), "3");
    scene.rules("resetkeys clearselectors %R~*");
    assert_eq!(scene.user().ask("SELECT count(*) FROM keyspace.keys").text(), "8");
    scene.rules("resetkeys");
    assert_eq!(scene.user().ask("SELECT count(*) FROM keyspace.keys").text(), "0");
}

/// The messages that prepare a statement and run it under a name until there is one row.
fn first_row_of(name: &str, sql: &str) -> Vec<u8> {
    let parse = message(b'P', [name.as_bytes(), b"\0", sql.as_bytes(), b"\0\0\0"].concat().as_slice());
    let bind = message(b'B', format!("{name}\0{name}\0\0\0\0\0\0\0").as_bytes());
    [parse, bind, next_row_of(name)].concat()
}

fn next_row_of(name: &str) -> Vec<u8> {
    let execute = message(b'E', &[name.as_bytes(), b"\0", &1_u32.to_be_bytes()[..]].concat());
    [execute, message(b'S', b"")].concat()
}

/// Rows that have been read already wait in the server for a client that fetches them one by one.
#[test]
fn cursors_and_portals_give_no_row_once_the_rules_forbid_it() {
    let mut scene = Scene::new();
    for (query, before, after, goes_on) in [
        ("SELECT v FROM own", "", "resetkeys ~own:1*", false),
        ("SELECT v FROM own", "", "-sql", false),
        ("SELECT v FROM own", "", "db=3", false),
        ("SELECT v FROM own", "", "-get", true),
        ("SELECT v FROM own", "", "~other:*", true),
        ("SELECT v FROM own", "allkeys", "resetkeys ~own:1*", false),
        ("SELECT key FROM keyspace.keys", "", "resetkeys ~own:1*", false),
        ("SELECT key FROM keyspace.keys", "allkeys", "resetkeys ~own:*", false),
        ("SELECT key FROM keyspace.keys", "", "%W~other:*", true),
        ("SELECT key FROM keyspace.keys", "", "allkeys", true),
        ("SELECT value FROM generate_series(1, 3)", "", "resetkeys", true),
    ] {
        let about = format!("{query}, {before}, then {after}");
        scene.rules(&format!("{RULES} {before}"));
        let (mut cursor, mut portal, mut prepared) = (scene.user(), scene.user(), scene.user());
        let declare = format!("BEGIN; DECLARE c CURSOR FOR {query}");
        assert_eq!(cursor.ask(&declare).status, b'T', "{about}");
        assert_eq!(cursor.ask("FETCH 1 FROM c").rows.len(), 1, "{about}");
        assert_eq!(portal.ask("BEGIN").status, b'T');
        portal.send(&first_row_of("p", query));
        assert_eq!(portal.answer().rows.len(), 1, "{about}");
        prepared.send(&[message(b'P', format!("s\0{query}\0\0\0").as_bytes()), message(b'S', b"")].concat());
        assert_eq!(prepared.answer().code(), "", "{about}");
        scene.rules(after);
        let fetched = cursor.ask("FETCH 1 FROM c");
        portal.send(&next_row_of("p"));
        let executed = portal.answer();
        for answer in [fetched, executed] {
            if goes_on {
                assert_eq!((answer.code(), answer.rows.len()), ("", 1), "{about}: {answer:?}");
            } else {
                assert_refused(&answer, &about);
            }
        }
        prepared.send(&[message(b'B', b"\0s\0\0\0\0\0\0\0"), next_row_of("")].concat());
        let answer = prepared.answer();
        // A statement about keys that may be seen begins with those of now.
        let begins = goes_on || query.contains("keyspace") && after != "-sql";
        assert_eq!(answer.code(), if begins { "" } else { "42501" }, "{about}: {answer:?}");
    }
    let log = scene.admin.whole("ACL LOG");
    assert!(log.contains("$object $own:* ") && log.contains("$object $* "), "{log}");
}

/// `default` begins with every right, and nothing is looked up for it.
#[test]
fn the_user_default_is_bounded_like_any_other() {
    let mut scene = Scene::new();
    assert_eq!(scene.admin.ask("ACL SETUSER keeper on nopass ~* &* +@all"), "+OK");
    assert_eq!(scene.admin.ask("AUTH keeper x"), "+OK");
    let mut postgres = Postgres::connect(scene.port);
    assert_eq!(postgres.ask("BEGIN; DECLARE c CURSOR FOR SELECT v FROM other").status, b'T');
    assert_eq!(postgres.ask("FETCH 1 FROM c").text(), SECRET);
    assert_eq!(scene.admin.ask("ACL SETUSER default resetkeys ~own:*"), "+OK");
    assert_refused(&postgres.ask("FETCH 1 FROM c"), "a cursor of default");
    assert_eq!(postgres.ask("ROLLBACK").status, b'I');
    assert_refused(&postgres.ask("SELECT v FROM other"), "default");
    assert_eq!(postgres.ask("SELECT count(*) FROM own").text(), "3");
    assert_eq!(scene.admin.ask("ACL SETUSER default -sql"), "+OK");
    assert_eq!(Postgres::log_in(scene.port, "default", "").unwrap_err().0, "42501");
}

/// A statement that does not end in a lifetime.
const ENDLESS: &str =
    "SELECT count(*) FROM generate_series(1, 100000000) a CROSS JOIN generate_series(1, 100000000) b";

/// The end of a connection, whatever it was told before.
fn is_told_to_go(postgres: &mut Postgres) -> bool {
    let answer = postgres.answer();
    (answer.code(), answer.status) == ("28000", 0)
}

/// A client of the user, whose statement runs.
fn busy(scene: &Scene) -> Postgres {
    let mut busy = scene.user();
    busy.send(&message(b'Q', &[ENDLESS.as_bytes(), b"\0"].concat()));
    eventually(|| is_running(scene).then_some(()));
    busy
}

fn is_running(scene: &Scene) -> bool {
    scene.running.connect().whole("SQL \"SHOW QUERIES\"").contains("CROSS JOIN")
}

#[test]
fn connections_of_users_that_are_deleted_or_turned_off_end() {
    let mut scene = Scene::new();
    for change in ["ACL DELUSER u", "ACL SETUSER u off", "ACL SETUSER u reset"] {
        scene.rules(RULES);
        let (mut idle, mut in_block, mut asks) = (scene.user(), scene.user(), scene.user());
        assert_eq!(in_block.ask("BEGIN; SELECT count(*) FROM own").status, b'T');
        let mut running = busy(&scene);
        let changed = scene.admin.ask(change);
        assert!([":1", "+OK"].contains(&changed.as_str()), "{changed}");
        let answer = asks.ask("SELECT count(*) FROM own");
        assert_eq!((answer.code(), answer.status), ("28000", 0), "{change}: {answer:?}");
        assert!(is_told_to_go(&mut idle) && is_told_to_go(&mut in_block), "{change}");
        assert!(is_told_to_go(&mut running), "{change}");
        eventually(|| (!is_running(&scene)).then_some(()));
    }
    // A user that is made again at once is another one.
    scene.rules(RULES);
    let mut before = scene.user();
    assert_eq!(scene.admin.ask("ACL DELUSER u"), ":1");
    scene.rules(RULES);
    assert!(is_told_to_go(&mut before));
    // With fewer rights it stays.
    let mut stays = scene.user();
    scene.rules("-sql");
    assert_eq!(stays.ask("SELECT 1").code(), "42501");
    assert_eq!(stays.ask_extended("SHOW TABLES", &[]).code(), "42501");
    scene.assert_noted(["command", "sql"], "SHOW TABLES");
    scene.rules("+sql");
    assert_eq!(stays.ask("SELECT 1").text(), "1");
}

/// Its scan is over, and its answer is far away.
#[test]
fn a_statement_that_runs_ends_when_its_user_must_not_read_its_table_any_more() {
    let mut scene = Scene::new();
    let endless = "SELECT count(*) FROM own CROSS JOIN generate_series(1, 1000000000000) a";
    for (rules, noted) in
        [("resetkeys ~own:1*", ["key", "own:*"]), ("-sql", ["command", "sql"]), ("db=3", ["database", "0"])]
    {
        scene.rules(RULES);
        let mut runs = scene.user();
        runs.send(&message(b'Q', &[endless.as_bytes(), b"\0"].concat()));
        let mut admin = Postgres::connect(scene.port);
        let has_read = |row: &Vec<Option<String>>| {
            let is_it = row[7].as_ref().is_some_and(|query| query.contains("FROM own CROSS JOIN"));
            is_it && row[5].as_deref() == Some("3")
        };
        eventually(|| admin.ask("SHOW QUERIES").rows.iter().any(has_read).then_some(()));
        scene.rules("allchannels");
        assert!(is_running(&scene), "rules about other things change nothing");
        scene.rules(rules);
        eventually(|| (!is_running(&scene)).then_some(()));
        assert_refused(&runs.answer(), rules);
        scene.assert_noted(noted, rules);
    }
}

#[test]
fn statements_of_others_are_neither_shown_nor_stopped() {
    let mut scene = Scene::new();
    scene.rules("reset on >pw +@all -client -monitor ~*");
    let mut running = Postgres::connect(scene.port);
    running.send(&message(b'Q', format!("{ENDLESS} WHERE 'x' <> '{SECRET}'\0").as_bytes()));
    eventually(|| is_running(&scene).then_some(()));
    let pid = i32::from_be_bytes(running.key[..4].try_into().unwrap());
    let shown = ["SHOW QUERIES", "SELECT usename, query FROM pg_stat_activity"];
    for statement in shown {
        let answer = format!(
            "{:?} {}",
            scene.user().ask(statement),
            scene.redis_user().whole(&format!("SQL \"{statement}\""))
        );
        assert!(answer.contains("<insufficient privilege>") && !answer.contains(SECRET), "{answer}");
        assert!(scene.running.connect().whole(&format!("SQL \"{statement}\"")).contains(SECRET));
    }
    let cancel = format!("SELECT pg_cancel_backend({pid})");
    scene.tries(&cancel, ["command", "client|kill"]);
    assert!(is_running(&scene));
    // Its own, by another connection.
    let own = busy(&scene);
    let own_pid = i32::from_be_bytes(own.key[..4].try_into().unwrap());
    eventually(|| scene.user().ask("SHOW QUERIES").text().contains("CROSS JOIN").then_some(()));
    assert_eq!(scene.user().ask(&format!("SELECT pg_cancel_backend({own_pid})")).text(), "t");
    scene.rules("+monitor");
    assert!(scene.user().ask("SHOW QUERIES").text().contains(SECRET));
    scene.rules("resetkeys ~own:*");
    assert!(!scene.user().ask("SHOW QUERIES").text().contains(SECRET));
    scene.rules("+client|kill");
    assert_eq!(scene.user().ask(&cancel).text(), "t");
    assert_eq!(running.answer().code(), "57014");
    // Tables that are out of reach have no indexes for it.
    assert_eq!(scene.user().ask("SELECT 1").text(), "1");
    let indexes = scene.user().ask("SHOW INDEXES").text();
    assert!(indexes.contains("own_n_idx") && !indexes.contains("other_n_idx"), "{indexes}");
}

/// Asks by psql; its output, answers and errors.
fn psql(port: u16, user: &str, password: &str, statement: &str) -> String {
    let place = format!("host=127.0.0.1 port={port} user={user} dbname=tarn");
    let mut command = Command::new("psql");
    command.env("PGPASSWORD", password).env("PGCONNECT_TIMEOUT", "10");
    let output = command.args(["-X", "-A", "-t", "-d", &place, "-c", statement]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn users_log_in_by_any_of_their_passwords() {
    let mut scene = Scene::new();
    // The SHA-256 of "secret" is all that the server knows of it.
    let hash = "#2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    scene.rules(&format!(">other {hash}"));
    for password in ["pw", "other", "secret"] {
        assert_eq!(psql(scene.port, "u", password, "SELECT sum(n) FROM own"), "60\n");
    }
    assert_eq!(psql(scene.port, "u", "pw", "SELECT current_user, session_user"), "u|u\n");
    let said = psql(scene.port, "u", "pw", "SELECT * FROM other");
    assert!(said.starts_with("ERROR:  permission denied for table other"), "{said}");
    for (user, password) in [("u", "wrong"), ("u", ""), ("off", "pw"), ("off", "")] {
        assert_eq!(scene.admin.ask("ACL SETUSER off reset off >pw ~* +@all"), "+OK");
        assert_eq!(scene.admin.ask("ACL LOG RESET"), "+OK");
        let (code, words) = Postgres::log_in(scene.port, user, password).unwrap_err();
        assert_eq!(code, "28P01", "{user} {password}: {words}");
        let log = scene.admin.whole("ACL LOG 1");
        assert!(log.contains("$reason $auth ") && log.contains(&format!("$username ${user} ")), "{log}");
    }
    // Nobody is called so: it is the user default, as long as that needs no password.
    assert_eq!(psql(scene.port, "nobody", "x", "SELECT session_user, count(*) FROM other"), "default|3\n");
    assert_eq!(scene.admin.ask("ACL SETUSER open on nopass +sql ~own:*"), "+OK");
    assert_eq!(psql(scene.port, "open", "", "SELECT count(*) FROM own"), "3\n");
    assert!(
        psql(scene.port, "open", "", "SELECT count(*) FROM other").starts_with("ERROR:  permission denied")
    );
    assert_eq!(scene.admin.ask("CONFIG SET requirepass main"), "+OK");
    for (user, password) in [("nobody", "main"), ("default", "wrong"), ("u", "main")] {
        let said = psql(scene.port, user, password, "SELECT 1");
        assert!(said.contains("FATAL:  Password authentication failed for user"), "{user}: {said}");
    }
    assert_eq!(psql(scene.port, "default", "main", "SELECT count(*) FROM other"), "3\n");
    // Without its password in the configuration `default` is as any other.
    assert_eq!(scene.admin.ask(&format!("ACL SETUSER default resetpass {hash}")), "+OK");
    assert_eq!(psql(scene.port, "default", "secret", "SELECT count(*) FROM other"), "3\n");
    scene.rules("-sql");
    let said = psql(scene.port, "u", "pw", "SELECT 1");
    assert!(said.contains("FATAL:  this user has no permissions to run the 'sql' command"), "{said}");
}

/// They are the same users, wherever the rules are kept.
#[test]
fn users_of_a_file_log_in_after_a_start_as_before() {
    let (mut scene, folder) = (Scene::new(), Folder::new());
    let file = folder.path("users.acl");
    std::fs::write(&file, "user default on nopass ~* &* +@all\nuser u on >pw ~own:* +sql\n").unwrap();
    let mut args = scene.running.args.clone();
    args.extend(["--aclfile".to_owned(), file.display().to_string()]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    for _ in 0..2 {
        scene.running.restart_with(&args);
        let mut admin = scene.running.connect();
        assert_eq!(admin.ask("ACL SAVE"), "+OK");
        assert!(!std::fs::read_to_string(&file).unwrap().contains(">pw"));
        assert_eq!(scene.user().ask("SELECT sum(n) FROM own").text(), "60");
        assert_refused(&scene.user().ask("SELECT sum(n) FROM other"), "other");
    }
}

#[test]
fn refusals_are_counted() {
    let mut scene = Scene::new();
    assert_eq!(scene.admin.ask("CONFIG RESETSTAT"), "+OK");
    let mut user = scene.user();
    for statement in ["SELECT v FROM other", "SELECT v FROM other", "DROP TABLE own"] {
        assert_refused(&user.ask(statement), statement);
    }
    assert!(Postgres::log_in(scene.port, "u", "wrong").is_err());
    let info = scene.admin.ask("INFO stats");
    for (field, count) in [("key", 2), ("cmd", 1), ("auth", 1), ("channel", 0)] {
        assert!(info.contains(&format!("acl_access_denied_{field}:{count}\r\n")), "{field}: {info}");
    }
}

/// Statements whose values come apart from them are looked at in the same way.
#[test]
fn parameters_do_not_bring_tables_within_reach() {
    let mut scene = Scene::new();
    let mut user = scene.user();
    let sql = "SELECT v FROM other WHERE id = $1 OR n > $2";
    user.send(&extended(sql, &[25, 20], &[], &[Some(b"1".to_vec()), Some(b"0".to_vec())], &[]));
    assert_refused(&user.answer(), sql);
    scene.assert_noted(["key", "other:*"], sql);
    let sql = "SELECT key FROM keyspace.keys WHERE key = $1";
    for (key, rows) in [("own:1", 1), ("other:1", 0)] {
        assert_eq!(user.ask_extended(sql, &[key]).rows.len(), rows, "{key}");
    }
}
