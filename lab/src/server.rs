//! A server under study: started as a child process, waited for, measured, stopped, killed, started again.
//!
//! A [`Plan`] says how to start a server (subject, directives, directory, cores); a [`Server`] is a running
//! one. Dropping a `Server` kills it, so no server survives an experiment.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrayvec::ArrayString;
use rand::Rng;
use rustix::process::{Pid, Signal, kill_process};
use socket2::{Domain, Protocol, Socket, Type};

use crate::dialect::Dialect;
use crate::error::{IoContext, LabError, Result};
use crate::interrupt::{self, wait_for};
use crate::process::{self, Memory, Pinned};
use tarn_resp::client::{self, Client};

/// The longest that a server may take for anything before an experiment gives up.
const PATIENCE: Duration = Duration::from_secs(600);
/// A server of many gigabytes whose connections broke may take this time to end.
const DEATH_PATIENCE: Duration = Duration::from_secs(5);
/// The interval between two questions to a server that is starting.
const ASK_AGAIN: Duration = Duration::from_millis(2);

named! {
    /// The kind of a server: which directives and fields of `INFO` it has.
    pub enum Product {
        /// Our own.
        Tarn = "tarn",
        /// The real `redis-server`, where one is installed, or a peer with the same directives.
        #[value(alias = "redis")]
        RedisServer = "redis-server",
    }
}

named! {
    /// The treatment of a write by the log of a server before the reply leaves.
    pub enum Persistence {
        /// No log at all: `appendonly no`.
        None = "none",
        /// `appendfsync no`
        No = "no",
        /// `appendfsync everysec`
        Everysec = "everysec",
        /// `appendfsync always`
        Always = "always",
    }
}

impl Persistence {
    /// The value of `appendfsync`, if there is a log.
    fn fsync(self) -> Option<&'static str> {
        (self != Persistence::None).then(|| self.name())
    }
}

/// True if a server with this name is a peer: it is that of no product.
pub fn is_peer(name: &str) -> bool {
    Product::ALL.iter().all(|product| product.name() != name)
}

/// The name of a peer, which is a part of cells.
pub type PeerName = ArrayString<32>;

/// A server under study.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The name that tables and JSON lines use. A peer has one of its own, others that of their product.
    pub name: String,
    /// The product.
    pub product: Product,
    /// The name of a peer.
    pub peer: Option<PeerName>,
    /// The way in which it is started.
    pub dialect: Dialect,
    /// True if a child process takes its checkpoints, unless a directive says otherwise.
    pub forks: bool,
    /// Its executable.
    pub binary: PathBuf,
    /// Arguments that come before those of a plan.
    pub arguments: Vec<String>,
}

impl Subject {
    /// The server of a product.
    pub fn new(product: Product, binary: &Path) -> Subject {
        Subject {
            name: product.name().to_owned(),
            product,
            peer: None,
            dialect: Dialect::Redis,
            forks: product == Product::RedisServer,
            binary: binary.to_owned(),
            arguments: Vec::new(),
        }
    }

    /// True if it is neither ours nor `redis-server`.
    pub fn is_peer(&self) -> bool {
        self.peer.is_some()
    }

    /// True if it can treat a write so.
    pub fn has_log(&self, persistence: Persistence) -> bool {
        self.dialect.has_log(persistence.fsync())
    }
}

/// The description of a server to start.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server.
    pub subject: Subject,
    /// Its data directory, which must exist.
    pub dir: PathBuf,
    /// The cores that it may use; empty: all.
    pub cores: Vec<usize>,
    /// The treatment of a write by its log.
    pub persistence: Persistence,
    /// Worker threads. Only Tarn understands more than one.
    pub threads: usize,
    /// Directories of the log. Only Tarn understands more than one; empty: its own choice under `dir`.
    pub log_dirs: Vec<PathBuf>,
    /// True if the log is kept short while the server runs. Only Tarn gets this directive.
    pub compacts: bool,
    /// The port where it speaks PostgreSQL's protocol; 0: none, and it has no SQL. Only Tarn gets this
    /// directive.
    pub sql_port: u16,
    /// More directives, each with its value, for a server that knows those of Redis.
    pub directives: Vec<(&'static str, String)>,
}

impl Plan {
    /// A server with one worker, no log, on any core.
    pub fn new(subject: Subject, dir: &Path) -> Plan {
        Plan {
            subject,
            dir: dir.to_owned(),
            cores: Vec::new(),
            persistence: Persistence::None,
            threads: 1,
            log_dirs: Vec::new(),
            compacts: false,
            sql_port: 0,
            directives: Vec::new(),
        }
    }

    /// The command line after the executable's name.
    fn arguments(&self, port: u16) -> Vec<String> {
        if self.subject.dialect != Dialect::Redis {
            let fsync = self.persistence.fsync();
            return self.subject.dialect.arguments(port, &self.dir, self.threads, fsync);
        }
        let place = [("port", port.to_string()), ("bind", "127.0.0.1".to_owned())];
        let place = place.map(|(name, value)| (name, vec![value])).into_iter();
        let place = place.chain([("dir", vec![self.dir.to_string_lossy().into_owned()])]);
        let mut words: Vec<String> = Vec::new();
        for (directive, values) in place.chain(self.told()) {
            words.push(format!("--{directive}"));
            words.extend(values);
        }
        if self.subject.product == Product::Tarn {
            let port = self.sql_port.to_string();
            words.splice(0..0, ["serve", "--sql-port", &port].map(str::to_owned));
        }
        words
    }

    /// The directives that say how a server that knows those of Redis works, each with its values, in order:
    /// of two with one name the last counts. Its place is not among them.
    pub fn told(&self) -> Vec<(&'static str, Vec<String>)> {
        let mut told: Vec<(&'static str, Vec<String>)> = Vec::new();
        let mut push = |directive, values: &[&str]| {
            told.push((directive, values.iter().map(|&value| value.to_owned()).collect()));
        };
        push("save", &[""]);
        match self.persistence.fsync() {
            None => push("appendonly", &["no"]),
            Some(fsync) => {
                push("appendonly", &["yes"]);
                push("appendfsync", &[fsync]);
            }
        }
        match self.subject.product {
            Product::Tarn => {
                push("threads", &[&self.threads.to_string()]);
                if !self.compacts {
                    push("log-compaction", &["none"]);
                }
                if !self.log_dirs.is_empty() {
                    let dirs: Vec<_> = self.log_dirs.iter().map(|dir| dir.to_string_lossy()).collect();
                    push("log-dir", &dirs.iter().map(|dir| &**dir).collect::<Vec<_>>());
                }
            }
            Product::RedisServer => {
                // A pure log, as ours is: neither rewritten under the measurement nor begun with a snapshot.
                push("aof-use-rdb-preamble", &["no"]);
                push("auto-aof-rewrite-percentage", &["0"]);
            }
        }
        for (directive, value) in &self.directives {
            push(directive, &[value.as_str()]);
        }
        told
    }

    fn output_path(&self) -> PathBuf {
        self.dir.join(format!("{}.output", self.subject.name))
    }

    /// Starts the server on a free port and waits until it answers.
    pub fn start(&self) -> Result<Server> {
        let mut server = self.launch()?;
        server.wait_until_ready(PATIENCE)?;
        Ok(server)
    }

    /// Starts the server on a free port and returns at once.
    pub fn launch(&self) -> Result<Server> {
        let port = free_port()?;
        let path = self.output_path();
        if let Some((name, text)) = self.subject.dialect.file(port, &self.dir, self.threads) {
            let path = self.dir.join(name);
            fs::write(&path, text).at(&path)?;
        }
        let output = OpenOptions::new().create(true).append(true).open(&path).at(&path)?;
        let errors: File = output.try_clone().at(path)?;
        // The child inherits the cores of the thread that starts it, from its first instruction on.
        let pinned = Pinned::to(&self.cores)?;
        let child = Command::new(&self.subject.binary)
            .args(&self.subject.arguments)
            .args(self.arguments(port))
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .doing(|| format!("start {}", self.subject.binary.display()))?;
        drop(pinned);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Server { plan: self.clone(), child, address, launched: Instant::now(), is_killed: false })
    }
}

/// A port on the loopback interface on which no process listens at this moment, and that was not given
/// before, by this process or by another one that runs: otherwise a server that is slow to listen could find
/// another there. Each port has a file among the temporary ones, which is locked as long as the process runs;
/// where another user has made it, nobody can lock it, and the port is given all the same.
/// It lies below the range from which the system takes the ports of outgoing connections, and of processes
/// that listen anywhere, so that none of these gets it meanwhile.
pub fn free_port() -> Result<u16> {
    static GIVEN: Mutex<BTreeMap<u16, Option<File>>> = Mutex::new(BTreeMap::new());
    let dir = std::env::temp_dir().join("tarn-ports");
    let _ = fs::create_dir_all(&dir);
    let mut rng = rand::rng();
    let mut last = None;
    for _ in 0..100 {
        let port = rng.random_range(20_000..32_000);
        let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        let Entry::Vacant(place) = given.entry(port) else { continue };
        let file = File::create(dir.join(port.to_string())).ok();
        if file.as_ref().is_some_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock))) {
            continue;
        }
        // Only now: the port of another process may have its server in a moment, of which a client would find
        // this listener, and lose its connection with it.
        match bind(port) {
            Ok(()) => {
                place.insert(file);
                return Ok(port);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into())).doing(|| "look for a free port".to_owned())
}

/// Binds a port, but does not listen: a child that another thread forks at this moment has the socket until
/// it executes its program, and a client would find a listener that goes away.
fn bind(port: u16) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    // As servers do: the socket in that child is then not in their way.
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())
}

/// A section of `INFO`: lines like `name:value`.
pub struct Info(String);

impl Info {
    /// Asks a server for a section.
    pub fn read(client: &mut Client, section: &str) -> Result<Info> {
        Ok(Info(client::text(&client.call(&["INFO", section])?)?))
    }

    /// The value of a name.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    }

    /// The value as a number.
    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.trim().parse().ok()
    }
}

/// A server that was started. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    /// The plan with which it was started.
    pub plan: Plan,
    child: Child,
    address: SocketAddr,
    launched: Instant,
    /// True once the laboratory has killed it.
    is_killed: bool,
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A new connection to it.
    pub fn client(&self) -> Result<Client> {
        Ok(Client::connect(self.address, PATIENCE)?)
    }

    /// Waits until `PING` is answered with `PONG`, which it is not while data are being loaded. Returns the
    /// time since the launch.
    pub fn wait_until_ready(&mut self, patience: Duration) -> Result<Duration> {
        let mut connection: Option<Client> = None;
        let took = wait_for(ASK_AGAIN, patience, || {
            if connection.is_none() {
                connection = Client::connect(self.address, Duration::from_secs(5)).ok();
            }
            let reply = connection.as_mut().and_then(|client| client.ask(&["PING"]).ok());
            let elapsed = self.launched.elapsed();
            match reply {
                Some(reply) if reply.as_bytes() == Some(b"PONG") => return Ok(Some(elapsed)),
                Some(reply) if reply.as_error().is_some_and(|text| text.starts_with(b"LOADING")) => {}
                Some(other) => return Err(self.complaint(format!("answered PING with {other}"))),
                None => connection = None,
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                interrupt::check()?;
                return Err(self.complaint(format!("ended while starting ({status})")));
            }
            Ok(None)
        })?;
        took.ok_or_else(|| self.complaint(format!("did not become ready in {} s", patience.as_secs())))
    }

    /// The version that `INFO` reports, or `unknown`.
    pub fn version(&self) -> Result<String> {
        let info = Info::read(&mut self.client()?, "server")?;
        let names = ["tarn_version", "valkey_version", "tarantool_version", "redis_version"];
        let own = names.iter().find_map(|name| info.text(name));
        Ok(own.unwrap_or("unknown").to_owned())
    }

    /// A number that `INFO` reports in one of its sections; `None` if it does not.
    pub fn info_number(&self, section: &str, name: &str) -> Result<Option<u64>> {
        Ok(Info::read(&mut self.client()?, section)?.number(name))
    }

    /// The number of keys in database 0.
    pub fn key_count(&self) -> Result<u64> {
        Ok(client::integer(&self.client()?.call(&["DBSIZE"])?)?.unsigned_abs())
    }

    /// Its memory now.
    pub fn memory(&self) -> Result<Memory> {
        process::memory(self.pid())
    }

    /// The processor time that it has used so far.
    pub fn cpu_time(&self) -> Result<Duration> {
        process::cpu_time(self.pid())
    }

    /// Asks it to end (`SIGTERM`), waits, and fails unless it ends with success.
    pub fn stop(mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        match self.end_within(PATIENCE) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.complaint(format!("ended with {status} after SIGTERM"))),
            None => Err(self.complaint("did not end after SIGTERM".to_owned())),
        }
    }

    /// Kills it with `SIGKILL` and waits for its end. Returns the moment just before the signal, and its exit
    /// status.
    pub fn kill(&mut self) -> Result<(Instant, ExitStatus)> {
        let moment = Instant::now();
        self.signal(Signal::KILL)?;
        self.is_killed = true;
        let status = self.child.wait().doing(|| "wait for the killed server".to_owned())?;
        Ok((moment, status))
    }

    /// As [`kill`](Server::kill) of a server that may have ended by itself, as it found no disk.
    pub fn kill_unless_ended(&mut self) -> Result<()> {
        if let Ok(Some(_)) = self.child.try_wait() {
            return Ok(());
        }
        self.kill().map(|_| ())
    }

    /// Its exit status, if it ended by itself or is about to: not by [`kill`](Server::kill).
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.is_killed { None } else { self.end_within(DEATH_PATIENCE) }
    }

    fn end_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            let status = self.child.try_wait().ok().flatten();
            if status.is_some() || begun.elapsed() > patience {
                return status;
            }
            std::thread::sleep(ASK_AGAIN);
        }
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        // The child has not been waited for, so its number is still its own.
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(self.complaint(format!("had ended by itself ({status})")));
        }
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).doing(|| "signal the server".to_owned())
    }

    /// The last lines that it printed.
    pub fn last_words(&self) -> Vec<String> {
        let text = fs::read(self.plan.output_path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut lines: Vec<_> = text.lines().rev().take(8).map(str::to_owned).collect();
        lines.reverse();
        lines
    }

    /// An error that quotes the server's last words.
    pub fn complaint(&self, what: String) -> LabError {
        let log = self.last_words().iter().map(|line| format!("\n    {line}")).collect();
        LabError::Server { server: self.plan.subject.name.clone(), what, log }
    }

    /// Releases the process from the laboratory: it continues when the laboratory ends.
    pub fn release(self) -> u32 {
        let pid = self.pid();
        // Forgetting leaks a few hundred bytes once, at the end of a process.
        std::mem::forget(self);
        pid
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
