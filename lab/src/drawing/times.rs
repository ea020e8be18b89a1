//! Charts of several values by time on a linear axis, and bars in groups.

use plotters::prelude::*;

use super::charts::{Curve, Look, Places, SIZE, VALUES_WIDTH, Words, mesh, svg};

/// The size of a chart of values by time.
const TIMES_SIZE: (u32, u32) = (460, 190);
/// The most points of a drawn line.
const POINTS: usize = 800;

/// A line of a chart.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name, as the legend has it.
    pub name: String,
    /// Its look.
    pub look: Look,
    /// Its points, in the order of `x`.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A line.
    pub fn new(name: impl Into<String>, look: Look, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), look, points }
    }
}

impl Curve for Series {
    fn look(&self) -> Look {
        self.look
    }

    fn points(&self) -> &[(f64, f64)] {
        &self.points
    }
}

/// The signs and names of some lines, as HTML.
pub fn legend(series: &[Series]) -> String {
    let all: Vec<_> = series.iter().map(|series| series.look.legend(&series.name)).collect();
    format!("<p class=\"legend\">{}</p>", all.join("\n"))
}

/// Values by time, from zero on; the ground of some spans of time is shaded. More points than can be seen are
/// drawn as the means of their neighbours. `most` is the end of the axis, if it is fixed.
pub fn times<C: Curve>(
    words: Words<'_>,
    series: &[C],
    spans: &[(f64, f64)],
    most: Option<f64>,
) -> Option<String> {
    let all =
        || series.iter().flat_map(Curve::points).filter(|point| point.0.is_finite() && point.1.is_finite());
    let end = all().map(|point| point.0).fold(f64::NAN, f64::max);
    let highest = most.unwrap_or(all().map(|point| point.1).fold(f64::NAN, f64::max) * 1.08);
    if !end.is_finite() || !highest.is_finite() {
        return None;
    }
    let highest = highest.max(1e-9);
    svg(words.caption, TIMES_SIZE, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(18)
            .x_label_area_size(38)
            .y_label_area_size(VALUES_WIDTH)
            .build_cartesian_2d(0.0..end.max(1e-3), 0.0..highest)?;
        mesh(&mut chart, words, &|at: &f64| super::short(*at))?;
        let spans = spans.iter().filter(|(from, to)| from.is_finite() && to.is_finite());
        chart.draw_series(spans.map(|(from, to)| {
            let corners = [(*from, 0.0), (to.min(end), highest)];
            Rectangle::new(corners, RGBColor(128, 128, 128).mix(0.25).filled())
        }))?;
        for series in series {
            let points = thinned(series.points(), highest);
            chart.draw_series(LineSeries::new(points, series.look().colour.stroke_width(2)))?;
        }
        Ok(())
    })
}

/// At most [`POINTS`] points, none above the axis.
fn thinned(points: &[(f64, f64)], highest: f64) -> Vec<(f64, f64)> {
    let points: Vec<_> = points.iter().filter(|point| point.0.is_finite() && point.1.is_finite()).collect();
    let few = points.len().div_ceil(POINTS).max(1);
    let mean = |part: &[&(f64, f64)]| {
        let sum = part.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (sum.0 / part.len() as f64, (sum.1 / part.len() as f64).min(highest))
    };
    points.chunks(few).map(mean).collect()
}

/// Bars in groups: a group for each name, a bar in it for each of the series, whose points are at 0, 1, 2 …
pub fn groups(words: Words<'_>, names: &[String], series: &[Series]) -> Option<String> {
    let max = series.iter().flat_map(Curve::points).map(|point| point.1).filter(|y| y.is_finite());
    let max = max.fold(f64::NAN, f64::max);
    if !max.is_finite() || names.is_empty() {
        return None;
    }
    svg(words.caption, SIZE, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(18)
            .x_label_area_size(38)
            .y_label_area_size(VALUES_WIDTH)
            .build_cartesian_2d(Places(names.len()), 0.0..(max * 1.08).max(1e-9))?;
        mesh(&mut chart, words, &|place: &f64| {
            names.get(place.round() as usize).cloned().unwrap_or_default()
        })?;
        let width = 0.8 / series.len() as f64;
        for (number, series) in series.iter().enumerate() {
            let from = -0.4 + width * number as f64;
            let style = series.look.colour.filled();
            let points = series.points.iter().filter(|point| point.1.is_finite());
            chart.draw_series(points.map(|(place, value)| {
                Rectangle::new([(place + from, 0.0), (place + from + width * 0.9, *value)], style)
            }))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Look = Look { colour: RGBColor(0, 158, 115), sign: '●' };

    #[test]
    fn nothing_is_no_chart_and_odd_numbers_do_no_harm() {
        let words = Words { caption: "a < b", x: "x", y: "y" };
        let of = |points: &[(f64, f64)]| [Series::new("one", LOOK, points.to_vec())];
        assert_eq!(times::<Series>(words, &[], &[], None), None);
        assert_eq!(times(words, &of(&[(0.0, f64::NAN)]), &[], None), None);
        let points = [(0.0, 1.0), (1.0, f64::NAN), (2.0, 0.0)];
        let drawn = times(words, &of(&points), &[(0.5, f64::INFINITY), (0.5, 9.0)], None);
        assert!(drawn.is_some_and(|drawn| drawn.contains("aria-label=\"a &lt; b\"")));
        assert!(times(words, &of(&[(0.0, 0.0)]), &[], Some(100.0)).is_some());
        let names = ["one".to_owned(), "two".to_owned()];
        assert_eq!(groups(words, &names, &of(&[(0.0, f64::NAN)])), None);
        assert!(groups(words, &names, &of(&points)).is_some_and(|drawn| drawn.contains("two")));
    }

    #[test]
    fn a_long_line_keeps_its_mean_and_its_axis() {
        let points: Vec<_> = (0..10_000).map(|at| (f64::from(at), f64::from(at % 2) * 10.0)).collect();
        let few = thinned(&points, 4.0);
        assert!(few.len() <= POINTS && few.iter().all(|point| point.1 == 4.0), "{:?}", &few[..3]);
        assert!(legend(&[Series::new("a < b", LOOK, points)]).contains("a &lt; b"));
    }
}
