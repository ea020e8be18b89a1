//! `INCREX`: a counter with bounds, which may get an expiry with the increment.
//!
//! Options and replies are those of Redis 8.8 and of Valkey 9.2; `NX` and `XX` are Valkey's.

use tarn_engine::record::Change;
use tarn_resp::{Args, Writer};

use crate::commands::strings::number_and_expiry;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::extended::Extended;
use crate::execute::parse::{self, ExpiryForm};
use crate::execute::spec::{Flags, KeySpec};

const WRITES: Flags = Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST);

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[row(
    "increx",
    -2,
    WRITES,
    "8.8.0",
    "Adds to the number at a key within bounds, and changes when it expires.",
    increx,
)
.keys(&[KeySpec::one(&["RW", "access", "update"])])];

/// The expiry that a key gets.
#[derive(Clone, Copy)]
enum Expiry<'a> {
    /// That of `EX` and its like.
    New(ExpiryForm, &'a [u8]),
    /// `PERSIST`: none.
    Remove,
}

/// The options. Each stands once at most.
#[derive(Default)]
struct Options<'a> {
    /// The increment, and whether it is a float.
    by: Option<(bool, &'a [u8])>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    saturates: Option<()>,
    /// Whether the key has to be there (`XX`) or to be missing (`NX`).
    wants_found: Option<bool>,
    expiry: Option<Expiry<'a>>,
    /// `ENX`: an expiry that is there stays.
    only_first: Option<()>,
}

fn once<T>(option: &mut Option<T>, value: T) -> Result<(), CommandError> {
    if option.replace(value).is_some() { Err(CommandError::Syntax) } else { Ok(()) }
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Result<Options<'a>, CommandError> {
        const NO_EXPIRY: CommandError = CommandError::text("ERR ENX flag requires an expiration");
        let mut options = Options::default();
        let mut words = args.tail(2).iter();
        while let Some(option) = words.next() {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            if is("saturate") {
                once(&mut options.saturates, ())?;
            } else if is("enx") {
                once(&mut options.only_first, ())?;
            } else if is("nx") || is("xx") {
                once(&mut options.wants_found, is("xx"))?;
            } else if is("persist") {
                once(&mut options.expiry, Expiry::Remove)?;
            } else {
                let argument = words.next().ok_or(CommandError::Syntax)?;
                match ExpiryForm::of_option(option) {
                    Some(form) => once(&mut options.expiry, Expiry::New(form, argument))?,
                    None if is("byint") || is("byfloat") => {
                        once(&mut options.by, (is("byfloat"), argument))?;
                    }
                    None if is("lbound") => once(&mut options.lower, argument)?,
                    None if is("ubound") => once(&mut options.upper, argument)?,
                    None => return Err(CommandError::Syntax),
                }
            }
        }
        match options.expiry {
            Some(Expiry::Remove) if options.only_first.is_some() => Err(CommandError::Syntax),
            None if options.only_first.is_some() => Err(NO_EXPIRY),
            _ => Ok(options),
        }
    }

    /// The least and the greatest number that may result.
    fn bounds<N: Number>(&self) -> Result<(N, N), CommandError> {
        const CROSSED: CommandError = CommandError::text("ERR LBOUND can't be greater than UBOUND");
        let (least, greatest) = N::limits();
        let read = |text: Option<&[u8]>, name, limit| match text {
            Some(text) => N::parse(text).ok_or_else(|| N::no_number(name)),
            None => Ok(limit),
        };
        let (lower, upper) = (read(self.lower, "LBOUND", least)?, read(self.upper, "UBOUND", greatest)?);
        if lower > upper { Err(CROSSED) } else { Ok((lower, upper)) }
    }
}

/// The numbers that are counted in.
trait Number: Copy + PartialOrd {
    const ZERO: Self;
    /// The error for an increment that cannot be told.
    const TOO_FAR: CommandError;

    /// Reads a number, which may be infinite where there are infinities.
    fn parse(text: &[u8]) -> Option<Self>;

    fn is_finite(self) -> bool;

    /// The error for a text, named so, that is no number.
    fn no_number(name: &str) -> CommandError;

    /// The least and the greatest finite number.
    fn limits() -> (Self, Self);

    /// The sum, or the bound beyond which it is. REQUIRES: both are finite.
    fn plus_within(self, by: Self, bounds: (Self, Self)) -> Result<Self, Self>;

    /// The difference; `None` if it is no finite number.
    fn minus(self, other: Self) -> Option<Self>;

    fn to_text(self) -> Vec<u8>;

    fn reply(self, reply: &mut Writer<'_>);
}

impl Number for i64 {
    const ZERO: Self = 0;
    const TOO_FAR: CommandError = CommandError::text("ERR applied increment would overflow");

    fn parse(text: &[u8]) -> Option<Self> {
        parse::integer(text).ok()
    }

    fn is_finite(self) -> bool {
        true
    }

    fn no_number(name: &str) -> CommandError {
        CommandError::owned(format!("ERR {name} is not an integer or out of range"))
    }

    fn limits() -> (Self, Self) {
        (i64::MIN, i64::MAX)
    }

    fn plus_within(self, by: Self, (lower, upper): (Self, Self)) -> Result<Self, Self> {
        let sum = i128::from(self) + i128::from(by);
        match i64::try_from(sum) {
            Ok(sum) if (lower..=upper).contains(&sum) => Ok(sum),
            _ => Err(if sum > i128::from(upper) { upper } else { lower }),
        }
    }

    fn minus(self, other: Self) -> Option<Self> {
        self.checked_sub(other)
    }

    fn to_text(self) -> Vec<u8> {
        itoa::Buffer::new().format(self).as_bytes().to_vec()
    }

    fn reply(self, reply: &mut Writer<'_>) {
        reply.integer(self);
    }
}

impl Number for Extended {
    const ZERO: Self = Extended::ZERO;
    const TOO_FAR: CommandError = CommandError::text("ERR applied increment would be Infinity");

    fn parse(text: &[u8]) -> Option<Self> {
        Extended::parse(text)
    }

    fn is_finite(self) -> bool {
        Extended::is_finite(self)
    }

    fn no_number(name: &str) -> CommandError {
        CommandError::owned(format!("ERR {name} is not a valid float"))
    }

    fn limits() -> (Self, Self) {
        let greatest = Extended::greatest();
        (greatest.negated(), greatest)
    }

    fn plus_within(self, by: Self, (lower, upper): (Self, Self)) -> Result<Self, Self> {
        let sum = self.plus(by);
        let is_infinite = !sum.is_finite();
        if sum > upper || (is_infinite && sum > Self::ZERO) {
            Err(upper)
        } else if sum < lower || is_infinite {
            Err(lower)
        } else {
            Ok(sum)
        }
    }

    fn minus(self, other: Self) -> Option<Self> {
        Some(Extended::minus(self, other)).filter(|difference| difference.is_finite())
    }

    fn to_text(self) -> Vec<u8> {
        Extended::to_text(self)
    }

    fn reply(self, reply: &mut Writer<'_>) {
        reply.double_text(&Extended::to_text(self));
    }
}

fn increx<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let options = Options::parse(args)?;
    match options.by {
        Some((true, by)) => add::<Extended>(cx, args.at(1), by, &options),
        Some((false, by)) => add::<i64>(cx, args.at(1), by, &options),
        None => add::<i64>(cx, args.at(1), b"1", &options),
    }
}

fn add<'a, N: Number>(
    cx: &mut Context<'_, 'a>,
    key: &'a [u8],
    by: &[u8],
    options: &Options<'_>,
) -> Result<(), CommandError> {
    const INFINITE_INCREMENT: CommandError = CommandError::text("ERR BYFLOAT increment cannot be Infinity");
    const INFINITE_VALUE: CommandError = CommandError::text("ERR value cannot be Infinity");
    let read = |text: &[u8], name, infinite: CommandError| match N::parse(text) {
        Some(number) if number.is_finite() => Ok(number),
        Some(_) => Err(infinite),
        None => Err(N::no_number(name)),
    };
    let by = read(by, "Increment", INFINITE_INCREMENT)?;
    let bounds = options.bounds::<N>()?;
    let expires_at = match options.expiry {
        Some(Expiry::New(form, text)) => Some((form, parse::expiry(text, form, cx.now(), "increx")?)),
        Some(Expiry::Remove) | None => None,
    };
    let (text, expiry) = number_and_expiry(cx, key)?;
    let old = text.map_or(Ok(N::ZERO), |text| read(text, "value", INFINITE_VALUE))?;
    let is_wanted = options.wants_found.is_none_or(|wanted| wanted == text.is_some());
    let new = match old.plus_within(by, bounds) {
        _ if !is_wanted => None,
        Ok(sum) => Some(sum),
        Err(bound) => options.saturates.map(|()| bound),
    };
    let (new, applied) = match new {
        Some(new) => (new, new.minus(old).ok_or(N::TOO_FAR)?),
        None => {
            reply(cx, old, N::ZERO);
            return Ok(());
        }
    };
    let expires_at = expires_at.filter(|_| options.only_first.is_none() || expiry.is_none());
    let is_past = expires_at.is_some_and(|(form, at)| {
        matches!(form, ExpiryForm::AtSeconds | ExpiryForm::AtMillis) && at <= cx.now()
    });
    if is_past {
        // There is nothing to count any more, nor was there if the key is missing.
        if text.is_some() {
            cx.write(key, Change::Delete);
        }
    } else {
        // A change of the expiry is a write of its own, from which its event follows.
        cx.write(key, Change::Put { value: new.to_text().into(), expiry });
        match expires_at {
            Some((_, at)) => cx.write(key, Change::Expire(Some(at))),
            None if expiry.is_some() && matches!(options.expiry, Some(Expiry::Remove)) => {
                cx.write(key, Change::Expire(None));
            }
            None => {}
        }
    }
    reply(cx, new, applied);
    Ok(())
}

fn reply<N: Number>(cx: &mut Context<'_, '_>, value: N, applied: N) {
    cx.reply.array(2);
    value.reply(&mut cx.reply);
    applied.reply(&mut cx.reply);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const MAX: i64 = i64::MAX;
    const MIN: i64 = i64::MIN;

    #[test]
    fn integers_stay_within_their_bounds() {
        for (value, by, bounds, expected) in [
            (10, 5, (MIN, MAX), Ok(15)),
            (10, 5, (MIN, 15), Ok(15)),
            (10, 5, (MIN, 14), Err(14)),
            (10, -5, (MIN, 5), Ok(5)),
            (10, -5, (20, MAX), Err(20)),
            (10, 5, (MIN, 5), Err(5)),
            (50, -25, (MIN, 30), Ok(25)),
            (MAX, 1, (MIN, MAX), Err(MAX)),
            (MAX, MAX, (MIN, MAX), Err(MAX)),
            (MIN, -1, (MIN, MAX), Err(MIN)),
            (MIN, MIN, (-100, MAX), Err(-100)),
            (MAX, MIN, (MIN, MAX), Ok(-1)),
            (9_223_372_036_854_775_800, 1, (MIN, MIN), Err(MIN)),
        ] {
            assert_eq!(value.plus_within(by, bounds), expected, "{value} + {by} in {bounds:?}");
        }
        assert_eq!(Number::minus(MIN, 9_223_372_036_854_775_800), None);
        assert_eq!(Number::minus(MAX, 9_223_372_036_854_775_800), Some(7));
    }

    #[test]
    fn floats_stay_within_their_bounds() {
        let number = |text: &str| Extended::parse(text.as_bytes()).unwrap();
        let text = |number: Extended| String::from_utf8(Number::to_text(number)).unwrap();
        let limits = <Extended as Number>::limits();
        for (value, by, lower, upper, expected) in [
            ("10", "2.5", "5", "15", Ok("12.5")),
            ("10", "5.5", "-inf", "12.5", Err("12.5")),
            ("10", "-6", "8", "inf", Err("8")),
            ("10", "1", "-inf", "inf", Ok("11")),
            ("10", "1e4932", "0", "100", Err("100")),
            ("10", "-1e4932", "-100", "0", Err("-100")),
            ("1e4932", "1e4932", "0", "100", Err("100")),
            ("-1e4932", "-1e4932", "-7", "100", Err("-7")),
        ] {
            let result = number(value).plus_within(number(by), (number(lower), number(upper)));
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(result.map(text).map_err(text), expected, "{value} + {by}");
        }
        // A sum that is infinite is beyond any bounds.
        let big = number("1e4932");
        let infinities = (number("-inf"), number("inf"));
        assert!(big.plus_within(big, infinities).is_err_and(|bound| bound > limits.1));
        assert!(big.negated().plus_within(big.negated(), infinities).is_err_and(|bound| bound < limits.0));
        assert!(big.plus_within(big, limits).is_err_and(|bound| bound.is_finite() && bound == limits.1));
        assert!(Number::minus(big, big.negated()).is_none());
        assert!(Number::minus(infinities.1, number("1")).is_none());
        assert_eq!(Number::minus(number("12.5"), number("10")).map(text), Some("2.5".to_owned()));
    }
}
