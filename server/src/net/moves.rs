//! Requests to the acceptor: listen at other ports or addresses.

use std::sync::mpsc::{SyncSender, sync_channel};

use tokio::sync::mpsc;

use crate::config::Config;
use crate::net::certificates::Prepared;
use crate::net::listen::ListenError;

/// Asks the acceptor to listen elsewhere.
#[derive(Debug)]
pub struct Move {
    /// The configuration in force.
    pub(crate) old: Config,
    /// The configuration with the new ports and addresses.
    pub(crate) config: Config,
    /// Certificates that come into force with it.
    pub(crate) certificates: Option<Prepared>,
    /// Where the outcome is awaited.
    pub(crate) outcome: SyncSender<Result<(), ListenError>>,
}

/// How others reach the acceptor.
#[derive(Debug, Clone)]
pub struct AcceptorHandle(mpsc::UnboundedSender<Move>);

impl AcceptorHandle {
    /// A handle, and where the acceptor finds what is asked of it.
    pub fn new() -> (AcceptorHandle, mpsc::UnboundedReceiver<Move>) {
        let (sender, moves) = mpsc::unbounded_channel();
        (AcceptorHandle(sender), moves)
    }

    /// Listens where `config` says, and nowhere else; where `old` says until now. The certificates come into
    /// force before anybody is accepted there. On an error everything is as it was; `None` stands for a
    /// server that stops.
    ///
    /// REQUIRES: not the acceptor's own thread.
    pub fn listen_as(
        &self,
        old: &Config,
        config: &Config,
        certificates: Option<Prepared>,
    ) -> Result<(), Option<ListenError>> {
        let (outcome, awaited) = sync_channel(1);
        let moving = Move { old: old.clone(), config: config.clone(), certificates, outcome };
        self.0.send(moving).map_err(|_| None)?;
        awaited.recv().map_err(|_| None)?.map_err(Some)
    }
}
