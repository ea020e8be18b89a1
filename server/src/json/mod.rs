//! JSON documents: their text, paths in them, and what a path selects. No commands, no store.

pub mod document;
pub mod path;
pub mod select;

pub use document::{Document, Layout};
pub use path::{Path, PathError};
pub use select::{Fate, Marks};
