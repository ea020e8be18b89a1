//! The choice of the next key: in order, uniform, or Zipfian with the popular keys scattered, as YCSB does
//! it.

use rand::Rng;
use rand::rngs::SmallRng;

/// YCSB's skew.
const YCSB_THETA: f64 = 0.99;
/// YCSB draws from this many items whatever the number of records, then folds: growth does not move the
/// popular keys.
const YCSB_ITEMS: u64 = 10_000_000_000;
/// `zeta(YCSB_ITEMS, YCSB_THETA)`, which would take minutes to sum.
const YCSB_ZETA: f64 = 26.469_028_201_783_02;

named! {
    /// The distribution of keys over `0 .. count`.
    pub enum KeyChoice {
        /// One after the other, from the first, over and over.
        Sequential = "sequential",
        /// All equally often.
        Uniform = "uniform",
        /// YCSB's scrambled Zipfian, θ = 0.99.
        Zipfian = "zipfian",
    }
}

/// A source of key numbers.
#[derive(Debug, Clone)]
pub struct Keys {
    choice: KeyChoice,
    count: u64,
    /// The number that comes next, where they come in order.
    next: u64,
    /// The popularity of what is drawn: ranks of a fixed huge range, hashed and folded onto the keys.
    ranks: Zipfian,
}

impl Keys {
    /// A source of numbers below `count`, which is at least 1.
    pub fn new(choice: KeyChoice, count: u64) -> Keys {
        assert!(count > 0, "a choice needs something to choose from");
        Keys { choice, count, next: 0, ranks: Zipfian::new(YCSB_ITEMS, YCSB_THETA, YCSB_ZETA) }
    }

    /// The next number.
    #[inline]
    pub fn next(&mut self, rng: &mut SmallRng) -> u64 {
        match self.choice {
            KeyChoice::Sequential => {
                let key = self.next;
                self.next = if key + 1 == self.count { 0 } else { key + 1 };
                key
            }
            KeyChoice::Uniform => below(rng, self.count),
            KeyChoice::Zipfian => scatter(self.ranks.next(rng)) % self.count,
        }
    }
}

/// A number below `count`, by multiplication: no division, and a bias below 2^-32 for any count in use here.
#[inline]
pub(crate) fn below(rng: &mut SmallRng, count: u64) -> u64 {
    ((u128::from(rng.random::<u64>()) * u128::from(count)) >> 64) as u64
}

/// Zipfian ranks: rank `r` (from 0) comes with probability proportional to `1 / (r + 1)^θ`.
///
/// Constant time a draw; after Gray and others, "Quickly generating billion-record synthetic databases",
/// 1994, which YCSB uses too.
#[derive(Debug, Clone)]
struct Zipfian {
    items: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
    second: f64,
}

impl Zipfian {
    /// Ranks below `items` with skew `theta` in `(0, 1)`. `zeta` is the sum of `1 / r^theta` for `r` from 1
    /// to `items`.
    fn new(items: u64, theta: f64, zeta: f64) -> Zipfian {
        let items = items as f64;
        let zeta_of_two = 1.0 + 0.5f64.powf(theta);
        Zipfian {
            items,
            zeta,
            alpha: 1.0 / (1.0 - theta),
            eta: (1.0 - (2.0 / items).powf(1.0 - theta)) / (1.0 - zeta_of_two / zeta),
            second: zeta_of_two,
        }
    }

    /// The next rank.
    #[inline]
    fn next(&self, rng: &mut SmallRng) -> u64 {
        let uniform: f64 = rng.random();
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            0
        } else if scaled < self.second {
            1
        } else {
            let rank = self.items * (self.eta * uniform - self.eta + 1.0).powf(self.alpha);
            (rank as u64).min(self.items as u64 - 1)
        }
    }
}

/// YCSB's scattering of numbers: FNV-1a over the eight bytes, lowest first, without the sign bit.
#[inline]
pub fn scatter(number: u64) -> u64 {
    let mut hash: u64 = 0xCBF2_9CE4_8422_2325;
    for byte in number.to_le_bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    // YCSB takes the absolute value of the hash as a signed number.
    (hash as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rand::SeedableRng;
    use rand_distr::Distribution;

    use super::*;

    const SEED: u64 = 11;

    #[test]
    fn zipfian_ranks_come_as_often_as_rand_distr_says() {
        const ITEMS: usize = 1000;
        const DRAWS: usize = 400_000;
        let mut rng = SmallRng::seed_from_u64(SEED);
        let ours = Zipfian::new(ITEMS as u64, 0.99, (1..=ITEMS).map(|rank| (rank as f64).powf(-0.99)).sum());
        let theirs = rand_distr::Zipf::new(ITEMS as f64, 0.99).unwrap();
        let (mut our_counts, mut their_counts) = (vec![0u64; ITEMS], vec![0u64; ITEMS]);
        for _ in 0..DRAWS {
            our_counts[ours.next(&mut rng) as usize] += 1;
            their_counts[theirs.sample(&mut rng) as usize - 1] += 1;
        }
        // Ranks in doubling bands. The two most popular are exact; the formula, which is YCSB's too, gives
        // the next few up to a sixth more than their due.
        let mut from = 0;
        let mut to = 1;
        while from < ITEMS {
            let band = from..to.min(ITEMS);
            let (our, their): (u64, u64) =
                (our_counts[band.clone()].iter().sum(), their_counts[band].iter().sum());
            let ratio = our as f64 / their as f64;
            let slack = if from < 2 { 0.03 } else { 0.18 };
            assert!((ratio - 1.0).abs() < slack, "seed {SEED}: ranks {from}..{to} {our} against {their}");
            from = to;
            to *= 2;
        }
    }

    #[test]
    fn the_given_zeta_is_that_of_ten_billion_items() {
        // The sum up to a million, and the integral with its first correction from there on.
        let near: f64 = (1..=1_000_000u64).map(|rank| (rank as f64).powf(-YCSB_THETA)).sum();
        let from = 1_000_000f64;
        let to = YCSB_ITEMS as f64;
        let power = 1.0 - YCSB_THETA;
        let far = (to.powf(power) - from.powf(power)) / power
            + (to.powf(-YCSB_THETA) - from.powf(-YCSB_THETA)) / 2.0;
        assert!((near + far - YCSB_ZETA).abs() < 1e-4, "{}", near + far);
    }

    #[test]
    fn scrambled_zipfian_scatters_the_popular_keys_and_stays_in_range() {
        let mut keys = Keys::new(KeyChoice::Zipfian, 1000);
        let mut rng = SmallRng::seed_from_u64(SEED);
        let mut counts = vec![0u32; 1000];
        for _ in 0..100_000 {
            counts[keys.next(&mut rng) as usize] += 1;
        }
        let most = (0..1000).max_by_key(|&key| counts[key]).unwrap();
        assert_eq!(most as u64, scatter(0) % 1000, "seed {SEED}");
        assert!(counts[most] > 3000, "seed {SEED}: {}", counts[most]);
    }

    #[test]
    fn sequential_keys_go_round_and_uniform_keys_reach_all() {
        let mut rng = SmallRng::seed_from_u64(SEED);
        let mut keys = Keys::new(KeyChoice::Sequential, 3);
        assert_eq!([0; 5].map(|_| keys.next(&mut rng)), [0, 1, 2, 0, 1]);
        let mut keys = Keys::new(KeyChoice::Uniform, 10);
        let mut seen = [false; 10];
        (0..1000).for_each(|_| seen[keys.next(&mut rng) as usize] = true);
        assert!(seen.iter().all(|&seen| seen), "seed {SEED}");
    }
}
