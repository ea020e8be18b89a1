//! Asynchronous write protection: the kernel notes which pages were written, and taking a snapshot copies
//! these.
//!
//! ```text
//!   now      a  b'|c  d |e  f'    pages of the rows; clients read and write here, always
//!   written   yes | no  | yes     noted by the kernel since the pages were protected
//!   aside    a  b |c  d |e  f     the rows at the last cut; taking copies the written pages here
//! ```
//!
//! - The kernel lifts the protection of a page at its first write and stops nobody. So it keeps no old page:
//!   the rows of the cut must be copied while the clients wait. The taken phase is O(pages written since the
//!   snapshot before), and at worst that of Naive. A scan looks at all page tables besides.
//! - A snapshot shows the rows of the pages that were copied, the first one all rows. Pages of an abandoned
//!   snapshot stay among those that are shown next.
//!
//! Several clients. Two copies of the data; a snapshot has the changed rows, with the others of their pages.

use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::kernel::{PageMap, Pages, Watch, page_bytes};
use super::system;
use crate::algorithm::{Algorithm, Visit};
use crate::error::SnapshotError;
use crate::rows::Rows;
use crate::shape::Shape;

/// Copies the pages that the kernel has noted as written.
pub struct AsyncWriteProtection {
    shape: Shape,
    // Before the rows: it is dropped first, and lifts what protects them.
    _watch: Watch,
    map: PageMap,
    now: Rows,
    /// The rows at the last cut.
    aside: Rows,
    /// For each page, whether it was written since the last complete snapshot. Only the snapshotter locks it.
    changed: Mutex<Vec<bool>>,
}

impl AsyncWriteProtection {
    fn changed(&self) -> MutexGuard<'_, Vec<bool>> {
        // A visit may panic.
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Algorithm for AsyncWriteProtection {
    const NAME: &'static str = "Asynchronous write protection";
    const FULL: bool = false;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<AsyncWriteProtection, SnapshotError> {
        let (now, aside) = (Rows::in_pages(shape, page_bytes())?, Rows::in_pages(shape, page_bytes())?);
        let pages = Pages::of(now.whole_pages(page_bytes()));
        let refused = system("have the kernel note writes to pages (userfaultfd with WP_ASYNC, Linux 6.7)");
        let watch = Watch::new(pages, true).map_err(&refused)?;
        watch.protect(0..pages.count(), true).map_err(&refused)?;
        let map = PageMap::open().map_err(system("open the page map"))?;
        // Fails here, if at all, and not when the first snapshot is taken.
        map.changed(pages, |_| ()).map_err(system("scan the page map (PAGEMAP_SCAN, Linux 6.7)"))?;
        let changed = Mutex::new(vec![true; pages.count()]);
        Ok(AsyncWriteProtection { shape, _watch: watch, map, now, aside, changed })
    }

    #[inline]
    fn read(&self, row: usize, fields: &mut [u64]) {
        self.now.read(row, fields);
    }

    #[inline]
    fn read_field(&self, row: usize, field: usize) -> u64 {
        self.now.read_field(row, field)
    }

    #[inline]
    fn write(&self, row: usize, fields: &[u64]) {
        self.now.write(row, fields);
    }

    #[inline]
    fn write_field(&self, row: usize, field: usize, value: u64) {
        self.now.write_field(row, field, value);
    }

    fn take(&self) -> Result<(), SnapshotError> {
        let mut changed = self.changed();
        let copy = |pages: std::ops::Range<usize>| {
            for page in pages {
                self.aside.copy_page(page, page_bytes(), &self.now);
                changed[page] = true;
            }
        };
        self.map
            .changed(Pages::of(self.now.whole_pages(page_bytes())), copy)
            .map_err(system("scan the page map"))
    }

    fn traverse(&self, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
        let changed = self.changed();
        let row_bytes = self.shape.row_bytes();
        let mut fields = vec![0; self.shape.fields];
        for row in 0..self.shape.rows {
            let pages = row * row_bytes / page_bytes()..((row + 1) * row_bytes).div_ceil(page_bytes());
            if changed[pages].contains(&true) {
                self.aside.read(row, &mut fields);
                if visit(row, &fields).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn finish(&self) {
        self.changed().fill(false);
    }

    fn abandon(&self) {}
}

/// Mutants that the judges must reject.
#[cfg(test)]
pub(crate) mod mutants {
    use super::*;
    use crate::judge::Mutant;

    /// Forgets what an abandoned snapshot has not shown.
    pub(crate) struct ForgetsAbandoned;

    impl Mutant for ForgetsAbandoned {
        type Of = AsyncWriteProtection;
        const NAME: &'static str = "Asynchronous write protection that forgets abandoned snapshots";

        fn abandon(of: &AsyncWriteProtection) {
            of.finish();
        }
    }
}
