//! Tests that replies of every type, in any pieces, are decoded as they were sent; the skimmer counts what
//! the decoder reads.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tarn_resp::{Frame, FrameDecoder, FrameError, FrameLimits, ReplyKind, ReplySkimmer, Skimmed};

fn line() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        any::<u8>().prop_map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }),
        0..12,
    )
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..30)
}

fn frame() -> impl Strategy<Value = Frame> {
    let leaf = prop_oneof![
        line().prop_map(Frame::Simple),
        line().prop_map(Frame::Error),
        any::<i64>().prop_map(Frame::Integer),
        bytes().prop_map(Frame::Bulk),
        Just(Frame::NullBulk),
        Just(Frame::NullArray),
        Just(Frame::Null),
        any::<bool>().prop_map(Frame::Boolean),
        any::<f64>().prop_map(|number| Frame::Double(tarn_resp::format_double(number).as_bytes().to_vec())),
        "[-+]?[0-9]{1,40}".prop_map(|text| Frame::BigNumber(text.into_bytes())),
        bytes().prop_map(Frame::BulkError),
        bytes().prop_map(|text| Frame::Verbatim(*b"txt", text)),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let frames = prop::collection::vec(inner.clone(), 0..5);
        let pairs = prop::collection::vec((inner.clone(), inner.clone()), 0..4);
        prop_oneof![
            frames.clone().prop_map(Frame::Array),
            frames.clone().prop_map(Frame::Set),
            frames.prop_map(Frame::Push),
            pairs.clone().prop_map(Frame::Map),
            (pairs, inner).prop_map(|(pairs, reply)| Frame::Attributed(pairs, Box::new(reply))),
        ]
    })
}

fn decode_all(input: &[u8]) -> Result<Vec<Frame>, FrameError> {
    let (mut decoder, mut pos, mut frames) = (FrameDecoder::default(), 0, Vec::new());
    while let Some(frame) = decoder.decode(input, &mut pos)? {
        frames.push(frame);
    }
    Ok(frames)
}

/// The expected counts of the skimmer for these replies.
fn expected(frames: &[Frame]) -> (u64, u64, u64) {
    let replies: Vec<_> =
        frames.iter().filter(|f| !matches!(f.without_attributes(), Frame::Push(_))).collect();
    let errors = replies.iter().filter(|frame| frame.is_error()).count();
    let nulls = replies.iter().filter(|frame| frame.is_null()).count();
    (replies.len() as u64, errors as u64, nulls as u64)
}

/// Pieces of replies, which may come together to whole ones.
const WORDS: &[&str] = &[
    "+",
    "-",
    ":",
    "$",
    "*",
    "%",
    "~",
    ">",
    "|",
    "_",
    "#",
    ",",
    "(",
    "!",
    "=",
    ";",
    ".",
    "?",
    "x",
    "\r",
    "\n",
    "\r\n",
    "0",
    "1",
    "2",
    "+a\r\n",
    ":1\r\n",
    "$1\r\na\r\n",
    "$?\r\n",
    ";1\r\na\r\n",
    ";0\r\n",
    "*1\r\n",
    "*2\r\n",
    "*?\r\n",
    "%1\r\n",
    "%?\r\n",
    "|1\r\n",
    ".\r\n",
    "_\r\n",
    "*-1\r\n",
    "=5\r\ntxt:a\r\n",
    "#t\r\n",
    ",1.5\r\n",
];

proptest! {
    #[test]
    fn replies_in_any_pieces_arrive_whole(
        frames in prop::collection::vec(frame(), 0..6),
        pieces in prop::collection::vec(1usize..25, 1..20),
    ) {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        let (mut decoder, mut skimmer) = (FrameDecoder::default(), ReplySkimmer::new());
        let (mut buf, mut skimmed_buf, mut arrived) = (Vec::new(), Vec::new(), Vec::new());
        let (mut sent, mut skimmed) = (0, Skimmed::default());
        for piece in pieces.iter().cycle() {
            let end = bytes.len().min(sent + piece);
            buf.extend_from_slice(&bytes[sent..end]);
            skimmed_buf.extend_from_slice(&bytes[sent..end]);
            sent = end;
            let mut pos = 0;
            while let Some(frame) = decoder.decode(&buf, &mut pos).unwrap() {
                arrived.push(frame);
            }
            buf.drain(..pos);
            let now = skimmer.skim(&skimmed_buf).unwrap();
            skimmed_buf.drain(..now.consumed);
            skimmed.replies += now.replies;
            skimmed.errors += now.errors;
            skimmed.nulls += now.nulls;
            if sent == bytes.len() {
                break;
            }
        }
        prop_assert!(buf.is_empty() && skimmed_buf.is_empty());
        prop_assert_eq!((skimmed.replies, skimmed.errors, skimmed.nulls), expected(&frames));
        prop_assert_eq!(arrived, frames);
    }

    #[test]
    fn any_bytes_at_all_are_a_reply_or_an_error_in_whole_as_in_pieces(
        words in prop::collection::vec(prop::sample::select(WORDS), 0..30),
    ) {
        let input = words.concat();
        let input = input.as_bytes();
        let whole = decode_all(input);
        let (mut decoder, mut pos, mut frames) = (FrameDecoder::default(), 0, Vec::new());
        let mut failed = None;
        'bytes: for end in 1..=input.len() {
            loop {
                match decoder.decode(&input[..end], &mut pos) {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(error) => {
                        failed = Some(error);
                        break 'bytes;
                    }
                }
            }
        }
        match whole {
            Ok(whole) => prop_assert_eq!((failed, whole), (None, frames)),
            Err(error) => prop_assert_eq!(failed, Some(error)),
        }
        let mut skimmer = ReplySkimmer::new();
        let _ = skimmer.skim(input);
    }
}

#[test]
fn malformed_replies_are_refused() {
    let cases: &[(&[u8], FrameError)] = &[
        (b"x", FrameError::Type(b'x')),
        (b"\r\n", FrameError::Type(b'\r')),
        (b"+OK\rx", FrameError::LineEnd),
        (b"+O\nK\r\n", FrameError::LineEnd),
        (b"$2\r\nabcd", FrameError::LineEnd),
        (b":x\r\n", FrameError::Text(b':')),
        (b":\r\n", FrameError::Text(b':')),
        (b"$-2\r\n", FrameError::Text(b'$')),
        (b"*-2\r\n", FrameError::Text(b'*')),
        (b"%-1\r\n", FrameError::Text(b'%')),
        (b"!-1\r\n", FrameError::Text(b'!')),
        (b",one\r\n", FrameError::Text(b',')),
        (b"(1.5\r\n", FrameError::Text(b'(')),
        (b"#x\r\n", FrameError::Text(b'#')),
        (b"_x\r\n", FrameError::Text(b'_')),
        (b"=3\r\ntxt\r\n", FrameError::Text(b'=')),
        (b"$536870913\r\n", FrameError::TooLong(536_870_913)),
        (b"*4294967296\r\n", FrameError::TooLong(4_294_967_296)),
        (b"%9223372036854775807\r\n", FrameError::TooLong(u64::MAX - 1)),
        (b";3\r\nabc\r\n", FrameError::Type(b';')),
        (b"$?\r\n+a\r\n", FrameError::Type(b'+')),
        (b".\r\n", FrameError::Text(b'.')),
        (b"%?\r\n+a\r\n.\r\n", FrameError::Text(b'.')),
    ];
    for (input, error) in cases {
        assert_eq!(decode_all(input), Err(*error), "{}", input.escape_ascii());
    }
    assert_eq!(decode_all(&b"*1\r\n".repeat(33)), Err(FrameError::TooDeep(32)));
    assert_eq!(decode_all(&b"|0\r\n".repeat(33)), Err(FrameError::TooDeep(32)));
    assert_eq!(decode_all(&b"*1\r\n".repeat(32)), Ok(vec![]));
    assert_eq!(decode_all(&[b'+'; 2 << 20]), Err(FrameError::LineTooLong));
}

#[test]
fn an_announced_multitude_reserves_no_memory() {
    let mut decoder = FrameDecoder::new(FrameLimits::default());
    let mut pos = 0;
    assert_eq!(decoder.decode(b"*4294967295\r\n*4294967295\r\n$536870912\r\n", &mut pos), Ok(None));
    assert!(format!("{decoder:?}").len() < 1000);
}

#[test]
fn streamed_replies_equal_those_sent_at_once() {
    let streamed =
        b"*?\r\n$?\r\n;4\r\nHell\r\n;1\r\no\r\n;0\r\n%?\r\n+k\r\n*1\r\n:1\r\n.\r\n*0\r\n.\r\n-ERR\r\n";
    let frames = decode_all(streamed).unwrap();
    let map = Frame::Map(vec![(Frame::simple("k"), Frame::Array(vec![Frame::Integer(1)]))]);
    let array = Frame::Array(vec![Frame::bulk("Hello"), map, Frame::Array(vec![])]);
    assert_eq!(frames, [array, Frame::error("ERR")]);
    let skimmed = ReplySkimmer::new().skim(streamed).unwrap();
    assert_eq!(skimmed, Skimmed { consumed: streamed.len(), replies: 2, errors: 1, nulls: 0 });
}

#[test]
fn the_skimmer_tells_replies_apart() {
    let input = b"+OK\r\n$3\r\nabc\r\n$-1\r\n-ERR\r\n>1\r\n+x\r\n|1\r\n+k\r\n+v\r\n!1\r\ne\r\n\
        *2\r\n-E\r\n_\r\n:1\r\n+O";
    let (mut skimmer, mut pos, mut kinds) = (ReplySkimmer::new(), 0, Vec::new());
    while let Some(kind) = skimmer.next_reply(input, &mut pos).unwrap() {
        kinds.push(kind);
    }
    use ReplyKind::{Error, Null, Push, Value};
    assert_eq!(kinds, [Value, Value, Null, Error, Push, Error, Value, Value]);
    assert_eq!(pos, input.len() - 2);
}

#[test]
fn a_frame_s_parts_are_reached_through_its_attributes() {
    let pairs = vec![(Frame::simple("ttl"), Frame::Integer(1))];
    let about = |reply| Frame::Attributed(pairs.clone(), Box::new(reply));
    assert_eq!(about(Frame::Integer(5)).as_integer(), Some(5));
    assert_eq!(about(Frame::error("ERR x")).as_error(), Some(&b"ERR x"[..]));
    assert_eq!(about(Frame::Double(b"-inf".to_vec())).as_double(), Some(f64::NEG_INFINITY));
    assert_eq!(about(Frame::bulk("b")).as_bytes(), Some(&b"b"[..]));
    assert!(about(Frame::NullArray).is_null() && !Frame::bulk("").is_null());
    assert_eq!(about(Frame::Map(vec![])).as_map().map(<[_]>::len), Some(0));
    assert_eq!(about(Frame::Set(vec![Frame::Null])).as_array().map(<[_]>::len), Some(1));
}

#[test]
fn a_line_cut_short_is_forgotten_once_the_skimmer_has_passed_it() {
    let (mut skimmer, mut pos) = (ReplySkimmer::new(), 0);
    let input = b"$10\r\n0123456789\r\n*0\r\n:1\r\n";
    assert_eq!(skimmer.next_reply(&input[..3], &mut pos), Ok(None));
    assert_eq!(skimmer.skim(&input[pos..]).map(|skimmed| skimmed.replies), Ok(3));
}
