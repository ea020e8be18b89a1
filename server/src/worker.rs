//! A worker: a thread with an event loop of its own and the connections that were dealt to it.

use crate::blocking;
use crate::client::{Client, ClientHandle};
use crate::connection::Connection;
use crate::dispatch::Executor;
use crate::lookahead::Lookahead;
use crate::output::{Output, Outputs};
use crate::shared::Shared;
use crate::stats::WorkerStats;
use crate::stream::{Detached, Stream};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tarn_engine::Group;
use tarn_engine::record::{Lsn, UnixMs};
use tokio::sync::{Notify, mpsc};

/// Bytes read from a socket at once.
const READ_BYTES: usize = 64 << 10;
/// How often a worker looks after its connections.
const CRON: Duration = Duration::from_millis(100);

/// What the connections of one worker share.
pub struct Worker {
    /// The number of this worker.
    pub index: usize,
    /// The server.
    pub server: Arc<Shared>,
    /// Where sockets are read into.
    pub scratch: RefCell<Box<[u8]>>,
    /// Replies on their way out.
    pub outputs: Outputs,
    turn_over: Notify,
    /// The task behind `turn_over` has been woken.
    in_turn: Cell<bool>,
    group: RefCell<Group>,
    lookahead: RefCell<Lookahead>,
    /// Outputs that hold replies until an `Lsn` is durable.
    waiting: RefCell<BTreeMap<(Lsn, u64), Rc<Output>>>,
    clients: RefCell<BTreeMap<u64, Arc<ClientHandle>>>,
    /// Since when clients have been above the soft limit of unread output.
    slow_readers: RefCell<BTreeMap<u64, Instant>>,
    time_ms: Cell<UnixMs>,
    /// Wakes connections whose request waits for room in the log.
    pub room: Notify,
}

impl Worker {
    fn new(index: usize, server: Arc<Shared>) -> Worker {
        Worker {
            index,
            server,
            scratch: RefCell::new(vec![0; READ_BYTES].into_boxed_slice()),
            outputs: Outputs::default(),
            turn_over: Notify::new(),
            in_turn: Cell::new(false),
            group: RefCell::new(Group::default()),
            lookahead: RefCell::default(),
            waiting: RefCell::new(BTreeMap::new()),
            clients: RefCell::new(BTreeMap::new()),
            slow_readers: RefCell::default(),
            time_ms: Cell::new(0),
            room: Notify::new(),
        }
    }

    /// Runs `requests` with an executor inside the gate. Nothing in it waits.
    pub fn execute<T>(&self, requests: impl FnOnce(&mut Executor<'_>) -> T) -> T {
        let now = self.server.clock.unix_ms();
        self.time_ms.set(now);
        self.stats().stopwatch.start();
        self.be_told_of_end_of_turn();
        let mut executor = Executor {
            server: &self.server,
            worker: self.index,
            session: None,
            group: &mut self.group.borrow_mut(),
            now,
            revealable: self.revealable(),
            has_room: self.server.has_room(),
            ready: VecDeque::new(),
            serving: false,
            demanded: Lsn::ZERO,
            wants_sync: false,
            refused_at: Lsn::ZERO,
        };
        let outcome = requests(&mut executor);
        let (demanded, wants_sync) = (executor.demanded, executor.wants_sync);
        if demanded > Lsn::ZERO || wants_sync {
            self.server.have_synced(demanded, wants_sync);
        }
        outcome
    }

    /// What this worker counts.
    pub fn stats(&self) -> &WorkerStats {
        &self.server.stats.workers[self.index]
    }

    /// Fetches what the next requests in `bytes` will look for. Returns for how many of them that will do.
    pub fn fetch_ahead(&self, executor: &Executor<'_>, db: u8, bytes: &[u8]) -> usize {
        match &executor.session {
            Some(session) if !bytes.is_empty() => self.lookahead.borrow_mut().fetch(session, db, bytes),
            _ => 1,
        }
    }

    /// The time of the last batch of requests.
    pub fn time_ms(&self) -> UnixMs {
        self.time_ms.get()
    }

    /// What may be revealed: everything unless the mode is `always`, then what is durable.
    pub fn revealable(&self) -> Lsn {
        self.server.revealable()
    }

    /// Sends what `output` holds when `lsn` is durable.
    pub fn send_when_durable(&self, lsn: Lsn, output: &Rc<Output>) {
        self.waiting.borrow_mut().insert((lsn, output.client()), output.clone());
    }

    /// Forgets what `output` holds: its client is gone, and its socket shall close now.
    pub fn abandon(&self, output: &Output) {
        if let Some(lsn) = output.held_until() {
            self.waiting.borrow_mut().remove(&(lsn, output.client()));
        }
    }

    /// Lets those go on who waited for it: the watermark has moved, or there is room in the log.
    fn go_on(&self) {
        if self.server.has_room() {
            self.room.notify_waiters();
            if self.server.blocking.has_postponed() {
                self.execute(blocking::serve_postponed);
            }
        }
        self.server.blocking.serve_durable(&self.server);
        let revealable = self.revealable();
        let mut waiting = self.waiting.borrow_mut();
        while let Some(first) = waiting.first_entry() {
            if first.key().0 > revealable {
                break;
            }
            self.send_at_end_of_turn(&first.remove());
        }
    }

    /// Sends the replies in `output` when the connections that are ready now have run.
    pub fn send_at_end_of_turn(&self, output: &Rc<Output>) {
        self.outputs.queue(output);
        self.be_told_of_end_of_turn();
    }

    /// Wakes the task that ends the turn: it stands behind those of the ready connections in the queue.
    fn be_told_of_end_of_turn(&self) {
        if !self.in_turn.replace(true) {
            self.turn_over.notify_one();
        }
    }

    /// Sends what was committed in this turn to the disk, and what was replied to the clients.
    fn end_turn(&self) {
        self.in_turn.set(false);
        if let Some(engine) = self.server.engine() {
            engine.end_turn(self.index);
        }
        self.outputs.send_all(self);
    }

    fn look_after_clients(&self) {
        let live = &self.server.live;
        if live.needs_password() {
            let patience_ms = live.auth_timeout_s().saturating_mul(1000);
            let clients = self.clients.borrow();
            clients.values().filter(|client| client.is_overdue(patience_ms)).for_each(|client| client.kill());
        }
        let timeout_s = live.timeout_s();
        if timeout_s != 0 {
            for client in self.clients.borrow().values() {
                if client.idle() > Duration::from_secs(timeout_s) && !client.info.lock().blocked {
                    client.kill();
                }
            }
        }
        if let Some((bytes, time)) = self.server.live.soft_output_limit() {
            self.close_slow_readers(bytes, time);
        }
    }

    /// Closes the connections that more than `bytes` of output have been waiting for, longer than `time` and
    /// at every look.
    fn close_slow_readers(&self, bytes: usize, time: Duration) {
        let clients = self.clients.borrow();
        let is_slow = |client: &ClientHandle| client.output_bytes.load(Ordering::Relaxed) >= bytes;
        let mut slow = self.slow_readers.borrow_mut();
        slow.retain(|id, _| clients.get(id).is_some_and(|client| is_slow(client)));
        for client in clients.values().filter(|client| is_slow(client)) {
            let since = slow.entry(client.id).or_insert_with(Instant::now);
            if since.elapsed() > time && !client.is_killed() {
                tracing::warn!(
                    "closing client {} at {}: it did not read {bytes} bytes of output in time, see \
                     client-output-buffer-limit",
                    client.id,
                    client.addr
                );
                client.kill();
            }
        }
    }
}

/// A client that is being served; it is forgotten however that ends, so that a stop waits for nobody who is
/// gone.
struct Served {
    worker: Rc<Worker>,
    id: u64,
    open: Rc<Notify>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.worker.clients.borrow_mut().remove(&self.id);
        self.worker.server.clients.remove(self.id);
        self.open.notify_one();
    }
}

/// Serves the connections that come through `incoming` until it is closed and all of them have ended.
pub fn run(
    index: usize,
    server: Arc<Shared>,
    durable: Arc<Notify>,
    mut incoming: mpsc::UnboundedReceiver<(Detached, Arc<ClientHandle>)>,
) -> std::io::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().event_interval(61).build()?;
    let tasks = tokio::task::LocalSet::new();
    let worker = Rc::new(Worker::new(index, server));
    tasks.spawn_local({
        let worker = worker.clone();
        async move {
            loop {
                durable.notified().await;
                worker.go_on();
            }
        }
    });
    tasks.spawn_local({
        let worker = worker.clone();
        async move {
            loop {
                worker.turn_over.notified().await;
                worker.end_turn();
            }
        }
    });
    tasks.spawn_local({
        let worker = worker.clone();
        async move {
            let mut ticks = tokio::time::interval(CRON);
            loop {
                ticks.tick().await;
                // A mode that was switched lets replies out that were held.
                worker.go_on();
                worker.look_after_clients();
                if worker.index == 0 {
                    worker.server.keyspace();
                }
            }
        }
    });
    tasks.block_on(&runtime, async {
        let open = Rc::new(Notify::new());
        while let Some((stream, handle)) = incoming.recv().await {
            match Stream::attach(stream) {
                Ok(stream) => {
                    worker.clients.borrow_mut().insert(handle.id, handle.clone());
                    let (worker, open) = (worker.clone(), open.clone());
                    tokio::task::spawn_local(async move {
                        let client = Client::new(handle.clone(), !worker.server.live.needs_password());
                        let mut connection = Connection::new(stream, client, worker.clone());
                        // Goes before the connection: who sees the socket closed does not find the client
                        // any more.
                        let _served = Served { worker, id: handle.id, open };
                        let end = connection.serve().await;
                        tracing::debug!(client = handle.id, ?end, "connection closed");
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot serve a new connection");
                    worker.server.clients.remove(handle.id);
                }
            }
        }
        for client in worker.clients.borrow().values() {
            client.kill();
        }
        while !worker.clients.borrow().is_empty() {
            open.notified().await;
        }
        worker.end_turn();
    });
    Ok(())
}
