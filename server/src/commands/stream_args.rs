//! The arguments that commands on streams share: IDs, intervals of them, and how a stream is trimmed.

use std::ops::RangeInclusive;

use tarn_engine::value::stream::StreamId;
use tarn_resp::{Args, Writer, parse_i64};

use super::stream_producers::Produced;
use super::stream_trims::{Bound, Refs, Trim, node_entries};
use crate::error::CommandError;
use crate::execute::parse;

/// Nodes, and entries, that `~` removes at most without a `LIMIT`.
const NODES_MAX: u64 = 100;
const LIMIT_MAX: u64 = 1_000_000;

const INVALID_ID: CommandError =
    CommandError::text("ERR Invalid stream ID specified as stream command argument");
const INVALID_START: CommandError = CommandError::text("ERR invalid start ID for the interval");
const INVALID_END: CommandError = CommandError::text("ERR invalid end ID for the interval");
const TWO_STRATEGIES: CommandError =
    CommandError::text("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
const NO_STRATEGY: CommandError =
    CommandError::text("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
const NO_TRIM: CommandError =
    CommandError::text("ERR syntax error, XTRIM must be called with a trimming strategy");
const NOT_ABOUT: CommandError =
    CommandError::text("ERR syntax error, LIMIT cannot be used without the special ~ option");
const TWO_PRODUCERS: CommandError =
    CommandError::text("ERR syntax error, IDMP/IDMPAUTO specified multiple times");
const NOT_OF_PRODUCERS: CommandError =
    CommandError::text("ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs");
const NEGATIVE_LENGTH: CommandError = CommandError::text("ERR The MAXLEN argument must be >= 0.");
const NEGATIVE_LIMIT: CommandError = CommandError::text("ERR The LIMIT argument must be >= 0.");

/// A 64-bit number as Redis reads one in an ID: as `strtoull` does where it is not canonical.
fn number(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_i64(text) {
        return u64::try_from(number).ok();
    }
    let text = std::str::from_utf8(text).ok()?.trim_ascii_start();
    let (is_negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| is_number)?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// The ID of a new entry, as `XADD` is told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewId {
    /// `*`: one for now.
    Auto,
    /// `ms-*`: the next one of that millisecond.
    AutoSeq(u64),
    /// This one.
    Given(StreamId),
}

/// An ID, of which the number within the millisecond may be missing.
pub(super) fn id_or(text: &[u8], missing_seq: u64) -> Result<StreamId, CommandError> {
    if text.len() > 127 {
        return Err(INVALID_ID);
    }
    let (ms, seq) = match text.iter().position(|byte| *byte == b'-') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let seq = seq.map_or(Some(missing_seq), number);
    Ok(StreamId::new(number(ms).ok_or(INVALID_ID)?, seq.ok_or(INVALID_ID)?))
}

/// An ID.
pub(super) fn id(text: &[u8]) -> Result<StreamId, CommandError> {
    id_or(text, 0)
}

/// An ID, or an end of all of them: `-` or `+`.
pub(super) fn id_or_end(text: &[u8]) -> Result<StreamId, CommandError> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        text => id(text),
    }
}

/// The ID of a new entry.
pub(super) fn new_id(text: &[u8]) -> Result<NewId, CommandError> {
    if text == b"*" {
        return Ok(NewId::Auto);
    }
    match text.strip_suffix(b"-*") {
        Some(ms) if !ms.contains(&b'-') && text.len() <= 127 => {
            number(ms).map(NewId::AutoSeq).ok_or(INVALID_ID)
        }
        _ => id(text).map(NewId::Given),
    }
}

/// An end of an interval: an ID, `-` or `+`, and whether it is left out.
fn bound(text: &[u8], missing_seq: u64) -> Result<(StreamId, bool), CommandError> {
    match text {
        b"-" | b"+" => Ok((id_or_end(text)?, false)),
        [b'(', id @ ..] if !id.is_empty() => Ok((id_or(id, missing_seq)?, true)),
        _ => Ok((id_or(text, missing_seq)?, false)),
    }
}

/// Where an interval begins.
pub(super) fn start(text: &[u8]) -> Result<StreamId, CommandError> {
    match bound(text, 0)? {
        (id, true) => id.next().ok_or(INVALID_START),
        (id, false) => Ok(id),
    }
}

/// Where an interval ends, which is in it.
fn end(text: &[u8]) -> Result<StreamId, CommandError> {
    match bound(text, u64::MAX)? {
        (id, true) => id.previous().ok_or(INVALID_END),
        (id, false) => Ok(id),
    }
}

/// An interval.
pub(super) fn interval(from: &[u8], to: &[u8]) -> Result<RangeInclusive<StreamId>, CommandError> {
    Ok(start(from)?..=end(to)?)
}

/// Writes an ID.
pub(super) fn write_id(reply: &mut Writer<'_>, id: StreamId) {
    let (mut ms, mut seq) = (itoa::Buffer::new(), itoa::Buffer::new());
    let pieces = [ms.format(id.ms).as_bytes(), b"-", seq.format(id.seq).as_bytes()];
    let len = pieces.iter().map(|piece| piece.len()).sum();
    reply.bulk_of_pieces(len, pieces.into_iter());
}

/// The options of `XADD` and `XTRIM`, and what stands behind them.
pub(super) struct Options<'a> {
    pub(super) trim: Option<Trim>,
    pub(super) makes_stream: bool,
    /// The message of a producer that the new entry is.
    pub(super) produced: Option<Produced<'a>>,
    /// Where the fields of a new entry begin, and its ID.
    pub(super) entry: Option<(usize, NewId)>,
}

/// Reads the options from the second argument on, and for `XADD` the ID. `setting` is
/// `stream-node-max-entries`.
pub(super) fn options(args: Args<'_>, is_add: bool, setting: usize) -> Result<Options<'_>, CommandError> {
    let (mut bound, mut is_about, mut limit, mut refs) = (None, false, None, None);
    let (mut makes_stream, mut produced, mut entry) = (true, None, None);
    let mut at = 2;
    while at < args.len() {
        let word = args.at(at);
        let is = |option: &str| word.eq_ignore_ascii_case(option.as_bytes());
        let more = args.len() - 1 - at;
        if is_add && word == b"*" {
            entry = Some((at + 1, NewId::Auto));
            break;
        }
        if more > 0 && (is("maxlen") || is("minid")) {
            if bound.is_some() {
                return Err(TWO_STRATEGIES);
            }
            if more > 1 && matches!(args.at(at + 1), b"~" | b"=") {
                is_about = args.at(at + 1) == b"~";
                at += 1;
            }
            at += 1;
            bound = Some(if is("maxlen") {
                let length = parse::integer(args.at(at))?;
                Bound::Length(u64::try_from(length).map_err(|_| NEGATIVE_LENGTH)?)
            } else {
                Bound::Id(id(args.at(at))?)
            });
        } else if more > 0 && is("limit") {
            at += 1;
            limit = Some(u64::try_from(parse::integer(args.at(at))?).map_err(|_| NEGATIVE_LIMIT)?);
        } else if refs.is_none() && Refs::parse(word).is_some() {
            refs = Refs::parse(word);
        } else if is_add && is("nomkstream") {
            makes_stream = false;
        } else if is_add && let Some(names) = Produced::names(args, at) {
            if produced.is_some() {
                return Err(TWO_PRODUCERS);
            }
            produced = Some(Produced::parse(args, at)?);
            at += names;
        } else if is_add {
            let id = new_id(word)?;
            if produced.is_some() {
                return Err(NOT_OF_PRODUCERS);
            }
            entry = Some((at + 1, id));
            break;
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    match (bound, limit) {
        (None, Some(limit)) if limit > 0 => return Err(NO_STRATEGY),
        (None, _) if !is_add => return Err(NO_TRIM),
        (_, Some(_)) if !is_about => return Err(NOT_ABOUT),
        _ => {}
    }
    let node_entries = node_entries(setting);
    let limit_default = || NODES_MAX.saturating_mul(node_entries as u64).min(LIMIT_MAX);
    let about = is_about.then(|| limit.unwrap_or_else(limit_default));
    let refs = refs.unwrap_or_default();
    let trim = bound.map(|bound| Trim { bound, about, node_entries, refs });
    Ok(Options { trim, makes_stream, produced, entry })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use tarn_resp::OwnedArgs;

    type Told = (Option<Trim>, bool, Option<NewId>);

    /// The trim, whether there is a message of a producer, and the new ID.
    fn told_with(setting: usize, request: &str) -> Result<Told, String> {
        let args: OwnedArgs = request.split(' ').collect();
        let is_add = request.starts_with("XADD");
        let read = options(args.as_args(), is_add, setting).map_err(|error| error.to_string())?;
        Ok((read.trim, read.produced.is_some(), read.entry.map(|entry| entry.1)))
    }

    fn told(request: &str) -> Result<Told, String> {
        told_with(0, request)
    }

    #[test]
    fn references_and_messages_stand_anywhere_before_the_id_and_once() {
        let trim = |bound, about, refs| Some(Trim { bound, about, node_entries: 100, refs });
        let length = Bound::Length(5);
        let least = Bound::Id(StreamId::new(3, 0));
        for (request, expected) in [
            ("XTRIM s MAXLEN 5", (trim(length, None, Refs::Keep), false, None)),
            ("XTRIM s acked MAXLEN ~ 5 LIMIT 7", (trim(length, Some(7), Refs::Acked), false, None)),
            ("XTRIM s MINID = 3 DELREF", (trim(least, None, Refs::Remove), false, None)),
            (
                "XADD s DELREF MINID 3 IDMP p m * f v",
                (trim(least, None, Refs::Remove), true, Some(NewId::Auto)),
            ),
            (
                "XADD s IDMPAUTO p MAXLEN ~ 5 KEEPREF * f v",
                (trim(length, Some(10_000), Refs::Keep), true, Some(NewId::Auto)),
            ),
            ("XADD s ACKED 7-* f v", (None, false, Some(NewId::AutoSeq(7)))),
            ("XADD s * IDMP p", (None, false, Some(NewId::Auto))),
        ] {
            assert_eq!(told(request), Ok(expected), "{request}");
        }
        for (request, expected) in [
            ("XTRIM s ACKED", NO_TRIM),
            ("XTRIM s MAXLEN 5 ACKED DELREF", CommandError::Syntax),
            ("XTRIM s MAXLEN 5 IDMP p m", CommandError::Syntax),
            ("XADD s ACKED DELREF * f v", INVALID_ID),
            ("XADD s IDMP p m IDMPAUTO p * f v", TWO_PRODUCERS),
            ("XADD s IDMP p m 1-1 f v", NOT_OF_PRODUCERS),
            ("XADD s IDMP p m 1-* f v", NOT_OF_PRODUCERS),
            ("XADD s IDMP p", INVALID_ID),
        ] {
            assert_eq!(told(request), Err(expected.to_string()), "{request}");
        }
    }

    #[test]
    fn without_a_limit_a_hundred_nodes_go_or_a_million_entries() {
        for (setting, about, node_entries) in
            [(0, 10_000, 100), (1, 100, 1), (10, 1_000, 10), (usize::MAX, 1_000_000, usize::MAX)]
        {
            let expected =
                Trim { bound: Bound::Length(5), about: Some(about), node_entries, refs: Refs::Keep };
            let (trim, ..) = told_with(setting, "XTRIM s MAXLEN ~ 5").unwrap();
            assert_eq!(trim, Some(expected), "{setting}");
        }
    }
}
