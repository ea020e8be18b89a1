//! Write protection: all pages are protected when a snapshot is taken, and the first write to a page waits
//! until a thread of ours has copied the page aside.
//!
//! ```text
//!   now       a  b'|c  d |e  f'    pages of the rows; clients read and write here, always
//!   protected  no  | yes | no      a write to the middle page stops its client
//!   aside     a  b |     |e  f     the handler's or the traversal's copies, which the traversal shows
//! ```
//!
//! - A page is copied aside once in a period, under the lock `settled`, and its protection is lifted then.
//! - The handler takes that lock, copies a page and lifts; it never waits for a client or for a visit.
//!
//! So this is Copy-on-Update with pages for rows, and the kernel's check for a bit: a write to a page that is
//! not protected costs nothing, the first to one that is costs two changes of thread. Beside Fork, no page
//! table is copied, and the pause is that of protecting all pages.
//!
//! Several clients. Two copies of the data; the taken phase is O(pages). A snapshot has all rows.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::kernel::{Pages, Watch, page_bytes};
use super::system;
use crate::algorithm::{Algorithm, Visit};
use crate::error::SnapshotError;
use crate::rows::Rows;
use crate::shape::Shape;

/// Pages that the traversal copies aside while it has the lock, for which a client may have to wait.
const PIECE: usize = 16;

/// Has the kernel stop the first write to a page.
pub struct WriteProtection {
    parts: Arc<Parts>,
    /// A byte ends the handler. Closing it would not: a forked child has the same end open.
    end: PipeWriter,
    handler: Option<JoinHandle<()>>,
}

struct Parts {
    shape: Shape,
    // Before the rows: it is dropped first, and lifts what protects them.
    watch: Watch,
    now: Rows,
    aside: Rows,
    /// For each page, whether it has been copied aside.
    settled: Mutex<Vec<bool>>,
    /// Why no page is protected any more, if none is.
    failed: Mutex<Option<String>>,
}

impl Parts {
    fn settled(&self) -> MutexGuard<'_, Vec<bool>> {
        // No panic leaves a page half copied and settled.
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ensures that pages have been copied aside, and lifts their protection.
    fn settle(&self, pages: Range<usize>) -> io::Result<()> {
        let mut settled = self.settled();
        for page in pages.clone() {
            if !settled[page] {
                self.aside.copy_page(page, page_bytes(), &self.now);
                settled[page] = true;
            }
        }
        // With the lock: nobody protects them meanwhile.
        self.watch.protect(pages, false)
    }

    /// The life of the handler.
    fn handle(&self, end: &PipeReader) {
        let outcome = loop {
            match self.watch.wait(end) {
                Ok(Some(page)) => match self.settle(page..page + 1) {
                    Ok(()) => {}
                    Err(error) => break Err(error),
                },
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if let Err(error) = outcome {
            self.fail(&error);
        }
    }

    /// Lets the clients continue, and has snapshots fail from here on.
    fn fail(&self, error: &io::Error) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
        // If this fails too, nothing is left to try.
        let _ = self.watch.give_up();
    }

    fn check(&self) -> Result<(), SnapshotError> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.clone().map_or(Ok(()), |reason| {
            Err(SnapshotError::System { action: "protect pages against writes", reason })
        })
    }
}

impl WriteProtection {
    /// Shows the rows where `ensure` has them, which is called with the pages that come next.
    fn show(
        &self,
        visit: Visit<'_>,
        ensure: impl Fn(Range<usize>) -> io::Result<()>,
    ) -> Result<ControlFlow<()>, SnapshotError> {
        let Parts { shape, aside, .. } = &*self.parts;
        let pages = aside.pages(page_bytes());
        let mut fields = vec![0; shape.fields];
        let mut done = 0;
        for row in 0..shape.rows {
            let end = ((row + 1) * shape.row_bytes()).div_ceil(page_bytes());
            while done < end {
                let next = (done + PIECE).min(pages);
                ensure(done..next).map_err(system("copy pages aside"))?;
                done = next;
            }
            aside.read(row, &mut fields);
            if visit(row, &fields).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        // A copy that was made after the protection was given up may be late.
        self.parts.check().map(|()| ControlFlow::Continue(()))
    }
}

impl Algorithm for WriteProtection {
    const NAME: &'static str = "Write protection";
    const FULL: bool = true;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<WriteProtection, SnapshotError> {
        let (now, aside) = (Rows::in_pages(shape, page_bytes())?, Rows::in_pages(shape, page_bytes())?);
        let pages = Pages::of(now.whole_pages(page_bytes()));
        let watch = Watch::new(pages, false)
            .map_err(system("have the kernel stop writes to protected pages (userfaultfd, Linux 5.7)"))?;
        let settled = Mutex::new(vec![true; pages.count()]);
        let parts = Arc::new(Parts { shape, watch, now, aside, settled, failed: Mutex::new(None) });
        let (ends, end) = io::pipe().map_err(system("make a pipe"))?;
        let of_handler = parts.clone();
        let handler = std::thread::Builder::new()
            .name("write-protection".to_owned())
            .spawn(move || of_handler.handle(&ends))
            .map_err(system("start a thread that copies pages"))?;
        Ok(WriteProtection { parts, end, handler: Some(handler) })
    }

    #[inline]
    fn read(&self, row: usize, fields: &mut [u64]) {
        self.parts.now.read(row, fields);
    }

    #[inline]
    fn read_field(&self, row: usize, field: usize) -> u64 {
        self.parts.now.read_field(row, field)
    }

    #[inline]
    fn write(&self, row: usize, fields: &[u64]) {
        self.parts.now.write(row, fields);
    }

    #[inline]
    fn write_field(&self, row: usize, field: usize, value: u64) {
        self.parts.now.write_field(row, field, value);
    }

    fn take(&self) -> Result<(), SnapshotError> {
        self.parts.check()?;
        let mut settled = self.parts.settled();
        settled.fill(false);
        self.parts.watch.protect(0..settled.len(), true).map_err(system("protect pages against writes"))
    }

    fn traverse(&self, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
        self.show(visit, |pages| self.parts.settle(pages))
    }

    fn finish(&self) {
        let mut settled = self.parts.settled();
        settled.fill(true);
        if let Err(error) = self.parts.watch.protect(0..settled.len(), false) {
            self.parts.fail(&error);
        }
    }
}

impl Drop for WriteProtection {
    fn drop(&mut self) {
        let told = self.end.write_all(&[0]);
        if let Some(handler) = self.handler.take().filter(|_| told.is_ok()) {
            handler.join().expect("the handler does not panic");
        }
    }
}

/// Mutants that the judges must reject.
#[cfg(test)]
pub(crate) mod mutants {
    use super::*;
    use crate::judge::Mutant;

    /// Lifts the protection of a page before the page is copied.
    pub(crate) struct LiftsBeforeItCopies;

    impl Mutant for LiftsBeforeItCopies {
        type Of = WriteProtection;
        const NAME: &'static str = "Write protection that lifts before it copies";

        fn traverse(of: &WriteProtection, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
            of.show(visit, |pages| {
                let unsettled: Vec<usize> = pages.clone().filter(|page| !of.parts.settled()[*page]).collect();
                of.parts.watch.protect(pages, false)?;
                std::thread::yield_now();
                for page in unsettled {
                    of.parts.aside.copy_page(page, page_bytes(), &of.parts.now);
                    of.parts.settled()[page] = true;
                }
                Ok(())
            })
        }
    }
}
