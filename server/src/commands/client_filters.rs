//! The filters of `CLIENT LIST` and `CLIENT KILL`: those of Redis 7.0 and 7.4, and of Valkey 9.0.
//!
//! ```text
//!   CLIENT KILL  TYPE normal  NOT-NAME keeper  MAXAGE 60
//!                └ all that is wanted            └ and so many seconds, at least
//!                             └ nothing that is unwanted
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use tarn_resp::Args;

use crate::config::ClientClass;
use crate::error::{CommandError, printable};
use crate::execute::parse;
use crate::execute::showing::flags_of;
use crate::net::address::Address;
use crate::net::clients::Clients;
use crate::net::handle::ClientHandle;

/// Filters that can be turned round: `NOT-` stands before their names.
const TRAITS: [&str; 12] =
    ["id", "type", "user", "addr", "laddr", "name", "flags", "lib-name", "lib-ver", "db", "capa", "ip"];
/// Filters that cannot.
const OTHERS: [&str; 3] = ["skipme", "maxage", "idle"];

/// Signs of clients that a filter may name; Tarn has no clients of some of them.
const FLAGS: &[u8] = b"OSMPxbtRBducAUreTIN";
/// Signs of things that clients understand.
const CAPABILITIES: &[u8] = b"r";

/// The part of the server that filters name.
pub(super) struct Known<'k> {
    /// The number of databases.
    pub(super) databases: usize,
    /// Whether there is a user of this name.
    pub(super) is_user: &'k dyn Fn(&[u8]) -> bool,
}

/// The traits that a client has, or has not. Of a filter that stands twice the later value counts.
#[derive(Default)]
struct Traits<'a> {
    /// `None` inside: the class of masters, which no client is of.
    class: Option<Option<ClientClass>>,
    /// The name of its user.
    user: Option<&'a [u8]>,
    addr: Option<&'a [u8]>,
    local_addr: Option<&'a [u8]>,
    /// The address without the port.
    ip: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    /// The name of its library, and the version.
    library: [Option<&'a [u8]>; 2],
    /// Signs; it has all of them.
    flags: Option<&'a [u8]>,
    capabilities: Option<&'a [u8]>,
    db: Option<u8>,
}

impl<'a> Traits<'a> {
    /// Takes over a filter. `is_negated`: these traits are unwanted.
    fn set(
        &mut self,
        name: &str,
        value: &'a [u8],
        is_negated: bool,
        known: &Known<'_>,
    ) -> Result<(), CommandError> {
        let signs = |known: &[u8], name: &str| {
            if value.iter().all(|sign| known.contains(sign)) {
                return Ok(Some(value));
            }
            let filter =
                if is_negated { format!("NOT-{}", name.to_uppercase()) } else { "provided".to_owned() };
            let value = printable(value);
            Err(CommandError::owned(format!("ERR Unknown {name} found in the {filter} filter: {value}")))
        };
        match name {
            "type" => self.class = Some(class_of(value)?),
            "user" => {
                if !(known.is_user)(value) {
                    let user = printable(value);
                    return Err(CommandError::owned(format!("ERR No such user '{user}'")));
                }
                self.user = Some(value);
            }
            "addr" => self.addr = Some(value),
            "laddr" => self.local_addr = Some(value),
            "ip" => self.ip = Some(value),
            "name" => self.name = Some(value),
            "lib-name" => self.library[0] = Some(value),
            "lib-ver" => self.library[1] = Some(value),
            "flags" => self.flags = signs(FLAGS, name)?,
            "capa" => self.capabilities = signs(CAPABILITIES, name)?,
            "db" => {
                self.db = Some(database(value, if is_negated { "NOT-DB" } else { "DB" }, known.databases)?);
            }
            _ => return Err(CommandError::Syntax),
        }
        Ok(())
    }

    /// Whether a client has each of the traits that are asked for.
    fn of(&self, client: &ClientHandle) -> impl Iterator<Item = bool> {
        let info = client.info.lock().clone();
        let is_named = |wanted: Option<&[u8]>, text: &str| {
            wanted.map(|wanted| !text.is_empty() && text.as_bytes() == wanted)
        };
        let is_at =
            |wanted: Option<&[u8]>, addr: &Address| wanted.map(|it| addr.to_string().as_bytes() == it);
        let has_all = |signs: &[u8], all: &str| signs.iter().all(|sign| all.as_bytes().contains(sign));
        let [library, version] = &info.library;
        let answers = [
            self.class.map(|class| class == Some(client.class())),
            self.user.map(|name| *info.user.name == *name),
            is_at(self.addr, &client.addr),
            is_at(self.local_addr, &client.local_addr),
            self.ip.map(|wanted| ip_of(&client.addr).is_some_and(|ip| ip.as_bytes() == wanted)),
            is_named(self.name, &info.name),
            is_named(self.library[0], library),
            is_named(self.library[1], version),
            self.flags.map(|signs| has_all(signs, &flags_of(client, &info))),
            self.capabilities.map(|signs| signs.is_empty() || info.takes_redirects),
            self.db.map(|db| db == info.db),
        ];
        answers.into_iter().flatten()
    }
}

/// The address of the other end without a port; a Unix socket has none.
fn ip_of(addr: &Address) -> Option<String> {
    addr.tcp().map(|addr| addr.ip().to_string())
}

/// The class that a word names; `None`: that of masters, which no client is of.
fn class_of(word: &[u8]) -> Result<Option<ClientClass>, CommandError> {
    if word.eq_ignore_ascii_case(b"master") || word.eq_ignore_ascii_case(b"primary") {
        return Ok(None);
    }
    let unknown = || CommandError::owned(format!("ERR Unknown client type '{}'", printable(word)));
    ClientClass::from_name(word).map(Some).ok_or_else(unknown)
}

/// A database, for the filter of this name.
fn database(value: &[u8], name: &str, databases: usize) -> Result<u8, CommandError> {
    let number = integer(value, name)?;
    let number = u8::try_from(number).ok().filter(|number| usize::from(*number) < databases);
    number.ok_or_else(|| {
        let last = databases.saturating_sub(1);
        CommandError::owned(format!("ERR {name} number should be between 0 and {last}"))
    })
}

fn integer(value: &[u8], name: &str) -> Result<i64, CommandError> {
    let error = || CommandError::owned(format!("ERR {name} is not an integer or out of range"));
    parse::integer(value).map_err(|_| error())
}

/// A number of seconds, for the filter of this name.
fn seconds(value: &[u8], name: &str) -> Result<u64, CommandError> {
    let number = u64::try_from(integer(value, name)?).ok().filter(|seconds| *seconds > 0);
    number.ok_or_else(|| CommandError::owned(format!("ERR {name} should be greater than 0")))
}

/// The filter that a word names, and whether it is turned round.
fn named(word: &[u8]) -> Option<(&'static str, bool)> {
    let find = |names: &[&'static str], word: &[u8]| {
        names.iter().copied().find(|name| word.eq_ignore_ascii_case(name.as_bytes()))
    };
    match word.split_at_checked(4) {
        Some((not, rest)) if not.eq_ignore_ascii_case(b"not-") => {
            find(&TRAITS, rest).map(|name| (name, true))
        }
        _ => find(&TRAITS, word).or_else(|| find(&OTHERS, word)).map(|name| (name, false)),
    }
}

/// Adds numbers of clients up to the next filter; returns how many arguments these are.
fn take_ids(words: Args<'_>, kills: bool, ids: &mut Vec<u64>) -> Result<usize, CommandError> {
    const INVALID: CommandError = CommandError::text("ERR Invalid client ID");
    const NOT_POSITIVE: CommandError = CommandError::text("ERR client-id should be greater than 0");
    let mut taken = 0;
    for word in words {
        match parse::integer(word).map(u64::try_from) {
            Ok(Ok(id)) if id > 0 => ids.push(id),
            // None has such a number.
            Ok(_) if !kills => {}
            Err(_) if taken > 0 && (kills || named(word).is_some()) => break,
            _ => return Err(if kills { NOT_POSITIVE } else { INVALID }),
        }
        taken += 1;
    }
    Ok(taken)
}

/// The clients that are meant.
#[derive(Default)]
pub(super) struct ClientFilter<'a> {
    /// Those of these numbers, in this order; `None`: all.
    ids: Option<Vec<u64>>,
    /// But not these. Sorted.
    without_ids: Vec<u64>,
    wanted: Traits<'a>,
    unwanted: Traits<'a>,
    /// Seconds since they connected, at least.
    age_min: Option<u64>,
    /// Seconds since their last commands, at least.
    idle_min: Option<u64>,
    /// But not the one that asks.
    spares_me: bool,
}

impl<'a> ClientFilter<'a> {
    /// That of the client with this address: what `CLIENT KILL` was before it had filters.
    pub(super) fn of_address(addr: &'a [u8]) -> ClientFilter<'a> {
        let wanted = Traits { addr: Some(addr), ..Traits::default() };
        ClientFilter { wanted, ..ClientFilter::default() }
    }

    /// That of these words, each number of which counts once. `kills`: they are of `CLIENT KILL`, which
    /// spares its own client unless they say otherwise.
    pub(super) fn parse(
        words: Args<'a>,
        kills: bool,
        known: &Known<'_>,
    ) -> Result<ClientFilter<'a>, CommandError> {
        let mut filter = ClientFilter { spares_me: kills, ..ClientFilter::default() };
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let (name, is_negated) = named(word).ok_or(CommandError::Syntax)?;
            let value = words.get(at + 1).ok_or(CommandError::Syntax)?;
            at += 2;
            match name {
                "id" => {
                    let ids =
                        if is_negated { &mut filter.without_ids } else { filter.ids.get_or_insert_default() };
                    at += take_ids(words.tail(at - 1), kills, ids)? - 1;
                }
                "maxage" => filter.age_min = Some(seconds(value, name)?),
                "idle" => filter.idle_min = Some(seconds(value, name)?),
                "skipme" if value.eq_ignore_ascii_case(b"yes") => filter.spares_me = true,
                "skipme" if value.eq_ignore_ascii_case(b"no") => filter.spares_me = false,
                _ => {
                    let traits = if is_negated { &mut filter.unwanted } else { &mut filter.wanted };
                    traits.set(name, value, is_negated, known)?;
                }
            }
        }
        filter.without_ids.sort_unstable();
        if let Some(ids) = &mut filter.ids {
            if kills {
                ids.sort_unstable();
            }
            // A number may come a million times, and a line is some hundred bytes long.
            let mut seen = HashSet::new();
            ids.retain(|id| seen.insert(*id));
        }
        Ok(filter)
    }

    /// The clients among all that are meant; `me` asks.
    pub(super) fn select(&self, clients: &Clients, me: u64) -> Vec<Arc<ClientHandle>> {
        let mut meant: Vec<_> = match &self.ids {
            Some(ids) => ids.iter().filter_map(|id| clients.get(*id)).collect(),
            None => clients.all(),
        };
        meant.retain(|client| !(self.spares_me && client.id == me) && self.matches(client));
        meant
    }

    /// Whether a client is as it has to be, its number and `SKIPME` left aside.
    fn matches(&self, client: &ClientHandle) -> bool {
        self.without_ids.binary_search(&client.id).is_err()
            && self.age_min.is_none_or(|age| client.since.elapsed().as_secs() >= age)
            && self.idle_min.is_none_or(|idle| client.idle().as_secs() >= idle)
            && self.wanted.of(client).all(|has| has)
            && !self.unwanted.of(client).any(|has| has)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::net::handle::{ClientInfo, UserTag};
    use tarn_resp::OwnedArgs;

    fn clients() -> Clients {
        let clients = Clients::default();
        let here = Address::Tcp("127.0.0.1:6379".parse().unwrap());
        let ends = [
            Address::Tcp("10.0.0.1:1001".parse().unwrap()),
            Address::Tcp("10.0.0.2:1002".parse().unwrap()),
            Address::Tcp("[::1]:1003".parse().unwrap()),
            Address::Unix("/run/tarn.socket".into()),
        ];
        for end in ends {
            clients.insert(Arc::new(ClientHandle::new(clients.next_id(), end, here.clone(), 0)));
        }
        let change = |id, change: &dyn Fn(&mut ClientInfo)| change(&mut clients.get(id).unwrap().info.lock());
        change(1, &|info| info.name = "one".to_owned());
        change(2, &|info| info.library = ["lib".to_owned(), "1.0".to_owned()]);
        change(2, &|info| info.takes_redirects = true);
        change(3, &|info| (info.db, info.no_touch) = (5, true));
        change(4, &|info| info.user = UserTag { name: b"alice".as_slice().into(), id: 7 });
        clients.get(3).unwrap().note_subscriptions([1, 0, 0]);
        clients
    }

    /// The numbers of the clients that the words mean; client 1 asks.
    fn meant(clients: &Clients, words: &str, kills: bool) -> Result<Vec<u64>, String> {
        let words: OwnedArgs = words.split_whitespace().collect();
        let known = Known { databases: 16, is_user: &|name| [&b"default"[..], b"alice"].contains(&name) };
        let filter =
            ClientFilter::parse(words.as_args(), kills, &known).map_err(|error| error.to_string())?;
        Ok(filter.select(clients, 1).iter().map(|client| client.id).collect())
    }

    #[test]
    fn clients_are_found_by_what_they_are() {
        let clients = clients();
        for (words, expected) in [
            ("skipme no", &[1u64, 2, 3, 4][..]),
            ("SKIPME YES", &[2, 3, 4]),
            ("ID 3", &[3]),
            ("id 3 1 3 99 -5", &[3, 1]),
            ("id 3 3 3 id 1 3 1", &[3, 1]),
            ("id 3 1 skipme yes", &[3]),
            ("id 3 id 1 type normal", &[1]),
            ("not-id 3 1", &[2, 4]),
            ("type pubsub", &[3]),
            ("not-type pubsub", &[1, 2, 4]),
            ("type replica", &[]),
            ("type master", &[]),
            ("not-type primary", &[1, 2, 3, 4]),
            ("user default", &[1, 2, 3]),
            ("user alice", &[4]),
            ("not-user default", &[4]),
            ("addr 10.0.0.1:1001", &[1]),
            ("addr [::1]:1003", &[3]),
            ("addr /run/tarn.socket:0", &[4]),
            ("not-addr 10.0.0.1:1001", &[2, 3, 4]),
            ("laddr 127.0.0.1:6379", &[1, 2, 3, 4]),
            ("not-laddr 127.0.0.1:6379", &[]),
            ("ip 10.0.0.2", &[2]),
            ("ip ::1", &[3]),
            ("ip 10.0.0", &[]),
            ("not-ip ::1", &[1, 2, 4]),
            ("name one", &[1]),
            ("not-name one", &[2, 3, 4]),
            ("lib-name lib", &[2]),
            ("not-lib-name lib lib-ver 1.0", &[]),
            ("lib-ver 1.0", &[2]),
            ("not-lib-ver 1.0", &[1, 3, 4]),
            ("flags N", &[1, 2]),
            ("flags PT", &[3]),
            ("flags UT", &[]),
            ("not-flags U", &[1, 2, 3]),
            ("db 5", &[3]),
            ("not-db 0", &[3]),
            ("capa r", &[2]),
            ("not-capa r", &[1, 3, 4]),
            ("maxage 1000", &[]),
            ("idle 1000", &[]),
            ("name two name one", &[1]),
            ("flags N not-name one not-db 5", &[2]),
        ] {
            assert_eq!(meant(&clients, words, false).as_deref(), Ok(expected), "{words}");
        }
        assert_eq!(meant(&clients, "id 3 1 3", true), Ok(vec![3]));
        assert_eq!(meant(&clients, "id 3 1 3 skipme no", true), Ok(vec![1, 3]));
    }

    #[test]
    fn filters_that_make_no_sense_are_refused() {
        const SYNTAX: &str = "ERR syntax error";
        const INVALID: &str = "ERR Invalid client ID";
        const NOT_POSITIVE: &str = "ERR client-id should be greater than 0";
        let clients = clients();
        for (words, listing, killing) in [
            ("foo bar", SYNTAX, SYNTAX),
            ("not- x", SYNTAX, SYNTAX),
            ("not-skipme yes", SYNTAX, SYNTAX),
            ("not-maxage 1", SYNTAX, SYNTAX),
            ("name one addr", SYNTAX, SYNTAX),
            ("id", SYNTAX, SYNTAX),
            ("skipme maybe", SYNTAX, SYNTAX),
            ("id abc", INVALID, NOT_POSITIVE),
            ("id 1 abc", INVALID, SYNTAX),
            ("id name one", INVALID, NOT_POSITIVE),
            ("not-id x", INVALID, NOT_POSITIVE),
        ] {
            assert_eq!(meant(&clients, words, false), Err(listing.to_owned()), "{words}");
            assert_eq!(meant(&clients, words, true), Err(killing.to_owned()), "{words}");
        }
        assert_eq!(meant(&clients, "id 2 0", true), Err(NOT_POSITIVE.to_owned()));
        for (words, error) in [
            ("type x", "ERR Unknown client type 'x'"),
            ("not-user x", "ERR No such user 'x'"),
            ("maxage x", "ERR maxage is not an integer or out of range"),
            ("maxage 0", "ERR maxage should be greater than 0"),
            ("IDLE x", "ERR idle is not an integer or out of range"),
            ("IDLE -1", "ERR idle should be greater than 0"),
            ("db x", "ERR DB is not an integer or out of range"),
            ("db 16", "ERR DB number should be between 0 and 15"),
            ("not-db -1", "ERR NOT-DB number should be between 0 and 15"),
            ("Not-Db x", "ERR NOT-DB is not an integer or out of range"),
            ("flags Nq", "ERR Unknown flags found in the provided filter: Nq"),
            ("not-flags n", "ERR Unknown flags found in the NOT-FLAGS filter: n"),
            ("capa rx", "ERR Unknown capa found in the provided filter: rx"),
            ("not-capa x", "ERR Unknown capa found in the NOT-CAPA filter: x"),
        ] {
            assert_eq!(meant(&clients, words, false), Err(error.to_owned()), "{words}");
        }
    }
}
