//! Encrypts the connections of clients that ask for it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use datafusion_postgres::pgwire::tokio::TlsAcceptor;
use datafusion_postgres::pgwire::tokio::tokio_rustls::rustls::{self, ServerConfig, crypto};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tarn_engine::lock::Mutex;
use thiserror::Error;

/// Why connections cannot be encrypted.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file is not there, or may not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds no certificate.
    #[error("{0} holds no certificate; it takes the server's own and those that it was signed with, as PEM")]
    NoCertificate(PathBuf),
    /// A file holds no key, or one that wants a passphrase.
    #[error("{0} holds no private key as PEM; if it has a passphrase, 'openssl pkey' writes one without")]
    NoKey(PathBuf),
    /// They are refused together.
    #[error("the certificate of {certificate} and the key of {key} cannot be used: {source}")]
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

/// The certificate of the server, and its key. They are read again when a file of them changes, so that a
/// certificate can be renewed while the server runs.
#[derive(Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    read: Mutex<Read>,
}

/// The identity that was read, and the state of both files then. A refused state does not change the
/// identity.
struct Read {
    state: [Option<FileState>; 2],
    identity: Identity,
}

/// The stamp of a file, which changes with it: when it was written, and how long it is.
type FileState = (SystemTime, u64);

/// The certificate and the acceptor that a connection is encrypted with.
#[derive(Clone)]
pub struct Identity {
    /// Shakes hands.
    pub acceptor: TlsAcceptor,
    /// The certificates, as PEM.
    pub pem: Arc<[u8]>,
}

impl Tls {
    /// Of these files, which must be usable.
    pub fn open(certificate: PathBuf, key: PathBuf) -> Result<Tls, TlsError> {
        let state = states(&certificate, &key);
        let identity = read(&certificate, &key)?;
        Ok(Tls { certificate, key, read: Mutex::new(Read { state, identity }) })
    }

    /// The identity that the next connection is encrypted with.
    pub fn identity(&self) -> Identity {
        let state = states(&self.certificate, &self.key);
        let mut known = self.read.lock();
        if known.state != state {
            known.state = state;
            match read(&self.certificate, &self.key) {
                Ok(identity) => {
                    known.identity = identity;
                    tracing::info!("The certificate of {} was read again", self.certificate.display());
                }
                Err(error) => {
                    tracing::warn!("SQL keeps the certificate that it has: {error}");
                }
            }
        }
        known.identity.clone()
    }
}

impl std::fmt::Debug for Read {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Read").field("state", &self.state).finish_non_exhaustive()
    }
}

fn states(certificate: &Path, key: &Path) -> [Option<FileState>; 2] {
    [certificate, key].map(|path| {
        let told = fs::metadata(path).ok()?;
        Some((told.modified().ok()?, told.len()))
    })
}

fn read(certificate: &Path, key: &Path) -> Result<Identity, TlsError> {
    let bytes_of =
        |path: &Path| fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source });
    let pem: Arc<[u8]> = bytes_of(certificate)?.into();
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|_| TlsError::NoCertificate(certificate.to_owned()))?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate(certificate.to_owned()));
    }
    let secret =
        PrivateKeyDer::from_pem_slice(&bytes_of(key)?).map_err(|_| TlsError::NoKey(key.to_owned()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, secret))
        .map_err(|source| TlsError::Unusable {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            source,
        })?;
    Ok(Identity { acceptor: TlsAcceptor::from(Arc::new(config)), pem })
}
