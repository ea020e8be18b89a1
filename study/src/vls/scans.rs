//! The running scans: the owner of each bit, and the bits that are being made ready for their next owners.
//!
//! ```text
//!             begin                 leave                  give_back (all records read)
//!   free ─────────────▶ reading ─────────────▶ draining ──────────────────────────────▶ free
//!                     writers keep           stable is flipped;  └──▶ ended ──▶ resetting ──▶ free
//!                     versions for it        nothing more is kept      (records left unread)
//! ```
//!
//! A bit is free only when it means *stable* in every record. A scan that has read all records left it so, by
//! flipping first each record's bit and then the meaning. One that has not needs a pass over the records.

use std::sync::PoisonError;

use super::error::StoreError;
use super::mask::Mask;
use super::view::{Published, View};
use crate::sync::{Condvar, Mutex, MutexGuard};

pub(crate) struct Scans<M: Mask> {
    published: Published<M>,
    bits: Mutex<Bits<M>>,
    changed: Condvar,
}

struct Bits<M> {
    /// The published view; changed only here.
    view: View<M>,
    /// 1: free. The paper's global *active mask*.
    active: M,
    /// 1: its scan has ended with records left unread.
    ended: M,
    /// 1: the pass for it is in progress.
    resetting: M,
    /// No more passes are wanted.
    #[cfg_attr(loom, allow(dead_code))]
    stopped: bool,
}

impl<M: Mask> Scans<M> {
    pub(crate) fn new() -> Scans<M> {
        let bits =
            Bits { view: View::IDLE, active: M::ONES, ended: M::ZEROS, resetting: M::ZEROS, stopped: false };
        Scans { published: Published::new(), bits: Mutex::new(bits), changed: Condvar::new() }
    }

    /// The masks of this moment. A writer that uses them holds all latches that it needs, and has taken them
    /// before it reads the masks: see `store.rs`.
    #[inline]
    pub(crate) fn view(&self) -> View<M> {
        self.published.read()
    }

    fn lock(&self) -> MutexGuard<'_, Bits<M>> {
        // It holds nothing that a panic could leave half done.
        self.bits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'b>(&self, bits: MutexGuard<'b, Bits<M>>) -> MutexGuard<'b, Bits<M>> {
        self.changed.wait(bits).unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a scan: its bit, and the value of it that means stable. Waits for a bit that is being reset,
    /// which comes by itself; not for one of a scan that runs, since that may be the caller's own.
    pub(crate) fn begin(&self, by_index: bool) -> Result<(M, M), StoreError> {
        let mut bits = self.lock();
        while bits.active == M::ZEROS {
            if bits.ended | bits.resetting == M::ZEROS {
                return Err(StoreError::Scans { limit: M::BITS });
            }
            bits = self.wait(bits);
        }
        let bit = bits.active.lowest();
        bits.active = bits.active & !bit;
        let mut view = bits.view;
        view.active = view.active & !bit;
        if by_index {
            view.index_active = view.index_active & !bit;
        }
        bits.publish(view, &self.published);
        Ok((bit, view.stable & bit))
    }

    /// The scan reads no more records and pointers: `STABLE_FLIP`, `LCL_ACTIVE_MASK_UPD` and
    /// `IDX_ACTIVE_MASK_UPD` in one.
    pub(crate) fn leave(&self, bit: M) {
        let mut bits = self.lock();
        let view = View {
            active: bits.view.active | bit,
            stable: bits.view.stable ^ bit,
            index_active: bits.view.index_active | bit,
        };
        bits.publish(view, &self.published);
    }

    /// Ends a scan that has left. `unread`: some records still have its bit as it was when the scan began.
    pub(crate) fn give_back(&self, bit: M, unread: bool) {
        let mut bits = self.lock();
        if unread {
            bits.ended = bits.ended | bit;
        } else {
            bits.active = bits.active | bit;
        }
        self.changed.notify_all();
    }

    /// The bits that need a pass, and the values of them that mean stable. Waits for one bit, unless the
    /// resetter is to stop.
    #[cfg(not(loom))]
    pub(crate) fn wait_for_ended(&self) -> Option<(M, M)> {
        let mut bits = self.lock();
        while bits.ended == M::ZEROS {
            if bits.stopped {
                return None;
            }
            bits = self.wait(bits);
        }
        Some(bits.take_ended())
    }

    /// The same without waiting.
    #[cfg(loom)]
    pub(crate) fn take_ended(&self) -> (M, M) {
        self.lock().take_ended()
    }

    /// The pass for these bits is complete.
    pub(crate) fn reset(&self, reset: M) {
        let mut bits = self.lock();
        bits.resetting = bits.resetting & !reset;
        bits.active = bits.active | reset;
        self.changed.notify_all();
    }

    pub(crate) fn wait_until_reset(&self) {
        let mut bits = self.lock();
        while bits.ended | bits.resetting != M::ZEROS {
            bits = self.wait(bits);
        }
    }

    #[cfg(not(loom))]
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }
}

impl<M: Mask> Bits<M> {
    fn publish(&mut self, view: View<M>, published: &Published<M>) {
        self.view = view;
        published.write(view);
    }

    fn take_ended(&mut self) -> (M, M) {
        let bits = std::mem::replace(&mut self.ended, M::ZEROS);
        self.resetting = self.resetting | bits;
        (bits, self.view.stable & bits)
    }
}
