//! `MODULE`: what modules of Redis do and is built in here, under their names. Nothing is loaded.

use tarn_resp::{Args, Writer};

use crate::commands::help::unknown_container;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::services::Services;
use crate::execute::spec::Flags;

const ADMIN: Flags = Flags::ADMIN.with(Flags::NOSCRIPT);
const LOADS: Flags = ADMIN.with(Flags::NO_ASYNC_LOADING);

/// The rows of this family.
pub(super) const COMMANDS: &[Command] =
    &[row("module", -2, Flags::NONE, "4.0.0", "A container for commands about modules.", unknown_container)
        .subcommands(&[
            row("help", 2, Flags::LOADING.with(Flags::STALE), "5.0.0", "Lists the subcommands.", help),
            row("list", 2, ADMIN, "4.0.0", "Names the modules whose commands are built in.", list),
            row("load", -3, LOADS, "4.0.0", "Is refused: modules cannot be loaded.", refuse),
            row("loadex", -3, LOADS, "7.0.0", "Is refused: modules cannot be loaded.", refuse),
            row("unload", 3, LOADS, "4.0.0", "Is refused: what is built in stays.", unload),
        ])];

/// A module of Redis whose commands are built in, as clients look for them.
struct BuiltIn {
    name: &'static str,
    /// The beginning of the names of its commands.
    prefix: &'static str,
    /// The version whose commands a client may expect: 10000 times the first number, 100 times the second.
    version: i64,
}

/// The modules whose commands are there.
fn built_in(server: &Services) -> impl Iterator<Item = BuiltIn> + use<> {
    let search =
        server.search().is_some().then_some(BuiltIn { name: "search", prefix: "ft.", version: 21_005 });
    search.into_iter().chain([BuiltIn { name: "ReJSON", prefix: "json.", version: 20_808 }])
}

/// The beginning of the names of a built-in module's commands, by its name.
pub(super) fn prefix(server: &Services, module: &[u8]) -> Option<&'static str> {
    built_in(server).find(|one| one.name.as_bytes() == module).map(|one| one.prefix)
}

/// Writes the list of modules, as `MODULE LIST` and `HELLO` have it.
pub(super) fn write_list(server: &Services, reply: &mut Writer<'_>) {
    let modules: Vec<BuiltIn> = built_in(server).collect();
    reply.array(modules.len());
    for BuiltIn { name, version, .. } in modules {
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(name.as_bytes());
        reply.bulk(b"ver");
        reply.integer(version);
        reply.bulk(b"path");
        reply.bulk(b"");
        reply.bulk(b"args");
        reply.array(0);
    }
}

/// The lines of `INFO modules`.
pub(super) fn info_lines(server: &Services) -> impl Iterator<Item = String> + use<> {
    built_in(server).map(|BuiltIn { name, version, .. }| {
        format!("module:name={name},ver={version},api=1,filters=0,usedby=[],using=[],options=[]\r\n")
    })
}

fn list<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    write_list(cx.server, &mut cx.reply);
    Ok(())
}

fn refuse<'a>(_: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    Err(CommandError::text(
        "ERR MODULE command not allowed: modules cannot be loaded; MODULE LIST names those whose commands \
         are built in",
    ))
}

fn unload<'a>(_: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    Err(CommandError::text("ERR MODULE command not allowed: what is built in cannot be unloaded"))
}

fn help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    crate::commands::help::help(cx, "MODULE");
    Ok(())
}
