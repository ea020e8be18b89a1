//! `EVAL`, `FCALL` and their like, and `SCRIPT`. The executor runs scripts and functions; here are their
//! rows, and what tells of scripts.

use tarn_resp::Args;

use crate::commands::help::{self, unknown_container};
use crate::error::CommandError;
use crate::execute::command::{Command, Run, row};
use crate::execute::context::Context;
use crate::execute::spec::{Flags, KeySpec};
use crate::scripts::{Killing, NO_SCRIPT, sha_from};

/// Of commands that run a script. Redis does not show them to `MONITOR`, but what they run.
const SCRIPTS: Flags = Flags::NOSCRIPT
    .with(Flags::STALE)
    .with(Flags::SKIP_MONITOR)
    .with(Flags::NO_MANDATORY_KEYS)
    .with(Flags::MOVABLEKEYS)
    .with(Flags::SCRIPT);
const RUNS: Flags = SCRIPTS.with(Flags::MAY_REPLICATE);
const READS: Flags = SCRIPTS.with(Flags::READONLY);
const DEPENDS: &str = "Depends on the script";

const fn runs(name: &'static str, flags: Flags, since: &'static str, summary: &'static str) -> Command {
    let keys: &[KeySpec] = if flags.has(Flags::READONLY) { READ } else { CHANGED };
    let command = row(name, -3, flags, since, summary, never).complexity(DEPENDS);
    command.keys(keys).categories(&["@scripting"])
}

const READ: &[KeySpec] = &[KeySpec::counted(2, &["RO", "access"])];
const CHANGED: &[KeySpec] = &[KeySpec::counted(2, &["RW", "access", "update"])];

const fn sub(name: &'static str, arity: i32, flags: Flags, summary: &'static str, run: Run) -> Command {
    row(name, arity, flags, "2.6.0", summary, run).categories(&["@scripting"])
}

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    runs("eval", RUNS, "2.6.0", "Runs a script."),
    runs("evalsha", RUNS, "2.6.0", "Runs a script that the server knows, by the SHA1 of its source."),
    runs("eval_ro", READS, "7.0.0", "Runs a script that must not change anything."),
    runs("evalsha_ro", READS, "7.0.0", "Runs a script by its SHA1 that must not change anything."),
    runs("fcall", RUNS, "7.0.0", "Runs a function of a library."),
    runs("fcall_ro", READS, "7.0.0", "Runs a function of a library that must not change anything."),
    row("script", -2, Flags::NONE, "2.6.0", "A container for commands about scripts.", unknown_container)
        .subcommands(&[
            row("debug", 3, Flags::NOSCRIPT, "3.2.0", "Is refused: there is no debugger of scripts.", debug)
                .categories(&["@scripting"]),
            sub("exists", -3, Flags::NOSCRIPT, "Says which of these scripts the server knows.", exists)
                .complexity("O(N), N being the number of scripts"),
            sub("flush", -2, Flags::NOSCRIPT, "Forgets all scripts.", flush)
                .complexity("O(N), N being the number of scripts"),
            row("help", 2, Flags::LOADING.with(Flags::STALE), "5.0.0", "Lists the subcommands.", help)
                .categories(&["@scripting"]),
            sub(
                "kill",
                2,
                Flags::NOSCRIPT.with(Flags::ALLOW_BUSY),
                "Ends scripts that run for long and have not changed anything.",
                kill,
            ),
            sub(
                "load",
                3,
                Flags::NOSCRIPT.with(Flags::STALE).with(Flags::SCRIPT),
                "Keeps a script until all are forgotten, and replies its SHA1.",
                never,
            )
            .complexity("O(N), N being the length of the script"),
            row("show", 3, Flags::NOSCRIPT, "8.0.0", "Replies the source of a script, as in Valkey.", show)
                .categories(&["@scripting"]),
        ]),
];

/// Never called: the executor runs scripts, and compiles those that are loaded.
fn never<'a>(_: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    Err(CommandError::Syntax)
}

fn debug<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let is = |word: &str| args.at(2).eq_ignore_ascii_case(word.as_bytes());
    if is("no") {
        cx.reply.ok();
        return Ok(());
    }
    if !is("yes") && !is("sync") {
        return Err(CommandError::text("ERR Use SCRIPT DEBUG YES/SYNC/NO"));
    }
    Err(CommandError::text("ERR SCRIPT DEBUG is not supported: there is no debugger of scripts"))
}

fn exists<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    cx.reply.array(args.len() - 2);
    for sha in args.tail(2) {
        let is_known = sha_from(sha).is_some_and(|sha| cx.server.scripts.cache.find(&sha).is_some());
        cx.reply.integer(is_known.into());
    }
    Ok(())
}

fn show<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let script = sha_from(args.at(2)).and_then(|sha| cx.server.scripts.cache.find(&sha));
    let script = script.ok_or(NO_SCRIPT)?;
    cx.reply.bulk(script.source());
    Ok(())
}

fn flush<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let is_mode = |word: &[u8]| word.eq_ignore_ascii_case(b"sync") || word.eq_ignore_ascii_case(b"async");
    if args.len() > 3 || !args.tail(2).iter().all(is_mode) {
        return Err(CommandError::text("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    cx.server.scripts.cache.flush();
    cx.reply.ok();
    Ok(())
}

fn kill<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    end(cx, false)
}

/// Ends scripts, or functions, that run for long.
pub(super) fn end(cx: &mut Context<'_, '_>, functions: bool) -> Result<(), CommandError> {
    match cx.server.scripts.running.kill(functions) {
        Killing::Ends => cx.reply.ok(),
        Killing::NoneRuns => {
            return Err(CommandError::text("NOTBUSY No scripts in execution right now."));
        }
        Killing::OtherKind => {
            return Err(CommandError::Busy(if functions { "SCRIPT" } else { "FUNCTION" }));
        }
        Killing::HasWritten => {
            return Err(CommandError::text(
                "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
                 either wait the script termination or kill the server in a hard way using the SHUTDOWN \
                 NOSAVE command.",
            ));
        }
    }
    Ok(())
}

fn help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    help::help(cx, "SCRIPT");
    Ok(())
}
