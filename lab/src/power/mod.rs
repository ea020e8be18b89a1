//! A disk that loses power: a file system in memory, mounted by FUSE, that forgets unsynced data.
//!
//! ```text
//!   server ── write, create, rename ──> now          what everybody sees while there is power
//!          ── fsync of a file ───────> durable       its bytes and its length
//!          ── fsync of a directory ──> durable       its names
//!   cut: every call fails ── the server is killed ── restore: now := what was durable, and by chance more
//! ```
//!
//! A server that is killed leaves its data in the page cache, so a kill cannot show that a sync is missing.
//! This disk can: the kernel passes each write on at once, and after a cut the disk has exactly what was
//! synced, names of files included, or that with further pages and names that chance lets survive.

mod files;
mod mount;

pub use files::Survival;
pub use mount::{PowerDisk, is_available};
