//! The bytes of a file that a device has after power, or a sync, fails.
//!
//! ```text
//!  of each write:                      of each sector of 4 KB, as the system writes it, and the device:
//!  nothing, all, a part from its       as it was at one instant since the last sync; torn between two
//!  front, some of its sectors          such; what was to be changed in it is anything
//! ```
//!
//! In either way bytes that were synced, and not changed since, are as they were, be it that they were
//! written again: a device that does not promise that is simulated, too (`docs/design/0031`).

use rand::Rng;
use rand::rngs::SmallRng;

use super::state::{Dirty, SimInode, apply};

/// The smallest unit that a device tears or keeps.
const SECTOR_BYTES: usize = 512;
/// The smallest unit that the system, and many devices, write.
const PAGE_BYTES: usize = 4096;

/// The surviving bytes of a file. Where sectors are torn, durable bytes in a sector that was being written
/// may be lost.
pub(super) fn surviving_bytes(inode: &SimInode, tears_sectors: bool, chance: &mut SmallRng) -> Vec<u8> {
    if inode.dirty.is_empty() {
        return inode.device.clone();
    }
    let mut device = if chance.random() { of_writes(inode, chance) } else { of_pages(inode, chance) };
    if tears_sectors {
        for page in pages_of(&inode.dirty) {
            let length = device.len();
            if chance.random_bool(0.3)
                && let Some(torn) = device.get_mut(page * PAGE_BYTES..length.min((page + 1) * PAGE_BYTES))
            {
                chance.fill(torn);
            }
        }
    }
    device
}

/// Of each write all, nothing, or a part.
fn of_writes(inode: &SimInode, chance: &mut SmallRng) -> Vec<u8> {
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
                    let offset = *offset as usize + at;
                    let end = bytes.len().min(at + SECTOR_BYTES - offset % SECTOR_BYTES);
                    if chance.random_bool(0.5) {
                        let (offset, bytes) = (offset as u64, bytes[at..end].to_vec());
                        apply(&mut device, &Dirty::Write { offset, bytes });
                    }
                    at = end;
                }
            }
            (dirty, _) => apply(&mut device, dirty),
        }
    }
    device
}

/// How far a page has come: so many of the changes are in its front, so many behind.
struct Page {
    front: usize,
    back: usize,
    /// Where the back begins.
    torn_at: usize,
    /// Bytes that were not synced are arbitrary.
    is_garbage: bool,
}

/// Each page as it was at some instant.
fn of_pages(inode: &SimInode, chance: &mut SmallRng) -> Vec<u8> {
    let (dirty, mut device) = (&inode.dirty, inode.device.clone());
    let some = |chance: &mut SmallRng| match chance.random_range(0..4) {
        0 => 0,
        1 => dirty.len(),
        _ => chance.random_range(0..=dirty.len()),
    };
    let last = pages_of(dirty).last().copied().unwrap_or(0).max(device.len() / PAGE_BYTES);
    let pages: Vec<Page> = (0..=last)
        .map(|_| {
            let front = some(chance);
            let is_torn = chance.random_bool(0.2);
            let back = if is_torn { some(chance) } else { front };
            let torn_at = chance.random_range(0..PAGE_BYTES / SECTOR_BYTES) * SECTOR_BYTES;
            Page { front, back, torn_at, is_garbage: chance.random_bool(0.1) }
        })
        .collect();
    // The length is what it was at some instant, too.
    let length_as_of = some(chance);
    let mut length = device.len();
    for (index, change) in dirty.iter().enumerate() {
        match change {
            Dirty::Write { offset, bytes } => {
                let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                length = if index < length_as_of { length.max(end) } else { length };
                let mut at = start;
                while at < end {
                    let page = &pages[at / PAGE_BYTES];
                    let within = at % PAGE_BYTES;
                    let stop = if within < page.torn_at { page.torn_at } else { PAGE_BYTES };
                    let next = end.min(at - within + stop);
                    let reached = if within < page.torn_at { page.front } else { page.back };
                    let mut bytes = bytes[at - start..next - start].to_vec();
                    if page.is_garbage {
                        let synced = inode.device.get(at..).unwrap_or_default();
                        let synced = synced.iter().map(Some).chain(std::iter::repeat(None));
                        for (byte, synced) in bytes.iter_mut().zip(synced) {
                            if synced != Some(&*byte) {
                                *byte = chance.random();
                            }
                        }
                    }
                    if page.is_garbage || index < reached {
                        apply(&mut device, &Dirty::Write { offset: at as u64, bytes });
                    }
                    at = next;
                }
            }
            Dirty::SetLen(bytes) => {
                let bytes = *bytes as usize;
                length = if index < length_as_of { bytes } else { length };
                for sector in bytes / SECTOR_BYTES..device.len().div_ceil(SECTOR_BYTES) {
                    let at = sector * SECTOR_BYTES;
                    let page = &pages[(at / PAGE_BYTES).min(last)];
                    let reached = if at % PAGE_BYTES < page.torn_at { page.front } else { page.back };
                    let end = device.len().min(at + SECTOR_BYTES);
                    // A file that is made longer has nothing to take away.
                    if index < reached
                        && let Some(cut) = device.get_mut(at.max(bytes)..end)
                    {
                        cut.fill(0);
                    }
                }
            }
        }
    }
    device.resize(length, 0);
    device
}

/// The pages that are written to, in order.
fn pages_of(dirty: &[Dirty]) -> Vec<usize> {
    let mut pages: Vec<usize> = dirty
        .iter()
        .flat_map(|change| match change {
            Dirty::Write { offset, bytes } if !bytes.is_empty() => {
                let start = *offset as usize;
                start / PAGE_BYTES..(start + bytes.len() - 1) / PAGE_BYTES + 1
            }
            _ => 0..0,
        })
        .collect();
    pages.sort_unstable();
    pages.dedup();
    pages
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// A file of which bytes were synced, and others written since.
    fn any_inode(chance: &mut SmallRng) -> SimInode {
        let device: Vec<u8> = (0..chance.random_range(0..20_000)).map(|_| 1).collect();
        let mut inode = SimInode { cache: device.clone(), device, ..SimInode::default() };
        for _ in 0..chance.random_range(1..8) {
            let offset = chance.random_range(0..20_000);
            let bytes = vec![2; chance.random_range(1..3000)];
            let written = Dirty::Write { offset, bytes };
            apply(&mut inode.cache, &written);
            inode.dirty.push(written);
        }
        inode
    }

    #[test]
    fn what_was_synced_and_not_written_since_survives() {
        let mut torn = 0;
        for seed in 0..2_000 {
            let mut chance = SmallRng::seed_from_u64(seed);
            let inode = any_inode(&mut chance);
            for tears_sectors in [false, true] {
                let survived = surviving_bytes(&inode, tears_sectors, &mut chance);
                let is_dirty = |at: usize| inode.cache[at] == 2;
                let lost = (0..inode.device.len())
                    .filter(|at| !is_dirty(*at) && survived.get(*at) != Some(&1))
                    .collect::<Vec<_>>();
                if tears_sectors {
                    torn += lost.len();
                    let pages = pages_of(&inode.dirty);
                    assert!(lost.iter().all(|at| pages.contains(&(at / PAGE_BYTES))), "seed {seed}");
                } else {
                    assert_eq!(lost, [], "seed {seed}");
                }
            }
        }
        assert!(torn > 0, "some sectors are torn");
    }

    #[test]
    fn what_is_written_again_as_it_was_survives() {
        for seed in 0..1_000 {
            let mut chance = SmallRng::seed_from_u64(seed);
            let device: Vec<u8> = (0..10_000).map(|_| chance.random()).collect();
            let mut inode = SimInode { cache: device.clone(), device, ..SimInode::default() };
            for _ in 0..3 {
                let (from, to) = (chance.random_range(0..5_000), chance.random_range(5_000..10_000));
                inode.dirty.push(Dirty::Write { offset: from as u64, bytes: inode.cache[from..to].to_vec() });
            }
            assert!(surviving_bytes(&inode, false, &mut chance) == inode.device, "seed {seed}");
        }
    }

    #[test]
    fn a_length_of_any_bytes_survives_or_does_not() {
        for seed in 0..2_000 {
            let mut chance = SmallRng::seed_from_u64(seed);
            let mut inode = any_inode(&mut chance);
            let lengths = [inode.cache.len(), inode.cache.len() + chance.random_range(0..2 * SECTOR_BYTES)];
            for bytes in [chance.random_range(0..=lengths[0]), lengths[1]] {
                apply(&mut inode.cache, &Dirty::SetLen(bytes as u64));
                inode.dirty.push(Dirty::SetLen(bytes as u64));
            }
            let survived = surviving_bytes(&inode, false, &mut chance);
            let longest = lengths[1].max(inode.device.len());
            assert!(survived.len() <= longest, "seed {seed}: {} bytes of {longest}", survived.len());
        }
    }

    #[test]
    fn all_that_was_written_may_survive_and_nothing_may() {
        let (mut all, mut nothing) = (0, 0);
        for seed in 0..2_000 {
            let mut chance = SmallRng::seed_from_u64(seed);
            let inode = any_inode(&mut chance);
            let survived = surviving_bytes(&inode, false, &mut chance);
            all += u32::from(survived == inode.cache);
            nothing += u32::from(survived == inode.device);
        }
        assert!(all > 20 && nothing > 20, "{all} times all, {nothing} times nothing");
    }
}
