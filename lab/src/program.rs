//! Runs a program that may be ended in the midst.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, sleep};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::{IoContext, LabError, Result};
use crate::interrupt;

/// The interval between two looks at the program.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Runs a program to its end, or until somebody pressed Ctrl-C: then it is killed, with all that it has
/// started. It has a group of its own, so that a terminal does not send it signals. Returns its output; fails
/// with its words if it ends without success. `what` names it.
pub(crate) fn output_unless_asked(command: &mut Command, what: &str) -> Result<Vec<u8>> {
    output_until(interrupt::asked, command, what)
}

fn output_until(is_over: impl Fn() -> bool, command: &mut Command, what: &str) -> Result<Vec<u8>> {
    let name = command.get_program().display().to_string();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().doing(|| format!("run {name}"))?;
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    let (status, output, words) = thread::scope(|scope| {
        // A program waits for a reader of both.
        let output = scope.spawn(|| read_all(stdout.as_mut()));
        let words = scope.spawn(|| read_all(stderr.as_mut()));
        let status = wait_until(is_over, &mut child);
        let [output, words] = [output, words].map(|own| own.join().expect("reading does not panic"));
        (status, output, words)
    });
    let Some(status) = status.doing(|| format!("wait for {name}"))? else {
        return Err(LabError::Interrupted);
    };
    let (output, words) = (output.doing(|| format!("read from {name}"))?, words.unwrap_or_default());
    if !status.success() {
        let words = String::from_utf8_lossy(&words).trim().to_owned();
        return Err(LabError::Program { what: what.to_owned(), status, words });
    }
    Ok(output)
}

fn read_all(from: Option<&mut impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.map_or(Ok(0), |from| from.read_to_end(&mut bytes)).map(|_| bytes)
}

/// Waits for the end of a child, whose group is its own. Kills it as soon as it is to end: `None`.
fn wait_until(is_over: impl Fn() -> bool, child: &mut Child) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if is_over() {
            // Its own children keep its output open. Nobody has waited for it yet, so that the number is its.
            let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
            return child.wait().map(|_| None);
        }
        sleep(LOOK_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn a_program_is_ended_with_those_that_it_has_started() {
        let dir = tempfile::tempdir().unwrap();
        let begun = dir.path().join("begun");
        // Both would never end, and the second keeps the output open.
        let script = format!("sleep 1000000 & echo > {}; wait", begun.display());
        let ended = output_until(|| begun.exists(), &mut shell(&script), "a shell");
        assert!(matches!(ended, Err(LabError::Interrupted)), "{ended:?}");
    }

    #[test]
    fn a_program_that_ends_has_its_output_or_its_words() {
        // More than a pipe takes, on both.
        let long = "head -c 200000 /dev/zero; head -c 200000 /dev/zero >&2";
        let output = output_until(|| false, &mut shell(long), "a shell").unwrap();
        assert_eq!(output.len(), 200_000);
        let failed = output_until(|| false, &mut shell("echo no >&2; exit 3"), "a shell");
        assert!(matches!(failed, Err(LabError::Program { words, .. }) if words == "no"));
    }
}
