//! Commands about the connection itself.

use std::time::Duration;

use tarn_resp::Args;
use tarn_resp::Protocol;

use crate::acl::Reason;
use crate::acl::registry::DEFAULT;
use crate::commands::modules;
use crate::error::{CommandError, printable};
use crate::execute::client::{After, ReplyMode};
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::rights::context_of;
use crate::execute::showing::client_line;
use crate::execute::spec::Flags;
use crate::execute::transaction::selected;
use crate::net::listen::Service;
use crate::version::REDIS_VERSION;

/// Flags of what any connection may say at any time.
const ANY_TIME: Flags = Flags::NOSCRIPT
    .with(Flags::LOADING)
    .with(Flags::STALE)
    .with(Flags::FAST)
    .with(Flags::NO_AUTH)
    .with(Flags::ALLOW_BUSY);
/// Not queued by `MULTI`, and for those who read channels, too.
const AT_ONCE: Flags = ANY_TIME.with(Flags::AT_ONCE).with(Flags::AMONG_MESSAGES);

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row(
        "ping",
        -1,
        Flags::FAST.with(Flags::AMONG_MESSAGES),
        "1.0.0",
        "Answers, to show that the server is alive.",
        ping,
    ),
    row(
        "echo",
        2,
        Flags::LOADING.with(Flags::STALE).with(Flags::FAST),
        "1.0.0",
        "Returns its argument.",
        echo,
    ),
    row("auth", -2, ANY_TIME, "1.0.0", "Says the password.", auth),
    row("hello", -1, ANY_TIME, "6.0.0", "Chooses the protocol and introduces the server.", hello),
    row("quit", -1, AT_ONCE, "1.0.0", "Closes the connection.", quit),
    row("reset", 1, AT_ONCE, "6.2.0", "Makes the connection as if it were new.", reset),
    row(
        "select",
        2,
        Flags::LOADING.with(Flags::STALE).with(Flags::FAST),
        "1.0.0",
        "Selects a logical database.",
        select,
    ),
];

fn ping<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let text = args.get(1);
    if args.len() > 2 {
        return Err(CommandError::Arity("ping".into()));
    }
    if cx.client.only_reads_channels() {
        // As a message, so that the client need not tell it from one.
        cx.reply.array(2);
        cx.reply.bulk(b"pong");
        cx.reply.bulk(text.unwrap_or_default());
    } else if let Some(text) = text {
        cx.reply.bulk(text);
    } else {
        cx.reply.simple("PONG");
    }
    Ok(())
}

fn echo<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    cx.reply.bulk(args.at(1));
    Ok(())
}

fn quit<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    cx.reply.ok();
    cx.client.after = After::Close;
    Ok(())
}

fn select<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let db = selected(args, cx.keys.databases())?;
    cx.client.select(db);
    cx.reply.ok();
    Ok(())
}

/// The time that a connection waits before its next request after so many wrong passwords in a row.
/// Other connections do not wait.
fn delay_after(wrong: u32) -> Option<Duration> {
    /// So many mistakes cost nothing.
    const FREE: u32 = 3;
    let doubled = wrong.checked_sub(FREE + 1)?.min(3);
    Some(Duration::from_millis(50 << doubled))
}

/// Checks a user's password. `command` is the word that says it.
fn authenticate(
    cx: &mut Context<'_, '_>,
    command: &[u8],
    name: &[u8],
    password: &[u8],
) -> Result<(), CommandError> {
    // Of a transaction: its client is to wait, or to go, before it says another one.
    let has_to_wait = cx.client.delay.is_some() || matches!(cx.client.after, After::Close);
    if cx.client.denies_waiting && has_to_wait {
        return Err(CommandError::text(
            "WRONGPASS no password is looked at behind so many wrong ones in one transaction",
        ));
    }
    if let Some(user) = cx.server.acl.authenticate(name, password) {
        cx.client.become_user(&user);
        if cx.client.handle.is_told() {
            // It goes on to be told as this user, or not at all.
            cx.client.handle.look_at_rights();
        }
        cx.client.set_authenticated(true);
        cx.client.wrong_logins = 0;
        return Ok(());
    }
    cx.client.wrong_logins = cx.client.wrong_logins.saturating_add(1);
    cx.client.delay = delay_after(cx.client.wrong_logins);
    let (now, line) = (cx.server.clock.unix_ms(), client_line(super::table(), &cx.client.handle));
    cx.server.acl.log.push(now, Reason::Auth, context_of(cx.client), (command, name), line);
    // Where there is nothing to be guessed, nobody guesses.
    let has_secrets = cx.server.acl.needs_password() || cx.server.acl.all().len() > 1;
    if has_secrets && cx.server.attempts.note_wrong(&cx.client.handle.addr, Service::Redis) {
        cx.client.after = After::Close;
    }
    Err(CommandError::text("WRONGPASS invalid username-password pair or user is disabled."))
}

fn auth<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (user, password) = match args.len() {
        2 if cx.server.acl.user(DEFAULT).is_some_and(|user| user.needs_no_password()) => {
            return Err(CommandError::text(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ));
        }
        2 => (DEFAULT, args.at(1)),
        3 => (args.at(1), args.at(2)),
        _ => return Err(CommandError::Syntax),
    };
    authenticate(cx, args.at(0), user, password)?;
    cx.reply.ok();
    Ok(())
}

/// The longest name of a client, of its library, or of that one's version, in bytes.
const NAME_BYTES_MAX: usize = 64 << 10;

/// Refuses a name that is too long to be shown with each refusal.
pub(super) fn check_name_len(name: &[u8]) -> Result<(), CommandError> {
    if name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(CommandError::text("ERR Names of clients and of their libraries have at most 65536 bytes"))
}

/// A name that `CLIENT LIST` can show: printable, without spaces.
pub(super) fn check_name(name: &[u8]) -> Result<String, CommandError> {
    check_name_len(name)?;
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(String::from_utf8_lossy(name).into_owned());
    }
    Err(CommandError::text("ERR Client names cannot contain spaces, newlines or special characters."))
}

fn hello<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let mut protocol = cx.client.protocol;
    if let Some(version) = args.get(1) {
        let version = crate::execute::parse::integer(version)
            .map_err(|_| CommandError::text("ERR Protocol version is not an integer or out of range"))?;
        protocol = match version {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(CommandError::text("NOPROTO unsupported protocol version")),
        };
    }
    let mut name = None;
    let mut at = 2;
    while let Some(option) = args.get(at) {
        let left = args.len() - at - 1;
        if option.eq_ignore_ascii_case(b"auth") && left >= 2 {
            authenticate(cx, args.at(0), args.at(at + 1), args.at(at + 2))?;
            at += 3;
        } else if option.eq_ignore_ascii_case(b"setname") && left >= 1 {
            name = Some(check_name(args.at(at + 1))?);
            at += 2;
        } else {
            let option = printable(option);
            return Err(CommandError::owned(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    if !cx.client.authenticated {
        return Err(CommandError::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise \
             the HELLO AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        cx.client.handle.info.lock().name = name;
    }
    set_protocol(cx, protocol);
    introduce(cx);
    Ok(())
}

fn set_protocol(cx: &mut Context<'_, '_>, protocol: Protocol) {
    cx.client.protocol = protocol;
    cx.client.handle.set_protocol(protocol);
    cx.reply.set_protocol(protocol);
}

fn introduce(cx: &mut Context<'_, '_>) {
    let protocol = if cx.client.protocol == Protocol::Resp3 { 3 } else { 2 };
    let id = cx.client.handle.id as i64;
    let server = cx.server;
    let reply = &mut cx.reply;
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(protocol);
    reply.bulk(b"id");
    reply.integer(id);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    modules::write_list(server, reply);
}

fn reset<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    cx.client.discard();
    if let Some(mut subscriptions) = cx.client.subscriptions.take() {
        cx.server.pubsub.unsubscribe_all(&cx.client.handle, &mut subscriptions);
    }
    if cx.client.handle.is_monitoring() {
        cx.server.pubsub.end_monitoring(&cx.client.handle);
    }
    cx.server.tracking.end(&cx.client.handle, &mut cx.client.prefixes);
    cx.client.db = 0;
    cx.client.reply_mode = ReplyMode::On;
    cx.client.become_default_user();
    cx.client.set_authenticated(!cx.server.acl.needs_password());
    {
        let mut info = cx.client.handle.info.lock();
        info.db = 0;
        info.name.clear();
        (info.no_evict, info.no_touch) = (false, false);
    }
    cx.client.no_touch = false;
    cx.client.handle.set_durability(None);
    set_protocol(cx, Protocol::Resp2);
    cx.reply.simple("RESET");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_enough_to_be_shown() {
        assert!(check_name(&[b'a'; NAME_BYTES_MAX]).is_ok());
        assert!(check_name(&[b'a'; NAME_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn who_is_wrong_again_and_again_waits_longer_each_time_up_to_a_limit() {
        let delays: Vec<u128> =
            (0..9).map(|wrong| delay_after(wrong).unwrap_or_default().as_millis()).collect();
        assert_eq!(delays, [0, 0, 0, 0, 50, 100, 200, 400, 400]);
        assert_eq!(delay_after(u32::MAX), Some(Duration::from_millis(400)));
    }
}
