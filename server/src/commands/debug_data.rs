//! `DEBUG RELOAD` and `DEBUG POPULATE`: all keys are written and read again, and keys are made, for tests.

use tarn_engine::record::{Change, Write};
use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::client::After;
use crate::execute::context::Context;
use crate::execute::parse;
use crate::persist::reload::Reload;

/// Keys that are made at once, at most: the store stands still meanwhile.
const KEYS_MAX: u64 = 1_000_000;
/// The times that keys are saved, if they change whenever that is done.
const ATTEMPTS_MAX: u32 = 5;

const NOT_LOADED: CommandError =
    CommandError::text("ERR Error trying to load the RDB dump, check server logs.");
const OPTIONS: CommandError =
    CommandError::text("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.");
const IN_TRANSACTION: CommandError =
    CommandError::text("ERR DEBUG RELOAD waits for the disk, which a transaction does not do");
const CHANGES: CommandError = CommandError::text("ERR keys changed whenever they were saved; try again");

/// Writes all keys to a file and reads them again. REQUIRES: the store is its own.
pub(super) fn reload<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (mut saves, mut flushes, mut merges) = (true, true, false);
    for word in args.tail(2) {
        let is = |option: &str| word.eq_ignore_ascii_case(option.as_bytes());
        match () {
            () if is("merge") => merges = true,
            () if is("noflush") => flushes = false,
            () if is("nosave") => saves = false,
            () => return Err(OPTIONS),
        }
    }
    if cx.client.denies_waiting {
        return Err(IN_TRANSACTION);
    }
    let mut reload = match cx.client.reload.take() {
        Some(reload) => reload,
        None => begin(cx, saves, 1)?,
    };
    if reload.outcome().is_some() && saves && reload.newest != cx.keys.newest() {
        // It would take changes back that others have made.
        if reload.attempts >= ATTEMPTS_MAX {
            return Err(CHANGES);
        }
        reload = begin(cx, saves, reload.attempts + 1)?;
    }
    match reload.outcome() {
        None => cx.client.after = After::Postpone,
        Some(Err(why)) => {
            tracing::warn!("DEBUG RELOAD: {why}");
            return Err(NOT_LOADED);
        }
        Some(Ok(writes)) => {
            if !flushes && !merges && writes.iter().any(|write| is_there(cx, write)) {
                tracing::warn!("DEBUG RELOAD: a key of the file is there already; see MERGE");
                return Err(NOT_LOADED);
            }
            if flushes {
                cx.batch.push(Write::Flush { db: None });
            }
            for write in writes {
                cx.batch.push(write.clone());
            }
            cx.reply.ok();
        }
    }
    // Also when it is done: if the log has no room, this runs again.
    cx.client.reload = Some(reload);
    Ok(())
}

fn begin(cx: &Context<'_, '_>, saves: bool, attempts: u32) -> Result<Box<Reload>, CommandError> {
    let (client, newest) = (cx.client.handle.clone(), cx.keys.newest());
    Reload::begin(cx.server, client, saves, newest, attempts).map(Box::new)
}

fn is_there(cx: &Context<'_, '_>, write: &Write<'_>) -> bool {
    match write {
        Write::Key { db, key, .. } => cx.keys.peek(*db, key, |entry| entry.is_some()),
        _ => false,
    }
}

/// Makes strings with numbered names, but for those that are there. REQUIRES: the store is its own.
pub(super) fn populate<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len() > 5 {
        return Err(CommandError::text(
            "ERR unknown subcommand or wrong number of arguments for 'POPULATE'. Try DEBUG HELP.",
        ));
    }
    let keys = parse::count(args.at(2))?;
    let prefix = args.get(3).unwrap_or(b"key");
    let size = args.get(4).map_or(Ok(0), parse::count)?;
    cx.check_string_len(size)?;
    let too_much = || {
        CommandError::owned(format!(
            "ERR at most {KEYS_MAX} keys are made at once, and as much as client-query-buffer-limit says"
        ))
    };
    let (mut bytes, bytes_max) = (0, cx.server.live.query_buffer_limit_bytes());
    if keys > KEYS_MAX {
        return Err(too_much());
    }
    for number in 0..keys {
        let key = [prefix, format!(":{number}").as_bytes()].concat();
        if cx.keys.peek(cx.db, &key, |entry| entry.is_some()) {
            continue;
        }
        let mut value = format!("value:{number}").into_bytes();
        if size > 0 {
            // Shorter ones are cut, longer ones filled with zeros.
            value.resize(size as usize, 0);
        }
        bytes += (key.len() + value.len()) as u64;
        if bytes > bytes_max {
            return Err(too_much());
        }
        let change = Change::Put { value: value.into(), expiry: None };
        cx.batch.push(Write::Key { db: cx.db, key: key.into(), change });
    }
    cx.reply.ok();
    Ok(())
}
