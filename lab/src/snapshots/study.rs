//! Measures the cells of a plan that have not been measured yet, and judges them.

use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tempfile::TempDir;

use super::cell::{Algorithm, Cell, Figures, Place};
use super::goals;
use super::plan::{Figure, Point, Scale, points};
use super::results::{EXPERIMENT, Results};
use crate::error::{IoContext, LabError, Result};
use crate::interrupt;
use crate::process;
use crate::report::{Report, Run, number_cell, table};

/// The options of the study.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Options {
    /// A 256th of the paper's data: under three minutes, for a look and for the tests. The figures mean
    /// little.
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// The paper's data, up to 16 GB; by default a quarter of them.
    #[arg(long)]
    pub full: bool,
    /// Only these figures.
    #[arg(long, value_name = "FIGURE", value_delimiter = ',')]
    pub only: Vec<Figure>,
    /// Only these algorithms.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub algorithms: Vec<Algorithm>,
    /// Append results to this file; cells that it already has are not measured again.
    #[arg(long, value_name = "FILE", default_value = super::RESULTS)]
    pub json: PathBuf,
    /// Measure cells again that the file already has.
    #[arg(long)]
    pub again: bool,
    /// Write checkpoints under this directory; it should be on the disk that is to be measured.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The seed of the random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// End with exit code 2 if a goal was missed.
    #[arg(long)]
    pub strict: bool,
}

impl Options {
    /// The size and length of the run.
    pub fn scale(&self) -> Scale {
        match (self.quick, self.full) {
            (true, _) => Scale::Quick,
            (_, true) => Scale::Full,
            _ => Scale::Default,
        }
    }

    /// The cells that are asked for.
    fn points(&self) -> Vec<Point> {
        let figures = if self.only.is_empty() { Figure::ALL.to_vec() } else { self.only.clone() };
        let points = figures.iter().flat_map(|figure| points(*figure, self.scale(), self.seed));
        let wanted =
            |point: &Point| self.algorithms.is_empty() || self.algorithms.contains(&point.cell.algorithm);
        points.filter(wanted).collect()
    }
}

/// Runs the study. Returns how many goals were missed.
pub fn run(options: &Options) -> Result<usize> {
    let points = options.points();
    let cores = process::cores_allowed();
    let parent = options.dir.clone().unwrap_or_else(std::env::temp_dir);
    let dir = TempDir::with_prefix_in("tarn-snapshots-", &parent).doing(|| parent.display().to_string())?;
    let place =
        Place { dir: dir.path().to_owned(), client_core: cores[cores.len() - 1], snapshotter_core: cores[0] };
    if let Some(parent) = options.json.parent() {
        std::fs::create_dir_all(parent).doing(|| parent.display().to_string())?;
    }
    let mut results = Results::read(&options.json, EXPERIMENT)?;
    let mut report = Report::new(EXPERIMENT, options.seed, Some(&options.json))?;
    let mut todo: Vec<&Cell> = Vec::new();
    for Point { cell, .. } in &points {
        if !todo.contains(&cell) && (options.again || results.find(cell).is_none()) {
            todo.push(cell);
        }
    }
    eprintln!(
        "snapshots: {}; {} cells, {} to measure; client on core {}, snapshotter on {}; \
         checkpoints in {} ({}); results in {}",
        options.scale().name(),
        points.len(),
        todo.len(),
        place.client_core,
        place.snapshotter_core,
        place.dir.display(),
        crate::machine::file_system(&place.dir),
        options.json.display()
    );
    measure(&todo, &place, &mut report)?;
    results = Results::read(&options.json, EXPERIMENT)?;
    print_defaults(&results, options);
    goals::judge(&results, options.scale(), options.seed, &mut report);
    eprintln!("drawn by: tarn lab report --json {}", options.json.display());
    report.finish()
}

/// Measures cell after cell. Cells that do not fit into memory are reported and left out.
fn measure(todo: &[&Cell], place: &Place, report: &mut Report) -> Result<()> {
    let seconds = |cell: &Cell| cell.seconds().ceil() as u64;
    let bar = ProgressBar::new(todo.iter().map(|cell| seconds(cell)).sum());
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %, {eta} left: {msg}");
    bar.set_style(style.expect("the template is well-formed"));
    for cell in todo {
        interrupt::check()?;
        bar.set_message(cell.to_string());
        let available = process::available_bytes()?;
        if cell.need_bytes() > available {
            bar.suspend(|| {
                eprintln!(
                    "left out, as it needs {} MB of memory and {} are available: {cell}",
                    cell.need_bytes() >> 20,
                    available >> 20
                );
            });
        } else {
            let figures = cell.measure_apart(place)?;
            tell(report, cell, &figures)?;
        }
        bar.inc(seconds(cell));
    }
    bar.finish_and_clear();
    Ok(())
}

fn tell(report: &mut Report, cell: &Cell, figures: &Figures) -> Result<()> {
    report.run(Run {
        case: &cell.to_string(),
        server: cell.algorithm.name(),
        version: env!("CARGO_PKG_VERSION"),
        repeat: 1,
        parameters: json!(cell),
        figures: json!(figures),
    })
}

/// The table at the study's default parameters.
fn print_defaults(results: &Results, options: &Options) {
    let heads = ["", "quiet µs", "during µs", "max µs", "taken µs", "checkpoint ms", "most MB", "÷ data"];
    let mut table = table(&heads);
    for Point { cell, .. } in points(Figure::Trace, options.scale(), options.seed) {
        let Some(figures) = results.find(&cell) else { continue };
        let most = figures.resident_bytes_max as f64;
        table.add_row(vec![
            cell.algorithm.name().into(),
            number_cell(format!("{:.0}", figures.quiet.mean)),
            number_cell(format!("{:.0}", figures.during.mean)),
            number_cell(format!("{:.0}", figures.max_us())),
            number_cell(format!("{:.1}", figures.taken_us_max())),
            number_cell(format!("{:.0}", figures.overhead_ms())),
            number_cell(format!("{:.0}", most / 1e6)),
            number_cell(format!("{:.2}", most / cell.data_bytes() as f64)),
        ]);
    }
    if !table.is_empty() {
        println!("{table}");
    }
}

/// The error for a file of results that lacks the requested figures.
pub fn nothing_measured(path: &std::path::Path) -> LabError {
    LabError::Arguments(format!(
        "{} has no measurements of snapshots; make some with: tarn lab run snapshots --json {}",
        path.display(),
        path.display()
    ))
}
