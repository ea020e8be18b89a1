//! Transaction blocks: where they begin and end, what an error in one means, and savepoints and cursors
//! within.
//!
//! SQL only reads here, so a savepoint is a name to which a failed block can go back, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::sql::sqlparser::ast::{CloseCursor, Ident, Statement};
use datafusion_postgres::hooks::HookClient;
use datafusion_postgres::pgwire::api::results::{Response, Tag};
use datafusion_postgres::pgwire::api::store::PortalStore;
use datafusion_postgres::pgwire::error::{PgWireError, PgWireResult};
use datafusion_postgres::pgwire::messages::response::TransactionStatus;
use tarn_engine::lock::Mutex;

use super::limits::Limits;
use super::reply::coded;
use super::set::Settings;
use crate::session::Session;

/// Savepoints of a block.
const SAVEPOINTS_MAX: usize = 1000;

/// The blocks of a connection.
pub(super) struct Blocks {
    session: Arc<Session>,
    settings: Arc<Settings>,
    limits: Arc<Limits>,
    savepoints: Mutex<Vec<String>>,
    /// A failed block has gone back to a savepoint.
    gone_back: AtomicBool,
}

impl Blocks {
    /// The blocks of a connection that has not begun any.
    pub(super) fn new(session: Arc<Session>, settings: Arc<Settings>, limits: Arc<Limits>) -> Blocks {
        Blocks { session, settings, limits, savepoints: Mutex::default(), gone_back: AtomicBool::new(false) }
    }

    /// Sees a statement before it runs, and answers it if it is about a savepoint, or cannot run now.
    pub(super) fn see(
        &self,
        statement: &Statement,
        client: &mut dyn HookClient,
    ) -> Option<PgWireResult<Response>> {
        match statement {
            Statement::Rollback { savepoint: Some(name), .. } => Some(self.go_back(name, client)),
            Statement::Commit { .. } | Statement::Rollback { .. } => {
                self.end(client);
                None
            }
            _ if client.transaction_status() == TransactionStatus::Error => Some(Err(failed_block())),
            Statement::StartTransaction { .. } => {
                self.session.begin();
                None
            }
            Statement::Savepoint { name } => Some(self.save(name)),
            Statement::ReleaseSavepoint { name } => Some(self.release(name)),
            Statement::Declare { .. } if !self.session.is_in_block() => Some(Err(outside("DECLARE CURSOR"))),
            Statement::Close { cursor } => {
                match cursor {
                    CloseCursor::All => self.limits.close_portals(),
                    CloseCursor::Specific { name } => self.limits.close_portal(&name.value),
                }
                None
            }
            _ => None,
        }
    }

    fn save(&self, name: &Ident) -> PgWireResult<Response> {
        if !self.session.is_in_block() {
            return Err(outside("SAVEPOINT"));
        }
        let mut savepoints = self.savepoints.lock();
        if savepoints.len() >= SAVEPOINTS_MAX {
            return Err(coded("53400", &format!("a block has at most {SAVEPOINTS_MAX} savepoints")));
        }
        savepoints.push(folded(name));
        Ok(Response::Execution(Tag::new("SAVEPOINT")))
    }

    fn release(&self, name: &Ident) -> PgWireResult<Response> {
        if !self.session.is_in_block() {
            return Err(outside("RELEASE SAVEPOINT"));
        }
        let mut savepoints = self.savepoints.lock();
        let at = find(&savepoints, name)?;
        savepoints.truncate(at);
        Ok(Response::Execution(Tag::new("RELEASE")))
    }

    fn go_back(&self, name: &Ident, client: &mut dyn HookClient) -> PgWireResult<Response> {
        if !self.session.is_in_block() {
            return Err(outside("ROLLBACK TO SAVEPOINT"));
        }
        let mut savepoints = self.savepoints.lock();
        let at = find(&savepoints, name)?;
        savepoints.truncate(at + 1);
        client.set_transaction_status(TransactionStatus::Transaction);
        self.gone_back.store(true, Ordering::Relaxed);
        Ok(Response::Execution(Tag::new("ROLLBACK")))
    }

    /// Whether a block has gone back to a savepoint since this was asked last.
    pub(super) fn take_gone_back(&self) -> bool {
        self.gone_back.swap(false, Ordering::Relaxed)
    }

    fn end(&self, client: &mut dyn HookClient) {
        // Cursors end with their block, and with them what they still read.
        client.portal_store().clear_portals();
        self.limits.close_portals();
        self.savepoints.lock().clear();
        self.settings.end_block(client);
        self.session.end();
    }
}

/// The savepoint of a name that was made last.
fn find(savepoints: &[String], name: &Ident) -> PgWireResult<usize> {
    let name = folded(name);
    let found = savepoints.iter().rposition(|savepoint| *savepoint == name);
    found.ok_or_else(|| coded("3B001", &format!("savepoint \"{name}\" does not exist")))
}

fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// The error of statements in a failed block.
pub(super) fn failed_block() -> PgWireError {
    coded("25P02", "current transaction is aborted, commands ignored until end of transaction block")
}

fn outside(what: &str) -> PgWireError {
    coded("25P01", &format!("{what} can only be used in transaction blocks"))
}
