//! `DEBUG`: what tests of servers and of clients need.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tarn_engine::ScanBudget;
use tarn_engine::value::usage::Use;
use tarn_resp::Args;

use super::debug_data::{populate, reload};
use super::debug_shows::{htstats, htstats_key, listpack, nodes, quicklist, sdslen};
use crate::commands::digest::{Digest, of_entry};
use crate::commands::help::unknown_container;
use crate::config::parse_memory;
use crate::error::{CommandError, printable};
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};
use crate::glob;
use crate::shared::random_id;

const LOADED: Flags =
    Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::STALE).with(Flags::ALONE_IN_EXEC).with(Flags::NO_TOUCH);
const FLAGS: Flags = LOADED.with(Flags::LOADING);

const fn sub(
    name: &'static str,
    arity: i32,
    summary: &'static str,
    run: crate::execute::command::Run,
) -> Command {
    row(name, arity, FLAGS, "1.0.0", summary, run)
}

const KEY: &[KeySpec] = &[KeySpec::range(2, 0, 1, &["RO"])];

/// A command that looks at one key.
const fn of_key(
    name: &'static str,
    arity: i32,
    summary: &'static str,
    run: crate::execute::command::Run,
) -> Command {
    sub(name, arity, summary, run).keys(KEY)
}

/// A command that makes keys, whatever their names are. Not while the data is being loaded: a transaction
/// that was queued then would run it without a store.
const fn making(
    name: &'static str,
    arity: i32,
    summary: &'static str,
    run: crate::execute::command::Run,
) -> Command {
    const ALONE: Flags =
        LOADED.with(Flags::WRITE).with(Flags::EXCLUSIVE).with(Flags::UNTOLD).with(Flags::READS_ALL);
    row(name, arity, ALONE, "1.0.0", summary, run)
}

/// A command that looks at all keys.
const fn of_all_keys(
    name: &'static str,
    arity: i32,
    summary: &'static str,
    run: crate::execute::command::Run,
) -> Command {
    row(name, arity, FLAGS.with(Flags::READS_ALL), "1.0.0", summary, run)
}

/// A switch of something that is not so here.
const fn ignored(name: &'static str, arity: i32) -> Command {
    sub(name, arity, "Is accepted, and changes nothing.", ignore)
}

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[row(
    "debug",
    -2,
    FLAGS.with(Flags::LOOSE).with(Flags::PROTECTED),
    "1.0.0",
    "A container for commands that help to test the server.",
    unknown_container,
)
.subcommands(&[
    ignored("aof-flush-sleep", 3),
    sub("change-repl-id", 2, "Gives the history of the data another name.", change_repl_id),
    sub("client-eviction", 2, "Is refused: clients are in no buckets by their memory.", client_eviction),
    ignored("client-enforce-reply-list", 3),
    ignored("dict-resizing", 3),
    of_all_keys(
        "digest",
        2,
        "Returns a digest of all data, the same as that of a redis-server with the same data.",
        digest,
    ),
    sub("digest-value", -2, "Returns the digests of values.", digest_value).keys(&[KeySpec::range(
        2,
        -1,
        1,
        &["RO", "access"],
    )]),
    sub("error", 3, "Replies this text as an error.", error),
    sub("help", 2, "Lists the subcommands.", help),
    of_all_keys("htstats", -3, "Describes the hash tables that Redis would have for a database.", htstats),
    of_key("htstats-key", -3, "The same for the value of a key.", htstats_key),
    ignored("jmap", -2),
    ignored("leak", 3),
    of_key("listpack", 3, "Logs what the value of a key is, if Redis kept it as a listpack.", listpack),
    making("loadaof", 2, "As RELOAD: the log has what is in memory already.", reload),
    of_key("object", -3, "Describes the value of a key.", object),
    sub("log", 3, "Writes a line to the log of messages.", log),
    sub("panic", 2, "Ends the server as a fault in it would.", panic),
    ignored("pause-cron", 3),
    making(
        "populate",
        -3,
        "Makes so many strings, named by a prefix and a number, perhaps of this size.",
        populate,
    ),
    sub(
        "protocol",
        3,
        "Replies a value of a type: string, integer, double, bignum, null, array, set, map, attrib, push, \
         verbatim, true or false.",
        super::debug_protocol::protocol,
    ),
    of_key("quicklist", -3, "Logs what the value of a key is, if Redis kept it as a quicklist.", quicklist),
    sub(
        "quicklist-packed-threshold",
        3,
        "Is told from which size an element of a list stands alone; here that depends on nothing.",
        quicklist_packed_threshold,
    ),
    making(
        "reload",
        -2,
        "Writes all keys to an RDB file and reads them again. NOSAVE: reads the file that is there. NOFLUSH: \
         keeps other keys. MERGE: may replace keys.",
        reload,
    ),
    ignored("replicate", -3),
    sub("replybuffer", 4, "Is checked, and changes nothing: buffers have sizes of their own.", replybuffer),
    of_key("sdslen", 3, "Tells how long a key and its string are.", sdslen),
    sub(
        "set-active-expire",
        3,
        "Switches the deletion of expired keys that nobody touches.",
        set_active_expire,
    ),
    sub(
        "set-disable-deny-scripts",
        3,
        "1: scripts may run commands that are not for them, where a transaction may.",
        set_disable_deny_scripts,
    ),
    sub(
        "set-skip-checksum-validation",
        3,
        "1: RESTORE does not look at the checksum of a payload.",
        set_skip_checksum_validation,
    ),
    row(
        "sleep",
        3,
        FLAGS.with(Flags::OUTSIDE),
        "1.0.0",
        "Stops this worker thread, and nobody else, for some seconds.",
        sleep,
    ),
    sub(
        "stringmatch-len",
        4,
        "Says whether a pattern matches a string of so many letters a, at most 65536.",
        stringmatch_len,
    ),
    sub(
        "steps-from",
        3,
        "Sets the number of elements above which commands run in steps; 0: in the shortest.",
        steps_from,
    ),
])];

fn panic<'a>(_: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    panic!("a client asked for it by DEBUG PANIC");
}

fn sleep<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let seconds =
        std::str::from_utf8(args.at(2)).ok().and_then(|text| text.trim().parse::<f64>().ok()).unwrap_or(0.0);
    if let Ok(pause) = Duration::try_from_secs_f64(seconds.clamp(0.0, 3600.0)) {
        std::thread::sleep(pause);
    }
    cx.reply.ok();
    Ok(())
}

fn set_active_expire<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    cx.keys.store().expiry().set_active(args.at(2) != b"0");
    cx.reply.ok();
    Ok(())
}

fn ignore<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    cx.reply.ok();
    Ok(())
}

fn change_repl_id<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    *cx.server.replication_id.lock() = random_id();
    cx.reply.ok();
    Ok(())
}

fn client_eviction<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let config = cx.server.config.snapshot();
    let is_on = config.memory.maxmemory_clients.of(config.memory.maxmemory_bytes) > 0;
    let refused = if is_on {
        "ERR clients are in no buckets by their memory"
    } else {
        "ERR maxmemory-clients is disabled."
    };
    Err(CommandError::text(refused))
}

fn replybuffer<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let is = |at: usize, word: &str| args.at(at).eq_ignore_ascii_case(word.as_bytes());
    if is(2, "peak-reset-time") {
        if !is(3, "never") && !is(3, "reset") {
            parse::integer(args.at(3))?;
        }
    } else if !is(2, "resizing") {
        let name = printable(args.at(1));
        return Err(CommandError::owned(format!(
            "ERR unknown subcommand or wrong number of arguments for '{name}'. Try DEBUG HELP."
        )));
    }
    cx.reply.ok();
    Ok(())
}

fn set_disable_deny_scripts<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    cx.server.scripts.allows_all.store(args.at(2) != b"0", Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}

fn set_skip_checksum_validation<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    cx.server.skips_checksums.store(args.at(2) != b"0", Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}

fn steps_from<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let elements = parse::count(args.at(2))?;
    cx.server.steps_from.store(usize::try_from(elements).unwrap_or(usize::MAX), Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}

fn object<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let entry = cx.entry(args.at(2)).ok_or(CommandError::NoSuchKey)?;
    let is_lfu = cx.server.config.snapshot().memory.maxmemory_policy.is_lfu();
    let idle_s = entry.used().filter(|_| !is_lfu).map_or(0, Use::idle_s);
    // As Redis has it: a time of 24 bits.
    let used_s = (cx.now() / 1000).saturating_sub(idle_s) & 0xFF_FFFF;
    let text = format!(
        "Value at:0x{:x} refcount:1 encoding:{} serializedlength:{} lru:{used_s} lru_seconds_idle:{idle_s}{}",
        std::ptr::from_ref(entry) as usize,
        entry.encoding(),
        entry.bytes(),
        nodes(cx, entry),
    );
    cx.reply.simple(text);
    Ok(())
}

fn error<'a>(_: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    Err(CommandError::owned(String::from_utf8_lossy(args.at(2)).into_owned()))
}

fn log<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    tracing::warn!("DEBUG LOG: {}", printable(args.at(2)));
    cx.reply.ok();
    Ok(())
}

fn quicklist_packed_threshold<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let refused =
        CommandError::text("ERR argument must be a memory value bigger than 1 and smaller than 4gb");
    parse_memory(args.at(2)).filter(|bytes| *bytes < 4 << 30).ok_or(refused)?;
    cx.reply.ok();
    Ok(())
}

fn stringmatch_len<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    const LEN_MAX: usize = 1 << 16;
    let len = parse::count(args.at(2))?;
    let len = usize::try_from(len).unwrap_or(LEN_MAX).min(LEN_MAX);
    let matches = glob::matches(args.at(3), &vec![b'a'; len]);
    cx.reply.integer(matches.into());
    Ok(())
}

fn digest<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let mut all = Digest::default();
    let now = cx.now();
    for db in 0..cx.keys.databases() as u8 {
        if cx.keys.keys(db) == 0 {
            continue;
        }
        all.mix(&u32::from(db).to_be_bytes());
        cx.keys.scan(db, 0, &mut ScanBudget::UNLIMITED.clone(), |entry| {
            if !entry.is_expired(now) {
                all.merge(&of_entry(entry, now, true));
            }
        })?;
    }
    cx.keys.see_all();
    cx.reply.simple(all.to_string());
    Ok(())
}

fn digest_value<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    cx.reply.array(args.len() - 2);
    for key in args.tail(2) {
        let digest = cx.entry(key).map(|entry| of_entry(entry, cx.now(), false)).unwrap_or_default();
        cx.reply.simple(digest.to_string());
    }
    Ok(())
}

fn help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    crate::commands::help::help(cx, "DEBUG");
    Ok(())
}
