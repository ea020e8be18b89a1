//! The heap of the process: what the allocator holds, and memory that is touched before anyone writes to it.
//! All of it is about jemalloc, which the program sets as its global allocator; under another one the figures
//! are zeros, and nothing is touched.

mod ahead;

pub use ahead::Ahead;

/// What the allocator holds, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heap {
    /// In objects.
    pub allocated: u64,
    /// In pages that hold objects.
    pub active: u64,
    /// In RAM.
    pub resident: u64,
}

impl Heap {
    /// What it holds now; zeros if it does not tell.
    pub fn now() -> Self {
        use tikv_jemalloc_ctl::{epoch, stats};
        let read = || -> Result<Self, tikv_jemalloc_ctl::Error> {
            // The statistics are those of the last epoch.
            epoch::advance()?;
            let (allocated, active) = (stats::allocated::read()?, stats::active::read()?);
            let resident = stats::resident::read()?;
            Ok(Self { allocated: allocated as u64, active: active as u64, resident: resident as u64 })
        };
        read().unwrap_or_default()
    }
}

/// The name and version of the allocator.
pub fn allocator() -> String {
    let version = tikv_jemalloc_ctl::version::read().unwrap_or_default();
    format!("jemalloc-{}", version.split('-').next().unwrap_or_default())
}
