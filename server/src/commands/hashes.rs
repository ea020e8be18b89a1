//! Hash commands. Random fields are in `random`, `HSCAN` is in `element_scans`.

use tarn_engine::Entry;
use tarn_engine::record::{Bytes, Change, Kind};
use tarn_engine::value::{HashRef, ValueRef};
use tarn_resp::{Args, Writer};

use crate::commands::decided::Decided;
use crate::commands::removals;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::extended::Extended;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

const READ: Flags = Flags::READONLY;
const FAST_READ: Flags = Flags::READONLY.with(Flags::FAST);
const FAST_WRITE: Flags = Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST);

const LOOK: &[KeySpec] = &[KeySpec::one(&["RO"])];
const ACCESS: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const UPDATE: &[KeySpec] = &[KeySpec::one(&["RW", "update"])];
const INSERT: &[KeySpec] = &[KeySpec::one(&["RW", "insert"])];
const DELETE: &[KeySpec] = &[KeySpec::one(&["RW", "delete"])];
const CHANGE: &[KeySpec] = &[KeySpec::one(&["RW", "access", "update"])];

const PER_FIELD: &str = "O(N), N being the number of fields named";
const WHOLE: &str = "O(N), N being the number of fields in the hash";

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("hset", -4, FAST_WRITE, "2.0.0", "Gives fields of a hash values.", hset)
        .keys(UPDATE)
        .complexity(PER_FIELD),
    row("hmset", -4, FAST_WRITE, "2.0.0", "Gives fields of a hash values.", hmset)
        .keys(UPDATE)
        .complexity(PER_FIELD),
    row("hsetnx", 4, FAST_WRITE, "2.0.0", "Gives a field a value if it has none.", hsetnx).keys(INSERT),
    row("hget", 3, FAST_READ, "2.0.0", "Returns the value of a field.", hget).keys(ACCESS),
    row("hmget", -3, FAST_READ, "2.0.0", "Returns the values of fields.", hmget)
        .keys(ACCESS)
        .complexity(PER_FIELD),
    row("hgetall", 2, READ, "2.0.0", "Returns all fields with their values.", hgetall)
        .keys(ACCESS)
        .complexity(WHOLE),
    row("hkeys", 2, READ, "2.0.0", "Returns all fields.", hkeys).keys(ACCESS).complexity(WHOLE),
    row("hvals", 2, READ, "2.0.0", "Returns all values.", hvals).keys(ACCESS).complexity(WHOLE),
    row("hlen", 2, FAST_READ, "2.0.0", "Returns the number of fields.", hlen).keys(LOOK),
    row("hstrlen", 3, FAST_READ, "3.2.0", "Returns the length of a field's value.", hstrlen).keys(LOOK),
    row("hexists", 3, FAST_READ, "2.0.0", "Says whether a field exists.", hexists).keys(LOOK),
    row(
        "hdel",
        -3,
        Flags::WRITE.with(Flags::FAST),
        "2.0.0",
        "Removes fields; the key goes with the last one.",
        removals::hdel,
    )
    .keys(DELETE)
    .complexity(PER_FIELD),
    row("hincrby", 4, FAST_WRITE, "2.0.0", "Adds an integer to the number in a field.", hincrby).keys(CHANGE),
    row("hincrbyfloat", 4, FAST_WRITE, "2.6.0", "Adds to the number in a field.", hincrbyfloat).keys(CHANGE),
];

fn hset<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let created = put_fields(cx, args, "hset")?;
    cx.reply.integer(created);
    Ok(())
}

fn hmset<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    put_fields(cx, args, "hmset")?;
    cx.reply.ok();
    Ok(())
}

/// Writes the pairs of fields and values; how many fields are new.
fn put_fields<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>, name: &'static str) -> Result<i64, CommandError> {
    if args.len() % 2 == 1 {
        return Err(CommandError::Arity(name.into()));
    }
    let key = args.at(1);
    let hash = cx.hash(key)?;
    let is_new = |field: &[u8]| hash.is_none_or(|hash| hash.get(field).is_none());
    let mut created = 0;
    if args.len() == 4 {
        created += i64::from(is_new(args.at(2)));
        put(cx, key, args.at(2), args.at(3));
        return Ok(created);
    }
    let mut new_fields = Decided::default();
    for pair in (2..args.len()).step_by(2) {
        let field = args.at(pair);
        created += i64::from(is_new(field) && new_fields.is_first(field));
        put(cx, key, field, args.at(pair + 1));
    }
    Ok(created)
}

fn put<'a>(cx: &mut Context<'_, 'a>, key: &'a [u8], field: &'a [u8], value: &'a [u8]) {
    cx.write(key, Change::HashPut { field: field.into(), value: value.into() });
}

fn hsetnx<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, field) = (args.at(1), args.at(2));
    let missing = cx.hash(key)?.is_none_or(|hash| hash.get(field).is_none());
    if missing {
        put(cx, key, field, args.at(3));
    }
    cx.reply.integer(i64::from(missing));
    Ok(())
}

fn hget<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let hash = cx.hash(args.at(1))?;
    write_value(cx, hash, args.at(2));
    Ok(())
}

fn hmget<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let hash = cx.hash(args.at(1))?;
    cx.reply.array(args.len() - 2);
    for field in args.tail(2) {
        write_value(cx, hash, field);
    }
    Ok(())
}

#[inline]
fn write_value(cx: &mut Context<'_, '_>, hash: Option<HashRef<'_>>, field: &[u8]) {
    match hash.and_then(|hash| hash.get(field)) {
        Some(value) => cx.reply.bulk(value),
        None => cx.reply.null(),
    }
}

fn hgetall<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let entry = cx.entry_of(args.at(1), Kind::Hash)?;
    let fields = fields_of(cx, entry);
    cx.reply.map(fields);
    reply_fields(cx, entry, |reply, field, value| {
        reply.bulk(field);
        reply.bulk(value);
    });
    Ok(())
}

/// How many fields of a hash are shown.
fn fields_of(cx: &Context<'_, '_>, entry: Option<&Entry>) -> usize {
    entry.and_then(Entry::hash).map_or(0, |hash| hash.at(cx.now()).len())
}

/// Writes each field of a hash with its value by `write`.
#[inline]
fn reply_fields(
    cx: &mut Context<'_, '_>,
    entry: Option<&Entry>,
    write: impl Fn(&mut Writer<'_>, &[u8], &[u8]) + 'static,
) {
    let Some(entry) = entry else { return };
    let now = cx.now();
    cx.reply_elements(entry, 0..entry.count(), move |reply, value, range| {
        if let ValueRef::Hash(hash) = value {
            // Fields that are hidden have places, too.
            let fields = hash.at(now).iter_range(range);
            fields.for_each(|(field, value)| write(reply, field, value));
        }
    });
}

fn hkeys<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let entry = cx.entry_of(args.at(1), Kind::Hash)?;
    let fields = fields_of(cx, entry);
    cx.reply.array(fields);
    reply_fields(cx, entry, |reply, field, _| reply.bulk(field));
    Ok(())
}

fn hvals<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let entry = cx.entry_of(args.at(1), Kind::Hash)?;
    let fields = fields_of(cx, entry);
    cx.reply.array(fields);
    reply_fields(cx, entry, |reply, _, value| reply.bulk(value));
    Ok(())
}

fn hlen<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let len = cx.hash(args.at(1))?.map_or(0, |hash| hash.len());
    cx.reply.integer(len as i64);
    Ok(())
}

fn hstrlen<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let value = cx.hash(args.at(1))?.and_then(|hash| hash.get(args.at(2)));
    cx.reply.integer(value.map_or(0, <[u8]>::len) as i64);
    Ok(())
}

fn hexists<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let value = cx.hash(args.at(1))?.and_then(|hash| hash.get(args.at(2)));
    cx.reply.integer(i64::from(value.is_some()));
    Ok(())
}

fn hincrby<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, field) = (args.at(1), args.at(2));
    let increment = parse::integer(args.at(3))?;
    let hash = cx.hash(key)?;
    let number = match hash.and_then(|hash| hash.get(field)) {
        Some(value) => parse::integer_or(value, "ERR hash value is not an integer")?,
        None => 0,
    };
    let sum = number
        .checked_add(increment)
        .ok_or(CommandError::text("ERR increment or decrement would overflow"))?;
    let value = itoa::Buffer::new().format(sum).as_bytes().to_vec();
    put_again(cx, key, hash, field, value.into());
    cx.reply.integer(sum);
    Ok(())
}

/// Gives a field another value; its time stays.
pub(super) fn put_again<'a>(
    cx: &mut Context<'_, 'a>,
    key: &'a [u8],
    hash: Option<HashRef<'_>>,
    field: &'a [u8],
    value: Bytes<'a>,
) {
    let at = hash.and_then(|hash| hash.time(field));
    cx.write(key, Change::HashPut { field: field.into(), value });
    if at.is_some() {
        cx.write(key, Change::HashExpire { field: field.into(), at });
    }
}

fn hincrbyfloat<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (key, field) = (args.at(1), args.at(2));
    let increment = Extended::parse(args.at(3)).ok_or(CommandError::NotAFloat)?;
    if !increment.is_finite() {
        return Err(CommandError::text("ERR value is NaN or Infinity"));
    }
    let hash = cx.hash(key)?;
    let number = match hash.and_then(|hash| hash.get(field)) {
        Some(value) => Extended::parse(value).ok_or(CommandError::text("ERR hash value is not a float"))?,
        None => Extended::ZERO,
    };
    let sum = number.plus(increment);
    if !sum.is_finite() {
        return Err(CommandError::text("ERR increment would produce NaN or Infinity"));
    }
    let text = sum.to_text();
    cx.reply.bulk(&text);
    put_again(cx, key, hash, field, text.into());
    Ok(())
}
