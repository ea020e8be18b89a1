//! Whole databases as a command sees them: counts, scans and random keys, one segment at a time. A
//! transaction sees its own changes so far.

use super::Latched;
use crate::record::UnixMs;
use crate::table::{Entry, KeyCounts, KeyHash, KeyRef, LatchTimeout, ScanBudget, Table};

impl<'s> Latched<'s> {
    /// The table of a database, for commands that look at keys which they did not declare, one segment at a
    /// time. What they see counts as seen up to now: call `see_all` behind it. Without what a transaction has
    /// changed: see the other functions here.
    ///
    /// REQUIRES: this command has latched no key, or the store is its own.
    pub fn table(&self, db: u8) -> &'s Table {
        let below = self.overlay.as_ref().and_then(|overlay| overlay.below(db));
        &self.databases.tables[below.unwrap_or(db) as usize]
    }

    /// Number of keys of a database, expired ones included.
    pub fn keys(&self, db: u8) -> usize {
        let Some(overlay) = &self.overlay else { return self.table(db).len() };
        let below = overlay.below(db).map_or(0, |below| self.databases.tables[below as usize].len());
        below.saturating_add_signed(overlay.keys_more(db) as isize)
    }

    /// Keys of a database by number. REQUIRES: as `table`, and of a transaction that the store is its own.
    pub fn counts(&self, db: u8) -> KeyCounts {
        if self.overlay.is_none() {
            return self.table(db).counts();
        }
        let mut counts = KeyCounts { keys: self.keys(db), ..KeyCounts::default() };
        let scanned = self.scan(db, 0, &mut ScanBudget::UNLIMITED.clone(), |entry| {
            counts.expiring += usize::from(entry.expiry().is_some());
            counts.timed += usize::from(entry.is_timed());
        });
        debug_assert!(scanned.is_ok(), "behind a closed gate latches are waited for as long as it takes");
        counts
    }

    /// Calls `visit` for entries from position `cursor` on, as `Table::scan` does. Returns the cursor to go
    /// on from, 0 at the end; an error if one of the latches would take longer than those of keys may.
    /// REQUIRES: as `table`.
    pub fn scan(
        &self,
        db: u8,
        cursor: u64,
        budget: &mut ScanBudget,
        mut visit: impl FnMut(&Entry),
    ) -> Result<u64, LatchTimeout> {
        let Some(overlay) = &self.overlay else {
            return self.table(db).scan_within(cursor, budget, self.limit, |entry| {
                visit(entry);
                false
            });
        };
        let next = match overlay.below(db) {
            None => 0,
            Some(below) => {
                self.databases.tables[below as usize].scan_within(cursor, budget, self.limit, |entry| {
                    if overlay.find(KeyRef::of(db, entry.key())).is_none() {
                        visit(entry);
                    }
                    false
                })?
            }
        };
        let passed = |entry: &&Entry| {
            let position = KeyHash::of(entry.key()).position();
            position >= cursor && (next == 0 || position < next)
        };
        overlay.entries(db).filter(passed).for_each(visit);
        Ok(next)
    }

    /// The key of a live entry drawn by `random`; an error as of `scan`. REQUIRES: as `table`.
    pub fn sample(&self, db: u8, mut random: impl FnMut() -> u64) -> Result<Option<Vec<u8>>, LatchTimeout> {
        let now: UnixMs = self.now;
        let draw = |entry: &Entry| (!entry.is_expired(now)).then(|| entry.key().to_vec());
        let Some(overlay) = &self.overlay else { return self.table(db).sample(self.limit, random, draw) };
        let changed: Vec<&Entry> = overlay.entries(db).filter(|entry| !entry.is_expired(now)).collect();
        let among = random() as usize % self.keys(db).max(1);
        if let Some(entry) = changed.get(among) {
            return Ok(Some(entry.key().to_vec()));
        }
        let draw_below =
            |entry: &Entry| draw(entry).filter(|key| overlay.find(KeyRef::of(db, key)).is_none());
        let below = overlay.below(db).map(|below| &self.databases.tables[below as usize]);
        let drawn = match below {
            Some(table) => table.sample(self.limit, &mut random, draw_below)?,
            None => None,
        };
        Ok(drawn.or_else(|| changed.first().map(|entry| entry.key().to_vec())))
    }
}
