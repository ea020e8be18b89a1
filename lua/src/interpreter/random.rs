//! `math.random`: the numbers that scripts of Redis get.

use std::cell::Cell;

/// The generator of POSIX's `lrand48`.
#[derive(Debug)]
pub(crate) struct Random {
    state: Cell<u64>,
}

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const LOW_BITS: u64 = 0x330E;
/// Before any seed.
const FIRST: u64 = 0x1234_ABCD_330E;
const MASK: u64 = (1 << 48) - 1;

impl Default for Random {
    fn default() -> Random {
        Random { state: Cell::new(FIRST) }
    }
}

impl Random {
    /// Begins the numbers of this seed.
    pub(crate) fn seed(&self, seed: i32) {
        self.state.set(u64::from(seed as u32) << 16 | LOW_BITS);
    }

    /// The next number, of 31 bits.
    pub(crate) fn next(&self) -> u32 {
        let state = self.state.get().wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
        self.state.set(state);
        (state >> 17) as u32
    }

    /// The next number in `0..1`.
    pub(crate) fn fraction(&self) -> f64 {
        let max = f64::from(i32::MAX);
        f64::from(self.next() % i32::MAX as u32) / max
    }
}
