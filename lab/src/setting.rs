//! The setting of an experiment: which servers there are, on which cores and directories they run, how long
//! and how large.

use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tempfile::TempDir;

use crate::dialect::Dialect;
use crate::error::{IoContext, LabError, Result};
use crate::interrupt;
use crate::load::{Group, Load, LoadResult, Mix, Pace, Until};
use crate::machine;
use crate::numbers;
use crate::peers::peer;
use crate::process::{self, Pinned, Preferred};
use crate::report::Report;
use crate::server::{PeerName, Persistence, Plan, Product, Server, Subject};

pub use crate::peers::on_path;

/// The heading of options about servers.
const SERVERS: &str = "Servers, for experiments that measure some";

/// Options that all experiments share.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Everything small and short, for a look and for the tests: from a second to a few minutes, by the
    /// experiment. The figures mean little.
    #[arg(long)]
    pub quick: bool,
    /// Append the JSON lines to this file. By default lab-results/NAME.jsonl; throughput, durability, memory
    /// and recovery print them instead.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Put data directories under this one; it should be on the disk that is to be measured.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Compare these servers. By default ours, and redis-server if it is installed.
    #[arg(long, value_name = "SERVER", value_delimiter = ',', help_heading = SERVERS)]
    pub servers: Vec<Product>,
    /// The server to measure. By default `tarn` in the directory of this program.
    #[arg(long, value_name = "FILE", help_heading = SERVERS)]
    pub tarn: Option<PathBuf>,
    /// The executable of redis-server. By default the one on the PATH.
    #[arg(long, value_name = "FILE", help_heading = SERVERS)]
    pub redis_server: Option<PathBuf>,
    /// Compare with this server too: one that is known (redis-7, redis-8, valkey-8, valkey-9,
    /// valkey-forkless, keydb, dragonfly, garnet, kvrocks, tarantool), whose program is on the PATH or is
    /// named after `=`; or any program that takes the directives of redis-server, and arguments that come
    /// before ours. NAME stands in tables, lines and pictures. May be given several times.
    #[arg(long = "peer", value_name = "NAME[=COMMAND]", help_heading = SERVERS)]
    pub peers: Vec<String>,
    /// Shrink the number of keys and records by this factor, between 0 and 1.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub scale: f64,
    /// Repeat each measurement so often; the median counts. By default 3 in most experiments (machine and
    /// workers 5), with --quick 1.
    #[arg(long, value_name = "TIMES", value_parser = numbers::times)]
    pub repeats: Option<u32>,
    /// Measure for this time each, in most experiments after a short warm-up. The default is the experiment's
    /// own, from 1 (machine) to 20 (ycsb-control), and with --quick much less.
    #[arg(long, value_name = "SECONDS", value_parser = numbers::seconds)]
    pub seconds: Option<f64>,
    /// The seed of keys, values and moments. By default drawn, and printed.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The cores of the server.
    #[arg(long, value_name = "CORES", value_delimiter = ',', help_heading = SERVERS)]
    pub server_cores: Vec<usize>,
    /// The core of the load generator.
    #[arg(long, value_name = "CORE")]
    pub load_core: Option<usize>,
    /// End with exit code 2 if a goal is not met.
    #[arg(long)]
    pub strict: bool,
}

/// A server on trial, with the directory that it owns.
#[derive(Debug)]
pub struct Contender {
    /// The name that tables and JSON lines use.
    pub label: String,
    /// Its version, as it reports it.
    pub version: String,
    /// The server. Declared before the directory, because it must end before its files are removed.
    pub server: Server,
    /// Its data.
    pub dir: TempDir,
}

impl Contender {
    /// True if it is a peer.
    pub fn is_peer(&self) -> bool {
        self.server.plan.subject.is_peer()
    }
}

/// Where and how experiments run.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The options as given.
    pub options: Options,
    /// The servers to compare, ours first, then redis-server, then the peers.
    pub servers: Vec<Subject>,
    /// Data directories are made under this one.
    pub dir: PathBuf,
    /// The file system of `dir`.
    pub file_system: String,
    /// The cores of a server with one worker.
    pub server_cores: Vec<usize>,
    /// The cores of the generator.
    pub load_cores: Vec<usize>,
    /// The seed.
    pub seed: u64,
}

impl Setting {
    /// Finds servers, cores and directory.
    pub fn new(options: Options) -> Result<Setting> {
        let servers = find_servers(&options)?;
        Setting::of(servers, options)
    }

    /// The same for an experiment that starts no server. Options about servers are refused.
    pub fn without_servers(options: Options, experiment: &str) -> Result<Setting> {
        let given = [
            ("--peer", !options.peers.is_empty()),
            ("--servers", !options.servers.is_empty()),
            ("--tarn", options.tarn.is_some()),
            ("--redis-server", options.redis_server.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                let why = format!("{experiment} measures no server: it has no {option}");
                Err(LabError::Arguments(why))
            }
            None => Setting::of(Vec::new(), options),
        }
    }

    /// The same of given servers.
    pub fn of(servers: Vec<Subject>, options: Options) -> Result<Setting> {
        if !(options.scale > 0.0 && options.scale <= 1.0) {
            return Err(LabError::Arguments("--scale is between 0 and 1".to_owned()));
        }
        let dir = options.dir.clone().unwrap_or_else(std::env::temp_dir);
        std::fs::create_dir_all(&dir).doing(|| format!("make the directory {}", dir.display()))?;
        let cores = process::cores_allowed();
        let given = options.server_cores.iter().map(|core| ("--server-cores", core));
        let mut given = given.chain(options.load_core.iter().map(|core| ("--load-core", core)));
        if let Some((option, core)) = given.find(|(_, core)| !cores.contains(core)) {
            return Err(LabError::Arguments(format!("{option} {core}: the cores here are {cores:?}")));
        }
        let (first, last) = (cores[0], cores[cores.len() - 1]);
        let server_cores =
            if options.server_cores.is_empty() { vec![first] } else { options.server_cores.clone() };
        let load_cores = vec![options.load_core.unwrap_or(last)];
        let seed = options.seed.unwrap_or_else(rand::random);
        let file_system = machine::file_system(&dir);
        Ok(Setting { options, servers, file_system, dir, server_cores, load_cores, seed })
    }

    /// Says on the standard error where an experiment runs.
    pub fn announce(&self, experiment: &str) {
        let names: Vec<_> = self.servers.iter().map(|own| own.name.as_str()).collect();
        let servers = match names.is_empty() {
            true => "no servers".to_owned(),
            false => {
                let names = names.join(", ");
                format!("{names}; server on cores {:?}, load on {:?}", self.server_cores, self.load_cores)
            }
        };
        tell!(
            "{experiment}: {servers}; data in {} ({}); scale {}{}; seed {}",
            self.dir.display(),
            self.file_system,
            self.options.scale,
            if self.options.quick { ", quick" } else { "" },
            self.seed
        );
    }

    /// A number of keys or records at this scale; at least 100.
    pub fn scaled(&self, count: u64) -> u64 {
        let factor = if self.options.quick { self.options.scale * 0.01 } else { self.options.scale };
        ((count as f64 * factor) as u64).max(100)
    }

    /// Sizes in millions of records, at this scale, smallest first.
    pub fn sizes(&self, millions: &[f64]) -> Vec<u64> {
        let mut sizes: Vec<u64> = millions.iter().map(|size| self.scaled((size * 1e6) as u64)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The number of repeats of each measurement.
    pub fn repeats(&self) -> u32 {
        self.repeats_or(3)
    }

    /// The same where another number is usual.
    pub fn repeats_or(&self, usual: u32) -> u32 {
        self.options.repeats.unwrap_or(if self.options.quick { 1 } else { usual })
    }

    /// The length of each measurement; without a wish, of so many seconds with `--quick` and without it.
    pub fn time(&self, quick: f64, usual: f64) -> Duration {
        let seconds = self.options.seconds.unwrap_or(if self.options.quick { quick } else { usual });
        Duration::from_secs_f64(seconds.clamp(0.01, 86400.0))
    }

    /// True if the server of a product is there; a peer is none.
    pub fn has(&self, product: Product) -> bool {
        self.servers.iter().any(|own| own.product == product && !own.is_peer())
    }

    /// The peers.
    pub fn peers(&self) -> impl Iterator<Item = &Subject> {
        self.servers.iter().filter(|own| own.is_peer())
    }

    /// A fresh directory.
    pub fn make_dir(&self) -> Result<TempDir> {
        let dir = interrupt::temporary("tarn-lab-", &self.dir);
        dir.doing(|| format!("make a directory in {}", self.dir.display()))
    }

    /// The server of this name, that of a product or of a peer.
    pub fn subject(&self, name: &str) -> Result<&Subject> {
        let missing = || LabError::Arguments(format!("{name} is not among the servers"));
        self.servers.iter().find(|own| own.name == name).ok_or_else(missing)
    }

    /// A plan for the server of a product.
    pub fn plan(&self, product: Product, persistence: Persistence) -> Result<(Plan, TempDir)> {
        self.plan_for(product, None, persistence)
    }

    /// The same for a peer, if there is one.
    pub fn plan_for(
        &self,
        product: Product,
        peer: Option<PeerName>,
        persistence: Persistence,
    ) -> Result<(Plan, TempDir)> {
        self.plan_of(self.subject(peer.as_ref().map_or(product.name(), PeerName::as_str))?, persistence)
    }

    /// A plan for a pinned server with one worker, and the fresh directory that it names. What asks for a log
    /// that a server does not have is left out.
    pub fn plan_of(&self, subject: &Subject, persistence: Persistence) -> Result<(Plan, TempDir)> {
        if !subject.has_log(persistence) {
            let why = format!("{} has no log like {}", subject.name, persistence.name());
            return Err(LabError::LeftOut { why, failed: false });
        }
        let dir = self.make_dir()?;
        let mut plan = Plan::new(subject.clone(), dir.path());
        plan.cores.clone_from(&self.server_cores);
        plan.persistence = persistence;
        Ok((plan, dir))
    }

    /// The server's cores without the generator's; all of them if none is left.
    pub fn cores_apart(&self) -> Vec<usize> {
        let apart: Vec<usize> = self.apart(&self.server_cores).collect();
        if apart.is_empty() { self.server_cores.clone() } else { apart }
    }

    /// Those of some cores that are not the generator's.
    fn apart(&self, cores: &[usize]) -> impl Iterator<Item = usize> {
        cores.iter().copied().filter(|core| !self.load_cores.contains(core))
    }

    /// Makes a server that may use the generator's core serve on the others. Threads that take its
    /// checkpoints may use all cores. But where a generator with priority shared the core of serving threads,
    /// each reply that is sent would take the core from it.
    pub fn keep_off_the_generator(&self, plan: &mut Plan) {
        let list = |cores: &[usize]| cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let serving: Vec<usize> = self.apart(&plan.cores).collect();
        if !serving.is_empty() && plan.subject.dialect != Dialect::Redis {
            // It cannot tell its threads apart.
            plan.cores = serving;
        } else if !serving.is_empty() {
            let (serving, all) = (list(&serving), list(&plan.cores));
            plan.directives.extend([("server_cpulist", serving), ("bgsave_cpulist", all)]);
        }
    }

    /// Starts all servers, pinned, with one worker each, but for peers that cannot: of these the cases are
    /// left out.
    pub fn contenders(
        &self,
        report: &mut Report,
        cases: &[String],
        persistence: Persistence,
    ) -> Result<Vec<Contender>> {
        let mut all = Vec::new();
        for subject in &self.servers {
            all.extend(self.contender_of(report, cases, &subject.name, subject, persistence)?);
        }
        Ok(all)
    }

    /// Starts one, unless it is a peer that cannot.
    pub fn contender_of(
        &self,
        report: &mut Report,
        cases: &[String],
        label: &str,
        subject: &Subject,
        persistence: Persistence,
    ) -> Result<Option<Contender>> {
        let plan = self.plan_of(subject, persistence);
        let started = plan.and_then(|(plan, dir)| self.contender(label, plan, dir));
        let all = || cases.iter().map(|case| format!("{case}, {label}")).collect::<Vec<_>>();
        report.forgive_all(subject.is_peer(), all, started)
    }

    /// Starts a server as planned.
    pub fn contender(&self, label: &str, plan: Plan, dir: TempDir) -> Result<Contender> {
        let server = plan.start()?;
        let version = server.version()?;
        Ok(Contender { label: label.to_owned(), version, server, dir })
    }

    /// Runs a closed loop on the generator's core. Returns requests a second.
    pub fn saturation(&self, server: &Server, connections: usize, mix: Mix, until: Until) -> Result<f64> {
        let group = Group { name: "closed", connections, pace: Pace::Closed { pipeline: 1 }, mix };
        let load = Load::new(server.address(), vec![group], until, self.seed);
        let _pinned = Pinned::to(&self.load_cores)?;
        let _preferred = Preferred::ask();
        Ok(load.run(|_| ())?.check()?.rate())
    }
}

/// Sends this many requests over 8 connections, as fast as possible, with a progress bar.
pub fn fill(server: &Server, what: &str, requests: u64, mix: Mix, seed: u64) -> Result<LoadResult> {
    let bar = progress(requests, what);
    let result = send(server, requests, mix, seed, 64, |answered| bar.set_position(answered));
    bar.finish_and_clear();
    result
}

/// The same without a progress bar, in smaller batches.
pub fn fill_silently(server: &Server, requests: u64, mix: Mix, seed: u64) -> Result<()> {
    send(server, requests, mix, seed, 32, |_| ()).map(|_| ())
}

fn send(
    server: &Server,
    requests: u64,
    mix: Mix,
    seed: u64,
    pipeline: u32,
    tick: impl FnMut(u64),
) -> Result<LoadResult> {
    let group = Group { name: "fill", connections: 8, pace: Pace::Closed { pipeline }, mix };
    Load::new(server.address(), vec![group], Until::Requests(requests), seed).run(tick)?.check()
}

/// A progress bar with the time left; hidden where the standard error is no terminal.
pub fn progress(steps: u64, what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:<34} {wide_bar} {human_pos}/{human_len} {eta:>4}")
        .expect("the template is valid");
    ProgressBar::new(steps).with_style(style).with_message(what.to_owned())
}

/// True if something is among those that are asked for; if none is, all are.
pub fn is_asked<T: PartialEq>(asked: &[T], one: &T) -> bool {
    asked.is_empty() || asked.contains(one)
}

fn find_servers(options: &Options) -> Result<Vec<Subject>> {
    let mut servers = Vec::new();
    let asked = |product| is_asked(&options.servers, &product);
    if asked(Product::Tarn) {
        let binary = options.tarn.clone().map_or_else(|| program_beside("tarn"), Ok)?;
        servers.push(Subject::new(Product::Tarn, &binary));
    }
    if asked(Product::RedisServer) {
        match options.redis_server.clone().or_else(|| on_path("redis-server")) {
            Some(path) => servers.push(Subject::new(Product::RedisServer, &path)),
            None if options.servers.is_empty() => {
                let alone = if options.peers.is_empty() { ": there is nothing to compare with" } else { "" };
                tell!("redis-server is not on the PATH{alone}");
            }
            None => return Err(LabError::Arguments("redis-server is not on the PATH".to_owned())),
        }
    }
    for text in &options.peers {
        let peer = peer(text)?;
        if servers.iter().any(|own| own.name == peer.name) {
            return Err(LabError::Arguments(format!("--peer {text}: {} is there twice", peer.name)));
        }
        servers.push(peer);
    }
    Ok(servers)
}

/// A program in the directory of this one.
pub fn program_beside(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().doing(|| "find the directory of this program".to_owned())?;
    let program = own.with_file_name(name);
    if program.is_file() {
        return Ok(program);
    }
    let missing = program.display();
    Err(LabError::Arguments(format!(
        "{missing} is missing: build it with cargo build --release, or use --{name}"
    )))
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    fn options() -> Options {
        let command = Options::augment_args(clap::Command::new("memory")).get_matches_from(["memory"]);
        Options::from_arg_matches(&command).expect("there are defaults")
    }

    #[test]
    fn a_thread_apart_does_not_share_the_generators_core() {
        let setting = Setting::of(Vec::new(), options()).expect("there is a directory");
        let of = |server: &[usize], load| {
            let (server_cores, load_cores) = (server.to_vec(), vec![load]);
            Setting { server_cores, load_cores, ..setting.clone() }.cores_apart()
        };
        assert_eq!(of(&[0, 1, 2], 2), [0, 1]);
        assert_eq!(of(&[0, 1], 3), [0, 1]);
        // A machine of one core.
        assert_eq!(of(&[0], 0), [0]);
    }

    #[test]
    fn a_log_that_a_server_does_not_have_is_left_out() {
        let options = options();
        let peer = PeerName::from("tarantool").ok();
        let name = "tarantool".to_owned();
        let own = Subject::new(Product::RedisServer, "/bin/sh".as_ref());
        let own = Subject { name, peer, dialect: Dialect::Tarantool, ..own };
        let setting = Setting::of(vec![own.clone()], options).expect("there is a directory");
        assert!(setting.plan_of(&own, Persistence::Always).is_ok());
        match setting.plan_of(&own, Persistence::Everysec) {
            Err(LabError::LeftOut { why, failed: false }) => {
                assert_eq!(why, "tarantool has no log like everysec");
            }
            other => panic!("{other:?}"),
        }
    }
}
