//! A query as in the paper: it counts the records, all or those of a range of the index. It sums the bytes of
//! the keys as well, so that it reads each record. It reads part by part, so that one thread can run many
//! queries in turns, as the SQL thread does.

use std::time::Duration;

use tarn_engine::view::{ForkedScan, Live};
use tarn_engine::{Direction, Entry, IndexScan, View, ViewOptions};

use super::cell::{Cell, Variant};
use super::store::{self, Store};
use crate::error::{IoContext, LabError, Result};

/// Pointers of an index that are followed in a part: about as many records as a part of a full scan has.
const POINTERS_AT_ONCE: usize = 128;
/// The interval between two checks of a child process.
const LOOK: Duration = Duration::from_micros(200);

/// The result of a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Records.
    pub rows: u64,
    /// The bytes of their keys.
    pub key_bytes: u64,
}

impl Counted {
    #[inline]
    fn look(&mut self, entry: &Entry) {
        self.rows += 1;
        self.key_bytes += entry.key().len() as u64;
    }
}

/// Where it reads.
enum Source {
    View(View),
    Live(Live),
    Index(View, IndexScan),
    LiveIndex(Live, IndexScan),
    Fork(ForkedScan),
}

/// A query that runs.
pub(super) struct Query {
    source: Source,
    /// The result of the query.
    pub counted: Counted,
}

impl Query {
    /// Begins one.
    pub(super) fn begin(store: &Store, variant: Variant, cell: &Cell) -> Result<Query> {
        let range = store::range_of(cell.records, cell.share_percent);
        let no_index = || LabError::Arguments("the index is not ready".to_owned());
        let source = match (variant, cell.is_full()) {
            (Variant::Vls, true) => Source::View(
                store.engine.open_view(ViewOptions::once_of(0, "lab")).map_err(LabError::refused)?,
            ),
            (Variant::Vls, false) => {
                let view =
                    store.engine.open_view(ViewOptions::indexed_of(0, "lab")).map_err(LabError::refused)?;
                let scan = view.scan_index(0, store::INDEX, &range, Direction::Ascending);
                Source::Index(view, scan.ok_or_else(no_index)?)
            }
            (Variant::Live, true) => Source::Live(store.engine.live(0)),
            (Variant::Live, false) => {
                let live = store.engine.live(0);
                let scan = live.scan_index(store::INDEX, &range, Direction::Ascending);
                Source::LiveIndex(live, scan.ok_or_else(no_index)?)
            }
            (Variant::Fork, true) => {
                Source::Fork(store.engine.fork_scan(0).doing(|| "scan in a child process".to_owned())?)
            }
            _ => return Err(LabError::Arguments(format!("{} has no such query", variant.name()))),
        };
        Ok(Query { source, counted: Counted::default() })
    }

    /// Reads the next part, some dozens of records; `false` at the end.
    pub(super) fn part(&mut self) -> Result<bool> {
        let Query { source, counted } = self;
        let mut look = |entry: &Entry| counted.look(entry);
        match source {
            Source::View(view) => Ok(view.step(&mut look).map_err(LabError::refused)?.is_some()),
            Source::Live(live) => Ok(live.step(&mut look)),
            Source::Index(view, scan) => {
                let pointers = view.next_pointers(scan, POINTERS_AT_ONCE).map_err(LabError::refused)?;
                let keys: Vec<&[u8]> = pointers.iter().map(|pointer| pointer.key()).collect();
                view.read_keys(0, &keys, |_, entry| look(entry)).map_err(LabError::refused)?;
                Ok(!pointers.is_empty())
            }
            Source::LiveIndex(live, scan) => {
                let pointers = live.next_pointers(scan, POINTERS_AT_ONCE);
                let keys: Vec<&[u8]> = pointers.iter().map(|pointer| pointer.key()).collect();
                live.read_keys(&keys, |_, entry| look(entry));
                Ok(!pointers.is_empty())
            }
            Source::Fork(child) => {
                if let Some((rows, key_bytes)) =
                    child.counted().doing(|| "scan in a child process".to_owned())?
                {
                    *counted = Counted { rows, key_bytes };
                    return Ok(false);
                }
                std::thread::sleep(LOOK);
                Ok(true)
            }
        }
    }
}
