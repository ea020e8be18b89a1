//! Errors that make a server's reply unreadable. After any of these the connection has lost its place and
//! must be closed.

use thiserror::Error;

/// Bytes that are not a reply, or one beyond a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// No reply begins with this byte.
    #[error("no reply begins with the byte {0:#04x}")]
    Type(u8),
    /// A carriage return or a line feed without the other, or a blob that both do not follow.
    #[error("a line end is missing or broken")]
    LineEnd,
    /// A line of this type with a wrong text.
    #[error("the text of a line of type '{}' is not valid", char::from(*.0))]
    Text(u8),
    /// A line that does not end within the limit.
    #[error("a line is longer than the limit")]
    LineTooLong,
    /// More bytes in one string, or more elements in one aggregate, than the limit.
    #[error("a length of {0} is above the limit")]
    TooLong(u64),
    /// Aggregates within aggregates beyond the limit.
    #[error("replies are nested more than {0} deep")]
    TooDeep(usize),
}
