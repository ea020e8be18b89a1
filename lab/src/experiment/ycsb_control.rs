//! Question: does the load of the laboratory do what YCSB does?
//!
//! Variables: the generator (ours; YCSB 0.17 from Maven Central, over the binding of `lab/ycsb/`), the
//! server, the share of updates. Both load the same records and then send requests at the same rate, far
//! below what the machine can do. Expected: the same requests arrive, and each costs the server the same.
//!
//! A client in Java needs several times the processor time of ours. So at full speed the throughput would be
//! that of the client, and so would be the latency that it sees. What a server counts for each command does
//! not depend on the client. Its processor time does in one way: requests that arrive together, such as those
//! of a client that was held up, share a round of its event loop.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::contract::{self, Experiment, Measured};
use crate::error::{LabError, Result};
use crate::load::{Group, KeyChoice, Load, Mix, Pace, Until};
use crate::numbers;
use crate::process::{Pinned, Preferred};
use crate::program::output_unless_asked;
use crate::report::Report;
use crate::server::{Info, Persistence, Server, is_peer};
use crate::setting::{Setting, fill_silently};
use crate::ycsb::{self, Requests};
use tarn_resp::client;

/// Updates among the requests, in percent: that of the comparative study, and of YCSB's workload A.
const UPDATES: [u32; 2] = [10, 50];
/// Records, in millions.
const RECORDS_M: f64 = 0.2;
/// Records of which it is looked whether both loads made the same.
const SAMPLES: u64 = 100;
/// The class of YCSB's client.
const CLIENT: &str = "site.ycsb.Client";

/// The experiment's own options.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Where `mvn process-classes` of `lab/ycsb` put the classes.
    #[arg(long, value_name = "DIR", default_value = "lab/ycsb/target")]
    pub classes: PathBuf,
    /// Requests a second.
    #[arg(long, value_name = "REQUESTS", default_value_t = 5000, value_parser = numbers::whole_rate)]
    pub rate: u32,
    /// Threads of YCSB, and connections of ours.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: u32,
}

named! {
    /// The program that sends the requests.
    pub enum Generator {
        /// That of the laboratory.
        Ours = "ours",
        /// YCSB.
        Ycsb = "ycsb",
    }
}

/// The parameters of one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    part: String,
    server: String,
    generator: Generator,
    update_percent: u32,
    records: u64,
    rate: u32,
    threads: u32,
    /// The requests of ours.
    ycsb: Requests,
    quick: bool,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { part, server, generator, update_percent, .. } = self;
        write!(f, "{part}: {server}, {update_percent} % updates by {}", generator.name())
    }
}

impl contract::Cell for Cell {
    fn need_bytes(&self) -> u64 {
        ycsb::need_bytes(self.records)
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
    /// Requests that the server counted, by command.
    calls: BTreeMap<String, u64>,
    /// Its own time for each, in microseconds.
    usec_per_call: BTreeMap<String, f64>,
    /// Updates by all requests.
    update_share: f64,
    /// Requests a second that the generator reports.
    rate_reached: f64,
    /// Their mean latency, as the generator saw it, in microseconds.
    mean_us: f64,
    /// Processor time of the server for a request, in microseconds.
    server_us: f64,
    /// Rounds of the server's event loop for a request, of a server that counts them.
    rounds: Option<f64>,
}

/// The experiment.
pub struct YcsbControl {
    pub(crate) setting: Setting,
    pub(crate) own: Options,
}

impl Experiment for YcsbControl {
    const NAME: &'static str = "ycsb-control";
    const QUESTION: &'static str = "Does the load of the laboratory do what YCSB does?";
    const FIGURES: &'static str = include_str!("../../figures/ycsb-control.toml");
    const HAS_PEERS: bool = true;
    type Cell = Cell;
    type Figures = Figures;

    fn plan(&mut self) -> Result<Vec<Cell>> {
        let YcsbControl { setting, own } = self;
        if !own.classes.join("lib").is_dir() {
            let missing = own.classes.join("lib");
            return Err(LabError::Arguments(format!(
                "{} is missing: mvn -q -f lab/ycsb process-classes fetches YCSB; --classes says where it is",
                missing.display()
            )));
        }
        let records = setting.scaled((RECORDS_M * 1e6) as u64);
        let mut cells = Vec::new();
        for server in setting.servers.iter().map(|own| &own.name) {
            for (update_percent, generator) in
                UPDATES.into_iter().flat_map(|share| Generator::ALL.map(|own| (share, own)))
            {
                let (part, server) = ("control".to_owned(), server.clone());
                let (rate, threads, quick) = (own.rate, own.threads, setting.options.quick);
                let ycsb = Requests::WholeRecords;
                cells.push(Cell {
                    part,
                    server,
                    generator,
                    update_percent,
                    records,
                    rate,
                    threads,
                    ycsb,
                    quick,
                });
            }
        }
        Ok(cells)
    }

    fn measure(&mut self, cell: &Cell, _: &mut Report) -> Result<Option<Measured<Figures>>> {
        let (server, _dir) = self.start(cell)?;
        self.load(cell, &server)?;
        look_at_the_records(&server, cell.records)?;
        server.client()?.call(&["CONFIG", "RESETSTAT"])?;
        let seconds = self.setting.time(2.0, 20.0).as_secs_f64();
        let requests = (f64::from(cell.rate) * seconds) as u64;
        let rounds = || server.info_number("stats", "eventloop_cycles");
        let (before, rounds_before) = (server.cpu_time()?, rounds()?);
        let (rate_reached, mean_us) = match cell.generator {
            Generator::Ours => self.run_ours(cell, &server, seconds)?,
            Generator::Ycsb => {
                let told = self.run_ycsb(cell, &server, "-t", requests)?;
                reported(&told).ok_or_else(|| LabError::Reply(format!("YCSB reports no figures: {told}")))?
            }
        };
        let cpu = server.cpu_time()?.saturating_sub(before);
        let rounds = rounds()?.zip(rounds_before).map(|(after, before)| (after - before) as f64);
        let stats = Info::read(&mut server.client()?, "commandstats")?;
        let of = |command: &str, name: &str| field(stats.text(&format!("cmdstat_{command}"))?, name);
        let calls = ["hgetall", "hmset"].map(|own| (own, of(own, "calls").unwrap_or(0.0)));
        let all: f64 = calls.iter().map(|(_, calls)| calls).sum();
        let usec = ["hgetall", "hmset"].into_iter().filter_map(|own| Some((own, of(own, "usec_per_call")?)));
        let figures = Figures {
            calls: calls.iter().map(|(own, calls)| ((*own).to_owned(), *calls as u64)).collect(),
            usec_per_call: usec.map(|(own, usec)| (own.to_owned(), usec)).collect(),
            update_share: calls[1].1 / all,
            rate_reached,
            mean_us,
            server_us: cpu.as_secs_f64() * 1e6 / all,
            rounds: rounds.map(|rounds| rounds / all),
        };
        let version = server.version()?;
        Ok(Some(Measured { server: cell.server.clone(), version, figures }))
    }
}

impl YcsbControl {
    fn start(&self, cell: &Cell) -> Result<(Server, TempDir)> {
        let (mut plan, dir) = self.setting.plan_of(self.setting.subject(&cell.server)?, Persistence::None)?;
        self.setting.keep_off_the_generator(&mut plan);
        Ok((plan.start()?, dir))
    }

    fn load(&self, cell: &Cell, server: &Server) -> Result<()> {
        match cell.generator {
            Generator::Ours => {
                let mix = Mix::in_order(ycsb::insert(), cell.records);
                fill_silently(server, cell.records, mix, self.setting.seed)
            }
            Generator::Ycsb => self.run_ycsb(cell, server, "-load", 0).map(|_| ()),
        }
    }

    /// Requests a second, and their mean latency in microseconds.
    fn run_ours(&self, cell: &Cell, server: &Server, seconds: f64) -> Result<(f64, f64)> {
        let mix = ycsb::updates(cell.update_percent, KeyChoice::Zipfian, cell.records);
        let pace = Pace::Open { rate: f64::from(cell.rate) };
        let group = Group { name: "open", connections: cell.threads as usize, pace, mix };
        let until = Until::Time { warmup: Duration::ZERO, measured: Duration::from_secs_f64(seconds) };
        let load = Load::new(server.address(), vec![group], until, self.setting.seed);
        let _pinned = Pinned::to(&self.setting.load_cores)?;
        let _preferred = Preferred::ask();
        let result = load.run(|_| ())?.check()?;
        Ok((result.rate(), result.groups[0].latency_ns.mean() / 1e3))
    }

    /// Runs YCSB, and returns what it printed.
    fn run_ycsb(&self, cell: &Cell, server: &Server, what: &str, requests: u64) -> Result<String> {
        let classes = self.own.classes.display();
        let updates = f64::from(cell.update_percent) / 100.0;
        let port = server.address().port();
        let properties = [
            ("workload", "site.ycsb.workloads.CoreWorkload".to_owned()),
            ("requestdistribution", "zipfian".to_owned()),
            ("zeropadding", "19".to_owned()),
            ("readproportion", (1.0 - updates).to_string()),
            ("updateproportion", updates.to_string()),
            ("recordcount", cell.records.to_string()),
            ("operationcount", requests.to_string()),
            ("redis.port", port.to_string()),
        ];
        let mut command = Command::new("java");
        command.args(["-cp", &format!("{classes}/classes:{classes}/lib/*"), CLIENT, what]);
        command.args(["-db", "tarn.RedisBinding", "-threads", &cell.threads.to_string()]);
        if requests > 0 {
            command.args(["-target", &cell.rate.to_string()]);
        }
        for (name, value) in properties {
            command.args(["-p", &format!("{name}={value}")]);
        }
        let _pinned = Pinned::to(&self.setting.load_cores)?;
        let told = output_unless_asked(&mut command, "YCSB")?;
        Ok(String::from_utf8_lossy(&told).into_owned())
    }
}

/// Fails unless the records are those that the laboratory makes: their keys, fields, and scores.
fn look_at_the_records(server: &Server, records: u64) -> Result<()> {
    let mut connection = server.client()?;
    let members = client::integer(&connection.call(&["ZCARD", ycsb::INDEX])?)?.unsigned_abs();
    let step = (records / SAMPLES).max(1);
    let mut wrong = (members != records).then(|| format!("{} has {members} members", ycsb::INDEX));
    for number in (0..records).step_by(step as usize) {
        let key = ycsb::key(number);
        let fields = client::integer(&connection.call(&["HLEN", &key])?)?;
        let bytes = client::integer(&connection.call(&["HSTRLEN", &key, "field9"])?)?;
        let score = client::text(&connection.call(&["ZSCORE", ycsb::INDEX, &key])?)?;
        let is_right = (fields, bytes) == (ycsb::FIELDS as i64, ycsb::FIELD_BYTES as i64)
            && score.parse() == Ok(f64::from(ycsb::score(number)));
        if !is_right {
            wrong = Some(format!("{key} has {fields} fields, {bytes} bytes in one, and the score {score}"));
        }
    }
    wrong.map_or(Ok(()), |what| Err(LabError::Reply(format!("the records are others: {what}"))))
}

/// A number of a line such as `calls=12,usec=3`.
fn field(line: &str, name: &str) -> Option<f64> {
    line.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.trim().parse().ok())
}

/// Requests a second and their mean latency in microseconds, over reads and updates, that YCSB reports.
fn reported(told: &str) -> Option<(f64, f64)> {
    let number = |of: &str, name: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(of)?.strip_prefix(name))?;
        line.trim_start_matches([',', ' ']).trim().parse::<f64>().ok()
    };
    let rate = number("[OVERALL], ", "Throughput(ops/sec)")?;
    let (mut requests, mut total) = (0.0, 0.0);
    for of in ["[READ], ", "[UPDATE], "] {
        let (count, mean) = (number(of, "Operations")?, number(of, "AverageLatency(us)")?);
        (requests, total) = (requests + count, total + count * mean);
    }
    Some((rate, total / requests))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ycsb_reports_is_read() {
        let told = "[OVERALL], RunTime(ms), 2000\n[OVERALL], Throughput(ops/sec), 500.5\n\
            [READ], Operations, 900\n[READ], AverageLatency(us), 100.0\n\
            [UPDATE], Operations, 100\n[UPDATE], AverageLatency(us), 200.0\n";
        assert_eq!(reported(told), Some((500.5, 110.0)));
        assert_eq!(reported("[OVERALL], Throughput(ops/sec), 500.5"), None);
        let line = "calls=12,usec=30,usec_per_call=2.50";
        assert_eq!(
            [field(line, "calls"), field(line, "usec_per_call"), field(line, "x")],
            [Some(12.0), Some(2.5), None]
        );
    }
}
