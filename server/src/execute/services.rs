//! The parts of a server that act, beside the state that they share.
//!
//! The files of the services do not import this one. Each function of a service takes `Shared` and the
//! other services that it needs, so that each can be read and tested alone.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use tarn_engine::scrub::Scrubber;

use crate::acl::{Catalog, UserFile};
use crate::analytics::search::Search;
use crate::analytics::sql::Sql;
use crate::config::ConfigStore;
use crate::config::rewriter::Rewriter;
use crate::execute::blocking::Blocking;
use crate::net::moves::AcceptorHandle;
use crate::observe::defrag::Defrag;
use crate::persist::backups::Backups;
use crate::persist::libraries::LibraryKeeper;
use crate::persist::migration::Migrator;
use crate::persist::saver::Saver;
use crate::persist::shutdown::Shutdown;
use crate::shared::Shared;

/// The services of a server, with the state that they share, which it dereferences to.
pub struct Services {
    /// The state that all threads share.
    pub shared: Shared,
    /// Clients that wait for keys, replicas or the disk.
    pub blocking: Blocking,
    /// Takes checkpoints.
    pub saver: Saver,
    /// Writes the configuration to its file.
    pub rewriter: Arc<Rewriter>,
    /// Writes and reads the file of users.
    pub(crate) user_file: Arc<UserFile>,
    /// Changes libraries of functions.
    pub(crate) libraries: Arc<LibraryKeeper>,
    /// Sends keys to other servers.
    pub(crate) migrations: Arc<Migrator>,
    /// Looks for damage on the disk.
    pub scrubber: Scrubber,
    /// Moves entries together.
    pub(crate) defrag: Defrag,
    /// Ends the server.
    pub shutdown: Shutdown,
    /// Takes backups.
    pub backups: Arc<Backups>,
    /// Moves the listeners.
    pub acceptor: AcceptorHandle,
    sql: OnceLock<Arc<dyn Sql>>,
    search: OnceLock<Arc<dyn Search>>,
}

impl Deref for Services {
    type Target = Shared;

    #[inline]
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Services {
    /// The services of a server whose data is not loaded yet, with counters for the commands of `catalog`.
    pub fn new(config: Arc<ConfigStore>, acceptor: AcceptorHandle, catalog: Catalog) -> Services {
        let shared = Shared::new(config, catalog);
        Services {
            blocking: Blocking::default(),
            saver: Saver::new(shared.started_unix_ms),
            rewriter: Arc::default(),
            user_file: Arc::default(),
            libraries: Arc::default(),
            migrations: Arc::default(),
            scrubber: Scrubber::default(),
            defrag: Defrag::default(),
            shutdown: Shutdown::default(),
            backups: Arc::default(),
            acceptor,
            sql: OnceLock::new(),
            search: OnceLock::new(),
            shared,
        }
    }

    /// The executor of SQL statements, if there is one.
    pub fn sql(&self) -> Option<&Arc<dyn Sql>> {
        self.sql.get()
    }

    /// Sets the executor of SQL statements. REQUIRES: it is called once.
    pub fn set_sql(&self, sql: Arc<dyn Sql>) {
        let is_first = self.sql.set(sql).is_ok();
        debug_assert!(is_first, "there is one executor of SQL");
    }

    /// The executor of the commands `FT.*`, if there is one.
    pub fn search(&self) -> Option<&Arc<dyn Search>> {
        self.search.get()
    }

    /// Sets the executor of the commands `FT.*`. REQUIRES: it is called once.
    pub fn set_search(&self, search: Arc<dyn Search>) {
        let is_first = self.search.set(search).is_ok();
        debug_assert!(is_first, "there is one executor of search");
    }

    /// Tells the executor of SQL that the store is there. It builds its indexes, which closes the gate.
    ///
    /// REQUIRES: the caller holds no lock that a thread inside the gate waits for.
    pub fn tell_of_store(&self) {
        self.sql().into_iter().for_each(|sql| sql.store_is_there());
    }
}
