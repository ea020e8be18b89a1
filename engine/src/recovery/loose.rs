//! Keys whose records do not tell all.

use super::replay::Misfit;
use crate::record::{Lsn, Write};
use crate::table::{Remains, Retired};
use std::collections::HashMap;

/// What a replayer knows of keys whose records do not tell all: a compaction may have dropped some that
/// nothing needs in the end.
pub(super) struct Loose {
    /// Records up to here need not fit.
    pub(super) unfit: Lsn,
    keys: HashMap<(u8, Box<[u8]>), LooseKey>,
}

#[derive(Default)]
pub(super) struct LooseKey {
    /// The first record that did not fit.
    pub(super) misfit: Option<Misfit>,
    /// What was said of a key that is not there, or not any more, and that may come to be there by elements
    /// that are younger than those it had.
    pub(super) remains: Option<Remains>,
    /// The record of an expiry, if the key was never seen.
    pub(super) unseen: Option<Misfit>,
}

impl Loose {
    /// Nothing; records up to `unfit` need not fit.
    pub(super) fn new(unfit: Lsn) -> Loose {
        Loose { unfit, keys: HashMap::new() }
    }

    pub(super) fn of(&mut self, db: u8, key: &[u8]) -> &mut LooseKey {
        self.keys.entry((db, key.into())).or_default()
    }

    /// Forgets a key that is said anew.
    pub(super) fn forget(&mut self, db: u8, key: &[u8], retired: &mut Retired) {
        if !self.keys.is_empty()
            && let Some(loose) = self.keys.remove(&(db, key.into()))
        {
            retired.lsns.extend(loose.remains.iter().flat_map(Remains::lsns));
        }
    }

    /// What was said before of a key that elements have made.
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

    /// The earliest misfit; what remains is needed by nothing.
    pub(super) fn end(self, retired: &mut Retired) -> Option<Misfit> {
        let mut first: Option<Misfit> = None;
        for loose in self.keys.into_values() {
            retired.lsns.extend(loose.remains.iter().flat_map(Remains::lsns));
            for misfit in loose.misfit.into_iter().chain(loose.unseen) {
                if first.as_ref().is_none_or(|first| misfit.lsn < first.lsn) {
                    first = Some(misfit);
                }
            }
        }
        first
    }
}
