//! Writes JSON documents and parts of them: `JSON.SET`, `JSON.MSET`, `JSON.MERGE`.

use std::collections::HashMap;

use serde_json::{Map, Value};
use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::spec::KeySpec;
use crate::json::document;
use crate::json::select::select;
use crate::json::{Document, Fate, Marks, Path};

use super::json::{ANY_SIZE, UPDATE, WRITES, arity, put};

const NEW_AT_ROOT: CommandError = CommandError::text("ERR new objects must be created at the root");
const NOT_STATIC: CommandError = CommandError::text("ERR wrong static path");
const OUT_OF_RANGE: CommandError = CommandError::text("ERR array index out of range");

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("json.set", -4, WRITES, "1.0.0", "Sets the values at a path of a JSON document.", set)
        .keys(UPDATE)
        .complexity(ANY_SIZE),
    row("json.mset", -4, WRITES, "2.6.0", "Sets values of several JSON documents at once.", mset)
        .keys(&[KeySpec::all(3, &["RW", "access", "update"])])
        .complexity("O(N) for the bytes of the documents"),
    row(
        "json.merge",
        4,
        WRITES,
        "2.6.0",
        "Merges a value into the values at a path of a JSON document.",
        merge,
    )
    .keys(UPDATE)
    .complexity(ANY_SIZE),
];

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
        (Some(text), condition) => {
            let mut document = Document::stored(text)?;
            let is_set = place(
                cx,
                &mut document.root,
                &path,
                condition,
                Placing { value: &value, bytes: &mut 0, merges: false },
            )?;
            if is_set {
                put(cx, key, &document)?;
            }
            is_set
        }
    };
    match is_set {
        true => cx.reply.ok(),
        false => cx.reply.null(),
    }
    Ok(())
}

/// A value, on its way to the places of a path.
struct Placing<'v, 'b> {
    value: &'v Value,
    /// The bytes that the command has put at places so far, at least.
    bytes: &'b mut usize,
    /// Whether it is merged into what is there, as RFC 7396 says.
    merges: bool,
}

impl Placing<'_, '_> {
    fn put_on(&self, place: &mut Value) {
        match self.merges {
            true => patch(place, self.value),
            false => *place = self.value.clone(),
        }
    }
}

/// Merges a patch into a value: members of objects one by one, where null removes; all else is replaced.
fn patch(place: &mut Value, with: &Value) {
    let Value::Object(changes) = with else {
        *place = with.clone();
        return;
    };
    if !place.is_object() {
        *place = Value::Object(Map::new());
    }
    let Value::Object(members) = place else { return };
    for (name, change) in changes {
        match change {
            Value::Null => _ = members.shift_remove(name),
            change => patch(members.entry(name.as_str()).or_insert(Value::Null), change),
        }
    }
}

/// Puts a value at a path below the root: on what is there, or as a new member of an object. Says whether
/// there was such a place.
fn place(
    cx: &Context<'_, '_>,
    root: &mut Value,
    path: &Path,
    condition: Option<Condition>,
    placing: Placing<'_, '_>,
) -> Result<bool, CommandError> {
    let found = path.select(root);
    let is_there = !found.is_empty();
    let (marks, name) = match condition {
        Some(Condition::Missing) if is_there => return Ok(false),
        _ if is_there => (Marks::new(root, &found, !placing.merges), None),
        Some(Condition::Present) => return Ok(false),
        _ => {
            let (above, name) = path.new_member().ok_or(NOT_STATIC)?;
            let name = name.ok_or(OUT_OF_RANGE)?;
            let mut objects = select(root, above);
            objects.retain(|object| object.is_object());
            (Marks::new(root, &objects, true), Some(name))
        }
    };
    if marks.is_empty() {
        return Ok(false);
    }
    // About what is to be written, before it is made.
    let bytes = document::len_at_least(placing.value).saturating_mul(marks.len());
    *placing.bytes = placing.bytes.saturating_add(bytes);
    cx.check_string_len(*placing.bytes as u64)?;
    marks.change(root, &mut |place, _| {
        match (place, name) {
            (Value::Object(members), Some(name)) => {
                placing.put_on(members.entry(name).or_insert(Value::Null));
            }
            (place, _) => placing.put_on(place),
        }
        Ok::<_, CommandError>(Fate::Stays)
    })?;
    Ok(true)
}

fn merge<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let text = cx.json(key)?;
    let path = Path::parse(args.at(2))?;
    let value = document::parse(args.at(3))?;
    let mut document = match text {
        Some(text) => Document::stored(text)?,
        None if path.is_root() => Document { root: Value::Null },
        None => return Err(NEW_AT_ROOT),
    };
    let is_placed =
        place(cx, &mut document.root, &path, None, Placing { value: &value, bytes: &mut 0, merges: true })?;
    match is_placed {
        true => {
            put(cx, key, &document)?;
            cx.reply.ok();
        }
        false => cx.reply.null(),
    }
    Ok(())
}

fn mset<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let given = args.tail(1);
    if !given.len().is_multiple_of(3) {
        return Err(arity("json.mset"));
    }
    // The documents in the order of their first mention: a later triple sees what an earlier one has set.
    let (mut documents, mut places) = (Vec::<(&[u8], Document)>::new(), HashMap::new());
    // The bytes that are put at places, and those of the documents that are read for that.
    let (mut bytes, mut read) = (0, 0);
    for at in (0..given.len()).step_by(3) {
        let key = given.at(at);
        let path = Path::parse(given.at(at + 1))?;
        let value = document::parse(given.at(at + 2))?;
        let known = places.get(key).copied();
        if path.is_root() {
            cx.json(key)?;
            let document = Document { root: value };
            match known {
                Some(known) => documents[known] = (key, document),
                None => {
                    places.insert(key, documents.len());
                    documents.push((key, document));
                }
            }
            continue;
        }
        let known = match known {
            Some(known) => known,
            None => {
                let text = cx.json(key)?.ok_or(NEW_AT_ROOT)?;
                // All of them are in memory, and the worker is busy, until the end.
                read += text.len();
                cx.check_string_len(read as u64)?;
                documents.push((key, Document::stored(text)?));
                places.insert(key, documents.len() - 1);
                documents.len() - 1
            }
        };
        place(
            cx,
            &mut documents[known].1.root,
            &path,
            None,
            Placing { value: &value, bytes: &mut bytes, merges: false },
        )?;
    }
    documents.iter().try_for_each(|(key, document)| put(cx, key, document))?;
    cx.reply.ok();
    Ok(())
}
