//! Reads the files of certificates, and makes of them what each port is encrypted with.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use super::chains::ShortChains;
use super::error::TlsError;
use super::keys::key_of;
use super::names;
use super::sessions::Sessions;
use super::suites::{suites, versions};
use crate::config::{AuthClients, Config, TlsSettings};
use crate::net::listen::Service;

/// Bytes that a file may have: many authorities, or a long list of what is revoked.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Files that a directory of authorities may have.
const DIRECTORY_FILES_MAX: usize = 1000;
/// Tickets to resume by that a client gets with a handshake.
const TICKETS: usize = 1;
/// Begins a certificate.
const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
/// Opens what is no file without a wait.
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

/// A certificate of the server, and the rules of a port for handshakes by it.
#[derive(Debug)]
pub struct Identity {
    /// The rules of handshakes.
    pub config: Arc<ServerConfig>,
    /// The certificates of the server, as PEM.
    pub pem: Arc<[u8]>,
    /// When the server's certificate ends, as Unix time in seconds; 0: it does not say so legibly.
    pub ends_unix_s: i64,
    /// Its number, in hexadecimal.
    pub number: String,
    sessions: Option<Arc<Sessions>>,
}

impl Identity {
    /// Whether the server's certificate has ended, so that clients refuse it.
    pub(super) fn has_ended(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.ends_unix_s != 0 && self.ends_unix_s < i64::try_from(now).unwrap_or(i64::MAX)
    }

    /// Another one has taken its place.
    pub(super) fn retire(&self) {
        if let Some(sessions) = &self.sessions {
            sessions.end();
        }
    }
}

/// The stamp of a file, which changes with it; `None`: it is not there.
pub(super) type Stamp = (PathBuf, Option<(u64, u64, [i64; 4])>);

/// The identity that each service is encrypted by; `None`: it is not.
pub(super) type Identities = Vec<(Service, Option<Arc<Identity>>)>;

/// The files that were read.
struct Material {
    certificate: PathBuf,
    key: PathBuf,
    pem: Arc<[u8]>,
    certificates: Vec<CertificateDer<'static>>,
    secret: PrivateKeyDer<'static>,
    authorities: Arc<RootCertStore>,
    revocations: Vec<CertificateRevocationListDer<'static>>,
}

/// The stamps of all files that a configuration names.
pub(super) fn stamps(config: &Config) -> Vec<Stamp> {
    let tls = &config.tls;
    let named = [&tls.cert_file, &tls.key_file, &tls.ca_cert_file, &tls.ca_cert_dir, &tls.crl_file];
    let mut paths: Vec<PathBuf> = named.into_iter().filter_map(|path| config.below_dir(path)).collect();
    if let Some(directory) = config.below_dir(&tls.ca_cert_dir) {
        paths.extend(files_of(&directory).unwrap_or_default());
    }
    let stamp = |path: PathBuf| {
        let told = fs::metadata(&path).ok();
        let times = |told: &fs::Metadata| [told.mtime(), told.mtime_nsec(), told.ctime(), told.ctime_nsec()];
        let stamp = told.map(|told| (told.ino(), told.len(), times(&told)));
        (path, stamp)
    };
    paths.into_iter().map(stamp).collect()
}

/// The identity that each service is encrypted by.
pub(super) fn identities(config: &Config) -> Result<Identities, TlsError> {
    let tls = &config.tls;
    let pair = [&tls.cert_file, &tls.key_file].map(|path| config.below_dir(path));
    let [certificate, key] = match pair {
        [Some(certificate), Some(key)] => [certificate, key],
        [None, None] => {
            let sql = config.sql_port != 0 && tls.sql_auth_clients == AuthClients::Yes;
            let asks =
                [(tls.port != 0, "tls-port"), (tls.metrics, "metrics-tls"), (sql, "sql-tls-auth-clients")];
            return match asks.into_iter().find(|(asks, _)| *asks) {
                Some((_, directive)) => Err(TlsError::NoPair { directive }),
                None => Ok(Service::ALL.map(|service| (service, None)).to_vec()),
            };
        }
        _ => return Err(TlsError::HalfPair),
    };
    let material = read(config, certificate, key)?;
    let make = |service: Service| -> Result<(Service, Option<Arc<Identity>>), TlsError> {
        let wanted = match service {
            Service::Redis => None,
            Service::RedisTls => (tls.port != 0).then_some(("tls-auth-clients", tls.auth_clients)),
            Service::Metrics => tls.metrics.then_some(("metrics-tls-auth-clients", tls.metrics_auth_clients)),
            Service::Sql => Some(("sql-tls-auth-clients", tls.sql_auth_clients)),
        };
        let identity =
            wanted.map(|(directive, auth)| identity(&material, tls, directive, auth)).transpose()?;
        Ok((service, identity.map(Arc::new)))
    };
    Service::ALL.into_iter().map(make).collect()
}

fn read(config: &Config, certificate: PathBuf, key: PathBuf) -> Result<Material, TlsError> {
    let pem: Arc<[u8]> = bytes_of(&certificate)?.into();
    let certificates = certificates_of(&pem, &certificate)?;
    let secret = key_of(&bytes_of(&key)?, &key, &config.tls.key_file_pass)?;
    let tls = &config.tls;
    let mut files: Vec<PathBuf> = config.below_dir(&tls.ca_cert_file).into_iter().collect();
    if let Some(directory) = config.below_dir(&tls.ca_cert_dir) {
        files.extend(files_of(&directory)?);
    }
    let mut authorities = RootCertStore::empty();
    for file in files {
        let is_named = config.below_dir(&tls.ca_cert_file).as_ref() == Some(&file);
        match certificates_of(&bytes_of(&file)?, &file) {
            Ok(found) => {
                // rustls would take any: then its owner could make certificates of any name.
                let (signing, others): (Vec<_>, Vec<_>) = found.into_iter().partition(names::may_sign);
                if !others.is_empty() {
                    tracing::warn!(
                        "{} has certificates that may not sign others ({}): no client's is checked by these",
                        file.display(),
                        others.len()
                    );
                }
                for certificate in signing {
                    authorities.add(certificate).map_err(TlsError::Authority)?;
                }
            }
            // A directory may have other files.
            Err(TlsError::NoCertificate(_)) if !is_named => {}
            Err(error) => return Err(error),
        }
    }
    let revocations = match config.below_dir(&tls.crl_file) {
        Some(path) => revocations_of(&bytes_of(&path)?, &path)?,
        None => Vec::new(),
    };
    let authorities = Arc::new(authorities);
    Ok(Material { certificate, key, pem, certificates, secret, authorities, revocations })
}

fn certificates_of(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    if found.is_err() && pem.windows(BEGIN.len()).any(|word| word == BEGIN) {
        return Err(TlsError::BadCertificate(path.to_owned()));
    }
    let found = found.unwrap_or_default();
    if found.is_empty() { Err(TlsError::NoCertificate(path.to_owned())) } else { Ok(found) }
}

fn revocations_of(pem: &[u8], path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
    let found = found.unwrap_or_default();
    if found.is_empty() { Err(TlsError::NoRevocations(path.to_owned())) } else { Ok(found) }
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    // A pipe would wait for who writes.
    let file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("it is no regular file")));
    }
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(TlsError::TooLarge(path.to_owned()));
    }
    Ok(bytes)
}

/// The files in a directory, in the order of their names.
fn files_of(directory: &Path) -> Result<Vec<PathBuf>, TlsError> {
    let failed = |source: io::Error| TlsError::Read { path: directory.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_file() {
            files.push(path);
        }
        if files.len() > DIRECTORY_FILES_MAX {
            return Err(TlsError::TooLarge(directory.to_owned()));
        }
    }
    files.sort();
    Ok(files)
}

fn identity(
    material: &Material,
    tls: &TlsSettings,
    directive: &'static str,
    auth: AuthClients,
) -> Result<Identity, TlsError> {
    let provider = CryptoProvider { cipher_suites: suites(tls)?, ..ring::default_provider() };
    let provider = Arc::new(provider);
    let verifier = verifier(material, &provider, directive, auth)?;
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions(tls)?)
        .map_err(TlsError::Nothing)?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let built = builder.with_single_cert(material.certificates.clone(), material.secret.clone_key());
    let mut config = built.map_err(|source| TlsError::Unusable {
        certificate: material.certificate.clone(),
        key: material.key.clone(),
        source,
    })?;
    config.ignore_client_order = tls.prefer_server_ciphers;
    // Resumed sessions would outlive certificates of clients: nothing checks them again.
    let may_resume = tls.session_caching && auth == AuthClients::No;
    let sessions = may_resume.then(|| {
        let lifetime = Duration::from_secs(tls.session_cache_timeout_s);
        Arc::new(Sessions::new(tls.session_cache_size, lifetime))
    });
    match &sessions {
        Some(sessions) => config.session_storage = sessions.clone(),
        None => config.session_storage = Arc::new(NoServerSessionStorage {}),
    }
    config.send_tls13_tickets = if may_resume { TICKETS } else { 0 };
    let told = material.certificates.first().and_then(names::end_and_number);
    let (ends_unix_s, number) = told.unwrap_or_default();
    Ok(Identity { config: Arc::new(config), pem: material.pem.clone(), ends_unix_s, number, sessions })
}

/// The check of the certificates of clients; `None`: they are asked for none.
fn verifier(
    material: &Material,
    provider: &Arc<CryptoProvider>,
    directive: &'static str,
    auth: AuthClients,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    if auth == AuthClients::No {
        return Ok(None);
    }
    if material.authorities.is_empty() {
        return Err(TlsError::NoAuthorities { directive, value: auth.name() });
    }
    let mut builder =
        WebPkiClientVerifier::builder_with_provider(material.authorities.clone(), provider.clone());
    if !material.revocations.is_empty() {
        builder = builder.with_crls(material.revocations.iter().cloned()).only_check_end_entity_revocation();
    }
    if auth == AuthClients::Optional {
        builder = builder.allow_unauthenticated();
    }
    Ok(Some(Arc::new(ShortChains(builder.build()?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_torn_is_told_apart_from_none() {
        let read = |pem: &str| certificates_of(pem.as_bytes(), Path::new("some.pem"));
        for none in ["", "# a note", "-----BEGIN", "-----BEGIN X-----\nAAAA\n-----END X-----\n"] {
            assert!(matches!(read(none), Err(TlsError::NoCertificate(_))), "{none:?}");
        }
        let whole = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(read(whole).map(|found| found.len()).ok(), Some(1));
        for torn in ["-----BEGIN CERTIFICATE-----\nAAAA\n", "-----BEGIN CERTIFICATE-----\n"] {
            for torn in [torn.to_owned(), format!("{whole}{torn}")] {
                assert!(matches!(read(&torn), Err(TlsError::BadCertificate(_))), "{torn:?}");
            }
        }
    }
}
