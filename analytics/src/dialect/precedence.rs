//! Corrects the precedence of operators where the parser's is not PostgreSQL's.
//!
//! The parser takes all that follows `IS DISTINCT FROM` for its right side, `true OR true` too, and binds `^`
//! more tightly than a minus sign before it. Parentheses of the user are nodes of the tree, so wrongly bound
//! operators can be recognized, and rotated.

use std::mem;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, UnaryOperator};

/// Turns an expression whose parts are in order.
pub(super) fn turn(expr: &mut Expr) {
    match expr {
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) if is_joined(right) => {
            let joined = take(right);
            let test = mem::replace(expr, joined);
            let mut place = &mut *expr;
            while is_joined(place) {
                let Expr::BinaryOp { left, .. } = place else { return };
                place = left;
            }
            let first = take(place);
            *place = match test {
                Expr::IsDistinctFrom(left, _) => Expr::IsDistinctFrom(left, Box::new(first)),
                Expr::IsNotDistinctFrom(left, _) => Expr::IsNotDistinctFrom(left, Box::new(first)),
                other => other,
            };
            // Each step down to it may bind wrongly now.
            settle(expr);
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } if is_joined(inner) => {
            let mut joined = take(inner);
            if let Expr::BinaryOp { left, .. } = &mut joined {
                let first = take(left);
                **left = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(first) };
                turn(left);
            }
            *expr = joined;
            settle(expr);
        }
        Expr::UnaryOp { op: op @ (UnaryOperator::Minus | UnaryOperator::Plus), expr: inner } => {
            if let Expr::BinaryOp { left, op: BinaryOperator::PGExp, .. } = &mut **inner {
                let op = *op;
                let first = take(left);
                **left = Expr::Nested(Box::new(Expr::UnaryOp { op, expr: Box::new(first) }));
                let power = take(inner);
                *expr = power;
            }
        }
        Expr::BinaryOp { .. } => settle(expr),
        _ => {}
    }
}

/// `x AND (p OR q)`, whose parentheses are not in the text, is `(x AND p) OR q`.
fn settle(expr: &mut Expr) {
    let Expr::BinaryOp { op: BinaryOperator::And, left, right } = expr else { return };
    let Expr::BinaryOp { op: BinaryOperator::Or, left: first, .. } = &mut **right else { return };
    let start = take(left);
    let first_part = take(first);
    let mut both =
        Expr::BinaryOp { left: Box::new(start), op: BinaryOperator::And, right: Box::new(first_part) };
    settle(&mut both);
    **first = both;
    let or = take(right);
    *expr = or;
}

fn is_joined(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. })
}

fn take(expr: &mut Expr) -> Expr {
    mem::replace(expr, Expr::Identifier(Ident::new("")))
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use datafusion::sql::sqlparser::ast::{Statement, visit_expressions_mut};
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::super::mended;

    fn turned(sql: &str) -> String {
        let parsed =
            Parser::parse_sql(&PostgreSqlDialect {}, &format!("SELECT {sql}")).expect("SQL").remove(0);
        let mut parsed: Statement = mended(parsed).expect("nothing is refused");
        let _ = visit_expressions_mut(&mut parsed, |_| ControlFlow::<()>::Continue(()));
        parsed.to_string().trim_start_matches("SELECT ").to_owned()
    }

    #[test]
    fn operators_are_bound_as_postgresql_binds_them() {
        for (written, bound) in [
            ("a IS DISTINCT FROM b OR c", "a IS DISTINCT FROM b OR c"),
            ("x AND a IS NOT DISTINCT FROM b OR c", "x AND a IS NOT DISTINCT FROM b OR c"),
            ("NOT a IS DISTINCT FROM b AND c OR d", "NOT a IS DISTINCT FROM b AND c OR d"),
            ("-a ^ 2", "(-a) ^ 2"),
        ] {
            assert_eq!(turned(written), bound);
        }
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, "SELECT x AND a IS DISTINCT FROM b OR c");
        let tree = format!("{:?}", mended(parsed.expect("SQL").remove(0)));
        let (or, and) = (tree.find("op: Or").expect("OR"), tree.find("op: And").expect("AND"));
        // The tree is written from the left, so what is bound last comes last.
        assert!(and < or, "OR is over AND");
    }
}
