//! The thread that makes the bits of ended scans ready for their next owners.
//!
//! A scan that has not read all records leaves its bit in some of them as it was when the scan began. A pass
//! over all records sets it to the value that means *stable* now. All scans that have ended by then share the
//! pass.
//!
//! The paper's pass flips the bits that are *stable* by a mask that has been flipped itself by then, which
//! are those of the records that were read. This one sets them all to the value of the flipped mask.
//!
//! The pass takes every latch once. So when it is over, no writer uses masks from before the scans left. The
//! versions that such a writer kept for them after they had read the remset are released: the paper leaves
//! them there, and the next scan with that bit would take them as its own.

use super::mask::Mask;
use super::parts::Parts;

impl<M: Mask> Parts<M> {
    /// Makes these bits ready, whose values that mean stable are given.
    pub(crate) fn reset(&self, bits: M, stable: M) {
        if let Some(index) = &self.index {
            index.reclaim(bits);
        }
        for bucket in 0..self.table.len() {
            for record in self.table.latch(bucket).iter_mut() {
                record.status = record.status & !bits | stable;
            }
        }
        self.remset.release(bits);
        self.scans.reset(bits);
    }
}

#[cfg(not(loom))]
pub(crate) use thread::Resetter;

#[cfg(not(loom))]
mod thread {
    use std::thread::{Builder, JoinHandle};

    use crate::sync::Arc;
    use crate::vls::error::StoreError;
    use crate::vls::mask::Mask;
    use crate::vls::parts::Parts;

    /// Runs until it is dropped.
    pub(crate) struct Resetter<M: Mask> {
        parts: Arc<Parts<M>>,
        thread: Option<JoinHandle<()>>,
    }

    impl<M: Mask> Resetter<M> {
        pub(crate) fn start(parts: &Arc<Parts<M>>) -> Result<Resetter<M>, StoreError> {
            let of_thread = parts.clone();
            let run = move || {
                while let Some((bits, stable)) = of_thread.scans.wait_for_ended() {
                    of_thread.reset(bits, stable);
                }
            };
            let thread = Builder::new()
                .name("vls-reset".into())
                .spawn(run)
                .map_err(|error| StoreError::Thread { reason: error.to_string() })?;
            Ok(Resetter { parts: parts.clone(), thread: Some(thread) })
        }
    }

    impl<M: Mask> Drop for Resetter<M> {
        fn drop(&mut self) {
            self.parts.scans.stop();
            if let Some(thread) = self.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

/// In a model there is no such thread: its steps are called by name.
#[cfg(loom)]
pub(crate) struct Resetter<M>(std::marker::PhantomData<M>);

#[cfg(loom)]
impl<M: Mask> Resetter<M> {
    pub(crate) fn start(_: &crate::sync::Arc<Parts<M>>) -> Result<Resetter<M>, super::error::StoreError> {
        Ok(Resetter(std::marker::PhantomData))
    }
}
