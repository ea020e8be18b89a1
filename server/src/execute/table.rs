//! The table of all commands, and the look-up of a name in it.
//!
//! A command may have another name than its row says, or none (`rename-command`). Only the look-up knows:
//! what is told of a command, and what rules of users name, is the row's.

use std::collections::BTreeSet;

use hashbrown::HashTable;
use tarn_resp::Args;
use thiserror::Error;

use crate::execute::command::Command;
use crate::execute::spec::{Flags, KeySpec};

/// The commands of one group, as `COMMAND DOCS` names it.
pub type Family = (&'static str, &'static [Command]);

/// A command and the number under which its calls are counted; its subcommands have the numbers behind it.
#[derive(Clone, Copy)]
pub struct Found {
    /// The group of its family: `string`, `list`, `generic`, `server` … .
    pub group: &'static str,
    /// The command.
    pub command: &'static Command,
    /// Its slot among the counters.
    pub slot: usize,
}

/// All commands.
pub struct Table {
    families: &'static [Family],
    by_name: HashTable<Row>,
    /// The few whose names have more than 16 bytes.
    long_names: Vec<(Vec<u8>, Found)>,
    /// The slots of commands that have no name any more.
    nameless: BTreeSet<usize>,
    by_slot: Vec<&'static Command>,
    uses: Uses,
}

/// Says what a request of the command of this name does with the keys of a group, in the words of its flags.
pub type Uses = for<'a, 'k> fn(&str, Args<'a>, &'k KeySpec) -> &'static [&'static str];

/// Whether a first word begins a line of an HTTP request. A browser sends such lines to any port, for any
/// page that it shows, and the body that follows is the page's. So no command has such a name.
#[cold]
pub(super) fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:")
}

/// Why a command cannot be renamed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RenameError {
    /// No command has the old name.
    #[error("No such command in rename-command")]
    NoCommand,
    /// A command has the new one, or it is one that closes connections.
    #[error("Target command name already exists")]
    NameTaken,
}

/// A command under its name as one number.
#[derive(Clone, Copy)]
struct Row {
    /// The name, padded with zeros.
    name: u128,
    /// The bit of case of each of its letters.
    letters: u128,
    /// The bytes of the name.
    len: usize,
    found: Found,
}

/// The bit of case in every byte. With it names in any case have the same hash; other bytes may, too.
const CASES: u128 = 0x2020_2020_2020_2020_2020_2020_2020_2020;

impl Row {
    /// The row of a command under a name in lower case; `None` if that has more than 16 bytes.
    fn of(name: &[u8], found: Found) -> Option<Row> {
        let cases: Vec<u8> = name.iter().map(|byte| u8::from(byte.is_ascii_lowercase()) << 5).collect();
        Some(Row { name: as_number(name)?, letters: as_number(&cases)?, len: name.len(), found })
    }

    /// Whether these bytes, so many, are the name in any case. The length tells NULs from padding.
    #[inline]
    fn is_named(&self, bytes: u128, len: usize) -> bool {
        bytes | self.letters == self.name && len == self.len
    }
}

/// At most 16 bytes as one number, padded with zeros. They are read in two parts, which may overlap: bytes
/// that have just been put into memory in pieces are not soon read from there as one number.
#[inline]
fn as_number(name: &[u8]) -> Option<u128> {
    let behind = |from: usize| 8 * (name.len() - from) as u32;
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
        return (name.len() <= 16).then(|| u128::from(first) | u128::from(last) << behind(size_of::<u64>()));
    }
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return Some(u128::from(first) | u128::from(last) << behind(size_of::<u32>()));
    }
    Some(name.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte)))
}

#[inline]
const fn mix(folded: u128) -> u64 {
    ((folded as u64) ^ ((folded >> 64) as u64).rotate_left(23))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(29)
}

impl Table {
    /// The table of these families. REQUIRES: no name is there twice.
    pub fn new(families: &'static [Family]) -> Table {
        let mut table = Table {
            families,
            by_name: HashTable::with_capacity(512),
            long_names: Vec::new(),
            nameless: BTreeSet::new(),
            by_slot: Vec::new(),
            uses: |_, _, group| group.flags,
        };
        for found in all(families) {
            table.by_slot.push(found.command);
            table.by_slot.extend(found.command.subcommands);
            table.insert(found.command.name.as_bytes(), found);
        }
        table
    }

    /// The same, with commands under other names: pairs of an old name and a new one, one after the other. A
    /// new name without bytes is none: nobody can call the command any more.
    pub fn renamed<'n>(
        mut self,
        renames: impl IntoIterator<Item = (&'n [u8], &'n [u8])>,
    ) -> Result<Table, RenameError> {
        for (old, new) in renames {
            let found = self.remove(old).ok_or(RenameError::NoCommand)?;
            if new.is_empty() {
                self.nameless.insert(found.slot);
            } else if self.find(new).is_some() || is_http(new) {
                return Err(RenameError::NameTaken);
            } else {
                self.insert(&new.to_ascii_lowercase(), found);
            }
        }
        Ok(self)
    }

    /// REQUIRES: no command has the name, which is in lower case.
    fn insert(&mut self, name: &[u8], found: Found) {
        match Row::of(name, found) {
            Some(row) => {
                self.by_name.insert_unique(mix(row.name | CASES), row, |row| mix(row.name | CASES));
            }
            None => self.long_names.push((name.to_vec(), found)),
        }
    }

    fn remove(&mut self, name: &[u8]) -> Option<Found> {
        let Some(bytes) = as_number(name) else {
            let at = self.long_names.iter().position(|(long, _)| long.eq_ignore_ascii_case(name))?;
            return Some(self.long_names.remove(at).1);
        };
        let is_it = |row: &Row| row.is_named(bytes, name.len());
        let row = self.by_name.find_entry(mix(bytes | CASES), is_it).ok()?;
        Some(row.remove().0.found)
    }

    /// The same, where a function says what requests do with keys.
    pub fn with_uses(mut self, uses: Uses) -> Table {
        self.uses = uses;
        self
    }

    /// The use that a request of a command makes of the keys of a group, in the words of `COMMAND INFO`.
    /// `command`: the name of its row.
    #[inline]
    pub fn uses_of(&self, command: &str, request: Args<'_>, group: &KeySpec) -> &'static [&'static str] {
        (self.uses)(command, request, group)
    }

    /// The command of this name, in any case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<Found> {
        let Some(bytes) = as_number(name) else { return self.find_long(name) };
        let row = self.by_name.find(mix(bytes | CASES), |row| row.is_named(bytes, name.len()))?;
        Some(row.found)
    }

    /// The command or subcommand that a request names, as rules of users know it, and its slot.
    pub fn find_part(&self, request: Args<'_>) -> Option<(&'static Command, usize)> {
        let Found { command, slot, .. } = self.find(request.get(0)?)?;
        match request.get(1) {
            Some(name) if !command.subcommands.is_empty() && !command.flags.has(Flags::LOOSE) => {
                let is_named = |sub: &Command| sub.name.as_bytes().eq_ignore_ascii_case(name);
                let at = command.subcommands.iter().position(is_named)?;
                Some((&command.subcommands[at], slot + 1 + at))
            }
            _ => Some((command, slot)),
        }
    }

    #[cold]
    fn find_long(&self, name: &[u8]) -> Option<Found> {
        let is_named = |(long, _): &&(Vec<u8>, Found)| long.eq_ignore_ascii_case(name);
        self.long_names.iter().find(is_named).map(|(_, found)| *found)
    }

    /// The commands that have a name, in the order of the table.
    pub fn named(&self) -> impl Iterator<Item = Found> + use<'_> {
        self.all().filter(|found| !self.nameless.contains(&found.slot))
    }

    /// All commands, in the order of the table.
    pub fn all(&self) -> impl Iterator<Item = Found> + use<> {
        all(self.families)
    }

    /// The command or subcommand whose calls are counted in `slot`.
    pub fn at(&self, slot: usize) -> Option<&'static Command> {
        self.by_slot.get(slot).copied()
    }

    /// Number of counters that all commands and subcommands need.
    pub fn slots(&self) -> usize {
        self.by_slot.len()
    }

    /// Every command and subcommand by its full name (`config|get`), with its slot among the counters.
    pub fn full_names(&self) -> Vec<(String, usize)> {
        let mut names = Vec::with_capacity(self.slots());
        for Found { command, .. } in self.all() {
            names.push((command.name.to_owned(), names.len()));
            for sub in command.subcommands {
                names.push((format!("{}|{}", command.name, sub.name), names.len()));
            }
        }
        names
    }

    /// The full name of the command or subcommand whose calls are counted in `slot`.
    pub fn name_of_slot(&self, slot: usize) -> Option<String> {
        let Found { command, slot: first, .. } = self.all().take_while(|found| found.slot <= slot).last()?;
        match slot - first {
            0 => Some(command.name.to_owned()),
            at => Some(format!("{}|{}", command.name, command.subcommands.get(at - 1)?.name)),
        }
    }
}

fn all(families: &'static [Family]) -> impl Iterator<Item = Found> {
    let rows = families.iter().flat_map(|(group, rows)| rows.iter().map(|command| (*group, command)));
    rows.scan(0, |slots, (group, command)| {
        let slot = *slots;
        *slots += 1 + command.subcommands.len();
        Some(Found { group, command, slot })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands;

    /// A table with these renames.
    fn renamed(renames: &[(&str, &str)]) -> Result<Table, RenameError> {
        let renames = renames.iter().map(|(old, new)| (old.as_bytes(), new.as_bytes()));
        Table::new(commands::FAMILIES).renamed(renames)
    }

    #[test]
    fn a_renamed_command_is_found_by_its_new_name_in_any_case_and_one_without_a_name_is_not_found() {
        let long = "a-name-of-more-than-sixteen-bytes";
        let table =
            renamed(&[("CONFIG", "Conf!g\0"), ("get", long), ("flushall", ""), ("Set", "get"), (long, "g")]);
        let table = table.expect("they are there, and their new names are not");
        let name_of = |name: &str| table.find(name.as_bytes()).map(|found| found.command.name);
        for (name, command) in [
            ("conf!g\0", Some("config")),
            ("CONF!G\0", Some("config")),
            ("conf!g", None),
            ("config", None),
            ("flushall", None),
            ("", None),
            ("G", Some("get")),
            (long, None),
            ("GET", Some("set")),
            ("set", None),
            ("del", Some("del")),
        ] {
            assert_eq!(name_of(name), command, "{name:?}");
        }
        let named: Vec<&str> = table.named().map(|found| found.command.name).collect();
        assert!(named.contains(&"config") && !named.contains(&"flushall"));
        assert_eq!(named.len() + 1, table.all().count());
        assert!(table.full_names().iter().any(|(name, _)| name == "flushall"), "its slot stays");
    }

    #[test]
    fn a_command_that_is_not_there_is_not_renamed_and_a_name_is_taken_once() {
        for (renames, error) in [
            (&[("nosuch", "x")][..], RenameError::NoCommand),
            (&[("get", ""), ("GET", "x")], RenameError::NoCommand),
            (&[("config|get", "x")], RenameError::NoCommand),
            (&[("get", "SET")], RenameError::NameTaken),
            (&[("get", "x"), ("set", "X")], RenameError::NameTaken),
            (&[("get", "post")], RenameError::NameTaken),
            (&[("get", "HOST:")], RenameError::NameTaken),
        ] {
            assert_eq!(renamed(renames).err(), Some(error), "{renames:?}");
        }
        assert!(renamed(&[("get", "GET")]).is_ok(), "its own name is free then");
    }

    #[test]
    fn a_name_as_a_number_is_its_bytes_and_zeros_behind_them() {
        let bytes = b"\x01abcdefghijklmno\xff";
        for len in 0..=bytes.len() {
            let mut padded = [0; 16];
            let expected = padded.get_mut(..len).map(|padded| padded.copy_from_slice(&bytes[..len]));
            assert_eq!(
                as_number(&bytes[..len]),
                expected.map(|()| u128::from_le_bytes(padded)),
                "{len} bytes"
            );
        }
    }
}
