//! The keys of a database that nobody named: counted, listed, scanned, drawn by chance. One segment is
//! latched at a time.

use std::time::Duration;

use tarn_engine::io::Clock;
use tarn_engine::{Engine, Entry, ScanBudget, ViewOptions};
use tarn_resp::{Args, Protocol, Writer};

use crate::commands::element_scans::asks_for_names;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::Flags;
use crate::execute::steps::Steps;
use crate::glob;

/// The work of a part of a table besides its keys.
const PART_WORK: usize = 8;

/// The longest wait of a step for a latch or the gate, and the pause behind it: a script may hold them for
/// long.
const STEP_LATCH_WAIT: Duration = Duration::from_millis(1);
const STEP_PAUSE: Duration = Duration::from_millis(5);

const SWEEPS: Flags = Flags::READONLY.with(Flags::ALONE_IN_EXEC);

/// The rows about keys.
pub(super) const COMMANDS: &[Command] = &[
    row("keys", 2, SWEEPS, "1.0.0", "Returns all keys that match a pattern.", keys)
        .categories(&["@keyspace", "@dangerous"])
        .complexity("O(N) for N keys in the database"),
    row("scan", -2, SWEEPS, "2.8.0", "Returns some keys and where to go on.", scan)
        .complexity("O(1) for each call, O(N) for a whole round over N keys"),
    row("randomkey", 1, SWEEPS, "1.0.0", "Returns a key drawn by chance.", randomkey),
];

/// The row about the database.
pub(super) const OF_SERVER: &[Command] = &[row(
    "dbsize",
    1,
    SWEEPS.with(Flags::FAST),
    "1.0.0",
    "Returns the number of keys in the database.",
    dbsize,
)
.categories(&["@keyspace"])];

/// Which entries are wanted.
#[derive(Default)]
struct Filter<'a> {
    pattern: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
}

impl<'a> Filter<'a> {
    /// A filter by name; `*` is none at all.
    fn by_name(pattern: &'a [u8]) -> Filter<'a> {
        Filter { pattern: Some(pattern).filter(|pattern| *pattern != b"*"), kind: None }
    }

    fn admits(&self, entry: &Entry) -> bool {
        self.kind.is_none_or(|kind| kind.eq_ignore_ascii_case(entry.kind().name().as_bytes()))
            && self.pattern.is_none_or(|pattern| glob::matches(pattern, entry.key()))
    }
}

/// Walks the selected database from `cursor` on. Returns the next cursor, how many keys were found, and the
/// keys as replies.
fn walk(
    cx: &Context<'_, '_>,
    cursor: u64,
    mut budget: ScanBudget,
    filter: &Filter<'_>,
) -> Result<(u64, usize, Vec<u8>), CommandError> {
    let (mut found, mut replies) = (0, Vec::new());
    // One byte more than there is room for: who puts it all into the reply finds that it is too long.
    let room = cx.client.reply_end_max.saturating_sub(cx.reply.len()).saturating_add(1);
    let mut writer = Writer::new(&mut replies, cx.reply.protocol()).limited(room);
    let now = cx.now();
    let next = cx.keys.scan(cx.db, cursor, &mut budget, |entry| {
        if !entry.is_expired(now) && filter.admits(entry) {
            writer.bulk(entry.key());
            found += 1;
        }
    })?;
    cx.keys.see_all();
    Ok((next, found, replies))
}

fn keys<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if cx.is_long(cx.keys.keys(cx.db), 0)
        && let Some(engine) = cx.server.store().map(|store| store.engine.clone())
    {
        let (db, pattern, clock) = (cx.db, args.at(1).to_vec(), cx.server.clock.clone());
        cx.run_in_steps(cx.keys.keys(cx.db), async move |steps| {
            keys_in_steps(&steps, &engine, db, &pattern, &*clock).await
        });
        return Ok(());
    }
    let filter = Filter::by_name(args.at(1));
    let (_, found, replies) = walk(cx, 0, ScanBudget::UNLIMITED, &filter)?;
    cx.reply.array(found);
    cx.reply.raw(&replies);
    Ok(())
}

/// The keys as of one instant, which is when the first step runs.
async fn keys_in_steps(
    steps: &Steps,
    engine: &Engine,
    db: u8,
    pattern: &[u8],
    clock: &dyn Clock,
) -> Result<(), CommandError> {
    let (found, replies) = gather_keys(steps, engine, db, pattern, clock).await?;
    steps.reply(|reply| reply.array(found));
    steps.each(replies.iter(), |reply, part| reply.raw(part)).await;
    Ok(())
}

/// How many keys there are, and the keys as replies.
async fn gather_keys(
    steps: &Steps,
    engine: &Engine,
    db: u8,
    pattern: &[u8],
    clock: &dyn Clock,
) -> Result<(usize, Vec<Vec<u8>>), CommandError> {
    let error = |text: String| CommandError::owned(format!("ERR {text}"));
    let mut view = loop {
        let opened = engine.open_view_within(ViewOptions::once_of(db, "KEYS"), STEP_LATCH_WAIT);
        match opened.map_err(|refused| error(refused.to_string()))? {
            Some(view) => break view,
            None => steps.pause(STEP_PAUSE).await,
        }
    };
    view.keep_processor();
    let now = clock.unix_ms();
    steps.see(view.cut());
    let filter = Filter::by_name(pattern);
    let (mut found, mut replies) = (0, Vec::new());
    loop {
        let (mut part, mut seen) = (Vec::new(), 0);
        let mut writer = Writer::new(&mut part, Protocol::Resp2);
        let step = view.step_within(STEP_LATCH_WAIT, &mut |entry: &Entry| {
            seen += 1;
            if !entry.is_expired(now) && filter.admits(entry) {
                writer.bulk(entry.key());
                found += 1;
            }
        });
        let Some(walked) = step.map_err(|cancelled| error(cancelled.to_string()))? else {
            return Ok((found, replies));
        };
        if walked.from == walked.end {
            // A script has the latch, or what was read is still to be passed: others are served meanwhile.
            steps.pause(STEP_PAUSE).await;
            continue;
        }
        steps.hold(part.capacity())?;
        replies.push(part);
        steps.pass(PART_WORK + seen).await;
    }
}

fn scan<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let cursor = parse::cursor(args.at(1))?;
    let mut filter = Filter::default();
    let mut count = 10;
    let mut words = args.tail(2).iter();
    while let Some(word) = words.next() {
        // It does not; this makes the error.
        asks_for_names(word, None)?;
        let argument = words.next().ok_or(CommandError::Syntax)?;
        if word.eq_ignore_ascii_case(b"count") {
            count = match parse::integer(argument)? {
                count @ 1.. => usize::try_from(count).unwrap_or(usize::MAX),
                _ => return Err(CommandError::Syntax),
            };
        } else if word.eq_ignore_ascii_case(b"match") {
            filter.pattern = Filter::by_name(argument).pattern;
        } else if word.eq_ignore_ascii_case(b"type") {
            filter.kind = Some(argument);
        } else {
            return Err(CommandError::Syntax);
        }
    }
    let (next, found, replies) = walk(cx, cursor, ScanBudget::of_count(count), &filter)?;
    cx.reply.array(2);
    cx.reply.bulk(next.to_string().as_bytes());
    cx.reply.array(found);
    cx.reply.raw(&replies);
    Ok(())
}

fn randomkey<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let key = cx.keys.sample(cx.db, rand::random::<u64>)?;
    cx.keys.see_all();
    match key {
        Some(key) => cx.reply.bulk(&key),
        None => cx.reply.null(),
    }
    Ok(())
}

fn dbsize<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let keys = cx.keys.keys(cx.db);
    cx.keys.see_all();
    cx.reply.integer(keys as i64);
    Ok(())
}
