//! Tables over keys, as data: declarations, the types and ranges of their columns, and rows made of entries.
//!
//! ```text
//!   declaration ─ conditions on columns ─ ranges of values ─┐
//!   entry of the store ─ rows ─ cells ─ columns of a batch ◀─┘
//! ```
//!
//! Nothing here knows statements, views or the planner's catalog. It imports the engine, Arrow and
//! DataFusion's expressions, and no other module of this package.

pub(crate) mod cells;
pub(crate) mod condition;
pub(crate) mod datum;
pub(crate) mod declaration;
pub(crate) mod hash_row;
pub(crate) mod index;
pub(crate) mod ranges;
pub(crate) mod rows;
pub(crate) mod sample;
