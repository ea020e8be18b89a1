//! Commands that set, show and remove the expiry of keys.

use tarn_engine::record::{Change, UnixMs};
use tarn_resp::Args;

use crate::error::{CommandError, printable};
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse::{self, ExpiryForm};
use crate::execute::spec::{Flags, KeySpec};

const UPDATED: &[KeySpec] = &[KeySpec::one(&["RW", "update"])];
const READ: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const WRITES: Flags = Flags::WRITE.with(Flags::FAST);
const READS: Flags = Flags::READONLY.with(Flags::FAST).with(Flags::NO_TOUCH);

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("expire", -3, WRITES, "1.0.0", "Lets a key expire after some seconds.", |cx, args| {
        expire(cx, args, ExpiryForm::Seconds, "expire")
    })
    .keys(UPDATED),
    row("pexpire", -3, WRITES, "2.6.0", "Lets a key expire after some milliseconds.", |cx, args| {
        expire(cx, args, ExpiryForm::Millis, "pexpire")
    })
    .keys(UPDATED),
    row("expireat", -3, WRITES, "1.2.0", "Lets a key expire at a point in time in seconds.", |cx, args| {
        expire(cx, args, ExpiryForm::AtSeconds, "expireat")
    })
    .keys(UPDATED),
    row(
        "pexpireat",
        -3,
        WRITES,
        "2.6.0",
        "Lets a key expire at a point in time in milliseconds.",
        |cx, args| expire(cx, args, ExpiryForm::AtMillis, "pexpireat"),
    )
    .keys(UPDATED),
    row("persist", 2, WRITES, "2.2.0", "Lets a key never expire.", persist).keys(UPDATED),
    row("ttl", 2, READS, "1.0.0", "Returns the seconds after which a key expires.", |cx, args| {
        reply_expiry(cx, args, |at, now| rounded_seconds(at.saturating_sub(now)))
    })
    .keys(READ),
    row("pttl", 2, READS, "2.6.0", "Returns the milliseconds after which a key expires.", |cx, args| {
        reply_expiry(cx, args, |at, now| at.saturating_sub(now))
    })
    .keys(READ),
    row(
        "expiretime",
        2,
        READS,
        "7.0.0",
        "Returns the point in time, in seconds, at which a key expires.",
        |cx, args| reply_expiry(cx, args, |at, _| rounded_seconds(at)),
    )
    .keys(READ),
    row(
        "pexpiretime",
        2,
        READS,
        "7.0.0",
        "Returns the point in time, in milliseconds, at which a key expires.",
        |cx, args| reply_expiry(cx, args, |at, _| at),
    )
    .keys(READ),
];

const fn rounded_seconds(ms: u64) -> u64 {
    ms.saturating_add(500) / 1000
}

/// On what a new expiry is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Conditions {
    /// `NX`: the key has none.
    missing: bool,
    /// `XX`: the key has one.
    present: bool,
    /// `GT`: the new one is later.
    later: bool,
    /// `LT`: the new one is sooner.
    sooner: bool,
}

impl Conditions {
    fn parse(args: Args<'_>) -> Result<Conditions, CommandError> {
        let mut conditions = Conditions::default();
        for word in args {
            match word {
                _ if word.eq_ignore_ascii_case(b"nx") => conditions.missing = true,
                _ if word.eq_ignore_ascii_case(b"xx") => conditions.present = true,
                _ if word.eq_ignore_ascii_case(b"gt") => conditions.later = true,
                _ if word.eq_ignore_ascii_case(b"lt") => conditions.sooner = true,
                _ => {
                    // Line ends at the end of an error go, as in Redis; others become spaces.
                    let end =
                        word.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
                    let word = printable(&word[..end]);
                    return Err(CommandError::owned(format!("ERR Unsupported option {word}")));
                }
            }
        }
        const TWO_PRESENCES: &str = "ERR NX and XX, GT or LT options at the same time are not compatible";
        const TWO_ORDERS: &str = "ERR GT and LT options at the same time are not compatible";
        if conditions.missing && (conditions.present || conditions.sooner || conditions.later) {
            return Err(CommandError::text(TWO_PRESENCES));
        }
        if conditions.sooner && conditions.later {
            return Err(CommandError::text(TWO_ORDERS));
        }
        Ok(conditions)
    }

    /// Whether `new` may follow `old`; no expiry is later than any.
    fn allow(self, old: Option<UnixMs>, new: i64) -> bool {
        let is_later_than = |old: UnixMs| i128::from(new) > i128::from(old);
        let is_sooner_than = |old: UnixMs| i128::from(new) < i128::from(old);
        !(self.missing && old.is_some()
            || self.present && old.is_none()
            || self.later && !old.is_some_and(is_later_than)
            || self.sooner && !old.is_none_or(is_sooner_than))
    }
}

fn expire<'a>(
    cx: &mut Context<'_, 'a>,
    args: Args<'a>,
    form: ExpiryForm,
    name: &'static str,
) -> Result<(), CommandError> {
    let conditions = Conditions::parse(args.tail(3))?;
    let now = cx.now();
    let number = parse::integer(args.at(2))?;
    let at = form.resolve(number, now).ok_or_else(|| parse::invalid_expiry(name))?;
    let key = args.at(1);
    let sets = cx.entry(key).is_some_and(|entry| conditions.allow(entry.expiry(), at));
    if sets {
        let future = u64::try_from(at).ok().filter(|at| *at > now);
        cx.write(key, future.map_or(Change::Delete, |at| Change::Expire(Some(at))));
    }
    cx.reply.integer(i64::from(sets));
    Ok(())
}

fn persist<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let expires = cx.entry(key).is_some_and(|entry| entry.expiry().is_some());
    if expires {
        cx.write(key, Change::Expire(None));
    }
    cx.reply.integer(i64::from(expires));
    Ok(())
}

/// Replies what `shown` makes of expiry and now; -2 for a missing key, -1 for one that never expires.
fn reply_expiry<'a>(
    cx: &mut Context<'_, 'a>,
    args: Args<'a>,
    shown: fn(UnixMs, UnixMs) -> u64,
) -> Result<(), CommandError> {
    let number = match cx.entry(args.at(1)) {
        None => -2,
        Some(entry) => entry.expiry().map_or(-1, |at| shown(at, cx.now()) as i64),
    };
    cx.reply.integer(number);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(name: &str) -> Conditions {
        let is = |other| name == other;
        Conditions { missing: is("nx"), present: is("xx"), later: is("gt"), sooner: is("lt") }
    }

    #[test]
    fn an_expiry_follows_another_only_under_its_condition() {
        for (name, old, new, allowed) in [
            ("", Some(5), 1, true),
            ("nx", None, 1, true),
            ("nx", Some(5), 9, false),
            ("xx", None, 1, false),
            ("xx", Some(5), 1, true),
            ("gt", None, 9, false),
            ("gt", Some(5), 5, false),
            ("gt", Some(5), 6, true),
            ("lt", None, 9, true),
            ("lt", Some(5), 5, false),
            ("lt", Some(5), -1, true),
        ] {
            assert_eq!(only(name).allow(old, new), allowed, "{name} {old:?} {new}");
        }
    }
}
