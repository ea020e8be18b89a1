//! Counts how large a statement becomes when each name of its `WITH` is replaced by its definition.
//!
//! A name is planned again at each use, so thirty names that each use the one before twice make a plan of a
//! billion steps. The count is taken before anything is planned.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as AnyStatement;
use datafusion::sql::sqlparser::ast::{ObjectName, Query, Statement, Visit, Visitor};

use crate::error::QueryError;

/// Tables that a statement names, or that its names stand for.
const TABLES_MAX: u64 = 10_000;

/// As [`check_names`], of a statement that may be explained only.
pub(crate) fn check_names_of(statement: &AnyStatement) -> Result<(), QueryError> {
    match statement {
        AnyStatement::Statement(statement) => check_names(statement),
        AnyStatement::Explain(explained) => check_names_of(&explained.statement),
        _ => Ok(()),
    }
}

/// Refuses a statement whose names stand for more than a planner can finish.
pub(crate) fn check_names(statement: &Statement) -> Result<(), QueryError> {
    let mut sizes = Sizes { frames: vec![Frame::default()] };
    if statement.visit(&mut sizes).is_break() {
        return Err(QueryError::TooComplex(format!(
            "names of WITH that stand for more than {TABLES_MAX} tables together"
        )));
    }
    Ok(())
}

/// A query that is being counted.
#[derive(Default)]
struct Frame {
    tables: u64,
    /// The names of its `WITH` that are still to come, the next one last.
    coming: Vec<String>,
    /// How many tables those before stand for.
    known: HashMap<String, u64>,
}

struct Sizes {
    frames: Vec<Frame>,
}

impl Visitor for Sizes {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let names = query.with.iter().flat_map(|with| &with.cte_tables);
        let mut coming: Vec<_> = names.map(|named| named.alias.name.value.to_lowercase()).collect();
        coming.reverse();
        self.frames.push(Frame { coming, ..Frame::default() });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        let (Some(ended), Some(outer)) = (self.frames.pop(), self.frames.last_mut()) else {
            return ControlFlow::Break(());
        };
        // The definitions of a WITH come first, in order.
        match outer.coming.pop() {
            Some(name) => drop(outer.known.insert(name, ended.tables.max(1))),
            None => outer.tables = outer.tables.saturating_add(ended.tables),
        }
        bounded(ended.tables.max(outer.tables))
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let name = match relation.0.as_slice() {
            [name] => name.as_ident().map(|ident| ident.value.to_lowercase()),
            _ => None,
        };
        let known = |name: String| self.frames.iter().rev().find_map(|frame| frame.known.get(&name).copied());
        let tables = name.and_then(known).unwrap_or(1);
        let Some(frame) = self.frames.last_mut() else { return ControlFlow::Break(()) };
        frame.tables = frame.tables.saturating_add(tables);
        bounded(frame.tables)
    }
}

fn bounded(tables: u64) -> ControlFlow<()> {
    if tables > TABLES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn is_taken(sql: &str) -> bool {
        let statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).expect("SQL");
        check_names(&statements[0]).is_ok()
    }

    fn doubled(names: usize, last: &str) -> String {
        let built: String = (1..names)
            .map(|i| format!(", a{i} AS (SELECT x.a FROM A{0} x, (SELECT * FROM a{0}) y)", i - 1))
            .collect();
        format!("WITH a0 AS (SELECT 1 AS a){built} SELECT 1 FROM {last}")
    }

    #[test]
    fn names_that_stand_for_too_much_are_refused() {
        assert!(is_taken(&doubled(13, "a12")));
        assert!(!is_taken(&doubled(16, "a15")) && !is_taken(&doubled(60, "a59")));
        // Within each other, and where each alone would be taken.
        let inner = doubled(8, "a7");
        let nested = format!("WITH o AS ({inner}) SELECT * FROM o{}", ", o".repeat(200));
        assert!(!is_taken(&nested));
        assert!(is_taken(&format!("WITH o AS ({inner}) SELECT * FROM o, o")));
        assert!(is_taken(&format!("SELECT * FROM t{}", ", t".repeat(500))));
        assert!(is_taken(
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r"
        ));
    }
}
