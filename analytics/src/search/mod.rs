//! The commands `FT.*`: RediSearch's syntax over the keys of the store, as of one instant.
//!
//! ```text
//!   words ─ index (declared) ─ query ─ filter ┐
//!   table: columns of keys, by scans ─────────┴─ plan ─ session ─ rows ─ reply
//! ```
//!
//! An index is a declaration and holds no data, so it is never out of date: a query reads the keys, through
//! the same views as SQL does. Features that are missing are refused by name; an answer is complete, or an
//! error.
//!
//! It imports all other folders except `wire`.

mod command;
mod cursor;
mod declared;
mod error;
mod expression;
mod filter;
mod find;
mod index;
mod info;
mod matching;
mod options;
mod parser;
mod pipeline;
mod removal;
mod settings;
mod steps;
mod table;
mod tags;
mod top_k;
mod tree;
mod values;
mod words;

pub use command::{Request, Search};
pub(crate) use declared::FILE;
pub use error::SearchError;
pub use tree::Tree;
