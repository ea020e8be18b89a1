//! Shows no change that a loss of power could take back, in the mode in which replies wait for the disk.
//!
//! ```text
//!   cut ─ durable? ─ yes: rows are read and shown
//!           └─ not yet: the statement waits, and may be cancelled; an error if the log has failed
//! ```

use std::time::Duration;

use tarn_engine::record::Lsn;

use crate::error::QueryError;

/// Says whether changes up to an `Lsn` may be shown; an error: why they are not going to be durable for now.
pub(crate) type MayShow = dyn Fn(Lsn) -> Result<bool, String> + Send + Sync;

/// How long to wait before the first look again, and before any.
const PAUSE_MIN: Duration = Duration::from_micros(500);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Waits until changes up to `lsn` may be shown.
pub(crate) async fn until_shown(may_show: &MayShow, lsn: Lsn) -> Result<(), QueryError> {
    let mut pause = PAUSE_MIN;
    while !may_show(lsn).map_err(QueryError::NotDurable)? {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    Ok(())
}
