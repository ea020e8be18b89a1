//! `HSCAN`, `SSCAN` and `ZSCAN`: the elements of one collection, a few at a time.

use tarn_engine::record::Kind;
use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};
use crate::glob;

const ACCESS: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const ROUND: &str = "O(1) for each call, O(N) for a whole round over N elements";

/// The rows about hashes.
pub(super) const OF_HASHES: &[Command] =
    &[row("hscan", -3, Flags::READONLY, "2.8.0", "Returns some fields and where to go on.", hscan)
        .keys(ACCESS)
        .complexity(ROUND)];

/// The rows about sets.
pub(super) const OF_SETS: &[Command] =
    &[row("sscan", -3, Flags::READONLY, "2.8.0", "Returns some members and where to go on.", sscan)
        .keys(ACCESS)
        .complexity(ROUND)];

/// The rows about sorted sets.
pub(super) const OF_ZSETS: &[Command] = &[row(
    "zscan",
    -3,
    Flags::READONLY,
    "2.8.0",
    "Returns some members with their scores, and where to go on.",
    zscan,
)
.keys(ACCESS)
.complexity(ROUND)];

/// The options without an argument, the kind of value whose scan takes each, and the error of other scans.
const ALONE: [(&[u8], Kind, &str); 2] = [
    (b"novalues", Kind::Hash, "ERR NOVALUES option can only be used in HSCAN"),
    (b"noscores", Kind::ZSet, "ERR NOSCORES option can only be used in ZSCAN"),
];

/// Whether a word has a scan of this kind of value reply names alone; `None`: a scan of keys.
pub(super) fn asks_for_names(word: &[u8], kind: Option<Kind>) -> Result<bool, CommandError> {
    match ALONE.iter().find(|(option, ..)| word.eq_ignore_ascii_case(option)) {
        None => Ok(false),
        Some((_, scanned, _)) if kind == Some(*scanned) => Ok(true),
        Some((_, _, error)) => Err(CommandError::text(error)),
    }
}

/// The options of a scan.
struct Options<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
    /// Names of fields without their values, or members without their scores.
    only_names: bool,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>, kind: Kind) -> Result<Options<'a>, CommandError> {
        let mut options = Options { pattern: None, count: 10, only_names: false };
        let mut words = args.tail(3).iter();
        while let Some(word) = words.next() {
            if asks_for_names(word, Some(kind))? {
                options.only_names = true;
                continue;
            }
            let argument = words.next().ok_or(CommandError::Syntax)?;
            if word.eq_ignore_ascii_case(b"count") {
                options.count = match parse::integer(argument)? {
                    count @ 1.. => usize::try_from(count).unwrap_or(usize::MAX),
                    _ => return Err(CommandError::Syntax),
                };
            } else if word.eq_ignore_ascii_case(b"match") {
                options.pattern = Some(argument).filter(|pattern| !glob::is_everything(pattern));
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }

    fn admits(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name))
    }
}

/// The largest score that Redis keeps as an integer in a small sorted set.
const SMALL_INTEGER_MAX: f64 = (i64::MAX / 2) as f64;

/// Writes the next cursor, and that so many replies with elements follow.
fn begin(cx: &mut Context<'_, '_>, next: u64, replies: usize) {
    cx.reply.array(2);
    cx.reply.bulk(itoa::Buffer::new().format(next).as_bytes());
    cx.reply.array(replies);
}

fn hscan<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let cursor = parse::cursor(args.at(2))?;
    let Some(hash) = cx.hash(args.at(1))? else {
        begin(cx, 0, 0);
        return Ok(());
    };
    let options = Options::parse(args, Kind::Hash)?;
    let (next, mut fields) = hash.scan(cursor, options.count);
    fields.retain(|(field, _)| options.admits(field));
    begin(cx, next, if options.only_names { fields.len() } else { 2 * fields.len() });
    for (field, value) in fields {
        cx.reply.bulk(field);
        if !options.only_names {
            cx.reply.bulk(value);
        }
    }
    Ok(())
}

fn sscan<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let cursor = parse::cursor(args.at(2))?;
    let Some(set) = cx.set(args.at(1))? else {
        begin(cx, 0, 0);
        return Ok(());
    };
    let options = Options::parse(args, Kind::Set)?;
    let (next, mut members) = set.scan(cursor, options.count);
    members.retain(|member| options.admits(member));
    begin(cx, next, members.len());
    members.iter().for_each(|member| cx.reply.bulk(member));
    Ok(())
}

fn zscan<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let cursor = parse::cursor(args.at(2))?;
    let Some(zset) = cx.zset(args.at(1))? else {
        begin(cx, 0, 0);
        return Ok(());
    };
    let options = Options::parse(args, Kind::ZSet)?;
    let (next, mut members) = zset.scan(cursor, options.count);
    members.retain(|(member, _)| options.admits(member));
    let is_small = cx.entry(args.at(1)).is_some_and(|entry| !entry.sticky());
    begin(cx, next, if options.only_names { members.len() } else { 2 * members.len() });
    for (member, score) in members {
        cx.reply.bulk(member);
        if options.only_names {
            continue;
        }
        // Redis's small encoding keeps whole scores as integers, and here alone that can be seen.
        let is_whole = score.trunc() == score && score.abs() <= SMALL_INTEGER_MAX;
        if is_small && is_whole {
            cx.reply.bulk_integer(score as i64);
        } else {
            cx.reply.bulk_double(score);
        }
    }
    Ok(())
}
