//! The names of an answer's columns, as PostgreSQL gives them: `count` for `count(*)`, and repeated names as
//! they are.
//!
//! The planner requires unique names. So a repeated name gets a mark and a number as a suffix, and the mark
//! and what follows it are cut off where columns are described.

use std::collections::HashSet;

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, Ident, Query, Select, SelectItem, SetExpr, Statement, Value,
};

/// Stands before the number of a name that comes again. It is in no name that a user types.
const MARK: char = '\u{1f}';

/// Gives the columns of a query their names.
pub(super) fn name_columns(statement: &mut Statement) {
    let query = match statement {
        Statement::Query(query) => query,
        Statement::Declare { stmts } => {
            match stmts.first_mut().and_then(|declared| declared.for_query.as_mut()) {
                Some(query) => query,
                None => return,
            }
        }
        _ => return,
    };
    let is_ordered = query.order_by.is_some();
    if let Some(select) = first_select(&mut query.body)
        // Such are found again by what they are, and not by what they are called.
        && !(select.distinct.is_some() && is_ordered)
    {
        name_items(select);
    }
}

/// The names that columns are described by.
pub(super) fn described(schema: &Schema) -> Schema {
    let plain = |field: &Field| {
        let name = field.name().split(MARK).next().unwrap_or_default();
        field.clone().with_name(name)
    };
    Schema::new(schema.fields().iter().map(|field| plain(field)).collect::<Vec<_>>())
}

/// The names of a query's columns; `None` if they depend on tables.
pub(super) fn names_of(query: &Query) -> Option<Vec<String>> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let name = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) => Some(name_of(expr).0),
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        _ => None,
    };
    select.projection.iter().map(name).collect()
}

fn first_select(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select(left),
        SetExpr::Query(query) => first_select(&mut query.body),
        _ => None,
    }
}

fn name_items(select: &mut Select) {
    let is_plain =
        |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    // Names of tables may come between.
    let all_known = select.projection.iter().all(is_plain);
    let mut taken = HashSet::new();
    for (number, item) in select.projection.iter_mut().enumerate() {
        let (name, is_named) = match item {
            SelectItem::UnnamedExpr(expr) => {
                let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                (name_of(expr).0, is_column)
            }
            SelectItem::ExprWithAlias { alias, .. } => (alias.value.clone(), true),
            _ => continue,
        };
        let is_new = taken.insert(name.clone());
        if is_named && (is_new || !all_known) {
            continue;
        }
        let name = if is_new && all_known { name } else { format!("{name}{MARK}{number}") };
        let alias = Ident::with_quote('"', name);
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let expr = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
            SelectItem::ExprWithAlias { alias: old, .. } => *old = alias,
            _ => {}
        }
    }
}

/// The name of an expression, and whether it is one that a cast keeps.
fn name_of(expr: &Expr) -> (String, bool) {
    let strong = |name: &str| (name.to_owned(), true);
    match expr {
        Expr::Identifier(ident) => (folded(ident), true),
        Expr::CompoundIdentifier(idents) => (idents.last().map(folded).unwrap_or_default(), true),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => name_of(inner),
        Expr::Function(function) => (name_of_function(function), true),
        Expr::Cast { expr, data_type, .. } => match name_of(expr) {
            (name, true) => (name, true),
            _ => (name_of_type(&data_type.to_string()), false),
        },
        Expr::TypedString(typed) => (name_of_type(&typed.data_type.to_string()), false),
        Expr::Case { else_result, .. } => match else_result.as_deref().map(name_of) {
            Some((name, true)) => (name, true),
            _ => ("case".to_owned(), false),
        },
        Expr::Subquery(query) => {
            let names = names_of(query).unwrap_or_default();
            (names.into_iter().next().unwrap_or("?column?".to_owned()), true)
        }
        Expr::Exists { .. } => strong("exists"),
        Expr::Array(_) => strong("array"),
        Expr::Extract { .. } => strong("extract"),
        Expr::Substring { .. } => strong("substring"),
        Expr::Trim { .. } => strong("btrim"),
        Expr::Position { .. } => strong("position"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::Interval(_) => ("interval".to_owned(), false),
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => ("bool".to_owned(), false),
        _ => ("?column?".to_owned(), false),
    }
}

fn name_of_function(function: &Function) -> String {
    let last = function.name.0.last().and_then(|part| part.as_ident());
    let name = last.map(folded).unwrap_or_default();
    // The library's rewriter of PostgreSQL's catalog makes this of `x = ANY (y)`.
    if name == "array_contains" { "?column?".to_owned() } else { name }
}

fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The name that PostgreSQL has for a type, of the names that it takes.
fn name_of_type(written: &str) -> String {
    let name = written.split('(').next().unwrap_or_default().trim().to_lowercase();
    let name = match name.as_str() {
        "int" | "integer" => "int4",
        "bigint" => "int8",
        "smallint" => "int2",
        "double precision" | "double" | "float" => "float8",
        "real" => "float4",
        "boolean" => "bool",
        "decimal" => "numeric",
        "character varying" => "varchar",
        "timestamp without time zone" => "timestamp",
        "timestamp with time zone" => "timestamptz",
        other => other,
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    #[test]
    fn columns_are_named_as_postgresql_names_them() {
        let cases = [
            (
                "SELECT count(*), max(a), a, t.b, 1, 'x', true, a::int, 1::int, lower(a)::text",
                "count max a b ?column? ?column? bool a int4 lower",
            ),
            (
                "SELECT (SELECT x FROM y), EXISTS (SELECT 1), CASE WHEN a THEN 1 END, \
                 CASE WHEN a THEN 1 ELSE b END",
                "x exists case b",
            ),
            ("SELECT a.id, b.id, 1 AS id", "id id id"),
            (
                "SELECT DATE '2020-01-01', now(), pg_catalog.version(), 1 + 1, \"A\", B",
                "date now version ?column? A b",
            ),
        ];
        for (sql, names) in cases {
            let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).expect("SQL").remove(0);
            name_columns(&mut statement);
            let Statement::Query(query) = &statement else { panic!("{statement}") };
            let found = names_of(query).expect("names");
            let unique: HashSet<&String> = found.iter().collect();
            assert_eq!(unique.len(), found.len(), "{found:?}");
            let plain: Vec<&str> = found.iter().filter_map(|name| name.split(MARK).next()).collect();
            assert_eq!(plain.join(" "), names);
        }
    }
}
