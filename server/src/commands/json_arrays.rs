//! Changes and reads the arrays of JSON documents.

use std::ops::Range;

use serde_json::Value;
use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::spec::Flags;
use crate::json::document::{self, type_of};
use crate::json::{Layout, Path};

use super::json::{
    ANY_SIZE, NO_KEY, READ, UPDATE, WRITES, arity, change_each, document, nothing_at, path_at, reply_numbers,
    root_or_null, unexpected,
};

const OUT_OF_BOUNDS: CommandError = CommandError::text("ERR index out of bounds");
const OR_NO_ARRAY: &str = " or not an array";

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row(
        "json.arrappend",
        -4,
        WRITES,
        "1.0.0",
        "Appends values to the arrays at a path of a JSON document.",
        arrappend,
    )
    .keys(UPDATE)
    .complexity(ANY_SIZE),
    row(
        "json.arrindex",
        -4,
        Flags::READONLY,
        "1.0.0",
        "Finds a value in arrays of a JSON document.",
        arrindex,
    )
    .keys(READ)
    .complexity(ANY_SIZE),
    row(
        "json.arrinsert",
        -5,
        WRITES,
        "1.0.0",
        "Inserts values into the arrays at a path of a JSON document.",
        arrinsert,
    )
    .keys(UPDATE)
    .complexity(ANY_SIZE),
    row(
        "json.arrlen",
        -2,
        Flags::READONLY,
        "1.0.0",
        "Counts the elements of arrays of a JSON document.",
        arrlen,
    )
    .keys(READ)
    .complexity(ANY_SIZE),
    row(
        "json.arrpop",
        -2,
        Flags::WRITE,
        "1.0.0",
        "Removes an element of each array at a path of a JSON document, and returns it.",
        arrpop,
    )
    .keys(UPDATE)
    .complexity(ANY_SIZE),
    row(
        "json.arrtrim",
        5,
        Flags::WRITE,
        "1.0.0",
        "Cuts the arrays at a path of a JSON document down to a range.",
        arrtrim,
    )
    .keys(UPDATE)
    .complexity(ANY_SIZE),
];

fn integer(word: &[u8]) -> Result<i64, CommandError> {
    std::str::from_utf8(word).ok().and_then(|text| text.parse().ok()).ok_or(CommandError::NotAnInteger)
}

/// The element that an index says, from the end if it is negative; that at the nearer end for one beyond.
fn nearest(index: i64, len: usize) -> usize {
    let distance = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
    if index < 0 { len.saturating_sub(distance) } else { distance.min(len.saturating_sub(1)) }
}

fn arrappend<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    add(cx, args, 3, &|_| Ok(None))
}

fn arrinsert<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let index = integer(args.at(3))?;
    add(cx, args, 4, &|len| {
        let distance = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        match index {
            _ if distance > len => Err(OUT_OF_BOUNDS),
            ..0 => Ok(Some(len - distance)),
            _ => Ok(Some(distance)),
        }
    })
}

/// Adds the values from argument `first` on to each array: at the place that `place_in` says of an array of
/// this length, or else at the end.
fn add<'a>(
    cx: &mut Context<'_, 'a>,
    args: Args<'a>,
    first: usize,
    place_in: &dyn Fn(usize) -> Result<Option<usize>, CommandError>,
) -> Result<(), CommandError> {
    let key = args.at(1);
    let document = document(cx, key)?.ok_or(NO_KEY)?;
    let path = Path::parse(args.at(2))?;
    let given: Vec<Value> = args.tail(first).iter().map(document::parse).collect::<Result<_, _>>()?;
    let bytes: usize = given.iter().map(document::len_at_least).sum();
    let arrays = path.select(&document.root).into_iter().filter(|value| value.is_array()).count();
    cx.check_string_len(bytes.saturating_mul(arrays) as u64)?;
    let lens = change_each(cx, key, document, &path, |value| {
        let Value::Array(elements) = value else { return Ok(None) };
        let at = place_in(elements.len())?.unwrap_or(elements.len());
        elements.splice(at..at, given.iter().cloned());
        Ok(Some(elements.len() as i64))
    })?;
    reply_numbers(cx, &path, &lens, OR_NO_ARRAY)
}

fn arrindex<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len() > 6 {
        return Err(arity("json.arrindex"));
    }
    let path = Path::parse(args.at(2))?;
    let wanted = document::parse(args.at(3))?;
    let start = args.get(4).map_or(Ok(0), integer)?;
    let stop = args.get(5).map_or(Ok(0), integer)?;
    let root = document(cx, args.at(1))?.ok_or(NO_KEY)?.root;
    let place = |value: &Value| match value {
        Value::Array(elements) => {
            let range = searched(start, stop, elements.len());
            let found = elements[range.clone()].iter().position(|element| *element == wanted);
            Some(found.map_or(-1, |at| (range.start + at) as i64))
        }
        _ => None,
    };
    let found = path.select(&root);
    if path.is_legacy {
        let first = found.first().ok_or_else(|| nothing_at(&path.full, ""))?;
        cx.reply.integer(place(first).ok_or_else(|| unexpected("array", type_of(first)))?);
        return Ok(());
    }
    let places: Vec<Option<i64>> = found.into_iter().map(place).collect();
    reply_numbers(cx, &path, &places, OR_NO_ARRAY)
}

/// The places that `JSON.ARRINDEX` looks at: from `start` up to, but without `stop`, where 0 is the end.
fn searched(start: i64, stop: i64, len: usize) -> Range<usize> {
    let bound = |index: i64| {
        let distance = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        if index < 0 { len.saturating_sub(distance) } else { distance.min(len) }
    };
    let (start, stop) = (bound(start), if stop == 0 { len } else { bound(stop) });
    start.min(stop)..stop
}

fn arrlen<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let path = path_at(args, 2, "json.arrlen")?;
    let Some(root) = root_or_null(cx, args.at(1), &path)? else { return Ok(()) };
    let found = path.select(&root);
    let found = if path.is_legacy { &found[..found.len().min(1)] } else { &found[..] };
    let lens: Vec<Option<i64>> =
        found.iter().map(|value| value.as_array().map(|elements| elements.len() as i64)).collect();
    reply_numbers(cx, &path, &lens, OR_NO_ARRAY)
}

fn arrpop<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len() > 4 {
        return Err(arity("json.arrpop"));
    }
    let key = args.at(1);
    let path = Path::parse(args.get(2).unwrap_or(b"."))?;
    let index = args.get(3).map_or(Ok(-1), integer)?;
    let document = document(cx, key)?.ok_or(NO_KEY)?;
    let popped = change_each(cx, key, document, &path, |value| {
        let Value::Array(elements) = value else { return Ok(None) };
        let at = nearest(index, elements.len());
        Ok(Some((at < elements.len()).then(|| elements.remove(at))))
    })?;
    if path.is_legacy {
        let last = popped.iter().flatten().next_back();
        return reply_text(cx, last.ok_or_else(|| nothing_at(&path.full, OR_NO_ARRAY))?.as_ref());
    }
    cx.reply.array(popped.len());
    popped.iter().try_for_each(|value| reply_text(cx, value.as_ref().and_then(Option::as_ref)))
}

fn reply_text(cx: &mut Context<'_, '_>, value: Option<&Value>) -> Result<(), CommandError> {
    match value {
        Some(value) => cx.reply.bulk(&Layout::default().text(value, cx.string_len_max())?),
        None => cx.reply.null(),
    }
    Ok(())
}

fn arrtrim<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let path = Path::parse(args.at(2))?;
    let (start, stop) = (integer(args.at(3))?, integer(args.at(4))?);
    let document = document(cx, key)?.ok_or(NO_KEY)?;
    let lens = change_each(cx, key, document, &path, |value| {
        let Value::Array(elements) = value else { return Ok(None) };
        let (first, last) = (nearest(start, elements.len()), nearest(stop, elements.len()));
        if elements.is_empty() || start >= elements.len() as i64 || first > last {
            elements.clear();
        } else {
            elements.truncate(last + 1);
            elements.drain(..first);
        }
        Ok(Some(elements.len() as i64))
    })?;
    reply_numbers(cx, &path, &lens, OR_NO_ARRAY)
}
