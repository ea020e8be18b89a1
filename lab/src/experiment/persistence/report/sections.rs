//! The report, section by section.

use super::super::Results;
use super::super::cell::{Cell, Figures, Memory, Model, Part};
use super::super::goals::judge;
use super::super::trial::{directives, save_rule};
use super::looks;
use super::published::statements;
use crate::drawing::{Facts, Page, Series, Words, groups, legend, times};
use crate::report::thousands;
use crate::resources::Usage;

/// Records of the study's largest store.
const RECORDS_MOST: f64 = 8e6;

struct Draw<'r> {
    results: &'r Results,
    quick: bool,
    page: Page,
}

/// A line of a trace: its name, its look, and its value.
type Shown<'s> = (&'s str, crate::drawing::Look, &'s dyn Fn(&Usage) -> f64);

/// The page.
pub fn page(results: &Results, quick: bool) -> String {
    let mut draw = Draw { results, quick, page: Page::default() };
    draw.page.goals(&judge(results, quick));
    draw.page.section("printed", "What the study printed, beside what was measured");
    draw.page
        .paragraph("Over all sizes the median. The study measured Redis of its day on four hyper-threads.");
    draw.page.statements(&statements(results, quick));
    draw.models();
    draw.throughput();
    draw.traces();
    draw.starts();
    draw.sizes();
    draw.start_traces();
    draw.page.finish("Models of persistence, and starts from what they leave", &head(results, quick))
}

/// Where, when and how it was measured.
fn head(results: &Results, quick: bool) -> String {
    let own: Vec<_> = results.lines.iter().filter(|line| line.cell.quick == quick).collect();
    let mut facts = Facts::of(&own);
    let most = own.iter().map(|line| line.cell.records).max().unwrap_or_default() as f64;
    let share = most / RECORDS_MOST;
    facts.add("scale", &format!("up to {} records of 1 KB; the study's 8 M by {share:.4}", thousands(most)));
    let is_short = own.iter().any(|line| line.cell.memory == Memory::Short);
    let swapped = own.iter().flat_map(|line| &line.figures.usage).any(|usage| usage.swapped > 0);
    let memory = match (is_short, results.notes.last()) {
        (true, _) if swapped => {
            "by a control group: three quarters of the raw data; the machine swaps".to_owned()
        }
        (true, _) => {
            "by a control group: three quarters of the raw data; nothing was ever swapped out, so that \
                      the kernel ends who needs more"
                .to_owned()
        }
        (false, Some(why)) => format!("not possible there: {why}"),
        (false, None) => "not measured".to_owned(),
    };
    facts.add("short memory", &memory);
    facts.add(
        "in proportion",
        "the rule of the model snapshot is 60 s and 1000 changes for 4 M records, log-file-size and the \
         sizes from which a log is made shorter 64 MB for 1 M, smaller for fewer",
    );
    if quick {
        facts.add("quick", "everything small and short: the figures mean little");
    }
    facts.add("compression", "none on either side: redis-server runs with rdbcompression no");
    facts.html()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

/// A place for words that are not there.
fn or_dash(text: &str) -> String {
    if text.is_empty() { "–".to_owned() } else { text.to_owned() }
}

/// The series of some uses by time.
fn traces(usage: &[Usage], shown: &[Shown<'_>]) -> Vec<Series> {
    let line = |(name, look, of): &Shown<'_>| {
        let points = usage.iter().map(|usage| (f64::from(usage.ms) / 1e3, of(usage))).collect();
        Series::new(*name, *look, points)
    };
    shown.iter().map(line).collect()
}

const CPU: [Shown<'static>; 4] = [
    ("user", looks::USER, &|usage| f64::from(usage.machine.user)),
    ("system", looks::SYSTEM, &|usage| f64::from(usage.machine.system)),
    ("iowait", looks::IOWAIT, &|usage| f64::from(usage.machine.iowait)),
    ("the server, user and system", looks::MACHINE, &|usage| {
        f64::from(usage.process.user + usage.process.system) / usage.cores.len().max(1) as f64
    }),
];
const MEMORY: [Shown<'static>; 2] = [
    ("resident", looks::RESIDENT, &|usage| usage.resident as f64 / 1e6),
    ("swapped out", looks::SWAPPED, &|usage| usage.swapped as f64 / 1e6),
];
const FAULTS: [Shown<'static>; 2] = [
    ("of the machine", looks::MACHINE, &|usage| f64::from(usage.machine_faults)),
    ("of the process", looks::FAULTS, &|usage| f64::from(usage.faults)),
];

/// The study's figure with the trace of a model, as a caption begins; of logs where memory is short it has
/// none.
const fn figure_of(cell: &Cell) -> &'static str {
    match (cell.model, cell.memory) {
        (Model::NoSave, Memory::Ample) => "3: ",
        (Model::NoSave, Memory::Short) => "4: ",
        (Model::Snapshot, Memory::Ample) => "5: ",
        (Model::Snapshot, Memory::Short) => "6: ",
        (Model::LogDeferred, Memory::Ample) => "7: ",
        (Model::LogPeriodical, Memory::Ample) => "8: ",
        (Model::LogImmediate, Memory::Ample) => "9: ",
        (_, Memory::Short) => "",
    }
}

impl<'r> Draw<'r> {
    fn part(&self, part: Part) -> Vec<(&'r Cell, &'r Figures)> {
        let (results, quick) = (self.results, self.quick);
        results.of(move |cell| cell.quick == quick && cell.part == part)
    }

    /// Begins a section; `false` if nothing of its part was measured.
    fn begin(&mut self, part: Part, id: &str, title: &str) -> bool {
        let is_there = !self.part(part).is_empty();
        self.page.section_of((id, title), is_there, &format!("persistence --only {}", part.name()))
    }

    /// Table 1.
    fn models(&mut self) {
        self.page.section("models", "Table 1: the models, as they were measured");
        let heads = ["model", "redis-server", "tarn"].map(str::to_owned);
        let mut rows = Vec::new();
        let loads = self.part(Part::Load);
        let records = loads.iter().map(|(cell, _)| cell.records).min().unwrap_or_default();
        for model in Model::ALL {
            for shortens in [false, true].into_iter().filter(|shortens| !shortens || model.logs()) {
                let words = |is_tarn: bool| {
                    let cell = Cell {
                        part: Part::Load,
                        is_tarn,
                        model,
                        shortens,
                        threads: 1,
                        records,
                        memory: Memory::Ample,
                        quick: self.quick,
                    };
                    let mut words = match model {
                        Model::Snapshot => vec![format!("save {}", save_rule(records))],
                        _ => vec!["save \"\"".to_owned()],
                    };
                    match model.persistence() {
                        crate::server::Persistence::None => words.push("appendonly no".to_owned()),
                        mode => {
                            words.extend([
                                "appendonly yes".to_owned(),
                                format!("appendfsync {}", mode.name()),
                            ]);
                        }
                    }
                    words.extend(directives(&cell).iter().map(|(name, value)| format!("{name} {value}")));
                    words.join("; ")
                };
                let what = if shortens { ", made shorter" } else { "" };
                rows.push(vec![format!("{}{what}", model.name()), words(false), words(true)]);
            }
        }
        self.page.table("models-table", &heads, &rows);
        self.page
            .paragraph("A start of Tarn may use all cores (--threads); otherwise servers have one worker.");
    }

    /// Figure 2.
    fn throughput(&mut self) {
        let title = "Figure 2: throughput while records are loaded, and updated";
        if !self.begin(Part::Load, "throughput", title) {
            return;
        }
        self.page.paragraph(
            "Closed loop, a record of ten fields a request, then reads and updates of a field by halves from \
             the end of the load on. Light: memory is ample; heavy: twice the records, and memory is short. \
             A line that ends early is a server that ended.",
        );
        let shown: Vec<_> =
            Model::ALL.map(|model| Series::new(model.name(), looks::model(model), Vec::new())).to_vec();
        self.page.html(&legend(&shown));
        let cells = self.part(Part::Load);
        let mut kinds: Vec<(Memory, u32, bool)> =
            cells.iter().map(|(cell, _)| (cell.memory, cell.threads, !cell.is_tarn)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let mut charts = Vec::new();
        for (memory, threads, is_redis) in kinds {
            let own = cells.iter().filter(|(cell, _)| {
                (cell.memory, cell.threads, cell.is_tarn) == (memory, threads, !is_redis) && !cell.shortens
            });
            let series: Vec<_> = own
                .map(|(cell, figures)| {
                    let points =
                        figures.throughput.iter().map(|(at, rate)| (f64::from(*at), f64::from(*rate)));
                    Series::new(cell.model.name(), looks::model(cell.model), points.collect())
                })
                .collect();
            let name = if is_redis { "redis-server" } else { "tarn" };
            let weight = if memory == Memory::Short { "heavy" } else { "light" };
            let plural = if threads == 1 { "" } else { "s" };
            let caption = format!("{name}, {weight}, {threads} thread{plural}");
            let words = Words { caption: &caption, x: "time [s]", y: "requests/s" };
            charts.extend(times(words, &series, &[], None).map(|svg| (caption.clone(), svg)));
        }
        self.page.charts(&charts);
        self.load_table();
    }

    fn load_table(&mut self) {
        let heads = [
            "server",
            "model",
            "memory",
            "threads",
            "records",
            "loaded",
            "seconds",
            "requests/s",
            "p50 µs",
            "p99.9 µs",
            "longest ms",
            "updates and reads/s",
            "errors",
            "ended",
        ]
        .map(str::to_owned);
        let row = |(cell, figures): (&Cell, &Figures)| {
            let load = &figures.load;
            vec![
                cell.product().name().to_owned(),
                cell.model_name(),
                cell.memory.name().to_owned(),
                cell.threads.to_string(),
                thousands(cell.records as f64),
                percent(figures.loaded as f64 / cell.records as f64),
                format!("{:.2}", load.seconds),
                format!("{:.0}", load.rate),
                format!("{:.0}", load.p50_us),
                format!("{:.0}", load.p999_us),
                format!("{:.2}", load.max_us / 1e3),
                format!("{:.0}", figures.updates.rate),
                match &figures.first_error {
                    Some(text) => format!("{}: {text}", figures.errors),
                    None => "0".to_owned(),
                },
                or_dash(figures.ended.as_deref().unwrap_or_default()),
            ]
        };
        let rows: Vec<_> = self.part(Part::Load).into_iter().map(row).collect();
        self.page.table("load-table", &heads, &rows);
    }

    /// Figures 3 to 9.
    fn traces(&mut self) {
        let title = "Figures 3 to 9: what was used while records were loaded";
        if !self.begin(Part::Load, "traces", title) {
            return;
        }
        self.page.paragraph(
            "With the most threads. Processor time of the machine, of all cores together, and memory of the \
             server. Shaded: reads and updates, after the load. Faults are those that wait for a device.",
        );
        let none: [Usage; 0] = [];
        self.page.html(&legend(&traces(&none, &CPU)));
        self.page.html(&legend(&traces(&none, &MEMORY)));
        let cells = self.part(Part::Load);
        let most = cells.iter().map(|(cell, _)| cell.threads).max();
        let mut own: Vec<_> =
            cells.into_iter().filter(|(cell, _)| Some(cell.threads) == most && !cell.shortens).collect();
        own.sort_by_key(|(cell, _)| (cell.model, cell.memory, !cell.is_tarn));
        let mut charts = Vec::new();
        let mut faults = Vec::new();
        for (cell, figures) in &own {
            let weight = if cell.memory == Memory::Short { "heavy" } else { "light" };
            let name =
                format!("{}{}, {}, {weight}", figure_of(cell), cell.product().name(), cell.model.name());
            let end = figures.usage.last().map_or(f64::NAN, |usage| f64::from(usage.ms) / 1e3);
            let from = if figures.updates_from_s > 0.0 { figures.updates_from_s } else { f64::NAN };
            let draw = |what: &str, y, shown: &[Shown<'_>], most| {
                let caption = format!("{name}: {what}");
                let series = traces(&figures.usage, shown);
                let svg =
                    times(Words { caption: &caption, x: "time [s]", y }, &series, &[(from, end)], most)?;
                Some((caption.clone(), svg))
            };
            charts.extend(draw("processor", "machine [%]", &CPU, Some(100.0)));
            charts.extend(draw("memory", "MB", &MEMORY, None));
            if figures.usage.iter().any(|usage| usage.machine_faults > 0.0 || usage.faults > 0.0) {
                faults.extend(draw("faults", "faults/s", &FAULTS, None));
            }
        }
        self.page.charts(&charts);
        if faults.is_empty() {
            self.page.paragraph("No fault ever waited for a device, and nothing was swapped out.");
        } else {
            self.page.html(&legend(&traces(&none, &FAULTS)));
            self.page.charts(&faults);
        }
        self.usage_table(Part::Load, "usage-table");
    }

    /// The average uses.
    fn usage_table(&mut self, part: Part, id: &str) {
        let heads = [
            "server",
            "model",
            "memory",
            "records",
            "threads",
            "machine user %",
            "system %",
            "iowait %",
            "stolen %",
            "server user %",
            "system %",
            "iowait %",
            "most resident MB",
            "most swapped MB",
            "faults",
            "MB written",
        ]
        .map(str::to_owned);
        let row = |(cell, figures): (&Cell, &Figures)| {
            let usage = &figures.usage;
            let mean = |of: &dyn Fn(&Usage) -> f32| {
                let sum: f32 = usage.iter().map(of).sum();
                format!("{:.1}", sum / usage.len().max(1) as f32)
            };
            let most = |of: &dyn Fn(&Usage) -> u64| megabytes(usage.iter().map(of).max().unwrap_or_default());
            let mut row = vec![cell.product().name().to_owned(), cell.model_name()];
            row.extend([
                cell.memory.name().to_owned(),
                thousands(cell.records as f64),
                cell.threads.to_string(),
            ]);
            row.extend([mean(&|own| own.machine.user), mean(&|own| own.machine.system)]);
            row.extend([mean(&|own| own.machine.iowait), mean(&|own| own.machine.stolen)]);
            row.extend([mean(&|own| own.process.user), mean(&|own| own.process.system)]);
            row.extend([
                mean(&|own| own.process.iowait),
                most(&|own| own.resident),
                most(&|own| own.swapped),
            ]);
            row.push(mean(&|own| own.faults));
            row.push(most(&|own| own.written));
            row
        };
        let rows: Vec<_> = self.part(part).into_iter().map(row).collect();
        self.page.table(id, &heads, &rows);
    }

    /// The records of starts, with their names.
    fn sizes_of_starts(&self) -> (Vec<u64>, Vec<String>) {
        let mut sizes: Vec<u64> = self.part(Part::Recovery).iter().map(|(cell, _)| cell.records).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let names = sizes.iter().map(|records| format!("{} records", thousands(*records as f64))).collect();
        (sizes, names)
    }

    /// Bars by size, of each server, file and memory that is wanted.
    fn bars(
        &mut self,
        caption: &str,
        y: &str,
        wanted: impl Fn(&Cell) -> bool,
        of: impl Fn(&Figures) -> f64,
    ) -> Option<(String, String)> {
        let (sizes, names) = self.sizes_of_starts();
        let mut series: Vec<Series> = Vec::new();
        for (cell, figures) in self.part(Part::Recovery).into_iter().filter(|(cell, _)| wanted(cell)) {
            let name = format!("{}, {}, {}", cell.product().name(), cell.file_name(), cell.memory.name());
            let place = sizes.iter().position(|records| *records == cell.records).unwrap_or_default() as f64;
            let point = (place, of(figures));
            match series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => series.push(Series::new(name, looks::file(cell), vec![point])),
            }
        }
        series.retain(|series| series.points.iter().any(|point| point.1.is_finite()));
        let words = Words { caption, x: "", y };
        let svg = groups(words, &names, &series)?;
        Some((caption.to_owned(), format!("{svg}{}", legend(&series))))
    }

    /// Figure 10.
    fn starts(&mut self) {
        if !self.begin(Part::Recovery, "starts", "Figure 10: time of a start") {
            return;
        }
        self.page.paragraph(
            "After a hard kill, with the files in the page cache, until all keys are there. Each field of \
             each record was updated once on average before, so that a log that was made shorter is shorter. \
             A bar that is missing is a server that ended.",
        );
        let start = |figures: &Figures| figures.started_s.unwrap_or(f64::NAN);
        let charts: Vec<_> = [Memory::Ample, Memory::Short]
            .into_iter()
            .filter_map(|memory| {
                let caption = format!("time of a start, {} memory", memory.name());
                self.bars(&caption, "seconds", move |cell| cell.memory == memory, start)
            })
            .collect();
        self.page.charts(&charts);
        let heads =
            ["server", "file", "memory", "records", "seconds", "MB of files", "MB/s", "cores busy", "ended"]
                .map(str::to_owned);
        let row = |(cell, figures): (&Cell, &Figures)| {
            let seconds = figures.started_s;
            let rate = seconds.map(|seconds| figures.last_file_bytes as f64 / 1e6 / seconds);
            let mut row = vec![cell.product().name().to_owned(), cell.file_name().to_owned()];
            row.extend([cell.memory.name().to_owned(), thousands(cell.records as f64)]);
            row.push(seconds.map_or("–".to_owned(), |seconds| format!("{seconds:.2}")));
            row.push(megabytes(figures.last_file_bytes));
            row.push(rate.map_or("–".to_owned(), |rate| format!("{rate:.0}")));
            row.push(seconds.map_or("–".to_owned(), |_| format!("{:.2}", figures.cores_busy)));
            row.push(or_dash(figures.ended.as_deref().unwrap_or_default()));
            row
        };
        let rows: Vec<_> = self.part(Part::Recovery).into_iter().map(row).collect();
        self.page.table("starts-table", &heads, &rows);
    }

    /// Figure 11.
    fn sizes(&mut self) {
        if !self.begin(Part::Recovery, "sizes", "Figure 11: memory and files against the raw data") {
            return;
        }
        self.page.paragraph(
            "After the inserts alone. Memory is what the server says that it uses, as in the study; the \
             table has what is resident too. A snapshot is of the same records.",
        );
        let ample = |cell: &Cell| cell.memory == Memory::Ample;
        let one_model = move |cell: &Cell| ample(cell) && cell.model.logs() && !cell.shortens;
        let not_shortened = move |cell: &Cell| ample(cell) && !cell.shortens;
        let used = |figures: &Figures| figures.used_bytes as f64 / 1e6;
        let file = |figures: &Figures| {
            let inserted = figures.file_bytes;
            // A variant without a log has its first file with the snapshot.
            let bytes = if inserted > 1 << 10 { inserted } else { figures.last_file_bytes };
            bytes as f64 / 1e6
        };
        let charts = [
            self.bars("11a memory", "used [MB]", one_model, used),
            self.bars("11b files", "MB", not_shortened, file),
        ];
        let charts: Vec<_> = charts.into_iter().flatten().collect();
        self.page.charts(&charts);
        let heads = [
            "server",
            "model",
            "records",
            "raw MB",
            "used MB",
            "÷ raw",
            "resident MB",
            "÷ raw",
            "file MB",
            "÷ raw",
        ]
        .map(str::to_owned);
        let row = |(cell, figures): (&Cell, &Figures)| {
            let raw = cell.raw_bytes();
            let pair = |bytes: u64| [megabytes(bytes), format!("{:.2}", bytes as f64 / raw as f64)];
            let mut row = vec![cell.product().name().to_owned(), cell.model_name()];
            row.extend([thousands(cell.records as f64), megabytes(raw)]);
            row.extend(pair(figures.used_bytes));
            row.extend(pair(figures.resident_bytes));
            row.extend(pair((file(figures) * 1e6) as u64));
            row
        };
        let rows: Vec<_> =
            self.part(Part::Recovery).into_iter().filter(|(cell, _)| not_shortened(cell)).map(row).collect();
        self.page.table("sizes-table", &heads, &rows);
    }

    /// Figures 12 to 15.
    fn start_traces(&mut self) {
        let title = "Figures 12 to 15: what a start uses, whole and by core";
        if !self.begin(Part::Recovery, "start-traces", title) {
            return;
        }
        self.page.paragraph(
            "At the largest size. Left: processor time of the machine, of all cores together; right: of each \
             core, in programs and in the kernel. The laboratory, which asks every 2 ms whether the server \
             is ready, is among it. A start that is over before it was looked at twice has no trace.",
        );
        let none: [Usage; 0] = [];
        self.page.html(&legend(&traces(&none, &CPU)));
        let cells = self.part(Part::Recovery);
        let cores = cells.iter().flat_map(|(_, own)| &own.usage).map(|usage| usage.cores.len()).max();
        let core_look = |core: usize| looks::CORES[core % looks::CORES.len()];
        let shown: Vec<_> = (0..cores.unwrap_or_default())
            .map(|core| Series::new(format!("core {core}"), core_look(core), Vec::new()))
            .collect();
        self.page.html(&legend(&shown));
        let largest = cells.iter().map(|(cell, _)| cell.records).max();
        let mut charts = Vec::new();
        for (cell, figures) in cells.into_iter().filter(|(cell, _)| Some(cell.records) == largest) {
            let name =
                format!("{}, {}, {} memory", cell.product().name(), cell.file_name(), cell.memory.name());
            let (whole, by_core) = if cell.memory == Memory::Short { ("12", "14") } else { ("13", "15") };
            let mut draw = |figure: &str, what: &str, y, series: &[Series]| {
                let caption = format!("{figure}: {name}, {what}");
                let words = Words { caption: &caption, x: "time [s]", y };
                charts.extend(times(words, series, &[], Some(100.0)).map(|svg| (caption.clone(), svg)));
            };
            if figures.usage.len() < 2 {
                continue;
            }
            draw(whole, "whole", "%", &traces(&figures.usage, &CPU));
            let cores = figures.usage[0].cores.len();
            let core = |number: usize| {
                let at = |usage: &Usage| {
                    usage.cores.get(number).map_or(f64::NAN, |core| f64::from(core.user + core.system))
                };
                let points =
                    figures.usage.iter().map(|usage| (f64::from(usage.ms) / 1e3, at(usage))).collect();
                Series::new(format!("core {number}"), core_look(number), points)
            };
            draw(by_core, "by core", "%", &(0..cores).map(core).collect::<Vec<_>>());
        }
        self.page.charts(&charts);
        self.usage_table(Part::Recovery, "start-usage-table");
    }
}
