//! Ranges of the values of a column, and whether NULL is among them.

use std::ops::RangeInclusive;

use crate::table::datum::{Datum, number_of_order};

/// A place between values: before one, or after it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    /// The value, by its order.
    pub value: Vec<u8>,
    /// Whether the place is after it.
    pub behind: bool,
}

impl Edge {
    const FIRST: Edge = Edge { value: Vec::new(), behind: false };
}

/// Values from one edge to another; `None`: to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Where it begins.
    pub from: Edge,
    /// Where it ends.
    pub to: Option<Edge>,
}

impl Range {
    fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }

    /// The value, if it is the only one.
    pub(crate) fn only(&self) -> Option<&[u8]> {
        let to = self.to.as_ref()?;
        (!self.from.behind && to.behind && self.from.value == to.value).then_some(&self.from.value)
    }
}

/// Wanted values of a column: ranges in their order, none touching another, and perhaps NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranges {
    ranges: Vec<Range>,
    null: bool,
}

impl Ranges {
    /// NULL.
    pub(crate) const NULL: Ranges = Ranges { ranges: Vec::new(), null: true };

    /// All values but NULL.
    pub(crate) fn values() -> Ranges {
        Ranges { ranges: vec![Range { from: Edge::FIRST, to: None }], null: false }
    }

    /// Values from `from` to `to`.
    pub(crate) fn between(from: Option<Edge>, to: Option<Edge>) -> Ranges {
        Ranges::of(vec![Range { from: from.unwrap_or(Edge::FIRST), to }], false)
    }

    /// One value.
    pub(crate) fn one(value: Vec<u8>) -> Ranges {
        Ranges::any_of(vec![value])
    }

    /// Each of these values.
    pub(crate) fn any_of(values: Vec<Vec<u8>>) -> Ranges {
        let point = |value: Vec<u8>| {
            let from = Edge { value: value.clone(), behind: false };
            Range { from, to: Some(Edge { value, behind: true }) }
        };
        Ranges::of(values.into_iter().map(point).collect(), false)
    }

    /// Values that begin so.
    pub(crate) fn beginning_with(prefix: &[u8]) -> Ranges {
        let mut end = prefix.to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let to = end.last_mut().map(|last| *last += 1).is_some();
        let to = to.then_some(Edge { value: end, behind: false });
        Ranges::between(Some(Edge { value: prefix.to_vec(), behind: false }), to)
    }

    fn of(mut ranges: Vec<Range>, null: bool) -> Ranges {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_by(|a, b| a.from.cmp(&b.from));
        let mut merged: Vec<Range> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(Range { to: None, .. }) => break,
                Some(Range { to: Some(end), .. }) if *end >= range.from => {
                    if range.to.as_ref().is_none_or(|to| to > end) {
                        let last = merged.last_mut().expect("there is one");
                        last.to = range.to;
                    }
                }
                _ => merged.push(range),
            }
        }
        Ranges { ranges: merged, null }
    }

    /// The ranges, in their order.
    pub(crate) fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// Whether NULL is wanted.
    pub(crate) fn has_null(&self) -> bool {
        self.null
    }

    /// The values, if they are given one by one.
    pub(crate) fn points(&self) -> Option<Vec<&[u8]>> {
        if self.null {
            return None;
        }
        self.ranges.iter().map(Range::only).collect()
    }

    /// Whether a value is wanted.
    #[inline]
    pub(crate) fn contain(&self, datum: &Datum<'_>) -> bool {
        datum.in_order(|value| self.contain_value(value)).unwrap_or(self.null)
    }

    fn contain_value(&self, value: &[u8]) -> bool {
        // The last range that begins before the value or at it.
        let behind = self.ranges.partition_point(|range| {
            let order = range.from.value.as_slice().cmp(value);
            order.is_lt() || (order.is_eq() && !range.from.behind)
        });
        let Some(range) = behind.checked_sub(1).map(|at| &self.ranges[at]) else { return false };
        range.to.as_ref().is_none_or(|to| {
            let order = value.cmp(&to.value);
            order.is_lt() || (order.is_eq() && to.behind)
        })
    }

    /// The same for whole numbers. REQUIRES: they are ranges of such.
    pub(crate) fn numbers(&self) -> Vec<RangeInclusive<i64>> {
        let numbers = |range: &Range| {
            let from = match number_of_order(&range.from.value) {
                // Before all values.
                None => i64::MIN,
                Some(from) if range.from.behind => from.checked_add(1)?,
                Some(from) => from,
            };
            let to = match &range.to {
                None => i64::MAX,
                Some(to) if to.behind => number_of_order(&to.value)?,
                Some(to) => number_of_order(&to.value)?.checked_sub(1)?,
            };
            Some(from..=to)
        };
        self.ranges.iter().filter_map(numbers).collect()
    }

    /// The values in one of them, or in both.
    pub(crate) fn or(self, other: Ranges) -> Ranges {
        let mut ranges = self.ranges;
        ranges.extend(other.ranges);
        Ranges::of(ranges, self.null || other.null)
    }

    /// The values in both.
    pub(crate) fn and(&self, other: &Ranges) -> Ranges {
        let (mut a, mut b) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        let mut ranges = Vec::new();
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            let (from, x_is_first) = (x.from.clone().max(y.from.clone()), ends_before(x, y));
            let to = if x_is_first { x.to.clone() } else { y.to.clone() };
            ranges.push(Range { from, to });
            if x_is_first {
                a.next()
            } else {
                b.next()
            };
        }
        Ranges::of(ranges, self.null && other.null)
    }

    /// All values that are in none of them, but not NULL: a comparison with NULL is never true.
    pub(crate) fn not(&self) -> Ranges {
        let mut ranges = Vec::new();
        let mut from = Some(Edge::FIRST);
        for range in &self.ranges {
            if let Some(from) = from {
                ranges.push(Range { from, to: Some(range.from.clone()) });
            }
            from = range.to.clone();
        }
        ranges.extend(from.map(|from| Range { from, to: None }));
        Ranges::of(ranges, false)
    }
}

fn ends_before(a: &Range, b: &Range) -> bool {
    match (&a.to, &b.to) {
        (Some(a), Some(b)) => a < b,
        (a, _) => a.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::borrow::Cow;

    fn any_edge() -> impl Strategy<Value = Edge> {
        (proptest::collection::vec(0u8..3, 0..3), any::<bool>())
            .prop_map(|(value, behind)| Edge { value, behind })
    }

    fn any_ranges() -> impl Strategy<Value = Ranges> {
        let range = (proptest::option::of(any_edge()), proptest::option::of(any_edge()));
        let ranges = proptest::collection::vec(range, 0..4);
        (ranges, any::<bool>()).prop_map(|(ranges, null)| {
            let start = if null { Ranges::NULL } else { Ranges::any_of(Vec::new()) };
            ranges.into_iter().fold(start, |all, (from, to)| all.or(Ranges::between(from, to)))
        })
    }

    fn any_number() -> impl Strategy<Value = i64> {
        prop_oneof![-3i64..3, i64::MIN..i64::MIN + 3, i64::MAX - 2..=i64::MAX]
    }

    fn any_edge_of_numbers() -> impl Strategy<Value = (i64, bool)> {
        (any_number(), any::<bool>())
    }

    fn within(ranges: &Ranges, value: &[u8]) -> bool {
        ranges.contain(&Datum::Bytes(Cow::Borrowed(value)))
    }

    proptest! {
        #[test]
        fn sets_of_values_are_combined(
            a in any_ranges(),
            b in any_ranges(),
            value in proptest::collection::vec(0u8..3, 0..4),
        ) {
            let [in_a, in_b] = [&a, &b].map(|ranges| within(ranges, &value));
            prop_assert_eq!(within(&a.and(&b), &value), in_a && in_b);
            prop_assert_eq!(within(&a.clone().or(b.clone()), &value), in_a || in_b);
            prop_assert_eq!(within(&a.not(), &value), !in_a);
            prop_assert_eq!(a.and(&b).contain(&Datum::Null), a.has_null() && b.has_null());
            prop_assert!(!a.not().contain(&Datum::Null));
            prop_assert_eq!(a.not().not(), Ranges { null: false, ..a });
        }

        #[test]
        fn a_prefix_is_a_range(prefix in proptest::collection::vec(253u8.., 0..3), value: Vec<u8>) {
            let ranges = Ranges::beginning_with(&prefix);
            prop_assert_eq!(within(&ranges, &value), value.starts_with(&prefix));
            let longer = [&prefix[..], &value].concat();
            prop_assert!(within(&ranges, &longer));
        }

        #[test]
        fn values_one_by_one(values: Vec<Vec<u8>>, other: Vec<u8>) {
            let ranges = Ranges::any_of(values.clone());
            prop_assert_eq!(within(&ranges, &other), values.contains(&other));
            for value in &values {
                prop_assert!(within(&ranges, value));
            }
        }

        #[test]
        fn ranges_of_numbers_contain_the_same_as_numbers_and_as_bytes(
            edges in proptest::collection::vec((any_edge_of_numbers(), any_edge_of_numbers()), 0..4),
            inverted: bool,
            number in any_number(),
        ) {
            let edge = |(number, behind): (i64, bool)| {
                let value = Datum::Int(number).in_order(<[u8]>::to_vec).expect("it is not NULL");
                Some(Edge { value, behind })
            };
            let mut ranges = Ranges::any_of(Vec::new());
            for (from, to) in edges {
                ranges = ranges.or(Ranges::between(edge(from), edge(to)));
            }
            if inverted {
                ranges = ranges.not();
            }
            let among_numbers = ranges.numbers().iter().any(|range| range.contains(&number));
            prop_assert_eq!(among_numbers, ranges.contain(&Datum::Int(number)));
        }

        #[test]
        fn values_are_in_their_order(a: f64, b: f64, c: i64, d: i64) {
            let order = |datum: Datum<'_>| datum.in_order(<[u8]>::to_vec);
            prop_assert_eq!(Some(order(Datum::Float(a)).cmp(&order(Datum::Float(b)))), a.partial_cmp(&b));
            prop_assert_eq!(order(Datum::Float(0.0)), order(Datum::Float(-0.0)));
            prop_assert_eq!(order(Datum::Int(c)).cmp(&order(Datum::Int(d))), c.cmp(&d));
            let [wide, other] = [c, d].map(|number| i128::from(number) << 40);
            prop_assert_eq!(order(Datum::Decimal(wide)).cmp(&order(Datum::Decimal(other))), wide.cmp(&other));
        }
    }
}
