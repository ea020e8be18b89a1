//! One connection: read as much as there is, run every whole request in it, answer with one write.
//!
//! ```text
//!   socket ──read──> the worker's scratch ──decode, run──> outbox ──one write──> socket
//!                        └─ what is no whole request yet waits in `input`
//! ```
//!
//! Memory is bounded: from a client that does not read nothing is read, a request's size is limited by the
//! decoder, and replies are sent before more requests of a pipeline run once they pass a threshold. Under
//! `appendfsync always` the outbox also keeps back what reveals changes that are not durable yet. An idle
//! connection holds no buffer.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tarn_engine::record::Lsn;
use tarn_resp::Writer;
use tarn_resp::{Args, OwnedArgs, RequestDecoder};
use tokio::io::ReadBuf;

use crate::config::AppendFsync;
use crate::error::CommandError;
use crate::execute::blocking::{self, BlockRequest, Waiter};
use crate::execute::call::note_rest;
use crate::execute::client::{After, Client, ReplyMode};
use crate::execute::executor::Executor;
use crate::execute::preparing::Ready;
use crate::execute::steps::Rest;
use crate::net::handle::ClientHandle;
use crate::net::stream::Stream;
use crate::observe::counter;
use crate::observe::ledger::Cause;
use crate::serve::outbox::Outbox;
use crate::serve::output::Output;
use crate::serve::worker::Worker;

/// Replies that may wait, for the socket or for the disk, before no more requests of a connection run. The
/// limit is the same wherever it is looked at: a connection that is over it waits, and does not try again.
const REPLY_BYTES_MAX: usize = 256 << 10;
/// Requests after a blocking command that are kept before the connection is no longer read from.
const INPUT_BYTES_MAX: usize = 1 << 20;

/// A held request of a client that has closed its sending side, or has gone, waits so long.
const CLOSED_PATIENCE: Duration = Duration::from_secs(5);
/// As long as the log has no room: a disk that stands still takes longer than others' pauses.
const ROOM_PATIENCE: Duration = Duration::from_secs(30);
/// How often a held request looks whether the pause is over.
const PAUSE_STEP: Duration = Duration::from_millis(5);
/// How long a held request waits for room in the log before the connection looks after its client again.
const ROOM_STEP: Duration = Duration::from_millis(50);

/// A connection and its task's state.
pub(super) struct Connection {
    output: Rc<Output>,
    client: Client,
    worker: Rc<Worker>,
    decoder: Option<RequestDecoder>,
    /// Bytes of requests that have not run yet.
    input: Vec<u8>,
    /// Whole requests wait in `input` until replies have left.
    has_more: bool,
    /// No more requests; ends when the outbox is empty.
    closing: bool,
    /// The request that is held back.
    held: Option<OwnedArgs>,
    /// Since when the client sends nothing more, if a held request was told so.
    closed_since: Option<Instant>,
    /// The same while the log has no room.
    gone_since: Option<Instant>,
    /// Since when a held request waits for room in the log, or for the gate.
    held_since: Option<(Cause, Instant)>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.give_up_turn();
        self.end_messages();
        self.worker.outputs.remove(&self.output);
    }
}

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// The client closed it or asked for it.
    Closed,
    /// Reading or writing failed.
    Io(#[expect(dead_code, reason = "a debug message shows it")] io::Error),
    /// `CLIENT KILL`, idle for longer than `timeout`, or the server stops.
    Killed,
    /// It reads more slowly than `client-output-buffer-limit` allows.
    OutputLimit,
}

enum Event {
    /// So many bytes stand in the scratch buffer.
    Read(usize),
    /// There is room for replies, or some have left: what stood still may go on.
    GoOn,
    /// Nothing more is to be done.
    End(End),
}

/// The outcome of running requests.
enum Ran {
    /// All whole requests ran.
    All,
    /// Replies have to be sent before more requests run.
    Full,
    /// A command waits for a key.
    Blocked(Box<BlockRequest>),
    /// The rest of a command is to run in steps.
    Steps(Box<Rest>),
    /// The log has no room, or somebody else is to do something; this request comes first when it goes on.
    Postponed,
    /// No request runs for so long.
    Delayed(Duration),
    /// The server is paused; this request comes first when it goes on, and those that were held back before
    /// have run.
    Paused,
}

impl Connection {
    /// A connection of `client` over `stream`.
    pub(super) fn new(stream: Stream, client: Client, worker: Rc<Worker>) -> Connection {
        let decoder = RequestDecoder::new(worker.server.live.decoder_limits());
        let output = Output::new(stream, client.handle.clone());
        client.handle.descriptor.store(output.descriptor(), Ordering::Relaxed);
        worker.outputs.add(&output);
        Connection {
            output,
            client,
            worker,
            decoder: Some(decoder),
            input: Vec::new(),
            has_more: false,
            closing: false,
            held: None,
            closed_since: None,
            gone_since: None,
            held_since: None,
        }
    }

    /// Serves the client until it goes, is told to go, or fails.
    pub(super) async fn serve(&mut self) -> End {
        match self.run().await {
            Ok(end) => {
                if matches!(end, End::OutputLimit) {
                    self.tell("it did not read its replies, see client-output-buffer-limit");
                }
                end
            }
            Err(error) => End::Io(error),
        }
    }

    /// Ends what brings it messages.
    fn end_messages(&mut self) {
        let Client { handle, prefixes, .. } = &mut self.client;
        self.worker.server.tracking.end(handle, prefixes);
        if let Some(mut subscriptions) = self.client.subscriptions.take() {
            self.worker.server.pubsub.unsubscribe_all(&self.client.handle, &mut subscriptions);
        }
        if self.client.handle.is_monitoring() {
            self.worker.server.pubsub.end_monitoring(&self.client.handle);
        }
    }

    /// Whether the connection shall close: it was asked to, or it is told of what its user must not know any
    /// more. To be asked wherever it waits, as messages reach it there, too.
    fn has_to_go(&mut self) -> bool {
        if self.client.handle.takes_doubt() && self.client.is_told_too_much(&self.worker.server.acl) {
            self.client.handle.kill();
        }
        self.client.handle.is_killed()
    }

    /// The outcome of `waiting`; `None` if the connection has to close before.
    async fn unless_gone<T>(&mut self, waiting: impl Future<Output = T>) -> Option<T> {
        let mut waiting = pin!(waiting);
        poll_fn(|cx| match self.has_to_go() {
            true => Poll::Ready(None),
            false => waiting.as_mut().poll(cx).map(Some),
        })
        .await
    }

    /// Lets time pass, unless the connection is to be closed: then no further request runs.
    async fn let_pass(&mut self, time: Duration) {
        self.give_up_turn();
        let mut over = pin!(tokio::time::sleep(time));
        poll_fn(|cx| match self.has_to_go() {
            true => Poll::Ready(()),
            false => over.as_mut().poll(cx),
        })
        .await;
    }

    /// Tells the operator why the connection is closed.
    fn tell(&self, why: &str) {
        let ClientHandle { id, addr, .. } = &*self.client.handle;
        tracing::warn!("closing client {id} at {addr}: {why}");
    }

    async fn run(&mut self) -> io::Result<End> {
        poll_fn(|cx| {
            self.client.handle.set_waker(cx.waker());
            Poll::Ready(())
        })
        .await;
        loop {
            let mut ran = match poll_fn(|cx| self.poll_event(cx)).await? {
                Event::End(end) => return Ok(end),
                Event::Read(0) => {
                    // It may have closed its sending side alone: what it asked for is still answered.
                    self.closing = true;
                    Ran::All
                }
                Event::Read(len) => self.run_scratch(len),
                Event::GoOn if self.input.is_empty() || self.closing => Ran::All,
                Event::GoOn => Ran::Full,
            };
            self.has_more = false;
            loop {
                // Its command has run again. Dropped here, outside of the gate.
                drop(self.client.ready.take_if(|ready| ready.has_run));
                if matches!(ran, Ran::All) && !self.closing {
                    self.worker.send_at_end_of_turn(&self.output);
                    break;
                }
                let began = Instant::now();
                self.output.send(&self.worker.outputs)?;
                self.worker.turn.note_written(began.elapsed());
                if self.is_over_limit() {
                    return Ok(End::OutputLimit);
                }
                match ran {
                    Ran::All => break,
                    // What is left waits for the socket or for the disk: no loop changes that.
                    Ran::Full if self.output.is_stuck() || self.output.waiting_bytes() >= REPLY_BYTES_MAX => {
                        self.has_more = true;
                        break;
                    }
                    Ran::Full => {}
                    Ran::Blocked(request) => {
                        self.give_up_turn();
                        if !self.wait_for_key(request).await? {
                            self.closing = true;
                            ran = Ran::All;
                            continue;
                        }
                    }
                    Ran::Steps(rest) => {
                        self.give_up_turn();
                        if let Some(end) = self.run_steps(rest).await? {
                            return Ok(end);
                        }
                    }
                    Ran::Delayed(time) => self.let_pass(time).await,
                    Ran::Postponed | Ran::Paused => {
                        self.note_held(&ran);
                        let is_there = self.wait_to_go_on().await?;
                        if self.has_to_go() {
                            return Ok(End::Killed);
                        }
                        let is_turn = self.is_its_turn();
                        let has_gone =
                            || self.client.turn.is_some() && is_turn && self.output.peer_sends_no_more();
                        if !is_there || has_gone() {
                            // What it waited for and nobody else does is given up with the client.
                            self.closing = true;
                            ran = Ran::All;
                            continue;
                        }
                        // Who waited for a key through the pause was there first.
                        self.worker.serve_postponed();
                        if !is_turn {
                            ran = Ran::Paused;
                            continue;
                        }
                        ran = self.run_held();
                        let is_held = matches!(ran, Ran::Postponed | Ran::Paused);
                        self.client.handle.info.lock().blocked = is_held;
                        if !is_held {
                            if let Some((cause, since)) = self.held_since.take() {
                                self.worker.note_wait(cause, since.elapsed());
                            }
                            // Each request may wait so long.
                            (self.closed_since, self.gone_since) = (None, None);
                        }
                        continue;
                    }
                }
                ran = self.run_input();
            }
            // After the rest of its pipeline.
            self.give_up_turn();
            if self.closing && self.output.waiting_bytes() == 0 {
                return Ok(End::Closed);
            }
        }
    }

    /// Waits for bytes to read, for room to write what is left, for durability, or for the end.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Event>> {
        if self.has_to_go() {
            return Poll::Ready(Ok(Event::End(End::Killed)));
        }
        if let Some(error) = self.output.take_failure() {
            return Poll::Ready(Err(error));
        }
        if self.closing {
            // Messages would keep it open.
            self.end_messages();
        }
        if self.output.is_stuck() {
            if self.is_over_limit() {
                return Poll::Ready(Ok(Event::End(End::OutputLimit)));
            }
            return self.output.poll_room(cx).map_ok(|()| Event::GoOn);
        }
        if self.output.is_forgotten(&self.worker.outputs) {
            return Poll::Ready(Ok(Event::GoOn));
        }
        if self.closing && self.output.waiting_bytes() == 0 {
            return Poll::Ready(Ok(Event::End(End::Closed)));
        }
        if self.closing || self.output.waiting_bytes() >= REPLY_BYTES_MAX {
            self.output.await_departure();
            return Poll::Pending;
        }
        if self.has_more {
            return Poll::Ready(Ok(Event::GoOn));
        }
        self.poll_read(cx).map_ok(Event::Read)
    }

    fn is_over_limit(&self) -> bool {
        let limit = self.worker.server.live.output_limit_bytes(self.client.handle.class());
        limit > 0 && self.output.waiting_bytes() > limit
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut scratch = self.worker.scratch.borrow_mut();
        let mut buf = ReadBuf::new(&mut scratch);
        self.output.poll_read(cx, &mut buf).map_ok(|()| {
            counter::add(&self.worker.stats().input_bytes, buf.filled().len() as u64);
            counter::add(&self.worker.stats().reads, 1);
            buf.filled().len()
        })
    }

    /// Runs the requests among `len` bytes in the scratch buffer and keeps what is left.
    fn run_scratch(&mut self, len: usize) -> Ran {
        let worker = self.worker.clone();
        let scratch = worker.scratch.borrow();
        if !self.input.is_empty() {
            self.input.extend_from_slice(&scratch[..len]);
            return self.run_input();
        }
        let (ran, consumed) = self.run_requests(&scratch[..len]);
        self.input.extend_from_slice(&scratch[consumed..len]);
        self.note_buffers();
        ran
    }

    /// Runs the requests in `input`.
    fn run_input(&mut self) -> Ran {
        let mut input = std::mem::take(&mut self.input);
        let (ran, consumed) = self.run_requests(&input);
        if consumed < input.len() {
            input.drain(..consumed);
            self.input = input;
        }
        self.note_buffers();
        ran
    }

    /// Whether a pause of any kind is on.
    fn is_paused(&self) -> bool {
        let server = &self.worker.server;
        server.pause.is_on(server.clock.unix_ms())
    }

    /// Whether no request that a pause held back before this one waits still.
    fn is_its_turn(&self) -> bool {
        self.client.turn.is_none_or(|turn| self.worker.server.pause.is_turn(turn))
    }

    /// Notes why the request is held back, and since when if that is for the log's room or for the gate.
    fn note_held(&mut self, ran: &Ran) {
        if matches!(ran, Ran::Postponed) {
            let cause = match self.client.waits_for_gate {
                Some(_) => Some(Cause::Gate),
                None => (!self.worker.server.has_room()).then_some(Cause::LogSpace),
            };
            if cause.is_some() && self.held_since.map(|(held, _)| held) != cause {
                self.held_since = cause.map(|cause| (cause, Instant::now()));
            }
            // What waits for something else lets the others go first.
            self.give_up_turn();
        } else if self.client.turn.is_none() {
            let handle = self.client.handle.clone();
            self.client.turn = Some(self.worker.server.pause.take_turn(handle));
            self.held_since = None;
        }
        self.client.handle.info.lock().blocked = true;
    }

    fn give_up_turn(&mut self) {
        if let Some(turn) = self.client.turn.take() {
            self.worker.server.pause.give_up_turn(turn);
        }
    }

    /// Waits a while for the end of a pause, for what somebody else does, or for room in the log. `false` if
    /// the client has gone during a pause, or closed its sending side too long ago otherwise: it may have
    /// closed that alone, and is answered then.
    async fn wait_to_go_on(&mut self) -> io::Result<bool> {
        if self.client.turn.is_none() && !self.worker.server.has_room() {
            return Ok(self.wait_for_room().await);
        }
        let awaits_thread = self.client.awaits_thread();
        let mut over = pin!(tokio::time::sleep(PAUSE_STEP));
        poll_fn(|cx| {
            if awaits_thread {
                // It may be long: replies to earlier requests of the pipeline leave meanwhile.
                self.poll_outbox(cx)?;
            }
            if let Some(since) = self.closed_since {
                if since.elapsed() >= CLOSED_PATIENCE {
                    return Poll::Ready(Ok(false));
                }
            } else if self.poll_input(cx)?.is_ready() {
                // Looked at before the time: who went before the end of a pause has gone.
                self.closed_since = Some(Instant::now());
                // As in Redis: nobody would read the reply, and what the request takes would be lost.
                return Poll::Ready(Ok(self.client.turn.is_none()));
            }
            if awaits_thread && !self.client.awaits_thread() {
                return Poll::Ready(Ok(true));
            }
            let is_next = || self.client.turn.is_some() && !self.is_paused() && self.is_its_turn();
            if is_next() || self.has_to_go() {
                return Poll::Ready(Ok(true));
            }
            while over.as_mut().poll(cx).is_ready() {
                if !awaits_thread {
                    return Poll::Ready(Ok(true));
                }
                // So much input is no longer read, up to where it says that the client has gone.
                if self.input.len() >= INPUT_BYTES_MAX && self.output.peer_sends_no_more() {
                    self.closed_since.get_or_insert_with(Instant::now);
                }
                // The request would find nothing new, and latch its keys for that.
                over.as_mut().reset(tokio::time::Instant::now() + PAUSE_STEP);
            }
            Poll::Pending
        })
        .await
    }

    /// Waits a while for room in the log. `false` as in [`Connection::wait_to_go_on`]. The client is not read
    /// from meanwhile, so that what it sends waits on its side.
    async fn wait_for_room(&mut self) -> bool {
        let _ = tokio::time::timeout(ROOM_STEP, self.worker.room.notified()).await;
        if self.worker.server.has_room() || !self.output.peer_sends_no_more() {
            return true;
        }
        self.gone_since.get_or_insert_with(Instant::now).elapsed() < ROOM_PATIENCE
    }

    /// Keeps what comes for later, within the limit; ready when the client has closed its side.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.input.len() < INPUT_BYTES_MAX {
            match self.poll_read(cx)? {
                Poll::Pending => break,
                Poll::Ready(0) => return Poll::Ready(Ok(())),
                Poll::Ready(len) => {
                    let worker = self.worker.clone();
                    self.input.extend_from_slice(&worker.scratch.borrow()[..len]);
                }
            }
        }
        Poll::Pending
    }

    /// Runs the request that is held back.
    fn run_held(&mut self) -> Ran {
        let Some(args) = self.held.take() else { return Ran::Full };
        let worker = self.worker.clone();
        let output = self.output.clone();
        let ran = worker.execute(|executor| self.run_one(executor, args.as_args(), &mut output.outbox()));
        match ran {
            Some(Ran::Postponed | Ran::Paused) => self.held = Some(args),
            _ => worker.turn.count(1),
        }
        ran.unwrap_or(Ran::Full)
    }

    /// Runs whole requests at the beginning of `bytes` inside the gate, without any await. Returns how many
    /// bytes they took.
    fn run_requests(&mut self, bytes: &[u8]) -> (Ran, usize) {
        if self.client.subscriptions.is_some() || self.client.handle.is_monitoring() {
            // Those that were published before a request that ends a subscription come before its reply.
            self.worker.deliver();
        }
        let (worker, output) = (self.worker.clone(), self.output.clone());
        let mut outbox = output.outbox();
        worker.outputs.lend(&mut outbox);
        worker.execute(|executor| self.run_with(executor, bytes, &mut outbox))
    }

    fn run_with(&mut self, executor: &mut Executor<'_>, bytes: &[u8], outbox: &mut Outbox) -> (Ran, usize) {
        let (mut consumed, mut requests) = (0, 0);
        let mut ran = Ran::All;
        // The decoder lends the arguments, so it stands aside while they run.
        let mut decoder = self.decoder.take().expect("the decoder stands aside only here");
        // As they are now: a `CONFIG SET` reaches who is connected already with what they send next.
        decoder.set_limits(self.worker.server.live.decoder_limits());
        // The first request runs at once: most are alone, and it opens the session.
        let mut fetched = 1;
        // No further request of a client that was killed begins.
        while !self.closing && !self.client.handle.is_killed() {
            if outbox.len() >= REPLY_BYTES_MAX {
                ran = Ran::Full;
                break;
            }
            decoder.set_authenticated(self.client.authenticated);
            if fetched == 0 {
                fetched = self.worker.fetch_ahead(executor, self.client.db, &bytes[consumed..]);
            }
            match decoder.decode(bytes, &mut consumed) {
                Ok(Some(args)) => {
                    fetched -= 1;
                    requests += 1;
                    if let Some(stop) = self.run_one(executor, args, outbox) {
                        let is_held = matches!(stop, Ran::Postponed | Ran::Paused);
                        requests -= u64::from(is_held);
                        self.held = is_held.then(|| args.to_owned());
                        ran = stop;
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    if error.has_reply() {
                        Writer::new(outbox.buffer(), self.client.protocol).protocol_error(&error);
                    } else {
                        self.tell("its request is longer than client-query-buffer-limit");
                    }
                    self.closing = true;
                }
            }
        }
        self.decoder = Some(decoder);
        self.worker.turn.count(requests);
        self.note_active();
        (ran, consumed)
    }

    fn note_active(&self) {
        let handle = &self.client.handle;
        let elapsed = handle.since.elapsed().as_millis() as u64;
        handle.last_command_ms.store(elapsed, Ordering::Relaxed);
    }

    /// Runs one request. Returns what the connection has to do before the next one, if anything.
    fn run_one(&mut self, executor: &mut Executor<'_>, args: Args<'_>, outbox: &mut Outbox) -> Option<Ran> {
        let start = outbox.buffer().len();
        let lsn = executor.run(&mut self.client, args, outbox.buffer());
        self.client.seen = self.client.seen.max(lsn);
        match self.client.handle.durability() {
            None if lsn <= executor.revealable() => {}
            Some(AppendFsync::No) => {}
            Some(AppendFsync::EverySec) => {
                if lsn > Lsn::ZERO {
                    executor.want_sync();
                }
            }
            None => outbox.hold(start, lsn),
            Some(AppendFsync::Always) => {
                if lsn > self.worker.server.durable() {
                    outbox.hold(start, lsn);
                    executor.demand(lsn);
                }
            }
        }
        match std::mem::take(&mut self.client.after) {
            After::GoOn => self.client.delay.take().map(Ran::Delayed),
            After::Close => {
                self.closing = true;
                None
            }
            After::Block(request) => Some(Ran::Blocked(request)),
            After::Steps(rest) => Some(Ran::Steps(rest)),
            After::Postpone => Some(Ran::Postponed),
            After::Pause => Some(Ran::Paused),
        }
    }

    fn note_buffers(&self) {
        let handle = &self.client.handle;
        handle.query_bytes.store(self.input.len(), Ordering::Relaxed);
        handle.query_free_bytes.store(self.input.capacity() - self.input.len(), Ordering::Relaxed);
        handle.output_bytes.store(self.output.unread_bytes(), Ordering::Relaxed);
        handle.output_buffer_bytes.store(self.output.capacity(), Ordering::Relaxed);
    }

    /// Sends replies to earlier requests of a pipeline as soon as they may leave, while the connection waits
    /// for a key.
    fn poll_outbox(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        loop {
            if self.output.is_stuck() && self.output.poll_room(cx)?.is_pending() {
                return Ok(());
            }
            self.output.send(&self.worker.outputs)?;
            if !self.output.is_stuck() {
                break;
            }
        }
        Ok(())
    }

    /// Runs the rest of a command. `Some` if the connection ends before it does.
    async fn run_steps(&mut self, mut rest: Box<Rest>) -> io::Result<Option<End>> {
        self.output.begin_reply();
        let ran = self.run_all_steps(&mut rest).await;
        self.output.end_reply(matches!(ran, Ok(None)), &self.worker.outputs);
        self.output.hold(0);
        let (server, now) = (&self.worker.server, self.worker.server.clock.unix_ms());
        note_rest(server, self.worker.index, &self.client, &rest, now);
        if let (Ok(None), Some(mut ready), Some((_, _, args, took))) = (&ran, rest.take_ready(), rest.call())
        {
            ready.took += took;
            self.run_again(args, ready, rest.is_unwanted);
        }
        ran
    }

    /// Has a command run next that has prepared a value.
    fn run_again(&mut self, args: Args<'_>, ready: Box<Ready>, is_unwanted: bool) {
        self.client.ready = Some(ready);
        if is_unwanted && self.client.reply_mode == ReplyMode::On {
            self.client.reply_mode = ReplyMode::Skipping;
        }
        let mut input = Vec::with_capacity(args.total_bytes() + 16 * (1 + args.len()) + self.input.len());
        input.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
        for arg in args {
            input.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            input.extend_from_slice(arg);
            input.extend_from_slice(b"\r\n");
        }
        input.append(&mut self.input);
        self.input = input;
    }

    async fn run_all_steps(&mut self, rest: &mut Rest) -> io::Result<Option<End>> {
        let worker = self.worker.clone();
        // A command that gathers much before it replies is the only one of the worker that does so. It waits
        // for nobody meanwhile.
        let mut alone = None;
        loop {
            // No more may wait than the hard limit lets a client leave unread.
            let room = match worker.server.live.output_limit_bytes(self.client.handle.class()) {
                0 => REPLY_BYTES_MAX,
                limit => REPLY_BYTES_MAX.min(limit / 2).max(1),
            };
            if alone.is_none() {
                if let Some(end) = self.wait_to_reply(room).await? {
                    return Ok(Some(end));
                }
                if rest.gathers() {
                    self.client.handle.info.lock().blocked = true;
                    let gathering = worker.gathering.lock();
                    alone = self.unless_gone(gathering).await;
                    self.client.handle.info.lock().blocked = false;
                }
            }
            if self.has_to_go() {
                return Ok(Some(End::Killed));
            }
            // One step of all connections between two looks at the sockets.
            let _alone = worker.stepping.lock().await;
            let outcome = self.run_step(rest, room - self.output.waiting_bytes().min(room - 1));
            self.output.hold(rest.held());
            self.note_active();
            self.note_buffers();
            alone = alone.filter(|_| rest.gathers());
            if outcome.is_some() {
                return Ok(None);
            }
            let began = Instant::now();
            self.output.send(&worker.outputs)?;
            worker.turn.note_written(began.elapsed());
            if self.is_over_limit() {
                return Ok(Some(End::OutputLimit));
            }
            match rest.take_pause() {
                None => tokio::task::yield_now().await,
                Some(pause) => {
                    // Others go on while the log has no room, or a script has the store for itself.
                    drop(_alone);
                    alone = None;
                    tokio::time::sleep(pause).await;
                    while worker.server.scripts.running.bars_the_gate() && !self.has_to_go() {
                        tokio::time::sleep(PAUSE_STEP).await;
                    }
                }
            }
        }
    }

    /// Runs one step. `Some` if it was the last one; an error has been written.
    fn run_step(&mut self, rest: &mut Rest, room: usize) -> Option<Result<(), CommandError>> {
        let (worker, output) = (self.worker.clone(), self.output.clone());
        let mut outbox = output.outbox();
        let start = outbox.buffer().len();
        let outcome = worker.step(|| rest.step(outbox.buffer(), room));
        rest.replied += outbox.buffer().len() - start;
        self.hold_until_durable(&mut outbox, start, rest.take_seen());
        if let Some(Err(error)) = &outcome {
            rest.has_failed = true;
            worker.server.stats.note_error(error);
            if !rest.is_unwanted {
                Writer::new(outbox.buffer(), self.client.protocol).error(error.to_string());
            }
        }
        outcome
    }

    /// Waits until less than `room` bytes of replies wait. `Some` if the connection ends before.
    async fn wait_to_reply(&mut self, room: usize) -> io::Result<Option<End>> {
        poll_fn(|cx| {
            loop {
                if self.has_to_go() {
                    return Poll::Ready(Ok(Some(End::Killed)));
                }
                if let Some(error) = self.output.take_failure() {
                    return Poll::Ready(Err(error));
                }
                if !self.output.is_stuck() {
                    break;
                }
                if self.output.poll_room(cx)?.is_pending() {
                    return Poll::Pending;
                }
                self.output.send(&self.worker.outputs)?;
            }
            if self.output.waiting_bytes() < room {
                return Poll::Ready(Ok(None));
            }
            self.output.await_departure();
            Poll::Pending
        })
        .await
    }

    /// Waits until a key brings something, the time is over, or the client goes (`false`), and writes the
    /// reply.
    async fn wait_for_key(&mut self, request: Box<BlockRequest>) -> io::Result<bool> {
        let worker = self.worker.clone();
        let waiter = {
            let Client { handle, db, protocol, .. } = &self.client;
            worker.server.blocking.register(handle.clone(), *db, *protocol, request)
        };
        self.client.handle.info.lock().blocked = true;
        worker.execute(|executor| executor.serve_waiter(&waiter));
        let alive = self.wait_for_outcome(&waiter).await;
        blocking::give_up(&worker.server.blocking, &waiter);
        self.client.handle.info.lock().blocked = false;
        if !alive? {
            return Ok(false);
        }
        let outcome = waiter.take_outcome().expect("a waiter that was given up has an outcome");
        let output = self.output.clone();
        let mut outbox = output.outbox();
        let start = outbox.buffer().len();
        let lsn = blocking::write_outcome(&waiter, outcome, worker.server.kept(), outbox.buffer());
        self.client.drop_unwanted(outbox.buffer(), start);
        self.hold_until_durable(&mut outbox, start, lsn);
        Ok(true)
    }

    /// Keeps back the replies from `start` on, which reveal changes up to `lsn`, until they may leave.
    fn hold_until_durable(&mut self, outbox: &mut Outbox, start: usize, lsn: Lsn) {
        if lsn == Lsn::ZERO {
            return;
        }
        self.client.seen = self.client.seen.max(lsn);
        let server = &self.worker.server;
        let durability = self.client.handle.durability();
        if durability == Some(AppendFsync::EverySec) {
            server.have_synced(Lsn::ZERO, true);
        } else if lsn > self.output.revealable(&self.worker.outputs) {
            outbox.hold(start, lsn);
            if durability == Some(AppendFsync::Always) {
                server.have_synced(lsn, false);
            }
        }
    }

    async fn wait_for_outcome(&mut self, waiter: &Arc<Waiter>) -> io::Result<bool> {
        let mut timeout = waiter.timeout().map(|timeout| Box::pin(tokio::time::sleep(timeout)));
        let mut looks = tokio::time::interval(ROOM_STEP);
        let look_after = |time: Option<Duration>| time.map(|time| Box::pin(tokio::time::sleep(time)));
        let (worker, mut next_look) = (self.worker.clone(), look_after(waiter.request.look_after));
        poll_fn(|cx| {
            self.poll_outbox(cx)?;
            while let Some(look) = &mut next_look
                && !waiter.is_done()
                && look.as_mut().poll(cx).is_ready()
            {
                next_look = look_after(worker.execute(|executor| executor.look_again(waiter)));
            }
            if waiter.is_done() {
                return Poll::Ready(Ok(true));
            }
            if self.has_to_go() {
                return Poll::Ready(Ok(false));
            }
            if let Some(timeout) = &mut timeout
                && timeout.as_mut().poll(cx).is_ready()
            {
                return Poll::Ready(Ok(true));
            }
            if self.poll_input(cx)?.is_ready() {
                return Poll::Ready(Ok(false));
            }
            // What it has sent is no longer read, up to where it says that it has gone.
            while self.input.len() >= INPUT_BYTES_MAX && looks.poll_tick(cx).is_ready() {
                if self.output.peer_sends_no_more() {
                    return Poll::Ready(Ok(false));
                }
            }
            Poll::Pending
        })
        .await
    }
}
