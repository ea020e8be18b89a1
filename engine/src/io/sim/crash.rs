//! The death of the machine: what a kill keeps, and what a loss of power leaves to chance.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rand::Rng;
use rand::rngs::SmallRng;

use super::disk::SimDisk;
use super::faults::{Crash, SimOptions};
use super::state::{Dirty, SimInode, SimState, apply};

const SECTOR_BYTES: u64 = 512;

impl SimDisk {
    /// What is left when the machine dies now, for its next life. The old one answers every call with an
    /// error from then on.
    pub fn crash(&self, crash: Crash, seed: u64, options: SimOptions) -> SimDisk {
        let mut old = self.state.lock();
        old.dead = true;
        let mut new = SimState::new(seed, options);
        new.directories = old.directories.clone();
        match crash {
            Crash::Kill => {
                let closed = |inode: &SimInode| SimInode { open: 0, failures: 0, ..inode.clone() };
                new.files = old.files.iter().map(closed).collect();
                (new.names, new.device_names) = (old.names.clone(), old.device_names.clone());
                new.changes = old.changes.clone();
            }
            Crash::PowerLoss => {
                for (index, (path, file)) in surviving_names(&old, &mut new.rng).into_iter().enumerate() {
                    let device = surviving_bytes(&old.files[file], &mut new.rng);
                    new.files.push(SimInode { cache: device.clone(), device, ..SimInode::default() });
                    new.names.insert(path.clone(), index);
                    new.device_names.insert(path, index);
                }
            }
        }
        SimDisk { state: Arc::new(Mutex::new(new)) }
    }
}

/// Of the changes of names that no sync has covered: in half of the cases a prefix, else any subset.
fn surviving_names(old: &SimState, chance: &mut SmallRng) -> BTreeMap<PathBuf, usize> {
    let mut names = old.device_names.clone();
    let prefix = chance.random_bool(0.5).then(|| chance.random_range(0..=old.changes.len()));
    for (index, change) in old.changes.iter().enumerate() {
        let survives = match prefix {
            Some(count) => index < count,
            None => chance.random_bool(0.5),
        };
        if survives {
            change.apply(&mut names);
        }
    }
    names
}

/// What the device has, and of each write since the last sync all, nothing, or a part.
pub(super) fn surviving_bytes(inode: &SimInode, chance: &mut SmallRng) -> Vec<u8> {
    let mut device = inode.device.clone();
    for dirty in &inode.dirty {
        match (dirty, chance.random_range(0..4)) {
            (_, 0) => {}
            (Dirty::Write { offset, bytes }, 1) => {
                let length = chance.random_range(0..=bytes.len());
                apply(&mut device, &Dirty::Write { offset: *offset, bytes: bytes[..length].to_vec() });
            }
            (Dirty::Write { offset, bytes }, 2) => {
                let mut at = 0;
                while at < bytes.len() {
                    let next_sector = (offset + at as u64 + 1).next_multiple_of(SECTOR_BYTES) - offset;
                    let end = bytes.len().min(next_sector as usize);
                    if chance.random_bool(0.5) {
                        let part =
                            Dirty::Write { offset: offset + at as u64, bytes: bytes[at..end].to_vec() };
                        apply(&mut device, &part);
                    }
                    at = end;
                }
            }
            (dirty, _) => apply(&mut device, dirty),
        }
    }
    device
}
