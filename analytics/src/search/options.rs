//! Options that `FT.SEARCH` and `FT.AGGREGATE` share.

use std::time::Duration;

use super::error::SearchError;
use super::parser::Parameters;
use super::words::Words;

/// What has been said by options that both commands have.
#[derive(Debug, Default)]
pub struct Common {
    /// Values by name.
    pub parameters: Parameters,
    /// How long the statement may take.
    pub timeout: Option<Duration>,
}

impl Common {
    /// Reads an option, if the next is one of these.
    pub fn read(&mut self, words: &mut Words<'_>) -> Result<bool, SearchError> {
        if words.take("PARAMS") {
            let pairs = words.counted("PARAMS")?;
            if pairs.len() % 2 != 0 {
                return Err(SearchError::refused(
                    "PARAMS are names and values in turn: their number is even",
                ));
            }
            for pair in pairs.chunks_exact(2) {
                self.parameters.insert(pair[0].clone(), pair[1].clone());
            }
        } else if words.take("DIALECT") {
            let dialect: u32 = words.number("DIALECT")?;
            if dialect != 2 {
                return Err(SearchError::refused(format!(
                    "DIALECT {dialect} is not there: queries are read as DIALECT 2 reads them"
                )));
            }
        } else if words.take("TIMEOUT") {
            let ms: u64 = words.number("TIMEOUT")?;
            self.timeout = (ms > 0).then(|| Duration::from_millis(ms));
        } else if words.take("SCORER") {
            // Scores are constant, whoever gives them.
            words.next("a name behind SCORER")?;
        } else {
            // Nothing is stemmed, expanded or left out in the first place.
            return Ok(words.take("VERBATIM") || words.take("NOSTOPWORDS"));
        }
        Ok(true)
    }
}
