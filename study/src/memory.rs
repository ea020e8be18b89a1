//! Checks whether memory for an array is available, before it is allocated.
//!
//! The kernel promises more memory than it has, and kills a process that uses it all. So the memory that an
//! algorithm needs is compared with `MemAvailable` of `/proc/meminfo`, and with what the limits of the
//! process's control groups leave (version 2; groups of version 1 are not read). If nothing can be read,
//! nothing is refused.

use std::fs::read_to_string;
use std::path::Path;

use crate::error::SnapshotError;
use crate::shape::Shape;

/// Smaller needs are not checked: they do not exhaust memory, and reading the files takes time.
const UNCHECKED_BYTES: u128 = 64 << 20;
/// Where the control groups are.
const GROUPS: &str = "/sys/fs/cgroup";

/// Fails if there is no memory for this number of copies of the rows.
pub(crate) fn check(shape: Shape, copies: usize) -> Result<(), SnapshotError> {
    let need_bytes = need_bytes(shape, copies);
    let have_bytes = (need_bytes >= UNCHECKED_BYTES).then(available_bytes).flatten();
    match have_bytes {
        Some(have) if need_bytes > u128::from(have) => Err(SnapshotError::Memory { need_bytes, have_bytes }),
        _ => Ok(()),
    }
}

/// The error for an allocator that refuses this number of copies of the rows.
pub(crate) fn refused(shape: Shape, copies: usize) -> SnapshotError {
    SnapshotError::Memory { need_bytes: need_bytes(shape, copies), have_bytes: None }
}

/// `count` zeros for an array of this shape; an error if the allocator has no memory for them.
pub(crate) fn zeros<T: Default>(count: usize, shape: Shape) -> Result<Vec<T>, SnapshotError> {
    let mut zeros = reserved(count, shape)?;
    zeros.resize_with(count, T::default);
    Ok(zeros)
}

/// An empty list with room for `count` values, which nobody has touched.
pub(crate) fn reserved<T>(count: usize, shape: Shape) -> Result<Vec<T>, SnapshotError> {
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|_| refused(shape, 1))?;
    Ok(list)
}

fn need_bytes(shape: Shape, copies: usize) -> u128 {
    shape.rows as u128 * shape.row_bytes() as u128 * copies as u128
}

/// The bytes that the machine and the control groups leave to this process.
fn available_bytes() -> Option<u64> {
    let of_machine = read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let group = read_to_string("/proc/self/cgroup").ok();
    let group = group.as_deref().and_then(group_of).map(|group| Path::new(GROUPS).join(group));
    let folders = group.iter().flat_map(|group| group.ancestors()).take_while(|one| one.starts_with(GROUPS));
    let of_groups = folders.filter_map(|folder| {
        let read = |name| read_to_string(folder.join(name)).ok();
        left(&read("memory.max")?, &read("memory.current")?, &read("memory.stat")?)
    });
    of_machine.into_iter().chain(of_groups).min()
}

/// `MemAvailable` of a `/proc/meminfo`.
fn available(meminfo: &str) -> Option<u64> {
    let kibibytes = number_after(meminfo, "MemAvailable:")?;
    kibibytes.checked_mul(1024)
}

/// The group of version 2 in a `/proc/self/cgroup`, seen from the top.
fn group_of(cgroups: &str) -> Option<&str> {
    cgroups.lines().find_map(|line| line.strip_prefix("0::/"))
}

/// The bytes that a group may still allocate, by its `memory.max`, `memory.current` and `memory.stat`. Cached
/// files count as used, but the kernel drops them where memory is needed.
fn left(max: &str, current: &str, stat: &str) -> Option<u64> {
    // "max" where there is no limit.
    let max: u64 = max.trim().parse().ok()?;
    let current: u64 = current.trim().parse().ok()?;
    let files = ["active_file ", "inactive_file "].map(|name| number_after(stat, name).unwrap_or(0));
    Some(max.saturating_sub(current.saturating_sub(files[0] + files[1])))
}

/// The number in the line that begins so.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_what_meminfo_calls_available() {
        let meminfo =
            "MemTotal:       24689764 kB\nMemFree:  9 kB\nMemAvailable:       2 kB\nSwapFree: 7 kB\n";
        assert_eq!(available(meminfo), Some(2048));
        assert_eq!(available("MemTotal: 5 kB\n"), None);
        assert_eq!(available("MemAvailable: many kB\n"), None);
        assert_eq!(available("MemAvailable: 18446744073709551615 kB\n"), None);
    }

    #[test]
    fn a_group_of_version_2_is_found_among_others() {
        assert_eq!(group_of("4:memory:/old\n0::/user/shop.service\n"), Some("user/shop.service"));
        assert_eq!(group_of("0::/\n"), Some(""));
        assert_eq!(group_of("4:memory:/old\n"), None);
    }

    #[test]
    fn a_group_has_what_its_limit_leaves_and_its_cached_files() {
        let stat = "anon 500\nfile 400\nshmem 100\ninactive_file 250\nactive_file 50\n";
        assert_eq!(left("1000\n", "900\n", stat), Some(400));
        assert_eq!(left("1000\n", "900\n", ""), Some(100));
        assert_eq!(left("1000\n", "1200\n", ""), Some(0));
        assert_eq!(left("max\n", "900\n", stat), None);
    }

    #[test]
    fn copies_that_do_not_fit_are_refused_before_they_are_taken() {
        let rows = |rows| Shape { rows, fields: 512 };
        assert_eq!(check(rows(1), 3), Ok(()));
        // Without an overflow, too: 2^64 rows of 4096 bytes.
        for huge in [1 << 40, usize::MAX] {
            let need = huge as u128 * 4096 * 3;
            let Err(SnapshotError::Memory { need_bytes, have_bytes: Some(_) }) = check(rows(huge), 3) else {
                panic!("{huge} rows are refused for what the machine has")
            };
            assert_eq!(need_bytes, need);
        }
    }
}
