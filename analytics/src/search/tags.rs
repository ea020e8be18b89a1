//! `FT.TAGVALS`: the tags that a field has somewhere, as of one instant.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt;

use crate::analytics::Analytics;
use crate::error::QueryError;
use crate::statement::query::Fetching;
use crate::statement::values::{Value, values_of};

use super::error::SearchError;
use super::index::{Form, Index};
use super::matching::tags_of;
use super::table::{Table, column};
use super::tree::{REPLY_BYTES_MAX, Tree};

/// The reply: a set of tags, in lower case unless case counts.
pub(super) async fn tags(
    analytics: &Arc<Analytics>,
    index: &Index,
    name: &str,
    said: &str,
) -> Result<Tree, SearchError> {
    let attribute = index.attribute_named(name).ok_or(SearchError::NoField)?;
    let Form::Tag { separator, case_sensitive } = attribute.form else { return Err(SearchError::NotTags) };
    let mut table = Table::of(index);
    let (texts, is_each) = table.texts(attribute);
    let plan = table.plan(analytics.store())?.project([column(&texts)])?.distinct()?.build()?;
    let session = analytics.session();
    let mut outcome = session.run_planned(said, plan, None, Fetching::AtOnce).await?;
    let (mut tags, mut bytes) = (BTreeSet::new(), 0);
    while let Some(batch) = outcome.rows.next().await {
        let batch = batch.map_err(QueryError::from)?;
        for value in values_of(batch.column(0))? {
            let Value::Bytes(text) = value else { continue };
            for tag in tags_of(&String::from_utf8_lossy(&text), separator, case_sensitive, is_each) {
                let len = tag.len();
                bytes += if tags.insert(tag) { size_of::<Tree>() + len } else { 0 };
                if bytes > REPLY_BYTES_MAX {
                    return Err(SearchError::refused(format!(
                        "the tags have more than {REPLY_BYTES_MAX} bytes: use FT.AGGREGATE with a cursor"
                    )));
                }
            }
        }
    }
    Ok(Tree::set(tags))
}
