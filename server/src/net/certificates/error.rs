//! Why connections cannot be encrypted.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why connections cannot be encrypted. One line, without secrets.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file is not there, or may not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file, or the directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The thread that reads the files has failed.
    #[error("the files were not read; earlier messages say why")]
    NoReader,
    /// A file, or a directory, is far too large.
    #[error("{} is too large to hold certificates", .0.display())]
    TooLarge(PathBuf),
    /// A file holds no certificate.
    #[error(
        "{} holds no certificate; it takes the server's own and those that it was signed with, as PEM",
        .0.display()
    )]
    NoCertificate(PathBuf),
    /// A file holds one that cannot be read.
    #[error("{} holds a certificate that is not whole, or no PEM", .0.display())]
    BadCertificate(PathBuf),
    /// A file holds no key.
    #[error("{} holds no private key as PEM", .0.display())]
    NoKey(PathBuf),
    /// A file holds a key that wants a passphrase.
    #[error("{} holds a key with a passphrase: name that with tls-key-file-pass", .0.display())]
    LockedKey(PathBuf),
    /// The same, in a format that is not read.
    #[error(
        "{} holds a key with a passphrase in a format that is not read, a former one most likely; \
         'openssl pkcs8 -topk8' writes today's",
        .0.display()
    )]
    FormerKey(PathBuf),
    /// A key is not opened by its passphrase.
    #[error("the key of {} is not opened by tls-key-file-pass: {source}", path.display())]
    Passphrase {
        /// The file of the key.
        path: PathBuf,
        /// Why: another passphrase, most likely.
        source: pkcs8::Error,
    },
    /// A certificate and a key are refused together.
    #[error(
        "the certificate of {} and the key of {} cannot be used: {source}",
        certificate.display(), key.display()
    )]
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// One file is of no use without the other.
    #[error("of tls-cert-file and tls-key-file both are needed, or none of them")]
    HalfPair,
    /// A port cannot be encrypted without them.
    #[error("of tls-cert-file and tls-key-file both are needed for {directive}")]
    NoPair {
        /// The directive that asks for encryption.
        directive: &'static str,
    },
    /// The certificates of clients cannot be checked.
    #[error(
        "'{directive} {value}' needs the certificates of those who sign the clients', which say that they \
         may (CA:TRUE): name them with tls-ca-cert-file or tls-ca-cert-dir, or say '{directive} no'"
    )]
    NoAuthorities {
        /// The directive that asks for certificates.
        directive: &'static str,
        /// Its value.
        value: &'static str,
    },
    /// A certificate of those who sign the clients' cannot be used.
    #[error("a certificate of tls-ca-cert-file or tls-ca-cert-dir cannot be used: {0}")]
    Authority(rustls::Error),
    /// A file holds no revocation list.
    #[error("{} holds no list of revoked certificates as PEM", .0.display())]
    NoRevocations(PathBuf),
    /// Certificates of clients cannot be checked by these.
    #[error("the certificates of clients cannot be checked: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// No version of TLS is left.
    #[error("tls-protocols takes TLSv1.2 and TLSv1.3, parted by spaces")]
    Protocols,
    /// A suite is not known.
    #[error("tls-ciphersuites: {0:?} is not known; docs/configuration.md lists those that are")]
    Suite(String),
    /// No cipher of TLS 1.2 is left.
    #[error("tls-ciphers leaves none; docs/configuration.md lists those that there are")]
    Ciphers,
    /// Neither goes with the other.
    #[error("tls-protocols and tls-ciphersuites leave nothing: {0}")]
    Nothing(rustls::Error),
}
