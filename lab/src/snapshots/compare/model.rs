//! A model, not a measurement: the cache lines that an update touches, read off the algorithms' files in
//! `study/src/`, for machines that count no cache misses.
//!
//! A row of `r` bytes begins at a line, and a copy of it has `r / 64` lines. Lines of bits and marks count
//! one each, though the marks of 64 rows, or the bits of 512, share it: of uniform accesses to much data
//! hardly two find the same line in the cache.

use super::super::cell::Algorithm;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Bytes of a page that the kernel copies.
const PAGE_BYTES: usize = 4096;

/// The lines that an update touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Lines {
    /// Of the first update of a row after a snapshot was taken.
    pub first: usize,
    /// Of each later one.
    pub later: usize,
    /// Of those of the first: the lines that must have come from memory before the update can continue. Lines
    /// that are only stored need not.
    pub awaited: usize,
    /// The words for these lines.
    pub what: &'static str,
}

/// The lines of an update of a whole row; `None` for the virtual algorithms, which lock rows too.
pub(crate) fn lines(algorithm: Algorithm, row_bytes: usize) -> Option<Lines> {
    let row = row_bytes.div_ceil(LINE_BYTES);
    let lines = |first, later, awaited, what| Some(Lines { first, later, awaited, what });
    match algorithm {
        Algorithm::Naive => lines(row, row, 0, "the row"),
        // copy_on_update.rs: `settle` tests the bit, locks, copies the row; then the row is stored.
        Algorithm::CopyOnUpdate => {
            let what = "the row, its bit; first: read before it is written, a lock bit, a copy aside";
            lines(2 * row + 2, row + 1, row + 2, what)
        }
        // A page that the child has returned is not copied, which an update can meet at any row.
        // The first update of a cold page in 2 MiB copies all of it, and is not in the model.
        Algorithm::Fork | Algorithm::ReturningFork | Algorithm::HotColdFork => {
            let page = 2 * PAGE_BYTES / LINE_BYTES;
            lines(page, row, page / 2, "the row; first of a page: the kernel reads and writes 4 KiB")
        }
        // zigzag.rs: `target` tests both bits.
        Algorithm::Zigzag => lines(row + 2, row + 2, 2, "the row in one of two copies, two bits"),
        // ping_pong.rs: `write` stores both, and marks.
        Algorithm::PingPong => lines(2 * row + 1, 2 * row + 1, 0, "the row in two copies, a mark"),
        // hourglass.rs: `target` of a whole row only marks.
        Algorithm::Hourglass => lines(row + 1, row + 1, 0, "the row in one of two copies, a mark"),
        // pair.rs: `change` tests and inverts the lower copy's flag until the pass is over.
        Algorithm::Piggyback => {
            let what = "the row in one of two copies, a mark; while the pass runs: another mark";
            lines(row + 2, row + 1, 1, what)
        }
        // published/copy_on_update.rs: `change` locks, tests the bit, copies the row; then the row is stored.
        Algorithm::PublishedCopyOnUpdate => {
            let what = "the row, its lock, its bit; first: read before it is written, a copy aside";
            lines(2 * row + 2, row + 2, row + 2, what)
        }
        // published/hourglass.rs: `change` reads the words of two bits, to store them.
        Algorithm::PublishedHourglass => lines(row + 2, row + 2, 2, "the row in one of two copies, two bits"),
        // published/piggyback.rs: `change` changes the word of a tag by compare-and-swap.
        Algorithm::PublishedPiggyback => lines(row + 1, row + 1, 1, "the row in one of two copies, a tag"),
        // protection/synchronous.rs: `settle` copies the page. protection/asynchronous.rs: the kernel notes
        // it.
        Algorithm::WriteProtection => {
            let page = 2 * PAGE_BYTES / LINE_BYTES;
            lines(page, row, page / 2, "the row; first of a page: the handler reads and writes 4 KiB")
        }
        Algorithm::AsyncWriteProtection => lines(row, row, 0, "the row; first of a page: a fault"),
        Algorithm::Calc
        | Algorithm::VirtualHourglass
        | Algorithm::VirtualPiggyback
        | Algorithm::PartialCalc
        | Algorithm::Cpr => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_touches_the_row_at_least_and_longer_rows_more_lines() {
        for algorithm in Algorithm::PHYSICAL.into_iter().chain(Algorithm::OTHERS) {
            let [short, long] = [64, 1024].map(|bytes| lines(algorithm, bytes).expect("it is physical"));
            assert!(short.later >= 1 && long.later >= 16 && short.first >= short.later, "{algorithm:?}");
            assert!(short.awaited <= short.first, "{algorithm:?}");
        }
        assert_eq!(lines(Algorithm::PingPong, 64).map(|lines| lines.later), Some(3));
        assert_eq!(lines(Algorithm::Calc, 64), None);
    }
}
