//! This module converts numbers as C code on x86-64 with glibc does.

const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// Converts a double to an integer by truncation. Values out of range give the smallest integer.
pub(crate) fn to_i64(n: f64) -> i64 {
    // The cast saturates. Only the upper end and NaN differ from what C code gets.
    if n < TWO_63 { n as i64 } else { i64::MIN }
}

/// Converts a double to an unsigned integer, as GCC does. Values of 2^64 and more give 0.
pub(crate) fn to_u64(n: f64) -> u64 {
    if n >= TWO_63 { (to_i64(n - TWO_63) ^ i64::MIN).cast_unsigned() } else { to_i64(n).cast_unsigned() }
}

/// Formats a finite or infinite number like `%.{precision}g` of C.
pub(crate) fn format_g(n: f64, precision: usize) -> String {
    if n.is_nan() {
        return if n.is_sign_negative() { "-nan".into() } else { "nan".into() };
    }
    if n.is_infinite() {
        return if n < 0.0 { "-inf".into() } else { "inf".into() };
    }
    let precision = precision.max(1);
    let scientific = format!("{:.*e}", precision - 1, n);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= i32::try_from(precision).unwrap_or(i32::MAX) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.unsigned_abs());
    }
    let decimals = i32::try_from(precision).unwrap_or(0).saturating_sub(1).saturating_sub(exponent);
    let fixed = format!("{:.*}", usize::try_from(decimals).unwrap_or(0), n);
    without_zeros(&fixed).to_owned()
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Parses the longest number at the start of the text like `strtod` of glibc.
///
/// Returns the number and its length in bytes, or `None` if no number starts there. The function
/// does not skip blanks.
pub(crate) fn parse_prefix(text: &[u8]) -> Option<(f64, usize)> {
    let sign_len = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let negative = text.first() == Some(&b'-');
    let body = text.get(sign_len..)?;
    let (value, len) = parse_word(body).or_else(|| parse_hex(body)).or_else(|| parse_decimal(body))?;
    Some((if negative { -value } else { value }, len.saturating_add(sign_len)))
}

fn starts_with_word(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

fn parse_word(body: &[u8]) -> Option<(f64, usize)> {
    if starts_with_word(body, b"infinity") {
        return Some((f64::INFINITY, 8));
    }
    if starts_with_word(body, b"inf") {
        return Some((f64::INFINITY, 3));
    }
    if !starts_with_word(body, b"nan") {
        return None;
    }
    let rest = body.get(3..)?;
    let nan = f64::from_bits(0x7ff8_0000_0000_0000);
    if rest.first() != Some(&b'(') {
        return Some((nan, 3));
    }
    let inner = rest.iter().skip(1).take_while(|c| c.is_ascii_alphanumeric() || **c == b'_').count();
    let closed = rest.get(inner.saturating_add(1)) == Some(&b')');
    Some((nan, if closed { inner.saturating_add(5) } else { 3 }))
}

fn parse_decimal(body: &[u8]) -> Option<(f64, usize)> {
    let digits = |from: usize| body.iter().skip(from).take_while(|c| c.is_ascii_digit()).count();
    let whole = digits(0);
    let mut len = whole;
    let mut fraction = 0;
    if body.get(len) == Some(&b'.') {
        fraction = digits(len + 1);
        if whole + fraction > 0 {
            len += 1 + fraction;
        }
    }
    if whole + fraction == 0 {
        return None;
    }
    len += exponent_len(body.get(len..)?, b'e');
    let text = std::str::from_utf8(body.get(..len)?).ok()?;
    Some((text.parse().ok()?, len))
}

/// Returns the length of an exponent part, or 0 if there is no complete one.
fn exponent_len(text: &[u8], letter: u8) -> usize {
    if !text.first().is_some_and(|c| c.eq_ignore_ascii_case(&letter)) {
        return 0;
    }
    let sign = usize::from(matches!(text.get(1), Some(b'+' | b'-')));
    let digits = text.iter().skip(1 + sign).take_while(|c| c.is_ascii_digit()).count();
    if digits == 0 { 0 } else { 1 + sign + digits }
}

fn parse_hex(body: &[u8]) -> Option<(f64, usize)> {
    if !starts_with_word(body, b"0x") {
        return None;
    }
    let mut mantissa = HexMantissa::default();
    let mut len = 2;
    while let Some(c) = body.get(len) {
        match hex_digit(*c) {
            Some(digit) => mantissa.push(digit),
            None if *c == b'.' && !mantissa.point => mantissa.point = true,
            None => break,
        }
        len += 1;
    }
    if !mantissa.any {
        return None;
    }
    let exponent = exponent_len(body.get(len..)?, b'p');
    let power = parse_power(body.get(len + 1..len + exponent).unwrap_or(b""));
    Some((mantissa.value(power), len + exponent))
}

fn parse_power(text: &[u8]) -> i64 {
    let negative = text.first() == Some(&b'-');
    let digits = text.iter().filter(|c| c.is_ascii_digit());
    let size = digits.fold(0i64, |n, c| n.saturating_mul(10).saturating_add(i64::from(*c - b'0')));
    let size = size.min(1 << 40);
    if negative { -size } else { size }
}

fn hex_digit(c: u8) -> Option<u64> {
    char::from(c).to_digit(16).map(u64::from)
}

/// The digits of a hexadecimal number. Bits that do not fit set the sticky flag.
#[derive(Default)]
struct HexMantissa {
    bits: u64,
    shift: i64,
    sticky: bool,
    point: bool,
    any: bool,
}

impl HexMantissa {
    fn push(&mut self, digit: u64) {
        self.any = true;
        if self.bits >> 58 == 0 {
            self.bits = (self.bits << 4) | digit;
            self.shift -= if self.point { 4 } else { 0 };
        } else {
            self.sticky |= digit != 0;
            self.shift += if self.point { 0 } else { 4 };
        }
    }

    fn value(&self, power: i64) -> f64 {
        let exponent = self.shift.saturating_add(power);
        let width = 64 - i64::from(self.bits.leading_zeros());
        if self.bits == 0 {
            return 0.0;
        }
        // The last bit that a double keeps has this weight. Small numbers are subnormal.
        let lowest = exponent.saturating_add(width).saturating_sub(53).max(-1074);
        let drop = lowest.saturating_sub(exponent);
        let rounded = if drop <= 0 { self.bits } else { self.round(drop) };
        let scale = if drop <= 0 { exponent } else { lowest };
        scale_by(rounded as f64, scale)
    }

    fn round(&self, drop: i64) -> u64 {
        if drop > 64 {
            return 0;
        }
        let wide = (u128::from(self.bits) << 1) | u128::from(self.sticky);
        let drop = drop + 1;
        let kept = wide >> drop;
        let rest = wide & ((1 << drop) - 1);
        let half = 1 << (drop - 1);
        let up = rest > half || (rest == half && kept & 1 == 1);
        u64::try_from(kept).unwrap_or(u64::MAX).saturating_add(u64::from(up))
    }
}

fn scale_by(value: f64, exponent: i64) -> f64 {
    let exponent = i32::try_from(exponent.clamp(-3000, 3000)).unwrap_or(0);
    let mut value = value;
    let mut left = exponent;
    while left != 0 && value != 0.0 && value.is_finite() {
        let step = left.clamp(-1000, 1000);
        value *= f64::powi(2.0, step);
        left -= step;
    }
    value
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn numbers_print_like_in_c() {
        assert_eq!(format_g(0.1, 14), "0.1");
        assert_eq!(format_g(1e15, 14), "1e+15");
        assert_eq!(format_g(100000.0, 3), "1e+05");
        assert_eq!(format_g(-0.0, 14), "-0");
        assert_eq!(format_g(0.0001, 14), "0.0001");
        assert_eq!(format_g(0.00001, 14), "1e-05");
        assert_eq!(format_g(9.9999, 2), "10");
    }

    #[test]
    fn number_prefixes_parse_like_strtod() {
        assert_eq!(parse_prefix(b"12e+x"), Some((12.0, 2)));
        assert_eq!(parse_prefix(b"-.5,"), Some((-0.5, 3)));
        assert_eq!(parse_prefix(b"0x"), Some((0.0, 1)));
        assert_eq!(parse_prefix(b"0x1.8p1z"), Some((3.0, 7)));
        assert_eq!(parse_prefix(b"0xfffffffffffffbff"), Some((18446744073709549568.0, 18)));
        assert_eq!(parse_prefix(b"infinite"), Some((f64::INFINITY, 3)));
        assert_eq!(parse_prefix(b"."), None);
        assert_eq!(parse_prefix(b"0x1p-1074"), Some((5e-324, 9)));
    }
}
