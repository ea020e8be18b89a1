//! Requests that break the protocol or a limit, and the exact texts they are answered with.
#![allow(clippy::unwrap_used)]

use tarn_resp::{Limits, Protocol, ProtocolError, RequestDecoder, Writer};

/// Feeds `input` whole, then byte by byte; both must fail alike. Returns the error that the client gets.
fn refusal(mut decoder: impl FnMut() -> RequestDecoder, input: &[u8]) -> String {
    let whole = drain(&mut decoder(), input).expect_err("the whole input must be refused");
    let mut bytewise = decoder();
    let mut pos = 0;
    let mut refused = None;
    for end in 1..=input.len() {
        match bytewise.decode(&input[..end], &mut pos) {
            Ok(_) => {}
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    assert_eq!(refused, Some(whole), "{}", input.escape_ascii());
    let mut out = Vec::new();
    Writer::new(&mut out, Protocol::Resp2).protocol_error(&whole);
    out.escape_ascii().to_string()
}

fn drain(decoder: &mut RequestDecoder, input: &[u8]) -> Result<usize, ProtocolError> {
    let (mut pos, mut requests) = (0, 0);
    while decoder.decode(input, &mut pos)?.is_some() {
        requests += 1;
    }
    Ok(requests)
}

fn open() -> RequestDecoder {
    RequestDecoder::new(Limits::default())
}

fn locked() -> RequestDecoder {
    let mut decoder = open();
    decoder.set_authenticated(false);
    decoder
}

#[test]
fn malformed_requests_are_refused_in_redis_s_words() {
    let cases: &[(&[u8], &str)] = &[
        (b"*x\r\n", "invalid multibulk length"),
        (b"*\r\n", "invalid multibulk length"),
        (b"*+1\r\n", "invalid multibulk length"),
        (b"*01\r\n", "invalid multibulk length"),
        (b"* 1\r\n", "invalid multibulk length"),
        (b"*-0\r\n", "invalid multibulk length"),
        (b"*2147483648\r\n", "invalid multibulk length"),
        (b"*9223372036854775807\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*1\r\n:1\r\n", "expected \\'$\\', got \\':\\'"),
        (b"*1\r\nPING\r\n", "expected \\'$\\', got \\'P\\'"),
        (b"*1\r\n\r\n", "expected \\'$\\', got \\' \\'"),
        (b"*1\r\n\xff1\r\n", "expected \\'$\\', got \\'\\xff\\'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$\r\n", "invalid bulk length"),
        (b"*1\r\n$01\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\n$9223372036854775807\r\n", "invalid bulk length"),
        (b"*1\r\n$18446744073709551616\r\n", "invalid bulk length"),
        (b"*2\r\n$4\r\nECHO\r\n$-5\r\n", "invalid bulk length"),
        (b"set a \"b\r\n", "unbalanced quotes in request"),
        (b"PING\r\n'\n", "unbalanced quotes in request"),
    ];
    for (input, text) in cases {
        let expected = format!("-ERR Protocol error: {text}\\r\\n");
        assert_eq!(refusal(open, input), expected, "{}", input.escape_ascii());
    }
}

#[test]
fn lines_without_an_end_are_refused_after_64_kib() {
    for (begin, text) in [
        (&b""[..], "too big inline request"),
        (b"*", "too big mbulk count string"),
        (b"*1\r\n$", "too big bulk count string"),
    ] {
        let mut input = begin.to_vec();
        input.resize(begin.len() + 70_000, b'1');
        assert_eq!(refusal(open, &input), format!("-ERR Protocol error: {text}\\r\\n"));
    }
    let mut longest = vec![b'a'; 64 * 1024];
    longest.extend(b"\r\n");
    longest.remove(0);
    assert_eq!(drain(&mut open(), &longest), Ok(1));
}

#[test]
fn clients_that_have_yet_to_authenticate_get_room_for_a_handshake_only() {
    let unauthenticated = |what| format!("-ERR Protocol error: unauthenticated {what} length\\r\\n");
    assert_eq!(refusal(locked, b"*11\r\n"), unauthenticated("multibulk"));
    assert_eq!(refusal(locked, b"*100000\r\n"), unauthenticated("multibulk"));
    assert_eq!(refusal(locked, b"*1\r\n$16385\r\n"), unauthenticated("bulk"));
    assert_eq!(refusal(locked, b"*3000000000\r\n"), "-ERR Protocol error: invalid multibulk length\\r\\n");
    assert_eq!(drain(&mut locked(), b"*10\r\n$16384\r\n"), Ok(0));
}

#[test]
fn requests_longer_than_the_query_buffer_limit_are_refused_silently() {
    let small = || RequestDecoder::new(Limits { client_query_buffer_limit: 100, ..Limits::default() });
    assert_eq!(refusal(small, b"*2\r\n$4\r\nECHO\r\n$100\r\n"), "");
    let mut fitting = b"*1\r\n$89\r\n".to_vec();
    fitting.resize(100, b'x');
    assert_eq!(drain(&mut small(), &fitting), Ok(1));
    let huge = Limits { proto_max_bulk_len: u64::MAX, client_query_buffer_limit: u64::MAX };
    assert_eq!(refusal(|| RequestDecoder::new(huge), b"*1\r\n$9223372036854775807\r\n"), "");
    assert_eq!(refusal(|| RequestDecoder::new(huge), b"*1\r\n$4294967295\r\n"), "");
}

#[test]
fn an_announced_multitude_reserves_no_memory() {
    let mut decoder = open();
    assert_eq!(drain(&mut decoder, b"*2147483647\r\n$1\r\na\r\n$536870912\r\n"), Ok(0));
    assert_eq!(decoder.bytes_needed_hint(), 536_870_914);
    assert!(format!("{decoder:?}").len() < 1000);
}

#[test]
fn limits_change_between_requests() {
    let mut decoder = open();
    decoder.set_limits(Limits { proto_max_bulk_len: 3, ..Limits::default() });
    assert_eq!(drain(&mut decoder, b"*1\r\n$3\r\nabc\r\n"), Ok(1));
    assert_eq!(drain(&mut decoder, b"*1\r\n$4\r\nabcd\r\n"), Err(ProtocolError::BulkLength));
}
