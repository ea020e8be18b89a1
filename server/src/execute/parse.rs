//! Numbers in arguments, and options of several commands, read as Redis reads them, and the errors that it
//! has for them.

use std::ops::RangeInclusive;
use std::time::Duration;

use tarn_engine::record::UnixMs;
use tarn_resp::parse_i64;

use crate::error::CommandError;
use crate::execute::extended::Extended;

/// A 64-bit integer in its canonical decimal form: no spaces, no `+`, no leading zeros.
#[inline]
pub(crate) fn integer(text: &[u8]) -> Result<i64, CommandError> {
    parse_i64(text).ok_or(CommandError::NotAnInteger)
}

/// As [`integer`], with an error of the command's own.
#[inline]
pub(crate) fn integer_or(text: &[u8], error: &'static str) -> Result<i64, CommandError> {
    parse_i64(text).ok_or(CommandError::text(error))
}

/// A 32-bit integer, such as the number of a database.
pub(crate) fn int(text: &[u8]) -> Result<i32, CommandError> {
    const OUT_OF_RANGE: &str = "ERR value is out of range, value must between -2147483648 and 2147483647";
    i32::try_from(integer(text)?).map_err(|_| CommandError::text(OUT_OF_RANGE))
}

/// The cursor of a scan: an unsigned number as `strtoul` reads it, with a sign or without digits at all.
pub(crate) fn cursor(text: &[u8]) -> Result<u64, CommandError> {
    const INVALID: CommandError = CommandError::text("ERR invalid cursor");
    if text.is_empty() {
        return Ok(0);
    }
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+')).ok_or(INVALID)?;
    let number: u64 = digits.parse().map_err(|_| INVALID)?;
    Ok(if negative { number.wrapping_neg() } else { number })
}

/// An integer that is not negative, such as a count. Anything else is refused as not positive.
#[inline]
pub(crate) fn count(text: &[u8]) -> Result<u64, CommandError> {
    let number = parse_i64(text).ok_or(CommandError::NotPositive)?;
    u64::try_from(number).map_err(|_| CommandError::NotPositive)
}

/// As [`count`], with an error of the command's own.
#[inline]
pub(crate) fn count_or(text: &[u8], error: &'static str) -> Result<u64, CommandError> {
    count(text).map_err(|_| CommandError::text(error))
}

/// An integer that is at least 1. Anything else is refused with this error.
#[inline]
pub(crate) fn positive_or(text: &[u8], error: &'static str) -> Result<u64, CommandError> {
    count(text).ok().filter(|number| *number > 0).ok_or(CommandError::text(error))
}

/// An integer of this range.
pub(crate) fn integer_in(text: &[u8], range: RangeInclusive<i64>) -> Result<i64, CommandError> {
    let number = integer(text)?;
    if range.contains(&number) {
        return Ok(number);
    }
    let (start, end) = range.into_inner();
    Err(CommandError::owned(format!("ERR value is out of range, value must between {start} and {end}")))
}

/// A number: decimal, hexadecimal or an infinity. Refuses spaces, NaN, and what rounds to infinity or zero
/// without being it.
pub(crate) fn float(text: &[u8]) -> Result<f64, CommandError> {
    float_of(text).ok_or(CommandError::NotAFloat)
}

/// As [`float`], with an error of the command's own.
pub(crate) fn float_or(text: &[u8], error: &'static str) -> Result<f64, CommandError> {
    float_of(text).ok_or(CommandError::text(error))
}

fn float_of(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let Ok(number) = text.parse::<f64>() else {
        return hexadecimal(text);
    };
    let says_digit = |digits: std::ops::RangeInclusive<u8>| {
        text.bytes().take_while(|byte| !byte.eq_ignore_ascii_case(&b'e')).any(|byte| digits.contains(&byte))
    };
    let overflowed = number.is_infinite() && says_digit(b'0'..=b'9');
    let vanished = number == 0.0 && says_digit(b'1'..=b'9');
    (!number.is_nan() && !overflowed && !vanished).then_some(number)
}

/// Hexadecimal numbers, as C reads them.
fn hexadecimal(text: &str) -> Option<f64> {
    let magnitude = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !magnitude.starts_with("0x") && !magnitude.starts_with("0X") {
        return None;
    }
    Extended::parse(text.as_bytes())?.to_f64()
}

/// How long a blocking command waits at most, from a number of seconds; `None`: for ever.
///
/// What 64 bits of milliseconds cannot hold is "negative" to Redis, into which it has turned there; what only
/// ends behind the last millisecond of the clock never does.
pub(crate) fn timeout(text: &[u8], now: UnixMs) -> Result<Option<Duration>, CommandError> {
    const NOT_A_FLOAT: CommandError = CommandError::text("ERR timeout is not a float or out of range");
    let seconds = Extended::parse(text).ok_or(NOT_A_FLOAT)?;
    let ms = seconds.thousandfold_rounded_up().and_then(|ms| u64::try_from(ms).ok());
    let ms = ms.ok_or(CommandError::text("ERR timeout is negative"))?;
    let ends = ms > 0 && ms <= i64::MAX as u64 - now;
    Ok(ends.then(|| Duration::from_millis(ms)))
}

/// A comparison of the string at a key with an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// `IFEQ`: it is the argument.
    Equal,
    /// `IFNE`: it is another.
    Different,
    /// `IFDEQ`: the argument is its digest.
    DigestEqual,
    /// `IFDNE`: the argument is the digest of another.
    DigestDifferent,
}

impl Comparison {
    /// The comparison that an option of `SET` or `DELEX` names.
    pub(crate) fn of_option(option: &[u8]) -> Option<Comparison> {
        const OPTIONS: [(&[u8], Comparison); 4] = [
            (b"ifeq", Comparison::Equal),
            (b"ifne", Comparison::Different),
            (b"ifdeq", Comparison::DigestEqual),
            (b"ifdne", Comparison::DigestDifferent),
        ];
        OPTIONS.iter().find(|(name, _)| option.eq_ignore_ascii_case(name)).map(|(_, comparison)| *comparison)
    }
}

/// Unit and origin of an expiry in an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpiryForm {
    /// Seconds from now: `EX`, `EXPIRE`.
    Seconds,
    /// Milliseconds from now: `PX`, `PEXPIRE`.
    Millis,
    /// A point in time in seconds: `EXAT`, `EXPIREAT`.
    AtSeconds,
    /// A point in time in milliseconds: `PXAT`, `PEXPIREAT`.
    AtMillis,
}

impl ExpiryForm {
    /// The form that an option of `SET` or `GETEX` names.
    pub(crate) fn of_option(option: &[u8]) -> Option<ExpiryForm> {
        const OPTIONS: [(&[u8], ExpiryForm); 4] = [
            (b"ex", ExpiryForm::Seconds),
            (b"px", ExpiryForm::Millis),
            (b"exat", ExpiryForm::AtSeconds),
            (b"pxat", ExpiryForm::AtMillis),
        ];
        OPTIONS.iter().find(|(name, _)| option.eq_ignore_ascii_case(name)).map(|(_, form)| *form)
    }

    /// The point in time that `number` means, in milliseconds; `None` if it does not fit.
    pub(crate) fn resolve(self, number: i64, now: UnixMs) -> Option<i64> {
        let ms = match self {
            ExpiryForm::Seconds | ExpiryForm::AtSeconds => number.checked_mul(1000)?,
            ExpiryForm::Millis | ExpiryForm::AtMillis => number,
        };
        match self {
            ExpiryForm::Seconds | ExpiryForm::Millis => ms.checked_add_unsigned(now),
            ExpiryForm::AtSeconds | ExpiryForm::AtMillis => Some(ms),
        }
    }
}

/// The expiry that an argument of `command` means. It must be a positive number.
pub(crate) fn expiry(
    text: &[u8],
    form: ExpiryForm,
    now: UnixMs,
    command: &str,
) -> Result<UnixMs, CommandError> {
    let number = integer(text)?;
    form.resolve(number, now)
        .filter(|at| number > 0 && *at > 0)
        .map(|at| at as UnixMs)
        .ok_or_else(|| invalid_expiry(command))
}

/// The error for an expiry that makes no sense.
pub(crate) fn invalid_expiry(command: &str) -> CommandError {
    CommandError::owned(format!("ERR invalid expire time in '{command}' command"))
}

/// `ON` or `OFF`, in any case.
pub(crate) fn on_off(word: &[u8]) -> Result<bool, CommandError> {
    if word.eq_ignore_ascii_case(b"on") {
        Ok(true)
    } else if word.eq_ignore_ascii_case(b"off") {
        Ok(false)
    } else {
        Err(CommandError::Syntax)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_canonical_integers_are_integers() {
        for value in [0, 1, -1, 42, i64::MAX, i64::MIN, i64::MIN + 1] {
            assert_eq!(integer(value.to_string().as_bytes()), Ok(value));
        }
        for text in
            ["", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "9223372036854775808", "-9223372036854775809", "x"]
        {
            assert!(integer(text.as_bytes()).is_err(), "{text:?}");
        }
        assert_eq!(int(b"-2147483648"), Ok(i32::MIN));
        assert!(int(b"2147483648").is_err() && int(b"x") == Err(CommandError::NotAnInteger));
        assert_eq!(count(b"7"), Ok(7));
        assert_eq!(count(b"-1"), Err(CommandError::NotPositive));
    }

    #[test]
    fn cursors_are_unsigned_numbers() {
        for (text, value) in [("0", 0), ("", 0), ("007", 7), ("+3", 3), ("-1", u64::MAX)] {
            assert_eq!(cursor(text.as_bytes()), Ok(value), "{text:?}");
        }
        for text in ["x", "1x", " 1", "-", "++1", "-+1", "18446744073709551616"] {
            assert!(cursor(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn floats_are_what_the_c_library_reads_to_the_end() {
        for (text, value) in [
            ("1", 1.0),
            ("-1.5", -1.5),
            ("1.", 1.0),
            (".5", 0.5),
            ("+5", 5.0),
            ("1e5", 1e5),
            ("1E+5", 1e5),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("0x10", 16.0),
            ("-0x1p-1", -0.5),
            ("0e-999", 0.0),
            ("4e-320", 4e-320),
        ] {
            assert_eq!(float(text.as_bytes()), Ok(value), "{text:?}");
        }
        assert!(float(b"-0").unwrap().is_sign_negative());
        for text in
            ["", " 1", "1 ", ".", "1e", "nan", "-nan", "1e400", "-1e400", "1e-400", "0x", "0x1p9999", "1\0"]
        {
            assert_eq!(float(text.as_bytes()), Err(CommandError::NotAFloat), "{text:?}");
        }
    }

    #[test]
    fn timeouts_are_rounded_up_to_milliseconds() {
        assert_eq!(timeout(b"0", 5), Ok(None));
        assert_eq!(timeout(b"0.0001", 5), Ok(Some(Duration::from_millis(1))));
        assert_eq!(timeout(b"1.5", 5), Ok(Some(Duration::from_millis(1500))));
        assert_eq!(timeout(b"1e-4000", 5), Ok(Some(Duration::from_millis(1))));
        for forever in ["-1e-4", "9223372036854775.803"] {
            assert_eq!(timeout(forever.as_bytes(), 5), Ok(None), "{forever}");
        }
        for (text, error) in [
            ("-1", "ERR timeout is negative"),
            ("x", "ERR timeout is not a float or out of range"),
            ("1e5000", "ERR timeout is not a float or out of range"),
            ("inf", "ERR timeout is negative"),
            ("1e4000", "ERR timeout is negative"),
            ("9223372036854775.808", "ERR timeout is negative"),
        ] {
            assert_eq!(timeout(text.as_bytes(), 5), Err(CommandError::text(error)), "{text:?}");
        }
    }

    #[test]
    fn expiries_are_positive_and_fit() {
        let now = 1_000;
        let read = |text: &str, form| expiry(text.as_bytes(), form, now, "set");
        assert_eq!(read("2", ExpiryForm::Seconds), Ok(3_000));
        assert_eq!(read("2", ExpiryForm::Millis), Ok(1_002));
        assert_eq!(read("2", ExpiryForm::AtSeconds), Ok(2_000));
        assert_eq!(read("2", ExpiryForm::AtMillis), Ok(2));
        assert_eq!(read("x", ExpiryForm::Millis), Err(CommandError::NotAnInteger));
        for text in ["0", "-1", "9223372036854775807"] {
            assert_eq!(read(text, ExpiryForm::Seconds), Err(invalid_expiry("set")), "{text:?}");
        }
        assert_eq!(read("9223372036854775807", ExpiryForm::Millis), Err(invalid_expiry("set")));
    }
}
