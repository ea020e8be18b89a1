//! Bounds of ranges in sorted sets, by index, score or bytes, and the indices that they mean.

use std::ops::Range;

use tarn_engine::value::ZSetRef;

use super::lists::indices;
use crate::error::CommandError;
use crate::execute::parse;

/// How the bounds of a range are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// By index.
    Index,
    /// By score.
    Score,
    /// By the members' bytes, where all scores are the same.
    Lex,
}

/// A bound among scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ScoreBound {
    score: f64,
    exclusive: bool,
}

/// A bound among members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LexBound<'a> {
    /// Before all members.
    Lowest,
    /// Behind all members.
    Highest,
    /// This member.
    At {
        /// Its bytes.
        member: &'a [u8],
        /// Whether it is outside.
        exclusive: bool,
    },
}

/// A range in a sorted set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bounds<'a> {
    /// From one index to another, both inside, negative ones from the end.
    Index(i64, i64),
    /// From one score to another.
    Score(ScoreBound, ScoreBound),
    /// From one member to another.
    Lex(LexBound<'a>, LexBound<'a>),
}

impl<'a> Bounds<'a> {
    /// Reads the lower and the upper bound.
    pub(super) fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Bounds<'a>, CommandError> {
        const NO_FLOAT: CommandError = CommandError::text("ERR min or max is not a float");
        const NO_MEMBER: CommandError = CommandError::text("ERR min or max not valid string range item");
        Ok(match by {
            By::Index => Bounds::Index(parse::integer(min)?, parse::integer(max)?),
            By::Score => Bounds::Score(
                ScoreBound::parse(min).ok_or(NO_FLOAT)?,
                ScoreBound::parse(max).ok_or(NO_FLOAT)?,
            ),
            By::Lex => {
                Bounds::Lex(LexBound::parse(min).ok_or(NO_MEMBER)?, LexBound::parse(max).ok_or(NO_MEMBER)?)
            }
        })
    }

    /// The indices inside; empty if there are none. `reverse` says from where they will be read, which makes
    /// a difference only where members are not in the order of their bytes.
    pub(super) fn indices(&self, zset: ZSetRef<'_>, reverse: bool) -> Range<usize> {
        let (start, end) = match self {
            Bounds::Index(start, stop) => return indices(*start, *stop, zset.len()),
            Bounds::Score(min, max) => (
                zset.lower_bound_score(min.score, min.exclusive),
                zset.lower_bound_score(max.score, !max.exclusive),
            ),
            Bounds::Lex(min, max) if has_one_score(zset) => (min.index(zset, false), max.index(zset, true)),
            Bounds::Lex(min, max) => return walk(zset, *min, *max, reverse),
        };
        start..end.max(start)
    }
}

impl ScoreBound {
    /// Reads a number as C's `strtod` does, with `(` before it if it is outside. So an empty text is 0,
    /// blanks may come first, and numbers too large are infinite.
    fn parse(text: &[u8]) -> Option<ScoreBound> {
        let (exclusive, text) = match text {
            [b'(', rest @ ..] => (true, rest),
            text => (false, text),
        };
        // A C string ends at the first NUL.
        let text = text.split(|byte| *byte == 0).next()?;
        let blanks = text.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == 0x0b).count();
        let digits = &text[blanks..];
        let score = match digits {
            [] if text.is_empty() => 0.0,
            digits => match parse::float(digits) {
                Ok(score) => score,
                Err(_) => {
                    std::str::from_utf8(digits).ok()?.parse().ok().filter(|score: &f64| !score.is_nan())?
                }
            },
        };
        Some(ScoreBound { score, exclusive })
    }
}

impl<'a> LexBound<'a> {
    fn parse(text: &'a [u8]) -> Option<LexBound<'a>> {
        match text {
            b"-" => Some(LexBound::Lowest),
            b"+" => Some(LexBound::Highest),
            [b'(', member @ ..] => Some(LexBound::At { member, exclusive: true }),
            [b'[', member @ ..] => Some(LexBound::At { member, exclusive: false }),
            _ => None,
        }
    }

    /// Whether a member is not left out as too low.
    fn is_before(self, member: &[u8]) -> bool {
        match self {
            LexBound::Lowest => true,
            LexBound::Highest => false,
            LexBound::At { member: bound, exclusive } => bound < member || !exclusive && bound == member,
        }
    }

    /// Whether a member is not left out as too high.
    fn is_behind(self, member: &[u8]) -> bool {
        match self {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::At { member: bound, exclusive } => member < bound || !exclusive && bound == member,
        }
    }

    /// Where the range begins or, if `upper`, ends. REQUIRES: all scores are the same.
    fn index(self, zset: ZSetRef<'_>, upper: bool) -> usize {
        match self {
            LexBound::Lowest => 0,
            LexBound::Highest => zset.len(),
            LexBound::At { member, exclusive } => zset.lower_bound_lex(member, exclusive != upper),
        }
    }
}

fn has_one_score(zset: ZSetRef<'_>) -> bool {
    let score_at = |index| zset.get(index).map(|(_, score)| score);
    score_at(0) == score_at(zset.len() - 1)
}

/// The indices from the first member inside on, as long as the members do not leave the range at its other
/// end. Where scores differ, the order of the members is not that of their bytes; this is what Redis makes of
/// it in a small sorted set.
fn walk(zset: ZSetRef<'_>, min: LexBound<'_>, max: LexBound<'_>, reverse: bool) -> Range<usize> {
    let last = zset.len() - 1;
    let (Some((lowest, _)), Some((highest, _))) = (zset.get(0), zset.get(last)) else { return 0..0 };
    if !max.is_behind(lowest) || !min.is_before(highest) {
        return 0..0;
    }
    if reverse {
        let end =
            zset.len() - zset.rev_iter_from(last).take_while(|(member, _)| !max.is_behind(member)).count();
        let back = zset.rev_iter_from(last).skip(zset.len() - end);
        return end - back.take_while(|(member, _)| min.is_before(member)).count()..end;
    }
    let start = zset.iter_from(0).take_while(|(member, _)| !min.is_before(member)).count();
    start..start + zset.iter_from(start).take_while(|(member, _)| max.is_behind(member)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(text: &str) -> Option<(f64, bool)> {
        ScoreBound::parse(text.as_bytes()).map(|bound| (bound.score, bound.exclusive))
    }

    #[test]
    fn scores_are_read_as_c_reads_them() {
        assert_eq!(score("1.5"), Some((1.5, false)));
        assert_eq!(score("(1.5"), Some((1.5, true)));
        assert_eq!(score("-inf"), Some((f64::NEG_INFINITY, false)));
        assert_eq!(score("(+inf"), Some((f64::INFINITY, true)));
        assert_eq!(score(""), Some((0.0, false)));
        assert_eq!(score("("), Some((0.0, true)));
        assert_eq!(score(" \t7"), Some((7.0, false)));
        assert_eq!(score("1e400"), Some((f64::INFINITY, false)));
        assert_eq!(score("0x10"), Some((16.0, false)));
        assert_eq!(score("3\0x"), Some((3.0, false)));
        for text in [" ", "nan", "(nan", "((1", "1 ", "x", "[1", "1a"] {
            assert_eq!(score(text), None, "{text:?}");
        }
    }

    #[test]
    fn members_need_a_bracket() {
        let at = |member: &'static [u8], exclusive| Some(LexBound::At { member, exclusive });
        assert_eq!(LexBound::parse(b"[a"), at(b"a", false));
        assert_eq!(LexBound::parse(b"("), at(b"", true));
        assert_eq!(LexBound::parse(b"-"), Some(LexBound::Lowest));
        for text in [&b""[..], b"a", b"+a", b"--"] {
            assert_eq!(LexBound::parse(text), None);
        }
    }
}
