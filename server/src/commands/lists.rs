//! List commands that look at or change one list. Those that move elements between lists or wait for them are
//! in
//! `lists_moving` and `lists_blocking`.

use std::ops::Range;

use tarn_engine::record::{Change, Kind, Side};
use tarn_engine::value::{ListRef, ValueRef};
use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

const READ: Flags = Flags::READONLY;
const GROW: Flags = Flags::WRITE.with(Flags::DENYOOM);
const FAST_GROW: Flags = GROW.with(Flags::FAST);
const FAST_SHRINK: Flags = Flags::WRITE.with(Flags::FAST);

const LOOK: &[KeySpec] = &[KeySpec::one(&["RO"])];
const ACCESS: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const UPDATE: &[KeySpec] = &[KeySpec::one(&["RW", "update"])];
const INSERT: &[KeySpec] = &[KeySpec::one(&["RW", "insert"])];
const DELETE: &[KeySpec] = &[KeySpec::one(&["RW", "delete"])];
const POP: &[KeySpec] = &[KeySpec::one(&["RW", "access", "delete"])];

const PER_ELEMENT: &str = "O(N), N being the number of elements named";
const SEARCH: &str = "O(N), N being the number of elements passed over";

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("lpush", -3, FAST_GROW, "1.0.0", "Puts elements in front of a list, one after the other.", lpush)
        .keys(INSERT)
        .complexity(PER_ELEMENT),
    row("rpush", -3, FAST_GROW, "1.0.0", "Puts elements behind a list.", rpush)
        .keys(INSERT)
        .complexity(PER_ELEMENT),
    row("lpushx", -3, FAST_GROW, "2.2.0", "As LPUSH, if the list exists.", lpushx)
        .keys(INSERT)
        .complexity(PER_ELEMENT),
    row("rpushx", -3, FAST_GROW, "2.2.0", "As RPUSH, if the list exists.", rpushx)
        .keys(INSERT)
        .complexity(PER_ELEMENT),
    row("lpop", -2, FAST_SHRINK, "1.0.0", "Takes the first elements.", lpop)
        .keys(POP)
        .complexity("O(N), N being the number of elements taken"),
    row("rpop", -2, FAST_SHRINK, "1.0.0", "Takes the last elements.", rpop)
        .keys(POP)
        .complexity("O(N), N being the number of elements taken"),
    row("llen", 2, READ.with(Flags::FAST), "1.0.0", "Returns the number of elements.", llen).keys(LOOK),
    row("lrange", 4, READ, "1.0.0", "Returns the elements from one index to another.", lrange)
        .keys(ACCESS)
        .complexity("O(log(N)+M), N being the length of the list and M the number of elements returned"),
    row("lindex", 3, READ, "1.0.0", "Returns the element at an index.", lindex)
        .keys(ACCESS)
        .complexity("O(log(N))"),
    row("lset", 4, GROW, "1.0.0", "Replaces the element at an index.", lset)
        .keys(UPDATE)
        .complexity("O(log(N))"),
    row("linsert", 5, GROW, "2.2.0", "Puts an element before or behind another.", linsert)
        .keys(INSERT)
        .complexity(SEARCH),
    row("lrem", 4, Flags::WRITE, "1.0.0", "Removes elements equal to one given.", lrem)
        .keys(DELETE)
        .complexity(SEARCH),
    row("ltrim", 4, Flags::WRITE, "1.0.0", "Removes all elements outside a range of indices.", ltrim)
        .keys(DELETE)
        .complexity("O(N), N being the number of elements removed"),
    row("lpos", -3, READ, "6.0.6", "Returns the indices of elements equal to one given.", lpos)
        .keys(ACCESS)
        .complexity(SEARCH),
];

/// The elements of an index range as Redis means it: negative indices count from the end, both ends belong to
/// it. Empty if nothing is in it.
pub(super) fn indices(start: i64, stop: i64, len: usize) -> Range<usize> {
    let from_front = |index: i64| if index < 0 { index.saturating_add(len as i64) } else { index };
    let start = from_front(start).max(0);
    let end = from_front(stop).saturating_add(1).min(len as i64);
    if start < end { start as usize..end as usize } else { 0..0 }
}

/// The index that a possibly negative one means, if it is inside.
fn index_in(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add(len as i64)? } else { index };
    usize::try_from(index).ok().filter(|index| *index < len)
}

fn lpush<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    push_all(cx, args, Side::Front, true)
}

fn rpush<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    push_all(cx, args, Side::Back, true)
}

fn lpushx<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    push_all(cx, args, Side::Front, false)
}

fn rpushx<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    push_all(cx, args, Side::Back, false)
}

fn push_all<'a>(
    cx: &mut Context<'_, 'a>,
    args: Args<'a>,
    side: Side,
    creates: bool,
) -> Result<(), CommandError> {
    let key = args.at(1);
    let list = cx.list(key)?;
    if list.is_none() && !creates {
        cx.reply.integer(0);
        return Ok(());
    }
    for element in args.tail(2) {
        cx.write(key, Change::ListPush { side, element: element.into() });
    }
    let len = list.map_or(0, |list| list.len()) + args.len() - 2;
    cx.reply.integer(len as i64);
    Ok(())
}

fn lpop<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    pop(cx, args, Side::Front, "lpop")
}

fn rpop<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    pop(cx, args, Side::Back, "rpop")
}

fn pop<'a>(
    cx: &mut Context<'_, 'a>,
    args: Args<'a>,
    side: Side,
    name: &'static str,
) -> Result<(), CommandError> {
    if args.len() > 3 {
        return Err(CommandError::Arity(name.into()));
    }
    let key = args.at(1);
    let count = args.get(2).map(parse::count).transpose()?;
    match (cx.list(key)?, count) {
        (None, None) => cx.reply.null(),
        (None, Some(_)) => cx.reply.null_array(),
        (Some(list), None) => {
            write_end(cx, list, side);
            cx.write(key, Change::ListPop { side, count: 1 });
        }
        (Some(list), Some(count)) => pop_many(cx, key, list, side, count),
    }
    Ok(())
}

/// Writes the element at an end as a bulk.
pub(super) fn write_end(cx: &mut Context<'_, '_>, list: ListRef<'_>, side: Side) {
    cx.reply.bulk(end_of(list, side));
}

/// The element at an end.
pub(super) fn end_of(list: ListRef<'_>, side: Side) -> &[u8] {
    let index = if side == Side::Front { 0 } else { list.len() - 1 };
    list.get(index).expect("a list is never empty")
}

/// Takes up to `count` elements from one end and writes them as an array.
pub(super) fn pop_many<'a>(
    cx: &mut Context<'_, 'a>,
    key: &'a [u8],
    list: ListRef<'_>,
    side: Side,
    count: u64,
) {
    let len = list.len() as u64;
    let count = count.min(len);
    cx.reply.array(count as usize);
    match side {
        Side::Front => list.iter_from(0).take(count as usize).for_each(|element| cx.reply.bulk(element)),
        Side::Back => {
            list.rev_iter_from(list.len() - 1)
                .take(count as usize)
                .for_each(|element| cx.reply.bulk(element));
        }
    }
    match count {
        0 => {}
        _ if count == len => cx.write(key, Change::Delete),
        _ => cx.write(key, Change::ListPop { side, count }),
    }
}

fn llen<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let len = cx.list(args.at(1))?.map_or(0, |list| list.len());
    cx.reply.integer(len as i64);
    Ok(())
}

fn lrange<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (start, stop) = (parse::integer(args.at(2))?, parse::integer(args.at(3))?);
    let Some(entry) = cx.entry_of(args.at(1), Kind::List)? else {
        cx.reply.array(0);
        return Ok(());
    };
    let range = indices(start, stop, entry.count());
    cx.reply.array(range.len());
    if !range.is_empty() {
        cx.reply_elements(entry, range, |reply, value, range| {
            if let ValueRef::List(list) = value {
                list.iter_from(range.start).take(range.len()).for_each(|element| reply.bulk(element));
            }
        });
    }
    Ok(())
}

fn lindex<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let Some(list) = cx.list(args.at(1))? else {
        cx.reply.null();
        return Ok(());
    };
    let index = index_in(parse::integer(args.at(2))?, list.len());
    match index.and_then(|index| list.get(index)) {
        Some(element) => cx.reply.bulk(element),
        None => cx.reply.null(),
    }
    Ok(())
}

fn lset<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let list = cx.list(key)?.ok_or(CommandError::NoSuchKey)?;
    let index = index_in(parse::integer(args.at(2))?, list.len()).ok_or(CommandError::IndexOutOfRange)?;
    cx.write(key, Change::ListPut { index: index as u64, element: args.at(3).into() });
    cx.reply.ok();
    Ok(())
}

fn linsert<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, pivot) = (args.at(1), args.at(3));
    let behind = if args.at(2).eq_ignore_ascii_case(b"before") {
        0
    } else if args.at(2).eq_ignore_ascii_case(b"after") {
        1
    } else {
        return Err(CommandError::Syntax);
    };
    let Some(list) = cx.list(key)? else {
        cx.reply.integer(0);
        return Ok(());
    };
    match list.iter_from(0).position(|element| element == pivot) {
        Some(index) => {
            let index = (index + behind) as u64;
            cx.write(key, Change::ListInsert { index, element: args.at(4).into() });
            cx.reply.integer(list.len() as i64 + 1);
        }
        None => cx.reply.integer(-1),
    }
    Ok(())
}

fn lrem<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, unwanted) = (args.at(1), args.at(3));
    let count = parse::integer(args.at(2))?;
    let Some(list) = cx.list(key)? else {
        cx.reply.integer(0);
        return Ok(());
    };
    let most =
        if count == 0 { usize::MAX } else { usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) };
    let places: Vec<usize> = if count >= 0 {
        let hits = list.iter_from(0).enumerate().filter(|(_, element)| *element == unwanted);
        // Each removal moves what stands behind it forward by one.
        hits.take(most).enumerate().map(|(removed, (index, _))| index - removed).collect()
    } else {
        let indices = (0..list.len()).rev();
        let hits =
            indices.zip(list.rev_iter_from(list.len() - 1)).filter(|(_, element)| *element == unwanted);
        hits.take(most).map(|(index, _)| index).collect()
    };
    if places.len() == list.len() {
        cx.write(key, Change::Delete);
    } else {
        for &index in &places {
            cx.write(key, Change::ListRemove { index: index as u64 });
        }
    }
    cx.reply.integer(places.len() as i64);
    Ok(())
}

fn ltrim<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let (start, stop) = (parse::integer(args.at(2))?, parse::integer(args.at(3))?);
    if let Some(list) = cx.list(key)? {
        let kept = indices(start, stop, list.len());
        let (front, back) = (kept.start as u64, (list.len() - kept.end) as u64);
        if kept.is_empty() {
            cx.write(key, Change::Delete);
        } else {
            if front > 0 {
                cx.write(key, Change::ListPop { side: Side::Front, count: front });
            }
            if back > 0 {
                cx.write(key, Change::ListPop { side: Side::Back, count: back });
            }
        }
    }
    cx.reply.ok();
    Ok(())
}

/// The arguments of `LPOS`.
#[derive(Debug, PartialEq)]
struct Search {
    /// The first match that counts, 1 first.
    rank: u64,
    from_back: bool,
    /// How many matches are wanted, 0 for all; `None`: one, and not as an array.
    count: Option<u64>,
    /// How many elements are compared, 0 for all.
    max_compared: u64,
}

impl Search {
    fn parse(args: Args<'_>) -> Result<Search, CommandError> {
        let mut search = Search { rank: 1, from_back: false, count: None, max_compared: 0 };
        let mut options = args.tail(3).into_iter();
        while let Some(option) = options.next() {
            let value = options.next().ok_or(CommandError::Syntax)?;
            if option.eq_ignore_ascii_case(b"rank") {
                let rank = parse::integer(value)?;
                if rank == 0 {
                    return Err(CommandError::text(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
                         or use negative to start from the end of the list",
                    ));
                }
                (search.rank, search.from_back) = (rank.unsigned_abs(), rank < 0);
            } else if option.eq_ignore_ascii_case(b"count") {
                search.count = Some(parse::count_or(value, "ERR COUNT can't be negative")?);
            } else if option.eq_ignore_ascii_case(b"maxlen") {
                search.max_compared = parse::count_or(value, "ERR MAXLEN can't be negative")?;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(search)
    }

    /// Hands the indices of the matches in a list to `found`.
    fn run(&self, list: ListRef<'_>, wanted: &[u8], mut found: impl FnMut(usize)) {
        let no_limit = |limit: u64| if limit == 0 { usize::MAX } else { limit as usize };
        let skipped = usize::try_from(self.rank - 1).unwrap_or(usize::MAX);
        let compared = no_limit(self.max_compared);
        let count = no_limit(self.count.unwrap_or(1));
        let matches = |(_, element): &(usize, &[u8])| *element == wanted;
        if self.from_back {
            let back = (0..list.len()).rev().zip(list.rev_iter_from(list.len() - 1));
            back.take(compared).filter(matches).skip(skipped).take(count).for_each(|(index, _)| found(index));
        } else {
            let front = list.iter_from(0).enumerate();
            front
                .take(compared)
                .filter(matches)
                .skip(skipped)
                .take(count)
                .for_each(|(index, _)| found(index));
        }
    }
}

fn lpos<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let search = Search::parse(args)?;
    let mut places = Vec::new();
    if let Some(list) = cx.list(args.at(1))? {
        search.run(list, args.at(2), |index| places.push(index));
    }
    match (search.count, places.as_slice()) {
        (None, []) => cx.reply.null(),
        (None, [first, ..]) => cx.reply.integer(*first as i64),
        (Some(_), places) => {
            cx.reply.array(places.len());
            places.iter().for_each(|place| cx.reply.integer(*place as i64));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_ranges_count_from_both_ends_and_are_cut_to_the_list() {
        assert_eq!(indices(0, -1, 5), 0..5);
        assert_eq!(indices(-3, -2, 5), 2..4);
        assert_eq!(indices(-100, 100, 5), 0..5);
        assert_eq!(indices(4, 4, 5), 4..5);
        for (start, stop) in [(3, 2), (5, 9), (0, -6), (i64::MAX, i64::MAX), (i64::MIN, i64::MIN)] {
            assert!(indices(start, stop, 5).is_empty(), "{start} {stop}");
        }
        assert_eq!(indices(i64::MIN, i64::MAX, 5), 0..5);
    }

    #[test]
    fn single_indices_must_be_inside() {
        assert_eq!(
            (index_in(0, 3), index_in(2, 3), index_in(-1, 3), index_in(-3, 3)),
            (Some(0), Some(2), Some(2), Some(0))
        );
        for index in [3, -4, i64::MAX, i64::MIN] {
            assert_eq!(index_in(index, 3), None);
        }
    }
}
