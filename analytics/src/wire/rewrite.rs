//! Rewrites statements that clients send and the planner does not accept, beyond what the library's rewriter
//! handles.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, FunctionArg,
    FunctionArgExpr, FunctionArguments, Ident, LimitClause, Query, SelectItem, SetExpr, Statement,
    TimezoneInfo, Value, visit_expressions_mut,
};
use datafusion_postgres::pgwire::api::Type;

use super::empty_catalog;
use crate::dialect::syntax::call;

/// Mends a statement.
pub(super) fn rewrite(statement: &mut Statement) {
    let _ = visit_expressions_mut(statement, |expr| {
        if let Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } = expr
            && let Some(escape) = escape_char.as_ref().and_then(|escape| escape.value.clone().into_string())
            && escape != "\\"
            && escape.chars().count() == 1
        {
            // The planner has `\` alone. A client that doubles what it escapes by is not heard of.
            let old = std::mem::replace(&mut **pattern, Expr::Identifier(Ident::new("")));
            let args = vec![old, text(&escape), text("\\")];
            **pattern = call("replace", args);
            *escape_char = None;
        }
        function_by_name(expr);
        function_by_number(expr);
        one_row_of_catalog(expr);
        truth_of_one_row(expr);
        ControlFlow::<()>::Continue(())
    });
}

/// `typinput = 'array_in'::regproc`: the columns of `pg_type` hold names of functions, and the library looks
/// up the number of one.
fn function_by_name(expr: &mut Expr) {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = expr else { return };
    let column = match &**left {
        Expr::Identifier(column) => Some(column),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    };
    if !column.is_some_and(|column| column.value.starts_with("typ")) {
        return;
    }
    let Expr::Subquery(query) = &**right else { return };
    let SetExpr::Select(select) = &*query.body else { return };
    if let Some(Expr::BinaryOp { left: asked, op: BinaryOperator::Eq, right: name }) = &select.selection
        && asked.to_string() == "proname"
        && let Expr::Value(name) = &**name
        && let Some(name) = name.value.clone().into_string()
    {
        **right = text(name.strip_prefix("pg_catalog.").unwrap_or(&name));
    }
}

/// `proc.oid = typ.typreceive`: there are names of functions in the columns of `pg_type`, and no numbers.
fn function_by_number(expr: &mut Expr) {
    const COLUMNS: [&str; 4] = ["typinput", "typoutput", "typreceive", "typsend"];
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = expr else { return };
    let last = |expr: &Expr| match expr {
        Expr::Identifier(column) => Some(column.value.to_lowercase()),
        Expr::CompoundIdentifier(parts) => parts.last().map(|column| column.value.to_lowercase()),
        _ => None,
    };
    let names = (last(left), last(right));
    let is_function = |name: &Option<String>| name.as_deref().is_some_and(|name| COLUMNS.contains(&name));
    let number = match &names {
        (Some(number), function) if number == "oid" && is_function(function) => left,
        (function, Some(number)) if number == "oid" && is_function(function) => right,
        _ => return,
    };
    match &mut **number {
        Expr::Identifier(column) => *column = Ident::new("proname"),
        Expr::CompoundIdentifier(parts) => {
            if let Some(column) = parts.last_mut() {
                *column = Ident::new("proname");
            }
        }
        _ => {}
    }
}

/// `(SELECT a FROM pg_type WHERE oid = …)`: the planner requires a plan of at most one row, so the query
/// takes a maximum.
fn one_row_of_catalog(expr: &mut Expr) {
    let Expr::Subquery(query) = expr else { return };
    if !empty_catalog::asks_catalog_alone(&**query) || query.limit_clause.is_some() {
        return;
    }
    let SetExpr::Select(select) = &mut *query.body else { return };
    if empty_catalog::is_empty(select) {
        *expr = Expr::Value(Value::Null.into());
        return cast(expr, DataType::Text);
    }
    let [SelectItem::UnnamedExpr(shown) | SelectItem::ExprWithAlias { expr: shown, .. }] =
        select.projection.as_mut_slice()
    else {
        return;
    };
    if matches!(shown, Expr::CompoundIdentifier(_) | Expr::Identifier(_) | Expr::Case { .. }) {
        let old = std::mem::replace(shown, Expr::Identifier(Ident::new("")));
        *shown = call("max", vec![old]);
    }
}

/// `(SELECT a = b FROM …) OR …`: the planner requires a plan of one row.
fn truth_of_one_row(expr: &mut Expr) {
    let Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } = expr else { return };
    for side in [left, right] {
        let Expr::Subquery(query) = &mut **side else { continue };
        let SetExpr::Select(select) = &mut *query.body else { continue };
        let [SelectItem::UnnamedExpr(truth)] = select.projection.as_mut_slice() else { continue };
        if matches!(truth, Expr::BinaryOp { op: BinaryOperator::Eq | BinaryOperator::NotEq, .. }) {
            let old = std::mem::replace(truth, Expr::Identifier(Ident::new("")));
            *truth = call("bool_or", vec![old]);
        }
    }
}

/// Says in a statement what the client knows of the types of its parameters, and the planner would not know.
pub(super) fn type_parameters(statement: &mut Statement, types: &[Option<Type>]) {
    let given = |expr: &Expr| -> Option<Option<Type>> {
        let Expr::Value(value) = expr else { return None };
        let Value::Placeholder(name) = &value.value else { return None };
        let number: usize = name.strip_prefix('$')?.parse().ok()?;
        let given = number.checked_sub(1).and_then(|at| types.get(at)).cloned().flatten();
        Some(given.filter(|given| *given != Type::UNKNOWN))
    };
    let _ = visit_expressions_mut(statement, |expr| {
        if let Expr::Function(function) = expr
            && function.name.to_string() == "array_contains"
            && let FunctionArguments::List(list) = &mut function.args
            && let [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(array)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(one)),
            ] = list.args.as_mut_slice()
            && given(array) == Some(None)
        {
            // `x = ANY ($1)`, with an array of which nothing is known: it comes as a text.
            cast(array, DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(DataType::Text), None)));
            cast(one, DataType::Text);
        }
        ControlFlow::<()>::Continue(())
    });
    let Statement::Query(query) = statement else { return };
    limits(query)
        .filter(|limit| given(limit) == Some(None))
        .for_each(|limit| cast(limit, DataType::BigInt(None)));
    let SetExpr::Select(select) = &mut *query.body else { return };
    for item in &mut select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
        if let Some(Some(given)) = given(expr)
            && let Some(given) = type_of(&given)
        {
            cast(expr, given);
        }
    }
}

fn limits(query: &mut Query) -> impl Iterator<Item = &mut Expr> {
    let (limit, offset) = match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => {
            (limit.as_mut(), offset.as_mut().map(|offset| &mut offset.value))
        }
        _ => (None, None),
    };
    limit.into_iter().chain(offset)
}

fn type_of(given: &Type) -> Option<DataType> {
    Some(match *given {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::SmallInt(None),
        Type::INT4 => DataType::Int(None),
        Type::INT8 => DataType::BigInt(None),
        Type::FLOAT4 => DataType::Real,
        Type::FLOAT8 => DataType::Double(ExactNumberInfo::None),
        Type::DATE => DataType::Date,
        Type::TIMESTAMP => DataType::Timestamp(None, TimezoneInfo::None),
        _ => return None,
    })
}

fn cast(expr: &mut Expr, data_type: DataType) {
    let old = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
    *expr = Expr::Cast { kind: CastKind::Cast, expr: Box::new(old), data_type, array: false, format: None };
}

fn text(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}
