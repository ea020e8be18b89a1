//! The chains that clients may show. To verify one may take a hundred signatures, on the thread that serves
//! the connection, and rustls takes 64 KB of them from strangers.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// Certificates between the client's and the authority's: two are usual.
const BETWEEN_MAX: usize = 7;
/// Bytes of a chain.
const CHAIN_BYTES_MAX: usize = 16 << 10;

/// Verifies chains, unless they are too long.
#[derive(Debug)]
pub(super) struct ShortChains(pub(super) Arc<dyn ClientCertVerifier>);

/// Whether a chain is longer than any that is needed.
fn is_too_long(end_entity: &CertificateDer<'_>, between: &[CertificateDer<'_>]) -> bool {
    let bytes = end_entity.len() + between.iter().map(|certificate| certificate.len()).sum::<usize>();
    between.len() > BETWEEN_MAX || bytes > CHAIN_BYTES_MAX
}

impl ClientCertVerifier for ShortChains {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if is_too_long(end_entity, intermediates) {
            return Err(Error::General("the client shows too many certificates".to_owned()));
        }
        self.0.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_chains_are_refused_before_a_signature_is_looked_at() {
        let of = |bytes: usize| CertificateDer::from(vec![0u8; bytes]);
        assert!(!is_too_long(&of(2000), &[]));
        assert!(!is_too_long(&of(2000), &vec![of(2000); BETWEEN_MAX]));
        assert!(is_too_long(&of(1), &vec![of(1); BETWEEN_MAX + 1]));
        assert!(is_too_long(&of(CHAIN_BYTES_MAX), &[of(1)]));
        assert!(is_too_long(&of(CHAIN_BYTES_MAX + 1), &[]));
    }
}
