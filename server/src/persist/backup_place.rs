//! Where `BACKUP` may write: below `dir`, but not among the log and the checkpoints, or below a directory
//! that `backup-dir` names; so many in each. Every client that may send commands may send this one.

use std::io;
use std::path::{Path, PathBuf};

use tarn_engine::backup::is_backup;
use thiserror::Error;

use crate::config::{Config, by_words};

/// Directories between a root and a backup, with it; deeper ones would not be found when they are counted.
const DEPTH_MAX: usize = 4;
/// Entries of directories that are looked at to count backups.
const ENTRIES_MAX: usize = 100_000;

/// Why a backup is not taken there.
#[derive(Debug, Error)]
pub enum Misplaced {
    /// It is somewhere else.
    #[error("{0} is neither below 'dir' nor below a directory that 'backup-dir' names")]
    Outside(PathBuf),
    /// Something of the server's own is there.
    #[error("{0} is where the server keeps its log or its checkpoints: name another directory")]
    Own(PathBuf),
    /// It would be lost from sight.
    #[error("{0} is more than 4 directories deep: name another")]
    Deep(PathBuf),
    /// There are enough.
    #[error(
        "there are {count} backups below {}, as many as backup-max allows: move some away first",
        root.display()
    )]
    Full {
        /// Backups that are there.
        count: usize,
        /// Where.
        root: PathBuf,
    },
    /// It cannot be seen where that is.
    #[error("cannot look at {}: {source}", path.display())]
    Unseen {
        /// The path that was examined.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The places of a configuration.
#[derive(Clone, Debug)]
pub struct Places {
    dir: PathBuf,
    others: Vec<PathBuf>,
    own: Vec<PathBuf>,
    most: usize,
}

impl Places {
    /// As this configuration says.
    pub fn of(config: &Config) -> Places {
        Places {
            dir: config.dir.clone(),
            others: config.backup_dirs(),
            own: [config.log_dirs(), vec![config.checkpoint_dir()]].concat(),
            most: config.backup_max,
        }
    }

    /// The path of a backup, if its words alone do not forbid it. Asks no disk.
    pub fn named(&self, given: &Path) -> Result<PathBuf, Misplaced> {
        let path = by_words(&self.dir.join(given));
        let is_below = |root: &PathBuf| path.strip_prefix(root).is_ok_and(|rest| rest != Path::new(""));
        if !self.others.iter().chain([&self.dir]).any(is_below) {
            return Err(Misplaced::Outside(path));
        }
        Ok(path)
    }

    /// Whether a backup may be taken there, wherever links lead.
    pub fn check(&self, path: &Path) -> Result<(), Misplaced> {
        let real = resolved(path)?;
        let existing = |paths: &[PathBuf]| -> Vec<PathBuf> {
            // One that is not there has nothing in it, and nothing is below it.
            paths.iter().filter_map(|path| path.canonicalize().ok()).collect()
        };
        if existing(&self.own).iter().any(|own| real.starts_with(own)) {
            return Err(Misplaced::Own(path.to_owned()));
        }
        let roots = existing(&[self.others.clone(), vec![self.dir.clone()]].concat());
        let root = roots.into_iter().filter(|root| real.starts_with(root) && real != **root);
        let root = root.max_by_key(|root| root.components().count());
        let Some(root) = root else { return Err(Misplaced::Outside(path.to_owned())) };
        if real.components().count() - root.components().count() > DEPTH_MAX {
            return Err(Misplaced::Deep(path.to_owned()));
        }
        if self.most > 0 {
            let mut entries = ENTRIES_MAX;
            let count = backups_below(&root, &existing(&self.own), DEPTH_MAX, &mut entries)?;
            if count >= self.most {
                return Err(Misplaced::Full { count, root });
            }
        }
        Ok(())
    }
}

/// A path without links, as far as it exists.
fn resolved(path: &Path) -> Result<PathBuf, Misplaced> {
    let failed = |source| Misplaced::Unseen { path: path.to_owned(), source };
    for ancestor in path.ancestors() {
        match ancestor.symlink_metadata() {
            Ok(_) => {
                let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
                let real = ancestor.canonicalize().map_err(failed)?;
                return Ok(if rest == Path::new("") { real } else { real.join(rest) });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(io::ErrorKind::NotFound.into()))
}

/// How many backups there are, finished or not. Does not follow links.
fn backups_below(
    directory: &Path,
    own: &[PathBuf],
    depth: usize,
    entries: &mut usize,
) -> Result<usize, Misplaced> {
    let failed = |source| Misplaced::Unseen { path: directory.to_owned(), source };
    let (mut names, mut below) = (Vec::new(), Vec::new());
    for entry in directory.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        *entries = entries.checked_sub(1).ok_or_else(|| failed(io::ErrorKind::FileTooLarge.into()))?;
        match entry.file_type().map_err(failed)? {
            kind if kind.is_dir() => below.push(entry.path()),
            _ => names.push(entry.file_name().to_string_lossy().into_owned()),
        }
    }
    if is_backup(&names) {
        return Ok(1);
    }
    let mut count = 0;
    if depth > 0 {
        for path in below.into_iter().filter(|path| !own.contains(path)) {
            count += backups_below(&path, own, depth - 1, entries)?;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs::{DirBuilder, write};
    use std::os::unix::fs::symlink;

    fn make(path: &Path) {
        DirBuilder::new().recursive(true).create(path).unwrap();
    }

    fn places(dir: &Path, other: &Path, most: usize) -> Places {
        let own = vec![dir.join("log"), dir.join("checkpoints")];
        Places { dir: dir.to_owned(), others: vec![other.to_owned()], own, most }
    }

    #[test]
    fn only_what_is_below_a_known_directory_by_its_words_is_named() {
        let places = places(Path::new("/data"), Path::new("/backups"), 0);
        for path in ["monday", "backups/monday", "./monday", "..monday", "/backups/monday", "../backups/a"] {
            assert!(places.named(Path::new(path)).is_ok(), "{path}");
        }
        for path in ["/elsewhere", "../monday", "a/../../monday", "/backups", "", ".", "/backupsmonday", "/"]
        {
            assert!(places.named(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn links_lead_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let [dir, other, away] = ["data", "other", "away"].map(|name| folder.path().join(name));
        [&dir, &other, &away, &dir.join("log")].into_iter().for_each(|path| make(path));
        symlink(&away, dir.join("out")).unwrap();
        symlink(&other, dir.join("there")).unwrap();
        symlink(dir.join("log"), other.join("log")).unwrap();
        symlink(folder.path().join("nowhere"), dir.join("dangling")).unwrap();
        let places = places(&dir, &other, 0);
        let refused = |path: PathBuf| places.check(&path).unwrap_err();
        assert!(places.check(&dir.join("monday")).is_ok() && places.check(&dir.join("there/monday")).is_ok());
        assert!(matches!(refused(dir.join("out/monday")), Misplaced::Outside(_)));
        assert!(matches!(refused(dir.join("dangling/monday")), Misplaced::Unseen { .. }));
        assert!(matches!(refused(dir.join("log/monday")), Misplaced::Own(_)));
        assert!(matches!(refused(other.join("log")), Misplaced::Own(_)));
        assert!(matches!(refused(dir.join("a/b/c/d/e")), Misplaced::Deep(_)));
    }

    #[test]
    fn no_more_backups_than_allowed_are_below_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let [dir, other] = ["data", "other"].map(|name| folder.path().join(name));
        for (path, mark) in [("one", "backup.manifest"), ("a/b/c/two", "backup.unfinished")] {
            make(&dir.join(path));
            write(dir.join(path).join(mark), "").unwrap();
        }
        make(&other);
        assert!(places(&dir, &other, 3).check(&dir.join("three")).is_ok());
        let full = places(&dir, &other, 2).check(&dir.join("three")).unwrap_err();
        assert!(full.to_string().starts_with("there are 2 backups below "), "{full}");
        assert!(places(&dir, &other, 2).check(&other.join("three")).is_ok());
    }
}
