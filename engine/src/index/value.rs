//! The sort keys of an index: bytes whose order is that of the values.

use smallvec::SmallVec;
use std::fmt;

/// Bytes of a text that count for the order of an index; what is longer is cut there.
pub const TEXT_BYTES_MAX: usize = 1024;

const SIGN: u64 = 1 << 63;

/// A value in an index. All of one index must be made by the same function of these.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexValue(SmallVec<[u8; 16]>);

impl IndexValue {
    /// A number; `None` for what is none, as it has no place in an order. Both zeros are the same.
    pub fn number(number: f64) -> Option<IndexValue> {
        if number.is_nan() {
            return None;
        }
        // Adding makes the negative zero positive.
        let bits = (number + 0.0).to_bits();
        // Negative numbers grow towards zero while their bits fall.
        let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
        Some(IndexValue(SmallVec::from_slice(&ordered.to_be_bytes())))
    }

    /// An integer.
    pub fn integer(integer: i64) -> IndexValue {
        IndexValue(SmallVec::from_slice(&(integer as u64 ^ SIGN).to_be_bytes()))
    }

    /// A text, or other bytes, in the order of the bytes. Behind [`TEXT_BYTES_MAX`] it is cut: those that are
    /// the same up to there have the same place, so a reader of a range looks at the entries again.
    pub fn text(bytes: &[u8]) -> IndexValue {
        IndexValue(SmallVec::from_slice(&bytes[..bytes.len().min(TEXT_BYTES_MAX)]))
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> IndexValue {
        IndexValue(SmallVec::from_slice(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The number, if it was made of one.
    pub fn as_number(&self) -> Option<f64> {
        let ordered = u64::from_be_bytes(self.0[..].try_into().ok()?);
        let bits = if ordered & SIGN == 0 { !ordered } else { ordered & !SIGN };
        Some(f64::from_bits(bits))
    }

    /// The integer, if it was made of one.
    pub fn as_integer(&self) -> Option<i64> {
        Some((u64::from_be_bytes(self.0[..].try_into().ok()?) ^ SIGN) as i64)
    }
}

impl fmt::Debug for IndexValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    fn any_number() -> impl Strategy<Value = f64> {
        use prop::num::f64::{INFINITE, NORMAL, SUBNORMAL, ZERO};
        prop_oneof![NORMAL | SUBNORMAL | ZERO | INFINITE, (-9i8..9).prop_map(f64::from)]
    }

    proptest! {
        #[test]
        fn numbers_are_in_order(a in any_number(), b in any_number()) {
            let [in_a, in_b] = [a, b].map(|number| IndexValue::number(number).unwrap());
            prop_assert_eq!(Some(in_a.cmp(&in_b)), a.partial_cmp(&b));
            prop_assert_eq!(in_a.as_number(), Some(a));
        }

        #[test]
        fn integers_are_in_order(a: i64, b: i64) {
            let [in_a, in_b] = [a, b].map(IndexValue::integer);
            prop_assert_eq!(in_a.cmp(&in_b), a.cmp(&b));
            prop_assert_eq!(in_a.as_integer(), Some(a));
        }

        #[test]
        fn texts_are_in_order(a: Vec<u8>, b: Vec<u8>) {
            let [in_a, in_b] = [&a, &b].map(|text| IndexValue::text(text));
            prop_assert_eq!(in_a.cmp(&in_b), a.cmp(&b));
            prop_assert_eq!(in_a.as_bytes(), &a[..]);
        }
    }

    #[test]
    fn what_is_no_number_has_no_place() {
        assert_eq!(IndexValue::number(f64::NAN), None);
        assert_eq!(IndexValue::number(-f64::NAN), None);
        assert_eq!(IndexValue::number(-0.0), IndexValue::number(0.0));
    }

    #[test]
    fn long_texts_are_cut_and_stay_in_order() {
        let [shorter, longer] = [TEXT_BYTES_MAX, 5_000].map(|len| IndexValue::text(&vec![b'x'; len]));
        assert_eq!(shorter, longer);
        assert!(IndexValue::text(b"w") < longer && longer < IndexValue::text(b"y"));
    }
}
