//! Commands that combine sorted sets, and sets as if all their members had score 1: union, intersection,
//! difference.

use std::cmp::Ordering;

use smallvec::SmallVec;
use tarn_engine::Entry;
use tarn_engine::record::Kind;
use tarn_engine::value::{ImageBuilder, SetRef, ValueRef, ZSetRef};
use tarn_resp::Args;

use super::set_algebra::{LOOKED_FOR_MAX, is_in, store_image};
use super::zsets::{stored, write_member, write_members, write_members_head};
use crate::commands::decided::Decided;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::{Context, Copies};
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};
use crate::execute::steps::{CAPACITY_MAX, LOOKED_UP, Steps, at_once};
use crate::execute::storing::Storing;

const READ: Flags = Flags::READONLY.with(Flags::MOVABLEKEYS);
const STORE: Flags = Flags::WRITE.with(Flags::DENYOOM).with(Flags::MOVABLEKEYS);

const SOURCES: &[KeySpec] = &[KeySpec::counted(1, &["RO", "access"])];
const TARGET_AND_SOURCES: &[KeySpec] =
    &[KeySpec::one(&["OW", "update"]), KeySpec::counted(2, &["RO", "access"])];

const UNION: &str = "O(N+M*log(M)), N being the total length of the sources and M that of the result";
const INTER: &str = "O(N*K+M*log(M)) at worst, N being the length of the smallest source, K their number \
    and M the length of the result";
const DIFF: &str =
    "O(N*K+M*log(M)) at worst, N being the length of the first source, K their number and M the result's";

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("zunion", -3, READ, "6.2.0", "Returns the members of any source.", zunion)
        .keys(SOURCES)
        .complexity(UNION),
    row("zunionstore", -4, STORE, "2.0.0", "Stores the members of any source.", zunionstore)
        .keys(TARGET_AND_SOURCES)
        .complexity(UNION),
    row("zinter", -3, READ, "6.2.0", "Returns the members that all sources share.", zinter)
        .keys(SOURCES)
        .complexity(INTER),
    row("zinterstore", -4, STORE, "2.0.0", "Stores the members that all sources share.", zinterstore)
        .keys(TARGET_AND_SOURCES)
        .complexity(INTER),
    row("zintercard", -3, READ, "7.0.0", "Counts the members that all sources share.", zintercard)
        .keys(SOURCES)
        .complexity(INTER),
    row("zdiff", -3, READ, "6.2.0", "Returns the first source's members that no other has.", zdiff)
        .keys(SOURCES)
        .complexity(DIFF),
    row("zdiffstore", -4, STORE, "6.2.0", "Stores the first source's members that no other has.", zdiffstore)
        .keys(TARGET_AND_SOURCES)
        .complexity(DIFF),
];

/// Something to combine.
#[derive(Clone, Copy)]
enum Source<'c> {
    Missing,
    Set(SetRef<'c>),
    ZSet(ZSetRef<'c>),
}

impl<'c> Source<'c> {
    fn of(entry: Option<&'c Entry>) -> Result<Source<'c>, CommandError> {
        match entry.map(Entry::value) {
            None => Ok(Source::Missing),
            Some(ValueRef::Set(set)) => Ok(Source::Set(set)),
            Some(ValueRef::ZSet(zset)) => Ok(Source::ZSet(zset)),
            Some(_) => Err(CommandError::WrongType),
        }
    }

    fn len(&self) -> usize {
        match self {
            Source::Missing => 0,
            Source::Set(set) => set.len(),
            Source::ZSet(zset) => zset.len(),
        }
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            Source::Missing => None,
            Source::Set(set) => set.contains(member).then_some(1.0),
            Source::ZSet(zset) => zset.score(member),
        }
    }

    fn members(&self) -> Box<dyn Iterator<Item = (&'c [u8], f64)> + 'c> {
        match self {
            Source::Missing => Box::new(std::iter::empty()),
            Source::Set(set) => Box::new(set.iter().map(|member| (member, 1.0))),
            Source::ZSet(zset) => Box::new(zset.iter_from(0)),
        }
    }
}

/// How sources are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combine {
    Union,
    Inter,
    Diff,
}

/// How the scores of a member are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn parse(arg: &[u8]) -> Option<Aggregate> {
        let is = |word: &str| arg.eq_ignore_ascii_case(word.as_bytes());
        let all = [("sum", Aggregate::Sum), ("min", Aggregate::Min), ("max", Aggregate::Max)];
        all.into_iter().find(|(word, _)| is(word)).map(|(_, aggregate)| aggregate)
    }

    /// One more score. Opposite infinities sum up to 0; what is no number is no minimum or maximum.
    fn apply(self, so_far: f64, score: f64) -> f64 {
        match self {
            Aggregate::Sum => number_or_zero(so_far + score),
            Aggregate::Min if score < so_far => score,
            Aggregate::Max if score > so_far => score,
            Aggregate::Min | Aggregate::Max => so_far,
        }
    }
}

/// Infinity times zero, and the sum of opposite infinities, count as 0.
fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// The operation, and the sources with their weights.
struct Request<'c> {
    /// Their entries.
    entries: SmallVec<[Option<&'c Entry>; 4]>,
    sources: SmallVec<[(Source<'c>, f64); 4]>,
    aggregate: Aggregate,
    with_scores: bool,
    /// Where counting stops.
    limit: usize,
}

/// The use of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Reply,
    Store,
    Count,
}

impl<'c> Request<'c> {
    /// Reads the sources that the arguments name, of which the number stands at `at`, and then the options: a
    /// source of a wrong kind is found before a wrong option.
    fn parse(
        cx: &Context<'c, '_>,
        args: Args<'_>,
        at: usize,
        name: &str,
        combine: Combine,
        used: Use,
    ) -> Result<Request<'c>, CommandError> {
        let count = parse::integer(args.at(at))?;
        if count < 1 {
            let text = format!("ERR at least 1 input key is needed for '{name}' command");
            return Err(CommandError::owned(text));
        }
        let rest = args.tail(at + 1);
        let count =
            usize::try_from(count).ok().filter(|count| *count <= rest.len()).ok_or(CommandError::Syntax)?;
        let entries: SmallVec<[_; 4]> = rest.iter().take(count).map(|key| cx.entry(key)).collect();
        let sources = entries.iter().map(|entry| Ok((Source::of(*entry)?, 1.0)));
        let sources = sources.collect::<Result<_, CommandError>>()?;
        let mut request =
            Request { entries, sources, aggregate: Aggregate::Sum, with_scores: false, limit: usize::MAX };
        request.parse_options(rest.tail(count), combine, used)?;
        Ok(request)
    }

    fn parse_options(&mut self, args: Args<'_>, combine: Combine, used: Use) -> Result<(), CommandError> {
        let has_weights = combine != Combine::Diff && used != Use::Count;
        let mut words = args.into_iter();
        while let Some(word) = words.next() {
            let is = |option: &str| word.eq_ignore_ascii_case(option.as_bytes());
            if has_weights && words.len() >= self.sources.len() && is("weights") {
                for (_, weight) in &mut self.sources {
                    let arg = words.next().ok_or(CommandError::Syntax)?;
                    *weight = parse::float_or(arg, "ERR weight value is not a float")?;
                }
            } else if has_weights && words.len() >= 1 && is("aggregate") {
                self.aggregate = words.next().and_then(Aggregate::parse).ok_or(CommandError::Syntax)?;
            } else if used == Use::Reply && is("withscores") {
                self.with_scores = true;
            } else if used == Use::Count && words.len() >= 1 && is("limit") {
                let limit = words.next().ok_or(CommandError::Syntax)?;
                let limit = parse::count_or(limit, "ERR LIMIT can't be negative")?;
                self.limit = usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(())
    }

    /// The same of the copies of its sources.
    fn of_copies(self, copies: &Copies) -> Request<'_> {
        let sources = copies.entries().map(|entry| Source::of(entry).unwrap_or(Source::Missing));
        let sources = sources.zip(self.sources.iter().map(|(_, weight)| *weight)).collect();
        let Request { aggregate, with_scores, limit, .. } = self;
        Request { entries: SmallVec::new(), sources, aggregate, with_scores, limit }
    }

    /// The request without its sources, for who has copies of them.
    fn detached(&self) -> Request<'static> {
        let sources = self.sources.iter().map(|(_, weight)| (Source::Missing, *weight)).collect();
        let Request { aggregate, with_scores, limit, .. } = *self;
        Request { entries: SmallVec::new(), sources, aggregate, with_scores, limit }
    }

    /// The members of the combination with their scores, in no particular order.
    async fn combine(mut self, steps: &Steps, combine: Combine) -> Vec<(&'c [u8], f64)> {
        if combine != Combine::Diff {
            // Scores are added up in this order, which can be seen in the last digits.
            self.sources.sort_by_key(|(source, _)| source.len());
        }
        match combine {
            Combine::Union => self.union(steps).await,
            Combine::Inter => self.inter(steps).await,
            Combine::Diff => self.diff(steps).await,
        }
    }

    async fn union(self, steps: &Steps) -> Vec<(&'c [u8], f64)> {
        // As large as it may become: to grow takes longer than a step.
        let total: usize = self.sources.iter().map(|(source, _)| source.len()).sum();
        if self.sources.len() <= LOOKED_FOR_MAX {
            let mut members = Vec::with_capacity(total.min(CAPACITY_MAX));
            for (index, (source, weight)) in self.sources.iter().enumerate() {
                let (before, behind) = (&self.sources[..index], &self.sources[index + 1..]);
                for (member, score) in source.members() {
                    if is_in(steps, before.iter().map(|(source, _)| source.score(member).is_some())).await {
                        continue;
                    }
                    let mut total = number_or_zero(weight * score);
                    for (source, weight) in behind {
                        if let Some(score) = source.score(member) {
                            total = self.aggregate.apply(total, number_or_zero(weight * score));
                        }
                        steps.pass(LOOKED_UP).await;
                    }
                    members.push((member, total));
                }
            }
            return members;
        }
        let mut scores = Decided::with_capacity(total.min(CAPACITY_MAX));
        for (source, weight) in &self.sources {
            for (member, score) in source.members() {
                let score = number_or_zero(weight * score);
                let so_far = scores.entry(member, || None);
                *so_far = Some(so_far.map_or(score, |so_far| self.aggregate.apply(so_far, score)));
                steps.pass(1 + LOOKED_UP).await;
            }
        }
        let mut members = Vec::with_capacity(scores.len());
        for (member, score) in scores.into_items() {
            members.extend(score.map(|score| (member, score)));
            steps.pass(1).await;
        }
        members
    }

    async fn inter(self, steps: &Steps) -> Vec<(&'c [u8], f64)> {
        let Some(((smallest, weight), others)) = self.sources.split_first() else { return Vec::new() };
        let mut members = Vec::with_capacity(self.limit.min(smallest.len()).min(CAPACITY_MAX));
        for (member, score) in smallest.members() {
            let mut total = number_or_zero(weight * score);
            let looks = others.iter().map(|(source, weight)| match source.score(member) {
                Some(score) => {
                    total = self.aggregate.apply(total, weight * score);
                    false
                }
                None => true,
            });
            if !is_in(steps, looks).await {
                members.push((member, total));
                if members.len() == self.limit {
                    break;
                }
            }
        }
        members
    }

    async fn diff(self, steps: &Steps) -> Vec<(&'c [u8], f64)> {
        let Some(((first, _), others)) = self.sources.split_first() else { return Vec::new() };
        let mut members = Vec::with_capacity(first.len().min(CAPACITY_MAX));
        for (member, score) in first.members() {
            if !is_in(steps, others.iter().map(|(source, _)| source.score(member).is_some())).await {
                members.push((member, score));
            }
        }
        members
    }

    /// The members of the combination with their scores, in order.
    async fn sorted(self, steps: &Steps, combine: Combine) -> Vec<(&'c [u8], f64)> {
        let mut members = self.combine(steps, combine).await;
        steps.sort(&mut members, by_score).await;
        members
    }
}

/// By score, then by bytes.
fn by_score(a: &(&[u8], f64), b: &(&[u8], f64)) -> Ordering {
    a.1.partial_cmp(&b.1).expect("no score is NaN").then_with(|| a.0.cmp(b.0))
}

fn zunion<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    reply_with(cx, args, "zunion", Combine::Union)
}

fn zinter<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    reply_with(cx, args, "zinter", Combine::Inter)
}

fn zdiff<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    reply_with(cx, args, "zdiff", Combine::Diff)
}

fn reply_with<'a>(
    cx: &mut Context<'_, 'a>,
    args: Args<'a>,
    name: &str,
    combine: Combine,
) -> Result<(), CommandError> {
    let request = Request::parse(cx, args, 1, name, combine, Use::Reply)?;
    let with_scores = request.with_scores;
    if let Some(copies) = cx.copies_if_long(&request.entries) {
        let request = request.detached();
        cx.run_in_steps(copies.elements(), async move |steps| {
            let members = request.of_copies(&copies).sorted(&steps, combine).await;
            steps.hold(size_of_val(&members[..]))?;
            steps.reply(|reply| write_members_head(reply, members.len(), with_scores));
            steps.each(members.into_iter(), |reply, member| write_member(reply, member, with_scores)).await;
            Ok(())
        });
        return Ok(());
    }
    let members = at_once(async |steps| request.sorted(steps, combine).await);
    write_members(cx, members.len(), members.into_iter(), with_scores);
    Ok(())
}

fn zunionstore<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    store(cx, args, "zunionstore", Combine::Union)
}

fn zinterstore<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    store(cx, args, "zinterstore", Combine::Inter)
}

fn zdiffstore<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    store(cx, args, "zdiffstore", Combine::Diff)
}

fn store<'a>(
    cx: &mut Context<'_, 'a>,
    args: Args<'a>,
    name: &str,
    combine: Combine,
) -> Result<(), CommandError> {
    let request = Request::parse(cx, args, 2, name, combine, Use::Store)?;
    if let Some(elements) = cx.put_ready(cx.db, args.at(1)) {
        cx.reply.integer(elements as i64);
        return Ok(());
    }
    if let Some(copies) = cx.copies_to_prepare(args.at(1), &request.entries) {
        let sources: Vec<_> = args.tail(3).iter().take(request.sources.len()).collect();
        let (target, request) = ((cx.db, args.at(1)), request.detached());
        return cx.prepare(target, Kind::ZSet, &sources, copies.elements(), async move |steps, preparing| {
            let members = request.of_copies(&copies).sorted(&steps, combine).await;
            let mut storing = Storing::new(steps, preparing, Kind::ZSet);
            for (member, score) in members {
                storing.scored(member, stored(score)).await?;
            }
            storing.end().await
        });
    }
    let members = at_once(async |steps| request.sorted(steps, combine).await);
    let mut image = ImageBuilder::new(Kind::ZSet);
    for (member, score) in members {
        image.push_scored(member, stored(score));
    }
    store_image(cx, args.at(1), Kind::ZSet, image);
    Ok(())
}

fn zintercard<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let request = Request::parse(cx, args, 1, "zintercard", Combine::Inter, Use::Count)?;
    if let Some(copies) = cx.copies_if_long(&request.entries) {
        let request = request.detached();
        cx.run_in_steps(copies.elements(), async move |steps| {
            let members = request.of_copies(&copies).combine(&steps, Combine::Inter).await;
            steps.reply(|reply| reply.integer(members.len() as i64));
            Ok(())
        });
        return Ok(());
    }
    let members = at_once(async |steps| request.combine(steps, Combine::Inter).await);
    cx.reply.integer(members.len() as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opposite_infinities_and_nan_are_no_scores() {
        let inf = f64::INFINITY;
        assert_eq!(Aggregate::Sum.apply(inf, -inf), 0.0);
        assert_eq!(Aggregate::Sum.apply(1.0, inf), inf);
        assert_eq!(Aggregate::Min.apply(1.0, f64::NAN), 1.0);
        assert_eq!(Aggregate::Max.apply(-inf, inf), inf);
        assert_eq!(number_or_zero(0.0 * inf), 0.0);
    }

    #[test]
    fn members_are_ordered_by_score_then_bytes() {
        let mut members = [(&b"b"[..], 1.0), (b"a", 1.0), (b"c", f64::NEG_INFINITY), (b"d", 0.5)];
        members.sort_by(by_score);
        let names: Vec<&[u8]> = members.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, [b"c", b"d", b"a", b"b"]);
    }
}
