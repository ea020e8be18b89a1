//! Messages of producers: `XADD` adds each once, however often it comes. `XCFGSET` says how long they are
//! remembered.
//!
//! ```text
//!   XADD key IDMP producer message * …
//!     remembered ──> the ID of its entry; counted as a duplicate
//!     not        ──> entry, message, count; some forgotten ones go, of this producer and of the next
//! ```
//!
//! So what is forgotten goes without a search, as long as one producer of the stream adds something.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use sha1_smol::Sha1;
use tarn_engine::value::StreamRef;
use tarn_engine::value::stream::{Idempotence, StreamId, element};
use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[row(
    "xcfgset",
    -2,
    Flags::WRITE.with(Flags::FAST),
    "8.6.0",
    "Says how long a stream remembers messages of producers.",
    xcfgset,
)
.keys(&[KeySpec::one(&["RW", "update"])])
.complexity("O(log N)")];

/// Messages of one producer that are taken away by one that is added, at most.
const REMOVED_MAX: usize = 8;
/// Bytes that the names of a producer and of a message have together at most: each message has both twice.
const NAMES_BYTES_MAX: usize = 1024;
/// For how many seconds messages may be remembered, and how many of a producer.
const DURATION_S: RangeInclusive<i64> = 1..=86_400;
const MESSAGES: RangeInclusive<i64> = 1..=10_000;

/// A message as `XADD` is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Produced<'a> {
    producer: &'a [u8],
    /// The name that the producer gave it; `None`: it is known by its fields.
    name: Option<&'a [u8]>,
}

impl<'a> Produced<'a> {
    /// The number of words that belong to the one at `at`, if it begins to tell of a message and they are
    /// there.
    pub(super) fn names(args: Args<'_>, at: usize) -> Option<usize> {
        let is = |option: &str| args.at(at).eq_ignore_ascii_case(option.as_bytes());
        let more = args.len() - 1 - at;
        match () {
            () if is("idmpauto") && more > 0 => Some(1),
            () if is("idmp") && more > 1 => Some(2),
            () => None,
        }
    }

    /// The message of which the word at `at` begins to tell. REQUIRES: the words behind it are there.
    pub(super) fn parse(args: Args<'a>, at: usize) -> Result<Produced<'a>, CommandError> {
        const TOO_LONG: CommandError = CommandError::text(
            "ERR the names of a producer and of a message have more than 1024 bytes together",
        );
        let producer = args.at(at + 1);
        let name = (Produced::names(args, at) == Some(2)).then(|| args.at(at + 2));
        if producer.is_empty() {
            let word = if name.is_some() { "IDMP" } else { "IDMPAUTO" };
            return Err(CommandError::owned(format!(
                "ERR syntax error, {word} requires a non-empty producer ID"
            )));
        }
        if name.is_some_and(|name| name.is_empty()) {
            return Err(CommandError::text("ERR syntax error, IDMP requires a non-empty idempotent ID"));
        }
        if producer.len() + name.map_or(0, |name| name.len()) > NAMES_BYTES_MAX {
            return Err(TOO_LONG);
        }
        Ok(Produced { producer, name })
    }

    /// The message with these fields and values, for a stream.
    pub(super) fn message(
        self,
        cx: &Context<'_, '_>,
        stream: Option<StreamRef<'_>>,
        fields: Args<'_>,
    ) -> Message<'a> {
        let how = stream.and_then(|stream| stream.idempotence()).unwrap_or_else(|| defaults(cx));
        let name = self.name.map_or_else(|| Cow::Owned(name_of(fields)), Cow::Borrowed);
        Message { producer: self.producer, name, how }
    }
}

/// The name of a message that is known by its fields, which may come in any order.
fn name_of(fields: Args<'_>) -> Vec<u8> {
    let mut sum = 0u128;
    for pair in 0..fields.len() / 2 {
        let (field, value) = (fields.at(2 * pair), fields.at(2 * pair + 1));
        let mut hash = Sha1::new();
        hash.update(&(field.len() as u64).to_le_bytes());
        hash.update(field);
        hash.update(value);
        let digest = hash.digest().bytes();
        let number = digest.iter().take(16).fold(0u128, |number, byte| (number << 8) | u128::from(*byte));
        // A sum keeps no order, and tells one pair that comes twice from another that does.
        sum = sum.wrapping_add(number);
    }
    sum.to_be_bytes().to_vec()
}

/// The way in which a stream remembers messages, where nobody has said another.
fn defaults(cx: &Context<'_, '_>) -> Idempotence {
    let config = cx.server.config.snapshot();
    let (duration_s, messages_max) = (config.stream_idmp_duration_s, config.stream_idmp_messages_max);
    Idempotence { duration_s, messages_max, added: 0, duplicates: 0, forgotten: 0 }
}

/// A message of a producer, which may be in a stream already.
pub(super) struct Message<'a> {
    producer: &'a [u8],
    name: Cow<'a, [u8]>,
    how: Idempotence,
}

impl<'a> Message<'a> {
    /// The ID of its entry, if it has been added and is remembered.
    pub(super) fn entry(&self, stream: StreamRef<'_>, now: u64) -> Option<StreamId> {
        stream.producer(self.producer).entry_of(&self.name, &self.how, now)
    }

    /// Notes that it has come again.
    pub(super) fn count_again(&self, cx: &mut Context<'_, 'a>, key: &'a [u8]) {
        let duplicates = self.how.duplicates.saturating_add(1);
        cx.write(key, element::put_idempotence(&Idempotence { duplicates, ..self.how }));
    }

    /// Notes that it has been added as the entry with this ID, and takes some away that are forgotten.
    pub(super) fn remember(
        &self,
        cx: &mut Context<'_, 'a>,
        key: &'a [u8],
        stream: Option<StreamRef<'_>>,
        id: StreamId,
    ) {
        if let Some(stream) = stream {
            self.forget_some(cx, key, stream);
        }
        let added = self.how.added.saturating_add(1);
        cx.write(key, element::put_message(self.producer, &self.name, added, id));
        cx.write(key, element::put_idempotence(&Idempotence { added, ..self.how }));
    }

    fn forget_some(&self, cx: &mut Context<'_, 'a>, key: &'a [u8], stream: StreamRef<'_>) {
        let now = cx.now();
        let producer = stream.producer(self.producer);
        // As many as there are then, with the one that is added.
        let mut with_it = producer.count() as u64 + 1;
        for message in producer.messages().take(REMOVED_MAX) {
            if self.how.is_young(&message, now) && with_it <= self.how.messages_max {
                break;
            }
            cx.write(key, element::remove_message(self.producer, message.name));
            with_it -= 1;
        }
        let Some(other) = producer.following_around() else { return };
        if other.name() == self.producer {
            return;
        }
        let old = other.messages().take_while(|message| !self.how.is_young(message, now));
        for message in old.take(REMOVED_MAX) {
            cx.write(key, element::remove_message(other.name(), message.name));
        }
    }
}

/// Producers at which `XINFO` looks, and messages that are forgotten, together at most.
const LOOKS_MAX: usize = 1 << 16;

/// The messages that a stream remembers.
pub(super) struct Remembered {
    pub(super) how: Idempotence,
    /// The number of producers with messages that are remembered.
    pub(super) producers: u64,
    /// The number of their messages.
    pub(super) messages: u64,
}

impl Remembered {
    /// Those of this stream, if it ever had to remember one. Of very many producers those that come first by
    /// their names.
    pub(super) fn of(stream: StreamRef<'_>, now: u64) -> Option<Remembered> {
        let how = stream.idempotence()?;
        let (mut producers, mut messages, mut looks) = (0, 0, LOOKS_MAX);
        for producer in stream.producers() {
            let Some((of_it, old)) = producer.remembered(&how, now, looks) else { break };
            producers += u64::from(of_it > 0);
            messages += of_it;
            let Some(left) = looks.checked_sub(old + 1) else { break };
            looks = left;
        }
        Some(Remembered { how, producers, messages })
    }
}

/// A number that `XCFGSET` is told for the first time, or why it is none.
fn setting(
    known: Option<u64>,
    (name, unit): (&str, &str),
    range: RangeInclusive<i64>,
    text: &[u8],
) -> Result<Option<u64>, CommandError> {
    if known.is_some() {
        return Err(CommandError::owned(format!("ERR {name} specified multiple times")));
    }
    let number = parse::integer(text)?;
    if !range.contains(&number) {
        let (least, most) = range.into_inner();
        return Err(CommandError::owned(format!("ERR {name} must be between {least} and {most} {unit}")));
    }
    Ok(u64::try_from(number).ok())
}

fn xcfgset<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let stream = cx.stream(key)?.ok_or(CommandError::NoSuchKey)?;
    let (mut duration_s, mut messages_max) = (None, None);
    let mut at = 2;
    while at < args.len() {
        let is = |option: &str| args.at(at).eq_ignore_ascii_case(option.as_bytes());
        match args.get(at + 1) {
            Some(text) if is("idmp-duration") => {
                duration_s = setting(duration_s, ("IDMP-DURATION", "seconds"), DURATION_S, text)?;
            }
            Some(text) if is("idmp-maxsize") => {
                messages_max = setting(messages_max, ("IDMP-MAXSIZE", "entries"), MESSAGES, text)?;
            }
            _ => return Err(CommandError::Syntax),
        }
        at += 2;
    }
    if duration_s.is_none() && messages_max.is_none() {
        return Err(CommandError::text("ERR At least one parameter must be specified"));
    }
    let known = stream.idempotence();
    let before = known.unwrap_or_else(|| defaults(cx));
    let mut how = Idempotence {
        duration_s: duration_s.unwrap_or(before.duration_s),
        messages_max: messages_max.unwrap_or(before.messages_max),
        ..before
    };
    if how != before {
        how.forgotten = how.added;
    }
    if known != Some(how) {
        cx.write(key, element::put_idempotence(&how));
    }
    cx.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tarn_resp::OwnedArgs;

    fn name(fields: &str) -> Vec<u8> {
        let fields: OwnedArgs = fields.split(' ').collect();
        name_of(fields.as_args())
    }

    #[test]
    fn a_message_is_known_by_its_fields_in_any_order() {
        assert_eq!(name("a 1 b 2"), name("b 2 a 1"));
        assert_eq!(name("a 1").len(), 16);
        for other in ["a 1", "a 2 b 1", "a 1 b 2 b 2", "a 1 b 2 c 3", "b 2", "ab 1 2 3", "a 1 a 1"] {
            assert_ne!(name("a 1 b 2"), name(other), "{other}");
        }
        assert_ne!(name("a 1 a 1"), name("b 2 b 2"), "what comes twice does not vanish");
        assert_ne!(name("ab c"), name("a bc"), "a field ends where it ends");
    }

    #[test]
    fn a_message_has_both_names_or_the_first_and_none_is_empty() {
        let parse = |words: &str| {
            let args: OwnedArgs = words.split(' ').collect();
            let args = args.as_args();
            let names = Produced::names(args, 0)?;
            Some((names, Produced::parse(args, 0).map(|_| ()).map_err(|error| error.to_string())))
        };
        assert_eq!(parse("IDMP p m * a b"), Some((2, Ok(()))));
        assert_eq!(parse("idmpauto p"), Some((1, Ok(()))));
        assert_eq!(parse("IDMP p"), None);
        assert_eq!(parse("IDMPAUTO"), None);
        assert_eq!(parse("IDM p m"), None);
        let empty = |text: &str| Err(format!("ERR syntax error, {text}"));
        assert_eq!(parse("IDMP  m *"), Some((2, empty("IDMP requires a non-empty producer ID"))));
        assert_eq!(parse("IDMP p  *"), Some((2, empty("IDMP requires a non-empty idempotent ID"))));
        assert_eq!(parse("IDMPAUTO  *"), Some((1, empty("IDMPAUTO requires a non-empty producer ID"))));
        let long = "x".repeat(600);
        assert!(parse(&format!("IDMP {long} {long} *")).is_some_and(|(_, parsed)| parsed.is_err()));
    }
}
