//! Starts programs and reads their output as it comes, to count the tests they ran.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Tests, or checks that count as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// The number of tests that passed.
    pub passed: u64,
    /// The number of tests that failed.
    pub failed: u64,
}

impl Count {
    /// One check with this outcome.
    pub(crate) fn of_one(is_good: bool) -> Count {
        Count { passed: u64::from(is_good), failed: u64::from(!is_good) }
    }

    /// Both together.
    pub(crate) fn and(self, other: Count) -> Count {
        Count { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }
}

/// Variables that every program finds in its environment, besides those of this process.
static ENVIRONMENT: OnceLock<Vec<(&str, OsString)>> = OnceLock::new();

/// Lets all programs that are run from now on find these variables in their environment; to be called once.
pub(crate) fn set_environment(variables: Vec<(&'static str, OsString)>) {
    ENVIRONMENT.set(variables).expect("the environment is set once");
}

/// A program with its arguments, to be run in `root`.
pub(crate) fn command(root: &Path, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root).args(arguments).stdin(Stdio::null());
    command.envs(ENVIRONMENT.get().into_iter().flatten().map(|(name, value)| (name, value)));
    command
}

/// Runs a program that is one check.
pub(crate) fn check(command: &mut Command) -> Count {
    match command.status() {
        Ok(status) => Count::of_one(status.success()),
        Err(error) => {
            println!("{} does not start: {error}", command.get_program().display());
            Count::of_one(false)
        }
    }
}

/// Runs a test runner and counts its tests by its closing lines. One that fails without naming a failed test
/// counts as one failure, and so does one that succeeds without having run any.
pub(crate) fn tests(command: &mut Command) -> Count {
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("{} does not start: {error}", command.get_program().display());
            return Count::of_one(false);
        }
    };
    let output = child.stdout.take().expect("its output is piped");
    let mut count = Count::default();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        println!("{line}");
        count = count.and(count_in(&line).unwrap_or_default());
    }
    let _ = std::io::stdout().flush();
    let is_good = child.wait().is_ok_and(|status| status.success());
    if count.failed == 0 && (!is_good || count.passed == 0) { count.and(Count::of_one(false)) } else { count }
}

/// The counts in a closing line of a test runner: `cargo test`, pytest, and go's lines for single tests,
/// without the parts that are set in.
fn count_in(line: &str) -> Option<Count> {
    let has_passed = line.starts_with("--- PASS:");
    if has_passed || line.starts_with("--- FAIL:") {
        return Some(Count::of_one(has_passed));
    }
    let is_closing = line.starts_with("test result: ") || (line.starts_with('=') && line.ends_with('='));
    if !is_closing {
        return None;
    }
    let words: Vec<&str> = line.split([' ', ',', ';', '.', '=']).filter(|word| !word.is_empty()).collect();
    let before = |wanted: &[&str]| {
        let found = words.windows(2).filter(|pair| wanted.contains(&pair[1]));
        found.filter_map(|pair| pair[0].parse::<u64>().ok()).sum::<u64>()
    };
    Some(Count { passed: before(&["passed"]), failed: before(&["failed", "error", "errors"]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_the_runners_are_counted() {
        let count = |line| count_in(line).map(|count| (count.passed, count.failed));
        assert_eq!(count("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured"), Some((12, 0)));
        assert_eq!(count("test result: FAILED. 2 passed; 3 failed; 0 ignored"), Some((2, 3)));
        assert_eq!(count("==== 5 passed in 1.20s ===="), Some((5, 0)));
        assert_eq!(count("==== 1 failed, 5 passed, 2 errors in 1.20s ===="), Some((5, 3)));
        assert_eq!(count("--- PASS: TestStrings (0.00s)"), Some((1, 0)));
        assert_eq!(count("--- FAIL: TestStrings (0.00s)"), Some((0, 1)));
        assert_eq!(count("    --- FAIL: TestStrings/get (0.00s)"), None);
        assert_eq!(count("the 3 passed by"), None);
    }

    #[test]
    fn a_runner_without_tests_counts_as_a_failure() {
        let here = Path::new(".");
        assert_eq!(tests(&mut command(here, "true", &[])), Count { passed: 0, failed: 1 });
        assert_eq!(tests(&mut command(here, "false", &[])), Count { passed: 0, failed: 1 });
        assert_eq!(tests(&mut command(here, "no-such-program", &[])), Count { passed: 0, failed: 1 });
        let one = "test result: ok. 1 passed; 0 failed";
        assert_eq!(tests(&mut command(here, "echo", &[one])), Count { passed: 1, failed: 0 });
    }
}
