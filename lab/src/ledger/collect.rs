//! Fetches the ledger while a load runs, on a connection of its own.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tarn_resp::Frame;

use super::turn::{Turn, turns};
use crate::error::Result;
use crate::server::Server;

/// The interval between two fetches.
const EVERY: Duration = Duration::from_secs(1);
/// The interval between two checks whether the load is over.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Turns of one fetch: few, because the server's time for the reply is a part of the measurement …
const COUNT: usize = 256;
/// … and where none of them was there the last time, those of a second one.
const COUNT_MOST: usize = 16_384;
/// No more turns are kept.
const TURNS_MOST: usize = 1 << 18;

/// The slow turns of a server while a load ran.
#[derive(Debug, Default)]
pub struct Ledger {
    pub(super) turns: BTreeSet<Turn>,
    /// Fetches before which turns may have been lost: the server or the laboratory had no room for them.
    pub(super) gaps: u64,
}

/// Collects the slow turns of a server until `is_over` is set. `None` if it has no ledger.
pub fn collect(server: &Server, is_over: &AtomicBool) -> Result<Option<Ledger>> {
    let mut client = server.client()?;
    if turns(&client.ask(&["LATENCY", "LEDGER", "COUNT", "1"])?)?.is_none() {
        return Ok(None);
    }
    client.call(&["LATENCY", "RESET"])?;
    let mut ledger = Ledger::default();
    loop {
        let began = Instant::now();
        while began.elapsed() < EVERY && !is_over.load(Ordering::Relaxed) {
            sleep(LOOK_EVERY);
        }
        // The last fetch comes after the last request.
        let was_over = is_over.load(Ordering::Relaxed);
        ledger.fetch(|count| Ok(client.call(&["LATENCY", "LEDGER", "COUNT", &count.to_string()])?))?;
        if was_over {
            return Ok(Some(ledger));
        }
    }
}

impl Ledger {
    /// Adds the newest turns. `ask` gets the number that is wanted.
    fn fetch(&mut self, mut ask: impl FnMut(usize) -> Result<Frame>) -> Result<()> {
        let (mut newest, mut follows) = (Vec::new(), false);
        for count in [COUNT, COUNT_MOST] {
            newest = turns(&ask(count)?)?.unwrap_or_default();
            follows = newest.len() < count || newest.iter().any(|turn| self.turns.contains(turn));
            if follows {
                break;
            }
        }
        let room = TURNS_MOST.saturating_sub(self.turns.len());
        self.gaps += u64::from(!follows || newest.len() > room);
        self.turns.extend(newest.into_iter().rev().take(room));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn reply(starts: impl IntoIterator<Item = usize>) -> Frame {
        let turn = |start: usize| {
            let [start, duration, requests] = [start as i64, 600, 1].map(Frame::Integer);
            Frame::Array(vec![start, duration, requests, Frame::Array(Vec::new()), Frame::bulk("")])
        };
        Frame::Array(starts.into_iter().map(turn).collect())
    }

    #[test]
    fn turns_that_come_twice_count_once_and_lost_ones_are_noticed() {
        let mut ledger = Ledger::default();
        let newest = |last: usize| move |count: usize| Ok(reply(last.saturating_sub(count)..last));
        let after = |ledger: &Ledger| (ledger.turns.len(), ledger.gaps);
        ledger.fetch(newest(10)).unwrap();
        assert_eq!(after(&ledger), (10, 0));
        ledger.fetch(newest(10 + COUNT - 1)).unwrap();
        assert_eq!(after(&ledger), (10 + COUNT - 1, 0));
        // A second, longer fetch finds those that the first had no room for.
        ledger.fetch(newest(5000)).unwrap();
        assert_eq!(after(&ledger), (5000, 0));
        ledger.fetch(newest(5000 + COUNT_MOST)).unwrap();
        assert_eq!(after(&ledger), (5000 + COUNT_MOST, 1));
        assert!(ledger.fetch(|_| Ok(Frame::Integer(1))).is_err());
    }
}
