//! Strings as whole values and as counters. Parts of strings are in `ranges.rs`, bits in `bits.rs`.

use tarn_engine::record::{Change, UnixMs};
use tarn_engine::value::ValueRef;
use tarn_resp::Args;

use crate::commands::decided::Decided;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::extended::Extended;
use crate::execute::parse::{self, Comparison, ExpiryForm};
use crate::execute::spec::{Flags, KeySpec};

const READ: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const UPDATE: &[KeySpec] = &[KeySpec::one(&["RW", "access", "update"])];
const OVERWRITE: &[KeySpec] = &[KeySpec::one(&["OW", "update"])];
const READS: Flags = Flags::READONLY.with(Flags::FAST);
const WRITES: Flags = Flags::WRITE.with(Flags::DENYOOM);
const WRITES_FAST: Flags = WRITES.with(Flags::FAST);

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("get", 2, READS, "1.0.0", "Returns the string at a key.", get).keys(READ),
    row("set", -3, WRITES.with(Flags::STEADY), "1.0.0", "Sets a key to a string, whatever it held.", set)
        .keys(&[KeySpec::one(&["RW", "access", "update", "variable_flags"])]),
    row("setnx", 3, WRITES_FAST, "1.0.0", "Sets a key to a string if it is missing.", setnx)
        .keys(&[KeySpec::one(&["OW", "insert"])]),
    row("setex", 4, WRITES, "2.0.0", "Sets a key to a string that expires after some seconds.", setex)
        .keys(OVERWRITE),
    row("psetex", 4, WRITES, "2.6.0", "Sets a key to a string that expires after some milliseconds.", psetex)
        .keys(OVERWRITE),
    row("getset", 3, WRITES_FAST, "1.0.0", "Sets a key to a string and returns the one before.", getset)
        .keys(UPDATE),
    row(
        "getdel",
        2,
        Flags::WRITE.with(Flags::FAST),
        "6.2.0",
        "Returns the string at a key and deletes it.",
        getdel,
    )
    .keys(&[KeySpec::one(&["RW", "access", "delete"])]),
    row(
        "getex",
        -2,
        Flags::WRITE.with(Flags::FAST),
        "6.2.0",
        "Returns a string and changes when it expires.",
        getex,
    )
    .keys(UPDATE),
    row("mget", -2, READS, "1.0.0", "Returns the strings at several keys.", mget)
        .keys(&[KeySpec::all(1, &["RO", "access"])])
        .complexity("O(N) for N keys"),
    row("mset", -3, WRITES, "1.0.1", "Sets several keys to strings.", mset)
        .keys(&[KeySpec::all(2, &["OW", "update"])])
        .complexity("O(N) for N keys"),
    row("msetnx", -3, WRITES, "1.0.1", "Sets several keys to strings if all of them are missing.", msetnx)
        .keys(&[KeySpec::all(2, &["OW", "insert"])])
        .complexity("O(N) for N keys"),
    row(
        "msetex",
        -4,
        WRITES.with(Flags::MOVABLEKEYS),
        "8.4.0",
        "Sets several keys to strings that expire together, if all or none of the keys are there.",
        msetex,
    )
    .keys(&[KeySpec::counted_pairs(1, &["OW", "update"])])
    .complexity("O(N) for N keys"),
    row("strlen", 2, READS, "2.2.0", "Returns the length of a string.", strlen)
        .keys(&[KeySpec::one(&["RO"])]),
    row("incr", 2, WRITES_FAST, "1.0.0", "Adds one to the integer at a key.", incr).keys(UPDATE),
    row("decr", 2, WRITES_FAST, "1.0.0", "Subtracts one from the integer at a key.", decr).keys(UPDATE),
    row("incrby", 3, WRITES_FAST, "1.0.0", "Adds a number to the integer at a key.", incrby).keys(UPDATE),
    row("decrby", 3, WRITES_FAST, "1.0.0", "Subtracts a number from the integer at a key.", decrby)
        .keys(UPDATE),
    row("incrbyfloat", 3, WRITES_FAST, "2.6.0", "Adds a number to the number at a key.", incrbyfloat)
        .keys(UPDATE),
];

fn get<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let entry = cx.entry(args.at(1));
    match entry.map(|entry| (entry, entry.value())) {
        Some((entry, ValueRef::String(value))) => cx.reply_part_of(entry, value, 0..value.len()),
        Some(_) => return Err(CommandError::WrongType),
        None => cx.reply.null(),
    }
    Ok(())
}

fn set<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len() > 3 {
        return set_with_options(cx, args);
    }
    put(cx, args.at(1), args.at(2), None);
    cx.reply.ok();
    Ok(())
}

fn put<'a>(cx: &mut Context<'_, 'a>, key: &'a [u8], value: &'a [u8], expiry: Option<UnixMs>) {
    cx.write(key, Change::Put { value: value.into(), expiry });
}

/// The condition under which `SET` does something.
#[derive(Clone, Copy)]
enum Condition<'a> {
    /// `NX`: the key is missing.
    Missing,
    /// `XX`: it is there.
    Present,
    /// `IFEQ` and its like: it compares so with an argument.
    Compares(Comparison, &'a [u8]),
}

impl<'a> Condition<'a> {
    /// The condition that an option names; `None`: it names none.
    fn of_option(option: &[u8], argument: Option<&'a [u8]>) -> Result<Option<Condition<'a>>, CommandError> {
        Ok(match Comparison::of_option(option) {
            Some(comparison) => Some(Condition::Compares(comparison, argument.ok_or(CommandError::Syntax)?)),
            None if option.eq_ignore_ascii_case(b"nx") => Some(Condition::Missing),
            None if option.eq_ignore_ascii_case(b"xx") => Some(Condition::Present),
            None => None,
        })
    }

    /// Whether it is of the same option.
    fn is_like(self, other: Condition<'_>) -> bool {
        match (self, other) {
            (Condition::Missing, Condition::Missing) | (Condition::Present, Condition::Present) => true,
            (Condition::Compares(one, _), Condition::Compares(other, _)) => one == other,
            _ => false,
        }
    }
}

/// How a command changes the expiry.
#[derive(Clone, Copy)]
enum Expiry<'a> {
    /// None with `SET`, the same with `GETEX`.
    Default,
    /// `KEEPTTL`.
    Keep,
    /// `PERSIST`.
    Remove,
    /// The argument of `EX` and its like.
    New(ExpiryForm, &'a [u8]),
}

impl<'a> Expiry<'a> {
    /// Takes over one option; returns how many arguments it has, `None` if it is no option for expiries or
    /// does not go with an earlier one. `keyword` is what stands alone: `KEEPTTL` or `PERSIST`.
    fn take(
        &mut self,
        option: &[u8],
        argument: Option<&'a [u8]>,
        keyword: (&[u8], Expiry<'a>),
    ) -> Option<usize> {
        if option.eq_ignore_ascii_case(keyword.0) {
            if matches!(self, Expiry::New(..)) {
                return None;
            }
            *self = keyword.1;
            return Some(0);
        }
        let form = ExpiryForm::of_option(option)?;
        match self {
            Expiry::Default => {}
            Expiry::New(same, _) if *same == form => {}
            _ => return None,
        }
        *self = Expiry::New(form, argument?);
        Some(1)
    }
}

/// The options of `SET`.
struct SetOptions<'a> {
    condition: Option<Condition<'a>>,
    returns_old: bool,
    expiry: Expiry<'a>,
}

impl<'a> SetOptions<'a> {
    fn parse(args: Args<'a>) -> Result<SetOptions<'a>, CommandError> {
        let mut options = SetOptions { condition: None, returns_old: false, expiry: Expiry::Default };
        let mut index = 3;
        while let Some(option) = args.get(index) {
            let argument = args.get(index + 1);
            if let Some(condition) = Condition::of_option(option, argument)? {
                if options.condition.is_some_and(|other| !condition.is_like(other)) {
                    return Err(CommandError::Syntax);
                }
                options.condition = Some(condition);
                index += usize::from(matches!(condition, Condition::Compares(..)));
            } else if option.eq_ignore_ascii_case(b"get") {
                options.returns_old = true;
            } else {
                let taken = options.expiry.take(option, argument, (b"keepttl", Expiry::Keep));
                index += taken.ok_or(CommandError::Syntax)?;
            }
            index += 1;
        }
        Ok(options)
    }
}

fn set_with_options<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let SetOptions { condition, returns_old, expiry } = SetOptions::parse(args)?;
    let key = args.at(1);
    let expiry = match expiry {
        Expiry::New(form, text) => Some(parse::expiry(text, form, cx.now(), "set")?),
        Expiry::Keep => cx.entry(key).and_then(|entry| entry.expiry()),
        Expiry::Default | Expiry::Remove => None,
    };
    let found = cx.entry(key).is_some();
    let old = if returns_old { cx.string(key)? } else { None };
    let fits = match condition {
        None => true,
        Some(Condition::Missing) => !found,
        Some(Condition::Present) => found,
        Some(Condition::Compares(comparison, operand)) => comparison.holds_at(cx.string(key)?, operand)?,
    };
    // What would be expired at once is not there at all.
    let is_past = expiry.is_some_and(|at| at < cx.now());
    if fits && !is_past {
        put(cx, key, args.at(2), expiry);
    } else if fits && found {
        cx.write(key, Change::Delete);
    }
    match old {
        Some(old) => cx.reply_string(old),
        None if fits && !returns_old => cx.reply.ok(),
        None => cx.reply.null(),
    }
    Ok(())
}

fn setnx<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let missing = cx.entry(args.at(1)).is_none();
    if missing {
        put(cx, args.at(1), args.at(2), None);
    }
    cx.reply.integer(i64::from(missing));
    Ok(())
}

fn setex<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let expiry = parse::expiry(args.at(2), ExpiryForm::Seconds, cx.now(), "setex")?;
    put(cx, args.at(1), args.at(3), Some(expiry));
    cx.reply.ok();
    Ok(())
}

fn psetex<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let expiry = parse::expiry(args.at(2), ExpiryForm::Millis, cx.now(), "psetex")?;
    put(cx, args.at(1), args.at(3), Some(expiry));
    cx.reply.ok();
    Ok(())
}

fn getset<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    get(cx, args)?;
    put(cx, args.at(1), args.at(2), None);
    Ok(())
}

fn getdel<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    get(cx, args)?;
    if cx.entry(args.at(1)).is_some() {
        cx.write(args.at(1), Change::Delete);
    }
    Ok(())
}

fn getex<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let mut expiry = Expiry::Default;
    let mut index = 2;
    while let Some(option) = args.get(index) {
        let taken = expiry.take(option, args.get(index + 1), (b"persist", Expiry::Remove));
        index += 1 + taken.ok_or(CommandError::Syntax)?;
    }
    let key = args.at(1);
    let Some(value) = cx.string(key)? else {
        cx.reply.null();
        return Ok(());
    };
    match expiry {
        Expiry::New(form, text) => {
            let at = parse::expiry(text, form, cx.now(), "getex")?;
            // A point in time that has passed already deletes; one that is too near to matter is kept.
            let passed = matches!(form, ExpiryForm::AtSeconds | ExpiryForm::AtMillis) && at <= cx.now();
            cx.write(key, if passed { Change::Delete } else { Change::Expire(Some(at)) });
        }
        Expiry::Remove if cx.entry(key).is_some_and(|entry| entry.expiry().is_some()) => {
            cx.write(key, Change::Expire(None));
        }
        Expiry::Remove | Expiry::Keep | Expiry::Default => {}
    }
    cx.reply_string(value);
    Ok(())
}

fn mget<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    cx.reply.array(args.len() - 1);
    for key in args.tail(1) {
        match cx.entry(key).map(|entry| entry.value()) {
            Some(ValueRef::String(value)) => cx.reply_string(value),
            _ => cx.reply.null(),
        }
    }
    Ok(())
}

/// Pushes a `Put` for each pair of arguments. Where a key stands twice, the later one is applied later and
/// wins.
fn put_pairs<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) {
    for index in (1..args.len()).step_by(2) {
        put(cx, args.at(index), args.at(index + 1), None);
    }
}

fn mset<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::Arity("mset".into()));
    }
    put_pairs(cx, args);
    cx.reply.ok();
    Ok(())
}

fn msetnx<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::Arity("msetnx".into()));
    }
    let all_missing = (1..args.len()).step_by(2).all(|index| cx.entry(args.at(index)).is_none());
    if all_missing {
        put_pairs(cx, args);
    }
    cx.reply.integer(i64::from(all_missing));
    Ok(())
}

/// Where the pairs of `MSETEX` end.
fn end_of_pairs(args: Args<'_>) -> Result<usize, CommandError> {
    const NO_COUNT: &str = "ERR invalid numkeys value";
    const MISSING: CommandError = CommandError::text("ERR wrong number of key-value pairs");
    let count = parse::positive_or(args.at(1), NO_COUNT)?;
    let count = i32::try_from(count).map_err(|_| CommandError::text(NO_COUNT))?;
    let end = 2 + 2 * count as usize;
    if end > args.len() { Err(MISSING) } else { Ok(end) }
}

fn msetex<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let end = end_of_pairs(args)?;
    let (mut wants_found, mut expiry) = (None::<bool>, Expiry::Default);
    let mut index = end;
    while let Some(option) = args.get(index) {
        let is_xx = option.eq_ignore_ascii_case(b"xx");
        if is_xx || option.eq_ignore_ascii_case(b"nx") {
            if wants_found.is_some_and(|wanted| wanted != is_xx) {
                return Err(CommandError::Syntax);
            }
            wants_found = Some(is_xx);
        } else {
            let taken = expiry.take(option, args.get(index + 1), (b"keepttl", Expiry::Keep));
            index += taken.ok_or(CommandError::Syntax)?;
        }
        index += 1;
    }
    let at = match expiry {
        Expiry::New(form, text) => Some(parse::expiry(text, form, cx.now(), "msetex")?),
        Expiry::Keep | Expiry::Default | Expiry::Remove => None,
    };
    let mut keys = (2..end).step_by(2).map(|index| args.at(index));
    let fits = wants_found.is_none_or(|wanted| keys.all(|key| cx.entry(key).is_some() == wanted));
    if fits && at.is_some_and(|at| at < cx.now()) {
        // All of them would be expired at once, so they are not there at all.
        let mut named = Decided::default();
        for key in (2..end).step_by(2).map(|index| args.at(index)) {
            if cx.entry(key).is_some() && named.is_first(key) {
                cx.write(key, Change::Delete);
            }
        }
    } else if fits {
        let keeps = matches!(expiry, Expiry::Keep);
        for index in (2..end).step_by(2) {
            let kept = if keeps { cx.entry(args.at(index)).and_then(|entry| entry.expiry()) } else { None };
            put(cx, args.at(index), args.at(index + 1), at.or(kept));
        }
    }
    cx.reply.integer(i64::from(fits));
    Ok(())
}

fn strlen<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let len = cx.string(args.at(1))?.map_or(0, |value| value.len());
    cx.reply.integer(len as i64);
    Ok(())
}

fn incr<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    add(cx, args.at(1), 1)
}

fn decr<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    add(cx, args.at(1), -1)
}

fn incrby<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let by = parse::integer(args.at(2))?;
    add(cx, args.at(1), by)
}

fn decrby<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    const OVERFLOW: CommandError = CommandError::text("ERR decrement would overflow");
    let by = parse::integer(args.at(2))?.checked_neg().ok_or(OVERFLOW)?;
    add(cx, args.at(1), by)
}

/// Stands for a giant string, which is longer than any number.
const NO_NUMBER: &[u8] = b"-";

/// The text of the number at `key` with the expiry, for a command that computes a new one from it.
pub(super) fn number_and_expiry<'c>(
    cx: &Context<'c, '_>,
    key: &[u8],
) -> Result<(Option<&'c [u8]>, Option<UnixMs>), CommandError> {
    match cx.entry(key) {
        None => Ok((None, None)),
        Some(entry) => match entry.value() {
            ValueRef::String(value) => Ok((Some(value.whole().unwrap_or(NO_NUMBER)), entry.expiry())),
            _ => Err(CommandError::WrongType),
        },
    }
}

fn add<'a>(cx: &mut Context<'_, 'a>, key: &'a [u8], by: i64) -> Result<(), CommandError> {
    const OVERFLOW: CommandError = CommandError::text("ERR increment or decrement would overflow");
    let (value, expiry) = number_and_expiry(cx, key)?;
    let value = value.map_or(Ok(0), parse::integer)?;
    let sum = value.checked_add(by).ok_or(OVERFLOW)?;
    let text = itoa::Buffer::new().format(sum).as_bytes().to_vec();
    cx.write(key, Change::Put { value: text.into(), expiry });
    cx.reply.integer(sum);
    Ok(())
}

fn incrbyfloat<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let (value, expiry) = number_and_expiry(cx, key)?;
    let read = |text: &[u8]| Extended::parse(text).ok_or(CommandError::NotAFloat);
    let sum = value.map_or(Ok(Extended::ZERO), read)?.plus(read(args.at(2))?);
    if !sum.is_finite() {
        return Err(CommandError::text("ERR increment would produce NaN or Infinity"));
    }
    let text = sum.to_text();
    cx.reply.bulk(&text);
    cx.write(key, Change::Put { value: text.into(), expiry });
    Ok(())
}
