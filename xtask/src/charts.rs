//! `cargo xtask charts`: brings the library that draws the charts of the laboratory's reports from its npm
//! package, to `lab/vendor/`. The files are kept in the repository, so that a build needs no network.
//! `--check` says whether they are the published ones.

use crate::run::{check, command};
use std::path::Path;
use std::process::{Command, ExitCode};

/// The package and its version.
const PACKAGE: &str = "echarts@6.1.0";
/// Files of the package, their names here, and their SHA-256.
const FILES: [(&str, &str, &str); 3] = [
    (
        "dist/echarts.common.min.js",
        "echarts.common.min.js",
        "61f13280aba3161f77fc801bf5f9c786f55f10432153a0683fc5cc0700b013d5",
    ),
    ("LICENSE", "echarts.LICENSE", "634293835b43a6dd2094fa39182a3d9a6b9ca43b7fdb9ac354e8037af2a3093a"),
    ("NOTICE", "echarts.NOTICE", "d491d358344f842685c1b1585970999db65fe30ecf7ef3867af8814f4016c016"),
];

/// Options of the task.
#[derive(clap::Args)]
pub(crate) struct Charts {
    /// Bring nothing: check the files that are there.
    #[arg(long)]
    check: bool,
}

impl Charts {
    /// Runs the task.
    pub(crate) fn run(&self, root: &Path) -> ExitCode {
        let vendor = root.join("lab/vendor");
        if !self.check
            && let Err(problem) = bring(root, &vendor)
        {
            println!("{problem}");
            return ExitCode::FAILURE;
        }
        let wrong =
            |(_, name, sum): &&(&str, &str, &str)| sum_of(&vendor.join(name)).as_deref() != Some(*sum);
        let wrong: Vec<_> = FILES.iter().filter(wrong).map(|(_, name, _)| *name).collect();
        if wrong.is_empty() {
            println!("lab/vendor has the files of {PACKAGE}");
            return ExitCode::SUCCESS;
        }
        println!("not as {PACKAGE} has them: {}", wrong.join(", "));
        ExitCode::FAILURE
    }
}

/// Unpacks the package in the target directory, and copies the files.
fn bring(root: &Path, vendor: &Path) -> Result<(), String> {
    let place = root.join("target/charts");
    std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let packed = check(&mut command(&place, "npm", &["pack", "--silent", PACKAGE]));
    let archive = format!("{}.tgz", PACKAGE.replace('@', "-"));
    if packed.failed > 0 || check(&mut command(&place, "tar", &["xzf", &archive])).failed > 0 {
        return Err(format!("{PACKAGE} cannot be brought: npm and tar are needed"));
    }
    for (from, to, _) in FILES {
        let copied = std::fs::copy(place.join("package").join(from), vendor.join(to));
        copied.map_err(|error| format!("{to}: {error}"))?;
    }
    Ok(())
}

/// The SHA-256 of a file; `None` if it cannot be read.
fn sum_of(path: &Path) -> Option<String> {
    let output = Command::new("sha256sum").arg(path).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split(' ').next().filter(|sum| !sum.is_empty()).map(str::to_owned)
}
