//! `MIGRATE`: a thread sends copies of keys to another server, as a worker does not wait for a network.
//!
//! ```text
//!   MIGRATE ──copies of keys──> tarn-migrate: connect ── PING AUTH SELECT ── RESTORE … ──> the other server
//!   the client's request looks again ── keys that it has taken and nobody has changed ──> deleted here
//! ```
//!
//! Between the copy and the look other clients are served, and may change the keys. So each copied key is
//! watched, and one that has changed is sent again: the request decides that (`commands/migrate.rs`).
//!
//! So many requests send at a time; others wait for a place, in the order in which they came, without looking
//! at their keys meanwhile.
//!
//! Invariants: a key counts as taken only if the other server has answered its `RESTORE` with `+OK`. No bytes
//! that a client chose are sent before the other server has answered as one of Redis' protocol does.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tarn_engine::io::Clock;
use tarn_engine::lock::Mutex;
use tarn_engine::record::UnixMs;
use tarn_engine::session::Copied;
use tarn_engine::{Entry, Watch};
use tarn_resp::Args;

use crate::error::{CommandError, printable};
use crate::net::handle::ClientHandle;
use crate::observe::process::MIGRATIONS_MAX;
use crate::persist::rdb::payload_of;

/// Keys, and about how many bytes, that are sent before their answers are read.
const KEYS_AT_ONCE: usize = 64;
const BYTES_AT_ONCE: usize = 1 << 20;
/// Longest line of an answer that is read.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Where keys go, and how.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The name or the address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its database, as the client wrote it: whether there is such a one only the server knows.
    pub database: i64,
    /// The time that it may be silent. At least a millisecond.
    pub timeout: Duration,
    /// The arguments of `AUTH`; none: it is not sent.
    pub auth: Vec<Vec<u8>>,
    /// Whether keys that are there are replaced.
    pub replaces: bool,
    /// The version of the payloads.
    pub version: u16,
}

/// Why keys were not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// So many requests send keys, and none of them has ended in time.
    Waiting,
    /// There is no connection.
    Connecting,
    /// The bytes of a request did not go out.
    Writing,
    /// There was no answer, or one that makes no sense.
    Reading,
    /// The server refused, with this text.
    Refused(String),
}

impl From<Failure> for CommandError {
    fn from(failure: Failure) -> CommandError {
        match failure {
            Failure::Waiting => CommandError::owned(format!(
                "IOERR {MIGRATIONS_MAX} other MIGRATE requests are running, and none has ended within the \
                 timeout"
            )),
            Failure::Connecting => CommandError::text("IOERR error or timeout connecting to the client"),
            Failure::Writing => CommandError::text("IOERR error or timeout writing to target instance"),
            Failure::Reading => CommandError::text("IOERR error or timeout reading to target instance"),
            Failure::Refused(text) => {
                CommandError::owned(format!("ERR Target instance replied with error: {text}"))
            }
        }
    }
}

/// The outcome of sending keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Whether the other server has taken each key, in the order in which they were given.
    pub taken: Vec<bool>,
    /// Why others were not, if that was not because they had expired.
    pub failure: Option<Failure>,
}

/// The state that the request and the thread share.
#[derive(Debug, Default)]
struct Job {
    outcome: OnceLock<Outcome>,
    is_given_up: AtomicBool,
    /// The connection while it is used, which either may end.
    connection: Mutex<Option<Arc<TcpStream>>>,
}

impl Job {
    /// Ends what waits for the other server.
    fn give_up(&self) {
        self.is_given_up.store(true, Ordering::SeqCst);
        self.close_if_given_up();
    }

    fn close_if_given_up(&self) {
        if self.is_given_up.load(Ordering::SeqCst) {
            self.close();
        }
    }

    fn close(&self) {
        // The lock is held, so that the descriptor does not outlive `end`.
        if let Some(connection) = &*self.connection.lock() {
            // It may be closed already.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Gives the descriptor back. REQUIRES: the thread does not use the connection any more.
    fn end(&self) {
        let connection = self.connection.lock().take();
        drop(connection);
    }
}

/// A key of a request, as it was when it was copied.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Where it stands among the arguments.
    pub place: usize,
    /// Says whether it has changed since.
    pub watch: Watch,
}

/// Keys that a request sends. Given up when this is dropped.
#[derive(Debug)]
pub(crate) struct Migration {
    /// A hash of the request.
    request: u64,
    /// The keys that are sent.
    pub keys: Vec<Sent>,
    /// Those that were taken before, and were not changed up to when the others had to be sent again.
    pub kept: Vec<Sent>,
    /// The times that keys were sent, this one among them.
    pub rounds: u32,
    job: Arc<Job>,
}

impl Migration {
    /// Whether it is of this request.
    pub(crate) fn is_of(&self, args: Args<'_>) -> bool {
        self.request == hash_of(args)
    }

    /// The outcome, once there is one.
    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.job.outcome.get()
    }
}

impl Drop for Migration {
    fn drop(&mut self) {
        self.job.give_up();
    }
}

fn hash_of(args: Args<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    args.len().hash(&mut hasher);
    args.iter().for_each(|arg| arg.hash(&mut hasher));
    hasher.finish()
}

/// The keys of a request, and where they go.
pub(crate) struct Load {
    /// Where they go.
    pub target: Target,
    /// The keys, with a copy of each.
    pub keys: Vec<(Sent, Copied)>,
    /// Those that were taken before.
    pub kept: Vec<Sent>,
    /// The times that keys were sent, this one among them.
    pub rounds: u32,
}

/// Lets requests send keys to other servers, so many at a time.
#[derive(Debug, Default)]
pub(crate) struct Migrator {
    places: Mutex<Places>,
}

/// The places of requests that send keys, and the requests that wait for one.
///
/// Invariant: where one waits, all places are taken.
#[derive(Debug, Default)]
struct Places {
    taken: u64,
    next: u64,
    /// By their numbers, in the order in which they came.
    waiting: BTreeMap<u64, Arc<Turn>>,
}

/// A request that waits for a place.
#[derive(Debug)]
struct Turn {
    client: Arc<ClientHandle>,
    has_place: AtomicBool,
}

impl Migrator {
    /// A place for the request `args`, if there is one. Else its turn: `client` is woken when it has a place,
    /// for which it waits no longer than `timeout`.
    pub(crate) fn enter(
        self: &Arc<Self>,
        args: Args<'_>,
        timeout: Duration,
        client: &Arc<ClientHandle>,
    ) -> Result<Running, Queued> {
        let mut places = self.places.lock();
        if places.taken < MIGRATIONS_MAX {
            places.taken += 1;
            return Ok(Running(self.clone()));
        }
        let number = places.next;
        places.next += 1;
        let turn = Arc::new(Turn { client: client.clone(), has_place: AtomicBool::new(false) });
        places.waiting.insert(number, turn.clone());
        let until = Instant::now().checked_add(timeout);
        Err(Queued { request: hash_of(args), number, turn, until, migrator: self.clone(), is_used: false })
    }

    /// Gives a place to the request that waits for longest, if one does.
    fn free(&self) {
        let next = {
            let mut places = self.places.lock();
            let next = places.waiting.pop_first();
            places.taken -= u64::from(next.is_none());
            next
        };
        if let Some((_, turn)) = next {
            turn.has_place.store(true, Ordering::SeqCst);
            turn.client.wake();
        }
    }
}

/// The turn of a request that waits for a place. Dropping it gives it up, with the place that it may have.
#[derive(Debug)]
pub(crate) struct Queued {
    /// A hash of the request.
    request: u64,
    number: u64,
    turn: Arc<Turn>,
    /// The end of its wait; `None`: beyond all clocks.
    until: Option<Instant>,
    migrator: Arc<Migrator>,
    /// Whether its place has been taken.
    is_used: bool,
}

impl Queued {
    /// Whether it is of this request.
    pub(crate) fn is_of(&self, args: Args<'_>) -> bool {
        self.request == hash_of(args)
    }

    /// Whether it has waited for as long as it may.
    pub(crate) fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Whether it has to wait no more.
    pub(crate) fn is_over(&self) -> bool {
        self.turn.has_place.load(Ordering::SeqCst) || self.is_late()
    }

    /// Its place, once it has one.
    pub(crate) fn take_place(&mut self) -> Option<Running> {
        let has_place = self.turn.has_place.load(Ordering::SeqCst) && !self.is_used;
        self.is_used |= has_place;
        has_place.then(|| Running(self.migrator.clone()))
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let waits = self.migrator.places.lock().waiting.remove(&self.number).is_some();
        if !waits && !self.is_used {
            self.migrator.free();
        }
    }
}

/// A place among the requests that send keys.
#[derive(Debug)]
pub(crate) struct Running(Arc<Migrator>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.free();
    }
}

impl Running {
    /// Has keys of the request `args` sent. Waits for nothing; the client is woken when that is done.
    pub(crate) fn send(
        self,
        load: Load,
        args: Args<'_>,
        clock: Arc<dyn Clock>,
        client: Arc<ClientHandle>,
    ) -> Result<Migration, CommandError> {
        let Load { target, keys, kept, rounds } = load;
        let (keys, copies): (Vec<Sent>, Vec<Copied>) = keys.into_iter().unzip();
        let job = Arc::new(Job::default());
        let shared = job.clone();
        let work = move || {
            let mut taken = vec![false; copies.len()];
            let failure = send_all(&target, &copies, &*clock, &shared, &mut taken).err();
            // Before another may connect: connections are as many as places at most.
            shared.end();
            // Before the client is told, which may send more.
            drop((copies, self));
            let is_first = shared.outcome.set(Outcome { taken, failure }).is_ok();
            debug_assert!(is_first, "keys are sent once");
            client.wake();
        };
        let started = std::thread::Builder::new().name("tarn-migrate".to_owned()).spawn(work);
        started.map_err(|error| CommandError::owned(format!("ERR cannot start a thread: {error}")))?;
        Ok(Migration { request: hash_of(args), keys, kept, rounds, job })
    }
}

/// Connects to the other server, unless it is given up.
fn connect(target: &Target, job: &Job) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for address in (target.host.as_str(), target.port).to_socket_addrs()? {
        // A name may have many addresses, and each may take the whole time.
        if job.is_given_up.load(Ordering::SeqCst) {
            break;
        }
        match TcpStream::connect_timeout(&address, target.timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(target.timeout))?;
                stream.set_write_timeout(Some(target.timeout))?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// A connection to the other server.
struct Link<'s> {
    stream: &'s TcpStream,
    answers: BufReader<&'s TcpStream>,
}

impl Link<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(bytes).map_err(|_| Failure::Writing)
    }

    /// Reads an answer, which is one line, without its end.
    fn read_line(&mut self) -> Result<Vec<u8>, Failure> {
        let mut line = Vec::new();
        let mut answers = self.answers.by_ref().take(LINE_BYTES_MAX);
        answers.read_until(b'\n', &mut line).map_err(|_| Failure::Reading)?;
        if !line.ends_with(b"\r\n") {
            return Err(Failure::Reading);
        }
        line.truncate(line.len() - 2);
        Ok(line)
    }

    /// Reads the answer to a request, which is to be `+OK`.
    fn expect_ok(&mut self) -> Result<(), Failure> {
        match self.read_line()?.as_slice() {
            b"+OK" => Ok(()),
            [b'-', text @ ..] => Err(Failure::Refused(printable(text))),
            _ => Err(Failure::Reading),
        }
    }

    /// Asks whether this is a server of Redis' protocol. The text of an error, if it answers with one: it
    /// wants a password first, or serves nobody.
    fn greet(&mut self) -> Result<Option<String>, Failure> {
        let mut request = Vec::new();
        push_request(&mut request, &[b"PING"]);
        self.write(&request)?;
        match self.read_line()?.as_slice() {
            b"+PONG" => Ok(None),
            [b'-', text @ ..] => Ok(Some(printable(text))),
            _ => Err(Failure::Reading),
        }
    }

    /// Sends a request, which is to be answered with `+OK`.
    fn ask(&mut self, words: &[&[u8]]) -> Result<(), Failure> {
        let mut request = Vec::new();
        push_request(&mut request, words);
        self.write(&request)?;
        self.expect_ok()
    }
}

/// Greets the other server, and has it take the password and the database.
fn begin(link: &mut Link<'_>, target: &Target) -> Result<(), Failure> {
    // Passwords and keys may have any bytes, ends of lines among them. A server of another protocol, such as
    // one of mail, could take them for requests.
    let greeting = link.greet()?;
    let database = target.database.to_string();
    let select = [&b"SELECT"[..], database.as_bytes()];
    if target.auth.is_empty() {
        return or_greeting(link.ask(&select), greeting);
    }
    let words: Vec<&[u8]> =
        std::iter::once(&b"AUTH"[..]).chain(target.auth.iter().map(Vec::as_slice)).collect();
    or_greeting(link.ask(&words), greeting)?;
    link.ask(&select)
}

/// The outcome of the first request behind the greeting. A server that is full or protected says so in answer
/// to anything, and ends the connection: that error is told instead of the end.
fn or_greeting(asked: Result<(), Failure>, greeting: Option<String>) -> Result<(), Failure> {
    match (asked, greeting) {
        (Err(Failure::Reading | Failure::Writing), Some(text)) => Err(Failure::Refused(text)),
        (asked, _) => asked,
    }
}

/// Sends the keys, and notes which are taken.
///
/// Keys that have expired are passed over. What the server refuses does not keep the others from being sent;
/// the first refusal is the failure, whatever comes behind it.
fn send_all<K: Deref<Target = Entry>>(
    target: &Target,
    keys: &[K],
    clock: &dyn Clock,
    job: &Job,
    taken: &mut [bool],
) -> Result<(), Failure> {
    let connection = connect(target, job).map_err(|error| match error.kind() {
        // Redis notices that nobody listens when it writes.
        io::ErrorKind::ConnectionRefused => Failure::Writing,
        _ => Failure::Connecting,
    })?;
    let connection = Arc::new(connection);
    *job.connection.lock() = Some(connection.clone());
    let mut link = Link { stream: &connection, answers: BufReader::new(&*connection) };
    // If it was given up before the connection was known, nobody has ended that.
    job.close_if_given_up();
    // No key goes into another database than the one that was asked for.
    begin(&mut link, target)?;
    let (mut requests, mut sent, mut refusal) = (Vec::new(), Vec::new(), None);
    for (index, key) in keys.iter().enumerate() {
        match restore(&mut link, &mut requests, key, clock.unix_ms(), target) {
            Ok(true) => sent.push(index),
            Ok(false) => {}
            Err(failure) => return Err(refusal.unwrap_or(failure)),
        }
        if sent.len() < KEYS_AT_ONCE && requests.len() < BYTES_AT_ONCE && index + 1 < keys.len() {
            continue;
        }
        if let Err(failure) = flush(&mut link, &mut requests, &mut sent, taken, &mut refusal) {
            return Err(refusal.unwrap_or(failure));
        }
    }
    refusal.map_or(Ok(()), Err)
}

/// Sends requests, and reads the answers; `sent` has the number of the key of each.
fn flush(
    link: &mut Link<'_>,
    requests: &mut Vec<u8>,
    sent: &mut Vec<usize>,
    taken: &mut [bool],
    refusal: &mut Option<Failure>,
) -> Result<(), Failure> {
    link.write(requests)?;
    requests.clear();
    requests.shrink_to(BYTES_AT_ONCE);
    for index in sent.drain(..) {
        match link.expect_ok() {
            Ok(()) => taken[index] = true,
            Err(failure @ Failure::Refused(_)) => {
                refusal.get_or_insert(failure);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// The time that a key has left, 0 if it never expires; `None` if it has expired.
fn ttl_ms(entry: &Entry, now: UnixMs) -> Option<u64> {
    match entry.expiry() {
        None => Some(0),
        Some(_) if entry.is_expired(now) => None,
        Some(expiry) => Some((expiry - now).max(1)),
    }
}

/// Adds the request that makes a key as it is at `now`; `false`: it has expired, or all of its fields have. A
/// large payload is sent at once, behind the requests so far, so that it is not copied.
fn restore(
    link: &mut Link<'_>,
    requests: &mut Vec<u8>,
    entry: &Entry,
    now: UnixMs,
    target: &Target,
) -> Result<bool, Failure> {
    let Some(ttl_ms) = ttl_ms(entry, now) else { return Ok(false) };
    let Some(payload) = payload_of(entry, now, target.version) else { return Ok(false) };
    push_len(requests, '*', if target.replaces { 5 } else { 4 });
    push_word(requests, b"RESTORE");
    push_word(requests, entry.key());
    push_word(requests, ttl_ms.to_string().as_bytes());
    push_len(requests, '$', payload.len());
    if payload.len() > BYTES_AT_ONCE {
        link.write(requests)?;
        link.write(&payload)?;
        requests.clear();
    } else {
        requests.extend_from_slice(&payload);
    }
    requests.extend_from_slice(b"\r\n");
    if target.replaces {
        push_word(requests, b"REPLACE");
    }
    Ok(true)
}

fn push_request(requests: &mut Vec<u8>, words: &[&[u8]]) {
    push_len(requests, '*', words.len());
    words.iter().for_each(|word| push_word(requests, word));
}

fn push_len(requests: &mut Vec<u8>, kind: char, len: usize) {
    requests.extend_from_slice(format!("{kind}{len}\r\n").as_bytes());
}

fn push_word(requests: &mut Vec<u8>, word: &[u8]) {
    push_len(requests, '$', word.len());
    requests.extend_from_slice(word);
    requests.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::net::address::Address;
    use std::net::TcpListener;
    use std::thread::JoinHandle;
    use tarn_engine::io::SystemClock;
    use tarn_engine::record::{Change, Lsn};
    use tarn_rdb::VERSION_WRITTEN;
    use tarn_resp::OwnedArgs;

    /// Keys `key 0`, `key 1` …, the last of which expires at this time.
    fn keys(number: usize, expiry: Option<UnixMs>) -> Vec<Arc<Entry>> {
        let key = |index: usize| {
            let expiry = expiry.filter(|_| index + 1 == number);
            let change = Change::Put { value: b"value".to_vec().into(), expiry };
            Arc::new(Entry::create(format!("key {index}").as_bytes(), &change, Lsn(1)).unwrap())
        };
        (0..number).map(key).collect()
    }

    /// A server that answers each request with the next of these lines, and then closes the connection. Its
    /// thread returns the requests, their words joined by blanks; payloads are left out.
    fn server(answers: Vec<String>) -> (Target, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut input = BufReader::new(stream.try_clone().unwrap());
            let mut requests = Vec::new();
            for answer in answers {
                let Some(words) = read_request(&mut input) else { break };
                requests.push(words);
                if stream.write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
            requests
        });
        (target(port), thread)
    }

    fn target(port: u16) -> Target {
        let (host, timeout) = ("127.0.0.1".to_owned(), Duration::from_secs(30));
        Target {
            host,
            port,
            database: 3,
            timeout,
            auth: Vec::new(),
            replaces: false,
            version: VERSION_WRITTEN,
        }
    }

    fn read_request(input: &mut impl BufRead) -> Option<String> {
        let mut line = String::new();
        input.read_line(&mut line).ok().filter(|len| *len > 0)?;
        let words = line.trim_end().strip_prefix('*').unwrap().parse::<usize>().unwrap();
        let mut shown = Vec::new();
        for index in 0..words {
            line.clear();
            input.read_line(&mut line).unwrap();
            let mut word = vec![0; line.trim_end().strip_prefix('$').unwrap().parse::<usize>().unwrap() + 2];
            input.read_exact(&mut word).unwrap();
            if index != 3 {
                shown.push(String::from_utf8_lossy(&word[..word.len() - 2]).into_owned());
            }
        }
        Some(shown.join(" "))
    }

    fn lines(answers: &[&str]) -> Vec<String> {
        answers.iter().map(|answer| format!("{answer}\r\n")).collect()
    }

    fn send(target: &Target, keys: &[Arc<Entry>]) -> (Vec<bool>, Result<(), Failure>) {
        let mut taken = vec![false; keys.len()];
        let sent = send_all(target, keys, &SystemClock::new(), &Job::default(), &mut taken);
        (taken, sent)
    }

    #[test]
    fn keys_are_taken_one_by_one_and_the_first_refusal_is_told() {
        let busy = "-BUSYKEY Target key name already exists.";
        let answers = ["+PONG", "+OK", "+OK", "+OK", busy, "-ERR other", "+OK"];
        let (mut target, thread) = server(lines(&answers));
        target.auth = vec![b"user".to_vec(), b"secret".to_vec()];
        let (taken, sent) = send(&target, &keys(4, None));
        assert_eq!(taken, [true, false, false, true]);
        let refusal = "BUSYKEY Target key name already exists.".to_owned();
        assert_eq!(sent, Err(Failure::Refused(refusal)));
        let restores = (0..4).map(|index| format!("RESTORE key {index} 0"));
        let first = ["PING", "AUTH user secret", "SELECT 3"].map(str::to_owned);
        let expected: Vec<String> = first.into_iter().chain(restores).collect();
        assert_eq!(thread.join().unwrap(), expected);
    }

    #[test]
    fn nothing_is_sent_where_the_password_or_the_database_is_refused() {
        for (answers, asked) in [
            (&["+PONG", "-WRONGPASS no"][..], vec!["PING", "AUTH x"]),
            (
                &["-NOAUTH Authentication required.", "+OK", "-ERR DB index is out of range"],
                vec!["PING", "AUTH x", "SELECT 3"],
            ),
        ] {
            let (mut target, thread) = server(lines(answers));
            target.auth = vec![b"x".to_vec()];
            let (taken, sent) = send(&target, &keys(2, None));
            assert_eq!(taken, [false, false]);
            assert!(matches!(sent, Err(Failure::Refused(_))), "{sent:?}");
            assert_eq!(thread.join().unwrap(), asked);
        }
    }

    #[test]
    fn neither_passwords_nor_keys_go_to_a_server_of_another_protocol() {
        for answer in ["220 mail ESMTP", "HTTP/1.1 400 Bad Request", "+OK POP3 ready", "+OK", "ERROR", ""] {
            for auth in [vec![b"x\r\nHELO me\r\n".to_vec()], Vec::new()] {
                // It would go on to say that all is well.
                let (mut target, thread) = server(lines(&[answer, "+OK", "+OK", "+OK"]));
                target.auth = auth;
                assert_eq!(send(&target, &keys(1, None)), (vec![false], Err(Failure::Reading)), "{answer}");
                assert_eq!(thread.join().unwrap(), ["PING"]);
            }
        }
    }

    #[test]
    fn the_error_of_a_server_that_serves_nobody_is_told() {
        for auth in [vec![b"x".to_vec()], Vec::new()] {
            // It answers the first request, and closes the connection; or does not even wait for that.
            let (mut guarded, thread) = server(lines(&["-DENIED it is protected"]));
            guarded.auth = auth.clone();
            let refusal = Failure::Refused("DENIED it is protected".to_owned());
            assert_eq!(send(&guarded, &keys(1, None)), (vec![false], Err(refusal)));
            thread.join().unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let full = Target { auth, ..target(listener.local_addr().unwrap().port()) };
            let thread = std::thread::spawn(move || {
                let mut stream = listener.accept().unwrap().0;
                stream.write_all(b"-ERR max number of clients reached\r\n").unwrap();
            });
            let refusal = Failure::Refused("ERR max number of clients reached".to_owned());
            assert_eq!(send(&full, &keys(1, None)), (vec![false], Err(refusal)));
            thread.join().unwrap();
        }
        // One that has taken the password has not refused.
        let (mut target, thread) = server(lines(&["-NOAUTH Authentication required.", "+OK"]));
        target.auth = vec![b"x".to_vec()];
        let (_, sent) = send(&target, &keys(1, None));
        assert!(matches!(sent, Err(Failure::Reading | Failure::Writing)), "{sent:?}");
        thread.join().unwrap();
    }

    #[test]
    fn only_ok_counts_and_a_lost_connection_keeps_what_was_taken() {
        for last in ["", ":1\r\n", "+OKAY\r\n", "+OK"] {
            let answers = [lines(&["+PONG", "+OK", "+OK"]), vec![last.to_owned(), String::new()]].concat();
            let (target, thread) = server(answers);
            let (taken, sent) = send(&target, &keys(3, None));
            assert_eq!((taken, sent), (vec![true, false, false], Err(Failure::Reading)), "{last:?}");
            thread.join().unwrap();
        }
    }

    #[test]
    fn more_keys_than_are_sent_at_once_are_all_sent() {
        let number = 3 * KEYS_AT_ONCE + 1;
        let answers = [lines(&["+PONG"]), vec!["+OK\r\n".to_owned(); number + 1]].concat();
        let (mut target, thread) = server(answers);
        target.replaces = true;
        let (taken, sent) = send(&target, &keys(number, None));
        assert_eq!((taken, sent), (vec![true; number], Ok(())));
        let requests = thread.join().unwrap();
        assert_eq!(requests.len(), number + 2);
        assert_eq!(requests[number + 1], format!("RESTORE key {} 0 REPLACE", number - 1));
    }

    #[test]
    fn a_large_value_is_sent_between_others() {
        let change = Change::Put { value: vec![b'x'; 2 * BYTES_AT_ONCE].into(), expiry: None };
        let large = Arc::new(Entry::create(b"large", &change, Lsn(1)).unwrap());
        let small = keys(2, None);
        let (target, thread) = server(lines(&["+PONG", "+OK", "+OK", "+OK", "+OK"]));
        let all = [small[0].clone(), large, small[1].clone()];
        assert_eq!(send(&target, &all), (vec![true; 3], Ok(())));
        let expected = ["PING", "SELECT 3", "RESTORE key 0 0", "RESTORE large 0", "RESTORE key 1 0"];
        assert_eq!(thread.join().unwrap(), expected);
    }

    #[test]
    fn a_key_that_has_expired_is_passed_over_and_others_keep_their_time() {
        let now = SystemClock::new().unix_ms();
        let (target, thread) = server(lines(&["+PONG", "+OK", "+OK"]));
        assert_eq!(send(&target, &keys(2, Some(now - 10))), (vec![true, false], Ok(())));
        assert_eq!(thread.join().unwrap(), ["PING", "SELECT 3", "RESTORE key 0 0"]);
        let (target, thread) = server(lines(&["+PONG", "+OK", "+OK"]));
        assert_eq!(send(&target, &keys(1, Some(now + 500_000))), (vec![true], Ok(())));
        let request = thread.join().unwrap().remove(2);
        let ttl: u64 = request.rsplit(' ').next().unwrap().parse().unwrap();
        assert!((100_000..=500_000).contains(&ttl), "{request}");
    }

    #[test]
    fn places_go_to_those_that_wait_in_their_order() {
        const LONG: Duration = Duration::MAX;
        let migrator = Arc::<Migrator>::default();
        let address = Address::Unix("test".into());
        let client = Arc::new(ClientHandle::new(1, address.clone(), address, 0));
        let request: OwnedArgs = ["migrate", "host"].into_iter().collect();
        let enter = |timeout| migrator.enter(request.as_args(), timeout, &client);
        let mut places: Vec<Running> = (0..MIGRATIONS_MAX).map(|_| enter(LONG).unwrap()).collect();
        let mut first = enter(LONG).unwrap_err();
        let (second, mut third) = (enter(LONG).unwrap_err(), enter(LONG).unwrap_err());
        assert!(first.is_of(request.as_args()) && !first.is_over() && first.take_place().is_none());
        // A request that goes gives up its turn, and its place if it has one.
        drop(second);
        drop(places.pop());
        assert!(first.is_over() && !third.is_over());
        drop(first);
        assert!(third.is_over() && !third.is_late());
        places.extend(third.take_place());
        assert!(third.take_place().is_none());
        drop(third);
        let late = enter(Duration::ZERO).unwrap_err();
        assert!(late.is_over() && late.is_late());
        drop(late);
        assert_eq!((places.len() as u64, migrator.places.lock().taken), (MIGRATIONS_MAX, MIGRATIONS_MAX));
        drop(places);
        assert_eq!(migrator.places.lock().taken, 0);
        assert!(enter(LONG).is_ok());
    }

    #[test]
    fn a_connection_has_ended_before_its_place_is_given_away() {
        let (target, thread) = server(lines(&["+PONG", "+OK"]));
        let migrator = Arc::<Migrator>::default();
        let address = Address::Unix("test".into());
        let client = Arc::new(ClientHandle::new(1, address.clone(), address, 0));
        let request: OwnedArgs = ["migrate", "host"].into_iter().collect();
        let enter = || migrator.enter(request.as_args(), Duration::MAX, &client);
        let mut places: Vec<Running> = (0..MIGRATIONS_MAX).map(|_| enter().unwrap()).collect();
        let waits = enter().unwrap_err();
        let load = Load { target, keys: Vec::new(), kept: Vec::new(), rounds: 1 };
        let (place, clock) = (places.pop().unwrap(), Arc::new(SystemClock::new()));
        let migration = place.send(load, request.as_args(), clock, client.clone()).unwrap();
        while !waits.is_over() {
            std::thread::yield_now();
        }
        assert!(migration.job.connection.lock().is_none(), "its descriptor is still there");
        while migration.outcome().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(migration.outcome().unwrap().failure, None);
        assert_eq!(thread.join().unwrap(), ["PING", "SELECT 3"]);
    }

    #[test]
    fn who_gives_up_ends_the_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = Target { timeout: Duration::from_secs(3600), ..target(port) };
        let job = Arc::new(Job::default());
        let other = job.clone();
        let thread = std::thread::spawn(move || {
            send_all(&target, &keys(1, None), &SystemClock::new(), &other, &mut [false])
        });
        let _silent = listener.accept().unwrap();
        job.give_up();
        assert!(matches!(thread.join().unwrap(), Err(Failure::Reading | Failure::Writing)));
    }

    #[test]
    fn no_connection_is_made_for_those_who_gave_up_before() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = target(listener.local_addr().unwrap().port());
        let job = Job::default();
        job.give_up();
        let sent = send_all(&target, &keys(1, None), &SystemClock::new(), &job, &mut [false]);
        assert_eq!(sent, Err(Failure::Connecting));
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "somebody has connected");
    }

    #[test]
    fn nobody_listens() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        assert_eq!(send(&target(port), &keys(1, None)), (vec![false], Err(Failure::Writing)));
    }
}
