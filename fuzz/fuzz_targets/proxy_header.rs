//! The header of the PROXY protocol from any bytes in any pieces: no panic, and the pieces never change what
//! is understood.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tarn_server::net::proxy::{Header, parse};

/// Bytes that a header may ask for.
const HEADER_BYTES_MAX: usize = 4 << 10;

fuzz_target!(|bytes: &[u8]| {
    let whole = parse(bytes);
    // As a connection reads: never more than was asked for.
    let mut have = 0;
    let read = loop {
        match parse(&bytes[..have]) {
            Ok(Header::Needs(needed)) => {
                assert!(needed > have && needed <= HEADER_BYTES_MAX);
                if needed > bytes.len() {
                    break Ok(Header::Needs(needed));
                }
                have = needed;
            }
            other => break other,
        }
    };
    match whole {
        // It may be known earlier that it is none.
        Ok(Header::Needs(_)) => assert!(!matches!(read, Ok(Header::Whole(..)))),
        Ok(Header::Whole(len, _)) => {
            assert_eq!((read, len), (whole, have));
            assert!(len <= bytes.len());
        }
        Err(_) => assert!(!matches!(read, Ok(Header::Whole(..)))),
    }
});
