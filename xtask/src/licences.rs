//! `cargo xtask licences`: writes THIRD-PARTY.md, the licences of the libraries that are linked into Tarn.
//! The section `deny` of the checks fails while it is stale.

use crate::setup::set_up_deny;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, ExitCode};

const PAGE: &str = "THIRD-PARTY.md";

const HEAD: &str = "\
# Third-party libraries

The libraries that are linked into Tarn or build it, by their licences. One with several licences is in
several lists: any of them may be chosen. `cargo xtask licences` writes this page from `Cargo.lock`;
`deny.toml` has the licences that are accepted. Who gives binaries of Tarn away adds the texts of these
licences, which are in the sources of the libraries. `x509-certificate` is under MPL-2.0: its own files, which
Tarn does not change, stay under that licence.

Reports of the laboratory contain Apache ECharts, which is under Apache-2.0 and has parts under
BSD-3-Clause and 0BSD: `lab/vendor/echarts.LICENSE` and `lab/vendor/echarts.NOTICE`.

The server contains names of arguments, history and notes of the commands of Redis 7.0, which is under
BSD-3-Clause: `server/src/commands/reference/redis.LICENSE`.
";

/// Writes the page.
pub(crate) fn run(root: &Path) -> ExitCode {
    let written = page(root).and_then(|page| {
        std::fs::write(root.join(PAGE), page).map_err(|error| format!("{PAGE} cannot be written: {error}"))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// True if the page has the content of `Cargo.lock`.
pub(crate) fn is_current(root: &Path) -> bool {
    let is_current =
        page(root).is_ok_and(|page| std::fs::read(root.join(PAGE)).is_ok_and(|old| old == page.as_bytes()));
    if !is_current {
        println!("{PAGE} is stale: cargo xtask licences");
    }
    is_current
}

fn page(root: &Path) -> Result<String, String> {
    let deny = set_up_deny(root).ok_or("cargo-deny is not there and cannot be built")?;
    let mut list = Command::new(deny);
    list.current_dir(root).args(["--color", "never", "list", "--format", "human", "--layout", "license"]);
    let output = list.output().map_err(|error| format!("cargo-deny does not start: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(page_of(&String::from_utf8_lossy(&output.stdout)))
}

/// The page of lines like `MIT (2): adler2@2.0.1, ahash@0.8.12`.
fn page_of(list: &str) -> String {
    let mut page = HEAD.to_owned();
    for line in list.lines() {
        let Some((licence, libraries)) = line.split_once(": ") else { continue };
        let licence = licence.rsplit_once(" (").map_or(licence, |(name, _)| name);
        let mut names: Vec<&str> =
            libraries.split(", ").map(|library| library.split('@').next().unwrap_or(library)).collect();
        names.retain(|name| !name.starts_with("tarn") && *name != "xtask");
        names.dedup();
        write!(page, "\n## {licence}\n\n").expect("a string takes all");
        let mut width = 0;
        for (index, name) in names.iter().enumerate() {
            let end = if index + 1 == names.len() { "" } else { "," };
            let gap = if index == 0 { "" } else { " " };
            if width + gap.len() + name.len() + end.len() > 110 {
                width = 0;
                page.push('\n');
            } else {
                page.push_str(gap);
            }
            page.push_str(name);
            page.push_str(end);
            width += gap.len() + name.len() + end.len();
        }
        page.push('\n');
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_has_the_names_of_its_libraries_once_and_not_our_own() {
        let page =
            page_of("ISC (1): ring@0.17.14\nMIT (4): adler2@2.0.1, ahash@0.8, ahash@0.9, tarn-lab@0.1.0\n");
        assert_eq!(page, format!("{HEAD}\n## ISC\n\nring\n\n## MIT\n\nadler2, ahash\n"));
    }
}
