//! Tests reports with made-up results.

use super::super::cell::{Algorithm, Results};
use super::super::fixture;
use super::super::plan::{Figure, Point, Scale, points};
use super::super::study::{Snapshots, scales};
use super::*;
use crate::experiment::contract::{check, draw};
use crate::experiment::{Experiment, Wanted};
use crate::page::List;

fn drawn(results: &Results) -> String {
    check::page::<Snapshots>(results, Wanted::default())
}

/// The part of a page from an element's id to the next heading.
fn section<'p>(page: &'p str, id: &str) -> &'p str {
    let from = page.find(&format!("<h2 id=\"{id}\"")).unwrap_or_else(|| panic!("there is no section {id}"));
    let rest = &page[from..];
    let to = rest[3..].find("<h2").or_else(|| rest.find("<details id=\"targets\"")).unwrap_or(rest.len() - 3);
    &rest[..to + 3]
}

#[test]
fn a_report_has_every_figure_and_table() {
    let page = drawn(&fixture::results(&Figure::ALL, Scale::Quick));
    let charts = |id| section(&page, id).matches("data-chart").count();
    assert_eq!(charts("figure-9"), 7);
    for id in ["figure-10-dataset", "figure-10-row", "figure-10-updates", "figure-10-skew"] {
        assert_eq!(charts(id), 4, "{id}");
    }
    assert_eq!(["arxiv-updates", "arxiv-dataset", "arxiv-fork"].map(charts), [14, 4, 2]);
    let others = ["trigger", "figure-11", "figure-12", "reads-section", "fields-section"];
    assert_eq!(others.map(charts), [2, 2, 1, 1, 1]);
    assert_eq!(["flood-section", "figure-16"].map(charts), [1, 1]);
    for id in ["table-2-section", "table-4-section"] {
        assert_eq!(section(&page, id).matches("<tr><td").count(), 7, "{id}");
    }
    assert!(page.contains("--quick --seed 1 --json results.jsonl"));
    assert!(!page.contains("cells were measured"), "nothing was left out");
}

#[test]
fn the_fixture_has_the_shapes_of_the_study_and_a_spoilt_one_has_not() {
    let mut results = fixture::results(&Figure::ALL, Scale::Quick);
    let judged = |results: &Results| {
        let study = Study::newest(results, scales(Wanted::default())).expect("there are results");
        let verdicts = orders::judge(&study);
        let differ = verdicts.iter().filter(|verdict| verdict.figure == Figure::Dataset);
        differ.flat_map(|verdict| verdict.differences.clone()).collect::<Vec<_>>()
    };
    assert_eq!(judged(&results), Vec::<String>::new());
    for line in results.lines.iter_mut().filter(|line| line.cell.algorithm == Algorithm::Piggyback) {
        line.figures.taken_us = vec![line.cell.data_bytes() as f64];
        line.figures.overhead_us[..].iter_mut().for_each(|us| *us *= 2.0);
    }
    let differ = judged(&results);
    assert!(differ.iter().any(|line| line.starts_with("PB: the taken phase grows")), "{differ:?}");
    assert!(differ.iter().any(|line| line.starts_with("PB takes 2 times as long")), "{differ:?}");
}

#[test]
fn the_fixture_has_the_printed_curves_and_a_spoilt_one_has_not() {
    let results = fixture::results(&Figure::ALL, Scale::Full);
    let judged = |results: &Results| {
        let study = Study::newest(results, scales(Wanted::default())).expect("there are results");
        let mut verdicts = Vec::new();
        orders::curves(&study, &mut verdicts);
        arxiv::curves(&study, &mut verdicts);
        verdicts.retain(|verdict| !verdict.differences.is_empty() || !verdict.unclear.is_empty());
        verdicts
    };
    assert_eq!(judged(&results), []);
    // At the end of each curve the mean is a hundredth and all else is a hundred times as long.
    let spoilt = |figure| {
        let study = Study::newest(&results, scales(Wanted::default())).expect("there are results");
        let measured = study.measured(figure);
        let last = measured.last().expect("it was measured").0.x;
        let ends: Vec<Cell> = measured
            .iter()
            .filter(|(point, _)| point.x == last)
            .map(|(point, _)| point.cell.clone())
            .collect();
        let mut spoilt = fixture::results(&Figure::ALL, Scale::Full);
        for line in spoilt.lines.iter_mut().filter(|line| ends.contains(&line.cell)) {
            line.figures.quiet.mean /= 100.0;
            line.figures.during.mean /= 100.0;
            line.figures.taken_us.iter_mut().for_each(|us| *us *= 100.0);
            line.figures.overhead_us.iter_mut().for_each(|us| *us *= 100.0);
        }
        let printed: Vec<&str> = judged(&spoilt).into_iter().map(|verdict| verdict.printed).collect();
        printed.iter().map(|text| text.split(':').next().unwrap_or_default()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(spoilt(Figure::Dataset), "10a");
    assert_eq!(spoilt(Figure::Row), "10b 10b 10f 10j");
    assert_eq!(spoilt(Figure::Updates), "10c 10g 10k");
    // Here the mean should fall.
    assert_eq!(spoilt(Figure::Skew), "10h 10l");
    // The two share a cell.
    assert_eq!(spoilt(Figure::ArxivUpdates), "10 15 18 11 14 14");
    assert_eq!(spoilt(Figure::ArxivDataset), "11 14");
}

/// The authors' own values for a figure, as if they had been measured here.
fn published(figure: Figure) -> Results {
    let list = List::parse(Snapshots::FIGURES);
    let charts = list.sections.iter().filter(|own| own.part == figure.name()).flat_map(|own| &own.charts);
    let printed: Vec<_> = charts.filter_map(|own| Some((&*own.y, own.printed.as_ref()?))).collect();
    let value = |y: &str, point: &Point| {
        let (_, drawn) = printed.iter().find(|own| own.0 == y)?;
        let place = drawn.x.iter().position(|x| *x == point.x)?;
        Some(drawn.lines.get(point.cell.algorithm.name())?[place])
    };
    let of = |point: Point| {
        let mean = value("mean_us / 1e3", &point)? * 1e3;
        let taken = value("visible_wait", &point).or_else(|| value("visible_taken", &point))?;
        let mut figures = fixture::figures(&point.cell);
        (figures.quiet.mean, figures.quiet.max) = (mean, mean);
        (figures.during.mean, figures.during.max) = (mean, mean + taken);
        figures.taken_us = vec![taken];
        figures.overhead_us = vec![value("overhead_us / 1e6", &point)? * 1e6];
        figures.trace.clear();
        Some((point.cell, figures))
    };
    let measured: Vec<_> = points(figure, Scale::Full, 1).into_iter().filter_map(of).collect();
    Results { path: fixture::PATH.into(), ..Results::invented(Snapshots::NAME, &measured) }
}

#[test]
fn the_authors_own_values_have_every_order_and_shape_that_ours_are_held_against() {
    let judged = |figure: Figure| {
        let results = published(figure);
        let study = Study::newest(&results, scales(Wanted::default())).expect("there are values");
        let mut verdicts = orders::judge(&study);
        arxiv::judge(&study, &mut verdicts);
        verdicts.retain(|own| own.figure == figure && own.is_judged);
        let odd = verdicts.iter().flat_map(|own| own.differences.iter().chain(&own.unclear));
        assert_eq!(odd.collect::<Vec<_>>(), Vec::<&String>::new(), "{figure:?}");
        (study.measured(figure).len(), verdicts.len())
    };
    use Figure::{ArxivDataset, ArxivUpdates, Dataset, Row, Skew, Updates};
    assert_eq!([Dataset, Row, Updates, Skew].map(judged), [(35, 6), (35, 6), (21, 4), (35, 4)]);
    assert_eq!([ArxivUpdates, ArxivDataset].map(judged), [(35, 4), (28, 7)]);
}

#[test]
fn a_difference_that_the_repeats_have_too_is_shown_as_one_that_is_not_told_apart() {
    let mut results = fixture::results(&[Figure::Trace, Figure::Skew, Figure::Repeats], Scale::Quick);
    for line in results.lines.iter_mut().filter(|line| line.cell.algorithm == Algorithm::Hourglass) {
        // Above Zigzag by 1.3 times; a repeat takes twice as long.
        let times = if line.cell.seed == 2 { 12.0 } else { 6.0 };
        line.figures.quiet.mean *= times;
        line.figures.during.mean *= times;
    }
    let shown = |results: &Results| {
        let page = drawn(results);
        let section = section(&page, "figure-10-skew").to_owned();
        ["class=\"differs\"", "class=\"unclear\"", "differ by up to 100 %"].map(|text| section.contains(text))
    };
    assert_eq!(shown(&results), [false, true, true]);
    results.lines.retain(|line| line.cell.seed == 1);
    assert_eq!(shown(&results), [true, false, false]);
}

#[test]
fn what_is_missing_or_not_a_number_is_left_out_and_said() {
    let mut results = fixture::results(&Figure::ALL, Scale::Quick);
    for (number, line) in results.lines.iter_mut().enumerate() {
        match number % 3 {
            0 => line.figures.quiet.mean = f64::NAN,
            1 => line.figures.waits_us = vec![f64::INFINITY],
            _ => line.figures = super::super::cell::Figures::default(),
        }
    }
    drawn(&results);
    let mut results = fixture::results(&[Figure::Skew], Scale::Quick);
    results.lines.retain(|line| line.cell.algorithm != Algorithm::Zigzag);
    let page = drawn(&results);
    assert!(section(&page, "figure-10-skew").contains("36 of 42 cells were measured"));
    assert!(section(&page, "figure-12").contains("0 of 25 cells were measured"));
    assert_eq!(section(&page, "figure-12").matches("data-chart").count(), 0);
    assert_eq!(section(&page, "table-2-section").matches("<tr><td").count(), 7);
}

#[test]
fn results_with_items_of_8_bytes_stand_where_there_are_none_of_4() {
    let figure = Figure::ArxivUpdates;
    let both = fixture::results(&[figure], Scale::Quick);
    let item_bytes = |results: &Results| {
        let study = Study { results, scale: Scale::Quick, seed: 1 };
        let all: Vec<bool> = study.measured(figure).iter().map(|(point, _)| point.cell.items).collect();
        (all.len(), all.iter().filter(|items| **items).count())
    };
    assert_eq!(item_bytes(&both), (20, 20));
    let mut before = fixture::results(&[figure], Scale::Quick);
    before.lines.iter_mut().skip(3).for_each(|line| line.cell.items = false);
    assert_eq!(item_bytes(&before), (20, 3));
    before.lines.extend(both.lines);
    assert_eq!(item_bytes(&before), (20, 20));
}

#[test]
fn the_scale_is_that_of_the_newest_result_unless_it_is_chosen() {
    let mut results = fixture::results(&[Figure::Trace], Scale::Quick);
    results.lines.extend(fixture::results(&[Figure::Fields], Scale::Full).lines);
    let scale =
        |quick, full| Study::newest(&results, scales(Wanted { quick, full })).map(|study| study.scale);
    assert_eq!(scale(false, false), Some(Scale::Full));
    assert_eq!(scale(true, false), Some(Scale::Quick));
    results.lines.truncate(7);
    assert!(Study::newest(&results, scales(Wanted { quick: false, full: true })).is_none());
}

#[test]
fn a_report_of_nothing_says_what_makes_results() {
    let dir = tempfile::tempdir().expect("there is room");
    let json = dir.path().join("none.jsonl");
    let out = dir.path().join("new/report.html");
    let drawn = draw::<Snapshots>(&json, &out, Wanted::default());
    let error = drawn.expect_err("nothing was measured").to_string();
    assert!(error.contains(&format!("tarn lab run snapshots --json {}", json.display())), "{error}");
    assert!(!out.exists());
}
