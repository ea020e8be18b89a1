//! The limits of what one command on a stream changes.

use crate::error::CommandError;
use crate::execute::context::Context;

/// Bytes that the names of a group and a consumer have together at most: what is pending has both, and so has
/// each record of it. What has no longer names is read from every RDB file that Tarn writes.
const NAMES_BYTES_MAX: usize = 1024;

/// Refuses names that are too long.
pub(super) fn check_names(group: &[u8], consumer: &[u8]) -> Result<(), CommandError> {
    const TOO_LONG: CommandError =
        CommandError::text("ERR the names of a group and a consumer have more than 1024 bytes together");
    if group.len() + consumer.len() > NAMES_BYTES_MAX { Err(TOO_LONG) } else { Ok(()) }
}

/// Bounds what one command changes: an element has the names of its group and its consumer, which are short
/// but for those of somebody who wants to fill the memory.
pub(super) struct Budget {
    left: u64,
    /// Bytes of an element, about.
    each: u64,
}

impl Budget {
    pub(super) fn new(cx: &Context<'_, '_>, group: &[u8], consumer: &[u8]) -> Budget {
        // The name and the consumer of what is pending, and the name of what follows from it.
        let each = 2 * (group.len() + consumer.len()) as u64 + 64;
        Budget { left: cx.server.live.query_buffer_limit_bytes(), each }
    }

    /// Whether one element more may be changed.
    pub(super) fn takes_one(&mut self) -> bool {
        let takes = self.left >= self.each;
        self.left = self.left.saturating_sub(self.each);
        takes
    }

    /// As `takes_one`, for who cannot do a part.
    pub(super) fn take_one(&mut self) -> Result<(), CommandError> {
        const TOO_MUCH: CommandError =
            CommandError::text("ERR the command changes more at once than client-query-buffer-limit bytes");
        if self.takes_one() { Ok(()) } else { Err(TOO_MUCH) }
    }
}
