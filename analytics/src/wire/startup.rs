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
use datafusion_postgres::pgwire::messages::startup::{Authentication, SecretKey};
use datafusion_postgres::pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};
use futures::{Sink, SinkExt};
use tarn_engine::lock::Mutex;

use super::bounded::Bound;
use super::reply::{coded, fatal};
use super::rules::{Door, Rules};
use super::set::read_start;
use crate::catalog::settings::POSTGRESQL_VERSION;
use crate::error::sqlstate;
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

/// The password that may be shown without being sent: that of the user `default`, as Redis has it without
/// access control lists.
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

/// The password that a client is asked to show, as the library asks for it.
struct Asked {
    passwords: Arc<Passwords>,
    /// It, once it was asked for.
    shown: Mutex<Option<Vec<u8>>>,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a password")
    }
}

#[async_trait]
impl AuthSource for Asked {
    async fn get_password(&self, login: &LoginInfo) -> PgWireResult<Password> {
        if let Door::Challenge(password) = self.passwords.rules.door(login.user().unwrap_or_default()) {
            *self.shown.lock() = Some(password.clone());
            return Ok(self.passwords.salted(password));
        }
        // There was one when the connection began, and there is none now: no client knows this one.
        let random = || rand::random::<[u8; 32]>().to_vec();
        Ok(Password::new(Some(random()[..16].to_vec()), random()))
    }
}

/// The start of a connection.
pub(super) struct Startup {
    rules: Arc<dyn Rules>,
    asked: Arc<Asked>,
    keys: Arc<Keys>,
    /// Widened when the client may ask; it knows whether the client was asked to send its password.
    bound: Bound,
    parameters: Arc<DefaultServerParameterProvider>,
    /// Has a client show that it knows a password.
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
        let rules = passwords.rules.clone();
        let keys = Arc::new(Keys { sessions, session });
        let mut parameters = DefaultServerParameterProvider::default();
        parameters.server_version = format!("{POSTGRESQL_VERSION} (Tarn {})", env!("CARGO_PKG_VERSION"));
        parameters.default_transaction_read_only = true;
        let parameters = Arc::new(parameters);
        let asked = Arc::new(Asked { passwords, shown: Mutex::new(None) });
        let mut scram = ScramAuth::new(asked.clone());
        if let Some(certificate) = certificate {
            // The password is bound to the connection then (SCRAM-SHA-256-PLUS), for kinds of certificates
            // that this is defined for; with others, clients are asked for it as before.
            let _ = scram.configure_certificate(certificate);
        }
        let scram = SASLAuthStartupHandler::new(parameters.clone())
            .with_scram(scram)
            .with_pid_secret_key_generator(keys.clone());
        Startup { rules, asked, keys, bound, parameters, scram }
    }

    /// Lets a client in that has shown that it knows this password.
    fn log_in<C: ClientInfo>(&self, client: &C, password: &[u8]) -> PgWireResult<()> {
        let name = name_of(client);
        let Some(user) = self.rules.enter(&name, password, client.socket_addr()) else {
            return Err(self.wrong_password(client));
        };
        self.keys.session.log_in(user);
        self.keys.session.check_statements().map_err(|error| fatal(sqlstate(&error), &error.to_string()))
    }

    fn wrong_password<C: ClientInfo>(&self, client: &C) -> PgWireError {
        let name = name_of(client);
        self.rules.note_wrong_password(&name, client.socket_addr());
        PgWireError::InvalidPassword(name)
    }

    /// A client has said its name.
    async fn begin<C>(&self, client: &mut C, message: PgWireFrontendMessage) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let PgWireFrontendMessage::Startup(startup) = &message else { return Ok(()) };
        let name = startup.parameters.get(METADATA_USER).map_or("", String::as_str);
        let door = self.rules.door(name);
        if matches!(door, Door::Challenge(_)) {
            return self.scram.on_startup(client, message).await;
        }
        protocol_negotiation(client, startup).await?;
        save_startup_parameters_to_metadata(client, startup);
        if door == Door::Open {
            self.log_in(client, b"")?;
            return self.finish(client).await;
        }
        self.bound.expect_password();
        client.set_state(PgWireConnectionState::AuthenticationInProgress);
        client.send(PgWireBackendMessage::Authentication(Authentication::CleartextPassword)).await?;
        Ok(())
    }

    /// A client that was asked for a password continues with it, even if none is required any more.
    async fn go_on<C>(&self, client: &mut C, message: PgWireFrontendMessage) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        if self.bound.expects_password() {
            let PgWireFrontendMessage::PasswordMessageFamily(message) = message else {
                return Err(fatal("08P01", "a password is expected, and another message came"));
            };
            self.log_in(client, message.into_password()?.password.as_bytes())?;
            return self.finish(client).await;
        }
        self.scram.on_startup(client, message).await.map_err(|error| match error {
            // The library names who is named along with the password: clients name nobody there.
            PgWireError::InvalidPassword(_) => self.wrong_password(client),
            error => error,
        })?;
        if matches!(client.state(), PgWireConnectionState::ReadyForQuery) {
            let shown = self.asked.shown.lock().take();
            self.log_in(client, &shown.unwrap_or_default())?;
        }
        Ok(())
    }

    async fn finish<C>(&self, client: &mut C) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let (number, secret) = self.keys.generate(client);
        client.set_pid_and_secret_key(number, secret);
        finish_authentication(client, &*self.parameters).await
    }
}

/// The name that a client has given itself.
fn name_of<C: ClientInfo>(client: &C) -> String {
    client.metadata().get(METADATA_USER).cloned().unwrap_or_default()
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
        match client.state() {
            PgWireConnectionState::AuthenticationInProgress => self.go_on(client, message).await?,
            _ => self.begin(client, message).await?,
        }
        if matches!(client.state(), PgWireConnectionState::ReadyForQuery) {
            // The client is in already; what it asked for and cannot have is as if it had not asked.
            let _ = read_start(client.metadata_mut());
            self.bound.widen();
        }
        Ok(())
    }
}
