//! Messages of PostgreSQL's protocol from any bytes: what `forms.rs` lets through, in pieces of any size, the
//! library reads without a panic and to the last byte.
//!
//! ```text
//!  input:  | type | size of pieces | body |
//! ```
//!
//! A type of 0 is a start-up message, 1 a cancel request, and 2 a password that was asked for.
#![no_main]

#[allow(dead_code)]
#[path = "../../analytics/src/wire/forms.rs"]
mod forms;

use bytes::BytesMut;
use cap::Cap;
use libfuzzer_sys::fuzz_target;
use pgwire::messages::{DecodeContext, PgWireFrontendMessage, ProtocolVersion};

use forms::{Form, Kind};

/// A length that a message only tells must not be allocated: beyond this the process is aborted.
#[global_allocator]
static ALLOCATOR: Cap<std::alloc::System> = Cap::new(std::alloc::System, 64 << 20);

const CANCEL_CODE: u32 = 80_877_102;
const VERSION: u32 = 3 << 16;

fuzz_target!(|input: &[u8]| {
    let [kind, size, body @ ..] = input else { return };
    let kind = match kind {
        0 => Kind::Start(VERSION),
        1 => Kind::Cancel,
        2 => Kind::Password,
        byte => Kind::Of(*byte),
    };
    let whole = fits(kind, body.chunks(body.len().max(1)));
    assert_eq!(whole, fits(kind, body.chunks(usize::from(*size).max(1))), "pieces change nothing");
    if !whole {
        return;
    }
    let (head, code) = match kind {
        Kind::Start(version) => (None, Some(version)),
        Kind::Cancel => (None, Some(CANCEL_CODE)),
        Kind::Of(byte) => (Some(byte), None),
        Kind::Proof | Kind::Password => (Some(b'p'), None),
    };
    let length = 4 + 4 * usize::from(code.is_some()) + body.len();
    let mut message = BytesMut::new();
    message.extend(head);
    message.extend_from_slice(&(length as u32).to_be_bytes());
    message.extend(code.into_iter().flat_map(u32::to_be_bytes));
    message.extend_from_slice(body);
    let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
    (context.awaiting_frontend_ssl, context.awaiting_frontend_startup) = (false, code.is_some());
    // What is no text is an error, which the client is told.
    if let Ok(read) = PgWireFrontendMessage::decode(&mut message, &context) {
        // The secret of a cancel request may be longer than its version says; it is the last message.
        let is_all_read = message.is_empty() || matches!(kind, Kind::Cancel);
        assert!(read.is_some() && is_all_read, "{} bytes are left", message.len());
        if let (Kind::Password, Some(PgWireFrontendMessage::PasswordMessageFamily(answer))) = (kind, read) {
            // What is no text is an error as well.
            let _ = answer.into_password();
        }
    }
});

fn fits<'b>(kind: Kind, pieces: impl Iterator<Item = &'b [u8]>) -> bool {
    let Some(mut form) = Form::of(kind) else { return false };
    let mut pieces = pieces;
    pieces.all(|piece| form.look(piece)) && form.is_whole()
}
