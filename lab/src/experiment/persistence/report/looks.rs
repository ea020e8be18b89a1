//! The looks of models, files and uses.

use plotters::style::RGBColor;

use super::super::cell::{Cell, Memory, Model};
use crate::drawing::Look;

/// The look of a model.
pub const fn model(model: Model) -> Look {
    match model {
        Model::NoSave => Look { colour: RGBColor(130, 130, 130), sign: '●' },
        Model::Snapshot => Look { colour: RGBColor(142, 91, 208), sign: '▲' },
        Model::LogDeferred => Look { colour: RGBColor(0, 158, 115), sign: '×' },
        Model::LogPeriodical => Look { colour: RGBColor(45, 130, 200), sign: '●' },
        Model::LogImmediate => Look { colour: RGBColor(214, 70, 130), sign: '▲' },
    }
}

/// The look of a bar of starts: by server and file, paler where memory is short.
pub const fn file(cell: &Cell) -> Look {
    let (red, green, blue) = match (cell.is_tarn, cell.model, cell.shortens) {
        (true, Model::Snapshot, _) => (142, 91, 208),
        (true, _, true) => (45, 130, 200),
        (true, _, false) => (20, 80, 140),
        (false, Model::Snapshot, _) => (214, 70, 130),
        (false, _, true) => (230, 170, 40),
        (false, _, false) => (150, 100, 10),
    };
    const fn paler(part: u8) -> u8 {
        part / 2 + 100
    }
    let colour = match cell.memory {
        Memory::Ample => RGBColor(red, green, blue),
        Memory::Short => RGBColor(paler(red), paler(green), paler(blue)),
    };
    Look { colour, sign: '■' }
}

/// Time in programs.
pub const USER: Look = Look { colour: RGBColor(45, 130, 200), sign: '●' };
/// Time in the kernel.
pub const SYSTEM: Look = Look { colour: RGBColor(214, 70, 130), sign: '▲' };
/// Time waiting for a device.
pub const IOWAIT: Look = Look { colour: RGBColor(184, 134, 11), sign: '×' };
/// Memory of the process.
pub const RESIDENT: Look = Look { colour: RGBColor(0, 130, 95), sign: '●' };
/// Memory of the machine.
pub const MACHINE: Look = Look { colour: RGBColor(130, 130, 130), sign: '●' };
/// Faults.
pub const FAULTS: Look = Look { colour: RGBColor(190, 60, 20), sign: '×' };
/// Swapped memory.
pub const SWAPPED: Look = Look { colour: RGBColor(142, 91, 208), sign: '▲' };

/// The cores, by turns.
pub const CORES: [Look; 4] = [USER, SYSTEM, IOWAIT, RESIDENT];
