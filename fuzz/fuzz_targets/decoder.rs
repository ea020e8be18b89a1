//! Requests and replies from any bytes in any pieces: no panic, and the pieces never change what is
//! understood.
//!
//! The first bytes of an input choose the sizes of the pieces, the rest is what the client or the server has
//! sent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tarn_resp::{
    Frame, FrameDecoder, FrameError, Limits, Protocol, ProtocolError, ReplyKind, ReplySkimmer,
    RequestDecoder, Writer, encode_command,
};

/// Bytes of an input that choose the sizes of the pieces.
const PIECES: usize = 4;

fuzz_target!(|input: &[u8]| {
    let Some((pieces, bytes)) = input.split_first_chunk::<PIECES>() else {
        return;
    };
    requests(pieces, bytes);
    replies(pieces, bytes);
});

/// The requests understood, and what ended them.
type Requests = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

fn requests(pieces: &[u8; PIECES], bytes: &[u8]) {
    let limits = Limits { proto_max_bulk_len: 5000, client_query_buffer_limit: 20_000 };
    let decoder = |authenticated| {
        let mut decoder = RequestDecoder::new(limits);
        decoder.set_authenticated(authenticated);
        decoder
    };
    let authenticated = pieces[0] & 1 == 0;
    let whole = decode(decoder(authenticated), &[255; PIECES], bytes);
    assert_eq!(whole, decode(decoder(authenticated), pieces, bytes));

    // What has been understood is understood again when it is sent in the other form.
    let mut encoded = Vec::new();
    for args in &whole.0 {
        encode_command(&mut encoded, args);
    }
    if encoded.len() < limits.client_query_buffer_limit as usize && authenticated {
        let again = decode(decoder(true), pieces, &encoded);
        assert_eq!(again.0, whole.0);
    }
    if let Some(error) = whole.1 {
        let mut out = Vec::new();
        Writer::new(&mut out, Protocol::Resp3).protocol_error(&error);
        let told = FrameDecoder::default().decode(&out, &mut 0).expect("an error is a reply");
        assert_eq!(told.is_some_and(|frame| frame.is_error()), error.has_reply());
    }
}

/// Feeds pieces of the given sizes, round and round, to a decoder whose buffer is compacted now and then.
fn decode(mut decoder: RequestDecoder, pieces: &[u8; PIECES], bytes: &[u8]) -> Requests {
    let (mut buf, mut pos, mut sent) = (Vec::new(), 0, 0);
    let mut understood = Vec::new();
    for piece in pieces.iter().cycle() {
        let end = bytes.len().min(sent + size(*piece));
        buf.extend_from_slice(&bytes[sent..end]);
        sent = end;
        loop {
            let before = pos;
            match decoder.decode(&buf, &mut pos) {
                Ok(Some(args)) => {
                    assert!(!args.is_empty());
                    understood.push(args.iter().map(<[u8]>::to_vec).collect());
                    assert!(before < pos && pos <= buf.len());
                }
                Ok(None) => {
                    assert!(before <= pos && pos <= buf.len());
                    break;
                }
                Err(error) => return (understood, Some(error)),
            }
        }
        if piece % 3 == 0 {
            buf.drain(..pos);
            pos = 0;
        }
        if sent == bytes.len() {
            break;
        }
    }
    (understood, None)
}

fn replies(pieces: &[u8; PIECES], bytes: &[u8]) {
    let whole = decode_frames(&[255; PIECES], bytes);
    assert_eq!(whole, decode_frames(pieces, bytes));
    if whole.1.is_some() {
        // The skimmer checks less, so it need not see what is wrong; it must only not panic.
        let _ = ReplySkimmer::new().skim(bytes);
        return;
    }
    let kinds: Vec<_> = whole.0.iter().map(kind).collect();
    assert_eq!(kinds, skim(pieces, bytes));

    let mut encoded = Vec::new();
    for frame in &whole.0 {
        frame.encode(&mut encoded);
        let _shown = frame.to_string();
    }
    assert_eq!(decode_frames(pieces, &encoded), whole);
}

fn decode_frames(pieces: &[u8; PIECES], bytes: &[u8]) -> (Vec<Frame>, Option<FrameError>) {
    let (mut decoder, mut frames) = (FrameDecoder::default(), Vec::new());
    let (mut pos, mut sent) = (0, 0);
    for piece in pieces.iter().cycle() {
        sent = bytes.len().min(sent + size(*piece));
        loop {
            match decoder.decode(&bytes[..sent], &mut pos) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
            assert!(pos <= sent);
        }
        if sent == bytes.len() {
            break;
        }
    }
    (frames, None)
}

fn skim(pieces: &[u8; PIECES], bytes: &[u8]) -> Vec<ReplyKind> {
    let (mut skimmer, mut kinds) = (ReplySkimmer::new(), Vec::new());
    let (mut pos, mut sent) = (0, 0);
    for piece in pieces.iter().cycle() {
        sent = bytes.len().min(sent + size(*piece));
        while let Some(kind) = skimmer.next_reply(&bytes[..sent], &mut pos).expect("the decoder has read it")
        {
            kinds.push(kind);
        }
        if sent == bytes.len() {
            break;
        }
    }
    kinds
}

/// The expected kind of a reply, as the skimmer names it.
fn kind(frame: &Frame) -> ReplyKind {
    match frame.without_attributes() {
        Frame::Push(_) => ReplyKind::Push,
        frame if frame.is_error() => ReplyKind::Error,
        frame if frame.is_null() => ReplyKind::Null,
        _ => ReplyKind::Value,
    }
}

/// Bytes of a piece: mostly small ones; 255 stands for all there is.
fn size(piece: u8) -> usize {
    match piece {
        255 => usize::MAX / 2,
        128.. => usize::from(piece - 127) * 64,
        _ => usize::from(piece) + 1,
    }
}
