//! The user of a session of SQL: the rules of the server's users, as the sessions ask for them.

use std::sync::Arc;

use tarn_analytics::{Denied, Keys, User, VisibleKeys, Wish};
use tarn_server::Services;
use tarn_server::acl::{
    self, Context, Reason, Statement, StatementRefused, TableKeys, UserId, client_at_port,
};
use tarn_server::glob;

/// A user that asks statements, by the port for SQL or by the command `SQL`.
pub(crate) struct Guest {
    server: Arc<Services>,
    name: Arc<[u8]>,
    /// The name as a text.
    shown: String,
    id: UserId,
    /// The client, as `ACL LOG` shows it.
    client: String,
    /// Whether it stays when it is turned off: a request of Redis's port does, as all of that port do.
    stays_when_off: bool,
}

impl Guest {
    /// Of a client of the port for SQL, whose other end this is.
    pub(crate) fn of_port(server: Arc<Services>, user: &acl::User, peer: std::net::SocketAddr) -> Guest {
        let shown = String::from_utf8_lossy(&user.name).into_owned();
        let client = client_at_port(peer, "sql", shown.as_bytes());
        let (name, id) = (user.name.clone(), user.id);
        Guest { server, name, shown, id, client, stays_when_off: false }
    }

    /// Of a request of Redis's port.
    pub(crate) fn of_request(server: Arc<Services>, name: Arc<[u8]>, id: UserId, client: String) -> Guest {
        let shown = String::from_utf8_lossy(&name).into_owned();
        Guest { server, name, shown, id, client, stays_when_off: true }
    }

    fn user(&self) -> Option<Arc<acl::User>> {
        let user = self.server.acl.current(&self.name, self.id)?;
        (self.stays_when_off || user.is_enabled()).then_some(user)
    }
}

impl User for Guest {
    fn name(&self) -> &str {
        &self.shown
    }

    fn version(&self) -> u64 {
        self.server.acl.version()
    }

    fn is_there(&self) -> bool {
        self.user().is_some()
    }

    fn allow(&self, wish: &Wish) -> Result<Option<VisibleKeys>, Denied> {
        let tables: Vec<(TableKeys<'_>, u8)> = wish
            .tables
            .iter()
            .map(|table| match &table.keys {
                Keys::Between(prefix, suffix) => (TableKeys::Between(prefix, suffix), table.database),
                Keys::Visible => (TableKeys::Visible, table.database),
            })
            .collect();
        if !self.is_there() {
            return Err(Denied::NoUser);
        }
        let statement = Statement { declares: wish.declares, tables: &tables };
        match self.server.acl.check_statement(&self.name, self.id, statement) {
            Ok(patterns) => Ok(patterns.map(|patterns| VisibleKeys::new(patterns, glob::matches))),
            Err(StatementRefused::NoUser) => Err(Denied::NoUser),
            Err(StatementRefused::Command) => Err(Denied::Statements),
            Err(StatementRefused::Declares) => Err(Denied::Declaring),
            Err(StatementRefused::Keys(at)) => Err(Denied::Table(wish.tables[at].clone())),
            Err(StatementRefused::Database(at)) => Err(Denied::Database(wish.tables[at].clone())),
        }
    }

    fn may_watch(&self) -> bool {
        self.user().is_some_and(|user| user.may_watch(self.server.acl.catalog()))
    }

    fn may_kill(&self) -> bool {
        self.user().is_some_and(|user| user.may_kill(self.server.acl.catalog()))
    }

    fn note(&self, denied: &Denied) {
        let (reason, object) = match denied {
            // Its connection ends, and it was refused nothing.
            Denied::NoUser => return,
            Denied::Statements | Denied::Declaring => (Reason::Command, b"sql".to_vec()),
            Denied::Cancelling => (Reason::Command, b"client|kill".to_vec()),
            Denied::Table(table) => (Reason::Key, table.pattern()),
            Denied::Changed => (Reason::Key, b"*".to_vec()),
            Denied::Database(table) => (Reason::Database, table.database.to_string().into_bytes()),
        };
        let named = (&*object, &*self.name);
        let now_ms = self.server.clock.unix_ms();
        self.server.acl.log.push(now_ms, reason, Context::TopLevel, named, self.client.clone());
    }
}
