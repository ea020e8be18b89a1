//! The reference: every command of Redis up to 8.10 and Valkey up to 9, and those of Tarn alone, by name,
//! with its versions, arguments, history and hints.
//!
//! Each group has a file of text, in alphabetical order. `COMMAND DOCS` and `COMMAND INFO` tell what it says
//! of the commands that are served, and `docs/commands.md` lists all of them. It is read when it is first
//! asked for. The texts that come from Redis 7.0 are under its licence, `redis.LICENSE`.
//!
//! ```text
//!   set 1.0.0                            its name; the versions of Redis and of Valkey, or one for both
//!     args: key@0 value GET?>6.2.0       its arguments, in the notation of `arguments.rs`
//!     later: key value NX?>8.4.0 …     its arguments in newer versions, if not all are taken here
//!     6.2.0: Added the `GET` option.     its history
//!     tips: request_policy:all_shards    hints for clients of clusters
//!     note 0: RW due to `GET`            a note on a group of its keys, by the number of that
//!     deprecated 6.2.0: `GETRANGE`       the version since which another should be used, and that
//!     syscmd                             it is for the use of servers
//!   sql - -                              another, that neither Redis nor Valkey has
//! ```

mod arguments;

use std::collections::HashMap;
use std::sync::LazyLock;

pub use arguments::{Argument, Kind};

/// The groups, with their commands.
const GROUPS: &[(&str, &str)] = &[
    ("generic", include_str!("generic.txt")),
    ("string", include_str!("string.txt")),
    ("bitmap", include_str!("bitmap.txt")),
    ("hash", include_str!("hash.txt")),
    ("list", include_str!("list.txt")),
    ("set", include_str!("set.txt")),
    ("sorted-set", include_str!("sorted-set.txt")),
    ("stream", include_str!("stream.txt")),
    ("hyperloglog", include_str!("hyperloglog.txt")),
    ("geo", include_str!("geo.txt")),
    ("json", include_str!("json.txt")),
    ("search", include_str!("search.txt")),
    ("pubsub", include_str!("pubsub.txt")),
    ("transactions", include_str!("transactions.txt")),
    ("scripting", include_str!("scripting.txt")),
    ("connection", include_str!("connection.txt")),
    ("server", include_str!("server.txt")),
    ("cluster", include_str!("cluster.txt")),
    ("array", include_str!("array.txt")),
    ("vector-set", include_str!("vector-set.txt")),
    ("time-series", include_str!("time-series.txt")),
    ("probabilistic", include_str!("probabilistic.txt")),
];

/// A command or a subcommand.
#[derive(Debug)]
pub struct Article {
    /// Its full name: `get`, `config|get`.
    pub name: &'static str,
    /// Its group.
    pub group: &'static str,
    /// The version of Redis that has it first, with the modules of Redis 8 among it; `None`: no Redis has it.
    pub redis: Option<&'static str>,
    /// The version of Valkey that has it first, or of Redis before Valkey was; `None`: no Valkey has it.
    pub valkey: Option<&'static str>,
    /// The versions that changed it, each with the change.
    pub history: Vec<(&'static str, &'static str)>,
    /// Hints for clients of clusters.
    pub tips: Vec<&'static str>,
    /// The version since which another command should be used, and that command.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// It is for the use of servers.
    pub is_system: bool,
    /// In their notation.
    arguments: Option<&'static str>,
    /// Those of newer versions, if there are some that are not taken here.
    later: Option<&'static str>,
    /// Notes on groups of keys, by number.
    notes: Vec<(usize, &'static str)>,
}

/// All articles.
struct Reference {
    articles: Vec<Article>,
    /// Their places, by name.
    by_name: HashMap<&'static str, usize>,
}

static REFERENCE: LazyLock<Reference> = LazyLock::new(|| {
    let articles = read().expect("the reference is well-formed, as a test says");
    let by_name = articles.iter().enumerate().map(|(at, article)| (article.name, at)).collect();
    Reference { articles, by_name }
});

/// All articles, by group and name.
pub fn articles() -> &'static [Article] {
    &REFERENCE.articles
}

/// The article of a command by its full name, in lower case.
pub fn find(name: &str) -> Option<&'static Article> {
    REFERENCE.by_name.get(name).map(|at| &REFERENCE.articles[*at])
}

/// The articles of all groups; the first line that is none, if there is one.
fn read() -> Result<Vec<Article>, String> {
    let mut articles: Vec<Article> = Vec::new();
    for (group, text) in GROUPS {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let is_read = match line.strip_prefix("  ") {
                None => Article::of(group, line).map(|article| articles.push(article)),
                Some(line) => articles.last_mut().and_then(|article| article.add(line)),
            };
            is_read.ok_or_else(|| format!("{group}: {line}"))?;
        }
    }
    Ok(articles)
}

/// A version, which `-` is none.
fn version(word: &str) -> Option<&str> {
    (word != "-").then_some(word)
}

impl Article {
    /// The article that begins with this line.
    fn of(group: &'static str, line: &'static str) -> Option<Article> {
        let mut words = line.split(' ');
        let (name, redis) = (words.next()?, version(words.next()?));
        let valkey = words.next().map_or(redis, version);
        words.next().is_none().then_some(Article {
            name,
            group,
            redis,
            valkey,
            history: Vec::new(),
            tips: Vec::new(),
            deprecated: None,
            is_system: false,
            arguments: None,
            later: None,
            notes: Vec::new(),
        })
    }

    /// Adds what a further line says.
    fn add(&mut self, line: &'static str) -> Option<()> {
        if line == "syscmd" {
            self.is_system = true;
            return Some(());
        }
        let (head, text) = line.split_once(": ")?;
        match head.split_once(' ') {
            Some(("note", number)) => self.notes.push((number.parse().ok()?, text)),
            Some(("deprecated", version)) => self.deprecated = Some((version, text)),
            Some(_) => return None,
            None if head == "args" => self.arguments = Some(text),
            None if head == "later" => self.later = Some(text),
            None if head == "tips" => self.tips.extend(text.split(' ')),
            None if head.starts_with(|first: char| first.is_ascii_digit()) => self.history.push((head, text)),
            None => return None,
        }
        Some(())
    }

    /// Its arguments; none if it takes none, or is described without.
    pub fn arguments(&self) -> Vec<Argument<'static>> {
        parsed(self.arguments)
    }

    /// The words of newer versions that it does not take here, each with the version.
    pub fn missing(&self) -> Vec<(&'static str, &'static str)> {
        let taken = words(&self.arguments(), None);
        let later = words(&parsed(self.later), None);
        let missing = later.into_iter().filter(|(word, _)| taken.iter().all(|(taken, _)| taken != word));
        missing.filter_map(|(word, since)| Some((word, since?))).collect()
    }

    /// The note on a group of its keys, by the number of that.
    pub fn note(&self, group: usize) -> Option<&'static str> {
        self.notes.iter().find(|(number, _)| *number == group).map(|(_, text)| *text)
    }
}

/// The arguments of a text in their notation.
fn parsed(text: Option<&'static str>) -> Vec<Argument<'static>> {
    let parse = |text| arguments::parse(text).expect("the arguments are well-formed, as a test says");
    text.map(parse).unwrap_or_default()
}

/// The words of arguments, each with the version that has it first, if that is newer than the command.
fn words(
    arguments: &[Argument<'static>],
    since: Option<&'static str>,
) -> Vec<(&'static str, Option<&'static str>)> {
    let mut found = Vec::new();
    for argument in arguments {
        let since = argument.since.or(since);
        found.extend(argument.token.map(|token| (token, since)));
        found.extend(words(&argument.arguments, since));
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::commands::table;
    use crate::execute::command::Command;
    use crate::execute::spec::Flags;
    use crate::execute::table::Found;
    use std::collections::HashSet;

    /// Groups of which only names and versions are known.
    const NOT_DESCRIBED: [&str; 4] = ["array", "vector-set", "time-series", "probabilistic"];
    /// Groups whose rows have the versions of modules.
    const OF_MODULES: [&str; 2] = ["json", "search"];

    /// The served commands and their subcommands, with their full names.
    fn served() -> impl Iterator<Item = (String, &'static Command)> {
        table().all().flat_map(|Found { command, .. }| {
            // `DEBUG` takes its subcommands apart by itself.
            let is_loose = command.flags.has(Flags::LOOSE);
            let subs = command.subcommands.iter().filter(move |_| !is_loose);
            let subs = subs.map(move |sub| (format!("{}|{}", command.name, sub.name), sub));
            std::iter::once((command.name.to_owned(), command)).chain(subs)
        })
    }

    /// The versions as numbers: 7.2.0 comes before 7.10.0.
    fn numbers(version: &str) -> Vec<u32> {
        version.split('.').map(|part| part.parse().unwrap()).collect()
    }

    fn all_of(arguments: &[Argument<'static>]) -> Vec<Argument<'static>> {
        let below = |one: &Argument<'static>| {
            let mut all = vec![one.clone()];
            all.extend(all_of(&one.arguments));
            all
        };
        arguments.iter().flat_map(below).collect()
    }

    #[test]
    fn the_reference_is_well_formed() {
        assert_eq!(read().err(), None);
        let mut names = HashSet::new();
        for article in articles() {
            assert!(names.insert(article.name), "{} stands twice", article.name);
            assert!(
                !article.name.is_empty() && article.name == article.name.to_lowercase(),
                "{}",
                article.name
            );
            for text in article.arguments.iter().chain(&article.later) {
                assert!(arguments::parse(text).is_some(), "{}: {text}", article.name);
            }
            if let Some((container, _)) = article.name.split_once('|') {
                assert!(find(container).is_some(), "{} is of no command", article.name);
            }
            let versions =
                article.redis.iter().chain(&article.valkey).chain(article.history.iter().map(|(of, _)| of));
            versions.for_each(|version| assert_eq!(numbers(version).len(), 3, "{}: {version}", article.name));
            assert!(article.tips.iter().all(|tip| !tip.is_empty()), "{}", article.name);
        }
        assert!(articles().len() > 500, "{}", articles().len());
    }

    #[test]
    fn a_group_is_in_alphabetical_order() {
        for pair in articles().windows(2).filter(|pair| pair[0].group == pair[1].group) {
            assert!(pair[0].name < pair[1].name, "{} stands before {}", pair[0].name, pair[1].name);
        }
    }

    #[test]
    fn arguments_have_names_and_parts_as_their_kind_says() {
        for article in articles() {
            for argument in all_of(&article.arguments()) {
                let name = format!("{} of {}", argument.name, article.name);
                assert!(!argument.name.is_empty(), "{name}");
                let has_parts = matches!(argument.kind, Kind::Block | Kind::OneOf);
                assert_eq!(has_parts, !argument.arguments.is_empty(), "{name}");
                assert!(argument.kind != Kind::PureToken || argument.token.is_some(), "{name}");
                assert!(!argument.repeats_token || argument.token.is_some(), "{name}");
            }
        }
    }

    #[test]
    fn newer_versions_take_what_is_taken_here_and_more() {
        for article in articles().iter().filter(|article| article.later.is_some()) {
            let later = words(&parsed(article.later), None);
            for (taken, _) in words(&article.arguments(), None) {
                assert!(later.iter().any(|(word, _)| *word == taken), "{taken} of {}", article.name);
            }
            assert!(!article.missing().is_empty(), "all arguments of {} are taken by now", article.name);
        }
        assert!(find("get").unwrap().missing().is_empty());
    }

    #[test]
    fn every_served_command_is_in_the_reference() {
        for (name, command) in served() {
            let article = find(&name).unwrap_or_else(|| panic!("{name} has no article"));
            let is_of_module = OF_MODULES.contains(&article.group) || NOT_DESCRIBED.contains(&article.group);
            // That of Redis is another command.
            let is_compared = !is_of_module && name != "backup";
            let first = article.redis.or(article.valkey).filter(|_| is_compared);
            assert!(first.is_none_or(|first| command.since == first), "{name} is there since {first:?}");
        }
    }

    #[test]
    fn arguments_name_only_groups_of_keys_that_there_are() {
        for (name, command) in served() {
            let article = find(&name).unwrap();
            let groups = command.keys.len();
            for argument in all_of(&article.arguments()) {
                let is_there = argument.key_spec.is_none_or(|number| (number as usize) < groups);
                assert!(is_there, "{} of {name}", argument.name);
            }
            assert!(article.notes.iter().all(|(number, _)| *number < groups), "the notes of {name}");
        }
    }

    #[test]
    fn a_command_of_so_many_arguments_is_described_with_as_many() {
        for (name, command) in served().filter(|(_, command)| command.arity > 0) {
            let (article, words) = (find(&name).unwrap(), 1 + name.matches('|').count());
            let most = most(&article.arguments()).map(|most| words + most);
            let is_right = most == Some(command.arity as usize);
            assert!(is_right || NOT_DESCRIBED.contains(&article.group), "{name} takes {most:?} words");
        }
    }

    /// The number of words that these arguments have at most; `None`: any number.
    fn most(arguments: &[Argument<'_>]) -> Option<usize> {
        let of = |one: &Argument<'_>| match one.kind {
            _ if one.is_multiple => None,
            Kind::OneOf => {
                let most_of = |one: &Argument<'_>| most(std::slice::from_ref(one));
                let parts: Option<Vec<usize>> = one.arguments.iter().map(most_of).collect();
                Some(word(one) + parts?.into_iter().max().unwrap_or(0))
            }
            _ => Some(word(one) + most(&one.arguments)? + usize::from(is_value(one.kind))),
        };
        arguments.iter().map(of).sum()
    }

    fn word(argument: &Argument<'_>) -> usize {
        usize::from(argument.token.is_some())
    }

    fn is_value(kind: Kind) -> bool {
        !matches!(kind, Kind::PureToken | Kind::OneOf | Kind::Block)
    }
}
