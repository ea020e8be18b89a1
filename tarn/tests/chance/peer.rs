//! A PostgreSQL of Debian's package in a folder of its own, for as long as a test runs.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::running::free_port;
use crate::running::postgres::Postgres;

/// The server.
pub(crate) struct Peer {
    pub port: u16,
    folder: String,
    tools: PathBuf,
}

/// The newest folder of PostgreSQL's programs.
fn tools() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions.flatten().map(|version| version.path().join("bin")).collect();
    found.retain(|tools| tools.join("initdb").exists() && tools.join("postgres").exists());
    found.sort();
    found.pop()
}

/// A command as somebody whom PostgreSQL serves: not as root.
fn command(program: &str) -> Command {
    let is_root = rustix::process::geteuid().is_root();
    let mut command = Command::new(if is_root { "runuser" } else { program });
    if is_root {
        command.args(["-u", "postgres", "--", program]);
    }
    command.current_dir("/").stdin(Stdio::null());
    command
}

fn done(output: Output, what: &str) -> Result<String, String> {
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("{what}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

impl Peer {
    /// Starts one; says why not, if not.
    pub(crate) fn start() -> Result<Peer, String> {
        let tools = tools().ok_or("PostgreSQL is not installed (apt-get install postgresql)")?;
        let run = |program: &str, args: &[&str]| {
            let path = tools.join(program);
            let program = if path.exists() { path.display().to_string() } else { program.to_owned() };
            let output = command(&program).args(args).output().map_err(|error| error.to_string())?;
            done(output, &program)
        };
        let folder = run("mktemp", &["-d"])?;
        let port = free_port();
        let peer = Peer { port, folder: folder.clone(), tools: tools.clone() };
        run(
            "initdb",
            &["-D", &folder, "--locale=C.UTF-8", "-E", "UTF8", "-A", "trust", "-U", "default", "-N"],
        )?;
        let options = format!(
            "-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -c \
             timezone=UTC \
             -c max_connections=20"
        );
        let log = format!("{folder}/log");
        // A process that it leaves running holds no pipe of this process.
        let mut start = command(&tools.join("pg_ctl").display().to_string());
        start.args(["-D", &folder, "-l", &log, "-w", "-t", "60", "-o", &options, "start"]);
        let status = start.stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !status.map_err(|error| error.to_string())?.success() {
            return Err("PostgreSQL does not start".to_owned());
        }
        run("createdb", &["-h", "127.0.0.1", "-p", &port.to_string(), "-U", "default", "tarn"])?;
        Ok(peer)
    }

    pub(crate) fn connect(&self) -> Postgres {
        Postgres::connect_with(self.port, &["TimeZone", "UTC"])
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let stop = self.tools.join("pg_ctl").display().to_string();
        let mut stop = command(&stop);
        stop.args(["-D", &self.folder, "-m", "immediate", "-w", "stop"]);
        let _ = stop.stdout(Stdio::null()).stderr(Stdio::null()).status();
        let _ = command("rm").args(["-rf", &self.folder]).status();
    }
}
