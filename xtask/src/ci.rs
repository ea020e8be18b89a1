//! `cargo xtask ci`: runs all checks of a change, one section after the other, with one count at the end.
//!
//! A section that fails does not stop the next ones: one run shows all that is wrong.

use crate::licences;
use crate::run::{Count, check, check_quietly, command, failures, set_environment, tests};
use crate::setup::{self, Tools};
use crate::tidy;
use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The seed of libFuzzer's mutations in its first run: the same commit gets the same verdict twice. Its
/// second run has the seed of the day.
const FUZZ_SEED: u64 = 1;
/// Runs of a fuzz target beside each other.
const FUZZED_AT_ONCE: usize = 2;

/// Arguments of `cargo xtask ci`.
#[derive(Args)]
pub(crate) struct Ci {
    /// Only these sections, by their names; all without it.
    #[arg(value_parser = SECTIONS.iter().map(|section| section.name).collect::<Vec<_>>())]
    sections: Vec<String>,
    /// The seconds that each fuzz target runs with each seed.
    #[arg(long, default_value_t = 20, value_name = "SECONDS")]
    fuzz_seconds: u64,
    /// The seed of another day: its number since 1970.
    #[arg(long, value_name = "DAY")]
    seed: Option<u64>,
}

/// One heading of the output.
struct Section {
    name: &'static str,
    purpose: &'static str,
    run: fn(&Path, &Run) -> Count,
}

/// The state that all sections share.
struct Run {
    tools: Tools,
    fuzz_seconds: u64,
    /// The seed of the day, and those of other days that showed a failure.
    seeds: Vec<u64>,
}

const SECTIONS: &[Section] = &[
    Section { name: "format", purpose: "the source is formatted", run: format },
    Section { name: "lint", purpose: "clippy has nothing to say", run: lint },
    Section { name: "doc", purpose: "the documentation builds, and its links lead somewhere", run: doc },
    Section { name: "deny", purpose: "licences, sources and advisories of what is linked", run: deny },
    Section { name: "tidy", purpose: "the rules of the house hold", run: tidy },
    Section { name: "test", purpose: "unit, integration and behaviour tests", run: test },
    Section {
        name: "models",
        purpose: "what threads share holds in every order they may act in",
        run: models,
    },
    Section { name: "miri", purpose: "no undefined behaviour, by miri where it is installed", run: miri },
    Section { name: "clients", purpose: "clients and programs that others wrote", run: clients },
    Section { name: "cost", purpose: "a request costs no more than it did, by redis-server's", run: cost },
    Section { name: "fuzz", purpose: "hostile bytes, for a while", run: fuzz },
];

impl Ci {
    /// Runs the sections; the exit code says whether all is well.
    pub(crate) fn run(self, root: &Path) -> ExitCode {
        println!("=== setup: what the checks need ===");
        let tools = Tools::set_up(root);
        let today = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
        let today = self.seed.unwrap_or(today);
        let mut seeds = failed_seeds();
        seeds.retain(|seed| *seed != today);
        seeds.insert(0, today);
        println!("seed of the day: {today}; to have it again: cargo xtask ci --seed {today}");
        let listed = seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        set_environment(vec![("PATH", tools.path()), ("TARN_DAYS", listed.into())]);
        let run = Run { tools, fuzz_seconds: self.fuzz_seconds, seeds };
        let mut total = Count::default();
        let mut lines = Vec::new();
        for section in SECTIONS {
            if !self.sections.is_empty() && !self.sections.iter().any(|name| name == section.name) {
                continue;
            }
            println!("\n=== {}: {} ===", section.name, section.purpose);
            let started = Instant::now();
            let count = (section.run)(root, &run);
            total = total.and(count);
            if count.failed > 0 && ["test", "fuzz"].contains(&section.name) {
                keep_seed(today);
            }
            let seconds = started.elapsed().as_secs_f64();
            let verdict = if count.failed == 0 { "ok" } else { "FAILED" };
            let line = format!(
                "{:<8} {verdict:<6} {:>5} passed {:>3} failed {seconds:>7.1} s",
                section.name, count.passed, count.failed
            );
            println!("{line}");
            lines.push(line);
        }
        if total.failed > 0 {
            println!("\n=== what failed ===\n{}", failures().join("\n"));
        }
        println!("\n=== all sections ===\n{}\n", lines.join("\n"));
        println!("{} passed, {} failed", total.passed, total.failed);
        if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn format(root: &Path, _: &Run) -> Count {
    let product = check(&mut command(root, "cargo", &["fmt", "--all", "--check"]));
    let fuzz = root.join("fuzz");
    product.and(check(&mut command(&fuzz, "cargo", &["fmt", "--check"])))
}

fn lint(root: &Path, _: &Run) -> Count {
    let clippy = |what: &[&str]| {
        let mut cargo = command(root, "cargo", &["clippy", "--quiet"]);
        check(cargo.args(what).args(["--", "--deny", "warnings"]))
    };
    let whole = clippy(&["--workspace", "--all-targets"]);
    // A server without what can be left out.
    whole.and(clippy(&["--package", "tarn", "--no-default-features"]))
}

fn doc(root: &Path, _: &Run) -> Count {
    let mut cargo =
        command(root, "cargo", &["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"]);
    check(cargo.env("RUSTDOCFLAGS", "--deny warnings"))
}

/// Advisories are compared if their database is present; only a machine with a network fetches it.
fn deny(root: &Path, run: &Run) -> Count {
    let Some(program) = &run.tools.deny else { return Count::default() };
    let deny = |what: &[&str]| {
        let mut deny = std::process::Command::new(program);
        deny.current_dir(root).args(["--color", "never", "--log-level", "error"]).args(what);
        check(&mut deny)
    };
    let known =
        deny(&["check", "licenses", "sources", "bans"]).and(Count::of_one(licences::is_current(root)));
    let database = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    // A fetch that failed leaves the folder, with a lock alone.
    let databases = database.and_then(|cargo| std::fs::read_dir(cargo.join("advisory-dbs")).ok());
    if databases.is_some_and(|mut all| all.any(|entry| entry.is_ok_and(|entry| entry.path().is_dir()))) {
        return known.and(deny(&["--offline", "check", "advisories"]));
    }
    println!("left out: advisories, as their database is not here: cargo deny fetch");
    known
}

fn tidy(root: &Path, _: &Run) -> Count {
    Count::of_one(tidy::is_tidy(root))
}

fn test(root: &Path, _: &Run) -> Count {
    tests(&mut command(root, "cargo", &["test", "--quiet", "--workspace", "--no-fail-fast"]))
}

/// Model checking: the tests in modules called `model`, by loom in all orders, by shuttle in many. Their
/// types replace locks and atomics in everything that is compiled, so each has a target directory of its own.
fn models(root: &Path, _: &Run) -> Count {
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
    let loom = check("loom", &["--package", "tarn-study", "--package", "tarn-engine", "--test", "history"]);
    loom.and(check("shuttle", &["--package", "tarn-engine"]))
}

/// Runs the tests of the algorithms and of the child of a fork under miri, which interprets a program step by
/// step and finds undefined behaviour. It comes with nightly toolchains; nothing else here needs one.
fn miri(root: &Path, _: &Run) -> Count {
    let miri = ["run", "nightly", "cargo", "miri"];
    let version = command(root, "rustup", &miri).arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        println!("not installed, nothing is checked: rustup component add --toolchain nightly miri rust-src");
        return Count::default();
    }
    // The build of miri records the folder that it was built in. cargo does not check that, and would start
    // it in a folder that may no longer exist. So it is built again, which takes a quarter of a minute.
    let target = target(root).join("miri");
    if let Err(error) = std::fs::remove_dir_all(&target)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        println!("{} cannot be removed: {error}", target.display());
        return Count::of_one(false);
    }
    let test = ["test", "--quiet", "--package", "tarn-study", "--lib", "--target-dir"];
    let filters = ["--", "judge::", "fork::child"];
    tests(command(root, "rustup", &miri).args(test).arg(target).args(filters))
}

/// Builds test programs, and with them the programs of their packages, as all tests are built: alone these
/// would have their libraries built once more, with fewer features.
fn build_tests(root: &Path, names: &[&str]) -> Count {
    let mut cargo = command(root, "cargo", &["test", "--quiet", "--workspace", "--no-run"]);
    names.iter().for_each(|name| {
        cargo.args(["--test", name]);
    });
    check(&mut cargo)
}

/// Clients that others wrote, unchanged. Each server that they talk to is started by their own fixtures.
fn clients(root: &Path, run: &Run) -> Count {
    if build_tests(root, &["scripts"]).failed > 0 {
        return Count::of_one(false);
    }
    let (clients, binary) = (root.join("tests/clients"), binary(root, "tarn"));
    let mut count = Count::default();
    if run.tools.has_python() {
        let pytest = ["-m", "pytest", "-p", "no:cacheprovider", "--color=no", "."];
        count = count.and(tests(command(&clients, "python3", &pytest).env("TARN_BINARY", &binary)));
    }
    if run.tools.has_go() {
        let go = ["test", "-count=1", "-v", "./..."];
        count = count.and(tests(command(&clients.join("go"), "go", &go).env("TARN_BINARY", &binary)));
    }
    if let Some(modules) = &run.tools.node {
        let mut node = command(&clients.join("node"), "node", &["--test", "--test-reporter=tap"]);
        count = count.and(tests(node.env("NODE_PATH", modules).env("TARN_BINARY", &binary)));
    }
    if let Some(repository) = &run.tools.java {
        let options = ["--batch-mode", "--no-transfer-progress", "-Dstyle.color=never", "test"];
        let mut maven = command(&clients.join("java"), "mvn", &options);
        let places = [("maven.repo.local", repository), ("build.folder", &target(root).join("java"))];
        maven.args(places.map(|(name, folder)| format!("-D{name}={}", folder.display())));
        count = count.and(tests(maven.env("TARN_BINARY", &binary)));
    }
    count
}

/// Where cargo puts a program that the tests need.
fn binary(root: &Path, name: &str) -> PathBuf {
    target(root).join("debug").join(name)
}

/// Holds the processor time of requests against stored ratios, in the build of the tests. Those of another
/// processor tell nothing: the laboratory says so, and nothing is checked.
fn cost(root: &Path, run: &Run) -> Count {
    if !run.tools.has_redis_server() {
        println!("left out: there is no redis-server");
        return Count::default();
    }
    if !root.join("lab/ratios.toml").exists() {
        println!("left out: no ratio is stored in lab/ratios.toml (tarn lab ratios lab/ratios.toml --store)");
        return Count::default();
    }
    if build_tests(root, &["scripts", "experiments"]).failed > 0 {
        return Count::of_one(false);
    }
    let (lab, lines) = (binary(root, "tarn-lab"), target(root).join("ratios.jsonl"));
    let ratios = ["ratios", "lab/ratios.toml", "--seed", "7", "--json"];
    check(command(root, &lab.to_string_lossy(), &ratios).arg(lines))
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

fn fuzz(root: &Path, run: &Run) -> Count {
    if !run.tools.has_cxx() {
        println!("left out: there is no C++ compiler");
        return Count::default();
    }
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
    let seconds = &run.fuzz_seconds.to_string();
    let seeds: Vec<u64> = [FUZZ_SEED].iter().chain(&run.seeds).copied().collect();
    let mut count = Count::default();
    for target in &targets {
        // Beside each other, a fuzz target takes one core. Cargo has the first of them build it.
        for seeds in seeds.chunks(FUZZED_AT_ONCE) {
            println!("{target}, {seconds} s, seeds {seeds:?}");
            let run = |seed: u64| {
                check_quietly(&mut command(root, "fuzz/run.sh", &[target, seconds, &seed.to_string()]))
            };
            let run = &run;
            count = std::thread::scope(|scope| {
                let runs: Vec<_> = seeds.iter().map(|seed| scope.spawn(move || run(*seed))).collect();
                let counts = runs.into_iter().map(|run| run.join().unwrap_or(Count::of_one(false)));
                counts.fold(count, Count::and)
            });
        }
    }
    count
}

/// Where the seeds of days that showed a failure are kept: they are tried again by each run, until somebody
/// who has mended the cause removes them.
fn failed_seeds_file() -> PathBuf {
    setup::cache().join("failed-seeds")
}

fn failed_seeds() -> Vec<u64> {
    let text = std::fs::read_to_string(failed_seeds_file()).unwrap_or_default();
    let mut seeds: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    seeds.dedup();
    seeds
}

fn keep_seed(seed: u64) {
    let file = failed_seeds_file();
    if failed_seeds().contains(&seed) {
        return;
    }
    let opened = std::fs::File::options().create(true).append(true).open(&file);
    match opened.and_then(|mut opened| writeln!(opened, "{seed}")) {
        Ok(()) => println!("seed {seed} is kept in {}: the next runs try it again", file.display()),
        Err(error) => println!("seed {seed} cannot be kept in {}: {error}", file.display()),
    }
}
