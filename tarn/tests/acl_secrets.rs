//! Refused requests leave no trace of passwords, values and keys but in `ACL LOG`, which has the key, as in
//! Redis: neither in messages, errors, `INFO`, `MONITOR`, the slow log and metrics, nor in what other users
//! see.

#![allow(clippy::unwrap_used)]

mod running;

use running::postgres::{Postgres, message, start};
use running::{Client, Connection, Folder, free_port, scrape};

/// Parts of all that is secret here.
const SECRETS: [&str; 4] = ["pass-s3cret", "value-s3cret", "key-s3cret", "2bb80d537b1da3e3"];
/// Those that `ACL LOG` does not show either.
const NEVER: [&str; 3] = [SECRETS[0], SECRETS[1], SECRETS[3]];

fn assert_hides(secrets: &[&str], about: &str, text: &str) {
    for secret in secrets {
        assert!(!text.contains(secret), "{about} has {secret}: {text}");
    }
}

/// Requests that are refused, for a user who may use own keys and may not write.
const REFUSED: [&str; 11] = [
    "SET key-s3cret value-s3cret",
    "GET key-s3cret",
    "MGET own:1 key-s3cret",
    "HSET key-s3cret field value-s3cret",
    "EVAL \"return redis.call('set', KEYS[1], ARGV[1])\" 1 key-s3cret value-s3cret",
    "SUBSCRIBE key-s3cret",
    "PUBLISH key-s3cret value-s3cret",
    "CONFIG SET requirepass pass-s3cret",
    "ACL SETUSER other on >pass-s3cret ~key-s3cret",
    "MIGRATE 127.0.0.1 1 key-s3cret 0 1 AUTH pass-s3cret",
    "FT.SEARCH key-s3cret value-s3cret",
];

/// Requests that run, and are refused what they ask for then: the slow log and `MONITOR` show them as sent.
const REFUSED_WITHIN: [&str; 3] = [
    "EVAL \"return redis.call('get', 'key-s3cret')\" 0",
    "SQL \"SELECT 'value-s3cret' FROM hidden WHERE id = 'key-s3cret'\"",
    "SQL \"SELECT * FROM infer('key-s3cret*')\"",
];

/// Replies that show requests.
const OF_REQUESTS: [&str; 2] = ["SLOWLOG GET 1000", "COMMANDLOG GET 1000 slow"];

/// Logins that fail.
const WRONG: [&str; 4] = [
    "AUTH pass-s3cret",
    "AUTH u pass-s3cret",
    "HELLO 3 AUTH u pass-s3cret",
    "HELLO 3 AUTH nobody pass-s3cret SETNAME x",
];

/// A server whose messages are all written, with its ports.
struct Scene {
    folder: Folder,
    port: u16,
    sql: u16,
    metrics: u16,
    _server: running::Server,
    admin: Connection,
}

impl Scene {
    fn new() -> Scene {
        let (folder, port, sql, metrics) = (Folder::new(), free_port(), free_port(), free_port());
        let ports = [port, sql, metrics].map(|port| port.to_string());
        let server = folder.serve(&[
            "--port",
            &ports[0],
            "--sql-port",
            &ports[1],
            "--metrics-port",
            &ports[2],
            "--metrics-auth",
            "all",
            "--loglevel",
            "debug",
            "--slowlog-log-slower-than",
            "0",
            "--latency-tracking",
            "yes",
        ]);
        let mut admin = Client::tcp("127.0.0.1", port);
        for request in [
            "SQL \"CREATE EXTERNAL TABLE hidden (id TEXT, v TEXT) STORED AS HASH LOCATION 'hidden:*'\"",
            // The hash is that of "secret".
            "ACL SETUSER u on #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b ~own:* \
             &own:* +@read +@connection +@transaction +@scripting",
            "ACL SETUSER watch on nopass ~* +@all",
        ] {
            assert_eq!(admin.ask(request), "+OK", "{request}");
        }
        Scene { folder, port, sql, metrics, _server: server, admin }
    }

    fn connect(&self) -> Connection {
        Client::tcp("127.0.0.1", self.port)
    }

    fn user(&self) -> Connection {
        let mut user = self.connect();
        assert_eq!(user.ask("AUTH u secret"), "+OK");
        user
    }

    /// All that `default` can ask a server for about what was done.
    fn told(&mut self) -> Vec<(String, String)> {
        let mut told: Vec<(String, String)> = [
            "INFO everything",
            OF_REQUESTS[0],
            OF_REQUESTS[1],
            "LATENCY DOCTOR",
            "CLIENT LIST",
            "CONFIG GET *",
            "PUBSUB CHANNELS",
            "SQL \"SHOW QUERIES\"",
        ]
        .iter()
        .map(|request| ((*request).to_owned(), self.admin.whole(request)))
        .collect();
        let metrics = scrape::ask(self.metrics, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").1;
        told.push(("the metrics".to_owned(), metrics));
        told.push(("the messages".to_owned(), self.folder.messages()));
        told
    }
}

#[test]
fn what_was_refused_is_in_acl_log_and_nowhere_else() {
    let mut scene = Scene::new();
    let mut monitor = scene.connect();
    assert_eq!(monitor.ask("MONITOR"), "+OK");
    for request in REFUSED {
        // Alone, in a transaction, and in one that is refused as a whole.
        let mut user = scene.user();
        let reply = user.whole(request);
        assert!(reply.starts_with('-'), "{request}: {reply}");
        assert_hides(&SECRETS, request, &reply);
        assert_eq!(user.ask("MULTI"), "+OK");
        let queued = user.whole(request);
        assert_hides(&SECRETS, request, &(queued + &user.whole("EXEC")));
    }
    for request in WRONG {
        let reply = scene.connect().whole(request);
        assert!(reply.starts_with('-'), "{request}: {reply}");
        assert_hides(&SECRETS, request, &reply);
    }
    for (about, told) in scene.told() {
        assert_hides(&SECRETS, &about, &told);
    }
    let log = scene.admin.whole("ACL LOG 1000");
    assert!(log.contains("$object $key-s3cret ") && log.contains("$username $nobody "), "{log}");
    assert_hides(&NEVER, "ACL LOG", &log);
    assert_eq!(scene.admin.ask("ECHO the-end"), "the-end");
    loop {
        let line = monitor.reply();
        assert_hides(&SECRETS, "MONITOR", &line);
        if line.contains("the-end") {
            break;
        }
    }
}

#[test]
fn what_was_refused_within_a_request_is_told_where_requests_are_and_nowhere_else() {
    let mut scene = Scene::new();
    for request in REFUSED_WITHIN {
        let reply = scene.user().whole(request);
        assert!(reply.starts_with('-'), "{request}: {reply}");
        assert_hides(&SECRETS, request, &reply);
    }
    for (about, told) in scene.told().into_iter().filter(|(about, _)| !OF_REQUESTS.contains(&about.as_str()))
    {
        assert_hides(&SECRETS, &about, &told);
    }
    let log = scene.admin.whole("ACL LOG 1000");
    assert!(log.contains("$object $key-s3cret* ") && log.contains("$object $hidden:* "), "{log}");
    assert_hides(&NEVER, "ACL LOG", &log);
}

#[test]
fn what_was_refused_at_the_ports_of_sql_and_metrics_is_told_by_neither() {
    let mut scene = Scene::new();
    let mut user = Postgres::log_in(scene.sql, "u", "secret").unwrap();
    for statement in [
        "SELECT 'value-s3cret' FROM hidden WHERE id = 'key-s3cret'",
        "SELECT * FROM infer('key-s3cret*')",
        "CREATE EXTERNAL TABLE t (id TEXT) STORED AS HASH LOCATION 'key-s3cret*'",
        "COPY (SELECT 'value-s3cret') TO 'key-s3cret.csv'",
        "SELECT * FROM nothing WHERE id = 'key-s3cret' AND 'value-s3cret' = 'x'",
    ] {
        for answer in [user.ask(statement), user.ask_extended(statement, &[])] {
            assert!(answer.error.is_some(), "{statement}: {answer:?}");
            assert_hides(&SECRETS, statement, &format!("{answer:?}"));
        }
    }
    for name in ["u", "nobody", "default"] {
        assert_eq!(scene.admin.ask("ACL SETUSER default >secret"), "+OK");
        let (code, words) = Postgres::log_in(scene.sql, name, "pass-s3cret").err().unwrap();
        assert_eq!(code, "28P01", "{name}: {words}");
        assert_hides(&SECRETS, name, &words);
    }
    // Something that is no password where one is asked for.
    let mut odd =
        Postgres { stream: std::net::TcpStream::connect(("127.0.0.1", scene.sql)).unwrap(), key: vec![] };
    odd.send(&start(&["user", "u", "database", "tarn"]));
    odd.send(&message(b'Q', b"SELECT 'value-s3cret', 'pass-s3cret'\0"));
    assert_hides(&SECRETS, "a statement for a password", &format!("{:?}", odd.answer()));
    // "u:pass-s3cret".
    let header = "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Basic dTpwYXNzLXMzY3JldA==\r\n\r\n";
    let (head, body) = scrape::ask(scene.metrics, header);
    assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
    assert_hides(&SECRETS, "the refusal of metrics", &(head + &body));
    assert_eq!(scene.admin.ask("ACL SETUSER default nopass"), "+OK");
    for (about, told) in scene.told() {
        assert_hides(&SECRETS, &about, &told);
    }
    let log = scene.admin.whole("ACL LOG 1000");
    assert!(log.contains("$object $key-s3cret* ") && log.contains("$object $metrics "), "{log}");
    assert_hides(&NEVER, "ACL LOG", &log);
}
