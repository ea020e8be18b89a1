//! Commands of Redis and of its modules that Tarn does not have yet: they are refused by what they are of,
//! and not as if nobody knew them.
//!
//! A command of the table never comes here; its name has to leave these lists.

use crate::error::{CommandError, printable};

/// Commands of one kind of value.
struct Kind {
    /// The name of the kind, of several values.
    name: &'static str,
    /// The names of all of its commands begin so.
    prefix: &'static str,
    /// The rest of each name.
    commands: &'static [&'static str],
}

const KINDS: [Kind; 6] = [
    Kind {
        name: "vector sets",
        prefix: "V",
        commands: &[
            "ADD",
            "CARD",
            "DIM",
            "EMB",
            "GETATTR",
            "INFO",
            "ISMEMBER",
            "LINKS",
            "RANDMEMBER",
            "RANGE",
            "REM",
            "SETATTR",
            "SIM",
        ],
    },
    Kind {
        name: "Bloom filters",
        prefix: "BF.",
        commands: &[
            "ADD",
            "CARD",
            "EXISTS",
            "INFO",
            "INSERT",
            "LOAD",
            "LOADCHUNK",
            "MADD",
            "MEXISTS",
            "RESERVE",
            "SCANDUMP",
        ],
    },
    Kind {
        name: "cuckoo filters",
        prefix: "CF.",
        commands: &[
            "ADD",
            "ADDNX",
            "COUNT",
            "DEL",
            "EXISTS",
            "INFO",
            "INSERT",
            "INSERTNX",
            "LOADCHUNK",
            "MEXISTS",
            "RESERVE",
            "SCANDUMP",
        ],
    },
    Kind {
        name: "count-min sketches",
        prefix: "CMS.",
        commands: &["INCRBY", "INFO", "INITBYDIM", "INITBYPROB", "MERGE", "QUERY"],
    },
    Kind {
        name: "Top-K sketches",
        prefix: "TOPK.",
        commands: &["ADD", "COUNT", "INCRBY", "INFO", "LIST", "QUERY", "RESERVE"],
    },
    Kind {
        name: "t-digests",
        prefix: "TDIGEST.",
        commands: &[
            "ADD",
            "BYRANK",
            "BYREVRANK",
            "CDF",
            "CREATE",
            "INFO",
            "MAX",
            "MERGE",
            "MIN",
            "QUANTILE",
            "RANK",
            "RESET",
            "REVRANK",
            "TRIMMED_MEAN",
        ],
    },
];

impl Kind {
    fn has(&self, name: &[u8]) -> bool {
        name.split_at_checked(self.prefix.len()).is_some_and(|(prefix, rest)| {
            prefix.eq_ignore_ascii_case(self.prefix.as_bytes())
                && self.commands.iter().any(|command| rest.eq_ignore_ascii_case(command.as_bytes()))
        })
    }
}

/// The error for a command that is not built; `None`: it is of no kind that is missing.
#[cold]
pub(super) fn unbuilt(name: &[u8]) -> Option<CommandError> {
    let kind = KINDS.iter().find(|kind| kind.has(name))?.name;
    let name = printable(name);
    Some(CommandError::owned(format!("ERR '{name}' is not built yet: Tarn has no {kind}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands;
    use crate::commands::reference::articles;

    #[test]
    fn commands_that_are_not_built_are_refused_by_what_they_are_of() {
        for (name, error) in [
            ("VADD", "ERR 'VADD' is not built yet: Tarn has no vector sets"),
            ("vsim", "ERR 'vsim' is not built yet: Tarn has no vector sets"),
            ("bf.RESERVE", "ERR 'bf.RESERVE' is not built yet: Tarn has no Bloom filters"),
            ("CF.ADDNX", "ERR 'CF.ADDNX' is not built yet: Tarn has no cuckoo filters"),
            ("CMS.QUERY", "ERR 'CMS.QUERY' is not built yet: Tarn has no count-min sketches"),
            ("TOPK.ADD", "ERR 'TOPK.ADD' is not built yet: Tarn has no Top-K sketches"),
            ("TDIGEST.MIN", "ERR 'TDIGEST.MIN' is not built yet: Tarn has no t-digests"),
        ] {
            let told = unbuilt(name.as_bytes()).map(|error| error.to_string());
            assert_eq!(told.as_deref(), Some(error));
        }
        for name in ["", "V", "VADDX", "XVADD", "BF", "BF.", "BF.NOSUCH", "BF ADD", "GET", "\u{e9}BF.ADD"] {
            assert_eq!(unbuilt(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn commands_that_are_built_have_left_the_lists() {
        for kind in &KINDS {
            for command in kind.commands {
                let name = format!("{}{command}", kind.prefix);
                assert!(commands::table().find(name.as_bytes()).is_none(), "{name}");
            }
        }
    }

    #[test]
    fn each_command_of_the_reference_is_built_or_refused_as_one_that_is_not() {
        let groups = ["vector-set", "probabilistic"];
        for article in articles().iter().filter(|article| groups.contains(&article.group)) {
            let name = article.name.as_bytes();
            let is_built = commands::table().find(name).is_some();
            assert_ne!(is_built, unbuilt(name).is_some(), "{}", article.name);
        }
    }
}
