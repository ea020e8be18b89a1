//! `CLIENT` and its subcommands.

use tarn_resp::Args;

use crate::commands::client_filters::{ClientFilter, Known};
use crate::commands::client_tracking;
use crate::commands::connection::{check_name, check_name_len};
use crate::commands::help::unknown_container;
use crate::config::AppendFsync;
use crate::error::{CommandError, printable};
use crate::execute::blocking::Outcome;
use crate::execute::client::{After, ReplyMode};
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::showing::client_line;
use crate::execute::spec::Flags;
use crate::net::pause::PauseMode;

const PLAIN: Flags = Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE);
const ADMIN: Flags = PLAIN.with(Flags::ADMIN);

const fn sub(
    name: &'static str,
    arity: i32,
    flags: Flags,
    since: &'static str,
    summary: &'static str,
    run: crate::execute::command::Run,
) -> Command {
    row(name, arity, flags, since, summary, run)
}

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[row(
    "client",
    -2,
    Flags::NONE,
    "2.4.0",
    "A container for commands about connections.",
    unknown_container,
)
.subcommands(&[
    sub("caching", 3, PLAIN, "6.0.0", "Has the next command tracked, or not.", client_tracking::caching),
    sub(
        "capa",
        -3,
        PLAIN.with(Flags::ALLOW_BUSY),
        "8.0.0",
        "Is told what the client understands, as in Valkey; only filters of clients ask for it.",
        capa,
    ),
    sub(
        "durability",
        -2,
        PLAIN,
        "1.0.0",
        "Says when replies leave: always|everysec|no as appendfsync has them, or default: as it is set.",
        durability,
    ),
    sub("getname", 2, PLAIN, "2.6.9", "Returns the connection's name.", getname),
    sub(
        "getredir",
        2,
        PLAIN,
        "6.0.0",
        "Returns who is told of changes in its stead.",
        client_tracking::getredir,
    ),
    sub("help", 2, Flags::LOADING.with(Flags::STALE), "5.0.0", "Lists the subcommands.", help),
    sub("id", 2, PLAIN, "5.0.0", "Returns the connection's number.", id),
    sub("info", 2, PLAIN, "6.2.0", "Describes the connection.", info),
    sub("kill", -3, ADMIN, "2.4.0", "Closes connections.", kill),
    sub("list", -2, ADMIN, "2.4.0", "Describes the open connections.", list),
    sub("no-evict", 3, ADMIN, "7.0.0", "Spares the connection when memory for clients runs out.", no_evict),
    sub("no-touch", 3, PLAIN, "7.2.0", "Says whether commands count as uses of keys.", no_touch),
    sub("pause", -3, ADMIN, "2.9.50", "Holds commands back for a while.", pause),
    sub("reply", 3, PLAIN, "3.2.0", "Says whether replies are sent.", reply),
    sub("setinfo", 4, PLAIN, "7.2.0", "Names the client's library, or its version.", setinfo),
    sub("setname", 3, PLAIN, "2.6.9", "Names the connection.", setname),
    sub("tracking", -3, PLAIN, "6.0.0", "Has the client told of changes of keys.", client_tracking::tracking),
    sub("trackinginfo", 2, PLAIN, "6.2.0", "Describes how keys are tracked.", client_tracking::trackinginfo),
    sub(
        "unblock",
        -3,
        ADMIN.with(Flags::ALONE_IN_EXEC),
        "5.0.0",
        "Ends the waiting of a blocked client.",
        unblock,
    ),
    sub("unpause", 2, ADMIN, "6.2.0", "Lets held commands go on.", unpause),
])];

fn capa<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    // As in Valkey, words that are not known are passed over.
    if args.tail(2).iter().any(|word| word.eq_ignore_ascii_case(b"redirect")) {
        cx.client.handle.info.lock().takes_redirects = true;
    }
    cx.reply.ok();
    Ok(())
}

fn durability<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let handle = &cx.client.handle;
    let Some(word) = args.get(2) else {
        let name = handle.durability().map_or("default", |durability| durability.name());
        cx.reply.bulk(name.as_bytes());
        return Ok(());
    };
    let named = |mode: &&AppendFsync| mode.name().as_bytes().eq_ignore_ascii_case(word);
    let durability = AppendFsync::ALL.iter().find(named).copied();
    if args.len() > 3 || durability.is_none() && !word.eq_ignore_ascii_case(b"default") {
        return Err(CommandError::text(
            "ERR syntax error: CLIENT DURABILITY takes one of always, everysec, no and default, or nothing",
        ));
    }
    let has_no_log = cx.server.store().is_some_and(|store| store.log.load().is_none());
    if durability == Some(AppendFsync::Always) && has_no_log {
        return Err(CommandError::text(
            "ERR There is no log to wait for: the server runs with 'appendonly no'",
        ));
    }
    handle.set_durability(durability);
    cx.reply.ok();
    Ok(())
}

fn getname<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let name = cx.client.handle.info.lock().name.clone();
    if name.is_empty() {
        cx.reply.null()
    } else {
        cx.reply.bulk(name.as_bytes())
    }
    Ok(())
}

fn id<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    cx.reply.integer(cx.client.handle.id as i64);
    Ok(())
}

fn setname<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let name = check_name(args.at(2))?;
    cx.client.handle.info.lock().name = name;
    cx.reply.ok();
    Ok(())
}

fn info<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let line = client_line(super::table(), &cx.client.handle) + "\n";
    cx.reply.verbatim(*b"txt", line.as_bytes());
    Ok(())
}

fn list<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (databases, acl) = (cx.keys.databases(), &cx.server.acl);
    let known = Known { databases, is_user: &|name| acl.user(name).is_some() };
    let filter = ClientFilter::parse(args.tail(2), false, &known)?;
    let mut text = String::new();
    for client in filter.select(&cx.server.clients, cx.client.handle.id) {
        text.push_str(&client_line(super::table(), &client));
        text.push('\n');
    }
    cx.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

fn kill<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let old_style = args.len() == 3;
    let filter = if old_style {
        ClientFilter::of_address(args.at(2))
    } else {
        let (databases, acl) = (cx.keys.databases(), &cx.server.acl);
        let known = Known { databases, is_user: &|name| acl.user(name).is_some() };
        ClientFilter::parse(args.tail(2), true, &known)?
    };
    let me = cx.client.handle.id;
    let clients = filter.select(&cx.server.clients, me);
    for client in &clients {
        if client.id == me { cx.client.after = After::Close } else { client.kill() }
    }
    match (old_style, clients.len()) {
        (true, 0) => return Err(CommandError::text("ERR No such client")),
        (true, _) => cx.reply.ok(),
        (false, killed) => cx.reply.integer(killed as i64),
    }
    Ok(())
}

fn no_evict<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    cx.client.handle.info.lock().no_evict = parse::on_off(args.at(2))?;
    cx.reply.ok();
    Ok(())
}

fn no_touch<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    cx.client.no_touch = parse::on_off(args.at(2))?;
    cx.client.handle.info.lock().no_touch = cx.client.no_touch;
    cx.reply.ok();
    Ok(())
}

fn setinfo<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (word, value) = (args.at(2), args.at(3));
    let names = ["lib-name", "lib-ver"];
    let Some(at) = names.iter().position(|name| word.eq_ignore_ascii_case(name.as_bytes())) else {
        let word = printable(word);
        return Err(CommandError::owned(format!("ERR Unrecognized option '{word}'")));
    };
    let name = names[at];
    check_name_len(value)?;
    let value = check_name(value).map_err(|_| {
        CommandError::owned(format!("ERR {name} cannot contain spaces, newlines or special characters."))
    })?;
    cx.client.handle.info.lock().library[at] = value;
    cx.reply.ok();
    Ok(())
}

fn pause<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let mode = match args.get(3) {
        None => PauseMode::All,
        Some(word) if word.eq_ignore_ascii_case(b"all") => PauseMode::All,
        Some(word) if word.eq_ignore_ascii_case(b"write") => PauseMode::Write,
        Some(_) => {
            return Err(CommandError::text("ERR CLIENT PAUSE mode must be WRITE or ALL"));
        }
    };
    if args.len() > 4 {
        let word = printable(args.at(1));
        return Err(CommandError::owned(format!(
            "ERR unknown subcommand or wrong number of arguments for '{word}'. Try CLIENT HELP."
        )));
    }
    let timeout = parse::integer(args.at(2))
        .map_err(|_| CommandError::text("ERR timeout is not an integer or out of range"))?;
    let timeout = u64::try_from(timeout).map_err(|_| CommandError::text("ERR timeout is negative"))?;
    cx.server.pause.begin(mode, cx.now().saturating_add(timeout));
    cx.server.hold_expiry();
    cx.reply.ok();
    Ok(())
}

fn unpause<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    cx.server.pause.end();
    cx.server.hold_expiry();
    cx.server.clients.all().iter().for_each(|client| client.wake());
    cx.reply.ok();
    Ok(())
}

fn reply<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let word = args.at(2);
    if word.eq_ignore_ascii_case(b"on") {
        cx.client.reply_mode = ReplyMode::On;
        cx.reply.ok();
    } else if word.eq_ignore_ascii_case(b"off") {
        cx.client.reply_mode = ReplyMode::Off;
    } else if word.eq_ignore_ascii_case(b"skip") {
        if cx.client.reply_mode != ReplyMode::Off {
            cx.client.reply_mode = ReplyMode::SkipNext;
        }
    } else {
        return Err(CommandError::Syntax);
    }
    Ok(())
}

fn unblock<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let outcome = match args.get(3) {
        None => Outcome::TimedOut,
        Some(word) if word.eq_ignore_ascii_case(b"timeout") => Outcome::TimedOut,
        Some(word) if word.eq_ignore_ascii_case(b"error") => Outcome::Unblocked,
        Some(_) => {
            return Err(CommandError::text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
        }
    };
    let id = parse::integer(args.at(2))?;
    let unblocked = u64::try_from(id).is_ok_and(|id| cx.server.blocking.unblock(id, outcome));
    cx.reply.integer(i64::from(unblocked));
    Ok(())
}

fn help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    crate::commands::help::help(cx, "CLIENT");
    Ok(())
}
