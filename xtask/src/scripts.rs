//! `cargo xtask scripts`: runs the behaviour scripts through the test that plays them.

use crate::run::command;
use clap::Args;
use std::path::Path;
use std::process::ExitCode;

/// Arguments of `cargo xtask scripts`.
#[derive(Args)]
pub(crate) struct Scripts {
    /// Only tests with this in their names, like `tarn::lists`, `redis::` or `lists/lpos`.
    filter: Option<String>,
    /// Write the replies of redis-server into the scripts instead of comparing.
    #[arg(long, conflicts_with = "server")]
    record: bool,
    /// Play against a running server instead, whose data is lost.
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,
}

impl Scripts {
    /// Runs them as the test `scripts` of the package `tarn`.
    pub(crate) fn run(self, root: &Path) -> ExitCode {
        let mut cargo =
            command(root, "cargo", &["test", "--quiet", "--package", "tarn", "--test", "scripts", "--"]);
        cargo.args(self.filter);
        if self.record {
            cargo.env("TARN_SCRIPTS_RECORD", "1");
        }
        if let Some(server) = self.server {
            cargo.env("TARN_SCRIPTS_SERVER", server);
        }
        match cargo.status() {
            Ok(status) if status.success() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("cargo does not start: {error}");
                ExitCode::FAILURE
            }
        }
    }
}
