//! Judges the statements of the arXiv text about its own setting (figures 10 to 19 there).

use super::super::cell::{Algorithm, Cell, Figures};
use super::super::plan::Figure;
use super::checkpoints::OVERHEADS_ALIKE;
use super::data::{Series, Study, TAKEN_US_SHORT};
use super::noise::Noise;
use super::reasons::Measured;
use super::shapes::{Shape, Statement};
use super::{Verdict, add, checkpoints, published, spikes};

/// Judges all of them that the measurements permit.
pub(super) fn judge(study: &Study<'_>, all: &mut Vec<Verdict>) {
    curves(study, all);
    orders(study, all);
    spikes::judge(study, Figure::ArxivUpdates, all);
    checkpoints::judge(study, Figure::ArxivDataset, all);
}

fn series(study: &Study<'_>, figure: Figure, of: fn(&Figures) -> f64) -> Vec<Series> {
    study.series(figure, |_: &Cell, figures| of(figures))
}

pub(super) fn curves(study: &Study<'_>, all: &mut Vec<Verdict>) {
    let of = |figure, of| series(study, figure, of);
    let (updates, dataset) = (Figure::ArxivUpdates, Figure::ArxivDataset);
    let taken = |figures: &Figures| figures.taken_us_median().max(TAKEN_US_SHORT);
    let mut curve = |figure, printed, of: &[Algorithm], shape, series: &[_]| {
        let statement = Statement { figure, printed, of, shape };
        add(all, figure, printed, statement.judge(series, &Noise::default()));
    };

    let printed = "10: the mean of every algorithm rises with the updates";
    curve(updates, printed, &Algorithm::PHYSICAL, Shape::Rises, &of(updates, Figures::mean_us));
    let printed = "15: the maximum does not depend on the updates (judged by the median taken phase)";
    curve(updates, printed, &Algorithm::PHYSICAL, Shape::Level(LEVEL), &of(updates, taken));
    let printed = "18: the checkpoint's time does not depend on the updates";
    let overheads = of(updates, Figures::overhead_ms);
    curve(updates, printed, &Algorithm::PHYSICAL, Shape::Level(OVERHEADS_ALIKE), &overheads);
    let printed = "11: the size of the data has almost no effect on the mean (of all but COU and Fork, whose \
                   means fall in the authors' own data)";
    curve(dataset, printed, published::ARXIV_LEVEL, Shape::Level(LEVEL), &of(dataset, Figures::mean_us));
    let printed =
        "14: the maxima of NS, COU, Fork and ZZ rise with the data (judged by the median taken phase)";
    curve(dataset, printed, published::SPIKES, Shape::Rises, &of(dataset, taken));
    let printed = "14: those of PP, HG and PB do not";
    curve(dataset, printed, published::FLAT, Shape::Level(LEVEL), &of(dataset, taken));
}

fn orders(study: &Study<'_>, all: &mut Vec<Verdict>) {
    let (updates, dataset) = (Figure::ArxivUpdates, Figure::ArxivDataset);
    let mut order = |figure, printed, groups, values| {
        add(all, figure, printed, super::orders::order(figure, printed, groups, &Measured::alone(values)));
    };
    let printed = "10: the mean of NS is lowest, then HG and PB, then ZZ, then COU and PP (that of Fork is \
                   left open: the text has it beside HG and PB, the authors' own data above ZZ)";
    order(updates, printed, published::ARXIV_MEAN_ORDER, series(study, updates, Figures::mean_us));
    let taken = series(study, dataset, |figures| figures.taken_us_median().max(TAKEN_US_SHORT));
    let printed = "14: the maxima of PP, HG and PB are below those of NS, COU, Fork and ZZ (judged by the \
                   median taken phase, which the authors' data have)";
    order(dataset, printed, &[published::FLAT, published::SPIKES], taken);
    let printed = "19: Fork's maximum is above those of HG and PB";
    order(dataset, printed, published::ARXIV_FORK_ORDER, series(study, dataset, Figures::max_us));
    let flood = Figure::ArxivFlood;
    let printed = "16: HG, PB and Fork reach more updates than NS, COU, ZZ and PP";
    let rates = series(study, flood, |figures| figures.updates_per_s);
    order(flood, printed, published::ARXIV_FLOOD_ORDER, rates);
}

/// Values that lie no further apart do not depend on the parameter, which grows to 8 or 16 times.
const LEVEL: f64 = 1.5;
