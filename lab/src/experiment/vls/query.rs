//! A query as in the paper: it counts the records, all or those of a range of the index. It sums the bytes of
//! the keys as well, so that it reads each record. It reads part by part, so that one thread can run many
//! queries in turns, as the SQL thread does.

use std::time::Duration;

use tarn_engine::{Direction, Entry, ViewOptions};

use super::cell::{Cell, Variant};
use super::store::{self, Store};
use crate::error::{IoContext, LabError, Result};

/// Pointers of an index that are followed in a part: about as many records as a part of a full scan has.
const POINTERS_AT_ONCE: usize = 128;
/// Bytes from the front of an entry in which its key is.
const FRONT_BYTES: usize = 60;
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

/// Reads the next part; `false` at the end.
type Part = Box<dyn FnMut(&mut Counted) -> Result<bool>>;

/// A query that runs.
pub(super) struct Query {
    part: Part,
    /// The result of the query.
    pub counted: Counted,
}

impl Query {
    /// Begins one.
    pub(super) fn begin(store: &Store, variant: Variant, cell: &Cell) -> Result<Query> {
        let range = store::range_of(cell.records, cell.share_percent);
        let no_index = || LabError::Arguments("the index is not ready".to_owned());
        let open = |options| store.engine.open_view(options).map_err(LabError::refused);
        let part: Part = match (variant, cell.is_full()) {
            (Variant::Vls, true) => {
                let mut view = open(ViewOptions::once_of(0, "lab"))?;
                Box::new(move |counted| {
                    let part = view.step(&mut |entry: &Entry| counted.look(entry));
                    Ok(part.map_err(LabError::refused)?.is_some())
                })
            }
            (Variant::Vls, false) => {
                let view = open(ViewOptions::indexed_of(0, "lab"))?;
                let scan = view.scan_index(0, store::INDEX, &range, Direction::Ascending);
                let mut scan = scan.ok_or_else(no_index)?;
                Box::new(move |counted| {
                    let pointers =
                        view.next_pointers(&mut scan, POINTERS_AT_ONCE).map_err(LabError::refused)?;
                    let keys: Vec<&[u8]> = pointers.iter().map(|pointer| pointer.key()).collect();
                    let read = view.read_keys(0, &keys, FRONT_BYTES, |_, entry| counted.look(entry));
                    read.map_err(LabError::refused)?;
                    Ok(!pointers.is_empty())
                })
            }
            (Variant::Live, true) => {
                let mut live = store.engine.live(0);
                Box::new(move |counted| Ok(live.step(&mut |entry: &Entry| counted.look(entry))))
            }
            (Variant::Live, false) => {
                let live = store.engine.live(0);
                let scan = live.scan_index(store::INDEX, &range, Direction::Ascending);
                let mut scan = scan.ok_or_else(no_index)?;
                Box::new(move |counted| {
                    let pointers = live.next_pointers(&mut scan, POINTERS_AT_ONCE);
                    let keys: Vec<&[u8]> = pointers.iter().map(|pointer| pointer.key()).collect();
                    live.read_keys(&keys, FRONT_BYTES, |_, entry| counted.look(entry));
                    Ok(!pointers.is_empty())
                })
            }
            (Variant::Fork, true) => {
                let scanning = || "scan in a child process".to_owned();
                let mut child = store.engine.fork_scan(0).doing(scanning)?;
                Box::new(move |counted| {
                    if let Some((rows, key_bytes)) = child.counted().doing(scanning)? {
                        *counted = Counted { rows, key_bytes };
                        return Ok(false);
                    }
                    std::thread::sleep(LOOK);
                    Ok(true)
                })
            }
            _ => return Err(LabError::Arguments(format!("{} has no such query", variant.name()))),
        };
        Ok(Query { part, counted: Counted::default() })
    }

    /// Reads the next part, some dozens of records; `false` at the end.
    pub(super) fn part(&mut self) -> Result<bool> {
        (self.part)(&mut self.counted)
    }
}
