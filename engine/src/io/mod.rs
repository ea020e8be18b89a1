//! Files, time and randomness: all that the store takes from the operating system, behind traits that a test
//! can replace.

pub(crate) mod child;
#[expect(clippy::disallowed_methods, reason = "the one door to what clippy.toml forbids elsewhere")]
pub mod clock;
mod closer;
pub mod disk;
#[expect(clippy::disallowed_methods, reason = "the one door to what clippy.toml forbids elsewhere")]
pub mod os;
mod outgoing;
pub mod sim;
mod tap;
mod verified;

pub use clock::{Clock, ManualClock, SystemClock};
pub use closer::Closer;
pub use disk::{Disk, DiskError, DiskFile, DiskLock, DiskResult, OnOneLine, SCAN_ALIGN_BYTES};
pub use os::OsDisk;
pub use outgoing::Outgoing;
pub use sim::{Crash, Fault, SimDisk, SimOptions, seed_count, seeds};
pub use tap::{Tap, TappedDisk, TappedFile};
pub use verified::Verified;
