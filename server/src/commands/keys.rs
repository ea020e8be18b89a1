//! Keys as such, whatever they hold: deleting, looking whether they are there, renaming, copying.

use tarn_engine::record::Change;
use tarn_engine::value::usage::Use;
use tarn_engine::value::{ValueRef, elements_of};
use tarn_engine::{Entry, KeyRef};
use tarn_resp::Args;

use crate::commands::decided::Decided;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::preparing::put_at_once;
use crate::execute::spec::{Flags, KeySpec, Keys};
use crate::execute::storing::store_copy;

const SAME_OBJECT: CommandError = CommandError::text("ERR source and destination objects are the same");
const LOOKED_AT: &[KeySpec] = &[KeySpec::all(1, &["RO"])];
const DELETED: &[KeySpec] = &[KeySpec::all(1, &["RM", "delete"])];
const READS: Flags = Flags::READONLY.with(Flags::FAST);
const LOOKS: Flags = READS.with(Flags::NO_TOUCH);
const EACH: &str = "O(N) for N keys";

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("del", -2, Flags::WRITE, "1.0.0", "Deletes keys.", del).keys(DELETED).complexity(EACH),
    row(
        "unlink",
        -2,
        Flags::WRITE.with(Flags::FAST),
        "4.0.0",
        "Deletes keys; as with DEL, large values are freed in the background.",
        del,
    )
    .keys(DELETED)
    .complexity(EACH),
    row("exists", -2, LOOKS, "1.0.0", "Counts those of the keys that are there.", exists)
        .keys(LOOKED_AT)
        .complexity(EACH),
    row("touch", -2, READS, "3.2.1", "Counts those of the keys that are there, as a use of them.", exists)
        .keys(LOOKED_AT)
        .complexity(EACH),
    row("type", 2, LOOKS, "1.0.0", "Says what kind of value a key holds.", type_of)
        .keys(&[KeySpec::one(&["RO"])]),
    row("rename", 3, Flags::WRITE, "1.0.0", "Gives a key another name.", rename)
        .keys(&[KeySpec::one(&["RW", "access", "delete"]), KeySpec::range(2, 0, 1, &["OW", "update"])])
        .complexity("O(1) for strings, O(N) for N elements of a collection"),
    row(
        "renamenx",
        3,
        Flags::WRITE.with(Flags::FAST),
        "1.0.0",
        "Gives a key another name if that one is free.",
        renamenx,
    )
    .keys(&[KeySpec::one(&["RW", "access", "delete"]), KeySpec::range(2, 0, 1, &["OW", "insert"])])
    .complexity("O(1) for strings, O(N) for N elements of a collection"),
    row("copy", -3, Flags::WRITE.with(Flags::DENYOOM), "6.2.0", "Copies a key's value to another key.", copy)
        .keys(&[KeySpec::one(&["RO", "access"]), KeySpec::range(2, 0, 1, &["OW", "update"])])
        .more_keys(copy_target)
        .complexity("O(1) for strings, O(N) for N elements of a collection"),
    row("move", 3, Flags::WRITE.with(Flags::FAST), "1.0.0", "Moves a key to another database.", move_key)
        .keys(&[KeySpec::one(&["RW", "access", "update"])])
        .more_keys(move_target)
        .complexity("O(1) for strings, O(N) for N elements of a collection"),
];

fn del<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len() == 2 {
        let found = cx.entry(args.at(1)).is_some();
        if found {
            cx.write(args.at(1), Change::Delete);
        }
        cx.reply.integer(i64::from(found));
        return Ok(());
    }
    let mut named = Decided::default();
    let mut deleted = 0;
    for key in args.tail(1) {
        if cx.entry(key).is_some() && named.is_first(key) {
            cx.write(key, Change::Delete);
            deleted += 1;
        }
    }
    cx.reply.integer(deleted);
    Ok(())
}

fn exists<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let found = args.tail(1).iter().filter(|key| cx.entry(key).is_some()).count();
    cx.reply.integer(found as i64);
    Ok(())
}

fn type_of<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    cx.reply.simple(cx.entry(args.at(1)).map_or("none", |entry| entry.kind().name()));
    Ok(())
}

/// Makes a key what `entry`, that of `from`, is: its value, its expiry, and the encoding that it shows.
/// `false` if the value is large: it is being prepared, and the command does nothing else until it runs
/// again.
fn put_whole<'a>(
    cx: &mut Context<'_, 'a>,
    from: &'a [u8],
    (db, key): (u8, &'a [u8]),
    entry: &Entry,
) -> Result<bool, CommandError> {
    if cx.put_ready(db, key).is_some() {
        return Ok(true);
    }
    let (expiry, sticky) = (entry.expiry(), entry.sticky());
    if entry.is_large() && !cx.keys.is_logged() {
        cx.write_in(db, key.into(), put_at_once(entry.kind(), entry.made(), expiry, sticky));
        return Ok(true);
    }
    let bytes = if entry.is_large() { entry.bytes_about() } else { 0 };
    if cx.is_long(entry.count(), bytes) && cx.may_prepare(key) {
        let copy = cx.keys.copy(entry);
        cx.prepare((db, key), entry.kind(), &[from], 0, async move |steps, preparing| {
            store_copy(&steps, preparing, &copy).await
        })?;
        return Ok(false);
    }
    match entry.value() {
        ValueRef::String(value) => {
            cx.write_in(db, key.into(), Change::Put { value: value.to_vec().into(), expiry });
            if sticky {
                cx.write_in(db, key.into(), Change::MAKES_RAW);
            }
        }
        value => {
            let elements = elements_of(value).into();
            cx.write_in(db, key.into(), Change::Image { kind: entry.kind(), elements, expiry, sticky });
        }
    }
    Ok(true)
}

/// As `put_whole`, and deletes `from`. The counter of its uses goes along.
fn move_whole<'a>(
    cx: &mut Context<'_, 'a>,
    from: &'a [u8],
    (db, key): (u8, &'a [u8]),
    entry: &Entry,
) -> Result<bool, CommandError> {
    if !put_whole(cx, from, (db, key), entry)? {
        return Ok(false);
    }
    if let Some(used) = entry.used().map(Use::frequency).and_then(Use::of_frequency) {
        cx.keys.give_use(db, key, used);
    }
    cx.write(from, Change::Delete);
    Ok(true)
}

fn rename<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (from, to) = (args.at(1), args.at(2));
    let entry = cx.entry(from).ok_or(CommandError::NoSuchKey)?;
    if from != to && !move_whole(cx, from, (cx.db, to), entry)? {
        return Ok(());
    }
    cx.reply.ok();
    Ok(())
}

fn renamenx<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (from, to) = (args.at(1), args.at(2));
    let entry = cx.entry(from).ok_or(CommandError::NoSuchKey)?;
    // The same name is taken, too.
    let is_free = cx.entry(to).is_none();
    if is_free && !move_whole(cx, from, (cx.db, to), entry)? {
        return Ok(());
    }
    cx.reply.integer(i64::from(is_free));
    Ok(())
}

/// The database that an argument names, among `databases`.
fn database(text: &[u8], databases: usize) -> Result<u8, CommandError> {
    let number = parse::int(text)?;
    let number = usize::try_from(number).ok().filter(|number| *number < databases);
    number.and_then(|number| u8::try_from(number).ok()).ok_or(CommandError::DbOutOfRange)
}

/// The options after the two keys of `COPY`.
struct CopyOptions {
    db: u8,
    replace: bool,
}

impl CopyOptions {
    fn parse(args: Args<'_>, db: u8, databases: usize) -> Result<CopyOptions, CommandError> {
        let mut options = CopyOptions { db, replace: false };
        let mut words = args.tail(3).iter();
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(b"replace") {
                options.replace = true;
            } else if word.eq_ignore_ascii_case(b"db") {
                options.db = database(words.next().ok_or(CommandError::Syntax)?, databases)?;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }
}

fn copy_target<'a>(db: u8, databases: usize, args: Args<'a>, keys: &mut Keys<'a>) {
    if let (Ok(options), Some(target)) = (CopyOptions::parse(args, db, databases), keys.get(1).copied())
        && options.db != db
    {
        keys.push(KeyRef { db: options.db, ..target });
    }
}

fn copy<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (from, to) = (args.at(1), args.at(2));
    let options = CopyOptions::parse(args, cx.db, cx.keys.databases())?;
    if options.db == cx.db && from == to {
        return Err(SAME_OBJECT);
    }
    let is_free = || options.replace || cx.keys.get(options.db, to).is_none();
    let copied = cx.entry(from).filter(|_| is_free());
    if let Some(entry) = copied
        && !put_whole(cx, from, (options.db, to), entry)?
    {
        return Ok(());
    }
    cx.reply.integer(i64::from(copied.is_some()));
    Ok(())
}

fn move_target<'a>(_: u8, databases: usize, args: Args<'a>, keys: &mut Keys<'a>) {
    if let (Ok(db), Some(key)) = (database(args.at(2), databases), keys.first().copied()) {
        keys.push(KeyRef { db, ..key });
    }
}

fn move_key<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let db = database(args.at(2), cx.keys.databases())?;
    if db == cx.db {
        return Err(SAME_OBJECT);
    }
    let moved = cx.entry(key).filter(|_| cx.keys.get(db, key).is_none());
    if let Some(entry) = moved
        && !move_whole(cx, key, (db, key), entry)?
    {
        return Ok(());
    }
    cx.reply.integer(i64::from(moved.is_some()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_numbers_below_their_count() {
        assert_eq!(database(b"15", 16), Ok(15));
        for text in ["16", "-1", "256"] {
            assert_eq!(database(text.as_bytes(), 16), Err(CommandError::DbOutOfRange), "{text}");
        }
        assert_eq!(database(b"x", 16), Err(CommandError::NotAnInteger));
    }
}
