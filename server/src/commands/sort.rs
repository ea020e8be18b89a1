//! `SORT`: the elements of a list, a set or a sorted set in order, by themselves or by what other keys hold.
//!
//! ```text
//!   SORT ids BY weight_* GET name_*->full     element 7 is placed by the string at weight_7
//!                                             and shown as field full of the hash at name_7
//! ```
//!
//! Keys that come of patterns cannot be declared, so a request with such patterns has the store for itself.

use std::borrow::Cow;
use std::cmp::Ordering;

use tarn_engine::record::{Change, Kind};
use tarn_engine::value::{ImageBuilder, ValueRef};
use tarn_resp::{Args, Writer};

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::rights::may_read_every_key;
use crate::execute::spec::{Flags, KeySpec};
use crate::execute::steps::{Steps, at_once};
use crate::execute::storing::Storing;

const CATEGORIES: &[&str] = &["@set", "@sortedset", "@list", "@dangerous"];
const COMPLEXITY: &str = "O(N+M*log(M)) for N elements of which M are returned";
const KEY: KeySpec = KeySpec::one(&["RO", "access"]);
/// Keys that come of patterns; no argument is one.
const OF_PATTERNS: KeySpec = KeySpec::found(|_| None, &["RO", "access"]);
const STORE_TARGET: KeySpec = KeySpec::found(store_target, &["OW", "update"]);

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row(
        "sort",
        -2,
        Flags::WRITE.with(Flags::DENYOOM).with(Flags::MOVABLEKEYS),
        "1.0.0",
        "Sorts the elements of a list, a set or a sorted set.",
        sort,
    )
    .categories(CATEGORIES)
    .keys(&[KEY, OF_PATTERNS, STORE_TARGET])
    .alone_if(|args| looks_at_other_keys(args, true))
    .complexity(COMPLEXITY),
    row(
        "sort_ro",
        -2,
        Flags::READONLY.with(Flags::MOVABLEKEYS),
        "7.0.0",
        "Sorts the elements of a list, a set or a sorted set, and never stores the result.",
        sort_ro,
    )
    .categories(CATEGORIES)
    .keys(&[KEY, OF_PATTERNS])
    .alone_if(|args| looks_at_other_keys(args, false))
    .complexity(COMPLEXITY),
];

/// The options after the key.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options<'a> {
    descending: bool,
    alphabetic: bool,
    /// First element and number of elements; a negative number means all.
    limit: Option<(i64, i64)>,
    by: Option<&'a [u8]>,
    /// `BY` a constant, once, even if a pattern follows: the elements keep the order that they have.
    keeps_order: bool,
    get: Vec<&'a [u8]>,
    /// Index of the argument that names the list to be stored.
    store_at: Option<usize>,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>, may_store: bool) -> Result<Options<'a>, CommandError> {
        let mut options = Options::default();
        let mut words = args.iter().enumerate().skip(2);
        while let Some((index, word)) = words.next() {
            let mut argument = || words.next().map(|(_, word)| word).ok_or(CommandError::Syntax);
            match word {
                _ if word.eq_ignore_ascii_case(b"asc") => options.descending = false,
                _ if word.eq_ignore_ascii_case(b"desc") => options.descending = true,
                _ if word.eq_ignore_ascii_case(b"alpha") => options.alphabetic = true,
                _ if word.eq_ignore_ascii_case(b"limit") => {
                    let (start, count) = (argument()?, argument()?);
                    options.limit = Some((parse::integer(start)?, parse::integer(count)?));
                }
                _ if word.eq_ignore_ascii_case(b"by") => {
                    let pattern = argument()?;
                    options.by = Some(pattern);
                    options.keeps_order |= !has_star(pattern);
                }
                _ if word.eq_ignore_ascii_case(b"get") => options.get.push(argument()?),
                _ if may_store && word.eq_ignore_ascii_case(b"store") => {
                    argument()?;
                    options.store_at = Some(index + 1);
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(options)
    }

    /// Whether the request looks at other keys.
    fn has_patterns(&self) -> bool {
        self.by.iter().chain(&self.get).any(|pattern| has_star(pattern))
    }

    /// The patterns of what is shown of an element.
    fn shown(&self) -> &[&'a [u8]] {
        const OWN: &[&[u8]] = &[b"#"];
        if self.get.is_empty() { OWN } else { &self.get }
    }

    /// The range of `len` elements that the limit leaves.
    fn range(&self, len: usize) -> std::ops::Range<usize> {
        let (start, count) = self.limit.unwrap_or((0, -1));
        let start = usize::try_from(start).unwrap_or(0).min(len);
        let count = usize::try_from(count).unwrap_or(len);
        start..start.saturating_add(count).min(len)
    }
}

fn has_star(pattern: &[u8]) -> bool {
    pattern.contains(&b'*')
}

fn looks_at_other_keys(args: Args<'_>, may_store: bool) -> bool {
    Options::parse(args, may_store).is_ok_and(|options| options.has_patterns())
}

fn store_target(args: Args<'_>) -> Option<usize> {
    Options::parse(args, true).ok()?.store_at
}

fn sort<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let options = Options::parse(args, true)?;
    refuse_other_keys(cx, args, &options)?;
    run(cx, args, &options)
}

/// Refuses options that look at other keys, if the user may not read all of them.
fn refuse_other_keys(
    cx: &Context<'_, '_>,
    args: Args<'_>,
    options: &Options<'_>,
) -> Result<(), CommandError> {
    let sorts_by_others = options.by.is_some_and(has_star);
    // As in Redis 7.0, with any pattern.
    if !sorts_by_others && options.get.is_empty()
        || may_read_every_key(cx.server, cx.client, super::table(), args)
    {
        return Ok(());
    }
    Err(CommandError::text(if sorts_by_others {
        "ERR BY option of SORT denied due to insufficient ACL permissions."
    } else {
        "ERR GET option of SORT denied due to insufficient ACL permissions."
    }))
}

fn sort_ro<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let options = Options::parse(args, false)?;
    refuse_other_keys(cx, args, &options)?;
    run(cx, args, &options)
}

fn run<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>, options: &Options<'a>) -> Result<(), CommandError> {
    let entry = cx.entry(args.at(1));
    if options.store_at.is_none()
        && !options.has_patterns()
        && let Some(entry) = entry
        && cx.runs_long([(entry, entry.count().saturating_mul(options.shown().len()))].into_iter())
    {
        let (copy, args) = (cx.keys.copy(entry), args.to_owned());
        cx.run_in_steps(entry.count(), async move |steps| {
            let options = Options::parse(args.as_args(), true)?;
            let elements = sorted(&steps, None, Some(copy.value()), &options).await?;
            steps.hold(size_of_val(&elements[..]))?;
            let patterns = options.shown();
            steps.reply(|reply| reply.array(elements.len() * patterns.len()));
            let shown =
                elements.iter().flat_map(|element| patterns.iter().map(|get| look_up(None, get, element)));
            steps.each(shown, write_value).await;
            Ok(())
        });
        return Ok(());
    }
    if let Some(target) = options.store_at.map(|index| args.at(index))
        && !options.has_patterns()
    {
        if let Some(elements) = cx.put_ready(cx.db, target) {
            cx.reply.integer(elements as i64);
            return Ok(());
        }
        if let Some(entry) = entry
            && cx.may_prepare(target)
            && cx.runs_long([(entry, entry.count().saturating_mul(options.shown().len()))].into_iter())
        {
            let (key, copy, args, target) =
                (args.at(1), cx.keys.copy(entry), args.to_owned(), (cx.db, target));
            let gathered = entry.count();
            return cx.prepare(target, Kind::List, &[key], gathered, async move |steps, preparing| {
                let options = Options::parse(args.as_args(), true)?;
                let elements = sorted(&steps, None, Some(copy.value()), &options).await?;
                let mut storing = Storing::new(steps, preparing, Kind::List);
                for element in elements {
                    for get in options.shown() {
                        let shown = look_up(None, get, element).unwrap_or_default();
                        storing.element(&shown).await?;
                    }
                }
                storing.end().await
            });
        }
    }
    let value = entry.map(|entry| entry.value());
    let elements = at_once(async |steps| sorted(steps, Some(cx), value, options).await)?;
    let patterns = options.shown();
    let shown =
        elements.iter().flat_map(|element| patterns.iter().map(|get| look_up(Some(cx), get, element)));
    match options.store_at.map(|index| args.at(index)) {
        None => {
            let shown: Vec<_> = shown.collect();
            cx.reply.array(shown.len());
            shown.into_iter().for_each(|value| write_value(&mut cx.reply, value));
        }
        Some(target) => {
            let mut list = ImageBuilder::new(Kind::List);
            shown.for_each(|value| list.push_element(&value.unwrap_or_default()));
            let len = list.len();
            if len > 0 {
                let elements = list.finish().into();
                cx.write(target, Change::Image { kind: Kind::List, elements, expiry: None, sticky: false });
            } else if cx.entry(target).is_some() {
                cx.write(target, Change::Delete);
            }
            cx.reply.integer(len as i64);
        }
    }
    Ok(())
}

fn write_value(reply: &mut Writer<'_>, value: Option<Cow<'_, [u8]>>) {
    match value {
        Some(value) => reply.bulk(&value),
        None => reply.null(),
    }
}

/// The elements that the limit leaves, in order. `cx` is for the keys of patterns.
async fn sorted<'c>(
    steps: &Steps,
    cx: Option<&Context<'c, '_>>,
    value: Option<ValueRef<'c>>,
    options: &Options<'_>,
) -> Result<Vec<&'c [u8]>, CommandError> {
    let is_set = matches!(value, Some(ValueRef::Set(_)));
    // A set has no order that could be kept in the stored list; then it is sorted as if by its members.
    let (keeps_order, alphabetic, by) = match (options.keeps_order, is_set && options.store_at.is_some()) {
        (true, true) => (false, true, None),
        (true, false) => (true, options.alphabetic, None),
        (false, _) => (false, options.alphabetic, options.by),
    };
    let turned = keeps_order && options.descending;
    let last = usize::MAX;
    let mut elements = match value {
        None => Vec::new(),
        Some(ValueRef::List(list)) if turned => steps.collect(list.rev_iter_from(last), list.len()).await,
        Some(ValueRef::List(list)) => steps.collect(list.iter_from(0), list.len()).await,
        Some(ValueRef::Set(set)) => steps.collect(set.iter(), set.len()).await,
        Some(ValueRef::ZSet(zset)) if turned => {
            steps.collect(zset.rev_iter_from(last).map(|(member, _)| member), zset.len()).await
        }
        Some(ValueRef::ZSet(zset)) => {
            steps.collect(zset.iter_from(0).map(|(member, _)| member), zset.len()).await
        }
        Some(ValueRef::String(_) | ValueRef::Hash(_) | ValueRef::Json(_) | ValueRef::Stream(_)) => {
            return Err(CommandError::WrongType);
        }
    };
    if !keeps_order {
        let texts = by.map(|by| elements.iter().map(|element| look_up(cx, by, element)).collect::<Vec<_>>());
        let mut weighed = Vec::with_capacity(elements.len());
        for (index, element) in elements.iter().enumerate() {
            let text = texts.as_ref().map_or(Some(*element), |texts| texts[index].as_deref());
            let mut one = Weighed::of(element, text, alphabetic)?;
            if options.store_at.is_none() {
                one.collate();
            }
            weighed.push(one);
            steps.pass(2).await;
        }
        if options.descending {
            steps.sort(&mut weighed, |a, b| b.compare(a)).await;
        } else {
            steps.sort(&mut weighed, Weighed::compare).await;
        }
        for (element, weighed) in elements.iter_mut().zip(&weighed) {
            *element = weighed.element;
            steps.pass(1).await;
        }
    }
    let range = options.range(elements.len());
    elements.truncate(range.end);
    elements.drain(..range.start);
    Ok(elements)
}

/// The sort key of an element.
#[derive(Clone, Copy)]
enum Weight<'t> {
    Number(f64),
    /// `None` comes before everything.
    Text(Option<&'t [u8]>),
}

#[derive(Clone, Copy)]
struct Weighed<'c, 't> {
    element: &'c [u8],
    weight: Weight<'t>,
}

impl<'c, 't> Weighed<'c, 't> {
    /// An element that a text gives its weight.
    fn of(element: &'c [u8], text: Option<&'t [u8]>, alphabetic: bool) -> Result<Self, CommandError> {
        let weight =
            if alphabetic { Weight::Text(text) } else { Weight::Number(text.map_or(Ok(0.0), number)?) };
        Ok(Weighed { element, weight })
    }

    /// Shortens a text to what C's `strcoll` sees of it, which is what Redis compares if nothing is stored.
    fn collate(&mut self) {
        if let Weight::Text(Some(text)) = &mut self.weight {
            *text = as_c_string(text);
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (&self.weight, &other.weight) {
            (Weight::Text(a), Weight::Text(b)) => a.cmp(b),
            (Weight::Number(a), Weight::Number(b)) => {
                // Never NaN; elements of the same weight are ordered among themselves.
                a.partial_cmp(b).unwrap_or(Ordering::Equal).then_with(|| self.element.cmp(other.element))
            }
            _ => Ordering::Equal,
        }
    }
}

/// A text as far as C's functions for strings read it.
fn as_c_string(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or(text)
}

/// Reads a weight: as other numbers, but spaces in front are skipped, a zero byte ends it, and nothing is 0.
fn number(text: &[u8]) -> Result<f64, CommandError> {
    const NO_NUMBER: &str = "ERR One or more scores can't be converted into double";
    let text = as_c_string(text);
    match text.trim_ascii_start() {
        [] if text.is_empty() => Ok(0.0),
        trimmed => parse::float_or(trimmed, NO_NUMBER),
    }
}

/// The value of a pattern for an element: the element itself for `#`, else the string at the key that has the
/// element in the place of the first `*`, or the field of the hash there if `->` and a field follow.
/// Without `cx`, no keys are looked at.
fn look_up<'c>(cx: Option<&Context<'_, '_>>, pattern: &[u8], element: &'c [u8]) -> Option<Cow<'c, [u8]>> {
    if pattern == b"#" {
        return Some(Cow::Borrowed(element));
    }
    let (key, field) = key_and_field(pattern, element)?;
    let cx = cx?;
    cx.keys.peek(cx.db, &key, |entry| match (entry?.value(), field) {
        (ValueRef::String(value), None) => Some(value.to_vec().into()),
        (ValueRef::Hash(hash), Some(field)) => {
            hash.at(cx.now()).get(field).map(|value| value.to_vec().into())
        }
        _ => None,
    })
}

fn key_and_field<'p>(pattern: &'p [u8], element: &[u8]) -> Option<(Vec<u8>, Option<&'p [u8]>)> {
    let star = pattern.iter().position(|byte| *byte == b'*')?;
    let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = behind.windows(2).position(|pair| pair == b"->").filter(|at| at + 2 < behind.len());
    let (behind, field) = match arrow {
        Some(at) => (&behind[..at], Some(&behind[at + 2..])),
        None => (behind, None),
    };
    Some(([before, element, behind].concat(), field))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use tarn_resp::OwnedArgs;

    fn parse(line: &str, may_store: bool) -> Result<(bool, Option<Vec<u8>>), CommandError> {
        let args: OwnedArgs = line.split(' ').collect();
        let args = args.as_args();
        let options = Options::parse(args, may_store)?;
        Ok((looks_at_other_keys(args, may_store), options.store_at.map(|index| args.at(index).to_vec())))
    }

    #[test]
    fn only_patterns_with_a_star_need_other_keys() {
        for (line, other) in [
            ("sort k", false),
            ("sort k by nosort get #", false),
            ("sort k get name_*", true),
            ("sort k by w_*->f desc", true),
            ("sort k by a* limit 0 1 alpha", true),
        ] {
            assert_eq!(parse(line, false).unwrap(), (other, None), "{line}");
        }
        assert_eq!(parse("sort k store a get b store c", true).unwrap(), (false, Some(b"c".to_vec())));
        for line in ["sort k store c", "sort k limit 1", "sort k by", "sort k x"] {
            assert_eq!(parse(line, false), Err(CommandError::Syntax), "{line}");
        }
    }

    #[test]
    fn patterns_name_keys_and_fields() {
        let (key, field) = key_and_field(b"w_*_*->f->g", b"7").unwrap();
        assert_eq!((key, field), (b"w_7_*".to_vec(), Some(&b"f->g"[..])));
        assert_eq!(key_and_field(b"w_*->", b"7").unwrap(), (b"w_7->".to_vec(), None));
        assert_eq!(key_and_field(b"a->*", b"7").unwrap(), (b"a->7".to_vec(), None));
        assert!(key_and_field(b"constant", b"7").is_none());
    }

    #[test]
    fn limits_are_cut_to_the_elements() {
        let range = |limit| Options { limit, ..Options::default() }.range(5);
        assert_eq!(range(None), 0..5);
        assert_eq!(range(Some((1, 2))), 1..3);
        assert_eq!(range(Some((-3, 2))), 0..2);
        assert_eq!(range(Some((3, -1))), 3..5);
        assert!(range(Some((9, 1))).is_empty() && range(Some((0, 0))).is_empty());
        assert_eq!(range(Some((1, i64::MAX))), 1..5);
    }

    #[test]
    fn weights_are_read_with_spaces_in_front_only() {
        assert_eq!(number(b"  1.5").unwrap(), 1.5);
        assert_eq!(number(b"").unwrap(), 0.0);
        assert!(number(b"1 ").is_err() && number(b"x").is_err() && number(b" ").is_err());
    }
}
