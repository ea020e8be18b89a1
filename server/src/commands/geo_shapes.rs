//! Shapes on the earth that are searched, and the cells of the map that the points within can be in: as
//! redis-server and, for polygons, valkey-server compute them, as the order of their replies depends on it.

use std::ops::Range;

use tarn_engine::value::geohash::{Cell, MERCATOR, Origin, Point, RADIUS_M, STEPS, degrees, radians};

use crate::execute::steps::Steps;

/// Half of what a Mercator map is wide, in metres.
const MERCATOR_MAX_M: f64 = 20_037_726.37;
/// Edges that take as long as an element of a collection.
pub(super) const EDGES: usize = 16;
/// Edges between two looks at the time of a step.
const EDGES_AT_ONCE: usize = 1024;

/// The shape of a search around a point; lengths in metres.
#[derive(Debug)]
pub(super) enum Shape {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
    Polygon(Polygon),
}

/// The part of the map that a shape is in.
struct Bounds {
    longitudes: (f64, f64),
    latitudes: (f64, f64),
    /// Metres between the middle of the shape and its farthest point, or more.
    reach: f64,
}

impl Shape {
    /// The metres between the middle and a point, if that is within. REQUIRES: `origin` is at the middle, and
    /// a polygon [contains](Polygon::contains) the point.
    pub(super) fn distance(&self, middle: Point, origin: &Origin, point: Point) -> Option<f64> {
        match self {
            Shape::Circle { radius } if origin.is_beyond(point, *radius) => None,
            Shape::Circle { radius } => Some(origin.distance(point)).filter(|distance| distance <= radius),
            Shape::Box { width, height } => {
                let north = RADIUS_M * (radians(point.latitude) - radians(middle.latitude)).abs();
                if north > height / 2.0 {
                    return None;
                }
                (origin.distance_aside(point) <= width / 2.0).then(|| origin.distance(point))
            }
            Shape::Polygon(_) => Some(origin.distance(point)),
        }
    }

    /// The edges that each point is compared with.
    pub(super) fn edges(&self) -> usize {
        match self {
            Shape::Circle { .. } | Shape::Box { .. } => 0,
            Shape::Polygon(polygon) => polygon.corners.len(),
        }
    }

    fn bounds(&self, middle: Point) -> Bounds {
        let (half_width, half_height, reach) = match self {
            Shape::Circle { radius } => (*radius, *radius, *radius),
            Shape::Box { width, height } => (
                width / 2.0,
                height / 2.0,
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt(),
            ),
            Shape::Polygon(polygon) => return polygon.bounds(),
        };
        let Point { longitude, latitude } = middle;
        let up = degrees(half_height / RADIUS_M);
        // Meridians are nearest to each other at the end towards the pole.
        let pole = if latitude < 0.0 { latitude - up } else { latitude + up };
        let aside = degrees(half_width / RADIUS_M / radians(pole).cos());
        Bounds {
            longitudes: (longitude - aside, longitude + aside),
            latitudes: (latitude - up, latitude + up),
            reach,
        }
    }

    /// The scores of points that may be within, cell by cell, in the order in which they are looked at.
    pub(super) fn scores(&self, middle: Point) -> Vec<Range<f64>> {
        let Bounds { longitudes, latitudes, reach } = self.bounds(middle);
        let from = if self.edges() > 0 { within_map(middle) } else { middle };
        let mut steps = steps_for(reach, middle.latitude);
        let mut cell = from.cell(MERCATOR, steps);
        let is_small = {
            let (north, south) = (cell.beside(0, 1).area().1, cell.beside(0, -1).area().1);
            let (east, west) = (cell.beside(1, 0).area().0, cell.beside(-1, 0).area().0);
            north.1 < latitudes.1 || south.0 > latitudes.0 || east.1 < longitudes.1 || west.0 > longitudes.0
        };
        if steps > 1 && is_small {
            steps -= 1;
            cell = from.cell(MERCATOR, steps);
        }
        // The middle of a polygon may be anywhere, also outside of it or on the other side of the map.
        while self.edges() > 0 && steps > 1 && !covers(cell, longitudes, latitudes) {
            steps -= 1;
            cell = from.cell(MERCATOR, steps);
        }
        let (own_longitudes, own_latitudes) = cell.area();
        let needs = |east: i32, north: i32| {
            steps < 2
                || !(north < 0 && own_latitudes.0 < latitudes.0
                    || north > 0 && own_latitudes.1 > latitudes.1
                    || east < 0 && own_longitudes.0 < longitudes.0
                    || east > 0 && own_longitudes.1 > longitudes.1)
        };
        let sides = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let cells = sides.iter().filter(|(east, north)| needs(*east, *north));
        let mut cells: Vec<Cell> = cells.map(|(east, north)| cell.beside(*east, *north)).collect();
        // Neighbours of very large cells are the same.
        cells.dedup();
        cells.into_iter().map(Cell::scores).collect()
    }
}

/// The bits of a coordinate of the cells that are to be searched.
fn steps_for(mut reach: f64, latitude: f64) -> u32 {
    if reach == 0.0 {
        return STEPS;
    }
    let mut steps = 1_i32;
    while reach < MERCATOR_MAX_M {
        reach *= 2.0;
        steps += 1;
    }
    // So that the shape is in nine cells.
    steps -= 2;
    if !(-66.0..=66.0).contains(&latitude) {
        steps -= 1;
        if !(-80.0..=80.0).contains(&latitude) {
            steps -= 1;
        }
    }
    steps.clamp(1, STEPS as i32) as u32
}

/// The place on the map nearest to a point, off its last edges, where no cell is.
fn within_map(point: Point) -> Point {
    const EDGE: f64 = 1e-4;
    let within = |degrees: f64, (min, max): (f64, f64)| degrees.clamp(min, max - EDGE);
    Point {
        longitude: within(point.longitude, MERCATOR.longitude),
        latitude: within(point.latitude, MERCATOR.latitude),
    }
}

/// Whether a cell and its neighbours have all of this part of the map. Beyond an edge of the map, a neighbour
/// is a cell on its other side.
fn covers(cell: Cell, longitudes: (f64, f64), latitudes: (f64, f64)) -> bool {
    let up = |own: f64, next: f64, wanted: f64| wanted <= own || own < next && wanted <= next;
    let down = |own: f64, next: f64, wanted: f64| wanted >= own || next < own && wanted >= next;
    let (own_longitudes, own_latitudes) = cell.area();
    let (north, south) = (cell.beside(0, 1).area().1, cell.beside(0, -1).area().1);
    let (east, west) = (cell.beside(1, 0).area().0, cell.beside(-1, 0).area().0);
    up(own_latitudes.1, north.1, latitudes.1)
        && down(own_latitudes.0, south.0, latitudes.0)
        && up(own_longitudes.1, east.1, longitudes.1)
        && down(own_longitudes.0, west.0, longitudes.0)
}

/// A polygon on the map, where its edges are straight. None goes across the map's ends at 180 degrees.
#[derive(Debug)]
pub(super) struct Polygon {
    /// In turn; the last is joined to the first.
    corners: Vec<Point>,
    longitudes: (f64, f64),
    latitudes: (f64, f64),
    middle: Point,
}

impl Polygon {
    /// The polygon with these corners.
    pub(super) fn new(corners: Vec<Point>) -> Polygon {
        let (mut x, mut y, mut z) = (0.0_f64, 0.0_f64, 0.0_f64);
        let mut longitudes = (MERCATOR.longitude.1, MERCATOR.longitude.0);
        let mut latitudes = (MERCATOR.latitude.1, MERCATOR.latitude.0);
        for corner in &corners {
            longitudes = (longitudes.0.min(corner.longitude), longitudes.1.max(corner.longitude));
            latitudes = (latitudes.0.min(corner.latitude), latitudes.1.max(corner.latitude));
            let (longitude, latitude) = (radians(corner.longitude), radians(corner.latitude));
            x += latitude.cos() * longitude.cos();
            y += latitude.cos() * longitude.sin();
            z += latitude.sin();
        }
        let middle = Point {
            longitude: degrees(f64::atan2(y, x)),
            latitude: degrees(f64::atan2(z, (x * x + y * y).sqrt())),
        };
        Polygon { corners, longitudes, latitudes, middle }
    }

    /// The direction of the sum of its corners, seen from the middle of the earth: distances are from there.
    pub(super) fn middle(&self) -> Point {
        self.middle
    }

    fn bounds(&self) -> Bounds {
        let (longitudes, latitudes) = (self.longitudes, self.latitudes);
        let distance = |longitude, latitude| self.middle.distance(Point { longitude, latitude });
        let reach = distance(longitudes.0, latitudes.1)
            .max(distance(longitudes.1, latitudes.1))
            .max(distance(longitudes.0, latitudes.0))
            .max(distance(longitudes.1, latitudes.0));
        Bounds { longitudes, latitudes, reach }
    }

    /// Whether a point is within: its parallel crosses an odd number of edges to the east of it
    /// (W. Randolph Franklin, "PNPOLY").
    pub(super) async fn contains(&self, steps: &Steps, point: Point) -> bool {
        // No edge crosses the parallels to the south and to the north of all corners.
        let (south, north) = self.latitudes;
        if !(south..north).contains(&point.latitude) {
            return false;
        }
        let Some(mut before) = self.corners.last().copied() else { return false };
        let mut is_within = false;
        for corners in self.corners.chunks(EDGES_AT_ONCE) {
            for corner in corners {
                is_within ^= is_crossed(*corner, before, point);
                before = *corner;
            }
            steps.pass(corners.len() / EDGES).await;
        }
        is_within
    }
}

/// Whether the way from a point to the east crosses an edge.
fn is_crossed(a: Point, b: Point, point: Point) -> bool {
    (a.latitude > point.latitude) != (b.latitude > point.latitude)
        && point.longitude
            < (b.longitude - a.longitude) * (point.latitude - a.latitude) / (b.latitude - a.latitude)
                + a.longitude
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::execute::steps::at_once;

    fn point((longitude, latitude): (f64, f64)) -> Point {
        Point { longitude, latitude }
    }

    fn polygon(corners: &[(f64, f64)]) -> Polygon {
        Polygon::new(corners.iter().copied().map(point).collect())
    }

    fn contains(polygon: &Polygon, at: (f64, f64)) -> bool {
        at_once(async |steps| polygon.contains(steps, point(at)).await)
    }

    #[test]
    fn a_point_is_within_where_an_odd_number_of_edges_is_to_its_east() {
        let square = polygon(&[(1.0, 1.0), (3.0, 1.0), (3.0, 3.0), (1.0, 3.0)]);
        assert!(contains(&square, (2.0, 2.0)));
        for outside in [(0.5, 2.0), (3.5, 2.0), (2.0, 0.5), (2.0, 3.5), (0.0, 1.0)] {
            assert!(!contains(&square, outside), "{outside:?}");
        }
        // Its middle is covered twice.
        let star = polygon(&[(0.0, 10.0), (6.0, -8.0), (-9.5, 3.0), (9.5, 3.0), (-6.0, -8.0)]);
        assert!(contains(&star, (0.0, 8.0)) && !contains(&star, (0.0, 0.0)));
        // More corners than are looked at between two looks at the clock.
        let turn = |at: u32| (f64::from(at) * std::f64::consts::TAU / 5_000.0).sin_cos();
        let round: Vec<(f64, f64)> = (0..5_000).map(turn).map(|(x, y)| (20.0 * x, 20.0 * y)).collect();
        let round = polygon(&round);
        assert!(contains(&round, (14.0, 14.0)) && !contains(&round, (14.3, 14.3)));
    }

    #[test]
    fn the_middle_of_a_polygon_is_that_of_its_corners_on_the_globe() {
        let middle = polygon(&[(170.0, 0.0), (-170.0, 10.0), (-170.0, -10.0), (170.0, 0.0)]).middle();
        assert!((middle.longitude.abs() - 180.0).abs() < 0.1 && middle.latitude.abs() < 0.1, "{middle:?}");
        let polar = polygon(&[(0.0, 80.0), (120.0, 80.0), (-120.0, 80.0)]).middle();
        assert!(polar.latitude > 89.9, "{polar:?}");
    }

    fn place() -> impl Strategy<Value = (f64, f64)> {
        prop_oneof![
            (-180.0_f64..=180.0, -85.05_f64..=85.05),
            (170.0..=180.0, 70.0..=85.05),
            (-180.0..=-179.0, -1.0..=1.0),
            (10.0..=10.01, 20.0..=20.01),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever the polygon: each point in it is in one cell that is looked into, and in one only.
        #[test]
        fn cells_have_all_of_a_polygon_once(
            corners in prop::collection::vec(place(), 3..8),
            weights in prop::collection::vec((0_usize..8, 0_usize..8, 0.0_f64..=1.0), 1..20),
        ) {
            let shape = polygon(&corners);
            // Points between two corners, most of which are within.
            let points = weights.iter().map(|(a, b, part)| {
                let (a, b) = (corners[a % corners.len()], corners[b % corners.len()]);
                (a.0 + (b.0 - a.0) * part, a.1 + (b.1 - a.1) * part)
            });
            let found: Vec<Point> = points
                .map(|at| Point::of_score(point(at).number() as f64))
                .filter(|at| contains(&shape, (at.longitude, at.latitude)))
                .collect();
            let middle = shape.middle();
            let cells = Shape::Polygon(shape).scores(middle);
            for at in found {
                let score = at.number() as f64;
                let times = cells.iter().filter(|cell| cell.contains(&score)).count();
                prop_assert_eq!(times, 1, "{:?} of {:?}", at, corners);
            }
        }
    }
}
