//! Search, as the server sees it: something that is asked by the words of a command, and answers later. The
//! program puts it there, as it does with SQL.

use std::fmt;

/// Who answers the commands `FT.*`.
pub trait Search: Send + Sync {
    /// Asks by the words of a command, its name first, and returns at once.
    fn ask(&self, words: Vec<Vec<u8>>, db: u8, is_resp3: bool) -> Box<dyn Searching>;
}

/// A command that was asked. Dropping it stops it.
pub trait Searching: Send + fmt::Debug {
    /// The answer, once, when it is there; an error is the whole error reply.
    fn answer(&mut self) -> Option<Result<Tree, String>>;
}

/// An answer, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// Nothing.
    Null,
    /// A word of the server's own.
    Simple(&'static str),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Double(f64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Some in a row.
    Array(Vec<Tree>),
    /// Some in no order.
    Set(Vec<Tree>),
    /// Pairs; in RESP2 a row of both.
    Map(Vec<(Tree, Tree)>),
}
