//! The arguments that `LMPOP`, `ZMPOP` and their blocking forms share: `numkeys key … END [COUNT n]`.

use std::ops::Range;

use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::parse;

/// Which keys to look at, and how much to take from the first that has something.
#[derive(Debug, PartialEq)]
pub(super) struct MultiPop<'a, T> {
    args: Args<'a>,
    /// The places of the keys among the arguments.
    pub(super) places: Range<usize>,
    /// Where elements are taken.
    pub(super) end: T,
    /// How many at most.
    pub(super) count: u64,
}

impl<'a, T> MultiPop<'a, T> {
    /// Reads the arguments from the number of keys on, which stands at `at`.
    pub(super) fn parse(
        args: Args<'a>,
        at: usize,
        parse_end: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Self, CommandError> {
        let keys_len = parse::positive_or(args.at(at), "ERR numkeys should be greater than 0")?;
        let keys = args.tail(at + 1);
        let behind =
            usize::try_from(keys_len).ok().filter(|len| *len < keys.len()).ok_or(CommandError::Syntax)?;
        let end = parse_end(keys.at(behind)).ok_or(CommandError::Syntax)?;
        let count = match keys.len() - behind {
            1 => 1,
            3 if keys.at(behind + 1).eq_ignore_ascii_case(b"count") => {
                parse::positive_or(keys.at(behind + 2), "ERR count should be greater than 0")?
            }
            4.. if keys.at(behind + 1).eq_ignore_ascii_case(b"count") => {
                parse::positive_or(keys.at(behind + 2), "ERR count should be greater than 0")?;
                return Err(CommandError::Syntax);
            }
            _ => return Err(CommandError::Syntax),
        };
        Ok(MultiPop { args, places: at + 1..at + 1 + behind, end, count })
    }

    /// The keys in order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a [u8]> + use<'a, T> {
        let args = self.args;
        self.places.clone().map(move |index| args.at(index))
    }
}
