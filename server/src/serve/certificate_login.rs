//! Logging clients in by the certificates that they have shown (`tls-auth-clients-user`).

use rustls::pki_types::CertificateDer;

use crate::acl::{Context, Reason};
use crate::execute::client::Client;
use crate::execute::services::Services;
use crate::execute::showing::client_line;
use crate::execute::table::Table;
use crate::net::certificates::names_of;

/// Makes a new client the first user that its certificate names, of those that are there and enabled. If
/// there is none, it stays the user `default`, and `ACL LOG` has the name that was looked for last.
///
/// REQUIRES: the certificate has been verified in a handshake.
pub(super) fn log_in(
    server: &Services,
    table: &Table,
    client: &mut Client,
    certificate: &CertificateDer<'_>,
) {
    let names = names_of(certificate, server.config.snapshot().tls.auth_clients_user);
    let enabled = |name: &String| server.acl.user(name.as_bytes()).filter(|user| user.is_enabled());
    if let Some(user) = names.iter().find_map(enabled) {
        client.become_user(&user);
        client.set_authenticated(true);
    } else if let Some(name) = names.last() {
        let (now, line) = (server.clock.unix_ms(), client_line(table, &client.handle));
        let named = (&b""[..], name.as_bytes());
        server.acl.log.push(now, Reason::Certificate, Context::TopLevel, named, line);
    }
}
