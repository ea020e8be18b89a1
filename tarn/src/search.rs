//! Search beside the server: answers the commands `FT.*`, on the threads of SQL.

use std::sync::Arc;

use futures::FutureExt;
use tarn_analytics::{Request, Search, SearchError, Tree};
use tarn_server::analytics::search::{self, Searching};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Answers the commands `FT.*`.
pub(crate) struct Seeker {
    /// Where the threads are.
    pub handle: Handle,
    /// The indexes and cursors.
    pub search: Arc<Search>,
}

impl search::Search for Seeker {
    fn ask(&self, words: Vec<Vec<u8>>, db: u8, is_resp3: bool) -> Box<dyn Searching> {
        let search = self.search.clone();
        let request = Request { words, database: db, is_resp3 };
        Box::new(Answering(self.handle.spawn(async move { search.run(request).await })))
    }
}

/// A command that is being answered.
#[derive(Debug)]
struct Answering(JoinHandle<Result<Tree, SearchError>>);

impl Searching for Answering {
    fn answer(&mut self) -> Option<Result<search::Tree, String>> {
        let ended = (&mut self.0).now_or_never()?;
        Some(match ended {
            Ok(Ok(tree)) => Ok(tree_of(tree)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(panicked) => Err(format!("ERR the command was given up: {panicked}")),
        })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn tree_of(tree: Tree) -> search::Tree {
    match tree {
        Tree::Null => search::Tree::Null,
        Tree::Simple(text) => search::Tree::Simple(text),
        Tree::Integer(number) => search::Tree::Integer(number),
        Tree::Double(number) => search::Tree::Double(number),
        Tree::Bulk(bytes) => search::Tree::Bulk(bytes),
        Tree::Array(parts) => search::Tree::Array(parts.into_iter().map(tree_of).collect()),
        Tree::Set(parts) => search::Tree::Set(parts.into_iter().map(tree_of).collect()),
        Tree::Map(pairs) => {
            let pair = |(name, value)| (tree_of(name), tree_of(value));
            search::Tree::Map(pairs.into_iter().map(pair).collect())
        }
    }
}
