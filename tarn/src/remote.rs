//! A running server, for the commands of the program that talk to one.

use clap::Args;
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;
use tarn_resp::client::{Client, ClientError};

const REFUSED: u8 = 1;
const FAILED: u8 = 2;

/// The address of the server, and the user.
#[derive(Args)]
pub(crate) struct RemoteArgs {
    /// Host of the server.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Its port.
    #[arg(short, long, default_value_t = 6379)]
    port: u16,
    /// The user, if it is not the default one. It needs a password.
    #[arg(long)]
    user: Option<String>,
    /// The password, which other users may see in the list of processes. Without it, the value of
    /// REDISCLI_AUTH.
    #[arg(short = 'a', long)]
    password: Option<String>,
}

/// The reason why there is no answer.
pub(crate) enum Trouble {
    /// The server said no, or that it failed.
    Refused(String),
    /// There is no server, or it answers no more.
    Away(String),
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Trouble {
        Trouble::Away(error.to_string())
    }
}

impl Trouble {
    /// Prints the trouble, and returns the status to exit with.
    pub(crate) fn tell(self) -> ExitCode {
        let (code, why) = match self {
            Trouble::Refused(why) => (REFUSED, why),
            Trouble::Away(why) => (FAILED, why),
        };
        eprintln!("tarn: {why}");
        ExitCode::from(code)
    }
}

impl RemoteArgs {
    /// Connects. A reply that takes longer than `patience` is an error.
    pub(crate) fn connect(&self, patience: Duration) -> Result<Client, Trouble> {
        if self.password.is_some() {
            eprintln!(
                "tarn: warning: others may see a password given with '-a' in the list of processes; \
                 REDISCLI_AUTH in the environment is safe from them"
            );
        }
        let password = self.password.clone().or_else(|| std::env::var("REDISCLI_AUTH").ok());
        if self.user.is_some() && password.is_none() {
            let why = "--user needs a password: in REDISCLI_AUTH in the environment, or behind -a";
            return Err(Trouble::Refused(why.to_owned()));
        }
        let away = |why: String| Trouble::Away(format!("{}:{}: {why}", self.host, self.port));
        let found =
            (self.host.as_str(), self.port).to_socket_addrs().map_err(|error| away(error.to_string()))?;
        let mut last = away("no such host".to_owned());
        for address in found.collect::<Vec<SocketAddr>>() {
            match Client::connect(address, patience) {
                Ok(mut client) => {
                    if let Some(password) = &password {
                        let user = self.user.as_deref().unwrap_or("default");
                        ask(&mut client, &["AUTH", user, password])?;
                    }
                    return Ok(client);
                }
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }
}

/// Asks for something; an error reply is a refusal.
pub(crate) fn ask(client: &mut Client, command: &[&str]) -> Result<tarn_resp::Frame, Trouble> {
    let reply = client.ask(command)?;
    if reply.is_error() {
        let said = reply.to_string();
        let said = said.strip_prefix("(error) ").unwrap_or(&said);
        let said = said.strip_prefix("ERR ").unwrap_or(said);
        if said.starts_with("unknown command") {
            let name = command.first().copied().unwrap_or_default();
            return Err(Trouble::Refused(format!(
                "the server does not know the command {name}: it is another server than Tarn, an older \
                 version, or the command has been renamed there (it said: {said})"
            )));
        }
        return Err(Trouble::Refused(said.to_owned()));
    }
    Ok(reply)
}
