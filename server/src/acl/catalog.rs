//! The commands as rules name them, each with a number and its categories.

use std::collections::HashMap;
use std::ops::Range;

/// The categories of commands, in the order of Redis.
pub const CATEGORIES: &[&str] = &[
    "@keyspace",
    "@read",
    "@write",
    "@set",
    "@sortedset",
    "@list",
    "@hash",
    "@string",
    "@bitmap",
    "@hyperloglog",
    "@geo",
    "@stream",
    "@pubsub",
    "@admin",
    "@fast",
    "@slow",
    "@blocking",
    "@dangerous",
    "@connection",
    "@transaction",
    "@scripting",
];

/// A command or a subcommand, under the number of its counters.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The full name in lower case: `config|get`.
    pub name: String,
    /// One bit for each of [`CATEGORIES`].
    pub categories: u32,
    /// The number of the command that it is a subcommand of.
    pub parent: Option<usize>,
    /// Rules know no such subcommand: its command's stands for it, as `DEBUG` has it in Redis.
    pub is_hidden: bool,
}

/// All commands by number.
#[derive(Debug)]
pub struct Catalog {
    commands: Vec<Listed>,
    by_name: HashMap<String, usize>,
    absent: &'static [&'static str],
}

impl Catalog {
    /// The catalog of these commands, each before its subcommands. The place of each is its number.
    pub fn new(commands: Vec<Listed>) -> Catalog {
        let shown = commands.iter().enumerate().filter(|(_, command)| !command.is_hidden);
        let by_name = shown.map(|(number, command)| (command.name.clone(), number)).collect();
        Catalog { commands, by_name, absent: &[] }
    }

    /// The same, which knows of commands in lower case that another version has, and this one has not.
    pub fn with_absent(self, absent: &'static [&'static str]) -> Catalog {
        Catalog { absent, ..self }
    }

    /// Whether a full name is that of a command that only another version has, or of its subcommand.
    pub fn is_absent(&self, name: &[u8]) -> bool {
        let command = name.split(|byte| *byte == b'|').next().unwrap_or_default();
        self.absent.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(command))
    }

    /// The number of the command with this full name, in any case.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let name = std::str::from_utf8(name).ok()?;
        self.by_name.get(&name.to_ascii_lowercase()).copied()
    }

    /// The number that rules have for a command: for a subcommand that they do not know, that of its command.
    #[inline]
    pub fn ruled(&self, number: usize) -> usize {
        match self.commands.get(number) {
            Some(Listed { is_hidden: true, parent: Some(parent), .. }) => *parent,
            _ => number,
        }
    }

    /// The count of numbers.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether there are no commands.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// The full name of a command, as rules have it.
    pub fn name(&self, number: usize) -> &str {
        self.commands.get(self.ruled(number)).map_or("", |command| &command.name)
    }

    /// Whether a command is a subcommand.
    pub fn is_subcommand(&self, number: usize) -> bool {
        self.commands.get(number).is_some_and(|command| command.parent.is_some())
    }

    /// The numbers of the subcommands of a command; of none that rules do not know.
    pub fn subcommands(&self, number: usize) -> Range<usize> {
        let is_own = |command: &&Listed| command.parent == Some(number) && !command.is_hidden;
        let first = number + 1;
        let count = self.commands.iter().skip(first).take_while(is_own).count();
        first..first + count
    }

    /// The commands that rules know, by number.
    pub fn shown(&self) -> impl Iterator<Item = (usize, &Listed)> {
        self.commands.iter().enumerate().filter(|(_, command)| !command.is_hidden)
    }

    /// The commands of a category, which is a place in [`CATEGORIES`].
    pub fn of_category(&self, category: usize) -> impl Iterator<Item = usize> {
        self.shown()
            .filter(move |(_, command)| command.categories >> category & 1 == 1)
            .map(|(number, _)| number)
    }
}

/// The place in [`CATEGORIES`] of a category that is named without its `@`, in any case.
pub fn category(name: &[u8]) -> Option<usize> {
    CATEGORIES.iter().position(|known| known.as_bytes()[1..].eq_ignore_ascii_case(name))
}

/// A small catalog for tests: `get`, `set`, `config` with `get` and `set`, `debug` with a hidden subcommand,
/// what statements of SQL obey, and `cluster` and `psync`, which are absent.
#[cfg(test)]
pub(super) fn sample() -> Catalog {
    let listed = |name: &str, categories: &[&str], parent, is_hidden| {
        let bit = |name: &&str| 1 << category(name.as_bytes()).expect("a category of Redis");
        let categories = categories.iter().map(bit).fold(0, |all: u32, bit: u32| all | bit);
        Listed { name: name.to_owned(), categories, parent, is_hidden }
    };
    Catalog::new(vec![
        listed("get", &["read", "string", "fast"], None, false),
        listed("set", &["write", "string", "slow"], None, false),
        listed("strlen", &["read", "string", "fast"], None, false),
        listed("config", &["slow"], None, false),
        listed("config|get", &["admin", "slow", "dangerous"], Some(3), false),
        listed("config|set", &["admin", "slow", "dangerous"], Some(3), false),
        listed("debug", &["admin", "slow", "dangerous"], None, false),
        listed("debug|sleep", &["admin", "slow", "dangerous"], Some(6), true),
        listed("select", &["connection", "fast"], None, false),
        listed("sql", &["slow", "dangerous"], None, false),
        listed("ft.create", &["slow", "dangerous"], None, false),
    ])
    .with_absent(&["cluster", "psync"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_full_names_and_hidden_ones_are_not() {
        let catalog = sample();
        assert_eq!(catalog.find(b"GET"), Some(0));
        assert_eq!(catalog.find(b"Config|Set"), Some(5));
        for name in ["debug|sleep", "config|", "get|x", "", "nothing"] {
            assert_eq!(catalog.find(name.as_bytes()), None, "{name}");
        }
        assert_eq!((catalog.subcommands(3), catalog.subcommands(6)), (4..6, 7..7));
        assert_eq!((catalog.ruled(7), catalog.name(7)), (6, "debug"));
    }
}
