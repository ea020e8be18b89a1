//! Rules: one word each. Those about commands, keys, channels and databases are of a selector.

use std::borrow::Cow;
use std::num::IntErrorKind;

use crate::acl::catalog::{Catalog, category};
use crate::acl::selector::{Access, Commands, KeyPattern, Selector};

/// Why a rule is refused, in the words of Redis and Valkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// There is no such command or category.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// It is no rule.
    #[error("Syntax error")]
    Syntax,
    /// A pattern of keys where all are allowed.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
         effect. Try 'resetkeys' to start with an empty list of patterns"
    )]
    AfterAllKeys,
    /// A pattern of channels where all are allowed.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
         effect. Try 'resetchannels' to start with an empty list of channels"
    )]
    AfterAllChannels,
    /// The user has no such password.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// It is no SHA-256 in hexadecimal.
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    NoHash,
    /// A user is described twice.
    #[error("Duplicate user found. A user can only be defined once in config files")]
    Duplicate,
    /// A first argument of a subcommand.
    #[error("Allowing first-arg of a subcommand is not supported")]
    OfSubcommand,
    /// No database has such a number.
    #[error("The provided database ID is out of range")]
    NoDatabase,
}

/// The words of rules, those of a selector in one.
pub type Words<'a> = Vec<Cow<'a, [u8]>>;

/// The part of a rule that may be shown: behind it a password may have grown together with it.
pub fn without_password(rule: &[u8]) -> &[u8] {
    let end = rule.iter().position(|byte| b">#<!".contains(byte));
    &rule[..end.unwrap_or(rule.len())]
}

/// Puts the words of each selector together, which may be written apart; an error: the index of the word that
/// opens one which nothing closes.
pub fn merge_selectors<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> Result<Words<'a>, usize> {
    let mut merged = Words::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (i, word) in words.into_iter().enumerate() {
        let closes = word.last() == Some(&b')');
        if word.first() == Some(&b'(') && !closes {
            open = Some((i, word.to_vec()));
            continue;
        }
        match open.take() {
            None => merged.push(Cow::Borrowed(word)),
            Some((first, mut text)) => {
                text.push(b' ');
                text.extend_from_slice(word);
                if closes {
                    merged.push(Cow::Owned(text));
                } else {
                    open = Some((first, text));
                }
            }
        }
    }
    open.map_or(Ok(merged), |(first, _)| Err(first))
}

/// Whether a name or a pattern has white space or a NUL in it, which no line could hold.
pub fn has_spaces(word: &[u8]) -> bool {
    word.iter().any(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0))
}

/// Whether a rule is this word, in any case.
pub(super) fn is(rule: &[u8], word: &str) -> bool {
    rule.eq_ignore_ascii_case(word.as_bytes())
}

/// Applies a rule about commands, keys, channels or databases.
pub(super) fn apply_to_selector(
    selector: &mut Selector,
    rule: &[u8],
    catalog: &Catalog,
) -> Result<(), RuleError> {
    match rule {
        _ if is(rule, "allkeys") || rule == b"~*" => (selector.all_keys, selector.keys) = (true, Vec::new()),
        _ if is(rule, "resetkeys") => (selector.all_keys, selector.keys) = (false, Vec::new()),
        _ if is(rule, "allchannels") || rule == b"&*" => {
            (selector.all_channels, selector.channels) = (true, Vec::new());
        }
        _ if is(rule, "resetchannels") => (selector.all_channels, selector.channels) = (false, Vec::new()),
        _ if is(rule, "alldbs") => selector.databases = None,
        _ if is(rule, "resetdbs") => selector.databases = Some(Default::default()),
        _ if is(rule, "allcommands") || is(rule, "+@all") => set_all(selector, catalog, true),
        _ if is(rule, "nocommands") || is(rule, "-@all") => set_all(selector, catalog, false),
        [b'~', pattern @ ..] => add_keys(selector, pattern, Access::ALL)?,
        [b'%', rest @ ..] => {
            let (access, pattern) = access_of(rest, selector)?;
            add_keys(selector, pattern, access)?;
        }
        [b'&', pattern @ ..] => add_channels(selector, pattern)?,
        [b'+', b'@', name @ ..] => set_category(selector, catalog, name, true)?,
        [b'-', b'@', name @ ..] => set_category(selector, catalog, name, false)?,
        // There is nothing to allow or to forbid. A file of Redis has such rules.
        [b'+' | b'-', name @ ..] if catalog.is_absent(name) => {}
        [b'+', name @ ..] => allow(selector, catalog, name)?,
        [b'-', name @ ..] => {
            let number = catalog.find(name).ok_or(RuleError::Unknown)?;
            change(selector, catalog, number, false);
        }
        _ => match rule.split_at_checked(3) {
            Some((head, list)) if is(head, "db=") => selector.databases = Some(databases(list)?),
            _ => return Err(RuleError::Syntax),
        },
    }
    Ok(())
}

fn set_all(selector: &mut Selector, catalog: &Catalog, allow: bool) {
    selector.commands = Commands::filled(catalog.len(), allow);
    (selector.future, selector.all_commands) = (allow, allow);
    selector.first_args.clear();
}

fn change(selector: &mut Selector, catalog: &Catalog, number: usize, allow: bool) {
    selector.commands.change(catalog, number, allow);
    selector.all_commands &= allow;
    selector.first_args.remove(&number);
}

fn set_category(
    selector: &mut Selector,
    catalog: &Catalog,
    name: &[u8],
    allow: bool,
) -> Result<(), RuleError> {
    let category = category(name).ok_or(RuleError::Unknown)?;
    catalog.of_category(category).for_each(|number| change(selector, catalog, number, allow));
    Ok(())
}

/// `+command`, `+command|subcommand`, or `+command|first-argument`.
fn allow(selector: &mut Selector, catalog: &Catalog, name: &[u8]) -> Result<(), RuleError> {
    let Some(bar) = name.iter().rposition(|byte| *byte == b'|') else {
        let number = catalog.find(name).ok_or(RuleError::Unknown)?;
        change(selector, catalog, number, true);
        return Ok(());
    };
    let (parent, first_arg) = (&name[..bar], &name[bar + 1..]);
    let number = catalog.find(parent).ok_or(RuleError::Unknown)?;
    if catalog.is_subcommand(number) {
        return Err(RuleError::OfSubcommand);
    }
    if first_arg.is_empty() {
        return Err(RuleError::Syntax);
    }
    if !catalog.subcommands(number).is_empty() {
        let number = catalog.find(name).ok_or(RuleError::Unknown)?;
        change(selector, catalog, number, true);
        return Ok(());
    }
    if has_spaces(first_arg) {
        // The line that is made of the rule could not be read back.
        return Err(RuleError::Syntax);
    }
    let allowed = selector.first_args.entry(number).or_default();
    if !allowed.iter().any(|own| own.eq_ignore_ascii_case(first_arg)) {
        allowed.push(first_arg.into());
    }
    Ok(())
}

/// The uses that stand between `%` and `~`, and the pattern behind it.
fn access_of<'a>(rest: &'a [u8], selector: &Selector) -> Result<(Access, &'a [u8]), RuleError> {
    if selector.all_keys {
        return Err(RuleError::AfterAllKeys);
    }
    let mut access = Access::NONE;
    for (i, byte) in rest.iter().enumerate() {
        match byte {
            b'r' | b'R' if !access.has(Access::READ) => access = access.with(Access::READ),
            b'w' | b'W' if !access.has(Access::WRITE) => access = access.with(Access::WRITE),
            // Redis takes a pattern for nothing, which it cannot write down.
            b'~' if access != Access::NONE => return Ok((access, &rest[i + 1..])),
            _ => return Err(RuleError::Syntax),
        }
    }
    // Without `~` it is about the empty key.
    if access == Access::NONE { Err(RuleError::Syntax) } else { Ok((access, b"")) }
}

fn add_keys(selector: &mut Selector, pattern: &[u8], access: Access) -> Result<(), RuleError> {
    if selector.all_keys {
        return Err(RuleError::AfterAllKeys);
    }
    if has_spaces(pattern) {
        return Err(RuleError::Syntax);
    }
    match selector.keys.iter_mut().find(|own| *own.pattern == *pattern) {
        Some(own) => own.access = own.access.with(access),
        None => selector.keys.push(KeyPattern { pattern: pattern.into(), access }),
    }
    Ok(())
}

fn add_channels(selector: &mut Selector, pattern: &[u8]) -> Result<(), RuleError> {
    if selector.all_channels {
        return Err(RuleError::AfterAllChannels);
    }
    if has_spaces(pattern) {
        return Err(RuleError::Syntax);
    }
    if !selector.channels.iter().any(|own| **own == *pattern) {
        selector.channels.push(pattern.into());
    }
    Ok(())
}

/// The numbers of databases in a list with commas.
fn databases(list: &[u8]) -> Result<std::collections::BTreeSet<u32>, RuleError> {
    const MAX: i64 = i32::MAX as i64;
    let number = |word: &[u8]| -> Result<u32, RuleError> {
        let word = std::str::from_utf8(word).map_err(|_| RuleError::Syntax)?;
        match word.parse::<i64>() {
            Ok(number @ 0..=MAX) => Ok(number as u32),
            Err(error) if matches!(error.kind(), IntErrorKind::Empty | IntErrorKind::InvalidDigit) => {
                Err(RuleError::Syntax)
            }
            _ => Err(RuleError::NoDatabase),
        }
    };
    list.split(|byte| *byte == b',').map(number).collect()
}
