//! The floors of each package that has some: the one source of the tables in ARCHITECTURE.md and in the head
//! of the crate, which `cargo xtask tidy --write` writes.

/// A package whose modules have floors.
pub(super) struct Package {
    /// Its folder.
    pub name: &'static str,
    /// The modules, from the ground up. A module may import those of its own floor and below.
    pub floors: &'static [&'static [&'static str]],
    /// Whether a module may import no other module of its floor.
    pub is_apart: fn(&str) -> bool,
}

/// Every package with floors.
pub(super) const PACKAGES: &[Package] = &[
    Package { name: "engine", floors: ENGINE, is_apart: |module| ["table", "log"].contains(&module) },
    Package { name: "server", floors: SERVER, is_apart: |_| true },
    Package { name: "analytics", floors: ANALYTICS, is_apart: |_| true },
];

/// A new module of the engine gets its place here.
const ENGINE: &[&[&str]] = &[
    &["record", "lock"],
    &["io", "upheaval", "throttle"],
    &["value"],
    &["table", "log"],
    &["index", "gate", "declared"],
    &["view", "overlay", "watch", "rewrite_cursor"],
    &["checkpoint"],
    &["store"],
    &["session"],
    &["early", "renewal", "compactor", "indexer", "expirer", "evictor", "mover"],
    &["backup", "scrub", "recovery", "repair"],
    &["engine"],
];

/// The same for the server. A folder is a module; so is a file beside the folders.
const SERVER: &[&[&str]] = &[
    &["error", "glob", "version"],
    &["json", "config"],
    &["net", "acl"],
    &["analytics", "observe", "pubsub", "scripts"],
    &["store"],
    &["shared"],
    &["persist"],
    &["execute"],
    &["metrics", "apply"],
    &["commands"],
    &["serve"],
];

/// The same for SQL and search.
const ANALYTICS: &[&[&str]] = &[
    &["rights"],
    &["table"],
    &["error"],
    &["statement", "dialect", "json"],
    &["plan", "guard"],
    &["exact", "catalog", "export", "connections"],
    &["analytics"],
    &["session", "stats"],
    &["search", "wire"],
];
