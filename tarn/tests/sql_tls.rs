//! Encrypted connections to SQL: the real psql, and clients that break the protocol.

#![allow(clippy::unwrap_used)]

mod running;

use std::fs::Permissions;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedKey, IsCa, Issuer, KeyPair, PKCS_ED25519,
    generate_simple_self_signed,
};
use running::{Folder, Running, eventually, free_port};

/// The request for encryption.
const ASKED: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Writes a certificate for `localhost`, signed only by itself, and its key.
fn issue(folder: &Path) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("key.pem"), signing_key.serialize_pem()).unwrap();
    std::fs::write(folder.join("certificate.pem"), cert.pem()).unwrap();
}

/// Asks for 1 by psql; its output, answers and errors.
fn psql(port: u16, options: &str) -> String {
    let place = format!("host=localhost hostaddr=127.0.0.1 port={port} user=default dbname=tarn {options}");
    let mut command = Command::new("psql");
    command.env("PGPASSWORD", "s3cret").env("PGCONNECT_TIMEOUT", "10");
    let output = command.args(["-X", "-A", "-t", "-d", &place, "-c", "SELECT 1"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn trusting(certificate: &Path) -> String {
    format!("sslmode=verify-full sslrootcert={}", certificate.display())
}

/// A server with a certificate, in a folder of its own.
fn encrypting(folder: &Folder, port: u16) -> Running {
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path(name));
    let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
    let port = port.to_string();
    Running::start(&["--sql-port", &port, "--tls-cert-file", &certificate, "--tls-key-file", &key])
}

#[test]
fn a_client_that_asks_is_encrypted_and_shown_the_certificate() {
    let (folder, port) = (Folder::new(), free_port());
    issue(&folder.path(""));
    let running = encrypting(&folder, port);
    let trust = trusting(&folder.path("certificate.pem"));
    assert_eq!(psql(port, &trust), "1\n");
    assert_eq!(psql(port, "sslmode=disable"), "1\n");
    running.connect().ask("CONFIG SET requirepass s3cret");
    assert_eq!(psql(port, &trust), "1\n");
    // The password is worth nothing on another connection.
    assert_eq!(psql(port, &format!("{trust} channel_binding=require")), "1\n");
    assert!(psql(port, "sslmode=disable channel_binding=require").contains("channel binding"));
    let said = psql(port, &format!("{trust} password=wrong"));
    assert!(said.contains("FATAL:  Password authentication failed for user \"default\""), "{said}");
    let stranger = Folder::new();
    issue(&stranger.path(""));
    let said = psql(port, &trusting(&stranger.path("certificate.pem")));
    assert!(said.contains("certificate verify failed"), "{said}");
}

#[test]
fn encryption_can_be_asked_of_everybody() {
    let (folder, port) = (Folder::new(), free_port());
    issue(&folder.path(""));
    let mut running = encrypting(&folder, port);
    let mut args = std::mem::take(&mut running.args);
    args.extend(["--sql-tls", "required"].map(str::to_owned));
    running.restart_with(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(psql(port, &trusting(&folder.path("certificate.pem"))), "1\n");
    assert_eq!(psql(port, "sslmode=prefer"), "1\n");
    let said = psql(port, "sslmode=disable");
    assert!(said.contains("FATAL:  connections must be encrypted here"), "{said}");
    // A certificate is needed then.
    let said = folder.refusal(&["--port", &free_port().to_string(), "--sql-tls", "required"]);
    assert!(said.contains("'sql-tls required' and 'sql-tls-auth-clients yes' need a certificate"), "{said}");
}

#[test]
fn who_must_show_a_certificate_must_encrypt() {
    let (folder, port) = (Folder::new(), free_port());
    issue(&folder.path(""));
    let running = encrypting(&folder, port);
    let mut client = running.connect();
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let (signing, own_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    std::fs::write(folder.path("authority.pem"), params.self_signed(&signing).unwrap().pem()).unwrap();
    let issuer = Issuer::from_params(&params, &signing);
    let own = CertificateParams::new(["client".to_owned()]).unwrap().signed_by(&own_key, &issuer).unwrap();
    let authority = folder.path("authority.pem").display().to_string();
    let set = |auth: &str| format!("CONFIG SET tls-ca-cert-file {authority} sql-tls-auth-clients {auth}");
    assert_eq!(client.ask(&set("yes")), "+OK");
    let said = psql(port, "sslmode=disable");
    assert!(said.contains("FATAL:  connections must be encrypted here"), "{said}");
    let key = Folder::new();
    std::fs::write(key.path("key.pem"), own_key.serialize_pem()).unwrap();
    std::fs::write(key.path("certificate.pem"), own.pem()).unwrap();
    // psql takes no key that others may read.
    std::fs::set_permissions(key.path("key.pem"), Permissions::from_mode(0o600)).unwrap();
    let own = format!(
        "{} sslcert={} sslkey={}",
        trusting(&folder.path("certificate.pem")),
        key.path("certificate.pem").display(),
        key.path("key.pem").display()
    );
    assert_eq!(psql(port, &own), "1\n");
    assert_ne!(psql(port, &trusting(&folder.path("certificate.pem"))), "1\n", "it shows none");
    assert_eq!(client.ask(&set("optional")), "+OK");
    assert_eq!(psql(port, "sslmode=disable"), "1\n");
    let said = folder.refusal(&["--port", &free_port().to_string(), "--sql-tls-auth-clients", "yes"]);
    assert!(said.contains("sql-tls-auth-clients"), "{said}");
}

/// The server knows the SHA-256 of such a password alone.
#[test]
fn a_password_that_is_sent_is_asked_for_where_nobody_on_the_way_reads_it() {
    let (folder, port) = (Folder::new(), free_port());
    issue(&folder.path(""));
    let running = encrypting(&folder, port);
    let mut client = running.connect();
    assert_eq!(client.ask("ACL SETUSER alice on >s3cret +sql"), "+OK");
    let encrypted = format!("{} user=alice", trusting(&folder.path("certificate.pem")));
    assert_eq!(psql(port, &encrypted), "1\n");
    assert_eq!(psql(port, "sslmode=disable user=alice"), "1\n");
    // A proxy that says nothing may be in front, so the client may be on any machine.
    assert_eq!(client.ask("CONFIG SET protected-mode no trust-local-clients no"), "+OK");
    assert_eq!(psql(port, &encrypted), "1\n");
    assert_eq!(client.ask("ACL LOG RESET"), "+OK");
    let said = psql(port, "sslmode=disable user=alice");
    assert!(said.contains("FATAL:") && said.contains("connect with sslmode=require"), "{said}");
    let log = client.whole("ACL LOG 1");
    assert!(log.contains("$reason $auth ") && log.contains("$object $SQL $username $alice "), "{log}");
    // The password of `requirepass` need not be sent.
    assert_eq!(client.ask("CONFIG SET requirepass s3cret"), "+OK");
    assert_eq!(psql(port, "sslmode=disable"), "1\n");
    // Encryption is asked for first.
    assert_eq!(client.ask("CONFIG SET trust-local-clients yes tls-required all"), "+OK");
    let said = psql(port, "sslmode=disable user=alice");
    assert!(said.contains("FATAL:  connections must be encrypted"), "{said}");
    assert_eq!(psql(port, &encrypted), "1\n");
}

#[test]
fn without_a_certificate_nobody_is_encrypted() {
    let port = free_port();
    let _running = Running::start(&["--sql-port", &port.to_string()]);
    let said = psql(port, "sslmode=require");
    assert!(said.contains("server does not support SSL"), "{said}");
    assert_eq!(psql(port, "sslmode=prefer"), "1\n");
}

#[test]
fn a_certificate_is_renewed_while_the_server_runs() {
    let (folder, port) = (Folder::new(), free_port());
    issue(&folder.path(""));
    let before = folder.path("before.pem");
    std::fs::copy(folder.path("certificate.pem"), &before).unwrap();
    let running = encrypting(&folder, port);
    // A file that was only begun leaves the one that was there.
    std::fs::write(folder.path("certificate.pem"), "-----BEGIN").unwrap();
    assert_eq!(psql(port, &trusting(&before)), "1\n");
    eventually(|| running.folder.messages().contains("holds no certificate").then_some(()));
    issue(&folder.path(""));
    let renewed = trusting(&folder.path("certificate.pem"));
    eventually(|| (psql(port, &renewed) == "1\n").then_some(()));
    assert!(psql(port, &trusting(&before)).contains("certificate verify failed"));
}

#[test]
fn a_kind_of_certificate_that_passwords_cannot_be_bound_to_serves_as_well() {
    let (folder, port) = (Folder::new(), free_port());
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(folder.path("key.pem"), key.serialize_pem()).unwrap();
    std::fs::write(folder.path("certificate.pem"), certificate.pem()).unwrap();
    let running = encrypting(&folder, port);
    running.connect().ask("CONFIG SET requirepass s3cret");
    // psql cannot compute a binding of this kind either, and asks for it unless it is configured not to.
    let trust = trusting(&folder.path("certificate.pem"));
    assert_eq!(psql(port, &format!("{trust} channel_binding=disable")), "1\n");
}

#[test]
fn files_that_cannot_be_used_are_refused_at_the_start() {
    let (folder, other) = (Folder::new(), Folder::new());
    issue(&folder.path(""));
    issue(&other.path(""));
    std::fs::write(folder.path("empty.pem"), "").unwrap();
    let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n";
    std::fs::write(folder.path("locked.pem"), locked).unwrap();
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path(name));
    let foreign = other.path("key.pem");
    for (certificate, key, word) in [
        (&certificate, &folder.path("none.pem"), "cannot read"),
        (&folder.path("none.pem"), &key, "cannot read"),
        (&folder.path("empty.pem"), &key, "holds no certificate"),
        (&key, &key, "holds no certificate"),
        (&certificate, &folder.path("locked.pem"), "passphrase"),
        (&certificate, &foreign, "cannot be used"),
        (&certificate, &"".into(), "both are needed"),
        (&"".into(), &key, "both are needed"),
    ] {
        let port = free_port().to_string();
        let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
        let said = folder.refusal(&[
            "--port",
            "0",
            "--sql-port",
            &port,
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
        ]);
        assert!(said.contains(word) && said.contains("tls-key-file"), "{word}: {said}");
    }
}

#[test]
fn what_comes_before_the_encryption_that_was_asked_for_is_not_obeyed() {
    let (folder, port) = (Folder::new(), free_port());
    issue(&folder.path(""));
    let _running = encrypting(&folder, port);
    let start = b"\0\0\0\x17\0\x03\0\0user\0default\0\0";
    for behind in [start.as_slice(), b"\x16\x03\x01\0\0", b"no handshake at all", &ASKED] {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(running::LIMIT)).unwrap();
        socket.write_all(&[&ASKED, behind].concat()).unwrap();
        let mut answer = Vec::new();
        // It is closed, in one way or another, and not waited for.
        let ended = socket.read_to_end(&mut answer).map_err(|error| error.kind());
        assert!(matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset)), "{behind:?}: {ended:?}");
        assert!(answer.len() <= 1, "{behind:?}: {answer:?}");
    }
    assert_eq!(psql(port, "sslmode=require"), "1\n");
}

#[test]
fn encryption_is_asked_for_once() {
    let port = free_port();
    let _running = Running::start(&["--sql-port", &port.to_string()]);
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(running::LIMIT)).unwrap();
    socket.write_all(&[ASKED, ASKED].concat()).unwrap();
    let mut answer = Vec::new();
    let ended = socket.read_to_end(&mut answer).map_err(|error| error.kind());
    assert!(matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset)), "{ended:?}");
    assert_eq!(answer, b"N");
}
