//! The table of all commands, and the look-up of a name in it.

use hashbrown::HashTable;
use tarn_resp::Args;

use crate::execute::command::Command;
use crate::execute::spec::KeySpec;

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
    long_names: Vec<Found>,
    by_slot: Vec<&'static Command>,
    uses: Uses,
}

/// Says what a request does with the keys of a group, in the words of its flags.
pub type Uses = for<'a, 'k> fn(Args<'a>, &'k KeySpec) -> &'static [&'static str];

/// A command under its name as one number.
#[derive(Clone, Copy)]
struct Row {
    /// The name, padded with zeros.
    name: u128,
    /// The bit of case of each of its letters.
    letters: u128,
    found: Found,
}

/// The bit of case in every byte. With it names in any case have the same hash; other bytes may, too.
const CASES: u128 = 0x2020_2020_2020_2020_2020_2020_2020_2020;

impl Row {
    /// The row of a command; `None` if its name has more than 16 bytes.
    fn of(found: Found) -> Option<Row> {
        let text = found.command.name.as_bytes();
        let cases: Vec<u8> = text.iter().map(|byte| u8::from(byte.is_ascii_lowercase()) << 5).collect();
        Some(Row { name: as_number(text)?, letters: as_number(&cases)?, found })
    }

    /// Whether these bytes, so many, are the name in any case. The length tells NULs from padding.
    #[inline]
    fn is_named(&self, bytes: u128, len: usize) -> bool {
        bytes | self.letters == self.name && len == self.found.command.name.len()
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
            by_slot: Vec::new(),
            uses: |_, group| group.flags,
        };
        for found in all(families) {
            table.by_slot.push(found.command);
            table.by_slot.extend(found.command.subcommands);
            let Some(row) = Row::of(found) else {
                table.long_names.push(found);
                continue;
            };
            table.by_name.insert_unique(mix(row.name | CASES), row, |row| mix(row.name | CASES));
        }
        table
    }

    /// The same, where a function says what requests do with keys.
    pub fn with_uses(mut self, uses: Uses) -> Table {
        self.uses = uses;
        self
    }

    /// The use that a request makes of the keys of a group, in the words of `COMMAND INFO`.
    #[inline]
    pub fn uses_of(&self, request: Args<'_>, group: &KeySpec) -> &'static [&'static str] {
        (self.uses)(request, group)
    }

    /// The command of this name, in any case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<Found> {
        let Some(bytes) = as_number(name) else { return self.find_long(name) };
        let row = self.by_name.find(mix(bytes | CASES), |row| row.is_named(bytes, name.len()))?;
        Some(row.found)
    }

    #[cold]
    fn find_long(&self, name: &[u8]) -> Option<Found> {
        let is_named = |found: &&Found| found.command.name.as_bytes().eq_ignore_ascii_case(name);
        self.long_names.iter().find(is_named).copied()
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
