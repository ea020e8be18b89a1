//! Errors that make a request unreadable. After any of these the connection has lost its place and must be
//! closed.

use thiserror::Error;

/// A request that breaks the protocol or a limit.
///
/// The texts are those of Redis 7.0. [`Writer::protocol_error`](crate::Writer::protocol_error) sends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// An inline command of more than 64 KiB.
    #[error("Protocol error: too big inline request")]
    InlineTooBig,
    /// An inline command whose quotes do not close, or close in the middle of a word.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// No end of line in the 64 KiB after a `*`.
    #[error("Protocol error: too big mbulk count string")]
    MultibulkCountTooBig,
    /// The count after `*` is not a number, or above 2^31 - 1.
    #[error("Protocol error: invalid multibulk length")]
    MultibulkLength,
    /// More than 10 arguments from a client that has yet to authenticate.
    #[error("Protocol error: unauthenticated multibulk length")]
    MultibulkLengthUnauthenticated,
    /// No end of line in the 64 KiB after the end of an argument.
    #[error("Protocol error: too big bulk count string")]
    BulkCountTooBig,
    /// An argument that does not begin with `$` but with this byte.
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0))]
    ExpectedDollar(u8),
    /// The length after `$` is not a number, negative, or above `proto-max-bulk-len`.
    #[error("Protocol error: invalid bulk length")]
    BulkLength,
    /// An argument of more than 16 KiB from a client that has yet to authenticate.
    #[error("Protocol error: unauthenticated bulk length")]
    BulkLengthUnauthenticated,
    /// The request is longer than `client-query-buffer-limit`. Redis closes the connection without a word.
    #[error("closing client that reached max query buffer length")]
    QueryBufferLimit,
}

impl ProtocolError {
    /// True if the client gets an error before its connection is closed.
    pub fn has_reply(&self) -> bool {
        !matches!(self, Self::QueryBufferLimit)
    }
}
