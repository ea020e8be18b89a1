//! Every reply in both protocols, byte by byte.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tarn_resp::{Frame, FrameDecoder, Protocol, ProtocolError, Writer};

type Reply = (fn(&mut Writer<'_>), &'static str, &'static str);

fn written(protocol: Protocol, reply: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    reply(&mut Writer::new(&mut out, protocol));
    out
}

#[test]
fn every_reply_has_its_form_in_both_protocols() {
    let replies: &[Reply] = &[
        (|w| w.ok(), "+OK\r\n", "+OK\r\n"),
        (|w| w.simple(b"PONG"), "+PONG\r\n", "+PONG\r\n"),
        (|w| w.simple(b"a\r\nb"), "+a  b\r\n", "+a  b\r\n"),
        (|w| w.error(b"ERR no such key"), "-ERR no such key\r\n", "-ERR no such key\r\n"),
        (|w| w.error(b"ERR a\nb\rc\r\n"), "-ERR a b c\r\n", "-ERR a b c\r\n"),
        (|w| w.integer(0), ":0\r\n", ":0\r\n"),
        (|w| w.integer(-1), ":-1\r\n", ":-1\r\n"),
        (|w| w.integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
        (|w| w.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
        (|w| w.bulk(b"a\r\n\0b"), "$5\r\na\r\n\0b\r\n", "$5\r\na\r\n\0b\r\n"),
        (|w| w.bulk_integer(-42), "$3\r\n-42\r\n", "$3\r\n-42\r\n"),
        (|w| w.bulk_double(0.1), "$19\r\n0.10000000000000001\r\n", "$19\r\n0.10000000000000001\r\n"),
        (|w| w.null(), "$-1\r\n", "_\r\n"),
        (|w| w.null_array(), "*-1\r\n", "_\r\n"),
        (|w| w.array(0), "*0\r\n", "*0\r\n"),
        (|w| w.array(12), "*12\r\n", "*12\r\n"),
        (|w| w.map(3), "*6\r\n", "%3\r\n"),
        (|w| w.set(100), "*100\r\n", "~100\r\n"),
        (|w| w.push(3), "*3\r\n", ">3\r\n"),
        (|w| assert!(w.attributes(1) == (w.protocol() == Protocol::Resp3)), "", "|1\r\n"),
        (|w| w.double(3.0), "$1\r\n3\r\n", ",3\r\n"),
        (|w| w.double(-1.5), "$4\r\n-1.5\r\n", ",-1.5\r\n"),
        (|w| w.double(f64::INFINITY), "$3\r\ninf\r\n", ",inf\r\n"),
        (|w| w.double_text(b"-2.50"), "$5\r\n-2.50\r\n", ",-2.50\r\n"),
        (|w| w.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n"),
        (|w| w.boolean(true), ":1\r\n", "#t\r\n"),
        (|w| w.boolean(false), ":0\r\n", "#f\r\n"),
        (|w| w.big_number(b"-123"), "$4\r\n-123\r\n", "(-123\r\n"),
        (|w| w.verbatim(*b"txt", b"a\r\nb"), "$4\r\na\r\nb\r\n", "=8\r\ntxt:a\r\nb\r\n"),
        (|w| w.raw(b"+as it is\r\n"), "+as it is\r\n", "+as it is\r\n"),
    ];
    for (reply, resp2, resp3) in replies {
        for (protocol, expected) in [(Protocol::Resp2, resp2), (Protocol::Resp3, resp3)] {
            let out = written(protocol, reply);
            assert_eq!(out.escape_ascii().to_string(), expected.as_bytes().escape_ascii().to_string());
        }
    }
}

#[test]
fn a_header_left_out_is_written_whatever_its_count() {
    for guess in [0, 9, 10, 1000] {
        for len in [0usize, 1, 9, 10, 99, 100, 12345] {
            let out = written(Protocol::Resp3, |w| {
                w.simple(b"before");
                let [array, set, map] = [0, 1, 2].map(|_| w.defer(guess));
                (0..len).for_each(|index| w.integer(index as i64));
                w.finish_map(map, len / 2);
                w.finish_set(set, 1);
                w.finish_array(array, 1);
            });
            assert!(out.starts_with(format!("+before\r\n*1\r\n~1\r\n%{}\r\n", len / 2).as_bytes()));
            assert_eq!(out.iter().filter(|byte| **byte == b':').count(), len);
        }
    }
}

#[test]
fn a_reply_is_taken_back() {
    let out = written(Protocol::Resp2, |w| {
        w.ok();
        let len = w.len();
        w.array(3);
        w.truncate(len);
        w.set_protocol(Protocol::Resp3);
        w.null();
    });
    assert_eq!(out, b"+OK\r\n_\r\n");
}

#[test]
fn clients_are_told_how_they_broke_the_protocol() {
    let told = |error| written(Protocol::Resp2, |w| w.protocol_error(&error));
    assert_eq!(told(ProtocolError::BulkLength), b"-ERR Protocol error: invalid bulk length\r\n");
    assert_eq!(
        told(ProtocolError::ExpectedDollar(0xff)),
        b"-ERR Protocol error: expected '$', got '\xff'\r\n"
    );
    assert_eq!(told(ProtocolError::QueryBufferLimit), b"");
}

proptest! {
    #[test]
    fn whatever_is_written_is_read_by_a_client(
        number: i64, double: f64, bytes in prop::collection::vec(any::<u8>(), 0..300), resp3: bool,
    ) {
        let protocol = if resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        let out = written(protocol, |w| {
            w.integer(number);
            w.bulk(&bytes);
            w.double(double);
            w.error(&bytes);
        });
        let (mut decoder, mut pos) = (FrameDecoder::default(), 0);
        let mut next = || decoder.decode(&out, &mut pos).unwrap().unwrap();
        prop_assert_eq!(next(), Frame::Integer(number));
        prop_assert_eq!(next(), Frame::Bulk(bytes));
        let text = next().as_bytes().unwrap().to_vec();
        let read: f64 = String::from_utf8(text).unwrap().parse().unwrap();
        prop_assert!(read == double || read.is_nan() && double.is_nan());
        prop_assert!(next().is_error());
        prop_assert_eq!(pos, out.len());
    }
}

proptest! {
    #[test]
    fn a_limited_writer_ends_one_reply_behind_its_limit_and_says_so(
        before in 0..10usize,
        lens in prop::collection::vec(0..40usize, 0..30),
        limit in 0..300usize,
        resp3 in any::<bool>(),
    ) {
        let protocol = if resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        let write = |writer: &mut Writer<'_>| {
            let deferred = writer.defer(0);
            for (i, len) in lens.iter().enumerate() {
                match i % 7 {
                    0 => writer.bulk(&vec![b'x'; *len]),
                    1 => writer.bulk_of_pieces(*len, vec![b'y'; *len].chunks(3)),
                    2 => writer.integer(*len as i64),
                    3 => writer.verbatim(*b"txt", &vec![b'z'; *len]),
                    4 => writer.null(),
                    5 => writer.double(*len as f64),
                    _ => writer.simple(vec![b's'; *len]),
                }
            }
            writer.finish_array(deferred, lens.len());
        };
        let mut whole = vec![0; before];
        write(&mut Writer::new(&mut whole, protocol));
        let mut out = vec![0; before];
        let mut writer = Writer::new(&mut out, protocol).limited(limit);
        write(&mut writer);
        let is_over = writer.is_over();
        prop_assert_eq!(is_over, whole.len() > limit, "{} bytes, limit {}", whole.len(), limit);
        if is_over {
            prop_assert!(out.len() <= limit.max(before) + 60);
        } else {
            prop_assert_eq!(out, whole);
        }
    }
}
