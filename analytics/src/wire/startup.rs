//! Who connects: passwords, and the keys by which statements are cancelled.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion_postgres::pgwire::api::auth::sasl::SASLAuthStartupHandler;
use datafusion_postgres::pgwire::api::auth::sasl::scram::{SCRAM_ITERATIONS, ScramAuth, gen_salted_password};
use datafusion_postgres::pgwire::api::auth::{
    AuthSource, DefaultServerParameterProvider, LoginInfo, Password, StartupHandler, finish_authentication,
    protocol_negotiation, save_startup_parameters_to_metadata,
};
use datafusion_postgres::pgwire::api::cancel::CancelHandler;
use datafusion_postgres::pgwire::api::{
    ClientInfo, METADATA_USER, PgWireConnectionState, PidSecretKeyGenerator,
};
use datafusion_postgres::pgwire::error::{PgWireError, PgWireResult};
use datafusion_postgres::pgwire::messages::cancel::CancelRequest;
use datafusion_postgres::pgwire::messages::startup::SecretKey;
use datafusion_postgres::pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};
use futures::Sink;
use parking_lot::Mutex;

use super::bounded::Bound;
use super::reply::coded;
use super::set::read_start;
use crate::session::{POSTGRESQL_VERSION, Session};

/// Asks for the password that clients need now; `None`: none.
pub type Login = Arc<dyn Fn() -> Option<Vec<u8>> + Send + Sync>;

/// The number and the secret of a connection.
type Key = (i32, Vec<u8>);

/// The sessions by the keys that cancel their statements.
#[derive(Default)]
pub struct Sessions {
    by_key: Mutex<HashMap<Key, Weak<Session>>>,
}

impl Sessions {
    /// Gives a session its key.
    fn register(&self, session: &Arc<Session>, long: bool) -> (i32, SecretKey) {
        let number = session.pid();
        let secret = if long {
            SecretKey::Bytes(rand::random::<[u8; 32]>().to_vec().into())
        } else {
            SecretKey::I32(rand::random())
        };
        let mut by_key = self.by_key.lock();
        by_key.retain(|_, session| session.strong_count() > 0);
        by_key.insert((number, bytes_of(&secret)), Arc::downgrade(session));
        (number, secret)
    }
}

fn bytes_of(secret: &SecretKey) -> Vec<u8> {
    match secret {
        SecretKey::I32(number) => number.to_be_bytes().to_vec(),
        SecretKey::Bytes(bytes) => bytes.to_vec(),
    }
}

#[async_trait]
impl CancelHandler for Sessions {
    async fn on_cancel_request(&self, request: CancelRequest) {
        let key = (request.pid, bytes_of(&request.secret_key));
        let session = self.by_key.lock().get(&key).and_then(Weak::upgrade);
        if let Some(session) = session {
            session.cancel();
        }
    }
}

/// Gives the session of a connection its key.
struct Keys {
    sessions: Arc<Sessions>,
    session: Arc<Session>,
}

impl PidSecretKeyGenerator for Keys {
    fn generate(&self, client: &dyn ClientInfo) -> (i32, SecretKey) {
        self.sessions.register(&self.session, client.protocol_version() != ProtocolVersion::PROTOCOL3_0)
    }
}

/// The one user that there is, as in Redis without access control lists.
struct OneUser(Login);

impl fmt::Debug for OneUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the user default")
    }
}

#[async_trait]
impl AuthSource for OneUser {
    async fn get_password(&self, login: &LoginInfo) -> PgWireResult<Password> {
        let password = (self.0)().filter(|_| login.user() == Some("default"));
        // Whoever is not there fails as one whose password is wrong.
        let password = password.unwrap_or_else(|| rand::random::<[u8; 32]>().to_vec());
        let salt: [u8; 16] = rand::random();
        let salted = gen_salted_password(&String::from_utf8_lossy(&password), &salt, SCRAM_ITERATIONS);
        Ok(Password::new(Some(salt.to_vec()), salted))
    }
}

/// The start of a connection.
pub struct Startup {
    login: Login,
    keys: Arc<Keys>,
    /// Widened when the client may ask.
    bound: Bound,
    parameters: Arc<DefaultServerParameterProvider>,
    /// Asks for a password.
    scram: SASLAuthStartupHandler<DefaultServerParameterProvider>,
}

impl Startup {
    /// For a connection of this session, encrypted with these certificates (PEM) if there are any.
    pub fn new(
        login: Login,
        session: Arc<Session>,
        sessions: Arc<Sessions>,
        certificate: Option<&[u8]>,
        bound: Bound,
    ) -> Startup {
        let keys = Arc::new(Keys { sessions, session });
        let mut parameters = DefaultServerParameterProvider::default();
        parameters.server_version = format!("{POSTGRESQL_VERSION} (Tarn {})", env!("CARGO_PKG_VERSION"));
        parameters.default_transaction_read_only = true;
        let parameters = Arc::new(parameters);
        let mut passwords = ScramAuth::new(Arc::new(OneUser(login.clone())));
        if let Some(certificate) = certificate {
            // The password is bound to the connection then (SCRAM-SHA-256-PLUS), for kinds of certificates
            // that this is defined for; with others, clients are asked for it as before.
            let _ = passwords.configure_certificate(certificate);
        }
        let scram = SASLAuthStartupHandler::new(parameters.clone())
            .with_scram(passwords)
            .with_pid_secret_key_generator(keys.clone());
        Startup { login, keys, bound, parameters, scram }
    }
}

#[async_trait]
impl StartupHandler for Startup {
    async fn on_startup<C>(&self, client: &mut C, message: PgWireFrontendMessage) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        if !self.keys.session.is_ready() {
            return Err(coded("57P03", "the data are being loaded; try again in a moment"));
        }
        if (self.login)().is_some() {
            self.scram.on_startup(client, message).await.map_err(|error| match error {
                // The library names who is named along with the password: clients name nobody there.
                PgWireError::InvalidPassword(_) => {
                    let user = client.metadata().get(METADATA_USER).cloned().unwrap_or_default();
                    PgWireError::InvalidPassword(user)
                }
                error => error,
            })?;
        } else if let PgWireFrontendMessage::Startup(startup) = &message {
            protocol_negotiation(client, startup).await?;
            save_startup_parameters_to_metadata(client, startup);
            let (number, secret) = self.keys.generate(client);
            client.set_pid_and_secret_key(number, secret);
            finish_authentication(client, &*self.parameters).await?;
        }
        if matches!(client.state(), PgWireConnectionState::ReadyForQuery) {
            // The client is in already; what it asked for and cannot have is as if it had not asked.
            let _ = read_start(client.metadata_mut());
            self.bound.widen();
        }
        Ok(())
    }
}
