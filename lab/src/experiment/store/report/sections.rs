//! The report, section by section.

use super::super::Results;
use super::super::cell::{Cell, Figures, Kind, Part, Variant};
use super::super::goals::{Measured, cuts_of, extra, judge, median};
use super::looks::{self, Line, look, name};
use super::published::{self, Printed};
use crate::drawing::{Axis, Facts, Page, Words, decades, lines, short, trace};
use crate::report::{self, Spread};

/// Panels of timelines of a part, at most.
const TIMELINES: usize = 8;

/// A chart: its caption, the words of its axis, the axis and the values.
type Panel<'p> = (&'p str, &'p str, Axis, &'p dyn Fn(&Figures) -> f64);

struct Draw<'r> {
    measured: Measured<'r>,
    page: Page,
}

/// The page.
pub fn page(results: &Results, quick: bool) -> String {
    let mut draw = Draw { measured: Measured::new(results, quick), page: Page::default() };
    draw.goals(results, quick);
    draw.latency();
    draw.throughput();
    draw.paper();
    draw.overwrite();
    draw.time();
    draw.cuts();
    draw.giants();
    draw.page.finish("Checkpoints of the store", &head(results, quick))
}

/// Where, when and how it was measured.
fn head(results: &Results, quick: bool) -> String {
    let own: Vec<_> = results.lines.iter().filter(|line| line.cell.quick == quick).collect();
    let mut facts = Facts::of(&own);
    let mut row = |name: &str, value: String| facts.add(name, &value);
    let most = |data: Kind| {
        own.iter().map(|line| line.cell.data).filter(|own| own.kind == data).map(|own| own.count).max()
    };
    if let Some(most) = most(Kind::Records) {
        let share = most as f64 / 8e6;
        row("scale", format!("up to {} records of 1 KB; the study's 8 M by {share:.4}", short(most as f64)));
    }
    if quick {
        row("quick", "everything small and short: the figures mean little".to_owned());
    }
    let missing: Vec<&str> = Variant::ALL
        .into_iter()
        .filter(|variant| own.iter().all(|line| line.cell.variant != *variant))
        .map(Variant::name)
        .collect();
    if !missing.is_empty() {
        row("not measured", missing.join(", "));
    }
    let preferred = own.iter().any(|line| line.figures.generator_preferred);
    row(
        "generator",
        format!(
            "one thread on the last core, the server and its checkpoint on all; it {} on its core",
            if preferred { "comes before all others" } else { "takes its turn with others" }
        ),
    );
    row("compression", "none on either side: redis-server runs with rdbcompression no".to_owned());
    let legend: Vec<String> =
        Variant::ALL.into_iter().map(|variant| look(variant).legend(variant.name())).collect();
    format!(
        "{}<p class=\"legend\">{}</p>\n<p>Thin lines with hollow signs: checkpoint-pace fast. \
         Shaded: from BGSAVE until LASTSAVE shows the checkpoint.</p>\n",
        facts.html(),
        legend.join("\n")
    )
}

/// The size of a store of records, for a line.
fn records(cell: &Cell) -> Option<f64> {
    (cell.data.kind == Kind::Records).then_some(cell.data.count as f64)
}

fn ms(us: f64) -> String {
    format!("{:.2}", us / 1e3)
}

impl Draw<'_> {
    fn goals(&mut self, results: &Results, quick: bool) {
        self.page.goals(&judge(results, quick));
        self.page.paragraph(
            "What an idle store pays for having views at all cannot be measured from outside, as there is no \
             Tarn without them: it is one load of the cuts in force for each write.",
        );
    }

    /// Begins a section; `false` if nothing of its part was measured.
    fn begin(&mut self, part: Part, id: &str, title: &str) -> bool {
        self.page.section(id, title);
        let is_there = !self.measured.part(part).is_empty();
        if !is_there {
            self.page.left_out(&format!("Not measured: tarn lab run store --only {}", part.name()));
        }
        is_there
    }

    /// Charts of a part by number of records.
    fn by_size(&mut self, part: Part, panels: &[Panel<'_>]) {
        let drawn = panels.iter().filter_map(|(caption, y, axis, of)| {
            let series = looks::lines(&self.measured, part, records, of);
            Some(((*caption).to_owned(), lines(Words { caption, x: "records", y }, *axis, &series)?))
        });
        let charts: Vec<_> = drawn.collect();
        self.page.charts(&charts);
    }

    /// Latency by time, a panel for each cell that `wanted` lets through.
    fn timelines(&mut self, part: Part, wanted: impl Fn(&Cell) -> bool) {
        let cells: Vec<_> =
            self.measured.part(part).into_iter().filter(|(cell, _)| wanted(cell)).take(TIMELINES).collect();
        let longest = |figures: &Figures| -> Vec<(f64, f64)> {
            figures
                .timeline
                .iter()
                .map(|(at, _, us, _)| (f64::from(*at) / 1e3, f64::from(*us) / 1e3))
                .collect()
        };
        let all = || {
            cells.iter().flat_map(|(_, figures)| longest(figures)).map(|point| point.1).filter(|ms| *ms > 0.0)
        };
        let range = decades(all().fold(f64::NAN, f64::min), all().fold(f64::NAN, f64::max));
        let charts: Vec<(String, String)> = cells
            .iter()
            .filter_map(|(cell, figures)| {
                let caption = format!("{}, {}", name(cell), cell.data);
                let words = Words { caption: &caption, x: "time [s]", y: "longest [ms]" };
                let span = |taken: &crate::checkpoint::Taken| {
                    (taken.from_ms / 1e3, taken.from_ms / 1e3 + taken.seconds)
                };
                let spans: Vec<_> = figures.taken.iter().map(span).collect();
                let svg = trace(words, look(cell.variant), &longest(figures), &spans, &range)?;
                Some((caption.clone(), svg))
            })
            .collect();
        self.page.charts(&charts);
    }

    fn latency(&mut self) {
        let title = "Latency: open loop at half of saturation, 50 % updates, uniform";
        if !self.begin(Part::Latency, "latency", title) {
            return;
        }
        self.by_size(
            Part::Latency,
            &[
                ("longest during checkpoints", "longest [ms]", Axis::Logarithmic, &|f| {
                    f.during_all.max_us / 1e3
                }),
                ("longest without", "longest [ms]", Axis::Logarithmic, &|f| f.without_all.max_us / 1e3),
                ("p99.9 during / without", "ratio", Axis::Linear, &|f| {
                    f.during_all.p999_us / f.without_all.p999_us
                }),
                ("p99.9 during checkpoints", "p99.9 [ms]", Axis::Logarithmic, &|f| {
                    f.during_all.p999_us / 1e3
                }),
            ],
        );
        self.latency_table(Part::Latency, "latency-table");
        let largest = self.measured.part(Part::Latency).iter().map(|(cell, _)| cell.data.count).max();
        self.page.paragraph("By time, at the largest size: the longest latency in each 20 ms, logarithmic.");
        self.timelines(Part::Latency, |cell| Some(cell.data.count) == largest);
    }

    /// All numbers of an open loop. Latencies in milliseconds.
    fn latency_table(&mut self, part: Part, id: &str) {
        let heads = [
            "variant",
            "data",
            "requests/s",
            "",
            "p50",
            "p99",
            "p99.9",
            "longest",
            "median of longest",
            "from sending",
            "generator late",
            "p99.9 late",
            "stolen ms",
            "seconds",
        ]
        .map(str::to_owned);
        let mut rows = Vec::new();
        for (cell, figures) in self.measured.part(part) {
            let stretches = [
                ("without", &figures.without_all, &figures.without),
                ("during", &figures.during_all, &figures.during),
            ];
            for (what, all, each) in stretches {
                rows.push(vec![
                    name(&cell),
                    cell.data.to_string(),
                    format!("{:.0}", all.rate),
                    what.to_owned(),
                    ms(all.p50_us),
                    ms(all.p99_us),
                    ms(all.p999_us),
                    ms(all.max_us),
                    ms(median(each, |stretch| stretch.max_us)),
                    ms(all.served_max_us),
                    ms(all.late_max_us),
                    ms(all.late_p999_us),
                    format!("{:.0}", all.stolen_ms),
                    format!("{:.1}", all.seconds),
                ]);
            }
        }
        self.page.table(id, &heads, &rows);
    }

    fn throughput(&mut self) {
        let title = "Throughput: closed loop of 50 connections, 50 % updates, uniform";
        if !self.begin(Part::Saturated, "throughput", title) {
            return;
        }
        let median = |rates: &[f64]| report::median(rates.iter().copied());
        self.by_size(
            Part::Saturated,
            &[
                ("during checkpoints", "requests a second", Axis::Linear, &|f| median(&f.rates_during)),
                ("during / without", "ratio", Axis::Linear, &|f| {
                    median(&f.rates_during) / median(&f.rates_without)
                }),
            ],
        );
        let heads = [
            "variant",
            "data",
            "without",
            "spread",
            "during",
            "spread",
            "ratio",
            "checkpoint s",
            "generator busy",
            "server busy",
            "others busy",
        ]
        .map(str::to_owned);
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let spread = |rates: &[f64]| {
            if rates.is_empty() {
                String::new()
            } else {
                format!("{:.0} %", Spread::of(rates.iter().copied()).percent())
            }
        };
        let rows: Vec<Vec<String>> = self
            .measured
            .part(Part::Saturated)
            .into_iter()
            .map(|(cell, figures)| {
                let (without, during) = (median(&figures.rates_without), median(&figures.rates_during));
                vec![
                    name(&cell),
                    cell.data.to_string(),
                    format!("{without:.0}"),
                    spread(&figures.rates_without),
                    format!("{during:.0}"),
                    spread(&figures.rates_during),
                    format!("{:.2}", during / without),
                    seconds(figures.taken.iter().map(|taken| taken.seconds)),
                    percent(figures.generator_busy),
                    percent(figures.server_busy),
                    percent(figures.others_busy),
                ]
            })
            .collect();
        self.page.table("throughput-table", &heads, &rows);
    }

    /// Figures 13 to 17.
    fn paper(&mut self) {
        let title =
            "Figures 13 to 17: closed loop of 256 connections, Zipfian, a checkpoint 10 s after the last";
        if !self.begin(Part::Figures, "figures", title) {
            return;
        }
        self.page.paragraph(
            "The study ran 4 M operations; here a run has a length of time, and one whole checkpoint at \
             least. Its Redis-HG and Redis-PB are changed Redis servers; ours are Tarn.",
        );
        let dump = |figures: &Figures| report::median(figures.taken.iter().map(|taken| taken.seconds));
        let small =
            |cell: &Cell| records(cell).filter(|_| cell.update_percent == super::super::plan::PAPER_UPDATES);
        let largest = self.measured.part(Part::Figures).iter().map(|(cell, _)| cell.data.count).max();
        let shares =
            |cell: &Cell| (Some(cell.data.count) == largest).then_some(f64::from(cell.update_percent));
        type Of<'f> = &'f dyn Fn(&Figures) -> f64;
        let rate: Of<'_> = &|f| f.all.rate;
        let longest: Of<'_> = &|f| f.all.max_us;
        let memory: Of<'_> = &|f| (f.peak.most as f64 / 1024.0).log2();
        self.figure(
            "13",
            "throughput, requests a second",
            "records",
            Axis::Linear,
            &small,
            rate,
            &published::FIGURE_13,
        );
        self.figure(
            "14",
            "longest latency, µs",
            "records",
            Axis::Logarithmic,
            &small,
            longest,
            &published::FIGURE_14,
        );
        self.figure(
            "15",
            "longest latency by updates, µs",
            "updates [%]",
            Axis::Logarithmic,
            &shares,
            longest,
            &published::FIGURE_15,
        );
        self.figure(
            "16",
            "most memory, log2 of KB",
            "records",
            Axis::Linear,
            &small,
            memory,
            &published::FIGURE_16,
        );
        self.figure("17", "time of a dump, s", "records", Axis::Linear, &small, &dump, &published::FIGURE_17);
    }

    #[expect(clippy::too_many_arguments, reason = "a figure has these parts, and is drawn in one place")]
    fn figure(
        &mut self,
        number: &str,
        what: &str,
        x: &str,
        axis: Axis,
        x_of: &dyn Fn(&Cell) -> Option<f64>,
        y_of: &dyn Fn(&Figures) -> f64,
        printed: &Printed,
    ) {
        let series = looks::lines(&self.measured, Part::Figures, x_of, y_of);
        let caption = format!("Figure {number}: {what}");
        let drawn = lines(Words { caption: &caption, x, y: what }, axis, &series);
        self.page.charts(&drawn.map(|svg| (caption.clone(), svg)).into_iter().collect::<Vec<_>>());
        let mut xs: Vec<f64> = series.iter().flat_map(Line::xs).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let number_text = |value: f64| if number == "16" { format!("{value:.2}") } else { short(value) };
        let mut heads = vec!["measured".to_owned()];
        heads.extend(xs.iter().map(|x| short(*x)));
        let rows: Vec<Vec<String>> = series
            .iter()
            .map(|line| {
                let mut row = vec![line.name.clone()];
                row.extend(xs.iter().map(|x| line.at(*x).map_or("–".to_owned(), number_text)));
                row
            })
            .collect();
        self.page.table(&format!("figure-{number}"), &heads, &rows);
        let mut heads = vec!["printed".to_owned()];
        heads.extend(printed.columns.map(str::to_owned));
        let rows: Vec<Vec<String>> = published::VARIANTS
            .iter()
            .zip(&printed.rows)
            .map(|(name, values)| {
                let mut row = vec![(*name).to_owned()];
                row.extend(values.map(number_text));
                row
            })
            .collect();
        self.page.table(&format!("printed-{number}"), &heads, &rows);
    }

    fn overwrite(&mut self) {
        let title = "Memory while all records are overwritten during a checkpoint";
        if !self.begin(Part::Overwrite, "overwrite", title) {
            return;
        }
        self.page.paragraph(
            "A field of one record after the other is written, as fast as the server takes it, until the \
             checkpoint ends; to keep the old record, a server has to keep all of it, or its page. Of who \
             forks, memory is the sum of the proportional sizes (PSS) of the server and of its child, \
             sampled; of the others it is the highest resident size that the kernel saw.",
        );
        let heads = [
            "variant",
            "data",
            "before MB",
            "most MB",
            "added MB",
            "÷ before",
            "used_memory added MB",
            "overwritten",
            "requests/s",
            "checkpoint s",
            "samples",
        ]
        .map(str::to_owned);
        let mb = |bytes: f64| format!("{:.0}", bytes / 1e6);
        let rows: Vec<Vec<String>> = self
            .measured
            .part(Part::Overwrite)
            .into_iter()
            .map(|(cell, figures)| {
                let peak = &figures.peak;
                vec![
                    name(&cell),
                    cell.data.to_string(),
                    mb(peak.before as f64),
                    mb(peak.most as f64),
                    mb(extra(figures)),
                    format!("{:.2}", peak.most as f64 / peak.before.max(1) as f64),
                    mb(peak.used_most.saturating_sub(peak.used_before) as f64),
                    format!("{:.0} %", figures.overwritten * 100.0),
                    format!("{:.0}", figures.during_all.rate),
                    seconds(figures.taken.iter().map(|taken| taken.seconds)),
                    peak.samples.to_string(),
                ]
            })
            .collect();
        self.page.table("overwrite-table", &heads, &rows);
    }

    fn time(&mut self) {
        let title = "Time of a checkpoint of an idle store, and of a start from it";
        if !self.begin(Part::Time, "time", title) {
            return;
        }
        let start = |figures: &Figures| report::median(figures.recovered_s.iter().copied());
        let dump = |figures: &Figures| report::median(figures.taken.iter().map(|taken| taken.seconds));
        self.by_size(
            Part::Time,
            &[("checkpoint", "seconds", Axis::Linear, &dump), ("start", "seconds", Axis::Linear, &start)],
        );
        let heads = ["variant", "data", "checkpoint s", "files MB", "MB/s", "start s"].map(str::to_owned);
        let rows: Vec<Vec<String>> = self
            .measured
            .part(Part::Time)
            .into_iter()
            .map(|(cell, figures)| {
                let bytes = figures.taken.last().map_or(0.0, |taken| taken.file_bytes as f64);
                vec![
                    name(&cell),
                    cell.data.to_string(),
                    seconds(figures.taken.iter().map(|taken| taken.seconds)),
                    format!("{:.0}", bytes / 1e6),
                    format!("{:.0}", bytes / 1e6 / dump(figures)),
                    seconds(figures.recovered_s.iter().copied()),
                ]
            })
            .collect();
        self.page.table("time-table", &heads, &rows);
    }

    fn cuts(&mut self) {
        self.page.section("cuts", "Opening a view, calling fork");
        self.page
            .paragraph("As the server tells it after each checkpoint, in microseconds: least, median, most.");
        let heads = ["variant", "data", "least", "median", "most"].map(str::to_owned);
        let mut rows = Vec::new();
        for variant in Variant::ALL {
            for (data, cuts) in cuts_of(&self.measured, variant) {
                let numbers = [cuts.min, cuts.median, cuts.max].map(short);
                let mut row = vec![variant.name().to_owned(), data.to_string()];
                row.extend(numbers);
                rows.push(row);
            }
        }
        self.page.table("cuts-table", &heads, &rows);
    }

    fn giants(&mut self) {
        if !self.begin(Part::Giants, "giants", "Giant collections: writes that hit them") {
            return;
        }
        self.latency_table(Part::Giants, "giants-table");
        let heads = ["variant", "data", "saturated, without", "during", "ratio"].map(str::to_owned);
        let median = |rates: &[f64]| report::median(rates.iter().copied());
        let rows: Vec<Vec<String>> = self
            .measured
            .part(Part::Giants)
            .into_iter()
            .map(|(cell, figures)| {
                let (without, during) = (median(&figures.rates_without), median(&figures.rates_during));
                let ratio = format!("{:.2}", during / without);
                vec![
                    name(&cell),
                    cell.data.to_string(),
                    format!("{without:.0}"),
                    format!("{during:.0}"),
                    ratio,
                ]
            })
            .collect();
        self.page.table("giants-rates", &heads, &rows);
        for kind in Kind::GIANTS {
            self.timelines(Part::Giants, |cell| cell.data.kind == kind);
        }
    }
}

/// The median of some times, with the spread if there are several.
fn seconds(times: impl IntoIterator<Item = f64>) -> String {
    let times: Vec<f64> = times.into_iter().collect();
    if times.is_empty() {
        return "–".to_owned();
    }
    let spread = Spread::of(times.iter().copied());
    if times.len() == 1 {
        return format!("{:.2}", spread.median);
    }
    format!("{:.2} ({:.2} to {:.2})", spread.median, spread.min, spread.max)
}
