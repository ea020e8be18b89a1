//! The few forms of RESP: a type byte and a number, a line of text, a blob of counted bytes.

/// Bytes that a header can have: a type, twenty digits or digits and a sign, a line end.
pub(crate) const HEADER_BYTES_MAX: usize = 23;

/// A type and a count. Small ones, nearly all there are, take one copy of constant size.
#[inline]
pub(crate) fn header(out: &mut Vec<u8>, kind: u8, count: u64) {
    if count < 10 {
        out.extend_from_slice(&[kind, b'0' + count as u8, b'\r', b'\n']);
    } else if count < 100 {
        let (tens, ones) = (count as u8 / 10, count as u8 % 10);
        out.extend_from_slice(&[kind, b'0' + tens, b'0' + ones, b'\r', b'\n']);
    } else {
        number(out, kind, count);
    }
}

/// An integer reply.
#[inline]
pub(crate) fn integer(out: &mut Vec<u8>, value: i64) {
    match u64::try_from(value) {
        Ok(value) => header(out, b':', value),
        Err(_) => number(out, b':', value),
    }
}

/// A type, a length and that many bytes.
#[inline]
pub(crate) fn blob(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.reserve(bytes.len() + HEADER_BYTES_MAX + 2);
    header(out, kind, bytes.len() as u64);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// A type, a length and that many bytes, in several pieces.
pub(crate) fn blob_of_pieces<'p>(
    out: &mut Vec<u8>,
    kind: u8,
    len: usize,
    pieces: impl Iterator<Item = &'p [u8]>,
) {
    out.reserve(len + HEADER_BYTES_MAX + 2);
    header(out, kind, len as u64);
    let end = out.len() + len;
    pieces.for_each(|piece| out.extend_from_slice(piece));
    assert_eq!(out.len(), end, "the pieces are as long as was said before them");
    out.extend_from_slice(b"\r\n");
}

/// A type and a text. The text must not end the line early: its line ends become spaces.
pub(crate) fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.reserve(text.len() + 3);
    out.push(kind);
    let start = out.len();
    out.extend_from_slice(text);
    for byte in &mut out[start..] {
        if matches!(*byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// A type and a number of any size.
fn number(out: &mut Vec<u8>, kind: u8, value: impl itoa::Integer) {
    out.reserve(HEADER_BYTES_MAX);
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    out.extend_from_slice(b"\r\n");
}
