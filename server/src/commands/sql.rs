//! `SQL`: a statement over the live keyspace, answered as of one instant.

use tarn_resp::Args;

use crate::analytics::sql::{Answer, Cell, ONLY_READS};
use crate::error::CommandError;
use crate::execute::client::After;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::rights::{may_declare, note_declaration};
use crate::execute::spec::Flags;

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[row(
    "sql",
    -2,
    Flags::READONLY.with(Flags::NO_MULTI).with(Flags::NOSCRIPT).with(Flags::READS_ALL),
    "7.0.0",
    "Runs a statement of SQL: the names of its columns, then its rows; with WARNINGS a list of these before.",
    sql,
)
.categories(&["@dangerous"])
.complexity("O(N) where N is the number of keys that are read; other clients do not wait")];

const NO_SQL: CommandError = CommandError::text("ERR SQL is not there: this server was built without it");
const NO_OPTION: CommandError = CommandError::text("ERR syntax error: SQL statement [WARNINGS]");
const NOT_DECLARED: CommandError = CommandError::text(
    "NOPERM this user has no permissions to declare tables and indexes of SQL, and to have it write files: \
     that needs the right to FT.CREATE, and to every key (~*) in every database",
);
const NO_TEXT: CommandError = CommandError::text("ERR the statement is not UTF-8");

fn sql<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let with_warnings = match args.get(2) {
        None => false,
        Some(word) if args.len() == 3 && word.eq_ignore_ascii_case(b"warnings") => true,
        Some(_) => return Err(NO_OPTION),
    };
    let mut asked = match cx.client.asked.take() {
        Some(asked) => asked,
        None => {
            let text = std::str::from_utf8(&args[1]).map_err(|_| NO_TEXT)?;
            cx.server.sql().ok_or(NO_SQL)?.ask(text, may_declare(cx.server, cx.client))
        }
    };
    let answer = asked.answer();
    if answer.is_some() {
        cx.see_if_strict();
    }
    match answer {
        Some(Ok(answer)) => {
            if with_warnings {
                cx.reply.array(2);
                cx.reply.array(answer.warning.iter().len());
                answer.warning.iter().for_each(|warning| cx.reply.bulk(warning.as_bytes()));
            }
            reply(cx, &answer);
        }
        Some(Err(why)) if why.starts_with(ONLY_READS) => {
            note_declaration(cx.server, cx.client, super::table(), args);
            return Err(NOT_DECLARED);
        }
        Some(Err(why)) => return Err(CommandError::owned(format!("ERR {why}"))),
        None => {
            cx.client.asked = Some(asked);
            cx.client.after = After::Postpone;
        }
    }
    Ok(())
}

fn reply(cx: &mut Context<'_, '_>, answer: &Answer) {
    if answer.columns.is_empty() {
        return cx.reply.ok();
    }
    cx.reply.array(answer.rows.len() + 1);
    cx.reply.array(answer.columns.len());
    answer.columns.iter().for_each(|name| cx.reply.bulk(name.as_bytes()));
    for row in &answer.rows {
        cx.reply.array(row.len());
        for cell in row {
            match cell {
                Cell::Null => cx.reply.null(),
                Cell::Integer(number) => cx.reply.integer(*number),
                Cell::Double(number) => cx.reply.double(*number),
                Cell::Boolean(truth) => cx.reply.boolean(*truth),
                Cell::Bytes(bytes) => cx.reply.bulk(bytes),
            }
        }
    }
}
