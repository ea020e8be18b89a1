//! Limits what a connection keeps in the server: prepared statements, portals and cursors. A client that
//! never closes any gets an error before it has used up the memory of all.

use std::collections::HashMap;

use datafusion_postgres::pgwire::error::PgWireResult;
use tarn_engine::lock::Mutex;

use super::reply::coded;

/// Prepared statements of a connection, and bytes of their texts.
const STATEMENTS_MAX: usize = 1000;
const STATEMENT_BYTES_MAX: usize = 4 << 20;
/// Portals and cursors of a connection, and bytes of their parameters and texts.
const PORTALS_MAX: usize = 256;
const PORTAL_BYTES_MAX: usize = 32 << 20;

/// Things with names, each of a size.
#[derive(Default)]
struct Shelf(HashMap<String, usize>);

impl Shelf {
    /// Puts something there, in place of what had its name; says whether there was room.
    fn put(&mut self, name: &str, bytes: usize, count_max: usize, bytes_max: usize) -> bool {
        let others = self.0.iter().filter(|(other, _)| *other != name);
        let (count, sum) = others.fold((0, 0), |(count, sum), (_, bytes)| (count + 1, sum + bytes));
        let has_room = count < count_max && sum + bytes <= bytes_max;
        if has_room {
            self.0.insert(name.to_owned(), bytes);
        }
        has_room
    }
}

/// The number of objects that a connection keeps.
#[derive(Default)]
pub(super) struct Limits {
    statements: Mutex<Shelf>,
    portals: Mutex<Shelf>,
}

impl Limits {
    /// A statement is prepared.
    pub(super) fn statement(&self, name: &str, bytes: usize) -> PgWireResult<()> {
        match self.statements.lock().put(name, bytes, STATEMENTS_MAX, STATEMENT_BYTES_MAX) {
            true => Ok(()),
            false => Err(coded(
                "53400",
                &format!(
                    "a connection keeps at most {STATEMENTS_MAX} prepared statements with \
                     {STATEMENT_BYTES_MAX} bytes of text; close some"
                ),
            )),
        }
    }

    /// A portal or a cursor is opened.
    pub(super) fn portal(&self, name: &str, bytes: usize) -> PgWireResult<()> {
        match self.portals.lock().put(name, bytes, PORTALS_MAX, PORTAL_BYTES_MAX) {
            true => Ok(()),
            false => Err(coded(
                "53400",
                &format!(
                    "a connection keeps at most {PORTALS_MAX} portals and cursors with \
                     {PORTAL_BYTES_MAX} bytes of parameters; close some"
                ),
            )),
        }
    }

    /// A statement is closed.
    pub(super) fn close_statement(&self, name: &str) {
        self.statements.lock().0.remove(name);
    }

    /// All statements are closed; their names.
    pub(super) fn take_statements(&self) -> Vec<String> {
        self.statements.lock().0.drain().map(|(name, _)| name).collect()
    }

    /// A portal or a cursor is closed.
    pub(super) fn close_portal(&self, name: &str) {
        self.portals.lock().0.remove(name);
    }

    /// All portals and cursors are closed.
    pub(super) fn close_portals(&self) {
        self.portals.lock().0.clear();
    }
}
