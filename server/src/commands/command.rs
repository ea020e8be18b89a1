//! `COMMAND` and its subcommands: the table, told to clients. `command_info.rs` and `command_docs.rs`
//! describe commands; here are their numbers, their names and the keys of requests.

use tarn_resp::Args;

use crate::commands;
use crate::commands::command_docs::docs;
use crate::commands::command_info::{command, info};
use crate::commands::command_row::{Row, rows, rows_with_subcommands};
use crate::commands::modules;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse::Comparison;
use crate::execute::spec::{Begin, Flags, KeySpec};
use crate::execute::table::Found;
use crate::glob;

const ANY_TIME: Flags = Flags::LOADING.with(Flags::STALE);

const fn sub(
    name: &'static str,
    arity: i32,
    since: &'static str,
    summary: &'static str,
    run: crate::execute::command::Run,
) -> Command {
    row(name, arity, ANY_TIME, since, summary, run).categories(&["@connection"])
}

/// The rows of this family.
pub(super) const COMMANDS: &[Command] =
    &[row("command", -1, ANY_TIME, "2.8.13", "Describes all commands.", command)
        .categories(&["@connection"])
        .complexity("O(N) where N is the number of commands")
        .subcommands(&[
            sub("count", 2, "2.8.13", "Counts the commands.", count),
            sub("docs", -2, "7.0.0", "Returns documentation of commands.", docs)
                .complexity("O(N) where N is the number of commands that are named"),
            sub("getkeys", -4, "2.8.13", "Returns the keys of a request.", getkeys)
                .complexity("O(N) where N is the number of arguments of the request"),
            sub(
                "getkeysandflags",
                -4,
                "7.0.0",
                "Returns the keys of a request and how they are used.",
                getkeysandflags,
            )
            .complexity("O(N) where N is the number of arguments of the request"),
            sub("help", 2, "5.0.0", "Lists the subcommands.", help),
            sub("info", -2, "2.8.13", "Describes the named commands.", info)
                .complexity("O(N) where N is the number of commands that are named"),
            sub("list", -2, "7.0.0", "Lists the names of commands.", list)
                .complexity("O(N) where N is the number of commands"),
        ])];

fn count<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    cx.reply.integer(rows().count() as i64);
    Ok(())
}

/// The arguments that are keys, each with the spec that says so.
type KeyPlaces = Vec<(usize, &'static KeySpec)>;

/// The request behind `COMMAND GETKEYS`, its command, and where its keys stand, with the spec that says so.
/// There may be none where the command needs none, such as `EVAL`.
fn keys_of(args: Args<'_>) -> Result<(&'static Command, Args<'_>, KeyPlaces), CommandError> {
    let request = args.tail(2);
    let invalid = || CommandError::text("ERR Invalid command specified");
    let Found { command, .. } = commands::table().find(request.at(0)).ok_or_else(invalid)?;
    let command = match request.get(1) {
        // Redis has no rows for the subcommands of a loose one.
        Some(name) if !command.subcommands.is_empty() && !command.flags.has(Flags::LOOSE) => {
            command.subcommand(name).ok_or_else(invalid)?
        }
        _ => command,
    };
    if command.keys.is_empty() {
        return Err(CommandError::text("ERR The command has no key arguments"));
    }
    if !command.accepts(request.len()) {
        return Err(CommandError::text("ERR Invalid number of arguments specified for command"));
    }
    let mut found = Vec::new();
    for spec in command.keys {
        let before = found.len();
        let fits = spec.visit(request, |index| found.push((index, spec)));
        // Only groups that an option begins may be missing.
        if !fits || found.len() == before && matches!(spec.begin, Begin::Index(_)) {
            found.clear();
            break;
        }
    }
    if found.is_empty() && !command.flags.has(Flags::NO_MANDATORY_KEYS) {
        return Err(CommandError::text("ERR Invalid arguments specified for command"));
    }
    Ok((command, request, found))
}

fn getkeys<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (_, request, found) = keys_of(args)?;
    cx.reply.array(found.len());
    found.iter().for_each(|(index, _)| cx.reply.bulk(request.at(*index)));
    Ok(())
}

/// The use that this very request makes of a key: `SET` reads with `GET`, which returns the value, and with
/// comparisons, `DELEX` with these, and `BITFIELD` writes unless it only reads.
pub(super) fn flags_of(command: &str, request: Args<'_>, spec: &KeySpec) -> &'static [&'static str] {
    if !spec.flags.contains(&"variable_flags") {
        return spec.flags;
    }
    let says_get = || request.tail(3).iter().any(|word| word.eq_ignore_ascii_case(b"get"));
    let compares = |from: usize| request.tail(from).iter().any(|word| Comparison::of_option(word).is_some());
    if command == "bitfield" {
        if only_reads(request) { &["RO", "access"] } else { &["RW", "access", "update"] }
    } else if command == "delex" {
        if compares(2) { &["RW", "delete"] } else { &["RM", "delete"] }
    } else if says_get() {
        &["RW", "access", "update"]
    } else if compares(3) {
        &["RW", "update"]
    } else {
        &["OW", "update"]
    }
}

/// Whether a `BITFIELD` only reads, as far as its arguments can be read.
fn only_reads(request: Args<'_>) -> bool {
    let mut at = 2;
    while let Some(word) = request.get(at) {
        let more = request.len() - at - 1;
        at += match () {
            () if more >= 2 && word.eq_ignore_ascii_case(b"get") => 3,
            () if more >= 1 && word.eq_ignore_ascii_case(b"overflow") => 2,
            () => return false,
        };
    }
    true
}

fn getkeysandflags<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (command, request, found) = keys_of(args)?;
    cx.reply.array(found.len());
    for (index, spec) in found {
        let flags = flags_of(command.name, request, spec);
        cx.reply.array(2);
        cx.reply.bulk(request.at(index));
        cx.reply.set(flags.len());
        flags.iter().for_each(|flag| cx.reply.simple(flag));
    }
    Ok(())
}

fn list<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let names: Vec<String> = match args.len() {
        2 => rows_with_subcommands().map(|row| row.name()).collect(),
        5 if args.at(2).eq_ignore_ascii_case(b"filterby") => {
            let (by, text) = (args.at(3), args.at(4));
            let is = |filter: &str| by.eq_ignore_ascii_case(filter.as_bytes());
            if is("module") {
                let prefix = modules::prefix(cx.server, text);
                names_of(|row| prefix.is_some_and(|prefix| row.command.name.starts_with(prefix)))
            } else if is("aclcat") {
                let wanted = format!("@{}", String::from_utf8_lossy(text).to_lowercase());
                names_of(|row| row.categories().contains(&wanted.as_str()))
            } else if is("pattern") {
                names_of(|row| glob::matches_ignoring_case(text, row.name().as_bytes()))
            } else {
                return Err(CommandError::Syntax);
            }
        }
        _ => return Err(CommandError::Syntax),
    };
    cx.reply.array(names.len());
    names.iter().for_each(|name| cx.reply.bulk(name.as_bytes()));
    Ok(())
}

/// The names of the commands and subcommands that a filter admits.
fn names_of(admits: impl Fn(Row) -> bool) -> Vec<String> {
    rows_with_subcommands().filter(|row| admits(*row)).map(|row| row.name()).collect()
}

fn help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    crate::commands::help::help(cx, "COMMAND");
    Ok(())
}
