//! Walks through a view, range by range.

#![expect(unsafe_code, reason = "what a view sees is read without latches: see `table/pinned.rs`")]

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::register::{Cancelled, Opened, ViewError, ViewOptions, Views};
use crate::index::Indexes;
use crate::record::Lsn;
use crate::table::latch::Ordering;
use crate::table::{Entry, Table, Visitor};
use crate::throttle;

/// The longest wait for a latch of a thread that clients wait for, when it closes a view.
const CLOSE_WAIT: Duration = Duration::from_millis(1);

/// The result of one step of a walk: a range of a database's positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// The logical database, as of the cut.
    pub db: u8,
    /// The first position.
    pub from: u64,
    /// The one behind the last.
    pub end: u64,
}

/// The store as of one instant. Closed when it is dropped.
pub struct View {
    views: Arc<Views>,
    pub(super) opened: Arc<Opened>,
    /// Where the walk goes on.
    db: usize,
    from: u64,
    /// Up to where it needs nothing of that database: as far as it has read, unless a latch took too long.
    passed: u64,
    /// The positions to read in each database.
    positions: Range<u64>,
    /// Whether its thread gives way between parts.
    gives_way: bool,
}

impl View {
    /// Opens views with these options, all at one instant, of these tables and their indexes. `newest` is
    /// asked for the newest `Lsn` given out.
    ///
    /// REQUIRES: nobody changes which table is which database meanwhile. Before an index is read, a thread
    /// that has got an `Lsn` up to the cut must have applied its change.
    pub fn open(
        views: &Arc<Views>,
        options: &[ViewOptions],
        (tables, indexes): (&[Arc<Table>], &[Indexes]),
        newest: impl Fn() -> Lsn,
    ) -> Result<Vec<View>, ViewError> {
        let opened = views.open(options, (tables, indexes), newest)?;
        Ok(opened.into_iter().map(|opened| View::new(views.clone(), opened)).collect())
    }

    fn new(views: Arc<Views>, opened: Arc<Opened>) -> View {
        let db = usize::from(opened.options.db.unwrap_or(0));
        let positions = opened.options.positions();
        View { views, opened, db, from: positions.start, passed: positions.start, positions, gives_way: true }
    }

    /// The newest change that it sees.
    pub fn cut(&self) -> Lsn {
        self.opened.cut
    }

    /// Keeps the processor between parts, and waits for no latch for long when the view is closed: for a
    /// thread that clients wait for.
    pub fn keep_processor(&mut self) {
        self.gives_way = false;
    }

    /// Its number, from 0, below [`VIEWS`](crate::table::VIEWS): its own while it is open.
    pub fn number(&self) -> u8 {
        self.opened.bit
    }

    /// Whether it may be read more than once.
    pub fn is_pinned(&self) -> bool {
        self.opened.options.pinned
    }

    /// Number of logical databases.
    pub fn databases(&self) -> usize {
        self.opened.tables.len()
    }

    /// Keys of a database, about: as many as there are now.
    pub fn keys(&self, db: u8) -> usize {
        self.opened.tables[db as usize].len()
    }

    /// Keys of a database with an expiry, about: as many as there are now.
    pub fn expiring(&self, db: u8) -> usize {
        self.opened.tables[db as usize].expiring()
    }

    /// Hashes of a database whose fields have times, about: as many as there are now.
    pub fn timed(&self, db: u8) -> usize {
        self.opened.tables[db as usize].timed()
    }

    /// Whether it may see hashes of a database whose fields have times. REQUIRES: it reads indexes, so all
    /// changes up to its cut were applied when it was opened.
    pub fn may_be_timed(&self, db: u8) -> bool {
        self.opened.tables[db as usize].may_be_timed_at(self.opened.cut)
    }

    /// The table of a database.
    pub(crate) fn table(&self, db: u8) -> &Arc<Table> {
        &self.opened.tables[db as usize]
    }

    /// Hands the entries of the next part of the store to `visitor`, and says what part that is; `None` at
    /// the end. A view that is not pinned can be walked once: what was read is not kept any longer.
    ///
    /// `visitor` must not wait, and must not close a view: it is called while nobody can cancel this one.
    pub fn step(&mut self, visitor: &mut impl Visitor) -> Result<Option<Walked>, Cancelled> {
        self.step_in(None, visitor)
    }

    /// As `step`, for a thread that has something else to do: where a latch would take longer than the limit,
    /// the part is empty, and the caller tries again a moment later.
    pub fn step_within(
        &mut self,
        limit: Duration,
        visitor: &mut impl Visitor,
    ) -> Result<Option<Walked>, Cancelled> {
        self.step_in(Some(limit), visitor)
    }

    fn step_in(
        &mut self,
        limit: Option<Duration>,
        visitor: &mut impl Visitor,
    ) -> Result<Option<Walked>, Cancelled> {
        while self.db < self.databases_end() {
            if self.passed == self.positions.end {
                self.db += 1;
                (self.from, self.passed) = (self.positions.start, self.positions.start);
                self.opened.db.store(self.db as u8, Ordering::Relaxed);
                continue;
            }
            let (db, from) = (self.db as u8, self.from);
            let passes = (!self.opened.options.pinned).then_some(self.passed);
            (self.from, self.passed) = self.read(db, from..self.positions.end, passes, limit, visitor)?;
            return Ok(Some(Walked { db, from, end: self.from }));
        }
        Ok(None)
    }

    /// As `step`, of the first of any positions of any database: for pinned views. Returns where the rest of
    /// them begins, `None` at their end.
    pub fn read_at(
        &self,
        db: u8,
        positions: Range<u64>,
        visitor: &mut impl Visitor,
    ) -> Result<Option<u64>, Cancelled> {
        let (options, until) = (&self.opened.options, positions.end);
        let own = options.positions();
        assert!(options.pinned, "only a pinned view keeps what was read");
        assert!(
            options.reads(db.into()) && own.start <= positions.start && until <= own.end,
            "a view keeps only what it reads"
        );
        let (end, _) = self.read(db, positions, None, None, visitor)?;
        Ok((end != until).then_some(end))
    }

    /// Reads the first of these positions, and passes what was read from position `passes` on. Returns up to
    /// where it has read, and passed: nothing more where a latch would take longer than the limit.
    fn read(
        &self,
        db: u8,
        positions: Range<u64>,
        passes: Option<u64>,
        limit: Option<Duration>,
        visitor: &mut impl Visitor,
    ) -> Result<(u64, u64), Cancelled> {
        let table = &self.opened.tables[db as usize];
        let from = positions.start;
        if self.gives_way {
            // While nothing is held.
            throttle::give_way(self.views.clock());
        }
        let held = self.opened.hold()?;
        // SAFETY: `held` keeps the view from being ended, so writers keep what they replace. Only this thread
        // passes these positions of a view that is read once, below; one that is pinned passes none.
        let pin = || unsafe { table.pin(positions, self.opened.reader(), limit) };
        let is_left = from < self.positions.end;
        let next = is_left.then(pin).flatten().map_or(from, |part| part.read(visitor));
        let passed = passes.map(|passed| match limit {
            None => (table.pass_over(passed..next, self.opened.bit), next),
            Some(limit) => table.pass_over_within(passed..next, self.opened.bit, limit),
        });
        drop(held);
        let Some((freed, passed)) = passed else { return Ok((next, next)) };
        // Without a lock, and before it counts as kept no more.
        self.views.drop_freed(freed);
        Ok((next, passed))
    }

    /// The entries as of the cut, one by one, of the rest of the walk; for tests and small stores. `visit`
    /// must not wait.
    pub fn for_each(mut self, mut visit: impl FnMut(u8, &Entry)) -> Result<(), Cancelled> {
        while let Some(db) = self.next_db() {
            self.step(&mut |entry: &Entry| visit(db, entry))?;
        }
        Ok(())
    }

    /// The database of the next step; `None` if there is none.
    pub fn next_db(&self) -> Option<u8> {
        let db = self.db + usize::from(self.passed == self.positions.end);
        (db < self.databases_end()).then_some(db as u8)
    }

    /// Behind the last database that is read.
    fn databases_end(&self) -> usize {
        self.opened.options.db.map_or(self.databases(), |only| usize::from(only) + 1)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let finished = !self.opened.options.pinned && self.next_db().is_none();
        // Clients wait for a thread that does not give way.
        self.views.close(&self.opened, finished, (!self.gives_way).then_some(CLOSE_WAIT));
    }
}
