//! The commands: those of YCSB's records, and those with which the laboratory asks for checkpoints.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::dump::dump;
use tarn_resp::{Args, Writer};
use tarn_study::paired::{Refused, SnapRow, Snapshot, Store};

/// The fate of the connection after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Continue,
    /// There is more to do, after the other connections.
    Again,
    Close,
    Shutdown,
}

/// The store and its dumps.
pub(super) struct Service<R: SnapRow> {
    store: Store<R>,
    dir: PathBuf,
    to_dump: Sender<Snapshot<R>>,
    dumped: Receiver<io::Result<()>>,
    is_dumping: bool,
    /// Seconds since 1970, of the last dump that succeeded, at first of the start.
    last_save: u64,
    last_failed: bool,
    last_cut: Duration,
}

impl<R: SnapRow> Service<R> {
    pub(super) fn new(
        dir: PathBuf,
        to_dump: Sender<Snapshot<R>>,
        dumped: Receiver<io::Result<()>>,
    ) -> Service<R> {
        Service {
            store: Store::new(),
            dir,
            to_dump,
            dumped,
            is_dumping: false,
            last_save: now_s(),
            last_failed: false,
            last_cut: Duration::ZERO,
        }
    }

    /// Notes how dumps ended.
    pub(super) fn note_dumps(&mut self) {
        while let Ok(ended) = self.dumped.try_recv() {
            self.is_dumping = false;
            self.note(ended);
        }
    }

    fn note(&mut self, ended: io::Result<()>) {
        self.last_failed = ended.is_err();
        match ended {
            Ok(()) => self.last_save = now_s(),
            Err(error) => tell!("the dump failed: {error}"),
        }
    }

    /// A snapshot to dump; `None` while another dump is not over, as both would write the same file.
    fn take(&mut self) -> Option<Snapshot<R>> {
        self.note_dumps();
        if self.is_dumping {
            return None;
        }
        let began = Instant::now();
        let snapshot = self.store.take()?;
        self.last_cut = began.elapsed();
        Some(snapshot)
    }

    fn info(&self) -> String {
        let mut text = String::new();
        let _ = write!(
            text,
            "# Server\r\nredis_version:{}\r\nprocess_id:{}\r\n\
             # Persistence\r\nloading:0\r\nrdb_bgsave_in_progress:{}\r\nrdb_last_save_time:{}\r\n\
             rdb_last_bgsave_status:{}\r\ncheckpoint_last_cut_usec:{}\r\naof_enabled:0\r\n",
            env!("CARGO_PKG_VERSION"),
            std::process::id(),
            u8::from(self.is_dumping),
            self.last_save,
            if self.last_failed { "err" } else { "ok" },
            self.last_cut.as_secs_f64() * 1e6,
        );
        text
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Executes a command and writes its reply.
pub(super) fn execute<R: SnapRow>(service: &mut Service<R>, args: Args<'_>, reply: &mut Writer<'_>) -> Next {
    let mut name = [0; 16];
    let given = args.at(0);
    let name = match name.get_mut(..given.len()) {
        Some(name) => {
            name.copy_from_slice(given);
            name.make_ascii_uppercase();
            &*name
        }
        None => given,
    };
    match (name, args.len()) {
        (b"PING", 1) => reply.simple("PONG"),
        (b"HSET", 4..) if args.len().is_multiple_of(2) => {
            let made = set(&mut service.store, args);
            answer(reply, made, |reply, made| reply.integer(made as i64));
        }
        (b"HMSET", 4..) if args.len().is_multiple_of(2) => {
            let made = set(&mut service.store, args);
            answer(reply, made, |reply, _| reply.ok());
        }
        (b"HGET", 3) => {
            let found = service.store.get(args.at(1), args.at(2), |value| reply.bulk(value));
            answer(reply, found, |reply, found| {
                if found.is_none() {
                    reply.null();
                }
            });
        }
        (b"HGETALL", 2) => {
            let found = service.store.get_all(args.at(1), |fields, all| {
                reply.map(fields);
                for (name, value) in all {
                    reply.bulk(name);
                    reply.bulk(value);
                }
            });
            answer(reply, found, |_, ()| ());
        }
        (b"ZADD", 4..) if args.len().is_multiple_of(2) => add(&mut service.store, args, reply),
        (b"ZSCORE", 3) => match service.store.score(args.at(2)) {
            Some(score) if service.store.set_key() == Some(args.at(1)) => reply.double(score),
            _ => reply.null(),
        },
        (b"DBSIZE", 1) => reply.integer(service.store.len() as i64),
        (b"INFO", 1..) => reply.bulk(service.info().as_bytes()),
        (b"LASTSAVE", 1) => reply.integer(service.last_save as i64),
        (b"BGSAVE", 1..=2) => match service.take() {
            Some(snapshot) => {
                service.is_dumping = service.to_dump.send(snapshot).is_ok();
                if service.is_dumping {
                    reply.simple("Background saving started");
                } else {
                    service.last_failed = true;
                    reply.error("ERR the thread that dumps has ended");
                }
            }
            None => reply.error("ERR Background save already in progress"),
        },
        (b"SAVE", 1) => match service.take() {
            Some(snapshot) => {
                let ended = dump(&service.dir, snapshot);
                service.note(ended);
                if service.last_failed { reply.error("ERR the dump failed") } else { reply.ok() }
            }
            None => reply.error("ERR Background save already in progress"),
        },
        (b"CONFIG", 3) if args.at(1).eq_ignore_ascii_case(b"GET") => reply.map(0),
        (b"SHUTDOWN", 1..=2) => return Next::Shutdown,
        (b"QUIT", 1) => {
            reply.ok();
            return Next::Close;
        }
        _ => {
            let name = String::from_utf8_lossy(given);
            reply.error(format!("ERR unknown command or wrong number of arguments: '{name}'"));
        }
    }
    Next::Continue
}

fn answer<T>(reply: &mut Writer<'_>, result: Result<T, Refused>, write: impl FnOnce(&mut Writer<'_>, T)) {
    match result {
        Ok(found) => write(reply, found),
        Err(error) => refuse(reply, error),
    }
}

fn refuse(reply: &mut Writer<'_>, error: Refused) {
    let code = match error {
        Refused::WrongKind => "WRONGTYPE",
        Refused::TooManyFields => "ERR",
    };
    reply.error(format!("{code} {error}"));
}

fn set<R: SnapRow>(store: &mut Store<R>, args: Args<'_>) -> Result<usize, Refused> {
    let mut fields = Vec::with_capacity(args.len() / 2);
    fields.extend((2..args.len()).step_by(2).map(|at| (args.at(at), args.at(at + 1))));
    store.set(args.at(1), &fields)
}

fn add<R: SnapRow>(store: &mut Store<R>, args: Args<'_>, reply: &mut Writer<'_>) {
    let score = |at: usize| {
        let score = std::str::from_utf8(args.at(at)).ok().and_then(|text| text.parse::<f64>().ok());
        score.filter(|score| !score.is_nan())
    };
    // All or nothing.
    let scores: Option<Vec<f64>> = (2..args.len()).step_by(2).map(score).collect();
    let Some(scores) = scores else { return reply.error("ERR value is not a valid float") };
    let mut made = 0;
    for (pair, score) in scores.into_iter().enumerate() {
        match store.add(args.at(1), args.at(2 * pair + 3), score) {
            Ok(is_new) => made += i64::from(is_new),
            Err(error) => return refuse(reply, error),
        }
    }
    reply.integer(made);
}
