//! The register of open views, with the versions kept for them; cancels views that cost too much.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::cuts::Cuts;
use crate::index::{Index, Indexes};
use crate::io::Clock;
use crate::lock::{Mutex, Number, RwLock, RwLockReadGuard, rank};
use crate::record::Lsn;
use crate::table::latch::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use crate::table::{END, Freed, Reader, Readers, Retained, Table, VIEWS};
use crate::throttle::ClientLatency;

/// Why no view could be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// All are in use.
    #[error("{VIEWS} views are open, as many as there can be; wait until one is closed, see INFO views")]
    TooMany,
}

/// The view was past a limit and has been cancelled; what was read last counts for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the view for the {0} was cancelled: it was past a limit of age or of memory for old versions")]
pub struct Cancelled(pub &'static str);

/// The purpose of a view.
#[derive(Clone, Copy, Debug)]
pub struct ViewOptions {
    /// A word for `INFO` and errors: "checkpoint", "export" …
    pub purpose: &'static str,
    /// Whether it may be read more than once: then all versions are kept until it is closed.
    pub pinned: bool,
    /// Whether it may become older than `ViewLimits::age`.
    pub lasting: bool,
    /// The one database that is read; `None`: all of them. Of others nothing is kept for it.
    pub db: Option<u8>,
    /// Whether it reads the indexes that are ready: then what they point to is kept as well. Only for pinned
    /// views.
    pub indexed: bool,
    /// Which of so many equal parts of each database is read: `(0, 1)` is all. Of others nothing is kept for
    /// it.
    pub part: (u8, u8),
}

impl ViewOptions {
    /// A view that is read once and may take its time.
    pub const fn once(purpose: &'static str) -> ViewOptions {
        ViewOptions { purpose, pinned: false, lasting: true, db: None, indexed: false, part: (0, 1) }
    }

    /// A view that may be read more than once.
    pub const fn pinned(purpose: &'static str) -> ViewOptions {
        ViewOptions { purpose, pinned: true, lasting: false, db: None, indexed: false, part: (0, 1) }
    }

    /// A view of one database, which is read once, and cancelled when it is too old.
    pub const fn once_of(db: u8, purpose: &'static str) -> ViewOptions {
        ViewOptions { db: Some(db), lasting: false, ..ViewOptions::once(purpose) }
    }

    /// A view that reads the indexes of one database, and its keys in any order, as often as it likes.
    pub const fn indexed_of(db: u8, purpose: &'static str) -> ViewOptions {
        ViewOptions { db: Some(db), indexed: true, ..ViewOptions::pinned(purpose) }
    }

    /// The positions of each database that are read.
    pub fn positions(&self) -> Range<u64> {
        let (number, of) = (u64::from(self.part.0), u64::from(self.part.1));
        END * number / of..END * (number + 1) / of
    }

    pub(super) fn reads(&self, db: usize) -> bool {
        self.db.is_none_or(|only| usize::from(only) == db)
    }

    /// Those of all indexes that are read.
    fn indexes(&self, all: &[Indexes]) -> Vec<(u8, Arc<Index>)> {
        let of_db = |(db, indexes): (usize, &Indexes)| {
            let ready: Vec<_> = indexes.iter().filter(|index| index.is_ready()).cloned().collect();
            ready.into_iter().map(move |index| (db as u8, index))
        };
        let read = all.iter().enumerate().filter(|(db, _)| self.indexed && self.reads(*db));
        read.flat_map(of_db).collect()
    }
}

/// The limits on the cost of views. Past a limit the oldest is cancelled; writers never wait for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewLimits {
    /// Bytes of old versions; 0: no limit.
    pub retained_bytes: usize,
    /// Of these, bytes that views keep which are not lasting, as those of queries; 0: no limit. Past it the
    /// oldest of them is cancelled, never a lasting one.
    pub passing_bytes: usize,
    /// Age of a view that is not lasting; zero: no limit.
    pub age: Duration,
}

/// The longest wait for a latch, or for another thread that ends the same view, of who cancels views.
const END_WAIT: Duration = Duration::from_millis(10);

/// How far a view has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Writers keep for it what they replace.
    Open,
    /// They take no more notice of it; what they kept is being given back.
    Leaving,
    /// All has been given back.
    Ended,
}

/// An open view, as all see it.
pub(super) struct Opened {
    pub(super) bit: u8,
    pub(super) cut: Lsn,
    pub(super) options: ViewOptions,
    pub(super) tables: Vec<Arc<Table>>,
    /// The indexes that it reads, with their databases.
    pub(super) indexes: Vec<(u8, Arc<Index>)>,
    since: Duration,
    /// The database that it is at.
    pub(super) db: AtomicU8,
    /// Set before writers are told to take no more notice of it.
    pub(super) cancelled: AtomicBool,
    /// Its owner has left it, and somebody else is to end it.
    is_left: AtomicBool,
    /// Held for writing by the thread that gives back what was kept, so that the bit is not used again
    /// meanwhile, and for reading by those that read it.
    stage: RwLock<Stage, rank::ViewEnd>,
}

impl Opened {
    pub(super) fn reader(&self) -> Reader {
        Reader { bit: self.bit, cut: self.cut }
    }

    /// Has the view stay as it is, until what is returned is dropped: writers keep for it what they replace.
    pub(super) fn hold(&self) -> Result<RwLockReadGuard<'_, Stage, rank::ViewEnd>, Cancelled> {
        let cancelled = Err(Cancelled(self.options.purpose));
        // Asked first as well: not to wait while what was kept is given back.
        if self.cancelled.load(Ordering::Acquire) {
            return cancelled;
        }
        let stage = self.stage.read();
        if *stage != Stage::Open || self.cancelled.load(Ordering::Acquire) { cancelled } else { Ok(stage) }
    }

    /// The progress in thousandths; 0 while nothing is read, and for pinned views.
    fn progress_permille(&self) -> u64 {
        let at = usize::from(self.db.load(Ordering::Relaxed));
        let positions = self.options.positions();
        let share = |keys: u64, of: u64| (u128::from(keys) * u128::from(of) / u128::from(END)) as u64;
        let (mut read, mut all) = (0, 0);
        for (db, table) in self.tables.iter().enumerate().filter(|(db, _)| self.options.reads(*db)) {
            let keys = share(table.len() as u64, positions.end - positions.start);
            all += keys;
            if db < at {
                read += keys;
            } else if db == at && !self.options.pinned {
                let passed = table.read_by(self.bit).saturating_sub(positions.start);
                read += share(table.len() as u64, passed);
            }
        }
        (read * 1000).checked_div(all).unwrap_or(0)
    }
}

/// An open view, for `INFO`.
#[derive(Clone, Debug)]
pub struct OpenView {
    /// Its purpose.
    pub purpose: &'static str,
    /// Its cut.
    pub cut: Lsn,
    /// Since when it is open.
    pub age: Duration,
    /// Thousandths that have been read.
    pub progress_permille: u64,
    /// Whether it is pinned.
    pub pinned: bool,
}

/// How views are doing.
#[derive(Clone, Debug, Default)]
pub struct ViewsStatus {
    /// The open ones, the oldest first.
    pub open: Vec<OpenView>,
    /// Versions kept now.
    pub retained: Retained,
    /// The most bytes that were kept since the last view was opened while none was.
    pub retained_bytes_peak: usize,
    /// Views opened so far.
    pub opened: u64,
    /// Views cancelled so far.
    pub cancelled: u64,
}

/// Takes what is to be freed where no client waits.
pub(super) type Discard = Box<dyn Fn(Freed) + Send + Sync>;

/// Versions of one part that take less are freed by the thread that walks over it.
const DROPPED_BYTES: usize = 1 << 20;

/// All views of a store.
pub struct Views {
    cuts: Cuts,
    open: Mutex<Vec<Arc<Opened>>>,
    /// The bits that no view has.
    free: Mutex<u64, rank::Views>,
    /// The versions that are kept. A version of an index may be freed before its writer has counted it, so
    /// the counts may be negative for a moment.
    records: AtomicI64,
    bytes: AtomicI64,
    bytes_peak: AtomicUsize,
    opened: AtomicU64,
    cancelled: AtomicU64,
    limits: RwLock<ViewLimits>,
    clock: Arc<dyn Clock>,
    clients: ClientLatency,
    discard: Discard,
}

impl Views {
    /// No views yet.
    pub fn new(clock: Arc<dyn Clock>, discard: Discard) -> Views {
        Views {
            cuts: Cuts::new(),
            open: Mutex::default(),
            free: Mutex::new(u64::MAX),
            records: AtomicI64::new(0),
            bytes: AtomicI64::new(0),
            bytes_peak: AtomicUsize::new(0),
            opened: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            limits: RwLock::new(ViewLimits { retained_bytes: 0, passing_bytes: 0, age: Duration::ZERO }),
            clock,
            clients: ClientLatency::default(),
            discard,
        }
    }

    /// The waits of clients beside views and all other background work.
    pub fn clients(&self) -> &ClientLatency {
        &self.clients
    }

    /// Opens views with these options, all at one instant: see [`View::open`](super::View::open).
    ///
    /// REQUIRES: nobody changes which table is which database meanwhile. Before an index is read, every
    /// thread that has got an `Lsn` up to the cut must have applied its change.
    pub(super) fn open(
        &self,
        options: &[ViewOptions],
        (tables, indexes): (&[Arc<Table>], &[Indexes]),
        newest: impl Fn() -> Lsn,
    ) -> Result<Vec<Arc<Opened>>, ViewError> {
        // Held all the time: so one opening is over before the next begins.
        let mut free = self.free.lock();
        if (free.count_ones() as usize) < options.len() {
            return Err(ViewError::TooMany);
        }
        let mut bits = Vec::with_capacity(options.len());
        for _ in options {
            bits.push(free.trailing_zeros() as u8);
            *free &= *free - 1;
        }
        let mut read = Vec::with_capacity(options.len());
        for (bit, options) in bits.iter().zip(options) {
            for (db, table) in tables.iter().enumerate() {
                if options.reads(db) { table.begin(*bit, &options.positions()) } else { table.pass(*bit) }
            }
            // Before there is a cut: so no pointer is lost that is removed behind it.
            read.push(options.indexes(indexes));
            read[read.len() - 1].iter().for_each(|(_, index)| index.begin(*bit));
        }
        if self.retained().records == 0 {
            self.bytes_peak.store(0, Ordering::Relaxed);
        }
        let cut = self.cuts.open(&bits, newest);
        drop(free);
        let since = self.clock.monotonic();
        let open = |(bit, options): (u8, &ViewOptions), indexes: Vec<(u8, Arc<Index>)>| {
            indexes.iter().for_each(|(_, index)| index.settle(bit, cut));
            Arc::new(Opened {
                bit,
                cut,
                options: *options,
                tables: tables.to_vec(),
                indexes,
                since,
                db: AtomicU8::new(options.db.unwrap_or(0)),
                cancelled: AtomicBool::new(false),
                is_left: AtomicBool::new(false),
                stage: RwLock::new(Stage::Open),
            })
        };
        let views: Vec<Arc<Opened>> =
            bits.into_iter().zip(options).zip(read).map(|(view, read)| open(view, read)).collect();
        self.open.lock().extend(views.iter().cloned());
        self.opened.fetch_add(views.len() as u64, Ordering::Relaxed);
        Ok(views)
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The views that see what was there before the write that has got `lsn`.
    ///
    /// REQUIRES: the caller holds the latches of what it is going to write.
    #[inline]
    pub fn before(&self, lsn: Lsn, newest: impl Fn() -> Lsn) -> Readers<'_> {
        self.cuts.before(lsn, newest)
    }

    /// Counts what a writer kept.
    pub(crate) fn note_kept(&self, kept: Retained) {
        if kept != Retained::default() {
            self.records.fetch_add(kept.records as i64, Ordering::Relaxed);
            let bytes = self.bytes.fetch_add(kept.bytes as i64, Ordering::Relaxed) + kept.bytes as i64;
            self.bytes_peak.fetch_max(bytes.max(0) as usize, Ordering::Relaxed);
        }
    }

    /// Counts what is kept no more.
    pub(super) fn note_freed(&self, freed: Retained) {
        if freed.records > 0 {
            self.records.fetch_sub(freed.records as i64, Ordering::Relaxed);
            self.bytes.fetch_sub(freed.bytes as i64, Ordering::Relaxed);
        }
    }

    /// Bytes of the versions that are kept now.
    pub fn retained_bytes(&self) -> usize {
        self.retained().bytes
    }

    /// The counts of versions kept now.
    fn retained(&self) -> Retained {
        let now = |counter: &AtomicI64| counter.load(Ordering::Relaxed).max(0) as usize;
        Retained { records: now(&self.records), bytes: now(&self.bytes) }
    }

    /// The tables that open views read.
    fn tables(&self) -> Vec<Arc<Table>> {
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for opened in self.open.lock().iter() {
            for table in &opened.tables {
                if !tables.iter().any(|other| Arc::ptr_eq(other, table)) {
                    tables.push(table.clone());
                }
            }
        }
        tables
    }

    /// Bytes of old versions that views keep which are not lasting, alone or with others. Latches each
    /// segment for a moment, unless there are none but these.
    pub fn passing_bytes(&self) -> usize {
        let (mut passing, mut lasting) = (0, 0);
        for opened in self.open.lock().iter() {
            let mask = if opened.options.lasting { &mut lasting } else { &mut passing };
            *mask |= 1u64 << opened.bit;
        }
        if passing == 0 {
            return 0;
        }
        let mut of_others = 0;
        if lasting != 0 {
            let mut look = |readers: u64, bytes| of_others += if readers & passing == 0 { bytes } else { 0 };
            self.tables().iter().for_each(|table| table.for_each_kept(&mut look));
        }
        // So what indexes keep is counted, too: no lasting view reads one.
        self.retained().bytes.saturating_sub(of_others)
    }

    /// Bytes of old versions that are kept for views of these numbers, as bits: for each mask those that one
    /// of its views has still to read. What indexes keep is not in it. Latches each segment for a moment.
    pub fn kept_for(&self, masks: &[u64]) -> Vec<usize> {
        let mut kept = vec![0; masks.len()];
        if masks.iter().all(|mask| *mask == 0) || self.retained().records == 0 {
            return kept;
        }
        let mut look = |readers: u64, bytes| {
            for (mask, kept) in masks.iter().zip(&mut kept) {
                *kept += if readers & mask != 0 { bytes } else { 0 };
            }
        };
        self.tables().iter().for_each(|table| table.for_each_kept(&mut look));
        kept
    }

    /// Ends a view whose owner is done with it: gives back its versions, then its bit. If a latch would take
    /// longer than the limit, [`Views::enforce_limits`] does the rest.
    pub(super) fn close(&self, opened: &Arc<Opened>, finished: bool, limit: Option<Duration>) {
        self.forget(opened);
        if self.end(opened, finished, limit) {
            *self.free.lock() |= 1 << opened.bit;
            return;
        }
        opened.cancelled.store(true, Ordering::Release);
        opened.is_left.store(true, Ordering::Release);
        let mut open = self.open.lock();
        let at = open.partition_point(|other| other.since <= opened.since);
        open.insert(at, opened.clone());
    }

    /// Takes a view out of the open ones; says whether it was there.
    fn forget(&self, opened: &Arc<Opened>) -> bool {
        let mut open = self.open.lock();
        let place = open.iter().position(|other| Arc::ptr_eq(other, opened));
        place.map(|place| open.remove(place)).is_some()
    }

    /// Has writers take no more notice of a view, and gives back its versions, if nobody has done that yet.
    /// `false` if that would take longer than the limit, for one latch or for another thread that does it.
    fn end(&self, opened: &Opened, finished: bool, limit: Option<Duration>) -> bool {
        let Some(mut stage) = opened.stage.write_within(Number::of(opened, 0), limit) else { return false };
        if *stage == Stage::Open {
            self.cuts.close(opened.bit);
            *stage = Stage::Leaving;
        }
        if *stage == Stage::Leaving {
            if !finished && !self.give_back(opened, limit) {
                return false;
            }
            opened.indexes.iter().for_each(|(_, index)| self.note_freed(index.end(opened.bit)));
            *stage = Stage::Ended;
        }
        true
    }

    /// Takes back what was kept for a view of which writers take no more notice; says whether that was all.
    fn give_back(&self, opened: &Opened, limit: Option<Duration>) -> bool {
        opened.tables.iter().all(|table| {
            let from = if opened.options.pinned { 0 } else { table.read_by(opened.bit) };
            let (freed, is_all) = table.release(from, opened.bit, limit);
            self.discard(freed);
            is_all
        })
    }

    /// Has versions freed where no client waits. They wait for that before they count as kept no more: nobody
    /// takes them for memory in use.
    fn discard(&self, freed: Freed) {
        let retained = freed.retained;
        if !freed.is_empty() {
            (self.discard)(freed);
        }
        self.note_freed(retained);
    }

    /// Frees versions here if they are small together; what is large is waited for as what others discard.
    pub(super) fn drop_freed(&self, freed: Freed) {
        if freed.retained.bytes > DROPPED_BYTES {
            self.discard(freed);
        } else {
            let retained = freed.retained;
            drop(freed);
            self.note_freed(retained);
        }
    }

    /// Goes on with views of which not all could be given back; says whether there is more.
    fn end_leaving(&self) -> bool {
        let is_leaving = |opened: &&Arc<Opened>| opened.cancelled.load(Ordering::Acquire);
        let leaving: Vec<Arc<Opened>> = self.open.lock().iter().filter(is_leaving).cloned().collect();
        let mut is_left = false;
        for opened in leaving {
            // Asked first: its owner may leave it while it ends here.
            let is_ownerless = opened.is_left.load(Ordering::Acquire);
            if !self.end(&opened, false, Some(END_WAIT)) {
                is_left = true;
            } else if is_ownerless && self.forget(&opened) {
                *self.free.lock() |= 1 << opened.bit;
            }
        }
        is_left
    }

    /// Changes the limits.
    pub fn set_limits(&self, limits: ViewLimits) {
        *self.limits.write() = limits;
    }

    /// Cancels views that are past a limit: those that are too old, then the oldest while too much is kept.
    /// To be called from time to time. It also ends what others could not. Returns what was cancelled.
    pub fn enforce_limits(&self) -> Vec<OpenView> {
        let limits = *self.limits.read();
        let now = self.clock.monotonic();
        let is_too_old = |opened: &Opened| {
            let age = now.saturating_sub(opened.since);
            !opened.options.lasting && !limits.age.is_zero() && age > limits.age
        };
        let mut cancelled = Vec::new();
        // What is still to be given back is counted, and no other view is cancelled for it.
        let mut gives_back = self.end_leaving();
        loop {
            let kept = if gives_back { 0 } else { self.retained().bytes };
            let too_much = limits.retained_bytes != 0 && kept > limits.retained_bytes;
            // What all views keep is known at once; whose it is, only by looking.
            let passing_too_much = limits.passing_bytes != 0
                && kept > limits.passing_bytes
                && self.passing_bytes() > limits.passing_bytes;
            let next = {
                let open = self.open.lock();
                let mut may_go = open.iter().filter(|opened| !opened.cancelled.load(Ordering::Relaxed));
                let is_due = |opened: &Opened| passing_too_much && !opened.options.lasting;
                may_go.find(|opened| too_much || is_due(opened) || is_too_old(opened)).cloned()
            };
            let Some(opened) = next else { return cancelled };
            let status = self.status_of(&opened);
            // Before writers stop to keep versions: who reads what was overwritten then, sees this too.
            if opened.cancelled.swap(true, Ordering::Release) {
                // Another thread cancels it.
                continue;
            }
            cancelled.push(status);
            self.cancelled.fetch_add(1, Ordering::Relaxed);
            gives_back |= !self.end(&opened, false, Some(END_WAIT));
        }
    }

    fn status_of(&self, opened: &Opened) -> OpenView {
        OpenView {
            purpose: opened.options.purpose,
            cut: opened.cut,
            age: self.clock.monotonic().saturating_sub(opened.since),
            progress_permille: opened.progress_permille(),
            pinned: opened.options.pinned,
        }
    }

    /// How views are doing.
    pub fn status(&self) -> ViewsStatus {
        let open: Vec<Arc<Opened>> = self.open.lock().clone();
        ViewsStatus {
            open: open.iter().map(|opened| self.status_of(opened)).collect(),
            retained: self.retained(),
            retained_bytes_peak: self.bytes_peak.load(Ordering::Relaxed),
            opened: self.opened.load(Ordering::Relaxed),
            cancelled: self.cancelled.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Debug for Views {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Views").field("status", &self.status()).finish_non_exhaustive()
    }
}
