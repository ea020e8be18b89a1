//! Handshakes of TLS: each has a time, and there are so many at most. One more ends the oldest, so that
//! silent connections keep nobody out.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::execute::services::Services;
use crate::net::certificates::user_of;
use crate::net::encrypted::Encrypted;
use crate::net::handle::ClientHandle;
use crate::net::listen::Service;
use crate::net::stream::Stream;

/// Handshakes that are under way at a worker.
const HANDSHAKES_MAX: usize = 256;
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
    /// Shakes hands with a client, if it speaks TLS. Its user is noted, if its certificate names one.
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
        if let Some(certificate) = stream.encrypted().and_then(Encrypted::client_certificate) {
            let part = server.config.snapshot().tls.auth_clients_user;
            if let Some(user) = user_of(certificate, part) {
                // It shakes hands once.
                let _ = client.certificate_user.set(user);
            }
        }
        ended
    }

    fn enter(&self, server: &Services, client: &Arc<ClientHandle>) -> Entered<'_> {
        let mut all = self.0.borrow_mut();
        all.push_back(client.clone());
        if all.len() > HANDSHAKES_MAX
            && let Some(oldest) = all.pop_front()
        {
            server.tls.note_given_up();
            oldest.kill();
        }
        Entered { all: self, id: client.id }
    }
}
