//! Question: what do the rules of a user, and encryption, cost a server?
//!
//! Variables: the server; a user with five patterns of keys and twenty rules of commands, or `default`;
//! connections that are encrypted, or not; the requests that are sent together (1, 16). Expected: rules cost
//! no more than 1 % of a SET's processor time; an encrypted request costs no more than redis-server's, nor
//! does a handshake; and an encrypted connection that is idle takes no more than 30 KB.
//!
//! The load is that of `redis-benchmark` and of `openssl s_time`: both come with TLS of their own. What is
//! compared on one server is measured by turns. The key that is written matches the last of the patterns.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::contract::{self, Experiment, Measured};
use crate::error::{IoContext, LabError, Result};
use crate::interrupt::{self, wait_for};
use crate::peers::on_path;
use crate::process::Pinned;
use crate::program::output_unless_asked;
use crate::report::{Report, median};
use crate::server::{Persistence, Server, free_port, is_peer};
use crate::setting::{Setting, is_asked};

/// Requests of one run of `redis-benchmark`, unpipelined and pipelined.
const REQUESTS: u64 = 400_000;
const REQUESTS_PIPELINED: u64 = 2_000_000;
/// Connections of it.
const CONNECTIONS: u64 = 50;
/// Keys that are written.
const KEYS: u64 = 100_000;
/// Bytes of a value.
const VALUE_BYTES: u64 = 64;
/// Idle connections, and how many of them are made at once: a server ends handshakes if many are half done.
const IDLE: u64 = 10_000;
const IDLE_AT_ONCE: u64 = 200;
const IDLE_QUICK: u64 = 100;
/// The longest time in which so many connections are made.
const PATIENCE: Duration = Duration::from_secs(60);

/// The user with rules: five patterns, the last of which the keys match, and twenty rules.
const USER: &str = "application";
const PASSWORD: &str = "of-the-laboratory";
const PATTERNS: [&str; 5] = ["~user:*", "~cart:*", "~order:*", "~session:*", "~key:*"];
const RULES: [&str; 20] = [
    "-@all",
    "+get",
    "+set",
    "+del",
    "+incr",
    "+decr",
    "+mget",
    "+mset",
    "+expire",
    "+ttl",
    "+exists",
    "+hget",
    "+hset",
    "+hdel",
    "+lpush",
    "+rpush",
    "+sadd",
    "+zadd",
    "+ping",
    "+config|get",
];

named! {
    /// The part of the experiment.
    pub enum Part {
        /// Requests of a user with rules, beside those of `default`.
        Rules = "rules",
        /// Encrypted requests, beside plain ones.
        Tls = "tls",
        /// Encrypted connections that are made.
        Handshakes = "handshakes",
        /// Encrypted connections that do nothing.
        Idle = "idle",
    }
}

/// The experiment's own options.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Measure these parts only.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<Part>,
}

/// The parameters of one measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    part: Part,
    server: String,
    /// Requests that are sent together; 0 where none are.
    pipeline: u32,
    /// Requests of a run, or idle connections.
    count: u64,
    quick: bool,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { part, server, pipeline, .. } = self;
        write!(f, "{}: {server}", part.name())?;
        if *pipeline > 0 { write!(f, ", pipeline {pipeline}") } else { Ok(()) }
    }
}

impl contract::Cell for Cell {
    fn is_quick(&self) -> bool {
        self.quick
    }

    fn is_of_peer(&self) -> bool {
        is_peer(&self.server)
    }
}

/// The results of a cell: medians over the repeats.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Processor time of the server for a plain request of `default`, in nanoseconds.
    plain_ns: f64,
    /// For a request of the user with rules, or an encrypted one.
    own_ns: f64,
    /// The second by the first, of each pair of runs.
    by_plain: f64,
    /// Requests a second.
    plain_per_s: f64,
    own_per_s: f64,
    /// Handshakes a second, and processor time of the server for one, in microseconds.
    handshakes_per_s: f64,
    handshake_us: f64,
    /// Resident memory of the server for an idle connection, in bytes.
    idle_bytes: f64,
}

/// The experiment.
pub struct AccessCosts {
    pub(crate) setting: Setting,
    pub(crate) own: Options,
}

impl Experiment for AccessCosts {
    const NAME: &'static str = "access";
    const QUESTION: &'static str = "What do the rules of a user, and encryption, cost a server?";
    const FIGURES: &'static str = include_str!("../../figures/access.toml");
    const HAS_PEERS: bool = true;
    type Cell = Cell;
    type Figures = Figures;

    fn plan(&mut self) -> Result<Vec<Cell>> {
        let AccessCosts { setting, own } = self;
        let quick = setting.options.quick;
        let requests = |pipeline| setting.scaled(if pipeline > 1 { REQUESTS_PIPELINED } else { REQUESTS });
        let idle = if quick { IDLE_QUICK } else { setting.scaled(IDLE) };
        let forms = [
            (Part::Rules, 1, requests(1)),
            (Part::Rules, 16, requests(16)),
            (Part::Tls, 1, requests(1)),
            (Part::Tls, 16, requests(16)),
            (Part::Handshakes, 0, 0),
            (Part::Idle, 0, idle),
        ];
        let mut cells = Vec::new();
        // What is compared is measured one after the other: the machine may differ an hour later.
        for (part, pipeline, count) in forms.into_iter().filter(|(part, ..)| is_asked(&own.only, part)) {
            let cell = |server: &str| Cell { part, server: server.to_owned(), pipeline, count, quick };
            cells.extend(setting.servers.iter().map(|own| cell(&own.name)));
        }
        Ok(cells)
    }

    fn measure(&mut self, cell: &Cell, _: &mut Report) -> Result<Option<Measured<Figures>>> {
        let running = Running::start(&self.setting, cell)?;
        let figures = match cell.part {
            Part::Rules | Part::Tls => self.requests(cell, &running)?,
            Part::Handshakes => self.handshakes(&running)?,
            Part::Idle => idle(cell, &running)?,
        };
        let version = running.server.version()?;
        Ok(Some(Measured { server: cell.server.clone(), version, figures }))
    }
}

impl AccessCosts {
    fn requests(&self, cell: &Cell, running: &Running) -> Result<Figures> {
        let own = match cell.part {
            Part::Rules => {
                let words: Vec<&str> = ["ACL", "SETUSER", USER, "on"].into_iter().chain(PATTERNS).collect();
                let password = format!(">{PASSWORD}");
                let words = [&words[..], &[&password], &RULES].concat();
                running.server.client()?.call(&words)?;
                ["--user", USER, "-a", PASSWORD].map(str::to_owned).to_vec()
            }
            _ => running.encrypted(),
        };
        let plain = ["-p".to_owned(), running.server.address().port().to_string()];
        let own = match cell.part {
            Part::Rules => [&plain[..], &own].concat(),
            _ => own,
        };
        let _pinned = Pinned::to(&self.setting.load_cores)?;
        // The keys are there afterwards.
        benchmark(cell, running, &plain)?;
        let mut runs = Vec::new();
        for _ in 0..self.setting.repeats_or(5) {
            runs.push((benchmark(cell, running, &plain)?, benchmark(cell, running, &own)?));
        }
        let of = |figure: fn(&(Run, Run)) -> f64| median(runs.iter().map(figure));
        Ok(Figures {
            plain_ns: of(|(plain, _)| plain.ns),
            own_ns: of(|(_, own)| own.ns),
            by_plain: of(|(plain, own)| own.ns / plain.ns),
            plain_per_s: of(|(plain, _)| plain.per_s),
            own_per_s: of(|(_, own)| own.per_s),
            ..Figures::default()
        })
    }

    fn handshakes(&self, running: &Running) -> Result<Figures> {
        let seconds = self.setting.time(1.0, 3.0).as_secs_f64().ceil();
        let _pinned = Pinned::to(&self.setting.load_cores)?;
        let mut runs = Vec::new();
        for _ in 0..self.setting.repeats_or(3) {
            let mut command = Command::new("openssl");
            let place = format!("127.0.0.1:{}", running.tls_port);
            command.args(["s_time", "-new", "-connect", &place, "-time", &format!("{seconds}")]);
            let (before, began) = (running.server.cpu_time()?, Instant::now());
            let told = output_unless_asked(&mut command, "openssl s_time")?;
            let took = began.elapsed().as_secs_f64();
            let cpu = running.server.cpu_time()?.saturating_sub(before);
            let told = String::from_utf8_lossy(&told);
            let count = connections(&told)
                .ok_or_else(|| LabError::Reply(format!("openssl s_time tells no number: {told}")))?;
            runs.push((count / took, cpu.as_secs_f64() * 1e6 / count));
        }
        let of = |figure: fn(&(f64, f64)) -> f64| median(runs.iter().map(figure));
        Ok(Figures {
            handshakes_per_s: of(|(per_s, _)| *per_s),
            handshake_us: of(|(_, us)| *us),
            ..Figures::default()
        })
    }
}

/// The connections of the line `123 connections in 2 real seconds, 0 bytes read per connection`.
fn connections(told: &str) -> Option<f64> {
    let line = told.lines().find(|line| line.contains("real seconds"))?;
    line.split_whitespace().next()?.parse().ok().filter(|count| *count > 0.0)
}

/// A server with both ports, and its files.
struct Running {
    server: Server,
    tls_port: u16,
    certificate: PathBuf,
    _dir: TempDir,
}

impl Running {
    fn start(setting: &Setting, cell: &Cell) -> Result<Running> {
        for program in ["redis-benchmark", "openssl"] {
            if on_path(program).is_none() {
                let why = format!("{program} is not on the PATH");
                return Err(LabError::LeftOut { why, failed: false });
            }
        }
        let (mut plan, dir) = setting.plan_of(setting.subject(&cell.server)?, Persistence::None)?;
        setting.keep_off_the_generator(&mut plan);
        let (certificate, key) = make_certificate(dir.path())?;
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let tls_port = free_port()?;
        plan.directives.extend([
            ("tls-port", tls_port.to_string()),
            ("tls-cert-file", path(&certificate)),
            ("tls-key-file", path(&key)),
            ("tls-ca-cert-file", path(&certificate)),
            ("tls-auth-clients", "no".to_owned()),
            ("maxclients", (IDLE + 1000).to_string()),
        ]);
        Ok(Running { server: plan.start()?, tls_port, certificate, _dir: dir })
    }

    /// The arguments of `redis-benchmark` for an encrypted connection.
    fn encrypted(&self) -> Vec<String> {
        let certificate = self.certificate.to_string_lossy().into_owned();
        ["--tls", "--cacert", &certificate, "-p", &self.tls_port.to_string()].map(str::to_owned).to_vec()
    }
}

/// A certificate that signs itself, and its key.
fn make_certificate(dir: &Path) -> Result<(PathBuf, PathBuf)> {
    let (certificate, key) = (dir.join("certificate.pem"), dir.join("key.pem"));
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    command.args(["-days", "2", "-subj", "/CN=localhost"]);
    command.args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout"]).arg(&key);
    output_unless_asked(command.arg("-out").arg(&certificate), "openssl req")?;
    Ok((certificate, key))
}

/// One run of `redis-benchmark`.
struct Run {
    /// Processor time of the server for a request, in nanoseconds.
    ns: f64,
    per_s: f64,
}

fn benchmark(cell: &Cell, running: &Running, own: &[String]) -> Result<Run> {
    let mut command = Command::new("redis-benchmark");
    for (option, value) in [
        ("-c", CONNECTIONS),
        ("-n", cell.count),
        ("-P", cell.pipeline.into()),
        ("-r", KEYS),
        ("-d", VALUE_BYTES),
    ] {
        command.arg(option).arg(value.to_string());
    }
    command.args(["-t", "set", "--csv"]).args(own);
    let before = running.server.cpu_time()?;
    let told = output_unless_asked(&mut command, "redis-benchmark")?;
    let cpu = running.server.cpu_time()?.saturating_sub(before);
    let told = String::from_utf8_lossy(&told);
    let per_s =
        rate(&told).ok_or_else(|| LabError::Reply(format!("redis-benchmark tells no rate: {told}")))?;
    Ok(Run { ns: cpu.as_secs_f64() * 1e9 / cell.count as f64, per_s })
}

/// The rate of the line `"SET","123456.00",...`.
fn rate(told: &str) -> Option<f64> {
    let line = told.lines().find_map(|line| line.strip_prefix("\"SET\",\""))?;
    line.split('"').next()?.parse().ok()
}

/// Programs that hold connections, which end with this.
#[derive(Default)]
struct Holders(Vec<Child>);

impl Drop for Holders {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn idle(cell: &Cell, running: &Running) -> Result<Figures> {
    let clients = || running.server.info_number("clients", "connected_clients");
    let mut holders = Holders::default();
    // What the first connections bring along is not that of one more.
    let mut hold = |wanted: u64| -> Result<()> {
        let mut held = 0;
        while held < wanted {
            let more = IDLE_AT_ONCE.min(wanted - held);
            let before = clients()?.unwrap_or(0);
            let mut command = Command::new("redis-benchmark");
            command.args(["-I", "-c", &more.to_string()]).args(running.encrypted());
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            holders.0.push(child.doing(|| "run redis-benchmark".to_owned())?);
            let there = || Ok(clients()?.is_some_and(|count| count >= before + more).then_some(()));
            wait_for(Duration::from_millis(10), PATIENCE, there)?
                .ok_or_else(|| LabError::Reply(format!("{more} more clients do not come")))?;
            held += more;
            interrupt::check()?;
        }
        Ok(())
    };
    hold(IDLE_AT_ONCE.min(cell.count))?;
    let before = running.server.memory()?.resident_bytes;
    hold(cell.count)?;
    let grown = running.server.memory()?.resident_bytes.saturating_sub(before);
    Ok(Figures { idle_bytes: grown as f64 / cell.count as f64, ..Figures::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_programs_tell_is_read() {
        let told = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"123456.00\",\"0.2\"\n";
        assert_eq!(rate(told), Some(123_456.0));
        assert_eq!(rate("Could not connect"), None);
        let told = "12 connections in 0.01s; 9 connections/user sec, bytes read 0\n\
            34 connections in 2 real seconds, 0 bytes read per connection\n";
        assert_eq!(connections(told), Some(34.0));
        assert_eq!(connections("0 connections in 2 real seconds, 0 bytes"), None);
    }

    #[test]
    fn the_user_has_as_many_rules_as_it_is_said() {
        assert_eq!((PATTERNS.len(), RULES.len()), (5, 20));
        assert!("key:000000000001".starts_with(PATTERNS[4].trim_matches(['~', '*'])));
    }
}
