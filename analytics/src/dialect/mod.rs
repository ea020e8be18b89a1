//! Rewrites statements of PostgreSQL's dialect that the parser or the planner reads differently or not at
//! all: into forms that the planner takes, or refused by name.
//!
//! ```text
//!   text ─ parser ─ mended: precedence · operators · subqueries · casts · tables of the catalog ─ planner
//! ```
//!
//! It imports `error`.

mod operators;
mod precedence;
mod queries;
mod schema;
pub(crate) mod syntax;

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement as AnyStatement};
use datafusion::sql::sqlparser::ast::{Expr, Query, Statement, TableFactor, VisitMut, VisitorMut};

use crate::error::QueryError;

pub(crate) use queries::CELL;

/// A statement of PostgreSQL as the planner takes it.
pub(crate) fn mended(mut statement: Statement) -> Result<Statement, QueryError> {
    let mut mend = Mend { depth: 0 };
    match statement.visit(&mut mend) {
        ControlFlow::Continue(()) => Ok(statement),
        ControlFlow::Break(error) => Err(error),
    }
}

/// As [`mended`], of a statement that may be explained or copied.
pub(crate) fn mended_any(statement: AnyStatement) -> Result<AnyStatement, QueryError> {
    Ok(match statement {
        AnyStatement::Statement(inner) => AnyStatement::Statement(Box::new(mended(*inner)?)),
        AnyStatement::Explain(mut explained) => {
            *explained.statement = mended_any(*explained.statement)?;
            AnyStatement::Explain(explained)
        }
        AnyStatement::CopyTo(mut copied) => {
            if let CopyToSource::Query(query) = copied.source {
                let Statement::Query(query) = mended(Statement::Query(query))? else {
                    return Err(QueryError::NotYet("COPY of what is no query".to_owned()));
                };
                copied.source = CopyToSource::Query(query);
            }
            AnyStatement::CopyTo(copied)
        }
        other => other,
    })
}

/// Refuses a construct by its name.
fn refuse(what: impl Into<String>) -> ControlFlow<QueryError> {
    ControlFlow::Break(QueryError::NotYet(what.into()))
}

struct Mend {
    /// How many queries the one being seen is within.
    depth: usize,
}

impl VisitorMut for Mend {
    type Break = QueryError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<QueryError> {
        queries::mend(query, self.depth > 0)?;
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<QueryError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<QueryError> {
        schema::mend(table);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        precedence::turn(expr);
        operators::mend(expr)
    }
}
