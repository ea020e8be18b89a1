//! Tests that requests in any pieces are decoded as they were sent.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tarn_resp::{Limits, OwnedArgs, RequestDecoder};

fn encode(commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for args in commands {
        bytes.extend(format!("*{}\r\n", args.len()).into_bytes());
        for arg in args {
            bytes.extend(format!("${}\r\n", arg.len()).into_bytes());
            bytes.extend(arg);
            bytes.extend(b"\r\n");
        }
    }
    bytes
}

fn owned(args: tarn_resp::Args<'_>) -> Vec<Vec<u8>> {
    args.iter().map(<[u8]>::to_vec).collect()
}

proptest! {
    #[test]
    fn commands_in_any_pieces_arrive_whole(
        commands in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8), 0..8),
        pieces in prop::collection::vec(1usize..30, 1..20),
        compacting: bool,
    ) {
        let bytes = encode(&commands);
        let mut decoder = RequestDecoder::new(Limits::default());
        let (mut buf, mut pos, mut sent, mut arrived) = (Vec::new(), 0, 0, Vec::new());
        for piece in pieces.iter().cycle() {
            let end = bytes.len().min(sent + piece);
            buf.extend_from_slice(&bytes[sent..end]);
            sent = end;
            while let Some(args) = decoder.decode(&buf, &mut pos).unwrap() {
                arrived.push(owned(args));
            }
            if compacting {
                buf.drain(..pos);
                pos = 0;
            }
            if sent == bytes.len() {
                break;
            }
        }
        prop_assert_eq!(pos, buf.len());
        prop_assert_eq!(arrived, commands);
    }

    #[test]
    fn owned_arguments_are_the_arguments_borrowed(
        args in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..6),
    ) {
        let copy: OwnedArgs = args.iter().collect();
        prop_assert_eq!(copy.as_args().len(), args.len());
        prop_assert_eq!(owned(copy.as_args()), args);
        prop_assert_eq!(OwnedArgs::from(copy.as_args()), copy);
    }
}

#[test]
fn what_says_nothing_is_skipped() {
    let mut decoder = RequestDecoder::new(Limits::default());
    let input = b"*0\r\n\r\n*-1\r\n\n  \r\n*-7\r\nPING\r\n*0\r\n";
    let mut pos = 0;
    assert_eq!(owned(decoder.decode(input, &mut pos).unwrap().unwrap()), [b"PING"]);
    assert_eq!(pos, input.len() - 4);
    assert!(decoder.decode(input, &mut pos).unwrap().is_none());
    assert_eq!(pos, input.len());
}

#[test]
fn inline_commands_and_multibulk_commands_mix() {
    let mut decoder = RequestDecoder::new(Limits::default());
    let input = b"set k 'a b'\r\n*1\r\n$4\r\nPING\r\nget \"k\\x41\"\n";
    let mut pos = 0;
    assert_eq!(owned(decoder.decode(input, &mut pos).unwrap().unwrap()), [&b"set"[..], b"k", b"a b"]);
    assert_eq!(owned(decoder.decode(input, &mut pos).unwrap().unwrap()), [b"PING"]);
    assert_eq!(owned(decoder.decode(input, &mut pos).unwrap().unwrap()), [&b"get"[..], b"kA"]);
    assert!(decoder.decode(input, &mut pos).unwrap().is_none());
}

#[test]
fn the_two_bytes_after_an_argument_and_the_one_after_a_carriage_return_are_not_looked_at() {
    let mut decoder = RequestDecoder::new(Limits::default());
    let mut pos = 0;
    let args = decoder.decode(b"*1\rx$4\ryPINGzz", &mut pos).unwrap().unwrap();
    assert_eq!(owned(args), [b"PING"]);
}

#[test]
fn arguments_are_reached_by_index_by_tail_and_from_the_end() {
    let args: OwnedArgs = ["SET", "key", "value"].iter().collect();
    let args = args.as_args();
    assert_eq!((args.len(), &args[0], args.get(2), args.get(3)), (3, &b"SET"[..], Some(&b"value"[..]), None));
    assert_eq!(owned(args.tail(1)), [&b"key"[..], b"value"]);
    assert!(args.tail(3).is_empty() && args.tail(9).is_empty());
    assert_eq!(args.iter().next_back(), Some(&b"value"[..]));
    assert_eq!(format!("{args:?}"), r#"["SET", "key", "value"]"#);
}
