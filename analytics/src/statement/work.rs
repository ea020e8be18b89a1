//! Classifies plans by what they do: read once, read repeatedly, or declare; refuses those that write.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{DdlStatement, Expr, LogicalPlan};
use datafusion::sql::parser::Statement as AnyStatement;
use datafusion::sql::sqlparser::ast::Statement;

use crate::error::QueryError;
use crate::table::declaration::Shape;

/// The kind of work that a plan does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Reads each table once.
    Reads,
    /// Reads tables again and again while it runs.
    ReadsAgain,
    /// Declares a table or an index, or drops a table.
    Declares,
}

/// Refuses a statement that writes before it is planned: the planner would complain of its tables, columns
/// and number of values first.
pub(crate) fn refuse_writes(statement: &AnyStatement) -> Result<(), QueryError> {
    let statement = match statement {
        AnyStatement::Statement(statement) => statement,
        AnyStatement::Explain(explained) => return refuse_writes(&explained.statement),
        _ => return Ok(()),
    };
    let what = match **statement {
        Statement::Insert(_) => "INSERT",
        Statement::Update(_) => "UPDATE",
        Statement::Delete(_) => "DELETE",
        Statement::Merge(_) => "MERGE",
        Statement::Truncate(_) => "TRUNCATE",
        _ => return Ok(()),
    };
    Err(QueryError::Writes(what.to_owned()))
}

/// Classifies a plan; refuses one that writes.
pub(crate) fn work_of(plan: &LogicalPlan) -> Result<Work, QueryError> {
    match plan {
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(statement)) => {
            // The library refuses a shape without a factory in less helpful words.
            statement.file_type.parse::<Shape>()?;
            return Ok(Work::Declares);
        }
        LogicalPlan::Ddl(DdlStatement::DropTable(_) | DdlStatement::CreateIndex(_)) => {
            return Ok(Work::Declares);
        }
        _ => {}
    }
    let mut work = Work::Reads;
    let mut refused = None;
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Ddl(ddl) => refused = Some(words_of(ddl.name())),
            LogicalPlan::Dml(dml) => refused = Some(dml.op.name().to_uppercase()),
            LogicalPlan::Copy(_) => refused = Some("COPY".to_owned()),
            LogicalPlan::Statement(statement) => refused = Some(words_of(statement.name())),
            LogicalPlan::RecursiveQuery(_) => work = Work::ReadsAgain,
            LogicalPlan::Window(window) => check_window(&window.window_expr)?,
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    refused.map_or(Ok(work), |what| Err(QueryError::Writes(what)))
}

/// Refuses aggregates into lists as window functions: a list of all earlier rows for each row grows without
/// bound.
fn check_window(exprs: &[Expr]) -> Result<(), QueryError> {
    const LISTS: [&str; 2] = ["array_agg", "string_agg"];
    let name = |expr: &Expr| match expr.clone().unalias() {
        Expr::WindowFunction(function) => Some(function.fun.name().to_owned()),
        _ => None,
    };
    match exprs.iter().filter_map(name).find(|name| LISTS.contains(&name.as_str())) {
        Some(name) => Err(QueryError::NotYet(format!("{name} as a window function"))),
        None => Ok(()),
    }
}

/// `CreateView` as `CREATE VIEW`.
fn words_of(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_uppercase());
    }
    words
}
