//! Pending keys, whose records do not say everything until later records complete them.

use super::misfit::Misfit;
use crate::record::{Lsn, Write};
use crate::table::{Remains, Retired};
use std::collections::HashMap;

/// A key and its database.
pub type Place = (u8, Box<[u8]>);

/// The pending keys of a replayer: their records do not say everything, as a compaction may have dropped
/// some that nothing needs in the end.
pub(super) struct Loose {
    /// Records up to here need not fit.
    unfit: Lsn,
    keys: HashMap<Place, LooseKey>,
}

#[derive(Default)]
pub(super) struct LooseKey {
    /// The first record that did not fit.
    pub(super) misfit: Option<Misfit>,
    /// The leftovers of a key that is absent, and that elements younger than those it had may create.
    pub(super) remains: Option<Remains>,
    /// The record of an expiry, if the key was never seen.
    pub(super) unseen: Option<Misfit>,
    /// Since when the key has been logged again in pieces, and the first record behind that did not fit.
    renewal: Option<(Lsn, Option<Misfit>)>,
    /// Whether a repair has cut off what made its records fit, so that they make what they make only as long
    /// as all of them are there.
    is_torn: bool,
}

impl LooseKey {
    pub(super) fn note_misfit(&mut self, misfit: Misfit) {
        if let Some((_, first)) = &mut self.renewal {
            first.get_or_insert_with(|| misfit.clone());
        }
        self.misfit.get_or_insert(misfit);
    }
}

impl Loose {
    /// Nothing; records up to `unfit` need not fit.
    pub(super) fn new(unfit: Lsn) -> Loose {
        Loose { unfit, keys: HashMap::new() }
    }

    pub(super) fn of(&mut self, db: u8, key: &[u8]) -> &mut LooseKey {
        self.keys.entry((db, key.into())).or_default()
    }

    /// Whether a record may not fit because a repair has cut off what was said later.
    pub(super) fn is_excused(&self, lsn: Lsn) -> bool {
        lsn <= self.unfit
    }

    /// Notes a key of which a repair has cut off what made its records fit.
    pub(super) fn note_torn(&mut self, db: u8, key: &[u8]) {
        self.of(db, key).is_torn = true;
    }

    /// Forgets a key that is logged again.
    pub(super) fn forget(&mut self, db: u8, key: &[u8], retired: &mut Retired) {
        if !self.keys.is_empty()
            && let Some(loose) = self.keys.remove(&(db, key.into()))
        {
            retired.lsns.extend(loose.remains.iter().flat_map(Remains::lsns));
        }
    }

    /// Notes that a key begins to be logged again in pieces, and whether that did not fit.
    pub(super) fn begin_renewal(&mut self, db: u8, key: &[u8], lsn: Lsn, misfit: Option<Misfit>) {
        if let Some(misfit) = misfit {
            self.of(db, key).misfit.get_or_insert(misfit);
        }
        if !self.keys.is_empty()
            && let Some(loose) = self.keys.get_mut(&(db, key.into()))
        {
            loose.renewal = Some((lsn, None));
        }
    }

    /// Forgets what did not fit up to where a key began to be logged again, as all of it has been said.
    pub(super) fn end_renewal(&mut self, db: u8, key: &[u8], begun: Lsn, retired: &mut Retired) {
        if self.keys.is_empty() {
            return;
        }
        let Some(loose) = self.keys.get_mut(&(db, key.into())) else { return };
        loose.is_torn &= begun <= self.unfit;
        let renewal = loose.renewal.take();
        if loose.misfit.as_ref().is_some_and(|misfit| misfit.lsn <= begun) {
            loose.misfit = renewal.filter(|(lsn, _)| *lsn == begun).and_then(|(_, since)| since);
        }
        if let Some(remains) = &mut loose.remains {
            retired.lsns.extend(remains.base.take_if(|base| *base < begun));
        }
    }

    /// Keeps what was said of a key that has lost its last element.
    pub(super) fn keep_remains(&mut self, db: u8, key: &[u8], retired: &mut Retired) {
        let remains = retired.remains.take().unwrap_or_default();
        if remains.lsns().next().is_some() {
            // They are needed still.
            retired.lsns.retain(|lsn| remains.lsns().all(|other| other != *lsn));
            self.of(db, key).remains = Some(remains);
        }
    }

    /// The leftovers of a key that elements have made.
    pub(super) fn take_remains(&mut self, db: u8, key: &[u8]) -> Option<Remains> {
        if self.keys.is_empty() {
            return None;
        }
        let loose = self.keys.get_mut(&(db, key.into()))?;
        loose.unseen = None;
        loose.remains.take()
    }

    /// Follows a change of whole databases.
    pub(super) fn change_databases(&mut self, write: &Write<'_>, retired: &mut Retired) {
        let mut changed = HashMap::new();
        for ((db, key), loose) in self.keys.drain() {
            let db = match *write {
                Write::Flush { db: flushed } if flushed.is_none_or(|flushed| flushed == db) => {
                    retired.lsns.extend(loose.remains.iter().flat_map(Remains::lsns));
                    continue;
                }
                Write::Swap { a, b } if db == a => b,
                Write::Swap { a, b } if db == b => a,
                _ => db,
            };
            changed.insert((db, key), loose);
        }
        self.keys = changed;
    }

    /// The earliest misfit, and the keys that are torn; what remains is needed by nothing.
    pub(super) fn end(self, retired: &mut Retired) -> (Option<Misfit>, Vec<Place>) {
        let (mut first, mut torn): (Option<Misfit>, _) = (None, Vec::new());
        for (key, loose) in self.keys {
            retired.lsns.extend(loose.remains.iter().flat_map(Remains::lsns));
            // What remains would be taken over by the key's next elements.
            if loose.is_torn || loose.remains.is_some() && self.unfit > Lsn::ZERO {
                torn.push(key);
            }
            for misfit in loose.misfit.into_iter().chain(loose.unseen) {
                if first.as_ref().is_none_or(|first| misfit.lsn < first.lsn) {
                    first = Some(misfit);
                }
            }
        }
        (first, torn)
    }
}
