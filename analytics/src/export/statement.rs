//! Recognizes `COPY … TO`, from either parser: its query, and the name of its file.

use datafusion::sql::parser::{CopyToSource, DFParser, Statement};
use datafusion::sql::sqlparser::ast::{self, CopySource, CopyTarget};

use crate::error::QueryError;

/// The query of a `COPY`, with the name of its file; any other statement as it is.
pub(crate) fn of_statement(statement: Statement) -> Result<(Statement, Option<String>), QueryError> {
    let (source, target) = match statement {
        Statement::CopyTo(copy) => {
            if copy.stored_as.is_some() || !copy.partitioned_by.is_empty() || !copy.options.is_empty() {
                return Err(options());
            }
            let source = match copy.source {
                CopyToSource::Relation(name) => table(&name.to_string())?,
                CopyToSource::Query(query) => of_query(query),
            };
            (source, copy.target)
        }
        Statement::Statement(inner) => match *inner {
            ast::Statement::Copy { source, to: true, target, options: given, legacy_options, .. } => {
                let CopyTarget::File { filename } = target else {
                    return Err(QueryError::NotYet("COPY to anything but a file".to_owned()));
                };
                if !given.is_empty() || !legacy_options.is_empty() {
                    return Err(options());
                }
                let source = match source {
                    CopySource::Query(query) => of_query(query),
                    CopySource::Table { table_name, columns } if columns.is_empty() => {
                        table(&table_name.to_string())?
                    }
                    CopySource::Table { .. } => {
                        return Err(QueryError::NotYet("COPY of columns, rather than of a query".to_owned()));
                    }
                };
                (source, filename)
            }
            other => return Ok((Statement::Statement(Box::new(other)), None)),
        },
        other => return Ok((other, None)),
    };
    Ok((source, Some(target)))
}

fn options() -> QueryError {
    QueryError::NotYet("COPY with options (the format is that of the file's name)".to_owned())
}

fn of_query(query: Box<ast::Query>) -> Statement {
    Statement::Statement(Box::new(ast::Statement::Query(query)))
}

/// All of a table.
fn table(name: &str) -> Result<Statement, QueryError> {
    let mut statements = DFParser::parse_sql(&format!("SELECT * FROM {name}"))?;
    statements.pop_front().ok_or(QueryError::Statements(0))
}
