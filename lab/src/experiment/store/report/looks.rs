//! The looks of the lines of variants.

use plotters::style::RGBColor;

use super::super::cell::Part;
use super::super::cell::{Cell, Figures, Pace, Variant};
use super::super::goals::Measured;
use crate::drawing::{Curve, Look};

/// The look of a variant.
pub const fn look(variant: Variant) -> Look {
    match variant {
        Variant::Fork => Look { colour: RGBColor(214, 70, 130), sign: '×' },
        Variant::Hourglass => Look { colour: RGBColor(45, 130, 200), sign: '●' },
        Variant::Piggyback => Look { colour: RGBColor(142, 91, 208), sign: '▲' },
        Variant::RedisServer => Look { colour: RGBColor(184, 134, 11), sign: '●' },
    }
}

/// The name of a variant at a pace.
pub fn name(cell: &Cell) -> String {
    if cell.variant.forks() {
        cell.variant.name().to_owned()
    } else {
        format!("{} {}", cell.variant.name(), cell.pace.name())
    }
}

/// A line of a figure: a variant at a pace. Thin lines with hollow signs are those of the pace `fast`.
pub struct Line {
    pub variant: Variant,
    pub name: String,
    is_second: bool,
    points: Vec<(f64, f64)>,
}

impl Curve for Line {
    fn look(&self) -> Look {
        look(self.variant)
    }

    fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    fn is_second(&self) -> bool {
        self.is_second
    }
}

impl Line {
    /// The value at `x`.
    pub fn at(&self, x: f64) -> Option<f64> {
        self.points.iter().find(|point| point.0 == x).map(|point| point.1)
    }

    /// The places at which it has a value.
    pub fn xs(&self) -> impl Iterator<Item = f64> + '_ {
        self.points.iter().map(|point| point.0)
    }
}

/// For each variant and pace of a part, `y` by `x`, where both are numbers.
pub fn lines(
    measured: &Measured<'_>,
    part: Part,
    x: impl Fn(&Cell) -> Option<f64>,
    y: impl Fn(&Figures) -> f64,
) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (cell, figures) in measured.part(part) {
        let Some(point) = x(&cell).map(|x| (x, y(figures))).filter(|(_, y)| y.is_finite()) else { continue };
        let name = name(&cell);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => {
                let is_second = !cell.variant.forks() && cell.pace == Pace::Fast;
                lines.push(Line { variant: cell.variant, name, is_second, points: vec![point] });
            }
        }
    }
    lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    lines
}
