//! The treatment of strangers, and of clients that are silent, many, or wrong: the same at all ports.

#![allow(clippy::unwrap_used)]

mod running;

use std::io::{BufReader, Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::process::Command;

use running::postgres::{Postgres, message, start};
use running::{Client, Connection, Folder, LIMIT, Running, eventually, free_port, number};

/// An address of this machine that is not a loopback: a client that connects to it looks like a stranger.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Sends nothing: it only finds out by which address one would.
    let found = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    let found = found.ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback());
    if found.is_none() {
        // The reader must not believe that this was tested.
        let _ = writeln!(std::io::stderr(), "SKIPPED: this machine has no address but the loopback's");
    }
    found
}

/// The ports of a server.
#[derive(Clone, Copy)]
struct Ports {
    redis: u16,
    metrics: u16,
    sql: u16,
}

/// A server that listens on all addresses with all its ports.
fn open_to_all(args: &[&str]) -> (Running, Ports) {
    let (metrics, sql) = (free_port(), free_port());
    let ports = [metrics, sql].map(|port| port.to_string());
    let bound = ["--bind", "0.0.0.0", "--metrics-port", &ports[0], "--sql-port", &ports[1]];
    let running = Running::start(&[&bound, args].concat());
    let redis = running.port;
    (running, Ports { redis, metrics, sql })
}

/// All bytes that a port sends after these bytes until it hangs up.
fn said(ip: IpAddr, port: u16, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect((ip, port)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    String::from_utf8_lossy(&said).into_owned()
}

fn begin() -> Vec<u8> {
    start(&["user", "default", "database", "tarn"])
}

const SCRAPE: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn without_a_password_strangers_are_turned_away_at_every_port() {
    let Some(ip) = outer_address() else { return };
    let (running, ports) = open_to_all(&[]);
    let redis = said(ip, ports.redis, b"");
    assert!(redis.starts_with("-DENIED Tarn runs in protected mode"), "{redis}");
    let metrics = said(ip, ports.metrics, SCRAPE);
    assert!(metrics.starts_with("HTTP/1.1 403 "), "{metrics}");
    let sql = said(ip, ports.sql, &begin());
    assert!(sql.starts_with('E') && sql.contains("SFATAL\0") && sql.contains("C28000\0"), "{sql:?}");
    assert!(sql.contains("MTarn runs in protected mode"), "{sql:?}");
    // A client that asks for encryption gets the same error.
    let wish = [&8_u32.to_be_bytes()[..], &80_877_103_u32.to_be_bytes(), &begin()].concat();
    let sql = said(ip, ports.sql, &wish);
    assert!(sql.starts_with("NE") && sql.contains("MTarn runs in protected mode"), "{sql:?}");

    // Those on the machine are served, and strangers when the mode is off.
    assert_eq!(Postgres::connect(ports.sql).ask("SELECT 1").text(), "1");
    assert_eq!(running.connect().ask("CONFIG SET protected-mode no"), "+OK");
    assert_eq!(Client::tcp(&ip.to_string(), ports.redis).ask("PING"), "+PONG");
    assert!(said(ip, ports.metrics, SCRAPE).starts_with("HTTP/1.1 200 "));
    assert_eq!(Postgres::connect_to(ip, ports.sql).ask("SELECT 1").text(), "1");
}

/// True if no server listens there.
#[test]
fn a_web_page_cannot_send_commands_through_a_browser() {
    let running = Running::start(&[]);
    let mut client = running.connect();
    assert_eq!(client.ask("SET key value"), "+OK");
    for head in ["POST / HTTP/1.1\r\n", "post / http/1.0\r\n", "Host: localhost\r\n", "PING\r\nHOST: x\r\n"] {
        let request = format!("{head}\r\nFLUSHALL\r\nSET key other\r\n");
        let answer = said(IpAddr::from([127, 0, 0, 1]), running.port, request.as_bytes());
        assert_eq!(answer, if head.starts_with("PING") { "+PONG\r\n" } else { "" }, "{head:?}");
        assert_eq!(client.ask("GET key"), "value", "{head:?}");
    }
}

fn is_closed(ip: &str, port: u16) -> bool {
    TcpStream::connect((ip, port)).is_err()
}

#[test]
fn each_port_has_addresses_of_its_own_and_moves_at_run_time() {
    let (metrics, sql) = (free_port(), free_port());
    let ports = [metrics, sql].map(|port| port.to_string());
    let running = Running::start(&[
        "--metrics-port",
        &ports[0],
        "--metrics-bind",
        "127.0.0.2",
        "--sql-port",
        "0",
        "--sql-bind",
        "127.0.0.3",
    ]);
    let mut client = running.connect();
    let loopback = |text: &str| text.parse::<IpAddr>().unwrap();
    assert!(said(loopback("127.0.0.2"), metrics, SCRAPE).starts_with("HTTP/1.1 200 "));
    assert!(is_closed("127.0.0.1", metrics) && is_closed("127.0.0.3", sql));

    // Opens, moves to another address, and closes.
    assert_eq!(client.ask(&format!("CONFIG SET sql-port {sql}")), "+OK");
    let ask = |ip| Postgres::connect_to(loopback(ip), sql).ask("SELECT 1").text();
    assert_eq!(ask("127.0.0.3"), "1");
    assert_eq!(client.ask("CONFIG SET sql-bind 127.0.0.4"), "+OK");
    assert_eq!(ask("127.0.0.4"), "1");
    assert!(is_closed("127.0.0.3", sql));
    // Without addresses of its own it follows those of all.
    assert_eq!(client.ask("CONFIG SET sql-bind \"\" metrics-bind \"\""), "+OK");
    assert_eq!(ask("127.0.0.1"), "1");
    assert_eq!(client.ask("CONFIG SET bind \"127.0.0.1 127.0.0.5\""), "+OK");
    assert_eq!(ask("127.0.0.5"), "1");
    assert!(said(loopback("127.0.0.5"), metrics, SCRAPE).starts_with("HTTP/1.1 200 "));
    // Two ports change places.
    let swap = format!("CONFIG SET sql-port {metrics} metrics-port {sql}");
    assert_eq!(client.ask(&swap), "+OK");
    assert_eq!(Postgres::connect(metrics).ask("SELECT 1").text(), "1");
    assert!(said(loopback("127.0.0.1"), sql, SCRAPE).starts_with("HTTP/1.1 200 "));
    assert_eq!(client.ask("CONFIG SET sql-port 0 metrics-port 0"), "+OK");
    assert!(is_closed("127.0.0.1", sql) && is_closed("127.0.0.1", metrics));
    assert_eq!(client.ask("PING"), "+PONG");
}

#[test]
fn a_move_that_fails_at_one_port_moves_none() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_port = taken.local_addr().unwrap().port();
    let (metrics, sql) = (free_port(), free_port());
    let ports = [metrics, sql].map(|port| port.to_string());
    let running = Running::start(&["--metrics-port", &ports[0], "--sql-port", &ports[1]]);
    let mut client = running.connect();
    let other = free_port();
    for names in [["sql-port", "metrics-port"], ["metrics-port", "port"], ["port", "sql-port"]] {
        let [good, bad] = names;
        let refusal = client.ask(&format!("CONFIG SET {good} {other} {bad} {taken_port}"));
        let expected = format!(
            "-ERR CONFIG SET failed (possibly related to argument '{bad}') - \
             Unable to listen on this port. Check server logs."
        );
        assert_eq!(refusal, expected);
        assert!(is_closed("127.0.0.1", other), "{names:?}");
        assert_eq!(Postgres::connect(sql).ask("SELECT 1").text(), "1");
        assert!(said("127.0.0.1".parse().unwrap(), metrics, SCRAPE).starts_with("HTTP/1.1 200 "));
        assert_eq!(running.connect().ask("PING"), "+PONG");
    }
    assert!(client.whole("CONFIG GET *-port").contains(&format!("$sql-port ${sql}")));
}

/// The server's ends of connections to a port that are probed when they are idle.
fn kept_alive(port: u16) -> usize {
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let fields = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let here = format!(":{port:04X}");
    // State 01 is an open connection, timer 02 that of probes.
    fields
        .filter(|field| field[1].ends_with(&here) && field[3] == "01" && field[5].starts_with("02:"))
        .count()
}

#[test]
fn idle_connections_are_probed_at_every_port() {
    let sql = free_port();
    let running = Running::start(&["--sql-port", &sql.to_string(), "--tcp-keepalive", "77"]);
    let (mut client, _postgres) = (running.connect(), Postgres::connect(sql));
    assert_eq!(client.ask("PING"), "+PONG");
    eventually(|| (kept_alive(running.port) > 0 && kept_alive(sql) > 0).then_some(()));
}

#[test]
fn clients_of_sql_that_do_nothing_for_long_are_told_and_closed() {
    let sql = free_port();
    let running = Running::start(&["--sql-port", &sql.to_string()]);
    let (mut idle, mut in_block) = (Postgres::connect(sql), Postgres::connect(sql));
    assert_eq!(in_block.ask("BEGIN").status, b'T');
    // It reaches clients that are idle already.
    assert_eq!(running.connect().ask("CONFIG SET timeout 1"), "+OK");
    let answer = idle.answer();
    assert_eq!((answer.code(), answer.status), ("57P05", 0), "{answer:?}");
    // In a block there is another limit.
    assert_eq!(in_block.ask("SET idle_in_transaction_session_timeout = 100").code(), "");
    let answer = in_block.answer();
    assert_eq!((answer.code(), answer.status), ("25P03", 0), "{answer:?}");
}

#[test]
fn who_does_not_say_the_password_in_time_is_closed() {
    let sql = free_port();
    let args = ["--sql-port", &sql.to_string(), "--requirepass", "secret", "--auth-timeout", "1"];
    let (folder, port) = (Folder::new(), free_port());
    let _server = folder.serve(&[&["--port", &port.to_string()][..], &args].concat());
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.ask("AUTH secret"), "+OK");
    let ip = "127.0.0.1".parse().unwrap();
    // Silent, one that says something else again and again, and half a start of SQL.
    assert_eq!(said(ip, port, b""), "");
    let noauth = said(ip, port, b"PING\r\nPING\r\n");
    assert_eq!(noauth, "-NOAUTH Authentication required.\r\n".repeat(2));
    let sasl = said(ip, sql, &begin());
    assert!(sasl.starts_with('R') && sasl.contains("SCRAM-SHA-256"), "{sasl:?}");
    assert_eq!(said(ip, sql, &begin()[..9]), "");
    // A client that has authenticated stays so, until RESET.
    assert_eq!(client.ask("PING"), "+PONG");
    assert_eq!(client.ask("RESET"), "+RESET");
    assert_eq!(client.try_reply(), None);
}

/// Begins to log in at the port for SQL: the connection and what it is challenged with, or the error that it
/// is refused with.
fn begin_at_sql(port: u16) -> Result<(Postgres, String), String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut postgres = Postgres { stream, key: Vec::new() };
    postgres.send(&begin());
    let initial = b"n,,n=,r=abc";
    let first = [b"SCRAM-SHA-256\0", &(initial.len() as u32).to_be_bytes()[..], initial].concat();
    let (kind, body) = postgres.receive().unwrap();
    if kind == b'E' {
        return Err(String::from_utf8_lossy(&body).into_owned());
    }
    postgres.send(&message(b'p', &first));
    let challenge = postgres.receive().unwrap().1;
    Ok((postgres, String::from_utf8(challenge[4..].to_vec()).unwrap()))
}

/// Tries a wrong password at the port for SQL, with more behind it; the error's code and words.
fn wrong_at_sql(port: u16, behind: &[u8]) -> (String, String) {
    let (mut postgres, challenge) = match begin_at_sql(port) {
        Ok(begun) => begun,
        Err(refusal) => return (refusal, String::new()),
    };
    let nonce = challenge.split(',').next().unwrap();
    let last = message(b'p', format!("c=biws,{nonce},p={}=", "A".repeat(43)).as_bytes());
    postgres.send(&[&last, behind].concat());
    postgres.answer().error.unwrap()
}

#[test]
fn a_statement_behind_a_wrong_password_does_not_run() {
    let sql = free_port();
    let running = Running::start(&["--sql-port", &sql.to_string()]);
    let mut client = running.connect();
    assert_eq!(client.ask("CONFIG SET requirepass secret"), "+OK");
    let declare = "CREATE EXTERNAL TABLE sneaked (id TEXT) STORED AS HASH LOCATION 's:*'\0";
    let (code, _) = wrong_at_sql(sql, &message(b'Q', declare.as_bytes()));
    assert_eq!(code, "28P01");
    // One thread serves the port, so it has handled earlier bytes when it answers this.
    for _ in 0..20 {
        wrong_at_sql(sql, b"");
        let tables = client.whole("SQL \"SHOW TABLES\"");
        assert!(!tables.contains("sneaked"), "{tables}");
    }
}

/// A field of `INFO stats`.
fn stat(client: &mut Connection, name: &str) -> u64 {
    let info = client.ask("INFO stats");
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok()).unwrap()
}

#[test]
fn wrong_passwords_are_counted_and_told_and_many_of_them_cost_their_connections_and_lock_nobody_out() {
    let (metrics, sql) = (free_port(), free_port());
    let ports = [metrics, sql].map(|port| port.to_string());
    let (folder, port) = (Folder::new(), free_port());
    let args = ["--requirepass", "right-one", "--metrics-port", &ports[0], "--sql-port", &ports[1]];
    let bind = ["--port", &port.to_string(), "--bind", "0.0.0.0", "--threads", "1"];
    let _server = folder.serve(&[&bind[..], &args].concat());
    eventually(|| folder.messages().contains("Ready to accept connections").then_some(()));
    let mut other = Client::tcp("127.0.0.1", port);
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    for _ in 0..5 {
        assert_eq!(other.ask("AUTH wrong-one"), wrong);
        assert_eq!(wrong_at_sql(sql, b"").0, "28P01");
    }
    // Sooner or later one is too many for its connection.
    let mut replies = Vec::new();
    while let Some(reply) = other.try_ask("AUTH default wrong-one") {
        replies.push(reply);
        assert!(replies.len() < 10_000, "it is never one too many");
    }
    assert!(replies.iter().all(|reply| reply == wrong), "{replies:?}");
    for _ in 0..50 {
        let mut client = Client::tcp("127.0.0.1", port);
        assert_eq!(client.ask("HELLO 3 AUTH default wrong-one"), wrong);
        // A client with the right password comes in at once, from the same address.
        assert_eq!(Client::tcp("127.0.0.1", port).ask("AUTH right-one"), "+OK");
    }
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.ask("AUTH right-one"), "+OK");
    assert_eq!(stat(&mut client, "wrong_passwords"), 60 + replies.len() as u64);
    assert!(stat(&mut client, "refused_passwords") >= 1);
    let messages = folder.messages();
    assert!(messages.contains("A wrong password came from 127.0.0.1:"), "{messages}");
    assert!(messages.matches("A wrong password came from").count() < 10, "{messages}");
    assert!(!messages.contains("wrong-one") && !messages.contains("right-one"), "{messages}");
}

/// A password that has to be sent is not asked for where the network could read it.
#[test]
fn sql_asks_strangers_to_send_no_password_without_encryption() {
    let Some(ip) = outer_address() else { return };
    let (running, ports) = open_to_all(&[]);
    let mut client = running.connect();
    assert_eq!(client.ask("CONFIG SET requirepass s3cret"), "+OK");
    assert_eq!(client.ask("ACL SETUSER alice on >pw ~own:* +sql"), "+OK");
    assert_eq!(client.ask("ACL LOG RESET"), "+OK");
    for user in ["alice", "nobody"] {
        let refused = said(ip, ports.sql, &start(&["user", user, "database", "tarn"]));
        assert!(refused.contains("SFATAL\0") && refused.contains("C28000\0"), "{refused:?}");
        assert!(refused.contains("connect with sslmode=require"), "{refused:?}");
        let log = client.whole("ACL LOG 1");
        assert!(log.contains(&format!("$object $SQL $username ${user} ")), "{log}");
    }
    // The password of requirepass need not be sent.
    let mut postgres = Postgres { stream: TcpStream::connect((ip, ports.sql)).unwrap(), key: Vec::new() };
    postgres.stream.set_read_timeout(Some(LIMIT)).unwrap();
    postgres.send(&begin());
    let (kind, body) = postgres.receive().unwrap();
    assert!(kind == b'R' && body.starts_with(&10_u32.to_be_bytes()), "{body:?}");
    // On the machine itself nobody else reads it.
    assert!(Postgres::log_in(ports.sql, "alice", "pw").is_ok());
    // A hash in the place of the password leaves nothing to show it by.
    assert_eq!(client.ask("ACL SETUSER default resetpass >other"), "+OK");
    let refused = said(ip, ports.sql, &begin());
    assert!(refused.contains("connect with sslmode=require"), "{refused:?}");
}

/// The verifier of a password takes thousands of rounds of hashing, while other clients wait. It is made
/// once, and lasts until the password changes.
#[test]
fn who_tries_passwords_does_not_have_them_salted_each_time() {
    let sql = free_port();
    let running = Running::start(&["--sql-port", &sql.to_string()]);
    let mut client = running.connect();
    let salt = || {
        let challenge = begin_at_sql(sql).unwrap().1;
        challenge.split(',').find(|part| part.starts_with("s=")).unwrap().to_owned()
    };
    let mut salts = Vec::new();
    for password in ["one", "two"] {
        assert_eq!(client.ask(&format!("CONFIG SET requirepass {password}")), "+OK");
        let known = salt();
        (0..5).for_each(|_| assert_eq!(salt(), known));
        salts.push(known);
    }
    assert_ne!(salts[0], salts[1]);
}

#[test]
fn metrics_ask_strangers_for_the_password() {
    let Some(ip) = outer_address() else { return };
    let (running, ports) = open_to_all(&[]);
    let mut client = running.connect();
    assert_eq!(client.ask("CONFIG SET requirepass open"), "+OK");
    let ask = |ip: IpAddr, header: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{header}\r\n");
        said(ip, ports.metrics, request.as_bytes())
    };
    let here = "127.0.0.1".parse().unwrap();
    let (right, wrong) =
        ("Authorization: Basic ZGVmYXVsdDpvcGVu\r\n", "Authorization: Basic ZGVmYXVsdDp4\r\n");
    let refused = ask(ip, "");
    assert!(refused.starts_with("HTTP/1.1 401 ") && refused.contains("www-authenticate: Basic"), "{refused}");
    for header in [wrong, "Authorization: Basic ???\r\n", "Authorization: Basi\r\n", "Authorization: \r\n"] {
        assert!(ask(ip, header).starts_with("HTTP/1.1 401 "), "{header}");
    }
    assert!(ask(ip, right).starts_with("HTTP/1.1 200 "));
    assert!(ask(here, "").starts_with("HTTP/1.1 200 "));
    assert_eq!(client.ask("CONFIG SET metrics-auth all"), "+OK");
    assert!(ask(here, "").starts_with("HTTP/1.1 401 ") && ask(here, right).starts_with("HTTP/1.1 200 "));
    // A user that may run INFO, and one that may not.
    assert_eq!(client.ask("ACL SETUSER scraper on >s +info"), "+OK");
    assert_eq!(client.ask("ACL SETUSER other on >s +get"), "+OK");
    assert!(ask(here, "Authorization: Basic c2NyYXBlcjpz\r\n").starts_with("HTTP/1.1 200 "));
    let wrong_before = stat(&mut client, "wrong_passwords");
    assert!(ask(here, "Authorization: Basic b3RoZXI6cw==\r\n").starts_with("HTTP/1.1 401 "));
    // Its password is right, and what it was refused is in the log.
    assert_eq!(stat(&mut client, "wrong_passwords"), wrong_before);
    let log = client.whole("ACL LOG 1");
    assert!(log.contains("$object $metrics $username $other "), "{log}");
    // Who needs no password may not run INFO by that alone.
    assert_eq!(client.ask("ACL SETUSER default nopass -info"), "+OK");
    assert!(ask(here, "").starts_with("HTTP/1.1 401 ") && ask(here, wrong).starts_with("HTTP/1.1 401 "));
    assert_eq!(client.ask("ACL SETUSER default +info"), "+OK");
    assert!(ask(here, "").starts_with("HTTP/1.1 200 "));
    assert_eq!(client.ask("ACL SETUSER default resetpass >open"), "+OK");
    assert_eq!(client.ask("CONFIG SET metrics-auth no"), "+OK");
    assert!(ask(ip, "").starts_with("HTTP/1.1 200 "));
}

#[test]
fn as_many_clients_as_may_be_at_every_port_leave_the_log_its_files() {
    let (folder, port, sql) = (Folder::new(), free_port(), free_port());
    let (redis_max, sql_max) = (200, 50);
    let log = folder.path("messages");
    let messages = std::fs::File::create(&log).unwrap();
    let serve = folder.command(&[]);
    // So few files that the server has to ask for more.
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -Sn 150; exec \"$0\" \"$@\""])
        .arg(serve.get_program())
        .args(serve.get_args());
    command.args(["--port", &port.to_string(), "--sql-port", &sql.to_string()]);
    command.args(["--maxclients", &redis_max.to_string(), "--sql-max-clients", &sql_max.to_string()]);
    command.args(["--log-file-size", "16kb", "--appendfsync", "always", "--threads", "1"]);
    let server = running::Server::new(command.stderr(messages).spawn().unwrap());
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.ask("PING"), "+PONG");
    // Strangers that send nothing, at both ports, and clients of SQL.
    let silent: Vec<TcpStream> =
        (0..300).filter_map(|_| TcpStream::connect(("127.0.0.1", sql)).ok()).collect();
    let full: Vec<Postgres> = (0..sql_max).map(|_| Postgres::connect(sql)).collect();
    let redis: Vec<TcpStream> =
        (0..redis_max + 50).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let mut one_more = TcpStream::connect(("127.0.0.1", sql)).unwrap();
    one_more.set_read_timeout(Some(LIMIT)).unwrap();
    one_more.write_all(&begin()).unwrap();
    let mut refused = String::new();
    BufReader::new(one_more).read_to_string(&mut refused).unwrap();
    assert!(refused.contains("C53300\0"), "{refused:?}");
    // The log continues from file to file.
    let value = "x".repeat(4000);
    for number in 0..200 {
        assert_eq!(client.ask(&format!("SET key:{number} {value}")), "+OK");
    }
    assert_eq!(number(&mut client, "log_failures"), 0);
    let messages = folder.messages();
    assert!(!messages.contains("cannot accept") && !messages.contains("os error 24"), "{messages}");
    drop((silent, full, redis, server));
}

#[test]
fn silent_connections_do_not_keep_clients_of_sql_out() {
    let sql = free_port();
    let running = Running::start(&["--sql-port", &sql.to_string(), "--sql-max-clients", "3"]);
    let mut kept = Postgres::connect(sql);
    let mut silent: Vec<TcpStream> = Vec::new();
    for round in 0..10 {
        for _ in 0..50 {
            let mut stream = TcpStream::connect(("127.0.0.1", sql)).unwrap();
            let part = round * 7 % 9;
            let _ = stream.write_all(&begin()[..part]);
            silent.push(stream);
        }
        assert_eq!(Postgres::connect(sql).ask("SELECT 1").text(), "1");
    }
    assert_eq!(kept.ask("SELECT 1").text(), "1");
    assert_eq!(running.connect().ask("PING"), "+PONG");
}

#[test]
fn statements_and_searches_need_no_port_of_their_own() {
    let running = Running::start(&["--sql-port", "0"]);
    let mut client = running.connect();
    assert_eq!(client.ask("HSET person:1 name Ada age 36"), ":2");
    assert_eq!(client.whole("SQL \"SELECT count(*) FROM keyspace.keys\""), "*[*[$count(*)] *[:1]]");
    assert_eq!(client.ask("FT.CREATE people ON HASH PREFIX 1 person: SCHEMA age NUMERIC"), "+OK");
    assert_eq!(client.whole("FT.SEARCH people \"@age:[30 40]\" NOCONTENT"), "*[:1 $person:1]");
}
