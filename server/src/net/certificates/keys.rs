//! The key of the server's certificate, which may want a passphrase.

use std::path::Path;

use pkcs8::{EncryptedPrivateKeyInfoRef, Error, pkcs5};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::pem::Pem;

use super::error::TlsError;

/// The label of a key with a passphrase.
const LOCKED: &str = "ENCRYPTED PRIVATE KEY";
/// Stands in a file of a key with a passphrase in OpenSSL's former format, which hardly protects it.
const LOCKED_BEFORE: &[u8] = b"Proc-Type: 4,ENCRYPTED";

/// The first key in a file, which is named for errors. A key with a passphrase is opened by it; others do
/// not need it.
pub(super) fn key_of(pem: &[u8], path: &Path, passphrase: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    if let Ok(key) = PrivateKeyDer::from_pem_slice(pem) {
        return Ok(key);
    }
    let path = path.to_owned();
    let Some(locked) = Pem::iter_from_buffer(pem).flatten().find(|section| section.label == LOCKED) else {
        let is_locked = pem.windows(LOCKED_BEFORE.len()).any(|word| word == LOCKED_BEFORE);
        return Err(if is_locked { TlsError::FormerKey(path) } else { TlsError::NoKey(path) });
    };
    if passphrase.is_empty() {
        return Err(TlsError::LockedKey(path));
    }
    let Ok(locked) = EncryptedPrivateKeyInfoRef::try_from(&*locked.contents) else {
        return Err(TlsError::FormerKey(path));
    };
    let opened = locked.decrypt(passphrase).map_err(|source| match source {
        // As OpenSSL wrote keys before 1.1.
        Error::EncryptedPrivateKey(
            pkcs5::Error::UnsupportedAlgorithm { .. } | pkcs5::Error::NoPbes1CryptSupport,
        ) => TlsError::FormerKey(path),
        source => TlsError::Passphrase { path, source },
    })?;
    Ok(PrivatePkcs8KeyDer::from(opened.as_bytes().to_vec()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    // A key for tests, as OpenSSL 3 writes it without a passphrase, and with the passphrase "open".
    const PLAIN: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgSzSQsGVSFJ+hObh3
sIKbU+YxKan9slCA2lbQqA+7WxmhRANCAAROHUV5mE8nC4W86E2hiWfWHtT/LW1T
KYH8AalB+iwjz2XKnzYIf5d5maaWgmzsMtXQHJoRW111gfMYYlQwmmRQ
-----END PRIVATE KEY-----
";
    const BY_PBKDF2: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgYdTeuU/QOuwICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEMOJuk4+ckwCvFWY1YjpBaMEgZC6
P7JXZTbTxbWpEMa3OH+hrSyLqOcAFITVCBjEQb7iu3Uu8Ran4NoXsmmYfnlSRkTv
J54bG8zty9UO0S+9UNhL2PaD6zhxG2jwkc1goqrOxls6DAPZU2SXSrzwPODeWGTv
JNjXxn6+zrmqG2JnshbwCKSw2lo1slCOOm5SrQT7fknQGcZC4+5u6/xhI6lCS6A=
-----END ENCRYPTED PRIVATE KEY-----
";
    const BY_SCRYPT: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHkME8GCSqGSIb3DQEFDTBCMCEGCSsGAQQB2kcECzAUBAgcgdxOSp2FTwICQAAC
AQgCAQEwHQYJYIZIAWUDBAEqBBAeGPZkbP6wOK9Lwb7uxyC8BIGQiCOf2Qk0WB6l
qN7p+PmBSDPvw/NCKtNOcjcOaGuw2O/E7mPpv5G/kK/1pHudOg0rbc0cExv2/TIL
2oVysRHOUD0HQx8Q/DU8UZWCrDaq6t/JoUJPAMXgWWi8RD32k9zu2PwV5SqGKGb5
xCuu/qFD8QnUFzQ4F+LWfPTqR0zZ4vGVxQj/7DWMbf0AcBGqMDIh
-----END ENCRYPTED PRIVATE KEY-----
";

    // As 'openssl req' does it by itself.
    const BY_TRIPLE_DES: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHjME4GCSqGSIb3DQEFDTBBMCkGCSqGSIb3DQEFDDAcBAhewBVDygpd7gICCAAw
DAYIKoZIhvcNAgkFADAUBggqhkiG9w0DBwQIKnYOAMMZwUgEgZABCVmQkDAMQFhu
sytbJg0u2wfkK5njlbJbHxYm9ljkDQ7NACwa45N5Rc6HIRpgDHoWXTJsMth+GRlg
Z/o84bscC7WjSJu7er7BDyvkeP9bv+YlYI4/9hiC/K6PwFQmIs+VVrRV3mUhjNBq
vQnVqNbbDBGvjnsA50Vao8DByXoRf39kD3sKPqkRQPofCkkDbZg=
-----END ENCRYPTED PRIVATE KEY-----
";

    // As OpenSSL did it before 1.1, with and without PBES2.
    const BY_SHA_1: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHeMEkGCSqGSIb3DQEFDTA8MBsGCSqGSIb3DQEFDDAOBAh8ixYEZ2Z/8gICCAAw
HQYJYIZIAWUDBAEqBBATlesqTbRAiNfz5NrXPDRZBIGQp0JnVm9wOIzB5Zgp4d1M
rYa9zIacGutsv97WuDmAhXrkoLQldnVQMzSPVuygTrqAez290XTjtqlQaSyqBugr
Cy0wSiM3Ky5LiVtx9qDyMC0pXY7V6SQuhjLkkhCAo167tBl2rRyqaKja/K4okfyo
HQkdxnYDSxtavHReYK8m7psRet0wNaerlGX0BAZBF5uj
-----END ENCRYPTED PRIVATE KEY-----
";
    const BY_PBES_1: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----
MIGxMBwGCiqGSIb3DQEMAQMwDgQISgKyIh93vyoCAggABIGQXXBh1IEApIWvvYTm
XQPtiDNAP4Fez2qVz7eDBisa1fq22TQLpiQ34Ruy3zYXh/dHDbsdjPHLS/Q/89iR
UpLnkGQlEmmJ1VodXm05vkLctj/yh+ILjVf3WrQoIm/iHJrgVrzNpYjh1JDT7/t1
ty4AIms+S9Qz+IM346V7guJ/cOwPe+EBEuQSpThPproJXti6
-----END ENCRYPTED PRIVATE KEY-----
";

    fn key(pem: &str, passphrase: &str) -> Result<PrivateKeyDer<'static>, TlsError> {
        key_of(pem.as_bytes(), Path::new("key.pem"), passphrase.as_bytes())
    }

    #[test]
    fn a_passphrase_opens_its_key_and_no_other_does() {
        let plain = key(PLAIN, "").expect("it needs none");
        assert_eq!(key(PLAIN, "any").expect("it needs none"), plain);
        for locked in [BY_PBKDF2, BY_SCRYPT, BY_TRIPLE_DES] {
            assert_eq!(key(locked, "open").expect("it is the passphrase"), plain);
            let behind_others = format!("# A key.\n-----BEGIN X-----\n-----END X-----\n{locked}");
            assert_eq!(key(&behind_others, "open").expect("it is the passphrase"), plain);
            for wrong in ["Open", "open ", "\0"] {
                let refused = key(locked, wrong);
                assert!(matches!(refused, Err(TlsError::Passphrase { .. })), "{wrong:?}: {refused:?}");
            }
            assert!(matches!(key(locked, ""), Err(TlsError::LockedKey(_))));
        }
    }

    #[test]
    fn what_is_no_key_is_told_apart_from_one_of_the_former_format() {
        let former = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n\
                      AAAA\n-----END EC PRIVATE KEY-----\n";
        for former in [former, BY_SHA_1, BY_PBES_1] {
            assert!(matches!(key(former, "open"), Err(TlsError::FormerKey(_))), "{former}");
        }
        for none in ["", "-----BEGIN", "-----BEGIN X-----\nAAAA\n-----END X-----\n"] {
            assert!(matches!(key(none, "open"), Err(TlsError::NoKey(_))), "{none:?}");
        }
        let torn = &BY_PBKDF2[..100];
        assert!(matches!(key(torn, "open"), Err(TlsError::NoKey(_))));
        let empty = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n";
        assert!(matches!(key(empty, "open"), Err(TlsError::FormerKey(_))));
    }
}
