//! Sends pending warnings (NoticeResponse) to the client before CommandComplete.
//!
//! ```text
//!   rows … ─ NoticeResponse (WARNING 01000) ─ CommandComplete ─ ReadyForQuery
//! ```

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use datafusion_postgres::pgwire::api::{
    ClientInfo, ClientPortalStore, PgWireConnectionState, SessionExtensions,
};
use datafusion_postgres::pgwire::error::ErrorInfo;
use datafusion_postgres::pgwire::messages::response::TransactionStatus;
use datafusion_postgres::pgwire::messages::startup::SecretKey;
use datafusion_postgres::pgwire::messages::{PgWireBackendMessage, ProtocolVersion};
use futures::Sink;
use rustls_pki_types::CertificateDer;

use crate::session::Session;

/// A client of a session.
pub(super) struct WithNotices<'c, C> {
    client: &'c mut C,
    session: &'c Session,
}

impl<'c, C> WithNotices<'c, C> {
    /// The client whose statements this session runs.
    pub(super) fn new(client: &'c mut C, session: &'c Session) -> WithNotices<'c, C> {
        WithNotices { client, session }
    }
}

impl<C: Sink<PgWireBackendMessage> + Unpin> Sink<PgWireBackendMessage> for WithNotices<'_, C> {
    type Error = C::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        Pin::new(&mut *self.client).poll_ready(cx)
    }

    fn start_send(mut self: Pin<&mut Self>, message: PgWireBackendMessage) -> Result<(), C::Error> {
        if matches!(message, PgWireBackendMessage::CommandComplete(_))
            && let Some(warning) = self.session.warning()
        {
            let told = ErrorInfo::new("WARNING".to_owned(), "01000".to_owned(), warning);
            // The socket's buffer takes one message more than it was ready for.
            Pin::new(&mut *self.client).start_send(PgWireBackendMessage::NoticeResponse(told.into()))?;
        }
        Pin::new(&mut *self.client).start_send(message)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        Pin::new(&mut *self.client).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        Pin::new(&mut *self.client).poll_close(cx)
    }
}

impl<C: ClientPortalStore> ClientPortalStore for WithNotices<'_, C> {
    type PortalStore = C::PortalStore;

    fn portal_store(&self) -> &C::PortalStore {
        self.client.portal_store()
    }
}

impl<C: ClientInfo> ClientInfo for WithNotices<'_, C> {
    fn socket_addr(&self) -> SocketAddr {
        self.client.socket_addr()
    }

    fn is_secure(&self) -> bool {
        self.client.is_secure()
    }

    fn protocol_version(&self) -> ProtocolVersion {
        self.client.protocol_version()
    }

    fn set_protocol_version(&mut self, version: ProtocolVersion) {
        self.client.set_protocol_version(version);
    }

    fn pid_and_secret_key(&self) -> (i32, SecretKey) {
        self.client.pid_and_secret_key()
    }

    fn set_pid_and_secret_key(&mut self, pid: i32, secret_key: SecretKey) {
        self.client.set_pid_and_secret_key(pid, secret_key);
    }

    fn state(&self) -> PgWireConnectionState {
        self.client.state()
    }

    fn set_state(&mut self, new_state: PgWireConnectionState) {
        self.client.set_state(new_state);
    }

    fn transaction_status(&self) -> TransactionStatus {
        self.client.transaction_status()
    }

    fn set_transaction_status(&mut self, new_status: TransactionStatus) {
        self.client.set_transaction_status(new_status);
    }

    fn metadata(&self) -> &HashMap<String, String> {
        self.client.metadata()
    }

    fn metadata_mut(&mut self) -> &mut HashMap<String, String> {
        self.client.metadata_mut()
    }

    fn session_extensions(&self) -> &SessionExtensions {
        self.client.session_extensions()
    }

    fn sni_server_name(&self) -> Option<&str> {
        self.client.sni_server_name()
    }

    fn client_certificates<'a>(&self) -> Option<&[CertificateDer<'a>]> {
        self.client.client_certificates()
    }
}
