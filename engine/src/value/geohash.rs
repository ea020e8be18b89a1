//! Points on the earth as numbers of 52 bits, which are scores of sorted sets, and the cells of the map that
//! these numbers are cut into: what redis-server computes, step by step, as its replies depend on each of
//! them.
//!
//! ```text
//! longitude  x x x …    26 bits: how far east, of 360 degrees
//! latitude    y y y …   26 bits: how far north, of the degrees that a Mercator map shows
//! number     xyxyxy…    so a cell of the map is an interval of numbers
//! ```

use std::f64::consts::PI;
use std::ops::Range;

/// Radius of the earth in metres.
pub const RADIUS_M: f64 = 6_372_797.560_856;
/// Bits of a coordinate.
pub const STEPS: u32 = 26;
/// The bits of a latitude in a number, and of a longitude.
const LATITUDE: u64 = 0x5555_5555_5555_5555;
const LONGITUDE: u64 = 0xaaaa_aaaa_aaaa_aaaa;
/// The digits of a geohash in letters.
const DIGITS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
/// Letters of one.
const LETTERS: usize = 11;

/// A point, in degrees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// To the east of Greenwich.
    pub longitude: f64,
    /// To the north of the equator.
    pub latitude: f64,
}

/// A point that distances are measured from, with what all of them need.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Its longitude and its latitude in radians.
    longitude: f64,
    latitude: f64,
    /// The cosine of its latitude.
    cosine: f64,
}

impl Origin {
    /// Measures from a point.
    pub fn at(point: Point) -> Origin {
        let latitude = radians(point.latitude);
        Origin { longitude: radians(point.longitude), latitude, cosine: latitude.cos() }
    }

    /// The distance of a point in metres.
    pub fn distance(&self, point: Point) -> f64 {
        let latitude = radians(point.latitude);
        let u = ((latitude - self.latitude) / 2.0).sin();
        let v = ((radians(point.longitude) - self.longitude) / 2.0).sin();
        2.0 * RADIUS_M * (u * u + self.cosine * latitude.cos() * v * v).sqrt().asin()
    }

    /// The distance in metres between a point and the one to its east or west that has the origin's
    /// longitude.
    pub fn distance_aside(&self, point: Point) -> f64 {
        let cosine = radians(point.latitude).cos();
        let v = ((self.longitude - radians(point.longitude)) / 2.0).sin();
        2.0 * RADIUS_M * (cosine * cosine * v * v).sqrt().asin()
    }

    /// Whether a point is certainly farther away than so many metres: by its latitude alone, which says the
    /// least distance there can be.
    #[inline]
    pub fn is_beyond(&self, point: Point, metres: f64) -> bool {
        // Distances are rounded. By how much is far less than this.
        const ROUNDING: f64 = 1.0 + 1e-9;
        let north = RADIUS_M * (radians(point.latitude) - self.latitude).abs();
        north > metres * ROUNDING + 1e-3
    }
}

/// Degrees that a number can stand for.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The least and the greatest longitude.
    pub longitude: (f64, f64),
    /// The least and the greatest latitude.
    pub latitude: (f64, f64),
}

/// The map.
pub const MERCATOR: Extent = Extent { longitude: (-180.0, 180.0), latitude: (-85.051_128_78, 85.051_128_78) };
const GLOBE: Extent = Extent { longitude: (-180.0, 180.0), latitude: (-90.0, 90.0) };

/// A cell of the map: so many bits of each coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    bits: u64,
    steps: u32,
}

/// Puts the bits of a number into every second place, from the lowest on.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in [
        (16, 0x0000_FFFF_0000_FFFF),
        (8, 0x00FF_00FF_00FF_00FF),
        (4, 0x0F0F_0F0F_0F0F_0F0F),
        (2, 0x3333_3333_3333_3333),
        (1, LATITUDE),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// The opposite.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & LATITUDE;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333_u64),
        (2, 0x0F0F_0F0F_0F0F_0F0F),
        (4, 0x00FF_00FF_00FF_00FF),
        (8, 0x0000_FFFF_0000_FFFF),
        (16, 0x0000_0000_FFFF_FFFF),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

impl Point {
    /// The point, if the map has it.
    pub fn on_map(longitude: f64, latitude: f64) -> Option<Point> {
        let is_within = |value: f64, (min, max): (f64, f64)| (min..=max).contains(&value);
        (is_within(longitude, MERCATOR.longitude) && is_within(latitude, MERCATOR.latitude))
            .then_some(Point { longitude, latitude })
    }

    /// The number of the point.
    pub fn number(self) -> u64 {
        self.cell(MERCATOR, STEPS).bits
    }

    /// The point that a score stands for: the middle of a smallest cell.
    pub fn of_score(score: f64) -> Point {
        let (longitude, latitude) = Cell { bits: score as u64, steps: STEPS }.area();
        let middle =
            |(min, max): (f64, f64), (least, most): (f64, f64)| ((min + max) / 2.0).min(most).max(least);
        Point {
            longitude: middle(longitude, MERCATOR.longitude),
            latitude: middle(latitude, MERCATOR.latitude),
        }
    }

    /// The same of a score that is one of a point, a whole number as [`Point::number`] returns it; `None` of
    /// any other.
    pub fn told_by(score: f64) -> Option<Point> {
        // The ends of the map in the east and in the north have numbers of a bit more.
        const SCORES: Range<f64> = 0.0..(1_u64 << (2 * STEPS + 2)) as f64;
        let is_on_map = |bits: u64| gather(bits) <= 1 << STEPS;
        let is_one = SCORES.contains(&score)
            && score.fract() == 0.0
            && is_on_map(score as u64)
            && is_on_map(score as u64 >> 1);
        is_one.then(|| Point::of_score(score))
    }

    /// The point in letters, as other programs write it.
    pub fn letters(self) -> [u8; LETTERS] {
        let bits = self.cell(GLOBE, STEPS).bits;
        let mut letters = [DIGITS[0]; LETTERS];
        // 52 bits are ten letters and two bits, which are not told.
        for (place, letter) in letters.iter_mut().enumerate().take(LETTERS - 1) {
            *letter = DIGITS[(bits >> (52 - (place + 1) * 5)) as usize & 0x1f];
        }
        letters
    }

    /// The cell that the point is in, of those with so many bits of each coordinate.
    pub fn cell(self, extent: Extent, steps: u32) -> Cell {
        let offset = |value: f64, (min, max): (f64, f64)| {
            ((value - min) / (max - min) * (1_u64 << steps) as f64) as u32
        };
        let latitude = spread(offset(self.latitude, extent.latitude));
        let longitude = spread(offset(self.longitude, extent.longitude));
        Cell { bits: latitude | longitude << 1, steps }
    }

    /// The distance of two points in metres.
    pub fn distance(self, other: Point) -> f64 {
        Origin::at(self).distance(other)
    }
}

/// Radians of an angle in degrees.
pub fn radians(degrees: f64) -> f64 {
    degrees * (PI / 180.0)
}

/// Degrees of an angle in radians.
pub fn degrees(radians: f64) -> f64 {
    radians / (PI / 180.0)
}

impl Cell {
    /// The longitudes and the latitudes of the cell.
    pub fn area(self) -> ((f64, f64), (f64, f64)) {
        let part = |index: u32, (min, max): (f64, f64)| {
            let whole = (1_u64 << self.steps) as f64;
            let at = |index: f64| min + index / whole * (max - min);
            (at(f64::from(index)), at(f64::from(index) + 1.0))
        };
        (part(gather(self.bits >> 1), MERCATOR.longitude), part(gather(self.bits), MERCATOR.latitude))
    }

    /// The neighbour so many cells to the east and to the north, at most one.
    pub fn beside(self, east: i32, north: i32) -> Cell {
        let width = 64 - self.steps * 2;
        let step = |own: u64, others: u64, by: i32| match by {
            0 => own,
            1.. => own.wrapping_add((others >> width).wrapping_add(1)),
            _ => (own | others >> width).wrapping_sub((others >> width).wrapping_add(1)),
        };
        let longitude = step(self.bits & LONGITUDE, LATITUDE, east);
        let latitude = step(self.bits & LATITUDE, LONGITUDE, north);
        let keep = |moved: u64, mask: u64, by: i32| if by == 0 { moved } else { moved & (mask >> width) };
        let bits = keep(longitude, LONGITUDE, east) | keep(latitude, LATITUDE, north);
        Cell { bits, ..self }
    }

    /// The scores of the points in it.
    pub fn scores(self) -> Range<f64> {
        let shift = 52 - self.steps * 2;
        ((self.bits << shift) as f64)..((self.bits.wrapping_add(1) << shift) as f64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// No point within the distance is beyond it, also where the distance is all to the north.
        #[test]
        fn points_that_are_beyond_a_distance_are_farther_away(
            from in (-180.0_f64..=180.0, -85.05_f64..=85.05),
            to in (-180.0_f64..=180.0, -85.05_f64..=85.05),
            exponent in -9_i32..=1,
            is_north in any::<bool>(),
        ) {
            let near = |a: f64, b: f64| a + (b - a) * 10_f64.powi(exponent.min(0));
            let longitude = if is_north { from.0 } else { near(from.0, to.0) };
            let point = Point { longitude, latitude: near(from.1, to.1) };
            let origin = Origin::at(Point { longitude: from.0, latitude: from.1 });
            prop_assert!(!origin.is_beyond(point, origin.distance(point)));
            let beside = Point { longitude: from.0, ..point };
            prop_assert_eq!(origin.distance_aside(point).to_bits(), point.distance(beside).to_bits());
        }
    }

    #[test]
    fn a_point_far_to_the_north_is_beyond_a_distance() {
        let origin = Origin::at(Point { longitude: 13.0, latitude: 38.0 });
        let north = Point { longitude: 13.0, latitude: 38.1 };
        assert!(origin.is_beyond(north, 11_000.0) && !origin.is_beyond(north, 11_200.0));
    }

    #[test]
    fn scores_of_points_tell_them_and_no_others_do() {
        for (longitude, latitude) in
            [(13.361_389, 38.115_556), (-180.0, -85.05), (180.0, 85.051_128_78), (0.0, 0.0), (180.0, 10.0)]
        {
            let point = Point::on_map(longitude, latitude).expect("it is on the map");
            let told = Point::told_by(point.number() as f64).expect("it has a number");
            assert!((told.longitude - longitude).abs() < 1e-5, "{told:?} {longitude}");
            assert!((told.latitude - latitude).abs() < 1e-5, "{told:?} {latitude}");
        }
        let (infinite, beyond) = (f64::INFINITY, (1_u64 << 54) as f64);
        // Of a longitude behind that of the end, too.
        let behind = ((1_u64 << 53) + 2) as f64;
        for score in [-1.0, 0.5, infinite, -infinite, f64::NAN, beyond, behind, -0.5] {
            assert_eq!(Point::told_by(score), None, "{score}");
        }
    }
}
