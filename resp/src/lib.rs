//! The Redis serialization protocol, RESP2 and RESP3, in both directions, without sockets and without async.
//!
//! - [`request`]: bytes from a client to the arguments of a command, borrowed from the read buffer.
//! - [`reply`]: replies to bytes, with RESP3 types sent down to RESP2 where the client speaks that.
//! - [`frame`]: commands to bytes and bytes to replies, for clients.
//! - [`number`]: integers as Redis reads them.
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
pub mod frame;
pub mod number;
pub mod reply;
pub mod request;
mod wire;

pub use frame::{
    Frame, FrameDecoder, FrameError, FrameLimits, ReplyKind, ReplySkimmer, Skimmed, encode_command,
};
pub use reply::{Deferred, Protocol, Writer, format_double};
pub use request::{Args, Limits, OwnedArgs, ProtocolError, RequestDecoder};
