//! The function of a container of subcommands, and the replies to its `HELP`.

use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::context::Context;

/// Runs for a container of subcommands itself, which never happens: the arity demands a subcommand, and the
/// executor looks it up.
pub(super) fn unknown_container<'a>(_: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    Err(CommandError::Syntax)
}

/// Replies with these lines: Redis's own, where programs know them.
pub(super) fn lines(cx: &mut Context<'_, '_>, lines: &[&str]) {
    cx.reply.array(lines.len());
    lines.iter().for_each(|line| cx.reply.simple(line));
}

/// Replies with the subcommands of `container`.
pub(super) fn help(cx: &mut Context<'_, '_>, container: &str) {
    let subcommands =
        super::table().find(container.as_bytes()).map_or(&[][..], |found| found.command.subcommands);
    cx.reply.array(1 + subcommands.len() * 2);
    cx.reply.simple(format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for subcommand in subcommands {
        cx.reply.simple(subcommand.name.to_uppercase());
        cx.reply.simple(format!("    {}", subcommand.summary));
    }
}
