//! The context that scans are planned in: the instant that they see, the statement that they belong to, and
//! the right to it.

use std::sync::Arc;

use datafusion::catalog::Session;

use crate::error::QueryError;
use crate::rights::Grant;
use crate::statement::instant::Instant;
use crate::statement::query::Query;
use crate::statement::turns::Turns;

/// The context of a statement's scans, an extension of the planner's configuration.
pub(crate) struct ScanContext {
    /// The instant that the scans see.
    pub instant: Arc<Instant>,
    /// The statement that they belong to.
    pub query: Arc<Query>,
    /// The turns that they wait for.
    pub turns: Arc<Turns>,
    /// The right to the statement.
    pub grant: Arc<Grant>,
}

impl ScanContext {
    /// The context that a planner session carries; an error outside of a statement.
    pub(crate) fn of(session: &dyn Session) -> Result<Arc<ScanContext>, QueryError> {
        let context = session.config().get_extension::<ScanContext>();
        context.ok_or_else(|| QueryError::NotYet("reading a table outside of a statement".to_owned()))
    }
}
