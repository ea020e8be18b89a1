//! Commands that draw elements by chance: `HRANDFIELD`, `SRANDMEMBER`, `ZRANDMEMBER`, and `SPOP`, which also
//! takes them out.

use tarn_engine::Entry;
use tarn_engine::record::{Change, Kind};
use tarn_engine::value::ValueRef;
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

    /// An element by a random number.
    fn sample(self, random: u64) -> Option<Element<'c>> {
        match self.0 {
            ValueRef::Hash(hash) => hash.sample(random).map(|(field, value)| (field, Beside::Value(value))),
            ValueRef::Set(set) => set.sample(random).map(|member| (member, Beside::Nothing)),
            ValueRef::ZSet(zset) => zset.sample(random).map(|(member, score)| (member, Beside::Score(score))),
            ValueRef::String(_) | ValueRef::List(_) | ValueRef::Json(_) | ValueRef::Stream(_) => None,
        }
    }

    fn all(self) -> Box<dyn Iterator<Item = Element<'c>> + 'c> {
        match self.0 {
            ValueRef::Hash(hash) => Box::new(hash.iter().map(|(field, value)| (field, Beside::Value(value)))),
            ValueRef::Set(set) => Box::new(set.iter().map(|member| (member, Beside::Nothing))),
            ValueRef::ZSet(zset) => {
                Box::new(zset.iter_from(0).map(|(member, score)| (member, Beside::Score(score))))
            }
            ValueRef::String(_) | ValueRef::List(_) | ValueRef::Json(_) | ValueRef::Stream(_) => {
                Box::new(std::iter::empty())
            }
        }
    }

    async fn draw(self, steps: &Steps, draw: Draw) -> Vec<Element<'c>> {
        match draw {
            Draw::Repeated(count) => {
                let drawn = (0..count).filter_map(|_| self.sample(rand::random()));
                steps.collect(drawn, count as usize).await
            }
            Draw::Distinct(count) => self.distinct(steps, usize::try_from(count).unwrap_or(usize::MAX)).await,
        }
    }

    async fn distinct(self, steps: &Steps, count: usize) -> Vec<Element<'c>> {
        if count >= self.len() {
            return steps.collect(self.all(), self.len()).await;
        }
        // Drawing again what came already gets slow when most elements are wanted. Then each is taken with
        // the chance that leaves all choices equally likely.
        if count > self.len() / 3 {
            let (mut left, mut wanted) = (self.len(), count);
            let chosen = self.all().filter(|_| {
                let takes = rand::random_range(0..left) < wanted;
                left -= 1;
                wanted -= usize::from(takes);
                takes
            });
            return steps.collect(chosen, count).await;
        }
        let mut chosen = Decided::with_capacity(count);
        let mut drawn = 0;
        while drawn < count {
            let Some((name, beside)) = self.sample(rand::random()) else { break };
            chosen.entry(name, || {
                drawn += 1;
                beside
            });
            steps.pass(LOOKED_UP).await;
        }
        steps.collect(chosen.into_items(), drawn).await
    }
}

/// Replies with elements drawn from the collection of an entry, in steps if they are many; with what stands
/// beside them if that is asked for, in RESP3 as pairs.
fn reply_drawn(cx: &mut Context<'_, '_>, entry: &Entry, draw: Draw, whole: bool) {
    let (Draw::Distinct(count) | Draw::Repeated(count)) = draw;
    let (count, now) = (usize::try_from(count).unwrap_or(usize::MAX), cx.now());
    let visited = if matches!(draw, Draw::Distinct(_)) { count.min(entry.count()) } else { count };
    if cx.runs_long([(entry, visited)].into_iter()) {
        let copy = cx.keys.copy(entry);
        cx.run_in_steps(visited, async move |steps| {
            steps.hold(visited * size_of::<Element<'_>>())?;
            let drawn = Urn(copy.value().at(now)).draw(&steps, draw).await;
            steps.reply(|reply| write_head(reply, drawn.len(), whole));
            steps.each(drawn.into_iter(), |reply, element| write_element(reply, element, whole)).await;
            Ok(())
        });
        return;
    }
    let drawn = at_once(async |steps| Urn(entry.value().at(now)).draw(steps, draw).await);
    write_head(&mut cx.reply, drawn.len(), whole);
    drawn.into_iter().for_each(|element| write_element(&mut cx.reply, element, whole));
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
        (Some(entry), None) => match Urn(entry.value().at(cx.now())).sample(rand::random()) {
            Some((name, _)) => cx.reply.bulk(name),
            None => cx.reply.null(),
        },
        (Some(entry), Some((draw, whole))) => reply_drawn(cx, entry, draw, whole),
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
            let members = at_once(async |steps| urn.draw(steps, Draw::Distinct(count)).await);
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
            let mut drawn: Vec<&[u8]> = drawn.into_iter().map(|(name, _)| name).collect();
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), count.min(100) as usize, "{count} wanted");
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
