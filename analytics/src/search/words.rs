//! Reads the words of a command one after the other.

use std::str::FromStr;

use super::error::SearchError;

/// The words of a command that have not been read yet.
#[derive(Clone, Debug)]
pub(super) struct Words<'w> {
    rest: &'w [String],
}

impl<'w> Words<'w> {
    /// All of these.
    pub(super) fn new(words: &'w [String]) -> Words<'w> {
        Words { rest: words }
    }

    /// Whether all have been read.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Those that have not been read.
    pub(super) fn rest(&self) -> &'w [String] {
        self.rest
    }

    /// The next word; an error that names what is missing.
    pub(super) fn next(&mut self, what: &str) -> Result<&'w str, SearchError> {
        let (word, rest) = self
            .rest
            .split_first()
            .ok_or_else(|| SearchError::refused(format!("{what} is missing at the end of the command")))?;
        self.rest = rest;
        Ok(word)
    }

    /// The next word in capitals, if there is one; it is not read yet.
    pub(super) fn peek(&self) -> Option<String> {
        self.rest.first().map(|word| word.to_ascii_uppercase())
    }

    /// Reads the next word if it is this one, in any case.
    pub(super) fn take(&mut self, keyword: &str) -> bool {
        let is_next = self.rest.first().is_some_and(|word| word.eq_ignore_ascii_case(keyword));
        if is_next {
            self.rest = &self.rest[1..];
        }
        is_next
    }

    /// The next word as a number.
    pub(super) fn number<T: FromStr>(&mut self, what: &str) -> Result<T, SearchError> {
        let word = self.next(what)?;
        word.parse().map_err(|_| SearchError::refused(format!("{what} cannot be '{word}': use a number")))
    }

    /// As many words as the next one says.
    pub(super) fn counted(&mut self, what: &str) -> Result<&'w [String], SearchError> {
        let count: usize = self.number(&format!("the number of words behind {what}"))?;
        let (words, rest) = self.rest.split_at_checked(count).ok_or_else(|| {
            SearchError::refused(format!(
                "{what} {count} wants {count} words, and {} are there",
                self.rest.len()
            ))
        })?;
        self.rest = rest;
        Ok(words)
    }
}
