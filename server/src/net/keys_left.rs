//! Records that the keys of a connection may still encrypt.
//!
//! TLS 1.2 makes no new keys for a connection that lasts, and by one key of AES-GCM no more than 2^24 records
//! should be encrypted. Behind them rustls takes what it is given, sends a goodbye in its place, and tells of
//! no error. So a connection ends before: it reads no more, and answers what it has read.

use rustls::{ServerConnection, SupportedCipherSuite};

/// Bytes that a record carries, at most.
const RECORD_BYTES_MAX: usize = 16 << 10;
/// Records that are kept for answers to what was read: 2 GB of them.
const RECORDS_KEPT: u64 = 1 << 17;
/// Records that rustls sends by itself: the end of the handshake, and alerts.
const RECORDS_OF_RUSTLS: u64 = 64;

/// So many records may be encrypted yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeysLeft(u64);

impl KeysLeft {
    /// As many as anybody sends.
    pub(super) const UNLIMITED: KeysLeft = KeysLeft(u64::MAX);

    /// Those of a session whose handshake is done.
    pub(super) fn of(session: &ServerConnection) -> KeysLeft {
        match session.negotiated_cipher_suite() {
            Some(SupportedCipherSuite::Tls12(suite)) => KeysLeft::within(suite.common.confidentiality_limit),
            // In TLS 1.3 rustls makes new keys in time.
            _ => KeysLeft::UNLIMITED,
        }
    }

    /// Those within a limit for all records of a connection.
    pub(super) fn within(limit: u64) -> KeysLeft {
        KeysLeft(limit.saturating_sub(RECORDS_OF_RUSTLS))
    }

    /// Whether the connection is to end.
    pub(super) fn is_low(self) -> bool {
        self.0 <= RECORDS_KEPT
    }

    /// Takes the records of so many bytes. `false`: there are not so many left.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let records = bytes.div_ceil(RECORD_BYTES_MAX) as u64;
        let left = self.0.checked_sub(records);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_run_low_before_they_are_used_up() {
        let mut keys = KeysLeft::within(RECORDS_OF_RUSTLS + RECORDS_KEPT + 3);
        assert!(!keys.is_low());
        assert!(keys.take(1) && keys.take(RECORD_BYTES_MAX) && !keys.is_low());
        assert!(keys.take(0) && !keys.is_low());
        assert!(keys.take(1) && keys.is_low());
        for _ in 0..RECORDS_KEPT - 1 {
            assert!(keys.take(1));
        }
        assert!(!keys.take(RECORD_BYTES_MAX + 1), "that is two");
        assert!(keys.take(RECORD_BYTES_MAX) && !keys.take(1));
        assert!(!KeysLeft::UNLIMITED.is_low() && !KeysLeft::within(1 << 24).is_low());
        assert!(KeysLeft::within(0).is_low());
    }
}
