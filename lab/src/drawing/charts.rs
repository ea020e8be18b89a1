//! Charts as SVG: lines with points, bars, and traces. Values that are not numbers are left out.
//!
//! Black becomes the colour of the page's text, so that a chart can be read on light and dark.

use std::error::Error;

use plotters::coord::ranged1d::{AsRangedCoord, DefaultFormatting, KeyPointHint, Ranged, ValueFormatter};
use plotters::prelude::*;

pub(super) type Drawing<'s> = DrawingArea<SVGBackend<'s>, plotters::coord::Shift>;
pub(super) type Drawn = Result<(), Box<dyn Error>>;

pub(super) const SIZE: (u32, u32) = (460, 300);
const TRACE_SIZE: (u32, u32) = (460, 150);
/// Room for the values beside an axis, and for their unit.
pub(super) const VALUES_WIDTH: u32 = 68;
/// The most points of a drawn trace.
const TRACE_POINTS: usize = 800;

/// The look of a line. Lines of the same colour in print have different signs.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Can be seen on light and dark.
    pub colour: RGBColor,
    /// The sign of its points: `●`, `▲` or `×`.
    pub sign: char,
}

impl Look {
    /// Its sign in its colour, and a name, as HTML.
    pub fn legend(self, name: &str) -> String {
        let RGBColor(red, green, blue) = self.colour;
        let sign = self.sign;
        format!(
            "<span><b style=\"color:rgb({red},{green},{blue})\">{sign}</b> {}</span>",
            super::escape(name)
        )
    }
}

/// A line of a figure.
pub trait Curve {
    /// Its look.
    fn look(&self) -> Look;

    /// Its points in the order of `x`.
    fn points(&self) -> &[(f64, f64)];

    /// True if its points are hollow and its line thin.
    fn is_second(&self) -> bool {
        false
    }
}

/// An axis of this many places at equal distances, from 0 on.
pub(super) struct Places(pub(super) usize);

impl Ranged for Places {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value + 0.5) / self.0 as f64;
        limit.0 + (f64::from(limit.1 - limit.0) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        (0..self.0).map(|place| place as f64).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        -0.5..self.0 as f64 - 0.5
    }
}

/// The scale of the axes of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// From zero on.
    Linear,
    /// By powers of ten.
    Logarithmic,
}

/// A chart's words.
#[derive(Debug, Clone, Copy)]
pub struct Words<'w> {
    /// The text above it.
    pub caption: &'w str,
    /// The quantity that the figure varies.
    pub x: &'w str,
    /// The measured quantity.
    pub y: &'w str,
}

/// A number as axes and tables show it: three digits that count.
pub fn short(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "–".to_owned(),
        size if size >= 1e10 => format!("{:.0}G", value / 1e9),
        size if size >= 1e7 => format!("{:.0}M", value / 1e6),
        size if size >= 1e6 => format!("{:.2}M", value / 1e6),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => trimmed(format!("{value:.1}")),
        size if size >= 0.1 => trimmed(format!("{value:.2}")),
        0.0 => "0".to_owned(),
        _ => trimmed(format!("{value:.4}")),
    }
}

fn trimmed(text: String) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Lines with points; the values of `x` are at equal distances, as in the study.
pub fn lines<C: Curve>(words: Words<'_>, axis: Axis, series: &[C]) -> Option<String> {
    let mut xs: Vec<f64> = series.iter().flat_map(Curve::points).map(|point| point.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let values = || series.iter().flat_map(Curve::points).map(|point| point.1);
    let shown = |value: f64| value.is_finite() && (axis == Axis::Linear || value > 0.0);
    let max = values().filter(|value| shown(*value)).fold(f64::NAN, f64::max);
    let min = values().filter(|value| shown(*value)).fold(f64::NAN, f64::min);
    if !max.is_finite() {
        return None;
    }
    svg(words.caption, SIZE, |area| match axis {
        Axis::Linear => draw_lines(area, words, &xs, series, 0.0..(max * 1.08).max(1e-9)),
        Axis::Logarithmic => draw_lines(area, words, &xs, series, decades(min, max).log_scale()),
    })
}

/// Whole powers of ten around some values.
pub fn decades(min: f64, max: f64) -> std::ops::Range<f64> {
    let low = min.log10().floor();
    let high = max.log10().ceil().max(low + 1.0);
    10_f64.powf(low)..10_f64.powf(high)
}

fn draw_lines<C, Y>(area: &Drawing<'_>, words: Words<'_>, xs: &[f64], series: &[C], y: Y) -> Drawn
where
    C: Curve,
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let across = Places(xs.len());
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(18)
        .x_label_area_size(38)
        .y_label_area_size(VALUES_WIDTH)
        .build_cartesian_2d(across, y)?;
    let name = |place: &f64| xs.get(place.round() as usize).map(|x| short(*x)).unwrap_or_default();
    mesh(&mut chart, words, &name)?;
    for series in series {
        let place = |x: f64| xs.iter().position(|other| *other == x).unwrap_or_default() as f64;
        let points: Vec<(f64, f64)> = series.points().iter().map(|(x, y)| (place(*x), *y)).collect();
        let Look { colour, sign } = series.look();
        let width = if series.is_second() { 1 } else { 2 };
        chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(width)))?;
        let style = if series.is_second() { colour.stroke_width(1) } else { colour.filled() };
        let points = points.into_iter();
        match sign {
            '●' => chart.draw_series(points.map(|point| Circle::new(point, 4, style)))?,
            '▲' if series.is_second() => {
                let outline = || PathElement::new([(0, -6), (5, 3), (-5, 3), (0, -6)], style);
                chart.draw_series(points.map(|point| EmptyElement::at(point) + outline()))?
            }
            '▲' => chart.draw_series(points.map(|point| TriangleMarker::new(point, 6, style)))?,
            _ => chart.draw_series(points.map(|point| Cross::new(point, 4, colour.stroke_width(width))))?,
        };
    }
    Ok(())
}

/// A bar for each.
pub fn bars(words: Words<'_>, bars: &[(&str, Look, f64)]) -> Option<String> {
    let bars: Vec<_> = bars.iter().filter(|bar| bar.2.is_finite()).collect();
    let max = bars.iter().map(|bar| bar.2).fold(f64::NAN, f64::max);
    if !max.is_finite() {
        return None;
    }
    svg(words.caption, SIZE, |area| {
        let across = Places(bars.len());
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(18)
            .x_label_area_size(38)
            .y_label_area_size(VALUES_WIDTH)
            .build_cartesian_2d(across, 0.0..(max * 1.08).max(1e-9))?;
        let name =
            |place: &f64| bars.get(place.round() as usize).map(|bar| bar.0.to_owned()).unwrap_or_default();
        mesh(&mut chart, words, &name)?;
        chart.draw_series(bars.iter().enumerate().map(|(place, (_, look, value))| {
            let place = place as f64;
            Rectangle::new([(place - 0.32, 0.0), (place + 0.32, *value)], look.colour.filled())
        }))?;
        Ok(())
    })
}

/// Values by time, on a logarithmic axis; the ground of some spans of time is shaded. More points than can be
/// seen are drawn as the greatest of their neighbours.
pub fn trace(
    words: Words<'_>,
    look: Look,
    points: &[(f64, f64)],
    spans: &[(f64, f64)],
    range: &std::ops::Range<f64>,
) -> Option<String> {
    let is_shown = |point: &&(f64, f64)| point.0.is_finite() && point.1.is_finite() && point.1 > 0.0;
    let points: Vec<(f64, f64)> = points.iter().filter(is_shown).copied().collect();
    let greatest = |few: &[(f64, f64)]| few.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let few = points.len().div_ceil(TRACE_POINTS).max(1);
    let points: Vec<(f64, f64)> = points.chunks(few).filter_map(greatest).collect();
    let (end, _) = *points.last()?;
    svg(words.caption, TRACE_SIZE, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(18)
            .x_label_area_size(32)
            .y_label_area_size(VALUES_WIDTH)
            .build_cartesian_2d(0.0..end.max(1.0), range.clone().log_scale())?;
        mesh(&mut chart, words, &|at: &f64| short(*at))?;
        let spans = spans.iter().filter(|(from, to)| from.is_finite() && to.is_finite());
        chart.draw_series(spans.map(|(from, to)| {
            let corners = [(*from, range.start), (to.min(end), range.end)];
            Rectangle::new(corners, RGBColor(128, 128, 128).mix(0.25).filled())
        }))?;
        chart.draw_series(LineSeries::new(points.iter().copied(), look.colour.stroke_width(1)))?;
        Ok(())
    })
}

pub(super) type Plane<'a, 's, X, Y> = ChartContext<'a, SVGBackend<'s>, Cartesian2d<X, Y>>;

/// The axes, the lines behind the values, and their labels.
pub(super) fn mesh<X, Y>(
    chart: &mut Plane<'_, '_, X, Y>,
    words: Words<'_>,
    name: &dyn Fn(&f64) -> String,
) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let text = TextStyle::from(("sans-serif", 14).into_font()).color(&BLACK);
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(128, 128, 128).mix(0.3))
        .axis_style(RGBColor(128, 128, 128))
        .x_desc(words.x)
        .y_desc(words.y)
        .y_labels(6)
        .x_label_formatter(name)
        .y_label_formatter(&|value| short(*value))
        .label_style(text.clone())
        .axis_desc_style(text)
        .draw()?;
    Ok(())
}

/// Draws, and makes a part of a page of it. `None` if there is nothing that can be drawn.
pub(super) fn svg(label: &str, size: (u32, u32), draw: impl FnOnce(&Drawing<'_>) -> Drawn) -> Option<String> {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
    let drawn = draw(&area).and_then(|()| Ok(area.present()?));
    drop(area);
    drawn.ok()?;
    let named = format!("<svg role=\"img\" aria-label=\"{}\"", super::escape(label));
    Some(text.replacen("<svg", &named, 1).replace("\"#000000\"", "\"currentColor\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words<'static> {
        Words { caption: "a < b", x: "x", y: "y" }
    }

    struct Points(Vec<(f64, f64)>);

    impl Curve for Points {
        fn look(&self) -> Look {
            LOOK
        }

        fn points(&self) -> &[(f64, f64)] {
            &self.0
        }
    }

    const LOOK: Look = Look { colour: RGBColor(0, 158, 115), sign: '▲' };

    #[test]
    fn a_chart_of_nothing_is_no_chart_and_odd_numbers_do_no_harm() {
        let of = |points: &[(f64, f64)]| [Points(points.to_vec())];
        assert_eq!(lines::<Points>(words(), Axis::Linear, &[]), None);
        assert_eq!(lines(words(), Axis::Logarithmic, &of(&[(1.0, 0.0)])), None);
        for axis in [Axis::Linear, Axis::Logarithmic] {
            for points in [&[(1.0, 5.0)][..], &[(1.0, 5.0), (2.0, 5e6)], &[(0.0, 1e-9), (1.0, 0.0)]] {
                let drawn = lines(words(), axis, &of(points)).expect("there is a point");
                assert!(drawn.contains("aria-label=\"a &lt; b\"") && drawn.contains("</svg>"), "{drawn}");
            }
        }
        assert_eq!(bars(words(), &[("one", LOOK, f64::NAN)]), None);
        assert!(bars(words(), &[("one", LOOK, 0.0), ("two", LOOK, 3.0)]).is_some());
        let drawn =
            |points: &[(f64, f64)]| trace(words(), LOOK, points, &[(0.0, f64::NAN)], &decades(1.0, 9.0));
        assert_eq!(drawn(&[(0.0, f64::NAN), (1.0, 0.0)]), None);
        assert!(drawn(&[(0.0, f64::NAN), (1.0, 0.0), (2.0, 7.0)]).is_some());
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 0.0044, 0.25, 3.0, 12.34, 250.0, 16_000.0, 3_456_789.0, 23_456_789.0, f64::NAN];
        let texts = all.map(short);
        assert_eq!(texts, ["0", "0.0044", "0.25", "3", "12.3", "250", "16000", "3.46M", "23M", "–"]);
    }
}
