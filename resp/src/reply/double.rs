//! Floating-point numbers as text, exactly as C's `printf("%.17g")` writes them.
//!
//! Redis 7.0 replies with this text, so `0.1` comes back as `0.10000000000000001`. Seventeen significant
//! digits distinguish any two doubles.

/// Longest text: `-1.2345678901234567e-308`.
const TEXT_BYTES_MAX: usize = 24;

/// Significant digits.
const DIGITS: i32 = 17;

/// The text of a double, held without allocation: see [`format_double`].
#[derive(Clone, Copy)]
pub struct DoubleText {
    bytes: [u8; TEXT_BYTES_MAX],
    len: u8,
}

impl DoubleText {
    /// The text as bytes, all of them ASCII.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("digits, signs and letters are ASCII")
    }

    fn new() -> Self {
        Self { bytes: [0; TEXT_BYTES_MAX], len: 0 }
    }

    #[inline]
    fn push(&mut self, text: &[u8]) {
        let len = usize::from(self.len);
        self.bytes[len..len + text.len()].copy_from_slice(text);
        self.len += text.len() as u8;
    }
}

impl AsRef<[u8]> for DoubleText {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// The text that `%.17g` gives: `3`, `0.10000000000000001`, `1e+20`, `-0`, `inf`, `-inf`, `nan`.
pub fn format_double(number: f64) -> DoubleText {
    let mut text = DoubleText::new();
    if number.is_nan() {
        text.push(b"nan");
    } else if number.is_infinite() {
        text.push(if number > 0.0 { b"inf" } else { b"-inf" });
    } else if number == number.trunc() && number.abs() < 1e17 {
        if number.is_sign_negative() {
            text.push(b"-");
        }
        // Below 10^17 a whole number has at most seventeen digits, all of which are shown.
        text.push(itoa::Buffer::new().format(number.abs() as u64).as_bytes());
    } else {
        push_fraction(number, &mut text);
    }
    text
}

/// Rounds to seventeen digits and lays them out as `%g` does.
fn push_fraction(number: f64, text: &mut DoubleText) {
    let (digits, exponent) = seventeen_digits(number.abs()).unwrap_or_else(|| any_digits(number.abs()));
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(digits).as_bytes();
    let significant = digits.iter().rposition(|&digit| digit != b'0').map_or(1, |last| last + 1);
    let digits = &digits[..significant];

    if number < 0.0 {
        text.push(b"-");
    }
    if !(-4..DIGITS).contains(&exponent) {
        push_scientific(digits, exponent, text);
    } else if exponent < 0 {
        text.push(b"0.");
        text.push(&b"000"[..(-exponent - 1) as usize]);
        text.push(digits);
    } else {
        let (before, after) = digits.split_at(significant.min(exponent as usize + 1));
        text.push(before);
        // Zeros that end a whole number are significant after all.
        text.push(&[b'0'; DIGITS as usize][..exponent as usize + 1 - before.len()]);
        if !after.is_empty() {
            text.push(b".");
            text.push(after);
        }
    }
}

/// The number as `d * 10^(exponent - 16)` with `d` of seventeen digits, rounded to the nearest, ties to even;
/// `None` if it is whole, or outside of 0.0001 to 10^17.
///
/// Such a number is `m / 2^k` with `m < 2^53` and `k <= 66`, and `d = m * 10^(16 - exponent) / 2^k`. The
/// product stays below 2^123, so that 128 bits divide it exactly; that is several times as fast as the
/// general way.
fn seventeen_digits(number: f64) -> Option<(u64, i32)> {
    const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    const SMALLEST: u64 = 10u64.pow(DIGITS as u32 - 1);
    if !(1e-4..1e17).contains(&number) {
        return None;
    }
    let bits = number.to_bits();
    let mantissa = bits & ((1 << MANTISSA_BITS) - 1) | 1 << MANTISSA_BITS;
    let binary_exponent = (bits >> MANTISSA_BITS) as i32 - 1023;
    let shift = u32::try_from(MANTISSA_BITS as i32 - binary_exponent).ok().filter(|&shift| shift > 0)?;
    // The logarithm of a power of two, rounded down: the true exponent is this or one more.
    let mut exponent = (f64::from(binary_exponent) * std::f64::consts::LOG10_2).floor() as i32;
    let mut scaled = u128::from(mantissa) * POWERS_OF_TEN[(DIGITS - 1 - exponent) as usize];
    if scaled >> shift >= u128::from(SMALLEST * 10) {
        exponent += 1;
        scaled = u128::from(mantissa) * POWERS_OF_TEN[(DIGITS - 1 - exponent) as usize];
    }
    let digits = (scaled >> shift) as u64;
    let (rest, half) = (scaled & ((1 << shift) - 1), 1 << (shift - 1));
    let digits = digits + u64::from(rest > half || rest == half && digits % 2 == 1);
    if digits == SMALLEST * 10 { Some((SMALLEST, exponent + 1)) } else { Some((digits, exponent)) }
}

/// The powers of ten that `seventeen_digits` multiplies by.
const POWERS_OF_TEN: [u128; 22] = {
    let mut powers = [1; 22];
    let mut index = 1;
    while index < powers.len() {
        powers[index] = powers[index - 1] * 10;
        index += 1;
    }
    powers
};

/// The same for any finite number.
fn any_digits(number: f64) -> (u64, i32) {
    // `d.dddddddddddddddde-dd`, rounded to the nearest, ties to even.
    let text = format!("{number:.16e}");
    let (digits, exponent) = text.split_once('e').expect("an exponent is always written");
    let digits = digits.bytes().filter(|&byte| byte != b'.');
    let digits = digits.fold(0, |digits, byte| digits * 10 + u64::from(byte - b'0'));
    (digits, exponent.parse().expect("an exponent is a small number"))
}

/// `d.ddde+xx`: the exponent has a sign and two digits at least.
fn push_scientific(digits: &[u8], exponent: i32, text: &mut DoubleText) {
    text.push(&digits[..1]);
    if digits.len() > 1 {
        text.push(b".");
        text.push(&digits[1..]);
    }
    text.push(if exponent < 0 { b"e-" } else { b"e+" });
    if exponent.abs() < 10 {
        text.push(b"0");
    }
    text.push(itoa::Buffer::new().format(exponent.unsigned_abs()).as_bytes());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    /// Texts printed by C for these numbers.
    const PRINTED_BY_C: &[(f64, &str)] = &[
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (-3.0, "-3"),
        (0.1, "0.10000000000000001"),
        (0.5, "0.5"),
        (3.3, "3.2999999999999998"),
        (100.25, "100.25"),
        (1e16, "10000000000000000"),
        (99999999999999984.0, "99999999999999984"),
        (1e17, "1e+17"),
        (1e20, "1e+20"),
        (1.5e300, "1.5000000000000001e+300"),
        (1e-4, "0.0001"),
        (1e-5, "1.0000000000000001e-05"),
        (0.00012345, "0.00012344999999999999"),
        (5e-324, "4.9406564584124654e-324"),
        (f64::MAX, "1.7976931348623157e+308"),
        (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
        (-1.2345678901234567e-308, "-1.2345678901234567e-308"),
        (9.999999999999999e-5, "9.9999999999999991e-05"),
        (1e-4_f64.next_up(), "0.00010000000000000002"),
        (0.9999999999999999, "0.99999999999999989"),
        (9.999_999_999_999_998, "9.9999999999999982"),
        (4503599627370495.5, "4503599627370495.5"),
        (9007199254740993.0, "9007199254740992"),
        (123456789012345.67, "123456789012345.67"),
        (1e15 + 0.5, "1000000000000000.5"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
    ];

    #[test]
    fn doubles_read_as_c_prints_them() {
        for (number, text) in PRINTED_BY_C {
            assert_eq!(format_double(*number).as_str(), *text);
        }
        assert_eq!(format_double(f64::NAN).as_str(), "nan");
    }

    proptest! {
        #[test]
        fn the_text_of_any_double_reads_back_as_the_same_double(bits: u64) {
            let number = f64::from_bits(bits);
            let text = format_double(number);
            prop_assert!(text.as_bytes().len() <= TEXT_BYTES_MAX);
            let read: f64 = text.as_str().parse().unwrap();
            prop_assert!(read.to_bits() == bits || (read.is_nan() && number.is_nan()), "{}", text.as_str());
        }

        #[test]
        fn the_quick_way_and_the_general_way_agree(
            exponent in -15i32..55,
            fraction in 1.0..2.0f64,
            sparse in 0u32..52,
        ) {
            // Fractions with few bits have exact halves among them, which are rounded to even.
            let fraction = f64::from_bits(fraction.to_bits() >> sparse << sparse);
            let number = fraction * f64::from(exponent).exp2();
            if let Some(quick) = seventeen_digits(number) {
                prop_assert_eq!(quick, any_digits(number));
            } else {
                prop_assert!(number == number.trunc() || number < 1e-4);
            }
        }

        #[test]
        fn whole_numbers_and_decimals_are_laid_out_without_an_exponent(
            whole in -1_000_000i64..1_000_000,
            cents in 0u8..100,
        ) {
            let number = whole as f64 + f64::from(cents) / 100.0;
            let text = format_double(number);
            prop_assert!(!text.as_str().contains('e'));
            prop_assert_eq!(text.as_str().parse::<f64>().unwrap(), number);
        }
    }
}
