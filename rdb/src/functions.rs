//! Libraries of functions by themselves, in the form of `FUNCTION DUMP` and `FUNCTION RESTORE`.
//!
//! ```text
//!   | 245 | source | 245 | source | … | version, u16 little-endian | checksum of all before, u64 |
//! ```

use crate::error::Damage;
use crate::format::{VERSION_WITH_FUNCTIONS, op};
use crate::payload::{self, PayloadError};
use crate::sink::Sink;
use crate::source::{BUFFER_BYTES, Source, damaged};

/// Bytes of all sources of a payload, at most: it may be compressed.
const BYTES_MAX: usize = 256 << 20;

/// The payload of libraries with these sources.
pub fn write<'s>(sources: impl Iterator<Item = &'s [u8]>) -> Vec<u8> {
    let mut sink = Sink::new(Vec::new());
    let written = (|| {
        for source in sources {
            sink.bytes(&[op::FUNCTION2])?;
            sink.string(source)?;
        }
        sink.bytes(&VERSION_WITH_FUNCTIONS.to_le_bytes())?;
        sink.finish()
    })();
    written.expect("a vector takes whatever is written to it")
}

/// The sources of the libraries of a payload.
pub fn read(payload: &[u8]) -> Result<Vec<Vec<u8>>, PayloadError> {
    let (body, _) = payload::body(payload, true)?;
    let mut source = Source::new(body, body.len().min(BUFFER_BYTES));
    let (mut libraries, mut bytes) = (Vec::new(), 0);
    while !source.is_at_end()? {
        let offset = source.offset();
        let number = source.byte("a library")?;
        if number != op::FUNCTION2 {
            return Err(PayloadError::Value(damaged(offset, Damage::Type(number))));
        }
        let mut library = Vec::new();
        source.string(&mut library)?;
        bytes += library.len();
        if bytes > BYTES_MAX {
            return Err(PayloadError::Long);
        }
        libraries.push(library);
    }
    Ok(libraries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_come_back_and_damage_is_refused() {
        let sources: [&[u8]; 2] = [b"#!lua name=a\n", &[b'x'; 100_000]];
        let payload = write(sources.into_iter());
        assert_eq!(read(&payload).expect("it was just written"), sources);
        assert!(read(&write([].into_iter())).expect("there are none").is_empty());
        for at in [0, 1, payload.len() / 2, payload.len() - 1] {
            let mut damaged = payload.clone();
            damaged[at] ^= 1;
            assert!(matches!(read(&damaged), Err(PayloadError::Checksum | PayloadError::Version(_))), "{at}");
        }
        assert!(matches!(read(b"foo"), Err(PayloadError::Short(3))));
    }

    #[test]
    fn the_payload_of_redis_is_read() {
        // `FUNCTION DUMP` of redis-server 7.0.15.
        let payload =
            b"\xf5@L#!lua name=y\nredis.register_function(\"fx\", function(keys,args) return 1 end)\
                        \n\x00\xc4\xbe\x82\xc5\xb8\x9b\xc3\x81";
        let source = &payload[3..payload.len() - 10];
        assert_eq!(read(payload).expect("it is whole"), [source]);
    }
}
