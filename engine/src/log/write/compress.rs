//! Compresses blocks on the threads that write them, outside the lock of those who append.
//!
//! ```text
//!  taken:       | 41 ........... |               its place is as long as it is uncompressed
//!  compressed:  | 41 ... |                       the place ends here, if no block stands behind it yet
//!  else:        | 41 ........... | 42 .....      written as it is
//! ```
//!
//! A block gets its number and its place in one step, so that sequences rise with the places; how short it
//! will be is not known then. No other block waits for that: one that another has been placed behind
//! meanwhile keeps its place and is written as it is, because there are no gaps between blocks.
//!
//! What cannot be compressed, or not in time, costs little: after each attempt in vain, twice as many blocks
//! as after the one before are not tried ([`super::counters::BackOff`]).

use std::sync::Arc;

use super::pipeline::{Active, Pipeline, Taken};
use crate::log::format::BLOCK_LZ4;
use crate::log::options::Compression;
use crate::log::packed::Packed;

impl Pipeline {
    /// Compresses a block that a flight is about to write, if the log is to be compressed, the block gets
    /// shorter, and no other one has been placed behind it.
    pub(in crate::log) fn compress(&self, taken: &mut Taken) {
        let Taken { ref bytes, length, offset, align, .. } = *taken;
        let is_wanted = self.compression() == Compression::Lz4 && taken.count > 0;
        if !is_wanted || !Packed::is_tried(length, align) || !self.packing.back_off.is_due() {
            return;
        }
        let Some(packed) = Packed::shorter(bytes, length, offset, align) else {
            self.packing.back_off.note(false);
            return self.packing.note_miss();
        };
        let is_in_time = {
            let mut active = self.active.lock();
            let is_in_time = active.shorten(taken, packed.length);
            if is_in_time {
                self.durable.shorten(taken.sequence, packed.length);
            }
            is_in_time
        };
        self.packing.back_off.note(is_in_time);
        if !is_in_time {
            return self.packing.note_overtaken();
        }
        let raw = std::mem::replace(&mut taken.bytes, self.buffers.with(packed.bytes));
        (taken.length, taken.saved) = (packed.length, length - packed.length);
        taken.flags |= BLOCK_LZ4;
        self.give_back(vec![Arc::new(raw)]);
    }
}

impl Active {
    /// Has the next block of its directory placed directly behind a block that is only this long; `false` if
    /// one has been placed already, or the file has been left.
    fn shorten(&mut self, taken: &Taken, length: u64) -> bool {
        let lane = &mut self.lanes[taken.file.lane()];
        let is_current = lane.current.as_ref().is_some_and(|file| Arc::ptr_eq(file, &taken.file));
        let is_last = is_current && lane.offset == taken.offset + taken.length;
        if is_last {
            lane.offset = taken.offset + length;
            lane.contents.saved += taken.length - length;
        }
        is_last
    }
}
