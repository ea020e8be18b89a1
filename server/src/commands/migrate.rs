//! `MIGRATE`: keys go to another server, and leave this one when that has them.
//!
//! ```text
//!   copy, watch ── sent meanwhile ──> look again ─┬─ as they were ──> deleted
//!        ^                                        └─ changed ──┐
//!        └───────────────── sent again, at most twice ─────────┘
//! ```
//!
//! Other clients are served while keys are on their way (`persist/migration.rs`). A key that one of them has
//! changed is sent again, and replaces what was sent before.

use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

use tarn_engine::record::Change;
use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::client::After;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Begin, Find, Flags, KeySpec};
use crate::persist::migration::{Failure, Load, Migration, Outcome, Running, Sent, Target};

/// Keys are sent so often at most.
const ROUNDS_MAX: u32 = 3;
/// The time that the other server may be silent where the client does not say.
const TIMEOUT_MS: i64 = 1000;

const TWO_FORMS: CommandError = CommandError::text(
    "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
);
const IN_TRANSACTION: CommandError =
    CommandError::text("ERR MIGRATE waits for another server, which a transaction does not do");

const TOO_MUCH: CommandError =
    CommandError::text("ERR the keys have more than client-query-buffer-limit says; name fewer of them");

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[row(
    "migrate",
    -6,
    Flags::WRITE.with(Flags::MOVABLEKEYS),
    "2.6.0",
    "Moves keys to another server.",
    migrate,
)
.keys(&[
    KeySpec {
        begin: Begin::IndexIf(3, lone_key),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        flags: &["RW", "access", "delete"],
    },
    KeySpec {
        begin: Begin::Option("KEYS", -2, first_of_keys),
        find: Find::Range { last: -1, step: 1, limit: 0 },
        flags: &["RW", "access", "delete", "incomplete"],
    },
])
.categories(&["@keyspace", "@dangerous"])
.complexity("as DUMP, RESTORE and DEL of the keys, and O(N) for N bytes that are sent")];

/// Where the word `KEYS` stands, as `Request::parse` finds it: a password may look like it.
fn keys_word(args: Args<'_>) -> Option<usize> {
    let mut at = 6;
    while at < args.len() {
        let is = |option: &str| args.at(at).eq_ignore_ascii_case(option.as_bytes());
        if is("keys") {
            return Some(at);
        }
        let values = if is("auth2") { 2 } else { usize::from(is("auth")) };
        at += 1 + values;
    }
    None
}

/// The key, where `KEYS` names none.
fn lone_key(args: Args<'_>) -> Option<usize> {
    keys_word(args).is_none().then_some(3)
}

/// The first of the keys behind `KEYS`.
fn first_of_keys(args: Args<'_>) -> Option<usize> {
    keys_word(args).filter(|_| args.at(3).is_empty()).map(|at| at + 1)
}

/// A request.
struct Request {
    /// The keys stay.
    copies: bool,
    target: Target,
    /// Where the keys stand among the arguments.
    keys: Range<usize>,
}

impl Request {
    fn parse(args: Args<'_>, version: u16) -> Result<Request, CommandError> {
        let (mut copies, mut replaces, mut auth, mut keys) = (false, false, Vec::new(), 3..4);
        let mut at = 6;
        while at < args.len() {
            let (word, more) = (args.at(at), args.len() - at - 1);
            let is = |option: &str| word.eq_ignore_ascii_case(option.as_bytes());
            if is("copy") {
                copies = true;
            } else if is("replace") {
                replaces = true;
            } else if is("auth") && more >= 1 {
                auth = vec![args.at(at + 1).to_vec()];
                at += 1;
            } else if is("auth2") && more >= 2 {
                auth = vec![args.at(at + 1).to_vec(), args.at(at + 2).to_vec()];
                at += 2;
            } else if is("keys") {
                if !args.at(3).is_empty() {
                    return Err(TWO_FORMS);
                }
                keys = at + 1..args.len();
                break;
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        let timeout_ms = match parse::integer(args.at(5))? {
            timeout_ms if timeout_ms > 0 => timeout_ms,
            _ => TIMEOUT_MS,
        };
        let target = Target {
            host: String::from_utf8_lossy(args.at(1)).into_owned(),
            // No server listens at port 0.
            port: std::str::from_utf8(args.at(2)).ok().and_then(|port| port.parse().ok()).unwrap_or(0),
            database: parse::integer(args.at(4))?,
            timeout: Duration::from_millis(timeout_ms.unsigned_abs()),
            auth,
            replaces,
            version,
        };
        Ok(Request { copies, target, keys })
    }
}

fn migrate<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let request = Request::parse(args, cx.server.config.snapshot().rdb_version.number())?;
    let known = cx.client.migration.take().filter(|migration| migration.is_of(args));
    let migration = match known {
        Some(migration) => migration,
        None => {
            if !request.keys.clone().any(|place| cx.entry(args.at(place)).is_some()) {
                cx.reply.simple("NOKEY");
                return Ok(());
            }
            if cx.client.denies_waiting {
                return Err(IN_TRANSACTION);
            }
            let Some(place) = take_place(cx, args, &request)? else {
                cx.client.after = After::Postpone;
                return Ok(());
            };
            let places: Vec<usize> = request.keys.clone().collect();
            send(cx, args, &request, place, &places, &[], 1)?
        }
    };
    let next = match migration.outcome() {
        Some(outcome) => settle(cx, args, &request, &migration, outcome)?,
        None => Next::Wait,
    };
    if !matches!(next, Next::Reply) {
        cx.client.after = After::Postpone;
    }
    // Also when it is done: if the log has no room for the deletions, this runs again.
    cx.client.migration = Some(match next {
        Next::Again(migration) => migration,
        Next::Wait | Next::Reply => migration,
    });
    Ok(())
}

/// The next step of a request.
enum Next {
    /// It looks again later.
    Wait,
    /// It has sent keys again.
    Again(Box<Migration>),
    /// It has replied.
    Reply,
}

/// A place among the requests that send keys. `None`: the request waits for one, and runs again when it has
/// it. An error when it has waited for as long as it may.
fn take_place(
    cx: &mut Context<'_, '_>,
    args: Args<'_>,
    request: &Request,
) -> Result<Option<Running>, Failure> {
    let turn = cx.client.sending_turn.take().filter(|turn| turn.is_of(args));
    let mut turn = match turn {
        Some(turn) => turn,
        None => match cx.server.migrations.enter(args, request.target.timeout, &cx.client.handle) {
            Ok(place) => return Ok(Some(place)),
            Err(turn) => Box::new(turn),
        },
    };
    if let Some(place) = turn.take_place() {
        return Ok(Some(place));
    }
    if turn.is_late() {
        return Err(Failure::Waiting);
    }
    cx.client.sending_turn = Some(turn);
    Ok(None)
}

/// Sends copies of the keys at these places, of those that are there. Those at the places `kept` were taken
/// before.
fn send(
    cx: &Context<'_, '_>,
    args: Args<'_>,
    request: &Request,
    running: Running,
    places: &[usize],
    kept: &[usize],
    rounds: u32,
) -> Result<Box<Migration>, CommandError> {
    let watched = |place: usize| Sent { place, watch: cx.keys.watch(cx.db, args.at(place)) };
    let (mut keys, mut bytes) = (Vec::with_capacity(places.len()), 0);
    for place in places {
        let Some(entry) = cx.entry(args.at(*place)) else { continue };
        // The copy of a large value shares its nodes.
        bytes += if entry.is_large() { 0 } else { entry.bytes_about() as u64 };
        if bytes > cx.server.live.query_buffer_limit_bytes() {
            return Err(TOO_MUCH);
        }
        keys.push((watched(*place), cx.keys.copy(entry)));
    }
    let mut target = request.target.clone();
    // What is there was sent before.
    target.replaces |= rounds > 1;
    let kept = kept.iter().map(|place| watched(*place)).collect();
    let load = Load { target, keys, kept, rounds };
    let (clock, client) = (cx.server.clock.clone(), cx.client.handle.clone());
    Ok(Box::new(running.send(load, args, clock, client)?))
}

/// Deletes the keys that the other server has taken, and replies. If some have changed meanwhile, they are
/// sent again instead.
fn settle<'a>(
    cx: &mut Context<'_, 'a>,
    args: Args<'a>,
    request: &Request,
    migration: &Migration,
    outcome: &Outcome,
) -> Result<Next, CommandError> {
    // Any reply tells that keys were there, and with COPY no change of its own has to last before that.
    cx.keys.see_all();
    let (mut unchanged, mut changed) = (Vec::new(), Vec::new());
    // Copies are as of the instant when they were made.
    let is_moved = |taken: &bool| *taken && !request.copies;
    let moved = migration.keys.iter().zip(&outcome.taken).filter(|(_, taken)| is_moved(taken));
    for Sent { place, watch } in migration.kept.iter().chain(moved.map(|(sent, _)| sent)) {
        if cx.keys.is_unchanged(watch) {
            unchanged.push(*place);
        } else if cx.entry(args.at(*place)).is_some() {
            changed.push(*place);
        }
    }
    let failure = outcome.failure.clone().map(CommandError::from);
    let failure = match failure {
        None if changed.is_empty() => None,
        None if migration.rounds < ROUNDS_MAX => match take_place(cx, args, request) {
            Ok(None) => return Ok(Next::Wait),
            Ok(Some(place)) => {
                match send(cx, args, request, place, &changed, &unchanged, migration.rounds + 1) {
                    Ok(sent) => return Ok(Next::Again(sent)),
                    // What was taken and is as it was goes nevertheless.
                    Err(error) => Some(error),
                }
            }
            Err(failure) => Some(failure.into()),
        },
        None => Some(CommandError::owned(format!(
            "ERR {} of the keys changed whenever they were sent: they are still here, and the target \
             instance has older values",
            changed.len()
        ))),
        failure => failure,
    };
    let mut deleted = HashSet::new();
    for place in unchanged {
        let key = args.at(place);
        if deleted.insert(key) {
            cx.write(key, Change::Delete);
        }
    }
    match failure {
        None => cx.reply.ok(),
        // Not as an error of the function, which would change nothing.
        Some(failure) if !deleted.is_empty() => {
            cx.server.stats.note_error(&failure);
            cx.reply.error(failure.to_string());
        }
        Some(failure) => return Err(failure),
    }
    Ok(Next::Reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::table;
    use tarn_resp::OwnedArgs;

    fn parsed(words: &str) -> Result<(bool, Target, Range<usize>), CommandError> {
        let args: OwnedArgs = words.split(' ').map(|word| if word == "_" { "" } else { word }).collect();
        Request::parse(args.as_args(), 9).map(|request| (request.copies, request.target, request.keys))
    }

    #[test]
    fn options_are_parsed_as_redis_does() {
        let (copies, target, keys) =
            parsed("migrate host 7000 _ 3 0 COPY auth2 keys KEYS replace keys a b").expect("it is right");
        assert!(copies && target.replaces);
        assert_eq!((target.host.as_str(), target.port, target.database), ("host", 7000, 3));
        assert_eq!((target.timeout, keys), (Duration::from_secs(1), 12..14));
        assert_eq!(target.auth, [b"keys".to_vec(), b"KEYS".to_vec()]);
        let (copies, target, keys) = parsed("migrate host x k 0 5").expect("it is right");
        assert!(!copies && !target.replaces && target.auth.is_empty());
        assert_eq!((target.port, target.timeout, keys), (0, Duration::from_millis(5), 3..4));
        for (words, error) in [
            ("migrate host 1 k 0 5 keys a", TWO_FORMS),
            ("migrate host 1 k 0 5 auth", CommandError::Syntax),
            ("migrate host 1 k 0 5 auth2 a", CommandError::Syntax),
            ("migrate host 1 k 0 5 nosuch", CommandError::Syntax),
            ("migrate host 1 k 0 x", CommandError::NotAnInteger),
            ("migrate host 1 k x 0", CommandError::NotAnInteger),
            ("migrate host 1 k x x nosuch", CommandError::Syntax),
        ] {
            assert_eq!(parsed(words).err(), Some(error), "{words}");
        }
    }

    #[test]
    fn the_keys_that_are_declared_are_those_that_are_sent() {
        let command = table().find(b"migrate").expect("it is a command").command;
        for (words, expected) in [
            ("migrate host 1 k 0 5", &[3][..]),
            ("migrate host 1 k 0 5 copy auth keys", &[3]),
            ("migrate host 1 _ 0 5", &[3]),
            ("migrate host 1 _ 0 5 auth keys auth2 keys keys KEYS a b", &[12, 13]),
            ("migrate host 1 _ 0 5 keys", &[]),
            ("migrate host 1 k 0 5 keys a", &[]),
        ] {
            let args: OwnedArgs = words.split(' ').map(|word| if word == "_" { "" } else { word }).collect();
            let mut found = Vec::new();
            for spec in command.keys {
                assert!(spec.visit(args.as_args(), |index| found.push(index)), "{words}");
            }
            assert_eq!(found, expected, "{words}");
        }
    }
}
