//! Options that `FT.SEARCH` and `FT.AGGREGATE` share, and those of cursors.

use std::time::Duration;

use super::error::SearchError;
use super::parser::Parameters;
use super::words::Words;

/// The options that both commands have.
#[derive(Debug, Default)]
pub(super) struct Common {
    /// Values by name.
    pub parameters: Parameters,
    /// How long the statement may take.
    pub timeout: Option<Duration>,
}

impl Common {
    /// Reads an option, if the next is one of these.
    pub(super) fn read(&mut self, words: &mut Words<'_>) -> Result<bool, SearchError> {
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
            // Scores are constant, with any scorer.
            words.next("a name behind SCORER")?;
        } else {
            // Nothing is stemmed, expanded or left out in the first place.
            return Ok(words.take("VERBATIM") || words.take("NOSTOPWORDS"));
        }
        Ok(true)
    }
}

/// How long a cursor may stay idle by default, and at most, as in RediSearch.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(300);

/// How a cursor is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The number of rows of a part, if it is given.
    pub count: Option<usize>,
    /// The time that the cursor may stay idle, if it is given.
    pub idle: Option<Duration>,
}

impl Pace {
    /// Reads `[COUNT n] [MAXIDLE ms]`.
    pub(super) fn read(words: &mut Words<'_>) -> Result<Pace, SearchError> {
        let mut pace = Pace { count: None, idle: None };
        loop {
            if words.take("COUNT") {
                let count = words.number("COUNT")?;
                if count == 0 {
                    return Err(SearchError::refused("COUNT 0 would read nothing"));
                }
                pace.count = Some(count);
            } else if words.take("MAXIDLE") {
                // Clients send it with a point, too.
                let ms: f64 = words.number("MAXIDLE")?;
                let idle = Duration::try_from_secs_f64(ms / 1e3).ok().filter(|idle| *idle <= IDLE_MAX);
                let refused =
                    || SearchError::refused(format!("MAXIDLE is at most {} ms", IDLE_MAX.as_millis()));
                pace.idle = Some(idle.ok_or_else(refused)?);
            } else {
                return Ok(pace);
            }
        }
    }
}
