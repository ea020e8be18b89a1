//! The private memory of forked children: the pages that the kernel has copied.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::process;

/// The interval between two readings of the children's memory.
const PERIOD: Duration = Duration::from_millis(50);

/// Reads the memory of this process's children repeatedly, on the given core, until `stop` is set. Returns
/// the most bytes that they had together and for themselves.
pub(super) fn child_bytes_most(core: usize, stop: &AtomicBool) -> u64 {
    // Where it runs is a matter of courtesy.
    let _ = process::pin_thread(&[core]);
    let mut most = 0;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(PERIOD);
        most = most.max(process::children(std::process::id()).into_iter().map(process::private_bytes).sum());
    }
    most
}

#[cfg(test)]
mod tests {
    use process::private_bytes;

    use super::*;

    #[test]
    fn a_child_has_memory_of_its_own() {
        let mut child = std::process::Command::new("sleep").arg("5").spawn().expect("there is a sleep");
        assert!(process::children(std::process::id()).contains(&child.id()));
        // It may not have begun yet.
        while private_bytes(child.id()) <= 4096 {
            assert!(matches!(child.try_wait(), Ok(None)), "it sleeps for long");
            std::thread::yield_now();
        }
        child.kill().and_then(|()| child.wait()).expect("the child is ours");
    }
}
