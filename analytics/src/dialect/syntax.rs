//! Builds parts of statements.

use std::mem;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, Query, SelectItem, SetExpr, Statement, Value,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// Takes an expression out of its place.
pub(crate) fn take(expr: &mut Expr) -> Expr {
    mem::replace(expr, Expr::Identifier(Ident::new("")))
}

/// A text.
pub(crate) fn text(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}

/// A number.
pub(crate) fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.to_owned(), false).into())
}

/// NULL, true or false.
pub(crate) fn truth(truth: Option<bool>) -> Expr {
    let Some(truth) = truth else { return cast(Expr::Value(Value::Null.into()), DataType::Boolean) };
    Expr::Value(Value::Boolean(truth).into())
}

/// A cast.
pub(crate) fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// An operation in parentheses.
pub(crate) fn joined(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }))
}

/// Operations with many, as a tree that is not deep.
pub(crate) fn joined_all(mut tests: Vec<Expr>, op: &BinaryOperator) -> Option<Expr> {
    if tests.len() <= 1 {
        return tests.pop();
    }
    let rest = tests.split_off(tests.len() / 2);
    match (joined_all(tests, op), joined_all(rest, op)) {
        (Some(left), Some(right)) => Some(joined(left, op.clone(), right)),
        (one, other) => one.or(other),
    }
}

/// `CASE WHEN … THEN … ELSE … END`.
pub(crate) fn cases(conditions: Vec<(Expr, Expr)>, other: Expr) -> Expr {
    let conditions =
        conditions.into_iter().map(|(condition, result)| CaseWhen { condition, result }).collect();
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions,
        else_result: Some(Box::new(other)),
    }
}

/// A call of a function.
pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// The name of a function, and its arguments if all are plain ones.
pub(crate) fn called(function: &mut Function) -> Option<(String, Vec<&mut Expr>)> {
    let [name] = function.name.0.as_slice() else { return None };
    let name = name.as_ident()?.value.to_lowercase();
    let FunctionArguments::List(list) = &mut function.args else { return None };
    let args = list.args.iter_mut().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    Some((name, args.collect::<Option<_>>()?))
}

/// The text of a constant.
pub(crate) fn constant(expr: &Expr) -> Option<String> {
    let Expr::Value(value) = expr else { return None };
    match &value.value {
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text.clone()),
        _ => None,
    }
}

/// A query of a text that is known to be one.
pub(crate) fn query(text: &str) -> Query {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, text).map(|mut parsed| parsed.pop());
    match parsed {
        Ok(Some(Statement::Query(query))) => *query,
        other => unreachable!("{text} is a query: {other:?}"),
    }
}

/// How many columns a query has, if that can be seen.
pub(crate) fn width(query: &Query) -> Option<usize> {
    width_of(&query.body)
}

/// How many columns there are, if that can be seen.
pub(crate) fn width_of(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let is_one = |item: &SelectItem| {
                matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
            };
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::Query(query) => width(query),
        SetExpr::SetOperation { left, .. } => width_of(left),
        SetExpr::Values(values) => values.rows.first().map(|row| row.len()),
        _ => None,
    }
}
