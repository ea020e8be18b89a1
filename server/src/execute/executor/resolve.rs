//! Finds the command that a request names, and refuses requests that cannot run: pure functions of the table
//! and the request.

use std::borrow::Cow;

use tarn_resp::Args;

use super::unbuilt::unbuilt;
use crate::error::{CommandError, QUOTED_MAX, printable};
use crate::execute::command::Command;
use crate::execute::spec::Flags;
use crate::execute::table::Found;

/// A command that a request names.
#[derive(Clone, Copy)]
pub(super) struct Resolved {
    /// The command of the first word; the same as `command`, if it has no subcommands.
    parent: &'static Command,
    /// The command or subcommand.
    pub command: &'static Command,
    /// The slot of its counters.
    pub slot: usize,
}

/// The subcommand that the arguments name, or the command itself if it has none. `allows_debug` says whether
/// `enable-debug-command` lets this client use commands that it protects.
#[inline]
pub(super) fn resolve(
    found: Found,
    args: Args<'_>,
    allows_debug: impl FnOnce() -> bool,
) -> Result<Resolved, CommandError> {
    let Found { command: parent, slot, .. } = found;
    let name = match args.get(1) {
        Some(name) if !parent.subcommands.is_empty() => name,
        _ => return Ok(Resolved { parent, command: parent, slot }),
    };
    if parent.flags.has(Flags::PROTECTED) && !allows_debug() {
        return Err(CommandError::DebugNotAllowed);
    }
    let is_named = |sub: &Command| sub.name.as_bytes().eq_ignore_ascii_case(name);
    let position = parent.subcommands.iter().position(is_named);
    let position = position.ok_or_else(|| unknown_subcommand(parent, args))?;
    Ok(Resolved { parent, command: &parent.subcommands[position], slot: slot + 1 + position })
}

impl Resolved {
    /// Why the command does not run for its arguments, or for a client that has not said the password.
    #[inline]
    pub(super) fn refusal(&self, args: Args<'_>, is_authenticated: bool) -> Option<CommandError> {
        if !self.command.accepts(args.len()) {
            return Some(wrong_number(self.parent, self.command, args));
        }
        let is_barred = !is_authenticated && !self.command.flags.has(Flags::NO_AUTH);
        is_barred.then(|| CommandError::text("NOAUTH Authentication required."))
    }

    /// Why the command does not run for a client that reads channels.
    #[cold]
    pub(super) fn refusal_among_messages(&self) -> CommandError {
        CommandError::owned(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
             allowed in this context",
            full_name(self.parent, self.command)
        ))
    }
}

/// The error for a name that is in no table.
#[cold]
pub(super) fn unknown(args: Args<'_>) -> CommandError {
    if let Some(error) = unbuilt(&args[0]) {
        return error;
    }
    let mut beginning = String::new();
    for arg in args.iter().skip(1) {
        if beginning.len() >= QUOTED_MAX {
            break;
        }
        let left = QUOTED_MAX - beginning.len();
        beginning.push_str(&format!("'{}' ", printable(&arg[..arg.len().min(left)])));
    }
    CommandError::owned(format!(
        "ERR unknown command '{}', with args beginning with: {beginning}",
        printable(&args[0])
    ))
}

fn wrong_number(parent: &'static Command, command: &'static Command, args: Args<'_>) -> CommandError {
    match args.len() {
        2.. if parent.flags.has(Flags::LOOSE) => unknown_subcommand(parent, args),
        _ => CommandError::Arity(full_name(parent, command)),
    }
}

fn unknown_subcommand(parent: &Command, args: Args<'_>) -> CommandError {
    let or = if parent.flags.has(Flags::LOOSE) { " or wrong number of arguments for" } else { "" };
    CommandError::owned(format!(
        "ERR unknown subcommand{or} '{}'. Try {} HELP.",
        printable(args.get(1).unwrap_or_default()),
        printable(args.at(0)).to_ascii_uppercase()
    ))
}

fn full_name(parent: &'static Command, command: &'static Command) -> Cow<'static, str> {
    if std::ptr::eq(parent, command) {
        parent.name.into()
    } else {
        format!("{}|{}", parent.name, command.name).into()
    }
}
