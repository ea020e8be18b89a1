//! Numbers as text, as C's `printf` writes them.

/// Appends a number with up to 17 digits, as `%.17g` does: the same number comes of it.
pub(crate) fn push_number(text: &mut Vec<u8>, number: f64) {
    use std::io::Write;

    const DIGITS: i32 = 17;
    if number.fract() == 0.0 && number.abs() < 1e15 && !(number == 0.0 && number.is_sign_negative()) {
        write!(text, "{}", number as i64).expect("a vector takes all bytes");
        return;
    }
    if !number.is_finite() {
        let sign = if number.is_sign_negative() { "-" } else { "" };
        let name = if number.is_nan() { "nan" } else { "inf" };
        text.extend_from_slice(format!("{sign}{name}").as_bytes());
        return;
    }
    // One digit, a point, sixteen digits, `e`, the exponent.
    let scientific = format!("{number:.16e}");
    let (digits, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is an integer");
    let written = if (-4..DIGITS).contains(&exponent) {
        let decimals = (DIGITS - 1 - exponent) as usize;
        without_zeros(&format!("{number:.decimals$}")).to_owned()
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", without_zeros(digits), exponent.abs())
    };
    text.extend_from_slice(written.as_bytes());
}

fn without_zeros(decimal: &str) -> &str {
    if decimal.contains('.') { decimal.trim_end_matches('0').trim_end_matches('.') } else { decimal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(number: f64) -> String {
        let mut text = Vec::new();
        push_number(&mut text, number);
        String::from_utf8(text).expect("it is ASCII")
    }

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        let cases = [
            (3.0, "3"),
            (-7.0, "-7"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (0.1, "0.10000000000000001"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e20, "1e+20"),
            (1e-5, "1.0000000000000001e-05"),
            (0.0001, "0.0001"),
            (1e300, "1.0000000000000001e+300"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (number, expected) in cases {
            assert_eq!(text(number), expected);
        }
    }

    proptest! {
        #[test]
        fn the_text_of_a_number_is_that_number(number in any::<f64>()) {
            if number.is_finite() {
                let read: f64 = text(number).parse().expect("it is a number");
                prop_assert_eq!(read.to_bits(), number.to_bits());
            }
        }
    }
}
