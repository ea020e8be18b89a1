//! Runs the commands `FT.*`: reads the command's words, and dispatches to what answers it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
use super::{filter, info, parser, pipeline, removal, settings, table, tags};

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
            "FT.DROPINDEX" => asked.drop_index(&mut words).await,
            "FT.ALIASADD" => asked.add_alias(&mut words, false),
            "FT.ALIASUPDATE" => asked.add_alias(&mut words, true),
            "FT.ALIASDEL" => asked.delete_alias(&mut words),
            "FT.DICTADD" => asked.add_terms(&mut words),
            "FT.DICTDEL" => asked.delete_terms(&mut words),
            "FT.DICTDUMP" => asked.dictionary(&mut words),
            "FT.SYNUPDATE" => asked.add_synonyms(&mut words),
            "FT.SYNDUMP" => asked.synonyms(&mut words),
            "FT.CONFIG" => settings::config(&mut words, asked.is_resp3),
            "FT._LIST" => Ok(Tree::set(asked.search.indexes.names())),
            "FT.INFO" => asked.info(&mut words).await,
            "FT.SEARCH" => asked.find(&mut words).await,
            "FT.TAGVALS" => asked.tags(&mut words).await,
            "FT.PROFILE" => asked.profile(&mut words).await,
            "FT.EXPLAIN" => asked.explain(&mut words).map(Tree::text),
            "FT.EXPLAINCLI" => {
                let text = asked.explain(&mut words)?;
                Ok(Tree::texts(text.lines().map(str::to_owned)))
            }
            "FT.SPELLCHECK" => Err(SearchError::refused(
                "FT.SPELLCHECK is not there: spelling is not corrected, as an index here holds no words",
            )),
            "FT.SUGADD" | "FT.SUGGET" | "FT.SUGDEL" | "FT.SUGLEN" => Err(SearchError::refused(format!(
                "{command} is not there: there are no suggestions; words that begin alike are found by pre*"
            ))),
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

    async fn drop_index(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        let name = words.next("the name of the index")?;
        // Clients send an empty word for nothing.
        let deletes = match words.peek().as_deref() {
            None | Some("") => false,
            Some("DD") => true,
            Some(other) => {
                return Err(SearchError::refused(format!("it is FT.DROPINDEX index [DD], not {other}")));
            }
        };
        if deletes {
            let index = self.search.indexes.get(name).ok_or(SearchError::UnknownIndex)?;
            removal::delete_keys(&self.search.analytics, &index, self.said).await?;
        }
        let name = self.search.indexes.drop(name)?;
        self.search.cursors.end_all(&name);
        Ok(OK)
    }

    fn add_alias(&self, words: &mut Words<'_>, may_move: bool) -> Result<Tree, SearchError> {
        let alias = words.next("an alias")?;
        self.search.indexes.add_alias(alias, words.next("the name of the index")?, may_move)?;
        Ok(OK)
    }

    fn delete_alias(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        self.search.indexes.delete_alias(words.next("an alias")?)?;
        Ok(OK)
    }

    fn add_terms(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        let name = words.next("the name of the dictionary")?;
        Ok(Tree::Integer(self.search.indexes.add_terms(name, words.rest())? as i64))
    }

    fn delete_terms(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        let name = words.next("the name of the dictionary")?;
        Ok(Tree::Integer(self.search.indexes.delete_terms(name, words.rest())? as i64))
    }

    fn dictionary(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        let terms = self.search.indexes.dictionary(words.next("the name of the dictionary")?);
        Ok(Tree::set(terms.iter().flat_map(|terms| terms.iter()).cloned()))
    }

    fn add_synonyms(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        let name = words.next("the name of the index")?;
        let group = words.next("the name of the group")?;
        // Nothing is scanned: a query looks for the synonyms of its words.
        words.take("SKIPINITIALSCAN");
        self.search.indexes.add_synonyms(name, group, words.rest())?;
        Ok(OK)
    }

    /// The groups of each word.
    fn synonyms(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        let index = self.index(words).map_err(|_| SearchError::UnknownIndex)?;
        let mut groups = BTreeMap::<&str, Vec<&str>>::new();
        for (group, terms) in &index.synonyms {
            terms.iter().for_each(|term| groups.entry(term).or_default().push(group));
        }
        let pair = |(term, groups): (&str, Vec<&str>)| (Tree::text(term), Tree::texts(groups));
        Ok(Tree::Map(groups.into_iter().map(pair).collect()))
    }

    async fn tags(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        let index = self.index(words).map_err(|_| SearchError::UnknownIndex)?;
        tags::tags(&self.search.analytics, &index, words.next("a field")?, self.said).await
    }

    /// Runs a search or an aggregate; the reply is its own, and how long it was read, and took in all.
    async fn profile(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        let begun = Instant::now();
        let index = self.index(words)?;
        let what = words.next("SEARCH or AGGREGATE")?.to_ascii_uppercase();
        // There is nothing to be left out.
        words.take("LIMITED");
        if !words.take("QUERY") {
            return Err(SearchError::refused(
                "it is FT.PROFILE index SEARCH|AGGREGATE [LIMITED] QUERY query …",
            ));
        }
        let (read, results) = match what.as_str() {
            "SEARCH" => {
                let find = Find::read(&index, words)?;
                let read = begun.elapsed();
                (read, find.run(&self.search.analytics, &index, self.said, self.is_resp3).await?)
            }
            "AGGREGATE" => {
                let aggregate = Aggregate::read(words)?;
                if aggregate.pace.is_some() {
                    return Err(SearchError::refused("FT.PROFILE does not support cursor"));
                }
                let read = begun.elapsed();
                (read, self.run(&index, aggregate).await?)
            }
            _ => {
                return Err(SearchError::refused(format!(
                    "FT.PROFILE {what} is not there: use SEARCH or AGGREGATE"
                )));
            }
        };
        let figure = |name: &str, time: Duration| {
            Tree::Array(vec![Tree::text(name), Tree::text(format!("{:.3}", time.as_secs_f64() * 1e3))])
        };
        let figures =
            Tree::Array(vec![figure("Total profile time", begun.elapsed()), figure("Parsing time", read)]);
        Ok(match self.is_resp3 {
            true => Tree::map([("results", results), ("profile", figures)]),
            false => Tree::Array(vec![results, figures]),
        })
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

    fn explain(&self, words: &mut Words<'_>) -> Result<String, SearchError> {
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
        Ok(format!("{query:#?}\n"))
    }

    async fn aggregate(&self, words: &mut Words<'_>) -> Result<Tree, SearchError> {
        let index = self.index(words)?;
        self.run(&index, Aggregate::read(words)?).await
    }

    async fn run(&self, index: &Index, aggregate: Aggregate) -> Result<Tree, SearchError> {
        let session = self.search.analytics.session();
        let (plan, shown) = pipeline::plan(&aggregate, index, self.search.analytics.store())?;
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
        // A cursor goes by the name of its index.
        let named = words.next("the name of the index")?;
        let index = self.search.indexes.get(named);
        let name = index.as_ref().map_or(named, |index| index.name.as_str());
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
