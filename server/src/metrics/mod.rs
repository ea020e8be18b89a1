//! The figures of `INFO` and of the metrics port, and the thread that serves that port.
//!
//! `figures` gathers, so that `INFO` and the metrics agree; `families` names the metrics, `page` writes the
//! text format of Prometheus, and `server` answers HTTP. May import `execute` and the folders below it.

mod families;
pub(crate) mod figures;
mod page;
pub(crate) mod server;
