//! The sending side of a connection: the socket, its replies, and whether they wait for the end of the turn.
//!
//! A turn of a worker's event loop is all that was ready at once. The connections that are ready run their
//! requests one after the other; then their replies are written in a row. The first write may wake a client's
//! thread on another core, which costs the server more than anything else it does for a request; when the
//! others are written that thread is still awake.
//!
//! ```text
//!   turn:  run A  run B  run C  │  write A  write B  write C  │  wait for sockets
//! ```

use std::cell::{Cell, RefCell, RefMut};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use foldhash::fast::RandomState;
use tarn_engine::record::Lsn;
use tokio::io::ReadBuf;

use crate::config::{AppendFsync, ClientClass};
use crate::execute::services::Services;
use crate::net::handle::ClientHandle;
use crate::net::stream::Stream;
use crate::observe::counter;
use crate::observe::stats::WorkerStats;
use crate::pubsub::Delivery;
use crate::serve::outbox::Outbox;

/// Buffers kept warm, of connections that have nothing to send.
const SPARES: usize = 64;
/// Capacity of a new buffer.
const BUFFER_BYTES: usize = 16 << 10;
/// Clients that messages are sent to in a turn, at least.
const MESSAGE_WRITES: usize = 16;
/// A turn sends messages to one of so many of the clients that have such, if that is more.
const MESSAGE_TURNS: usize = 8;
/// Capacity of a new buffer for messages: most are short, and many clients have one at once.
const MESSAGE_BYTES: usize = 512;
/// A buffer that grew beyond this is not kept.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// A connection's socket and the replies that have not left yet.
pub(super) struct Output {
    stream: RefCell<Stream>,
    handle: Arc<ClientHandle>,
    outbox: RefCell<Outbox>,
    /// Bytes that a command holds for replies that are still to come.
    held: Cell<usize>,
    /// It is in the worker's list.
    queued: Cell<bool>,
    /// It is in the worker's list of those with messages.
    has_messages: Cell<bool>,
    /// The `Lsn` under which the worker has it among those that hold replies, and since when.
    waits_until: Cell<Option<(Lsn, Instant)>>,
    /// The socket has no room: wait for it before anything else.
    stuck: Cell<bool>,
    /// The connection's task wants to go on when something has left.
    awaited: Cell<bool>,
    /// A part of a reply is there, and the rest is still to come.
    replying: Cell<bool>,
    /// Messages that come behind that reply, and the newest change that they reveal.
    late: RefCell<(Vec<u8>, Lsn)>,
    /// Bytes of messages since all replies had left.
    message_bytes: Cell<usize>,
    /// It was told that the stream is to end.
    worn: Cell<bool>,
    /// Why the last write failed, until the connection's task sees it.
    failed: Cell<Option<io::Error>>,
}

impl Output {
    /// Nothing to send yet.
    pub(super) fn new(stream: Stream, handle: Arc<ClientHandle>) -> Rc<Output> {
        Rc::new(Output {
            stream: RefCell::new(stream),
            handle,
            outbox: RefCell::default(),
            held: Cell::new(0),
            queued: Cell::new(false),
            has_messages: Cell::new(false),
            waits_until: Cell::new(None),
            stuck: Cell::new(false),
            awaited: Cell::new(false),
            replying: Cell::new(false),
            late: RefCell::default(),
            message_bytes: Cell::new(0),
            worn: Cell::new(false),
            failed: Cell::new(None),
        })
    }

    /// The replies, to append to.
    pub(super) fn outbox(&self) -> RefMut<'_, Outbox> {
        self.outbox.borrow_mut()
    }

    /// Whose it is.
    pub(super) fn client(&self) -> u64 {
        self.handle.id
    }

    /// Bytes that the buffer of replies has room for.
    pub(super) fn capacity(&self) -> usize {
        self.outbox.borrow().capacity()
    }

    /// The number of the socket in this process.
    pub(super) fn descriptor(&self) -> i32 {
        self.stream.borrow().descriptor()
    }

    /// Bytes that have not been sent.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.outbox.borrow().len() + self.stream.borrow().unsent_bytes()
    }

    /// Notes how many bytes a command holds for replies that are still to come.
    pub(super) fn hold(&self, bytes: usize) {
        self.held.set(bytes);
    }

    /// Bytes that have not been sent, and those that are held for replies to come.
    pub(super) fn unread_bytes(&self) -> usize {
        self.waiting_bytes() + self.held.get() + self.late.borrow().0.len()
    }

    /// Notes that the rest of a reply is still to come. Messages wait until it has.
    pub(super) fn begin_reply(&self) {
        self.replying.set(true);
    }

    /// Notes that a reply is complete. If it never will be, messages would be taken for the rest of it.
    pub(super) fn end_reply(self: &Rc<Self>, is_complete: bool, outputs: &Outputs) {
        self.replying.set(!is_complete);
        let (late, lsn) = self.late.take();
        if is_complete && !late.is_empty() {
            self.append(lsn, outputs, |out| out.extend_from_slice(&late));
        }
    }

    /// Tells others how many bytes the client has not read, of which so many wait to be sent.
    fn note_unread(&self, waiting: usize) {
        let unread = waiting + self.held.get() + self.late.borrow().0.len();
        self.handle.output_bytes.store(unread, Ordering::Relaxed);
    }

    /// Whether a message would be more than the client may leave unread. For a client without subscriptions
    /// that does not monitor messages alone count: it may have asked for long replies.
    fn is_too_much(&self, delivery: &Delivery, outputs: &Outputs) -> bool {
        // Also of who monitors: lines are messages.
        let limit = outputs.server.live.output_limit_bytes(ClientClass::PubSub);
        let unread = match self.handle.class() {
            ClientClass::Normal if !self.handle.is_monitoring() => {
                self.message_bytes.get().min(self.unread_bytes())
            }
            _ => self.unread_bytes(),
        };
        limit > 0 && unread + delivery.len() > limit
    }

    /// Appends a message to the replies. A client that does not read is closed, as
    /// `client-output-buffer-limit pubsub` says. One that has ended its subscriptions since the message was
    /// published is sent none: it would take it for a reply.
    pub(super) fn deliver(self: &Rc<Self>, delivery: &Delivery, outputs: &Outputs) {
        let protocol = self.handle.protocol();
        let monitors = self.handle.is_monitoring();
        if self.handle.is_killed() || !delivery.is_for(protocol, self.handle.subscriptions(), monitors) {
            return;
        }
        if self.is_too_much(delivery, outputs) {
            // It may have had no chance to read.
            outputs.send(self);
        }
        if self.is_too_much(delivery, outputs) {
            let ClientHandle { id, addr, .. } = &*self.handle;
            tracing::warn!(
                "closing client {id} at {addr}: it did not read its messages, see client-output-buffer-limit"
            );
            self.handle.kill();
            return;
        }
        let lsn = delivery.message.lsn;
        self.message_bytes.set(self.message_bytes.get() + delivery.len());
        if self.replying.get() {
            let mut late = self.late.borrow_mut();
            late.1 = late.1.max(lsn);
            delivery.write(&mut late.0, protocol);
            drop(late);
            self.note_unread(self.waiting_bytes());
        } else {
            self.append(lsn, outputs, |out| delivery.write(out, protocol));
        }
    }

    /// Appends messages to the replies. They leave at the end of a turn, when they may reveal changes up to
    /// `lsn`.
    fn append(self: &Rc<Self>, lsn: Lsn, outputs: &Outputs, write: impl FnOnce(&mut Vec<u8>)) {
        let mut outbox = self.outbox();
        outbox.lend_buffer(|| Vec::with_capacity(MESSAGE_BYTES));
        let start = outbox.buffer().len();
        write(outbox.buffer());
        if lsn > Lsn::ZERO && lsn > self.revealable(outputs) {
            outbox.hold(start, lsn);
            if self.handle.durability() == Some(AppendFsync::Always) {
                outputs.server.have_synced(lsn, false);
            }
        }
        self.note_unread(outbox.len() + self.stream.borrow().unsent_bytes());
        if !self.has_messages.replace(true) {
            outputs.with_messages.borrow_mut().push_back(self.clone());
        }
    }

    /// Whether the socket had no room.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck.get()
    }

    /// Whether something may leave that nobody is about to send.
    pub(super) fn is_forgotten(&self, outputs: &Outputs) -> bool {
        let is_known = self.queued.get() || self.has_messages.get();
        !is_known && !self.outbox().sendable(self.revealable(outputs)).is_empty()
    }

    /// Up to where changes may be revealed to the client.
    pub(super) fn revealable(&self, outputs: &Outputs) -> Lsn {
        self.handle.revealable(|| outputs.server.durable(), || outputs.server.revealable())
    }

    /// Wakes the connection's task when something has left behind its back.
    pub(super) fn await_departure(&self) {
        self.awaited.set(true);
    }

    /// Why a write failed behind the connection's back, once.
    pub(super) fn take_failure(&self) -> Option<io::Error> {
        self.failed.take()
    }

    /// Reads what is there.
    pub(super) fn poll_read(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream.borrow_mut().poll_read(cx, buf)
    }

    /// Whether the client has closed its sending side or has gone, whatever of it has not been read.
    pub(super) fn peer_sends_no_more(&self) -> bool {
        self.stream.borrow().peer_sends_no_more()
    }

    /// Waits until the socket has room again.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.borrow().poll_write_ready(cx).map_ok(|()| self.stuck.set(false))
    }

    /// Sends what may leave at once. What the socket does not take stays; what is held leaves when it is
    /// durable.
    pub(super) fn send(self: &Rc<Self>, outputs: &Outputs) -> io::Result<()> {
        let (mut outbox, mut stream) = (self.outbox(), self.stream.borrow_mut());
        let revealable = self.revealable(outputs);
        loop {
            let bytes = outbox.sendable(revealable);
            if bytes.is_empty() {
                if !stream.flush()? {
                    self.stuck.set(true);
                }
                break;
            }
            match stream.try_write(bytes) {
                Ok(len) => {
                    counter::add(&outputs.stats().output_bytes, len as u64);
                    counter::add(&outputs.stats().writes, 1);
                    outbox.sent(len);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stuck.set(true);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(lsn) = outbox.held_until() {
            outputs.send_when_durable(lsn, self);
        }
        if outbox.is_empty() && self.late.borrow().0.is_empty() {
            self.message_bytes.set(0);
        }
        outputs.give_back(&mut outbox);
        self.note_unread(outbox.len() + stream.unsent_bytes());
        if stream.is_worn() && !self.worn.replace(true) {
            self.end_worn();
        }
        Ok(())
    }

    /// Has the connection's task find that nothing more is read: it answers what was, and ends.
    fn end_worn(&self) {
        let ClientHandle { id, addr, .. } = &*self.handle;
        tracing::warn!(
            "closing client {id} at {addr}: it has got as much as one key of TLS 1.2 may encrypt; TLS 1.3 \
             has no such end"
        );
        self.handle.wake();
    }
}

/// The outputs of one worker: those to send at the end of the turn, those that hold replies, and buffers for
/// all of them.
pub(super) struct Outputs {
    server: Arc<Services>,
    /// Number of the worker.
    worker: usize,
    /// Outputs that hold replies until an `Lsn` is durable.
    waiting: RefCell<BTreeMap<(Lsn, u64), Rc<Output>>>,
    queue: RefCell<Vec<Rc<Output>>>,
    /// Outputs to which messages were appended.
    with_messages: RefCell<VecDeque<Rc<Output>>>,
    spares: RefCell<Vec<Vec<u8>>>,
    /// Those of all connections, by the client's id.
    by_client: RefCell<HashMap<u64, Rc<Output>, RandomState>>,
}

impl Outputs {
    /// The outputs of `worker`, which has none yet.
    pub(super) fn new(server: Arc<Services>, worker: usize) -> Outputs {
        let (waiting, queue, with_messages, spares, by_client) = Default::default();
        Outputs { server, worker, waiting, queue, with_messages, spares, by_client }
    }

    /// Adds the output of a new connection.
    pub(super) fn add(&self, output: &Rc<Output>) {
        self.by_client.borrow_mut().insert(output.client(), output.clone());
    }

    /// Removes the output of a connection that ends.
    pub(super) fn remove(&self, output: &Output) {
        self.abandon(output);
        self.by_client.borrow_mut().remove(&output.client());
        if output.has_messages.get() {
            // Its socket shall close now.
            self.with_messages.borrow_mut().retain(|other| other.client() != output.client());
        }
    }

    /// Appends messages for about so many clients to their replies. `true` if there are more.
    pub(super) fn deliver(&self, clients: usize) -> bool {
        let mailbox = self.server.pubsub.mailbox(self.worker);
        if !mailbox.has_mail() {
            return false;
        }
        let by_client = self.by_client.borrow();
        for delivery in mailbox.take(clients) {
            for output in delivery.to.iter().filter_map(|id| by_client.get(id)) {
                output.deliver(&delivery, self);
            }
        }
        mailbox.has_mail()
    }

    fn stats(&self) -> &WorkerStats {
        &self.server.stats.workers[self.worker]
    }

    /// Sends the replies that `output` holds when `lsn` is durable.
    fn send_when_durable(&self, lsn: Lsn, output: &Rc<Output>) {
        if output.waits_until.get().is_none_or(|(held, _)| held != lsn) {
            // What was held before may have left without the disk: `CLIENT DURABILITY no`.
            self.abandon(output);
            output.waits_until.set(Some((lsn, Instant::now())));
            self.waiting.borrow_mut().insert((lsn, output.client()), output.clone());
        }
    }

    /// Forgets the replies that `output` holds: its client is gone, and its socket shall close now.
    pub(super) fn abandon(&self, output: &Output) {
        if let Some((lsn, _)) = output.waits_until.take() {
            self.waiting.borrow_mut().remove(&(lsn, output.client()));
        }
    }

    /// Takes an output that holds replies which reveal no change after `revealable`, and since when it does.
    pub(super) fn next_revealable(&self, revealable: Lsn) -> Option<(Rc<Output>, Instant)> {
        let mut waiting = self.waiting.borrow_mut();
        let first = waiting.first_entry().filter(|first| first.key().0 <= revealable)?;
        let output = first.remove();
        let (_, since) = output.waits_until.take().expect("an output that waits knows since when");
        Some((output, since))
    }

    /// Gives an empty outbox a warm buffer.
    pub(super) fn lend(&self, outbox: &mut Outbox) {
        let spare = || self.spares.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES));
        outbox.lend_buffer(spare);
    }

    /// Takes the buffer of an empty outbox back.
    fn give_back(&self, outbox: &mut Outbox) {
        let mut spares = self.spares.borrow_mut();
        if let Some(buffer) = outbox.take_buffer()
            && spares.len() < SPARES
            && (BUFFER_BYTES..=BUFFER_BYTES_MAX).contains(&buffer.capacity())
        {
            spares.push(buffer);
        }
    }

    /// Puts `output` among those that are sent at the end of the turn.
    pub(super) fn queue(&self, output: &Rc<Output>) {
        if !output.queued.replace(true) {
            self.queue.borrow_mut().push(output.clone());
        }
    }

    /// Sends what was queued. What goes wrong, the connections' tasks are woken for.
    pub(super) fn send_all(&self) {
        let mut queue = self.queue.take();
        for output in queue.drain(..) {
            output.queued.set(false);
            self.send(&output);
        }
        self.queue.replace(queue);
    }

    /// Sends messages to some of the clients that have such. `true` if there are more: they have to wait for
    /// the requests that have come meanwhile. Messages that come meanwhile leave together with theirs.
    pub(super) fn send_messages(&self) -> bool {
        let mut queue = self.with_messages.borrow_mut();
        let clients = (queue.len() / MESSAGE_TURNS).max(MESSAGE_WRITES).min(queue.len());
        for output in queue.drain(..clients) {
            output.has_messages.set(false);
            self.send(&output);
        }
        !queue.is_empty()
    }

    fn send(&self, output: &Rc<Output>) {
        if output.stuck.get() {
            return;
        }
        if let Err(error) = output.send(self) {
            output.failed.set(Some(error));
            output.handle.wake();
        } else if output.stuck.get() || output.awaited.take() {
            output.handle.wake();
        }
    }
}
