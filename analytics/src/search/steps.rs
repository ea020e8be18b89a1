//! `FT.AGGREGATE`: parses the steps of a pipeline.

use std::time::Duration;

use super::error::SearchError;
use super::expression::{self, Expression};
use super::options::{Common, Pace};
use super::parser::{Query, parse};
use super::words::Words;

/// Steps of a pipeline.
const STEPS_MAX: usize = 64;

/// A step that transforms the rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Rows of the same values become one.
    Group(Vec<String>, Vec<Reducer>),
    /// Each row gets a value of this name.
    Apply(Expression, String),
    /// Rows of which it is true stay.
    Filter(Expression),
    /// Rows are sorted by these, each descending or not; a limited number of them stays.
    Sort(Vec<(String, bool)>, Option<usize>),
    /// The number of rows that are skipped, and the number of the others that stay.
    Limit(usize, usize),
}

/// A function over the values of a group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reducer {
    /// The function, in capitals.
    pub function: String,
    /// Its arguments, as written.
    pub arguments: Vec<String>,
    /// The name of its result.
    pub name: String,
}

/// A command `FT.AGGREGATE` that has been read.
#[derive(Debug)]
pub(super) struct Aggregate {
    /// The keys that it is of.
    pub query: Query,
    /// Whether each row has all fields of its key.
    pub loads_all: bool,
    /// Fields that each row has, and their names there.
    pub loads: Vec<(String, String)>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// How long the statement may take.
    pub timeout: Option<Duration>,
    /// How a cursor is read, if there is to be one.
    pub pace: Option<Pace>,
}

impl Aggregate {
    /// Reads what follows the name of the index.
    pub(super) fn read(words: &mut Words<'_>) -> Result<Aggregate, SearchError> {
        let text = words.next("a query")?;
        let mut common = Common::default();
        let mut aggregate = Aggregate {
            query: Query::All,
            loads_all: false,
            loads: Vec::new(),
            steps: Vec::new(),
            timeout: None,
            pace: None,
        };
        while !words.is_empty() {
            if !common.read(words)? {
                aggregate.option(words)?;
            }
            if aggregate.steps.len() > STEPS_MAX {
                return Err(SearchError::refused(format!("there are at most {STEPS_MAX} steps")));
            }
        }
        aggregate.query = parse(text, &common.parameters)?;
        aggregate.timeout = common.timeout;
        if aggregate.pace.is_some() && aggregate.timeout.is_some() {
            return Err(SearchError::refused(
                "TIMEOUT is not there for cursors, which take as long as they are read: use MAXIDLE",
            ));
        }
        Ok(aggregate)
    }

    fn option(&mut self, words: &mut Words<'_>) -> Result<(), SearchError> {
        let word = words.next("a step")?.to_ascii_uppercase();
        let step = match word.as_str() {
            "LOAD" => return self.load(words),
            "WITHCURSOR" => {
                self.pace = Some(Pace::read(words)?);
                return Ok(());
            }
            "GROUPBY" => group(words)?,
            "APPLY" => {
                let text = words.next("an expression")?;
                let name = if words.take("AS") { words.next("a name behind AS")? } else { text };
                Step::Apply(expression::parse(text)?, name.to_owned())
            }
            "FILTER" => Step::Filter(expression::parse(words.next("an expression")?)?),
            "SORTBY" => sort(words)?,
            "LIMIT" => Step::Limit(words.number("LIMIT's offset")?, words.number("LIMIT's number")?),
            _ => {
                return Err(SearchError::refused(format!(
                    "'{word}' is not there in FT.AGGREGATE: there are LOAD, GROUPBY … REDUCE, APPLY, \
                     FILTER, SORTBY, \
                     LIMIT, WITHCURSOR, PARAMS, DIALECT 2, TIMEOUT, VERBATIM, SCORER"
                )));
            }
        };
        self.steps.push(step);
        Ok(())
    }

    fn load(&mut self, words: &mut Words<'_>) -> Result<(), SearchError> {
        if self.steps.iter().any(|step| matches!(step, Step::Group(..))) {
            return Err(SearchError::refused("LOAD is of keys, and behind GROUPBY there are none"));
        }
        if words.take("*") {
            self.loads_all = true;
            return Ok(());
        }
        let mut loads = Words::new(words.counted("LOAD")?);
        while !loads.is_empty() {
            let word = loads.next("a field")?;
            let field = word.strip_prefix('@').unwrap_or(word);
            let name = if loads.take("AS") { loads.next("a name behind AS")? } else { field };
            self.loads.push((field.to_owned(), name.to_owned()));
        }
        Ok(())
    }
}

/// A name that follows an `@`.
pub(super) fn property(word: &str) -> Result<String, SearchError> {
    let name = word.strip_prefix('@').filter(|name| !name.is_empty());
    let name = name
        .ok_or_else(|| SearchError::refused(format!("Bad arguments: '{word}' is no field: write @{word}")))?;
    Ok(name.to_owned())
}

fn group(words: &mut Words<'_>) -> Result<Step, SearchError> {
    let by = words.counted("GROUPBY")?.iter().map(|word| property(word)).collect::<Result<Vec<_>, _>>()?;
    let mut reducers = Vec::new();
    while words.take("REDUCE") {
        let function = words.next("a function behind REDUCE")?.to_ascii_uppercase();
        let arguments = words.counted(&format!("REDUCE {function}"))?.to_vec();
        let name = match words.take("AS") {
            true => words.next("a name behind AS")?.to_owned(),
            // As RediSearch names what has no name.
            false => {
                let plain = |word: &String| word.strip_prefix('@').unwrap_or(word).to_owned();
                let arguments: Vec<_> = arguments.iter().map(plain).collect();
                format!("__generated_alias{function}{}", arguments.join(",")).to_lowercase()
            }
        };
        reducers.push(Reducer { function, arguments, name });
    }
    Ok(Step::Group(by, reducers))
}

fn sort(words: &mut Words<'_>) -> Result<Step, SearchError> {
    let mut given = Words::new(words.counted("SORTBY")?);
    let mut by = Vec::new();
    while !given.is_empty() {
        let name = property(given.next("a field")?)?;
        by.push((name, !given.take("ASC") && given.take("DESC")));
    }
    if by.is_empty() {
        return Err(SearchError::refused("SORTBY 0 sorts by nothing"));
    }
    let most = if words.take("MAX") { Some(words.number("MAX")?) } else { None };
    Ok(Step::Sort(by, most.filter(|most| *most > 0)))
}
