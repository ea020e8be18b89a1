//! A load while checkpoints are taken: who asks for them, what memory they take, what the load saw.

mod conduct;
mod memory;
mod play;
mod stretch;

pub use conduct::{Ask, Script, Subject, Taken, checkpoint_alone};
pub use memory::Peak;
pub use play::{Course, play};
pub use stretch::{Stretch, timeline, together};
