//! Numbers on the command line, each within its range: what cannot be measured is refused before anything is
//! started.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A number within a range. `NaN` is within none.
fn within<T: FromStr + PartialOrd + Display>(
    text: &str,
    range: RangeInclusive<T>,
) -> std::result::Result<T, String> {
    let found = text.parse().ok().filter(|number| range.contains(number));
    found.ok_or_else(|| format!("a number from {} to {}", range.start(), range.end()))
}

/// Millions of records; the smallest store has a hundred.
pub(crate) fn millions(text: &str) -> std::result::Result<f64, String> {
    within(text, 0.0001..=10_000.0)
}

/// The length of a measurement, up to a day.
pub(crate) fn seconds(text: &str) -> std::result::Result<f64, String> {
    within(text, 0.01..=86_400.0)
}

/// The limit of a ratio.
pub(crate) fn limit(text: &str) -> std::result::Result<f64, String> {
    within(text, 0.000_001..=1_000_000.0)
}

/// Requests a second.
pub(crate) fn rate(text: &str) -> std::result::Result<f64, String> {
    within(text, 1.0..=1e7)
}

/// The same as a whole number.
pub(crate) fn whole_rate(text: &str) -> std::result::Result<u32, String> {
    within(text, 1..=10_000_000)
}

/// A number of repeats, kills or requests.
pub(crate) fn times(text: &str) -> std::result::Result<u32, String> {
    within(text, 1..=1_000_000)
}

/// A number of threads, connections or directories.
pub(crate) fn count(text: &str) -> std::result::Result<usize, String> {
    within(text, 1..=256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused_with_the_range() {
        assert_eq!(millions("0.25"), Ok(0.25));
        let refused = Err("a number from 0.0001 to 10000".to_owned());
        for text in ["0", "-1", "NaN", "inf", "1e9", "x", ""] {
            assert_eq!(millions(text), refused, "{text}");
        }
        assert_eq!([count("1"), count("256")], [Ok(1), Ok(256)]);
        assert!(count("0").is_err() && count("257").is_err() && seconds("NaN").is_err());
        assert!(
            times("0").is_err() && whole_rate("0").is_err() && limit("-1.1").is_err() && rate("0").is_err()
        );
    }
}
