//! Users and what they may do: rules in the words of Redis 7.0, and Valkey's of databases.
//!
//! ```text
//!   SETUSER alice on >secret ~app:* +@read (+set ~cache:*)
//!     │ rules          user: flags, passwords ── selectors: commands, keys, channels, databases
//!     └──> registry: a new snapshot of all users, and a new version ──> clients see it at their next
//! ```
//!
//! A user never changes: a change of its rules makes another one in its place. Commands are numbers here,
//! from the [`Catalog`] that the table of commands fills. May import `config`, `glob` and `error`.

pub mod catalog;
mod describe;
pub mod file;
pub mod keeper;
pub mod log;
pub mod registry;
pub mod rules;
#[cfg(test)]
mod rules_tests;
pub mod selector;
mod statements;
pub mod user;

pub use catalog::{CATEGORIES, Catalog, Listed};
pub use keeper::{FileJob, UserFile};
pub use log::{AclLog, Context, Entry, Reason, client_at_port};
pub use registry::{Acl, Changed, DEFAULT, Door, RuleRefused, Users};
pub use rules::{RuleError, Words, merge_selectors, without_password};
pub use selector::{Access, Denied, Selector};
pub use statements::{Statement, StatementRefused, TableKeys, VisibleKeys};
pub use user::{User, UserId};
