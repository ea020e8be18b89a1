//! Starts a real `redis-server`, for tests that compare replies with it.

use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{Client, Connection, eventually, free_port};

/// A `redis-server` without data, in a folder of its own. It ends with this value.
pub(crate) struct Redis {
    child: Child,
    pub port: u16,
    _folder: TempDir,
}

impl Redis {
    /// `None` where none is installed.
    pub(crate) fn start() -> Option<Redis> {
        Redis::start_on(tempfile::tempdir().unwrap())
    }

    /// With the `dump.rdb` of this folder; `None` where none is installed.
    pub(crate) fn start_on(folder: TempDir) -> Option<Redis> {
        let port = free_port();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--save", "", "--enable-debug-command", "yes", "--dir"]);
        command.arg(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().ok()?;
        let redis = Redis { child, port, _folder: folder };
        eventually(|| redis.connect().try_ask("PING").filter(|reply| reply == "+PONG"));
        Some(redis)
    }

    pub(crate) fn connect(&self) -> Connection {
        Client::tcp("127.0.0.1", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
