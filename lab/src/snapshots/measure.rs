//! Measures one cell in this process, with the algorithm that it names.

use std::io::{self, Write as _};

use tarn_study::transaction::{Calc, Cpr, PartialCalc, VirtualHourglass, VirtualPiggyback};
use tarn_study::{
    AsyncWriteProtection, CopyOnUpdate, Fork, HotColdFork, Hourglass, Naive, Piggyback, PingPong,
    PublishedCopyOnUpdate, PublishedHourglass, PublishedPiggyback, ReturningFork, Shape, SnapshotError,
    WriteProtection, Zigzag,
};

use super::cell::{Algorithm, Cell, Figures, Place, Task};
use super::{flood, ticks, transactions};
use crate::error::{IoContext, LabError, Result};

/// Runs the process of a cell: measures it and prints its figures. Both arguments are JSON.
pub fn run(cell: &str, place: &str) -> Result<()> {
    let refuse = |error: serde_json::Error| LabError::Arguments(format!("that is no cell: {error}"));
    let cell: Cell = serde_json::from_str(cell).map_err(refuse)?;
    let place: Place = serde_json::from_str(place).map_err(refuse)?;
    let figures = measure(&cell, &place)?;
    let line = serde_json::to_string(&figures).expect("figures are plain data");
    writeln!(io::stdout(), "{line}").doing(|| "write the figures".to_owned())
}

/// Measures a cell in this process.
fn measure(cell: &Cell, place: &Place) -> Result<Figures> {
    rustix::thread::disable_transparent_huge_pages(!cell.needs_huge_pages())
        .doing(|| "choose the size of pages".to_owned())?;
    match (cell.task, cell.algorithm) {
        (Task::Transactions, Algorithm::Calc) => transactions::measure::<Calc>(cell),
        (Task::Transactions, Algorithm::VirtualHourglass) => transactions::measure::<VirtualHourglass>(cell),
        (Task::Transactions, Algorithm::VirtualPiggyback) => transactions::measure::<VirtualPiggyback>(cell),
        (Task::Transactions, Algorithm::PartialCalc) => transactions::measure::<PartialCalc>(cell),
        (Task::Transactions, Algorithm::Cpr) => transactions::measure::<Cpr>(cell),
        (_, Algorithm::Naive) => measure_physical::<Naive>(cell, place),
        (_, Algorithm::CopyOnUpdate) => measure_physical::<CopyOnUpdate>(cell, place),
        (_, Algorithm::Fork) => measure_physical::<Fork>(cell, place),
        (_, Algorithm::Zigzag) => measure_physical::<Zigzag>(cell, place),
        (_, Algorithm::PingPong) => measure_physical::<PingPong>(cell, place),
        (_, Algorithm::Hourglass) => measure_physical::<Hourglass>(cell, place),
        (_, Algorithm::Piggyback) => measure_physical::<Piggyback>(cell, place),
        (_, Algorithm::PublishedCopyOnUpdate) => measure_physical::<PublishedCopyOnUpdate>(cell, place),
        (_, Algorithm::PublishedHourglass) => measure_physical::<PublishedHourglass>(cell, place),
        (_, Algorithm::PublishedPiggyback) => measure_physical::<PublishedPiggyback>(cell, place),
        (_, Algorithm::WriteProtection) => measure_physical::<WriteProtection>(cell, place),
        (_, Algorithm::AsyncWriteProtection) => measure_physical::<AsyncWriteProtection>(cell, place),
        (_, Algorithm::ReturningFork) => measure_physical::<ReturningFork>(cell, place),
        (_, Algorithm::HotColdFork) => measure_physical::<HotColdFork>(cell, place),
        (
            _,
            Algorithm::Calc
            | Algorithm::VirtualHourglass
            | Algorithm::VirtualPiggyback
            | Algorithm::PartialCalc
            | Algorithm::Cpr,
        ) => refuse("its algorithm takes snapshots of transactions only"),
    }
}

/// Why this machine cannot run an algorithm, where its kernel refuses what the algorithm needs.
pub(super) fn refused(algorithm: Algorithm) -> Option<SnapshotError> {
    let tiny = Shape { rows: 64, fields: 8 };
    match algorithm {
        Algorithm::WriteProtection => <WriteProtection as tarn_study::Algorithm>::new(tiny).err(),
        Algorithm::AsyncWriteProtection => <AsyncWriteProtection as tarn_study::Algorithm>::new(tiny).err(),
        Algorithm::HotColdFork => <HotColdFork as tarn_study::Algorithm>::new(tiny).err(),
        _ => None,
    }
}

fn measure_physical<A: tarn_study::Algorithm + 'static>(cell: &Cell, place: &Place) -> Result<Figures> {
    match cell.task {
        Task::Ticks | Task::Reads => ticks::measure::<A>(cell, place),
        Task::Flood => flood::measure::<A>(cell, place),
        Task::Transactions => refuse("its algorithm takes no snapshots of transactions"),
    }
}

fn refuse(why: &str) -> Result<Figures> {
    Err(LabError::Arguments(format!("no such cell: {why}")))
}
