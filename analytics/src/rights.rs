//! The user of a session: asked about each statement, as its rules may change while it is connected.
//!
//! ```text
//!   statement ── plan ── wish: the keys of its tables ── user: is all of it allowed? ── grant
//!                                                                                        │
//!   scan:       is the table one of the wish? of `keyspace`: which keys may be seen? <───┤
//!   next row:   have rules changed since? then the same wish again <─────────────────────┘
//! ```
//!
//! **Invariant:** a scan of a client's statement reads no table that its [`Grant`] was not asked for.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use thiserror::Error;

/// The keys that a table shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// All that begin and end so.
    Between(Box<[u8]>, Box<[u8]>),
    /// Those that the user may see.
    Visible,
}

/// A table that a statement reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableKeys {
    /// Its name.
    pub table: String,
    /// Its keys.
    pub keys: Keys,
    /// The logical database that they are in.
    pub database: u8,
}

impl TableKeys {
    /// The pattern of its keys, as declarations have it.
    pub fn pattern(&self) -> Vec<u8> {
        match &self.keys {
            Keys::Between(prefix, suffix) => [prefix, &b"*"[..], suffix].concat(),
            Keys::Visible => b"*".to_vec(),
        }
    }
}

/// The things that a statement is about to do. The empty one is any that reads no table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// It declares tables or indexes, or drops them, or writes files.
    pub declares: bool,
    /// The tables that it reads.
    pub tables: Vec<TableKeys>,
}

/// The keys that a user may see: those that match one of some patterns.
#[derive(Clone)]
pub struct VisibleKeys {
    patterns: Arc<[Box<[u8]>]>,
    matches: fn(pattern: &[u8], key: &[u8]) -> bool,
}

impl VisibleKeys {
    /// Those that match one of these patterns, as `matches` says.
    pub fn new(patterns: Arc<[Box<[u8]>]>, matches: fn(&[u8], &[u8]) -> bool) -> VisibleKeys {
        VisibleKeys { patterns, matches }
    }

    /// Whether a key is one of them.
    #[inline]
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.patterns.iter().any(|pattern| (self.matches)(pattern, key))
    }

    fn is_same_as(&self, other: &VisibleKeys) -> bool {
        self.patterns == other.patterns
    }
}

/// Why a user must not do something.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Denied {
    /// It is gone, or another one has its name.
    #[error("the user of this connection was deleted, or is off")]
    NoUser,
    /// Statements of SQL.
    #[error("this user has no permissions to run the 'sql' command")]
    Statements,
    /// To declare something, or to write a file.
    #[error(
        "this user has no permissions to declare tables and indexes of SQL, and to have it write files: that \
         needs the right to FT.CREATE, and to every key (~*) in every database"
    )]
    Declaring,
    /// To read all keys of a table.
    #[error("permission denied for table {}: this user has no permissions to read all of its keys", .0.table)]
    Table(TableKeys),
    /// To use the database of a table.
    #[error(
        "permission denied for table {}: this user has no permissions to access database {}",
        .0.table, .0.database
    )]
    Database(TableKeys),
    /// To see keys that it could see when the statement began.
    #[error("permission denied: the keys that this user may read have changed; ask again")]
    Changed,
    /// To stop the statement of another user.
    #[error("permission denied to cancel the statement of another user: it needs the right to CLIENT KILL")]
    Cancelling,
}

impl Denied {
    /// PostgreSQL's code for it.
    pub(crate) fn sqlstate(&self) -> &'static str {
        if *self == Denied::NoUser { "28000" } else { "42501" }
    }
}

/// A user, as long as a session is its.
pub trait User: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// A number that rises when rules of users have changed.
    fn version(&self) -> u64;

    /// Whether it is there, and may be connected.
    fn is_there(&self) -> bool;

    /// Whether it may do all of this at once, and the keys that it may see then; `None`: all.
    fn allow(&self, wish: &Wish) -> Result<Option<VisibleKeys>, Denied>;

    /// Whether it may know what other users ask.
    fn may_watch(&self) -> bool;

    /// Whether it may stop the statements of other users.
    fn may_kill(&self) -> bool;

    /// Notes that something was denied to it.
    fn note(&self, denied: &Denied);
}

/// The owner of a session.
#[derive(Default)]
pub(crate) enum Whose {
    /// The server's own, which may do everything.
    #[default]
    Server,
    /// A client's, once it has said who it is; until then it may do nothing.
    Client(OnceLock<Arc<dyn User>>),
}

impl fmt::Debug for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whose::Server => f.write_str("the server"),
            Whose::Client(user) => f.write_str(user.get().map_or("a client", |user| user.name())),
        }
    }
}

impl Whose {
    /// A client has said who it is. REQUIRES: it is called once.
    pub(crate) fn log_in(&self, user: Arc<dyn User>) {
        let is_first = matches!(self, Whose::Client(own) if own.set(user).is_ok());
        debug_assert!(is_first, "a client logs in once");
    }

    /// The user, if it is a client's; an error before it has said who it is.
    fn user(&self) -> Result<Option<&Arc<dyn User>>, Denied> {
        match self {
            Whose::Server => Ok(None),
            Whose::Client(user) => user.get().map(Some).ok_or(Denied::NoUser),
        }
    }

    /// Whether its user is there, and may be connected.
    pub(crate) fn is_there(&self) -> bool {
        self.user().is_ok_and(|user| user.is_none_or(|user| user.is_there()))
    }

    /// The name of its user.
    pub(crate) fn name(&self) -> Option<&str> {
        self.user().ok().flatten().map(|user| user.name())
    }

    /// Whether it may know what sessions of another kind ask.
    pub(crate) fn may_watch(&self) -> bool {
        self.user().is_ok_and(|user| user.is_none_or(|user| user.may_watch()))
    }

    /// Whether it may stop their statements; it is noted if not.
    pub(crate) fn check_kill(&self) -> Result<(), Denied> {
        match self.user()? {
            Some(user) if !user.may_kill() => {
                user.note(&Denied::Cancelling);
                Err(Denied::Cancelling)
            }
            _ => Ok(()),
        }
    }

    /// Whether it may read a table. It is not noted if not.
    pub(crate) fn may_read(&self, table: TableKeys) -> bool {
        let wish = Wish { declares: false, tables: vec![table] };
        self.user().is_ok_and(|user| user.is_none_or(|user| user.allow(&wish).is_ok()))
    }

    /// Whether another session is of the same user.
    pub(crate) fn is_same_as(&self, other: &Whose) -> bool {
        let name = |user: Option<&Arc<dyn User>>| user.map(|user| user.name().to_owned());
        self.user().map(name).is_ok_and(|own| other.user().map(name) == Ok(own))
    }
}

/// The right to a statement, which may end before the statement does.
pub(crate) struct Grant {
    /// `None`: the server's own.
    user: Option<Arc<dyn User>>,
    wish: Wish,
    visible: Option<VisibleKeys>,
    /// The version of the rules that it was looked at by.
    seen: AtomicU64,
}

impl Grant {
    /// The right to do this; what is denied is noted.
    pub(crate) fn of(whose: &Whose, wish: Wish) -> Result<Grant, Denied> {
        let Some(user) = whose.user()?.cloned() else {
            return Ok(Grant { user: None, wish, visible: None, seen: AtomicU64::new(0) });
        };
        // Before the rules: what changes behind this is seen the next time.
        let seen = AtomicU64::new(user.version());
        let visible = user.allow(&wish).inspect_err(|denied| user.note(denied))?;
        Ok(Grant { user: Some(user), wish, visible, seen })
    }

    /// Whether it holds still; it is noted if not.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Denied> {
        match &self.user {
            Some(user) if self.seen.load(Ordering::Relaxed) != user.version() => self.look_again(&**user),
            _ => Ok(()),
        }
    }

    #[cold]
    fn look_again(&self, user: &dyn User) -> Result<(), Denied> {
        let version = user.version();
        let outcome = user.allow(&self.wish).and_then(|visible| match (&visible, &self.visible) {
            // Its scans show what could be seen when it began.
            (Some(now), Some(then)) if now.is_same_as(then) => Ok(()),
            (Some(_), _) if self.wish.tables.iter().any(|table| table.keys == Keys::Visible) => {
                Err(Denied::Changed)
            }
            _ => Ok(()),
        });
        match &outcome {
            Ok(()) => self.seen.store(version, Ordering::Relaxed),
            Err(denied) => user.note(denied),
        }
        outcome
    }

    /// The keys that a scan of a table may show, which must be one of those that were wished for; `None`: all
    /// that the table has.
    pub(crate) fn scan(&self, table: TableKeys) -> Result<Option<VisibleKeys>, Denied> {
        if self.user.is_none() {
            return Ok(None);
        }
        let is_it = |wished: &TableKeys| wished.keys == table.keys && wished.database == table.database;
        if !self.wish.tables.iter().any(is_it) {
            return Err(Denied::Table(table));
        }
        Ok(if table.keys == Keys::Visible { self.visible.clone() } else { None })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tarn_engine::lock::Mutex;

    use super::*;

    /// A user whose rules are the prefix of the keys that it may read; without one it may do nothing.
    #[derive(Default)]
    struct Prefixed {
        prefix: Mutex<Option<&'static str>>,
        version: AtomicU64,
        noted: AtomicUsize,
    }

    impl Prefixed {
        fn set(&self, prefix: Option<&'static str>) {
            *self.prefix.lock() = prefix;
            self.version.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl User for Prefixed {
        fn name(&self) -> &str {
            "alice"
        }

        fn version(&self) -> u64 {
            self.version.load(Ordering::Relaxed)
        }

        fn is_there(&self) -> bool {
            true
        }

        fn allow(&self, wish: &Wish) -> Result<Option<VisibleKeys>, Denied> {
            let own = self.prefix.lock().ok_or(Denied::Statements)?;
            for table in &wish.tables {
                match &table.keys {
                    Keys::Between(prefix, _) if !prefix.starts_with(own.as_bytes()) => {
                        return Err(Denied::Table(table.clone()));
                    }
                    _ => {}
                }
            }
            let patterns = vec![Box::<[u8]>::from(own.as_bytes())].into();
            Ok((!own.is_empty()).then(|| VisibleKeys::new(patterns, |prefix, key| key.starts_with(prefix))))
        }

        fn may_watch(&self) -> bool {
            false
        }

        fn may_kill(&self) -> bool {
            false
        }

        fn note(&self, _: &Denied) {
            self.noted.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn alice() -> (Arc<Prefixed>, Whose) {
        let alice = Arc::new(Prefixed::default());
        let whose = Whose::Client(OnceLock::new());
        whose.log_in(alice.clone());
        (alice, whose)
    }

    fn table(prefix: &str) -> TableKeys {
        let keys = Keys::Between(prefix.as_bytes().into(), Box::default());
        TableKeys { table: "t".to_owned(), keys, database: 0 }
    }

    fn visible() -> TableKeys {
        TableKeys { keys: Keys::Visible, ..table("") }
    }

    fn of(tables: &[TableKeys]) -> Wish {
        Wish { declares: false, tables: tables.to_vec() }
    }

    #[test]
    fn who_has_not_logged_in_may_do_nothing_and_the_server_may_do_everything() {
        let nobody = Whose::Client(OnceLock::new());
        assert_eq!(Grant::of(&nobody, Wish::default()).err(), Some(Denied::NoUser));
        assert!(!nobody.is_there() && !nobody.may_watch() && !nobody.may_read(table("a")));
        assert!(!nobody.is_same_as(&Whose::Server) && Whose::Server.is_same_as(&Whose::Server));
        let all = Grant::of(&Whose::Server, Wish::default()).expect("it is the server");
        assert!(all.scan(table("a")).is_ok_and(|visible| visible.is_none()));
    }

    #[test]
    fn a_scan_reads_what_was_wished_for_and_nothing_else() {
        let (alice, whose) = alice();
        alice.set(Some("a"));
        let grant = Grant::of(&whose, of(&[table("a:")])).expect("its own");
        assert!(grant.scan(table("a:")).is_ok_and(|visible| visible.is_none()));
        for other in [table("a:1"), table(""), visible(), TableKeys { database: 1, ..table("a:") }] {
            assert_eq!(grant.scan(other.clone()).err(), Some(Denied::Table(other)));
        }
        let shown = Grant::of(&whose, of(&[visible()])).and_then(|grant| grant.scan(visible()));
        let shown = shown.expect("it may look").expect("it may not see all");
        assert!(shown.has(b"a:1") && !shown.has(b"b:1"));
    }

    #[test]
    fn a_right_ends_when_the_rules_change_and_what_is_denied_is_noted() {
        let (alice, whose) = alice();
        alice.set(Some("a"));
        let (tables, keys) = (of(&[table("a:")]), of(&[visible()]));
        let grant = |wish: &Wish| Grant::of(&whose, wish.clone()).expect("it is allowed");
        let (of_table, of_keys, of_nothing) = (grant(&tables), grant(&keys), grant(&Wish::default()));
        let check = || [&of_table, &of_keys, &of_nothing].map(|grant| grant.check().is_ok());
        assert_eq!(check(), [true; 3]);
        // A change that is about others.
        alice.set(Some("a"));
        assert_eq!((check(), alice.noted.load(Ordering::Relaxed)), ([true; 3], 0));
        // It may read more keys, and the scan of before does not know them.
        alice.set(Some(""));
        assert_eq!(check(), [true; 3]);
        alice.set(Some("b"));
        assert_eq!((check(), alice.noted.load(Ordering::Relaxed)), ([false, false, true], 2));
        assert!(check() == [false, false, true], "it stays so");
        alice.set(None);
        assert_eq!(check(), [false; 3]);
        let noted = alice.noted.load(Ordering::Relaxed);
        assert!(!whose.may_read(table("a:")) && Grant::of(&whose, tables.clone()).is_err());
        assert_eq!(alice.noted.load(Ordering::Relaxed), noted + 1, "a look is no attempt");
        // A scan of all keys began while all could be seen.
        alice.set(Some(""));
        let of_all = grant(&keys);
        alice.set(Some("a"));
        assert_eq!(of_all.check(), Err(Denied::Changed));
    }
}
