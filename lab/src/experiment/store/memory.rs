//! The memory of a server while it takes a checkpoint.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::cell::Peak;
use super::trial::Trial;
use crate::client;
use crate::error::Result;
use crate::process;

/// The least time between two samples.
const EVERY: Duration = Duration::from_millis(50);
/// Time between two samples, by the time that one takes: reading the page tables of gigabytes is work.
const REST: u32 = 10;

/// Watches a server until it is told to end. What a forked child writes or has for itself is its own, what it
/// shares counts once: the sum of the proportional sizes of both. Without a child the kernel keeps the
/// highest resident size itself.
pub fn watch(trial: &Trial, ended: &AtomicBool) -> Result<Peak> {
    let pid = trial.server.pid();
    let mut client = trial.server.client()?;
    let mut used = || -> Result<u64> {
        let info = client::text(&client.call(&["INFO", "memory"])?)?;
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok());
        Ok(used.unwrap_or_default())
    };
    process::forget_peak(pid)?;
    let (before, used_before) = (process::memory(pid)?.resident_bytes, used()?);
    let mut peak = Peak { before, most: before, used_before, used_most: used_before, samples: 0 };
    while !ended.load(Ordering::Relaxed) {
        let began = Instant::now();
        if trial.variant.forks() {
            let family = process::children(pid).into_iter().chain([pid]);
            // A child may end while it is looked at.
            let together =
                family.filter_map(|pid| process::memory(pid).ok()).map(|own| own.proportional_bytes);
            peak.most = peak.most.max(together.sum());
        }
        peak.used_most = peak.used_most.max(used()?);
        peak.samples += 1;
        sleep((began.elapsed() * REST).max(EVERY));
    }
    if !trial.variant.forks() {
        peak.most = peak.most.max(process::memory(pid)?.resident_bytes_max);
    }
    Ok(peak)
}
