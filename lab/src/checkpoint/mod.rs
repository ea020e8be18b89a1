//! A load while checkpoints are taken: the thread that requests them, their memory, and the load's
//! measurements.

mod conduct;
mod memory;
mod play;
mod stretch;
mod trial;

pub use conduct::{Script, checkpoint_alone};
pub use memory::Peak;
pub use play::{BEAT, Conducted, Course, conduct_load, play, play_at_half};
pub use stretch::{Stretch, stretch_rows, together};
pub use trial::{Ask, Taken, Trial, log_file_bytes};
