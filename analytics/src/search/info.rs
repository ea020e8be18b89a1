//! `FT.INFO`: the declaration of an index, its number of keys, and how many values could not be indexed.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{Expr, lit};
use futures::StreamExt;

use crate::analytics::Analytics;
use crate::error::QueryError;
use crate::statement::query::Fetching;

use super::cursor::CURSORS_MAX;
use super::error::SearchError;
use super::index::{Attribute, Form, Index};
use super::table::{Table, column};
use super::tree::{Tree, number_text};

/// Counts and sizes of what an index of RediSearch holds. One here holds no data.
const HELD: [&str; 9] = [
    "num_terms",
    "num_records",
    "inverted_sz_mb",
    "vector_index_sz_mb",
    "total_inverted_index_blocks",
    "offset_vectors_sz_mb",
    "doc_table_size_mb",
    "sortable_values_size_mb",
    "key_table_size_mb",
];

/// The reply to `FT.INFO`.
pub(super) async fn info(
    analytics: &Arc<Analytics>,
    index: &Index,
    cursors: (usize, usize),
    is_resp3: bool,
) -> Result<Tree, SearchError> {
    let (keys, failures) = counts(analytics, index).await?;
    let failed: i64 = failures.iter().sum();
    let definition = Tree::map([
        ("key_type", Tree::text(index.kind.word())),
        ("prefixes", Tree::texts(index.prefixes.iter().map(String::as_str))),
        ("default_score", Tree::text("1")),
    ]);
    let attributes = index.attributes.iter().map(|attribute| described(attribute, is_resp3)).collect();
    let statistics = index.attributes.iter().zip(&failures).map(|(attribute, failures)| {
        Tree::map([
            ("identifier", Tree::text(attribute.identifier.as_str())),
            ("attribute", Tree::text(attribute.name.as_str())),
            ("Index Errors", Tree::map([("indexing failures", Tree::Integer(*failures))])),
        ])
    });
    let mut pairs = vec![
        ("index_name", Tree::text(index.name.as_str())),
        ("index_options", Tree::Array(Vec::new())),
        ("index_definition", definition),
        ("attributes", Tree::Array(attributes)),
        ("num_docs", Tree::Integer(keys)),
        ("hash_indexing_failures", Tree::Integer(failed)),
        ("max_doc_id", Tree::Integer(keys)),
        ("total_indexing_time", Tree::text("0")),
        // There is nothing to be built: each query reads the keys as they are.
        ("indexing", Tree::Integer(0)),
        ("percent_indexed", Tree::text("1")),
        (
            "cursor_stats",
            Tree::map([
                ("global_idle", Tree::Integer(cursors.0 as i64)),
                ("global_total", Tree::Integer(cursors.0 as i64)),
                ("index_capacity", Tree::Integer(CURSORS_MAX as i64)),
                ("index_total", Tree::Integer(cursors.1 as i64)),
            ]),
        ),
        ("field statistics", Tree::Array(statistics.collect())),
    ];
    pairs.extend(HELD.map(|name| (name, Tree::Integer(0))));
    if index.says_no_stop_words {
        pairs.push(("stopwords_list", Tree::Array(Vec::new())));
    }
    Ok(Tree::Map(pairs.into_iter().map(|(name, value)| (Tree::text(name), value)).collect()))
}

/// Keys, and for each attribute the values that are there and cannot be read as what it is.
async fn counts(analytics: &Arc<Analytics>, index: &Index) -> Result<(i64, Vec<i64>), SearchError> {
    let mut table = Table::of(index);
    let mut counted: Vec<Expr> = vec![count(lit(1)).alias("n")];
    for (at, attribute) in index.attributes.iter().enumerate() {
        let value = table.value(attribute);
        let raw = table.want(attribute.source.clone(), DataType::BinaryView);
        counted.push((count(column(&raw))).alias(format!("raw{at}")));
        counted.push((count(column(&value))).alias(format!("value{at}")));
    }
    let plan = table.plan(analytics.store())?.aggregate(Vec::<Expr>::new(), counted)?.build()?;
    let session = analytics.session();
    let mut outcome =
        session.run_planned(&format!("FT.INFO {}", index.name), plan, None, Fetching::AtOnce).await?;
    let mut found = vec![0; 1 + 2 * index.attributes.len()];
    while let Some(batch) = outcome.rows.next().await {
        let batch = batch.map_err(QueryError::from)?;
        for (count, column) in found.iter_mut().zip(batch.columns()) {
            *count += column.as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        }
    }
    Ok((found[0], found[1..].chunks_exact(2).map(|pair| pair[0] - pair[1]).collect()))
}

/// An attribute: names and values, then words that stand alone.
fn described(attribute: &Attribute, is_resp3: bool) -> Tree {
    let mut pairs = vec![
        ("identifier", attribute.identifier.clone()),
        ("attribute", attribute.name.clone()),
        ("type", attribute.form.word().to_owned()),
    ];
    let mut flags = Vec::new();
    match &attribute.form {
        Form::Tag { separator, case_sensitive } => {
            pairs.push(("SEPARATOR", separator.map(String::from).unwrap_or_default()));
            flags.extend(case_sensitive.then_some("CASESENSITIVE"));
        }
        Form::Text { weight, no_stem } => {
            pairs.push(("WEIGHT", number_text(*weight)));
            flags.extend(no_stem.then_some("NOSTEM"));
        }
        Form::Numeric => {}
    }
    flags.extend(attribute.sortable.then_some("SORTABLE"));
    flags.extend(attribute.unnormalized.then_some("UNF"));
    flags.extend(attribute.no_index.then_some("NOINDEX"));
    if is_resp3 {
        let mut map: Vec<_> =
            pairs.into_iter().map(|(name, value)| (Tree::text(name), Tree::text(value))).collect();
        map.push((Tree::text("flags"), Tree::texts(flags)));
        return Tree::Map(map);
    }
    let words = pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    Tree::texts(words.chain(flags.into_iter().map(str::to_owned)))
}
