//! The Redis serialization protocol, RESP2 and RESP3, in both directions, without sockets and without async.
//!
//! - Requests: [`RequestDecoder`] turns bytes from a client into [`Args`], borrowed from the read buffer.
//! - Replies: [`Writer`] turns replies into bytes; to a client of RESP2 it sends the types of RESP3 as RESP2.
//! - Frames: [`encode_command`] and [`FrameDecoder`] are the client's side of both.
//! - `client`, with the feature of that name: a blocking connection for tools and tests.
//!
//! ```
//! use tarn_resp::{Limits, Protocol, RequestDecoder, Writer};
//!
//! let mut decoder = RequestDecoder::new(Limits::default());
//! let received = b"*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n";
//! let mut pos = 0;
//! let mut out = Vec::new();
//! while let Some(args) = decoder.decode(received, &mut pos).expect("these bytes obey the protocol") {
//!     assert_eq!(&args[0], b"ECHO");
//!     Writer::new(&mut out, Protocol::Resp2).bulk(&args[1]);
//! }
//! assert_eq!(pos, received.len());
//! assert_eq!(out, b"$5\r\nhello\r\n");
//! ```

#[cfg(feature = "client")]
pub mod client;
mod frame;
mod number;
mod reply;
mod request;
mod wire;

// The client's side: commands to bytes, bytes to replies.
pub use frame::{
    Frame, FrameDecoder, FrameError, FrameLimits, ReplyKind, ReplySkimmer, Skimmed, encode_command,
};
// Integers as Redis reads them.
pub use number::parse_i64;
// The server's side: replies to bytes.
pub use reply::{Deferred, DoubleText, Protocol, Writer, format_double};
// The server's side: bytes to the arguments of a command.
pub use request::{Args, ArgsIter, Limits, OwnedArgs, ProtocolError, RequestDecoder};
