//! Files of rows: `COPY (…) TO 'name'` on the server, and Parquet files for clients of the command `SQL`.
//!
//! ```text
//!   COPY ─ a name in the export directory, and no other ─ .tarn-copy-N.tmp ─ rows ─ sync ─ rename
//!          an error, a cancel or a full disk at any step before the last: the file is removed again;
//!          a crash: by the next start
//! ```
//!
//! It imports `statement` and `error`.

mod cells;
mod file;
mod statement;
mod writer;

pub use cells::parquet_of;
pub(crate) use file::{ExportFile, remove_unfinished};
pub(crate) use statement::of_statement;
