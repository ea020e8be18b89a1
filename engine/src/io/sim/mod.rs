//! A simulated file system that forgets what a real one may forget. Everything follows from a seed and the
//! order of the calls.
//!
//! ```text
//!              write_at, set_len            sync_data
//!  program  --------------------> cache  -------------> device         each file
//!           create rename remove          sync_dir
//!           --------------------> names  -------------> device         each directory
//! ```
//!
//! A loss of power keeps the device and, of what only the cache had, whatever chance picks: each write since
//! the last sync is there, not there, or there in part, or each page is as it was at some instant
//! (`surviving`); of the changes of names since the last `sync_dir` a prefix or any subset; nothing of what
//! is in a directory whose own name is not there. A kill keeps everything. Faults strike by chance or at a
//! counted call: a write that is short or fails, a sync that fails and *forgets* (what it should have made
//! durable counts as clean from then on, as on Linux, and may be dropped at once), a full disk, a name or a
//! file that is refused, a read that is short or fails. Some break the device's word: a write that it says is
//! durable is not there, or elsewhere; a bit rots. With `overlaps`, calls of several threads go on side by
//! side. After the call at which the machine dies every call fails, until [`SimDisk::crash`] starts the next
//! life.

mod crash;
mod disk;
mod faults;
mod file;
mod seeds;
mod state;
mod surviving;

pub use disk::SimDisk;
pub use faults::{Crash, Fault, SimOptions};
pub use seeds::{seed_count, seeds};
