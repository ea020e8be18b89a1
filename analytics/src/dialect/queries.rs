//! Rewrites whole queries: limits, orders that must be kept, and set operations.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, LimitClause, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier, TableAlias,
    TableAliasColumnDef, TableFactor,
};

use super::refuse;
use super::syntax::{call, number, query as parsed, take, width_of};
use crate::error::QueryError;

/// More rows than any table has.
const ALL_ROWS: &str = "4611686018427387904";

/// The function that marks what the planner casts: cells of `VALUES`, columns of a recursive part.
pub(crate) const CELL: &str = "__cell";

/// Each makes a statement three queries deeper.
const OPERATIONS_MAX: usize = 16;

/// Mends a query, of which its parts are still to be mended.
pub(super) fn mend(query: &mut Query, is_inner: bool) -> ControlFlow<QueryError> {
    fetch(query)?;
    let is_ordered = query.order_by.is_some();
    // The planner takes an order away where nothing seems to need it.
    if is_inner
        && is_ordered
        && let Some(LimitClause::LimitOffset { limit: limit @ None, offset: Some(_), .. }) =
            &mut query.limit_clause
    {
        *limit = Some(number(ALL_ROWS));
    }
    if !query.locks.is_empty() {
        return refuse("FOR UPDATE and the like");
    }
    cells(&mut query.body);
    if let Some(with) = query.with.as_mut().filter(|with| with.recursive) {
        for table in &mut with.cte_tables {
            if let SetExpr::SetOperation { right, .. } = &mut *table.query.body {
                columns(right);
            }
        }
    }
    operations(&mut query.body, &mut 0)
}

fn mark(expr: &mut Expr) {
    *expr = call(CELL, vec![take(expr)]);
}

/// Marks the cells of `VALUES`, but for constants.
fn cells(body: &mut SetExpr) {
    match body {
        SetExpr::Values(values) => {
            let cells = values.rows.iter_mut().flat_map(|row| row.iter_mut());
            cells.filter(|cell| !is_constant(cell)).for_each(mark);
        }
        SetExpr::SetOperation { left, right, .. } => {
            cells(left);
            cells(right);
        }
        _ => {}
    }
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { expr, .. } => matches!(**expr, Expr::Value(_)),
        expr => matches!(expr, Expr::Value(_)),
    }
}

/// Marks the columns of the part of a query that recurs.
fn columns(body: &mut SetExpr) {
    let SetExpr::Select(select) = body else { return };
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => mark(expr),
            _ => {}
        }
    }
}

/// `FETCH FIRST n ROWS ONLY`.
fn fetch(query: &mut Query) -> ControlFlow<QueryError> {
    let Some(fetch) = query.fetch.take() else { return ControlFlow::Continue(()) };
    if fetch.with_ties || fetch.percent {
        return refuse("FETCH FIRST … WITH TIES or PERCENT");
    }
    let quantity = fetch.quantity.unwrap_or_else(|| number("1"));
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(quantity),
        clause @ None => {
            *clause =
                Some(LimitClause::LimitOffset { limit: Some(quantity), offset: None, limit_by: Vec::new() });
        }
        Some(_) => return refuse("FETCH FIRST beside LIMIT"),
    }
    ControlFlow::Continue(())
}

/// `INTERSECT ALL` and `EXCEPT ALL`: of rows that are the same each has a number, so that they are not.
fn operations(body: &mut SetExpr, done: &mut usize) -> ControlFlow<QueryError> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else {
        return ControlFlow::Continue(());
    };
    operations(left, done)?;
    operations(right, done)?;
    if *op == SetOperator::Union || *set_quantifier != SetQuantifier::All {
        return ControlFlow::Continue(());
    }
    let name = format!("{op} ALL");
    *done += 1;
    if *done > OPERATIONS_MAX {
        return refuse(format!("{name} more than {OPERATIONS_MAX} times"));
    }
    let Some(width) = width_of(left).filter(|&width| Some(width) == width_of(right) && width > 0) else {
        return refuse(format!("{name} of columns that are not listed"));
    };
    let names = names(left);
    for side in [left, right] {
        numbered(side, width);
    }
    *set_quantifier = SetQuantifier::None;
    let whole = std::mem::replace(body, SetExpr::Query(Box::new(parsed("SELECT 1"))));
    let columns: Vec<String> = (0..width).map(|at| format!("__all.c{at}")).collect();
    let mut around = parsed(&format!("SELECT {} FROM (SELECT 1) AS t", columns.join(", ")));
    if let SetExpr::Select(select) = &mut *around.body {
        let inner = Query { body: Box::new(whole), ..parsed("SELECT 1") };
        from(select, inner, width + 1);
        // Columns have the names that the first side has given them.
        for (item, name) in select.projection.iter_mut().zip(names) {
            if let (SelectItem::UnnamedExpr(expr), Some(alias)) = (&mut *item, name) {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
    }
    *body = *around.body;
    ControlFlow::Continue(())
}

/// The names that a side gives its columns.
fn names(body: &SetExpr) -> Vec<Option<Ident>> {
    match body {
        SetExpr::Select(select) => {
            let name = |item: &SelectItem| match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names.last().cloned(),
                _ => None,
            };
            select.projection.iter().map(name).collect()
        }
        SetExpr::Query(query) => names(&query.body),
        SetExpr::SetOperation { left, .. } => names(left),
        _ => Vec::new(),
    }
}

fn from(select: &mut Select, inner: Query, width: usize) {
    let name = |at: usize| TableAliasColumnDef { name: Ident::new(format!("c{at}")), data_type: None };
    let alias = TableAlias {
        explicit: true,
        name: Ident::new("__all"),
        columns: (0..width).map(name).collect(),
        at: None,
    };
    for joined in &mut select.from {
        joined.relation = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(inner.clone()),
            alias: Some(alias.clone()),
            sample: None,
        };
    }
}

/// The rows of one side with their numbers among those that are the same, and with other names for columns.
fn numbered(side: &mut SetExpr, width: usize) {
    let old = std::mem::replace(side, SetExpr::Query(Box::new(parsed("SELECT 1"))));
    let columns: Vec<String> = (0..width).map(|at| format!("__all.c{at}")).collect();
    let columns = columns.join(", ");
    let sql = format!(
        "SELECT {columns}, row_number() OVER (PARTITION BY {columns}) AS c{width} FROM (SELECT 1) AS t"
    );
    let mut around = parsed(&sql);
    if let SetExpr::Select(select) = &mut *around.body {
        let inner = match old {
            SetExpr::Query(inner) => *inner,
            body => Query { body: Box::new(body), ..parsed("SELECT 1") },
        };
        from(select, inner, width);
        for (at, item) in select.projection.iter_mut().enumerate().take(width) {
            if let SelectItem::UnnamedExpr(expr) = item {
                let expr = expr.clone();
                *item = SelectItem::ExprWithAlias { expr, alias: Ident::new(format!("c{at}")) };
            }
        }
    }
    *side = *around.body;
}
