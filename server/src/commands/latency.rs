//! `LATENCY`: where requests waited (`observe/ledger.rs`), and how long commands took.
//!
//! The events of Redis are seconds in which one cause took `latency-monitor-threshold` or more. `LATENCY
//! LEDGER` and `LATENCY DOCTOR` look at slow turns one by one, whatever the threshold is.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tarn_resp::Args;

use crate::commands::command_row::find;
use crate::commands::help::{help, unknown_container};
use crate::error::{CommandError, printable};
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::Flags;
use crate::observe::latency;
use crate::observe::ledger::{CAUSES, Cause, Events, SLOW, Slow};

const ANY_TIME: Flags = Flags::LOADING.with(Flags::STALE);
const ADMIN: Flags = ANY_TIME.with(Flags::ADMIN).with(Flags::NOSCRIPT);

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[row(
    "latency",
    -2,
    Flags::NONE,
    "2.8.13",
    "A container for commands about latency.",
    unknown_container,
)
.subcommands(&[
    row("doctor", 2, ADMIN, "2.8.13", "Returns where slow requests waited, and what helps.", doctor),
    row("graph", 3, ADMIN, "2.8.13", "Returns a graph of the events of a cause.", graph),
    row("help", 2, ANY_TIME, "2.8.13", "Lists the subcommands.", |cx, _| {
        help(cx, "LATENCY");
        Ok(())
    }),
    row("histogram", -2, ADMIN, "7.0.0", "Returns how long the calls of commands took.", histogram),
    row("history", 3, ADMIN, "2.8.13", "Returns the events of a cause.", history),
    row("latest", 2, ADMIN, "2.8.13", "Returns the newest event of each cause.", latest),
    row(
        "ledger",
        -2,
        ADMIN,
        "7.0.0",
        "Returns the newest slow turns of workers, by cause; COUNT of them.",
        ledger,
    ),
    row("reset", -2, ADMIN, "2.8.13", "Forgets events, and all slow turns.", reset),
])];

/// The slow turns that `LATENCY LEDGER` returns unless it is asked for more.
const LEDGER_COUNT: usize = 100;
/// The width of the longest bar of a graph.
const BAR_MAX: u64 = 60;

fn latest<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let all = cx.server.stats.ledgers.events();
    cx.reply.array(all.len());
    for (cause, Events { newest, max_ms }) in all {
        let (unix_s, ms) = newest.back().copied().unwrap_or_default();
        cx.reply.array(4);
        cx.reply.bulk(cause.name().as_bytes());
        [unix_s, ms, max_ms].into_iter().for_each(|number| cx.reply.integer(number as i64));
    }
    Ok(())
}

/// The events of the cause that is named.
fn events_of(cx: &Context<'_, '_>, name: &[u8]) -> Option<(Cause, Events)> {
    let cause = Cause::of_name(name)?;
    cx.server.stats.ledgers.events().into_iter().find(|(of, _)| *of == cause)
}

fn history<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let newest = events_of(cx, args.at(2)).map(|(_, events)| events.newest).unwrap_or_default();
    cx.reply.array(newest.len());
    for (unix_s, ms) in newest {
        cx.reply.array(2);
        cx.reply.integer(unix_s as i64);
        cx.reply.integer(ms as i64);
    }
    Ok(())
}

fn graph<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let Some((cause, Events { newest, max_ms })) = events_of(cx, args.at(2)) else {
        let name = printable(args.at(2));
        return Err(CommandError::owned(format!("ERR No samples available for event '{name}'")));
    };
    let all = || newest.iter().map(|(_, ms)| *ms);
    let (high, low) = (all().max().unwrap_or(0), all().min().unwrap_or(0));
    let mut text = format!("{} - high {high} ms, low {low} ms (all time high {max_ms} ms)\n", cause.name());
    let now = unix_now().as_secs();
    for (unix_s, ms) in &newest {
        let bar = "#".repeat((ms * BAR_MAX / high.max(1)) as usize);
        let _ = writeln!(text, "{:>8} ago {ms:>8} ms {bar}", age(now.saturating_sub(*unix_s)));
    }
    cx.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

fn reset<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let ledgers = &cx.server.stats.ledgers;
    let forgotten = if args.len() == 2 {
        ledgers.forget_slow();
        Cause::ALL.into_iter().filter(|cause| ledgers.forget_events(*cause)).count()
    } else {
        let named = args.tail(2).into_iter().filter_map(Cause::of_name);
        named.filter(|cause| ledgers.forget_events(*cause)).count()
    };
    cx.reply.integer(forgotten as i64);
    Ok(())
}

fn ledger<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let count = match args.len() {
        2 => LEDGER_COUNT,
        4 if args.at(2).eq_ignore_ascii_case(b"count") => {
            let count = parse::integer(args.at(3)).ok().and_then(|count| usize::try_from(count).ok());
            count.ok_or(CommandError::text("ERR COUNT should be greater than or equal to 0"))?
        }
        _ => return Err(CommandError::Syntax),
    };
    let all = cx.server.stats.ledgers.slow(count);
    cx.reply.array(all.len());
    for Slow { at_unix_us, spent, requests, holder } in all {
        let causes = spent.by_length();
        cx.reply.array(5);
        cx.reply.integer(at_unix_us as i64);
        cx.reply.integer(spent.total().as_micros() as i64);
        cx.reply.integer(requests as i64);
        cx.reply.array(causes.len() * 2);
        for (cause, time) in causes {
            cx.reply.bulk(cause.name().as_bytes());
            cx.reply.integer(time.as_micros() as i64);
        }
        cx.reply.bulk(holder.as_bytes());
    }
    Ok(())
}

fn histogram<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let asked = args.tail(2).into_iter().filter_map(|name| Some(find(name)?.name())).collect::<Vec<_>>();
    let is_asked = |name: &str| {
        let container = name.split('|').next().unwrap_or_default();
        args.len() == 2 || asked.iter().any(|asked| [name, container].contains(&&**asked))
    };
    let names = super::table().full_names().into_iter().filter(|(name, _)| is_asked(name));
    let called: Vec<_> = names
        .map(|(name, slot)| (name, latency::cumulative_us(&cx.server.stats.latencies(slot))))
        .filter(|(_, buckets)| !buckets.is_empty())
        .collect();
    cx.reply.map(called.len());
    for (name, buckets) in called {
        cx.reply.bulk(name.as_bytes());
        cx.reply.map(2);
        cx.reply.bulk(b"calls");
        cx.reply.integer(buckets.last().map_or(0, |(_, calls)| *calls as i64));
        cx.reply.bulk(b"histogram_usec");
        cx.reply.map(buckets.len());
        for (us, calls) in buckets {
            cx.reply.integer(us as i64);
            cx.reply.integer(calls as i64);
        }
    }
    Ok(())
}

fn doctor<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let all = cx.server.stats.ledgers.slow(usize::MAX);
    let text = report(&all, unix_now());
    cx.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

/// The report about slow turns and waits, by cause.
fn report(all: &[Slow], now: Duration) -> String {
    let slow_us = SLOW.as_micros();
    let Some(longest) = all.iter().max_by_key(|slow| slow.spent.total()) else {
        return format!("No turn of a worker has taken {slow_us} us or more since the last LATENCY RESET.\n");
    };
    let ago = |slow: &Slow| age(now.saturating_sub(Duration::from_micros(slow.at_unix_us)).as_secs());
    let oldest = all.first().map(ago).unwrap_or_default();
    let requests: u64 = all.iter().map(|slow| slow.requests).sum();
    let mut text = format!(
        "{} turns of workers and waits of {slow_us} us or more in the last {oldest}. They held up {requests} \
         requests.\nThe longest took {:.2} ms, {} ago:",
        all.len(),
        ms(longest.spent.total()),
        ago(longest),
    );
    for (place, (cause, time)) in longest.spent.by_length().into_iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let _ = write!(text, "{comma} {} {:.2} ms", cause.name(), ms(time));
    }
    text.push_str(".\n\ncause         times   share   longest\n");
    let all_time: Duration = all.iter().map(|slow| slow.spent.total()).sum();
    let mut causes: Vec<(Cause, usize, Duration, Duration)> = Cause::ALL
        .into_iter()
        .map(|cause| {
            let times = || all.iter().map(|slow| slow.spent.of(cause)).filter(|time| !time.is_zero());
            (cause, times().count(), times().sum(), times().max().unwrap_or_default())
        })
        .filter(|(_, count, ..)| *count > 0)
        .collect();
    causes.sort_by_key(|(_, _, sum, _)| std::cmp::Reverse(*sum));
    for (cause, count, sum, most) in &causes {
        let share = 100.0 * sum.as_secs_f64() / all_time.as_secs_f64().max(f64::MIN_POSITIVE);
        let _ = writeln!(text, "{:<12} {count:>6}  {share:>4.0} %  {:>6.2} ms", cause.name(), ms(*most));
    }
    holders(&mut text, all);
    text.push('\n');
    for (cause, ..) in causes.iter().take(3) {
        let _ = writeln!(text, "{}: {}", cause.name(), advice(*cause));
    }
    text
}

/// Which threads held the latches that were waited for.
fn holders(text: &mut String, all: &[Slow]) {
    let mut holders: Vec<(&str, usize)> = Vec::new();
    for slow in all.iter().filter(|slow| !slow.holder.is_empty()) {
        match holders.iter_mut().find(|(name, _)| *name == slow.holder) {
            Some((_, count)) => *count += 1,
            None => holders.push((slow.holder, 1)),
        }
    }
    holders.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    if !holders.is_empty() {
        let told: Vec<String> = holders.iter().map(|(name, count)| format!("{name} {count}x")).collect();
        let _ = writeln!(text, "Latches, gates and the appender were held by: {}.", told.join(", "));
    }
}

/// Advice about waits for a cause.
const fn advice(cause: Cause) -> &'static str {
    const ADVICE: [&str; CAUSES] = [
        "commands took long themselves: see SLOWLOG GET for those on large collections.",
        "another thread held a part of the table: see its name above.",
        "a command that needs the whole store (FLUSHALL, SWAPDB) waited for others, or they for it.",
        "workers and the threads of the log met at the write buffer of the log.",
        "a lock that threads share seldom was held.",
        "other threads or programs used the processors: see server_cpulist and bgsave_cpulist.",
        "the system mapped new memory while a client waited: usual while data grows.",
        "the system took long to take replies: large replies, or slow readers on this machine.",
        "the disk is slower than the writes: see INFO log; log-dir takes directories on several disks.",
        "appendfsync always waits for the disk: see the times of syncs in INFO log.",
    ];
    ADVICE[cause as usize]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// An age in its largest unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::ledger::Spent;

    fn slow(at_s: u64, causes: &[(Cause, u64)], requests: u64, holder: &'static str) -> Slow {
        let mut spent = Spent::default();
        causes.iter().for_each(|(cause, us)| spent.add(*cause, Duration::from_micros(*us)));
        Slow { at_unix_us: at_s * 1_000_000, spent, requests, holder }
    }

    #[test]
    fn the_doctor_tells_causes_shares_and_holders() {
        let all = [
            slow(1000, &[(Cause::Latch, 3000), (Cause::Command, 1000)], 5, "tarn-expirer"),
            slow(1010, &[(Cause::Scheduler, 4000)], 2, ""),
            slow(1020, &[(Cause::Latch, 2000)], 1, "tarn-compactor"),
        ];
        let text = report(&all, Duration::from_secs(1130));
        for wanted in [
            "3 turns of workers and waits of 500 us or more in the last 2 min. They held up 8 requests.\n",
            "The longest took 4.00 ms, 2 min ago: scheduler 4.00 ms.\n",
            "\nlatch             2    50 %    3.00 ms\nscheduler         1    40 %    4.00 ms\n",
            "Latches, gates and the appender were held by: tarn-compactor 1x, tarn-expirer 1x.\n",
            "\nscheduler: other threads",
        ] {
            assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
        }
        assert!(report(&[], Duration::ZERO).starts_with("No turn of a worker has taken 500 us"));
    }
}
