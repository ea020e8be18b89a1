//! Strings compared with the bytes, or with the digest, that a client expects: `DIGEST`, `DELEX`, `DELIFEQ`,
//! and the conditions of `SET`.
//!
//! A digest is the 64-bit XXH3 hash of the bytes in 16 hexadecimal digits, as in Redis 8.4.

use std::hash::Hasher;

use tarn_engine::Entry;
use tarn_engine::record::{Change, Kind};
use tarn_engine::value::{StringRef, ValueRef};
use tarn_resp::Args;
use twox_hash::XxHash3_64;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse::Comparison;
use crate::execute::spec::{Flags, KeySpec};

const DELETES: Flags = Flags::WRITE.with(Flags::FAST);
const LINEAR: &str = "O(N) for N bytes";

/// Digits of a digest.
const DIGEST_LEN: usize = 16;

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("digest", 2, Flags::READONLY.with(Flags::FAST), "8.4.0", "Returns the digest of a string.", digest)
        .keys(&[KeySpec::one(&["RO", "access"])])
        .complexity(LINEAR),
    row("delex", -2, DELETES, "8.4.0", "Deletes a key, or a string that compares as expected.", delex)
        .keys(&[KeySpec::one(&["RW", "delete", "variable_flags"])])
        .complexity(LINEAR),
    row("delifeq", 3, DELETES, "9.0.0", "Deletes a string that equals another, as in Valkey.", delifeq)
        .keys(&[KeySpec::one(&["RM", "delete"])])
        .complexity(LINEAR),
];

impl Comparison {
    /// Whether a string compares so with `operand`, which is bytes or a digest.
    pub(super) fn holds(self, string: StringRef<'_>, operand: &[u8]) -> Result<bool, CommandError> {
        Ok(match self {
            Comparison::Equal => is_equal(string, operand),
            Comparison::Different => !is_equal(string, operand),
            Comparison::DigestEqual => has_digest(string, operand)?,
            Comparison::DigestDifferent => !has_digest(string, operand)?,
        })
    }

    /// As [`Comparison::holds`]; a missing key differs from everything.
    pub(super) fn holds_at(
        self,
        string: Option<StringRef<'_>>,
        operand: &[u8],
    ) -> Result<bool, CommandError> {
        match string {
            Some(string) => self.holds(string, operand),
            None => Ok(matches!(self, Comparison::Different | Comparison::DigestDifferent)),
        }
    }
}

fn is_equal(string: StringRef<'_>, bytes: &[u8]) -> bool {
    if string.len() != bytes.len() {
        return false;
    }
    let mut rest = bytes;
    string.pieces(0..string.len()).all(|piece| {
        let (here, behind) = rest.split_at(piece.len());
        rest = behind;
        piece == here
    })
}

/// Whether a string has this digest. As in Redis its length is looked at, and not its digits: others than
/// hexadecimal ones are those of no string.
fn has_digest(string: StringRef<'_>, digest: &[u8]) -> Result<bool, CommandError> {
    if digest.len() != DIGEST_LEN {
        return Err(CommandError::text("ERR must be exactly 16 hexadecimal characters"));
    }
    Ok(digits(hash(string)).as_bytes().eq_ignore_ascii_case(digest))
}

fn hash(string: StringRef<'_>) -> u64 {
    match string.whole() {
        Some(bytes) => XxHash3_64::oneshot(bytes),
        None => hash_of(string.pieces(0..string.len())),
    }
}

fn hash_of<'p>(pieces: impl Iterator<Item = &'p [u8]>) -> u64 {
    let mut hasher = XxHash3_64::new();
    pieces.for_each(|piece| hasher.write(piece));
    hasher.finish()
}

fn digits(hash: u64) -> String {
    format!("{hash:0DIGEST_LEN$x}")
}

fn digest<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let entry = cx.entry_of(args.at(1), Kind::String)?;
    let Some((entry, string)) = entry.and_then(|entry| Some((entry, entry.value().bytes()?))) else {
        cx.reply.null();
        return Ok(());
    };
    if !cx.is_long(0, string.len()) {
        cx.reply.bulk(digits(hash(string)).as_bytes());
        return Ok(());
    }
    let copy = cx.keys.copy(entry);
    cx.run_in_steps(0, async move |steps| {
        let Some(string) = copy.value().bytes() else { return Ok(()) };
        let mut hasher = XxHash3_64::new();
        for piece in string.pieces(0..string.len()) {
            hasher.write(piece);
            steps.pass(piece.len() / 64).await;
        }
        steps.reply(|reply| reply.bulk(digits(hasher.finish()).as_bytes()));
        Ok(())
    });
    Ok(())
}

fn delex<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    const UNKNOWN: CommandError =
        CommandError::text("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE");
    const NO_STRING: CommandError =
        CommandError::text("ERR Key should be of string type if conditions are specified");
    let key = args.at(1);
    let value = cx.entry(key).map(Entry::value);
    let is_deleted = match (args.len(), value) {
        (2, value) => value.is_some(),
        (4, None) => false,
        (4, Some(ValueRef::String(string))) => {
            Comparison::of_option(args.at(2)).ok_or(UNKNOWN)?.holds(string, args.at(3))?
        }
        (4, Some(_)) => return Err(NO_STRING),
        _ => return Err(CommandError::Arity("delex".into())),
    };
    delete_if(cx, key, is_deleted);
    Ok(())
}

fn delifeq<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let key = args.at(1);
    let is_deleted = cx.string(key)?.is_some_and(|string| is_equal(string, args.at(2)));
    delete_if(cx, key, is_deleted);
    Ok(())
}

/// Deletes a key that is there, or not; replies how many keys are gone.
fn delete_if<'a>(cx: &mut Context<'_, 'a>, key: &'a [u8], is_deleted: bool) {
    if is_deleted {
        cx.write(key, Change::Delete);
    }
    cx.reply.integer(i64::from(is_deleted));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_redis() {
        for (value, digest) in [
            ("hello", "9555e8555c62dcfd"),
            ("", "2d06800538d394c2"),
            ("123", "404a763b3f4c8c9a"),
            ("v8", "0cc76dbb41381419"),
            (
                "v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5\
                 wdizgcdw7uc26nnf961u2jkfzkjytls2kwlj7626sd",
                "00006c38adf31777",
            ),
        ] {
            assert_eq!(digits(XxHash3_64::oneshot(value.as_bytes())), digest, "{value}");
        }
    }

    #[test]
    fn a_string_in_pieces_has_the_digest_of_the_whole() {
        let bytes: Vec<u8> = (0..40_000usize).map(|at| (at * 7 + at / 256) as u8).collect();
        for len in [0, 1, 8, 16, 128, 240, 241, 1_024, 16_368, 40_000] {
            let whole = &bytes[..len];
            for piece in [1, 63, 64, 4_000, 16_368] {
                assert_eq!(hash_of(whole.chunks(piece)), XxHash3_64::oneshot(whole), "{len} by {piece}");
            }
        }
    }

    #[test]
    fn a_missing_key_differs_from_everything() {
        let string = |text: &'static str| Some(StringRef::from(text.as_bytes()));
        let (hello, other) = ("9555E8555c62dcfd", "zzzzzzzzzzzzzzzz");
        let cases = [
            (Comparison::Equal, string("hello"), "hello", true),
            (Comparison::Equal, string("hello"), "hellO", false),
            (Comparison::Equal, string(""), "", true),
            (Comparison::Equal, None, "", false),
            (Comparison::Different, string("hello"), "hello", false),
            (Comparison::Different, string("hello"), "hello!", true),
            (Comparison::Different, None, "", true),
            (Comparison::DigestEqual, string("hello"), hello, true),
            (Comparison::DigestEqual, string("hello"), other, false),
            (Comparison::DigestEqual, None, "short", false),
            (Comparison::DigestDifferent, string("hello"), hello, false),
            (Comparison::DigestDifferent, string("hello"), other, true),
            (Comparison::DigestDifferent, None, "short", true),
        ];
        for (comparison, string, operand, expected) in cases {
            assert_eq!(
                comparison.holds_at(string, operand.as_bytes()),
                Ok(expected),
                "{comparison:?} {operand}"
            );
        }
        assert!(Comparison::DigestEqual.holds_at(string("hello"), b"short").is_err());
    }
}
