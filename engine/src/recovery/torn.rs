//! Keys that a repair has torn: of their records some are there, and others not, as a compaction had dropped
//! them for the sake of what the repair has cut off.
//!
//! A replay makes something of such a key, always the same of the same records. It would be something else
//! once a compaction drops some of these, or behind them comes what only fits what there was. So who opens
//! the log says the key anew, as it is or that it is not there, and no record before that matters any more.
//! Killed before it is durable, it is said at the next start: nothing that came behind it is there either.

use std::sync::Arc;

use super::loose::Place;
use crate::log::{Appender, Group, LogError, Validity};
use crate::record::{Batch, Change, Lsn, Write};
use crate::renewal::whole;
use crate::table::{KeyHash, Readers, Retired, Table};
use smallvec::smallvec;

/// Says keys anew that are torn.
pub(super) fn say_anew(
    torn: &[Place],
    tables: &[Arc<Table>],
    log: &Appender,
    validity: &Validity,
) -> Result<(), LogError> {
    let mut group = Group::new();
    for (db, key) in torn {
        let hash = KeyHash::of(key);
        let (_, mut segment) = tables[*db as usize].write_of(hash);
        let changes = segment.find(hash, key).map_or_else(|| smallvec![Change::Delete], whole);
        let write = |change| Write::Key { db: *db, key: (&**key).into(), change };
        let batch: Batch<'_> = changes.into_iter().map(write).collect();
        group.clear();
        batch.iter().for_each(|write| group.push(write));
        let mut lsn = log.append(&group)?;
        let mut retired = Retired::default();
        for write in &batch {
            let Write::Key { change, .. } = write else { continue };
            segment.apply(hash, key, change, lsn, &Readers::default(), &mut retired);
            lsn = lsn.after(1);
        }
        validity.invalidate(&retired.lsns);
        if !log.has_room() {
            log.sync_up_to(Lsn(lsn.0 - 1))?;
        }
    }
    Ok(())
}
