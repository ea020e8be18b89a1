//! Question: how long do clients wait while the server does something large besides?
//!
//! Variables: the server; the work that is done besides (a checkpoint, a compaction of the whole log, a
//! backup, the building of an index, statements of SQL, a command on a large collection); the data, which are
//! records or streams with consumer groups, and their number. Expected: in Tarn the same latency with and
//! without, whatever the work and however much there is. Other servers run a command to its end before the
//! next, and fork for their files.
//!
//! ```text
//!   load       |warm-up| without | work | without | work | …      one open loop, the same for all
//!   conductor                     does the work, once or again and again, and tells the load when
//!   consumers  read for the groups all the time, where there are streams
//! ```

mod conduct;
mod giants;
mod streams;
pub mod work;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::json;

use self::conduct::{Played, Script};
use self::work::{Data, Work};
use super::contract::{self, Experiment, Measured, SPARE_BYTES};
use crate::checkpoint::{BEAT, Conducted, Stretch, conduct_load, stretch_rows, together};
use crate::error::{LabError, Result};
use crate::interrupt;
use crate::ledger::Blame;
use crate::load::{Cue, Group, KeyChoice, Mix, Pace, Phase};
use crate::numbers;
use crate::page::{Row, with};
use crate::process::{self, beside};
use crate::report::Report;
use crate::server::{Persistence, Product, Server, is_peer};
use crate::setting::{Contender, Setting, fill_silently};
use crate::ycsb;

/// Connections of the load.
const CONNECTIONS: usize = 50;
/// Updates among its requests, in percent.
const UPDATES: u32 = 50;
/// Records, or entries of streams, in millions, unless others are wished.
const RECORDS_M: f64 = 1.0;

/// The experiment's own options.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Do this work only, or all of a part of the report.
    #[arg(long, value_name = "WORK", value_delimiter = ',', value_parser = work::names())]
    pub only: Vec<String>,
    /// Stores of this many million records of 1 KB, or entries of streams; by default of one.
    #[arg(long, value_name = "MILLIONS", value_delimiter = ',', value_parser = numbers::millions)]
    pub sizes: Vec<f64>,
    /// Requests a second of the load. By default 20,000, and 50,000 to streams.
    #[arg(long, value_name = "REQUESTS", value_parser = numbers::rate)]
    pub rate: Option<f64>,
}

/// The parameters of one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    server: String,
    work: Work,
    /// Records, or entries of all streams.
    records: u64,
    /// Elements of the collection that the work is done on; 0 if it is done on none.
    elements: u64,
    rate: f64,
    /// The requests of the load, where there are records.
    ycsb: ycsb::Requests,
    quick: bool,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { server, work, records, .. } = self;
        write!(f, "{}: {server}, {records} {}", work.name(), work.data().word())
    }
}

impl contract::Cell for Cell {
    fn need_bytes(&self) -> u64 {
        let need = match self.work.data() {
            Data::Records => ycsb::need_bytes(self.records),
            Data::Streams => streams::need_bytes(self.records),
        };
        // A fork may copy as much as is written meanwhile.
        need * 3 / 2 + self.elements * 300
    }

    fn is_quick(&self) -> bool {
        self.quick
    }

    fn is_of_peer(&self) -> bool {
        is_peer(&self.server)
    }
}

/// The results of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// The stretches without the work, one by one.
    without: Vec<Stretch>,
    /// Those with it.
    during: Vec<Stretch>,
    /// All without it.
    without_all: Stretch,
    /// All with it.
    during_all: Stretch,
    /// The causes of the slowest requests without it, by the server's ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    without_slow: Option<Blame>,
    /// With it.
    #[serde(skip_serializing_if = "Option::is_none")]
    during_slow: Option<Blame>,
    /// Seconds that the work took, each time.
    took_s: Vec<f64>,
    /// Entries that consumers of groups have read and acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    acknowledged: Option<u64>,
    /// True if the generator had priority on its core.
    generator_preferred: bool,
}

/// The experiment.
pub struct Stalls {
    setting: Setting,
    own: Options,
    /// The server that runs, with its data and how many records or entries there are.
    running: Option<(Contender, Data, u64)>,
}

impl Stalls {
    /// Prepares it.
    pub fn new(setting: Setting, own: Options) -> Stalls {
        Stalls { setting, own, running: None }
    }

    fn start(&self, cell: &Cell) -> Result<Contender> {
        let subject = self.setting.subject(&cell.server)?;
        let (mut plan, dir) = self.setting.plan_of(subject, Persistence::Everysec)?;
        if subject.product == Product::RedisServer {
            // Ours does not compress either.
            plan.directives = vec![("rdbcompression", "no".to_owned())];
        }
        plan.compacts = true;
        self.setting.keep_off_the_generator(&mut plan);
        let contender = self.setting.contender(&cell.server, plan, dir)?;
        let (server, seed) = (&contender.server, self.setting.seed);
        match cell.work.data() {
            Data::Records => {
                let records = Mix::in_order(ycsb::insert(), cell.records);
                fill_silently(server, cell.records, records, seed)?;
            }
            Data::Streams => streams::fill(server, cell.records, seed)?,
        }
        Ok(contender)
    }

    /// Runs the load while the work is done, and consumers of groups where there are streams. They count what
    /// they acknowledge.
    fn conduct(&self, cell: &Cell, server: &Server) -> Result<Conducted<(Played, Option<u64>)>> {
        let data = cell.work.data();
        let mix = match data {
            Data::Records => ycsb::updates(UPDATES, KeyChoice::Uniform, cell.records),
            Data::Streams => streams::adds(cell.records),
        };
        let pace = Pace::Beats { rate: cell.rate, beat: BEAT };
        let group = Group { name: "open", connections: CONNECTIONS, pace, mix };
        let script = Script::of(&self.setting, cell.work, cell.elements);
        let cores = &self.setting.load_cores;
        let conduct = |cue: &Cue| -> Result<(Played, Option<u64>)> {
            if data == Data::Records {
                return Ok((conduct::conduct(server, &script, cue)?, None));
            }
            let consume = |is_over: &_| streams::consume(server, cores, cue, is_over);
            let (acknowledged, played) = beside(consume, || conduct::conduct(server, &script, cue));
            // An error of the consumers is why the other one found no load.
            acknowledged.and_then(|acknowledged| Ok((played?, Some(acknowledged))))
        };
        let Conducted { result, ledger, told, generator_preferred } =
            conduct_load(&self.setting, server, group, conduct)?;
        Ok(Conducted { result, ledger, told: told?, generator_preferred })
    }
}

impl Experiment for Stalls {
    const NAME: &'static str = "stalls";
    const QUESTION: &'static str = "How long do clients wait while the server does something large besides? \
        (checkpoint, compaction, backup, index, SQL, commands on large collections; records and streams)";
    const FIGURES: &'static str = include_str!("../../../figures/stalls.toml");
    const HAS_PEERS: bool = true;
    type Cell = Cell;
    type Figures = Figures;

    fn plan(&mut self) -> Result<Vec<Cell>> {
        let Stalls { setting, own, .. } = self;
        let sizes = if own.sizes.is_empty() { vec![RECORDS_M] } else { own.sizes.clone() };
        let quick = setting.options.quick;
        let mut cells = Vec::new();
        for records in setting.sizes(&sizes) {
            // One server after the other, so that each is filled once.
            for subject in &setting.servers {
                let works = Work::ALL.into_iter();
                for work in works.filter(|work| work.is_asked(&own.only) && work.is_of(subject)) {
                    let elements = work.giant().map_or(0, |giant| setting.scaled(giant.elements()));
                    let rate = own.rate.unwrap_or(work.data().rate());
                    let server = subject.name.clone();
                    let ycsb = ycsb::Requests::WholeRecords;
                    cells.push(Cell { server, work, records, elements, rate, ycsb, quick });
                }
            }
        }
        Ok(cells)
    }

    fn make_room(&mut self, cell: &Cell) -> Result<u64> {
        let need = contract::Cell::need_bytes(cell);
        let is_it = |(own, data, records): &(Contender, Data, u64)| {
            (&own.label, *data, *records) == (&cell.server, cell.work.data(), cell.records)
        };
        if self.running.as_ref().is_some_and(is_it) && process::available_bytes()? > need / 3 + SPARE_BYTES {
            return Ok(need / 3);
        }
        self.running = None;
        Ok(need)
    }

    fn measure(&mut self, cell: &Cell, _: &mut Report) -> Result<Option<Measured<Figures>>> {
        let mut running = match self.running.take() {
            Some((contender, ..)) => contender,
            None => self.start(cell)?,
        };
        // A server that ended by itself, such as for want of memory, is left out.
        let conducted = self.conduct(cell, &running.server).map_err(|error| match interrupt::check() {
            Err(interrupted) => interrupted,
            Ok(()) => running.server.ended().map_or(error, |status| LabError::Ended { status }),
        })?;
        let Conducted { result, ledger, told: (played, acknowledged), generator_preferred } = conducted;
        let Played { acts, took_s } = played;
        let phases = |with: bool| {
            let own = acts.iter().filter(|act| act.has_work == with);
            own.filter_map(|act| result.watched.phases.get(act.phase)).collect::<Vec<_>>()
        };
        let (without, during) = (phases(false), phases(true));
        let each = |phases: &[&Phase]| phases.iter().map(|phase| together(&[*phase])).collect();
        let blame = |phases: &[&Phase]| ledger.as_ref()?.blame(result.watched.started_unix_ns, phases);
        let figures = Figures {
            without: each(&without),
            during: each(&during),
            without_all: together(&without),
            during_all: together(&during),
            without_slow: blame(&without),
            during_slow: blame(&during),
            took_s,
            acknowledged,
            generator_preferred,
        };
        let (server, version) = (running.label.clone(), running.version.clone());
        // A server that was emptied is of no use any more.
        self.running = (!cell.work.takes_all()).then_some((running, cell.work.data(), cell.records));
        Ok(Some(Measured { server, version, figures }))
    }

    fn rows_of(cell: &Cell, figures: &Figures) -> Vec<Row> {
        let label = format!("{} {}", cell.server, cell.work.name());
        let more = json!({
            "part": cell.work.part(), "label": label,
            "what": format!("{} {}", crate::report::thousands(cell.records as f64), cell.work.data().word()),
        });
        let row = with(contract::row(cell, figures), more);
        let Figures { without, during, without_all, during_all, without_slow, during_slow, .. } = figures;
        let stretches = [
            ("without", without_all, &without[..], without_slow),
            ("during", during_all, &during[..], during_slow),
        ];
        let stretches = stretch_rows(&row, &stretches);
        std::iter::once(row).chain(stretches).collect()
    }
}
