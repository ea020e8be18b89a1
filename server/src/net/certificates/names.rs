//! Names, times and numbers in certificates.

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

use crate::config::CertificateUser;

/// Bytes that the name of a user has at most.
const NAME_BYTES_MAX: usize = 255;

/// The user that a client's certificate names, where that part of it is to name one. REQUIRES: the
/// certificate has been verified in a handshake.
///
/// `None`: the part is missing, there are several common names, or it is no name: empty, too long, or with
/// blanks or control characters in it. The caller looks whether there is such a user, and may log it in;
/// else the client is as one without a certificate.
pub fn user_of(certificate: &CertificateDer<'_>, part: CertificateUser) -> Option<String> {
    let parsed = parse(certificate)?;
    let name = match part {
        CertificateUser::Off => return None,
        CertificateUser::CommonName => {
            let mut names = parsed.subject().iter_common_name();
            let first = names.next()?.as_str().ok()?;
            if names.next().is_some() {
                return None;
            }
            first.to_owned()
        }
        CertificateUser::Uri => {
            let others = parsed.subject_alternative_name().ok()??;
            let uri = others.value.general_names.iter().find_map(|name| match name {
                GeneralName::URI(uri) => Some((*uri).to_owned()),
                _ => None,
            });
            uri?
        }
    };
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    (!name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(is_odd)).then_some(name)
}

/// When a certificate ends, as Unix time in seconds, and its number in hexadecimal.
pub(super) fn end_and_number(certificate: &CertificateDer<'_>) -> Option<(i64, String)> {
    let parsed = parse(certificate)?;
    let number = parsed.raw_serial().iter().map(|byte| format!("{byte:02x}")).collect();
    Some((parsed.validity().not_after.timestamp(), number))
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    parse_x509_certificate(certificate.as_ref()).ok().map(|(_, parsed)| parsed)
}
