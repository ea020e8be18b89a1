//! Measures the cells of a plan that have not been measured yet, and judges them.

use std::path::PathBuf;

use tempfile::TempDir;

use super::cell::{Algorithm, Cell, Figures, Place, Results};
use super::compare::{self, data::Study};
use super::measure::refused;
use super::plan::{Figure, Point, Scale, points};
use super::rows;
use crate::error::{IoContext, Result};
use crate::experiment::{Experiment, LineOf, Measured, Wanted, leave_out};
use crate::page::{Facts, Remark, Row};
use crate::report::Report;
use crate::results::unpacked;
use crate::setting::is_asked;
use crate::{interrupt, machine, process};

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
        let figures = Figure::ALL.into_iter().filter(|figure| is_asked(&self.only, figure));
        let points = figures.flat_map(|figure| points(figure, self.scale(), self.seed));
        points.filter(|point| is_asked(&self.algorithms, &point.cell.algorithm)).collect()
    }
}

/// The study.
pub struct Snapshots {
    options: Options,
    place: Place,
    /// Checkpoints are there as long as this lives.
    _dir: TempDir,
}

impl Snapshots {
    /// Finds cores and a directory.
    pub fn new(options: Options) -> Result<Snapshots> {
        let cores = process::cores_allowed();
        let parent = options.dir.clone().unwrap_or_else(std::env::temp_dir);
        let dir = interrupt::temporary("tarn-snapshots-", &parent).at(parent)?;
        let client_core = cores[cores.len() - 1];
        let place = Place { dir: dir.path().to_owned(), client_core, snapshotter_core: cores[0] };
        tell!(
            "snapshots: {}; client on core {client_core}, snapshotter on {}; checkpoints in {} ({}); \
             results in {}",
            options.scale().name(),
            place.snapshotter_core,
            place.dir.display(),
            crate::machine::file_system(&place.dir),
            options.json.display()
        );
        Ok(Snapshots { options, place, _dir: dir })
    }
}

impl Experiment for Snapshots {
    const NAME: &'static str = "snapshots";
    const QUESTION: &'static str =
        "What do snapshots of an array of rows cost, by algorithm? (the comparative study)";
    const FIGURES: &'static str = include_str!("../../figures/snapshots.toml");
    type Cell = Cell;
    type Figures = Figures;

    fn plan(&mut self) -> Result<Vec<Cell>> {
        Ok(self.options.points().into_iter().map(|point| point.cell).collect())
    }

    fn prepare(&mut self, todo: &mut Vec<Cell>, report: &mut Report) -> Result<()> {
        for algorithm in Algorithm::ALL {
            let is_its = |cell: &Cell| cell.algorithm == algorithm;
            if let Some(why) = refused(algorithm).filter(|_| todo.iter().any(is_its)) {
                let why = format!("this machine cannot run {}: {why}", algorithm.name());
                leave_out(todo, is_its, &why, report)?;
            }
        }
        if let Some(why) = machine::no_huge_pages().filter(|_| todo.iter().any(Cell::needs_huge_pages)) {
            leave_out(todo, Cell::needs_huge_pages, &format!("no huge pages: {why}"), report)?;
        }
        Ok(())
    }

    fn measure(&mut self, cell: &Cell, _: &mut Report) -> Result<Option<Measured<Figures>>> {
        Ok(Some(Measured::here(cell.algorithm.name(), cell.measure_apart(&self.place)?)))
    }

    fn rows(results: &Results, wanted: Wanted) -> Vec<Row> {
        let study = Study::newest(results, scales(wanted));
        study.map(|study| rows::of(&study)).unwrap_or_default()
    }

    fn facts(results: &Results, _: &[&LineOf<Self>], wanted: Wanted) -> Facts {
        let Some(Study { scale, seed, .. }) = Study::newest(results, scales(wanted)) else {
            return Vec::new();
        };
        let (flag, path) = (scale.flag(), results.path.display());
        let again = unpacked(&results.path);
        let again = format!("tarn lab run snapshots{flag} --seed {seed} --json {}", again.display());
        let drawn = format!("tarn lab report snapshots{flag} --json {path}");
        vec![("scale", scale.name().to_owned()), ("again by", again), ("drawn by", drawn)]
    }

    fn remarks(results: &Results, wanted: Wanted) -> (Vec<Remark>, String) {
        let study = Study::newest(results, scales(wanted));
        study.map(|study| compare::remarks(&study)).unwrap_or_default()
    }

    /// Of the scale and the seed that were run, even if others are newer.
    fn rows_of_run(&self, results: &Results, _: Wanted) -> Vec<Row> {
        rows::of(&Study { results, scale: self.options.scale(), seed: self.options.seed })
    }
}

/// The scales that flags let through.
pub(super) fn scales(wanted: Wanted) -> &'static [Scale] {
    match (wanted.quick, wanted.full) {
        (true, _) => &[Scale::Quick],
        (_, true) => &[Scale::Full],
        _ => &[Scale::Default, Scale::Full, Scale::Quick],
    }
}
