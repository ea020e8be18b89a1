//! The size of the pages that the kernel gives to memory that nobody has touched yet.

#![expect(unsafe_code, reason = "madvise is a call of the system")]

use std::mem::MaybeUninit;

use rustix::mm::{Advice, madvise};

use crate::error::SnapshotError;

/// Bytes of a huge page.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// The size of pages.
#[derive(Clone, Copy)]
pub(crate) enum Pages {
    /// The smallest, whatever the kernel prefers.
    Small,
    /// Of [`HUGE_BYTES`], where the kernel has some.
    Huge,
}

impl Pages {
    /// Asks the kernel for such pages. REQUIRES: the memory begins and ends with a small page.
    pub(crate) fn ask<T>(self, memory: &mut [MaybeUninit<T>]) -> Result<(), SnapshotError> {
        let advice = match self {
            Pages::Small => Advice::LinuxNoHugepage,
            Pages::Huge => Advice::LinuxHugepage,
        };
        // SAFETY: the memory is ours, as long as we say, and neither advice changes what is in it.
        let asked = unsafe { madvise(memory.as_mut_ptr().cast(), size_of_val(memory), advice) };
        let action = "choose the size of pages";
        asked.map_err(|error| SnapshotError::System { action, reason: error.to_string() })
    }
}
