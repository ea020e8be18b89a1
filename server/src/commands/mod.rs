//! The commands, by family. A file has the rows of its family, and the functions of its commands.
//!
//! A function sees its arguments and an `execute::context::Context`; never a socket, a thread or a file. May
//! import `execute`, `metrics`, `apply` and the folders below them.

mod absent;
mod acl;
mod backups;
mod bitfield;
mod bits;
mod checkpoints;
mod client;
mod client_filters;
mod client_tracking;
mod command;
mod command_docs;
mod command_info;
mod command_row;
mod commandlog;
mod comparisons;
mod config;
mod connection;
mod databases;
mod debug;
mod debug_data;
mod debug_protocol;
mod debug_shows;
mod decided;
pub mod digest;
mod dump;
mod element_scans;
mod expiry;
mod ft;
mod functions;
mod geo;
mod geo_search;
mod geo_shapes;
mod hash_times;
mod hashes;
mod help;
mod hotkeys;
mod hyperloglog;
mod increx;
mod info;
mod json;
mod json_arrays;
mod json_numbers;
mod json_parts;
mod json_set;
mod key_sizes;
mod keys;
mod latency;
mod lcs;
mod lists;
mod lists_blocking;
mod lists_moving;
mod lolwut;
mod memory;
mod migrate;
mod modules;
mod monitor;
mod multi_pop;
mod object;
mod pubsub;
mod random;
mod ranges;
pub mod reference;
mod removals;
mod replicas;
mod scan;
mod scripts;
mod server;
mod set_algebra;
mod sets;
mod sketch;
mod sort;
mod sql;
mod stream_args;
mod stream_budget;
mod stream_claims;
mod stream_groups;
mod stream_info;
mod stream_producers;
mod stream_removals;
mod stream_trims;
mod streams;
mod streams_reading;
mod strings;
mod transactions;
mod zset_algebra;
mod zset_bounds;
mod zset_pops;
mod zset_ranges;
mod zsets;

use std::sync::OnceLock;

use thiserror::Error;

use crate::acl::Catalog;
use crate::error::printable;
use crate::execute::table::{Family, RenameError, Table};

/// All families, each with its group for `COMMAND DOCS`.
pub(crate) const FAMILIES: &[Family] = &[
    ("connection", connection::COMMANDS),
    ("connection", client::COMMANDS),
    ("server", acl::COMMANDS),
    ("server", checkpoints::COMMANDS),
    ("server", backups::COMMANDS),
    ("server", server::COMMANDS),
    ("server", commandlog::COMMANDS),
    ("server", hotkeys::COMMANDS),
    ("server", memory::COMMANDS),
    ("server", lolwut::COMMANDS),
    ("server", config::COMMANDS),
    ("server", info::COMMANDS),
    ("server", latency::COMMANDS),
    ("server", command::COMMANDS),
    ("server", debug::COMMANDS),
    ("server", modules::COMMANDS),
    ("server", monitor::COMMANDS),
    ("server", sql::COMMANDS),
    ("string", strings::COMMANDS),
    ("string", ranges::COMMANDS),
    ("string", lcs::COMMANDS),
    ("string", comparisons::COMMANDS),
    ("string", increx::COMMANDS),
    ("bitmap", bits::COMMANDS),
    ("bitmap", bitfield::COMMANDS),
    ("generic", keys::COMMANDS),
    ("generic", expiry::COMMANDS),
    ("generic", dump::COMMANDS),
    ("generic", migrate::COMMANDS),
    ("generic", scan::COMMANDS),
    ("server", scan::OF_SERVER),
    ("generic", object::COMMANDS),
    ("generic", sort::COMMANDS),
    ("server", databases::COMMANDS),
    ("generic", replicas::COMMANDS),
    ("transactions", transactions::COMMANDS),
    ("scripting", scripts::COMMANDS),
    ("scripting", functions::COMMANDS),
    ("pubsub", pubsub::COMMANDS),
    ("hash", hashes::COMMANDS),
    ("hash", hash_times::COMMANDS),
    ("json", json::COMMANDS),
    ("json", json_set::COMMANDS),
    ("json", json_numbers::COMMANDS),
    ("json", json_arrays::COMMANDS),
    ("json", json_parts::COMMANDS),
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
    ("hyperloglog", hyperloglog::COMMANDS),
    ("geo", geo::COMMANDS),
    ("geo", geo_search::COMMANDS),
    ("stream", streams::COMMANDS),
    ("stream", streams_reading::COMMANDS),
    ("stream", stream_groups::COMMANDS),
    ("stream", stream_claims::COMMANDS),
    ("stream", stream_info::COMMANDS),
    ("stream", stream_producers::COMMANDS),
    ("stream", stream_removals::COMMANDS),
    ("hash", random::OF_HASHES),
    ("set", random::OF_SETS),
    ("sorted-set", random::OF_ZSETS),
    ("hash", element_scans::OF_HASHES),
    ("set", element_scans::OF_SETS),
    ("sorted-set", element_scans::OF_ZSETS),
];

/// All commands as rules of users name them.
pub fn catalog() -> Catalog {
    command_row::catalog()
}

static TABLE: OnceLock<Table> = OnceLock::new();

fn rows_as_they_are() -> Table {
    Table::new(FAMILIES).with_uses(command::flags_of)
}

/// The table of all commands.
pub fn table() -> &'static Table {
    TABLE.get_or_init(rows_as_they_are)
}

/// Why the commands of a process have not got other names.
#[derive(Debug, Error)]
pub enum RenamesError {
    /// One of the names is wrong.
    #[error("'rename-command {}': {why}", printable(.old))]
    Refused {
        /// The name that a command was to lose.
        old: Vec<u8>,
        /// The reason.
        why: RenameError,
    },
    /// The table is in use.
    #[error("commands are renamed before the first server of a process starts, and once")]
    InUse,
}

/// Gives commands other names for as long as the process lives: pairs of an old name and a new one, as
/// [`Table::renamed`] has them. Commands of Redis that are not there yet have no name to lose. To be called
/// before anything asks for the table.
pub fn rename(renames: &[[Vec<u8>; 2]]) -> Result<(), RenamesError> {
    let mut renamed = rows_as_they_are();
    for [old, new] in renames {
        if NOT_BUILT.iter().any(|name| old.eq_ignore_ascii_case(name.as_bytes())) {
            continue;
        }
        renamed = renamed
            .renamed([(&old[..], &new[..])])
            .map_err(|why| RenamesError::Refused { old: old.clone(), why })?;
    }
    if renames.is_empty() { Ok(()) } else { TABLE.set(renamed).map_err(|_| RenamesError::InUse) }
}

/// The commands of Redis 7.0 that are not built, which lines `rename-command` of a `redis.conf` name, and
/// rules of users.
const NOT_BUILT: &[&str] = &[
    "asking",
    "cluster",
    "failover",
    "psync",
    "readonly",
    "readwrite",
    "replconf",
    "replicaof",
    "restore-asking",
    "role",
    "slaveof",
    "sync",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::spec::Flags;
    use crate::execute::table::Found;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case_and_no_other() {
        let mut names = HashSet::new();
        for Found { command, .. } in table().all() {
            assert!(names.insert(command.name), "{} stands twice in the table", command.name);
            assert_eq!(command.name, command.name.to_lowercase());
            for name in [command.name.to_owned(), command.name.to_uppercase()] {
                let found = table().find(name.as_bytes()).expect("every command is found");
                assert!(std::ptr::eq(found.command, command), "{name} is found as {}", found.command.name);
            }
        }
        for name in ["", "ge", "gett", "a name of far more than sixteen bytes", "\u{0}", "get ", "get\u{0}"] {
            assert!(table().find(name.as_bytes()).is_none(), "{name:?}");
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
            let names: Vec<&str> = table().all().map(|found| found.command.name).collect();
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
            let plain = table().all().find(|found| found.command.name.as_bytes().eq_ignore_ascii_case(&name));
            let found = table().find(&name);
            prop_assert_eq!(found.map(|found| found.command.name), plain.map(|plain| plain.command.name));
        }
    }

    #[test]
    fn every_row_says_what_it_is() {
        let commands = || table().all().map(|found| found.command);
        for command in commands().chain(commands().flat_map(|command| command.subcommands)) {
            assert!(command.arity != 0, "{} has an arity", command.name);
            assert!(command.summary.ends_with('.'), "the summary of {} is a sentence", command.name);
            assert!(!command.since.is_empty());
        }
    }

    /// A transaction that is queued while the data is being loaded runs without a store.
    #[test]
    fn no_command_that_writes_is_answered_while_the_data_is_being_loaded() {
        let commands = || table().all().map(|found| found.command);
        for command in commands().chain(commands().flat_map(|command| command.subcommands)) {
            assert!(!command.flags.has(Flags::WRITE.with(Flags::LOADING)), "{}", command.name);
        }
    }

    #[test]
    fn commands_that_are_built_have_left_the_list_of_those_that_are_not() {
        for name in NOT_BUILT {
            assert!(table().find(name.as_bytes()).is_none(), "{name}");
        }
    }

    #[test]
    fn subcommands_are_counted_apart() {
        let total: usize = table().all().map(|found| 1 + found.command.subcommands.len()).sum();
        assert_eq!(table().slots(), total);
    }
}
