//! The log: what was written survives. `docs/format/log.md` has the bytes.

mod ahead;
mod appender;
mod block;
mod blocks;
mod chunk;
mod closed;
#[cfg(test)]
mod closing_tests;
mod compaction;
#[cfg(test)]
mod compaction_tests;
mod condensed;
mod counters;
mod covered;
#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod directory_tests;
mod durable;
mod error;
mod file;
mod files;
mod flusher;
mod format;
mod group;
mod handle;
mod identity;
mod keeper;
#[cfg(test)]
mod limit_tests;
#[cfg(all(test, shuttle))]
mod model;
mod options;
mod pin;
mod pipeline;
mod put_away;
mod reader;
#[cfg(test)]
mod record_tests;
mod records;
mod rescue;
#[cfg(test)]
mod rescue_tests;
mod retired;
mod scrub;
mod sizes;
mod source;
mod status;
mod stream;
mod survey;
#[cfg(test)]
mod tests;
mod threads;
mod truncation;
mod validity;
#[cfg(test)]
mod void_tests;
mod voids;

pub use appender::Appender;
pub use block::Block;
pub use closed::{ClosedFile, Extent};
pub use compaction::{Compacted, Keeper};
pub use durable::{Durable, Waker};
pub use error::{CompactionError, Damage, LogError, OpenError, Remedy};
pub(crate) use file::{create_over, file_name};
pub use format::FormatError;
pub(crate) use format::{put_varint, take_varint};
pub use group::Group;
pub use handle::{Log, Replaced};
pub(crate) use identity::give_identity;
pub use options::{LogOptions, SyncMode};
pub(crate) use pin::{Pinned, PinnedFile};
pub use reader::{OpenProgress, Reader, Recovered};
pub use records::{Record, Records};
pub use scrub::FoundDamage;
pub use sizes::Sizes;
pub use source::Lost;
pub use status::{DirectoryStatus, LogStatus};
pub use survey::{FileSurvey, Survey};
pub use validity::{Look, Validity};
