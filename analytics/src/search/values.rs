//! Turns an expression of a search command into one of the planner. Values are numbers, texts or booleans,
//! and are converted to what an operator takes.

use datafusion::arrow::datatypes::DataType;
use datafusion::functions::expr_fn;
use datafusion::logical_expr::{Expr, lit, try_cast, when};

use super::error::SearchError;
use super::expression::{Expression, Operator};

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number of 64 bits.
    Number,
    /// Text.
    Text,
    /// The bytes of a field that the schema does not have.
    Bytes,
    /// True or not.
    Truth,
    /// Several values.
    List,
}

/// A value that is planned.
#[derive(Clone, Debug)]
pub(super) struct Value {
    /// The expression that makes it.
    pub expr: Expr,
    /// Its type.
    pub kind: Kind,
}

const FUNCTIONS: &str = "abs, ceil, floor, sqrt, log, log2, exp, upper, lower, startswith, contains, strlen, \
                         substr, exists, case, to_number, to_str";

impl Value {
    fn new(kind: Kind, expr: Expr) -> Value {
        Value { expr, kind }
    }

    /// As a number; what is none is NULL.
    pub(super) fn number(self) -> Expr {
        match self.kind {
            Kind::Number => self.expr,
            Kind::Bytes => try_cast(self.text(), DataType::Float64),
            Kind::Text | Kind::Truth | Kind::List => try_cast(self.expr, DataType::Float64),
        }
    }

    /// As text.
    fn text(self) -> Expr {
        match self.kind {
            Kind::Text => self.expr,
            _ => datafusion::logical_expr::cast(self.expr, DataType::Utf8View),
        }
    }

    /// As a truth: what is neither 0 nor empty.
    pub(super) fn truth(self) -> Expr {
        match self.kind {
            Kind::Truth => self.expr,
            Kind::Number => self.expr.not_eq(lit(0.0)),
            Kind::Text | Kind::Bytes | Kind::List => self.text().not_eq(lit("")),
        }
    }

    /// As what a row has: a truth is 1 or 0.
    pub(super) fn shown(self) -> Value {
        match self.kind {
            Kind::Truth => {
                Value::new(Kind::Number, datafusion::logical_expr::cast(self.expr, DataType::Float64))
            }
            _ => self,
        }
    }
}

/// The value of an expression, with properties found by `find`.
pub(super) fn value_of(
    expression: &Expression,
    find: &mut impl FnMut(&str) -> Result<Value, SearchError>,
) -> Result<Value, SearchError> {
    Ok(match expression {
        Expression::Property(name) => find(name)?,
        Expression::Number(number) => Value::new(Kind::Number, lit(*number)),
        Expression::Text(text) => Value::new(Kind::Text, lit(text.as_str())),
        Expression::Not(inner) => Value::new(Kind::Truth, value_of(inner, find)?.truth().is_not_true()),
        Expression::Both(operator, left, right) => {
            let (left, right) = (value_of(left, find)?, value_of(right, find)?);
            both(*operator, left, right)
        }
        Expression::Call(name, arguments) => {
            let values =
                arguments.iter().map(|argument| value_of(argument, find)).collect::<Result<Vec<_>, _>>()?;
            call(name, values)?
        }
    })
}

fn both(operator: Operator, left: Value, right: Value) -> Value {
    type Join = fn(Expr, Expr) -> Expr;
    let arithmetic: Join = match operator {
        Operator::Or => return Value::new(Kind::Truth, left.truth().or(right.truth())),
        Operator::And => return Value::new(Kind::Truth, left.truth().and(right.truth())),
        Operator::Power => return Value::new(Kind::Number, expr_fn::power(left.number(), right.number())),
        Operator::Add => |a, b| a + b,
        Operator::Subtract => |a, b| a - b,
        Operator::Multiply => |a, b| a * b,
        Operator::Divide => |a, b| a / b,
        Operator::Modulo => |a, b| a % b,
        comparison => return compare(comparison, left, right),
    };
    Value::new(Kind::Number, arithmetic(left.number(), right.number()))
}

fn compare(operator: Operator, left: Value, right: Value) -> Value {
    let is_number = |value: &Value| matches!(value.kind, Kind::Number | Kind::Truth);
    let (left, right) = match is_number(&left) || is_number(&right) {
        true => (left.number(), right.number()),
        false => (left.text(), right.text()),
    };
    Value::new(
        Kind::Truth,
        match operator {
            Operator::Equal => left.eq(right),
            Operator::NotEqual => left.not_eq(right),
            Operator::LessOrEqual => left.lt_eq(right),
            Operator::GreaterOrEqual => left.gt_eq(right),
            Operator::Less => left.lt(right),
            _ => left.gt(right),
        },
    )
}

fn call(name: &str, values: Vec<Value>) -> Result<Value, SearchError> {
    let wanted = match name {
        "startswith" | "contains" => 2,
        "substr" | "case" => 3,
        _ => 1,
    };
    let found = values.len();
    let mut values = values.into_iter();
    let (Some(first), second, third) = (values.next(), values.next(), values.next()) else {
        return Err(SearchError::refused(format!("{name}() has no arguments, and wants {wanted}")));
    };
    let numeric: fn(Expr) -> Expr = match (name, second, third) {
        ("abs", None, _) => expr_fn::abs,
        ("ceil", None, _) => expr_fn::ceil,
        ("floor", None, _) => expr_fn::floor,
        ("sqrt", None, _) => expr_fn::sqrt,
        ("log", None, _) => expr_fn::ln,
        ("log2", None, _) => expr_fn::log2,
        ("exp", None, _) => expr_fn::exp,
        ("to_number", None, _) => |number| number,
        ("upper", None, _) => return Ok(Value::new(Kind::Text, expr_fn::upper(first.text()))),
        ("lower", None, _) => return Ok(Value::new(Kind::Text, expr_fn::lower(first.text()))),
        ("to_str", None, _) => return Ok(Value::new(Kind::Text, first.text())),
        ("strlen", None, _) => {
            let letters = expr_fn::character_length(first.text());
            return Ok(Value::new(Kind::Number, datafusion::logical_expr::cast(letters, DataType::Float64)));
        }
        ("exists", None, _) => return Ok(Value::new(Kind::Truth, first.expr.is_not_null())),
        ("startswith", Some(second), None) => {
            return Ok(Value::new(Kind::Truth, expr_fn::starts_with(first.text(), second.text())));
        }
        ("contains", Some(second), None) => {
            return Ok(Value::new(Kind::Truth, expr_fn::contains(first.text(), second.text())));
        }
        ("substr", Some(from), Some(count)) => {
            return Ok(substr(first.text(), from.number(), count.number()));
        }
        ("case", Some(then), Some(otherwise)) => {
            let is_number = then.kind == Kind::Number && otherwise.kind == Kind::Number;
            let (kind, then, otherwise) = match is_number {
                true => (Kind::Number, then.expr, otherwise.expr),
                false => (Kind::Text, then.text(), otherwise.text()),
            };
            return Ok(Value::new(kind, when(first.truth(), then).otherwise(otherwise)?));
        }
        (
            "abs" | "ceil" | "floor" | "sqrt" | "log" | "log2" | "exp" | "to_number" | "upper" | "lower"
            | "to_str",
            ..,
        )
        | ("strlen" | "exists" | "startswith" | "contains" | "substr" | "case", ..) => {
            return Err(SearchError::refused(format!("{name}() wants {wanted} arguments, not {found}")));
        }
        _ => {
            return Err(SearchError::refused(format!(
                "the function {name}() is not there: there are {FUNCTIONS}"
            )));
        }
    };
    Ok(Value::new(Kind::Number, numeric(first.number())))
}

/// Letters from an offset on; all of them if the count is below 0.
fn substr(text: Expr, from: Expr, count: Expr) -> Value {
    let whole = |number| datafusion::logical_expr::cast(number, DataType::Int64);
    let letters = expr_fn::character_length(text.clone());
    let all = datafusion::logical_expr::cast(letters, DataType::Int64);
    let count =
        when(count.clone().lt(lit(0.0)), all).otherwise(whole(count)).expect("both are whole numbers");
    Value::new(Kind::Text, expr_fn::substring(text, whole(from) + lit(1_i64), count))
}
