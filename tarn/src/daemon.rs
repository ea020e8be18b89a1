//! `daemonize yes`: the server is a child process; the process that was started waits until it serves.
//!
//! ```text
//!   started:  run the program again ── pass on what it says ──────────────── READY, or its end ── exit
//!   child:    a session of its own ── prepare ── listen ── say READY, standard error to /dev/null ── serve
//! ```

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, parent_id};
use std::process::{Command, ExitCode, Stdio};

/// In the child's environment: the process that has started it.
const MARK: &str = "TARN_DAEMON_OF";
/// The child's last byte on standard error: clients can connect.
const READY: u8 = 0x06;

/// True if this process is the one that runs in the background.
pub(crate) fn is_child() -> bool {
    std::env::var(MARK).is_ok_and(|process| process == parent_id().to_string())
}

/// Starts the server in the background, and waits until clients can connect to it or it has failed.
pub(crate) fn start() -> ExitCode {
    let run = || -> io::Result<bool> {
        let mut args = std::env::args_os();
        let name = args.next().unwrap_or_else(|| OsString::from("tarn"));
        let mut child = Command::new(std::env::current_exe()?)
            .arg0(name)
            .args(args)
            .env(MARK, std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let is_ready = match child.stderr.take() {
            Some(said) => pass_on(said)?,
            None => false,
        };
        if !is_ready {
            child.wait()?;
        }
        Ok(is_ready)
    };
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        // It has said why.
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tarn: cannot go to the background: {error}; use 'daemonize no'");
            ExitCode::FAILURE
        }
    }
}

/// Passes on the output of the child, to its end; returns whether it is ready then.
fn pass_on(mut said: impl Read) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    loop {
        let len = said.read(&mut buffer)?;
        let text = &buffer[..len];
        // Another thread may have written something right after it.
        let is_ready = text.contains(&READY);
        // Somebody who does not listen has nothing to do with the start.
        for text in text.split(|byte| *byte == READY) {
            let _ = io::stderr().write_all(text);
        }
        if is_ready || len == 0 {
            return Ok(is_ready);
        }
    }
}

/// Leaves the terminal and the session of the parent process. The child calls this first.
pub(crate) fn begin() {
    // It fails only for a process that leads a session already.
    let _ = rustix::process::setsid();
}

/// Reports to the parent process that clients can connect. The child calls this once.
pub(crate) fn ready() {
    let nowhere = File::options().write(true).open("/dev/null");
    // The one who waits may have been ended meanwhile.
    let _ = io::stderr().write_all(&[READY]);
    if let Ok(nowhere) = nowhere {
        let _ = rustix::stdio::dup2_stderr(&nowhere);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_byte_says_whether_the_server_is_ready() {
        assert!(pass_on(&[b'a', READY][..]).is_ok_and(|ready| ready));
        assert!(pass_on(&b"it failed\n"[..]).is_ok_and(|ready| !ready));
        assert!(pass_on(&b""[..]).is_ok_and(|ready| !ready));
    }
}
