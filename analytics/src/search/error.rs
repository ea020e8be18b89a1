//! Why a search command failed, in RediSearch's words where clients know them.

use datafusion::error::DataFusionError;
use thiserror::Error;

use crate::error::QueryError;

/// Why a command did not answer. The text is the whole error reply.
#[derive(Debug, Error)]
pub enum SearchError {
    /// There is no such index, for commands that describe it or drop it.
    #[error("Unknown Index name")]
    UnknownIndex,
    /// There is no such index, for commands that search it.
    #[error("ERR {0}: no such index")]
    NoSuchIndex(String),
    /// An index of this name is there.
    #[error("Index already exists")]
    IndexExists,
    /// The name is an alias already, or the name of an index.
    #[error("Alias already exists")]
    AliasExists,
    /// The name is no alias.
    #[error("Alias does not exist")]
    NoAlias,
    /// An alias is for an index.
    #[error("Unknown index name (or name is an alias itself)")]
    NoAliasOf,
    /// Tags of a field that the index does not have.
    #[error("No such field")]
    NoField,
    /// Tags of a field of another type.
    #[error("Not a tag field")]
    NotTags,
    /// There is no such cursor, or not any longer.
    #[error("ERR Cursor not found, id: {0}; it was read to its end, or nobody read it for its MAXIDLE")]
    NoCursor(u64),
    /// There are as many cursors as there may be.
    #[error("ERR there are {0} cursors, as many as there may be; read one to its end, or FT.CURSOR DEL it")]
    Cursors(usize),
    /// A field that is neither in the schema nor loaded.
    #[error("ERR Property `{0}` not loaded nor in schema")]
    Property(String),
    /// The command cannot be parsed, or uses a feature that is missing.
    #[error("ERR {0}")]
    Refused(String),
    /// The statement did not answer.
    #[error("ERR {0}")]
    Query(QueryError),
}

impl SearchError {
    /// An error that says what to do instead.
    pub fn refused(text: impl Into<String>) -> SearchError {
        SearchError::Refused(text.into())
    }
}

impl From<QueryError> for SearchError {
    fn from(error: QueryError) -> SearchError {
        SearchError::Query(error)
    }
}

impl From<DataFusionError> for SearchError {
    fn from(error: DataFusionError) -> SearchError {
        SearchError::Query(QueryError::DataFusion(error))
    }
}
