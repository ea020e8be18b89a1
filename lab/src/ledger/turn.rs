//! A slow turn of a worker, as `LATENCY LEDGER` tells it.
//!
//! ```text
//!   reply = [ turn … ], newest last
//!   turn  = [ start in µs since 1970, duration in µs, requests, [ cause, µs, cause, µs … ], thread ]
//! ```

use tarn_resp::Frame;

use crate::error::{LabError, Result};

named! {
    /// The causes of latency. The server tells all but the last two.
    pub enum Cause {
        /// Another thread held the latch of a segment.
        Latch = "latch",
        /// The gate was closed.
        Gate = "gate",
        /// The log's write buffer was another's.
        Appender = "appender",
        /// Another thread held a lock.
        Lock = "lock",
        /// The thread was ready, and another one had its core.
        Scheduler = "scheduler",
        /// The kernel brought pages of memory.
        PageFault = "page-fault",
        /// The allocator.
        Allocator = "allocator",
        /// Replies were written.
        Output = "output",
        /// The log had no room: a request waited between two turns.
        LogSpace = "log-space",
        /// The disk: a reply waited between two turns.
        Disk = "disk",
        /// The worker's own processor time, and what nothing else explains.
        Command = "command",
        /// A cause that this laboratory does not know.
        Other = "other",
        /// No slow turn: the generator, the network, and turns that are too short for the ledger.
        Outside = "outside",
    }
}

/// A round of a worker's event loop, or a wait of a request between two.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// Its start, in microseconds since 1970.
    pub start_us: u64,
    /// Its length.
    pub duration_us: u64,
    /// Requests that it ran.
    pub requests: u64,
    /// Causes and their microseconds.
    pub causes: Vec<(Cause, u64)>,
    /// The thread that held for longest what the turn waited for; empty if none did.
    pub holder: String,
}

impl Turn {
    /// A turn from an element of the reply; more parts than are known are ignored.
    fn read(element: &Frame) -> Option<Turn> {
        let [start, duration, requests, causes, holder, ..] = element.as_array()? else { return None };
        let number = |frame: &Frame| u64::try_from(frame.as_integer()?).ok();
        let (pairs, []) = causes.as_array()?.as_chunks::<2>() else { return None };
        let pair = |[name, us]: &[Frame; 2]| Some((Cause::of(name.as_bytes()?), number(us)?));
        Some(Turn {
            start_us: number(start)?,
            duration_us: number(duration)?,
            requests: number(requests)?,
            causes: pairs.iter().map(pair).collect::<Option<_>>()?,
            holder: String::from_utf8_lossy(holder.as_bytes()?).into_owned(),
        })
    }
}

impl Cause {
    fn of(name: &[u8]) -> Cause {
        Cause::ALL.into_iter().find(|own| own.name().as_bytes() == name).unwrap_or(Cause::Other)
    }
}

/// The turns of a reply. `None` for an error reply: the server has no ledger.
pub(super) fn turns(reply: &Frame) -> Result<Option<Vec<Turn>>> {
    if reply.is_error() {
        return Ok(None);
    }
    let refused =
        |frame: &Frame| LabError::Reply(format!("LATENCY LEDGER: not a turn, or not a list: {frame}"));
    let elements = reply.as_array().ok_or_else(|| refused(reply))?;
    elements.iter().map(|one| Turn::read(one).ok_or_else(|| refused(one))).collect::<Result<_>>().map(Some)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use tarn_resp::{FrameDecoder, FrameLimits};

    const TURN: &[u8] = b"*1\r\n*5\r\n:1700000000000000\r\n:900\r\n:12\r\n*6\r\n$5\r\nlatch\r\n:600\r\n\
        $10\r\npage-fault\r\n:200\r\n$5\r\nmagic\r\n:100\r\n$12\r\ntarn-expirer\r\n";

    fn frame(bytes: &[u8]) -> Option<Frame> {
        FrameDecoder::new(FrameLimits::default()).decode(bytes, &mut 0).ok().flatten()
    }

    #[test]
    fn a_turn_is_read_and_an_unknown_cause_is_another() {
        let turn = Turn {
            start_us: 1_700_000_000_000_000,
            duration_us: 900,
            requests: 12,
            causes: vec![(Cause::Latch, 600), (Cause::PageFault, 200), (Cause::Other, 100)],
            holder: "tarn-expirer".to_owned(),
        };
        assert_eq!(turns(&frame(TURN).unwrap()).unwrap().unwrap(), [turn]);
        assert!(turns(&frame(b"*0\r\n").unwrap()).unwrap().unwrap().is_empty());
    }

    #[test]
    fn an_error_reply_means_that_there_is_no_ledger() {
        assert_eq!(turns(&frame(b"-ERR unknown subcommand\r\n").unwrap()).unwrap(), None);
    }

    #[test]
    fn a_malformed_reply_is_an_error_that_shows_it() {
        for text in ["+OK\r\n", ":1\r\n", "*1\r\n:1\r\n", "*1\r\n*0\r\n", "$-1\r\n", "*1\r\n*-1\r\n"] {
            let error = turns(&frame(text.as_bytes()).unwrap()).unwrap_err().to_string();
            assert!(error.contains("LATENCY LEDGER"), "{error}");
        }
        let spoilt = [(":900", ":-90"), ("*6", "*5"), (":600", "+six"), ("$12\r\ntarn-expirer", ":12")];
        for (from, to) in spoilt {
            let text = String::from_utf8(TURN.to_vec()).unwrap().replace(from, to);
            assert!(turns(&frame(text.as_bytes()).unwrap()).is_err(), "{text}");
        }
    }

    #[test]
    fn no_bytes_cause_a_panic() {
        for seed in 0..5000 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut bytes = TURN.to_vec();
            for _ in 0..rng.random_range(1..4) {
                let place = rng.random_range(0..bytes.len());
                bytes[place] = *b"*$:-+_0129\r\n".get(rng.random_range(0..14)).unwrap_or(&b'x');
            }
            let _ = frame(&bytes).map(|reply| turns(&reply));
        }
    }
}
