//! The rights of a client: whether its user may run a request.
//!
//! ```text
//!   request ── unrestricted as of this version of the users? ──yes──> run
//!               │ no: look the user up again, if users have changed
//!               └── each selector: command, keys, channels, databases ── none allows it ──> NOPERM, ACL LOG
//! ```

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use tarn_resp::Args;

use crate::acl::{Access, Acl, Catalog, Context, Denied, Reason, Selector, User, UserId};
use crate::error::CommandError;
use crate::execute::client::Client;
use crate::execute::command::Command;
use crate::execute::identity::Rights;
use crate::execute::services::Services;
use crate::execute::showing::client_line;
use crate::execute::spec::{Flags, Spec};
use crate::execute::table::Table;
use crate::net::handle::UserTag;
use crate::pubsub::Kind;

impl Client {
    /// Looks its user up again, if users have changed. `false`: its user is gone, or another has the name.
    pub(crate) fn renew_rights(&mut self, acl: &Acl) -> bool {
        // Before the users: what changes behind this is seen the next time.
        let version = acl.version();
        if !self.rights.is_as_of(version) {
            let tag = self.handle.info.lock().user.clone();
            self.rights = Rights::of(acl.current(&tag.name, UserId(tag.id)), version);
        }
        self.rights.user().is_some()
    }

    /// Whether it is told, as time goes by, of what its user must not know: it reads channels, is told of
    /// keys by their prefixes, or monitors.
    pub(crate) fn is_told_too_much(&mut self, acl: &Acl) -> bool {
        if !self.renew_rights(acl) {
            return true;
        }
        let Some(user) = self.rights.user() else { return true };
        let is_forbidden = |kind: Kind, name: &[u8]| !user.allows_channel(name, kind == Kind::Pattern);
        let reads = |kind: &Kind| {
            self.subscriptions.iter().any(|own| own.names(*kind).any(|name| is_forbidden(*kind, name)))
        };
        Kind::ALL.iter().any(reads)
            || self.prefixes.iter().any(|prefix| !allows_prefix(user, prefix))
            || self.handle.is_monitoring() && !user.selectors().any(allows_everything_to_be_read)
    }

    /// To be called when it has begun to be told of something: a change of rules meanwhile has not found it.
    pub(crate) fn look_again_if_rules_have_changed(&self, acl: &Acl) {
        // Pairs with the fence of who changes rules: either it finds this client, or the change is seen here.
        fence(Ordering::SeqCst);
        if !self.rights.is_as_of(acl.version()) {
            self.handle.look_at_rights();
        }
    }

    /// Makes it a client of this user, as it has shown that it is.
    pub(crate) fn become_user(&mut self, user: &User) {
        self.handle.info.lock().user = UserTag { name: user.name.clone(), id: user.id.0 };
        self.rights = Rights::default();
    }

    /// Makes it a client of the user `default` again.
    pub(crate) fn become_default_user(&mut self) {
        self.handle.info.lock().user = UserTag::default();
        self.rights = Rights::default();
    }
}

/// A request, and the database in which it runs.
#[derive(Clone, Copy)]
pub(crate) struct Request<'r> {
    pub(crate) table: &'r Table,
    pub(crate) spec: &'static Spec,
    /// The number of its command.
    pub(crate) slot: usize,
    pub(crate) args: Args<'r>,
    /// The selected database; `None`: it is not known before the request runs.
    pub(crate) db: Option<u8>,
}

/// Whether a user may run a request.
pub(crate) fn check(user: &User, catalog: &Catalog, request: Request<'_>) -> Result<(), Denied> {
    user.check(|selector| check_selector(selector, catalog, request))
}

/// Whether a user may run a request, and use every key so besides.
pub(crate) fn check_with_every_key(
    user: &User,
    catalog: &Catalog,
    request: Request<'_>,
    access: Access,
) -> Result<(), Denied> {
    user.check(|selector| {
        check_selector(selector, catalog, request)?;
        if selector.allows_every_key(access) { Ok(()) } else { Err(Denied::Key(0)) }
    })
}

fn check_selector(selector: &Selector, catalog: &Catalog, request: Request<'_>) -> Result<(), Denied> {
    let Request { spec, slot, args, .. } = request;
    let is_free = spec.flags.has(Flags::NO_AUTH);
    if !is_free && !selector.allows_command(catalog, slot, args.get(1)) {
        return Err(Denied::Command);
    }
    if !selector.allows_any_key() {
        check_keys(selector, request)?;
    }
    if spec.flags.has(Flags::PUBSUB) {
        check_channels(selector, spec, args)?;
    }
    if !selector.allows_every_database() {
        check_databases(selector, request)?;
    }
    Ok(())
}

fn check_keys(selector: &Selector, request: Request<'_>) -> Result<(), Denied> {
    let Request { table, spec, args, .. } = request;
    if spec.flags.has(Flags::READS_ALL) {
        // Who watches others changes nothing either.
        let only_reads = spec.flags.has(Flags::READONLY) || spec.name == "monitor";
        let access = if only_reads { Access::READ } else { Access::ALL };
        if !selector.allows_every_key(access) {
            return Err(Denied::Key(0));
        }
    }
    for group in spec.keys {
        let access = || access_of(table.uses_of(spec.name, args, group));
        let mut denied = None;
        // Where the arguments do not fit, the command refuses them before it looks at any key.
        group.visit(args, |index| {
            let key = args.at(index);
            // Most patterns allow both uses, and then it takes no time to find out which one this is.
            let may = || selector.allows_key(key, Access::ALL) || selector.allows_key(key, access());
            if denied.is_none() && !may() {
                denied = Some(index);
            }
        });
        if let Some(index) = denied {
            return Err(Denied::Key(index));
        }
    }
    Ok(())
}

/// The use of keys that the flags of a group tell of, as Redis takes them.
fn access_of(flags: &[&str]) -> Access {
    flags.iter().fold(Access::NONE, |access, flag| match *flag {
        "access" => access.with(Access::READ),
        "insert" | "delete" | "update" => access.with(Access::WRITE),
        _ => access,
    })
}

fn check_channels(selector: &Selector, spec: &Spec, args: Args<'_>) -> Result<(), Denied> {
    let (channels, is_pattern) = match spec.name {
        "publish" | "spublish" => (1..2, false),
        "subscribe" | "ssubscribe" => (1..args.len(), false),
        "psubscribe" => (1..args.len(), true),
        _ => return Ok(()),
    };
    for index in channels {
        let channel = args.get(index).unwrap_or_default();
        if !selector.allows_channel(channel, is_pattern) {
            return Err(Denied::Channel(index));
        }
    }
    Ok(())
}

fn check_databases(selector: &Selector, request: Request<'_>) -> Result<(), Denied> {
    let Request { spec, args, db, .. } = request;
    let check = |index: usize| {
        let number = args.get(index).and_then(|word| std::str::from_utf8(word).ok()?.parse::<u32>().ok());
        match number {
            Some(number) if !selector.allows_database(number) => Err(Denied::Database(index)),
            // A number that is none is refused by the command.
            _ => Ok(()),
        }
    };
    match spec.name {
        "select" => return check(1),
        "swapdb" => return check(1).and_then(|()| check(2)),
        "flushall" => return Err(Denied::Database(0)),
        _ if spec.flags.has(Flags::READS_ALL) => return Err(Denied::Database(0)),
        "move" => check(2)?,
        "copy" => {
            for index in 3..args.len() {
                if args.at(index).eq_ignore_ascii_case(b"db") {
                    check(index + 1)?;
                }
            }
        }
        _ => {}
    }
    const LOOKS: Flags = Flags::READONLY.with(Flags::WRITE).with(Flags::SCRIPT);
    let looks = spec.flags.has_any(LOOKS) || !spec.keys.is_empty();
    match db {
        Some(db) if looks && !selector.allows_database(db.into()) => Err(Denied::Database(0)),
        _ => Ok(()),
    }
}

/// The error of a request that was refused, in the words of Redis 7.0 and Valkey 9.1.
#[cold]
pub(crate) fn refusal(denied: Denied, name: &str) -> CommandError {
    match denied {
        Denied::Command => {
            CommandError::owned(format!("NOPERM this user has no permissions to run the '{name}' command"))
        }
        Denied::Key(_) => CommandError::text(
            "NOPERM this user has no permissions to access one of the keys used as arguments",
        ),
        Denied::Channel(_) => CommandError::text(
            "NOPERM this user has no permissions to access one of the channels used as arguments",
        ),
        Denied::Database(_) => CommandError::text("NOPERM No permissions to access database"),
    }
}

/// The error of a request of a transaction whose user has lost the right to it meanwhile.
#[cold]
fn refusal_in_exec(denied: Denied) -> CommandError {
    let reason = match denied {
        Denied::Command => "no permission to execute the command or subcommand",
        Denied::Key(_) => "no permission to touch the specified keys",
        Denied::Channel(_) => "no permission to access one of the channels used as arguments to the command",
        Denied::Database(_) => "no permission to access the database",
    };
    CommandError::owned(format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
         This command is no longer allowed for the following reason: {reason}"
    ))
}

/// The error of a request of a script.
#[cold]
fn refusal_in_script(denied: Denied) -> CommandError {
    CommandError::text(match denied {
        Denied::Command => "ERR The user executing the script can't run this command or subcommand",
        Denied::Key(_) => {
            "ERR The user executing the script can't access at least one of the keys mentioned in the \
             command arguments"
        }
        Denied::Channel(_) => {
            "ERR The user executing the script can't publish to the channel mentioned in the command"
        }
        Denied::Database(_) => "ERR The user executing the script can't access the database",
    })
}

/// Notes a request that was refused.
#[cold]
pub(crate) fn note(
    server: &Services,
    client: &Client,
    denied: Denied,
    context: Context,
    request: Request<'_>,
) {
    let Request { table, slot, args, .. } = request;
    let command = server.acl.catalog().name(slot).as_bytes();
    let argument = |index: usize| args.get(index).unwrap_or_default().to_vec();
    let (reason, object) = match denied {
        Denied::Command => (Reason::Command, command.to_vec()),
        Denied::Key(0) => (Reason::Key, command.to_vec()),
        Denied::Key(index) => (Reason::Key, argument(index)),
        Denied::Channel(index) => (Reason::Channel, argument(index)),
        Denied::Database(0) => (Reason::Database, client.db.to_string().into_bytes()),
        Denied::Database(index) => (Reason::Database, argument(index)),
    };
    let name = client.handle.info.lock().user.name.clone();
    let line = client_line(table, &client.handle);
    server.acl.log.push(server.clock.unix_ms(), reason, context, (&object, &name), line);
}

/// Why a request of a client that stands alone, or is to be queued, is not run; `None`: it is.
///
/// REQUIRES: the rights of the client are renewed.
pub(crate) fn refuse(server: &Services, client: &Client, request: Request<'_>) -> Option<CommandError> {
    let context = if client.transaction.is_some() { Context::Multi } else { Context::TopLevel };
    let denied = denied(server, client, request)?;
    // As in Redis, it counts as the last request of the client.
    client.handle.last_slot.store(request.slot, Ordering::Relaxed);
    note(server, client, denied, context, request);
    Some(refusal(denied, server.acl.catalog().name(request.slot)))
}

/// Why a part of a transaction, or of a script, is not run; `None`: it is.
#[inline]
pub(crate) fn refuse_part(
    server: &Services,
    client: &mut Client,
    request: Request<'_>,
    by_script: bool,
) -> Option<CommandError> {
    if client.rights.is_unrestricted(server.acl.version()) {
        return None;
    }
    refuse_restricted_part(server, client, request, by_script)
}

fn refuse_restricted_part(
    server: &Services,
    client: &mut Client,
    request: Request<'_>,
    by_script: bool,
) -> Option<CommandError> {
    client.renew_rights(&server.acl);
    let denied = denied(server, client, request)?;
    let context = if by_script { Context::Lua } else { Context::Multi };
    note(server, client, denied, context, request);
    Some(if by_script { refusal_in_script(denied) } else { refusal_in_exec(denied) })
}

/// The reason why a client may not run a request. Who has no user any more may run nothing but `AUTH` and the
/// like.
pub(crate) fn denied(server: &Services, client: &Client, request: Request<'_>) -> Option<Denied> {
    match client.rights.user() {
        Some(user) => check(user, server.acl.catalog(), request).err(),
        None if request.spec.flags.has(Flags::NO_AUTH) => None,
        None => Some(Denied::Command),
    }
}

/// Whether a client may read every key with the request that it runs; it is noted if it may not.
pub(crate) fn may_read_every_key(server: &Services, client: &Client, table: &Table, args: Args<'_>) -> bool {
    if client.rights.is_unrestricted(server.acl.version()) {
        return true;
    }
    let Some(((command, slot), user)) = table.find_part(args).zip(client.rights.user()) else { return false };
    let request = request_of(table, command, slot, args, Some(client.db));
    match check_with_every_key(user, server.acl.catalog(), request, Access::READ) {
        Ok(()) => true,
        Err(denied) => {
            note(server, client, denied, context_of(client), request);
            false
        }
    }
}

/// The place of the request that a client runs.
pub(crate) fn context_of(client: &Client) -> Context {
    match () {
        () if client.runs_script => Context::Lua,
        () if client.denies_waiting => Context::Multi,
        () => Context::TopLevel,
    }
}

/// Why a client may not be told of all keys that begin so, with the request that it runs; it is noted. The
/// prefix is the argument at `index`; 0: there is none, and all keys begin so.
pub(crate) fn refuse_prefix(
    server: &Services,
    client: &Client,
    table: &Table,
    args: Args<'_>,
    index: usize,
) -> Option<CommandError> {
    let prefix = if index == 0 { &b""[..] } else { args.at(index) };
    let may = |user: &Arc<User>| allows_prefix(user, prefix);
    if client.rights.is_unrestricted(server.acl.version()) || client.rights.user().is_some_and(may) {
        return None;
    }
    let denied = Denied::Key(index);
    if let Some((command, slot)) = table.find_part(args) {
        let request = request_of(table, command, slot, args, Some(client.db));
        note(server, client, denied, context_of(client), request);
    }
    Some(refusal(denied, ""))
}

/// Keys of all databases are told of.
fn allows_prefix(user: &User, prefix: &[u8]) -> bool {
    let allows = |own: &Selector| own.allows_prefix(prefix, Access::READ) && own.allows_every_database();
    user.selectors().any(allows)
}

/// As `MONITOR` shows it.
fn allows_everything_to_be_read(selector: &Selector) -> bool {
    selector.allows_every_key(Access::READ) && selector.allows_every_database()
}

/// The request of a command that a table has.
pub(crate) fn request_of<'r>(
    table: &'r Table,
    command: &'static Command,
    slot: usize,
    args: Args<'r>,
    db: Option<u8>,
) -> Request<'r> {
    Request { table, spec: &command.spec, slot, args, db }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands;
    use tarn_resp::OwnedArgs;

    /// The outcome of a request in database `db` for a user of these rules.
    fn outcome(rules: &[&str], words: &[&str], db: u8) -> Result<(), Denied> {
        let (catalog, table) = (commands::catalog(), commands::table());
        let mut user = User::new(b"alice", UserId(1), &catalog, false);
        for rule in rules {
            user.apply(rule.as_bytes(), &catalog, false).expect("a rule");
        }
        let args: OwnedArgs = words.iter().copied().collect();
        let found = table.find(words[0].as_bytes()).expect("a command");
        let sub = words.get(1).and_then(|word| {
            found.command.subcommands.iter().position(|sub| sub.name.eq_ignore_ascii_case(word))
        });
        let (command, slot) = match sub {
            Some(at) => (&found.command.subcommands[at], found.slot + 1 + at),
            None => (found.command, found.slot),
        };
        check(&user, &catalog, request_of(table, command, slot, args.as_args(), Some(db)))
    }

    #[test]
    fn keys_are_allowed_by_what_is_done_with_them() {
        let rules = ["+@all", "%R~in:*", "%W~out:*", "~both:*"];
        for (words, denied) in [
            (&["GET", "in:1"][..], None),
            (&["SET", "in:1", "v"], Some(Denied::Key(1))),
            (&["SET", "out:1", "v"], None),
            (&["SET", "out:1", "v", "GET"], Some(Denied::Key(1))),
            (&["SET", "both:1", "v", "GET"], None),
            (&["COPY", "in:1", "out:1"], None),
            (&["COPY", "out:1", "in:1"], Some(Denied::Key(1))),
            (&["COPY", "in:1", "in:2"], Some(Denied::Key(2))),
            (&["MGET", "in:1", "in:2", "out:1"], Some(Denied::Key(3))),
            (&["EXISTS", "out:1", "in:1"], None),
            (&["EVAL", "return 1", "1", "in:1"], Some(Denied::Key(3))),
            (&["EVAL_RO", "return 1", "1", "in:1"], None),
            (&["SORT", "in:1", "STORE", "in:2"], Some(Denied::Key(3))),
            (&["ZUNIONSTORE", "out:1", "2", "in:1", "other"], Some(Denied::Key(4))),
            (&["XREAD", "STREAMS", "in:1", "other", "0", "0"], Some(Denied::Key(3))),
            (&["MIGRATE", "h", "1", "", "0", "1", "KEYS", "both:1", "in:1"], Some(Denied::Key(8))),
            // The session looks at the tables of a statement.
            (&["SQL", "SELECT 1"], None),
            (&["MONITOR"], Some(Denied::Key(0))),
            (&["DEBUG", "DIGEST"], Some(Denied::Key(0))),
            (&["DEBUG", "OBJECT", "other"], Some(Denied::Key(2))),
            (&["DEBUG", "SLEEP", "0"], None),
            (&["FT.SEARCH", "index", "*"], Some(Denied::Key(0))),
            (&["PING"], None),
        ] {
            assert_eq!(outcome(&rules, words, 0).err(), denied, "{words:?}");
        }
    }

    #[test]
    fn channels_are_allowed_by_their_patterns_and_patterns_as_they_stand() {
        let rules = ["+@all", "&news:*"];
        for (words, denied) in [
            (&["SUBSCRIBE", "news:1", "news:2"][..], None),
            (&["SUBSCRIBE", "news:1", "other"], Some(Denied::Channel(2))),
            (&["SSUBSCRIBE", "other"], Some(Denied::Channel(1))),
            (&["PUBLISH", "other", "news:1"], Some(Denied::Channel(1))),
            (&["SPUBLISH", "news:1", "m"], None),
            (&["PSUBSCRIBE", "news:*"], None),
            (&["PSUBSCRIBE", "news:1"], Some(Denied::Channel(1))),
            (&["UNSUBSCRIBE", "other"], None),
        ] {
            assert_eq!(outcome(&rules, words, 0).err(), denied, "{words:?}");
        }
    }

    #[test]
    fn databases_are_allowed_where_requests_look_and_where_they_go() {
        let rules = ["+@all", "~*", "db=1,2"];
        for (words, db, denied) in [
            (&["GET", "k"][..], 1, None),
            (&["GET", "k"], 0, Some(Denied::Database(0))),
            (&["DBSIZE"], 0, Some(Denied::Database(0))),
            (&["PING"], 0, None),
            (&["SELECT", "2"], 0, None),
            (&["SELECT", "0"], 1, Some(Denied::Database(1))),
            (&["MOVE", "k", "2"], 1, None),
            (&["MOVE", "k", "0"], 1, Some(Denied::Database(2))),
            (&["COPY", "a", "b", "DB", "0"], 1, Some(Denied::Database(4))),
            (&["SWAPDB", "1", "0"], 1, Some(Denied::Database(2))),
            (&["FLUSHALL"], 1, Some(Denied::Database(0))),
            (&["FLUSHDB"], 1, None),
        ] {
            assert_eq!(outcome(&rules, words, db).err(), denied, "{words:?}");
        }
    }

    #[test]
    fn who_may_not_run_a_command_may_say_who_it_is() {
        assert_eq!(outcome(&[], &["AUTH", "x"], 0), Ok(()));
        assert_eq!(outcome(&[], &["PING"], 0), Err(Denied::Command));
        assert_eq!(outcome(&["+config|get"], &["CONFIG", "SET", "a", "b"], 0), Err(Denied::Command));
        assert_eq!(outcome(&["+config|get"], &["CONFIG", "GET", "a"], 0), Ok(()));
        assert_eq!(outcome(&["+debug|sleep"], &["DEBUG", "SLEEP", "0"], 0), Ok(()));
        assert_eq!(outcome(&["+debug|sleep"], &["DEBUG", "RELOAD"], 0), Err(Denied::Command));
    }

    #[test]
    fn who_may_not_write_changes_no_index_either() {
        for words in [
            &["FT.CREATE", "i", "SCHEMA", "f", "TEXT"][..],
            &["FT.ALTER", "i", "SCHEMA", "ADD", "f", "TEXT"],
            &["FT.DROPINDEX", "i", "DD"],
            &["FT.ALIASADD", "a", "i"],
            &["FT.ALIASUPDATE", "a", "i"],
            &["FT.ALIASDEL", "a"],
            &["FT.DICTADD", "d", "w"],
            &["FT.DICTDEL", "d", "w"],
            &["FT.SYNUPDATE", "i", "g", "w"],
        ] {
            let rules = ["+@all", "~*", "-@write"];
            assert_eq!(outcome(&rules, words, 0), Err(Denied::Command), "{words:?}");
            assert_eq!(outcome(&["+@all", "~*"], words, 0), Ok(()), "{words:?}");
            assert_eq!(outcome(&["+@all", "%R~*"], words, 0), Err(Denied::Key(0)), "{words:?}");
        }
    }
}
