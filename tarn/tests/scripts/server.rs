//! Starts a server of either kind on a free loopback port with an empty folder of its own, and kills it at
//! the end.

use crate::client::Client;
use crate::reply::Reply;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server that does not answer by then will not.
const START_LIMIT: Duration = Duration::from_secs(120);

/// Another process may take the free port before the server does; then another one is tried.
const START_TRIES: usize = 5;

/// Whose server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The binary that was built for this test.
    Tarn,
    /// `redis-server` from the `PATH`.
    Redis,
}

impl Kind {
    /// As in the names of the tests.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Tarn => "tarn",
            Kind::Redis => "redis",
        }
    }

    /// True if its program can be started.
    pub(crate) fn is_installed(self) -> bool {
        let mut command = self.program();
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    fn program(self) -> Command {
        match self {
            Kind::Tarn => Command::new(env!("CARGO_BIN_EXE_tarn")),
            Kind::Redis => Command::new("redis-server"),
        }
    }

    fn start_command(self) -> Command {
        let mut command = self.program();
        if self == Kind::Tarn {
            command.args(["serve", "--sql-port", "0"]);
        } else {
            command.args(["--appendonly", "no"]);
        }
        command
    }
}

/// A running server; dropping it kills it.
pub(crate) struct Server {
    child: Child,
    address: String,
    _folder: TempDir,
}

impl Server {
    /// Starts one and waits until it answers.
    pub(crate) fn start(kind: Kind) -> Result<Server, String> {
        let mut problem = String::new();
        for _ in 0..START_TRIES {
            match Server::try_start(kind) {
                Ok(server) => return Ok(server),
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    fn try_start(kind: Kind) -> Result<Server, String> {
        let shown = |error: std::io::Error| error.to_string();
        let folder = tempfile::tempdir().map_err(shown)?;
        let log_path = folder.path().join("output");
        let log = File::create(&log_path).map_err(shown)?;
        let port = tarn_lab::server::free_port().map_err(|error| error.to_string())?;
        let mut command = kind.start_command();
        command.args([
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--loglevel",
            "warning",
            "--enable-debug-command",
            "yes",
        ]);
        command.arg("--dir").arg(folder.path());
        command.stdin(Stdio::null()).stderr(log.try_clone().map_err(shown)?).stdout(log);
        let child = command.spawn().map_err(|error| format!("{} does not start: {error}", kind.name()))?;
        let mut server = Server { child, address: format!("127.0.0.1:{port}"), _folder: folder };
        let started = Instant::now();
        while !server.answers() {
            let ended = server.child.try_wait().map_err(shown)?;
            if ended.is_some() || started.elapsed() > START_LIMIT {
                let output = std::fs::read_to_string(&log_path).unwrap_or_default();
                let what =
                    ended.map_or("does not answer".to_owned(), |status| format!("ended with {status}"));
                return Err(format!("{} {what} after start:\n{output}", kind.name()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// True if this server answers, and not another one that was quicker to take the port.
    fn answers(&self) -> bool {
        let Ok(mut client) = Client::connect(&self.address) else { return false };
        let is_ours = |reply: Reply| match reply {
            Reply::Bulk(info) => {
                let number = format!("process_id:{}\r\n", self.child.id());
                String::from_utf8_lossy(&info).contains(&number)
            }
            _ => false,
        };
        let pong = client.ask(&["PING"]).is_ok_and(|reply| reply == Reply::Simple("PONG".to_owned()));
        pong && client.ask(&["INFO", "server"]).is_ok_and(is_ours)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, as after SHUTDOWN.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
