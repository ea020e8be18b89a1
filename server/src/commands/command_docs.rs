//! `COMMAND DOCS`: summaries of commands, their arguments and their history.

use tarn_resp::Args;
use tarn_resp::Writer;

use crate::commands::command_row::{Row, named, reply_rows};
use crate::commands::reference::{self, Argument, Article};
use crate::error::CommandError;
use crate::execute::context::Context;

/// `COMMAND DOCS`: the named commands as far as they are there, or all.
pub(super) fn docs<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let rows: Vec<Row> = named(args, 2).into_iter().flatten().collect();
    cx.reply.map(rows.len());
    reply_rows(cx, rows, document);
    Ok(())
}

/// Writes the name of a command, and what is to be known of it.
fn document(reply: &mut Writer<'_>, row: Row) {
    let (command, name) = (row.command, row.name());
    let article = reference::find(&name);
    let arguments = article.map(Article::arguments).unwrap_or_default();
    let history = article.map_or(&[][..], |article| article.history.as_slice());
    let deprecated = article.and_then(|article| article.deprecated);
    let is_system = article.is_some_and(|article| article.is_system);
    let flags = chosen([(deprecated.is_some(), "deprecated"), (is_system, "syscmd")]);
    reply.bulk(name.as_bytes());
    let lists =
        [!flags.is_empty(), !history.is_empty(), !arguments.is_empty(), !command.subcommands.is_empty()];
    let lists = lists.iter().filter(|is_there| **is_there).count();
    reply.map(4 + lists + 2 * usize::from(deprecated.is_some()));
    pair(reply, "summary", command.summary);
    pair(reply, "since", command.since);
    pair(reply, "group", row.group);
    pair(reply, "complexity", command.complexity);
    write_flags(reply, "doc_flags", &flags);
    if let Some((since, instead)) = deprecated {
        pair(reply, "deprecated_since", since);
        pair(reply, "replaced_by", instead);
    }
    if !history.is_empty() {
        reply.bulk(b"history");
        reply.set(history.len());
        for (version, change) in history {
            reply.array(2);
            reply.bulk(version.as_bytes());
            reply.bulk(change.as_bytes());
        }
    }
    if !arguments.is_empty() {
        reply.bulk(b"arguments");
        describe(reply, &arguments);
    }
    if !command.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(command.subcommands.len());
        row.subcommands().for_each(|sub| document(reply, sub));
    }
}

/// Writes the list of arguments.
fn describe(reply: &mut Writer<'_>, arguments: &[Argument<'_>]) {
    reply.array(arguments.len());
    for argument in arguments {
        let flags = chosen([
            (argument.is_optional, "optional"),
            (argument.is_multiple, "multiple"),
            (argument.repeats_token, "multiple_token"),
        ]);
        let texts = [
            ("token", argument.token),
            ("since", argument.since),
            ("deprecated_since", argument.deprecated_since),
        ];
        let texts: Vec<(&str, &str)> =
            texts.into_iter().filter_map(|(name, text)| Some((name, text?))).collect();
        let lists = usize::from(!flags.is_empty()) + usize::from(!argument.arguments.is_empty());
        reply.map(2 + usize::from(argument.key_spec.is_some()) + texts.len() + lists);
        pair(reply, "name", &argument.name);
        pair(reply, "type", argument.kind.name());
        if let Some(number) = argument.key_spec {
            reply.bulk(b"key_spec_index");
            reply.integer(number.into());
        }
        texts.iter().for_each(|(name, text)| pair(reply, name, text));
        write_flags(reply, "flags", &flags);
        if !argument.arguments.is_empty() {
            reply.bulk(b"arguments");
            describe(reply, &argument.arguments);
        }
    }
}

/// The names whose condition holds.
fn chosen<const N: usize>(names: [(bool, &'static str); N]) -> Vec<&'static str> {
    names.into_iter().filter(|(holds, _)| *holds).map(|(_, name)| name).collect()
}

/// Writes a set of flags under a name; nothing if there is none.
fn write_flags(reply: &mut Writer<'_>, name: &str, flags: &[&str]) {
    if !flags.is_empty() {
        reply.bulk(name.as_bytes());
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
}

fn pair(reply: &mut Writer<'_>, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::command_row::{find, replies, rows};
    use tarn_resp::{Frame, Protocol};

    #[test]
    fn a_command_is_documented_by_its_name_and_a_map() {
        for row in rows() {
            let documented = replies(Protocol::Resp2, |reply| document(reply, row));
            let [name, Frame::Array(fields)] = documented.as_slice() else { panic!("{documented:?}") };
            assert_eq!((name, fields.len() % 2), (&Frame::bulk(row.name()), 0));
            let documented = replies(Protocol::Resp3, |reply| document(reply, row));
            let [name, Frame::Map(pairs)] = documented.as_slice() else { panic!("{documented:?}") };
            assert_eq!((name, 2 * pairs.len()), (&Frame::bulk(row.name()), fields.len()));
        }
    }

    #[test]
    fn what_replaces_a_command_is_told_before_its_arguments() {
        let row = find(b"getset").expect("it is served");
        let documented = replies(Protocol::Resp3, |reply| document(reply, row));
        let [_, Frame::Map(pairs)] = documented.as_slice() else { panic!("{documented:?}") };
        let fields =
            ["summary", "since", "group", "complexity", "doc_flags", "deprecated_since", "replaced_by"];
        let told: Vec<Frame> = pairs.iter().map(|(name, _)| name.clone()).collect();
        let expected: Vec<Frame> = fields.into_iter().chain(["arguments"]).map(Frame::bulk).collect();
        assert_eq!(told, expected);
    }
}
