//! `CONFIG`: the configuration in force, shown, changed and written back.

use tarn_resp::Args;

use crate::apply::{Certificates, apply, password_check};
use crate::error::CommandError;
use crate::execute::client::After;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::spec::Flags;

const ADMIN: Flags = Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE);
/// It takes the configuration's lock, which comes before the latches of keys.
const SETS: Flags = ADMIN.with(Flags::ALONE_IN_EXEC);

/// The rows of this family.
pub(super) const COMMANDS: &[Command] =
    &[row("config", -2, Flags::NONE, "2.0.0", "Shows and changes the configuration.", help)
        .complexity("Depends on subcommand.")
        .subcommands(&[
            row("get", -3, ADMIN, "2.0.0", "Shows the directives that match patterns.", get)
                .complexity("O(N) when N is the number of configuration parameters provided"),
            row("help", 2, HELP, "5.0.0", "Lists the subcommands.", help),
            row("resetstat", 2, ADMIN, "2.0.0", "Counts from zero again.", resetstat),
            row("rewrite", 2, ADMIN, "2.8.0", "Writes the configuration in force into its file.", rewrite),
            row("set", -4, SETS, "2.0.0", "Changes directives, all or none.", set)
                .complexity("O(N) when N is the number of configuration parameters provided"),
        ])];

const HELP: Flags = Flags::LOADING.with(Flags::STALE);

const HELP_TEXT: [&str; 11] = [
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>",
    "    Set the configuration <directive> to <value>.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
    "REWRITE",
    "    Rewrite the configuration file.",
    "HELP",
    "    Prints this help.",
];

fn get<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let patterns: Vec<&[u8]> = args.iter().skip(2).collect();
    let found = cx.server.config.get(&patterns);
    cx.reply.map(found.len());
    for (name, value) in found {
        cx.reply.bulk(&name);
        cx.reply.bulk(&value);
    }
    Ok(())
}

fn set<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    let words: Vec<&[u8]> = args.iter().skip(2).collect();
    let pairs: Vec<(&[u8], &[u8])> = words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let server = cx.server;
    let Some(certificates) = certificates_for(cx, &pairs)? else {
        cx.client.after = After::Postpone;
        return Ok(());
    };
    let changed = server.config.set_and_apply(&pairs, |old, new| apply(server, old, new, certificates));
    for warning in changed.map_err(as_reply)?.into_iter().filter_map(|change| change.warning) {
        tracing::warn!("{warning}");
    }
    cx.reply.ok();
    Ok(())
}

/// The certificates of the configuration that these pairs make, if they change something of encryption. A
/// thread of its own reads them; `None`: it is at it.
fn certificates_for(
    cx: &mut Context<'_, '_>,
    pairs: &[(&[u8], &[u8])],
) -> Result<Option<Certificates>, CommandError> {
    let server = cx.server;
    let reading = cx.client.certificates.take();
    let (old, new) = server.config.changed_by(pairs).map_err(as_reply)?;
    if new.tls.encrypts_as(&old.tls) {
        return Ok(Some(Certificates::Same));
    }
    if cx.client.denies_waiting {
        return Err(CommandError::text(
            "ERR CONFIG SET of certificates waits for the disk, which a transaction does not do",
        ));
    }
    let reading = match reading {
        Some(reading) => match reading.outcome() {
            // Another client has changed the configuration meanwhile.
            Some(Ok(read)) if !read.is_for(&new) => server.tls.read_soon(&new).map_err(as_reply)?,
            Some(outcome) => return Ok(Some(Certificates::Read(outcome))),
            None => reading,
        },
        None => server.tls.read_soon(&new).map_err(as_reply)?,
    };
    cx.client.certificates = Some(reading);
    Ok(None)
}

fn resetstat<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    cx.server.stats.reset();
    cx.server.acl.log.reset_counts();
    cx.reply.ok();
    Ok(())
}

fn rewrite<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let server = cx.server;
    if cx.client.denies_waiting {
        return Err(CommandError::text(
            "ERR CONFIG REWRITE waits for the disk, which a transaction does not do",
        ));
    }
    let ticket = match cx.client.rewrite.take() {
        Some(ticket) => ticket,
        None => {
            let check = password_check(server.acl.shared_catalog());
            server.rewriter.ask(&server.config, server.acl.lines(), check).map_err(as_reply)?
        }
    };
    match server.rewriter.outcome(ticket) {
        Some(outcome) => {
            outcome.map_err(as_reply)?;
            cx.reply.ok();
        }
        None => {
            cx.client.rewrite = Some(ticket);
            cx.client.after = After::Postpone;
        }
    }
    Ok(())
}

fn help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    super::help::lines(cx, &HELP_TEXT);
    Ok(())
}

/// An error of the configuration as a reply. What a client wrote may stand in it, line breaks too.
fn as_reply(error: impl std::fmt::Display) -> CommandError {
    CommandError::owned(format!("ERR {error}").replace(['\r', '\n'], " "))
}
