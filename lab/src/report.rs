//! The output of an experiment: one JSON line a run, a readable table, and for each goal whether it was met.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use indicatif::HumanFloatCount;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{IoContext, LabError, Result};
use crate::interrupt;
use crate::machine::Machine;

/// The commit that the laboratory was built from.
pub const COMMIT: &str = env!("TARN_LAB_COMMIT");

/// The case of a line that has words only.
pub const NOTE: &str = "note";

/// The case of a line that names something that was left out.
pub const LEFT_OUT: &str = "left-out";

/// Bytes of a line of results at most: those with a trace of each tick have some megabytes.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Something that was planned and not measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut<C> {
    /// The cell; nothing for a server that is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<C>,
    /// Its words.
    pub what: String,
    /// The reason: if it did not fail, its kind, and perhaps details after a colon.
    pub why: String,
    /// True if it was tried and failed; false if this machine cannot do it.
    pub failed: bool,
}

impl<C> LeftOut<C> {
    /// The reason without details.
    pub fn kind(&self) -> &str {
        if self.failed { &self.why } else { self.why.split(':').next().unwrap_or(&self.why) }
    }
}

/// Kinds of reasons, each with the words of all that were left out for it, in the order of the first.
pub fn by_kind<C>(all: &[&LeftOut<C>]) -> Vec<(String, Vec<String>)> {
    let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
    for own in all {
        match kinds.iter_mut().find(|(kind, _)| kind == own.kind()) {
            Some((_, words)) => words.push(own.what.clone()),
            None => kinds.push((own.kind().to_owned(), vec![own.what.clone()])),
        }
    }
    kinds
}

/// One run, as its JSON line has it.
#[derive(Debug, Serialize)]
pub struct Run<'a> {
    /// The measured case, such as `get pipeline 16`.
    pub case: &'a str,
    /// The server, such as `tarn`.
    pub server: &'a str,
    /// Its version, as it reports it.
    pub version: &'a str,
    /// The number of the repeat, from 1.
    pub repeat: u32,
    /// The chosen parameters.
    pub parameters: Value,
    /// The measured figures. Names end in the unit.
    pub figures: Value,
}

#[derive(Serialize)]
struct Line<'a> {
    experiment: &'a str,
    #[serde(flatten)]
    run: Run<'a>,
    seed: u64,
    commit: &'a str,
    unix_ms: u64,
    machine: &'a Machine,
}

/// The direction of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The figure must be this or more.
    AtLeast(f64),
    /// The figure must be this or less.
    AtMost(f64),
}

impl Bound {
    /// True if a figure keeps the bound. One that is no number, such as a ratio to 0, does not.
    pub fn is_met(self, figure: f64) -> bool {
        figure.is_finite()
            && match self {
                Bound::AtLeast(bound) => figure >= bound,
                Bound::AtMost(bound) => figure <= bound,
            }
    }

    /// The bound itself.
    pub fn value(self) -> f64 {
        let (Bound::AtLeast(bound) | Bound::AtMost(bound)) = self;
        bound
    }

    /// The bound in words.
    pub fn text(self, unit: &str) -> String {
        match self {
            Bound::AtLeast(bound) => format!("≥ {bound}{unit}"),
            Bound::AtMost(bound) => format!("≤ {bound}{unit}"),
        }
    }
}

/// A figure that the design promises, and the measured figure.
#[derive(Debug, Clone, Serialize)]
pub struct Goal {
    /// The compared quantity, such as `GET pipeline 16, tarn / redis-server`.
    pub what: String,
    /// The measured figure.
    pub figure: f64,
    /// The unit after the figure, such as `x`.
    pub unit: String,
    /// The bound that it must keep.
    pub bound: Bound,
    /// A note for judging it, or nothing.
    pub note: String,
    /// The section of a report that shows it.
    #[serde(skip)]
    pub section: String,
    /// The promise that it judges, if it is one, and where Tarn makes it.
    #[serde(skip)]
    pub promise: String,
}

impl Goal {
    /// True if the figure keeps the bound.
    pub fn is_met(&self) -> bool {
        self.bound.is_met(self.figure)
    }

    /// The figure in words.
    pub fn text(&self) -> String {
        if self.figure.is_finite() { format!("{:.2}{}", self.figure, self.unit) } else { "–".to_owned() }
    }

    /// How far the figure is from its bound, as a factor.
    pub fn distance(&self) -> f64 {
        let ratio = self.figure / self.bound.value();
        // A figure that is not a number is far from nothing that could be said.
        if ratio > 0.0 && ratio.is_finite() { ratio.max(1.0 / ratio) } else { 0.0 }
    }
}

/// True for a packed file.
pub(crate) fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

/// The lines without a last one that a full disk or a kill has cut: it begins as all do, has no newline, and
/// cannot be read.
pub(crate) fn whole(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    let last = &text[end..];
    let is_line = last.starts_with(b"{\"") || last == b"{";
    let is_cut = is_line && serde_json::from_slice::<serde::de::IgnoredAny>(last).is_err();
    if is_cut { &text[..end] } else { text }
}

/// The first line of a file, with its newline if it has one. Of one that is longer than any of ours, the
/// first bytes: whose it is, is not known yet.
pub(crate) fn first_line(file: impl Read) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    BufReader::new(file).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    Ok(line)
}

/// True for the first line of a file of results: there is none, it is cut, or it names an experiment.
fn is_of_results(first: &[u8]) -> bool {
    let names = |line: Value| line["experiment"].is_string();
    let whole = whole(first);
    first.len() < LINE_BYTES_MAX as usize
        && (whole.is_empty() || serde_json::from_slice(whole).is_ok_and(names))
}

/// Where lines go.
enum Lines {
    /// To the end of a file, which is locked.
    File(File, PathBuf),
    Printed,
}

impl Lines {
    /// The end of a file, which is made, with its directory. A cut line there is taken away. A file of
    /// anything else stays as it is.
    fn of(path: &Path) -> Result<Lines> {
        if is_packed(path) {
            let path = path.display();
            return Err(LabError::Arguments(format!(
                "{path} is packed: results are measured into a file that is not, such as X.jsonl"
            )));
        }
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).at(parent)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path).at(path)?;
        if !file.metadata().at(path)?.is_file() {
            return Ok(Lines::File(file, path.to_owned()));
        }
        lock(&file, path)?;
        if !is_of_results(&first_line(File::open(path).at(path)?).at(path)?) {
            let why = format!("{} has no results: choose another file with --json", path.display());
            return Err(LabError::Arguments(why));
        }
        let text = std::fs::read(path).at(path)?;
        let whole = whole(&text);
        if whole.len() < text.len() {
            tell!("{}: its last line is cut, and is taken away", path.display());
            file.set_len(whole.len() as u64).at(path)?;
        } else if text.last().is_some_and(|last| *last != b'\n') {
            (&file).write_all(b"\n").at(path)?;
        }
        Ok(Lines::File(file, path.to_owned()))
    }

    /// Writes a line, or nothing of it.
    fn write(&mut self, line: &str) -> Result<()> {
        match self {
            Lines::File(file, path) => {
                let before = file.metadata().at(&*path)?.len();
                let written = file.write_all(line.as_bytes());
                if written.is_err() {
                    // A part that stays is found by the next reader.
                    let _ = file.set_len(before);
                }
                written.doing(|| format!("write a line to {}", path.display()))
            }
            Lines::Printed => match io::stdout().write_all(line.as_bytes()) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(LabError::NoReader),
                written => written.doing(|| "print a line".to_owned()),
            },
        }
    }
}

/// Locks a file or a directory against other runs for as long as it is open.
pub fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            let path = path.display();
            Err(LabError::Arguments(format!("{path} is in use: another run writes its results there")))
        }
        // A file system without locks has none.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Collects the output of an experiment.
pub struct Report {
    experiment: &'static str,
    seed: u64,
    machine: Machine,
    lines: Lines,
    written: Vec<Value>,
    goals: Vec<Goal>,
    /// The first left-out cell of each reason, and that.
    told: Vec<(String, String)>,
}

impl Report {
    /// A report of what is measured in `dir`. Its JSON lines are appended to a file, whose directory is made,
    /// and which no other run may write to meanwhile, or go to the standard output.
    pub fn new(experiment: &'static str, seed: u64, dir: &Path, json: Option<&Path>) -> Result<Report> {
        let lines = json.map_or(Ok(Lines::Printed), Lines::of)?;
        let machine = Machine::look(dir);
        let (written, goals, told) = Default::default();
        Ok(Report { experiment, seed, machine, lines, written, goals, told })
    }

    /// Writes the line of one run.
    pub fn run(&mut self, run: Run<'_>) -> Result<()> {
        let line = self.write(run)?;
        self.written.push(line);
        Ok(())
    }

    fn write(&mut self, run: Run<'_>) -> Result<Value> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = Line {
            experiment: self.experiment,
            run,
            seed: self.seed,
            commit: COMMIT,
            unix_ms: now.as_millis() as u64,
            machine: &self.machine,
        };
        let line = serde_json::to_value(&line).expect("a run is plain data");
        self.lines.write(&format!("{line}\n"))?;
        Ok(line)
    }

    /// The lines of runs that were written so far.
    pub fn written(&self) -> &[Value] {
        &self.written
    }

    /// Writes a line with a note for the reader of the results.
    pub fn note(&mut self, text: &str) -> Result<()> {
        self.remark(NOTE, serde_json::json!({ "text": text }))
    }

    /// Says what is left out, and writes a line of it.
    pub fn leave_out<C: Serialize>(&mut self, own: &LeftOut<C>) -> Result<()> {
        tell!("left out: {}", self.words(own));
        self.remark(LEFT_OUT, serde_json::to_value(own).expect("it is plain data"))
    }

    /// A left-out cell, and why; a long reason once.
    fn words<C>(&mut self, LeftOut { what, why, .. }: &LeftOut<C>) -> String {
        if let Some((first, _)) = self.told.iter().find(|(_, own)| own == why && own.contains('\n')) {
            return format!("{what}: as {first}");
        }
        self.told.push((what.clone(), why.clone()));
        format!("{what}: {why}")
    }

    /// Leaves out, with the reason, what a peer fails at or cannot do: it may not know all that is asked.
    /// Any other failure stays one. `what` is the case and the server, as a line of it would have them.
    pub fn forgive<T>(
        &mut self,
        is_peer: bool,
        what: impl FnOnce() -> String,
        outcome: Result<T>,
    ) -> Result<Option<T>> {
        self.forgive_all(is_peer, || vec![what()], outcome)
    }

    /// The same where several cases depend on it.
    pub fn forgive_all<T>(
        &mut self,
        is_peer: bool,
        all: impl FnOnce() -> Vec<String>,
        outcome: Result<T>,
    ) -> Result<Option<T>> {
        let error = match outcome {
            Err(error) if is_peer => error.of_cell(),
            outcome => return outcome.map(Some),
        };
        // Ctrl-C ends servers, too.
        interrupt::check()?;
        let LabError::LeftOut { why, failed } = error else { return Err(error) };
        for what in all() {
            self.leave_out(&LeftOut::<()> { cell: None, what, why: why.clone(), failed })?;
        }
        Ok(None)
    }

    /// Writes a line that is no run: it has no server and no parameters.
    fn remark(&mut self, case: &str, figures: Value) -> Result<()> {
        let run = Run { case, server: "", version: "", repeat: 0, parameters: Value::Null, figures };
        self.write(run).map(|_| ())
    }

    /// Notes a goal.
    pub fn goal(&mut self, goal: Goal) {
        self.goals.push(goal);
    }

    /// Prints the goals, and returns how many were not met.
    pub fn finish(mut self) -> Result<usize> {
        if self.goals.is_empty() {
            return Ok(0);
        }
        let mut table = table(&["goal", "figure", "bound", "met", "note"]);
        for goal in &self.goals {
            let met = if goal.is_met() { "yes" } else { "NO" };
            table.add_row(vec![
                Cell::new(&goal.what),
                number_cell(goal.text()),
                number_cell(goal.bound.text(&goal.unit)),
                Cell::new(met),
                Cell::new(&goal.note),
            ]);
        }
        show!("{table}");
        let goals = std::mem::take(&mut self.goals);
        let missed = goals.iter().filter(|goal| !goal.is_met()).count();
        for goal in goals {
            let mut figures = serde_json::to_value(&goal).expect("a goal is plain data");
            figures["met"] = goal.is_met().into();
            self.remark("goal", figures)?;
        }
        Ok(missed)
    }
}

/// An empty table with the laboratory's looks.
pub fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(heads);
    if table.width().is_none() {
        table.set_content_arrangement(ContentArrangement::Disabled);
    }
    table
}

/// A cell whose text is aligned right.
pub fn number_cell(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// A number with its thousands apart, such as `1 234 567`.
pub fn thousands(number: f64) -> String {
    format!("{:.0}", HumanFloatCount(number)).replace(',', " ")
}

/// A number as axes and tables show it: three digits that count.
pub fn short(value: f64) -> String {
    let trimmed = |text: String| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    match value.abs() {
        _ if !value.is_finite() => "–".to_owned(),
        size if size >= 1e10 => format!("{:.0}G", value / 1e9),
        size if size >= 1e7 => format!("{:.0}M", value / 1e6),
        size if size >= 1e6 => format!("{:.2}M", value / 1e6),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => trimmed(format!("{value:.1}")),
        size if size >= 0.1 => trimmed(format!("{value:.2}")),
        0.0 => "0".to_owned(),
        _ => trimmed(format!("{value:.4}")),
    }
}

/// The median of some figures, of an even number the mean of the two in the middle; `NaN` if there are none.
pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => figures[middle],
        _ => f64::midpoint(figures[middle - 1], figures[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!((median([3.0, 1.0, 2.0]), median([4.0, 1.0])), (2.0, 2.5));
        assert!(median([]).is_nan());
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(thousands(1_234_567.2), "1 234 567");
        assert_eq!(thousands(999.0), "999");
        assert_eq!(thousands(-123_456.0), "-123 456");
    }

    #[test]
    fn a_goal_that_was_not_measured_is_not_met() {
        assert!(Bound::AtLeast(1.1).is_met(1.1) && !Bound::AtLeast(1.1).is_met(1.09));
        assert!(!Bound::AtMost(1.0).is_met(f64::NAN) && !Bound::AtLeast(1.0).is_met(f64::NAN));
        assert!(!Bound::AtLeast(1.0).is_met(f64::INFINITY));
    }

    #[test]
    fn reasons_are_counted_by_their_kind() {
        let of = |what: &str, why: &str, failed| LeftOut::<()> {
            cell: None,
            what: what.to_owned(),
            why: why.to_owned(),
            failed,
        };
        let all =
            [of("a", "no room: 3 MB", false), of("b", "it said: no", true), of("c", "no room: 4", false)];
        let kinds = by_kind(&all.iter().collect::<Vec<_>>());
        let expected = [("no room", vec!["a", "c"]), ("it said: no", vec!["b"])];
        assert_eq!(kinds.len(), 2);
        for ((kind, words), (own, all)) in kinds.iter().zip(expected) {
            assert_eq!((kind.as_str(), words), (own, &all.into_iter().map(str::to_owned).collect()));
        }
    }

    #[test]
    fn packed_results_are_not_written_into() {
        let dir = tempfile::tempdir().expect("there is room");
        let path = dir.path().join("new.jsonl.zst");
        let refused = Report::new("machine", 1, dir.path(), Some(&path)).err().expect("it is refused");
        assert!(refused.to_string().contains("is packed"), "{refused}");
        assert!(!path.exists());
    }

    fn line(report: &mut Report, case: &str) -> Result<()> {
        report.run(Run {
            case,
            server: "",
            version: "",
            repeat: 1,
            parameters: serde_json::json!({}),
            figures: Value::Null,
        })
    }

    #[test]
    fn a_full_disk_is_named_and_a_file_with_a_cut_line_is_continued() {
        let dir = tempfile::tempdir().expect("there is room");
        let full = Path::new("/dev/full");
        let mut report = Report::new("machine", 1, dir.path(), Some(full)).expect("it can be opened");
        let error = line(&mut report, "a").expect_err("nothing fits").to_string();
        assert!(error.starts_with("write a line to /dev/full: "), "{error}");
        let path = dir.path().join("machine.jsonl");
        // One file ends within a line, another before its newline.
        let first = "{\"experiment\":\"machine\",\"case\":\"a\"}";
        for (rest, count) in [("\n{\"case\":\"b\",\"se", 2), ("", 2)] {
            std::fs::write(&path, first.to_owned() + rest).expect("there is room");
            let mut report = Report::new("machine", 1, dir.path(), Some(&path)).expect("it is continued");
            line(&mut report, "c").expect("there is room");
            let text = std::fs::read_to_string(&path).expect("it is there");
            let cases = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("it is whole"));
            let cases: Vec<_> = cases.map(|line| line["case"].clone()).collect();
            assert_eq!((cases.len(), &cases[0], &cases[1]), (count, &"a".into(), &"c".into()));
        }
    }

    #[test]
    fn a_file_of_anything_else_stays_as_it_is() {
        let dir = tempfile::tempdir().expect("there is room");
        let path = dir.path().join("notes.html");
        for text in ["one\ntwo", "{\n  \"a\": 1\n}", "{\"a\":1}\n{\"b", "[1]\n", "{% one %}"] {
            std::fs::write(&path, text).expect("there is room");
            let refused = Report::new("machine", 1, dir.path(), Some(&path)).err().expect("it is refused");
            let words = "notes.html has no results: choose another file with --json";
            assert!(refused.to_string().ends_with(words), "{refused}");
            assert_eq!(std::fs::read_to_string(&path).expect("it is there"), text);
        }
        // A file whose only line is cut.
        std::fs::write(&path, "{\"experi").expect("there is room");
        let report = Report::new("machine", 1, dir.path(), Some(&path));
        assert!(report.is_ok() && std::fs::read(&path).is_ok_and(|text| text.is_empty()));
    }

    #[test]
    fn of_a_file_of_anything_else_no_more_than_a_line_is_read() {
        let dir = tempfile::tempdir().expect("there is room");
        let path = dir.path().join("image");
        // More than there is memory, with a first line and without one.
        for text in ["one\n", "{\"experi", ""] {
            std::fs::write(&path, text).expect("there is room");
            let file = OpenOptions::new().append(true).open(&path).expect("it is there");
            file.set_len(1 << 43).expect("it takes no room");
            let refused = Report::new("machine", 1, dir.path(), Some(&path)).err().expect("it is refused");
            assert!(refused.to_string().contains("image has no results"), "{refused}");
            assert!(file.metadata().is_ok_and(|own| own.len() == 1 << 43));
        }
    }

    #[test]
    fn a_reason_of_many_lines_is_said_once() {
        let dir = tempfile::tempdir().expect("there is room");
        let path = dir.path().join("machine.jsonl");
        let mut report = Report::new("machine", 1, dir.path(), Some(&path)).expect("there is room");
        let mut words = |what: &str, why: &str| {
            let (what, why) = (what.to_owned(), why.to_owned());
            report.words(&LeftOut::<()> { cell: None, what, why, failed: true })
        };
        assert_eq!(words("a", "it ended:\n  no"), "a: it ended:\n  no");
        assert_eq!(words("b", "it ended:\n  yes"), "b: it ended:\n  yes");
        assert_eq!(words("c", "it ended:\n  no"), "c: as a");
        assert_eq!(
            (words("d", "no room"), words("e", "no room")),
            ("d: no room".into(), "e: no room".into())
        );
    }

    #[test]
    fn a_peer_is_forgiven_and_ours_is_not() {
        let dir = tempfile::tempdir().expect("there is room");
        let path = dir.path().join("machine.jsonl");
        let mut report = Report::new("machine", 1, dir.path(), Some(&path)).expect("there is room");
        let failed = || Err::<u32, _>(LabError::Reply("no ZRANK".to_owned()));
        let mut forgive = |is_peer, outcome| report.forgive(is_peer, || "ZRANK, b".to_owned(), outcome);
        assert_eq!(forgive(true, Ok(3)).ok(), Some(Some(3)));
        assert_eq!(forgive(true, failed()).ok(), Some(None));
        assert!(matches!(forgive(false, failed()), Err(LabError::Reply(_))));
        assert!(matches!(forgive(true, Err(LabError::NoReader)), Err(LabError::NoReader)));
        let text = std::fs::read_to_string(&path).expect("it is there");
        let line: Value = serde_json::from_str(&text).expect("it is one line");
        assert_eq!(line["case"], LEFT_OUT);
        let out =
            serde_json::json!({ "what": "ZRANK, b", "why": "unexpected reply: no ZRANK", "failed": true });
        assert_eq!(line["figures"], out);
    }

    #[test]
    fn two_runs_do_not_write_to_one_file() {
        let dir = tempfile::tempdir().expect("there is room");
        let path = dir.path().join("machine.jsonl");
        let new = || Report::new("machine", 1, dir.path(), Some(&path));
        let first = new().expect("it is free");
        let refused = new().err().expect("it is refused").to_string();
        assert!(
            refused.ends_with("machine.jsonl is in use: another run writes its results there"),
            "{refused}"
        );
        drop(first);
        assert!(new().is_ok());
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 0.0044, 0.25, 3.0, 12.34, 250.0, 16_000.0, 3_456_789.0, 23_456_789.0, f64::NAN];
        let texts = all.map(short);
        assert_eq!(texts, ["0", "0.0044", "0.25", "3", "12.3", "250", "16000", "3.46M", "23M", "–"]);
    }
}
