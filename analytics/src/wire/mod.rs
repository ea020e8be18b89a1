//! PostgreSQL's wire protocol, so that its clients connect unchanged.
//!
//! ```text
//!   accept ─ start-up, password ─ statements ─┬─ BEGIN, COMMIT, SHOW QUERIES …   service.rs
//!                                             ├─ SET, SHOW, cursors              a library
//!                                             └─ queries, declarations           session.rs
//! ```
//!
//! The protocol, the catalog that clients ask for, cursors and settings are libraries' work; ours are the
//! instant of a statement or a block, what is refused, and the codes of errors.

mod reply;
mod service;
mod startup;

use std::io;
use std::net::TcpListener as StdListener;
use std::sync::Arc;

use datafusion_postgres::pgwire::tokio::process_socket;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::session::Analytics;
use service::Handlers;
pub use startup::Login;
use startup::Sessions;

/// The priority of queries: a tenth of what others get where there is not enough for all.
const PRIORITY: i32 = 10;

/// How clients are served.
#[derive(Clone)]
pub struct WireOptions {
    /// Asks for the password that clients need now; `None`: none.
    pub login: Login,
    /// How many may be connected at once; more are refused.
    pub connections_max: usize,
}

/// Serves clients of these sockets, for ever.
pub async fn serve(
    analytics: Arc<Analytics>,
    listeners: Vec<StdListener>,
    options: WireOptions,
) -> io::Result<()> {
    let free = Arc::new(Semaphore::new(options.connections_max));
    let sessions = Arc::new(Sessions::default());
    let mut accepting = tokio::task::JoinSet::new();
    for listener in listeners {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let (analytics, options) = (analytics.clone(), options.clone());
        let (free, sessions) = (free.clone(), sessions.clone());
        accepting.spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((socket, _)) => {
                        let Ok(permit) = free.clone().try_acquire_owned() else {
                            tracing::warn!("A client of SQL was refused: there are as many as may be");
                            continue;
                        };
                        let handlers = Handlers::new(&analytics, &sessions, options.login.clone());
                        tokio::spawn(async move {
                            talk(socket, handlers).await;
                            drop(permit);
                        });
                    }
                    Err(error) => {
                        tracing::warn!("A client of SQL could not be accepted: {error}");
                        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    }
                }
            }
        });
    }
    while accepting.join_next().await.is_some() {}
    Ok(())
}

/// Has the calling thread give way to whoever serves Redis's clients. To be called by each thread that runs
/// queries.
pub fn give_way() {
    // Without it queries are as fast, and clients wait longer: nothing that a query depends on.
    if let Err(error) = rustix::process::setpriority_process(None, PRIORITY) {
        tracing::debug!("queries run at the priority of all others: {error}");
    }
}

async fn talk(socket: TcpStream, handlers: Handlers) {
    // A client that goes away in the middle of something is nobody's trouble.
    if let Err(error) = process_socket(socket, None, handlers).await {
        tracing::debug!("A client of SQL is gone: {error}");
    }
}
