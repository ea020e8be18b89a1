//! Corrects the plan where the planner's library computes differently from PostgreSQL.
//!
//! ```text
//!   plan ─ Exact: operators, casts, averages, frames become functions of ours ─ types are coerced
//!     ─ Written: casts to text that coercion added, tests of truth ─ optimizer …
//! ```
//!
//! The rule keeps names of columns, as the coercion of types does.
//! `docs/design/0030-answers-as-postgresql-has-them.md` lists the differences.
//!
//! It imports `guard`, `dialect` and `json`.

mod aggregates;
mod arithmetic;
mod casting;
mod documents;
mod expression;
mod membership;
mod mixed;
mod numbers;
mod rewrite;
mod rules;
mod sets;
mod spans;
mod to_char;

pub(crate) use casting::{moment_texts, number_text};
pub(crate) use rules::{physical_rules, register, rules};
