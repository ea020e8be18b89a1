//! Turns a query into a filter of rows.

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, lit};

use super::error::SearchError;
use super::index::{Attribute, Form};
use super::matching::{Pattern, Rule, matches};
use super::parser::{Bound, Query};
use super::table::{Table, column};

/// Bytes of the words that a query looks for, their synonyms among them, once for each field.
const WORDS_BYTES_MAX: usize = 16 << 20;
/// Bytes of a condition on one field, about, beside its words.
const CONDITION_BYTES: usize = 64;

/// The condition on the keys that a query matches; `None` if it matches all. Words without a field are looked
/// for in `in_fields`, or in all fields if there are none.
pub(super) fn filter_of(
    query: &Query,
    table: &mut Table<'_>,
    in_fields: Option<&[String]>,
) -> Result<Option<Expr>, SearchError> {
    Ok(match query {
        Query::All => None,
        query => Some(condition(query, table, in_fields)?),
    })
}

fn condition(
    query: &Query,
    table: &mut Table<'_>,
    in_fields: Option<&[String]>,
) -> Result<Expr, SearchError> {
    Ok(match query {
        Query::All => lit(true),
        // Of a key without the field the opposite is true, too.
        Query::Not(inner) => condition(inner, table, in_fields)?.is_not_true(),
        Query::And(parts) => balanced(conditions(parts, table, in_fields)?, Expr::and),
        Query::Or(parts) => balanced(conditions(parts, table, in_fields)?, Expr::or),
        Query::Words(fields, pattern) => words(fields.as_deref().or(in_fields), pattern, table)?,
        Query::Tags(name, wanted) => {
            let attribute = searched(table, name)?;
            let Form::Tag { separator, case_sensitive } = attribute.form else {
                return Err(other_form(attribute));
            };
            let rule = Rule::tags(wanted.clone(), separator, case_sensitive);
            let (name, is_each) = table.texts(attribute);
            matches(column(&name), rule, is_each)
        }
        Query::Missing(name) => {
            let attribute = searched(table, name)?;
            column(&table.want(attribute.source.clone(), DataType::BinaryView)).is_null()
        }
        Query::Range(name, low, high) => {
            let attribute = searched(table, name)?;
            if attribute.form != Form::Numeric {
                return Err(other_form(attribute));
            }
            range(column(&table.value(attribute)), *low, *high)
        }
    })
}

fn conditions(
    parts: &[Query],
    table: &mut Table<'_>,
    in_fields: Option<&[String]>,
) -> Result<Vec<Expr>, SearchError> {
    parts.iter().map(|part| condition(part, table, in_fields)).collect()
}

/// The condition that a number lies between two ends.
pub(super) fn range(number: Expr, low: Bound, high: Bound) -> Expr {
    let above = match low.is_exclusive {
        true => number.clone().gt(lit(low.number)),
        false => number.clone().gt_eq(lit(low.number)),
    };
    let below = match high.is_exclusive {
        true => number.lt(lit(high.number)),
        false => number.lt_eq(lit(high.number)),
    };
    above.and(below)
}

fn words(fields: Option<&[String]>, pattern: &Pattern, table: &mut Table<'_>) -> Result<Expr, SearchError> {
    let index = table.index;
    let attributes: Vec<&Attribute> = match fields {
        Some(names) => names.iter().map(|name| searched(table, name)).collect::<Result<_, _>>()?,
        None => {
            let is_searched =
                |attribute: &&Attribute| matches!(attribute.form, Form::Text { .. }) && !attribute.no_index;
            index.attributes.iter().filter(is_searched).collect()
        }
    };
    if attributes.is_empty() {
        return Err(SearchError::refused(format!(
            "index {} has no TEXT field that words could be in: ask for @field:{{tag}} or @field:[low high]",
            index.name
        )));
    }
    let pattern = match pattern {
        Pattern::Phrase(words) if words.len() == 1 => {
            let synonyms = index.synonyms_of(&words[0]);
            if synonyms.len() > 1 { Pattern::one_of(synonyms) } else { pattern.clone() }
        }
        pattern => pattern.clone(),
    };
    table.words_bytes += attributes.len() * (CONDITION_BYTES + pattern.bytes());
    if table.words_bytes > WORDS_BYTES_MAX {
        return Err(SearchError::refused(format!(
            "the query looks for more than {WORDS_BYTES_MAX} bytes of words in all its fields, with the \
             synonyms of its words: ask for fewer words, or in fewer fields"
        )));
    }
    let mut found = Vec::new();
    for attribute in attributes {
        if !matches!(attribute.form, Form::Text { .. }) {
            return Err(other_form(attribute));
        }
        let (name, is_each) = table.texts(attribute);
        found.push(matches(column(&name), Rule::Words(pattern.clone()), is_each));
    }
    Ok(balanced(found, Expr::or))
}

/// The attribute of this name, if it can be searched by.
fn searched<'i>(table: &Table<'i>, name: &str) -> Result<&'i Attribute, SearchError> {
    let index = table.index;
    let attribute = index.attribute_named(name).ok_or_else(|| {
        SearchError::refused(format!("Unknown field '{name}': index {} has no such", index.name))
    })?;
    if attribute.no_index {
        return Err(SearchError::refused(format!("field '{name}' is NOINDEX: it cannot be searched by")));
    }
    Ok(attribute)
}

fn other_form(attribute: &Attribute) -> SearchError {
    let wanted = match attribute.form {
        Form::Tag { .. } => "{tag}",
        Form::Numeric => "[low high]",
        Form::Text { .. } => "word",
    };
    let name = &attribute.name;
    SearchError::refused(format!("field '{name}' is {}: ask for @{name}:{wanted}", attribute.form.word()))
}

/// All of them together, in a tree that is as low as can be.
fn balanced(mut parts: Vec<Expr>, join: fn(Expr, Expr) -> Expr) -> Expr {
    while parts.len() > 1 {
        let mut pairs = Vec::with_capacity(parts.len().div_ceil(2));
        let mut rest = parts.into_iter();
        while let Some(first) = rest.next() {
            pairs.push(match rest.next() {
                Some(second) => join(first, second),
                None => first,
            });
        }
        parts = pairs;
    }
    parts.pop().expect("there is at least one part")
}
