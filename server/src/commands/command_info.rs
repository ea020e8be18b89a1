//! `COMMAND` and `COMMAND INFO`: arity, flags, keys, categories, hints and subcommands.

use tarn_resp::Args;
use tarn_resp::Writer;

use crate::commands::command_row::{Row, named, reply_rows};
use crate::commands::reference;
use crate::error::CommandError;
use crate::execute::command::Command;
use crate::execute::context::Context;
use crate::execute::spec::{Begin, Find, KeySpec};

/// `COMMAND`: all commands.
pub(super) fn command<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let rows = named(args, args.len());
    cx.reply.array(rows.len());
    reply_rows(cx, rows, describe_if_there);
    Ok(())
}

/// `COMMAND INFO`: the named commands, or all.
pub(super) fn info<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let rows = named(args, 2);
    cx.reply.array(rows.len());
    reply_rows(cx, rows, describe_if_there);
    Ok(())
}

fn describe_if_there(reply: &mut Writer<'_>, row: Option<Row>) {
    match row {
        Some(row) => describe(reply, row),
        None => reply.null(),
    }
}

/// First key, last key and step, as far as three numbers can say it: those of the only group of keys, or of
/// groups of single keys that follow each other.
fn key_range(command: &Command) -> (i64, i64, i64) {
    let ranges =
        command.keys.iter().chain(command.channels).filter_map(|spec| match (spec.begin, spec.find) {
            (Begin::Index(first) | Begin::IndexIf(first, _), Find::Range { last, step, .. }) => {
                let last = if last >= 0 { first as i64 + i64::from(last) } else { i64::from(last) };
                Some((first as i64, last, step as i64))
            }
            _ => None,
        });
    let mut whole: Option<(i64, i64, i64)> = None;
    for (first, last, step) in ranges {
        whole = match whole {
            None if step == 1 || command.keys.len() == 1 => Some((first, last, step)),
            Some((begin, end, 1)) if step == 1 && first == end + 1 => Some((begin, last, 1)),
            whole => whole,
        };
    }
    whole.unwrap_or((0, 0, 0))
}

fn describe(reply: &mut Writer<'_>, row: Row) {
    let (command, name) = (row.command, row.name());
    let article = reference::find(&name);
    reply.array(10);
    reply.bulk(name.as_bytes());
    reply.integer(command.arity.into());
    let flags = row.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    let (first, last, step) = key_range(command);
    [first, last, step].iter().for_each(|number| reply.integer(*number));
    let categories = row.categories();
    reply.set(categories.len());
    categories.iter().for_each(|category| reply.simple(category));
    let tips = article.map_or(&[][..], |article| article.tips.as_slice());
    reply.set(tips.len());
    tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(command.keys.len() + command.channels.len());
    for (number, spec) in command.keys.iter().chain(command.channels).enumerate() {
        describe_keys(reply, spec, article.and_then(|article| article.note(number)));
    }
    reply.set(command.subcommands.len());
    row.subcommands().for_each(|sub| describe(reply, sub));
}

fn describe_keys(reply: &mut Writer<'_>, spec: &KeySpec, note: Option<&str>) {
    reply.map(3 + usize::from(note.is_some()));
    if let Some(note) = note {
        reply.bulk(b"notes");
        reply.bulk(note.as_bytes());
    }
    reply.bulk(b"flags");
    reply.set(spec.flags.len());
    spec.flags.iter().for_each(|flag| reply.simple(flag));
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    match spec.begin {
        Begin::Found(_) => {
            reply.bulk(b"unknown");
            reply.bulk(b"spec");
            reply.map(0);
            reply.bulk(b"find_keys");
            reply.map(2);
            reply.bulk(b"type");
            reply.bulk(b"unknown");
            reply.bulk(b"spec");
            reply.map(0);
            return;
        }
        Begin::Index(index) | Begin::IndexIf(index, _) => {
            reply.bulk(b"index");
            reply.bulk(b"spec");
            numbers(reply, &[("index", index as i64)]);
        }
        Begin::Option(word, from, _) => {
            reply.bulk(b"keyword");
            reply.bulk(b"spec");
            reply.map(2);
            reply.bulk(b"keyword");
            reply.bulk(word.as_bytes());
            reply.bulk(b"startfrom");
            reply.integer(from.into());
        }
    }
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    match spec.find {
        Find::Range { last, step, limit } => {
            reply.bulk(b"range");
            reply.bulk(b"spec");
            numbers(reply, &[("lastkey", last.into()), ("keystep", step as i64), ("limit", limit as i64)]);
        }
        Find::KeyNum { at, first, step } => {
            reply.bulk(b"keynum");
            reply.bulk(b"spec");
            numbers(reply, &[("keynumidx", at as i64), ("firstkey", first as i64), ("keystep", step as i64)]);
        }
    }
}

fn numbers(reply: &mut Writer<'_>, pairs: &[(&str, i64)]) {
    reply.map(pairs.len());
    for (name, number) in pairs {
        reply.bulk(name.as_bytes());
        reply.integer(*number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::command_row::{replies, rows};
    use tarn_resp::{Frame, Protocol};

    #[test]
    fn a_command_is_described_by_ten_fields() {
        for row in rows() {
            let described = [Protocol::Resp2, Protocol::Resp3]
                .map(|protocol| replies(protocol, |reply| describe(reply, row)));
            for fields in described {
                let [Frame::Array(fields)] = fields.as_slice() else {
                    panic!("{} is {fields:?}", row.name())
                };
                assert_eq!(fields.len(), 10, "{}", row.name());
                assert_eq!(fields[0], Frame::bulk(row.name()));
            }
        }
    }
}
