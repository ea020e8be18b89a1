//! The report, section by section, in the order of the study.

use super::super::cell::{Algorithm, Cell, Figures};
use super::super::plan::{Figure, Point};
use super::data::{Series, Study};
use super::head::{flag, head, legend};
use super::looks::{look, traces};
use super::orders;
use super::verdict::Verdict;
use super::{published, tables};
use crate::drawing::{Axis, Look, Page, Words, bars, escape, lines};

/// Waits are drawn on a logarithmic axis; a wait of zero is drawn here.
const LEAST_WAIT_US: f64 = 0.1;

struct Draw<'s, 'r> {
    study: &'s Study<'r>,
    verdicts: Vec<Verdict>,
    page: Page,
}

fn bar(algorithm: Algorithm, value: f64) -> (&'static str, Look, f64) {
    (algorithm.name(), look(algorithm), value)
}

/// The page.
pub fn report(study: &Study<'_>) -> String {
    let mut verdicts = orders::judge(study);
    let counted = |_: &Cell, figures: &Figures| {
        figures.cache_misses.map_or(f64::NAN, |misses| misses as f64 / figures.updates as f64)
    };
    let misses = orders::misses(study.series(Figure::Trace, counted));
    let count = |of: fn(&Verdict) -> bool| verdicts.iter().chain(&misses).filter(|own| of(own)).count();
    let differ = count(|verdict| !verdict.differences.is_empty());
    let unclear = count(|verdict| verdict.differences.is_empty() && !verdict.unclear.is_empty());
    let of = verdicts.len() + usize::from(misses.is_some());
    let mut draw = Draw { study, verdicts: std::mem::take(&mut verdicts), page: Page::default() };
    draw.traces();
    draw.by_parameters();
    draw.trigger();
    draw.huge_pages();
    draw.transactions();
    draw.flood();
    draw.beyond();
    draw.summaries(misses);
    let summary = format!(
        "<p>Of {of} orders and shapes that the study printed and that could be compared, {} hold here, \
         {differ} do not, and {unclear} differ by no more than the noise of this run; each section says \
         which, and why where that is known.</p>",
        of - differ - unclear
    );
    draw.page.finish("Snapshots of an array of rows", &(head(study) + &summary))
}

impl Draw<'_, '_> {
    /// Begins the section of a figure; `false` if nothing of it was measured.
    fn begin(&mut self, id: &str, title: &str, figure: Figure) -> bool {
        self.page.section(id, title);
        let (measured, planned) = self.study.coverage(figure);
        if measured < planned {
            let name = clap::ValueEnum::to_possible_value(&figure)
                .map_or(String::new(), |value| value.get_name().to_owned());
            let flag = flag(self.study.scale);
            self.page.left_out(&format!(
                "{measured} of {planned} cells were measured. \
                 The others: tarn lab run snapshots{flag} --only {name}"
            ));
        }
        measured > 0
    }

    /// Compares our results with the printed ones.
    fn verdicts(&mut self, figure: Figure) {
        let own: Vec<Verdict> = self.verdicts.iter().filter(|own| own.figure == figure).cloned().collect();
        own.iter().for_each(|verdict| self.verdict(verdict));
    }

    fn verdict(&mut self, verdict: &Verdict) {
        let (class, ours) = match (verdict.differences.is_empty(), verdict.unclear.is_empty()) {
            (true, true) => ("same", "is the same."),
            (true, false) => ("unclear", "is not told apart from it:"),
            (false, _) => ("differs", "differs:"),
        };
        self.page.classed("p", class, &format!("Printed: {}. Ours {ours}", verdict.printed));
        let lines: String = verdict
            .differences
            .iter()
            .chain(&verdict.unclear)
            .map(|line| format!("<li>{}</li>", escape(line)))
            .collect();
        if !lines.is_empty() {
            self.page.html(&format!("<ul>{lines}</ul>"));
        }
    }

    /// Figure 9.
    fn traces(&mut self) {
        let title = "Figure 9: tick latency by time, default parameters";
        if self.begin("figure-9", title, Figure::Trace) {
            self.page.paragraph(
                "Shaded: from the trigger until the checkpoint is durable. The latency is logarithmic.",
            );
            let measured = self.study.measured(Figure::Trace);
            let all: Vec<_> =
                measured.iter().map(|(point, figures)| (point.cell.algorithm, *figures)).collect();
            let charts = traces(&all);
            self.page.charts(&charts);
            self.verdicts(Figure::Trace);
        }
        self.page.section("defaults-section", "The default parameters in numbers");
        self.page.paragraph(&format!(
            "Printed means are those of table 4 of the study, whose data were 4 GB. Fork's maximum at \
             50 GB is {} ms by the authors' own estimate.",
            published::FORK_MAX_MS_AT_50_GB
        ));
        tables::defaults(self.study, &mut self.page);
    }

    /// Figure 10, a column after the other.
    fn by_parameters(&mut self) {
        let columns = [
            (Figure::Dataset, "a, e, i", "data [GB]", "dataset"),
            (Figure::Row, "b, f, j", "row [bytes]", "row"),
            (Figure::Updates, "c, g, k", "updates a tick", "updates"),
            (Figure::Skew, "d, h, l", "Zipfian exponent", "skew"),
        ];
        for (figure, letters, x, id) in columns {
            let title = format!("Figure 10 {letters}: by {x}");
            if !self.begin(&format!("figure-10-{id}"), &title, figure) {
                continue;
            }
            let [mean_letter, max_letter, overhead_letter] =
                [0, 3, 6].map(|place| letters[place..place + 1].to_owned());
            let panel = |axis, of: fn(&Cell, &Figures) -> f64, letter: &str, what: &str, y: &str| {
                let caption = format!("{letter}: {what}");
                let series = self.study.series(figure, of);
                Some((caption.clone(), lines(Words { caption: &caption, x, y }, axis, &series)?))
            };
            let panels = [
                panel(Axis::Linear, |_, f| f.mean_us() / 1e3, &mean_letter, "mean tick latency", "mean [ms]"),
                panel(
                    Axis::Logarithmic,
                    |_, f| f.max_us() / 1e3,
                    &max_letter,
                    "maximum tick latency",
                    "maximum [ms]",
                ),
                panel(
                    Axis::Logarithmic,
                    |_, f| tables::longest_wait(f).max(LEAST_WAIT_US),
                    &format!("{max_letter}, not printed"),
                    "longest wait at the trigger",
                    "wait [µs], at least 0.1",
                ),
                panel(
                    Axis::Linear,
                    |_, f| f.overhead_ms() / 1e3,
                    &overhead_letter,
                    "checkpoint overhead",
                    "traverse and dump [s]",
                ),
            ];
            let charts: Vec<_> = panels.into_iter().flatten().collect();
            self.page.charts(&charts);
            self.verdicts(figure);
        }
    }

    /// Ours: the wait at the trigger.
    fn trigger(&mut self) {
        let title = "Beyond the study: the trigger of PP, HG and PB";
        if self.begin("trigger", title, Figure::Trigger) {
            let taken = self.study.series(Figure::Trigger, |_, figures| figures.taken_us_max());
            let wait = self.study.series(Figure::Trigger, |_, figures| tables::longest_wait(figures));
            self.panels(
                "data [GB]",
                &[("taken phase", "longest [µs]", taken), ("wait at the trigger", "longest [µs]", wait)],
            );
        }
    }

    fn panels(&mut self, x: &str, panels: &[(&str, &str, Vec<Series>)]) {
        let drawn = panels.iter().filter_map(|(caption, y, series)| {
            let svg = lines(Words { caption, x, y }, Axis::Linear, series)?;
            Some(((*caption).to_owned(), svg))
        });
        let charts: Vec<_> = drawn.collect();
        self.page.charts(&charts);
    }

    /// Figure 11.
    fn huge_pages(&mut self) {
        if self.begin("figure-11", "Figure 11: huge pages", Figure::HugePages) {
            let of = [Algorithm::Fork, Algorithm::Hourglass, Algorithm::Piggyback];
            self.page.html(&legend(&of));
            self.page.paragraph("Thin lines with hollow signs are those of huge pages.");
            let max = self.study.series(Figure::HugePages, |_, figures| figures.max_us() / 1e3);
            let mean = self.study.series(Figure::HugePages, |_, figures| figures.mean_us() / 1e3);
            self.panels(
                "data [GB]",
                &[
                    ("a: maximum tick latency", "maximum [ms]", max),
                    ("b: mean tick latency", "mean [ms]", mean),
                ],
            );
            self.verdicts(Figure::HugePages);
        }
    }

    /// Figure 12.
    fn transactions(&mut self) {
        let title = "Figure 12: transactions by threads";
        if self.begin("figure-12", title, Figure::Transactions) {
            self.page.html(&legend(&Algorithm::VIRTUAL));
            let rate = self.study.series(Figure::Transactions, |_, figures| figures.transactions_per_s);
            self.panels("threads", &[("transaction throughput", "transactions a second", rate)]);
            self.verdicts(Figure::Transactions);
            tables::transactions(self.study, &mut self.page);
        }
    }

    /// Figure 16 of the earlier text.
    fn flood(&mut self) {
        let title = "Figure 16 of the earlier text: maximum throughput";
        if self.begin("figure-16", title, Figure::Flood) {
            let measured = self.study.measured(Figure::Flood);
            let rates: Vec<_> = measured
                .iter()
                .map(|(point, figures)| bar(point.cell.algorithm, figures.updates_per_s / 1e3))
                .collect();
            let caption = "maximum throughput";
            let words = Words { caption, x: "algorithm", y: "updates a millisecond" };
            let charts: Vec<_> =
                bars(words, &rates).map(|svg| (caption.to_owned(), svg)).into_iter().collect();
            self.page.charts(&charts);
            self.verdicts(Figure::Flood);
        }
    }

    /// Ours: reads, and updates of fields.
    fn beyond(&mut self) {
        let parts = [
            (Figure::Reads, "reads", "Beyond the study: reads beside the updates"),
            (Figure::Fields, "fields", "Beyond the study: updates of a field"),
        ];
        for (figure, id, title) in parts {
            if !self.begin(&format!("{id}-section"), title, figure) {
                continue;
            }
            let reads = figure == Figure::Reads;
            let mean = |(point, figures): &(Point, &Figures)| {
                let of = if reads { figures.reads_quiet } else { figures.quiet };
                bar(point.cell.algorithm, of.mean / 1e3)
            };
            let means: Vec<_> = self.study.measured(figure).iter().map(mean).collect();
            let caption = if reads { "mean read stage, quiet" } else { "mean update stage, quiet" };
            let words = Words { caption, x: "algorithm", y: "mean [ms]" };
            let charts: Vec<_> =
                bars(words, &means).map(|svg| (caption.to_owned(), svg)).into_iter().collect();
            self.page.charts(&charts);
            tables::beside(self.study, figure, &mut self.page);
        }
    }

    /// Tables 2 and 4.
    fn summaries(&mut self, misses: Option<Verdict>) {
        self.page.section("table-2-section", "Table 2: the summary, filled from these measurements");
        self.page.paragraph(
            "Mean, spike (the longest wait at the trigger) and memory are those of the default parameters, \
             medians over the repeats; the complexity is how the taken phase grows with the data of figure \
             10; the throughput is figure 16's.",
        );
        tables::summary(self.study, &mut self.page);
        self.page.section("table-4-section", "Table 4: cache misses, and a model");
        self.page.paragraph(
            "The model is not a measurement. It counts the cache lines that an update of a whole row \
             touches, as the source of each algorithm has it: the first update of a row after a snapshot \
             was taken (for Fork, of a page), and each later one. Awaited are those that must have come \
             from memory before the update can go on; what is only stored need not.",
        );
        tables::cache(self.study, &mut self.page);
        match misses {
            Some(verdict) => self.verdict(&verdict),
            None => {
                self.page.left_out("No cache misses were counted: the order of the study cannot be compared.")
            }
        }
    }
}
