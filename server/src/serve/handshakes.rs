//! Handshakes of TLS: each has a time, and there are so many at most, a quarter of `maxclients` at all
//! workers together. One more ends the oldest of the network that has most of them, so that silent
//! connections keep nobody out.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::execute::services::Services;
use crate::net::attempts::origin;
use crate::net::encrypted::Encrypted;
use crate::net::handle::ClientHandle;
use crate::net::listen::Service;
use crate::net::stream::Stream;

/// Handshakes that are under way at a worker, at most.
const HANDSHAKES_MAX: usize = 256;
/// All of them together are one of so many of the clients that there may be.
const CLIENTS_PER_HANDSHAKE: usize = 4;
/// The time that one may take; less, if `auth-timeout` is.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// The clients of a worker whose handshakes are under way, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Handshakes(RefCell<VecDeque<Arc<ClientHandle>>>);

/// A client among them. Dropped, it is no longer.
struct Entered<'a> {
    all: &'a Handshakes,
    id: u64,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.all.0.borrow_mut().retain(|other| other.id != self.id);
    }
}

impl Handshakes {
    /// Shakes hands with a client, if it speaks TLS.
    pub(super) async fn shake(
        &self,
        server: &Services,
        stream: &mut Stream,
        client: &Arc<ClientHandle>,
    ) -> io::Result<()> {
        if stream.encrypted().is_none() {
            return Ok(());
        }
        let _under_way = server.tls.begin_handshake();
        let _entered = self.enter(server, client);
        let time = HANDSHAKE_TIME_MAX.min(Duration::from_secs(server.live.auth_timeout_s()));
        let shaking = poll_fn(|cx| {
            client.set_waker(cx.waker());
            if client.is_killed() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            stream.poll_handshake(cx)
        });
        let ended = tokio::time::timeout(time, shaking).await;
        let ended: io::Result<()> = ended.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let has_resumed = stream.encrypted().is_some_and(Encrypted::has_resumed);
        let outcome = ended.as_ref().map(|()| has_resumed);
        server.tls.note_handshake(&client.addr, Service::RedisTls, outcome);
        ended
    }

    fn enter(&self, server: &Services, client: &Arc<ClientHandle>) -> Entered<'_> {
        let most = handshakes_max(server.live.maxclients(), server.config.snapshot().serving_threads());
        let mut all = self.0.borrow_mut();
        all.push_back(client.clone());
        while all.len() > most {
            let networks: Vec<Option<IpAddr>> = all.iter().map(|client| origin(&client.addr)).collect();
            let Some(ended) = all.remove(victim(&networks)) else { break };
            server.tls.note_given_up();
            ended.kill();
        }
        Entered { all: self, id: client.id }
    }
}

/// Handshakes that may be under way at each of so many workers: they count as clients.
fn handshakes_max(maxclients: usize, workers: usize) -> usize {
    (maxclients / (CLIENTS_PER_HANDSHAKE * workers.max(1))).clamp(1, HANDSHAKES_MAX)
}

/// The one to end: the oldest of the network that has most of them. Who begins many ends its own.
fn victim(networks: &[Option<IpAddr>]) -> usize {
    let mut counts: HashMap<Option<IpAddr>, usize> = HashMap::new();
    for network in networks {
        *counts.entry(*network).or_default() += 1;
    }
    let most = counts.values().copied().max();
    networks.iter().position(|network| counts.get(network).copied() == most).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_leave_places_for_clients() {
        assert_eq!(handshakes_max(10_000, 4), 256);
        assert_eq!(handshakes_max(1000, 5), 50);
        assert_eq!(handshakes_max(10_000, 41), 60);
        assert_eq!(handshakes_max(3, 5), 1);
    }

    #[test]
    fn who_begins_many_handshakes_ends_its_own() {
        let networks = |last: &[u8]| -> Vec<Option<IpAddr>> {
            last.iter().map(|last| Some(IpAddr::from([192, 0, 2, *last]))).collect()
        };
        assert_eq!(victim(&networks(&[1, 2, 3])), 0, "the oldest");
        assert_eq!(victim(&networks(&[1, 2, 3, 2])), 1);
        assert_eq!(victim(&networks(&[1, 1, 2, 2, 2])), 2);
        assert_eq!(victim(&[]), 0);
    }
}
