//! `SQL`: a statement over the live keyspace, answered as of one instant.

use tarn_resp::Args;

use crate::acl::UserId;
use crate::analytics::sql::{Answer, Cell, NOT_ALLOWED, Who};
use crate::error::CommandError;
use crate::execute::client::After;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::showing::client_line;
use crate::execute::spec::Flags;

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[row(
    "sql",
    -2,
    Flags::READONLY.with(Flags::NO_MULTI).with(Flags::NOSCRIPT),
    "7.0.0",
    "Runs a statement of SQL: the names of its columns, then its rows; with WARNINGS a list of these before.",
    sql,
)
.categories(&["@dangerous"])
.complexity("O(N) where N is the number of keys that are read; other clients do not wait")];

const NO_SQL: CommandError = CommandError::text("ERR SQL is not there: this server was built without it");
const NO_OPTION: CommandError = CommandError::text("ERR syntax error: SQL statement [WARNINGS]");
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
            cx.server.sql().ok_or(NO_SQL)?.ask(text, who(cx))
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
        Some(Err(why)) => {
            let refused = why.strip_prefix(NOT_ALLOWED);
            return Err(CommandError::owned(match refused {
                Some(why) => format!("NOPERM{why}"),
                None => format!("ERR {why}"),
            }));
        }
        None => {
            cx.client.asked = Some(asked);
            cx.client.after = After::Postpone;
        }
    }
    Ok(())
}

/// Whose statement it is.
fn who(cx: &Context<'_, '_>) -> Who {
    let tag = cx.client.handle.info.lock().user.clone();
    Who { name: tag.name, id: UserId(tag.id), client: client_line(super::table(), &cx.client.handle) }
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
