//! `cargo xtask ci`: all that a change has to pass, one section after the other, with one count at the end.
//!
//! A section that fails does not stop the next ones: one run shows all that is wrong.

use crate::run::{Count, check, command, tests};
use crate::tidy;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// What libFuzzer draws its mutations from here: the same commit gets the same verdict twice. Hunts for new
/// inputs are `fuzz/run.sh` with a seed of their own.
const FUZZ_SEED: &str = "1";

/// Arguments of `cargo xtask ci`.
#[derive(Args)]
pub struct Ci {
    /// Only these sections, by their names; all without it.
    #[arg(value_parser = SECTIONS.iter().map(|section| section.name).collect::<Vec<_>>())]
    sections: Vec<String>,
    /// How long each fuzz target runs.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    fuzz_seconds: u64,
}

/// One heading of the output.
struct Section {
    name: &'static str,
    purpose: &'static str,
    run: fn(&Path, &Ci) -> Count,
}

const SECTIONS: &[Section] = &[
    Section { name: "format", purpose: "the source is formatted", run: format },
    Section { name: "lint", purpose: "clippy has nothing to say", run: lint },
    Section { name: "doc", purpose: "the documentation builds, and its links lead somewhere", run: doc },
    Section { name: "tidy", purpose: "the rules of the house hold", run: tidy },
    Section { name: "test", purpose: "unit, integration and behaviour tests", run: test },
    Section {
        name: "models",
        purpose: "what threads share holds in every order they may act in",
        run: models,
    },
    Section { name: "miri", purpose: "no undefined behaviour, by miri where it is installed", run: miri },
    Section { name: "clients", purpose: "redis-py, go-redis, redis-cli and redis-benchmark", run: clients },
    Section { name: "fuzz", purpose: "hostile bytes, for a while", run: fuzz },
];

impl Ci {
    /// Runs the sections; the exit code says whether all is well.
    pub fn run(self, root: &Path) -> ExitCode {
        let mut total = Count::default();
        let mut lines = Vec::new();
        for section in SECTIONS {
            if !self.sections.is_empty() && !self.sections.iter().any(|name| name == section.name) {
                continue;
            }
            println!("\n=== {}: {} ===", section.name, section.purpose);
            let started = Instant::now();
            let count = (section.run)(root, &self);
            total = total.and(count);
            let seconds = started.elapsed().as_secs_f64();
            let verdict = if count.failed == 0 { "ok" } else { "FAILED" };
            let line = format!(
                "{:<8} {verdict:<6} {:>5} passed {:>3} failed {seconds:>7.1} s",
                section.name, count.passed, count.failed
            );
            println!("{line}");
            lines.push(line);
        }
        println!("\n=== all sections ===\n{}\n", lines.join("\n"));
        println!("{} passed, {} failed", total.passed, total.failed);
        if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn format(root: &Path, _: &Ci) -> Count {
    let product = check(&mut command(root, "cargo", &["fmt", "--all", "--check"]));
    let fuzz = root.join("fuzz");
    product.and(check(&mut command(&fuzz, "cargo", &["fmt", "--check"])))
}

fn lint(root: &Path, _: &Ci) -> Count {
    let arguments = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "--deny", "warnings"];
    check(&mut command(root, "cargo", &arguments))
}

fn doc(root: &Path, _: &Ci) -> Count {
    let mut cargo =
        command(root, "cargo", &["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"]);
    check(cargo.env("RUSTDOCFLAGS", "--deny warnings"))
}

fn tidy(root: &Path, _: &Ci) -> Count {
    Count::of_one(tidy::is_tidy(root))
}

fn test(root: &Path, _: &Ci) -> Count {
    tests(&mut command(root, "cargo", &["test", "--quiet", "--workspace", "--no-fail-fast"]))
}

/// Model checking: the tests in modules called `model`, by loom in all orders, by shuttle in many. Their
/// types stand in for locks and atomics in all that is compiled so, which therefore has places of its own.
fn models(root: &Path, _: &Ci) -> Count {
    let check = |checker: &str, what: &[&str]| {
        let target = target(root).join(if checker == "loom" { "models" } else { checker });
        tests(
            command(root, "cargo", &["test", "--quiet", "--lib"])
                .args(what)
                .arg("model::")
                .arg("--target-dir")
                .arg(target)
                .env("RUSTFLAGS", format!("--cfg {checker}")),
        )
    };
    let loom =
        check("loom", &["--package", "tarn-snapshot", "--package", "tarn-engine", "--test", "history"]);
    loom.and(check("shuttle", &["--package", "tarn-engine"]))
}

/// What miri, which runs a program step by step and knows what it may not do, says to the tests of the
/// algorithms and of the child of a fork. It comes with nightly toolchains; nothing else here needs one.
fn miri(root: &Path, _: &Ci) -> Count {
    let miri = ["run", "nightly", "cargo", "miri"];
    let version = command(root, "rustup", &miri).arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        println!("not installed, nothing is checked: rustup component add --toolchain nightly miri rust-src");
        return Count::default();
    }
    // What miri has built remembers the folder that it was built in, and cargo, which does not look at that,
    // would start it in a folder that may be gone. So it is built anew, which takes a quarter of a minute.
    let target = target(root).join("miri");
    if let Err(error) = std::fs::remove_dir_all(&target)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        println!("{} cannot be removed: {error}", target.display());
        return Count::of_one(false);
    }
    let test = ["test", "--quiet", "--package", "tarn-snapshot", "--lib", "--target-dir"];
    let filters = ["--", "judge::", "fork::child"];
    tests(command(root, "rustup", &miri).args(test).arg(target).args(filters))
}

/// Clients that others wrote, unchanged. Each server that they talk to is started by their own fixtures.
fn clients(root: &Path, _: &Ci) -> Count {
    // Built as for the tests: alone it would have its libraries built once more, with fewer features.
    let built = ["test", "--quiet", "--workspace", "--test", "scripts", "--no-run"];
    if check(&mut command(root, "cargo", &built)).failed > 0 {
        return Count::of_one(false);
    }
    let (clients, binary) = (root.join("tests/clients"), binary(root));
    let pytest = ["-m", "pytest", "-p", "no:cacheprovider", "--color=no", "."];
    let of_python = tests(command(&clients, "python3", &pytest).env("TARN_BINARY", &binary));
    let go = ["test", "-count=1", "-v", "./..."];
    let of_go = tests(command(&clients.join("go"), "go", &go).env("TARN_BINARY", &binary));
    of_python.and(of_go)
}

/// Where cargo puts the program that `clients` builds.
fn binary(root: &Path) -> PathBuf {
    target(root).join("debug").join("tarn")
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

fn fuzz(root: &Path, ci: &Ci) -> Count {
    let folder = root.join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut targets: Vec<String> = entries
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned))
        .collect();
    targets.sort();
    if targets.is_empty() {
        println!("there is no fuzz target in {}", folder.display());
        return Count::of_one(false);
    }
    let seconds = ci.fuzz_seconds.to_string();
    targets.iter().fold(Count::default(), |count, target| {
        println!("{target}, {seconds} s");
        count.and(check(&mut command(root, "fuzz/run.sh", &[target, &seconds, FUZZ_SEED])))
    })
}
