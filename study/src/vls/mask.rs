//! A mask: a bit for each scan that may run at once, 64 of them or a multiple.

use std::array;
use std::fmt::Debug;
use std::ops::{BitAnd, BitOr, BitXor, Not};

use crate::sync::atomic::{AtomicU64, Ordering};

/// A mask of as many bits as scans may run at once: `u64`, or [`Wide`].
pub trait Mask:
    Copy
    + Eq
    + Debug
    + Send
    + Sync
    + 'static
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
{
    /// The number of its bits: the paper's N.
    const BITS: usize;
    /// No bit.
    const ZEROS: Self;
    /// Every bit.
    const ONES: Self;
    /// A mask that threads share. A wide one consists of several words, and only the view's turn counter
    /// makes a read of it atomic.
    type Cell: Send + Sync;

    /// The lowest of its bits alone; no bit if it has none.
    fn lowest(self) -> Self;

    /// Where its lowest bit is. REQUIRES: it has one.
    fn position(self) -> usize;

    /// A shared one with this value.
    fn share(self) -> Self::Cell;

    /// Reads a shared one, relaxed.
    fn load(cell: &Self::Cell) -> Self;

    /// Writes a shared one, relaxed.
    fn store(self, cell: &Self::Cell);
}

impl Mask for u64 {
    const BITS: usize = 64;
    const ZEROS: u64 = 0;
    const ONES: u64 = u64::MAX;
    type Cell = AtomicU64;

    fn lowest(self) -> u64 {
        self & self.wrapping_neg()
    }

    fn position(self) -> usize {
        self.trailing_zeros() as usize
    }

    fn share(self) -> AtomicU64 {
        AtomicU64::new(self)
    }

    fn load(cell: &AtomicU64) -> u64 {
        cell.load(Ordering::Relaxed)
    }

    fn store(self, cell: &AtomicU64) {
        cell.store(self, Ordering::Relaxed);
    }
}

/// A mask of several words, lowest bits first: `Wide<2>` has 128 bits, `Wide<8>` the 512 of the widest
/// registers that the paper names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wide<const WORDS: usize>([u64; WORDS]);

impl<const WORDS: usize> Wide<WORDS> {
    /// Word by word.
    #[inline]
    fn with(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Wide(array::from_fn(|at| of(self.0[at], other.0[at])))
    }
}

impl<const WORDS: usize> BitAnd for Wide<WORDS> {
    type Output = Self;

    #[inline]
    fn bitand(self, other: Self) -> Self {
        self.with(other, |own, other| own & other)
    }
}

impl<const WORDS: usize> BitOr for Wide<WORDS> {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        self.with(other, |own, other| own | other)
    }
}

impl<const WORDS: usize> BitXor for Wide<WORDS> {
    type Output = Self;

    #[inline]
    fn bitxor(self, other: Self) -> Self {
        self.with(other, |own, other| own ^ other)
    }
}

impl<const WORDS: usize> Not for Wide<WORDS> {
    type Output = Self;

    #[inline]
    fn not(self) -> Self {
        self ^ Self::ONES
    }
}

impl<const WORDS: usize> Mask for Wide<WORDS> {
    const BITS: usize = 64 * WORDS;
    const ZEROS: Self = Wide([0; WORDS]);
    const ONES: Self = Wide([u64::MAX; WORDS]);
    type Cell = [AtomicU64; WORDS];

    fn lowest(self) -> Self {
        let mut lowest = Self::ZEROS;
        if let Some(at) = self.0.iter().position(|word| *word != 0) {
            lowest.0[at] = self.0[at].lowest();
        }
        lowest
    }

    fn position(self) -> usize {
        let at = self.0.iter().position(|word| *word != 0).expect("the mask has a bit");
        at * 64 + self.0[at].position()
    }

    fn share(self) -> Self::Cell {
        self.0.map(u64::share)
    }

    #[inline]
    fn load(cell: &Self::Cell) -> Self {
        Wide(array::from_fn(|at| u64::load(&cell[at])))
    }

    #[inline]
    fn store(self, cell: &Self::Cell) {
        self.0.iter().zip(cell).for_each(|(word, cell)| word.store(cell));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// The bits of a mask, found without its arithmetic on words: by the masks of one bit each.
    fn bits<M: Mask>(mask: M, single: &[M]) -> Vec<bool> {
        single.iter().map(|bit| mask & *bit != M::ZEROS).collect()
    }

    /// Every operation of a mask does to each bit what it does to a truth value.
    fn check<M: Mask>() {
        // Each lowest one of those that are left.
        let mut left = M::ONES;
        let single: Vec<M> = (0..M::BITS)
            .map(|at| {
                let bit = left.lowest();
                assert_eq!((bit.position(), left.position()), (at, at));
                left = left ^ bit;
                bit
            })
            .collect();
        assert_eq!((left, left.lowest()), (M::ZEROS, M::ZEROS));
        let mut rng = StdRng::seed_from_u64(7);
        let shared = M::ONES.share();
        assert_eq!(M::load(&shared), M::ONES);
        for _ in 0..200 {
            // Few bits, so that whole words are empty.
            let mut draw = || -> (M, Vec<bool>) {
                let chosen: Vec<bool> = (0..M::BITS).map(|_| rng.random_bool(0.02)).collect();
                let own = single.iter().zip(&chosen).filter(|(_, is_chosen)| **is_chosen);
                (own.fold(M::ZEROS, |mask, (bit, _)| mask | *bit), chosen)
            };
            let ((a, of_a), (b, of_b)) = (draw(), draw());
            let model = |of: fn(bool, bool) -> bool| -> Vec<bool> {
                of_a.iter().zip(&of_b).map(|(a, b)| of(*a, *b)).collect()
            };
            assert_eq!(bits(a, &single), of_a);
            assert_eq!(bits(a & b, &single), model(|a, b| a & b));
            assert_eq!(bits(a | b, &single), model(|a, b| a | b));
            assert_eq!(bits(a ^ b, &single), model(|a, b| a ^ b));
            assert_eq!(bits(!a, &single), model(|a, _| !a));
            match of_a.iter().position(|is_set| *is_set) {
                Some(at) => assert_eq!((a.position(), a.lowest()), (at, single[at])),
                None => assert_eq!(a.lowest(), M::ZEROS),
            }
            a.store(&shared);
            assert_eq!(M::load(&shared), a);
        }
    }

    #[test]
    fn masks_of_every_width_are_sets_of_bits() {
        check::<u64>();
        check::<Wide<2>>();
        check::<Wide<4>>();
        check::<Wide<8>>();
        assert_eq!([<u64 as Mask>::BITS, Wide::<4>::BITS, Wide::<8>::BITS], [64, 256, 512]);
    }
}
