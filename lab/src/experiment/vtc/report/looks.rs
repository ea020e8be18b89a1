//! The looks of variants, and the lines of a figure.

use plotters::style::RGBColor;

use super::super::Results;
use super::super::cell::{Cell, Figures, Variant};
use crate::drawing::{Look, Series};

/// The look of a variant.
pub const fn look(variant: Variant) -> Look {
    match variant {
        Variant::Off => Look { colour: RGBColor(130, 130, 130), sign: '●' },
        Variant::None => Look { colour: RGBColor(120, 160, 90), sign: '×' },
        Variant::Vtc => Look { colour: RGBColor(45, 130, 200), sign: '●' },
        Variant::VtcFast => Look { colour: RGBColor(45, 130, 200), sign: '▲' },
        Variant::Rewrite => Look { colour: RGBColor(120, 160, 90), sign: '▲' },
        Variant::Snapshot => Look { colour: RGBColor(142, 91, 208), sign: '▲' },
        Variant::RedisRdb => Look { colour: RGBColor(214, 70, 130), sign: '×' },
        Variant::RedisAof => Look { colour: RGBColor(184, 134, 11), sign: '●' },
    }
}

/// For each variant, `y` by `x` over the wanted cells.
pub fn lines(
    results: &Results,
    wanted: impl Fn(&Cell) -> bool,
    x: impl Fn(&Cell) -> f64,
    y: impl Fn(&Figures) -> f64,
) -> Vec<Series> {
    let cells = results.of(wanted);
    let of = |variant: Variant| {
        let own = cells.iter().filter(|(cell, _)| cell.variant == variant);
        let mut points: Vec<_> = own.map(|(cell, figures)| (x(cell), y(figures))).collect();
        points.retain(|point| point.1.is_finite());
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series::new(variant.name(), look(variant), points)
    };
    Variant::ALL.into_iter().map(of).filter(|series| !series.points.is_empty()).collect()
}
