//! Stands in for `sql.rs` in a build without the feature `sql`: no SQL port, no `SQL`, no `FT.*`, no Parquet.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use tarn_server::Services;
use tarn_server::config::Config;

/// No declarations are kept.
pub(crate) const DECLARATION_FILES: [&str; 0] = [];

/// No thread works for a statement.
pub(crate) fn runs_apart() -> bool {
    false
}

/// Refuses to write Parquet.
pub(crate) fn parquet_of(_: &[(String, String)], _: &[Vec<Option<Vec<u8>>>]) -> io::Result<Vec<u8>> {
    Err(io::Error::other("this build has no Parquet: build tarn with the feature 'sql'"))
}

/// Serves nothing.
pub(crate) struct Sql {
    port: u16,
}

/// Nothing runs.
pub(crate) struct Running;

impl Sql {
    /// Notes whether the configuration asks for SQL.
    pub(crate) fn prepare(config: &Config) -> Result<Sql, Infallible> {
        Ok(Sql { port: config.sql_port })
    }

    /// Logs what is missing.
    pub(crate) fn start(self, _: &Arc<Services>) -> Running {
        if self.port != 0 {
            tracing::warn!(
                "this build has no SQL: nothing listens at sql-port, and SQL and FT.* are refused"
            );
        }
        Running
    }
}

impl Running {
    /// Ends nothing.
    pub(crate) fn end(self) {}
}
