//! The state of a worker, which its connections share: time, buffers, replies on their way out.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tarn_engine::Group;
use tarn_engine::record::Lsn;
use tokio::sync::Notify;

use crate::config::ClientClass;
use crate::execute::executor::Executor;
use crate::execute::services::Services;
use crate::execute::table::Table;
use crate::net::handle::ClientHandle;
use crate::observe::ledger::{Cause, Ledgers, SLOW, Spent};
use crate::observe::stats::WorkerStats;
use crate::scripts::Workshop;
use crate::serve::handshakes::Handshakes;
use crate::serve::lookahead::Lookahead;
use crate::serve::output::{Output, Outputs};
use crate::serve::turn::{Ended, Turn};

/// Messages that are appended to the replies of clients at once, about.
const MESSAGES_A_TURN: usize = 16 << 10;
/// How long a turn waits for the gate before it looks again whether a script has it.
const GATE_WAIT: Duration = Duration::from_millis(10);
/// Bytes read from a socket at once.
const READ_BYTES: usize = 64 << 10;

/// The state that the connections of one worker share.
pub(super) struct Worker {
    /// The number of this worker.
    pub index: usize,
    /// The server.
    pub server: Arc<Services>,
    pub(super) table: &'static Table,
    /// Where sockets are read into.
    pub scratch: RefCell<Box<[u8]>>,
    /// Replies on their way out.
    pub outputs: Outputs,
    pub(crate) turn_over: Notify,
    /// The task behind `turn_over` has been woken.
    in_turn: Cell<bool>,
    /// The notes about this turn.
    pub(super) turn: Turn,
    group: RefCell<Group>,
    workshop: RefCell<Workshop>,
    lookahead: RefCell<Lookahead>,
    /// The clients of its connections.
    pub(crate) clients: RefCell<BTreeMap<u64, Arc<ClientHandle>>>,
    /// Handshakes that are under way.
    pub(super) handshakes: Handshakes,
    /// Since when clients have been above the soft limit of unread output.
    slow_readers: RefCell<BTreeMap<u64, Instant>>,
    /// Wakes connections whose request waits for room in the log.
    pub room: Notify,
    /// Held by the connection whose command runs a step, until others have been served.
    pub stepping: tokio::sync::Mutex<()>,
    /// Held by the connection whose command has gathered something and replied nothing yet.
    pub gathering: tokio::sync::Mutex<()>,
}

impl Worker {
    /// A worker without connections. REQUIRES: it is called in the worker's thread.
    pub(crate) fn new(index: usize, server: Arc<Services>, table: &'static Table) -> Worker {
        Worker {
            index,
            outputs: Outputs::new(server.clone(), index),
            server,
            table,
            scratch: RefCell::new(vec![0; READ_BYTES].into_boxed_slice()),
            turn_over: Notify::new(),
            in_turn: Cell::new(false),
            turn: Turn::new(),
            group: RefCell::new(Group::default()),
            workshop: RefCell::default(),
            lookahead: RefCell::default(),
            clients: RefCell::new(BTreeMap::new()),
            handshakes: Handshakes::default(),
            slow_readers: RefCell::default(),
            room: Notify::new(),
            stepping: tokio::sync::Mutex::new(()),
            gathering: tokio::sync::Mutex::new(()),
        }
    }

    /// Runs `requests` with an executor inside the gate. Nothing in it waits.
    pub(super) fn execute<T>(&self, requests: impl FnOnce(&mut Executor<'_>) -> T) -> T {
        let now = self.server.clock.unix_ms();
        let begins = Instant::now();
        self.stats().stopwatch.start(begins);
        self.turn.begin(begins);
        self.be_told_of_end_of_turn();
        let mut group = self.group.borrow_mut();
        let mut executor =
            Executor::new(&self.server, self.table, self.index, &mut group, &self.workshop, now);
        let outcome = requests(&mut executor);
        executor.finish();
        outcome
    }

    /// Runs one step of a command that takes long.
    pub(super) fn step<T>(&self, run: impl FnOnce() -> T) -> T {
        self.turn.begin(Instant::now());
        self.be_told_of_end_of_turn();
        run()
    }

    /// The counters of this worker.
    pub(super) fn stats(&self) -> &WorkerStats {
        &self.server.stats.workers[self.index]
    }

    /// Fetches what the next requests in `bytes` will look for. Returns for how many of them that will do.
    pub(super) fn fetch_ahead(&self, executor: &Executor<'_>, db: u8, bytes: &[u8]) -> usize {
        match executor.session() {
            Some(session) if !bytes.is_empty() => self.lookahead.borrow_mut().fetch(session, db, bytes),
            _ => 1,
        }
    }

    /// The newest LSN that a reply may reveal: any unless the mode is `always`, then what is durable.
    pub(super) fn revealable(&self) -> Lsn {
        self.server.revealable()
    }

    /// Serves clients that wait for keys and could not be served before, if nothing may be in their way now.
    pub(super) fn serve_postponed(&self) {
        let server = &self.server;
        let is_due = || server.has_room() && !server.pause.holds(true, server.clock.unix_ms());
        if server.blocking.has_postponed() && is_due() {
            self.execute(|executor| executor.serve_postponed());
        }
    }

    /// Lets the clients go on that waited for the log: its watermark has moved, or it has room again.
    pub(crate) fn go_on(&self) {
        self.turn.look_while_idle();
        if self.server.has_room() {
            self.room.notify_waiters();
            self.serve_postponed();
        }
        self.server.blocking.serve_durable(&self.server);
        let revealable = self.revealable();
        let (mut clients, mut longest) = (0, Duration::ZERO);
        while let Some((output, since)) = self.outputs.next_revealable(revealable) {
            let waited = since.elapsed();
            (clients, longest) = (clients + 1, longest.max(waited));
            self.ledgers().of(self.index).count(&Spent::only(Cause::Disk, waited), 1);
            self.send_at_end_of_turn(&output);
        }
        self.keep_if_slow(&Spent::only(Cause::Disk, longest), clients, "");
        if let Some(engine) = self.server.engine().filter(|_| clients > 0) {
            engine.clients().note_disk();
        }
    }

    /// Sends the replies in `output` when the connections that are ready now have run.
    pub(super) fn send_at_end_of_turn(&self, output: &Rc<Output>) {
        self.outputs.queue(output);
        self.be_told_of_end_of_turn();
    }

    /// Appends messages that came to the replies of the clients that read them. The end of the turn goes on
    /// with those that are left.
    pub(super) fn deliver(&self) {
        if self.outputs.deliver(MESSAGES_A_TURN) {
            self.be_told_of_end_of_turn();
        }
    }

    /// Sees to it that messages which have come are delivered, should nobody have been woken for them.
    pub(super) fn fetch_mail(&self) {
        if self.server.pubsub.mailbox(self.index).has_mail() {
            self.be_told_of_end_of_turn();
        }
    }

    /// Wakes the task that ends the turn: it stands behind those of the ready connections in the queue.
    pub(crate) fn be_told_of_end_of_turn(&self) {
        if !self.in_turn.replace(true) {
            self.turn_over.notify_one();
        }
    }

    /// Sends what was committed in this turn to the disk, and what was replied to the clients. `true` if
    /// there are messages that have to wait until the sockets have been looked at.
    #[must_use = "messages would not be sent"]
    pub(crate) fn end_turn(&self) -> bool {
        self.in_turn.set(false);
        self.depart();
        let ran = Instant::now();
        let has_mail = self.outputs.deliver(MESSAGES_A_TURN);
        self.outputs.send_all();
        let has_messages = self.outputs.send_messages() || has_mail;
        let Ended { spent, requests, holder } = self.turn.end(ran);
        if let Some(engine) = self.server.engine().filter(|_| requests > 0) {
            engine.note_wait(spent.for_others());
        }
        self.ledgers().of(self.index).count(&spent, requests);
        self.keep_if_slow(&spent, requests, holder);
        has_messages
    }

    /// Sends off to the disk what was committed in this turn.
    fn depart(&self) {
        let Some(store) = self.server.store() else { return };
        while !self.server.scripts.running.bars_the_gate() {
            if store.engine.end_turn_within(self.index, GATE_WAIT) {
                return;
            }
            // It was closed behind that look.
        }
        if let Some(open) = store.log.load_full() {
            // A script has the store for itself, and nothing enters the gate. No log is switched on or off
            // meanwhile.
            open.appender.depart();
        }
    }

    /// Notes that a request has waited between turns.
    pub(super) fn note_wait(&self, cause: Cause, time: Duration) {
        let spent = Spent::only(cause, time);
        self.ledgers().of(self.index).count(&spent, 1);
        self.keep_if_slow(&spent, 1, "");
        if let (Cause::LogSpace | Cause::Disk, Some(engine)) = (cause, self.server.engine()) {
            engine.clients().note_disk();
        }
    }

    fn keep_if_slow(&self, spent: &Spent, requests: u64, holder: &'static str) {
        if spent.total() >= SLOW {
            let threshold = self.server.live.latency_event();
            self.ledgers().keep(self.index, spent, requests, holder, threshold);
        }
    }

    fn ledgers(&self) -> &Ledgers {
        &self.server.stats.ledgers
    }

    /// Closes the connections of clients that exceed a time limit.
    pub(crate) fn look_after_clients(&self) {
        let live = &self.server.live;
        if self.server.acl.needs_password() {
            let patience_ms = live.auth_timeout_s().saturating_mul(1000);
            let clients = self.clients.borrow();
            clients.values().filter(|client| client.is_overdue(patience_ms)).for_each(|client| client.kill());
        }
        let timeout_s = live.timeout_s();
        if timeout_s != 0 {
            for client in self.clients.borrow().values() {
                // Who reads channels may be silent.
                if client.class() == ClientClass::Normal
                    && !client.is_monitoring()
                    && client.idle() > Duration::from_secs(timeout_s)
                    && !client.info.lock().blocked
                {
                    client.kill();
                }
            }
        }
        self.close_slow_readers();
    }

    /// Closes the connections that more output has been waiting for than the soft limit of their class, for
    /// longer than its time and at every look.
    fn close_slow_readers(&self) {
        let limits = ClientClass::ALL.map(|class| self.server.live.soft_output_limit(class));
        if limits.iter().all(Option::is_none) {
            return;
        }
        let limit_of = |client: &ClientHandle| limits[client.class() as usize];
        let clients = self.clients.borrow();
        let is_slow = |client: &ClientHandle| {
            limit_of(client).is_some_and(|(bytes, _)| client.output_bytes.load(Ordering::Relaxed) >= bytes)
        };
        let mut slow = self.slow_readers.borrow_mut();
        slow.retain(|id, _| clients.get(id).is_some_and(|client| is_slow(client)));
        for client in clients.values().filter(|client| is_slow(client)) {
            let Some((bytes, time)) = limit_of(client) else { continue };
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
