//! Settings of encryption, and of who is taken for whom at the ports.

use super::kinds::{AuthClients, CertificateUser, Encryption};
use super::networks::Networks;

/// Certificates, the ports that are encrypted, and the clients that are believed.
#[derive(Clone, Default, PartialEq)]
pub struct TlsSettings {
    /// TCP port of the Redis protocol over TLS; 0 for none.
    pub port: u16,
    /// PEM file of the server's certificate and of those that it was signed with; empty for none.
    pub cert_file: Vec<u8>,
    /// PEM file of its key.
    pub key_file: Vec<u8>,
    /// Passphrase of that file.
    pub key_file_pass: Vec<u8>,
    /// PEM file of the authorities that sign the certificates of clients; empty for none.
    pub ca_cert_file: Vec<u8>,
    /// Directory of such files; empty for none.
    pub ca_cert_dir: Vec<u8>,
    /// PEM file with lists of revoked certificates of clients; empty for none.
    pub crl_file: Vec<u8>,
    /// Whether clients of the Redis protocol show a certificate.
    pub auth_clients: AuthClients,
    /// The same for clients of SQL.
    pub sql_auth_clients: AuthClients,
    /// The same for clients of metrics.
    pub metrics_auth_clients: AuthClients,
    /// The part of a client's certificate that names its user.
    pub auth_clients_user: CertificateUser,
    /// Versions of TLS, as OpenSSL names them; empty for 1.2 and 1.3.
    pub protocols: Vec<u8>,
    /// Suites of TLS 1.3, as OpenSSL names them; empty for all.
    pub ciphersuites: Vec<u8>,
    /// A list of suites of TLS 1.2, as OpenSSL has them; empty for all.
    pub ciphers: Vec<u8>,
    /// Whether the server's order of suites counts.
    pub prefer_server_ciphers: bool,
    /// Whether clients may resume sessions.
    pub session_caching: bool,
    /// Sessions that are kept for that; 0: as many as there may be.
    pub session_cache_size: usize,
    /// Seconds for which they are.
    pub session_cache_timeout_s: u64,
    /// Whether `metrics-port` speaks HTTPS.
    pub metrics: bool,
    /// Whose connections must be encrypted, at every port.
    pub required: Encryption,
    /// The proxies that say by PROXY headers for whom they connect.
    pub proxies: Networks,
    /// Whether a client is local because its address is this machine's.
    pub trust_local_clients: bool,
}

impl TlsSettings {
    /// Whether nobody has named a certificate.
    pub fn has_no_certificate(&self) -> bool {
        self.cert_file.is_empty() && self.key_file.is_empty()
    }

    /// Whether connections are encrypted in the same way by both, no matter who has to or may connect.
    pub fn encrypts_as(&self, other: &TlsSettings) -> bool {
        let mut same = other.clone();
        same.auth_clients_user = self.auth_clients_user;
        same.required = self.required;
        same.proxies.clone_from(&self.proxies);
        same.trust_local_clients = self.trust_local_clients;
        same == *self
    }
}
