//! A selector: commands, keys, channels and databases that go together. A user may what one of its selectors
//! allows as a whole.

use std::collections::{BTreeMap, BTreeSet};

use crate::acl::catalog::Catalog;
use crate::glob;

/// The use of a key that a request makes, or that a pattern allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(pub u8);

impl Access {
    /// None of what it holds: the key may be there or not.
    pub const NONE: Access = Access(0);
    /// Reads what it holds.
    pub const READ: Access = Access(1);
    /// Changes it.
    pub const WRITE: Access = Access(2);
    /// Both.
    pub const ALL: Access = Access(3);

    /// Whether all of `other` is in this.
    pub const fn has(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both together.
    pub const fn with(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// Why a request is not allowed. Of several selectors the gravest in this order counts, as in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denied {
    /// The command.
    Command,
    /// The key, which is the argument at this index; 0: keys that no argument names.
    Key(usize),
    /// The channel, which is the argument at this index.
    Channel(usize),
    /// The database, which the argument at this index names; 0: the selected one, or all.
    Database(usize),
}

/// Keys, and what may be done with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyPattern {
    pub(super) pattern: Box<[u8]>,
    pub(super) access: Access,
    /// The pattern is a text without signs of its own, and one star behind it.
    is_prefix: bool,
}

impl KeyPattern {
    pub(super) fn new(pattern: &[u8], access: Access) -> KeyPattern {
        let text = pattern.strip_suffix(b"*");
        let is_prefix = text.is_some_and(|text| !glob::is_pattern(text));
        KeyPattern { pattern: pattern.into(), access, is_prefix }
    }

    /// The text with which keys have to begin, if that is all that they have to.
    #[inline]
    fn prefix(&self) -> Option<&[u8]> {
        self.pattern.split_last().filter(|_| self.is_prefix).map(|(_, text)| text)
    }

    #[inline]
    fn matches(&self, key: &[u8]) -> bool {
        match (self.prefix(), key) {
            // Each request of a user asks this of each pattern: most differ in the first byte.
            (Some([first, ..]), [own, ..]) if first != own => false,
            // No pattern but the empty one matches the empty key.
            (Some(text), [_, ..]) => key.starts_with(text),
            _ => glob::matches(&self.pattern, key),
        }
    }
}

/// A set of commands by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Commands {
    words: Vec<u64>,
}

impl Commands {
    /// None of `len` commands, or all.
    pub(super) fn filled(len: usize, all: bool) -> Commands {
        Commands { words: vec![if all { u64::MAX } else { 0 }; len.div_ceil(64)] }
    }

    /// Whether it has all that there are.
    pub(super) fn is_full(&self) -> bool {
        self.words.iter().all(|word| *word == u64::MAX)
    }

    #[inline]
    pub(super) fn has(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Adds a command, or takes it out, and its subcommands with it.
    pub(super) fn change(&mut self, catalog: &Catalog, number: usize, allow: bool) {
        for number in std::iter::once(number).chain(catalog.subcommands(number)) {
            if let Some(word) = self.words.get_mut(number / 64) {
                let bit = 1 << (number % 64);
                *word = if allow { *word | bit } else { *word & !bit };
            }
        }
    }
}

/// A selector. A new one allows nothing but all databases, and all channels if `acl-pubsub-default` says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    pub(super) commands: Commands,
    /// Commands that come later are allowed: the rules began with `+@all`.
    pub(super) future: bool,
    /// The rules began with `+@all`, and no command is taken out.
    pub(super) all_commands: bool,
    /// First arguments with which a command is allowed that is not otherwise.
    pub(super) first_args: BTreeMap<usize, Vec<Box<[u8]>>>,
    pub(super) all_keys: bool,
    pub(super) keys: Vec<KeyPattern>,
    pub(super) all_channels: bool,
    pub(super) channels: Vec<Box<[u8]>>,
    /// `None`: all.
    pub(super) databases: Option<BTreeSet<u32>>,
}

impl Selector {
    /// A selector that allows nothing but all databases, and all channels if so said.
    pub fn new(catalog: &Catalog, all_channels: bool) -> Selector {
        Selector {
            commands: Commands::filled(catalog.len(), false),
            future: false,
            all_commands: false,
            first_args: BTreeMap::new(),
            all_keys: false,
            keys: Vec::new(),
            all_channels,
            channels: Vec::new(),
            databases: None,
        }
    }

    /// Whether it allows everything.
    pub fn is_unrestricted(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels && self.databases.is_none()
    }

    /// Whether it allows a command with this first argument.
    #[inline]
    pub fn allows_command(&self, catalog: &Catalog, number: usize, first_arg: Option<&[u8]>) -> bool {
        if self.all_commands {
            return true;
        }
        let number = catalog.ruled(number);
        self.commands.has(number) || self.allows_first_arg(number, first_arg)
    }

    fn allows_first_arg(&self, number: usize, first_arg: Option<&[u8]>) -> bool {
        let allowed = self.first_args.get(&number).zip(first_arg);
        allowed.is_some_and(|(allowed, arg)| allowed.iter().any(|own| own.eq_ignore_ascii_case(arg)))
    }

    /// Whether it allows all keys to be used so, without a look at any.
    #[inline]
    pub fn allows_any_key(&self) -> bool {
        self.all_keys
    }

    /// Whether it allows a key to be used so.
    #[inline]
    pub fn allows_key(&self, key: &[u8], access: Access) -> bool {
        self.all_keys || self.keys.iter().any(|own| own.access.has(access) && own.matches(key))
    }

    /// Whether it allows every key to be used so.
    pub fn allows_every_key(&self, access: Access) -> bool {
        let is_wide = |own: &KeyPattern| own.access.has(access) && glob::is_everything(&own.pattern);
        self.all_keys || self.keys.iter().any(is_wide)
    }

    /// Whether it allows every key that begins and ends so to be used so, as far as one of its patterns shows
    /// that ([`glob::covers`]).
    pub fn allows_keys_between(&self, prefix: &[u8], suffix: &[u8], access: Access) -> bool {
        let covers = |own: &KeyPattern| own.access.has(access) && glob::covers(&own.pattern, prefix, suffix);
        self.all_keys || self.keys.iter().any(covers)
    }

    /// The patterns of keys that it allows to be read.
    pub fn readable(&self) -> impl Iterator<Item = Box<[u8]>> + '_ {
        self.keys.iter().filter(|own| own.access.has(Access::READ)).map(|own| own.pattern.clone())
    }

    /// Whether it allows every key that begins so to be read, as far as its patterns show that: a text
    /// without signs of its own, and one star behind it.
    pub fn allows_prefix(&self, prefix: &[u8], access: Access) -> bool {
        let covers = |own: &KeyPattern| {
            own.access.has(access) && own.prefix().is_some_and(|text| prefix.starts_with(text))
        };
        self.all_keys || self.keys.iter().any(covers)
    }

    /// Whether it allows a channel; a pattern to be subscribed to is allowed as it stands only.
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let matches = |own: &[u8]| if is_pattern { own == channel } else { glob::matches(own, channel) };
        self.all_channels || self.channels.iter().any(|own| matches(own))
    }

    /// Whether it allows a database.
    #[inline]
    pub fn allows_database(&self, database: u32) -> bool {
        self.databases.as_ref().is_none_or(|own| own.contains(&database))
    }

    /// Whether it allows all databases.
    pub fn allows_every_database(&self) -> bool {
        self.databases.is_none()
    }
}
