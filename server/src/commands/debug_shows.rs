//! `DEBUG LISTPACK`, `QUICKLIST`, `SDSLEN`, `HTSTATS`, `HTSTATS-KEY`: how Redis would keep a value, for tests
//! that ask.

use tarn_engine::Entry;
use tarn_engine::value::ValueRef;
use tarn_resp::Args;

use crate::error::{CommandError, printable};
use crate::execute::context::Context;
use crate::execute::parse;

/// The least size of a hash table of Redis.
const TABLE_MIN: usize = 4;

fn there<'c>(cx: &Context<'c, '_>, args: Args<'_>) -> Result<&'c Entry, CommandError> {
    cx.entry(args.at(2)).ok_or(CommandError::NoSuchKey)
}

/// Writes to the log of messages what a value is, where Redis prints its parts.
fn print(args: Args<'_>, entry: &Entry) {
    let (key, kind) = (printable(args.at(2)), entry.kind());
    tracing::info!("DEBUG: {key} holds a {kind:?} of {} elements, {} bytes", entry.count(), entry.bytes());
}

pub(super) fn listpack<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let entry = there(cx, args)?;
    if entry.encoding() != "listpack" {
        return Err(CommandError::text("ERR Not a listpack encoded object."));
    }
    print(args, entry);
    cx.reply.simple("Listpack structure printed on stdout");
    Ok(())
}

pub(super) fn quicklist<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let entry = there(cx, args)?;
    if entry.encoding() != "quicklist" {
        return Err(CommandError::text("ERR Not a quicklist encoded object."));
    }
    print(args, entry);
    cx.reply.simple("Quicklist structure printed on stdout");
    Ok(())
}

pub(super) fn sdslen<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let entry = there(cx, args)?;
    let len = match entry.value() {
        ValueRef::String(value) if entry.encoding() != "int" => value.len(),
        _ => return Err(CommandError::text("ERR Not an sds encoded string.")),
    };
    let key_len = args.at(2).len();
    cx.reply.simple(format!(
        "key_sds_len:{key_len}, key_sds_avail:0, key_zmalloc: {key_len}, val_sds_len:{len}, val_sds_avail:0, \
         val_zmalloc: {}",
        entry.bytes()
    ));
    Ok(())
}

pub(super) fn htstats<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let number = parse::integer(args.at(2))?;
    let db = u8::try_from(number).ok().filter(|db| usize::from(*db) < cx.keys.databases());
    let db = db.ok_or(CommandError::text("ERR Out of range database"))?;
    cx.keys.see_all();
    let counts = cx.keys.counts(db);
    let text = format!("[Dictionary HT]\n{}[Expires HT]\n{}", table(counts.keys), table(counts.expiring));
    cx.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

pub(super) fn htstats_key<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let entry = there(cx, args)?;
    if !matches!(entry.encoding(), "hashtable" | "skiplist") {
        return Err(CommandError::text(
            "ERR The value stored at the specified key is not represented using an hash table",
        ));
    }
    cx.reply.verbatim(*b"txt", table(entry.count()).as_bytes());
    Ok(())
}

/// The words behind those that `DEBUG OBJECT` has for any value: for a list the nodes that Redis would have,
/// about.
pub(super) fn nodes(cx: &Context<'_, '_>, entry: &Entry) -> String {
    if entry.encoding() != "quicklist" {
        return String::new();
    }
    let config = cx.server.config.snapshot();
    let (fill, count, bytes) = (config.list_max_listpack_size, entry.count(), entry.bytes_about());
    let nodes = match fill {
        // Kilobytes of a node: 4, 8, 16, 32, 64.
        ..0 => bytes.div_ceil(2048 << fill.unsigned_abs().min(5)),
        _ => count.div_ceil(fill.unsigned_abs().max(1) as usize),
    };
    let nodes = nodes.clamp(1, count.max(1));
    format!(
        " ql_nodes:{nodes} ql_avg_node:{:.2} ql_listpack_max:{fill} ql_compressed:{} \
         ql_uncompressed_size:{bytes}",
        count as f64 / nodes as f64,
        u8::from(config.list_compress_depth > 0)
    )
}

/// The hash table that Redis would have for so many elements.
fn table(elements: usize) -> String {
    let head = "Hash table 0 stats (main hash table):";
    if elements == 0 {
        return format!("{head}\nNo stats available for empty dictionaries\n");
    }
    let size = elements.next_power_of_two().max(TABLE_MIN);
    format!("{head}\n table size: {size}\n number of elements: {elements}\n")
}
