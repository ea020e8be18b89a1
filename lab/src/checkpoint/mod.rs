//! A load while checkpoints are taken: the thread that requests them, their memory, and the load's
//! measurements.

mod conduct;
mod memory;
mod play;
mod stretch;

pub use conduct::{Ask, Script, Subject, Taken, checkpoint_alone};
pub use memory::Peak;
pub use play::{Course, play};
pub use stretch::{Stretch, stretch_rows, timeline, together};
