//! Reads and deletes JSON documents and parts of them, with the replies of RedisJSON 2.
//!
//! A key holds the text of its document. A command reads it, selects, and writes the new text: a change of a
//! part is a record of the whole (`docs/design/0022`). The expiry stays, whatever is set.

use std::collections::HashSet;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use tarn_engine::record::{Change, Kind};
use tarn_engine::value::StringRef;
use tarn_resp::Args;
use tarn_resp::Protocol;

use crate::error::{CommandError, printable};
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::spec::{Flags, KeySpec};
use crate::json::document::type_of;
use crate::json::{Document, Fate, Layout, Marks, Path, PathError};

pub(super) const READ: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
pub(super) const UPDATE: &[KeySpec] = &[KeySpec::one(&["RW", "access", "update"])];
const DELETE: &[KeySpec] = &[KeySpec::one(&["RW", "delete"])];
pub(super) const WRITES: Flags = Flags::WRITE.with(Flags::DENYOOM);
pub(super) const ANY_SIZE: &str = "O(N) for the bytes of the document";

pub(super) const NO_KEY: CommandError =
    CommandError::text("ERR could not perform this operation on a key that doesn't exist");
const NO_FORMAT: CommandError =
    CommandError::text("ERR FORMAT argument is not supported: the reply is the text of the values");

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
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
];

impl From<PathError> for CommandError {
    fn from(error: PathError) -> CommandError {
        CommandError::owned(error.to_string())
    }
}

/// The document at `key`, read.
pub(super) fn document<'c>(cx: &Context<'c, '_>, key: &[u8]) -> Result<Option<Document>, CommandError> {
    cx.json(key)?.map(Document::stored).transpose()
}

/// The root of the document at `key`, for commands to which a missing key is null at a legacy path, and else
/// an error; `None` if null has been replied.
pub(super) fn root_or_null(
    cx: &mut Context<'_, '_>,
    key: &[u8],
    path: &Path,
) -> Result<Option<Value>, CommandError> {
    match document(cx, key)? {
        Some(document) => Ok(Some(document.root)),
        None if path.is_legacy => {
            cx.reply.null();
            Ok(None)
        }
        None => Err(NO_KEY),
    }
}

/// Makes the document at `key` this one, with the expiry that the key has.
pub(super) fn put<'a>(
    cx: &mut Context<'_, 'a>,
    key: &'a [u8],
    document: &Document,
) -> Result<(), CommandError> {
    let elements = document.to_text(cx.string_len_max())?.into();
    let expiry = cx.entry(key).and_then(|entry| entry.expiry());
    cx.write(key, Change::Image { kind: Kind::Json, elements, expiry, sticky: false });
    Ok(())
}

/// The error of a legacy path that leads to nothing that the command can take.
pub(super) fn nothing_at(path: &str, or: &str) -> CommandError {
    CommandError::owned(format!("ERR Path '{}' does not exist{or}", path.escape_debug()))
}

/// The argument that is a path, if there is one; else the root, as a legacy path. Refuses more arguments.
pub(super) fn path_at(args: Args<'_>, at: usize, name: &'static str) -> Result<Path, CommandError> {
    match args.len() > at + 1 {
        true => Err(arity(name)),
        false => Ok(Path::parse(args.get(at).unwrap_or(b"."))?),
    }
}

/// The error of a legacy path that leads to a value of another type than the command takes.
pub(super) fn unexpected(expected: &str, found: &str) -> CommandError {
    let found = printable(found.as_bytes());
    CommandError::owned(format!("WRONGTYPE wrong type of path value - expected {expected} but found {found}"))
}

/// Changes each value that the path selects of the document at `key`, those within others first; returns the
/// results of `change` in the order of the path, `None` for the values that it does not take. Nothing is
/// written if it takes none.
pub(super) fn change_each<'a, T: Clone>(
    cx: &mut Context<'_, 'a>,
    key: &'a [u8],
    mut document: Document,
    path: &Path,
    mut change: impl FnMut(&mut Value) -> Result<Option<T>, CommandError>,
) -> Result<Vec<Option<T>>, CommandError> {
    let found = path.select(&document.root);
    let (marks, mut results) = (Marks::new(&document.root, &found, false), vec![None; found.len()]);
    marks.change(&mut document.root, &mut |place, at| {
        results[at] = change(place)?;
        Ok::<_, CommandError>(Fate::Stays)
    })?;
    if results.iter().any(Option::is_some) {
        put(cx, key, &document)?;
    }
    Ok(results)
}

/// Replies with a number for each value: the last one alone for a legacy path. `or` is what the error says of
/// a value that the command does not take.
pub(super) fn reply_numbers(
    cx: &mut Context<'_, '_>,
    path: &Path,
    numbers: &[Option<i64>],
    or: &str,
) -> Result<(), CommandError> {
    if path.is_legacy {
        let last = numbers.iter().flatten().next_back().ok_or_else(|| nothing_at(&path.full, or))?;
        cx.reply.integer(*last);
        return Ok(());
    }
    cx.reply.array(numbers.len());
    for number in numbers {
        match number {
            Some(number) => cx.reply.integer(*number),
            None => cx.reply.null(),
        }
    }
    Ok(())
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

pub(super) fn arity(name: &'static str) -> CommandError {
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
