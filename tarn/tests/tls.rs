//! The Redis protocol over TLS, and certificates: with clients that keep to the rules, and others.

#![allow(clippy::unwrap_used)]

#[path = "tls/proxies.rs"]
mod proxies;
mod running;
#[path = "tls/users.rs"]
mod users;

use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    date_time_ymd,
};
use running::{Client, Connection, Folder, LIMIT, Running, eventually, free_port};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CipherSuite, ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Signs certificates.
struct Authority {
    params: CertificateParams,
    key: KeyPair,
    pem: String,
}

/// A certificate and its key, as PEM.
struct Issued {
    certificate: String,
    key: String,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { params, key, pem }
    }

    fn issue(&self, name: &str, number: u64, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let key = KeyPair::generate().unwrap();
        Issued { certificate: self.sign(name, number, change, &key), key: key.serialize_pem() }
    }

    fn sign(
        &self,
        name: &str,
        number: u64,
        change: impl FnOnce(&mut CertificateParams),
        key: &KeyPair,
    ) -> String {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(number.into());
        change(&mut params);
        params.signed_by(key, &Issuer::from_params(&self.params, &self.key)).unwrap().pem()
    }

    /// A list that revokes this one.
    fn revoke(&self, number: u64) -> String {
        let revoked = RevokedCertParams {
            serial_number: number.into(),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(4000, 1, 1),
            crl_number: 1u64.into(),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&Issuer::from_params(&self.params, &self.key)).unwrap().pem().unwrap()
    }
}

/// A server with TLS, the files of its certificate, and who has signed that and those of the clients.
struct Encrypting {
    running: Running,
    files: Folder,
    authority: Authority,
    port: u16,
}

impl Encrypting {
    fn start(more: &[&str]) -> Encrypting {
        Encrypting::start_with(more, |_, _| {})
    }

    /// After `prepare` has seen the folder of the certificates.
    fn start_with(more: &[&str], prepare: impl FnOnce(&Folder, &Authority)) -> Encrypting {
        let (files, authority, port) = (Folder::new(), Authority::new("authority"), free_port());
        let issued = authority.issue("localhost", 77, |_| {});
        put(&files, &issued);
        std::fs::write(files.path("authority.pem"), &authority.pem).unwrap();
        prepare(&files, &authority);
        let path = |name: &str| files.path(name).display().to_string();
        let (port_text, [certificate, key, ca, crl]) =
            (port.to_string(), ["certificate.pem", "key.pem", "authority.pem", "revoked.pem"].map(path));
        let mut args =
            vec!["--tls-port", &port_text, "--tls-cert-file", &certificate, "--tls-key-file", &key];
        args.extend(["--tls-ca-cert-file", &ca, "--threads", "2"]);
        if files.path("revoked.pem").exists() {
            args.extend(["--tls-crl-file", &crl]);
        }
        args.extend(more);
        let running = Running::start(&args);
        Encrypting { running, files, authority, port }
    }

    fn connect(&self, config: &Arc<ClientConfig>) -> std::io::Result<Encrypted> {
        connect(TcpStream::connect(("127.0.0.1", self.port)).unwrap(), config, "localhost")
    }

    /// A client that trusts the server's authority, and shows this certificate.
    fn client(&self, identity: Option<&Issued>) -> Arc<ClientConfig> {
        trusting(&self.authority, identity)
    }

    /// Whether a client is served.
    fn serves(&self, identity: Option<&Issued>) -> bool {
        let client = self.connect(&self.client(identity));
        client.is_ok_and(|mut client| client.try_ask("PING").as_deref() == Some("+PONG"))
    }
}

/// A client over TLS.
type Encrypted = Client<StreamOwned<ClientConnection, TcpStream>>;

fn put(files: &Folder, issued: &Issued) {
    std::fs::write(files.path("key.pem"), &issued.key).unwrap();
    std::fs::write(files.path("certificate.pem"), &issued.certificate).unwrap();
}

fn trusting(authority: &Authority, identity: Option<&Issued>) -> Arc<ClientConfig> {
    let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&authority.pem)).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![certificate(&identity.certificate)], key).unwrap()
        }
    })
}

fn connect(socket: TcpStream, config: &Arc<ClientConfig>, name: &str) -> std::io::Result<Encrypted> {
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket.set_nodelay(true).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut stream = StreamOwned::new(ClientConnection::new(config.clone(), name).unwrap(), socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(Client(BufReader::new(stream)))
}

/// Bytes that the server has allocated.
fn used_memory(client: &mut Connection) -> u64 {
    let info = client.ask("INFO memory");
    let value = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    value.trim_end().parse().unwrap()
}

/// A field of `INFO tls`.
fn told(client: &mut Connection, name: &str) -> String {
    let info = client.ask("INFO tls");
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {name} in {info}")).trim_end().to_owned()
}

fn count(client: &mut Connection, name: &str) -> u64 {
    told(client, name).parse().unwrap()
}

#[test]
fn clients_with_and_without_tls_see_the_same_keys() {
    let server = Encrypting::start(&["--tls-auth-clients", "no"]);
    let mut plain = server.running.connect();
    let mut encrypted = server.connect(&server.client(None)).unwrap();
    assert_eq!(plain.ask("SET greeting hello"), "+OK");
    assert_eq!(encrypted.ask("GET greeting"), "hello");
    // Longer than any record, and than what is encrypted at once.
    let long = "0123456789abcdef".repeat(1 << 16);
    encrypted
        .0
        .get_mut()
        .write_all(format!("*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n${}\r\n{long}\r\n", long.len()).as_bytes())
        .unwrap();
    assert_eq!(encrypted.try_reply().as_deref(), Some("+OK"));
    assert!(encrypted.ask("GET long") == long && plain.ask("GET long") == long);
    // A pipeline, whose replies come in order.
    let asked: String = (0..2000).map(|number| format!("ECHO {number}\r\n")).collect();
    encrypted.0.get_mut().write_all(asked.as_bytes()).unwrap();
    for number in 0..2000 {
        assert_eq!(encrypted.reply(), format!("${number}"));
    }
    // Messages come by themselves.
    encrypted.send("SUBSCRIBE news");
    assert!(encrypted.reply().contains("subscribe"));
    assert_eq!(plain.ask("PUBLISH news today"), ":1");
    assert!(encrypted.reply().contains("today"));
    assert_eq!(count(&mut plain, "tls_handshakes"), 1);
    assert_eq!(told(&mut plain, "tls_server_cert_serial").trim_start_matches('0'), "4d");
}

#[test]
fn a_last_reply_arrives_before_the_connection_ends() {
    let server = Encrypting::start(&["--tls-auth-clients", "no"]);
    let mut client = server.connect(&server.client(None)).unwrap();
    client.send("SET long 0\r\nSETRANGE long 3000000 x\r\nGET long\r\nQUIT");
    assert_eq!(client.reply(), "+OK");
    assert_eq!(client.reply(), ":3000001");
    assert!(client.reply().ends_with("\\x00x"));
    assert_eq!(client.reply(), "+OK");
    let mut rest = Vec::new();
    // It says goodbye, and then the socket ends.
    client.0.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

#[test]
fn a_client_refuses_a_server_that_is_not_the_one() {
    let server = Encrypting::start(&["--tls-auth-clients", "no"]);
    let stranger = Authority::new("stranger");
    assert!(server.connect(&trusting(&stranger, None)).is_err(), "signed by another");
    let socket = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    assert!(connect(socket, &server.client(None), "example.org").is_err(), "of another name");
    let mut plain = server.running.connect();
    for (from, to) in [(2001, 2002), (3000, 3001)] {
        let issued = server.authority.issue("localhost", 0x10_0000 + from as u64, |params| {
            (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        });
        put(&server.files, &issued);
        let number = format!("{:x}", 0x10_0000 + from);
        eventually(|| told(&mut plain, "tls_server_cert_serial").ends_with(&number).then_some(()));
        assert!(server.connect(&server.client(None)).is_err(), "from {from} to {to}");
    }
    eventually(|| (count(&mut plain, "tls_handshakes_failed") >= 4).then_some(()));
    let messages = server.running.folder.messages();
    assert!(messages.contains("at the port of Redis over TLS failed"));
    assert!(messages.contains("The certificate of tls-cert-file has ended"));
}

#[test]
fn clients_have_to_show_a_certificate_that_is_good_now() {
    let server = Encrypting::start_with(&[], |files, authority| {
        std::fs::write(files.path("revoked.pem"), authority.revoke(666)).unwrap();
    });
    let issue = |number| server.authority.issue("alice", number, |_| {});
    let dated = |from, to| {
        server.authority.issue("alice", 5, |params| {
            (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        })
    };
    let stranger = Authority::new("stranger").issue("alice", 5, |_| {});
    // Of the same name as the authority, with another key.
    let impostor = Authority::new("authority").issue("alice", 5, |_| {});
    assert!(server.serves(Some(&issue(5))));
    assert!(!server.serves(None), "none");
    assert!(!server.serves(Some(&dated(2001, 2002))), "over");
    assert!(!server.serves(Some(&dated(3000, 3001))), "to come");
    assert!(!server.serves(Some(&stranger)), "by another");
    assert!(!server.serves(Some(&impostor)), "by an impostor");
    assert!(!server.serves(Some(&issue(666))), "revoked");
    // The list changes while the server runs.
    std::fs::write(server.files.path("revoked.pem"), server.authority.revoke(5)).unwrap();
    eventually(|| server.serves(Some(&issue(666))).then_some(()));
    assert!(!server.serves(Some(&issue(5))));
    let mut plain = server.running.connect();
    assert_eq!(plain.ask("CONFIG SET tls-auth-clients optional"), "+OK");
    assert!(server.serves(None) && server.serves(Some(&issue(666))));
    assert!(!server.serves(Some(&stranger)) && !server.serves(Some(&issue(5))));
    assert_eq!(plain.ask("CONFIG SET tls-auth-clients no"), "+OK");
    assert!(server.serves(None) && server.serves(Some(&stranger)), "it is not asked for");
}

#[test]
fn bytes_for_one_port_are_not_answered_at_the_other() {
    let server = Encrypting::start(&["--tls-auth-clients", "no"]);
    let mut socket = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket.write_all(b"PING\r\nPING\r\nPING\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|word| word == b"PONG"), "{answer:?}");
    let plain = TcpStream::connect(("127.0.0.1", server.running.port)).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(server.client(None), name).unwrap();
    // It is closed, or more of what looks like a request is awaited.
    let mut stream = StreamOwned::new(session, plain);
    assert!(stream.write_all(b"PING\r\n").and_then(|()| stream.read_exact(&mut [0; 1])).is_err());
    assert!(server.serves(None));
}

#[test]
fn ten_thousand_handshakes_that_are_only_begun_keep_nobody_out_and_end() {
    let server = Encrypting::start(&["--tls-auth-clients", "no", "--auth-timeout", "5"]);
    let mut plain = server.running.connect();
    let begin = |number: usize| {
        let mut socket = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        // The head of a record, for half of them.
        if number.is_multiple_of(2) {
            let _ = socket.write_all(b"\x16\x03\x01\x02\x00\x01\x00");
        }
        socket
    };
    let (before, limit) = (used_memory(&mut plain), allow_files(HALF_OPEN + 1000));
    let mut half_open = Vec::new();
    for index in 0..usize::try_from(HALF_OPEN.min(limit - 500)).unwrap() {
        half_open.push(begin(index));
        if index % 1000 == 999 {
            let used = used_memory(&mut plain).saturating_sub(before);
            assert!(used < 32 << 20, "{used} bytes for {index}");
        }
    }
    assert!(server.serves(None));
    eventually(|| (count(&mut plain, "tls_handshakes_under_way") <= 512).then_some(()));
    assert!(count(&mut plain, "tls_handshakes_given_up") > 0);
    eventually(|| (count(&mut plain, "tls_handshakes_under_way") == 0).then_some(()));
    eventually(|| plain.ask("INFO clients").contains("connected_clients:1\r").then_some(()));
    drop(half_open);
}

#[test]
fn silent_handshakes_take_no_place_of_a_client() {
    let server = Encrypting::start(&["--tls-auth-clients", "no", "--maxclients", "100"]);
    let mut plain = server.running.connect();
    let connect = || TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let silent: Vec<TcpStream> = (0..150).map(|_| connect()).collect();
    // Far less than the time of a handshake.
    std::thread::sleep(Duration::from_millis(500));
    assert!(count(&mut plain, "tls_handshakes_under_way") <= 25);
    let mut others: Vec<Connection> = (0..50).map(|_| server.running.connect()).collect();
    for other in &mut others {
        assert_eq!(other.ask("PING"), "+PONG");
    }
    assert!(server.serves(None));
    drop(silent);
}

/// Handshakes that are begun and not gone on with.
const HALF_OPEN: u64 = 10_000;

/// Raises the limit of open files as far as `files`, or as it goes; returns it.
fn allow_files(files: u64) -> u64 {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let reachable = maximum.unwrap_or(u64::MAX).min(files);
    setrlimit(Resource::Nofile, Rlimit { current: Some(reachable), maximum }).unwrap();
    reachable
}

#[test]
fn an_idle_connection_takes_less_than_30_kilobytes() {
    const CLIENTS: u64 = 500;
    allow_files(HALF_OPEN + 1000);
    let server = Encrypting::start(&["--tls-auth-clients", "no"]);
    let (mut plain, client) = (server.running.connect(), server.client(None));
    // A record of 16 KB, at last: room for it must not stay.
    let long = format!("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$16000\r\n{}\r\n", "x".repeat(16_000));
    let connect = || {
        let mut idle = server.connect(&client).unwrap();
        assert_eq!(idle.ask("SET key value"), "+OK");
        idle.0.get_mut().write_all(long.as_bytes()).unwrap();
        assert_eq!(idle.try_reply().as_deref(), Some("+OK"));
        idle
    };
    // What is there once for all is there.
    drop((0..10).map(|_| connect()).collect::<Vec<_>>());
    eventually(|| plain.ask("INFO clients").contains("connected_clients:1\r").then_some(()));
    let before = used_memory(&mut plain);
    let idle: Vec<_> = (0..CLIENTS).map(|_| connect()).collect();
    let each = used_memory(&mut plain).saturating_sub(before) / CLIENTS;
    assert!((1 << 10..30 << 10).contains(&each), "{each} bytes");
    drop(idle);
}

#[test]
fn a_client_that_does_not_read_is_closed_and_holds_up_nobody() {
    let server = Encrypting::start(&["--tls-auth-clients", "no"]);
    let mut plain = server.running.connect();
    assert_eq!(plain.ask("CONFIG SET client-output-buffer-limit \"pubsub 1mb 0 0\""), "+OK");
    let mut slow = server.connect(&server.client(None)).unwrap();
    slow.send("SUBSCRIBE news");
    assert!(slow.reply().contains("subscribe"));
    let mut other = server.connect(&server.client(None)).unwrap();
    // Far more than the limit and what sockets hold.
    let message = format!("*3\r\n$7\r\nPUBLISH\r\n$4\r\nnews\r\n$100000\r\n{}\r\n", "x".repeat(100_000));
    let is_gone = (0..1000).any(|_| {
        plain.0.get_mut().write_all(message.as_bytes()).unwrap();
        assert_eq!(other.ask("PING"), "+PONG");
        plain.try_reply().as_deref() == Some(":0")
    });
    assert!(is_gone, "it has its subscription still");
    assert!(server.running.folder.messages().contains("client-output-buffer-limit"));
    let mut buffer = vec![0; 1 << 16];
    let ended = loop {
        match slow.0.read(&mut buffer) {
            Ok(0) => break None,
            Ok(_) => {}
            Err(error) => break Some(error.kind()),
        }
    };
    assert!(!matches!(ended, Some(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "{ended:?}");
}

#[test]
fn what_waits_and_what_ends_does_so_over_tls() {
    let server = Encrypting::start(&["--tls-auth-clients", "no"]);
    let mut plain = server.running.connect();
    let connect = || server.connect(&server.client(None)).unwrap();
    let mut blocked = connect();
    blocked.send("BLPOP list 0");
    eventually(|| plain.ask("INFO clients").contains("blocked_clients:1\r").then_some(()));
    assert_eq!(plain.ask("RPUSH list one"), ":1");
    assert_eq!(blocked.reply(), "*[$list $one]");
    let mut monitor = connect();
    assert_eq!(monitor.ask("MONITOR"), "+OK");
    assert_eq!(plain.ask("SET watched 1"), "+OK");
    let line = monitor.reply();
    assert!(line.contains("\"watched\""), "{line}");
    // Each byte is a record.
    let mut pieces = connect();
    for byte in b"*2\r\n$4\r\nECHO\r\n$3\r\nabc\r\n" {
        pieces.0.get_mut().write_all(&[*byte]).unwrap();
    }
    assert_eq!(pieces.reply(), "$abc");
    // New keys, in the middle.
    for _ in 0..3 {
        pieces.0.get_mut().conn.refresh_traffic_keys().unwrap();
        assert_eq!(pieces.ask("PING"), "+PONG");
    }
    let id = pieces.ask("CLIENT ID");
    assert_eq!(plain.ask(&format!("CLIENT KILL ID {}", id.trim_start_matches(':'))), ":1");
    assert_eq!(pieces.try_ask("PING"), None);
    // Both sides say goodbye.
    let mut rest = Vec::new();
    let mut leaving = connect();
    leaving.0.get_mut().conn.send_close_notify();
    leaving.0.get_mut().flush().unwrap();
    leaving.0.read_to_end(&mut rest).unwrap();
    assert_eq!(plain.ask("CONFIG SET timeout 1"), "+OK");
    connect().0.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

#[test]
fn certificates_are_asked_for_in_both_versions_and_at_the_metrics_port() {
    let metrics = free_port();
    let port = metrics.to_string();
    let args = ["--metrics-port", &port, "--metrics-tls", "yes", "--metrics-tls-auth-clients", "yes"];
    let server = Encrypting::start(&args);
    let mut plain = server.running.connect();
    let good = server.authority.issue("alice", 5, |_| {});
    let of_server = server.authority.issue("alice", 6, |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    let scrape = |identity: Option<&Issued>| {
        let socket = TcpStream::connect(("127.0.0.1", metrics)).unwrap();
        let mut answer = Vec::new();
        if let Ok(mut client) = connect(socket, &server.client(identity), "localhost") {
            let _ = client.0.get_mut().write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let _ = client.0.read_to_end(&mut answer);
        }
        String::from_utf8_lossy(&answer).into_owned()
    };
    for version in ["TLSv1.2", "TLSv1.3"] {
        assert_eq!(plain.ask(&format!("CONFIG SET tls-protocols {version}")), "+OK");
        assert!(server.serves(Some(&good)), "{version}");
        assert!(!server.serves(None), "{version}");
        assert!(!server.serves(Some(&of_server)), "{version}: it is for servers");
        assert!(scrape(Some(&good)).starts_with("HTTP/1.1 200"), "{version}");
        assert_eq!(scrape(None), "", "{version}");
        assert_eq!(scrape(Some(&of_server)), "", "{version}");
    }
}

#[test]
fn sessions_are_resumed_where_that_is_allowed() {
    let server = Encrypting::start(&["--tls-auth-clients", "no"]);
    let mut plain = server.running.connect();
    let client = server.client(None);
    for _ in 0..3 {
        // The ticket comes behind the handshake.
        assert_eq!(server.connect(&client).unwrap().ask("PING"), "+PONG");
    }
    assert_eq!(count(&mut plain, "tls_handshakes_resumed"), 2);
    assert_eq!(plain.ask("CONFIG SET tls-session-caching no"), "+OK");
    for _ in 0..3 {
        assert_eq!(server.connect(&client).unwrap().ask("PING"), "+PONG");
    }
    assert_eq!(count(&mut plain, "tls_handshakes_resumed"), 2);
}

#[test]
fn a_session_does_not_outlive_the_certificate_of_its_client() {
    let server = Encrypting::start(&[]);
    let mut plain = server.running.connect();
    let client = server.client(Some(&server.authority.issue("alice", 5, |_| {})));
    for auth in ["yes", "optional"] {
        assert_eq!(plain.ask(&format!("CONFIG SET tls-auth-clients {auth}")), "+OK");
        for _ in 0..3 {
            assert_eq!(server.connect(&client).unwrap().ask("PING"), "+PONG");
        }
        assert_eq!(count(&mut plain, "tls_handshakes_resumed"), 0, "each shows its certificate again");
    }
    // The same client, once the certificate is revoked.
    let revoked = server.files.path("revoked.pem");
    std::fs::write(&revoked, server.authority.revoke(5)).unwrap();
    let refuse = format!("CONFIG SET tls-auth-clients yes tls-crl-file {}", revoked.display());
    assert_eq!(plain.ask(&refuse), "+OK");
    let refused = server.connect(&client).ok().and_then(|mut client| client.try_ask("PING"));
    assert_eq!(refused, None);
}

#[test]
fn certificates_are_renewed_and_bad_ones_change_nothing() {
    let server = Encrypting::start(&["--tls-auth-clients", "no"]);
    let mut plain = server.running.connect();
    let mut before = server.connect(&server.client(None)).unwrap();
    let number =
        |plain: &mut Connection| told(plain, "tls_server_cert_serial").trim_start_matches('0').to_owned();
    // When the files change.
    put(&server.files, &server.authority.issue("localhost", 0x1234, |_| {}));
    eventually(|| (number(&mut plain) == "1234").then_some(()));
    // At a signal.
    put(&server.files, &server.authority.issue("localhost", 0x2345, |_| {}));
    let pid = Pid::from_raw(i32::try_from(server.running.server.as_ref().unwrap().pid()).unwrap()).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    eventually(|| (number(&mut plain) == "2345").then_some(()));
    // At CONFIG SET.
    let other = Folder::new();
    put(&other, &server.authority.issue("localhost", 0x3456, |_| {}));
    let set = |certificate: &str, key: &str| {
        let [certificate, key] = [certificate, key].map(|name| other.path(name).display().to_string());
        format!("CONFIG SET tls-cert-file {certificate} tls-key-file {key}")
    };
    assert_eq!(plain.ask(&set("certificate.pem", "key.pem")), "+OK");
    assert_eq!(number(&mut plain), "3456");
    assert!(server.serves(None));
    // Neither of them can be used.
    let refusal = plain.ask(&set("none.pem", "key.pem"));
    assert!(
        refusal.contains("'tls-cert-file') - Unable to update TLS configuration. Check server logs."),
        "{refusal}"
    );
    std::fs::write(other.path("certificate.pem"), "-----BEGIN").unwrap();
    eventually(|| told(&mut plain, "tls_certificate_error").contains("no certificate").then_some(()));
    assert!(server.serves(None) && number(&mut plain) == "3456");
    assert!(server.running.folder.messages().contains("those of before stay"));
    // Other settings go on.
    assert_eq!(plain.ask("CONFIG SET hz 20"), "+OK");
    put(&other, &server.authority.issue("localhost", 0x4567, |_| {}));
    eventually(|| (told(&mut plain, "tls_certificate_error") == "none").then_some(()));
    assert_eq!(before.ask("PING"), "+PONG", "who is connected stays so");
}

#[test]
fn the_port_opens_and_closes_while_the_server_runs() {
    let server = Encrypting::start(&["--tls-auth-clients", "no"]);
    let mut plain = server.running.connect();
    let mut before = server.connect(&server.client(None)).unwrap();
    assert_eq!(plain.ask("CONFIG SET tls-port 0"), "+OK");
    assert!(TcpStream::connect(("127.0.0.1", server.port)).is_err());
    assert_eq!(before.ask("PING"), "+PONG");
    assert_eq!(plain.ask(&format!("CONFIG SET tls-port {}", server.port)), "+OK");
    assert!(server.serves(None));
    assert_eq!(before.ask("CONFIG SET port 0"), "+OK");
    assert!(TcpStream::connect(("127.0.0.1", server.running.port)).is_err());
    assert!(server.serves(None));
    let refusal = before.ask(&format!("CONFIG SET tls-port {} tls-protocols SSLv3", server.port));
    assert!(refusal.contains("Unable to update TLS configuration"), "{refusal}");
    assert!(server.serves(None));
    // Files are read by another thread, which a transaction does not wait for.
    assert_eq!(before.ask("MULTI"), "+OK");
    assert_eq!(before.ask("CONFIG SET tls-protocols TLSv1.3"), "+QUEUED");
    let outcome = before.whole("EXEC");
    assert!(outcome.contains("waits for the disk"), "{outcome}");
    assert_eq!(before.ask("CONFIG SET tls-protocols TLSv1.3"), "+OK");
    assert!(server.serves(None));
}

#[test]
fn a_port_that_is_taken_leaves_the_rules_of_before() {
    let server = Encrypting::start(&[]);
    let mut plain = server.running.connect();
    let authorities = Folder::new();
    let authority = authorities.path("authority.pem");
    std::fs::write(&authority, &server.authority.pem).unwrap();
    let directory = authority.parent().unwrap().display();
    let named = format!("CONFIG SET tls-ca-cert-file \"\" tls-ca-cert-dir {directory}");
    assert_eq!(plain.ask(&named), "+OK");
    // The rules of now could not be read again.
    std::fs::remove_file(&authority).unwrap();
    eventually(|| (told(&mut plain, "tls_certificate_error") != "none").then_some(()));
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = busy.local_addr().unwrap().port();
    let refusal = plain.ask(&format!("CONFIG SET tls-auth-clients no tls-port {taken}"));
    assert!(refusal.contains("Unable to listen on this port"), "{refusal}");
    assert!(!server.serves(None), "a certificate is asked for, as before");
    assert!(server.serves(Some(&server.authority.issue("alice", 5, |_| {}))));
}

#[test]
fn what_cannot_be_encrypted_is_refused_at_the_start() {
    let (folder, authority) = (Folder::new(), Authority::new("authority"));
    put(&folder, &authority.issue("localhost", 1, |_| {}));
    let [certificate, key] =
        ["certificate.pem", "key.pem"].map(|name| folder.path(name).display().to_string());
    let port = free_port().to_string();
    let pair = ["--tls-cert-file", &certificate, "--tls-key-file", &key];
    for (args, word) in [
        (vec!["--tls-port", &port], "both are needed for tls-port"),
        ([&["--tls-port", &port][..], &pair[..]].concat(), "'tls-auth-clients yes' needs the certificates"),
        (
            [&["--tls-port", &port, "--tls-auth-clients", "no", "--tls-protocols", "TLSv1.1"][..], &pair[..]]
                .concat(),
            "tls-protocols takes TLSv1.2 and TLSv1.3",
        ),
        (
            [&["--tls-port", &port, "--tls-auth-clients", "no", "--tls-ciphersuites", "RC4"][..], &pair[..]]
                .concat(),
            "\"RC4\" is not known",
        ),
        (vec!["--metrics-tls", "yes"], "both are needed for metrics-tls"),
    ] {
        let said = folder.refusal(&[&["--port", "0"][..], &args[..]].concat());
        assert!(said.contains(word), "{word}: {said}");
    }
}

/// A key, and the same with the passphrase "open", as OpenSSL writes them.
const KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgSzSQsGVSFJ+hObh3
sIKbU+YxKan9slCA2lbQqA+7WxmhRANCAAROHUV5mE8nC4W86E2hiWfWHtT/LW1T
KYH8AalB+iwjz2XKnzYIf5d5maaWgmzsMtXQHJoRW111gfMYYlQwmmRQ
-----END PRIVATE KEY-----
";
const LOCKED_KEY: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgYdTeuU/QOuwICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEMOJuk4+ckwCvFWY1YjpBaMEgZC6
P7JXZTbTxbWpEMa3OH+hrSyLqOcAFITVCBjEQb7iu3Uu8Ran4NoXsmmYfnlSRkTv
J54bG8zty9UO0S+9UNhL2PaD6zhxG2jwkc1goqrOxls6DAPZU2SXSrzwPODeWGTv
JNjXxn6+zrmqG2JnshbwCKSw2lo1slCOOm5SrQT7fknQGcZC4+5u6/xhI6lCS6A=
-----END ENCRYPTED PRIVATE KEY-----
";

#[test]
fn a_key_may_have_a_passphrase_which_nobody_is_told() {
    let more = ["--tls-auth-clients", "no", "--tls-key-file-pass", "open"];
    let server = Encrypting::start_with(&more, |files, authority| {
        let certificate = authority.sign("localhost", 80, |_| {}, &KeyPair::from_pem(KEY).unwrap());
        put(files, &Issued { certificate, key: LOCKED_KEY.to_owned() });
    });
    assert!(server.serves(None));
    let mut plain = server.running.connect();
    for wrong in ["tls-key-file-pass wrong-one", "tls-key-file-pass \"\""] {
        let refusal = plain.ask(&format!("CONFIG SET {wrong}"));
        assert!(refusal.contains("'tls-key-file-pass') - Unable to update TLS configuration"), "{refusal}");
    }
    assert!(server.serves(None));
    let said = server.running.folder.messages();
    assert!(said.contains("is not opened by tls-key-file-pass") && !said.contains("wrong-one"), "{said}");
    assert!(said.contains("name that with tls-key-file-pass"), "{said}");
    // A renewed key has the same passphrase, or none.
    put(&server.files, &server.authority.issue("localhost", 81, |_| {}));
    eventually(|| (told(&mut plain, "tls_server_cert_serial").trim_start_matches('0') == "51").then_some(()));
    assert!(server.serves(None));
}

#[test]
fn the_suites_that_are_named_are_used_and_no_others() {
    let server = Encrypting::start(&["--tls-auth-clients", "no"]);
    let mut plain = server.running.connect();
    let mut set = |directives: &str| plain.ask(&format!("CONFIG SET {directives}"));
    let suite = || {
        let client = server.connect(&server.client(None)).ok()?;
        Some(client.0.get_ref().conn.negotiated_cipher_suite()?.suite())
    };
    assert_eq!(set("tls-ciphersuites TLS_CHACHA20_POLY1305_SHA256"), "+OK");
    assert_eq!(suite(), Some(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256));
    assert_eq!(set("tls-protocols TLSv1.2 tls-ciphers ECDHE+AES128:!aRSA"), "+OK");
    assert_eq!(suite(), Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256));
    assert_eq!(set("tls-ciphers aRSA"), "+OK");
    assert_eq!(suite(), None, "the certificate is of ECDSA");
    assert!(set("tls-ciphers RC4-SHA").contains("Unable to update TLS configuration"));
    assert_eq!(set("tls-protocols \"\" tls-ciphersuites \"\""), "+OK");
    assert!(suite().is_some());
}

#[test]
fn encryption_can_be_demanded_at_every_port() {
    let metrics = free_port();
    let server = Encrypting::start(&["--tls-auth-clients", "no", "--metrics-port", &metrics.to_string()]);
    let mut plain = server.running.connect();
    let scrape = || {
        let mut socket = TcpStream::connect(("127.0.0.1", metrics)).unwrap();
        socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    };
    assert_eq!(plain.ask("CONFIG SET tls-required remote"), "+OK");
    assert_eq!(server.running.connect().ask("PING"), "+PONG", "it is on this machine");
    assert!(scrape().starts_with("HTTP/1.1 200"));
    assert_eq!(plain.ask("CONFIG SET tls-required all"), "+OK");
    let refusal = server.running.connect().try_reply().unwrap();
    assert!(refusal.starts_with("-DENIED Connections must be encrypted"), "{refusal}");
    assert!(scrape().starts_with("HTTP/1.1 403"));
    assert!(server.serves(None));
    assert_eq!(plain.ask("CONFIG SET metrics-tls yes"), "+OK");
    let socket = TcpStream::connect(("127.0.0.1", metrics)).unwrap();
    let mut encrypted = connect(socket, &server.client(None), "localhost").unwrap();
    encrypted.0.get_mut().write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = encrypted.0.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("tarn_tls_handshakes_total"), "{answer}");
}

#[test]
fn the_tools_of_redis_speak_to_it() {
    let server = Encrypting::start(&[]);
    put(&server.files, &server.authority.issue("localhost", 79, |_| {}));
    let client = Folder::new();
    put(&client, &server.authority.issue("alice", 5, |_| {}));
    let port = server.port.to_string();
    let run = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(["-h", "localhost", "-p", &port, "--tls", "--cacert"]);
        command.arg(server.files.path("authority.pem")).arg("--cert").arg(client.path("certificate.pem"));
        command.arg("--key").arg(client.path("key.pem")).args(args).stdin(Stdio::null());
        let output = command.output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
    };
    let Some(said) = run("redis-cli", &["SET", "greeting", "hello"]) else {
        // The reader must not believe that this was tested.
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no redis-cli");
        return;
    };
    if said.contains("Unrecognized option") {
        let _ = writeln!(std::io::stderr(), "SKIPPED: this redis-cli speaks no TLS");
        return;
    }
    assert_eq!(said, "OK\n");
    assert_eq!(run("redis-cli", &["GET", "greeting"]).as_deref(), Some("hello\n"));
    if let Some(said) = run("redis-benchmark", &["-t", "set,get", "-n", "2000", "-c", "20", "-P", "16", "-q"])
    {
        assert!(said.contains("GET:") && !said.contains("rror"), "{said}");
    }
}
