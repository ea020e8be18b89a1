//! Numbers with a 64-bit significand, the `long double` of x86: what `INCRBYFLOAT`, `HINCRBYFLOAT` and
//! `INCREX` compute with.
//!
//! Clients compare the text of such results, so the rounding of the sum and the 17 decimals of its text have
//! to be those that Redis has from its C library. Reading and adding is `rustc_apfloat`'s; writing is exact
//! integer arithmetic here.

use rustc_apfloat::ieee::{Double, X87DoubleExtended};
use rustc_apfloat::{Float, FloatConvert, Round, Status};

/// Longest text that is read as a number.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// Decimals that a text has at most.
const DECIMALS: usize = 17;
/// 10 to the power of `DECIMALS`.
const DECIMALS_SCALE: u128 = 100_000_000_000_000_000;
/// Bits of the exponent.
const EXPONENT_MASK: u128 = 0x7fff;
/// The bias of the exponent of the significand's lowest bit.
const EXPONENT_BIAS: i32 = 16_383 + 63;

/// A number; never NaN when it was read from a text.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Extended(X87DoubleExtended);

impl Extended {
    /// Zero.
    pub(crate) const ZERO: Extended = Extended(X87DoubleExtended::ZERO);

    /// Reads what `strtold` reads to the end: decimal, hexadecimal or an infinity, with a sign or without.
    /// Refuses spaces, NaN and what is too large or too small to be told from infinity or zero.
    pub(crate) fn parse(text: &[u8]) -> Option<Extended> {
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= TEXT_BYTES_MAX)?;
        let (negative, magnitude) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if magnitude.eq_ignore_ascii_case("inf") || magnitude.eq_ignore_ascii_case("infinity") {
            let infinity = X87DoubleExtended::INFINITY;
            return Some(Extended(if negative { -infinity } else { infinity }));
        }
        let magnitude = match spelling(magnitude.as_bytes())? {
            Spelling::Hexadecimal { has_exponent: false } => format!("{magnitude}p0"),
            _ => magnitude.to_owned(),
        };
        let read = X87DoubleExtended::from_str_r(&magnitude, Round::NearestTiesToEven).ok()?;
        let vanished = read.value.is_zero() && read.status.contains(Status::UNDERFLOW);
        let sound = read.value.is_finite() && !vanished;
        sound.then_some(Extended(if negative { -read.value } else { read.value }))
    }

    /// The greatest finite number.
    pub(crate) fn greatest() -> Extended {
        Extended(X87DoubleExtended::largest())
    }

    /// The sum, rounded to the nearest; NaN for infinities of two signs.
    pub(crate) fn plus(self, other: Extended) -> Extended {
        Extended((self.0 + other.0).value)
    }

    /// The difference, rounded to the nearest; NaN for twice the same infinity.
    pub(crate) fn minus(self, other: Extended) -> Extended {
        Extended((self.0 - other.0).value)
    }

    /// The number with the other sign.
    pub(crate) fn negated(self) -> Extended {
        Extended(-self.0)
    }

    /// Whether it is neither infinite nor NaN.
    pub(crate) fn is_finite(self) -> bool {
        self.0.is_finite()
    }

    /// The number times 1000, rounded up; `None` if that is no `i64`.
    pub(crate) fn thousandfold_rounded_up(self) -> Option<i64> {
        let thousandfold = (self.0 * X87DoubleExtended::from_u128(1000).value).value;
        let rounded = thousandfold.to_i128_r(64, Round::TowardPositive, &mut false);
        let fits = !rounded.status.contains(Status::INVALID_OP);
        fits.then(|| i64::try_from(rounded.value).ok()).flatten()
    }

    /// The nearest double; `None` if that is infinity or zero without being it.
    pub(crate) fn to_f64(self) -> Option<f64> {
        let nearest: Double = self.0.convert(&mut false).value;
        let same_kind = nearest.is_zero() == self.0.is_zero() && nearest.is_finite() == self.0.is_finite();
        same_kind.then(|| f64::from_bits(nearest.to_bits() as u64))
    }

    /// The number with at most 17 decimals, without zeros at the end and without an exponent. REQUIRES: it is
    /// finite.
    pub(crate) fn to_text(self) -> Vec<u8> {
        let bits = self.0.to_bits();
        let negative = bits >> 79 & 1 == 1;
        // A denormal has the exponent of the smallest normal number.
        let exponent = ((bits >> 64 & EXPONENT_MASK) as i32).max(1) - EXPONENT_BIAS;
        let significand = bits as u64;
        let (whole, decimals) = if exponent >= 0 {
            (shifted_digits(significand, exponent as u32), 0)
        } else {
            let (whole, decimals) = split_fraction(significand, exponent.unsigned_abs());
            (whole.to_string().into_bytes(), decimals)
        };
        let mut text = Vec::with_capacity(whole.len() + DECIMALS + 2);
        if negative && (decimals > 0 || whole != b"0") {
            text.push(b'-');
        }
        text.extend_from_slice(&whole);
        if decimals > 0 {
            text.push(b'.');
            text.extend_from_slice(format!("{decimals:0DECIMALS$}").trim_end_matches('0').as_bytes());
        }
        text
    }
}

/// How a magnitude is written.
enum Spelling {
    Decimal,
    Hexadecimal { has_exponent: bool },
}

/// Checks the spelling of a finite magnitude without a sign: digits with at most one point and at least one
/// digit, and an exponent, which is of 2 for hexadecimal digits.
fn spelling(text: &[u8]) -> Option<Spelling> {
    if let [b'0', b'x' | b'X', digits @ ..] = text {
        let has_exponent = check_digits(digits, u8::is_ascii_hexdigit, b'p')?;
        return Some(Spelling::Hexadecimal { has_exponent });
    }
    check_digits(text, u8::is_ascii_digit, b'e')?;
    Some(Spelling::Decimal)
}

/// Whether there is an exponent; `None` if the spelling is wrong.
fn check_digits(text: &[u8], is_digit: impl Fn(&u8) -> bool, exponent_mark: u8) -> Option<bool> {
    let mark = text.iter().position(|byte| byte.eq_ignore_ascii_case(&exponent_mark));
    let digits = &text[..mark.unwrap_or(text.len())];
    let points = digits.iter().filter(|byte| **byte == b'.').count();
    if points > 1 || digits.len() == points || !digits.iter().all(|byte| *byte == b'.' || is_digit(byte)) {
        return None;
    }
    if let Some(mark) = mark {
        let power = match &text[mark + 1..] {
            [b'+' | b'-', power @ ..] => power,
            power => power,
        };
        if power.is_empty() || !power.iter().all(u8::is_ascii_digit) {
            return None;
        }
    }
    Some(mark.is_some())
}

/// The whole part and the decimals, as an integer of `DECIMALS` digits, of `significand / 2^shift`, rounded
/// to even.
fn split_fraction(significand: u64, shift: u32) -> (u64, u64) {
    let whole = significand.checked_shr(shift).unwrap_or(0);
    let fraction = if shift < 64 { significand & ((1 << shift) - 1) } else { significand };
    // Below 2^64 * 10^17 < 2^121.
    let scaled = u128::from(fraction) * DECIMALS_SCALE;
    let (mut decimals, rest, half) = match shift {
        0..=127 => (scaled >> shift, scaled & ((1 << shift) - 1), 1u128 << (shift - 1)),
        _ => (0, 0, 1),
    };
    if rest > half || (rest == half && decimals & 1 == 1) {
        decimals += 1;
    }
    if decimals == DECIMALS_SCALE { (whole + 1, 0) } else { (whole, decimals as u64) }
}

/// The decimal digits of `significand * 2^shift`.
fn shifted_digits(significand: u64, shift: u32) -> Vec<u8> {
    const CHUNK: u64 = 1_000_000_000;
    // Chunks of nine digits, lowest first.
    let mut chunks: Vec<u64> =
        vec![significand % CHUNK, significand / CHUNK % CHUNK, significand / CHUNK / CHUNK];
    let mut left = shift;
    while left > 0 {
        let step = left.min(32);
        let mut carry = 0;
        for chunk in &mut chunks {
            // Below 10^9 * 2^32 + 2^33 < 2^63.
            let scaled = (*chunk << step) + carry;
            (*chunk, carry) = (scaled % CHUNK, scaled / CHUNK);
        }
        while carry > 0 {
            chunks.push(carry % CHUNK);
            carry /= CHUNK;
        }
        left -= step;
    }
    let mut text = String::with_capacity(chunks.len() * 9);
    for chunk in chunks.iter().rev() {
        text.push_str(&format!("{chunk:09}"));
    }
    match text.trim_start_matches('0') {
        "" => b"0".to_vec(),
        digits => digits.as_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    fn sum(a: &str, b: &str) -> String {
        let sum = Extended::parse(a.as_bytes()).unwrap().plus(Extended::parse(b.as_bytes()).unwrap());
        assert!(sum.is_finite());
        String::from_utf8(sum.to_text()).unwrap()
    }

    #[test]
    fn sums_are_those_that_redis_prints() {
        assert_eq!(sum("10.5", "0.1"), "10.6");
        assert_eq!(sum("3.0e3", "0"), "3000");
        assert_eq!(sum("10.5", "1e-18"), "10.5");
        assert_eq!(sum("0", "1e-18"), "0");
        assert_eq!(sum("0", "-1e-18"), "0");
        assert_eq!(sum("-0", "-0"), "0");
        assert_eq!(sum("10.5", "0x10"), "26.5");
        assert_eq!(sum("0x1.8", "-0X.8p+1"), "0.5");
        assert_eq!(sum("1.1", "2.2"), "3.3");
        assert_eq!(sum("0.999999999999999999", "0"), "1");
        assert_eq!(sum("18446744073709551616", "0"), "18446744073709551616");
        assert_eq!(sum("36893488147419103232", "-4"), "36893488147419103228");
        assert_eq!(sum("1e30", "1"), "1000000000000000000024696061952");
    }

    #[test]
    fn differences_and_limits_are_those_of_long_doubles() {
        let number = |text: &str| Extended::parse(text.as_bytes()).unwrap();
        let difference = |a, b| String::from_utf8(number(a).minus(number(b)).to_text()).unwrap();
        assert_eq!(difference("12.5", "15"), "-2.5");
        assert_eq!(difference("36893488147419103232", "4"), "36893488147419103228");
        assert_eq!(difference("0.5", "0.5"), "0");
        assert!(!number("-inf").minus(number("1")).is_finite());
        let greatest = Extended::greatest();
        assert!(greatest.is_finite() && greatest > number("1e4932") && greatest < number("inf"));
        assert!(!greatest.plus(greatest).is_finite());
        assert!(greatest.negated() < number("-1e4932") && greatest.negated().negated() == greatest);
        let text = String::from_utf8(greatest.to_text()).unwrap();
        assert!(text.starts_with("118973149535723176502126385303") && text.len() == 4_933);
    }

    #[test]
    fn a_tie_at_the_last_decimal_goes_to_the_even_digit() {
        // 2^-18 and 3 * 2^-18 have 18 decimals, the last of them a 5.
        assert_eq!(sum("3.814697265625e-6", "0"), "0.00000381469726562");
        assert_eq!(sum("11.444091796875e-6", "0"), "0.00001144409179688");
    }

    #[test]
    fn only_whole_texts_are_numbers() {
        for text in [
            "", "-", " 1", "1 ", "1e", "1e+", ".", "..", "1.2.3", "nan", "-nan", "0x", "0x.", "0xp1", "1_0",
            "infi",
        ] {
            assert!(Extended::parse(text.as_bytes()).is_none(), "{text:?}");
        }
        for text in ["1e5000", "-1e99999999999", "1e-5000", "0x1p99999"] {
            assert!(Extended::parse(text.as_bytes()).is_none(), "{text:?} is out of range");
        }
        for text in ["0e-9999", "1.", ".5", "+5", "1E+5", "-iNf", "infinity", "1e-4940"] {
            assert!(Extended::parse(text.as_bytes()).is_some(), "{text:?}");
        }
        assert!(!Extended::parse(b"inf").unwrap().is_finite());
    }

    proptest! {
        #[test]
        fn integers_are_printed_exactly(a in any::<i32>(), shift in 0u32..60) {
            let number = i128::from(a) << shift;
            prop_assert_eq!(sum(&number.to_string(), "0"), number.to_string());
        }

        #[test]
        fn decimals_below_eight_are_printed_as_they_were_read(whole in 0u32..8, decimals in 1u32..1_000_000) {
            let text = format!("-{whole}.{decimals:06}");
            prop_assert_eq!(sum(&text, "0"), text.trim_end_matches('0'));
        }
    }
}
