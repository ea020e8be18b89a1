//! Errors of commands, in Redis's words: clients and people know these texts.

use std::borrow::Cow;

use tarn_engine::CommitError;
use tarn_engine::LatchTimeout;
use tarn_engine::LogError;

/// Longest part of a client's words that an error repeats.
pub(crate) const QUOTED_MAX: usize = 128;

/// A client's word as an error repeats it: as Redis does, up to a NUL.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let len = bytes.iter().take(QUOTED_MAX).position(|byte| *byte == 0);
    let shown = &bytes[..len.unwrap_or(bytes.len().min(QUOTED_MAX))];
    String::from_utf8_lossy(shown).replace(['\r', '\n'], " ")
}

/// An error reply. The text begins with its code and has no line breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The key holds another kind of value.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    /// The arguments make no sense together.
    #[error("ERR syntax error")]
    Syntax,
    /// An argument or a value is no 64-bit integer.
    #[error("ERR value is not an integer or out of range")]
    NotAnInteger,
    /// An argument or a value is no number.
    #[error("ERR value is not a valid float")]
    NotAFloat,
    /// An index beyond the end.
    #[error("ERR index out of range")]
    IndexOutOfRange,
    /// The key must exist.
    #[error("ERR no such key")]
    NoSuchKey,
    /// A count or length must not be negative.
    #[error("ERR value is out of range, must be positive")]
    NotPositive,
    /// A string would become longer than `proto-max-bulk-len`.
    #[error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")]
    StringTooLong,
    /// The database number is none.
    #[error("ERR DB index is out of range")]
    DbOutOfRange,
    /// Too few or too many arguments.
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(Cow<'static, str>),
    /// The log takes no more for now: the command is run again when there is room.
    #[error("MISCONF Errors writing to the AOF file: the log cannot be written fast enough")]
    LogBehind,
    /// Somebody is at something long inside the gate, or has a latch for long: the command is run again a
    /// moment later.
    #[error("BUSY another client's command takes long")]
    GateBusy,
    /// A value was prepared in vain: the command is run again at once.
    #[error("BUSY the value has to be prepared again")]
    Unprepared,
    /// The log cannot take writes.
    #[error("MISCONF Errors writing to the AOF file: {0}")]
    LogRefuses(String),
    /// A script or a function runs for long.
    #[error("BUSY Redis is busy running a script. You can only call {0} KILL or SHUTDOWN NOSAVE.")]
    Busy(&'static str),
    /// Nothing is written while checkpoints that rules want cannot be taken.
    #[error(
        "MISCONF The last checkpoint that the rules of 'save' asked for failed: commands that may modify the \
         data set are disabled until one is taken (stop-writes-on-bgsave-error). Please check the logs for \
         the error."
    )]
    CheckpointsFail,
    /// More memory is in use than `maxmemory`, and no key can be evicted.
    #[error("OOM command not allowed when used memory > 'maxmemory'.")]
    OutOfMemory,
    /// The reply would not fit.
    #[error(
        "ERR the reply would be longer than the hard limit of 'client-output-buffer-limit normal' lets it \
         be; nothing was changed"
    )]
    ReplyTooLong,
    /// `DEBUG` for a client that must not use it.
    #[error(
        "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run \
         it from a local connection, otherwise you need to set this option in the configuration file, and \
         then restart the server."
    )]
    DebugNotAllowed,
    /// Anything else, the whole text.
    #[error("{0}")]
    Message(Cow<'static, str>),
}

impl CommandError {
    /// An error of this text, code included.
    pub const fn text(text: &'static str) -> CommandError {
        CommandError::Message(Cow::Borrowed(text))
    }

    /// An error of this text, code included.
    pub fn owned(text: String) -> CommandError {
        CommandError::Message(Cow::Owned(text))
    }
}

impl From<LatchTimeout> for CommandError {
    fn from(_: LatchTimeout) -> CommandError {
        CommandError::GateBusy
    }
}

impl From<CommitError> for CommandError {
    fn from(error: CommitError) -> CommandError {
        match error {
            CommitError::Log(LogError::Backlogged) => CommandError::LogBehind,
            CommitError::Unprepared => CommandError::Unprepared,
            CommitError::GateClosed => CommandError::GateBusy,
            error => CommandError::LogRefuses(error.to_string()),
        }
    }
}
