//! The suites and versions of TLS that are offered, chosen by the names that OpenSSL has for them.

use rustls::crypto::ring;
use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion, version};

use super::error::TlsError;
use crate::config::TlsSettings;

/// Suites of TLS 1.2, and the words of OpenSSL by which each is meant: its name, then its kinds.
const OLDER: [(CipherSuite, &[&str]); 6] = [
    (
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        &["ECDHE-ECDSA-AES256-GCM-SHA384", "ECDSA", "aECDSA", "AES", "AES256", "AESGCM", "FIPS"],
    ),
    (
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        &["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDSA", "aECDSA", "AES", "AES128", "AESGCM", "FIPS"],
    ),
    (
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        &["ECDHE-ECDSA-CHACHA20-POLY1305", "ECDSA", "aECDSA", "CHACHA20"],
    ),
    (
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        &["ECDHE-RSA-AES256-GCM-SHA384", "aRSA", "AES", "AES256", "AESGCM", "FIPS"],
    ),
    (
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        &["ECDHE-RSA-AES128-GCM-SHA256", "aRSA", "AES", "AES128", "AESGCM", "FIPS"],
    ),
    (
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        &["ECDHE-RSA-CHACHA20-POLY1305", "aRSA", "CHACHA20"],
    ),
];
/// Kinds that all of them are of.
const KINDS_OF_ALL: [&str; 8] = ["ALL", "DEFAULT", "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "TLSv1.2"];

/// The suites that are offered: those of TLS 1.3 and of TLS 1.2 that are named, in their order, or all.
pub(super) fn suites(tls: &TlsSettings) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let (newer, older) = (newer(&tls.ciphersuites)?, older(&tls.ciphers)?);
    let all = ring::default_provider().cipher_suites;
    let of = |wanted: CipherSuite| all.iter().copied().find(|suite| suite.suite() == wanted);
    Ok(newer.into_iter().chain(older).filter_map(of).collect())
}

/// Suites of TLS 1.3, parted by colons.
fn newer(said: &[u8]) -> Result<Vec<CipherSuite>, TlsError> {
    let said = String::from_utf8_lossy(said).into_owned();
    let known = [
        ("TLS_AES_256_GCM_SHA384", CipherSuite::TLS13_AES_256_GCM_SHA384),
        ("TLS_AES_128_GCM_SHA256", CipherSuite::TLS13_AES_128_GCM_SHA256),
        ("TLS_CHACHA20_POLY1305_SHA256", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    ];
    let mut wanted = Vec::new();
    for word in said.split(':').map(str::trim).filter(|word| !word.is_empty()) {
        let suite = known.iter().find(|(name, _)| *name == word).map(|(_, suite)| *suite);
        let suite = suite.ok_or_else(|| TlsError::Suite(word.to_owned()))?;
        if !wanted.contains(&suite) {
            wanted.push(suite);
        }
    }
    Ok(if wanted.is_empty() { known.map(|(_, suite)| suite).to_vec() } else { wanted })
}

/// Suites of TLS 1.2, by OpenSSL's rules for a list: words add what they mean, `-` takes it away, `!` for
/// good, `+` puts it last; `A+B` means what is of both kinds. Words that are not known mean nothing.
fn older(said: &[u8]) -> Result<Vec<CipherSuite>, TlsError> {
    let said = String::from_utf8_lossy(said).into_owned();
    let mut words = said.split([':', ',', ' ', ';']).filter(|word| !word.is_empty()).peekable();
    if words.peek().is_none() {
        return Ok(OLDER.map(|(suite, _)| suite).to_vec());
    }
    let (mut wanted, mut gone): (Vec<CipherSuite>, Vec<CipherSuite>) = (Vec::new(), Vec::new());
    for word in words {
        let (sign, kinds) = match word.split_at_checked(1) {
            Some((sign @ ("!" | "-" | "+" | "@"), kinds)) => (sign, kinds),
            _ => ("", word),
        };
        let meant: Vec<CipherSuite> =
            OLDER.iter().filter(|suite| is_meant(suite, kinds)).map(|(suite, _)| *suite).collect();
        match sign {
            // Levels of security, and orders: all there is is of the highest.
            "@" => {}
            "-" => wanted.retain(|suite| !meant.contains(suite)),
            "!" => {
                wanted.retain(|suite| !meant.contains(suite));
                gone.extend(meant);
            }
            "+" => wanted.sort_by_key(|suite| meant.contains(suite)),
            _ => {
                let is_new = |suite: &CipherSuite| !wanted.contains(suite) && !gone.contains(suite);
                let new: Vec<_> = meant.into_iter().filter(is_new).collect();
                wanted.extend(new);
            }
        }
    }
    if wanted.is_empty() { Err(TlsError::Ciphers) } else { Ok(wanted) }
}

fn is_meant((suite, words): &(CipherSuite, &[&str]), kinds: &str) -> bool {
    // The registered name, too.
    let is_of =
        |kind: &str| words.contains(&kind) || KINDS_OF_ALL.contains(&kind) || suite.as_str() == Some(kind);
    kinds.split('+').all(is_of)
}

/// The versions that are spoken.
pub(super) fn versions(tls: &TlsSettings) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let said = String::from_utf8_lossy(&tls.protocols).to_ascii_lowercase();
    let mut words = said.split_whitespace().peekable();
    if words.peek().is_none() {
        return Ok(vec![&version::TLS13, &version::TLS12]);
    }
    let mut wanted = Vec::new();
    for word in words {
        match word {
            "tlsv1.3" => wanted.push(&version::TLS13),
            "tlsv1.2" => wanted.push(&version::TLS12),
            // The configuration warns of them.
            "tlsv1" | "tlsv1.1" => {}
            _ => return Err(TlsError::Protocols),
        }
    }
    if wanted.is_empty() { Err(TlsError::Protocols) } else { Ok(wanted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(said: &str) -> Vec<&'static str> {
        let chosen = older(said.as_bytes()).unwrap_or_default();
        chosen
            .iter()
            .map(|suite| OLDER.iter().find(|(known, _)| known == suite).expect("known").1[0])
            .collect()
    }

    #[test]
    fn a_list_of_ciphers_means_what_it_means_to_openssl() {
        let all = OLDER.map(|(_, words)| words[0]);
        for said in ["", "DEFAULT", "ALL", "HIGH", "DEFAULT:!MEDIUM", "HIGH:!aNULL:!MD5", "ECDHE:@STRENGTH"] {
            assert_eq!(names(said), all, "{said}");
        }
        let [ec256, ec128, ec_chacha, rsa256, rsa128, rsa_chacha] = all;
        assert_eq!(names(&format!("{rsa128}:{ec256}")), [rsa128, ec256]);
        assert_eq!(names(&format!("{rsa128}:{rsa128},AES256-SHA {rsa128}")), [rsa128]);
        assert_eq!(names("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), [rsa128]);
        assert_eq!(
            names("ECDHE+AESGCM:ECDHE+CHACHA20"),
            [ec256, ec128, rsa256, rsa128, ec_chacha, rsa_chacha]
        );
        assert_eq!(names("aRSA+AES128"), [rsa128]);
        assert_eq!(names("ALL:!AES:AES"), [ec_chacha, rsa_chacha]);
        assert_eq!(names("CHACHA20:-aRSA:aRSA+AES256"), [ec_chacha, rsa256]);
        assert_eq!(names("aRSA:+AES256"), [rsa128, rsa_chacha, rsa256]);
    }

    #[test]
    fn a_list_that_leaves_nothing_is_refused() {
        for said in ["RC4-SHA", "AES256-SHA:DHE-RSA-AES256-GCM-SHA384", "ALL:!ALL", "!AES", "é", "@STRENGTH"]
        {
            assert!(matches!(older(said.as_bytes()), Err(TlsError::Ciphers)), "{said}");
        }
        assert!(matches!(newer(b"TLS_AES_128_CCM_SHA256"), Err(TlsError::Suite(_))));
        let named = newer(b"TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256").expect("known");
        assert_eq!(
            named,
            [CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, CipherSuite::TLS13_AES_128_GCM_SHA256]
        );
        assert_eq!(newer(b"").expect("all").len(), 3);
    }

    #[test]
    fn every_suite_that_is_named_is_there() {
        let all = suites(&TlsSettings::default()).expect("all");
        assert_eq!(all.len(), ring::default_provider().cipher_suites.len());
    }
}
