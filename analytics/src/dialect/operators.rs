//! Rewrites operators, casts and functions into ones that the planner has.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CharacterLength, DataType, DateTimeField, ExactNumberInfo, Expr, Ident, Query, SetExpr,
    TableAlias, TableAliasColumnDef, TableFactor, Value,
};

use super::refuse;
use super::syntax::{
    call, called, cases, cast, constant, joined, joined_all, number, query, take, text, truth, width,
};
use crate::error::QueryError;

type Done = ControlFlow<QueryError>;

const DONE: Done = ControlFlow::Continue(());

/// Puts an expression, whose parts are put so, in words that the planner has.
pub(super) fn mend(expr: &mut Expr) -> Done {
    match expr {
        Expr::SimilarTo { .. } => similar(expr),
        Expr::AnyOp { .. } | Expr::AllOp { .. } => quantified(expr),
        Expr::InSubquery { expr: one, .. } if matches!(**one, Expr::Tuple(_)) => row_in_query(expr),
        Expr::InList { expr: one, .. } if matches!(**one, Expr::Tuple(_)) => row_in_list(expr),
        Expr::BinaryOp { left, right, .. }
            if matches!(**left, Expr::Tuple(_)) || matches!(**right, Expr::Tuple(_)) =>
        {
            rows_compared(expr)
        }
        Expr::Cast { .. } => casts(expr),
        Expr::Function(_) => function(expr),
        Expr::Substring { .. } => substring(expr),
        Expr::Extract { .. } => extract(expr),
        Expr::Value(_) => constants(expr),
        _ => DONE,
    }
}

fn constants(expr: &mut Expr) -> Done {
    let Expr::Value(value) = expr else { return DONE };
    let Value::Number(digits, _) = &value.value else { return DONE };
    let Some((mantissa, exponent)) = digits.split_once(['e', 'E']) else { return DONE };
    // Numbers with an exponent are numerics, too; those that are too long for one are doubles.
    let (before, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i64 = exponent.parse().unwrap_or(i64::MAX);
    let (places, length) =
        ((behind.len() as i64).saturating_sub(exponent), (before.len() + behind.len()) as i64);
    let all = format!("{before}{behind}");
    if !(-30..=30).contains(&exponent) || length > 30 || places > 30 || length - places > 30 {
        let digits = digits.clone();
        *expr = cast(text(&digits), DataType::Double(ExactNumberInfo::None));
    } else if places <= 0 {
        *expr = number(&format!("{all}{}.", "0".repeat(places.unsigned_abs() as usize)));
    } else {
        let all = format!("{all:0>width$}", width = places as usize + 1);
        let (before, behind) = all.split_at(all.len() - places as usize);
        *expr = number(&format!("{before}.{behind}"));
    }
    DONE
}

/// A pattern of `SIMILAR TO` as a regular expression.
fn similar(expr: &mut Expr) -> Done {
    let Expr::SimilarTo { negated, expr: of, pattern, escape_char } = expr else { return DONE };
    let Some(written) = constant(pattern) else {
        return refuse("SIMILAR TO with a pattern that is no constant");
    };
    if escape_char.is_some() {
        return refuse("SIMILAR TO … ESCAPE");
    }
    let (mut regex, mut is_escaped, mut is_in_set) = (String::from("^(?:"), false, false);
    for letter in written.chars() {
        match letter {
            _ if is_escaped => {
                if letter.is_ascii_alphanumeric() {
                    return refuse(format!("the escape \\{letter} in SIMILAR TO"));
                }
                regex.push('\\');
                regex.push(letter);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            ']' if is_in_set => {
                is_in_set = false;
                regex.push(letter);
            }
            '[' if is_in_set => return refuse("a class of characters in SIMILAR TO"),
            _ if is_in_set => regex.push(letter),
            '[' => {
                is_in_set = true;
                regex.push(letter);
            }
            '%' => regex.push_str("(?s:.*)"),
            '_' => regex.push_str("(?s:.)"),
            '.' | '^' | '$' => {
                regex.push('\\');
                regex.push(letter);
            }
            other => regex.push(other),
        }
    }
    if is_escaped || is_in_set {
        return refuse("a pattern of SIMILAR TO without its end");
    }
    regex.push_str(")$");
    let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
    *expr = joined(take(of), op, text(&regex));
    DONE
}

fn quantified(expr: &mut Expr) -> Done {
    let (left, op, right, is_any) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op.clone(), right, true),
        Expr::AllOp { left, compare_op, right } => (left, compare_op.clone(), right, false),
        _ => return DONE,
    };
    let (one, of) = (take(left), take(right));
    let of = match of {
        Expr::Nested(inner) => *inner,
        other => other,
    };
    match of {
        Expr::Subquery(subquery) => match (op, is_any) {
            (BinaryOperator::Eq, true) => {
                *expr = Expr::InSubquery { expr: Box::new(one), subquery, negated: false };
                mend(expr)
            }
            (BinaryOperator::NotEq, false) => {
                *expr = Expr::InSubquery { expr: Box::new(one), subquery, negated: true };
                mend(expr)
            }
            (op, _) if matches!(one, Expr::Tuple(_)) => refuse(format!("rows compared by {op} ANY or ALL")),
            (op, is_any) => compared(expr, one, op, subquery, is_any),
        },
        Expr::Array(array)
            if matches!((&op, is_any), (BinaryOperator::Eq, true) | (BinaryOperator::NotEq, false)) =>
        {
            *expr = match array.elem.is_empty() {
                true => truth(Some(!is_any)),
                false => Expr::InList { expr: Box::new(one), list: array.elem, negated: !is_any },
            };
            DONE
        }
        of => {
            match expr {
                Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. } => {
                    (**left, **right) = (one, of);
                }
                _ => {}
            }
            DONE
        }
    }
}

/// `x < ANY (q)` by whether `q` has rows for which it is true, and such for which it is not known.
fn compared(expr: &mut Expr, one: Expr, op: BinaryOperator, subquery: Box<Query>, is_any: bool) -> Done {
    check_length(&subquery)?;
    let test = Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(one), op, right: Box::new(column(0)) }));
    let decides = match is_any {
        true => Expr::IsTrue(Box::new(test.clone())),
        false => Expr::IsFalse(Box::new(test.clone())),
    };
    *expr = cases(
        vec![
            (exists(&subquery, 1, decides), truth(Some(is_any))),
            (exists(&subquery, 1, Expr::IsNull(Box::new(test))), truth(None)),
        ],
        truth(Some(!is_any)),
    );
    DONE
}

/// Letters of what is written more than once.
const TEXT_MAX: usize = 1 << 18;

/// Refuses a subquery that would be written more than once, and has been so within already.
fn check_length(subquery: &Query) -> Done {
    match subquery.to_string().len() > TEXT_MAX {
        true => ControlFlow::Break(QueryError::TooComplex("long subqueries within each other".to_owned())),
        false => DONE,
    }
}

/// The name of a subquery that is asked from here.
const ASKED: &str = "__asked";

/// The name of its column, which is in reach of expressions that are written without a table.
fn name_of(at: usize) -> Ident {
    Ident::new(format!("{ASKED}_{at}"))
}

fn column(at: usize) -> Expr {
    Expr::CompoundIdentifier(vec![Ident::new(ASKED), name_of(at)])
}

/// `EXISTS (SELECT 1 FROM (q) AS __asked (__asked_0, __asked_1 …) WHERE …)`.
fn exists(of: &Query, columns: usize, condition: Expr) -> Expr {
    let mut around = query("SELECT 1 FROM (SELECT 1) AS t WHERE true");
    if let SetExpr::Select(select) = &mut *around.body {
        select.selection = Some(condition);
        for joined in &mut select.from {
            let name = |at: usize| TableAliasColumnDef { name: name_of(at), data_type: None };
            joined.relation = TableFactor::Derived {
                lateral: false,
                subquery: Box::new(of.clone()),
                alias: Some(TableAlias {
                    explicit: true,
                    name: Ident::new(ASKED),
                    columns: (0..columns).map(name).collect(),
                    at: None,
                }),
                sample: None,
            };
        }
    }
    Expr::Exists { subquery: Box::new(around), negated: false }
}

/// `(a, b) IN (SELECT c, d …)`.
fn row_in_query(expr: &mut Expr) -> Done {
    let Expr::InSubquery { expr: one, subquery, negated } = expr else { return DONE };
    check_length(subquery)?;
    let Expr::Tuple(parts) = take(one) else { return DONE };
    if width(subquery).is_some_and(|width| width != parts.len()) {
        return ControlFlow::Break(QueryError::NotYet(
            "a row IN a subquery of another number of columns".to_owned(),
        ));
    }
    let equals = |at: usize, part: &Expr| joined(part.clone(), BinaryOperator::Eq, column(at));
    let all = |tests: Vec<Expr>| joined_all(tests, &BinaryOperator::And).unwrap_or_else(|| truth(Some(true)));
    let are_equal = all(parts.iter().enumerate().map(|(at, part)| equals(at, part)).collect());
    let may_be = |(at, part): (usize, &Expr)| {
        let is_null = |expr: Expr| Expr::IsNull(Box::new(expr));
        let nulls = joined(is_null(part.clone()), BinaryOperator::Or, is_null(column(at)));
        joined(equals(at, part), BinaryOperator::Or, nulls)
    };
    let may_be_equal = all(parts.iter().enumerate().map(may_be).collect());
    let (width, negated) = (parts.len(), *negated);
    *expr = cases(
        vec![
            (exists(subquery, width, are_equal), truth(Some(!negated))),
            (exists(subquery, width, may_be_equal), truth(None)),
        ],
        truth(Some(negated)),
    );
    DONE
}

/// `(a, b) IN ((1, 2), (3, 4))`.
fn row_in_list(expr: &mut Expr) -> Done {
    let Expr::InList { expr: one, list, negated } = expr else { return DONE };
    let (one, negated) = (take(one), *negated);
    if one.to_string().len().saturating_mul(list.len()) > TEXT_MAX {
        return ControlFlow::Break(QueryError::TooComplex("a long row IN a long list".to_owned()));
    }
    let mut tests = Vec::with_capacity(list.len());
    for other in std::mem::take(list) {
        let mut test =
            Expr::BinaryOp { left: Box::new(one.clone()), op: BinaryOperator::Eq, right: Box::new(other) };
        rows_compared(&mut test)?;
        tests.push(test);
    }
    let all = joined_all(tests, &BinaryOperator::Or).unwrap_or_else(|| truth(Some(false)));
    *expr = match negated {
        true => Expr::UnaryOp {
            op: datafusion::sql::sqlparser::ast::UnaryOperator::Not,
            expr: Box::new(Expr::Nested(Box::new(all))),
        },
        false => all,
    };
    DONE
}

fn rows_compared(expr: &mut Expr) -> Done {
    let Expr::BinaryOp { left, op, right } = expr else { return DONE };
    let (Expr::Tuple(ones), Expr::Tuple(others)) = (&mut **left, &mut **right) else {
        return refuse(format!("a row beside {op} and what is no row of constants or columns"));
    };
    let join = match op {
        BinaryOperator::Eq => BinaryOperator::And,
        BinaryOperator::NotEq => BinaryOperator::Or,
        op => return refuse(format!("rows compared by {op}")),
    };
    if ones.len() != others.len() {
        return refuse("a comparison of rows of different lengths");
    }
    let tests = ones.drain(..).zip(others.drain(..)).map(|(one, other)| joined(one, op.clone(), other));
    let all = joined_all(tests.collect(), &join);
    *expr = all.unwrap_or_else(|| truth(Some(true)));
    DONE
}

fn casts(expr: &mut Expr) -> Done {
    let Expr::Cast { expr: of, data_type, .. } = expr else { return DONE };
    let cut = |length: &CharacterLength| match length {
        CharacterLength::IntegerLength { length, .. } => Some(*length),
        CharacterLength::Max => None,
    };
    match data_type {
        DataType::Numeric(ExactNumberInfo::None)
        | DataType::Decimal(ExactNumberInfo::None)
        | DataType::Dec(ExactNumberInfo::None) => *expr = call("to_numeric", vec![take(of)]),
        DataType::Varchar(Some(length)) | DataType::CharacterVarying(Some(length)) => {
            if let Some(length) = cut(length) {
                let text = cast(take(of), DataType::Text);
                *expr = call("left", vec![text, number(&length.to_string())]);
            }
        }
        DataType::Char(Some(_)) | DataType::Character(Some(_)) => {
            return refuse("CHAR(n), which is filled with spaces; VARCHAR(n) is, and TEXT");
        }
        _ => {}
    }
    DONE
}

fn function(expr: &mut Expr) -> Done {
    let Expr::Function(function) = expr else { return DONE };
    let has_over = function.over.is_some();
    if let [name] = function.name.0.as_mut_slice()
        && let Some(name) = name.as_ident()
    {
        let new = match name.value.to_lowercase().as_str() {
            "variance" => Some("var_samp"),
            "every" => Some("bool_and"),
            "char_length" | "character_length" => Some("length"),
            _ => None,
        };
        if let Some(new) = new {
            function.name = datafusion::sql::sqlparser::ast::ObjectName::from(vec![Ident::new(new)]);
        }
    }
    if has_over {
        return DONE;
    }
    let Some((name, mut args)) = called(function) else { return DONE };
    match (name.as_str(), args.as_mut_slice()) {
        // The library's rewriter of PostgreSQL's catalog makes this of `= ANY`.
        ("array_contains", [of, one]) if matches!(**of, Expr::Subquery(_) | Expr::Array(_)) => {
            let (of, one) = (take(of), take(one));
            *expr = Expr::AnyOp {
                left: Box::new(one),
                compare_op: BinaryOperator::Eq,
                right: Box::new(of),
                is_some: false,
            };
            quantified(expr)
        }
        ("age", [of]) => {
            let of = take(of);
            *expr = call("age", vec![call("current_date", Vec::new()), of]);
            DONE
        }
        ("date_part", [field, of]) if constant(field).is_some_and(|field| is_second(&field)) => {
            let of = take(of);
            *expr = seconds(of);
            DONE
        }
        _ => DONE,
    }
}

fn is_second(field: &str) -> bool {
    matches!(field.to_lowercase().as_str(), "second" | "seconds" | "sec" | "secs" | "s")
}

/// Seconds with their fraction.
fn seconds(of: Expr) -> Expr {
    let micros = call("date_part", vec![text("microsecond"), of]);
    let digits = ExactNumberInfo::PrecisionAndScale(12, 0);
    let micros = cast(micros, DataType::Decimal(digits));
    let seconds = joined(micros, BinaryOperator::Divide, number("1000000"));
    cast(seconds, DataType::Decimal(ExactNumberInfo::PrecisionAndScale(8, 6)))
}

fn extract(expr: &mut Expr) -> Done {
    let Expr::Extract { field: DateTimeField::Second | DateTimeField::Seconds, expr: of, .. } = expr else {
        return DONE;
    };
    let of = take(of);
    *expr = seconds(of);
    DONE
}

/// `substring(x FROM 'pattern')`.
fn substring(expr: &mut Expr) -> Done {
    let Expr::Substring { expr: of, substring_from: Some(from), substring_for: None, .. } = expr else {
        return DONE;
    };
    if constant(from).is_none() {
        return DONE;
    }
    let found = call("regexp_match", vec![take(of), take(from)]);
    *expr = call("array_element", vec![found, number("1")]);
    DONE
}
