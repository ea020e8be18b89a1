//! Sorted-set commands on ranges: by index, by score, by bytes; returned, counted, stored, removed.

use std::ops::Range;

use tarn_engine::Entry;
use tarn_engine::record::{Change, Kind};
use tarn_engine::value::{ImageBuilder, ValueRef, ZSetRef};
use tarn_resp::Args;

use super::set_algebra::store_image;
use super::zset_bounds::{Bounds, By};
use super::zsets::{write_member, write_members_head};
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};
use crate::execute::storing::Storing;

const READ: Flags = Flags::READONLY;
const ACCESS: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const DELETE: &[KeySpec] = &[KeySpec::one(&["RW", "delete"])];
const STORE: &[KeySpec] = &[KeySpec::one(&["OW", "update"]), KeySpec::range(2, 0, 1, &["RO", "access"])];

const LOG: &str = "O(log(N)), N being the number of members in the sorted set";
const RANGE: &str = "O(log(N)+M), N being the number of members and M the number of those in the range";

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("zrange", -4, READ, "1.2.0", "Returns the members in a range.", zrange)
        .keys(ACCESS)
        .complexity(RANGE),
    row(
        "zrangestore",
        -5,
        Flags::WRITE.with(Flags::DENYOOM),
        "6.2.0",
        "Stores the members in a range.",
        zrangestore,
    )
    .keys(STORE)
    .complexity(RANGE),
    row(
        "zrevrange",
        -4,
        READ,
        "1.2.0",
        "Returns the members in a range of indices, highest first.",
        zrevrange,
    )
    .keys(ACCESS)
    .complexity(RANGE),
    row("zrangebyscore", -4, READ, "1.0.5", "Returns the members in a range of scores.", zrangebyscore)
        .keys(ACCESS)
        .complexity(RANGE),
    row(
        "zrevrangebyscore",
        -4,
        READ,
        "2.2.0",
        "Returns the members in a range of scores, highest first.",
        zrevrangebyscore,
    )
    .keys(ACCESS)
    .complexity(RANGE),
    row("zrangebylex", -4, READ, "2.8.9", "Returns the members from one to another.", zrangebylex)
        .keys(ACCESS)
        .complexity(RANGE),
    row("zrevrangebylex", -4, READ, "2.8.9", "Returns the members from one down to another.", zrevrangebylex)
        .keys(ACCESS)
        .complexity(RANGE),
    row("zcount", 4, READ.with(Flags::FAST), "2.0.0", "Counts the members in a range of scores.", zcount)
        .keys(ACCESS)
        .complexity(LOG),
    row(
        "zlexcount",
        4,
        READ.with(Flags::FAST),
        "2.8.9",
        "Counts the members from one to another.",
        zlexcount,
    )
    .keys(ACCESS)
    .complexity(LOG),
    row(
        "zremrangebyrank",
        4,
        Flags::WRITE,
        "2.0.0",
        "Removes the members in a range of indices.",
        zremrangebyrank,
    )
    .keys(DELETE)
    .complexity(RANGE),
    row(
        "zremrangebyscore",
        4,
        Flags::WRITE,
        "1.2.0",
        "Removes the members in a range of scores.",
        zremrangebyscore,
    )
    .keys(DELETE)
    .complexity(RANGE),
    row(
        "zremrangebylex",
        4,
        Flags::WRITE,
        "2.8.9",
        "Removes the members from one to another.",
        zremrangebylex,
    )
    .keys(DELETE)
    .complexity(RANGE),
];

/// The kind of range that a command's name implies.
#[derive(Clone, Copy)]
struct Form {
    by: Option<By>,
    reverse: Option<bool>,
    /// Where the key of the sorted set stands; the bounds follow.
    key_at: usize,
    stores: bool,
}

/// A part of a sorted set.
#[derive(Debug, PartialEq)]
struct Request<'a> {
    bounds: Bounds<'a>,
    reverse: bool,
    /// How many members of the range are left out at its beginning; all if negative.
    offset: i64,
    /// How many members are wanted; all if negative.
    limit: i64,
    with_scores: bool,
}

impl<'a> Request<'a> {
    fn parse(args: Args<'a>, form: Form) -> Result<Request<'a>, CommandError> {
        let (mut by, mut reverse) = (form.by, form.reverse);
        let (mut offset, mut limit, mut with_scores) = (0, -1, false);
        let mut at = form.key_at + 3;
        while let Some(option) = args.get(at) {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            if !form.stores && is("withscores") {
                with_scores = true;
            } else if is("limit") && at + 2 < args.len() {
                (offset, limit) = (parse::integer(args.at(at + 1))?, parse::integer(args.at(at + 2))?);
                at += 2;
            } else if reverse.is_none() && is("rev") {
                reverse = Some(true);
            } else if by.is_none() && is("bylex") {
                by = Some(By::Lex);
            } else if by.is_none() && is("byscore") {
                by = Some(By::Score);
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        let (by, reverse) = (by.unwrap_or(By::Index), reverse.unwrap_or(false));
        if limit != -1 && by == By::Index {
            return Err(CommandError::text(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && by == By::Lex {
            return Err(CommandError::text(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (mut min, mut max) = (args.at(form.key_at + 1), args.at(form.key_at + 2));
        if reverse && by != By::Index {
            std::mem::swap(&mut min, &mut max);
        }
        Ok(Request { bounds: Bounds::parse(by, min, max)?, reverse, offset, limit, with_scores })
    }

    /// The indices of the wanted members.
    fn indices(&self, zset: ZSetRef<'_>) -> Range<usize> {
        let range = self.bounds.indices(zset, self.reverse);
        match self.bounds {
            // Indices count from where reading begins; an offset without a limit says nothing here.
            Bounds::Index(..) if self.reverse => zset.len() - range.end..zset.len() - range.start,
            Bounds::Index(..) => range,
            Bounds::Score(..) | Bounds::Lex(..) => cut(range, self.offset, self.limit, self.reverse),
        }
    }
}

/// Leaves out `offset` members and takes up to `limit`, from the end backwards if `reverse`.
fn cut(range: Range<usize>, offset: i64, limit: i64, reverse: bool) -> Range<usize> {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(range.len());
    let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(range.len() - offset);
    if reverse {
        let end = range.end - offset;
        end - limit..end
    } else {
        let start = range.start + offset;
        start..start + limit
    }
}

fn zrange<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    reply_with(cx, args, None, None)
}

fn zrevrange<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    reply_with(cx, args, Some(By::Index), Some(true))
}

fn zrangebyscore<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    reply_with(cx, args, Some(By::Score), Some(false))
}

fn zrevrangebyscore<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    reply_with(cx, args, Some(By::Score), Some(true))
}

fn zrangebylex<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    reply_with(cx, args, Some(By::Lex), Some(false))
}

fn zrevrangebylex<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    reply_with(cx, args, Some(By::Lex), Some(true))
}

fn reply_with<'a>(
    cx: &mut Context<'_, 'a>,
    args: Args<'a>,
    by: Option<By>,
    reverse: Option<bool>,
) -> Result<(), CommandError> {
    let request = Request::parse(args, Form { by, reverse, key_at: 1, stores: false })?;
    let entry = cx.entry_of(args.at(1), Kind::ZSet)?;
    let range = match entry.map(Entry::value) {
        Some(ValueRef::ZSet(zset)) => request.indices(zset),
        _ => 0..0,
    };
    let Request { reverse, with_scores, .. } = request;
    write_members_head(&mut cx.reply, range.len(), with_scores);
    let Some(entry) = entry.filter(|_| !range.is_empty()) else { return Ok(()) };
    cx.reply_elements(entry, 0..range.len(), move |reply, value, part| {
        let ValueRef::ZSet(zset) = value else { return };
        if reverse {
            let members = zset.rev_iter_from(range.end - 1 - part.start).take(part.len());
            members.for_each(|member| write_member(reply, member, with_scores));
        } else {
            let members = zset.iter_from(range.start + part.start).take(part.len());
            members.for_each(|member| write_member(reply, member, with_scores));
        }
    });
    Ok(())
}

fn zrangestore<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let request = Request::parse(args, Form { by: None, reverse: None, key_at: 2, stores: true })?;
    let entry = cx.entry_of(args.at(2), Kind::ZSet)?;
    if let Some(elements) = cx.put_ready(cx.db, args.at(1)) {
        cx.reply.integer(elements as i64);
        return Ok(());
    }
    let mut image = ImageBuilder::new(Kind::ZSet);
    if let Some(entry) = entry
        && let ValueRef::ZSet(zset) = entry.value()
    {
        // Their order in the request makes no difference any more.
        let range = request.indices(zset);
        if cx.may_prepare(args.at(1)) && cx.runs_long([(entry, range.len())].into_iter()) {
            let (target, copy) = ((cx.db, args.at(1)), cx.keys.copy(entry));
            return cx.prepare(
                target,
                Kind::ZSet,
                &[args.at(2)],
                range.len(),
                async move |steps, preparing| {
                    let mut storing = Storing::new(steps, preparing, Kind::ZSet);
                    if let ValueRef::ZSet(zset) = copy.value() {
                        for (member, score) in zset.iter_from(range.start).take(range.len()) {
                            storing.scored(member, score).await?;
                        }
                    }
                    storing.end().await
                },
            );
        }
        zset.iter_from(range.start)
            .take(range.len())
            .for_each(|(member, score)| image.push_scored(member, score));
    }
    store_image(cx, args.at(1), Kind::ZSet, image);
    Ok(())
}

fn zcount<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    count(cx, args, By::Score)
}

fn zlexcount<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    count(cx, args, By::Lex)
}

fn count<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>, by: By) -> Result<(), CommandError> {
    let bounds = Bounds::parse(by, args.at(2), args.at(3))?;
    let count = cx.zset(args.at(1))?.map_or(0, |zset| bounds.indices(zset, false).len());
    cx.reply.integer(count as i64);
    Ok(())
}

fn zremrangebyrank<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    remove(cx, args, By::Index)
}

fn zremrangebyscore<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    remove(cx, args, By::Score)
}

fn zremrangebylex<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    remove(cx, args, By::Lex)
}

fn remove<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>, by: By) -> Result<(), CommandError> {
    let key = args.at(1);
    let bounds = Bounds::parse(by, args.at(2), args.at(3))?;
    let mut removed = 0;
    if let Some(zset) = cx.zset(key)? {
        let range = bounds.indices(zset, false);
        removed = range.len();
        remove_range(cx, key, zset, range);
    }
    cx.reply.integer(removed as i64);
    Ok(())
}

/// Removes the members in a range of indices.
pub(super) fn remove_range<'a>(
    cx: &mut Context<'_, 'a>,
    key: &'a [u8],
    zset: ZSetRef<'_>,
    range: Range<usize>,
) {
    if range.len() == zset.len() {
        cx.write(key, Change::Delete);
    } else {
        for (member, _) in zset.iter_from(range.start).take(range.len()) {
            cx.write(key, Change::ZSetRemove { member: member.to_vec().into() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_and_limit_count_from_where_reading_begins() {
        assert_eq!(cut(10..20, 0, -1, false), 10..20);
        assert_eq!(cut(10..20, 2, 3, false), 12..15);
        assert_eq!(cut(10..20, 2, 3, true), 15..18);
        assert_eq!(cut(10..20, 9, 5, false), 19..20);
        assert_eq!(cut(10..20, 9, 5, true), 10..11);
        for (offset, limit) in [(10, 1), (0, 0), (-1, 5), (i64::MAX, i64::MAX), (i64::MIN, -1)] {
            assert!(cut(10..20, offset, limit, false).is_empty());
            assert!(cut(10..20, offset, limit, true).is_empty());
        }
        assert_eq!(cut(10..20, 0, i64::MIN, true), 10..20);
    }
}
