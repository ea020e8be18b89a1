//! The report, section by section.

use plotters::style::RGBColor;

use super::super::Results;
use super::super::cell::{Cell, FULL, Figures, Measured, Part, Variant};
use super::super::goals::judge;
use super::published::statements;
use crate::drawing::{Axis, Facts, Look, Page, Series, Words, legend, lines, times};
use crate::report::thousands;

/// The look of a variant.
const fn look(variant: Variant) -> Look {
    match variant {
        Variant::None => Look { colour: RGBColor(130, 130, 130), sign: '●' },
        Variant::Live => Look { colour: RGBColor(120, 160, 90), sign: '×' },
        Variant::Vls => Look { colour: RGBColor(45, 130, 200), sign: '●' },
        Variant::Fork => Look { colour: RGBColor(214, 70, 130), sign: '▲' },
        Variant::MasksOff => Look { colour: RGBColor(120, 160, 90), sign: '▲' },
        Variant::Masks64 => Look { colour: RGBColor(142, 91, 208), sign: '●' },
        Variant::Masks128 => Look { colour: RGBColor(184, 134, 11), sign: '×' },
    }
}

const SHARED: Look = Look { colour: RGBColor(45, 130, 200), sign: '●' };
const APART: Look = Look { colour: RGBColor(214, 70, 130), sign: '●' };
const TO_THE_END: Look = Look { colour: RGBColor(142, 91, 208), sign: '●' };

struct Draw<'r> {
    results: &'r Results,
    quick: bool,
    page: Page,
}

/// The page.
pub fn page(results: &Results, quick: bool) -> String {
    let mut draw = Draw { results, quick, page: Page::default() };
    draw.page.goals(&judge(results, quick));
    draw.page.section("printed", "What the paper printed, beside what was measured");
    draw.page.paragraph(
        "The paper changed MongoDB 2.5.5 on a machine of 64 cores, with 10 and 100 million records. Ours is \
         a view by a live scan of the same store; where there are several cells, the least and the most.",
    );
    draw.page.statements(&statements(results, quick));
    draw.alone();
    draw.beside(
        Part::Updates,
        "updates",
        "Figures 7b, 8a and 9: queries beside as many updates as there can be",
        &[
            ("updates a second", |_, turn| turn.updates_per_s),
            ("time of a query [ms]", |cell, turn| turn.query_ms(cell)),
        ],
    );
    draw.beside(
        Part::Latency,
        "latency",
        "Figures 8b and 10: latency of updates at a rate",
        &[("p95 [µs]", |_, turn| turn.latency_p95), ("p99.9 [µs]", |_, turn| turn.latency.p999)],
    );
    draw.remset();
    draw.masks();
    draw.opening();
    draw.references();
    draw.page.finish("Consistent queries on live data", &head(results, quick))
}

/// Where, when and how it was measured.
fn head(results: &Results, quick: bool) -> String {
    let own: Vec<_> = results.lines.iter().filter(|line| line.cell.quick == quick).collect();
    let mut facts = Facts::of(&own);
    let most = own.iter().map(|line| line.cell.records).max().unwrap_or_default() as f64;
    let scale = format!("up to {} records of 240 B; the paper has 10 M and 100 M", thousands(most));
    facts.add("scale", &scale);
    if quick {
        facts.add("quick", "everything small and short: the figures mean little");
    }
    let preferred = own.iter().any(|line| line.figures.preferred);
    let turn = if preferred { "most of their cores' time" } else { "no more of their cores than others" };
    facts.add("threads", &format!("updates on the first core, queries on the last; they are given {turn}"));
    results.notes.iter().for_each(|note| facts.add("note", note));
    let all: Vec<_> = Variant::ALL.into_iter().map(|own| look(own).legend(own.name())).collect();
    format!(
        "{}<p class=\"legend\">{}</p>\n<p>none: updates only. live: each record as it is when it is met, \
         which is consistent with nothing. vls: through a view. fork: by a child process. masks-64, \
         masks-128: the paper's literal form; masks-off: the same store, which keeps nothing.</p>\n",
        facts.html(),
        all.join("\n")
    )
}

fn number(value: f64, places: usize) -> String {
    if value.is_finite() && value > 0.0 { format!("{value:.places$}") } else { "–".to_owned() }
}

/// The shown value of a measurement.
type Shown = fn(&Cell, &Measured) -> f64;

impl<'r> Draw<'r> {
    fn part(&self, part: Part) -> Vec<(&'r Cell, &'r Figures)> {
        let (results, quick) = (self.results, self.quick);
        results.of(move |cell| cell.quick == quick && cell.part == part)
    }

    /// Begins a section; `false` if nothing of its part was measured.
    fn begin(&mut self, part: Part, id: &str, title: &str) -> bool {
        let is_there = !self.part(part).is_empty();
        self.page.section_of((id, title), is_there, &format!("vls --only {}", part.name()))
    }

    /// A line for each variant: `y` by `x`.
    fn series(
        cells: &[(&Cell, &Figures)],
        x: impl Fn(&Cell) -> f64,
        y: impl Fn(&Cell, &Measured) -> f64,
    ) -> Vec<Series> {
        let of = |variant: Variant| {
            let point =
                |(cell, figures): &(&Cell, &Figures)| (x(cell), figures.of(variant, |turn| y(cell, turn)));
            let mut points: Vec<_> = cells.iter().map(point).collect();
            points.retain(|point| point.1.is_finite());
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Series::new(variant.name(), look(variant), points)
        };
        Variant::ALL.into_iter().map(of).filter(|series| !series.points.is_empty()).collect()
    }

    fn alone(&mut self) {
        if !self.begin(Part::Alone, "alone", "Figure 7a: one query, without updates") {
            return;
        }
        let cells = self.part(Part::Alone);
        let mut sizes: Vec<u64> = cells.iter().map(|(cell, _)| cell.records).collect();
        sizes.dedup();
        let mut charts = Vec::new();
        for records in sizes {
            let own: Vec<_> = cells.iter().filter(|(cell, _)| cell.records == records).copied().collect();
            let series =
                Draw::series(&own, |cell| f64::from(cell.share_percent), |cell, turn| turn.query_ms(cell));
            let caption = format!("{} records", thousands(records as f64));
            let words = Words { caption: &caption, x: "records read [%]", y: "time [ms]" };
            charts.extend(lines(words, Axis::Logarithmic, &series).map(|svg| (caption.clone(), svg)));
        }
        self.page.charts(&charts);
        self.table_of(Part::Alone);
    }

    /// Charts by queries at the same time, one for each share that is read and rate, and the numbers.
    fn beside(&mut self, part: Part, id: &str, title: &str, shown: &[(&str, Shown)]) {
        if !self.begin(part, id, title) {
            return;
        }
        let cells = self.part(part);
        let mut kinds: Vec<(u64, u32, u32)> = Vec::new();
        for (cell, _) in &cells {
            let kind = (cell.records, cell.rate, cell.share_percent);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let mut charts = Vec::new();
        for kind in kinds {
            let is_own = |cell: &Cell| (cell.records, cell.rate, cell.share_percent) == kind;
            let own: Vec<_> = cells.iter().filter(|(cell, _)| is_own(cell)).copied().collect();
            let (records, rate, share) = kind;
            let share = if share == FULL { "full scans".to_owned() } else { format!("{share} % by index") };
            let rate = if rate == 0 { String::new() } else { format!(", {}/s", thousands(f64::from(rate))) };
            for (y, of) in shown {
                let caption = format!("{share}{rate}, {} records", thousands(records as f64));
                let series = Draw::series(&own, |cell| cell.queries as f64, of);
                let words = Words { caption: &caption, x: "queries at the same time", y };
                charts.extend(lines(words, Axis::Logarithmic, &series).map(|svg| (caption.clone(), svg)));
            }
        }
        self.page.charts(&charts);
        self.table_of(part);
    }

    /// The numbers of a part.
    fn table_of(&mut self, part: Part) {
        let heads = [
            "cell",
            "variant",
            "M rows/s",
            "query ms",
            "updates/s",
            "p50 µs",
            "p95",
            "p99.9",
            "longest",
            "versions",
        ]
        .map(str::to_owned);
        let mut rows = Vec::new();
        for (cell, figures) in self.part(part) {
            for variant in figures.variants.iter().map(|own| own.variant) {
                let of = |of: fn(&Measured) -> f64| figures.of(variant, of);
                let query = if variant == Variant::None {
                    0.0
                } else {
                    figures.of(variant, |turn| turn.query_ms(cell))
                };
                rows.push(vec![
                    cell.to_string(),
                    variant.name().to_owned(),
                    number(of(|turn| turn.rows_per_s / 1e6), 2),
                    number(query, 2),
                    thousands(of(|turn| turn.updates_per_s)),
                    number(of(|turn| turn.latency.p50), 2),
                    number(of(|turn| turn.latency_p95), 2),
                    number(of(|turn| turn.latency.p999), 1),
                    number(of(|turn| turn.latency.max), 0),
                    thousands(of(|turn| turn.versions as f64)),
                ]);
            }
        }
        self.page.table(&format!("{}-table", part.name()), &heads, &rows);
    }

    fn remset(&mut self) {
        if !self.begin(Part::Remset, "remset", "Figure 11: what is kept, by time") {
            return;
        }
        self.page.paragraph(
            "Queries that begin at the same instant. Shared: each version once. Apart: as many as there \
             were if each query had its own, counted by who has still to read each. To the end: shared, and \
             nothing is given back before its query has ended.",
        );
        let (mut charts, mut rows, mut shown) = (Vec::new(), Vec::new(), Vec::new());
        for (cell, figures) in self.part(Part::Remset) {
            let remset = &figures.remset;
            let shared = remset.moments.iter().map(|at| (at.ms, at.shared as f64)).collect();
            let apart = remset.moments.iter().map(|at| (at.ms, at.apart as f64)).collect();
            let kept = remset.to_the_end.iter().map(|at| (at.ms, at.shared as f64)).collect();
            shown = vec![
                Series::new("shared", SHARED, shared),
                Series::new("apart", APART, apart),
                Series::new("shared, to the end", TO_THE_END, kept),
            ];
            let caption = cell.to_string();
            let words = Words { caption: &caption, x: "time [ms]", y: "versions" };
            charts.extend(times(words, &shown, &[], None).map(|svg| (caption.clone(), svg)));
            let (shared, apart) = remset.most();
            let bytes = remset.moments.iter().map(|at| at.bytes).max().unwrap_or(0);
            let to_the_end = remset.to_the_end.iter().map(|at| at.shared).max().unwrap_or(0);
            rows.push(vec![
                caption,
                thousands(remset.updates_per_s),
                thousands(shared as f64),
                number(bytes as f64 / 1e6, 1),
                thousands(apart as f64),
                number(apart as f64 / shared as f64, 1),
                thousands(to_the_end as f64),
                remset.left.to_string(),
            ]);
        }
        self.page.html(&legend(&shown));
        self.page.charts(&charts);
        let heads = [
            "cell",
            "updates/s",
            "shared",
            "MB",
            "apart",
            "apart by shared",
            "to the end",
            "left at the end",
        ];
        self.page.table("remset-table", &heads.map(str::to_owned), &rows);
    }

    fn masks(&mut self) {
        if self.begin(Part::Masks, "masks", "Text: masks of 64 and of 128 bits") {
            self.page.paragraph(
                "The paper's literal form, with a mask in each record (docs/algorithms/vls.md). Without \
                 queries beside updates, one query runs and nothing else.",
            );
            self.table_of(Part::Masks);
        }
    }

    fn opening(&mut self) {
        if !self.begin(Part::Opening, "opening", "Opening of a view, and what it sees") {
            return;
        }
        let heads = ["cell", "view", "median µs", "p99", "p99.9", "longest"].map(str::to_owned);
        let (mut rows, mut seen) = (Vec::new(), Vec::new());
        for (cell, figures) in self.part(Part::Opening) {
            let opening = &figures.opening;
            for (what, took) in [("of tables", opening.plain), ("of indexes too", opening.indexed)] {
                let mut row = vec![cell.to_string(), what.to_owned()];
                row.extend([took.p50, took.p99, took.p999, took.max].map(|us| number(us, 1)));
                rows.push(row);
            }
            let (asked, stale) = (thousands(opening.asked as f64), opening.stale);
            seen.push(format!(
                "{cell}: of {asked} views, {stale} missed a write acknowledged before they were opened."
            ));
        }
        self.page.table("opening-table", &heads, &rows);
        seen.iter().for_each(|words| self.page.paragraph(words));
    }

    fn references(&mut self) {
        if !self.begin(Part::References, "references", "Other stores, each through its client") {
            return;
        }
        let heads = ["cell", "store", "query", "seconds", "M rows/s"].map(str::to_owned);
        let mut rows = Vec::new();
        for (cell, figures) in self.part(Part::References) {
            for reference in &figures.references {
                let seconds = reference.median_s();
                rows.push(vec![
                    cell.to_string(),
                    reference.what.clone(),
                    reference.query.clone(),
                    number(seconds, 4),
                    number(cell.records as f64 / seconds / 1e6, 2),
                ]);
            }
        }
        self.page.table("references-table", &heads, &rows);
    }
}
