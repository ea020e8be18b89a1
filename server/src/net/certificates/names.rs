//! Names, times, numbers and rights in certificates.

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;
use x509_parser::x509::X509Version;

use crate::config::CertificateUser;

/// The users that a client's certificate names in that part of it, in the order in which they are to be
/// looked for: one common name, or URIs of the subject's other names.
///
/// Empty: the part is missing or is no text, or there are several common names, of which none is the one.
/// A name may have any characters; no user has blanks or a NUL in its name.
pub fn names_of(certificate: &CertificateDer<'_>, part: CertificateUser) -> Vec<String> {
    let read = |names: fn(&X509Certificate<'_>) -> Vec<String>| parse(certificate).as_ref().map(names);
    let names = match part {
        CertificateUser::Off => None,
        CertificateUser::CommonName => read(common_name),
        CertificateUser::Uri => read(uris),
    };
    names.unwrap_or_default().into_iter().filter(|name| !name.is_empty()).collect()
}

fn common_name(parsed: &X509Certificate<'_>) -> Vec<String> {
    let mut names = parsed.subject().iter_common_name();
    match (names.next(), names.next()) {
        (Some(name), None) => name.as_str().map(str::to_owned).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn uris(parsed: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(others)) = parsed.subject_alternative_name() else { return Vec::new() };
    let uri = |name: &GeneralName<'_>| match name {
        GeneralName::URI(uri) => Some((*uri).to_owned()),
        _ => None,
    };
    others.value.general_names.iter().filter_map(uri).collect()
}

/// Whether a certificate says that its owner may sign those of others, as OpenSSL asks for it. Of version 1,
/// which cannot say so, those that sign themselves may.
pub(super) fn may_sign(certificate: &CertificateDer<'_>) -> bool {
    let Some(parsed) = parse(certificate) else { return false };
    let is_authority = match parsed.basic_constraints() {
        Ok(Some(constraints)) => constraints.value.ca,
        Ok(None) => parsed.version() == X509Version::V1 && parsed.subject() == parsed.issuer(),
        Err(_) => false,
    };
    let signs = match parsed.key_usage() {
        Ok(Some(usage)) => usage.value.key_cert_sign(),
        Ok(None) => true,
        Err(_) => false,
    };
    is_authority && signs
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
