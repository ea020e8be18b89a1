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
//! the last sync is there, not there, or there in part (a prefix, or some of its sectors); of the changes of
//! names since the last `sync_dir` a prefix or any subset. A kill keeps everything. Faults strike by chance
//! or at a counted call: a write that is short or fails, a sync that fails and *forgets* (what it should have
//! made durable counts as clean from then on, as on Linux), a full disk, a rename that fails. After the call
//! at which the machine dies every call fails, until [`SimDisk::crash`] starts the next life.

mod crash;
mod disk;
mod faults;
mod file;
mod state;

pub use disk::SimDisk;
pub use faults::{Crash, Fault, SimOptions};
