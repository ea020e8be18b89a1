//! SQL, as the server sees it: something that is asked, and answers later. The program puts it there, so that
//! the server knows nothing of planners.

use std::fmt;
use std::sync::Arc;

use crate::acl::UserId;
use crate::net::caller::Caller;

/// PostgreSQL's code for a statement that its user must not run.
pub const NOT_ALLOWED: &str = "42501";

/// Whose statement it is.
#[derive(Clone, Debug)]
pub struct Who {
    /// The name of the user.
    pub name: Arc<[u8]>,
    /// Its id: another user may get the name.
    pub id: UserId,
    /// The client, as `ACL LOG` shows it.
    pub client: String,
}

/// Who answers statements of SQL.
pub trait Sql: Send + Sync {
    /// Asks for a statement, and returns at once. The answer is an error with the code [`NOT_ALLOWED`] if the
    /// user must not run it; `ACL LOG` has it then.
    fn ask(&self, statement: &str, who: Who) -> Box<dyn Asked>;

    /// Talks to a client of PostgreSQL's protocol.
    fn talk_to(&self, caller: Caller);

    /// Whether one more client can be talked to soon.
    fn has_room(&self) -> bool;

    /// The data have been loaded: the indexes of declared tables can be built.
    fn store_is_there(&self);

    /// The fields of `INFO analytics`: name and value.
    fn figures(&self) -> Vec<(&'static str, u64)>;
}

/// A statement that was asked. Dropping it stops the statement.
pub trait Asked: Send + fmt::Debug {
    /// The answer, once, when it is there. An error is told in a line, with PostgreSQL's code before it.
    fn answer(&mut self) -> Option<Result<Answer, String>>;
}

/// The answer to a statement.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The names of the columns; none if there are no rows to be had, as of a declaration.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
    /// A warning beside the answer, such as values that could not be read.
    pub warning: Option<String>,
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// NULL.
    Null,
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Double(f64),
    /// A truth value.
    Boolean(bool),
    /// Everything else, as text or as bytes.
    Bytes(Vec<u8>),
}
