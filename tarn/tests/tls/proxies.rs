//! Clients behind proxies that say for whom they connect, and clients on this machine.

#[cfg(feature = "sql")]
use std::io::Read;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

#[cfg(feature = "sql")]
use super::running::postgres::start;
use super::running::{Client, Folder, LIMIT, Running, eventually, free_port};
use super::{Encrypting, connect};

/// The head of the PROXY protocol, version 2, for a client of IPv4.
fn header(command: u8, client: [u8; 4]) -> Vec<u8> {
    let [a, b, c, d] = client;
    let addresses = [a, b, c, d, 127, 0, 0, 1, 0x30, 0x39, 0x18, 0xeb];
    [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[command, 0x11, 0, 12], &addresses].concat()
}

#[test]
fn a_proxy_makes_no_stranger_local() {
    let server = Encrypting::start(&["--tls-auth-clients", "no"]);
    let mut plain = server.running.connect();
    assert_eq!(plain.ask("CONFIG SET proxy-protocol-from \"127.0.0.1 10.0.0.0/8\""), "+OK");
    let through = |port: u16, head: &[u8]| {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        let _ = socket.write_all(head);
        Client(BufReader::new(socket))
    };
    let port = server.running.port;
    let refusal = through(port, &header(0x21, [192, 0, 2, 7])).try_reply().unwrap();
    assert!(refusal.starts_with("-DENIED Tarn runs in protected mode"), "{refusal}");
    // Not even who says that it is this machine.
    let refusal = through(port, &header(0x21, [127, 0, 0, 1])).try_reply().unwrap();
    assert!(refusal.starts_with("-DENIED"), "{refusal}");
    // Nor who says nothing: a proxy also does so for clients that reach it by a Unix socket.
    let refusal = through(port, &header(0x20, [0; 4])).try_reply().unwrap();
    assert!(refusal.starts_with("-DENIED Tarn runs in protected mode"), "{refusal}");
    for head in [&b"PING\r\n"[..], b"PROXY TCP4 192.0.2.7 127.0.0.1 1 2\r\nPING\r\n", &header(0x2f, [1; 4])] {
        assert_eq!(through(port, head).try_reply(), None, "{head:?}");
    }
    eventually(|| server.running.folder.messages().contains("'send-proxy-v2'").then_some(()));
    // Over TLS it is told as well.
    let mut socket = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    socket.write_all(&header(0x21, [192, 0, 2, 7])).unwrap();
    let mut encrypted = connect(socket, &server.client(None), "localhost").unwrap();
    let refusal = encrypted.try_reply().unwrap();
    assert!(refusal.starts_with("-DENIED Tarn runs in protected mode"), "{refusal}");
    assert_eq!(plain.ask("CONFIG SET protected-mode no"), "+OK");
    let mut client = through(port, &header(0x21, [192, 0, 2, 7]));
    let info = client.ask("CLIENT INFO");
    assert!(info.contains(" addr=192.0.2.7:12345 "), "{info}");
    let mut proxy = through(port, &header(0x20, [0; 4]));
    let info = proxy.ask("CLIENT INFO");
    assert!(info.contains(" addr=127.0.0.1:"), "{info}");
    // In pieces, and the requests behind it are not lost.
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let whole = [header(0x21, [192, 0, 2, 8]), b"PING\r\n".to_vec()].concat();
    for byte in whole {
        socket.write_all(&[byte]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(Client(BufReader::new(socket)).try_reply().as_deref(), Some("+PONG"));
    // Encryption begins behind it.
    let mut socket = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    socket.write_all(&header(0x21, [192, 0, 2, 9])).unwrap();
    let mut encrypted = connect(socket, &server.client(None), "localhost").unwrap();
    let info = encrypted.ask("CLIENT INFO");
    assert!(info.contains(" addr=192.0.2.9:12345 "), "{info}");
    assert_eq!(plain.ask("CONFIG SET tls-required remote"), "+OK");
    let refusal = through(port, &header(0x21, [192, 0, 2, 7])).try_reply().unwrap();
    assert!(refusal.starts_with("-DENIED Connections must be encrypted"), "{refusal}");
    assert_eq!(plain.ask("CONFIG SET proxy-protocol-from localhost").get(..4), Some("-ERR"));
}

#[test]
fn local_clients_need_not_be_trusted() {
    let running = Running::start(&[]);
    let mut plain = running.connect();
    assert_eq!(plain.ask("CONFIG SET trust-local-clients no"), "+OK");
    let refusal = running.connect().try_reply().unwrap();
    assert!(refusal.starts_with("-DENIED Tarn runs in protected mode"), "{refusal}");
    assert_eq!(plain.ask("CONFIG SET trust-local-clients yes"), "+OK");
    assert_eq!(running.connect().ask("PING"), "+PONG");
    // There is no encrypted port.
    assert_eq!(plain.ask("CONFIG SET tls-required all"), "+OK");
    assert!(running.folder.messages().contains("lets no client in"));
    // A start tells of it as well.
    let (folder, port) = (Folder::new(), free_port().to_string());
    let _closed = folder.serve(&["--port", &port, "--tls-required", "all"]);
    eventually(|| folder.messages().contains("lets no client in").then_some(()));
}

#[cfg(feature = "sql")]
#[test]
fn a_proxy_is_asked_at_the_other_ports_too() {
    let [sql, metrics] = [free_port(), free_port()];
    let ports = [sql.to_string(), metrics.to_string()];
    let args = ["--tls-auth-clients", "no", "--sql-port", &ports[0], "--metrics-port", &ports[1]];
    let server = Encrypting::start(&args);
    let mut plain = server.running.connect();
    assert_eq!(plain.ask("CONFIG SET proxy-protocol-from 127.0.0.0/8"), "+OK");
    let said = |port: u16, bytes: &[u8]| {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket.write_all(bytes).unwrap();
        let mut said = vec![0; 4096];
        let len = socket.read(&mut said).unwrap();
        String::from_utf8_lossy(&said[..len]).into_owned()
    };
    let (stranger, itself) = (header(0x21, [192, 0, 2, 7]), header(0x20, [0; 4]));
    let begin = start(&["user", "default", "database", "tarn"]);
    for head in [&stranger, &itself] {
        let refusal = said(sql, &[&head[..], &begin].concat());
        assert!(refusal.contains("protected mode"), "{refusal}");
    }
    let scrape = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for head in [&stranger, &itself] {
        assert!(said(metrics, &[&head[..], scrape].concat()).starts_with("HTTP/1.1 403"));
    }
    assert_eq!(plain.ask("CONFIG SET protected-mode no"), "+OK");
    assert_eq!(plain.ask("ACL SETUSER alice on >pw +sql"), "+OK");
    for head in [&stranger, &itself] {
        let welcome = said(sql, &[&head[..], &begin].concat());
        assert!(welcome.starts_with('R'), "{welcome}");
        let refusal = said(sql, &[&head[..], &start(&["user", "alice"])].concat());
        assert!(refusal.contains("connect with sslmode=require"), "{refusal}");
        assert!(said(metrics, &[&head[..], scrape].concat()).starts_with("HTTP/1.1 200"));
    }
}
