//! Clients that wait, and the workers that run their commands in their stead. Without sockets.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};
use std::time::Duration;

use smallvec::smallvec;
use tarn_engine::checkpoint::Checkpoints;
use tarn_engine::io::{ManualClock, SimDisk, SimOptions};
use tarn_engine::record::{Batch, Change, Side, Write};
use tarn_engine::session::Access;
use tarn_engine::value::stream::{GroupState, Pending, StreamId, element};
use tarn_engine::{Background, Engine, Group, KeyRef};
use tarn_resp::OwnedArgs;

use super::Executor;
use super::waiters::VAIN_MAX;
use crate::Services;
use crate::commands;
use crate::config::{Config, ConfigStore};
use crate::execute::blocking::{LOOK_PAUSE, Outcome, Waiter, give_up};
use crate::execute::client::{After, Client};
use crate::net::address::Address;
use crate::net::handle::ClientHandle;
use crate::net::moves::AcceptorHandle;
use crate::net::pause::PauseMode;
use crate::net::tracks::TrackFlags;
use crate::scripts::{self, Libraries, Library};
use crate::store::Store;

const NOW: u64 = 1_000_000;

/// A server of two workers at least: one is spare.
pub(super) struct Served {
    server: Services,
    _background: Background,
}

impl Served {
    pub(super) fn new() -> Served {
        let config = Arc::new(ConfigStore::new(Config::default(), None));
        let server = Services::new(config, AcceptorHandle::new().0, commands::catalog());
        let (engine, _background) = Engine::unlogged(server.databases, 3, Arc::new(ManualClock::new(NOW)));
        let disk = SimDisk::new(1, SimOptions::default());
        let checkpoints = Arc::new(Checkpoints::open(Arc::new(disk), Path::new("/checkpoints")).unwrap());
        server.note_loaded(&engine);
        server.set_store(Store::new(engine, None, checkpoints));
        Served { server, _background }
    }

    /// A client of a worker.
    pub(super) fn client(&self, worker: usize) -> Client {
        let address = Address::Unix("test".into());
        let id = self.server.clients.next_id();
        let handle = Arc::new(ClientHandle::new(id, address.clone(), address, worker));
        self.server.clients.insert(handle.clone());
        Client::new(handle, true)
    }

    /// Has a worker do something.
    fn execute<T>(&self, worker: usize, run: impl FnOnce(&mut Executor<'_>) -> T) -> T {
        let (mut group, workshop) = (Group::default(), RefCell::default());
        let table = commands::table();
        run(&mut Executor::new(&self.server, table, worker, &mut group, &workshop, NOW))
    }

    pub(super) fn ask(&self, client: &mut Client, request: &str) -> String {
        let (args, mut out) = (request.split(' ').collect::<OwnedArgs>(), Vec::new());
        self.execute(client.handle.worker, |executor| executor.run(client, args.as_args(), &mut out));
        String::from_utf8_lossy(&out).trim_end().replace("\r\n", " ")
    }

    /// Lets a client wait by a command that finds nothing.
    fn wait(&self, client: &mut Client, request: &str) -> Arc<Waiter> {
        assert_eq!(self.ask(client, request), "");
        let After::Block(request) = std::mem::take(&mut client.after) else { panic!("it waits") };
        self.server.blocking.register(client.handle.clone(), 0, client.protocol, request)
    }
}

#[test]
fn a_worker_is_woken_for_messages_of_what_another_runs_in_the_stead_of_its_client() {
    let served = Served::new();
    let [mut pushing, mut waiting, tracking] = [0, 1, 1].map(|worker| served.client(worker));
    let own = &mut Default::default();
    served.server.tracking.begin(&tracking.handle, TrackFlags::BCAST, 0, own, &[b"to"]);
    let waiter = served.wait(&mut waiting, "BLMOVE from to LEFT RIGHT 0");
    assert_eq!(served.ask(&mut pushing, "RPUSH from a"), ":1");
    assert!(matches!(waiter.take_outcome(), Some(Outcome::Served(..))));
    let mailbox = served.server.pubsub.mailbox(1);
    assert!(mailbox.has_mail());
    let arrived = pin!(mailbox.arrived.notified());
    assert!(arrived.poll(&mut Context::from_waker(Waker::noop())).is_ready(), "nobody else looks there");
}

#[test]
fn keys_that_somebody_has_for_long_are_tried_behind_all_others_the_next_time() {
    let served = Served::new();
    let [mut pushing, mut waiting, mut reading] = [0, 1, 0].map(|worker| served.client(worker));
    let keys: Vec<String> = (0..2 * VAIN_MAX).map(|number| format!("key{number}")).collect();
    let waiter = served.wait(&mut waiting, &format!("BLPOP {} 0", keys.join(" ")));
    let places: Vec<_> = keys.iter().map(|key| (0, Box::from(key.as_bytes()))).collect();
    let (held, let_go) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let session = served.server.engine().unwrap().enter_in_turn(2);
            let refs: Vec<_> = keys.iter().map(|key| KeyRef::of(0, key.as_bytes())).collect();
            let latched = session.latch(&refs, Access::Write, NOW);
            held.wait();
            let_go.wait();
            latched.release();
        });
        held.wait();
        served.execute(0, |executor| executor.serve_waiter(&waiter));
        let_go.wait();
    });
    let postponed = served.server.blocking.take_postponed();
    assert_eq!(postponed, [&places[VAIN_MAX..], &places[..VAIN_MAX]].concat());
    // Each of them once.
    served.server.blocking.postpone(postponed.iter().cloned());
    served.server.blocking.postpone(postponed.into_iter());
    assert_eq!(served.server.blocking.take_postponed().len(), places.len());
    assert_eq!(served.ask(&mut pushing, "RPUSH key0 a"), ":1");
    assert!(matches!(waiter.take_outcome(), Some(Outcome::Served(..))));
    assert_eq!(served.ask(&mut reading, "LLEN key0"), ":0");
    give_up(&served.server.blocking, &waiter);
}

#[test]
fn a_client_that_has_been_told_is_not_served_again() {
    let served = Served::new();
    let [mut pushing, mut popping, mut reading] = [0, 1, 1].map(|worker| served.client(worker));
    let stream =
        ["XGROUP CREATE stream group 0 MKSTREAM", "XREADGROUP GROUP group one BLOCK 0 STREAMS stream >"];
    served.ask(&mut reading, stream[0]);
    let waiters = [served.wait(&mut popping, "BLPOP list 0"), served.wait(&mut reading, stream[1])];
    let writes = ["RPUSH list a", "XADD stream 1-1 name value"];
    writes.iter().for_each(|write| _ = served.ask(&mut pushing, write));
    for waiter in &waiters {
        assert!(matches!(waiter.take_outcome(), Some(Outcome::Served(..))));
    }
    for write in ["RPUSH list b", "XADD stream 1-2 name value"] {
        served.ask(&mut pushing, write);
    }
    // A worker may have found both in their queues before they were served.
    for (waiter, key) in waiters.iter().zip([b"list".as_slice(), b"stream"]) {
        served.execute(0, |executor| executor.serve(waiter, key));
        assert!(waiter.is_done());
        assert!(waiter.take_outcome().is_none());
    }
    assert_eq!(served.ask(&mut pushing, "LLEN list"), ":1");
    assert_eq!(served.ask(&mut pushing, "XPENDING stream group"), "*4 :1 $3 1-1 $3 1-1 *1 *2 $3 one $1 1");
}

#[test]
fn readers_of_streams_leave_nothing_to_be_tried_again_while_writes_are_paused() {
    let served = Served::new();
    let mut reading = served.client(0);
    served.server.pause.begin(PauseMode::Write, NOW + 1);
    for number in 0..10 {
        let waiter = served.wait(&mut reading, &format!("XREAD BLOCK 1 STREAMS key{number} $"));
        served.execute(0, |executor| executor.serve_waiter(&waiter));
        give_up(&served.server.blocking, &waiter);
    }
    assert!(served.server.blocking.take_postponed().is_empty());
}

#[test]
fn a_transaction_with_a_message_waits_while_writes_are_paused() {
    let served = Served::new();
    let mut client = served.client(0);
    assert_eq!(served.ask(&mut client, "MULTI"), "+OK");
    assert_eq!(served.ask(&mut client, "PUBLISH channel message"), "+QUEUED");
    served.server.pause.begin(PauseMode::Write, NOW + 1);
    assert_eq!(served.ask(&mut client, "EXEC"), "");
    assert!(matches!(client.after, After::Pause));
}

#[test]
fn scripts_that_promise_not_to_write_are_not_held_back_with_what_writes() {
    let served = Served::new();
    let mut client = served.client(0);
    let reads = "#!lua flags=no-writes\nreturn 1";
    let library = "#!lua name=own\n\
        redis.register_function{function_name='reads', flags={'no-writes'}, callback=function()return 1 end} \
        redis.register_function('writes', function() return 2 end)";
    let mut libraries = Libraries::default();
    libraries.add(Arc::new(Library::read(library.as_bytes()).unwrap()), false).unwrap();
    let functions = &served.server.scripts.functions;
    functions.publish(&functions.turn(), libraries);
    let mut ask = |request: &[&str], has_room: bool| {
        let (args, mut out) = (request.iter().copied().collect::<OwnedArgs>(), Vec::new());
        served.execute(0, |executor| {
            executor.has_room = has_room;
            executor.run(&mut client, args.as_args(), &mut out)
        });
        let is_held = matches!(std::mem::take(&mut client.after), After::Pause | After::Postpone);
        (String::from_utf8(out).unwrap(), is_held)
    };
    let (one, held) = ((":1\r\n".to_owned(), false), (String::new(), true));
    let sha: String = scripts::sha_of(reads.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let may_write = ["return 1", "#!lua\nreturn 1"];
    for has_room in [false, true] {
        // Once the log has room, writes are paused.
        served.server.pause.begin(PauseMode::Write, if has_room { NOW + 1 } else { 0 });
        for request in [["EVAL", reads, "0"], ["EVALSHA", &sha, "0"], ["FCALL", "reads", "0"]] {
            assert_eq!(ask(&request, has_room), one, "{request:?}");
        }
        let evals = may_write.map(|script| ["EVAL", script, "0"]);
        for request in evals.into_iter().chain([["FCALL", "writes", "0"]]) {
            assert_eq!(ask(&request, has_room), held, "{request:?}");
        }
    }
    for script in may_write {
        let sha = scripts::sha_of(script.as_bytes());
        assert!(served.server.scripts.cache.find(&sha).is_none(), "it has not run");
    }
    served.server.pause.begin(PauseMode::All, NOW + 1);
    assert_eq!(ask(&["EVAL", reads, "0"], true), held);
}

#[test]
fn who_waits_comes_before_a_newcomer_that_looks_before_it_is_served() {
    let served = Served::new();
    let [mut waiting, mut newcomer] = [0, 1].map(|worker| served.client(worker));
    for (key, request, change) in [
        ("list", "BLPOP list 0", Change::ListPush { side: Side::Back, element: b"a".into() }),
        ("set", "BZPOPMIN set 0", Change::ZSetPut { member: b"a".into(), score: 1.0 }),
    ] {
        let first = served.wait(&mut waiting, request);
        // The write of a worker that has not come to serving.
        let write = Write::Key { db: 0, key: key.as_bytes().into(), change };
        let session = served.server.engine().unwrap().enter_in_turn(2);
        let keys = [KeyRef::of(0, key.as_bytes())];
        let mut latched = session.latch(&keys, Access::Write, NOW);
        latched.commit(&smallvec![write], &mut Group::default()).unwrap();
        latched.release();
        drop(session);
        let second = served.wait(&mut newcomer, request);
        served.execute(1, |executor| executor.serve_waiter(&second));
        assert!(matches!(first.take_outcome(), Some(Outcome::Served(..))));
        assert!(!second.is_done());
        give_up(&served.server.blocking, &second);
    }
}

#[test]
fn who_waits_for_a_group_comes_before_a_newcomer_of_that_group() {
    let served = Served::new();
    let [mut waiting, mut newcomer, mut other] = [0, 1, 1].map(|worker| served.client(worker));
    assert_eq!(served.ask(&mut other, "XGROUP CREATE s g 0 MKSTREAM"), "+OK");
    assert_eq!(served.ask(&mut other, "XGROUP CREATE s h 0"), "+OK");
    let first = served.wait(&mut waiting, "XREADGROUP GROUP g a BLOCK 0 STREAMS s >");
    // The write of a worker that has not come to serving.
    let change = element::put_entry(StreamId::new(1, 1), 1, [(&b"f"[..], &b"v"[..])].into_iter());
    let session = served.server.engine().unwrap().enter_in_turn(2);
    let keys = [KeyRef::of(0, b"s")];
    let mut latched = session.latch(&keys, Access::Write, NOW);
    let write = Write::Key { db: 0, key: b"s"[..].into(), change };
    latched.commit(&smallvec![write], &mut Group::default()).unwrap();
    latched.release();
    drop(session);
    let second = served.wait(&mut newcomer, "XREADGROUP GROUP g b BLOCK 0 STREAMS s >");
    served.execute(1, |executor| executor.serve_waiter(&second));
    assert!(matches!(first.take_outcome(), Some(Outcome::Served(..))));
    assert!(!second.is_done());
    give_up(&served.server.blocking, &second);
    // Another group, and who would not wait.
    let third = served.wait(&mut newcomer, "XREADGROUP GROUP g b BLOCK 0 STREAMS s >");
    assert!(served.ask(&mut other, "XREADGROUP GROUP h c BLOCK 0 STREAMS s >").starts_with("*1"));
    assert_eq!(served.ask(&mut other, "XREADGROUP GROUP g c STREAMS s >"), "*-1");
    give_up(&served.server.blocking, &third);
}

#[test]
fn who_waits_to_claim_looks_again_when_something_has_been_pending_for_long_enough() {
    let served = Served::new();
    let [mut other, mut waiting] = [0, 1].map(|worker| served.client(worker));
    for request in ["XADD s 1-1 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g a STREAMS s >"] {
        assert!(!served.ask(&mut other, request).starts_with('-'), "{request}");
    }
    let waiter = served.wait(&mut waiting, "XREADGROUP GROUP g b BLOCK 0 CLAIM 300 STREAMS s >");
    let after = Some(Duration::from_millis(300));
    assert_eq!(waiter.request.look_after, after);
    assert_eq!(served.server.blocking.looking(), 1);
    // Later only if the look itself took long.
    assert!(served.execute(1, |executor| executor.look_again(&waiter)) >= after);
    assert!(!waiter.is_done());
    assert!(!served.ask(&mut other, "XCLAIM s g a 0 1-1 IDLE 300").starts_with('-'));
    assert_eq!(served.execute(1, |executor| executor.look_again(&waiter)), None);
    assert_eq!(served.server.blocking.looking(), 0);
    let Some(Outcome::Served(reply, _)) = waiter.take_outcome() else { panic!("it was served") };
    let reply = String::from_utf8(reply).unwrap();
    assert!(reply.ends_with(":300\r\n:2\r\n"), "{reply}");
    // Nothing is pending: what comes from now on may be claimed then.
    let mut third = served.client(1);
    served.ask(&mut other, "XACK s g 1-1");
    let waiter = served.wait(&mut third, "XREADGROUP GROUP g b BLOCK 0 CLAIM 0 STREAMS s >");
    assert_eq!(waiter.request.look_after, Some(LOOK_PAUSE), "nobody looks without a pause");
    give_up(&served.server.blocking, &waiter);
}

#[test]
fn one_of_very_many_pending_entries_is_claimed_after_some_looks() {
    const MANY: u64 = 20_000;
    let served = Served::new();
    let [mut asking, mut waiting] = [0, 1].map(|worker| served.client(worker));
    assert_eq!(served.ask(&mut asking, "XGROUP CREATE s g 0 MKSTREAM"), "+OK");
    let write = |change| Write::Key { db: 0, key: b"s"[..].into(), change };
    let mut batch = Batch::new();
    for number in 1..=MANY {
        let id = StreamId::new(number, 0);
        let delivered = if number == MANY / 2 { NOW - 500 } else { NOW };
        let pending = Pending { id, consumer: b"a", delivered, deliveries: 1 };
        batch.push(write(element::put_entry(id, number, [(&b"f"[..], &b"v"[..])].into_iter())));
        batch.push(write(element::put_pending(b"g", &pending)));
    }
    let state = GroupState { last_id: StreamId::new(MANY, 0), entries_read: Some(MANY) };
    batch.push(write(element::put_group(b"g", &state)));
    let session = served.server.engine().unwrap().enter_in_turn(2);
    let keys = [KeyRef::of(0, b"s")];
    let mut latched = session.latch(&keys, Access::Write, NOW);
    latched.commit(&batch, &mut Group::default()).unwrap();
    latched.release();
    drop(session);
    // Each look has an even chance.
    let request = "XREADGROUP GROUP g b CLAIM 400 STREAMS s >";
    let claimed = (0..1_000).map(|_| served.ask(&mut asking, request)).find(|reply| reply != "*-1");
    let claimed = claimed.unwrap();
    assert!(claimed.ends_with("10000-0 *2 $1 f $1 v :500 :1"), "{claimed}");
    // Those that were not looked at may be claimable at once.
    let waiter = served.wait(&mut waiting, "XREADGROUP GROUP g b BLOCK 0 CLAIM 400 STREAMS s >");
    assert_eq!(waiter.request.look_after, Some(LOOK_PAUSE));
    give_up(&served.server.blocking, &waiter);
}

#[test]
fn a_shutdown_that_waits_is_one_call() {
    let served = Served::new();
    let mut client = served.client(0);
    for _ in 0..3 {
        assert_eq!(served.ask(&mut client, "SHUTDOWN SAVE"), "");
        assert!(matches!(std::mem::take(&mut client.after), After::Postpone));
    }
    let slot = commands::table().find(b"shutdown").unwrap().slot;
    let calls = &served.server.stats.workers[0].commands[slot].calls;
    assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 1);
}
