//! `ACL`: users and their rules, and what was refused.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{Ordering, fence};

use tarn_resp::Args;

use crate::acl::keeper::Outcome;
use crate::acl::registry::{DEFAULT, is_name};
use crate::acl::{CATEGORIES, Denied, FileJob, Selector, User, catalog, merge_selectors};
use crate::apply::{note_users, replace_users};
use crate::commands::help::{lines, unknown_container};
use crate::config::AclPubsubDefault;
use crate::error::{CommandError, printable};
use crate::execute::client::After;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::rights::{check, request_of};
use crate::execute::services::Services;
use crate::execute::spec::Flags;

const ANY_TIME: Flags = Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE);
const ADMIN: Flags = ANY_TIME.with(Flags::ADMIN);
const HELP: Flags = Flags::LOADING.with(Flags::STALE);

/// The longest password that is made, in bits.
const PASSWORD_BITS_MAX: i64 = 4096;

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[row(
    "acl",
    -2,
    Flags::NONE,
    "6.0.0",
    "A container for commands about users and what they may do.",
    unknown_container,
)
.complexity("Depends on subcommand.")
.subcommands(&[
    row("cat", -2, ANY_TIME, "6.0.0", "Lists the categories of commands, or the commands of one.", cat)
        .complexity("O(1) since the categories and commands are a fixed set."),
    row("deluser", -3, ADMIN, "6.0.0", "Deletes users, and closes their connections.", deluser)
        .complexity("O(N) where N is the number of users, and of connections"),
    row("dryrun", -4, ADMIN, "7.0.0", "Says whether a user may run a command.", dryrun),
    row("genpass", -2, ANY_TIME, "6.0.0", "Makes a password.", genpass),
    row("getuser", 3, ADMIN, "6.0.0", "Describes a user.", getuser)
        .complexity("O(N). Where N is the number of password, command and pattern rules that the user has."),
    row("help", 2, HELP, "6.0.0", "Lists the subcommands.", help),
    row("list", 2, ADMIN, "6.0.0", "Lists the rules of all users.", list)
        .complexity("O(N). Where N is the number of configured users."),
    row("load", 2, ADMIN, "6.0.0", "Reads the users of aclfile.", load)
        .complexity("O(N). Where N is the number of configured users."),
    row("log", -2, ADMIN, "6.0.0", "Shows what was refused, or forgets it.", log)
        .complexity("O(N) with N being the number of entries shown."),
    row("save", 2, ADMIN, "6.0.0", "Writes the users into aclfile.", save)
        .complexity("O(N). Where N is the number of configured users."),
    row("setuser", -3, ADMIN, "6.0.0", "Makes a user, or changes its rules.", setuser)
        .complexity("O(N). Where N is the number of rules provided."),
    row("users", 2, ADMIN, "6.0.0", "Lists the names of all users.", users)
        .complexity("O(N). Where N is the number of configured users."),
    row("whoami", 2, ANY_TIME, "6.0.0", "Returns the name of the connection's user.", whoami),
])];

const HELP_TEXT: [&str; 29] = [
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
    "HELP",
    "    Prints this help.",
];

const NO_FILE: CommandError = CommandError::text(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL \
     SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in \
     order to store users in the Redis configuration.",
);
const IN_TRANSACTION: CommandError =
    CommandError::text("ERR ACL LOAD and ACL SAVE wait for the disk, which a transaction does not do");

fn cat<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let Some(name) = args.get(2) else {
        cx.reply.array(CATEGORIES.len());
        CATEGORIES.iter().for_each(|name| cx.reply.bulk(name.trim_start_matches('@').as_bytes()));
        return Ok(());
    };
    if args.len() > 3 {
        return Err(wrong_syntax(args));
    }
    let category = catalog::category(name)
        .ok_or_else(|| CommandError::owned(format!("ERR Unknown category '{}'", printable(name))))?;
    let catalog = cx.server.acl.catalog();
    let numbers: Vec<usize> = catalog.of_category(category).collect();
    cx.reply.array(numbers.len());
    numbers.iter().for_each(|number| cx.reply.bulk(catalog.name(*number).as_bytes()));
    Ok(())
}

/// The error of Redis for a subcommand with too many arguments.
fn wrong_syntax(args: Args<'_>) -> CommandError {
    CommandError::owned(format!(
        "ERR unknown subcommand or wrong number of arguments for '{}'. Try ACL HELP.",
        printable(args.at(1))
    ))
}

fn all_channels(server: &Services) -> bool {
    server.config.snapshot().acl.pubsub_default == AclPubsubDefault::AllChannels
}

fn setuser<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let name = args.at(2);
    if !is_name(name) {
        return Err(CommandError::text("ERR Usernames can't contain spaces or null characters"));
    }
    let rules = merge_selectors(args.tail(3).iter()).map_err(|at| {
        CommandError::owned(format!(
            "ERR Unmatched parenthesis in acl selector starting at '{}'.",
            printable(args.at(3 + at))
        ))
    })?;
    let server = cx.server;
    let changed = server.acl.change(name, &rules, all_channels(server)).map_err(|refused| {
        let rule = printable(&refused.rule);
        CommandError::owned(format!("ERR Error in ACL SETUSER modifier '{rule}': {}", refused.error))
    })?;
    if changed.before.is_some() {
        look_at_rights(server, &changed.after);
    }
    after_change(server);
    cx.reply.ok();
    Ok(())
}

/// Has the connections of a user closed that are told of what it may know no longer: of messages to channels,
/// of keys by their prefixes, of the requests of others.
fn look_at_rights(server: &Services, user: &User) {
    // Pairs with the fence of who begins to be told of something.
    fence(Ordering::SeqCst);
    for client in server.clients.all() {
        if client.is_told() && client.info.lock().user.id == user.id.0 {
            client.look_at_rights();
        }
    }
}

/// Tells the rest of the server that users have changed.
fn after_change(server: &Services) {
    note_users(server, &server.config.snapshot());
}

/// Closes the connections of users that are gone.
fn close_connections(cx: &mut Context<'_, '_>, gone: &[std::sync::Arc<User>]) {
    let me = cx.client.handle.id;
    let gone: HashSet<u64> = gone.iter().map(|user| user.id.0).collect();
    for client in cx.server.clients.all() {
        let id = client.info.lock().user.id;
        if !gone.contains(&id) {
            continue;
        }
        if client.id == me { cx.client.after = After::Close } else { client.kill() }
    }
}

fn deluser<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.tail(2).iter().any(|name| name == DEFAULT) {
        return Err(CommandError::text("ERR The 'default' user cannot be removed"));
    }
    let gone = cx.server.acl.delete(args.tail(2).iter());
    close_connections(cx, &gone);
    after_change(cx.server);
    cx.reply.integer(gone.len() as i64);
    Ok(())
}

fn getuser<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let Some(user) = cx.server.acl.user(args.at(2)) else {
        cx.reply.null();
        return Ok(());
    };
    let (flags, hashes) = (user.flags(), user.hashes().collect::<Vec<_>>());
    cx.reply.map(3 + fields_of(user.root()));
    cx.reply.bulk(b"flags");
    cx.reply.set(flags.len());
    flags.iter().for_each(|flag| cx.reply.bulk(flag.as_bytes()));
    cx.reply.bulk(b"passwords");
    cx.reply.array(hashes.len());
    hashes.iter().for_each(|hash| cx.reply.bulk(hash.as_bytes()));
    write_selector(cx, user.root());
    cx.reply.bulk(b"selectors");
    cx.reply.array(user.others().len());
    for selector in user.others() {
        cx.reply.map(fields_of(selector));
        write_selector(cx, selector);
    }
    Ok(())
}

/// Of a selector with all databases as Redis 7.0 describes it.
fn fields_of(selector: &Selector) -> usize {
    3 + usize::from(!selector.allows_every_database())
}

fn write_selector(cx: &mut Context<'_, '_>, selector: &Selector) {
    let commands = selector.describe_commands(cx.server.acl.catalog());
    cx.reply.bulk(b"commands");
    cx.reply.bulk(&commands);
    cx.reply.bulk(b"keys");
    cx.reply.bulk(&selector.describe_keys());
    cx.reply.bulk(b"channels");
    cx.reply.bulk(&selector.describe_channels());
    if let Some(databases) = selector.describe_databases() {
        cx.reply.bulk(b"databases");
        cx.reply.bulk(databases.as_bytes());
    }
}

fn list<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let (users, catalog) = (cx.server.acl.all(), cx.server.acl.catalog());
    cx.reply.array(users.len());
    users.values().for_each(|user| cx.reply.bulk(&user.line(catalog)));
    Ok(())
}

fn users<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let users = cx.server.acl.all();
    cx.reply.array(users.len());
    users.keys().for_each(|name| cx.reply.bulk(name));
    Ok(())
}

fn whoami<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let name = cx.client.handle.info.lock().user.name.clone();
    cx.reply.bulk(&name);
    Ok(())
}

fn genpass<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let bits = match args.len() {
        2 => 256,
        3 => parse::integer(args.at(2))?,
        _ => return Err(wrong_syntax(args)),
    };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(CommandError::text(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number \
             up to 4096",
        ));
    }
    let digits = (bits as usize).div_ceil(4);
    // The generator of the thread is one for secrets.
    let password: String = (0..digits).map(|_| format!("{:x}", rand::random::<u8>() & 15)).collect();
    cx.reply.bulk(password.as_bytes());
    Ok(())
}

fn log<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let log = &cx.server.acl.log;
    let count = match args.get(2) {
        _ if args.len() > 3 => return Err(wrong_syntax(args)),
        None => 10,
        Some(word) if word.eq_ignore_ascii_case(b"reset") => {
            log.clear();
            cx.reply.ok();
            return Ok(());
        }
        Some(word) => usize::try_from(parse::integer(word)?).unwrap_or(0),
    };
    let (entries, now) = (log.newest(count), cx.server.clock.unix_ms());
    cx.reply.array(entries.len());
    for entry in entries {
        let reply = &mut cx.reply;
        reply.map(10);
        reply.bulk(b"count");
        reply.integer(entry.count as i64);
        reply.bulk(b"reason");
        reply.bulk(entry.reason.name().as_bytes());
        reply.bulk(b"context");
        reply.bulk(entry.context.name().as_bytes());
        reply.bulk(b"object");
        reply.bulk(&entry.object);
        reply.bulk(b"username");
        reply.bulk(&entry.username);
        reply.bulk(b"age-seconds");
        reply.double(now.saturating_sub(entry.updated_ms) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(entry.client.as_bytes());
        reply.bulk(b"entry-id");
        reply.integer(entry.id as i64);
        reply.bulk(b"timestamp-created");
        reply.integer(entry.created_ms as i64);
        reply.bulk(b"timestamp-last-updated");
        reply.integer(entry.updated_ms as i64);
    }
    Ok(())
}

/// The outcome of what this request has asked the thread for that has the file; `None`: it runs again later.
fn outcome(
    cx: &mut Context<'_, '_>,
    ask: impl FnOnce(&Services) -> io::Result<FileJob>,
) -> Result<Option<Outcome>, CommandError> {
    if cx.client.denies_waiting {
        return Err(IN_TRANSACTION);
    }
    let job = match cx.client.user_file.take() {
        Some(job) => job,
        None => ask(cx.server).map_err(|error| CommandError::owned(format!("ERR {error}")))?,
    };
    let outcome = job.take();
    if outcome.is_none() {
        cx.client.user_file = Some(job);
        cx.client.after = After::Postpone;
    }
    Ok(outcome)
}

fn load<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let server = cx.server;
    let path = server.config.snapshot().aclfile_path().ok_or(NO_FILE)?;
    let ask = |server: &Services| server.user_file.load(&server.acl, path.clone(), all_channels(server));
    let Some(read) = outcome(cx, ask)? else { return Ok(()) };
    let gone = read
        .and_then(|users| replace_users(server, users, &path))
        .map_err(|errors| CommandError::owned(format!("ERR {errors}").replace(['\r', '\n'], " ")))?;
    close_connections(cx, &gone);
    if let Some(default) = server.acl.user(DEFAULT) {
        look_at_rights(server, &default);
    }
    after_change(server);
    cx.reply.ok();
    Ok(())
}

fn save<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let path = cx.server.config.snapshot().aclfile_path().ok_or(NO_FILE)?;
    let ask = |server: &Services| server.user_file.save(&server.acl, path);
    match outcome(cx, ask)? {
        Some(Ok(_)) => cx.reply.ok(),
        // The thread has told the log why.
        Some(Err(_)) => {
            return Err(CommandError::text(
                "ERR There was an error trying to save the ACLs. Please check the server logs for more \
                 information",
            ));
        }
        None => {}
    }
    Ok(())
}

fn dryrun<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (name, request) = (args.at(2), args.tail(3));
    let user = cx.server.acl.user(name);
    let user =
        user.ok_or_else(|| CommandError::owned(format!("ERR User '{}' not found", printable(name))))?;
    let (command, slot) = super::table().find_part(request).ok_or_else(|| {
        CommandError::owned(format!("ERR Command '{}' not found", printable(request.at(0))))
    })?;
    let catalog = cx.server.acl.catalog();
    let full_name = catalog.name(slot);
    if !command.accepts(request.len()) {
        return Err(CommandError::owned(format!("ERR wrong number of arguments for '{full_name}' command")));
    }
    // Rules do not know the subcommands of `DEBUG`, but keys are checked as these name them.
    let part = request.get(1).and_then(|name| {
        let is_named = |sub: &Command| sub.name.as_bytes().eq_ignore_ascii_case(name);
        let at = command.subcommands.iter().position(is_named)?;
        command.subcommands[at].accepts(request.len()).then_some((&command.subcommands[at], slot + 1 + at))
    });
    let (command, slot) = part.unwrap_or((command, slot));
    let asked = request_of(super::table(), command, slot, request, Some(cx.client.db));
    let Err(denied) = check(&user, catalog, asked) else {
        cx.reply.ok();
        return Ok(());
    };
    let text = |index: usize| request.get(index).unwrap_or_default();
    let told: Vec<u8> = match denied {
        Denied::Command => {
            format!("This user has no permissions to run the '{full_name}' command").into_bytes()
        }
        Denied::Key(0) => format!(
            "This user has no permissions to run the '{full_name}' command: it needs the right to every key \
             (~*), in every database"
        )
        .into_bytes(),
        Denied::Key(index) => {
            [&b"This user has no permissions to access the '"[..], text(index), b"' key"].concat()
        }
        Denied::Channel(index) => {
            [&b"This user has no permissions to access the '"[..], text(index), b"' channel"].concat()
        }
        Denied::Database(0) => {
            format!("This user has no permissions to access database {}", cx.client.db).into_bytes()
        }
        Denied::Database(index) => {
            [&b"This user has no permissions to access database "[..], text(index)].concat()
        }
    };
    cx.reply.bulk(&told);
    Ok(())
}

fn help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    lines(cx, &HELP_TEXT);
    Ok(())
}
