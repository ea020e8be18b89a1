//! The report, section by section, in the order of the study.

use super::super::cell::{Algorithm, Cell, Figures};
use super::super::plan::{Figure, Scale};
use super::charts::{Axis, Words, bars, colour, lines, trace};
use super::data::{Series, Study};
use super::orders::{self, Verdict};
use super::page::{Page, escape};
use super::{published, tables};

/// How the quantities are measured, as `ticks.rs`, `flood.rs` and `transactions.rs` do it.
const QUANTITIES: &[(&str, &str)] = &[
    (
        "tick latency",
        "the update stage of a tick, from when the client begins (when the tick should begin, or when the one \
         before has ended if that was later) until its last update is done; waiting for a cut is part of it. \
         Ticks before half of the time to the first snapshot warm up and do not count.",
    ),
    (
        "quiet, during",
        "a tick is one during a snapshot if it overlaps with the time from the trigger until the checkpoint is \
         durable; else it is quiet.",
    ),
    ("longest from intended start", "from when a tick should have begun until its update stage has ended."),
    ("mean", "over all ticks, quiet or not."),
    (
        "taken phase",
        "from when the client is out until the snapshot is taken; the longest of the snapshots of a run.",
    ),
    (
        "wait at the trigger",
        "the longest that the client waited to be let in again while a snapshot was taken.",
    ),
    (
        "checkpoint",
        "from the end of the taken phase until the checkpoint is durable: traversal, dump and fsync; the \
         median of the snapshots. The first checkpoint, which has all rows for every algorithm, does not count.",
    ),
    ("max throughput", "updates a second without idle stages, while snapshots are traversed and not dumped."),
    (
        "memory",
        "the most resident memory of the process, with what a forked child had for itself, program and prepared accesses included.",
    ),
];

struct Draw<'s, 'r> {
    study: &'s Study<'r>,
    verdicts: Vec<Verdict>,
    page: Page,
}

/// The page.
pub fn report(study: &Study<'_>) -> String {
    let mut verdicts = orders::judge(study);
    let counted = |_: &Cell, figures: &Figures| {
        figures.cache_misses.map_or(f64::NAN, |misses| misses as f64 / figures.updates as f64)
    };
    let misses = orders::misses(&study.series(Figure::Trace, counted));
    let differ = verdicts.iter().chain(&misses).filter(|verdict| !verdict.differences.is_empty()).count();
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
        "<p>Of {of} orders and shapes that the study printed and that could be compared, {} hold here and {differ} \
         do not; each section says which, and why where that is known.</p>",
        of - differ
    );
    draw.page.finish("Snapshots of an array of rows", &(head(study) + &summary))
}

/// Where, when and how it was measured.
fn head(study: &Study<'_>) -> String {
    let own: Vec<_> = study.results.lines.iter().filter(|line| line.seed == study.seed).collect();
    let mut rows = Vec::new();
    let mut row =
        |name: &str, value: String| rows.push(format!("<dt>{name}</dt><dd>{}</dd>", escape(&value)));
    let distinct = |texts: Vec<String>| {
        let mut texts = texts;
        texts.sort();
        texts.dedup();
        texts.join("; ")
    };
    row("machine", distinct(own.iter().map(|line| line.machine_text()).collect()));
    row("commit", distinct(own.iter().map(|line| line.commit.clone()).collect()));
    row("scale", study.scale.name().to_owned());
    row("seed", study.seed.to_string());
    let times = || own.iter().map(|line| line.unix_ms).filter(|ms| *ms > 0);
    if let (Some(first), Some(last)) = (times().min(), times().max()) {
        row("measured", format!("from {} to {}", utc(first), utc(last)));
    }
    let flag = match study.scale {
        Scale::Quick => " --quick",
        Scale::Default => "",
        Scale::Full => " --full",
    };
    let path = study.results.path.display();
    row("again by", format!("tarn lab run snapshots{flag} --seed {} --json {path}", study.seed));
    row("drawn by", format!("tarn lab report{} --json {path}", flag));
    let how: Vec<String> = QUANTITIES
        .iter()
        .map(|(name, how)| format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(how)))
        .collect();
    format!(
        "<dl>{}</dl>\n<details><summary>How each quantity is measured</summary><dl>{}</dl></details>\n{}",
        rows.join("\n"),
        how.join("\n"),
        legend(&Algorithm::PHYSICAL, false)
    )
}

/// The colours of algorithms.
fn legend(algorithms: &[Algorithm], huge_pages: bool) -> String {
    let dot = |algorithm: &Algorithm, class: &str, more: &str| {
        let plotters::style::RGBColor(red, green, blue) = colour(*algorithm);
        let style = format!("background:rgb({red},{green},{blue});border-color:rgb({red},{green},{blue})");
        format!("<span><b class=\"{class}\" style=\"{style}\"></b>{}{more}</span>", algorithm.name())
    };
    let mut dots: Vec<String> = algorithms.iter().map(|algorithm| dot(algorithm, "", "")).collect();
    if huge_pages {
        dots.extend(algorithms.iter().map(|algorithm| dot(algorithm, "second", ", huge pages")));
    }
    format!("<p class=\"legend\">{}</p>", dots.join("\n"))
}

/// A moment as people write it, such as `2026-01-31 08:05 UTC`.
fn utc(unix_ms: u64) -> String {
    let minutes = unix_ms / 60_000;
    let (hour, minute) = (minutes / 60 % 24, minutes % 60);
    // Days since the first of March of year 0, in eras of 400 years.
    let days = minutes / 1440 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year}-{month:02}-{date:02} {hour:02}:{minute:02} UTC")
}

impl Draw<'_, '_> {
    /// Begins the section of a figure; `false` if nothing of it was measured.
    fn begin(&mut self, id: &str, title: &str, figure: Figure) -> bool {
        self.page.section(id, title);
        let (measured, planned) = self.study.coverage(figure);
        if measured < planned {
            let name = clap::ValueEnum::to_possible_value(&figure)
                .map_or(String::new(), |value| value.get_name().to_owned());
            self.page.left_out(&format!(
                "{measured} of {planned} cells were measured. The others: tarn lab run snapshots --only {name}"
            ));
        }
        measured > 0
    }

    /// Says how ours compares with what was printed.
    fn verdicts(&mut self, figure: Figure) {
        let own: Vec<Verdict> = self.verdicts.iter().filter(|own| own.figure == figure).cloned().collect();
        own.iter().for_each(|verdict| self.verdict(verdict));
    }

    fn verdict(&mut self, verdict: &Verdict) {
        if verdict.differences.is_empty() {
            self.page.classed("p", "same", &format!("Printed: {}. Ours is the same.", verdict.printed));
        } else {
            self.page.classed("p", "differs", &format!("Printed: {}. Ours differs:", verdict.printed));
            let lines = verdict.differences.iter().map(|line| format!("<li>{}</li>", escape(line)));
            self.page.html(&format!("<ul>{}</ul>", lines.collect::<String>()));
        }
    }

    /// Figure 9.
    fn traces(&mut self) {
        let title = "Figure 9: tick latency by time, default parameters";
        if self.begin("figure-9", title, Figure::Trace) {
            self.page.paragraph(
                "Shaded: from the trigger until the checkpoint is durable. The latency is logarithmic.",
            );
            let all = self.study.measured(Figure::Trace).into_iter().filter_map(|(point, figures)| {
                let algorithm = point.cell.algorithm;
                Some((algorithm.name().to_owned(), trace(algorithm, figures)?))
            });
            let charts: Vec<_> = all.collect();
            self.page.charts(&charts);
            self.verdicts(Figure::Trace);
        }
        self.page.section("defaults-section", "The default parameters in numbers");
        self.page.paragraph(&format!(
            "Printed means are those of table 4 of the study, whose data were 4 GB. Fork's maximum at 50 GB is {} ms by \
             the authors' own estimate.",
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
                    |_, f| tables::longest_wait(f),
                    &format!("{max_letter}, not printed"),
                    "longest wait at the trigger",
                    "wait [µs]",
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
            self.page.html(&legend(&of, true));
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
            self.page.html(&legend(&Algorithm::VIRTUAL, false));
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
                .map(|(point, figures)| (point.cell.algorithm, figures.updates_per_s / 1e3))
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
            let mean = |(point, figures): &(super::super::plan::Point, &Figures)| {
                let of = if reads { figures.reads_quiet } else { figures.quiet };
                (point.cell.algorithm, of.mean / 1e3)
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
            "Mean, spike (the longest wait at the trigger) and memory are those of the default parameters; the \
             complexity is how the taken phase grows with the data of figure 10; the throughput is figure 16's.",
        );
        tables::summary(self.study, &mut self.page);
        self.page.section("table-4-section", "Table 4: cache misses, and a model");
        self.page.paragraph(
            "The model is not a measurement. It counts the cache lines that an update of a whole row touches, as the \
             source of each algorithm has it: the first update of a row after a snapshot was taken (for Fork, of a \
             page), and each later one. Awaited are those that must have come from memory before the update can go on; \
             what is only stored need not.",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00 UTC");
        assert_eq!(utc(1_735_689_599_000), "2024-12-31 23:59 UTC");
    }
}
