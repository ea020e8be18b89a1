//! `to_char` of timestamps and dates, by PostgreSQL's patterns. It refuses numbers and intervals.

use std::fmt::Write as _;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, StringArray, timezone::Tz};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, TimeUnit, TimestampNanosecondType};
use datafusion::arrow::temporal_conversions::as_datetime_with_timezone;
use datafusion::common::{Result, ScalarValue, exec_err, not_impl_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use chrono::{Datelike, NaiveDateTime, Timelike};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The patterns, those that begin alike the longest first.
const PATTERNS: [&str; 58] = [
    "HH24", "HH12", "HH", "MI", "SSSSS", "SSSS", "SS", "MS", "US", "A.M.", "P.M.", "a.m.", "p.m.", "AM",
    "PM", "am", "pm", "Y,YYY", "YYYY", "YYY", "YY", "Y", "IYYY", "IYY", "IY", "IDDD", "IW", "ID", "I",
    "MONTH", "Month", "month", "MON", "Mon", "mon", "MM", "DAY", "Day", "day", "DDD", "DD", "DY", "Dy", "dy",
    "D", "WW", "W", "CC", "J", "Q", "RM", "rm", "BC", "AD", "TZH", "TZM", "TZ", "OF",
];

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ToChar(Signature, Vec<String>);

/// The function.
pub(super) fn to_char() -> ScalarUDF {
    // The library's has that name, too, and would come back by it.
    let aliases = vec!["date_format".to_owned()];
    ScalarUDF::new_from_impl(ToChar(Signature::user_defined(Volatility::Stable), aliases))
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &str {
        "to_char"
    }

    fn aliases(&self) -> &[String] {
        &self.1
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [of, _] = types else {
            return plan_err!("No function matches to_char of {} arguments", types.len());
        };
        let of = match of {
            DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()),
            DataType::Date32 | DataType::Date64 | DataType::Null => {
                DataType::Timestamp(TimeUnit::Nanosecond, None)
            }
            other => return not_impl_err!("to_char of {other}"),
        };
        Ok(vec![of, DataType::Utf8])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_one = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let patterns = cast(&arrays[1], &DataType::Utf8)?;
        let (moments, patterns) =
            (arrays[0].as_primitive::<TimestampNanosecondType>(), patterns.as_string::<i32>());
        let zone = match moments.data_type() {
            DataType::Timestamp(_, Some(zone)) => Some(zone.parse::<Tz>()?),
            _ => None,
        };
        let text = |row: usize| -> Result<Option<String>> {
            if moments.is_null(row) || patterns.is_null(row) {
                return Ok(None);
            }
            let moment = match zone {
                Some(zone) => as_datetime_with_timezone::<TimestampNanosecondType>(moments.value(row), zone)
                    .map(|moment| moment.naive_local()),
                None => moments.value_as_datetime(row),
            };
            moment.map(|moment| written(&moment, patterns.value(row))).transpose()
        };
        let made = (0..moments.len()).map(text).collect::<Result<StringArray>>()?;
        Ok(match is_one {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(Arc::new(made)),
        })
    }
}

fn written(moment: &NaiveDateTime, pattern: &str) -> Result<String> {
    let (mut text, mut rest) = (String::new(), pattern);
    while let Some(letter) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            text.push_str(&quoted[..end]);
            rest = quoted.get(end + 1..).unwrap_or_default();
            continue;
        }
        let (is_bare, behind) = match rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm")) {
            Some(behind) => (true, behind),
            None => (false, rest),
        };
        let Some(found) = found(behind) else {
            if is_bare {
                rest = behind;
                continue;
            }
            text.push(letter);
            rest = &rest[letter.len_utf8()..];
            continue;
        };
        rest = &behind[found.len()..];
        let before = text.len();
        part(moment, found, is_bare, &mut text)?;
        for suffix in ["TH", "th"] {
            if let Some(behind) = rest.strip_prefix(suffix)
                && text[before..].bytes().all(|byte| byte.is_ascii_digit())
            {
                rest = behind;
                let ordinal = ordinal(&text[before..]);
                text.push_str(&if suffix == "TH" { ordinal.to_uppercase() } else { ordinal.to_owned() });
            }
        }
    }
    Ok(text)
}

/// The pattern that a text begins with. Those of numbers may be written in small letters.
fn found(text: &str) -> Option<&'static str> {
    let exact = PATTERNS.iter().find(|pattern| text.starts_with(**pattern));
    let is_of_names = |pattern: &str| {
        matches!(pattern.to_ascii_uppercase().as_str(), "MONTH" | "MON" | "DAY" | "DY" | "RM")
    };
    let loose = || {
        PATTERNS.iter().find(|pattern| {
            !is_of_names(pattern)
                && text.get(..pattern.len()).is_some_and(|start| start.eq_ignore_ascii_case(pattern))
        })
    };
    exact.or_else(loose).copied()
}

fn ordinal(digits: &str) -> &'static str {
    match digits.as_bytes() {
        [.., b'1', _] => "th",
        [.., b'1'] => "st",
        [.., b'2'] => "nd",
        [.., b'3'] => "rd",
        _ => "th",
    }
}

fn part(moment: &NaiveDateTime, pattern: &str, is_bare: bool, text: &mut String) -> Result<()> {
    let mut number = |number: i64, width: usize| {
        let _ = match is_bare {
            true => write!(text, "{number}"),
            false => write!(text, "{number:0width$}"),
        };
    };
    let (date, time) = (moment.date(), moment.time());
    let year = i64::from(date.year());
    let week = date.iso_week();
    let weekday = date.weekday().num_days_from_sunday();
    let hour12 = i64::from(time.hour12().1);
    match pattern {
        "HH24" => number(i64::from(time.hour()), 2),
        "HH12" | "HH" => number(hour12, 2),
        "MI" => number(i64::from(time.minute()), 2),
        "SS" => number(i64::from(time.second()), 2),
        "MS" => number(i64::from(time.nanosecond() / 1_000_000), 3),
        "US" => number(i64::from(time.nanosecond() / 1_000), 6),
        "SSSS" | "SSSSS" => number(i64::from(time.num_seconds_from_midnight()), 0),
        "YYYY" => number(year, 4),
        "YYY" => number(year % 1000, 3),
        "YY" => number(year % 100, 2),
        "Y" => number(year % 10, 1),
        "IYYY" => number(i64::from(week.year()), 4),
        "IYY" => number(i64::from(week.year()) % 1000, 3),
        "IY" => number(i64::from(week.year()) % 100, 2),
        "I" => number(i64::from(week.year()) % 10, 1),
        "MM" => number(i64::from(date.month()), 2),
        "DD" => number(i64::from(date.day()), 2),
        "DDD" => number(i64::from(date.ordinal()), 3),
        "D" => number(i64::from(weekday) + 1, 1),
        "ID" => number(i64::from(date.weekday().number_from_monday()), 1),
        "WW" => number(i64::from(date.ordinal0()) / 7 + 1, 2),
        "IW" => number(i64::from(week.week()), 2),
        "W" => number(i64::from(date.day0()) / 7 + 1, 1),
        "Q" => number(i64::from(date.month0()) / 3 + 1, 1),
        "CC" => number((year + 99) / 100, 2),
        "J" => number(i64::from(date.num_days_from_ce()) + 1_721_425, 0),
        "Y,YYY" => {
            let _ = write!(text, "{},{:03}", year / 1000, year % 1000);
        }
        "AM" | "PM" => text.push_str(if time.hour() < 12 { "AM" } else { "PM" }),
        "am" | "pm" => text.push_str(if time.hour() < 12 { "am" } else { "pm" }),
        "A.M." | "P.M." => text.push_str(if time.hour() < 12 { "A.M." } else { "P.M." }),
        "a.m." | "p.m." => text.push_str(if time.hour() < 12 { "a.m." } else { "p.m." }),
        "BC" | "AD" => text.push_str(if year > 0 { "AD" } else { "BC" }),
        "MONTH" | "Month" | "month" => name(MONTHS[date.month0() as usize], pattern, is_bare, 9, text),
        "MON" | "Mon" | "mon" => name(&MONTHS[date.month0() as usize][..3], pattern, true, 3, text),
        "DAY" | "Day" | "day" => name(DAYS[weekday as usize], pattern, is_bare, 9, text),
        "DY" | "Dy" | "dy" => name(&DAYS[weekday as usize][..3], pattern, true, 3, text),
        other => return exec_err!("the pattern {other} of to_char is not there yet"),
    }
    Ok(())
}

fn name(name: &str, pattern: &str, is_bare: bool, width: usize, text: &mut String) {
    let is_upper = |at: usize| pattern.as_bytes().get(at).is_some_and(u8::is_ascii_uppercase);
    let name = match (is_upper(0), is_upper(1)) {
        (true, true) => name.to_uppercase(),
        (true, false) => name.to_owned(),
        _ => name.to_lowercase(),
    };
    let _ = match is_bare {
        true => write!(text, "{name}"),
        false => write!(text, "{name:<width$}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_by_patterns_of_postgresql() {
        let moment =
            NaiveDateTime::parse_from_str("2020-01-05 13:07:09.0125", "%Y-%m-%d %H:%M:%S%.f").expect("it");
        for (pattern, text) in [
            ("YYYY-MM", "2020-01"),
            ("yyyy-mm-dd hh24:mi:ss.ms", "2020-01-05 13:07:09.012"),
            ("DD Mon YYYY, HH12:MI AM", "05 Jan 2020, 01:07 PM"),
            ("FMMonth FMDD\"th of\" YY Q", "January 5th of 20 1"),
            ("Day|DY|D|ID|IW|WW|DDD", "Sunday   |SUN|1|7|01|01|005"),
            ("FMDDth", "5th"),
            ("YYYY-MM-DD\"T\"HH24", "2020-01-05T13"),
            ("US J", "012500 2458854"),
        ] {
            assert_eq!(written(&moment, pattern).expect("a text"), text, "{pattern}");
        }
        assert!(written(&moment, "TZ").is_err());
    }
}
