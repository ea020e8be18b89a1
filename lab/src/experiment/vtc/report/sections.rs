//! The report, section by section.

use super::super::Results;
use super::super::cell::{Access, Cell, Figures, Part, Variant};
use super::super::goals::{amplification, bytes_per_update, judge, longest_log, of_stretches, rates};
use super::looks::{self, look};
use super::published::statements;
use crate::drawing::{Axis, Facts, Page, Series, Words, legend, lines, short, times};
use crate::report::{median, thousands};

/// The usual share of updates.
const USUAL: u32 = 50;
/// Records of the thesis's largest store.
const RECORDS_MOST: f64 = 12e6;

/// A chart of values: its caption, the words of its axes, the cells and how values are found.
struct Panel<'p> {
    caption: &'p str,
    x: &'p str,
    y: &'p str,
    is_wanted: &'p dyn Fn(&Cell) -> bool,
    x_of: &'p dyn Fn(&Cell) -> f64,
    y_of: &'p dyn Fn(&Figures) -> f64,
}

struct Draw<'r> {
    results: &'r Results,
    quick: bool,
    page: Page,
}

/// The page.
pub fn page(results: &Results, quick: bool) -> String {
    let mut draw = Draw { results, quick, page: Page::default() };
    draw.page.goals(&judge(results, quick));
    draw.printed();
    draw.through_a_checkpoint();
    draw.throughput();
    draw.latency();
    draw.memory();
    draw.times();
    draw.alone();
    draw.files();
    draw.writes();
    draw.page.finish("A log that is its own checkpoint", &head(results, quick))
}

/// Where, when and how it was measured.
fn head(results: &Results, quick: bool) -> String {
    let own: Vec<_> = results.lines.iter().filter(|line| line.cell.quick == quick).collect();
    let mut facts = Facts::of(&own);
    let most = own.iter().map(|line| line.cell.records).max().unwrap_or_default() as f64;
    facts.add(
        "scale",
        &format!(
            "up to {} records of 1 KB; the thesis's 12 M by {:.4}",
            thousands(most),
            most / RECORDS_MOST
        ),
    );
    let mut bytes: Vec<u64> =
        own.iter().map(|line| line.figures.log_file_bytes).filter(|bytes| *bytes > 0).collect();
    bytes.sort_unstable();
    if let (Some(least), Some(most)) = (bytes.first(), bytes.last()) {
        let (least, most) = (*least as f64 / f64::from(1 << 20), *most as f64 / f64::from(1 << 20));
        facts.add(
            "log files",
            &format!(
                "{least:.2} to {most:.2} MiB: log-file-size, and log-compaction-min-size where the log is \
                 compacted unasked. Their defaults are 64 MiB, in proportion to the thesis's 2 M records; \
                 below that a small log would never be compacted. Three directories."
            ),
        );
    }
    if quick {
        facts.add("quick", "everything small and short: the figures mean little");
    }
    let missing: Vec<&str> = Variant::ALL
        .into_iter()
        .filter(|variant| own.iter().all(|line| line.cell.variant != *variant))
        .map(Variant::name)
        .collect();
    if !missing.is_empty() {
        facts.add("not measured", &missing.join(", "));
    }
    let preferred = own.iter().any(|line| line.figures.course.generator_preferred);
    let turn = if preferred { "comes before all others" } else { "takes its turn with others" };
    facts.add("generator", &format!("one thread on the last core; it {turn} there"));
    facts.add("compression", "none on either side: redis-server runs with rdbcompression no");
    let all: Vec<_> = Variant::ALL.into_iter().map(|own| look(own).legend(own.name())).collect();
    format!(
        "{}<p class=\"legend\">{}</p>\n<p>off: Tarn without a log. none: with a log that only grows. vtc: \
         compacted by validity, BGREWRITEAOF; vtc-fast: the same without its bound of bytes a second. \
         rewrite: a checkpoint, and what it has is dropped from the log, BGREWRITEAOF. snapshot: without a \
         log, BGSAVE. redis-rdb: BGSAVE. redis-aof: appendfsync everysec, BGREWRITEAOF.</p>\n",
        facts.html(),
        all.join("\n")
    )
}

fn records(cell: &Cell) -> f64 {
    cell.records as f64
}

fn ms(us: f64) -> String {
    if us > 0.0 { format!("{:.2}", us / 1e3) } else { "–".to_owned() }
}

fn seconds(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { "–".to_owned() }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

impl<'r> Draw<'r> {
    fn part(&self, part: Part) -> Vec<(&'r Cell, &'r Figures)> {
        let (results, quick) = (self.results, self.quick);
        results.of(move |cell| cell.quick == quick && cell.part == part)
    }

    /// Begins a section; `false` if nothing of its part was measured.
    fn begin(&mut self, part: Part, id: &str, title: &str) -> bool {
        let is_there = !self.part(part).is_empty();
        self.page.section_of((id, title), is_there, &format!("vtc --only {}", part.name()))
    }

    /// A row of charts, and the numbers that they show.
    fn panels(&mut self, part: Part, panels: &[Panel<'_>]) {
        let quick = self.quick;
        let mut charts = Vec::new();
        let mut tables = Vec::new();
        for Panel { caption, x, y, is_wanted, x_of, y_of } in panels {
            let wanted = |cell: &Cell| cell.quick == quick && cell.part == part && is_wanted(cell);
            let series = looks::lines(self.results, wanted, x_of, y_of);
            let words = Words { caption, x, y };
            charts.extend(lines(words, Axis::Linear, &series).map(|svg| ((*caption).to_owned(), svg)));
            tables.push((*caption, series));
        }
        self.page.charts(&charts);
        for (caption, series) in tables {
            self.table_of(caption, &series);
        }
    }

    /// The numbers of some lines.
    fn table_of(&mut self, caption: &str, series: &[Series]) {
        let mut xs: Vec<f64> = series.iter().flat_map(|line| &line.points).map(|point| point.0).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        if xs.is_empty() {
            return;
        }
        let mut heads = vec![caption.to_owned()];
        heads.extend(xs.iter().map(|x| short(*x)));
        let row = |line: &Series| {
            let at = |x: &f64| line.points.iter().find(|point| point.0 == *x).map(|point| short(point.1));
            let mut row = vec![line.name.clone()];
            row.extend(xs.iter().map(|x| at(x).unwrap_or_else(|| "–".to_owned())));
            row
        };
        let rows: Vec<_> = series.iter().map(row).collect();
        let id: String = caption.chars().filter(|letter| letter.is_ascii_alphanumeric()).collect();
        self.page.table(&id, &heads, &rows);
    }

    /// The numbers of the thesis, beside ours.
    fn printed(&mut self) {
        self.page.section("printed", "What the thesis printed, beside what was measured");
        self.page.paragraph(
            "The thesis changed Redis 5.0.6 on a machine with 32 GB and three devices; it shows the rest of \
             its figures as drawings without numbers. Ours is the median over the sizes at 50 % updates.",
        );
        self.page.statements(&statements(self.results, self.quick));
    }

    /// Figure 1.1, of each variant.
    fn through_a_checkpoint(&mut self) {
        let title = "Figure 1.1: memory and throughput through checkpoints, 50 % updates";
        if !self.begin(Part::Checkpoints, "through", title) {
            return;
        }
        self.page.paragraph(
            "At the largest size. Shaded: from asking for a checkpoint until it has ended. Memory is what is \
             resident; of who forks, the proportional sizes (PSS) of the server and of its child together.",
        );
        let cells = self.part(Part::Checkpoints);
        let largest = cells.iter().map(|(cell, _)| cell.records).max();
        let own = cells.into_iter().filter(|(cell, figures)| {
            Some(cell.records) == largest && cell.update_percent == USUAL && !figures.course.taken.is_empty()
        });
        let own: Vec<_> = own.collect();
        let memory = |figures: &Figures| -> Vec<(f64, f64)> {
            let points = figures.course.peak.timeline.iter();
            points.map(|(at, bytes)| (f64::from(*at) / 1e3, *bytes as f64 / 1e6)).collect()
        };
        let most = |of: &dyn Fn(&Figures) -> Vec<(f64, f64)>| {
            let all = own.iter().flat_map(|(_, figures)| of(figures)).map(|point| point.1);
            Some(all.fold(0.0, f64::max) * 1.08).filter(|most| *most > 0.0)
        };
        let (most_rate, most_memory) = (most(&Figures::requests_by_time), most(&memory));
        let mut charts = Vec::new();
        for (cell, figures) in &own {
            let spans: Vec<_> = figures
                .course
                .taken
                .iter()
                .map(|taken| (taken.from_ms / 1e3, taken.from_ms / 1e3 + taken.seconds))
                .collect();
            let name = cell.variant.name();
            let chart = |what: &str, y, points, most| {
                let caption = format!("{name}: {what}");
                let series = [Series::new(name, look(cell.variant), points)];
                let words = Words { caption: &caption, x: "time [s]", y };
                let svg = times(words, &series, &spans, most)?;
                Some((caption.clone(), svg))
            };
            charts.extend(chart("throughput", "requests/s", figures.requests_by_time(), most_rate));
            charts.extend(chart("memory", "resident [MB]", memory(figures), most_memory));
        }
        self.page.charts(&charts);
    }

    /// Figures 4.1 and 4.2.
    fn throughput(&mut self) {
        let title = "Figures 4.1 and 4.2: throughput outside of checkpoints and during them";
        if !self.begin(Part::Checkpoints, "throughput", title) {
            return;
        }
        self.page.paragraph("Closed loop of 128 connections, Zipfian; 4.2 at the largest size.");
        let largest = self.part(Part::Checkpoints).iter().map(|(cell, _)| cell.records).max();
        let (usual, at_largest) = (
            |cell: &Cell| cell.update_percent == USUAL,
            move |cell: &Cell| {
                // A variant that is measured at one share only makes no line.
                Some(cell.records) == largest
                    && !matches!(cell.variant, Variant::Off | Variant::None | Variant::VtcFast)
            },
        );
        let share = |cell: &Cell| f64::from(cell.update_percent);
        let (outside, during) = (|f: &Figures| rates(f).0, |f: &Figures| rates(f).1);
        let y = "requests a second";
        let panel = |caption, x, is_wanted, x_of, y_of| Panel { caption, x, y, is_wanted, x_of, y_of };
        self.panels(
            Part::Checkpoints,
            &[
                panel("4.1a outside, by records", "records", &usual, &records, &outside),
                panel("4.1b during, by records", "records", &usual, &records, &during),
                panel("4.2a outside, by updates", "updates [%]", &at_largest, &share, &outside),
                panel("4.2b during, by updates", "updates [%]", &at_largest, &share, &during),
            ],
        );
    }

    fn latency(&mut self) {
        let title = "Latency: open loop at half of saturation, 50 % updates";
        if !self.begin(Part::Latency, "latency", title) {
            return;
        }
        self.page.paragraph(
            "In milliseconds, from when a request was due. Late: how late the generator sent, which is the \
             machine's doing and not the server's.",
        );
        let heads = [
            "variant",
            "records",
            "requests/s",
            "",
            "p50",
            "p99",
            "p99.9",
            "longest",
            "median of longest",
            "p99.9 late",
            "late at most",
            "stolen ms",
        ]
        .map(str::to_owned);
        let mut rows = Vec::new();
        for (cell, figures) in self.part(Part::Latency) {
            let course = &figures.course;
            let stretches = [
                ("outside", &course.without_all, &course.without),
                ("during", &course.during_all, &course.during),
            ];
            for (what, all, each) in stretches.into_iter().filter(|(_, _, each)| !each.is_empty()) {
                let longest = of_stretches(each, |stretch| stretch.max_us);
                let mut row = vec![cell.variant.name().to_owned(), thousands(records(cell))];
                row.extend([format!("{:.0}", all.rate), what.to_owned()]);
                row.extend([all.p50_us, all.p99_us, all.p999_us, all.max_us, longest].map(ms));
                row.extend([all.late_p999_us, all.late_max_us].map(ms));
                row.push(format!("{:.0}", all.stolen_ms));
                rows.push(row);
            }
        }
        self.page.table("latency-table", &heads, &rows);
    }

    /// Figures 4.3 and 4.4.
    fn memory(&mut self) {
        if !self.begin(Part::Checkpoints, "memory", "Figures 4.3 and 4.4: memory") {
            return;
        }
        self.page.paragraph(
            "The most is that of the server with its child processes. What is added is the most during a \
             checkpoint against what was resident just before it.",
        );
        let largest = self.part(Part::Checkpoints).iter().map(|(cell, _)| cell.records).max();
        let usual = |cell: &Cell| cell.update_percent == USUAL;
        let at_largest = move |cell: &Cell| Some(cell.records) == largest && cell.variant != Variant::VtcFast;
        let share = |cell: &Cell| f64::from(cell.update_percent);
        let loaded = |f: &Figures| f.loaded_resident as f64 / 1e6;
        let most = |f: &Figures| if f.course.taken.is_empty() { f64::NAN } else { f.most_bytes() / 1e6 };
        let extra = |f: &Figures| f.extra_share() * 100.0;
        let panel = |caption, x, y, is_wanted, x_of, y_of| Panel { caption, x, y, is_wanted, x_of, y_of };
        self.panels(
            Part::Checkpoints,
            &[
                panel("4.3a memory of the data", "records", "resident [MB]", &usual, &records, &loaded),
                panel("4.3b most during a checkpoint", "records", "resident [MB]", &usual, &records, &most),
                panel("4.3b added, by records", "records", "added [%]", &usual, &records, &extra),
                panel("4.4 added, by updates", "updates [%]", "added [%]", &at_largest, &share, &extra),
            ],
        );
    }

    /// Figure 4.5.
    fn times(&mut self) {
        if !self.begin(Part::Checkpoints, "time", "Figure 4.5: checkpoint time") {
            return;
        }
        let usual = |cell: &Cell| cell.update_percent == USUAL;
        let y_of = |f: &Figures| f.checkpoint_s();
        let caption = "4.5 checkpoint time";
        let panel =
            Panel { caption, x: "records", y: "seconds", is_wanted: &usual, x_of: &records, y_of: &y_of };
        self.panels(Part::Checkpoints, &[panel]);
    }

    /// The same as figure 4.5, without a load.
    fn alone(&mut self) {
        if !self.begin(Part::Alone, "alone", "Checkpoint time of a server that has nothing else to do") {
            return;
        }
        self.page.paragraph(
            "Before each as many records are written as there are, any of them, so that about half of a log \
             is obsolete; then the server is left until it writes nothing any more.",
        );
        let heads = ["variant", "records", "checkpoints", "median s", "shortest s", "MB of files afterwards"];
        let row = |(cell, figures): (&Cell, &Figures)| {
            let taken = &figures.course.taken;
            let shortest = taken.iter().map(|taken| taken.seconds).fold(f64::NAN, f64::min);
            vec![
                cell.variant.name().to_owned(),
                thousands(records(cell)),
                taken.len().to_string(),
                seconds(figures.checkpoint_s()),
                seconds(shortest),
                taken.last().map_or("–".to_owned(), |taken| megabytes(taken.file_bytes)),
            ]
        };
        let rows: Vec<_> = self.part(Part::Alone).into_iter().map(row).collect();
        self.page.table("alone-table", &heads.map(str::to_owned), &rows);
    }

    /// Figures 4.6 and 4.7.
    fn files(&mut self) {
        let title = "Figures 4.6 and 4.7: file size, and restoring time";
        if !self.begin(Part::Files, "files", title) {
            return;
        }
        self.page.paragraph(
            "After the load and some time at 50 % updates: of who has a log, as it is then; of the others a \
             checkpoint taken then. Afterwards the log is rewritten, or compacted as a whole. Starts are \
             after a hard kill, with the files in the page cache, until as many keys are there.",
        );
        let all = |_: &Cell| true;
        let size = |f: &Figures| f.files.run_bytes as f64 / 1e6;
        let start = |f: &Figures| median(f.files.started_s.iter().copied());
        let panel =
            |caption, y, y_of| Panel { caption, x: "records", y, is_wanted: &all, x_of: &records, y_of };
        self.panels(
            Part::Files,
            &[panel("4.6 file size", "MB", &size), panel("4.7 restoring time", "seconds", &start)],
        );
        let heads = [
            "variant",
            "records",
            "MB loaded",
            "MB after the run",
            "run s",
            "start s",
            "MB made shorter",
            "start s from that",
        ]
        .map(str::to_owned);
        let row = |(cell, figures): (&Cell, &Figures)| {
            let files = &figures.files;
            let short_start = median(files.short_started_s.iter().copied());
            vec![
                cell.variant.name().to_owned(),
                thousands(records(cell)),
                if cell.variant.logs() { megabytes(files.loaded_bytes) } else { "–".to_owned() },
                megabytes(files.run_bytes),
                format!("{:.1}", files.run_s),
                seconds(median(files.started_s.iter().copied())),
                files.short_bytes.map_or("–".to_owned(), megabytes),
                seconds(short_start),
            ]
        };
        let rows: Vec<_> = self.part(Part::Files).into_iter().map(row).collect();
        self.page.table("files-table", &heads, &rows);
    }

    fn writes(&mut self) {
        if !self.begin(Part::Writes, "writes", "Bytes written for updates, and the length of the log") {
            return;
        }
        self.page.paragraph(
            "Fields of 100 B are updated, batches of 16, until each was four times on average (twice with \
             --quick). The device's bytes are those that the kernel counts for the server and its children. \
             Amplification is what was written to the log by what was appended to it, as Tarn tells it. \
             redis-server rewrites its file when it is twice as long as after the last rewrite.",
        );
        let heads = [
            "variant",
            "access",
            "updates",
            "seconds",
            "B/update to the device",
            "÷ 100 B",
            "B/update appended",
            "amplification",
            "longest log ÷ needed",
        ]
        .map(str::to_owned);
        let factor = |value: f64| if value.is_finite() { format!("{value:.2}") } else { "–".to_owned() };
        let row = |(cell, figures): (&Cell, &Figures)| {
            let writes = &figures.writes;
            let per_update = |bytes: u64| format!("{:.0}", bytes as f64 / writes.updates as f64);
            vec![
                cell.variant.name().to_owned(),
                cell.access.name().to_owned(),
                thousands(writes.updates as f64),
                format!("{:.1}", writes.seconds),
                per_update(writes.device_bytes),
                factor(bytes_per_update(figures) / 100.0),
                writes.appended_bytes.map_or("–".to_owned(), per_update),
                factor(amplification(figures)),
                factor(longest_log(figures)),
            ]
        };
        let rows: Vec<_> = self.part(Part::Writes).into_iter().map(row).collect();
        self.page.table("writes-table", &heads, &rows);
        let mut charts = Vec::new();
        let mut shown = Vec::new();
        for access in [Access::Zipfian, Access::Uniform] {
            let caption = format!("the log by what is needed of it: {}", access.name());
            let cells = self.part(Part::Writes);
            let own = cells.into_iter().filter(|(cell, _)| cell.access == access);
            let series: Vec<_> = own
                .map(|(cell, figures)| {
                    let point = |(at, all, needed): &(u32, u64, u64)| {
                        (f64::from(*at) / 1e3, *all as f64 / (*needed).max(1) as f64)
                    };
                    let points = figures.writes.log.iter().filter(|look| look.2 > 0).map(point).collect();
                    Series::new(cell.variant.name(), look(cell.variant), points)
                })
                .collect();
            let words = Words { caption: &caption, x: "time [s]", y: "log ÷ needed" };
            charts.extend(times(words, &series, &[], None).map(|svg| (caption.clone(), svg)));
            shown = series;
        }
        self.page.html(&legend(&shown));
        self.page.charts(&charts);
    }
}
