//! Commands that draw elements by chance: `HRANDFIELD`, `SRANDMEMBER`, `ZRANDMEMBER`, and `SPOP`, which also
//! takes them out.

use tarn_engine::record::Change;
use tarn_resp::Args;
use tarn_resp::Protocol;

use crate::commands::decided::Decided;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

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

/// A collection to draw from.
struct Urn<S, I> {
    len: usize,
    /// An element by a random number.
    sample: S,
    all: I,
}

impl<'c, V, S, I> Urn<S, I>
where
    V: Copy,
    S: Fn(u64) -> Option<(&'c [u8], V)>,
    I: Iterator<Item = (&'c [u8], V)>,
{
    fn draw(self, draw: Draw) -> Vec<(&'c [u8], V)> {
        match draw {
            Draw::Repeated(count) => (0..count).filter_map(|_| (self.sample)(rand::random())).collect(),
            Draw::Distinct(count) => self.distinct(usize::try_from(count).unwrap_or(usize::MAX)),
        }
    }

    fn distinct(self, count: usize) -> Vec<(&'c [u8], V)> {
        if count >= self.len {
            return self.all.collect();
        }
        // Drawing again what came already gets slow when most elements are wanted. Then each is taken with
        // the chance that leaves all choices equally likely.
        if count > self.len / 3 {
            let (mut left, mut wanted) = (self.len, count);
            let chosen = self.all.filter(|_| {
                let takes = rand::random_range(0..left) < wanted;
                left -= 1;
                wanted -= usize::from(takes);
                takes
            });
            return chosen.collect();
        }
        let mut chosen = Decided::default();
        let mut drawn = 0;
        while drawn < count {
            let Some((name, value)) = (self.sample)(rand::random()) else { break };
            chosen.entry(name, || {
                drawn += 1;
                value
            });
        }
        chosen.into_items().collect()
    }
}

/// Writes elements, in RESP3 as pairs if their values are asked for.
fn write_pairs<V: Copy>(
    cx: &mut Context<'_, '_>,
    elements: &[(&[u8], V)],
    with_values: bool,
    write_value: impl Fn(&mut Context<'_, '_>, V),
) {
    let nested = with_values && cx.reply.protocol() == Protocol::Resp3;
    cx.reply.array(if with_values && !nested { 2 * elements.len() } else { elements.len() });
    for (name, value) in elements {
        if nested {
            cx.reply.array(2);
        }
        cx.reply.bulk(name);
        if with_values {
            write_value(cx, *value);
        }
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
    let draw = parse_draw(args, b"withvalues")?;
    match (cx.hash(args.at(1))?, draw) {
        (None, None) => cx.reply.null(),
        (None, Some(_)) => cx.reply.array(0),
        (Some(hash), None) => match hash.sample(rand::random()) {
            Some((field, _)) => cx.reply.bulk(field),
            None => cx.reply.null(),
        },
        (Some(hash), Some((draw, with_values))) => {
            let urn = Urn { len: hash.len(), sample: |random| hash.sample(random), all: hash.iter() };
            write_pairs(cx, &urn.draw(draw), with_values, |cx, value| cx.reply.bulk(value));
        }
    }
    Ok(())
}

fn srandmember<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let draw = args.get(2).map(|count| Draw::parse(count, false)).transpose()?;
    match (cx.set(args.at(1))?, draw) {
        (None, None) => cx.reply.null(),
        (None, Some(_)) => cx.reply.array(0),
        (Some(set), None) => match set.sample(rand::random()) {
            Some(member) => cx.reply.bulk(member),
            None => cx.reply.null(),
        },
        (Some(set), Some(draw)) => {
            let sample = |random| set.sample(random).map(|member| (member, ()));
            let urn = Urn { len: set.len(), sample, all: set.iter().map(|member| (member, ())) };
            write_pairs(cx, &urn.draw(draw), false, |_, ()| {});
        }
    }
    Ok(())
}

fn zrandmember<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let draw = parse_draw(args, b"withscores")?;
    match (cx.zset(args.at(1))?, draw) {
        (None, None) => cx.reply.null(),
        (None, Some(_)) => cx.reply.array(0),
        (Some(zset), None) => match zset.sample(rand::random()) {
            Some((member, _)) => cx.reply.bulk(member),
            None => cx.reply.null(),
        },
        (Some(zset), Some((draw, with_scores))) => {
            let urn = Urn { len: zset.len(), sample: |random| zset.sample(random), all: zset.iter_from(0) };
            write_pairs(cx, &urn.draw(draw), with_scores, |cx, score| cx.reply.double(score));
        }
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
            let sample = |random| set.sample(random).map(|member| (member, ()));
            let urn = Urn { len: set.len(), sample, all: set.iter().map(|member| (member, ())) };
            let members = urn.draw(Draw::Distinct(count));
            cx.reply.set(members.len());
            members.iter().for_each(|(member, ())| cx.reply.bulk(member));
            if members.len() == set.len() {
                cx.write(key, Change::Delete);
            } else {
                for (member, ()) in members {
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

    fn names(len: usize) -> Vec<String> {
        (0..len).map(|i| format!("{i:03}")).collect()
    }

    #[test]
    fn distinct_draws_have_the_wanted_length_and_no_element_twice() {
        let names = names(100);
        for count in [0, 1, 10, 33, 34, 99, 100, 1000] {
            let urn = Urn {
                len: names.len(),
                sample: |random: u64| Some((names[(random % 100) as usize].as_bytes(), ())),
                all: names.iter().map(|name| (name.as_bytes(), ())),
            };
            let mut drawn = urn.draw(Draw::Distinct(count));
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
