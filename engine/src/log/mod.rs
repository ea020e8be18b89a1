//! The log, which makes writes durable. `docs/format/log.md` has the byte format.
//!
//! ```text
//!   handle                            the log as its owner holds it
//!   write      open      compact      threads that append and sync; a start; a file made shorter
//!   block  file  format  records …    what a file consists of
//! ```

mod block;
mod chunk;
mod closed;
mod compact;
mod condensed;
#[cfg(test)]
mod crash_tests;
mod error;
mod file;
mod format;
mod handle;
#[cfg(test)]
mod limit_tests;
#[cfg(all(test, shuttle))]
mod model;
mod open;
mod options;
mod packed;
#[cfg(test)]
mod record_tests;
mod records;
mod retired;
mod sizes;
#[cfg(test)]
mod tests;
mod threads;
mod voids;
mod write;

pub use block::Block;
pub use closed::{ClosedFile, Extent};
pub use compact::compaction::{Compacted, Keeper};
pub(crate) use compact::pin::{Pinned, PinnedFile};
pub use compact::scrub::FoundDamage;
pub use compact::validity::{Look, Validity};
pub use error::{CompactionError, Damage, LogError, OpenError, Remedy};
pub(crate) use file::{create_over, file_name};
pub use format::FormatError;
pub(crate) use format::{put_varint, take_varint};
pub use handle::{Log, Replaced};
pub(crate) use open::identity::give_identity;
pub use open::reader::{OpenProgress, Reader, Recovered};
pub use open::source::Lost;
pub use open::survey::{FileSurvey, Survey};
pub use options::{Compression, LogOptions, SyncMode};
pub use records::{Record, Records};
pub use sizes::Sizes;
pub use write::appender::Appender;
pub use write::durable::{Durable, Waker};
pub use write::group::Group;
pub use write::status::{DirectoryStatus, LogStatus};
