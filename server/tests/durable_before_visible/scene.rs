//! A server in this process, on a simulated disk whose syncs stand still when the test says so.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tarn_engine::checkpoint::{Checkpoints, Source};
use tarn_engine::io::{Disk, DiskResult, ManualClock, SimDisk, SimOptions, Tap, TappedDisk};
use tarn_engine::record::Lsn;
use tarn_engine::recovery::{self, Progress};
use tarn_engine::{Background, Engine};
use tarn_engine::{LogOptions, SyncMode};
use tarn_server::Services;
use tarn_server::commands;
use tarn_server::config::{Config, ConfigStore, DebugAccess};
use tarn_server::net::address::Address;
use tarn_server::net::handle::ClientHandle;
use tarn_server::net::moves::AcceptorHandle;
use tarn_server::net::stream::Detached;
use tarn_server::serve::accept::Incoming;
use tarn_server::serve::event_loop;
use tarn_server::store::{OpenLog, Store};

/// The longest wait for an event.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// When the clock begins.
const NOW: u64 = 1_700_000_000_000;

/// Calls `look` until it finds something.
pub(crate) fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "it did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Stops the syncs of a disk.
#[derive(Debug, Default)]
struct Stalling {
    stalled: Mutex<bool>,
    changed: Condvar,
}

impl Stalling {
    fn set(&self, stalled: bool) {
        *self.stalled.lock() = stalled;
        self.changed.notify_all();
    }
}

impl Tap for Stalling {
    fn before_sync(&self, _: &Path) -> DiskResult<()> {
        self.changed.wait_while(&mut self.stalled.lock(), |stalled| *stalled);
        Ok(())
    }
}

/// The server.
pub(crate) struct Scene {
    pub server: Arc<Services>,
    pub clock: Arc<ManualClock>,
    mode: SyncMode,
    stalling: Arc<Stalling>,
    incoming: Option<Incoming>,
    worker: Option<JoinHandle<()>>,
    background: Option<Background>,
    fence: Option<Peer>,
}

impl Scene {
    pub(crate) fn new(mode: SyncMode) -> Scene {
        let LogOptions { backlog_bytes_limit, flushes_in_flight, .. } = LogOptions::new(Vec::new());
        Scene::with_log(mode, backlog_bytes_limit, flushes_in_flight)
    }

    /// A server of which the log takes so many bytes before writes have to wait, and writes so many blocks at
    /// a time.
    pub(crate) fn with_log(mode: SyncMode, backlog_bytes_limit: usize, flushes_in_flight: usize) -> Scene {
        let clock = Arc::new(ManualClock::new(NOW));
        let mut config = Config::default();
        config.enable_debug_command = DebugAccess::Yes;
        let store = Arc::new(ConfigStore::new(config, None));
        let mut server = Services::new(store, AcceptorHandle::new().0, commands::catalog());
        server.shared.clock = clock.clone();
        let stalling = Arc::new(Stalling::default());
        let sim = SimDisk::new(1, SimOptions::default());
        let disk: Arc<dyn Disk> = Arc::new(TappedDisk::new(Arc::new(sim), stalling.clone()));
        let checkpoints = Checkpoints::open(disk.clone(), Path::new("/checkpoints")).unwrap();
        let directories = vec![PathBuf::from("/log")];
        let mut options = LogOptions { mode, file_bytes: 1 << 20, ..LogOptions::new(directories) };
        (options.backlog_bytes_limit, options.flushes_in_flight) = (backlog_bytes_limit, flushes_in_flight);
        let (databases, workers) = (server.databases, server.wakers.len());
        let progress = Progress::default();
        let opened =
            recovery::open(disk.clone(), options, Some(&checkpoints), databases, 1, &progress).unwrap();
        let appender = Some(opened.log.appender());
        let (engine, background) =
            Engine::new(opened.tables, workers, appender, opened.validity, clock.clone());
        // What expires is to be found by those who look.
        engine.expiry().set_active(false);
        let log = OpenLog::new(opened.log, mode == SyncMode::Always, Lsn::ZERO, &server.wakers);
        server.note_loaded(&engine);
        server.set_store(Store::new(engine, Some(log), Arc::new(checkpoints)));
        let server = Arc::new(server);
        let (incoming, receiver) = tokio::sync::mpsc::unbounded_channel();
        let (serving, waker) = (server.clone(), server.wakers[0].clone());
        let worker = std::thread::spawn(move || {
            event_loop::run(0, serving, commands::table(), waker, receiver).unwrap()
        });
        let mut scene = Scene {
            server,
            clock,
            mode,
            stalling,
            incoming: Some(incoming),
            worker: Some(worker),
            background: Some(background),
            fence: None,
        };
        scene.fence = Some(scene.connect());
        scene
    }

    /// Lets no sync end from now on, once all that was written is durable.
    pub(crate) fn stall(&self) {
        self.settle();
        // Keys are counted ten times a second.
        self.server.keyspace();
        self.stalling.set(true);
    }

    /// Lets syncs go on.
    pub(crate) fn resume(&self) {
        self.stalling.set(false);
    }

    /// The newest change.
    pub(crate) fn newest(&self) -> Lsn {
        self.server.engine().unwrap().newest()
    }

    /// The newest block that a flight has taken.
    pub(crate) fn newest_block(&self) -> u64 {
        self.server.store().unwrap().log_status().unwrap().last_sequence
    }

    /// Waits until everything is durable.
    pub(crate) fn settle(&self) {
        let newest = self.newest();
        self.server.have_synced(newest, true);
        eventually(|| (self.server.durable() >= newest).then_some(()));
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> Peer {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(LIMIT)).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let address = Address::Unix("test".into());
        let id = self.server.clients.next_id();
        let handle = Arc::new(ClientHandle::new(id, address.clone(), address, 0));
        self.server.clients.insert(handle.clone());
        self.incoming.as_ref().unwrap().send((Detached::Unix(theirs), handle)).unwrap();
        Peer { stream: ours, id }
    }

    /// A new connection whose replies wait for the disk in any mode.
    pub(crate) fn connect_strict(&self) -> Peer {
        let mut peer = self.connect();
        if self.mode != SyncMode::Always {
            assert_eq!(peer.ask("CLIENT DURABILITY always"), "+OK\r\n");
        }
        peer
    }

    /// Waits until all that was sent so far has run, and what of the replies may leave has left: turns of the
    /// only worker begin with all that is there, and end with the replies.
    pub(crate) fn fence(&mut self) {
        let fence = self.fence.as_mut().unwrap();
        for _ in 0..2 {
            assert_eq!(fence.ask("PING"), "+PONG\r\n");
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stalling.set(false);
        if std::thread::panicking() {
            return;
        }
        self.incoming.take();
        self.worker.take().unwrap().join().unwrap();
        drop(self.background.take());
        let log = self.server.store().unwrap().log.load_full().unwrap();
        // A test may have closed it.
        let open = log.log.lock().take();
        open.into_iter().for_each(|log| log.close().unwrap());
    }
}

/// A client.
pub(crate) struct Peer {
    stream: UnixStream,
    pub id: u64,
}

/// A word in which `\xNN` stands for a byte.
fn unescape(word: &str) -> Vec<u8> {
    let mut parts = word.split("\\x");
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

/// Requests as they are sent: words are separated by single spaces.
pub(crate) fn encode(requests: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in requests {
        let words: Vec<&str> = request.split(' ').collect();
        write!(bytes, "*{}\r\n", words.len()).unwrap();
        for word in words {
            let word = unescape(word);
            write!(bytes, "${}\r\n", word.len()).unwrap();
            bytes.extend_from_slice(&word);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    bytes
}

impl Peer {
    /// Sends requests in one packet.
    pub(crate) fn send(&mut self, requests: &[&str]) {
        self.stream.write_all(&encode(requests)).unwrap();
    }

    /// The bytes that have arrived.
    pub(crate) fn received(&mut self) -> String {
        self.stream.set_nonblocking(true).unwrap();
        let (mut all, mut buffer) = (Vec::new(), [0; 16 << 10]);
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) => all.extend_from_slice(&buffer[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        self.stream.set_nonblocking(false).unwrap();
        String::from_utf8_lossy(&all).into_owned()
    }

    /// Waits until so many bytes have arrived.
    pub(crate) fn expect(&mut self, expected: &str) {
        let mut bytes = vec![0; expected.len()];
        self.stream.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
    }

    /// Waits until the server has closed the connection.
    pub(crate) fn expect_end(&mut self) {
        assert_eq!(self.stream.read(&mut [0]).unwrap(), 0);
    }

    /// Sends a request of which the reply is one text, and waits for it.
    pub(crate) fn ask_bulk(&mut self, request: &str) -> String {
        let head = self.ask(request);
        let mut text = vec![0; head.trim_end()[1..].parse::<usize>().unwrap() + 2];
        self.stream.read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// Sends a request of which the reply is one line, and waits for it.
    pub(crate) fn ask(&mut self, request: &str) -> String {
        self.send(&[request]);
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\r\n") {
            self.stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }
}
