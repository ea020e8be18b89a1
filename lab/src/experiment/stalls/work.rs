//! The work that is done beside the load.

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser};

use super::giants::Giant;
use crate::server::{Product, Subject};

named! {
    /// The work that a server does beside the load.
    pub enum Work {
        /// None: the machine alone, for comparison.
        Nothing = "nothing",
        /// A checkpoint: `BGSAVE`.
        Checkpoint = "checkpoint",
        /// The whole log is compacted or rewritten: `BGREWRITEAOF`.
        Compaction = "compaction",
        /// A full backup.
        Backup = "backup",
        /// An index of all records is built.
        Index = "index",
        /// A statement that reads all records, again and again.
        Scan = "scan",
        /// Eight connections with such statements.
        Scans = "scans",
        /// `HGETALL` of a hash of five million fields.
        HgetallHuge = "hgetall-huge",
        /// `HGETALL` of a million fields; so many elements have the others, too.
        Hgetall = "hgetall",
        /// `SMEMBERS`.
        Smembers = "smembers",
        /// `LRANGE` of the whole list.
        Lrange = "lrange",
        /// `SORT` of a list of numbers.
        Sort = "sort",
        /// `SUNION` of a set with itself.
        Sunion = "sunion",
        /// `ZUNIONSTORE` of a sorted set with itself.
        Zunionstore = "zunionstore",
        /// `RENAME` of a hash, to and fro.
        Rename = "rename",
        /// `COPY` of a hash.
        Copy = "copy",
        /// `DEL` of a sorted set.
        Del = "del",
        /// `FLUSHALL` of everything, a sorted set among it.
        Flushall = "flushall",
        /// A checkpoint of streams, while clients add entries and read for groups.
        StreamsCheckpoint = "streams-checkpoint",
        /// The log of the same is compacted or rewritten.
        StreamsCompaction = "streams-compaction",
        /// A statement that reads all entries, again and again.
        StreamsScan = "streams-scan",
    }
}

/// The parts of the report.
const BACKGROUND: &str = "background";
const STREAMS: &str = "streams";
const COMMANDS: &str = "commands";

/// The names that `--only` takes: of all work, and of parts of the report, which stand for all of their work.
pub(super) fn names() -> PossibleValuesParser {
    let works = Work::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let parts = [
        (BACKGROUND, "All work on all records, and on the largest hash"),
        (STREAMS, "All work on streams"),
        (COMMANDS, "All commands on collections of a million elements"),
    ];
    PossibleValuesParser::new(works.chain(parts.map(|(name, help)| PossibleValue::new(name).help(help))))
}

/// The data that the load changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    /// Records of YCSB.
    Records,
    /// Streams with groups.
    Streams,
}

impl Data {
    /// Requests a second of the load, unless others are wished.
    pub(super) fn rate(self) -> f64 {
        match self {
            Data::Records => 20_000.0,
            Data::Streams => 50_000.0,
        }
    }

    /// The word for what it consists of.
    pub(super) fn word(self) -> &'static str {
        match self {
            Data::Records => "records",
            Data::Streams => "entries",
        }
    }

    /// A statement that reads all of it.
    pub(super) fn statement(self) -> &'static str {
        match self {
            Data::Records => "SELECT count(*), max(value) FROM keyspace.hashes",
            Data::Streams => "SELECT count(*), max(value) FROM keyspace.streams",
        }
    }
}

impl Work {
    /// True if a server can do it.
    pub(super) fn is_of(self, server: &Subject) -> bool {
        match self {
            Work::Backup | Work::Index | Work::Scan | Work::Scans | Work::StreamsScan => {
                server.product == Product::Tarn
            }
            Work::Compaction | Work::StreamsCompaction => server.dialect.rewrites(),
            _ => true,
        }
    }

    /// The data that the load changes meanwhile.
    pub(super) fn data(self) -> Data {
        match self {
            Work::StreamsCheckpoint | Work::StreamsCompaction | Work::StreamsScan => Data::Streams,
            _ => Data::Records,
        }
    }

    /// The part of the report: work on all records, on all streams, or a command on a collection.
    pub(super) fn part(self) -> &'static str {
        match self.giant() {
            None if self.data() == Data::Streams => STREAMS,
            None | Some(Giant::HugeHash) => BACKGROUND,
            Some(_) => COMMANDS,
        }
    }

    /// True if it is among the names that are asked for; if none is, all work is.
    pub(super) fn is_asked(self, names: &[String]) -> bool {
        names.is_empty() || names.iter().any(|name| *name == self.name() || *name == self.part())
    }

    /// The collection that it needs.
    pub(super) fn giant(self) -> Option<Giant> {
        Some(match self {
            Work::HgetallHuge => Giant::HugeHash,
            Work::Hgetall | Work::Rename | Work::Copy => Giant::Hash,
            Work::Smembers | Work::Sunion => Giant::Set,
            Work::Lrange | Work::Sort => Giant::List,
            Work::Zunionstore | Work::Del | Work::Flushall => Giant::SortedSet,
            _ => return None,
        })
    }

    /// The command on the collection.
    pub(super) fn command(self) -> &'static str {
        match self {
            Work::HgetallHuge | Work::Hgetall => "HGETALL giant",
            Work::Smembers => "SMEMBERS giant",
            Work::Lrange => "LRANGE giant 0 -1",
            Work::Sort => "SORT giant DESC",
            Work::Sunion => "SUNION giant giant",
            Work::Zunionstore => "ZUNIONSTORE made 2 giant giant",
            Work::Rename => "RENAME giant made",
            Work::Copy => "COPY giant made",
            Work::Del => "DEL giant",
            Work::Flushall => "FLUSHALL",
            _ => "PING",
        }
    }

    /// The command after which it can be done again, unless the collection has to be made again.
    pub(super) fn undo(self) -> Option<&'static str> {
        match self {
            Work::Zunionstore | Work::Copy => Some("UNLINK made"),
            Work::Rename => Some("RENAME made giant"),
            _ => None,
        }
    }

    /// True if the collection is gone afterwards.
    pub(super) fn takes_giant(self) -> bool {
        matches!(self, Work::Del | Work::Flushall)
    }

    /// True if nothing is left afterwards.
    pub(super) fn takes_all(self) -> bool {
        self == Work::Flushall
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[arg(long, value_delimiter = ',', value_parser = names())]
        only: Vec<String>,
    }

    fn asked(only: &str) -> Vec<&'static str> {
        let words = Words::try_parse_from(["stalls", "--only", only]).unwrap();
        let all = Work::ALL.into_iter().filter(|work| work.is_asked(&words.only));
        all.map(Work::name).collect()
    }

    #[test]
    fn a_part_of_the_report_stands_for_its_work() {
        assert_eq!(asked("sort,checkpoint"), ["checkpoint", "sort"]);
        assert_eq!(asked("streams"), ["streams-checkpoint", "streams-compaction", "streams-scan"]);
        let each = [BACKGROUND, STREAMS, COMMANDS].map(|part| asked(part).len());
        assert_eq!(each.iter().sum::<usize>(), Work::ALL.len());
        assert_eq!(asked("background,commands,streams").len(), Work::ALL.len());
        assert!(Words::try_parse_from(["stalls", "--only", "nothing-else"]).is_err());
        assert!(Work::ALL.iter().all(|work| work.is_asked(&[])));
    }
}
