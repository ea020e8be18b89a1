//! The accesses of a cell, drawn before the clock runs.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Zipf};
use tarn_study::{Algorithm, Turn};

use super::cell::Cell;
use crate::error::Result;

/// Accesses that are made at most; the client goes round.
const ACCESSES: usize = 1 << 24;

/// Rows in the order in which they are accessed.
pub(super) struct Stream {
    rows: Vec<u32>,
    next: usize,
}

impl Stream {
    /// Those of a cell.
    pub(super) fn new(cell: &Cell) -> Stream {
        let place: fn(u64, u64) -> u32 = if cell.by_popularity { |rank, _| rank as u32 } else { scatter };
        Stream::of(cell.rows, cell.skew, place, cell.seed)
    }

    /// Accesses to `rows` rows, Zipfian with exponent `skew`; 0: uniform. `place` is the row of a popularity
    /// among so many.
    fn of(rows: usize, skew: f64, place: fn(u64, u64) -> u32, seed: u64) -> Stream {
        let mut rng = SmallRng::seed_from_u64(seed);
        let count = (rows * 4).clamp(1 << 20, ACCESSES);
        let rows = u32::try_from(rows).expect("the study has fewer rows than 2^32");
        let accesses = if skew == 0.0 {
            (0..count).map(|_| rng.random_range(0..rows)).collect()
        } else {
            let zipf = Zipf::new(f64::from(rows), skew).expect("a plan has exponents that are positive");
            (0..count).map(|_| place(zipf.sample(&mut rng) as u64 - 1, u64::from(rows))).collect()
        };
        Stream { rows: accesses, next: 0 }
    }

    /// The next `count` accesses, as pieces of the stream.
    pub(super) fn take(&mut self, mut count: usize, mut access: impl FnMut(&[u32])) {
        while count > 0 {
            let rest = &self.rows[self.next..];
            let piece = &rest[..rest.len().min(count)];
            access(piece);
            count -= piece.len();
            self.next = (self.next + piece.len()) % self.rows.len();
        }
    }
}

/// The part of a row that an update writes: all of it, or fields or items in turn.
enum Part {
    Whole,
    Field(usize),
    Item(usize),
}

/// Applies accesses to an array.
pub(super) struct Updates {
    whole: Vec<u64>,
    part: Part,
    value: u64,
}

impl Updates {
    /// Those of a cell.
    pub(super) fn new(cell: &Cell) -> Updates {
        let part = match (cell.fields, cell.items) {
            (_, true) => Part::Item(0),
            (true, _) => Part::Field(0),
            _ => Part::Whole,
        };
        Updates { whole: vec![0; cell.row_bytes / 8], part, value: 0 }
    }

    /// Updates each of the rows.
    #[inline]
    pub(super) fn apply<A: Algorithm>(&mut self, turn: &mut Turn<'_, A>, rows: &[u32]) {
        for &row in rows {
            self.value += 1;
            // The rows and the fields are the array's own.
            let _written = match &mut self.part {
                Part::Field(field) => {
                    *field = if *field + 1 == self.whole.len() { 0 } else { *field + 1 };
                    turn.write_field(row as usize, *field, self.value)
                }
                Part::Item(item) => {
                    *item = if *item + 1 == self.whole.len() * 2 { 0 } else { *item + 1 };
                    turn.write_item(row as usize, *item, self.value as u32)
                }
                Part::Whole => {
                    self.whole[0] = self.value;
                    turn.write(row as usize, &self.whole)
                }
            };
        }
    }

    /// The number of updates.
    pub(super) fn count(&self) -> u64 {
        self.value
    }
}

/// The visitor of rows that are not dumped.
pub(super) fn look(_: usize, fields: &[u64]) -> Result<()> {
    std::hint::black_box(fields);
    Ok(())
}

/// The row of the given popularity: another one for each, as the factor and `rows` have no common divisor.
fn scatter(rank: u64, rows: u64) -> u32 {
    // A prime beyond any number of rows.
    const FACTOR: u64 = 4_294_967_311;
    (u128::from(rank) * u128::from(FACTOR) % u128::from(rows)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popular_rows_are_scattered_and_none_is_lost() {
        let mut rows: Vec<u32> = (0..1000).map(|rank| scatter(rank, 1000)).collect();
        assert!(rows.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 1));
        rows.sort_unstable();
        assert_eq!(rows, (0..1000).collect::<Vec<u32>>());
    }

    #[test]
    fn the_skew_is_that_of_zipf() {
        // Of 100 rows with exponent 0.9 the most popular one has 1 / (sum of k^-0.9) of the accesses.
        let mut stream = Stream::of(100, 0.9, scatter, 1);
        let (mut popular, mut all) = (0, 0);
        stream.take(1_000_000, |rows| {
            popular += rows.iter().filter(|row| **row == 0).count();
            all += rows.len();
        });
        let share = 1.0 / (1..=100).map(|k| f64::from(k).powf(-0.9)).sum::<f64>();
        assert_eq!(all, 1_000_000);
        assert!((popular as f64 / all as f64 / share - 1.0).abs() < 0.02, "{popular}, expected {share}");
    }

    #[test]
    fn popular_rows_come_first_where_pages_have_two_sizes() {
        use super::super::plan::{Figure, Scale, points};
        for point in points(Figure::HotCold, Scale::Quick, 1) {
            let mut hot = 0;
            Stream::new(&point.cell).take(100_000, |rows| {
                hot += rows.iter().filter(|row| (**row as usize) < point.cell.rows / 16).count();
            });
            assert!(hot > 60_000, "{}: {hot} of 100000 updates are of hot rows", point.cell);
        }
    }

    #[test]
    fn the_client_goes_round() {
        let mut stream = Stream::of(10, 0.0, scatter, 1);
        let mut first = Vec::new();
        stream.take(5, |rows| first.extend_from_slice(rows));
        stream.take((1 << 20) - 5, |_| ());
        let mut again = Vec::new();
        stream.take(5, |rows| again.extend_from_slice(rows));
        assert_eq!(first, again);
    }
}
