//! `tarn lab` and `tarn demo`: start the program `tarn-lab`, which is built apart from the server.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// The file name of the laboratory, in the directory of this program.
const PROGRAM: &str = "tarn-lab";

/// Replaces this process with `tarn-lab`. Returns only if that is not possible.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(own) => own.with_file_name(PROGRAM),
        Err(error) => {
            eprintln!("tarn: cannot find the directory of this program: {error}");
            return ExitCode::FAILURE;
        }
    };
    let error = Command::new(&program).args(arguments).exec();
    eprintln!("tarn: cannot start {}: {error}", program.display());
    if error.kind() == std::io::ErrorKind::NotFound {
        eprintln!("tarn: 'lab' and 'demo' are a program of their own: cargo build --release -p tarn-lab");
    }
    ExitCode::FAILURE
}
