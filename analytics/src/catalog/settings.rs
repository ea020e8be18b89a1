//! The settings of a session, by PostgreSQL's names: their defaults, and how their values are written.

use std::time::Duration;

/// The name of the database that clients see.
pub(crate) const DATABASE: &str = "tarn";
/// The version of PostgreSQL whose protocol and catalog Tarn follows.
pub(crate) const POSTGRESQL_VERSION: &str = "16.6";
/// Ends blocks that wait for their client, so that they do not keep the views that all share.
pub(crate) const IDLE_IN_BLOCK: &str = "idle_in_transaction_session_timeout";
/// Ends statements.
pub(crate) const STATEMENT: &str = "statement_timeout";

/// The defaults of settings. A setting that is not listed is unknown.
const DEFAULTS: [(&str, &str); 40] = [
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, MDY"),
    ("default_transaction_deferrable", "off"),
    ("default_transaction_isolation", "repeatable read"),
    ("default_transaction_read_only", "on"),
    ("extra_float_digits", "1"),
    (IDLE_IN_BLOCK, "10min"),
    ("idle_session_timeout", "0"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("is_superuser", "off"),
    ("jit", "off"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("lc_messages", "C"),
    ("lc_monetary", "C"),
    ("lc_numeric", "C"),
    ("lc_time", "C"),
    ("lock_timeout", "0"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("password_encryption", "scram-sha-256"),
    ("row_security", "off"),
    ("search_path", "\"$user\", public"),
    ("server_encoding", "UTF8"),
    ("server_version_num", "160006"),
    ("session_authorization", "default"),
    ("ssl", "off"),
    ("standard_conforming_strings", "on"),
    (STATEMENT, "0"),
    ("timezone", "UTC"),
    ("transaction_deferrable", "off"),
    ("transaction_isolation", "repeatable read"),
    ("transaction_read_only", "on"),
    ("transaction_timeout", "0"),
    ("work_mem", "4MB"),
];

/// Units of time, and how many milliseconds they have; the largest first.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)];

/// The default of a setting; `None` if there is none of this name.
pub(crate) fn default_of(name: &str) -> Option<String> {
    if name == "server_version" {
        return Some(format!("{POSTGRESQL_VERSION} (Tarn {})", env!("CARGO_PKG_VERSION")));
    }
    let found = DEFAULTS.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| (*value).to_owned())
}

/// All names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    DEFAULTS.iter().map(|(name, _)| *name).chain(["server_version"])
}

/// Reads `5000`, `'5s'`, `'10 min'`; `None` if it is no time.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let number: f64 = number.trim().parse().ok().filter(|number| *number >= 0.0)?;
    let millis = match unit {
        "" => 1.0,
        "us" => 0.001,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1 as f64,
    };
    let millis = (number * millis).round();
    // As in PostgreSQL, where it is a number of 32 bits.
    (millis <= f64::from(i32::MAX)).then(|| Duration::from_millis(millis as u64))
}

/// Writes a time as PostgreSQL does: in the largest unit that divides it.
pub(crate) fn duration_text(duration: Duration) -> String {
    let millis = duration.as_millis() as u64;
    let unit = UNITS.iter().find(|(_, size)| millis > 0 && millis.is_multiple_of(*size));
    unit.map_or("0".to_owned(), |(name, size)| format!("{}{name}", millis / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_as_postgresql_does() {
        let cases = [
            ("0", "0"),
            ("5000", "5s"),
            ("1500", "1500ms"),
            ("5 min", "5min"),
            ("90s", "90s"),
            ("1.5s", "1500ms"),
            ("24h", "1d"),
            ("100us", "0"),
        ];
        for (read, written) in cases {
            assert_eq!(duration(read).map(duration_text).as_deref(), Some(written), "{read}");
        }
        for wrong in ["", "x", "5 parsecs", "-1", "1e300", "NaN", "25d"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
        assert!(DEFAULTS.is_sorted());
    }
}
