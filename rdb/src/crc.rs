//! The checksum of the format: CRC-64 with Jones's polynomial, reflected, from 0 and without a final turn.

use crc_fast::{CrcAlgorithm, Digest};

/// A checksum that is updated with the bytes that are read or written.
pub(crate) struct Crc(Digest);

impl Crc {
    pub(crate) fn new() -> Crc {
        Crc(Digest::new(CrcAlgorithm::Crc64Redis))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.0.update(bytes);
        }
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.finalize()
    }
}

/// The checksum of some bytes.
pub fn crc64(bytes: &[u8]) -> u64 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(crc64(b""), 0);
    }

    #[test]
    fn pieces_have_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..1000).map(|n| (n * 7 % 251) as u8).collect();
        for len in [1, 3, 64, 999] {
            let mut crc = Crc::new();
            bytes.chunks(len).for_each(|piece| crc.update(piece));
            assert_eq!(crc.value(), crc64(&bytes), "pieces of {len}");
        }
    }
}
