//! The contract of experiments, and the one way to run them and to draw their reports.
//!
//! ```text
//!   plan ─► cells ─► prepare ─► measure, each cell ─► a line of JSON each ─► rows ─► targets, tables, page
//!             ▲                                              │
//!             └─────────── those that are there already ─────┘
//! ```

use std::fmt::{self, Display};
use std::path::Path;

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::series;
use crate::error::{LabError, Result};
use crate::interrupt;
use crate::page::{self, Facts, Judged, List, Page, Remark, Row, Rows};
use crate::process;
use crate::report::{LeftOut, Report, Run, by_kind, thousands};
use crate::results::{Line, Results};

/// Memory that is left to all others.
pub const SPARE_BYTES: u64 = 1 << 30;

/// The results that are wanted: those of a scale.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Those of `--quick`.
    pub quick: bool,
    /// Those of `--full`.
    pub full: bool,
}

/// The parameters of one measurement.
pub trait Cell: Display + Clone + PartialEq + Serialize + DeserializeOwned {
    /// Memory that it needs at most, on the safe side.
    fn need_bytes(&self) -> u64 {
        0
    }

    /// True if it was measured with `--quick`.
    fn is_quick(&self) -> bool {
        false
    }

    /// True if it measures a peer, which may not know all that is asked of it: the cell is left out then.
    fn is_of_peer(&self) -> bool {
        false
    }
}

/// A cell whose name says all.
impl Cell for String {}

/// The figures of a cell, and of which server.
#[derive(Debug)]
pub struct Measured<F> {
    /// The server, such as `tarn`.
    pub server: String,
    /// Its version, as it reports it.
    pub version: String,
    /// The figures.
    pub figures: F,
}

impl<F> Measured<F> {
    /// Figures of the code in this process.
    pub fn here(server: &str, figures: F) -> Measured<F> {
        Measured { server: server.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned(), figures }
    }
}

/// The measurements of an experiment.
pub type ResultsOf<E> = Results<<E as Experiment>::Cell, <E as Experiment>::Figures>;

/// One of them.
pub type LineOf<E> = Line<<E as Experiment>::Cell, <E as Experiment>::Figures>;

/// An experiment.
pub trait Experiment {
    /// Its name in lines, and on the command line.
    const NAME: &'static str;
    /// Its question, for `tarn-lab list`.
    const QUESTION: &'static str;
    /// Its list of figures, tables and targets in TOML.
    const FIGURES: &'static str;
    /// True if a run continues its file of results, a line for each cell. False if `measure` writes lines of
    /// its own, one for each repeat, and shows its own progress.
    const CONTINUES: bool = true;
    /// The heads of its time series, comma-separated; nothing if it has none.
    const SERIES: &'static str = "";
    /// True if it measures any servers that it is given, not variants of its own.
    const HAS_PEERS: bool = !Self::CONTINUES;
    /// False if it starts no server, and so has no options about servers.
    const HAS_SERVERS: bool = true;
    /// The parameters of one measurement.
    type Cell: Cell;
    /// The results of a cell.
    type Figures: Serialize + DeserializeOwned;

    /// The cells that are asked for, in the order in which they are measured.
    fn plan(&mut self) -> Result<Vec<Self::Cell>>;

    /// True if one of the cells that are asked for is measured on a server.
    fn starts_servers(&self) -> bool {
        Self::HAS_SERVERS
    }

    /// True if figures lack something that was not there when they were measured, and is now.
    fn lacks(&self, _cell: &Self::Cell, _figures: &Self::Figures) -> bool {
        false
    }

    /// Gets ready for those that are left to measure. May leave out some, with a word, or change their order.
    fn prepare(&mut self, _todo: &mut Vec<Self::Cell>, _report: &mut Report) -> Result<()> {
        Ok(())
    }

    /// Gives back what the cell does not need. Returns the memory that it needs besides what it still has.
    fn make_room(&mut self, cell: &Self::Cell) -> Result<u64> {
        Ok(cell.need_bytes())
    }

    /// Measures a cell. `None` if it has written its own lines.
    fn measure(&mut self, cell: &Self::Cell, report: &mut Report) -> Result<Option<Measured<Self::Figures>>>;

    /// The time series of a cell, as lines of comma-separated values.
    fn series(_cell: &Self::Cell, _figures: &Self::Figures) -> Vec<String> {
        Vec::new()
    }

    /// The measurements as rows. Expressions in the list of figures are about these.
    fn rows(results: &ResultsOf<Self>, wanted: Wanted) -> Vec<Row> {
        let cells = results.of(|cell| cell.is_quick() == wanted.quick);
        cells.into_iter().flat_map(|(cell, figures)| Self::rows_of(cell, figures)).collect()
    }

    /// The rows that the end of a run prints and judges.
    fn rows_of_run(&self, results: &ResultsOf<Self>, wanted: Wanted) -> Vec<Row> {
        Self::rows(results, wanted)
    }

    /// The rows of a cell: one with all of its parameters and figures.
    fn rows_of(cell: &Self::Cell, figures: &Self::Figures) -> Vec<Row> {
        vec![row(cell, figures)]
    }

    /// Facts about the measurements, for the report.
    fn facts(_results: &ResultsOf<Self>, _lines: &[&LineOf<Self>], _wanted: Wanted) -> Facts {
        Vec::new()
    }

    /// Sentences on parts, and one for the verdict.
    fn remarks(_results: &ResultsOf<Self>, _wanted: Wanted) -> (Vec<Remark>, String) {
        Default::default()
    }

    /// The number of cells in which something was wrong.
    fn broken(_results: &ResultsOf<Self>, _wanted: Wanted) -> usize {
        0
    }

    /// The rows of lines of its own.
    fn rows_of_lines(lines: &[Value]) -> Vec<Row> {
        page::merged(lines)
    }

    /// The number of cells of a run with lines of its own in which something was wrong.
    fn broken_of_run(&self) -> usize {
        0
    }

    /// Ends a run: prints tables and returns in how many cells something was wrong.
    fn conclude(&mut self, path: Option<&Path>, wanted: Wanted, report: &mut Report) -> Result<usize> {
        let list = List::parse(Self::FIGURES);
        let (all, broken) = match path.filter(|_| Self::CONTINUES) {
            Some(path) => {
                let results = ResultsOf::<Self>::read(path, Self::NAME)?;
                (self.rows_of_run(&results, wanted), Self::broken(&results, wanted))
            }
            None => (Self::rows_of_lines(report.written()), self.broken_of_run()),
        };
        let rows = list.rows(all);
        page::print(&list, &rows);
        page::judge(&list, &rows).into_iter().for_each(|goal| report.goal(goal));
        Ok(broken)
    }
}

/// The largest store of records of 1 KB, beside the largest of a paper.
pub fn scale_fact(records: impl Iterator<Item = u64>, whose: &str, most: f64) -> (&'static str, String) {
    let own = records.max().unwrap_or_default() as f64;
    let (records, share) = (thousands(own), own / most);
    ("scale", format!("up to {records} records of 1 KB; the {whose} {} M by {share:.4}", most / 1e6))
}

/// The row of a cell, with its words as `cell`, and without those of its part as `name`.
pub fn row(cell: &impl Cell, figures: &impl Serialize) -> Row {
    let text = cell.to_string();
    let name = text.split_once(": ").map_or(&*text, |(_, rest)| rest);
    page::with(page::row(cell, figures), json!({ "name": name, "cell": text }))
}

fn rows_and_list<E: Experiment + ?Sized>(results: &ResultsOf<E>, wanted: Wanted) -> (List, Rows) {
    let list = List::parse(E::FIGURES);
    let mut rows = list.rows(E::rows(results, wanted));
    let is_own = |own: &&LeftOut<E::Cell>| {
        own.cell.as_ref().is_none_or(|cell| cell.is_quick() == wanted.quick || rows.all.is_empty())
    };
    rows.left_out = left_out(results.left_out.iter().filter(is_own));
    (list, rows)
}

/// Everything that was left out, each cell as a row that has its parameters alone.
fn left_out<'c, C: Serialize + 'c>(all: impl Iterator<Item = &'c LeftOut<C>>) -> Vec<LeftOut<Row>> {
    let of = |own: &LeftOut<C>| {
        let LeftOut { cell, what, why, failed } = own;
        let cell = cell.as_ref().map(|cell| page::row(cell, &json!({})));
        LeftOut { cell, what: what.clone(), why: why.clone(), failed: *failed }
    };
    all.map(of).collect()
}

/// Facts that name everything that was left out.
fn left_out_facts(rows: &Rows) -> Facts {
    let kinds = by_kind(&rows.left_out.iter().collect::<Vec<_>>());
    let text = |(kind, words): (String, Vec<String>)| {
        ("left out", format!("{}, {kind}: {}", page::cells(words.len()), words.join("; ")))
    };
    kinds.into_iter().map(text).collect()
}

/// Takes cells from those that are to be measured, and says why.
pub fn leave_out<C: Cell>(
    todo: &mut Vec<C>,
    is_out: impl Fn(&C) -> bool,
    why: &str,
    report: &mut Report,
) -> Result<()> {
    for cell in todo.extract_if(.., |cell| is_out(cell)) {
        let (what, why) = (cell.to_string(), why.to_owned());
        report.leave_out(&LeftOut { cell: Some(cell), what, why, failed: false })?;
    }
    Ok(())
}

/// Runs an experiment: measures the cells that are not in the file of results, or with `again` all, and
/// judges all. A cell for which memory does not suffice, whose server ended by itself ([`LabError::Ended`]),
/// or that says so itself ([`LabError::LeftOut`]) is left out, with a line that has the reason. So is any
/// cell of a peer that fails. Returns in how many cells something was wrong.
pub fn run<E: Experiment>(
    experiment: &mut E,
    path: Option<&Path>,
    wanted: Wanted,
    again: bool,
    report: &mut Report,
) -> Result<usize> {
    let results =
        path.filter(|_| E::CONTINUES).map(|path| ResultsOf::<E>::read(path, E::NAME)).transpose()?;
    if let Some(path) = path.filter(|_| E::CONTINUES && !E::SERIES.is_empty()) {
        series::check(path, E::SERIES)?;
    }
    let mut todo: Vec<E::Cell> = Vec::new();
    for cell in experiment.plan()? {
        let figures = results.as_ref().and_then(|results| results.find(&cell));
        let is_there = figures.is_some_and(|figures| !experiment.lacks(&cell, figures));
        if !todo.contains(&cell) && (again || !is_there) {
            todo.push(cell);
        }
    }
    drop(results);
    experiment.prepare(&mut todo, report)?;
    match measure_all(experiment, &todo, path, report) {
        // That something was wrong counts even if nobody reads the rest.
        Err(LabError::NoReader) if experiment.broken_of_run() > 0 => Ok(experiment.broken_of_run()),
        Err(error) => Err(error),
        Ok(()) => experiment.conclude(path, wanted, report),
    }
}

/// Measures cells.
fn measure_all<E: Experiment>(
    experiment: &mut E,
    todo: &[E::Cell],
    path: Option<&Path>,
    report: &mut Report,
) -> Result<()> {
    let bar = bar::<E>(todo.len());
    for cell in todo {
        interrupt::check()?;
        bar.set_message(cell.to_string());
        let (need, available) = (experiment.make_room(cell)?, process::available_bytes()?);
        let out = |why, failed| LeftOut { cell: Some(cell.clone()), what: cell.to_string(), why, failed };
        if need > 0 && need + SPARE_BYTES > available {
            let (need, available) = ((need + SPARE_BYTES) >> 20, available >> 20);
            let why = format!("not enough memory: it needs {need} MB, and {available} are available");
            bar.suspend(|| report.leave_out(&out(why, false)))?;
        } else {
            let measured = experiment.measure(cell, report);
            if measured.is_err() {
                // Ctrl-C ends servers, too.
                interrupt::check()?;
            }
            match measured {
                Err(LabError::LeftOut { why, failed }) => {
                    bar.suspend(|| report.leave_out(&out(why, failed)))?;
                }
                Err(error) if matches!(error, LabError::Ended { .. }) || cell.is_of_peer() => {
                    bar.suspend(|| report.leave_out(&out(error.to_string(), true)))?;
                }
                Err(error) => return Err(error.in_cell(cell)),
                Ok(measured) => tell::<E>(path, cell, measured, report)?,
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// A progress bar over the cells. It is hidden if there are none, or if they show their own progress.
fn bar<E: Experiment>(cells: usize) -> ProgressBar {
    if cells == 0 || E::CONTINUES {
        let why = match cells {
            0 => ": the results have all that is asked for (--again measures it again), or it does not exist",
            _ => "",
        };
        tell!("{} to measure{why}", page::cells(cells));
    }
    if cells == 0 || !E::CONTINUES {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}, {left} left: {msg}");
    // Some cells take many times longer than others, so all that are done tell more than the newest.
    let left = |state: &ProgressState, out: &mut dyn fmt::Write| {
        let (done, all) = (state.pos(), state.len().unwrap_or_default());
        let each = state.elapsed().checked_div(done.try_into().unwrap_or(u32::MAX));
        // What cannot be written is not shown.
        let _ = match each.map(|each| HumanDuration(each * (all - done) as u32)) {
            Some(left) => write!(out, "{left:#}"),
            None => write!(out, "?"),
        };
    };
    let style = style.expect("the template is well-formed").with_key("left", left);
    ProgressBar::new(cells as u64).with_style(style)
}

/// Writes the line of a cell, and its time series.
fn tell<E: Experiment>(
    path: Option<&Path>,
    cell: &E::Cell,
    measured: Option<Measured<E::Figures>>,
    report: &mut Report,
) -> Result<()> {
    let Some(Measured { server, version, figures }) = measured else { return Ok(()) };
    if let Some(path) = path.filter(|_| !E::SERIES.is_empty()) {
        series::append(path, E::SERIES, &E::series(cell, &figures))?;
    }
    let (case, parameters, figures) = (&cell.to_string(), json!(cell), json!(figures));
    report.run(Run { case, server: &server, version: &version, repeat: 1, parameters, figures })
}

/// Draws the report of a file of results. Without a wish, the newest result decides on the scale.
pub fn draw<E: Experiment>(json: &Path, out: &Path, wanted: Wanted) -> Result<()> {
    if !E::CONTINUES {
        return draw_lines::<E>(json, out);
    }
    let results = ResultsOf::<E>::read_some(json, E::NAME)?;
    if E::rows(&results, of_newest(&results, wanted)).is_empty() {
        let other = of_newest(&results, Wanted::default());
        let why = match (wanted.full, other.quick) {
            (true, true) => "has measurements of --quick only",
            _ => "has no measurements at this scale",
        };
        return Err(LabError::Arguments(format!("{} {why}", json.display())));
    }
    page::write(out, &html::<E>(&results, wanted))
}

/// The same of an experiment that writes lines of its own.
fn draw_lines<E: Experiment>(json: &Path, out: &Path) -> Result<()> {
    let mut results = Results::<Value, Value>::read_some(json, E::NAME)?;
    // Targets and notes have no parameters.
    results.lines.retain(|line| !line.cell.is_null());
    page::write(out, &html_of_lines::<E>(&results).2)
}

/// The list, the rows and the page of lines.
fn html_of_lines<E: Experiment>(results: &Results<Value, Value>) -> (List, Rows, String) {
    let lines: Vec<Value> = results.lines.iter().map(Line::value).collect();
    let list = List::parse(E::FIGURES);
    let mut rows = list.rows(E::rows_of_lines(&lines));
    rows.left_out = left_out(results.left_out.iter());
    let html = page_of_lines(E::NAME, &list, &rows, results);
    (list, rows, html)
}

/// The page of lines.
pub(crate) fn page_of_lines(
    experiment: &str,
    list: &List,
    rows: &Rows,
    results: &Results<Value, Value>,
) -> String {
    let mut facts = results.facts(&results.lines.iter().collect::<Vec<_>>());
    facts.extend(left_out_facts(rows));
    let verdict = format!("{} measurements, {} different ones.", results.lines.len(), rows.all.len());
    Page { experiment, list, rows, facts, remarks: Vec::new(), verdict }.html()
}

/// The scale that is wanted, or that of the newest result. What is quick is never shown as full.
fn of_newest<C: Cell, F>(results: &Results<C, F>, wanted: Wanted) -> Wanted {
    let newest = results.lines.last().is_some_and(|newest| newest.cell.is_quick());
    Wanted { quick: wanted.quick || (newest && !wanted.full), ..wanted }
}

/// The statements of the papers and the targets of the design, each with whether it holds for the newest
/// results of a file, as a part of a page in Markdown.
pub fn claims<E: Experiment>(json: &Path) -> Result<String> {
    let (list, (rows, remarks), facts) = newest::<E>(json)?;
    Ok(page::claims(&list, &rows, &facts, &remarks))
}

/// The differences between the newest results of two files, as a part of a page in Markdown.
pub fn noise<E: Experiment>(first: &Path, second: &Path) -> Result<String> {
    let ((list, first, _), (_, second, _)) = (newest::<E>(first)?, newest::<E>(second)?);
    Ok(page::noise(&list, [&first, &second]))
}

/// The list, the newest results of a file with what is said of their parts, and facts.
fn newest<E: Experiment>(json: &Path) -> Result<(List, Judged, Facts)> {
    if !E::CONTINUES {
        let mut results = Results::<Value, Value>::read_some(json, E::NAME)?;
        results.lines.retain(|line| !line.cell.is_null());
        let (list, rows, _) = html_of_lines::<E>(&results);
        let facts = results.facts(&results.lines.iter().collect::<Vec<_>>());
        return Ok((list, (rows, Vec::new()), facts));
    }
    let results = ResultsOf::<E>::read_some(json, E::NAME)?;
    let wanted = of_newest(&results, Wanted::default());
    let (list, rows) = rows_and_list::<E>(&results, wanted);
    let lines: Vec<_> = results.lines.iter().collect();
    let mut facts = results.facts(&lines);
    facts.extend(E::facts(&results, &lines, wanted));
    Ok((list, (rows, E::remarks(&results, wanted).0), facts))
}

/// The page of some results.
pub fn html<E: Experiment>(results: &ResultsOf<E>, wanted: Wanted) -> String {
    let wanted = of_newest(results, wanted);
    let is_own = |line: &&LineOf<E>| line.cell.is_quick() == wanted.quick;
    let mut lines: Vec<_> = results.lines.iter().filter(is_own).collect();
    if lines.is_empty() {
        // Cells that do not say so themselves.
        lines = results.lines.iter().collect();
    }
    let (list, rows) = rows_and_list::<E>(results, wanted);
    let mut facts = results.facts(&lines);
    facts.extend(E::facts(results, &lines, wanted));
    facts.extend(left_out_facts(&rows));
    let mut missing = list.variants.clone();
    missing.retain(|name| !rows.all.iter().any(|row| row.get(&list.pair).is_some_and(|own| own == name)));
    if !missing.is_empty() {
        facts.push(("not measured", missing.join(", ")));
    }
    let (remarks, mut verdict) = E::remarks(results, wanted);
    if wanted.quick {
        verdict += "Everything was small and short (--quick): the figures mean little.";
    }
    Page { experiment: E::NAME, list: &list, rows: &rows, facts, remarks, verdict }.html()
}

#[cfg(test)]
pub mod check {
    //! Checks of reports, for the tests of experiments.
    #![expect(clippy::unwrap_used, reason = "for tests")]

    use super::*;
    use crate::report::Goal;

    /// Whether the targets are met whose words begin with `what`.
    pub fn judged<E: Experiment>(results: &ResultsOf<E>, wanted: Wanted, what: &str) -> Vec<bool> {
        let (list, rows) = rows_and_list::<E>(results, wanted);
        let goals = page::judge(&list, &rows);
        goals.iter().filter(|goal| goal.what.starts_with(what)).map(Goal::is_met).collect()
    }

    /// The page of some results, without the libraries at its end: every element that is opened is closed, in
    /// order; nothing of the machine's is taken for HTML, no number is missing in words, nothing comes from
    /// elsewhere, and each link leads somewhere.
    pub fn page<E: Experiment>(results: &ResultsOf<E>, wanted: Wanted) -> String {
        well_formed(&html::<E>(results, wanted))
    }

    fn well_formed(page: &str) -> String {
        let own = page[..page.find("<script>").unwrap()].to_owned();
        let (head, body) = own.split_once("<style>").unwrap();
        let text = format!("{head}{}", &body.split_once("</style>").unwrap().1);
        let mut open: Vec<&str> = Vec::new();
        for (from, _) in text.match_indices('<') {
            let tag = &text[from + 1..from + text[from..].find('>').unwrap()];
            match (tag.strip_prefix('/'), tag.split(' ').next().unwrap()) {
                (Some(closed), _) => assert_eq!(open.pop(), Some(closed), "at {}", &text[from..]),
                (None, "!DOCTYPE" | "meta") => {}
                (None, name) => open.push(name),
            }
        }
        assert_eq!(open, ["html", "body"]);
        assert!(!["NaN", "src=", "http:", "https:"].iter().any(|word| own.contains(word)), "{own}");
        assert!(own.contains("A &lt;fast&gt; one") && own.contains("2000-02-29 00:00 UTC"), "{own}");
        for link in own.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(own.contains(&format!("id=\"{link}\"")), "{link}");
        }
        own
    }

    /// The charts of a page.
    pub fn charts(page: &str) -> Vec<Value> {
        let (_, data) = page.split_once("id=\"charts\">").unwrap();
        serde_json::from_str(data.split_once("</script").unwrap().0).unwrap()
    }

    /// Results from a text.
    pub fn read<C: DeserializeOwned + PartialEq, F: DeserializeOwned>(
        text: &str,
        name: &str,
    ) -> Results<C, F> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.jsonl");
        std::fs::write(&path, text).unwrap();
        Results::read_some(&path, name).unwrap()
    }

    /// Results that were written before there were lists: each figure of the list is drawn, each of its
    /// expressions is understood, and targets are judged as they were then.
    fn recorded<E: Experiment>(results: &str, wanted: Wanted, figures: &[&str]) {
        let (list, rows, page) = if E::CONTINUES {
            let mut read = read::<E::Cell, E::Figures>(results, E::NAME);
            let (list, rows) = rows_and_list::<E>(&read, wanted);
            let page = page::<E>(&read, wanted);
            read.lines.truncate(1);
            names_what_is_missing::<E>(&list, &read, wanted);
            (list, rows, page)
        } else {
            let mut read = read::<Value, Value>(results, E::NAME);
            read.lines.retain(|line| !line.cell.is_null());
            let (list, rows, page) = html_of_lines::<E>(&read);
            (list, rows, well_formed(&page))
        };
        let faults = page::faults(&list, &rows);
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        let charts = charts(&page);
        let captions: Vec<&str> = charts.iter().map(|chart| chart["caption"].as_str().unwrap()).collect();
        for figure in figures {
            assert!(captions.iter().any(|own| own.contains(figure)), "{figure}: {captions:?}");
        }
        for chart in &charts {
            let series = chart["series"].as_array().unwrap();
            let has_style = |own: &Value| {
                let is_variant = list.variants.iter().any(|name| own["name"] == **name);
                own["color"].is_string() || !is_variant
            };
            assert!(!series.is_empty() && series.iter().all(has_style), "{chart}");
        }
        let goals = page::judge(&list, &rows);
        let printed = page::printed_grid(&list, &rows).rows;
        let lines = results.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let (then, others): (Vec<Value>, Vec<Value>) = lines.partition(|line| line["case"] == "goal");
        let compared: Vec<_> = others.iter().filter(|line| line["case"] == "printed").collect();
        assert_eq!(compared.len(), printed.len());
        for (line, now) in compared.iter().zip(&printed) {
            let own = &line["figures"];
            let then = ["figure", "what", "printed", "measured"].map(|name| own[name].as_str().unwrap());
            assert_eq!(then, [&*now[0], &*now[1], &*now[2], &*now[3]]);
        }
        assert!(!then.is_empty() || list.targets.is_empty());
        for own in then.iter().map(|line| &line["figures"]) {
            let what = own["what"].as_str().unwrap();
            let Some(now) = goals.iter().find(|goal| goal.what == what) else {
                // A ratio to 0, which is not judged any more.
                assert!(own["figure"].is_null(), "{what}");
                continue;
            };
            // The report of then had two places.
            let is_near = |then: f64| (now.figure - then).abs() <= then.abs() * 1e-3 + 6e-3;
            let bound = now.bound.text(&now.unit);
            assert!(own["figure"].as_f64().is_none_or(is_near), "{own}: {now:?}");
            assert!(own["met"] == now.is_met() && own["bound"] == *bound, "{own}: {now:?}");
        }
        differs_in_nothing(&list, &(rows, Vec::new()));
    }

    /// Results are as themselves.
    fn differs_in_nothing(list: &List, judged: &Judged) {
        let text = page::noise(list, [judged, judged]);
        let mut lines = text.lines().filter(|line| line.starts_with("| ")).skip(2).peekable();
        assert!(lines.peek().is_some() && text.contains("Every verdict is the same"), "{text}");
        lines.for_each(|line| assert!(line.contains(" | 1.00x | 1.00x | 1.00x | "), "{line}"));
    }

    /// The page of a single measurement says which parts and variants are not there, and how to measure them.
    fn names_what_is_missing<E: Experiment>(list: &List, results: &ResultsOf<E>, wanted: Wanted) {
        let (page, (_, rows)) = (page::<E>(results, wanted), rows_and_list::<E>(results, wanted));
        for part in list.sections.iter().map(|section| &section.part) {
            let is_there = rows.all.iter().any(|row| row["part"] == **part);
            assert!(is_there || page.contains(&format!(" --only {part}")), "{part}");
        }
        let missing =
            list.variants.iter().filter(|name| rows.all.iter().all(|row| row[&list.pair] != ***name));
        let missing: Vec<_> = missing.map(String::as_str).collect();
        let said = format!("<dt>not measured</dt><dd>{}</dd>", missing.join(", "));
        assert!(missing.is_empty() || page.contains(&said), "{said}");
    }

    /// A test for each experiment, with figures that its report has.
    macro_rules! recorded {
        ($($name:ident: $experiment:ty, $quick:literal, $figures:expr;)+) => {
            $(#[test]
            fn $name() {
                let text = include_str!(concat!("../../tests/results/", stringify!($name), ".jsonl"));
                recorded::<$experiment>(text, Wanted { quick: $quick, full: false }, &$figures);
            })+
        };
    }

    mod results_of_before_are_drawn_and_judged_alike {
        use super::{Wanted, recorded};
        use crate::experiment as of;
        use crate::snapshots::Snapshots;

        recorded! {
            throughput: of::throughput::Throughput, false, ["without a log", "families, pipeline 16",
                "channels", "everysec", "always", "workers", "everysec: server µs/request"];
            memory: of::memory::RecordMemory, false, ["YCSB", "short strings"];
            recovery: of::recovery::Recovery, false, ["strings of 16 B", "hashes of 1 KB"];
            durability: of::durability::Durability, false, ["the longest time of a restart"];
            vtc: of::vtc::Vtc, true, ["vtc: throughput", "vtc: memory", "4.1a", "4.1b", "4.2a", "4.2b",
                "4.3a", "4.3b", "4.4", "4.5", "4.6", "4.7"];
            store: of::store::Store, true, ["longest during", "fork, 4 000", "Figure 13", "Figure 14",
                "Figure 15", "Figure 16", "Figure 17"];
            stalls: of::stalls::Stalls, true, ["longest wait", "p99.9", "the slowest 0.1 %, tarn"];
            persistence: of::persistence::Persistence, true, ["tarn, light", "3: ", "4: ", "5: ", "6: ",
                "7: ", "8: ", "9: ", "time of a start", "11a", "11b", "figure 12", "figure 14"];
            vls: of::vls::Vls, true, ["2 000 records", "updates: full scans", "p95: ", "p99.9: ",
                "Figure 11: remset: ", "M rows/s", "99 of 100"];
            workers: of::workers::Workers, true, ["processor time of a request", "requests a second"];
            machine: of::machine::MachineCosts, true, [];
            snapshots: Snapshots, true, ["NS", "a: mean", "b: mean", "c: mean", "d: mean", "e: max", "h: max",
                "i: ", "l: ", "taken phase"];
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Cells that fail, each in its way.
    struct Failing;

    impl Experiment for Failing {
        const NAME: &'static str = "failing";
        const QUESTION: &'static str = "";
        const FIGURES: &'static str = "pair = 'a'\nsame = ['a']";
        type Cell = String;
        type Figures = u64;

        fn plan(&mut self) -> Result<Vec<String>> {
            Ok(["refused", "failed", "fine", "fatal", "never"].map(str::to_owned).to_vec())
        }

        fn measure(&mut self, cell: &String, _: &mut Report) -> Result<Option<Measured<u64>>> {
            let failed = LabError::Reply("a full disk".to_owned());
            match &**cell {
                "refused" => Err(LabError::LeftOut { why: "no groups".to_owned(), failed: false }),
                "failed" => Err(failed.of_cell()),
                "fine" => Ok(Some(Measured::here("a", 7))),
                "fatal" => Err(failed),
                _ => panic!("{cell} comes after one that ends the experiment"),
            }
        }

        fn lacks(&self, _: &String, figures: &u64) -> bool {
            *figures == 5
        }
    }

    /// A cell that finds something wrong, and one whose line nobody reads.
    struct Broken {
        losses: usize,
        broken: usize,
    }

    impl Experiment for Broken {
        const NAME: &'static str = "broken";
        const QUESTION: &'static str = "";
        const FIGURES: &'static str = "pair = 'a'\nsame = ['a']";
        const CONTINUES: bool = false;
        type Cell = String;
        type Figures = ();

        fn plan(&mut self) -> Result<Vec<String>> {
            Ok(["lost", "unread", "never"].map(str::to_owned).to_vec())
        }

        fn measure(&mut self, cell: &String, _: &mut Report) -> Result<Option<Measured<()>>> {
            match &**cell {
                "lost" => self.broken += self.losses,
                "unread" => return Err(LabError::NoReader),
                _ => panic!("{cell} comes after the reader has gone"),
            }
            Ok(None)
        }

        fn broken_of_run(&self) -> usize {
            self.broken
        }
    }

    #[test]
    fn a_reader_that_goes_does_not_hide_that_something_was_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("broken.jsonl");
        let mut report = Report::new(Broken::NAME, 1, dir.path(), Some(&path)).unwrap();
        let mut of = |losses| {
            run(&mut Broken { losses, broken: 0 }, Some(&path), Wanted::default(), false, &mut report)
        };
        assert_eq!(of(1).ok(), Some(1));
        assert!(matches!(of(0), Err(LabError::NoReader)));
    }

    #[test]
    fn a_cut_last_line_is_left_out_and_another_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("failing.jsonl");
        let line = json!({
            "experiment": "failing", "parameters": "fine", "figures": 5, "commit": "c", "machine": {},
        });
        // Cut within a character.
        let cut = [format!("{line}\n{{\"case\":\"").as_bytes(), &[0xc3]].concat();
        std::fs::write(&path, cut).unwrap();
        let results = ResultsOf::<Failing>::read(&path, Failing::NAME).unwrap();
        assert_eq!((results.lines.len(), results.find(&"fine".to_owned())), (1, Some(&5)));
        std::fs::write(&path, format!("{{\"case\":\n{line}\n")).unwrap();
        let error = ResultsOf::<Failing>::read(&path, Failing::NAME).unwrap_err().to_string();
        assert!(error.contains("failing.jsonl, line 1: "), "{error}");
    }

    #[test]
    fn a_cell_that_lacks_something_is_measured_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("failing.jsonl");
        for (before, after) in [(5, 7), (6, 6)] {
            let line = json!({
                "experiment": "failing", "parameters": "fine", "figures": before, "commit": "c",
                "machine": {},
            });
            std::fs::write(&path, format!("{line}\n")).unwrap();
            let mut report = Report::new(Failing::NAME, 1, dir.path(), Some(&path)).unwrap();
            assert!(run(&mut Failing, Some(&path), Wanted::default(), false, &mut report).is_err());
            let results = ResultsOf::<Failing>::read(&path, Failing::NAME).unwrap();
            assert_eq!(results.find(&"fine".to_owned()), Some(&after));
        }
    }

    #[test]
    fn a_cell_that_says_so_is_left_out_with_its_reason_and_the_others_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("failing.jsonl");
        let mut report = Report::new(Failing::NAME, 1, dir.path(), Some(&path)).unwrap();
        let ended = run(&mut Failing, Some(&path), Wanted::default(), false, &mut report);
        assert_eq!(ended.unwrap_err().to_string(), "fatal: unexpected reply: a full disk");
        let results = ResultsOf::<Failing>::read(&path, Failing::NAME).unwrap();
        assert_eq!(results.find(&"fine".to_owned()), Some(&7));
        let left: Vec<_> = results.left_out.iter().map(|own| (&*own.what, &*own.why, own.failed)).collect();
        let failed = "unexpected reply: a full disk";
        assert_eq!(left, [("refused", "no groups", false), ("failed", failed, true)]);
        assert!(matches!(LabError::Interrupted.of_cell(), LabError::Interrupted));
    }
}
