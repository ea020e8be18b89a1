//! Starts programs and reads their output as it comes, to count the tests they ran.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

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

/// Lines that tell why a check failed, of all that ran, to be printed once more at the end: there, what comes
/// after them does not hide them.
static FAILURES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The lines of one program that are kept for the end.
const KEPT_LINES: usize = 100;

/// The lines that tell what failed, of all programs that were run.
pub(crate) fn failures() -> Vec<String> {
    FAILURES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn keep(lines: impl IntoIterator<Item = String>) {
    FAILURES.lock().unwrap_or_else(PoisonError::into_inner).extend(lines);
}

/// A program with its arguments, to be run in `root`.
pub(crate) fn command(root: &Path, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root).args(arguments).stdin(Stdio::null());
    command.envs(ENVIRONMENT.get().into_iter().flatten().map(|(name, value)| (name, value)));
    command
}

/// A program and its arguments, for the eye.
fn shown(command: &Command) -> String {
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    let words: Vec<String> =
        std::iter::once(command.get_program().to_string_lossy().into_owned()).chain(arguments).collect();
    format!("$ {}", words.join(" "))
}

/// Runs a program that is one check.
pub(crate) fn check(command: &mut Command) -> Count {
    match command.status() {
        Ok(status) => {
            if !status.success() {
                keep([shown(command)]);
            }
            Count::of_one(status.success())
        }
        Err(error) => {
            println!("{} does not start: {error}", command.get_program().display());
            Count::of_one(false)
        }
    }
}

/// Runs a program that is one check and whose output is of use only if it fails.
pub(crate) fn check_quietly(command: &mut Command) -> Count {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("{} does not start: {error}", command.get_program().display());
            return Count::of_one(false);
        }
    };
    if !output.status.success() {
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        println!("{text}");
        let lines: Vec<&str> = text.lines().collect();
        keep([shown(command)]);
        keep(lines[lines.len().saturating_sub(KEPT_LINES)..].iter().map(|line| (*line).to_owned()));
    }
    Count::of_one(output.status.success())
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
    let mut report = Report::default();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        println!("{line}");
        count = count.and(count_in(&line).unwrap_or_default());
        report.take(line);
    }
    let _ = std::io::stdout().flush();
    let is_good = child.wait().is_ok_and(|status| status.success());
    if !is_good || count.failed > 0 {
        keep(std::iter::once(shown(command)).chain(report.lines));
    }
    if count.failed == 0 && (!is_good || count.passed == 0) { count.and(Count::of_one(false)) } else { count }
}

/// The lines of a test runner's output that tell of tests that failed.
#[derive(Default)]
struct Report {
    lines: Vec<String>,
    /// Inside of the part in which libtest or pytest prints what failed tests said.
    is_inside: bool,
    /// The lines of the present part.
    kept: usize,
}

impl Report {
    fn take(&mut self, line: String) {
        let parts = [" FAILURES ", " short test summary info "];
        let is_part = |line: &str| line.starts_with("====") && parts.iter().any(|part| line.contains(part));
        if line == "failures:" || is_part(&line) {
            (self.is_inside, self.kept) = (true, 0);
        }
        let ends = count_in(&line).is_some_and(|count| count.failed > 0);
        let tells = ["not ok ", "FAILED ", "ERROR ", "[ERROR] "];
        let is_one = ends || tells.iter().any(|start| line.trim_start().starts_with(start));
        if ends || ((is_one || self.is_inside) && self.kept < KEPT_LINES && !line.is_empty()) {
            self.kept += 1;
            self.lines.push(line);
        }
        if ends {
            self.is_inside = false;
        }
    }
}

/// The counts in a closing line of a test runner: `cargo test`, pytest, node's three lines, that of Maven's
/// Surefire, and go's lines for single tests, without the parts that are set in.
fn count_in(line: &str) -> Option<Count> {
    if let Some(count) = count_of_node(line) {
        return Some(count);
    }
    if let Some(count) = count_of_surefire(line) {
        return Some(count);
    }
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

/// Node's closing lines in TAP: `# pass 12`. A cancelled test is one that did not end in time.
fn count_of_node(line: &str) -> Option<Count> {
    let (kind, number) = line.strip_prefix("# ")?.split_once(' ')?;
    let number = number.parse().ok()?;
    match kind {
        "pass" => Some(Count { passed: number, failed: 0 }),
        "fail" | "cancelled" => Some(Count { passed: 0, failed: number }),
        _ => None,
    }
}

/// Surefire's closing line: `[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0`. Those of single
/// classes go on with the time that they took.
fn count_of_surefire(line: &str) -> Option<Count> {
    let (_, counts) = line.strip_prefix('[')?.split_once("] Tests run: ")?;
    let mut numbers = counts.split(", ").map(|part| part.rsplit(' ').next()?.parse::<u64>().ok());
    let mut next = || numbers.next()?;
    let (run, failures, errors, skipped) = (next()?, next()?, next()?, next()?);
    let is_last = numbers.next().is_none();
    let failed = failures + errors;
    is_last.then(|| Count { passed: run.saturating_sub(failed + skipped), failed })
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
        assert_eq!(count("# pass 12"), Some((12, 0)));
        assert_eq!(count("# fail 2"), Some((0, 2)));
        assert_eq!(count("# cancelled 1"), Some((0, 1)));
        assert_eq!(count("# tests 15"), None);
        assert_eq!(count("# Subtest: pass 1"), None);
        let surefire = "Tests run: 7, Failures: 1, Errors: 2, Skipped: 1";
        assert_eq!(count_in(&format!("[ERROR] {surefire}")), Some(Count { passed: 3, failed: 3 }));
        assert_eq!(count_in(&format!("[INFO] {surefire}, Time elapsed: 0.1 s -- in OneTest")), None);
    }

    #[test]
    fn what_failed_tests_said_is_kept() {
        let output = "\ntest result: ok. 2 passed; 0 failed\nrunning 3 tests\n..F\nfailures:\n\n\
            ---- a::b stdout ----\nthread panicked\n\nfailures:\n    a::b\n\n\
            test result: FAILED. 2 passed; 1 failed\nrunning 0 tests\n\
            ok 1 - one\nnot ok 2 - two\nok 3 - three\n";
        let mut report = Report::default();
        output.lines().for_each(|line| report.take(line.to_owned()));
        let expected = [
            "failures:",
            "---- a::b stdout ----",
            "thread panicked",
            "failures:",
            "    a::b",
            "test result: FAILED. 2 passed; 1 failed",
            "not ok 2 - two",
        ];
        assert_eq!(report.lines, expected);
    }

    #[test]
    fn of_a_test_that_said_much_the_names_and_the_closing_line_are_kept() {
        let mut report = Report::default();
        let closing = "test result: FAILED. 0 passed; 1 failed";
        let said = std::iter::repeat_n("ERROR again", 10 * KEPT_LINES);
        let lines = ["failures:"].into_iter().chain(said).chain(["failures:", "    a::b", closing]);
        lines.for_each(|line| report.take(line.to_owned()));
        assert_eq!(report.lines.len(), KEPT_LINES + 3);
        assert_eq!(report.lines[KEPT_LINES..], ["failures:", "    a::b", closing]);
        // The last part may be full, too.
        let lines = ["failures:"].into_iter().chain(std::iter::repeat_n("    a::c", 2 * KEPT_LINES));
        lines.chain([closing]).for_each(|line| report.take(line.to_owned()));
        assert_eq!(report.lines.last().map(String::as_str), Some(closing));
        assert_eq!(report.lines.len(), 2 * KEPT_LINES + 4);
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
