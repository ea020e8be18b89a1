//! A build of Tarn: an executable as it is, or one that is built from a revision.
//!
//! ```text
//!   revision ─► commit ─► temporary worktree ─► cargo build --release ─► cache/builds/COMMIT
//!                  └──────────── is it there already? ─────────────────────────▲
//! ```

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{IoContext, LabError, Result};
use crate::interrupt::{self, Leftover};
use crate::process::output_of;

/// An executable, and where it came from.
#[derive(Debug)]
pub(super) struct Build {
    /// The words that describe it.
    pub words: String,
    /// The executable.
    pub binary: PathBuf,
    /// The repository and the commit that it is built from; `None` of a file.
    source: Option<(PathBuf, String)>,
}

/// Where builds are kept: a directory of the user's cache, or of the temporary files.
pub(super) fn cache() -> PathBuf {
    let of = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = of("XDG_CACHE_HOME").or_else(|| of("HOME").map(|home| home.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("tarn/compare")
}

/// Finds a file that can be executed, or a revision of the repository that `here` is in.
pub(super) fn find(text: &str, here: &Path, cache: &Path) -> Result<Build> {
    let file = here.join(text);
    if let Ok(found) = fs::metadata(&file)
        && found.is_file()
    {
        if found.permissions().mode() & 0o111 == 0 {
            return Err(LabError::Arguments(format!("{} cannot be executed", file.display())));
        }
        return Ok(Build { words: text.to_owned(), binary: file, source: None });
    }
    let git = |dir: &Path, words: &[&str]| {
        let mut git = Command::new("git");
        output_of(git.arg("-C").arg(dir).args(words), "git")
            .map(|text| String::from_utf8_lossy(&text).trim().to_owned())
    };
    let refused =
        |why: String| LabError::Arguments(format!("{text} is neither a file nor a revision: {why}"));
    let repository = git(here, &["rev-parse", "--show-toplevel"]).map_err(|error| match error {
        LabError::Program { .. } => refused(format!("{} is in no git repository", here.display())),
        other => other,
    })?;
    let revision = format!("{text}^{{commit}}");
    let commit = git(here, &["rev-parse", "--verify", "--quiet", "--end-of-options", &revision])
        .map_err(|_| refused(format!("{repository} has none of that name")))?;
    let words = format!("{text} ({})", &commit[..commit.len().min(12)]);
    let binary = cache.join("builds").join(&commit);
    Ok(Build { words, binary, source: Some((repository.into(), commit)) })
}

impl Build {
    /// Builds it, unless it is there.
    pub(super) fn make(&self, cache: &Path) -> Result<()> {
        match &self.source {
            Some((repository, commit)) if !self.binary.is_file() => {
                build(repository, commit, &self.words, cache, &self.binary)
            }
            _ => Ok(()),
        }
    }
}

/// Builds a commit, and puts the executable where it is to be.
fn build(repository: &Path, commit: &str, words: &str, cache: &Path, binary: &Path) -> Result<()> {
    tell!("building {words} below {}", cache.display());
    let target = cache.join("target");
    let tree = Worktree::make(repository, commit)?;
    let built = Command::new("cargo")
        .args(["build", "--release", "--package", "tarn", "--bin", "tarn"])
        .current_dir(&tree.path)
        .env("CARGO_TARGET_DIR", &target)
        .status()
        .doing(|| "run cargo".to_owned())?;
    interrupt::check()?;
    if !built.success() {
        let (what, words) = (format!("cargo build of {words}"), String::new());
        return Err(LabError::Program { what, status: built, words });
    }
    // It appears under its name once it is whole: an interrupted copy is not taken for a build.
    let partial = binary.with_extension("partial");
    let parent = binary.parent().expect("it lies in the cache");
    fs::create_dir_all(parent).at(parent)?;
    fs::copy(target.join("release/tarn"), &partial).doing(|| format!("keep the build of {words}"))?;
    fs::rename(&partial, binary).at(binary)
}

/// A worktree of a commit. Dropping it removes it.
struct Worktree {
    path: PathBuf,
    _removed: Leftover,
    _dir: tempfile::TempDir,
}

impl Worktree {
    fn make(repository: &Path, commit: &str) -> Result<Worktree> {
        let dir = interrupt::temporary("tarn-compare-", &std::env::temp_dir());
        let dir = dir.doing(|| "make a directory for a worktree".to_owned())?;
        let path = dir.path().join("tree");
        let own = (repository.to_owned(), path.clone());
        // One that stays is listed by git, and pruned by it once its directory is gone.
        let removed = Leftover::new(move || _ = worktree(&own.0, &["remove", "--force"], &own.1, &[]));
        let tree = Worktree { path, _removed: removed, _dir: dir };
        worktree(repository, &["add", "--quiet", "--detach"], &tree.path, &[commit])?;
        Ok(tree)
    }
}

/// Runs `git worktree` with words before and after the path of one, apart from the laboratory's process
/// group: Ctrl-C does not end it.
fn worktree(repository: &Path, before: &[&str], path: &Path, after: &[&str]) -> Result<()> {
    let mut git = Command::new("git");
    git.arg("-C").arg(repository).arg("worktree").args(before).arg(path).args(after);
    output_of(git.process_group(0), "git worktree").map(|_| ())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn git(dir: &Path, words: &[&str]) {
        let mut git = Command::new("git");
        git.arg("-C").arg(dir).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words);
        output_of(&mut git, "git").unwrap();
    }

    /// A repository with a small package of the name, and a cache beside it.
    fn repository(main: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("repository/src");
        fs::create_dir_all(&source).unwrap();
        let manifest = "[package]\nname = 'tarn'\nversion = '0.1.0'\nedition = '2024'\n[workspace]\n";
        fs::write(source.with_file_name("Cargo.toml"), manifest).unwrap();
        fs::write(source.join("main.rs"), main).unwrap();
        git(source.parent().unwrap(), &["init", "--quiet"]);
        git(source.parent().unwrap(), &["add", "."]);
        git(source.parent().unwrap(), &["commit", "--quiet", "-m", "one"]);
        dir
    }

    fn worktrees(repository: &Path) -> usize {
        let mut git = Command::new("git");
        git.arg("-C").arg(repository).args(["worktree", "list"]);
        String::from_utf8(output_of(&mut git, "git").unwrap()).unwrap().lines().count()
    }

    #[test]
    fn a_revision_is_built_once_and_its_worktree_goes_away() {
        let dir = repository("fn main() { println!(\"built\") }");
        let (here, cache) = (dir.path().join("repository"), dir.path().join("cache"));
        let made = |here: &Path| {
            let found = find("HEAD", here, &cache).unwrap();
            found.make(&cache).map(|()| found)
        };
        let first = made(&here.join("src")).unwrap();
        let output = output_of(&mut Command::new(&first.binary), "the build").unwrap();
        assert_eq!((output.as_slice(), worktrees(&here)), (&b"built\n"[..], 1));
        assert!(first.words.starts_with("HEAD ("), "{}", first.words);
        // Another build would replace it.
        fs::write(&first.binary, "kept").unwrap();
        assert_eq!(fs::read(made(&here).unwrap().binary).unwrap(), b"kept");
    }

    #[test]
    fn a_revision_that_does_not_build_is_an_error_and_leaves_nothing() {
        let dir = repository("this is no program");
        let (here, cache) = (dir.path().join("repository"), dir.path().join("cache"));
        let error = find("HEAD", &here, &cache).unwrap().make(&cache).unwrap_err().to_string();
        assert!(error.starts_with("cargo build of HEAD ("), "{error}");
        assert!(worktrees(&here) == 1 && !cache.join("builds").exists());
    }

    #[test]
    fn what_is_no_build_is_refused_with_the_reason() {
        let dir = repository("fn main() {}");
        let (here, cache) = (dir.path().join("repository"), dir.path().join("cache"));
        let error = |text: &str, here: &Path| find(text, here, &cache).unwrap_err().to_string();
        let none = error("no-such", &here);
        assert!(none.starts_with("no-such is neither a file nor a revision: "), "{none}");
        assert!(none.ends_with("has none of that name"), "{none}");
        let outside = error("HEAD", dir.path());
        assert!(outside.ends_with("is in no git repository"), "{outside}");
        let plain = error("Cargo.toml", &here);
        assert!(plain.ends_with("Cargo.toml cannot be executed"), "{plain}");
    }
}
