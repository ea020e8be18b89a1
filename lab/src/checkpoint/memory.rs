//! The memory of a server while it takes a checkpoint.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::trial::Trial;
use crate::error::{LabError, Result};
use crate::process;
use crate::server::Info;

/// The least time between two samples.
const EVERY: Duration = Duration::from_millis(50);
/// Time between two samples, by the time that one takes: reading the page tables of gigabytes is work.
const REST: u32 = 10;

/// Memory around checkpoints, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Peak {
    /// Before.
    pub before: u64,
    /// The most: of a server that forks, the proportional sizes of both processes together, sampled; else the
    /// highest resident size.
    pub most: u64,
    /// The most address space, sampled: of a server that forks, of both processes together.
    pub virtual_most: u64,
    /// `used_memory` before, as the server reports it.
    pub used_before: u64,
    /// The most of it, sampled.
    pub used_most: u64,
    /// The most that was swapped out under a limit of memory, sampled.
    pub swapped_most: u64,
    /// Samples.
    pub samples: u64,
    /// By time: milliseconds since the start, and bytes resident; those of a server that forks as in `most`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<(u32, u64)>,
}

/// Watches a server until `ended` is set. A forked child's own memory counts once, and so does the memory
/// that it shares: the result is the sum of the proportional sizes of both. Without a child the kernel keeps
/// the highest resident size itself.
pub(super) fn watch(trial: &Trial, ended: &AtomicBool) -> Result<Peak> {
    let pid = trial.server.pid();
    let mut client = trial.server.client()?;
    let mut used =
        || Ok::<u64, LabError>(Info::read(&mut client, "memory")?.number("used_memory").unwrap_or(0));
    process::forget_peak(pid)?;
    let start = Instant::now();
    let (before, used_before) = (process::memory(pid)?.resident_bytes, used()?);
    let mut peak = Peak { before, most: before, used_before, used_most: used_before, ..Peak::default() };
    while !ended.load(Ordering::Relaxed) {
        let began = Instant::now();
        let bytes = if trial.forks { process::family_bytes(pid) } else { process::resident_bytes(pid)? };
        peak.most = peak.most.max(bytes);
        peak.virtual_most = peak.virtual_most.max(process::family_virtual_bytes(pid));
        peak.timeline.push((start.elapsed().as_millis() as u32, bytes));
        peak.used_most = peak.used_most.max(used()?);
        let swapped = trial.limit.as_ref().map_or(0, |limit| limit.group.swapped_bytes());
        peak.swapped_most = peak.swapped_most.max(swapped);
        peak.samples += 1;
        sleep((began.elapsed() * REST).max(EVERY));
    }
    if !trial.forks {
        peak.most = peak.most.max(process::memory(pid)?.resident_bytes_max);
    }
    Ok(peak)
}
