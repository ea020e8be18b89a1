//! The calls of the kernel: `userfaultfd` with its requests, and the scan of the page map.
//!
//! All of them take addresses of whole pages of an array, in which nothing else is. They change nothing that
//! a thread reads: protection only makes a write wait, or be noted.

#![expect(unsafe_code, reason = "userfaultfd and its requests are calls of the kernel")]

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU64;

use linux_raw_sys::general::{
    PAGE_IS_WRITTEN, PM_SCAN_CHECK_WPASYNC, PM_SCAN_WP_MATCHING, UFFD_API, UFFD_EVENT_PAGEFAULT,
    UFFD_FEATURE_PAGEFAULT_FLAG_WP, UFFD_FEATURE_WP_ASYNC, UFFD_USER_MODE_ONLY, UFFDIO_REGISTER_MODE_WP,
    page_region, pm_scan_arg, uffdio_api, uffdio_range, uffdio_register, uffdio_writeprotect,
};
use linux_raw_sys::ioctl::{UFFDIO_API, UFFDIO_REGISTER, UFFDIO_UNREGISTER, UFFDIO_WRITEPROTECT};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::mm::{UserfaultfdFlags, userfaultfd};

/// `UFFDIO_WRITEPROTECT_MODE_WP`, an enumeration in the kernel's header.
const PROTECT: u64 = 1;
/// `PAGEMAP_SCAN`: `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u32 = 0xc060_6610;
/// Bytes of a message about a fault, and where in it the address is.
const MESSAGE_BYTES: usize = 32;
const ADDRESS_AT: usize = 16;
/// Runs of pages that a scan returns at once.
const RUNS: usize = 512;

/// Bytes of a page.
pub(super) fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// The addresses of some whole pages.
#[derive(Clone, Copy)]
pub(super) struct Pages {
    start: u64,
    count: usize,
    page_bytes: u64,
}

impl Pages {
    /// Of words that fill whole pages.
    pub(super) fn of(words: &[AtomicU64]) -> Pages {
        let (start, page_bytes) = (words.as_ptr().addr(), page_bytes());
        assert!(start.is_multiple_of(page_bytes) && size_of_val(words).is_multiple_of(page_bytes));
        let count = size_of_val(words) / page_bytes;
        Pages { start: start as u64, count, page_bytes: page_bytes as u64 }
    }

    pub(super) fn count(self) -> usize {
        self.count
    }

    fn range(self, pages: Range<usize>) -> uffdio_range {
        let (first, len) = (pages.start as u64, (pages.end - pages.start) as u64);
        uffdio_range { start: self.start + first * self.page_bytes, len: len * self.page_bytes }
    }

    fn number(self, address: u64) -> usize {
        ((address - self.start) / self.page_bytes) as usize
    }
}

/// Pages whose first writes the kernel reports or notes. Dropped, it lifts all protection.
pub(super) struct Watch {
    file: File,
    pages: Pages,
}

impl Watch {
    /// Watches pages. `notes`: the kernel lifts a page's protection itself at the first write.
    pub(super) fn new(pages: Pages, notes: bool) -> io::Result<Watch> {
        // Faults of user code only, which need no privilege.
        let flags = UserfaultfdFlags::from_bits_retain(UFFD_USER_MODE_ONLY)
            | UserfaultfdFlags::CLOEXEC
            | UserfaultfdFlags::NONBLOCK;
        // SAFETY: the descriptor watches only pages that are registered below.
        let file = File::from(unsafe { userfaultfd(flags) }?);
        let wanted = if notes { UFFD_FEATURE_WP_ASYNC } else { UFFD_FEATURE_PAGEFAULT_FLAG_WP };
        let mut api = uffdio_api { api: UFFD_API.into(), features: wanted.into(), ioctls: 0 };
        request(file.as_fd(), UFFDIO_API, &mut api)?;
        let range = pages.range(0..pages.count);
        let mut register = uffdio_register { range, mode: UFFDIO_REGISTER_MODE_WP.into(), ioctls: 0 };
        request(file.as_fd(), UFFDIO_REGISTER, &mut register)?;
        Ok(Watch { file, pages })
    }

    /// Protects pages, or lifts the protection and lets those that wait to write continue.
    pub(super) fn protect(&self, pages: Range<usize>, on: bool) -> io::Result<()> {
        let mode = if on { PROTECT } else { 0 };
        loop {
            let mut protect = uffdio_writeprotect { range: self.pages.range(pages.clone()), mode };
            match request(self.file.as_fd(), UFFDIO_WRITEPROTECT, &mut protect) {
                // The process's memory map is changing.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return outcome.map(|_| ()),
            }
        }
    }

    /// Watches no more: all protection is lifted, and those that wait continue.
    pub(super) fn give_up(&self) -> io::Result<()> {
        let mut range = self.pages.range(0..self.pages.count);
        request(self.file.as_fd(), UFFDIO_UNREGISTER, &mut range).map(|_| ())
    }

    /// Waits for a write to a protected page, and gives the page; `None` when `end` has something to read, or
    /// is closed.
    pub(super) fn wait(&self, end: &io::PipeReader) -> io::Result<Option<usize>> {
        loop {
            let mut both = [PollFd::new(&self.file, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
            match poll(&mut both, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if !both[1].revents().is_empty() {
                return Ok(None);
            }
            let mut message = [0; MESSAGE_BYTES];
            match (&self.file).read(&mut message) {
                Ok(MESSAGE_BYTES) if u32::from(message[0]) == UFFD_EVENT_PAGEFAULT => {
                    let (bytes, _) = message[ADDRESS_AT..].split_first_chunk().expect("it is longer");
                    return Ok(Some(self.pages.number(u64::from_ne_bytes(*bytes))));
                }
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // To close the descriptor does not suffice: a forked child may have it, too. If this fails, nothing
        // is left to try.
        let _ = self.give_up();
    }
}

/// The page map of this process.
pub(super) struct PageMap {
    file: File,
}

impl PageMap {
    pub(super) fn open() -> io::Result<PageMap> {
        Ok(PageMap { file: File::open("/proc/self/pagemap")? })
    }

    /// Gives the runs of pages that were written since they were protected, and protects them again.
    pub(super) fn changed(&self, pages: Pages, mut changed: impl FnMut(Range<usize>)) -> io::Result<()> {
        let all = pages.range(0..pages.count);
        let (mut start, end) = (all.start, all.start + all.len);
        let mut runs = [page_region { start: 0, end: 0, categories: 0 }; RUNS];
        while start < end {
            let mut scan = pm_scan_arg {
                size: size_of::<pm_scan_arg>() as u64,
                flags: (PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC).into(),
                start,
                end,
                walk_end: 0,
                vec: runs.as_mut_ptr().expose_provenance() as u64,
                vec_len: RUNS as u64,
                max_pages: 0,
                category_inverted: 0,
                category_mask: PAGE_IS_WRITTEN.into(),
                category_anyof_mask: 0,
                return_mask: PAGE_IS_WRITTEN.into(),
            };
            let count = request(self.file.as_fd(), PAGEMAP_SCAN, &mut scan)?;
            for run in &runs[..count] {
                changed(pages.number(run.start)..pages.number(run.end));
            }
            start = scan.walk_end;
        }
        Ok(())
    }
}

/// Makes a request whose argument is a structure of its own kind.
fn request<T>(file: BorrowedFd<'_>, request: u32, argument: &mut T) -> io::Result<usize> {
    // SAFETY: `T` is the structure that the kernel's header has for this request, and it is whole. The scan's
    // also has the address and the length of an array that lives through the call.
    let outcome =
        unsafe { libc::ioctl(file.as_raw_fd(), request as libc::Ioctl, std::ptr::from_mut(argument)) };
    usize::try_from(outcome).map_err(|_| io::Error::last_os_error())
}
