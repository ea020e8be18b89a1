//! Why a query failed, and PostgreSQL's code for it.

use datafusion::arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use tarn_engine::IndexError;
use tarn_engine::view::{Cancelled, ViewError};
use thiserror::Error;
use tokio::task::JoinError;

use crate::rights::Denied;
use crate::table::declaration::DeclarationError;

/// Why no file could be written.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The server has no directory for files.
    #[error("COPY … TO is refused: there is no directory for it; start the server with --sql-export-dir DIR")]
    NoDirectory,
    /// It cannot be named so.
    #[error("\"{0}\" cannot be the name of a file here: give a plain name without /, such as 'x.parquet'")]
    Name(String),
    /// The name does not say what it is to hold.
    #[error("\"{0}\" says no format: let the name end with .parquet, .csv or .json")]
    Format(String),
    /// There is one already.
    #[error("\"{0}\" is there already, and no file is overwritten; give another name, or move it away")]
    Exists(String),
    /// The disk is full, or the like.
    #[error("\"{name}\" could not be written: {source}; nothing is left of it")]
    Io {
        /// The name.
        name: String,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl ExportError {
    /// PostgreSQL's code for it.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            ExportError::NoDirectory => "55000",
            ExportError::Name(_) | ExportError::Format(_) => "42602",
            ExportError::Exists(_) => "58P02",
            ExportError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => "53100",
            ExportError::Io { .. } => "58030",
        }
    }
}

/// Why a query did not answer.
#[derive(Debug, Error)]
pub enum QueryError {
    /// The store is not there yet.
    #[error("the data are being loaded; try again in a moment")]
    Loading,
    /// There is no such table that could be read.
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    /// A change that it would show is not durable.
    #[error("what this would show is not durable: {0}")]
    NotDurable(String),
    /// A user cancelled it.
    #[error("canceling statement due to user request")]
    Cancelled,
    /// It took longer than it may.
    #[error("canceling statement due to statement timeout")]
    Timeout,
    /// The old versions that were kept for it took more memory than they may.
    #[error("{0}; see 'analytics-max-memory' and 'view-memory-limit', or ask for less at once")]
    View(#[from] Cancelled),
    /// There are no views for it.
    #[error(transparent)]
    NoView(#[from] ViewError),
    /// It would have to read more than once what it can read only once.
    #[error("this query reads a table more than once while it runs; run it within BEGIN READ ONLY … COMMIT")]
    ReadTwice,
    /// The index that a query was to be answered in the order of is there no more.
    #[error("the index \"{0}\" was dropped, or is being rebuilt; ask again")]
    IndexGone(String),
    /// Too many values are the same as far as an index has them.
    #[error(
        "more than 10,000 values of column \"{0}\" begin with the same 1,023 bytes, and its index has no \
             order of them; drop the index, or leave out ORDER BY"
    )]
    NoOrder(String),
    /// No index can be made of this.
    #[error(
        "an index is on one column, without UNIQUE, USING or WHERE, such as CREATE INDEX ON flight (distance)"
    )]
    IndexClause,
    /// A table has no such column.
    #[error("table \"{table}\" has no column \"{column}\"")]
    NoColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// The store refused an index.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// There is an index of this name.
    #[error("the index \"{0}\" already exists")]
    IndexExists(String),
    /// There is no index of this name.
    #[error("there is no index \"{0}\"; see SHOW INDEXES")]
    NoIndex(String),
    /// It writes.
    #[error("{0} is refused: SQL reads, and data are written by Redis commands")]
    Writes(String),
    /// Its user must not run it.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// A table of this name is there, and is not one that was declared.
    #[error("\"{0}\" was not declared here: only tables of the schema public are created and dropped")]
    NotDeclared(String),
    /// A value could not be read as its column's type, and that is an error for this table.
    #[error(
        "a value of key \"{key}\" cannot be read as the type of column {column}, and the table is strict"
    )]
    Unreadable {
        /// The column.
        column: String,
        /// The key.
        key: String,
    },
    /// The declarations could not be written.
    #[error("the declarations could not be written to {path}: {source}; nothing has changed")]
    NotKept {
        /// The file.
        path: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The declarations could not be read.
    #[error("the declarations in {path} cannot be read: {source}; mend the file, or move it away")]
    NotRead {
        /// The file.
        path: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The answer is longer than one reply may be.
    #[error("the answer takes more than {bytes_max} bytes; add LIMIT, or ask through sql-port")]
    TooLong {
        /// Bytes that it may take.
        bytes_max: usize,
    },
    /// More than one statement where one is wanted.
    #[error("one statement at a time, please: {0} were given")]
    Statements(usize),
    /// It is more than the planner can take.
    #[error("the statement is too complex: it has {0}; write it with lists, as IN (…), or in parts")]
    TooComplex(String),
    /// A fault of ours ended it.
    #[error("the statement was given up: {0}; please report it")]
    GivenUp(JoinError),
    /// The system refused the threads for queries.
    #[error("cannot start the threads for queries: {0}")]
    Threads(std::io::Error),
    /// A feature that is not there yet.
    #[error("{0} is not there yet")]
    NotYet(String),
    /// The planner or an operator refused.
    #[error("{}", plain(.0))]
    DataFusion(#[from] DataFusionError),
}

impl From<QueryError> for DataFusionError {
    fn from(error: QueryError) -> DataFusionError {
        match error {
            QueryError::DataFusion(error) => error,
            other => DataFusionError::External(Box::new(other)),
        }
    }
}

/// The error itself, without what passed it on.
fn root(mut error: &DataFusionError) -> &DataFusionError {
    loop {
        error = match error {
            DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => inner,
            DataFusionError::Shared(inner) => inner,
            DataFusionError::Collection(errors) if !errors.is_empty() => &errors[0],
            DataFusionError::External(inner) => match inner.downcast_ref::<DataFusionError>() {
                Some(inner) => inner,
                None => return error,
            },
            DataFusionError::ArrowError(inner, _) => match &**inner {
                ArrowError::ExternalError(inner) => match inner.downcast_ref::<DataFusionError>() {
                    Some(inner) => inner,
                    None => return error,
                },
                _ => return error,
            },
            _ => return error,
        }
    }
}

/// Our own error, if one of ours was the reason.
fn ours(error: &DataFusionError) -> Option<&QueryError> {
    match root(error) {
        DataFusionError::External(inner) => inner.downcast_ref(),
        _ => None,
    }
}

/// The text of an error for users, without the names of layers.
fn plain(error: &DataFusionError) -> String {
    if let Some(ours) = ours(error) {
        return ours.to_string();
    }
    let root = root(error);
    if let Some(said) = of_pattern(root) {
        return format!("invalid regular expression: {said}");
    }
    match root {
        DataFusionError::ResourcesExhausted(said) => {
            format!("{said}; see 'analytics-max-memory', or ask for less at once")
        }
        DataFusionError::Plan(said)
        | DataFusionError::Execution(said)
        | DataFusionError::NotImplemented(said)
        | DataFusionError::Configuration(said) => said.clone(),
        DataFusionError::SQL(error, _) => match &**error {
            ParserError::ParserError(said) | ParserError::TokenizerError(said) => said.clone(),
            other => other.to_string(),
        },
        DataFusionError::ArrowError(error, _) => match &**error {
            ArrowError::DivideByZero => "division by zero".to_owned(),
            ArrowError::CastError(said)
            | ArrowError::ParseError(said)
            | ArrowError::ComputeError(said)
            | ArrowError::ArithmeticOverflow(said)
            | ArrowError::InvalidArgumentError(said) => {
                said.strip_prefix("Execution error: ").unwrap_or(said).to_owned()
            }
            other => other.to_string(),
        },
        other => other.strip_backtrace(),
    }
}

/// The fault in a regular expression, if that is the error. Several libraries report it, in their text alone.
/// The user's pattern and stored values occur only after the words that are looked for.
fn of_pattern(error: &DataFusionError) -> Option<String> {
    const REFUSED: &str = "Regular expression did not compile: ";
    const TOO_LARGE: &str = "it takes more than 10 MB when it is compiled; repeat less in it";
    let said = match error {
        DataFusionError::Internal(said) => {
            let (_, said) = said.strip_prefix("failed to call 'regex")?.split_once("Compute error: ")?;
            said.strip_prefix(REFUSED)?.to_owned()
        }
        DataFusionError::Execution(said) => said.strip_prefix(REFUSED)?.to_owned(),
        DataFusionError::ArrowError(error, _) => match &**error {
            ArrowError::ComputeError(said) => said.strip_prefix(REFUSED)?.to_owned(),
            _ => return None,
        },
        DataFusionError::External(error) => {
            let said = error.to_string();
            if said.starts_with("Compiled regex exceeds size limit") {
                return Some(TOO_LARGE.to_owned());
            }
            said.starts_with("regex parse error").then_some(said)?
        }
        _ => return None,
    };
    if said.starts_with("CompiledTooBig(") {
        return Some(TOO_LARGE.to_owned());
    }
    // The parser's last words tell what is wrong, those before show where.
    let reason = said.lines().rev().find_map(|line| line.strip_prefix("error: "));
    Some(reason.map_or_else(|| format!("{said} does not compile"), str::to_owned))
}

/// PostgreSQL's code for an error.
pub fn sqlstate(error: &QueryError) -> &'static str {
    match error {
        QueryError::Loading => "57P03",
        QueryError::Declaration(_) => "42P16",
        QueryError::Cancelled | QueryError::Timeout => "57014",
        QueryError::View(_) | QueryError::TooLong { .. } => "53200",
        QueryError::NoView(_) => "53300",
        QueryError::ReadTwice | QueryError::NotYet(_) => "0A000",
        QueryError::Writes(_) => "25006",
        QueryError::Denied(denied) => denied.sqlstate(),
        QueryError::NotDeclared(_) => "42809",
        QueryError::IndexGone(_) => "40001",
        QueryError::IndexClause => "42601",
        QueryError::NoOrder(_) => "54000",
        QueryError::IndexExists(_) | QueryError::Index(_) => "42P07",
        QueryError::NoIndex(_) => "42704",
        QueryError::NoColumn { .. } => "42703",
        QueryError::Unreadable { .. } => "22P02",
        QueryError::NotDurable(_) | QueryError::NotKept { .. } | QueryError::NotRead { .. } => "58030",
        QueryError::Export(error) => error.sqlstate(),
        QueryError::Statements(_) => "42601",
        QueryError::TooComplex(_) => "54001",
        QueryError::GivenUp(_) => "XX000",
        QueryError::Threads(_) => "53000",
        QueryError::DataFusion(error) => code_of(error),
    }
}

fn code_of(error: &DataFusionError) -> &'static str {
    if let Some(ours) = ours(error) {
        return sqlstate(ours);
    }
    let root = root(error);
    if of_pattern(root).is_some() {
        return "2201B";
    }
    match root {
        DataFusionError::SQL(..) => "42601",
        DataFusionError::NotImplemented(_) => "0A000",
        DataFusionError::ResourcesExhausted(_) => "53200",
        DataFusionError::Configuration(_) => "22023",
        DataFusionError::SchemaError(error, _) => match **error {
            SchemaError::FieldNotFound { .. } => "42703",
            SchemaError::AmbiguousReference { .. } => "42702",
            _ => "42701",
        },
        DataFusionError::Plan(said) => code_of_words(said).unwrap_or("42000"),
        DataFusionError::Execution(said) => code_of_words(said).unwrap_or("22000"),
        DataFusionError::ArrowError(error, _) => match **error {
            ArrowError::DivideByZero => "22012",
            ArrowError::CastError(ref said) if said.starts_with("Can't cast value") => "22003",
            ArrowError::CastError(_) | ArrowError::ParseError(_) => "22P02",
            ArrowError::ArithmeticOverflow(_) => "22003",
            _ => "22000",
        },
        _ => "XX000",
    }
}

/// A missing object is reported in the text alone.
fn code_of_words(said: &str) -> Option<&'static str> {
    let has = |words: &str| said.contains(words);
    if has("table '") && has("not found") || has("doesn't exist") {
        Some("42P01")
    } else if has("Invalid function") || has("No function matches") || has("Failed to coerce arguments") {
        Some("42883")
    } else if has("Scalar subquery returned more than one row") {
        Some("21000")
    } else if has("already exists") {
        Some("42P07")
    } else {
        None
    }
}
