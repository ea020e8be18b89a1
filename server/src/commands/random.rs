//! Commands that draw elements by chance: `HRANDFIELD`, `SRANDMEMBER`, `ZRANDMEMBER`, and `SPOP`, which also
//! takes them out.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_engine::Entry;
use tarn_engine::record::{Change, Kind};
use tarn_engine::value::ValueRef;
use tarn_engine::value::hash::{Chosen, HashRef};
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
/// Elements for each of which a draw may walk through a hash, half of it as a rule, instead of gathering all
/// fields without a time once.
const WALKED_MAX: u64 = 2;

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

    /// Whether so many different elements are taken on one walk through all places, instead of being drawn.
    fn is_walked_for(self, count: u64) -> bool {
        count > self.len() as u64 / 3
    }

    /// The fields of a hash that have no time, if a draw may not find one of them, as they are few; else 0.
    fn scarce(self) -> usize {
        match self.0 {
            ValueRef::Hash(hash) if (1..hash.places() / 2).contains(&hash.lasting()) => hash.lasting(),
            _ => 0,
        }
    }

    /// Places that a command may go through besides those of the elements with which it replies: all of a
    /// hash with hidden fields, if it goes through that; all if draws may not find what they want.
    fn passed_over(self, draw: Draw) -> usize {
        let ValueRef::Hash(hash) = self.0 else { return 0 };
        let passes = match draw {
            Draw::Distinct(count) if self.is_walked_for(count) => hash.len() < hash.places(),
            Draw::Distinct(_) | Draw::Repeated(_) => self.scarce() > 0,
        };
        if passes { hash.places() } else { 0 }
    }

    /// Elements that a command may gather besides those with which it replies.
    fn gathered(self, draw: Draw) -> usize {
        match draw {
            Draw::Distinct(count) if self.is_walked_for(count) => 0,
            Draw::Distinct(count) | Draw::Repeated(count) if count > WALKED_MAX => self.scarce(),
            Draw::Distinct(_) | Draw::Repeated(_) => 0,
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
                let mut drawing = Drawing::of(self, count);
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
        if self.is_walked_for(count as u64) {
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
        let mut drawing = Drawing::of(self, count as u64);
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

/// The field at this place among those of a hash that have no time. Each place that is passed is work.
async fn walk_to<'c>(steps: &Steps, hash: HashRef<'c>, place: usize) -> Option<Element<'c>> {
    let mut left = place;
    for found in hash.iter_lasting() {
        steps.pass(1).await;
        let Some(field) = found else { continue };
        if left == 0 {
            return Some(with_value(field));
        }
        left -= 1;
    }
    None
}

/// Draws elements, one after the other.
struct Drawing<'c> {
    urn: Urn<'c>,
    rng: SmallRng,
    /// So few are wanted that nothing is gathered for them.
    few: bool,
    /// The fields of a hash that have no time, as soon as draws have not found one that was wanted. So a
    /// command that draws many walks through the hash once at most.
    lasting: Option<Vec<Element<'c>>>,
}

impl<'c> Drawing<'c> {
    /// For `count` elements, besides those that come again.
    fn of(urn: Urn<'c>, count: u64) -> Drawing<'c> {
        let rng = SmallRng::seed_from_u64(rand::random());
        Drawing { urn, rng, few: count <= WALKED_MAX, lasting: None }
    }

    /// An element; `None` if there is none. An error if those that it gathers take too much memory.
    async fn next(&mut self, steps: &Steps) -> Result<Option<Element<'c>>, CommandError> {
        let random = self.rng.random();
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
        if self.few {
            return Ok(walk_to(steps, hash, place).await);
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
    let urn = Urn(entry.value().at(now));
    let visited = drawn.saturating_add(urn.passed_over(draw));
    if cx.runs_long([(entry, visited)].into_iter()) {
        let (copy, gathered) = (cx.keys.copy(entry), drawn.saturating_add(urn.gathered(draw)));
        cx.run_in_steps(gathered, async move |steps| {
            steps.hold(drawn * size_of::<Element<'_>>())?;
            let drawn = Urn(copy.value().at(now)).draw(&steps, draw).await?;
            steps.reply(|reply| write_head(reply, drawn.len(), whole));
            steps.each(drawn.into_iter(), |reply, element| write_element(reply, element, whole)).await;
            Ok(())
        });
        return Ok(());
    }
    let drawn = at_once(async |steps| urn.draw(steps, draw).await)?;
    write_head(&mut cx.reply, drawn.len(), whole);
    drawn.into_iter().for_each(|element| write_element(&mut cx.reply, element, whole));
    Ok(())
}

/// Replies with one element drawn from the collection of an entry, in steps if others may be passed over.
fn reply_one(cx: &mut Context<'_, '_>, entry: &Entry) -> Result<(), CommandError> {
    let now = cx.now();
    let urn = Urn(entry.value().at(now));
    let visited = urn.passed_over(Draw::Repeated(1));
    if visited > 0 && cx.runs_long([(entry, visited)].into_iter()) {
        let copy = cx.keys.copy(entry);
        // It gathers nothing.
        cx.run_in_steps(0, async move |steps| {
            let drawn = Drawing::of(Urn(copy.value().at(now)), 1).next(&steps).await?;
            steps.reply(|reply| write_one(reply, drawn));
            Ok(())
        });
        return Ok(());
    }
    let drawn = at_once(async |steps| Drawing::of(urn, 1).next(steps).await)?;
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
            assert_eq!(Urn(entry.value().at(500)).passed_over(draw), HIDDEN + 1);
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
        // Hidden fields, timed ones and others; places for few draws, and what many of them gather; places
        // for a walk through all.
        for (fields, few, gathered, all) in [
            ((0, 0, 9), 0, 0, 0),
            ((0, 9, 0), 0, 0, 0),
            ((0, 4, 5), 0, 0, 0),
            ((0, 29, 1), 30, 1, 0),
            // Draws find one of many that are shown, however many others are hidden.
            ((1, 0, 29), 0, 0, 30),
            ((10, 0, 20), 0, 0, 30),
            ((20, 10, 0), 0, 0, 30),
            ((20, 0, 10), 30, 10, 30),
        ] {
            let (hidden, timed, lasting) = fields;
            let entry = hash(hidden, timed, lasting);
            let urn = Urn(entry.value().at(500));
            for draw in [Draw::Distinct(1), Draw::Distinct(2), Draw::Repeated(1), Draw::Repeated(2)] {
                assert_eq!((urn.passed_over(draw), urn.gathered(draw)), (few, 0), "{draw:?} of {fields:?}");
            }
            for draw in [Draw::Distinct(3), Draw::Repeated(3), Draw::Repeated(99)] {
                let found = (urn.passed_over(draw), urn.gathered(draw));
                assert_eq!(found, (few, gathered), "{draw:?} of {fields:?}");
            }
            for draw in [Draw::Distinct(11), Draw::Distinct(u64::MAX)] {
                assert_eq!((urn.passed_over(draw), urn.gathered(draw)), (all, 0), "{draw:?} of {fields:?}");
            }
        }
    }

    /// The outcome of a draw that may hold no memory.
    fn outcome(entry: Entry, draw: Draw) -> Result<(), CommandError> {
        let mut rest = Rest::new(Protocol::Resp2, Duration::ZERO, false, 0, async move |steps| {
            let drawn = Urn(entry.value().at(500)).draw(&steps, draw).await?;
            let (Draw::Distinct(count) | Draw::Repeated(count)) = draw;
            assert_eq!(drawn.len() as u64, count, "{draw:?}");
            Ok(())
        });
        loop {
            if let Some(outcome) = rest.step(&mut Vec::new(), usize::MAX) {
                return outcome;
            }
        }
    }

    #[test]
    fn few_draws_gather_nothing() {
        for draw in [Draw::Repeated(1), Draw::Distinct(1), Draw::Repeated(2), Draw::Distinct(2)] {
            assert_eq!(outcome(hash(20_000, 0, 9), draw), Ok(()), "{draw:?}");
        }
        // Of these at least one does not find a field by chance.
        for draw in [Draw::Repeated(99), Draw::Distinct(3)] {
            assert_eq!(outcome(hash(20_000, 0, 9), draw), Err(CommandError::ReplyTooLong), "{draw:?}");
        }
    }

    #[test]
    fn a_walk_goes_to_the_place_that_is_wanted() {
        let entry = hash(50, 50, 3);
        let ValueRef::Hash(hash) = entry.value().at(500) else { panic!("it is a hash") };
        let all: Vec<&[u8]> = hash.iter_lasting().flatten().map(|(field, _)| field).collect();
        assert_eq!(all.len(), 3);
        for place in 0..4 {
            let found = at_once(async |steps| walk_to(steps, hash, place).await);
            assert_eq!(found.map(|(field, _)| field), all.get(place).copied());
        }
    }

    #[test]
    fn fields_with_a_time_are_drawn_as_often_as_others() {
        const DRAWN: usize = 20_000;
        // The first has many fields without a time, so that draws find one; of the others they are gathered.
        for (hidden, timed, lasting) in [(100, 50, 150), (300, 150, 50), (300, 190, 10)] {
            let entry = hash(hidden, timed, lasting);
            let urn = Urn(entry.value().at(500));
            let ValueRef::Hash(hash) = urn.0 else { panic!("it is a hash") };
            let mut drawing = Drawing { rng: SmallRng::seed_from_u64(7), ..Drawing::of(urn, DRAWN as u64) };
            let (mut with_time, mut first) = (0_usize, 0_usize);
            for _ in 0..DRAWN {
                let drawn = at_once(async |steps| drawing.next(steps).await);
                let (field, _) = drawn.expect("nothing limits it").expect("some are shown");
                with_time += usize::from(hash.time(field).is_some());
                let name = std::str::from_utf8(field).expect("a name is text");
                let number = name.strip_prefix("field:").and_then(|number| number.parse().ok());
                let number: usize = number.expect("a name ends with a number");
                // The first half of those with a time, and of those without.
                let is_first = if number < hidden + timed {
                    number < hidden + timed / 2
                } else {
                    number < hidden + timed + lasting / 2
                };
                first += usize::from(is_first);
            }
            // The standard deviation is at most 71.
            let expected = DRAWN * timed / (timed + lasting);
            assert!(with_time.abs_diff(expected) < 500, "{with_time} of {expected} for {timed}, {lasting}");
            assert!(first.abs_diff(DRAWN / 2) < 500, "{first} for {timed}, {lasting}");
        }
    }

    #[test]
    fn a_few_of_many_fields_are_drawn_once_each_and_all_alike() {
        const ROUNDS: usize = 4000;
        for (hidden, timed, lasting) in [(100, 50, 150), (300, 150, 50)] {
            let entry = hash(hidden, timed, lasting);
            let urn = Urn(entry.value().at(500));
            let ValueRef::Hash(hash) = urn.0 else { panic!("it is a hash") };
            let mut with_time = 0_usize;
            for _ in 0..ROUNDS {
                let drawn = at_once(async |steps| urn.draw(steps, Draw::Distinct(5)).await);
                let mut names: Vec<&[u8]> =
                    drawn.expect("nothing limits it").into_iter().map(|(name, _)| name).collect();
                names.sort_unstable();
                names.dedup();
                assert_eq!(names.len(), 5);
                assert!(names.iter().all(|name| hash.get(name).is_some()));
                with_time += names.iter().filter(|name| hash.time(name).is_some()).count();
            }
            // The standard deviation is some 61, and nothing seeds these draws.
            let expected = 5 * ROUNDS * timed / (timed + lasting);
            assert!(with_time.abs_diff(expected) < 800, "{with_time} of {expected} for {timed}, {lasting}");
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
