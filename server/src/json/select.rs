//! Selects values of a document by a path, and changes the selected values.
//!
//! Each value is selected once, however often a path says it, so what is selected is bounded by the document:
//! `$..*..*..*` is no more work than the document is long, for each of its segments.
//!
//! A change goes through the document once more. Values are known by their numbers then, counted from the
//! root in the order of the text: a list of places would have the name of an object as often as the object
//! has members.

use std::collections::{HashMap, HashSet};
use std::iter::Peekable;
use std::vec;

use serde_json::Value;

use super::path::{Path, Segment, Selector};

/// Values by where they are in memory.
type Seen = HashSet<*const Value>;

impl Path {
    /// The values that it selects of a document, in the order of the path.
    pub fn select<'d>(&self, root: &'d Value) -> Vec<&'d Value> {
        select(root, &self.segments)
    }
}

/// The values that segments select of a document.
pub fn select<'d>(root: &'d Value, segments: &[Segment]) -> Vec<&'d Value> {
    segments.iter().fold(vec![root], |values, segment| {
        let mut step =
            SegmentStep { segment, selected: Vec::new(), seen: Seen::new(), descended: Seen::new() };
        values.into_iter().for_each(|value| step.try_on(value));
        step.selected
    })
}

/// One segment, while it is tried on what those before it have selected.
struct SegmentStep<'s, 'd> {
    segment: &'s Segment,
    selected: Vec<&'d Value>,
    /// The values selected so far, if a value can be selected twice.
    seen: Seen,
    /// The values visited so far, if the segment descends.
    descended: Seen,
}

impl<'d> SegmentStep<'_, 'd> {
    /// Tries the segment on a value, and on all below it if it descends.
    fn try_on(&mut self, value: &'d Value) {
        let Segment { descends, ref selectors } = *self.segment;
        if descends && !self.descended.insert(value) {
            return;
        }
        for selector in selectors {
            children(value, selector, &mut |child| {
                if !(descends || selectors.len() > 1) || self.seen.insert(child) {
                    self.selected.push(child);
                }
            });
        }
        if descends {
            children(value, &Selector::All, &mut |child| {
                if child.is_object() || child.is_array() {
                    self.try_on(child);
                }
            });
        }
    }
}

/// Calls `visit` with each value that a selector selects of those in `value`.
fn children<'d>(value: &'d Value, selector: &Selector, visit: &mut dyn FnMut(&'d Value)) {
    match (value, selector) {
        (Value::Object(members), Selector::Name(name)) => members.get(name).into_iter().for_each(visit),
        (Value::Object(members), Selector::All) => members.values().for_each(visit),
        (Value::Array(elements), Selector::Index(index)) => {
            let index = place_of(*index, elements.len());
            index.and_then(|index| elements.get(index)).into_iter().for_each(visit);
        }
        (Value::Array(elements), Selector::Slice(start, end, step)) => {
            let bound = |at: i64| place_of(at, elements.len()).unwrap_or(0).min(elements.len());
            let (start, end) = (start.map_or(0, bound), end.map_or(elements.len(), bound));
            elements[start.min(end)..end].iter().step_by(*step).for_each(visit);
        }
        (Value::Array(elements), Selector::All) => elements.iter().for_each(visit),
        (Value::Object(_) | Value::Array(_), Selector::Filter(filter)) => {
            filter.query(value).all().into_iter().for_each(visit);
        }
        _ => {}
    }
}

/// The place that an index says, from the end if it is negative; `None` before the first.
fn place_of(index: i64, len: usize) -> Option<usize> {
    let distance = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
    if index < 0 { len.checked_sub(distance) } else { Some(distance) }
}

/// The change of a selected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stays, changed or not.
    Stays,
    /// It goes. The root stays, whatever is said of it.
    Goes,
}

/// Which values are to be changed: their numbers, rising, and which of the selected each is.
pub struct Marks(Vec<(usize, usize)>);

impl Marks {
    /// Marks what was selected; not what is within something selected, if only the outermost are wanted.
    pub fn new(root: &Value, selected: &[&Value], only_outermost: bool) -> Marks {
        let by_place =
            selected.iter().enumerate().map(|(at, value)| (std::ptr::from_ref(*value), at)).collect();
        let mut marks = Marks(Vec::with_capacity(selected.len()));
        marks.add(root, &by_place, only_outermost, &mut 0);
        marks
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(
        &mut self,
        value: &Value,
        by_place: &HashMap<*const Value, usize>,
        only_outermost: bool,
        number: &mut usize,
    ) {
        let found = by_place.get(&std::ptr::from_ref(value));
        self.0.extend(found.map(|at| (*number, *at)));
        *number += 1;
        let nothing = HashMap::new();
        let within = if only_outermost && found.is_some() { &nothing } else { by_place };
        children(value, &Selector::All, &mut |child| self.add(child, within, only_outermost, number));
    }

    /// Calls `change` with each marked value and which of the selected it is, those within others first.
    pub fn change<E>(
        self,
        root: &mut Value,
        change: &mut impl FnMut(&mut Value, usize) -> Result<Fate, E>,
    ) -> Result<(), E> {
        let mut walk = Walk { marks: self.0.into_iter().peekable(), number: 0, change, error: None };
        walk.pass(root);
        walk.error.map_or(Ok(()), Err)
    }
}

/// A way through a document that is changed.
struct Walk<'c, C, E> {
    marks: Peekable<vec::IntoIter<(usize, usize)>>,
    number: usize,
    change: &'c mut C,
    error: Option<E>,
}

impl<C: FnMut(&mut Value, usize) -> Result<Fate, E>, E> Walk<'_, C, E> {
    /// Changes what is marked of a value and of all within it; says whether it stays.
    fn pass(&mut self, value: &mut Value) -> bool {
        if self.error.is_some() || self.marks.peek().is_none() {
            return true;
        }
        let number = self.number;
        let mark = self.marks.next_if(|(marked, _)| *marked == number);
        self.number += 1;
        match value {
            Value::Array(elements) => elements.retain_mut(|element| self.pass(element)),
            Value::Object(members) => members.retain(|_, member| self.pass(member)),
            _ => {}
        }
        let Some((_, at)) = mark else { return true };
        match (self.change)(value, at) {
            Ok(fate) => fate == Fate::Stays,
            Err(error) => {
                self.error = Some(error);
                true
            }
        }
    }
}
