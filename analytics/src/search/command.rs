//! Runs the commands `FT.*`: reads the command's words, and dispatches to what answers it.

use std::path::Path;
use std::sync::Arc;

use crate::analytics::Analytics;
use crate::error::QueryError;
use crate::statement::query::Fetching;

use super::cursor::{Cursor, Cursors};
use super::declared::DeclaredIndexes;
use super::error::SearchError;
use super::find::Find;
use super::index::Index;
use super::options::{Common, Pace};
use super::steps::Aggregate;
use super::tree::Tree;
use super::words::Words;
use super::{filter, info, parser, pipeline, table};

/// Letters of a command that `SHOW QUERIES` shows.
const SAID_MAX: usize = 1000;

/// The search commands of a server: their indexes and their cursors.
pub struct Search {
    analytics: Arc<Analytics>,
    indexes: DeclaredIndexes,
    cursors: Arc<Cursors>,
}

/// A command, as a client sent it.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its words, the command's name first.
    pub words: Vec<Vec<u8>>,
    /// The database that the client has selected.
    pub database: u8,
    /// Whether the client speaks RESP3.
    pub is_resp3: bool,
}

impl Search {
    /// Reads the indexes that were declared, from the file in `directory` if there is one.
    pub fn open(analytics: Arc<Analytics>, directory: Option<&Path>) -> Result<Search, QueryError> {
        Ok(Search { analytics, indexes: DeclaredIndexes::read(directory)?, cursors: Arc::default() })
    }

    /// Runs a command of search.
    pub async fn run(&self, request: Request) -> Result<Tree, SearchError> {
        let as_text = |word| String::from_utf8(word);
        let words: Result<Vec<String>, _> = request.words.into_iter().map(as_text).collect();
        let all = words.map_err(|_| SearchError::refused("the words of the command have to be UTF-8"))?;
        let mut words = Words::new(&all);
        let command = words.next("a command")?.to_ascii_uppercase();
        if request.database != 0 {
            return Err(SearchError::refused("Cannot create or search an index on db != 0: SELECT 0"));
        }
        let mut said = all.join(" ");
        if let Some((at, _)) = said.char_indices().nth(SAID_MAX) {
            said.truncate(at);
        }
        let asked = Asked { search: self, said: &said, is_resp3: request.is_resp3 };
        match command.as_str() {
            "FT.CREATE" => asked.create(words.rest()),
            "FT.ALTER" => asked.alter(&mut words),
            "FT.DROPINDEX" => asked.drop_index(&mut words),
            "FT._LIST" => Ok(Tree::texts(asked.search.indexes.names())),
            "FT.INFO" => asked.info(&mut words).await,
            "FT.SEARCH" => asked.find(&mut words).await,
            "FT.EXPLAIN" => asked.explain(&mut words),
            "FT.AGGREGATE" => asked.aggregate(&mut words).await,
            "FT.CURSOR" => asked.cursor(&mut words).await,
            _ => Err(SearchError::refused(format!("{command} is not there"))),
        }
    }
}

/// A command that is being answered.
struct Asked<'a> {
    search: &'a Search,
    said: &'a str,
    is_resp3: bool,
}

const OK: Tree = Tree::Simple("OK");

impl Asked<'_> {
    fn create(&self, words: &[String]) -> Result<Tree, SearchError> {
        self.search.indexes.create(Index::parse(words)?)?;
        Ok(OK)
    }

    fn alter(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        let name = words.next("the name of the index")?;
        words.take("SKIPINITIALSCAN");
        if !(words.take("SCHEMA") && words.take("ADD")) {
            return Err(SearchError::refused("it is FT.ALTER index SCHEMA ADD field type"));
        }
        self.search.indexes.add(name, words)?;
        Ok(OK)
    }

    fn drop_index(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        let name = words.next("the name of the index")?;
        match words.peek().as_deref() {
            // Clients send an empty word for nothing.
            None | Some("") => {}
            _ => {
                return Err(SearchError::refused(
                    "DD is not there, an index is dropped without its keys: delete them by UNLINK",
                ));
            }
        }
        self.search.indexes.drop(name)?;
        self.search.cursors.end_all(name);
        Ok(OK)
    }

    fn index(&self, words: &mut Words<'_>) -> Result<Arc<Index>, SearchError> {
        let name = words.next("the name of the index")?;
        self.search.indexes.get(name).ok_or_else(|| SearchError::NoSuchIndex(name.to_owned()))
    }

    async fn info(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        let index = self.index(words).map_err(|_| SearchError::UnknownIndex)?;
        info::info(&self.search.analytics, &index, self.search.cursors.count(&index.name), self.is_resp3)
            .await
    }

    async fn find(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        let index = self.index(words)?;
        let find = Find::read(&index, words)?;
        find.run(&self.search.analytics, &index, self.said, self.is_resp3).await
    }

    fn explain(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        let index = self.index(words)?;
        let text = words.next("a query")?;
        let mut common = Common::default();
        while !words.is_empty() {
            if !common.read(words)? {
                // Clients send what they would send to FT.SEARCH.
                words.next("an option")?;
            }
        }
        let query = parser::parse(text, &common.parameters)?;
        filter::filter_of(&query, &mut table::Table::of(&index), None)?;
        Ok(Tree::text(format!("{query:#?}\n")))
    }

    async fn aggregate(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        let index = self.index(words)?;
        let aggregate = Aggregate::read(words)?;
        let session = self.search.analytics.session();
        let (plan, shown) = pipeline::plan(&aggregate, &index, self.search.analytics.store())?;
        let fetching = if aggregate.pace.is_some() { Fetching::InParts } else { Fetching::AtOnce };
        let outcome = session.run_planned(self.said, plan, aggregate.timeout, fetching).await?;
        let cursor = Cursor::new(&index.name, session, outcome, shown, self.is_resp3);
        match aggregate.pace {
            None => cursor.all().await,
            Some(pace) => self.search.cursors.begin(cursor, pace).await,
        }
    }

    async fn cursor(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        let what = words.next("READ or DEL")?.to_ascii_uppercase();
        let name = words.next("the name of the index")?;
        let id: u64 = words.number("the number of the cursor")?;
        match what.as_str() {
            "READ" => {
                let pace = Pace::read(words)?;
                self.search.cursors.read(name, id, pace).await
            }
            "DEL" => self.search.cursors.end(name, id).map(|()| OK),
            _ => Err(SearchError::refused(format!("FT.CURSOR {what} is not there: there are READ and DEL"))),
        }
    }
}
