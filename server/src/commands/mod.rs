//! The table of commands, by family, and the look-up of a name in it.

mod absent;
mod backups;
mod bitfield;
mod bits;
mod checkpoints;
mod client;
pub mod command;
mod config;
pub mod connection;
mod databases;
mod debug;
mod dump;
mod element_scans;
mod expiry;
mod ft;
mod hashes;
mod info;
mod json;
mod keys;
mod lcs;
mod lists;
mod lists_blocking;
mod lists_moving;
mod multi_pop;
mod object;
mod random;
mod ranges;
mod removals;
mod replicas;
mod scan;
mod server;
mod set_algebra;
mod sets;
mod sort;
mod sql;
mod strings;
mod transactions;
mod zset_algebra;
mod zset_bounds;
mod zset_pops;
mod zset_ranges;
mod zsets;

use crate::command::Command;
use crate::context::Context;
use crate::error::CommandError;
use hashbrown::HashTable;
use std::sync::OnceLock;
use tarn_resp::request::Args;

/// All families, each with the group that `COMMAND DOCS` says it is of.
const FAMILIES: &[(&str, &[Command])] = &[
    ("connection", connection::COMMANDS),
    ("connection", client::COMMANDS),
    ("server", checkpoints::COMMANDS),
    ("server", backups::COMMANDS),
    ("server", server::COMMANDS),
    ("server", config::COMMANDS),
    ("server", info::COMMANDS),
    ("server", command::COMMANDS),
    ("server", debug::COMMANDS),
    ("server", sql::COMMANDS),
    ("string", strings::COMMANDS),
    ("string", ranges::COMMANDS),
    ("string", lcs::COMMANDS),
    ("bitmap", bits::COMMANDS),
    ("bitmap", bitfield::COMMANDS),
    ("generic", keys::COMMANDS),
    ("generic", expiry::COMMANDS),
    ("generic", dump::COMMANDS),
    ("generic", scan::COMMANDS),
    ("server", scan::OF_SERVER),
    ("generic", object::COMMANDS),
    ("generic", sort::COMMANDS),
    ("server", databases::COMMANDS),
    ("generic", replicas::COMMANDS),
    ("transactions", transactions::COMMANDS),
    ("hash", hashes::COMMANDS),
    ("json", json::COMMANDS),
    ("search", ft::COMMANDS),
    ("list", lists::COMMANDS),
    ("list", lists_blocking::COMMANDS),
    ("list", lists_moving::COMMANDS),
    ("set", sets::COMMANDS),
    ("set", set_algebra::COMMANDS),
    ("sorted-set", zsets::COMMANDS),
    ("sorted-set", zset_ranges::COMMANDS),
    ("sorted-set", zset_pops::COMMANDS),
    ("sorted-set", zset_algebra::COMMANDS),
    ("hash", random::OF_HASHES),
    ("set", random::OF_SETS),
    ("sorted-set", random::OF_ZSETS),
    ("hash", element_scans::OF_HASHES),
    ("set", element_scans::OF_SETS),
    ("sorted-set", element_scans::OF_ZSETS),
];

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

struct Index {
    by_name: HashTable<Row>,
    slots: usize,
}

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
    fn of(found: Found) -> Row {
        let text = found.command.name.as_bytes();
        let name = as_number(text).expect("names of commands have at most 16 bytes");
        let cases: Vec<u8> = text.iter().map(|byte| u8::from(byte.is_ascii_lowercase()) << 5).collect();
        Row { name, letters: as_number(&cases).expect("as many bytes as the name"), found }
    }

    /// Whether these bytes, so many, are the name in any case. The length tells NULs from padding.
    #[inline]
    fn is_named(&self, bytes: u128, len: usize) -> bool {
        bytes | self.letters == self.name && len == self.found.command.name.len()
    }
}

/// At most 16 bytes as one number, padded with zeros.
#[inline]
fn as_number(name: &[u8]) -> Option<u128> {
    let mut bytes = [0; 16];
    bytes.get_mut(..name.len())?.copy_from_slice(name);
    Some(u128::from_le_bytes(bytes))
}

#[inline]
const fn mix(folded: u128) -> u64 {
    ((folded as u64) ^ ((folded >> 64) as u64).rotate_left(23))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(29)
}

fn index() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| {
        let mut index = Index { by_name: HashTable::with_capacity(512), slots: 0 };
        for found in all() {
            let row = Row::of(found);
            index.slots = found.slot + 1 + found.command.subcommands.len();
            index.by_name.insert_unique(mix(row.name | CASES), row, |row| mix(row.name | CASES));
        }
        index
    })
}

/// Every command and subcommand by its full name (`config|get`), with its slot among the counters.
pub fn full_names() -> Vec<(String, usize)> {
    let mut names = Vec::with_capacity(slots());
    for Found { command, .. } in all() {
        names.push((command.name.to_owned(), names.len()));
        for sub in command.subcommands {
            names.push((format!("{}|{}", command.name, sub.name), names.len()));
        }
    }
    names
}

/// All commands, in the order of the table.
pub fn all() -> impl Iterator<Item = Found> {
    let rows = FAMILIES.iter().flat_map(|(group, rows)| rows.iter().map(|command| (*group, command)));
    rows.scan(0, |slots, (group, command)| {
        let slot = *slots;
        *slots += 1 + command.subcommands.len();
        Some(Found { group, command, slot })
    })
}

/// The command of this name, in any case.
#[inline]
pub fn find(name: &[u8]) -> Option<Found> {
    let bytes = as_number(name)?;
    let row = index().by_name.find(mix(bytes | CASES), |row| row.is_named(bytes, name.len()))?;
    Some(row.found)
}

/// The name of the command or subcommand whose calls are counted in `slot`.
pub fn name_of_slot(slot: usize) -> Option<String> {
    let Found { command, slot: first, .. } = all().take_while(|found| found.slot <= slot).last()?;
    match slot - first {
        0 => Some(command.name.to_owned()),
        at => Some(format!("{}|{}", command.name, command.subcommands.get(at - 1)?.name)),
    }
}

/// Number of counters that all commands and subcommands need.
pub fn slots() -> usize {
    index().slots
}

/// What a container of subcommands runs itself: nothing, as the arity demands a subcommand and dispatch looks
/// it up.
fn unknown_container<'a>(_: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    Err(CommandError::Syntax)
}

/// Replies what the subcommands of `container` are.
fn help(cx: &mut Context<'_, '_>, container: &str) {
    let subcommands = find(container.as_bytes()).map_or(&[][..], |found| found.command.subcommands);
    cx.reply.array(1 + subcommands.len() * 2);
    cx.reply.simple(format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for subcommand in subcommands {
        cx.reply.simple(subcommand.name.to_uppercase());
        cx.reply.simple(format!("    {}", subcommand.summary));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case_and_no_other() {
        let mut names = HashSet::new();
        for Found { command, .. } in all() {
            assert!(names.insert(command.name), "{} stands twice in the table", command.name);
            assert_eq!(command.name, command.name.to_lowercase());
            for name in [command.name.to_owned(), command.name.to_uppercase()] {
                let found = find(name.as_bytes()).expect("every command is found");
                assert!(std::ptr::eq(found.command, command), "{name} is found as {}", found.command.name);
            }
        }
        for name in ["", "ge", "gett", "a name of far more than sixteen bytes", "\u{0}", "get ", "get\u{0}"] {
            assert!(find(name.as_bytes()).is_none(), "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn a_name_is_found_exactly_if_it_stands_in_the_table(
            number in any::<prop::sample::Index>(),
            cases in any::<u32>(),
            changes in vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 0..3),
            tail in vec(any::<u8>().prop_map(|byte| byte & 0x2E), 0..3),
        ) {
            let names: Vec<&str> = all().map(|found| found.command.name).collect();
            let mut name = number.get(&names).as_bytes().to_vec();
            for (i, byte) in name.iter_mut().enumerate().filter(|(i, _)| cases >> i & 1 == 1) {
                // Often the bit of case alone, of letters and of others.
                *byte ^= 0x20 * u8::from(byte.is_ascii_alphabetic() || i % 3 == 0);
            }
            for (at, byte, only_a_bit) in changes {
                let at = at.get_mut(&mut name);
                *at = if only_a_bit { *at ^ (1 << (byte % 8)) } else { byte };
            }
            name.extend(tail);
            let plain = all().find(|found| found.command.name.as_bytes().eq_ignore_ascii_case(&name));
            let found = find(&name);
            prop_assert_eq!(found.map(|found| found.command.name), plain.map(|plain| plain.command.name));
        }
    }

    #[test]
    fn every_row_says_what_it_is() {
        let commands = || all().map(|found| found.command);
        for command in commands().chain(commands().flat_map(|command| command.subcommands)) {
            assert!(command.arity != 0, "{} has an arity", command.name);
            assert!(command.summary.ends_with('.'), "the summary of {} is a sentence", command.name);
            assert!(!command.since.is_empty());
        }
    }

    #[test]
    fn subcommands_are_counted_apart() {
        let total: usize = all().map(|found| 1 + found.command.subcommands.len()).sum();
        assert_eq!(slots(), total);
    }
}
