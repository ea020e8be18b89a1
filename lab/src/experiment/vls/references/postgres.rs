//! PostgreSQL with the same records, where it is installed: a cluster in a directory of its own, which is
//! removed afterwards. It does not run as root, so root runs it as another user.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::super::cell::{Cell, Reference};
use super::{check, columns, queries};
use crate::error::{IoContext, LabError, Result};
use crate::interrupt::wait_for;
use crate::process::output_of;
use crate::server::free_port;
use crate::setting::{Setting, on_path};

/// The name in tables and lines.
pub(super) const NAME: &str = "postgresql, psql";
/// Where Debian has its programs, by version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The users that root may run it as.
const USERS: [&str; 2] = ["postgres", "nobody"];
const PATIENCE: Duration = Duration::from_secs(60);

/// True if it can be measured.
pub(super) fn is_there() -> bool {
    programs().is_some() && user().is_ok()
}

/// Measures it, if it is there.
pub(super) fn measure(setting: &Setting, cell: &Cell, table: &Path) -> Result<Vec<Reference>> {
    let programs = programs().ok_or_else(|| LabError::Missing("postgresql is not installed".to_owned()))?;
    let cluster = Cluster::start(setting, programs, user()?)?;
    cluster.ask(&[
        &format!("CREATE TABLE record (id text PRIMARY KEY, {})", columns("bigint", "text")),
        &format!("\\copy record FROM '{}' CSV", table.display()),
        "CREATE INDEX ON record (f0)",
        "VACUUM (ANALYZE) record",
    ])?;
    let mut references = Vec::new();
    for (name, sql, expected) in queries(cell) {
        let mut seconds = Vec::new();
        // The first one brings the table into memory.
        for turn in 0..=setting.repeats() {
            let answer = cluster.ask(&["\\timing on", &sql])?;
            let number = answer.lines().find_map(|line| line.trim().parse::<u64>().ok());
            let ms =
                answer.lines().find_map(|line| line.strip_prefix("Time: ")?.split(' ').next()?.parse().ok());
            let (Some(number), Some(ms)) = (number, ms) else { return Err(LabError::Reply(answer)) };
            check("postgresql", number, expected)?;
            let ms: f64 = ms;
            seconds.extend((turn > 0).then_some(ms / 1e3));
        }
        references.push(Reference { what: NAME.to_owned(), query: name.to_owned(), seconds });
    }
    Ok(references)
}

/// The directory of `initdb`, `postgres` and `psql`.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let mut dirs: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).collect();
    dirs.sort();
    dirs.extend(on_path("initdb").and_then(|path| Some(path.parent()?.to_owned())));
    dirs.into_iter()
        .rev()
        .find(|dir| ["initdb", "postgres", "psql"].iter().all(|name| dir.join(name).is_file()))
}

/// The numbers of a user and its group that may run it; `None` for the user of the laboratory.
fn user() -> Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let find = |name: &&str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(*name))?;
        let mut numbers = line.split(':').skip(2);
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    };
    let found = USERS.iter().find_map(find);
    let why = || format!("postgresql does not run as root, and there is none of {USERS:?}");
    found.map(Some).ok_or_else(|| LabError::Missing(why()))
}

struct Cluster {
    programs: PathBuf,
    child: Child,
    port: u16,
    user: Option<(u32, u32)>,
    /// Declared last: the server must end before its files are removed.
    dir: TempDir,
}

impl Cluster {
    fn start(setting: &Setting, programs: PathBuf, user: Option<(u32, u32)>) -> Result<Cluster> {
        let dir = setting.make_dir()?;
        if let Some((user, group)) = user {
            chown(dir.path(), Some(user), Some(group)).at(dir.path())?;
        }
        let data = dir.path().join("data");
        let mut make = as_user(&programs.join("initdb"), user, dir.path());
        make.args(["--username=lab", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"]);
        output_of(make.arg(&data), "initdb")?;
        let port = free_port()?;
        let mut serve = as_user(&programs.join("postgres"), user, dir.path());
        serve.args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-k"]).arg(dir.path());
        // One core, as the others have; all in memory.
        for set in ["fsync=off", "jit=off", "max_parallel_workers_per_gather=0", "shared_buffers=1GB"] {
            serve.args(["-c", set]);
        }
        let child = serve.arg("-D").arg(&data).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.doing(|| "start postgres".to_owned())?;
        let cluster = Cluster { programs, child, port, user, dir };
        wait_for(Duration::from_millis(50), PATIENCE, || Ok(cluster.ask(&["SELECT 1"]).ok()))?
            .ok_or_else(|| LabError::Arguments("postgresql does not become ready".to_owned()))?;
        Ok(cluster)
    }

    /// Runs statements one after the other; returns the output of `psql`.
    fn ask(&self, statements: &[&str]) -> Result<String> {
        let mut psql = as_user(&self.programs.join("psql"), self.user, self.dir.path());
        psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "lab"]);
        psql.args(["-p", &self.port.to_string(), "postgres"]);
        statements.iter().for_each(|statement| _ = psql.args(["-c", statement]));
        Ok(String::from_utf8_lossy(&output_of(&mut psql, "psql")?).into_owned())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // At once, and its children with it: its files are not needed.
        let pid = Pid::from_child(&self.child);
        let _ = kill_process(pid, Signal::QUIT);
        let _ = self.child.wait();
    }
}

fn as_user(program: &Path, user: Option<(u32, u32)>, dir: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    command.current_dir(dir).env("LC_ALL", "C").stdin(Stdio::null());
    command
}
