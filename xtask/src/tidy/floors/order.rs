//! The floors of each package that has some: the one source of the tables in ARCHITECTURE.md and in the head
//! of the crate, which `cargo xtask tidy --write` writes.

/// A package whose modules have floors.
pub struct Package {
    /// Its folder.
    pub name: &'static str,
    /// The modules, from the ground up. A module may import those of its own floor and below.
    pub floors: &'static [&'static [&'static str]],
    /// Whether a module may import no other module of its floor.
    pub is_apart: fn(&str) -> bool,
}

/// Every package with floors.
pub const PACKAGES: &[Package] =
    &[Package { name: "engine", floors: ENGINE, is_apart: |module| ["table", "log"].contains(&module) }];

/// A new module of the engine gets its place here.
const ENGINE: &[&[&str]] = &[
    &["record", "lock"],
    &["io", "upheaval"],
    &["value"],
    &["table", "log"],
    &["index", "gate", "declared"],
    &["view", "overlay", "watch"],
    &["checkpoint"],
    &[
        "engine",
        "session",
        "early",
        "recovery",
        "repair",
        "compactor",
        "renewal",
        "scrub",
        "backup",
        "indexer",
    ],
];
