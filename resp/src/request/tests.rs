//! Counts the times that the decoder reads a byte: the count must not depend on how the bytes arrive.
#![allow(clippy::unwrap_used)]

use super::{Limits, RequestDecoder};

/// Feeds `input` in pieces of `piece` bytes; returns the requests and the number of examined bytes.
fn examined(input: &[u8], piece: usize) -> (usize, usize) {
    let mut decoder = RequestDecoder::new(Limits::default());
    let (mut pos, mut end, mut requests) = (0, 0, 0);
    while end < input.len() {
        end = input.len().min(end + piece);
        while decoder.decode(&input[..end], &mut pos).unwrap().is_some() {
            requests += 1;
        }
    }
    assert_eq!(pos, input.len());
    (requests, decoder.examined)
}

#[test]
fn a_long_line_in_many_pieces_is_searched_once() {
    let mut line = vec![b'a'; 60_000];
    line.extend(b"\r\n");
    for piece in [1, 7, 1000, line.len()] {
        let (requests, examined) = examined(&line, piece);
        assert_eq!(requests, 1);
        assert!(examined <= line.len(), "{examined} bytes looked at in pieces of {piece}");
    }
}

#[test]
fn payload_in_many_pieces_is_not_looked_at() {
    let mut input = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1000000\r\n".to_vec();
    input.resize(input.len() + 1_000_000, b'\r');
    input.extend(b"\r\n");
    for piece in [100, 4096, input.len()] {
        let (requests, examined) = examined(&input, piece);
        assert_eq!(requests, 1);
        assert!(examined <= 100, "{examined} bytes looked at in pieces of {piece}");
    }
}

#[test]
fn many_arguments_in_many_pieces_are_found_once() {
    let args = 10_000;
    let mut input = format!("*{args}\r\n").into_bytes();
    for _ in 0..args {
        input.extend(b"$12\r\nhello, world\r\n");
    }
    let (_, at_once) = examined(&input, input.len());
    assert!(at_once <= 10 * args, "{at_once} bytes looked at");
    for piece in [1, 13, 1000] {
        let (requests, examined) = examined(&input, piece);
        let calls = input.len().div_ceil(piece);
        assert_eq!(requests, 1);
        // A call may examine in vain the line at which the bytes end; never more.
        assert!(
            examined <= at_once + 10 * args + 6 * calls,
            "{examined} bytes looked at in pieces of {piece}"
        );
    }
}
