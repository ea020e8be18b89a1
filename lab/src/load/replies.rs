//! Counts the replies of one connection, and its errors by their texts.

use tarn_resp::{ReplyKind, ReplySkimmer};

use super::errors::Errors;

/// Passes over replies, however the stream is cut into pieces.
#[derive(Debug, Default)]
pub(super) struct Replies {
    skimmer: ReplySkimmer,
    /// The beginning of a line that was cut off.
    rest: Vec<u8>,
    /// Replies that were errors.
    pub(super) errors: Errors,
}

impl Replies {
    /// Takes the next piece. Returns how many replies ended in it; `None` if it is not the protocol.
    #[inline]
    pub(super) fn take(&mut self, piece: &[u8]) -> Option<u32> {
        if self.rest.is_empty() {
            let (ended, passed) = self.pass(piece)?;
            self.rest.extend_from_slice(&piece[passed..]);
            return Some(ended);
        }
        let mut whole = std::mem::take(&mut self.rest);
        whole.extend_from_slice(piece);
        let (ended, passed) = self.pass(&whole)?;
        whole.drain(..passed);
        self.rest = whole;
        Some(ended)
    }

    /// Skips complete replies. Returns the number of replies that ended, and the number of bytes used.
    #[inline]
    fn pass(&mut self, bytes: &[u8]) -> Option<(u32, usize)> {
        let (mut ended, mut passed) = (0, 0);
        loop {
            let begin = passed;
            match self.skimmer.next_reply(bytes, &mut passed).ok()? {
                None => return Some((ended, passed)),
                Some(ReplyKind::Push) => continue,
                Some(ReplyKind::Error) => self.errors.add(&bytes[begin..passed], 1),
                Some(ReplyKind::Value | ReplyKind::Null) => {}
            }
            ended += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"+OK\r\n$5\r\nhe\nlo\r\n:12\r\n$-1\r\n\
        *3\r\n*2\r\n+a\r\n$0\r\n\r\n*1\r\n:1\r\n:3\r\n-ERR no\r\n$1\r\nx\r\n";

    #[test]
    fn replies_are_counted_however_they_are_cut() {
        for size in 1..STREAM.len() {
            let mut replies = Replies::default();
            let ended: u32 =
                STREAM.chunks(size).map(|piece| replies.take(piece).expect("it is the protocol")).sum();
            assert_eq!(ended, 7, "pieces of {size}");
            assert_eq!(replies.errors.texts().collect::<Vec<_>>(), [("-ERR no", 1)]);
        }
    }
}
