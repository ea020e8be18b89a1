//! Conditions of a query on a column, as ranges of its values.

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Like, Operator};

use crate::table::datum::Datum;
use crate::table::ranges::{Edge, Ranges};

/// Deeper expressions are left to the operators above.
const DEPTH_MAX: usize = 32;

/// Values that a column must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    /// The column, by its number.
    pub column: usize,
    /// Its values.
    pub ranges: Ranges,
}

/// A condition that an expression asks for.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The condition.
    pub condition: Condition,
    /// Whether it says all that the expression does; if not, some rows that meet it are none of its.
    pub exact: bool,
}

impl Asked {
    fn exactly(column: usize, ranges: Ranges) -> Asked {
        Asked { condition: Condition { column, ranges }, exact: true }
    }
}

/// The condition that must hold where `filter` is true, if it is one of a single column.
pub(crate) fn asked_by(filter: &Expr, schema: &SchemaRef) -> Option<Asked> {
    of(filter, schema, 0)
}

/// All of these filters, a condition for each column. Filters that are none are passed over.
pub(crate) fn all_of(filters: &[Expr], schema: &SchemaRef) -> Vec<Condition> {
    let mut conditions: Vec<Condition> = Vec::new();
    for Asked { condition, .. } in filters.iter().filter_map(|filter| asked_by(filter, schema)) {
        match conditions.iter_mut().find(|other| other.column == condition.column) {
            Some(other) => other.ranges = other.ranges.and(&condition.ranges),
            None => conditions.push(condition),
        }
    }
    conditions
}

fn of(filter: &Expr, schema: &SchemaRef, depth: usize) -> Option<Asked> {
    if depth > DEPTH_MAX {
        return None;
    }
    match filter {
        Expr::Alias(alias) => of(&alias.expr, schema, depth + 1),
        Expr::Column(_) => {
            let column = column_of(filter, schema)?;
            is_truth(schema, column).then(|| Asked::exactly(column, truth(true)))
        }
        Expr::BinaryExpr(binary) => of_binary(binary, schema, depth),
        Expr::IsNull(inner) => Some(Asked::exactly(column_of(inner, schema)?, Ranges::NULL)),
        Expr::IsNotNull(inner) => Some(Asked::exactly(column_of(inner, schema)?, Ranges::values())),
        Expr::Between(between) => {
            let column = column_of(&between.expr, schema)?;
            let from = compared(column, Operator::GtEq, &between.low, schema)?;
            let ranges = from.and(&compared(column, Operator::LtEq, &between.high, schema)?);
            Some(Asked::exactly(column, if between.negated { ranges.not() } else { ranges }))
        }
        Expr::InList(list) => {
            let column = column_of(&list.expr, schema)?;
            let values = list.list.iter().map(|literal| order_of(literal, column, schema));
            let ranges = Ranges::any_of(values.collect::<Option<_>>()?);
            Some(Asked::exactly(column, if list.negated { ranges.not() } else { ranges }))
        }
        Expr::Like(like) => of_like(like, schema),
        Expr::Not(inner) => {
            // These are NULL, and not true, if the column is.
            let is_null_of_null = match &**inner {
                Expr::BinaryExpr(binary) => !matches!(binary.op, Operator::And | Operator::Or),
                other => matches!(other, Expr::Column(_) | Expr::Between(_) | Expr::InList(_)),
            };
            let asked = is_null_of_null.then(|| of(inner, schema, depth + 1)).flatten()?;
            asked.exact.then(|| Asked::exactly(asked.condition.column, asked.condition.ranges.not()))
        }
        _ => None,
    }
}

fn of_binary(binary: &BinaryExpr, schema: &SchemaRef, depth: usize) -> Option<Asked> {
    let both = || (of(&binary.left, schema, depth + 1), of(&binary.right, schema, depth + 1));
    match binary.op {
        Operator::And => match both() {
            (Some(a), Some(b)) if a.condition.column == b.condition.column => {
                let ranges = a.condition.ranges.and(&b.condition.ranges);
                let condition = Condition { ranges, ..a.condition };
                Some(Asked { condition, exact: a.exact && b.exact })
            }
            // One of them holds as well.
            (Some(one), _) | (None, Some(one)) => Some(Asked { exact: false, ..one }),
            (None, None) => None,
        },
        Operator::Or => match both() {
            (Some(a), Some(b)) if a.condition.column == b.condition.column => {
                let ranges = a.condition.ranges.or(b.condition.ranges);
                let condition = Condition { column: a.condition.column, ranges };
                Some(Asked { condition, exact: a.exact && b.exact })
            }
            _ => None,
        },
        operator => {
            if let Some(column) = column_of(&binary.left, schema) {
                return Some(Asked::exactly(column, compared(column, operator, &binary.right, schema)?));
            }
            let column = column_of(&binary.right, schema)?;
            Some(Asked::exactly(column, compared(column, operator.swap()?, &binary.left, schema)?))
        }
    }
}

/// `LIKE` with what a text begins with.
fn of_like(like: &Like, schema: &SchemaRef) -> Option<Asked> {
    let column = column_of(&like.expr, schema)?;
    let Expr::Literal(ScalarValue::Utf8(Some(pattern)) | ScalarValue::Utf8View(Some(pattern)), _) =
        &*like.pattern
    else {
        return None;
    };
    let is_text = matches!(schema.field(column).data_type(), DataType::Utf8 | DataType::Utf8View);
    if like.negated || like.case_insensitive || like.escape_char.is_some() || !is_text {
        return None;
    }
    let end = pattern.find(['%', '_', '\\'])?;
    if end == 0 {
        return None;
    }
    let condition = Condition { column, ranges: Ranges::beginning_with(&pattern.as_bytes()[..end]) };
    Some(Asked { condition, exact: &pattern[end..] == "%" })
}

fn column_of(expr: &Expr, schema: &SchemaRef) -> Option<usize> {
    let Expr::Column(column) = expr else { return None };
    schema.index_of(&column.name).ok()
}

fn is_truth(schema: &SchemaRef, column: usize) -> bool {
    *schema.field(column).data_type() == DataType::Boolean
}

fn truth(wanted: bool) -> Ranges {
    Ranges::one(vec![u8::from(wanted)])
}

/// A literal, by its order among the values of a column.
fn order_of(literal: &Expr, column: usize, schema: &SchemaRef) -> Option<Vec<u8>> {
    let Expr::Literal(scalar, _) = literal else { return None };
    Datum::of_scalar(scalar, schema.field(column).data_type())?.in_order(<[u8]>::to_vec)
}

/// The values of a column for which the comparison with a literal is true.
fn compared(column: usize, operator: Operator, literal: &Expr, schema: &SchemaRef) -> Option<Ranges> {
    let value = order_of(literal, column, schema)?;
    let edge = |behind| Some(Edge { value: value.clone(), behind });
    Some(match operator {
        Operator::Eq => Ranges::one(value),
        Operator::NotEq => Ranges::one(value).not(),
        Operator::Lt => Ranges::between(None, edge(false)),
        Operator::LtEq => Ranges::between(None, edge(true)),
        Operator::Gt => Ranges::between(edge(true), None),
        Operator::GtEq => Ranges::between(edge(false), None),
        _ => return None,
    })
}
