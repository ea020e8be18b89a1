//! Times of the fields of hashes, of Redis 7.4 and 8: commands that set, show and take away when fields are
//! gone, and those that read, write or remove fields together with that.

use tarn_engine::record::{Change, UnixMs};
use tarn_engine::value::HashRef;
use tarn_resp::Args;

use crate::commands::decided::Decided;
use crate::commands::hashes::put_again;
use crate::error::{CommandError, printable};
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse::{self, ExpiryForm};
use crate::execute::spec::{Flags, KeySpec};

const READS: Flags = Flags::READONLY.with(Flags::FAST);
const WRITES: Flags = Flags::WRITE.with(Flags::FAST);
const GROWS: Flags = WRITES.with(Flags::DENYOOM);

const ACCESS: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const UPDATE: &[KeySpec] = &[KeySpec::one(&["RW", "update"])];
const READ_AND_UPDATE: &[KeySpec] = &[KeySpec::one(&["RW", "access", "update"])];
const TAKE: &[KeySpec] = &[KeySpec::one(&["RW", "access", "delete"])];

const PER_FIELD: &str = "O(N), N being the number of fields named";

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("hexpire", -6, GROWS, "7.4.0", "Lets fields of a hash expire after some seconds.", |cx, args| {
        hexpire(cx, args, ExpiryForm::Seconds, "hexpire")
    })
    .keys(UPDATE)
    .complexity(PER_FIELD),
    row(
        "hpexpire",
        -6,
        GROWS,
        "7.4.0",
        "Lets fields of a hash expire after some milliseconds.",
        |cx, args| hexpire(cx, args, ExpiryForm::Millis, "hpexpire"),
    )
    .keys(UPDATE)
    .complexity(PER_FIELD),
    row(
        "hexpireat",
        -6,
        GROWS,
        "7.4.0",
        "Lets fields of a hash expire at a point in time in seconds.",
        |cx, args| hexpire(cx, args, ExpiryForm::AtSeconds, "hexpireat"),
    )
    .keys(UPDATE)
    .complexity(PER_FIELD),
    row(
        "hpexpireat",
        -6,
        GROWS,
        "7.4.0",
        "Lets fields of a hash expire at a point in time in milliseconds.",
        |cx, args| hexpire(cx, args, ExpiryForm::AtMillis, "hpexpireat"),
    )
    .keys(UPDATE)
    .complexity(PER_FIELD),
    row("httl", -5, READS, "7.4.0", "Returns the seconds after which fields expire.", |cx, args| {
        reply_times(cx, args, |at, now| (at + 999 - now) / 1000)
    })
    .keys(ACCESS)
    .complexity(PER_FIELD),
    row("hpttl", -5, READS, "7.4.0", "Returns the milliseconds after which fields expire.", |cx, args| {
        reply_times(cx, args, |at, now| at - now)
    })
    .keys(ACCESS)
    .complexity(PER_FIELD),
    row(
        "hexpiretime",
        -5,
        READS,
        "7.4.0",
        "Returns the points in time, in seconds, at which fields expire.",
        |cx, args| reply_times(cx, args, |at, _| at.div_ceil(1000)),
    )
    .keys(ACCESS)
    .complexity(PER_FIELD),
    row(
        "hpexpiretime",
        -5,
        READS,
        "7.4.0",
        "Returns the points in time, in milliseconds, at which fields expire.",
        |cx, args| reply_times(cx, args, |at, _| at),
    )
    .keys(ACCESS)
    .complexity(PER_FIELD),
    row("hpersist", -5, WRITES, "7.4.0", "Lets fields of a hash never expire.", hpersist)
        .keys(UPDATE)
        .complexity(PER_FIELD),
    row("hgetex", -5, WRITES, "8.0.0", "Returns values of fields, and sets when these expire.", hgetex)
        .keys(READ_AND_UPDATE)
        .complexity(PER_FIELD),
    row("hsetex", -6, GROWS, "8.0.0", "Gives fields values, and sets when these fields expire.", hsetex)
        .keys(UPDATE)
        .complexity(PER_FIELD),
    row("hgetdel", -5, WRITES, "8.0.0", "Returns values of fields and removes these fields.", hgetdel)
        .keys(TAKE)
        .complexity(PER_FIELD),
];

/// The latest point in time that a command may set, as in Redis.
const TIME_MAX: i64 = (1 << 46) - 1;

const NO_FIELDS: CommandError =
    CommandError::text("ERR Mandatory argument FIELDS is missing or not at the right position");
const OTHER_NUMBER: CommandError =
    CommandError::text("ERR The `numfields` parameter must match the number of arguments");
const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";

/// The state of a field at a point of a command, of which a field may be named twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Missing,
    Lasting,
    Timed(UnixMs),
}

impl Field {
    fn of(hash: Option<HashRef<'_>>, field: &[u8]) -> Field {
        match hash.filter(|hash| hash.get(field).is_some()) {
            None => Field::Missing,
            Some(hash) => hash.time(field).map_or(Field::Lasting, Field::Timed),
        }
    }
}

/// On what a new time is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    /// `NX`: the field has none.
    Missing,
    /// `XX`: it has one.
    Present,
    /// `GT`: the new one is later. A field without a time is later than any.
    Later,
    /// `LT`: the new one is sooner.
    Sooner,
}

impl Condition {
    fn parse(word: &[u8]) -> Option<Condition> {
        const WORDS: [(&[u8], Condition); 4] = [
            (b"nx", Condition::Missing),
            (b"xx", Condition::Present),
            (b"gt", Condition::Later),
            (b"lt", Condition::Sooner),
        ];
        WORDS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, condition)| *condition)
    }

    /// Whether `new` may follow `old`.
    fn allows(self, old: Option<UnixMs>, new: UnixMs) -> bool {
        match (self, old) {
            (Condition::Missing, old) => old.is_none(),
            (Condition::Present, old) => old.is_some(),
            (Condition::Later, old) => old.is_some_and(|old| old < new),
            (Condition::Sooner, old) => old.is_none_or(|old| new < old),
        }
    }
}

/// The point in time that an argument of `command` means.
fn time_of(
    text: &[u8],
    form: ExpiryForm,
    now: UnixMs,
    command: &'static str,
) -> Result<UnixMs, CommandError> {
    let number = parse::integer(text)?;
    if number < 0 {
        return Err(CommandError::text("ERR invalid expire time, must be >= 0"));
    }
    let at = form.resolve(number, now).filter(|at| *at <= TIME_MAX);
    at.and_then(|at| UnixMs::try_from(at).ok()).ok_or_else(|| parse::invalid_expiry(command))
}

/// The fields that a command names: `FIELDS`, their number and they, from the argument at `at` on to the end.
fn fields_at<'a>(args: Args<'a>, at: usize, not_positive: &'static str) -> Result<Args<'a>, CommandError> {
    if !args.get(at).is_some_and(|word| word.eq_ignore_ascii_case(b"fields")) {
        return Err(NO_FIELDS);
    }
    let count = parse::positive_or(args.get(at + 1).unwrap_or_default(), not_positive)?;
    let fields = args.tail(at + 2);
    if count != fields.len() as u64 { Err(OTHER_NUMBER) } else { Ok(fields) }
}

/// Gives a field that is there a time, or removes it if that is over; what the field is then.
fn put_time<'a>(cx: &mut Context<'_, 'a>, key: &'a [u8], field: &'a [u8], at: UnixMs) -> Field {
    if at > cx.now() {
        cx.write(key, Change::HashExpire { field: field.into(), at: Some(at) });
        Field::Timed(at)
    } else {
        cx.write(key, Change::HashRemove { field: field.into() });
        Field::Missing
    }
}

fn hexpire<'a>(
    cx: &mut Context<'_, 'a>,
    args: Args<'a>,
    form: ExpiryForm,
    name: &'static str,
) -> Result<(), CommandError> {
    let key = args.at(1);
    let hash = cx.hash(key)?;
    let at = time_of(args.at(2), form, cx.now(), name)?;
    let condition = Condition::parse(args.at(3));
    let fields_begin = 3 + usize::from(condition.is_some());
    let fields = fields_at(args, fields_begin, "ERR Parameter `numFields` should be greater than 0")?;
    let mut decided = Decided::default();
    cx.reply.array(fields.len());
    for field in fields {
        let state = decided.entry(field, || Field::of(hash, field));
        let old = match *state {
            Field::Missing => {
                cx.reply.integer(-2);
                continue;
            }
            Field::Lasting => None,
            Field::Timed(old) => Some(old),
        };
        if condition.is_some_and(|condition| !condition.allows(old, at)) {
            cx.reply.integer(0);
            continue;
        }
        *state = put_time(cx, key, field, at);
        cx.reply.integer(if *state == Field::Missing { 2 } else { 1 });
    }
    Ok(())
}

/// Replies for each field what `shown` makes of its time and now; -2 for a missing one, -1 for one that never
/// expires.
fn reply_times<'a>(
    cx: &mut Context<'_, 'a>,
    args: Args<'a>,
    shown: fn(UnixMs, UnixMs) -> u64,
) -> Result<(), CommandError> {
    let (hash, now) = (cx.hash(args.at(1))?, cx.now());
    let fields = fields_at(args, 2, NOT_POSITIVE)?;
    cx.reply.array(fields.len());
    for field in fields {
        cx.reply.integer(match Field::of(hash, field) {
            Field::Missing => -2,
            Field::Lasting => -1,
            Field::Timed(at) => shown(at, now) as i64,
        });
    }
    Ok(())
}

fn hpersist<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let hash = cx.hash(key)?;
    let fields = fields_at(args, 2, NOT_POSITIVE)?;
    let mut decided = Decided::default();
    cx.reply.array(fields.len());
    for field in fields {
        let state = decided.entry(field, || Field::of(hash, field));
        let reply = match *state {
            Field::Missing => -2,
            Field::Lasting => -1,
            Field::Timed(_) => {
                *state = Field::Lasting;
                cx.write(key, Change::HashExpire { field: field.into(), at: None });
                1
            }
        };
        cx.reply.integer(reply);
    }
    Ok(())
}

/// The effect of `HGETEX` on the times of the fields that it returns.
#[derive(Clone, Copy)]
enum Retime {
    Keep,
    Persist,
    At(UnixMs),
}

fn hgetex<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let hash = cx.hash(key)?;
    let option = args.at(2);
    let (retime, fields_begin) = match ExpiryForm::of_option(option) {
        Some(form) => (Retime::At(time_of(args.at(3), form, cx.now(), "hgetex")?), 4),
        None if option.eq_ignore_ascii_case(b"persist") => (Retime::Persist, 3),
        None => (Retime::Keep, 2),
    };
    let fields = fields_at(args, fields_begin, NOT_POSITIVE)?;
    let mut decided = Decided::default();
    cx.reply.array(fields.len());
    for field in fields {
        let state = decided.entry(field, || Field::of(hash, field));
        match hash.filter(|_| *state != Field::Missing).and_then(|hash| hash.get(field)) {
            Some(value) => cx.reply.bulk(value),
            None => {
                cx.reply.null();
                continue;
            }
        }
        match (retime, *state) {
            (Retime::At(at), _) => *state = put_time(cx, key, field, at),
            (Retime::Persist, Field::Timed(_)) => {
                *state = Field::Lasting;
                cx.write(key, Change::HashExpire { field: field.into(), at: None });
            }
            _ => {}
        }
    }
    Ok(())
}

fn hgetdel<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let hash = cx.hash(key)?;
    let fields = fields_at(args, 2, NOT_POSITIVE)?;
    let mut named = Decided::default();
    cx.reply.array(fields.len());
    for field in fields {
        match hash.and_then(|hash| hash.get(field)).filter(|_| named.is_first(field)) {
            Some(value) => {
                cx.reply.bulk(value);
                cx.write(key, Change::HashRemove { field: field.into() });
            }
            None => cx.reply.null(),
        }
    }
    Ok(())
}

/// The effect of `HSETEX` on the times of the fields that it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewTime {
    /// None is left.
    Drop,
    /// `KEEPTTL`.
    Keep,
    At(UnixMs),
}

/// The options of `HSETEX`.
struct SetOptions<'a> {
    /// `FXX`: all fields must be there; `FNX`: none.
    must_be_there: Option<bool>,
    time: NewTime,
    /// Fields and values in turn.
    pairs: Args<'a>,
}

impl<'a> SetOptions<'a> {
    fn parse(args: Args<'a>, now: UnixMs) -> Result<SetOptions<'a>, CommandError> {
        const TWO_TIMES: &str = "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
        const TWO_CONDITIONS: &str = "ERR Only one of FXX or FNX arguments can be specified";
        let mut options =
            SetOptions { must_be_there: None, time: NewTime::Drop, pairs: args.tail(args.len()) };
        let arity = || CommandError::Arity("hsetex".into());
        let mut at = 2;
        while let Some(word) = args.get(at) {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            if is("fields") {
                let (count, pairs) = (args.get(at + 1), args.tail(at + 2));
                let count = count.filter(|_| pairs.len() >= 2).ok_or_else(arity)?;
                let count = parse::positive_or(count, "ERR invalid number of fields")?;
                if count > i32::MAX as u64 {
                    return Err(CommandError::text("ERR invalid number of fields"));
                }
                if pairs.len() as u64 != 2 * count {
                    return Err(arity());
                }
                return Ok(SetOptions { pairs, ..options });
            }
            let form = ExpiryForm::of_option(word);
            if form.is_some() || is("keepttl") {
                if options.time != NewTime::Drop {
                    return Err(CommandError::text(TWO_TIMES));
                }
                options.time = NewTime::Keep;
            } else if is("fxx") || is("fnx") {
                if options.must_be_there.is_some() {
                    return Err(CommandError::text(TWO_CONDITIONS));
                }
                options.must_be_there = Some(is("fxx"));
            } else {
                return Err(CommandError::owned(format!("ERR unknown argument: {}", printable(word))));
            }
            if let Some(form) = form {
                at += 1;
                let text = args.get(at).ok_or(CommandError::text("ERR missing expire time"))?;
                options.time = NewTime::At(time_of(text, form, now, "hsetex")?);
            }
            at += 1;
        }
        Err(arity())
    }
}

fn hsetex<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let SetOptions { must_be_there, time, pairs } = SetOptions::parse(args, cx.now())?;
    let hash = cx.hash(key)?;
    let is_there = |field: &[u8]| hash.is_some_and(|hash| hash.get(field).is_some());
    let mut fields = (0..pairs.len()).step_by(2).map(|at| pairs.at(at));
    if must_be_there.is_some_and(|must| fields.any(|field| is_there(field) != must)) {
        cx.reply.integer(0);
        return Ok(());
    }
    for at in (0..pairs.len()).step_by(2) {
        let (field, value) = (pairs.at(at), pairs.at(at + 1));
        match time {
            NewTime::Keep => put_again(cx, key, hash, field, value.into()),
            NewTime::Drop => cx.write(key, Change::HashPut { field: field.into(), value: value.into() }),
            NewTime::At(at) => {
                cx.write(key, Change::HashPut { field: field.into(), value: value.into() });
                put_time(cx, key, field, at);
            }
        }
    }
    cx.reply.integer(1);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use tarn_resp::OwnedArgs;

    #[test]
    fn a_time_is_set_on_its_condition() {
        use Condition::{Later, Missing, Present, Sooner};
        for (condition, old, allows) in [
            (Missing, None, true),
            (Missing, Some(5), false),
            (Present, None, false),
            (Present, Some(5), true),
            (Later, None, false),
            (Later, Some(9), true),
            (Later, Some(10), false),
            (Sooner, None, true),
            (Sooner, Some(11), true),
            (Sooner, Some(10), false),
        ] {
            assert_eq!(condition.allows(old, 10), allows, "{condition:?} behind {old:?}");
        }
    }

    #[test]
    fn times_are_not_negative_and_not_too_late() {
        let at = |text: &str, form| time_of(text.as_bytes(), form, 1000, "hexpire").ok();
        assert_eq!(at("0", ExpiryForm::Seconds), Some(1000));
        assert_eq!(at("7", ExpiryForm::Seconds), Some(8000));
        assert_eq!(at("7", ExpiryForm::AtMillis), Some(7));
        assert_eq!(at("-1", ExpiryForm::AtMillis), None);
        assert_eq!(at("70368744177663", ExpiryForm::AtMillis), Some(TIME_MAX as u64));
        assert_eq!(at("70368744177664", ExpiryForm::AtMillis), None);
        assert_eq!(at("70368744177663", ExpiryForm::Millis), None);
        assert_eq!(at("9223372036854775807", ExpiryForm::Seconds), None);
    }

    #[test]
    fn options_of_hsetex_are_read_as_redis_does() {
        let parse = |words: &[&str]| -> Result<(Option<bool>, NewTime, usize), String> {
            let args: OwnedArgs = ["hsetex", "k"].iter().chain(words).copied().collect();
            let options = SetOptions::parse(args.as_args(), 1000).map_err(|error| error.to_string())?;
            Ok((options.must_be_there, options.time, options.pairs.len()))
        };
        assert_eq!(parse(&["FIELDS", "1", "f", "v"]), Ok((None, NewTime::Drop, 2)));
        assert_eq!(
            parse(&["fxx", "px", "5", "fields", "1", "f", "v"]),
            Ok((Some(true), NewTime::At(1005), 2))
        );
        assert_eq!(parse(&["KEEPTTL", "FNX", "FIELDS", "1", "f", "v"]), Ok((Some(false), NewTime::Keep, 2)));
        for (words, error) in [
            (&["FIELDS", "0", "f", "v"][..], "invalid number of fields"),
            (&["FIELDS", "2", "f", "v"][..], "wrong number of arguments"),
            (&["FIELDS", "1", "f"][..], "wrong number of arguments"),
            (&["FNX", "KEEPTTL", "FXX", "1"][..], "Only one of FXX or FNX"),
            (&["EX", "5", "KEEPTTL", "1"][..], "Only one of EX, PX"),
            (&["FNX", "KEEPTTL"][..], "wrong number of arguments"),
            (&["FNX", "EX"][..], "missing expire time"),
            (&["NX", "FIELDS", "1", "f", "v"][..], "unknown argument: NX"),
        ] {
            assert!(parse(words).unwrap_err().contains(error), "{words:?}");
        }
    }
}
