//! Passwords among the arguments of `tarn serve`: every user of the machine can list them, so the program
//! runs itself again without them, in the same process. They are in a file in memory meanwhile, which is
//! emptied.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use tarn_server::config::{Secrets, take_secrets};

/// In the environment of the program when it runs again: the descriptor of the file.
const MARK: &str = "TARN_SECRETS_FD";
const NAME: &str = "tarn-secrets";

/// Runs the program again if there are passwords among `args`, those after `serve`; then it does not return.
pub(crate) fn hide(args: &[OsString]) {
    if std::env::var_os(MARK).is_some() {
        return;
    }
    let Some(secrets) = take_secrets(args) else { return };
    let error = match run_again(&secrets) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    eprintln!("tarn: warning: a password on the command line stays visible to others: {error}");
}

fn run_again(Secrets { args, lines }: &Secrets) -> io::Result<std::convert::Infallible> {
    // Not closed when the program runs again.
    let file = File::from(rustix::fs::memfd_create(NAME, rustix::fs::MemfdFlags::empty())?);
    (&file).write_all(lines)?;
    let name = std::env::args_os().next().unwrap_or_else(|| OsString::from("tarn"));
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0(name).arg("serve").args(args).env(MARK, file.as_raw_fd().to_string());
    Err(command.exec())
}

/// The file, if this is the program that runs again.
fn file() -> Option<PathBuf> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", std::env::var(MARK).ok()?.parse::<u32>().ok()?));
    let target = std::fs::read_link(&path).ok()?;
    target.to_str()?.starts_with(&format!("/memfd:{NAME}")).then_some(path)
}

/// The passwords, as lines of a configuration.
pub(crate) fn take() -> io::Result<Vec<u8>> {
    file().map_or(Ok(Vec::new()), std::fs::read)
}

/// Empties the file. To be called when no other process is to read it.
pub(crate) fn forget() {
    if let Some(path) = file()
        && let Err(error) = File::options().write(true).truncate(true).open(path)
    {
        eprintln!("tarn: warning: a password stays in memory: {error}");
    }
}
