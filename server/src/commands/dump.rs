//! `DUMP` and `RESTORE`: a value as bytes that any Redis understands, and back.

use std::sync::atomic::Ordering;

use tarn_engine::record::{Change, UnixMs};
use tarn_engine::value::usage::Use;
use tarn_rdb::ReadError;
use tarn_rdb::payload::{self, PayloadError};
use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse::{self, ExpiryForm};
use crate::execute::spec::{Flags, KeySpec};
use crate::persist::rdb::{ChangeBuilder, payload_of};

const BUSY_KEY: CommandError = CommandError::text("BUSYKEY Target key name already exists.");
const BAD_FOOTER: CommandError = CommandError::text("ERR DUMP payload version or checksum are wrong");
const BAD_FORMAT: CommandError = CommandError::text("ERR Bad data format");
const NEGATIVE_TTL: CommandError = CommandError::text("ERR Invalid TTL value, must be >= 0");
const NEGATIVE_IDLETIME: CommandError = CommandError::text("ERR Invalid IDLETIME value, must be >= 0");
const BAD_FREQ: CommandError = CommandError::text("ERR Invalid FREQ value, must be >= 0 and <= 255");

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("dump", 2, Flags::READONLY, "2.6.0", "Returns a value as bytes, as RESTORE takes it.", dump)
        .keys(&[KeySpec::one(&["RO", "access"])])
        .complexity("O(N) for N elements and their bytes"),
    row(
        "restore",
        -4,
        Flags::WRITE.with(Flags::DENYOOM),
        "2.6.0",
        "Makes a key of bytes that DUMP has returned.",
        restore,
    )
    .keys(&[KeySpec::one(&["OW", "update"])])
    .categories(&["@keyspace", "@dangerous"])
    .complexity("O(N*log(N)) for N elements of a sorted set, O(N) for others, and their bytes"),
];

fn dump<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let now = cx.now();
    let version = cx.server.config.snapshot().rdb_version.number();
    match cx.entry(args.at(1)).and_then(|entry| payload_of(entry, now, version)) {
        Some(payload) => cx.reply.bulk(&payload),
        None => cx.reply.null(),
    }
    Ok(())
}

/// The options after the payload.
#[derive(Debug, Default, PartialEq)]
struct RestoreOptions {
    replace: bool,
    /// `ABSTTL`: the TTL is a point in time.
    absolute: bool,
    /// `IDLETIME`, in seconds.
    idle_s: Option<u64>,
    /// `FREQ`.
    frequency: Option<u8>,
}

impl RestoreOptions {
    fn parse(args: Args<'_>) -> Result<RestoreOptions, CommandError> {
        let mut options = RestoreOptions::default();
        let mut words = args.tail(4).iter();
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(b"replace") {
                options.replace = true;
            } else if word.eq_ignore_ascii_case(b"absttl") {
                options.absolute = true;
            } else if word.eq_ignore_ascii_case(b"idletime") && options.frequency.is_none() {
                let seconds = parse::integer(words.next().ok_or(CommandError::Syntax)?)?;
                options.idle_s = Some(u64::try_from(seconds).map_err(|_| NEGATIVE_IDLETIME)?);
            } else if word.eq_ignore_ascii_case(b"freq") && options.idle_s.is_none() {
                let freq = parse::integer(words.next().ok_or(CommandError::Syntax)?)?;
                options.frequency = Some(u8::try_from(freq).map_err(|_| BAD_FREQ)?);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }

    /// The note of use that the key gets, if it is told as the policy needs it.
    fn used(&self) -> Option<Use> {
        self.idle_s.and_then(Use::of_idle_s).or_else(|| self.frequency.and_then(Use::of_frequency))
    }

    /// When the key expires by its TTL, of which 0 says never.
    fn expiry(&self, ttl: i64, now: UnixMs) -> Result<Option<UnixMs>, CommandError> {
        if ttl == 0 {
            return Ok(None);
        }
        let form = if self.absolute { ExpiryForm::AtMillis } else { ExpiryForm::Millis };
        let at = form.resolve(ttl, now).and_then(|at| UnixMs::try_from(at).ok());
        at.map(Some).ok_or_else(|| parse::invalid_expiry("restore"))
    }
}

fn restore<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let options = RestoreOptions::parse(args)?;
    let key = args.at(1);
    let is_there = cx.entry(key).is_some();
    if is_there && !options.replace {
        return Err(BUSY_KEY);
    }
    let ttl = parse::integer(args.at(2))?;
    if ttl < 0 {
        return Err(NEGATIVE_TTL);
    }
    let mut builder = ChangeBuilder::default();
    let read = match cx.server.skips_checksums.load(Ordering::Relaxed) {
        false => payload::read(args.at(3), &mut builder),
        true => payload::read_unchecked(args.at(3), &mut builder),
    };
    read.map_err(|error| refusal(&error))?;
    let expiry = options.expiry(ttl, cx.now())?;
    let change = builder.finish(expiry).ok().flatten().ok_or(BAD_FORMAT)?;
    if expiry.is_none_or(|at| at > cx.now()) {
        if let Some(used) = options.used() {
            cx.keys.give_use(cx.db, key, used);
        }
        cx.write(key, change);
    } else if is_there {
        cx.write(key, Change::Delete);
    }
    cx.reply.ok();
    Ok(())
}

/// Redis's words; what only Tarn refuses is told by name.
fn refusal(error: &PayloadError) -> CommandError {
    match error {
        PayloadError::Short(_) | PayloadError::Version(_) | PayloadError::Checksum => BAD_FOOTER,
        PayloadError::Value(ReadError::Unsupported { what, number, .. }) => CommandError::owned(format!(
            "ERR Bad data format: {what} (type {number}), which Tarn cannot hold"
        )),
        PayloadError::Value(_) | PayloadError::Long => BAD_FORMAT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_a_time_from_now_or_a_point_in_time() {
        let (relative, absolute) =
            (RestoreOptions::default(), RestoreOptions { absolute: true, ..RestoreOptions::default() });
        assert_eq!(relative.expiry(0, 100), Ok(None));
        assert_eq!(absolute.expiry(0, 100), Ok(None));
        assert_eq!(relative.expiry(5, 100), Ok(Some(105)));
        assert_eq!(absolute.expiry(5, 100), Ok(Some(5)));
        assert_eq!(absolute.expiry(i64::MAX, 100), Ok(Some(i64::MAX as u64)));
        assert_eq!(relative.expiry(i64::MAX, 100), Err(parse::invalid_expiry("restore")));
    }
}
