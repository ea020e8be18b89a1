//! Clients that become a user by their certificate, without a password.

use rcgen::{CertificateParams, DnType, IsCa, Issuer, SanType};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tarn_server::config::CertificateUser;
use tarn_server::net::certificates::names_of;

use super::running::{Connection, eventually};
use super::{Authority, Encrypted, Encrypting};

/// A client at the encrypted port, whose certificate has this common name.
fn shows(server: &Encrypting, name: &str) -> Encrypted {
    shows_with(server, name, |_| {})
}

fn shows_with(server: &Encrypting, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Encrypted {
    let issued = server.authority.issue("localhost", 5, |params| {
        params.distinguished_name.push(DnType::CommonName, name);
        change(params);
    });
    server.connect(&server.client(Some(&issued))).unwrap()
}

/// A server that asks for certificates, whose user `default` has the password `secret`, and a client of that
/// user.
fn start(part: &str) -> (Encrypting, Connection) {
    let server = Encrypting::start(&["--tls-auth-clients-user", part]);
    let mut plain = server.running.connect();
    assert_eq!(plain.ask("CONFIG SET requirepass secret"), "+OK");
    (server, plain)
}

/// A number in `INFO stats`.
fn stat(client: &mut Connection, name: &str) -> u64 {
    let info = client.ask("INFO stats");
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {name} in {info}")).trim_end().parse().unwrap()
}

#[test]
fn a_certificate_that_names_an_enabled_user_is_its_login() {
    let (server, mut plain) = start("CN");
    assert!(server.running.connect().ask("PING").starts_with("-NOAUTH"));
    assert_eq!(plain.ask("ACL SETUSER alice on ~a* +get +set +acl|whoami +reset"), "+OK");
    assert_eq!(plain.ask("ACL SETUSER bob ~* +@all"), "+OK");
    let mut alice = shows(&server, "alice");
    assert_eq!(alice.ask("ACL WHOAMI"), "alice");
    assert_eq!(alice.ask("SET a 1"), "+OK");
    assert!(alice.ask("SET b 1").starts_with("-NOPERM"));
    assert!(plain.ask("CLIENT LIST").contains(" user=alice "));
    assert_eq!(stat(&mut plain, "acl_access_denied_tls_cert"), 0);
    // bob is off; the others are no names of users, but begin like one.
    for (number, name) in (0..).zip(["bob", "nobody", "ALICE", "alice\0", "alice smith", "alice "]) {
        let mut client = shows(&server, name);
        assert!(client.ask("ACL WHOAMI").starts_with("-NOAUTH"), "{name:?}");
        assert_eq!(stat(&mut plain, "acl_access_denied_tls_cert"), number + 1, "{name:?}");
        let logged = plain.whole("ACL LOG 1");
        let shown = format!("$username ${}", name.escape_default().to_string().replace("\\u{0}", "\\x00"));
        assert!(logged.contains("$reason $tls-cert $context $toplevel $object $ "), "{logged}");
        assert!(logged.contains(&shown), "{logged}");
        // A password is good enough as well.
        assert_eq!(client.ask("AUTH secret"), "+OK");
        assert_eq!(client.ask("ACL WHOAMI"), "default");
    }
    // No wrong password came.
    assert_eq!(stat(&mut plain, "acl_access_denied_auth"), 0);
    assert_eq!(shows(&server, "default").ask("ACL WHOAMI"), "default");
    // It is one login, and no more than that.
    let mut other = shows(&server, "alice");
    assert_eq!(other.ask("RESET"), "+RESET");
    assert!(other.ask("ACL WHOAMI").starts_with("-NOAUTH"));
}

#[test]
fn a_user_of_a_certificate_that_is_deleted_takes_its_clients_along() {
    let (server, mut plain) = start("CN");
    assert_eq!(plain.ask("CONFIG SET auth-timeout 1"), "+OK");
    assert_eq!(plain.ask("ACL SETUSER alice on ~* +@all"), "+OK");
    let mut alice = shows(&server, "alice");
    let mut stranger = shows(&server, "nobody");
    // A login by a certificate is in time; no password is awaited behind it.
    assert_eq!(stranger.try_reply(), None, "it has not logged in");
    assert_eq!(alice.ask("ACL WHOAMI"), "alice");
    // As in Redis, who is in stays when the user is turned off.
    assert_eq!(plain.ask("ACL SETUSER alice off"), "+OK");
    assert_eq!(alice.ask("ACL WHOAMI"), "alice");
    assert!(shows(&server, "alice").ask("ACL WHOAMI").starts_with("-NOAUTH"));
    assert_eq!(plain.ask("ACL DELUSER alice"), ":1");
    assert_eq!(alice.try_reply(), None, "it is closed");
    eventually(|| (!plain.ask("CLIENT LIST").contains(" user=alice ")).then_some(()));
    // A later user of the name is another one, whose clients come in again.
    assert_eq!(plain.ask("ACL SETUSER alice on ~* +@all"), "+OK");
    assert_eq!(shows(&server, "alice").ask("ACL WHOAMI"), "alice");
    assert_eq!(plain.ask("CONFIG SET tls-auth-clients-user off"), "+OK");
    assert!(shows(&server, "alice").ask("ACL WHOAMI").starts_with("-NOAUTH"));
}

#[test]
fn of_several_uris_the_first_that_names_an_enabled_user_counts() {
    let (server, mut plain) = start("URI");
    let uri = |who: &str| SanType::URI(format!("spiffe://example.org/{who}").try_into().unwrap());
    let with = |names: &[&str]| {
        let names: Vec<SanType> = names.iter().map(|name| uri(name)).collect();
        move |params: &mut CertificateParams| params.subject_alt_names.extend(names)
    };
    for (name, state) in [("off", "off"), ("alice", "on"), ("bob", "on")] {
        let made = plain.ask(&format!("ACL SETUSER spiffe://example.org/{name} {state} ~* +@all"));
        assert_eq!(made, "+OK");
    }
    let mut client = shows_with(&server, "bob", with(&["nobody", "off", "alice", "bob"]));
    assert_eq!(client.ask("ACL WHOAMI"), "spiffe://example.org/alice");
    let mut client = shows_with(&server, "bob", with(&["nobody", "off"]));
    assert!(client.ask("ACL WHOAMI").starts_with("-NOAUTH"));
    assert!(plain.whole("ACL LOG 1").contains("$username $spiffe://example.org/off"));
    // There is nothing that could be noted.
    assert!(shows(&server, "alice").ask("ACL WHOAMI").starts_with("-NOAUTH"));
    assert_eq!(stat(&mut plain, "acl_access_denied_tls_cert"), 1);
}

#[test]
fn a_certificate_that_is_not_good_logs_nobody_in() {
    let (server, mut plain) = start("CN");
    assert_eq!(plain.ask("ACL SETUSER alice on ~* +@all"), "+OK");
    assert_eq!(plain.ask("CONFIG SET tls-auth-clients optional"), "+OK");
    let impostor = Authority::new("authority").issue("alice", 5, |_| {});
    assert!(!server.serves(Some(&impostor)));
    let mut nobody = server.connect(&server.client(None)).unwrap();
    assert!(nobody.ask("ACL WHOAMI").starts_with("-NOAUTH"));
    // It is not asked for, so it is not looked at.
    assert_eq!(plain.ask("CONFIG SET tls-auth-clients no"), "+OK");
    let mut client = server.connect(&server.client(Some(&impostor))).unwrap();
    assert!(client.ask("ACL WHOAMI").starts_with("-NOAUTH"));
}

#[test]
fn a_certificate_that_may_not_sign_others_vouches_for_nobody() {
    let mut own = Authority::new("alice");
    own.params.is_ca = IsCa::NoCa;
    own.params.key_usages.clear();
    let by_any = ["--tls-auth-clients-user", "CN"];
    let server = Encrypting::start_with(&by_any, |files, authority| {
        let issuer = Issuer::from_params(&authority.params, &authority.key);
        let alice = own.params.signed_by(&own.key, &issuer).unwrap().pem();
        std::fs::write(files.path("authority.pem"), authority.pem.clone() + &alice).unwrap();
    });
    let mut plain = server.running.connect();
    assert_eq!(plain.ask("ACL SETUSER admin on ~* +@all"), "+OK");
    assert!(server.running.folder.messages().contains("certificates that may not sign others (1)"));
    assert_eq!(shows(&server, "admin").ask("ACL WHOAMI"), "admin");
    assert!(!server.serves(Some(&own.issue("admin", 9, |_| {}))), "alice is no authority");
}

#[test]
fn a_certificate_names_its_users_or_nobody() {
    let authority = Authority::new("authority");
    let names = |part, change: &dyn Fn(&mut CertificateParams)| {
        let issued = authority.issue("alice", 1, change);
        names_of(&CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap(), part)
    };
    let none: [&str; 0] = [];
    assert_eq!(names(CertificateUser::CommonName, &|_| {}), ["alice"]);
    assert_eq!(names(CertificateUser::Off, &|_| {}), none);
    assert_eq!(names(CertificateUser::Uri, &|_| {}), none);
    let identifiers = ["spiffe://example.org/alice", "spiffe://example.org/bob"];
    let with_uris = |params: &mut CertificateParams| {
        let uris = identifiers.map(|uri| SanType::URI(uri.try_into().unwrap()));
        params.subject_alt_names.extend(uris);
    };
    assert_eq!(names(CertificateUser::Uri, &with_uris), identifiers);
    let empty = |params: &mut CertificateParams| params.distinguished_name.push(DnType::CommonName, "");
    assert_eq!(names(CertificateUser::CommonName, &empty), none);
    let named_twice = |params: &mut CertificateParams| {
        params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 3]), "bob");
    };
    assert_eq!(names(CertificateUser::CommonName, &named_twice), none);
    let nameless =
        |params: &mut CertificateParams| params.distinguished_name = rcgen::DistinguishedName::new();
    assert_eq!(names(CertificateUser::CommonName, &nameless), none);
}
