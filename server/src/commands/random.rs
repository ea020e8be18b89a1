//! Commands that draw elements by chance: `HRANDFIELD`, `SRANDMEMBER`, `ZRANDMEMBER`, and `SPOP`, which also
//! takes them out.

use tarn_engine::Entry;
use tarn_engine::record::{Change, Kind};
use tarn_engine::value::ValueRef;
use tarn_engine::value::hash::Chosen;
use tarn_resp::{Args, Protocol, Writer};

use crate::commands::decided::Decided;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};
use crate::execute::steps::{LOOKED_UP, Steps, at_once};

const ACCESS: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const PER_ELEMENT: &str = "O(N), N being the number of elements returned";

/// Elements that one command may draw with repetition. Redis draws on until its memory is exhausted.
const REPEATED_MAX: u64 = 1 << 24;

/// The rows about hashes.
pub(super) const OF_HASHES: &[Command] =
    &[row("hrandfield", -2, Flags::READONLY, "6.2.0", "Returns random fields.", hrandfield)
        .keys(ACCESS)
        .complexity(PER_ELEMENT)];

/// The rows about sets.
pub(super) const OF_SETS: &[Command] = &[
    row("srandmember", -2, Flags::READONLY, "1.0.0", "Returns random members.", srandmember)
        .keys(ACCESS)
        .complexity(PER_ELEMENT),
    row("spop", -2, Flags::WRITE.with(Flags::FAST), "1.0.0", "Removes random members.", spop)
        .keys(&[KeySpec::one(&["RW", "access", "delete"])])
        .complexity(PER_ELEMENT),
];

/// The rows about sorted sets.
pub(super) const OF_ZSETS: &[Command] = &[row(
    "zrandmember",
    -2,
    Flags::READONLY,
    "6.2.0",
    "Returns random members of a sorted set.",
    zrandmember,
)
.keys(ACCESS)
.complexity(PER_ELEMENT)];

/// How many elements are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Draw {
    /// So many different ones, all if there are fewer.
    Distinct(u64),
    /// So many, each one of all.
    Repeated(u64),
}

impl Draw {
    /// From an argument: negative if elements may come more than once. `doubled`: each element comes with
    /// something.
    fn parse(arg: &[u8], doubled: bool) -> Result<Draw, CommandError> {
        let count = parse::integer_in(arg, -i64::MAX..=i64::MAX)?;
        let most = if doubled { i64::MAX as u64 / 2 } else { i64::MAX as u64 };
        let size = count.unsigned_abs();
        if size > most || count < 0 && size > REPEATED_MAX {
            return Err(CommandError::text("ERR value is out of range"));
        }
        Ok(if count < 0 { Draw::Repeated(size) } else { Draw::Distinct(size) })
    }
}

/// The companion of an element.
#[derive(Clone, Copy)]
enum Beside<'c> {
    Nothing,
    Value(&'c [u8]),
    Score(f64),
}

type Element<'c> = (&'c [u8], Beside<'c>);

/// A collection to draw from: a hash, a set or a sorted set.
#[derive(Clone, Copy)]
struct Urn<'c>(ValueRef<'c>);

impl<'c> Urn<'c> {
    fn len(self) -> usize {
        match self.0 {
            ValueRef::Hash(hash) => hash.len(),
            ValueRef::Set(set) => set.len(),
            ValueRef::ZSet(zset) => zset.len(),
            ValueRef::String(_) | ValueRef::List(_) | ValueRef::Json(_) | ValueRef::Stream(_) => 0,
        }
    }

    /// Places that a command may go through besides those of the elements with which it replies: all of a
    /// hash with hidden fields, or of one of which draws may not find a field without a time.
    fn passed_over(self) -> usize {
        match self.0 {
            ValueRef::Hash(hash)
                if hash.len() < hash.places() || (1..hash.places() / 2).contains(&hash.lasting()) =>
            {
                hash.places()
            }
            _ => 0,
        }
    }

    /// Each place with its element; `None` for a hidden field.
    fn places(self) -> Box<dyn Iterator<Item = Option<Element<'c>>> + 'c> {
        match self.0 {
            ValueRef::Hash(hash) => Box::new(hash.iter_places().map(|place| place.map(with_value))),
            ValueRef::Set(set) => Box::new(set.iter().map(|member| Some((member, Beside::Nothing)))),
            ValueRef::ZSet(zset) => {
                Box::new(zset.iter_from(0).map(|(member, score)| Some((member, Beside::Score(score)))))
            }
            ValueRef::String(_) | ValueRef::List(_) | ValueRef::Json(_) | ValueRef::Stream(_) => {
                Box::new(std::iter::empty())
            }
        }
    }

    async fn draw(self, steps: &Steps, draw: Draw) -> Result<Vec<Element<'c>>, CommandError> {
        match draw {
            Draw::Repeated(count) => {
                let mut drawing = Drawing::of(self);
                let mut drawn = Vec::with_capacity(count as usize);
                for _ in 0..count {
                    drawn.extend(drawing.next(steps).await?);
                    steps.pass(1).await;
                }
                Ok(drawn)
            }
            Draw::Distinct(count) => self.distinct(steps, usize::try_from(count).unwrap_or(usize::MAX)).await,
        }
    }

    async fn distinct(self, steps: &Steps, count: usize) -> Result<Vec<Element<'c>>, CommandError> {
        let len = self.len();
        if count >= len {
            return Ok(gather(steps, self.places(), len).await);
        }
        // Drawing again what came already gets slow when most elements are wanted. Then each is taken with
        // the chance that leaves all choices equally likely.
        if count > len / 3 {
            let (mut left, mut wanted) = (len, count);
            let chosen = self.places().map(|place| {
                place.filter(|_| {
                    let takes = rand::random_range(0..left) < wanted;
                    left -= 1;
                    wanted -= usize::from(takes);
                    takes
                })
            });
            return Ok(gather(steps, chosen, count).await);
        }
        let mut drawing = Drawing::of(self);
        let mut chosen = Decided::with_capacity(count);
        let mut drawn = 0;
        while drawn < count {
            let Some((name, beside)) = drawing.next(steps).await? else { break };
            chosen.entry(name, || {
                drawn += 1;
                beside
            });
            steps.pass(LOOKED_UP).await;
        }
        Ok(steps.collect(chosen.into_items(), drawn).await)
    }
}

fn with_value<'c>((field, value): (&'c [u8], &'c [u8])) -> Element<'c> {
    (field, Beside::Value(value))
}

/// The elements at these places, of which about `len` have one. Each place is work.
async fn gather<'c>(
    steps: &Steps,
    places: impl Iterator<Item = Option<Element<'c>>>,
    len: usize,
) -> Vec<Element<'c>> {
    let mut elements = Vec::with_capacity(len);
    for place in places {
        elements.extend(place);
        steps.pass(1).await;
    }
    elements
}

/// Draws elements, one after the other.
struct Drawing<'c> {
    urn: Urn<'c>,
    /// The fields of a hash that have no time, as soon as draws have not found one that was wanted. So a
    /// command walks through the hash once at most.
    lasting: Option<Vec<Element<'c>>>,
}

impl<'c> Drawing<'c> {
    fn of(urn: Urn<'c>) -> Drawing<'c> {
        Drawing { urn, lasting: None }
    }

    /// An element; `None` if there is none. An error if those that it gathers take too much memory.
    async fn next(&mut self, steps: &Steps) -> Result<Option<Element<'c>>, CommandError> {
        let random = rand::random();
        let hash = match self.urn.0 {
            ValueRef::Hash(hash) => hash,
            ValueRef::Set(set) => return Ok(set.sample(random).map(|member| (member, Beside::Nothing))),
            ValueRef::ZSet(zset) => {
                return Ok(zset.sample(random).map(|(member, score)| (member, Beside::Score(score))));
            }
            ValueRef::String(_) | ValueRef::List(_) | ValueRef::Json(_) | ValueRef::Stream(_) => {
                return Ok(None);
            }
        };
        let place = match hash.choose(random) {
            None => return Ok(None),
            Some(Chosen::Field(field, value)) => return Ok(Some(with_value((field, value)))),
            Some(Chosen::Lasting(place)) => place,
        };
        if let Some(lasting) = &self.lasting {
            return Ok(lasting.get(place).copied());
        }
        if let Some(drawn) = hash.draw_lasting(random) {
            return Ok(Some(with_value(drawn)));
        }
        let len = hash.lasting();
        steps.hold(len * size_of::<Element<'_>>())?;
        let places = hash.iter_lasting().map(|place| place.map(with_value));
        let lasting = self.lasting.insert(gather(steps, places, len).await);
        Ok(lasting.get(place).copied())
    }
}

/// Replies with elements drawn from the collection of an entry, in steps if they are many, or others that are
/// passed over; with what stands beside them if that is asked for, in RESP3 as pairs.
fn reply_drawn(cx: &mut Context<'_, '_>, entry: &Entry, draw: Draw, whole: bool) -> Result<(), CommandError> {
    let (Draw::Distinct(count) | Draw::Repeated(count)) = draw;
    let (count, now) = (usize::try_from(count).unwrap_or(usize::MAX), cx.now());
    let drawn = if matches!(draw, Draw::Distinct(_)) { count.min(entry.count()) } else { count };
    let visited = drawn + Urn(entry.value().at(now)).passed_over();
    if cx.runs_long([(entry, visited)].into_iter()) {
        let copy = cx.keys.copy(entry);
        cx.run_in_steps(visited, async move |steps| {
            steps.hold(drawn * size_of::<Element<'_>>())?;
            let drawn = Urn(copy.value().at(now)).draw(&steps, draw).await?;
            steps.reply(|reply| write_head(reply, drawn.len(), whole));
            steps.each(drawn.into_iter(), |reply, element| write_element(reply, element, whole)).await;
            Ok(())
        });
        return Ok(());
    }
    let drawn = at_once(async |steps| Urn(entry.value().at(now)).draw(steps, draw).await)?;
    write_head(&mut cx.reply, drawn.len(), whole);
    drawn.into_iter().for_each(|element| write_element(&mut cx.reply, element, whole));
    Ok(())
}

/// Replies with one element drawn from the collection of an entry, in steps if others may be passed over.
fn reply_one(cx: &mut Context<'_, '_>, entry: &Entry) -> Result<(), CommandError> {
    let now = cx.now();
    let urn = Urn(entry.value().at(now));
    let visited = urn.passed_over();
    if visited > 0 && cx.runs_long([(entry, visited)].into_iter()) {
        let copy = cx.keys.copy(entry);
        cx.run_in_steps(visited, async move |steps| {
            let drawn = Drawing::of(Urn(copy.value().at(now))).next(&steps).await?;
            steps.reply(|reply| write_one(reply, drawn));
            Ok(())
        });
        return Ok(());
    }
    let drawn = at_once(async |steps| Drawing::of(urn).next(steps).await)?;
    write_one(&mut cx.reply, drawn);
    Ok(())
}

fn write_one(reply: &mut Writer<'_>, drawn: Option<Element<'_>>) {
    match drawn {
        Some((name, _)) => reply.bulk(name),
        None => reply.null(),
    }
}

fn write_head(reply: &mut Writer<'_>, len: usize, whole: bool) {
    reply.array(if whole && reply.protocol() == Protocol::Resp2 { 2 * len } else { len });
}

fn write_element(reply: &mut Writer<'_>, (name, beside): Element<'_>, whole: bool) {
    if whole && reply.protocol() == Protocol::Resp3 {
        reply.array(2);
    }
    reply.bulk(name);
    match beside {
        Beside::Value(value) if whole => reply.bulk(value),
        Beside::Score(score) if whole => reply.double(score),
        _ => {}
    }
}

/// The count and whether `word` follows it; `None` if there is no count.
fn parse_draw(args: Args<'_>, word: &[u8]) -> Result<Option<(Draw, bool)>, CommandError> {
    let Some(count) = args.get(2) else { return Ok(None) };
    parse::integer_in(count, -i64::MAX..=i64::MAX)?;
    let with_values = match (args.len(), args.get(3)) {
        (3, _) => false,
        (4, Some(option)) if option.eq_ignore_ascii_case(word) => true,
        _ => return Err(CommandError::Syntax),
    };
    Ok(Some((Draw::parse(count, with_values)?, with_values)))
}

fn hrandfield<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    draw_from(cx, args, Kind::Hash, parse_draw(args, b"withvalues")?)
}

fn srandmember<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let draw = args.get(2).map(|count| Draw::parse(count, false)).transpose()?;
    draw_from(cx, args, Kind::Set, draw.map(|draw| (draw, false)))
}

fn zrandmember<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    draw_from(cx, args, Kind::ZSet, parse_draw(args, b"withscores")?)
}

/// Replies with one element, or with an array if there is a count.
fn draw_from<'a>(
    cx: &mut Context<'_, 'a>,
    args: Args<'a>,
    kind: Kind,
    draw: Option<(Draw, bool)>,
) -> Result<(), CommandError> {
    match (cx.entry_of(args.at(1), kind)?, draw) {
        (None, None) => cx.reply.null(),
        (None, Some(_)) => cx.reply.array(0),
        (Some(entry), None) => reply_one(cx, entry)?,
        (Some(entry), Some((draw, whole))) => reply_drawn(cx, entry, draw, whole)?,
    }
    Ok(())
}

fn spop<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let key = args.at(1);
    let count = args.get(2).map(parse::count).transpose()?;
    match (cx.set(key)?, count) {
        (None, None) => cx.reply.null(),
        (None, Some(_)) => cx.reply.set(0),
        (Some(set), None) => {
            let member = set.sample(rand::random()).expect("a set is never empty");
            cx.reply.bulk(member);
            cx.write(key, Change::SetRemove { member: member.to_vec().into() });
        }
        (Some(set), Some(count)) => {
            let urn = Urn(ValueRef::Set(set));
            let members = at_once(async |steps| urn.draw(steps, Draw::Distinct(count)).await)?;
            cx.reply.set(members.len());
            members.iter().for_each(|(member, _)| cx.reply.bulk(member));
            if members.len() == set.len() {
                cx.write(key, Change::Delete);
            } else {
                for (member, _) in members {
                    cx.write(key, Change::SetRemove { member: member.to_vec().into() });
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::steps::Rest;
    use std::time::Duration;
    use tarn_engine::record::Lsn;
    use tarn_engine::value::ImageBuilder;

    #[test]
    fn distinct_draws_have_the_wanted_length_and_no_element_twice() {
        let mut image = ImageBuilder::new(Kind::Set);
        (0..100).for_each(|i| image.push_element(format!("{i:03}").as_bytes()));
        let elements = image.finish().into();
        let change = Change::Image { kind: Kind::Set, elements, expiry: None, sticky: false };
        let entry = Entry::create(b"s", &change, Lsn(1)).expect("an image makes an entry");
        for count in [0, 1, 10, 33, 34, 99, 100, 1000] {
            let urn = Urn(entry.value());
            let drawn = at_once(async |steps| urn.draw(steps, Draw::Distinct(count)).await);
            let drawn = drawn.expect("nothing limits what it gathers");
            let mut drawn: Vec<&[u8]> = drawn.into_iter().map(|(name, _)| name).collect();
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), count.min(100) as usize, "{count} wanted");
        }
    }

    /// A hash: at 500 so many fields are hidden, `timed` have a time that is not over, `lasting` have none.
    fn hash(hidden: usize, timed: usize, lasting: usize) -> Entry {
        let mut image = ImageBuilder::new(Kind::Hash);
        let times = [(hidden, Some(100)), (timed, Some(900)), (lasting, None)];
        let times = times.into_iter().flat_map(|(count, time)| std::iter::repeat_n(time, count));
        for (number, time) in times.enumerate() {
            image.push_timed(format!("field:{number}").as_bytes(), b"value", time);
        }
        let elements = image.finish().into();
        let change = Change::Image { kind: Kind::Hash, elements, expiry: None, sticky: false };
        Entry::create(b"h", &change, Lsn(1)).expect("an image makes an entry")
    }

    #[test]
    fn hidden_fields_are_not_drawn_and_all_others_are() {
        for (hidden, timed, lasting) in [(200, 0, 3), (200, 3, 0), (200, 2, 2), (0, 200, 2), (10, 20, 40)] {
            let entry = hash(hidden, timed, lasting);
            let (urn, shown) = (Urn(entry.value().at(500)), timed + lasting);
            for draw in [Draw::Distinct(u64::MAX), Draw::Repeated(5000), Draw::Distinct(shown as u64 - 1)] {
                let drawn = at_once(async |steps| urn.draw(steps, draw).await);
                let mut names: Vec<&[u8]> =
                    drawn.expect("nothing limits it").into_iter().map(|(name, _)| name).collect();
                let len = names.len();
                names.sort_unstable();
                names.dedup();
                let expected = match draw {
                    Draw::Repeated(count) => (count as usize, shown),
                    Draw::Distinct(count) => (shown.min(count as usize), shown.min(count as usize)),
                };
                assert_eq!((len, names.len()), expected, "{draw:?} of {hidden}, {timed}, {lasting}");
                let hash = entry.value().at(500);
                let ValueRef::Hash(hash) = hash else { panic!("it is a hash") };
                assert!(names.iter().all(|name| hash.get(name).is_some()));
            }
        }
    }

    #[test]
    fn places_of_hidden_fields_are_work_and_are_walked_once_a_command() {
        const HIDDEN: usize = 20_000;
        for draw in [Draw::Repeated(1000), Draw::Distinct(1), Draw::Distinct(9)] {
            let entry = hash(HIDDEN, 0, 1);
            assert_eq!(Urn(entry.value().at(500)).passed_over(), HIDDEN + 1);
            let mut rest =
                Rest::new(Protocol::Resp2, Duration::ZERO, false, usize::MAX, async move |steps| {
                    let drawn = Urn(entry.value().at(500)).draw(&steps, draw).await?;
                    steps.reply(|reply| reply.integer(drawn.len() as i64));
                    Ok(())
                });
            let (mut out, mut steps) = (Vec::new(), 1);
            while rest.step(&mut out, usize::MAX).is_none() {
                steps += 1;
            }
            assert_eq!(out, if matches!(draw, Draw::Repeated(_)) { &b":1000\r\n"[..] } else { b":1\r\n" });
            // A step without time passes some 32 places.
            assert!((HIDDEN / 40..HIDDEN / 10).contains(&steps), "{draw:?}: {steps} steps");
        }
    }

    #[test]
    fn only_what_may_be_passed_over_counts() {
        for (entry, expected) in [
            (hash(0, 0, 9), 0),
            (hash(0, 9, 0), 0),
            (hash(0, 4, 5), 0),
            (hash(0, 9, 1), 10),
            (hash(1, 0, 9), 10),
        ] {
            assert_eq!(Urn(entry.value().at(500)).passed_over(), expected);
        }
    }

    #[test]
    fn counts_too_large_to_double_are_refused() {
        assert_eq!(
            Draw::parse(b"4611686018427387904", true),
            Err(CommandError::text("ERR value is out of range"))
        );
        assert_eq!(Draw::parse(b"4611686018427387904", false), Ok(Draw::Distinct(1 << 62)));
        assert_eq!(Draw::parse(b"-3", true), Ok(Draw::Repeated(3)));
        assert!(Draw::parse(b"-9223372036854775807", false).is_err());
    }
}
