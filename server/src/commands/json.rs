//! JSON documents and paths in them, with the replies of RedisJSON 2.
//!
//! A key holds the text of its document. A command reads it, selects, and writes the new text: a change of a
//! part is a record of the whole (`docs/design/0022`). The expiry stays, whatever is set.

use std::collections::HashSet;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Number, Value};
use tarn_engine::record::{Change, Kind};
use tarn_engine::value::StringRef;
use tarn_resp::Args;
use tarn_resp::Protocol;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::spec::{Flags, KeySpec};
use crate::json::document::{self, type_of};
use crate::json::select::{Fate, Marks, select};
use crate::json::{Document, Layout, Path, PathError};

const READ: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const UPDATE: &[KeySpec] = &[KeySpec::one(&["RW", "access", "update"])];
const DELETE: &[KeySpec] = &[KeySpec::one(&["RW", "delete"])];
const WRITES: Flags = Flags::WRITE.with(Flags::DENYOOM);
const ANY_SIZE: &str = "O(N) for the bytes of the document";

const NO_KEY: CommandError =
    CommandError::text("ERR could not perform this operation on a key that doesn't exist");
const NEW_AT_ROOT: CommandError = CommandError::text("ERR new objects must be created at the root");
const NOT_STATIC: CommandError = CommandError::text("ERR wrong static path");
const OUT_OF_RANGE: CommandError = CommandError::text("ERR array index out of range");
const NO_FORMAT: CommandError =
    CommandError::text("ERR FORMAT argument is not supported: the reply is the text of the values");
const BAD_NUMBER: CommandError = CommandError::text("ERR bad input number");
const OVERFLOW: CommandError = CommandError::text("ERR numeric overflow");
const NOT_A_NUMBER: CommandError = CommandError::text("ERR result is not a number");

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("json.set", -4, WRITES, "1.0.0", "Sets the values at a path of a JSON document.", set)
        .keys(UPDATE)
        .complexity(ANY_SIZE),
    row("json.get", -2, Flags::READONLY, "1.0.0", "Returns values of a JSON document as text.", get)
        .keys(READ)
        .complexity(ANY_SIZE),
    row("json.mget", -3, Flags::READONLY, "1.0.0", "Returns values of several JSON documents as text.", mget)
        .keys(&[KeySpec::range(1, -2, 1, &["RO", "access"])])
        .complexity("O(N) for the bytes of the documents"),
    row("json.del", -2, Flags::WRITE, "1.0.0", "Removes the values at a path of a JSON document.", del)
        .keys(DELETE)
        .complexity(ANY_SIZE),
    row("json.forget", -2, Flags::WRITE, "1.0.0", "Another name of JSON.DEL.", del)
        .keys(DELETE)
        .complexity(ANY_SIZE),
    row("json.type", -2, Flags::READONLY, "1.0.0", "Returns the types of values of a JSON document.", types)
        .keys(READ)
        .complexity(ANY_SIZE),
    row("json.numincrby", 4, WRITES, "1.0.0", "Adds to the numbers at a path of a JSON document.", numincrby)
        .keys(UPDATE)
        .complexity(ANY_SIZE),
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
];

impl From<PathError> for CommandError {
    fn from(error: PathError) -> CommandError {
        CommandError::owned(error.to_string())
    }
}

/// The document at `key`, read.
fn document<'c>(cx: &Context<'c, '_>, key: &[u8]) -> Result<Option<Document>, CommandError> {
    cx.json(key)?.map(Document::stored).transpose()
}

/// Makes the document at `key` this one, with the expiry that the key has.
fn put<'a>(cx: &mut Context<'_, 'a>, key: &'a [u8], document: &Document) -> Result<(), CommandError> {
    let elements = document.to_text(cx.string_len_max())?.into();
    let expiry = cx.entry(key).and_then(|entry| entry.expiry());
    cx.write(key, Change::Image { kind: Kind::Json, elements, expiry, sticky: false });
    Ok(())
}

/// The error of a legacy path that leads to nothing that the command can take.
fn nothing_at(path: &str, or: &str) -> CommandError {
    CommandError::owned(format!("ERR Path '{}' does not exist{or}", path.escape_debug()))
}

/// Whether `JSON.SET` asks for the path to be missing or to be there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Missing,
    Present,
}

fn set<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let mut condition = None;
    for word in args.tail(4).iter() {
        condition = match word {
            _ if condition.is_some() => return Err(CommandError::Syntax),
            word if word.eq_ignore_ascii_case(b"nx") => Some(Condition::Missing),
            word if word.eq_ignore_ascii_case(b"xx") => Some(Condition::Present),
            _ => return Err(CommandError::Syntax),
        };
    }
    let key = args.at(1);
    let text = cx.json(key)?;
    let path = Path::parse(args.at(2))?;
    let value = document::parse(args.at(3))?;
    let is_set = match (text, condition) {
        (None, Some(Condition::Present)) => false,
        (None, _) if !path.is_root() => return Err(NEW_AT_ROOT),
        (Some(_), Some(Condition::Missing)) if path.is_root() => false,
        (_, _) if path.is_root() => {
            put(cx, key, &Document { root: value })?;
            true
        }
        (None, _) => return Err(NEW_AT_ROOT),
        (Some(text), condition) => set_below(cx, key, text, &path, &value, condition)?,
    };
    match is_set {
        true => cx.reply.ok(),
        false => cx.reply.null(),
    }
    Ok(())
}

/// Puts a value at a path below the root: on what is there, or as a new member of an object. Says whether
/// there was such a place.
fn set_below<'a>(
    cx: &mut Context<'_, 'a>,
    key: &'a [u8],
    text: StringRef<'_>,
    path: &Path,
    value: &Value,
    condition: Option<Condition>,
) -> Result<bool, CommandError> {
    let mut document = Document::stored(text)?;
    let found = path.select(&document.root);
    let is_there = !found.is_empty();
    let (marks, name) = match condition {
        Some(Condition::Missing) if is_there => return Ok(false),
        _ if is_there => (Marks::new(&document.root, &found, true), None),
        Some(Condition::Present) => return Ok(false),
        _ => {
            let (above, name) = path.new_member().ok_or(NOT_STATIC)?;
            let name = name.ok_or(OUT_OF_RANGE)?;
            let mut objects = select(&document.root, above);
            objects.retain(|object| object.is_object());
            (Marks::new(&document.root, &objects, true), Some(name))
        }
    };
    if marks.is_empty() {
        return Ok(false);
    }
    // About what is to be written, before it is made.
    cx.check_string_len(document::len_at_least(value).saturating_mul(marks.len()) as u64)?;
    marks.change(&mut document.root, &mut |place, _| {
        match (place, name) {
            (Value::Object(members), Some(name)) => _ = members.insert(name.to_owned(), value.clone()),
            (place, _) => *place = value.clone(),
        }
        Ok::<_, CommandError>(Fate::Stays)
    })?;
    put(cx, key, &document)?;
    Ok(true)
}

/// The values that several paths select, by path. Selects while it writes: all at once could be large.
struct ByPath<'s> {
    root: &'s Value,
    paths: &'s [Path],
    /// Whether the first value alone stands for each.
    is_legacy: bool,
}

impl Serialize for ByPath<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(Some(self.paths.len()))?;
        for path in self.paths {
            let found = path.select(self.root);
            match found.first().filter(|_| self.is_legacy) {
                Some(first) => map.serialize_entry(&path.original, first)?,
                None => map.serialize_entry(&path.original, &found)?,
            }
        }
        map.end()
    }
}

fn get<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (mut layout, mut paths, mut seen) = (Layout::default(), Vec::<Path>::new(), HashSet::new());
    let mut words = args.tail(2).iter();
    while let Some(word) = words.next() {
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        match word {
            _ if is(b"indent") => layout.indent = words.next().ok_or_else(|| arity("json.get"))?,
            _ if is(b"newline") => layout.newline = words.next().ok_or_else(|| arity("json.get"))?,
            _ if is(b"space") => layout.space = words.next().ok_or_else(|| arity("json.get"))?,
            // Of RedisJSON 1, without effect since.
            _ if is(b"noescape") => {}
            _ if is(b"format") => return Err(NO_FORMAT),
            path if seen.insert(path) => paths.push(Path::parse(path)?),
            _ => {}
        }
    }
    if paths.is_empty() {
        paths.push(Path::parse(b".")?);
    }
    let Some(text) = cx.json(args.at(1))? else {
        cx.reply.null();
        return Ok(());
    };
    if let ([path], true) = (&paths[..], layout.is_compact()) {
        return reply_with(cx, text, path);
    }
    let root = Document::stored(text)?.root;
    let is_legacy = paths.iter().all(|path| path.is_legacy);
    if is_legacy && let Some(path) = paths.iter().find(|path| path.select(&root).is_empty()) {
        return Err(nothing_at(if paths.len() == 1 { &path.full } else { &path.original }, ""));
    }
    let bytes_max = cx.string_len_max();
    let reply = match &paths[..] {
        [path] => match path.select(&root) {
            found if !is_legacy => layout.text(&found, bytes_max)?,
            found => layout.text(&found.first(), bytes_max)?,
        },
        paths => layout.text(&ByPath { root: &root, paths, is_legacy }, bytes_max)?,
    };
    cx.reply.bulk(&reply);
    Ok(())
}

fn arity(name: &'static str) -> CommandError {
    CommandError::Arity(name.into())
}

/// Replies with what a path selects, without blanks. The root is not even read: it is kept as it is told.
fn reply_with(cx: &mut Context<'_, '_>, text: StringRef<'_>, path: &Path) -> Result<(), CommandError> {
    if path.is_root() {
        let (before, behind): (&[u8], &[u8]) = if path.is_legacy { (b"", b"") } else { (b"[", b"]") };
        let pieces = [before].into_iter().chain(text.pieces(0..text.len())).chain([behind]);
        cx.reply.bulk_of_pieces(before.len() + text.len() + behind.len(), pieces);
        return Ok(());
    }
    let root = Document::stored(text)?.root;
    let (found, bytes_max) = (path.select(&root), cx.string_len_max());
    let reply = match found.first() {
        Some(first) if path.is_legacy => Layout::default().text(first, bytes_max)?,
        None if path.is_legacy => return Err(nothing_at(&path.full, "")),
        _ => Layout::default().text(&found, bytes_max)?,
    };
    cx.reply.bulk(&reply);
    Ok(())
}

fn mget<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let path = Path::parse(args.at(args.len() - 1))?;
    cx.reply.array(args.len() - 2);
    for key in args.tail(1).iter().take(args.len() - 2) {
        let len = cx.reply.len();
        let replied = match cx.json(key) {
            Ok(Some(text)) => reply_with(cx, text, &path).is_ok(),
            _ => false,
        };
        // A missing key, another kind of value, and a legacy path to nothing are alike here.
        if !replied {
            cx.reply.truncate(len);
            cx.reply.null();
        }
    }
    Ok(())
}

fn del<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let key = args.at(1);
    let path = Path::parse(args.get(2).unwrap_or(b"."))?;
    let deleted = match cx.json(key)? {
        None => 0,
        Some(_) if path.is_root() => {
            cx.write(key, Change::Delete);
            1
        }
        Some(text) => {
            let mut document = Document::stored(text)?;
            let marks = Marks::new(&document.root, &path.select(&document.root), true);
            let deleted = marks.len();
            if deleted > 0 {
                marks.change(&mut document.root, &mut |_, _| Ok::<_, CommandError>(Fate::Goes))?;
                put(cx, key, &document)?;
            }
            deleted
        }
    };
    cx.reply.integer(deleted as i64);
    Ok(())
}

fn types<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let path = Path::parse(args.get(2).unwrap_or(b"."))?;
    let document = document(cx, args.at(1))?;
    if cx.reply.protocol() == Protocol::Resp3 {
        cx.reply.array(1);
    }
    let Some(Document { root }) = document else {
        cx.reply.null();
        return Ok(());
    };
    let found = path.select(&root);
    match found.first() {
        None if path.is_legacy => cx.reply.null(),
        Some(first) if path.is_legacy => cx.reply.bulk(type_of(first).as_bytes()),
        _ => {
            cx.reply.array(found.len());
            found.into_iter().for_each(|value| cx.reply.bulk(type_of(value).as_bytes()));
        }
    }
    Ok(())
}

fn numincrby<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let mut document = document(cx, key)?.ok_or(NO_KEY)?;
    let path = Path::parse(args.at(2))?;
    let Ok(Value::Number(addend)) = serde_json::from_slice(args.at(3)) else { return Err(BAD_NUMBER) };
    let found = path.select(&document.root);
    let (marks, mut sums) = (Marks::new(&document.root, &found, false), vec![None; found.len()]);
    marks.change(&mut document.root, &mut |place, at| {
        if let Value::Number(number) = place {
            *number = sum(number, &addend)?;
            sums[at] = Some(number.clone());
        }
        Ok::<_, CommandError>(Fate::Stays)
    })?;
    let last = sums.iter().flatten().next_back();
    if last.is_some() {
        put(cx, key, &document)?;
    }
    match last {
        _ if cx.reply.protocol() == Protocol::Resp3 => {
            cx.reply.array(sums.len());
            for sum in &sums {
                match sum.as_ref().map(|sum| (sum.as_i64(), sum.as_f64())) {
                    Some((Some(integer), _)) => cx.reply.integer(integer),
                    Some((None, Some(number))) => cx.reply.double(number),
                    _ => cx.reply.null(),
                }
            }
        }
        _ if !path.is_legacy => cx.reply.bulk(&Layout::default().text(&sums, cx.string_len_max())?),
        Some(last) => cx.reply.bulk(last.to_string().as_bytes()),
        None => return Err(nothing_at(&path.full, " or does not contains a number")),
    }
    Ok(())
}

/// Integers stay integers; with another number the sum is a double.
fn sum(number: &Number, addend: &Number) -> Result<Number, CommandError> {
    if let (Some(number), Some(addend)) = (number.as_i64(), addend.as_i64()) {
        return number.checked_add(addend).map(Number::from).ok_or(OVERFLOW);
    }
    let sum = number.as_f64().zip(addend.as_f64()).map(|(number, addend)| number + addend);
    sum.and_then(Number::from_f64).ok_or(NOT_A_NUMBER)
}

fn arrappend<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let mut document = document(cx, key)?.ok_or(NO_KEY)?;
    let path = Path::parse(args.at(2))?;
    let given: Vec<Value> = args.tail(3).iter().map(document::parse).collect::<Result<_, _>>()?;
    let mut found = path.select(&document.root);
    let count = found.len();
    found.iter_mut().for_each(|value| *value = if value.is_array() { value } else { &Value::Null });
    let marks = Marks::new(&document.root, &found, false);
    let bytes: usize = given.iter().map(document::len_at_least).sum();
    cx.check_string_len(bytes.saturating_mul(marks.len()) as u64)?;
    let mut lens = vec![None; count];
    marks.change(&mut document.root, &mut |place, at| {
        if let Value::Array(elements) = place {
            elements.extend_from_slice(&given);
            lens[at] = Some(elements.len() as i64);
        }
        Ok::<_, CommandError>(Fate::Stays)
    })?;
    let last = lens.iter().flatten().next_back().copied();
    if last.is_some() {
        put(cx, key, &document)?;
    }
    match last {
        _ if !path.is_legacy => {
            cx.reply.array(lens.len());
            lens.into_iter().for_each(|len| match len {
                Some(len) => cx.reply.integer(len),
                None => cx.reply.null(),
            });
        }
        Some(last) => cx.reply.integer(last),
        None => return Err(nothing_at(&path.full, " or not an array")),
    }
    Ok(())
}
