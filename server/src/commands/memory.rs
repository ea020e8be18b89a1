//! `MEMORY` and its subcommands.

use tarn_resp::Args;

use crate::commands::help::unknown_container;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::services::Services;
use crate::execute::spec::{Flags, KeySpec};
use crate::metrics::figures::{Clients, Memory, Overhead};
use crate::observe::process;

const ANY_TIME: Flags = Flags::LOADING.with(Flags::STALE);
/// Of an allocator, which takes a while: nobody waits for it.
const OUTSIDE: Flags = Flags::OUTSIDE;

/// Memory below which the doctor has nothing to say.
const SMALL_BYTES: u64 = 5 << 20;

/// The rows of this family.
pub(super) const COMMANDS: &[Command] =
    &[row("memory", -2, Flags::NONE, "4.0.0", "A container for commands about memory.", unknown_container)
        .subcommands(&[
            row("doctor", 2, Flags::NONE, "4.0.0", "Says what is odd about the use of memory.", doctor),
            row("help", 2, ANY_TIME, "4.0.0", "Lists the subcommands.", help),
            row("malloc-stats", 2, OUTSIDE, "4.0.0", "Returns what the allocator tells.", malloc_stats),
            row("purge", 2, OUTSIDE, "4.0.0", "Gives unused pages back to the system.", purge),
            row("stats", 2, Flags::ALONE_IN_EXEC, "4.0.0", "Returns what memory is used for.", stats),
            row(
                "usage",
                -3,
                Flags::READONLY.with(Flags::NO_TOUCH),
                "4.0.0",
                "Returns the bytes that a key takes.",
                usage,
            )
            .keys(&[KeySpec::range(2, 0, 1, &["RO"])]),
        ])];

fn usage<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    match args.len() {
        3 => {}
        5 if args.at(3).eq_ignore_ascii_case(b"samples") => {
            let samples = crate::execute::parse::integer(args.at(4))?;
            if samples < 0 {
                return Err(CommandError::Syntax);
            }
        }
        _ => return Err(CommandError::Syntax),
    }
    match cx.entry(args.at(2)) {
        Some(entry) => {
            let bytes = entry.bytes() as i64;
            cx.reply.integer(bytes);
        }
        None => cx.reply.null(),
    }
    Ok(())
}

/// A figure of `MEMORY STATS`.
enum Figure {
    Bytes(i64),
    Ratio(f64),
}

/// The figures of `MEMORY STATS` but for those of databases, which stand behind `lua.caches` and its like.
fn figures(server: &Services, keys: u64) -> [Vec<(&'static str, Figure)>; 2] {
    let Memory { heap, resident, peak } = Memory::of(server);
    let overhead = Overhead::of(server);
    let ratio = |a: u64, b: u64| Figure::Ratio(if b == 0 { 0.0 } else { a as f64 / b as f64 });
    let bytes = |bytes: u64| Figure::Bytes(bytes as i64);
    let less = |a: u64, b: u64| Figure::Bytes(a as i64 - b as i64);
    let dataset = heap.allocated.saturating_sub(overhead.bytes());
    let grown = heap.allocated.saturating_sub(server.startup_bytes);
    let percent = |a: u64, b: u64| Figure::Ratio(if b == 0 { 0.0 } else { 100.0 * a as f64 / b as f64 });
    [
        vec![
            ("peak.allocated", bytes(peak)),
            ("total.allocated", bytes(heap.allocated)),
            ("startup.allocated", bytes(overhead.startup)),
            ("replication.backlog", bytes(0)),
            ("clients.slaves", bytes(0)),
            ("clients.normal", bytes(overhead.clients)),
            ("cluster.links", bytes(0)),
            ("aof.buffer", bytes(overhead.log)),
            ("lua.caches", bytes(overhead.scripts)),
            ("functions.caches", bytes(overhead.functions)),
            ("indexes", bytes(overhead.indexes)),
            ("kept.versions", bytes(overhead.versions)),
            ("log.validity", bytes(overhead.validity)),
        ],
        vec![
            ("overhead.total", bytes(overhead.bytes())),
            ("keys.count", bytes(keys)),
            ("keys.bytes-per-key", bytes(grown.checked_div(keys).unwrap_or(0))),
            ("dataset.bytes", bytes(dataset)),
            ("dataset.percentage", percent(dataset.min(grown), grown)),
            ("peak.percentage", percent(heap.allocated, peak)),
            ("allocator.allocated", bytes(heap.allocated)),
            ("allocator.active", bytes(heap.active)),
            ("allocator.resident", bytes(heap.resident)),
            ("allocator-fragmentation.ratio", ratio(heap.active, heap.allocated)),
            ("allocator-fragmentation.bytes", less(heap.active, heap.allocated)),
            ("allocator-rss.ratio", ratio(heap.resident, heap.active)),
            ("allocator-rss.bytes", less(heap.resident, heap.active)),
            ("rss-overhead.ratio", ratio(resident, heap.resident)),
            ("rss-overhead.bytes", less(resident, heap.resident)),
            ("fragmentation", ratio(resident, heap.allocated)),
            ("fragmentation.bytes", less(resident, heap.allocated)),
        ],
    ]
}

fn stats<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    // As `INFO`, without what is not durable yet if the client waits for that.
    let counts = super::info::counts_to_tell(cx).0;
    let keys = counts.iter().map(|counts| counts.keys as u64).sum();
    let databases: Vec<usize> = (0..counts.len()).filter(|db| counts[*db].keys > 0).collect();
    let [before, behind] = figures(cx.server, keys);
    cx.reply.map(before.len() + databases.len() + behind.len());
    before.into_iter().for_each(|figure| write(cx, figure));
    for db in databases {
        // Keys and their times stand in one place, which `dataset.bytes` counts.
        cx.reply.bulk(format!("db.{db}").as_bytes());
        cx.reply.map(3);
        for name in ["main", "expires", "slot-to-keys"] {
            cx.reply.bulk(format!("overhead.hashtable.{name}").as_bytes());
            cx.reply.integer(0);
        }
    }
    behind.into_iter().for_each(|figure| write(cx, figure));
    Ok(())
}

fn write(cx: &mut Context<'_, '_>, (name, figure): (&str, Figure)) {
    cx.reply.bulk(name.as_bytes());
    match figure {
        Figure::Bytes(bytes) => cx.reply.integer(bytes),
        Figure::Ratio(ratio) => cx.reply.double(ratio),
    }
}

fn doctor<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let memory = Memory::of(cx.server);
    let clients = Clients::of(cx.server);
    let advice = advice(&memory, clients.connected as u64, clients.bytes as u64);
    cx.reply.verbatim(*b"txt", advice.as_bytes());
    Ok(())
}

/// A line for each thing that is odd.
fn advice(memory: &Memory, clients: u64, of_clients: u64) -> String {
    let Memory { heap, resident, peak } = memory;
    if heap.allocated < SMALL_BYTES {
        return "The server uses very little memory: there is nothing to say about it.\n".into();
    }
    let mut lines = String::new();
    let mut say = |is_so: bool, line: &str| {
        if is_so {
            lines.push_str(line);
            lines.push('\n');
        }
    };
    say(
        *peak > heap.allocated / 2 * 3,
        "Peak: the server has used more than 1.5 times the memory that it uses now; what was freed may still \
         be resident. MEMORY PURGE gives pages back.",
    );
    say(
        heap.active > heap.allocated / 10 * 11 && heap.active - heap.allocated > 10 << 20,
        "Fragmentation: pages of the allocator are partly empty, for more than 10 % of the memory in use. \
         MEMORY PURGE, or activedefrag, moves small entries together.",
    );
    say(
        heap.resident > heap.active / 10 * 11 && heap.resident - heap.active > 10 << 20,
        "Unused pages: the allocator keeps more than 10 % for later. MEMORY PURGE gives them back.",
    );
    say(
        *resident > heap.resident / 10 * 11 && *resident - heap.resident > 10 << 20,
        "Outside of the allocator: more than 10 % of the resident memory is not the allocator's.",
    );
    say(
        of_clients.checked_div(clients).unwrap_or(0) > 200 << 10,
        "Clients: their buffers take more than 200 kB each. CLIENT LIST shows them (omem, qbuf).",
    );
    if lines.is_empty() {
        return "Nothing is odd about the use of memory.\n".into();
    }
    lines
}

fn purge<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    process::purge_heap();
    // Pages that are partly empty have to be emptied before.
    cx.server.defrag.ask();
    cx.reply.ok();
    Ok(())
}

fn malloc_stats<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let text = process::heap_report();
    cx.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

fn help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    crate::commands::help::help(cx, "MEMORY");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::process::Heap;

    #[test]
    fn the_doctor_names_what_is_odd() {
        let heap = Heap { allocated: 100 << 20, active: 101 << 20, resident: 102 << 20 };
        let usual = Memory { heap, resident: 105 << 20, peak: 110 << 20 };
        assert!(advice(&usual, 1, 0).starts_with("Nothing"));
        let odd = Memory { peak: 200 << 20, ..usual };
        assert!(advice(&odd, 1, 0).starts_with("Peak"));
        assert!(advice(&usual, 2, 1 << 20).starts_with("Clients"));
        let heap = Heap { active: 150 << 20, resident: 200 << 20, ..heap };
        let lines = advice(&Memory { heap, resident: 300 << 20, peak: 0 }, 1, 0);
        for word in ["Fragmentation", "Unused pages", "Outside"] {
            assert!(lines.contains(word), "{lines}");
        }
        let heap = Heap { allocated: 1 << 20, ..heap };
        assert!(advice(&Memory { heap, resident: 0, peak: 0 }, 1, 0).contains("very little"));
    }
}
