//! `FT.SEARCH`: counts the keys that match a query, exactly and as of one instant, and shows some of them.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{Expr, LogicalPlan, lit};
use futures::StreamExt;

use crate::analytics::Analytics;
use crate::error::QueryError;
use crate::statement::outcome::Outcome;
use crate::statement::query::Fetching;

use super::error::SearchError;
use super::filter::{filter_of, range};
use super::index::{Form, Index, Kind};
use super::options::Common;
use super::parser::{Bound, Query, parse, parse_bound};
use super::table::{Table, column};
use super::top_k::{Columns, Content, Row, Selection, TopK};
use super::tree::{Tree, results};
use super::words::Words;

/// Keys that one reply may skip and show, as in RediSearch.
pub(super) const SHOWN_MAX: usize = 1_000_000;
/// Keys that are shown if nothing is said.
const SHOWN_DEFAULT: usize = 10;
/// The score of every key.
const SCORE: f64 = 1.0;

/// A command `FT.SEARCH` that has been read.
pub(super) struct Find {
    query: Query,
    ranges: Vec<(String, Bound, Bound)>,
    keys: Option<Vec<String>>,
    in_fields: Option<Vec<String>>,
    with_scores: bool,
    selection: Selection,
    timeout: Option<Duration>,
}

impl Find {
    /// Reads what follows the name of the index.
    pub(super) fn read(index: &Index, words: &mut Words<'_>) -> Result<Find, SearchError> {
        let text = words.next("a query")?;
        let mut common = Common::default();
        let mut find = Find {
            query: Query::All,
            ranges: Vec::new(),
            keys: None,
            in_fields: None,
            with_scores: false,
            selection: Selection { content: Content::Whole, sort: None, offset: 0, shown: SHOWN_DEFAULT },
            timeout: None,
        };
        while !words.is_empty() {
            if !common.read(words)? {
                find.option(index, words)?;
            }
        }
        find.query = parse(text, &common.parameters)?;
        find.timeout = common.timeout;
        Ok(find)
    }

    fn option(&mut self, index: &Index, words: &mut Words<'_>) -> Result<(), SearchError> {
        let word = words.next("an option")?.to_ascii_uppercase();
        match word.as_str() {
            "NOCONTENT" => self.selection.content = Content::None,
            "WITHSCORES" => self.with_scores = true,
            "RETURN" => self.selection.content = returned(index, words.counted("RETURN")?)?,
            "INFIELDS" => self.in_fields = Some(words.counted("INFIELDS")?.to_vec()),
            "INKEYS" => self.keys = Some(words.counted("INKEYS")?.to_vec()),
            "FILTER" => {
                let name = words.next("a field behind FILTER")?.to_owned();
                let mut bound = || {
                    let text = words.next("an end of the range")?;
                    parse_bound(text)
                        .ok_or_else(|| SearchError::refused(format!("'{text}' is no end of a range")))
                };
                self.ranges.push((name, bound()?, bound()?));
            }
            "SORTBY" => {
                let name = words.next("a field behind SORTBY")?;
                if index.attribute_named(name).is_none() {
                    return Err(SearchError::Property(name.to_owned()));
                }
                let descends = !words.take("ASC") && words.take("DESC");
                self.selection.sort = Some((name.to_owned(), descends));
                words.take("WITHCOUNT");
            }
            "LIMIT" => {
                self.selection.offset = words.number("LIMIT's offset")?;
                self.selection.shown = words.number("LIMIT's number")?;
                if self.selection.offset.saturating_add(self.selection.shown) > SHOWN_MAX {
                    return Err(SearchError::refused(format!("LIMIT exceeds maximum of {SHOWN_MAX}")));
                }
            }
            _ => {
                return Err(SearchError::refused(format!(
                    "'{word}' is not there in FT.SEARCH: there are NOCONTENT, RETURN, SORTBY, LIMIT, PARAMS, \
                     DIALECT 2, TIMEOUT, FILTER, INKEYS, INFIELDS, WITHSCORES, VERBATIM, NOSTOPWORDS, SCORER"
                )));
            }
        }
        Ok(())
    }

    /// Runs it.
    pub(super) async fn run(
        self,
        analytics: &Arc<Analytics>,
        index: &Index,
        said: &str,
        is_resp3: bool,
    ) -> Result<Tree, SearchError> {
        let mut table = Table::of(index);
        let filter = self.filter(&mut table)?;
        let session = analytics.session();
        let is_count = self.selection.offset + self.selection.shown == 0;
        let columns = Columns::of(&self.selection, &mut table);
        let mut plan = table.plan(analytics.store())?;
        if let Some(filter) = filter {
            plan = plan.filter(filter)?;
        }
        plan = match is_count {
            true => plan.aggregate(Vec::<Expr>::new(), [count(lit(1)).alias("n")])?,
            false => {
                let name = |(at, name): (usize, &String)| column(name).alias(format!("s{at}"));
                plan.project(columns.names.iter().enumerate().map(name))?
            }
        };
        let plan: LogicalPlan = plan.build()?;
        let outcome = session.run_planned(said, plan, self.timeout, Fetching::AtOnce).await?;
        let (total, rows) = match is_count {
            true => (count_of(outcome).await?, Vec::new()),
            false => {
                let pool = session.context().runtime_env().memory_pool.clone();
                let reservation = MemoryConsumer::new("FT.SEARCH").register(&pool);
                let mut best = TopK::new(self.selection.offset + self.selection.shown, reservation);
                let total = best.take_all(outcome, &self.selection, &columns).await?;
                (total, best.rows(self.selection.offset))
            }
        };
        Ok(self.reply(total, rows, is_resp3))
    }

    fn filter(&self, table: &mut Table<'_>) -> Result<Option<Expr>, SearchError> {
        let mut all = filter_of(&self.query, table, self.in_fields.as_deref())?;
        let mut add = |more: Expr| {
            all = Some(match all.take() {
                Some(others) => others.and(more),
                None => more,
            });
        };
        for (name, low, high) in &self.ranges {
            let attribute =
                table.index.attribute_named(name).filter(|attribute| attribute.form == Form::Numeric);
            let Some(attribute) = attribute else {
                return Err(SearchError::refused(format!("FILTER is for NUMERIC fields: '{name}' is none")));
            };
            add(range(column(&table.value(attribute)), *low, *high));
        }
        if let Some(keys) = &self.keys {
            let key = column(&table.key());
            add(key.in_list(keys.iter().map(|key| lit(key.as_bytes())).collect(), false));
        }
        Ok(all)
    }

    fn reply(&self, total: i64, rows: Vec<Row>, is_resp3: bool) -> Tree {
        let hides = matches!(self.selection.content, Content::None);
        if is_resp3 {
            let result = |row: Row| {
                let mut result = vec![(Tree::text("id"), Tree::Bulk(row.key))];
                if self.with_scores {
                    result.push((Tree::text("score"), Tree::Double(SCORE)));
                }
                if !hides {
                    result.push((Tree::text("extra_attributes"), Tree::Map(row.fields)));
                }
                result.push((Tree::text("values"), Tree::Array(Vec::new())));
                Tree::Map(result)
            };
            return results(total, rows.into_iter().map(result).collect());
        }
        let mut reply = vec![Tree::Integer(total)];
        for row in rows {
            reply.push(Tree::Bulk(row.key));
            if self.with_scores {
                reply.push(Tree::Double(SCORE));
            }
            if !hides {
                reply.push(Tree::Array(
                    row.fields.into_iter().flat_map(|(name, value)| [name, value]).collect(),
                ));
            }
        }
        Tree::Array(reply)
    }
}

/// The fields that `RETURN` names.
fn returned(index: &Index, given: &[String]) -> Result<Content, SearchError> {
    let mut words = Words::new(given);
    let mut fields = Vec::new();
    while !words.is_empty() {
        let word = words.next("a field behind RETURN")?;
        let name = if words.take("AS") { words.next("a name behind AS")? } else { word };
        // A name that a document cannot have is not found, as in RediSearch.
        let is_path = index.kind == Kind::Hash || word.starts_with('$') || word == "__key";
        if is_path || index.attribute_named(word).is_some() {
            fields.push((index.source_of(word)?, name.to_owned()));
        }
    }
    Ok(if given.is_empty() { Content::None } else { Content::Some(fields) })
}

async fn count_of(mut outcome: Outcome) -> Result<i64, SearchError> {
    let mut total = 0;
    while let Some(batch) = outcome.rows.next().await {
        let batch = batch.map_err(QueryError::from)?;
        total += batch.column(0).as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
    }
    Ok(total)
}
