//! The files: their current content, and the durable part of it.
//!
//! Invariants: a page of a file that is not among its `dirty` ones is the same now and on the device; a name
//! of a directory that no operation in `pending` touches is the same in `now` and `durable`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};

use fuser::Errno;
use rand::Rng;
use rand::rngs::SmallRng;

/// The unit in which a kernel writes.
const PAGE_BYTES: usize = 4096;

/// The number of the top directory.
pub(super) const ROOT: u64 = 1;

/// The data that survives a loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// The synced data, and nothing else.
    Synced,
    /// The synced data, and random parts of the rest.
    ByChance,
}

/// One change of a directory: names, each with the file that it refers to from then on.
type NameChange = Vec<(OsString, Option<u64>)>;

#[derive(Debug, Default)]
struct File {
    now: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
}

#[derive(Debug, Default)]
struct Directory {
    now: BTreeMap<OsString, u64>,
    durable: BTreeMap<OsString, u64>,
    pending: Vec<NameChange>,
}

#[derive(Debug)]
enum Node {
    File(File),
    Directory(Directory),
}

/// All files of a disk.
#[derive(Debug)]
pub(super) struct Files {
    nodes: HashMap<u64, Node>,
    next: u64,
    has_power: bool,
    /// True if syncs work.
    syncs: bool,
}

/// An operation is refused as the kernel does it.
pub(super) type Result<T> = std::result::Result<T, Errno>;

impl Files {
    /// An empty disk. Without `syncs` it says that it has synced, and has not.
    pub(super) fn new(syncs: bool) -> Files {
        let top = Node::Directory(Directory::default());
        Files { nodes: HashMap::from([(ROOT, top)]), next: ROOT + 1, has_power: true, syncs }
    }

    /// From now on every operation fails.
    pub(super) fn cut(&mut self) {
        self.has_power = false;
    }

    /// Power is back: only the surviving data is there.
    pub(super) fn restore(&mut self, survival: Survival, rng: &mut SmallRng) {
        for node in self.nodes.values_mut() {
            match node {
                Node::File(file) => file.lose(survival, rng),
                Node::Directory(directory) => directory.lose(survival, rng),
            }
        }
        self.has_power = true;
        self.forget_nameless();
    }

    /// No file is open across a loss of power, so files without a name are removed.
    fn forget_nameless(&mut self) {
        let mut named = BTreeSet::from([ROOT]);
        let mut new = vec![ROOT];
        while let Some(number) = new.pop() {
            if let Some(Node::Directory(directory)) = self.nodes.get(&number) {
                new.extend(directory.now.values().filter(|&&child| named.insert(child)));
            }
        }
        self.nodes.retain(|number, _| named.contains(number));
    }

    fn node(&mut self, number: u64) -> Result<&mut Node> {
        if !self.has_power {
            return Err(Errno::EIO);
        }
        self.nodes.get_mut(&number).ok_or(Errno::ENOENT)
    }

    fn file(&mut self, number: u64) -> Result<&mut File> {
        match self.node(number)? {
            Node::File(file) => Ok(file),
            Node::Directory(_) => Err(Errno::EISDIR),
        }
    }

    fn directory(&mut self, number: u64) -> Result<&mut Directory> {
        match self.node(number)? {
            Node::Directory(directory) => Ok(directory),
            Node::File(_) => Err(Errno::ENOTDIR),
        }
    }

    /// The length of a file; `None` of a directory.
    pub(super) fn len(&mut self, number: u64) -> Result<Option<u64>> {
        Ok(match self.node(number)? {
            Node::File(file) => Some(file.now.len() as u64),
            Node::Directory(_) => None,
        })
    }

    /// The file of this name in a directory.
    pub(super) fn find(&mut self, parent: u64, name: &OsStr) -> Result<u64> {
        self.directory(parent)?.now.get(name).copied().ok_or(Errno::ENOENT)
    }

    /// The names in a directory.
    pub(super) fn list(&mut self, number: u64) -> Result<Vec<(OsString, u64)>> {
        let now = &self.directory(number)?.now;
        Ok(now.iter().map(|(name, &child)| (name.clone(), child)).collect())
    }

    /// Makes a file, or a directory.
    pub(super) fn create(&mut self, parent: u64, name: &OsStr, is_directory: bool) -> Result<u64> {
        let number = self.next;
        self.directory(parent)?.add(name, number)?;
        let node = match is_directory {
            true => Node::Directory(Directory::default()),
            false => Node::File(File::default()),
        };
        self.nodes.insert(number, node);
        self.next += 1;
        Ok(number)
    }

    /// Gives a file a further name.
    pub(super) fn link(&mut self, number: u64, parent: u64, name: &OsStr) -> Result<()> {
        self.file(number)?;
        self.directory(parent)?.add(name, number)
    }

    /// Removes a name. A process that has the file open keeps using it.
    pub(super) fn remove(&mut self, parent: u64, name: &OsStr, is_directory: bool) -> Result<()> {
        let number = self.find(parent, name)?;
        match (self.node(number)?, is_directory) {
            (Node::Directory(directory), true) if !directory.now.is_empty() => return Err(Errno::ENOTEMPTY),
            (Node::Directory(_), false) => return Err(Errno::EISDIR),
            (Node::File(_), true) => return Err(Errno::ENOTDIR),
            _ => {}
        }
        self.directory(parent)?.change(vec![(name.to_owned(), None)]);
        Ok(())
    }

    /// Gives a file another name, in one step where the directory stays the same. `replaces` says whether one
    /// that has this name may lose it.
    pub(super) fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr), replaces: bool) -> Result<()> {
        let number = self.find(from.0, from.1)?;
        if let Ok(replaced) = self.find(to.0, to.1) {
            if !replaces {
                return Err(Errno::EEXIST);
            }
            if let Node::Directory(directory) = self.node(replaced)?
                && !directory.now.is_empty()
            {
                return Err(Errno::ENOTEMPTY);
            }
        }
        let (gone, new) = ((from.1.to_owned(), None), (to.1.to_owned(), Some(number)));
        if from.0 == to.0 {
            self.directory(from.0)?.change(vec![gone, new]);
        } else {
            self.directory(to.0)?.change(vec![new]);
            self.directory(from.0)?.change(vec![gone]);
        }
        Ok(())
    }

    /// Up to `len` bytes from `offset` on.
    pub(super) fn read(&mut self, number: u64, offset: u64, len: usize) -> Result<&[u8]> {
        let now = &self.file(number)?.now;
        let start = (offset as usize).min(now.len());
        Ok(&now[start..now.len().min(start + len)])
    }

    /// Writes bytes; the file becomes longer where it has to.
    pub(super) fn write(&mut self, number: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = self.file(number)?;
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        if file.now.len() < end {
            file.set_len(end);
        }
        file.now[start..end].copy_from_slice(bytes);
        file.touch(start, end);
        Ok(())
    }

    /// Makes a range zeros, as far as the file goes; with `extends`, it is longer then if it has to.
    pub(super) fn zero(
        &mut self,
        number: u64,
        offset: u64,
        len: u64,
        extends: bool,
        clears: bool,
    ) -> Result<()> {
        let file = self.file(number)?;
        let end = (offset + len) as usize;
        if extends && file.now.len() < end {
            file.set_len(end);
        }
        let end = end.min(file.now.len());
        if clears && (offset as usize) < end {
            file.now[offset as usize..end].fill(0);
            file.touch(offset as usize, end);
        }
        Ok(())
    }

    /// Makes a file shorter, or longer with zeros.
    pub(super) fn set_len(&mut self, number: u64, len: u64) -> Result<()> {
        self.file(number)?.set_len(len as usize);
        Ok(())
    }

    /// Makes a file's bytes durable, or a directory's names.
    pub(super) fn sync(&mut self, number: u64) -> Result<()> {
        let syncs = self.syncs;
        let node = self.node(number)?;
        if syncs {
            node.sync();
        }
        Ok(())
    }

    /// Makes all that is there durable.
    pub(super) fn keep_all(&mut self) {
        self.nodes.values_mut().for_each(Node::sync);
    }
}

impl Node {
    fn sync(&mut self) {
        match self {
            Node::File(file) => file.sync(),
            Node::Directory(directory) => {
                directory.durable.clone_from(&directory.now);
                directory.pending.clear();
            }
        }
    }
}

impl File {
    fn touch(&mut self, start: usize, end: usize) {
        self.dirty.extend(start / PAGE_BYTES..end.div_ceil(PAGE_BYTES));
    }

    fn set_len(&mut self, len: usize) {
        let (shorter, longer) = (self.now.len().min(len), self.now.len().max(len));
        self.now.resize(len, 0);
        self.touch(shorter, longer);
    }

    fn sync(&mut self) {
        self.durable.resize(self.now.len(), 0);
        for page in std::mem::take(&mut self.dirty) {
            copy_page(&self.now, &mut self.durable, page);
        }
    }

    fn lose(&mut self, survival: Survival, rng: &mut SmallRng) {
        if survival == Survival::ByChance {
            // Lengths are not data: either of them may be there with any of the pages.
            if rng.random() {
                self.durable.resize(self.now.len(), 0);
            }
            for &page in &self.dirty {
                if rng.random() {
                    copy_page(&self.now, &mut self.durable, page);
                }
            }
        }
        self.dirty.clear();
        self.now.clone_from(&self.durable);
    }
}

/// Copies the bytes of a page that both have.
fn copy_page(from: &[u8], to: &mut [u8], page: usize) {
    let (start, end) = (page * PAGE_BYTES, ((page + 1) * PAGE_BYTES).min(from.len()).min(to.len()));
    if start < end {
        to[start..end].copy_from_slice(&from[start..end]);
    }
}

impl Directory {
    fn add(&mut self, name: &OsStr, number: u64) -> Result<()> {
        if self.now.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        self.change(vec![(name.to_owned(), Some(number))]);
        Ok(())
    }

    fn change(&mut self, change: NameChange) {
        apply(&mut self.now, &change);
        self.pending.push(change);
    }

    fn lose(&mut self, survival: Survival, rng: &mut SmallRng) {
        let pending = std::mem::take(&mut self.pending);
        if survival == Survival::ByChance {
            // A journal keeps the order; without one any of them may be there.
            let journal = rng.random::<bool>().then(|| rng.random_range(0..=pending.len()));
            for (index, change) in pending.iter().enumerate() {
                if journal.map_or_else(|| rng.random(), |kept| index < kept) {
                    apply(&mut self.durable, change);
                }
            }
        }
        self.now.clone_from(&self.durable);
    }
}

fn apply(names: &mut BTreeMap<OsString, u64>, change: &NameChange) {
    for (name, number) in change {
        match number {
            Some(number) => names.insert(name.clone(), *number),
            None => names.remove(name),
        };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rand::SeedableRng;

    use super::*;

    fn text(files: &mut Files, name: &str) -> Option<Vec<u8>> {
        let number = files.find(ROOT, name.as_ref()).ok()?;
        Some(files.read(number, 0, 1 << 20).expect("it is a file").to_vec())
    }

    #[test]
    fn what_was_synced_survives_and_nothing_else() {
        let (mut files, mut rng) = (Files::new(true), SmallRng::seed_from_u64(1));
        let file = files.create(ROOT, "kept".as_ref(), false).unwrap();
        files.write(file, 0, b"synced").unwrap();
        files.sync(file).unwrap();
        files.sync(ROOT).unwrap();
        files.write(file, 0, b"SYN").unwrap();
        files.write(file, 6, b" and more").unwrap();
        // Its bytes are synced, its name is not.
        let nameless = files.create(ROOT, "nameless".as_ref(), false).unwrap();
        files.sync(nameless).unwrap();
        files.rename((ROOT, "kept".as_ref()), (ROOT, "renamed".as_ref()), true).unwrap();
        files.cut();
        assert_eq!(files.write(file, 0, b"late"), Err(Errno::EIO));
        assert_eq!(files.sync(file), Err(Errno::EIO));
        files.restore(Survival::Synced, &mut rng);
        assert_eq!(text(&mut files, "kept").as_deref(), Some(&b"synced"[..]));
        assert_eq!(files.list(ROOT).unwrap().len(), 1);
    }

    #[test]
    fn by_chance_whole_pages_and_names_survive_that_were_not_synced() {
        let mut seen = BTreeSet::new();
        for seed in 0..200 {
            let (mut files, mut rng) = (Files::new(true), SmallRng::seed_from_u64(seed));
            let file = files.create(ROOT, "a".as_ref(), false).unwrap();
            files.write(file, 0, &[1; 2 * PAGE_BYTES]).unwrap();
            files.sync(file).unwrap();
            files.sync(ROOT).unwrap();
            files.write(file, 0, &[2; 2 * PAGE_BYTES]).unwrap();
            files.rename((ROOT, "a".as_ref()), (ROOT, "b".as_ref()), true).unwrap();
            files.cut();
            files.restore(Survival::ByChance, &mut rng);
            let (a, b) = (text(&mut files, "a"), text(&mut files, "b"));
            assert!(a.is_some() != b.is_some(), "a name is changed in one step");
            let bytes = a.clone().or(b).unwrap();
            assert!(bytes.chunks(PAGE_BYTES).all(|page| page.iter().all(|byte| *byte == page[0])));
            seen.insert((a.is_some(), bytes[0], bytes[PAGE_BYTES]));
        }
        assert_eq!(seen.len(), 8, "{seen:?}");
    }

    #[test]
    fn a_disk_that_lies_has_nothing_after_a_cut() {
        let (mut files, mut rng) = (Files::new(false), SmallRng::seed_from_u64(1));
        let file = files.create(ROOT, "a".as_ref(), false).unwrap();
        files.sync(file).unwrap();
        files.sync(ROOT).unwrap();
        files.cut();
        files.restore(Survival::Synced, &mut rng);
        assert!(files.list(ROOT).unwrap().is_empty());
    }
}
