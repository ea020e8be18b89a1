//! Sorted-set commands that name members. Ranges are in `zset_ranges`, what takes members out in order in
//! `zset_pops`, combinations in `zset_algebra`, random members in `random`, `ZSCAN` in `element_scans`.

use smallvec::SmallVec;
use tarn_engine::record::Change;
use tarn_resp::{Args, Protocol, Writer};

use crate::commands::decided::Decided;
use crate::commands::removals;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

const FAST_READ: Flags = Flags::READONLY.with(Flags::FAST);
const FAST_WRITE: Flags = Flags::WRITE.with(Flags::FAST);

const ACCESS: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];

const ADD: &str = "O(log(N)) for each member, N being the number of members in the sorted set";
const LOG: &str = "O(log(N)), N being the number of members in the sorted set";

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row(
        "zadd",
        -4,
        FAST_WRITE.with(Flags::DENYOOM),
        "1.2.0",
        "Gives members scores, adding those that are new.",
        zadd,
    )
    .keys(&[KeySpec::one(&["RW", "update"])])
    .complexity(ADD),
    row("zincrby", 4, FAST_WRITE.with(Flags::DENYOOM), "1.2.0", "Adds to the score of a member.", zincrby)
        .keys(&[KeySpec::one(&["RW", "access", "update"])])
        .complexity(LOG),
    row("zrem", -3, FAST_WRITE, "1.2.0", "Removes members; the key goes with the last one.", removals::zrem)
        .keys(&[KeySpec::one(&["RW", "delete"])])
        .complexity(ADD),
    row("zscore", 3, FAST_READ, "1.2.0", "Returns the score of a member.", zscore).keys(ACCESS),
    row("zmscore", -3, FAST_READ, "6.2.0", "Returns the scores of members.", zmscore)
        .keys(ACCESS)
        .complexity("O(N), N being the number of members named"),
    row("zcard", 2, FAST_READ, "1.2.0", "Returns the number of members.", zcard)
        .keys(&[KeySpec::one(&["RO"])]),
    row("zrank", -3, FAST_READ, "2.0.0", "Returns a member's index, lowest first.", zrank)
        .keys(ACCESS)
        .complexity(LOG),
    row("zrevrank", -3, FAST_READ, "2.0.0", "Returns a member's index, highest first.", zrevrank)
        .keys(ACCESS)
        .complexity(LOG),
];

/// The options of `ZADD`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Add {
    only_new: bool,
    only_present: bool,
    only_greater: bool,
    only_less: bool,
    counts_changed: bool,
    increments: bool,
}

/// The change of one member.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    /// An option forbids it.
    Refused,
    /// It has this score already.
    Unchanged(f64),
    /// It has another score now.
    Updated(f64),
    /// It was not there.
    Added(f64),
}

impl Add {
    /// Reads the options and the place of the first score.
    fn parse(args: Args<'_>, increments: bool) -> Result<(Add, usize), CommandError> {
        let mut add = Add { increments, ..Add::default() };
        let mut first = 2;
        while let Some(arg) = args.get(first) {
            let option = match arg {
                [b'n' | b'N', b'x' | b'X'] => &mut add.only_new,
                [b'x' | b'X', b'x' | b'X'] => &mut add.only_present,
                [b'g' | b'G', b't' | b'T'] => &mut add.only_greater,
                [b'l' | b'L', b't' | b'T'] => &mut add.only_less,
                [b'c' | b'C', b'h' | b'H'] => &mut add.counts_changed,
                arg if arg.eq_ignore_ascii_case(b"incr") => &mut add.increments,
                _ => break,
            };
            *option = true;
            first += 1;
        }
        let rest = args.len() - first;
        if rest == 0 || rest % 2 == 1 {
            return Err(CommandError::Syntax);
        }
        if add.only_new && add.only_present {
            return Err(CommandError::text("ERR XX and NX options at the same time are not compatible"));
        }
        let exclusive = [add.only_new, add.only_greater, add.only_less];
        if exclusive.iter().filter(|option| **option).count() > 1 {
            return Err(CommandError::text(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if add.increments && rest > 2 {
            return Err(CommandError::text("ERR INCR option supports a single increment-element pair"));
        }
        Ok((add, first))
    }

    /// The outcome for a member with this score, if it has one.
    fn decide(self, current: Option<f64>, given: f64) -> Result<Outcome, CommandError> {
        let Some(current) = current else {
            return Ok(if self.only_present { Outcome::Refused } else { Outcome::Added(given) });
        };
        if self.only_new {
            return Ok(Outcome::Refused);
        }
        let score = if self.increments { current + given } else { given };
        if score.is_nan() {
            return Err(CommandError::text("ERR resulting score is not a number (NaN)"));
        }
        if self.only_less && score >= current || self.only_greater && score <= current {
            return Ok(Outcome::Refused);
        }
        Ok(if score == current { Outcome::Unchanged(score) } else { Outcome::Updated(score) })
    }
}

fn zadd<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    add(cx, args, false)
}

fn zincrby<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    add(cx, args, true)
}

fn add<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>, increments: bool) -> Result<(), CommandError> {
    let (add, first) = Add::parse(args, increments)?;
    let pairs = (first..args.len()).step_by(2);
    let scores: SmallVec<[f64; 4]> =
        pairs.clone().map(|at| parse::float(args.at(at))).collect::<Result<_, _>>()?;
    let key = args.at(1);
    let zset = cx.zset(key)?;
    let score_of = |member: &[u8]| zset.and_then(|zset| zset.score(member));
    if let [given] = scores[..] {
        let member = args.at(first + 1);
        let outcome = add.decide(score_of(member), given)?;
        put(cx, key, member, outcome);
        reply_one(cx, add, outcome);
        return Ok(());
    }
    let mut named = Decided::default();
    let (mut added, mut updated) = (0, 0);
    for (at, given) in pairs.zip(scores) {
        let member = args.at(at + 1);
        let current = named.entry(member, || score_of(member));
        let outcome = add.decide(*current, given)?;
        match outcome {
            Outcome::Refused => {}
            Outcome::Unchanged(score) | Outcome::Updated(score) | Outcome::Added(score) => {
                *current = Some(score)
            }
        }
        added += i64::from(matches!(outcome, Outcome::Added(_)));
        updated += i64::from(matches!(outcome, Outcome::Updated(_)));
        put(cx, key, member, outcome);
    }
    cx.reply.integer(if add.counts_changed { added + updated } else { added });
    Ok(())
}

#[inline]
fn put<'a>(cx: &mut Context<'_, 'a>, key: &'a [u8], member: &'a [u8], outcome: Outcome) {
    if let Outcome::Updated(score) | Outcome::Added(score) = outcome {
        cx.write(key, Change::ZSetPut { member: member.into(), score: stored(score) });
    }
}

/// The form in which a score is kept: -0 becomes 0, as in Redis's small sorted sets.
pub(super) fn stored(score: f64) -> f64 {
    score + 0.0
}

#[inline]
fn reply_one(cx: &mut Context<'_, '_>, add: Add, outcome: Outcome) {
    match outcome {
        Outcome::Refused if add.increments => cx.reply.null(),
        Outcome::Unchanged(score) | Outcome::Updated(score) | Outcome::Added(score) if add.increments => {
            cx.reply.double(score);
        }
        Outcome::Added(_) => cx.reply.integer(1),
        Outcome::Updated(_) => cx.reply.integer(i64::from(add.counts_changed)),
        Outcome::Refused | Outcome::Unchanged(_) => cx.reply.integer(0),
    }
}

fn zscore<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    match cx.zset(args.at(1))?.and_then(|zset| zset.score(args.at(2))) {
        Some(score) => cx.reply.double(score),
        None => cx.reply.null(),
    }
    Ok(())
}

fn zmscore<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let zset = cx.zset(args.at(1))?;
    cx.reply.array(args.len() - 2);
    for member in args.tail(2) {
        match zset.and_then(|zset| zset.score(member)) {
            Some(score) => cx.reply.double(score),
            None => cx.reply.null(),
        }
    }
    Ok(())
}

fn zcard<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let len = cx.zset(args.at(1))?.map_or(0, |zset| zset.len());
    cx.reply.integer(len as i64);
    Ok(())
}

fn zrank<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    reply_rank(cx, args, "zrank", |rank, _| rank)
}

fn zrevrank<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    reply_rank(cx, args, "zrevrank", |rank, len| len - 1 - rank)
}

/// Replies with the index that `index` makes of the rank of a member and of the number of members, and with
/// the score if it is asked for.
fn reply_rank(
    cx: &mut Context<'_, '_>,
    args: Args<'_>,
    command: &'static str,
    index: impl Fn(usize, usize) -> usize,
) -> Result<(), CommandError> {
    let with_score = match args.get(3) {
        _ if args.len() > 4 => return Err(CommandError::Arity(command.into())),
        None => false,
        Some(word) if word.eq_ignore_ascii_case(b"withscore") => true,
        Some(_) => return Err(CommandError::Syntax),
    };
    let (key, member) = (args.at(1), args.at(2));
    let zset = cx.zset(key)?;
    let found = zset.and_then(|zset| Some((index(zset.rank(member)?, zset.len()), zset)));
    match found {
        Some((index, _)) if !with_score => cx.reply.integer(index as i64),
        Some((index, zset)) => {
            cx.reply.array(2);
            cx.reply.integer(index as i64);
            cx.reply.double(zset.score(member).unwrap_or_default());
        }
        None if with_score => cx.reply.null_array(),
        None => cx.reply.null(),
    }
    Ok(())
}

/// Writes `len` members, with their scores if wanted: in turn, or as pairs in RESP3.
pub(super) fn write_members<'m>(
    cx: &mut Context<'_, '_>,
    len: usize,
    members: impl Iterator<Item = (&'m [u8], f64)>,
    with_scores: bool,
) {
    write_members_head(&mut cx.reply, len, with_scores);
    members.for_each(|member| write_member(&mut cx.reply, member, with_scores));
}

/// Writes what comes before `len` members.
#[inline]
pub(super) fn write_members_head(reply: &mut Writer<'_>, len: usize, with_scores: bool) {
    let nested = reply.protocol() == Protocol::Resp3;
    reply.array(if with_scores && !nested { 2 * len } else { len });
}

/// Writes a member, with its score if wanted.
#[inline]
pub(super) fn write_member(reply: &mut Writer<'_>, (member, score): (&[u8], f64), with_scores: bool) {
    if with_scores && reply.protocol() == Protocol::Resp3 {
        reply.array(2);
    }
    reply.bulk(member);
    if with_scores {
        reply.double(score);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Add = Add {
        only_new: false,
        only_present: false,
        only_greater: false,
        only_less: false,
        counts_changed: false,
        increments: false,
    };

    #[test]
    fn a_score_is_given_unless_an_option_forbids_it() {
        let decide = |add: Add, current, given| add.decide(current, given).expect("no NaN arises");
        assert_eq!(decide(PLAIN, None, 1.0), Outcome::Added(1.0));
        assert_eq!(decide(PLAIN, Some(1.0), 1.0), Outcome::Unchanged(1.0));
        assert_eq!(decide(PLAIN, Some(0.0), -0.0), Outcome::Unchanged(-0.0));
        assert_eq!(decide(PLAIN, Some(1.0), 2.0), Outcome::Updated(2.0));
        assert_eq!(decide(Add { only_new: true, ..PLAIN }, Some(1.0), 2.0), Outcome::Refused);
        assert_eq!(decide(Add { only_present: true, ..PLAIN }, None, 2.0), Outcome::Refused);
        let greater = Add { only_greater: true, ..PLAIN };
        assert_eq!(decide(greater, Some(1.0), 1.0), Outcome::Refused);
        assert_eq!(decide(greater, Some(1.0), 2.0), Outcome::Updated(2.0));
        assert_eq!(decide(greater, None, -5.0), Outcome::Added(-5.0));
        let less = Add { only_less: true, increments: true, ..PLAIN };
        assert_eq!(decide(less, Some(1.0), 2.0), Outcome::Refused);
        assert_eq!(decide(less, Some(1.0), -2.0), Outcome::Updated(-1.0));
    }

    #[test]
    fn opposite_infinities_have_no_sum() {
        let add = Add { increments: true, ..PLAIN };
        assert!(add.decide(Some(f64::INFINITY), f64::NEG_INFINITY).is_err());
        assert_eq!(add.decide(None, f64::NEG_INFINITY), Ok(Outcome::Added(f64::NEG_INFINITY)));
    }
}
