//! `FUNCTION`: libraries of functions, which `FCALL` runs.

use tarn_resp::Args;

use crate::commands::help::unknown_container;
use crate::commands::scripts;
use crate::error::{CommandError, printable};
use crate::execute::client::After;
use crate::execute::command::{Command, Run, row};
use crate::execute::context::Context;
use crate::execute::spec::Flags;
use crate::glob;
use crate::persist::libraries::{Change, Policy};
use crate::scripts::{About, Function, Library};

const CHANGES: Flags = Flags::NOSCRIPT.with(Flags::WRITE);
const TELLS: Flags = Flags::NOSCRIPT;
const WHILE_BUSY: Flags = Flags::NOSCRIPT.with(Flags::ALLOW_BUSY);

const fn sub(name: &'static str, arity: i32, flags: Flags, summary: &'static str, run: Run) -> Command {
    row(name, arity, flags, "7.0.0", summary, run).categories(&["@scripting"])
}

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[row(
    "function",
    -2,
    Flags::NONE,
    "7.0.0",
    "A container for commands about functions.",
    unknown_container,
)
.subcommands(&[
    sub("delete", 3, CHANGES, "Deletes a library and its functions.", delete).complexity("O(1)"),
    sub("dump", 2, TELLS, "Replies all libraries as one payload.", dump)
        .complexity("O(N) where N is the number of functions"),
    sub("flush", -2, CHANGES, "Deletes all libraries.", flush)
        .complexity("O(N) where N is the number of functions deleted"),
    row("help", 2, Flags::LOADING.with(Flags::STALE), "7.0.0", "Lists the subcommands.", help)
        .categories(&["@scripting"]),
    sub("kill", 2, WHILE_BUSY, "Ends functions that run for long and have not changed anything.", kill),
    sub("list", -2, TELLS, "Describes the libraries.", list)
        .complexity("O(N) where N is the number of functions"),
    sub("load", -3, CHANGES.with(Flags::DENYOOM), "Loads a library.", load)
        .complexity("O(1) (considering compilation time is redundant)"),
    sub("restore", -3, CHANGES.with(Flags::DENYOOM), "Loads all libraries of a payload.", restore)
        .complexity("O(N) where N is the number of functions on the payload"),
    sub("stats", 2, WHILE_BUSY, "Describes the function that runs, and counts libraries.", stats),
])];

const HELP_TEXT: [&str; 40] = [
    "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "LOAD [REPLACE] <FUNCTION CODE>",
    "    Create a new library with the given library name and code.",
    "DELETE <LIBRARY NAME>",
    "    Delete the given library.",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Return general information on all the libraries:",
    "    * Library name",
    "    * The engine used to run the Library",
    "    * Library description",
    "    * Functions list",
    "    * Library code (if WITHCODE is given)",
    "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
    "STATS",
    "    Return information about the current function running:",
    "    * Function name",
    "    * Command used to run the function",
    "    * Duration in MS that the function is running",
    "    If no function is running, return nil",
    "    In addition, returns a list of available engines.",
    "KILL",
    "    Kill the current running function.",
    "FLUSH [ASYNC|SYNC]",
    "    Delete all the libraries.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the libraries.",
    "    * SYNC: Synchronously flush the libraries.",
    "DUMP",
    "    Return a serialized payload representing the current libraries, can be restored using FUNCTION \
     RESTORE command",
    "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
    "    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
    "    control how to handle existing libraries (default APPEND):",
    "    * FLUSH: delete all existing libraries.",
    "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
    "    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
    "      libraries with the new libraries (notice that even on this option there is a chance of failure",
    "      in case of functions name collision with another library).",
    "HELP",
    "    Prints this help.",
];

fn help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    super::help::lines(cx, &HELP_TEXT);
    Ok(())
}

fn load<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let options = 2..args.len() - 1;
    let mut replaces = false;
    for word in options.map(|at| args.at(at)) {
        if !word.eq_ignore_ascii_case(b"replace") {
            return Err(CommandError::owned(format!("ERR Unknown option given: {}", printable(word))));
        }
        replaces = true;
    }
    let source = args.at(args.len() - 1);
    change(cx, "LOAD", || Change::Load { source: source.to_vec(), replaces })
}

fn delete<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    change(cx, "DELETE", || Change::Delete(args.at(2).to_vec()))
}

fn flush<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len() > 3 {
        return Err(wrong_number(args));
    }
    let is_mode = |word: &[u8]| word.eq_ignore_ascii_case(b"sync") || word.eq_ignore_ascii_case(b"async");
    if !args.tail(2).iter().all(is_mode) {
        return Err(CommandError::text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    change(cx, "FLUSH", || Change::Flush)
}

fn restore<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len() > 4 {
        return Err(wrong_number(args));
    }
    let policy = match args.tail(3).iter().next().map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"append") => Policy::Append,
        Some(b"replace") => Policy::Replace,
        Some(b"flush") => Policy::Flush,
        Some(_) => {
            return Err(CommandError::text(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    };
    change(cx, "RESTORE", || Change::Restore { payload: args.at(2).to_vec(), policy })
}

/// Too many arguments of a subcommand.
fn wrong_number(args: Args<'_>) -> CommandError {
    let word = printable(args.at(1));
    CommandError::owned(format!(
        "ERR unknown subcommand or wrong number of arguments for '{word}'. Try FUNCTION HELP."
    ))
}

/// Has the libraries changed, and replies when that is done.
fn change(cx: &mut Context<'_, '_>, name: &str, wanted: impl FnOnce() -> Change) -> Result<(), CommandError> {
    let server = cx.server;
    if cx.client.denies_waiting {
        return Err(CommandError::owned(format!(
            "ERR FUNCTION {name} waits for the disk, which a transaction does not do"
        )));
    }
    let wanted = wanted();
    // One of another request is of no use: its client was told otherwise.
    let job = match cx.client.job.take().filter(|job| job.is_of(&wanted)) {
        Some(job) => job,
        None => server
            .libraries
            .ask(&server.scripts.functions, &server.wakers, wanted)
            .map_err(|error| CommandError::owned(format!("ERR {error}")))?,
    };
    match job.outcome() {
        Some(outcome) => match outcome? {
            Some(library) => cx.reply.bulk(library.as_bytes()),
            None => cx.reply.ok(),
        },
        None => {
            cx.client.job = Some(job);
            cx.client.after = After::Postpone;
        }
    }
    Ok(())
}

fn dump<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let libraries = cx.server.scripts.functions.now();
    cx.reply.bulk(&tarn_rdb::functions::write(libraries.iter().map(|library| library.source())));
    Ok(())
}

fn list<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (mut pattern, mut with_code) = (None, false);
    let mut words = args.tail(2).iter();
    while let Some(word) = words.next() {
        if !with_code && word.eq_ignore_ascii_case(b"withcode") {
            with_code = true;
        } else if pattern.is_none() && word.eq_ignore_ascii_case(b"libraryname") {
            let given = words.next();
            pattern =
                Some(given.ok_or_else(|| CommandError::text("ERR library name argument was not given"))?);
        } else {
            return Err(CommandError::owned(format!("ERR Unknown argument {}", printable(word))));
        }
    }
    let libraries = cx.server.scripts.functions.now();
    let is_wanted = |library: &&std::sync::Arc<Library>| {
        pattern.is_none_or(|pattern| glob::matches_ignoring_case(pattern, library.name.as_bytes()))
    };
    let wanted: Vec<_> = libraries.iter().filter(is_wanted).collect();
    cx.reply.array(wanted.len());
    for library in wanted {
        cx.reply.map(if with_code { 4 } else { 3 });
        cx.reply.bulk(b"library_name");
        cx.reply.bulk(library.name.as_bytes());
        cx.reply.bulk(b"engine");
        cx.reply.bulk(b"LUA");
        cx.reply.bulk(b"functions");
        cx.reply.array(library.functions.len());
        library.functions.iter().for_each(|function| describe(cx, function));
        if with_code {
            cx.reply.bulk(b"library_code");
            cx.reply.bulk(library.source());
        }
    }
    Ok(())
}

fn describe(cx: &mut Context<'_, '_>, function: &Function) {
    cx.reply.map(3);
    cx.reply.bulk(b"name");
    cx.reply.bulk(function.name.as_bytes());
    cx.reply.bulk(b"description");
    match &function.description {
        Some(text) => cx.reply.bulk(text),
        None => cx.reply.null(),
    }
    cx.reply.bulk(b"flags");
    cx.reply.set(function.flags.len());
    function.flags.iter().for_each(|flag| cx.reply.simple(flag.name()));
}

fn stats<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    cx.reply.map(2);
    cx.reply.bulk(b"running_script");
    match cx.server.scripts.running.function() {
        None => cx.reply.null(),
        Some(About { name, request, began }) => {
            cx.reply.map(3);
            cx.reply.bulk(b"name");
            cx.reply.bulk(name.as_bytes());
            cx.reply.bulk(b"command");
            cx.reply.array(request.len());
            request.iter().for_each(|word| cx.reply.bulk(word));
            cx.reply.bulk(b"duration_ms");
            cx.reply.integer(began.elapsed().as_millis() as i64);
        }
    }
    let (libraries, functions) = cx.server.scripts.functions.now().count();
    cx.reply.bulk(b"engines");
    cx.reply.map(1);
    cx.reply.bulk(b"LUA");
    cx.reply.map(2);
    cx.reply.bulk(b"libraries_count");
    cx.reply.integer(libraries as i64);
    cx.reply.bulk(b"functions_count");
    cx.reply.integer(functions as i64);
    Ok(())
}

fn kill<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    scripts::end(cx, true)
}
