//! The start of a connection: passwords, and the keys that cancel requests show.

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
use tarn_engine::lock::Mutex;

use super::bounded::Bound;
use super::reply::coded;
use super::rules::Rules;
use super::set::read_start;
use crate::catalog::settings::POSTGRESQL_VERSION;
use crate::session::Session;

/// The number and the secret of a connection.
type Key = (i32, Vec<u8>);

/// The sessions by the keys that cancel their statements.
#[derive(Default)]
pub(super) struct Sessions {
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

/// The password of the one user that there is, `default`, as in Redis without access control lists.
pub(super) struct Passwords {
    rules: Arc<dyn Rules>,
    /// The salted form of the password that was required last. Salting takes thousands of rounds, so a client
    /// that tries passwords must not cause it at each attempt.
    salted: Mutex<Option<Salted>>,
}

/// A password as SCRAM compares it.
struct Salted {
    password: Vec<u8>,
    salt: [u8; 16],
    salted: Vec<u8>,
}

impl Passwords {
    /// As these rules say.
    pub(super) fn new(rules: Arc<dyn Rules>) -> Passwords {
        Passwords { rules, salted: Mutex::new(None) }
    }

    fn salted(&self, password: Vec<u8>) -> Password {
        let mut known = self.salted.lock();
        if known.as_ref().is_none_or(|known| known.password != password) {
            let salt: [u8; 16] = rand::random();
            let text = String::from_utf8_lossy(&password);
            let salted = gen_salted_password(&text, &salt, SCRAM_ITERATIONS);
            *known = Some(Salted { password, salt, salted });
        }
        let known = known.as_ref().expect("it was just put there");
        Password::new(Some(known.salt.to_vec()), known.salted.clone())
    }
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the user default")
    }
}

/// Passwords, as the library asks for them.
#[derive(Debug)]
struct OneUser(Arc<Passwords>);

#[async_trait]
impl AuthSource for OneUser {
    async fn get_password(&self, login: &LoginInfo) -> PgWireResult<Password> {
        let random = || rand::random::<[u8; 32]>().to_vec();
        // There may have been a password when the connection began, and none now.
        let password = self.0.salted(self.0.rules.password().unwrap_or_else(random));
        if login.user() == Some("default") {
            return Ok(password);
        }
        // An unknown user fails like one with a wrong password, with the same salt.
        Ok(Password::new(password.salt().map(<[u8]>::to_vec), random()))
    }
}

/// The start of a connection.
pub(super) struct Startup {
    passwords: Arc<Passwords>,
    keys: Arc<Keys>,
    /// Widened when the client may ask.
    bound: Bound,
    parameters: Arc<DefaultServerParameterProvider>,
    /// Asks for a password.
    scram: SASLAuthStartupHandler<DefaultServerParameterProvider>,
}

impl Startup {
    /// For a connection of this session, encrypted with these certificates (PEM) if there are any.
    pub(super) fn new(
        passwords: Arc<Passwords>,
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
        let mut scram = ScramAuth::new(Arc::new(OneUser(passwords.clone())));
        if let Some(certificate) = certificate {
            // The password is bound to the connection then (SCRAM-SHA-256-PLUS), for kinds of certificates
            // that this is defined for; with others, clients are asked for it as before.
            let _ = scram.configure_certificate(certificate);
        }
        let scram = SASLAuthStartupHandler::new(parameters.clone())
            .with_scram(scram)
            .with_pid_secret_key_generator(keys.clone());
        Startup { passwords, keys, bound, parameters, scram }
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
        let rules = &self.passwords.rules;
        let peer = client.socket_addr();
        // A client that was asked for a password continues with it, even if none is required any more.
        let was_asked = matches!(client.state(), PgWireConnectionState::AuthenticationInProgress);
        if was_asked || rules.password().is_some() {
            let outcome = self.scram.on_startup(client, message).await;
            if matches!(outcome, Err(PgWireError::InvalidPassword(_))) {
                rules.note_wrong_password(peer);
            }
            outcome.map_err(|error| match error {
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
