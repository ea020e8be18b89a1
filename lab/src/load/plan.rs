//! The description of a load: its groups of connections, their requests, and its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::request::Mix;
use super::watch::Cue;

/// The pace of a group's requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Each connection sends this many requests at once, and the next when all are answered.
    Closed {
        /// Requests in a batch, at least 1.
        pipeline: u32,
    },
    /// This many requests a second over all connections, evenly spaced.
    Open {
        /// Requests a second, above 0.
        rate: f64,
    },
    /// This many requests a second over all connections. Those of each beat are due together at its start, on
    /// as many connections as there are. Between beats the generator sleeps, so that it leaves its core to
    /// others.
    Beats {
        /// Requests a second, above 0.
        rate: f64,
        /// The time from one beat to the next.
        beat: Duration,
    },
}

/// Connections that do the same.
#[derive(Debug, Clone)]
pub struct Group {
    /// The name that the result carries.
    pub name: &'static str,
    /// The number of connections.
    pub connections: usize,
    /// The pace of their requests.
    pub pace: Pace,
    /// The requests that they send. Those of several replies are for a closed loop without a tally.
    pub mix: Mix,
}

/// The end of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After a warm-up that is left out, and a time that is measured.
    Time {
        /// Left out.
        warmup: Duration,
        /// Measured.
        measured: Duration,
    },
    /// When each group, closed loops only, has sent this many requests and has all replies.
    Requests(u64),
    /// When the cue of the load says so. All of it is measured.
    Told,
}

/// A load to run.
#[derive(Debug, Clone)]
pub struct Load {
    /// Where the server listens.
    pub address: SocketAddr,
    /// The groups.
    pub groups: Vec<Group>,
    /// Its end.
    pub until: Until,
    /// The same seed gives the same requests.
    pub seed: u64,
    /// A process whose processor time over the measured time is wanted: the server's.
    pub watched_pid: Option<u32>,
    /// Above 0, a `Tally` is kept of the requests that ask for it, whose keys have numbers below this.
    pub tallied_keys: u64,
    /// Gives the load its phases, which are measured apart, and its end.
    pub cue: Option<Arc<Cue>>,
    /// Once this is set, a broken connection is the end of the load and no error: somebody killed the server.
    pub killed: Option<Arc<AtomicBool>>,
}

impl Load {
    /// A load on the server at `address`.
    pub fn new(address: SocketAddr, groups: Vec<Group>, until: Until, seed: u64) -> Load {
        Load { address, groups, until, seed, watched_pid: None, tallied_keys: 0, cue: None, killed: None }
    }

    /// True if the server may be killed.
    pub(super) fn is_killed(&self) -> bool {
        self.killed.as_ref().is_some_and(|killed| killed.load(Ordering::SeqCst))
    }
}
