//! Statements of SQL: the rights that one takes, and the keys that its user may see.
//!
//! A statement is a request of the command `SQL`, whichever port it comes by. One selector has to allow all
//! of it, as of any request: the command; each table that is read, by its pattern and its database; and,
//! where something is declared or a file is written, `FT.CREATE` and every key in every database.

use std::sync::Arc;

use crate::acl::catalog::Catalog;
use crate::acl::registry::Acl;
use crate::acl::selector::{Access, Selector};
use crate::acl::user::{User, UserId};

/// The command whose rules statements obey.
const SQL: &[u8] = b"sql";
/// The one that those which declare something or write files obey besides.
const DECLARE: &[u8] = b"ft.create";

/// The keys that a table shows.
#[derive(Clone, Copy, Debug)]
pub enum TableKeys<'s> {
    /// All that begin and end so.
    Between(&'s [u8], &'s [u8]),
    /// Those that the user may read.
    Visible,
}

/// A statement, as far as rights are about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statement<'s> {
    /// It declares tables or indexes, or drops them, or writes files.
    pub declares: bool,
    /// The tables that it reads, each with its database.
    pub tables: &'s [(TableKeys<'s>, u8)],
}

/// Why a statement is refused. Of several selectors the gravest in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatementRefused {
    /// The user is gone, or another one has its name.
    NoUser,
    /// It may not run `SQL`.
    Command,
    /// It may not declare anything.
    Declares,
    /// It may not read all keys of the table at this index.
    Keys(usize),
    /// It may not use the database of the table at this index.
    Database(usize),
}

/// The patterns of keys that may be seen; `None`: all keys may.
pub type VisibleKeys = Option<Arc<[Box<[u8]>]>>;

impl Acl {
    /// Whether the user of this name that has this id may run a statement, and the keys that it may see then.
    pub fn check_statement(
        &self,
        name: &[u8],
        id: UserId,
        statement: Statement<'_>,
    ) -> Result<VisibleKeys, StatementRefused> {
        let user = self.current(name, id).ok_or(StatementRefused::NoUser)?;
        user.check_statement(self.catalog(), statement)
    }
}

impl User {
    fn check_statement(
        &self,
        catalog: &Catalog,
        statement: Statement<'_>,
    ) -> Result<VisibleKeys, StatementRefused> {
        let (mut visible, mut gravest) = (None, StatementRefused::Command);
        for selector in self.selectors() {
            match selector.check_statement(catalog, statement) {
                Ok(()) if selector.allows_every_key(Access::READ) => return Ok(None),
                Ok(()) => visible.get_or_insert_with(Vec::new).extend(selector.readable()),
                Err(refused) => gravest = gravest.max(refused),
            }
        }
        visible.map(|patterns| Some(patterns.into())).ok_or(gravest)
    }

    /// Whether it may know what others ask, as `MONITOR` shows it.
    pub fn may_watch(&self, catalog: &Catalog) -> bool {
        self.selectors().any(|own| {
            own.allows_named(catalog, b"monitor")
                && own.allows_every_key(Access::READ)
                && own.allows_every_database()
        })
    }

    /// Whether it may end what others do, as `CLIENT KILL` does.
    pub fn may_kill(&self, catalog: &Catalog) -> bool {
        self.selectors().any(|own| own.allows_named(catalog, b"client|kill"))
    }
}

impl Selector {
    fn check_statement(&self, catalog: &Catalog, statement: Statement<'_>) -> Result<(), StatementRefused> {
        if !self.allows_named(catalog, SQL) {
            return Err(StatementRefused::Command);
        }
        let declares = || {
            self.allows_named(catalog, DECLARE)
                && self.allows_every_key(Access::ALL)
                && self.allows_every_database()
        };
        if statement.declares && !declares() {
            return Err(StatementRefused::Declares);
        }
        for (at, (keys, _)) in statement.tables.iter().enumerate() {
            if let TableKeys::Between(prefix, suffix) = keys
                && !self.allows_keys_between(prefix, suffix, Access::READ)
            {
                return Err(StatementRefused::Keys(at));
            }
        }
        let is_out_of_reach = |(_, database): &(_, u8)| !self.allows_database((*database).into());
        match statement.tables.iter().position(is_out_of_reach) {
            Some(at) => Err(StatementRefused::Database(at)),
            None => Ok(()),
        }
    }

    fn allows_named(&self, catalog: &Catalog, command: &[u8]) -> bool {
        catalog.find(command).is_some_and(|number| self.allows_command(catalog, number, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::catalog::sample;

    /// The outcome for a user of these rules.
    fn outcome(
        rules: &[&str],
        declares: bool,
        tables: &[(TableKeys<'_>, u8)],
    ) -> Result<Option<Vec<String>>, StatementRefused> {
        let acl = Acl::new(sample());
        let user = acl.change(b"alice", rules, false).expect("rules").after;
        let allowed = acl.check_statement(b"alice", user.id, Statement { declares, tables })?;
        let text = |pattern: &[u8]| String::from_utf8_lossy(pattern).into_owned();
        Ok(allowed.map(|patterns| patterns.iter().map(|pattern| text(pattern)).collect()))
    }

    fn table(prefix: &'static str) -> (TableKeys<'static>, u8) {
        (TableKeys::Between(prefix.as_bytes(), b""), 0)
    }

    const ALL: (TableKeys<'static>, u8) = (TableKeys::Visible, 0);

    #[test]
    fn one_selector_allows_all_tables_of_a_statement_or_none_is_read() {
        use StatementRefused::{Command, Database, Keys};
        let rules = &["on", "+sql", "~a:*", "%R~b:*", "%W~c:*", "db=0,2"][..];
        for (tables, refused) in [
            (&[][..], None),
            (&[table("a:"), table("b:x")], None),
            (&[table("a:"), table("c:")], Some(Keys(1))),
            (&[table("a")], Some(Keys(0))),
            (&[table("a:"), (TableKeys::Between(b"b:", b""), 1)], Some(Database(1))),
            (&[(TableKeys::Between(b"b:", b""), 2)], None),
            (&[(TableKeys::Visible, 1)], Some(Database(0))),
        ] {
            assert_eq!(outcome(rules, false, tables).err(), refused, "{tables:?}");
        }
        assert_eq!(outcome(&["on", "~*", "+get"], false, &[]), Err(Command));
        // Each of two selectors has one of both.
        let apart = &["+sql", "~a:*", "(+sql ~b:*)"][..];
        assert_eq!(outcome(apart, false, &[table("a:")]), Ok(Some(vec!["a:*".to_owned()])));
        assert_eq!(outcome(apart, false, &[table("b:")]), Ok(Some(vec!["b:*".to_owned()])));
        assert_eq!(outcome(apart, false, &[table("a:"), table("b:")]), Err(Keys(1)));
        assert_eq!(outcome(&["+get", "~a:*", "(+sql ~b:*)"], false, &[table("a:")]), Err(Keys(0)));
    }

    #[test]
    fn a_user_sees_keys_of_the_selectors_that_allow_the_statement() {
        let rules = &["+sql", "~a:*", "%W~w:*", "(+sql %R~b:*)", "(+get ~c:*)"][..];
        let visible = |tables: &[_]| outcome(rules, false, tables).expect("it is allowed");
        assert_eq!(visible(&[ALL]), Some(vec!["a:*".to_owned(), "b:*".to_owned()]));
        assert_eq!(visible(&[ALL, table("b:")]), Some(vec!["b:*".to_owned()]));
        assert_eq!(outcome(&["+sql", "~*"], false, &[ALL, table("a:")]), Ok(None));
        assert_eq!(outcome(&["+sql", "%R~*"], false, &[ALL, table("")]), Ok(None));
        assert_eq!(outcome(&["+sql"], false, &[ALL]), Ok(Some(Vec::new())));
    }

    #[test]
    fn declarations_take_the_right_to_declare_and_every_key() {
        let refused = Err(StatementRefused::Declares);
        assert_eq!(outcome(&["+sql", "+ft.create", "~*"], true, &[]), Ok(None));
        assert_eq!(outcome(&["+sql", "~*"], true, &[]), refused);
        assert_eq!(outcome(&["+sql", "+ft.create", "%R~*"], true, &[]), refused);
        assert_eq!(outcome(&["+sql", "+ft.create", "~*", "db=0"], true, &[]), refused);
        assert_eq!(outcome(&["+sql", "~*", "(+ft.create ~*)"], true, &[]), refused);
    }

    #[test]
    fn a_user_that_is_made_again_may_not_go_on_as_the_one_before() {
        let acl = Acl::new(sample());
        let first = acl.change(b"alice", &["+sql", "~*"], false).expect("rules").after.id;
        acl.delete([&b"alice"[..]].into_iter());
        acl.change(b"alice", &["+sql", "~*"], false).expect("rules");
        let outcome = acl.check_statement(b"alice", first, Statement::default());
        assert_eq!(outcome, Err(StatementRefused::NoUser));
    }
}
