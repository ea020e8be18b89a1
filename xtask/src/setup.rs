//! The tools that the checks need besides Rust and a C compiler. They are installed where that is allowed.
//! Elsewhere one line says how to install them, and each part of the checks that is left out says so.
//!
//! - Debian's packages: installed by root. The machine of any other user is not changed: the user gets one
//!   `apt-get` line.
//! - packages of Python, node and Java: in folders of their own in the user's cache folder;
//! - `cargo-deny`: built once for each version, to the same folder.

use crate::run::{check, command};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version of `cargo-deny` that reads `deny.toml`.
const DENY_VERSION: &str = "0.20.2";

/// A program of Debian's that some checks use.
struct Need {
    is_there: fn() -> bool,
    /// Debian's packages that have it.
    packages: &'static str,
    /// The checks that are left out without it.
    used_for: &'static str,
}

const NEEDS: &[Need] = &[
    Need {
        is_there: || on_path("redis-server"),
        packages: "redis-server",
        used_for: "comparisons of replies with a real redis-server",
    },
    Need {
        is_there: || on_path("redis-cli") && on_path("redis-benchmark"),
        packages: "redis-tools",
        used_for: "redis-cli and redis-benchmark as clients",
    },
    Need { is_there: || on_path("c++"), packages: "g++ libc6-dev", used_for: "fuzzing" },
    Need {
        is_there: || on_path("git"),
        packages: "git",
        used_for: "the commit in results of the laboratory",
    },
    Need {
        is_there: || succeeds(Command::new("python3").args(["-c", "import venv, ensurepip"])),
        packages: "python3 python3-venv",
        used_for: "redis-py, programs above it, psycopg, pandas and SQLAlchemy as clients",
    },
    Need { is_there: || on_path("go"), packages: "golang-go", used_for: "go-redis as a client" },
    Need {
        is_there: || on_path("node") && on_path("npm"),
        packages: "nodejs npm",
        used_for: "ioredis, node-redis and Socket.IO as clients",
    },
    Need {
        is_there: || on_path("javac") && on_path("mvn"),
        packages: "default-jdk-headless maven",
        used_for: "Lettuce, Redisson and the JDBC driver of PostgreSQL as clients",
    },
    Need {
        is_there: || on_path("openssl"),
        packages: "openssl",
        used_for: "the certificates of clients over TLS",
    },
    Need { is_there: || on_path("psql"), packages: "postgresql-client", used_for: "psql as a client" },
    Need {
        is_there: has_postgres,
        packages: "postgresql",
        used_for: "comparisons of SQL answers with a real PostgreSQL",
    },
];

/// Where the tools for the checks lie.
pub(crate) struct Tools {
    python: Option<PathBuf>,
    /// The `node_modules` of `tests/clients/node`.
    pub node: Option<PathBuf>,
    /// Maven's repository with all that `tests/clients/java` needs.
    pub java: Option<PathBuf>,
    /// The `cargo-deny` to run, if there is one.
    pub deny: Option<PathBuf>,
}

impl Tools {
    /// Finds all tools and installs missing ones, as far as that is allowed.
    pub(crate) fn set_up(root: &Path) -> Tools {
        install_packages(root);
        for (tool, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
            if !succeeds(Command::new("cargo").args([tool, "--version"])) {
                let added = check(&mut command(root, "rustup", &["component", "add", component]));
                if added.failed > 0 {
                    println!("left out: `cargo {tool}`, as {component} is not there and cannot be added");
                }
            }
        }
        let (python, node, java) = (set_up_python(root), set_up_node(root), set_up_java(root));
        for (language, packages) in [("Python", &python), ("node", &node), ("Java", &java)] {
            if packages.is_none() {
                println!("left out: clients in {language}, as their packages could not be installed");
            }
        }
        let tools = Tools { python, node, java, deny: set_up_deny(root) };
        if tools.deny.is_none() {
            println!("left out: licences and advisories, as cargo-deny {DENY_VERSION} could not be built");
        }
        tools
    }

    /// The `PATH` of whatever runs in the checks.
    pub(crate) fn path(&self) -> OsString {
        let before = std::env::var_os("PATH").unwrap_or_default();
        let own = self.python.iter().map(|python| python.join("bin"));
        std::env::join_paths(own.chain(std::env::split_paths(&before))).unwrap_or(before)
    }

    /// True if there is a server to compare with.
    pub(crate) fn has_redis_server(&self) -> bool {
        on_path("redis-server")
    }

    /// True if the fuzz targets can be built.
    pub(crate) fn has_cxx(&self) -> bool {
        on_path("c++")
    }

    /// True if the clients in Go can run.
    pub(crate) fn has_go(&self) -> bool {
        on_path("go")
    }

    /// True if the clients in Python can run.
    pub(crate) fn has_python(&self) -> bool {
        self.python.is_some()
    }
}

/// Where things are kept from run to run.
pub(crate) fn cache() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("tarn")
}

fn install_packages(root: &Path) {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !(need.is_there)()).collect();
    if missing.is_empty() {
        return;
    }
    let is_installed = may_install() && {
        println!("installing {}", names(&missing));
        apt_get(root, &["update", "-qq"]) && {
            let options = ["install", "-y", "-qq", "--no-install-recommends"];
            let packages = missing.iter().flat_map(|need| need.packages.split(' '));
            apt_get(root, &options.into_iter().chain(packages).collect::<Vec<_>>())
        }
    };
    if is_installed {
        // A package starts a server of its own; the tests start theirs.
        for service in ["redis-server", "postgresql"] {
            if missing.iter().any(|need| need.packages == service) {
                succeeds(Command::new("service").args([service, "stop"]));
            }
        }
    }
    let missing: Vec<&Need> = missing.into_iter().filter(|need| !(need.is_there)()).collect();
    if missing.is_empty() {
        return;
    }
    println!("for all of the checks: {}", apt_line(&missing));
    for need in missing {
        println!("left out: {}, as {} is not installed", need.used_for, need.packages);
    }
}

fn names(needs: &[&Need]) -> String {
    needs.iter().map(|need| need.packages).collect::<Vec<_>>().join(" ")
}

/// The command for a user who may install packages.
fn apt_line(needs: &[&Need]) -> String {
    format!("sudo apt-get install {}", names(needs))
}

fn apt_get(root: &Path, arguments: &[&str]) -> bool {
    let mut apt_get = command(root, "apt-get", arguments);
    check(apt_get.env("DEBIAN_FRONTEND", "noninteractive")).failed == 0
}

/// True if this process may install packages.
fn may_install() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}

/// True if Debian's PostgreSQL is installed, which puts no server on the `PATH`.
fn has_postgres() -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin/initdb")).any(|initdb| initdb.is_file())
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// The environment of `tests/clients/requirements.txt`, made again when that list changes.
fn set_up_python(root: &Path) -> Option<PathBuf> {
    let (listed, place) = (root.join("tests/clients/requirements.txt"), cache().join("python"));
    let (wanted, noted) = (std::fs::read(&listed).ok()?, place.join("requirements.txt"));
    if std::fs::read(&noted).is_ok_and(|noted| noted == wanted) {
        return Some(place);
    }
    println!("installing {}", String::from_utf8_lossy(&wanted).trim().replace('\n', " "));
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).ok()?;
    let made = check(command(root, "python3", &["-m", "venv"]).arg(&place));
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    let python = place.join("bin/python");
    let filled = || check(Command::new(&python).args(pip).arg(&listed).stdin(Stdio::null()));
    if made.failed > 0 || filled().failed > 0 {
        return None;
    }
    // Last, so that an interrupted installation is made again.
    std::fs::copy(&listed, &noted).ok()?;
    Some(place)
}

/// The packages of `tests/clients/node/package-lock.json`, installed again when that list changes.
fn set_up_node(root: &Path) -> Option<PathBuf> {
    let (source, place) = (root.join("tests/clients/node"), cache().join("node"));
    let (wanted, noted) = (std::fs::read(source.join("package-lock.json")).ok()?, place.join("installed"));
    let modules = place.join("node_modules");
    if std::fs::read(&noted).is_ok_and(|noted| noted == wanted) {
        return Some(modules);
    }
    println!("installing the packages of tests/clients/node");
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).ok()?;
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(source.join(file), place.join(file)).ok()?;
    }
    // No package may run a program of its own here.
    let npm = ["ci", "--ignore-scripts", "--silent", "--no-audit", "--no-fund"];
    if check(&mut command(&place, "npm", &npm)).failed > 0 {
        return None;
    }
    // Last, so that an interrupted installation is made again.
    std::fs::write(&noted, wanted).ok()?;
    Some(modules)
}

/// Maven's repository for `tests/clients/java/pom.xml`, filled again when that file changes.
fn set_up_java(root: &Path) -> Option<PathBuf> {
    let (source, place) = (root.join("tests/clients/java"), cache().join("java"));
    let (wanted, noted) = (std::fs::read(source.join("pom.xml")).ok()?, place.join("installed"));
    let repository = place.join("repository");
    if std::fs::read(&noted).is_ok_and(|noted| noted == wanted) {
        return Some(repository);
    }
    println!("installing the packages of tests/clients/java");
    std::fs::create_dir_all(&place).ok()?;
    let mut maven = command(&source, "mvn", &["--batch-mode", "--quiet", "test", "-DskipTests"]);
    let places = [("maven.repo.local", &repository), ("build.folder", &place.join("build"))];
    maven.args(places.map(|(name, folder)| format!("-D{name}={}", folder.display())));
    if check(&mut maven).failed > 0 {
        return None;
    }
    // Last, so that an interrupted installation is made again.
    std::fs::write(&noted, wanted).ok()?;
    Some(repository)
}

/// The program `cargo-deny`, built if it is not there yet.
pub(crate) fn set_up_deny(root: &Path) -> Option<PathBuf> {
    let place = cache().join(format!("cargo-deny-{DENY_VERSION}"));
    let program = place.join("bin/cargo-deny");
    if program.is_file() {
        return Some(program);
    }
    println!("building cargo-deny {DENY_VERSION}");
    // Its build must be fast, not its run: a release build takes three times as long.
    let install = ["install", "--quiet", "--locked", "--profile", "dev", "cargo-deny", "--version"];
    let built = check(
        command(root, "cargo", &install)
            .arg(DENY_VERSION)
            .arg("--root")
            .arg(&place)
            .env("CARGO_TARGET_DIR", cache().join("build"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0"),
    );
    let _ = std::fs::remove_dir_all(cache().join("build"));
    (built.failed == 0).then_some(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_names_all_that_is_missing() {
        let needs: Vec<&Need> = NEEDS.iter().filter(|need| need.packages.contains("re")).collect();
        assert_eq!(
            apt_line(&needs),
            "sudo apt-get install redis-server redis-tools postgresql-client postgresql"
        );
    }
}
