//! Strings, objects and other parts of JSON documents.

use serde_json::{Map, Value};
use tarn_resp::{Args, Writer};

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::spec::{Flags, KeySpec};
use crate::json::document::{self, Document, type_of};
use crate::json::{Fate, Layout, Marks, Path};

use super::json::{
    ANY_SIZE, NO_KEY, READ, UPDATE, WRITES, arity, change_each, document, nothing_at, path_at, put,
    reply_numbers, root_or_null, unexpected,
};

const UNKNOWN_SUBCOMMAND: CommandError = CommandError::text("ERR unknown subcommand - try `JSON.DEBUG HELP`");

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("json.clear", -2, Flags::WRITE, "2.0.0", "Empties arrays and objects, and sets numbers to 0.", clear)
        .keys(UPDATE)
        .complexity(ANY_SIZE),
    row("json.debug", -2, Flags::READONLY, "1.0.0", "Returns the number of bytes of values.", debug)
        .keys(&[KeySpec::range(2, 0, 1, &["RO", "access"])])
        .complexity(ANY_SIZE),
    row(
        "json.objkeys",
        -2,
        Flags::READONLY,
        "1.0.0",
        "Returns the names of the members of objects.",
        objkeys,
    )
    .keys(READ)
    .complexity(ANY_SIZE),
    row("json.objlen", -2, Flags::READONLY, "1.0.0", "Counts the members of objects.", objlen)
        .keys(READ)
        .complexity(ANY_SIZE),
    row("json.resp", -2, Flags::READONLY, "1.0.0", "Returns values of a JSON document as replies.", resp)
        .keys(READ)
        .complexity(ANY_SIZE),
    row(
        "json.strappend",
        -3,
        WRITES,
        "1.0.0",
        "Appends to the strings at a path of a JSON document.",
        strappend,
    )
    .keys(UPDATE)
    .complexity(ANY_SIZE),
    row(
        "json.strlen",
        -2,
        Flags::READONLY,
        "1.0.0",
        "Counts the bytes of strings of a JSON document.",
        strlen,
    )
    .keys(READ)
    .complexity(ANY_SIZE),
    row(
        "json.toggle",
        3,
        Flags::WRITE,
        "2.0.0",
        "Inverts the booleans at a path of a JSON document.",
        toggle,
    )
    .keys(UPDATE)
    .complexity(ANY_SIZE),
];

fn clear<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let path = path_at(args, 2, "json.clear")?;
    let mut document = document(cx, key)?.ok_or(NO_KEY)?;
    let mut found = path.select(&document.root);
    found.retain(|value| match value {
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        _ => false,
    });
    let marks = Marks::new(&document.root, &found, true);
    let cleared = marks.len();
    marks.change(&mut document.root, &mut |value, _| {
        *value = match value {
            Value::Array(_) => Value::Array(Vec::new()),
            Value::Object(_) => Value::Object(Map::new()),
            _ => Value::from(0),
        };
        Ok::<_, CommandError>(Fate::Stays)
    })?;
    if cleared > 0 {
        put(cx, key, &document)?;
    }
    cx.reply.integer(cleared as i64);
    Ok(())
}

fn debug<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    match args.at(1) {
        word if word.eq_ignore_ascii_case(b"help") => {
            let lines: [&[u8]; 2] =
                [b"MEMORY <key> [path] - reports memory usage", b"HELP                - this message"];
            cx.reply.array(lines.len());
            lines.into_iter().for_each(|line| cx.reply.bulk(line));
            Ok(())
        }
        word if word.eq_ignore_ascii_case(b"memory") && args.len() > 2 => memory(cx, args),
        word if word.eq_ignore_ascii_case(b"memory") => Err(arity("json.debug")),
        _ => Err(UNKNOWN_SUBCOMMAND),
    }
}

/// The bytes of a value are those of its text, as the store has it.
fn memory<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let path = path_at(args, 3, "json.debug")?;
    let Some(Document { root }) = document(cx, args.at(2))? else {
        match path.is_legacy {
            true => cx.reply.integer(0),
            false => cx.reply.array(0),
        }
        return Ok(());
    };
    let mut found = path.select(&root);
    if path.is_legacy {
        found.truncate(1);
    }
    let bytes_max = cx.string_len_max();
    let len = |value| Ok(Some(Layout::default().text(value, bytes_max)?.len() as i64));
    let lens: Vec<Option<i64>> = found.into_iter().map(len).collect::<Result<_, CommandError>>()?;
    reply_numbers(cx, &path, &lens, "")
}

fn objkeys<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let path = path_at(args, 2, "json.objkeys")?;
    let Some(root) = root_or_null(cx, args.at(1), &path)? else { return Ok(()) };
    let found = path.select(&root);
    let names = |out: &mut Writer<'_>, members: &Map<String, Value>| {
        out.array(members.len());
        members.keys().for_each(|name| out.bulk(name.as_bytes()));
    };
    if path.is_legacy {
        match found.first() {
            Some(Value::Object(members)) => names(&mut cx.reply, members),
            Some(other) => return Err(unexpected("object", type_of(other))),
            None => cx.reply.null(),
        }
        return Ok(());
    }
    cx.reply.array(found.len());
    for value in found {
        match value {
            Value::Object(members) => names(&mut cx.reply, members),
            _ => cx.reply.null(),
        }
    }
    Ok(())
}

fn objlen<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let path = path_at(args, 2, "json.objlen")?;
    let len = |value: &Value| value.as_object().map(|members| members.len() as i64);
    measure(cx, args, &path, "object", len, true)
}

fn strlen<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let path = path_at(args, 2, "json.strlen")?;
    let len = |value: &Value| value.as_str().map(|text| text.len() as i64);
    measure(cx, args, &path, "string", len, false)
}

/// Replies with the lengths of values; `null_for_nothing`: a legacy path to nothing is no error.
fn measure(
    cx: &mut Context<'_, '_>,
    args: Args<'_>,
    path: &Path,
    expected: &str,
    len: fn(&Value) -> Option<i64>,
    null_for_nothing: bool,
) -> Result<(), CommandError> {
    let Some(root) = root_or_null(cx, args.at(1), path)? else { return Ok(()) };
    let found = path.select(&root);
    match found.first() {
        _ if !path.is_legacy => {
            let lens: Vec<Option<i64>> = found.into_iter().map(len).collect();
            return reply_numbers(cx, path, &lens, "");
        }
        Some(first) => cx.reply.integer(len(first).ok_or_else(|| unexpected(expected, type_of(first)))?),
        None if null_for_nothing => cx.reply.null(),
        None => return Err(nothing_at(&path.full, "")),
    }
    Ok(())
}

fn resp<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let path = path_at(args, 2, "json.resp")?;
    let Some(Document { root }) = document(cx, args.at(1))? else {
        cx.reply.null();
        return Ok(());
    };
    let found = path.select(&root);
    if path.is_legacy {
        let first = found.first().ok_or_else(|| nothing_at(&path.full, ""))?;
        as_reply(&mut cx.reply, first);
        return Ok(());
    }
    cx.reply.array(found.len());
    found.into_iter().for_each(|value| as_reply(&mut cx.reply, value));
    Ok(())
}

/// Arrays and objects are arrays whose first element is their bracket.
fn as_reply(out: &mut Writer<'_>, value: &Value) {
    match value {
        Value::Null => out.null(),
        Value::Bool(truth) => out.simple(if *truth { "true" } else { "false" }),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => out.integer(integer),
            (None, Some(number)) => out.double(number),
            (None, None) => out.null(),
        },
        Value::String(text) => out.bulk(text.as_bytes()),
        Value::Array(elements) => {
            out.array(1 + elements.len());
            out.simple("[");
            elements.iter().for_each(|element| as_reply(out, element));
        }
        Value::Object(members) => {
            out.array(1 + 2 * members.len());
            out.simple("{");
            for (name, member) in members {
                out.bulk(name.as_bytes());
                as_reply(out, member);
            }
        }
    }
}

fn strappend<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, last) = (args.at(1), args.len() - 1);
    if last > 3 {
        return Err(arity("json.strappend"));
    }
    let path = Path::parse(if last == 3 { args.at(2) } else { b"." })?;
    let document = document(cx, key)?.ok_or(NO_KEY)?;
    let found = path.select(&document.root).into_iter().filter(|value| value.is_string()).count();
    let Value::String(given) = document::parse(args.at(last))? else {
        return Err(unexpected("string", &String::from_utf8_lossy(args.at(last))));
    };
    cx.check_string_len(given.len().saturating_mul(found) as u64)?;
    let lens = change_each(cx, key, document, &path, |value| {
        let Value::String(text) = value else { return Ok(None) };
        text.push_str(&given);
        Ok(Some(text.len() as i64))
    })?;
    reply_numbers(cx, &path, &lens, " or not a string")
}

fn toggle<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let path = Path::parse(args.at(2))?;
    let document = document(cx, key)?.ok_or(NO_KEY)?;
    let results = change_each(cx, key, document, &path, |value| {
        let Value::Bool(truth) = value else { return Ok(None) };
        *truth = !*truth;
        Ok(Some(i64::from(*truth)))
    })?;
    match results.iter().flatten().next_back() {
        Some(last) if path.is_legacy => cx.reply.bulk(if *last == 1 { b"true" } else { b"false" }),
        _ => return reply_numbers(cx, &path, &results, " or not a bool"),
    }
    Ok(())
}
