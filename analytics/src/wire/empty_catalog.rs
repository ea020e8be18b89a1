//! Answers questions about catalog tables that are always empty: indexes, constraints, triggers and the like.
//!
//! Clients ask for them in ways that the planner cannot plan. Each such query joins a table of the catalog
//! that is always empty. So its answer has no rows, and the names of its columns are in the query.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, JoinOperator, ObjectName, Select, SelectItem, SetExpr, Statement, TableFactor,
    TableWithJoins, Visit, visit_relations,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::names::names_of;

/// Tables of the catalog that have no rows about our tables.
const EMPTY: [&str; 27] = [
    "check_constraints",
    "column_privileges",
    "constraint_column_usage",
    "domains",
    "element_types",
    "key_column_usage",
    "pg_attrdef",
    "pg_collation",
    "pg_constraint",
    "pg_enum",
    "pg_event_trigger",
    "pg_extension",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_index",
    "pg_indexes",
    "pg_inherits",
    "pg_policy",
    "pg_publication",
    "pg_sequence",
    "pg_sequences",
    "pg_subscription",
    "pg_trigger",
    "referential_constraints",
    "sequences",
    "table_constraints",
    "triggers",
];

/// Aggregates, which return a row even if nothing is found.
const AGGREGATES: [&str; 8] = ["array_agg", "avg", "bool_and", "bool_or", "count", "max", "min", "sum"];

/// A query that answers nothing in the columns of `statement`, if it asks for what there never is.
pub(super) fn answer_of_none(statement: &Statement) -> Option<Statement> {
    let Statement::Query(query) = statement else { return None };
    let SetExpr::Select(select) = &*query.body else { return None };
    if !asks_catalog_alone(statement) || !is_empty(select) {
        return None;
    }
    let quoted = |name: String| format!("CAST(NULL AS TEXT) AS \"{}\"", name.replace('"', "\"\""));
    let columns: Vec<String> = names_of(query)?.into_iter().map(quoted).collect();
    let text = format!("SELECT {} WHERE false", columns.join(", "));
    Parser::parse_sql(&PostgreSqlDialect {}, &text).ok()?.pop()
}

/// Whether only tables of the catalog are named.
pub(super) fn asks_catalog_alone(asked: &impl Visit) -> bool {
    let look = |name: &ObjectName| match is_of_catalog(name) {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    visit_relations(asked, look).is_continue()
}

fn last_of(name: &ObjectName) -> String {
    let last = name.0.last().and_then(|part| part.as_ident());
    last.map(|ident| ident.value.to_lowercase()).unwrap_or_default()
}

fn is_of_catalog(name: &ObjectName) -> bool {
    let is_standard = name.0.first().and_then(|part| part.as_ident());
    let is_standard = is_standard.is_some_and(|ident| ident.value.eq_ignore_ascii_case("information_schema"));
    // It is a function, which stands where tables do.
    let is_series = last_of(name) == "generate_series";
    is_standard || is_series || last_of(name).starts_with("pg_")
}

/// Whether a query can have no rows: it joins what is always empty.
pub(super) fn is_empty(select: &Select) -> bool {
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    let counts = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::Function(function))
        | SelectItem::ExprWithAlias { expr: Expr::Function(function), .. } => {
            AGGREGATES.contains(&last_of(&function.name).as_str())
        }
        _ => false,
    };
    (is_grouped || !select.projection.iter().any(counts)) && select.from.iter().any(joins_nothing)
}

fn joins_nothing(joined: &TableWithJoins) -> bool {
    let is_inner = |operator: &JoinOperator| {
        matches!(operator, JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_))
    };
    let keeps_left = |operator: &JoinOperator| {
        is_inner(operator) || matches!(operator, JoinOperator::Left(_) | JoinOperator::LeftOuter(_))
    };
    joined.joins.iter().all(|join| keeps_left(&join.join_operator))
        && (is_nothing(&joined.relation)
            || joined.joins.iter().any(|join| is_inner(&join.join_operator) && is_nothing(&join.relation)))
}

fn is_nothing(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::Table { name, .. } => EMPTY.contains(&last_of(name).as_str()),
        TableFactor::Derived { subquery, .. } => {
            matches!(&*subquery.body, SetExpr::Select(select) if is_empty(select))
        }
        TableFactor::NestedJoin { table_with_joins, .. } => joins_nothing(table_with_joins),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(sql: &str) -> Option<String> {
        let statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).expect("SQL").remove(0);
        answer_of_none(&statement).map(|answer| answer.to_string())
    }

    #[test]
    fn what_there_never_is_has_no_rows_and_all_columns() {
        let nothing = "SELECT CAST(NULL AS TEXT) AS \"oid\", CAST(NULL AS TEXT) AS \"n\" WHERE false";
        for from in [
            "pg_catalog.pg_index t",
            "pg_class c JOIN pg_index t ON c.oid = t.indrelid",
            "pg_class c, pg_constraint t",
            "pg_constraint t, pg_catalog.generate_series(1, 32) pos(n)",
            "(SELECT * FROM pg_class JOIN (SELECT * FROM pg_trigger) x ON true) t LEFT JOIN pg_class ON true",
        ] {
            assert_eq!(
                answered(&format!("SELECT t.oid, 1 AS n FROM {from}")).as_deref(),
                Some(nothing),
                "{from}"
            );
        }
    }

    #[test]
    fn what_may_have_rows_is_not_answered() {
        for sql in [
            "SELECT oid FROM pg_class",
            "SELECT count(*) FROM pg_index",
            "SELECT c.oid FROM pg_class c LEFT JOIN pg_index i ON true",
            "SELECT c.oid FROM pg_index i RIGHT JOIN pg_class c ON true",
            "SELECT 1 AS a FROM flight JOIN pg_index ON true",
            "SELECT * FROM pg_index",
        ] {
            assert_eq!(answered(sql), None, "{sql}");
        }
    }
}
