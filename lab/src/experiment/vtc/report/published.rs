//! What the thesis printed, and what of ours it is held against.

use super::super::Results;
use super::super::cell::{Cell, Figures, Part, Variant, median};
use super::super::goals::rates;

/// Something that the thesis says in numbers.
pub struct Statement {
    /// The figure.
    pub figure: &'static str,
    /// What it says.
    pub what: &'static str,
    /// The number, in its words.
    pub printed: &'static str,
    /// The same of ours, over all sizes the median; `NaN` if it was not measured.
    pub measured: f64,
    /// How the number is written: as a factor, or in percent more or less.
    pub is_share: bool,
    /// Why it may differ.
    pub remark: &'static str,
}

const OTHER_SERVER: &str =
    "the thesis changed Redis 5; ours is another server, with values of another layout";
const SMALL: &str =
    "while a checkpoint is short, fewer pages are written to than in gigabytes that take minutes";

/// All statements, with what was measured.
pub fn statements(results: &Results, quick: bool) -> Vec<Statement> {
    let own = |part: Part| move |cell: &&Cell| cell.quick == quick && cell.part == part;
    // The usual share of updates, by size.
    let usual = move |part: Part| {
        let cells = results.of(|cell| own(part)(&cell) && [50, 100].contains(&cell.update_percent));
        cells.into_iter().map(|(cell, _)| *cell).collect::<Vec<_>>()
    };
    let against = |part: Part, ours: Variant, theirs: Variant, of: &dyn Fn(&Figures) -> f64| {
        let pair = |cell: &Cell| {
            let other = results.find(&Cell { variant: theirs, ..*cell })?;
            Some(of(results.find(cell)?) / of(other))
        };
        median(usual(part).iter().filter(|cell| cell.variant == ours).filter_map(pair))
    };
    let of = |part: Part, variant: Variant, of: &dyn Fn(&Figures) -> f64| {
        let cells = usual(part);
        let own = cells.iter().filter(|cell| cell.variant == variant).filter_map(|cell| results.find(cell));
        median(own.map(of))
    };
    let statement = |figure, what, printed, measured, is_share, remark| Statement {
        figure,
        what,
        printed,
        measured,
        is_share,
        remark,
    };
    let outside = |figures: &Figures| rates(figures).0;
    let resident = |figures: &Figures| figures.loaded_resident as f64;
    let file = |figures: &Figures| figures.files.run_bytes as f64;
    let start = |figures: &Figures| median(figures.files.started_s.iter().copied());
    use Part::{Checkpoints, Files};
    use Variant::{Off, RedisAof, RedisRdb, Vtc, VtcFast};
    vec![
        statement(
            "1.1",
            "Redis: memory at the end of a checkpoint",
            "+67 %",
            of(Checkpoints, RedisRdb, &Figures::extra_share),
            true,
            SMALL,
        ),
        statement(
            "1.1",
            "Redis: throughput at the beginning of a checkpoint",
            "-38 %",
            of(Checkpoints, RedisRdb, &dip) - 1.0,
            true,
            "the worst tenth of a second of the first half",
        ),
        statement(
            "4.1",
            "throughput, VTC by AOF",
            "1.08x",
            against(Checkpoints, Vtc, RedisAof, &outside),
            false,
            OTHER_SERVER,
        ),
        statement(
            "4.1",
            "throughput, VTC by RDB",
            "about 1x",
            against(Checkpoints, Vtc, RedisRdb, &outside),
            false,
            OTHER_SERVER,
        ),
        statement(
            "4.3a",
            "memory of the data, VTC against none",
            "+3.5 %",
            against(Checkpoints, Vtc, Off, &resident) - 1.0,
            true,
            "ours keeps a number for each entry in any case",
        ),
        statement(
            "4.3b",
            "memory added, RDB",
            "+69.6 %",
            of(Checkpoints, RedisRdb, &Figures::extra_share),
            true,
            SMALL,
        ),
        statement(
            "4.3b",
            "memory added, AOF",
            "+79.7 %",
            of(Checkpoints, RedisAof, &Figures::extra_share),
            true,
            SMALL,
        ),
        statement(
            "4.3b",
            "memory added, VTC",
            "< 2 %",
            of(Checkpoints, Vtc, &Figures::extra_share),
            true,
            "no array of positions is needed",
        ),
        statement(
            "4.5",
            "checkpoint time, VTC by RDB",
            "< 0.5x",
            against(Checkpoints, Vtc, RedisRdb, &Figures::checkpoint_s),
            false,
            "at the default bound of 128 MB a second, read and written",
        ),
        statement(
            "4.5",
            "the same without the bound",
            "< 0.5x",
            against(Checkpoints, VtcFast, RedisRdb, &Figures::checkpoint_s),
            false,
            OTHER_SERVER,
        ),
        statement(
            "4.6",
            "file size, VTC by RDB",
            "1.22x",
            against(Files, Vtc, RedisRdb, &file),
            false,
            "ours is being compacted meanwhile",
        ),
        statement(
            "4.6",
            "file size, VTC by AOF",
            "1.06x",
            against(Files, Vtc, RedisAof, &file),
            false,
            "ours is being compacted meanwhile",
        ),
        statement(
            "4.7",
            "restoring time, VTC by RDB",
            "1.53x",
            against(Files, Vtc, RedisRdb, &start),
            false,
            "ours replays on all cores",
        ),
        statement(
            "4.7",
            "restoring time, VTC by AOF",
            "0.90x",
            against(Files, Vtc, RedisAof, &start),
            false,
            "ours replays on all cores",
        ),
    ]
}

/// The worst tenth of a second in the first half of a checkpoint, by the usual throughput.
fn dip(figures: &Figures) -> f64 {
    let course = &figures.course;
    let Some(taken) = course.taken.first() else { return f64::NAN };
    let half = taken.from_ms..taken.from_ms + (taken.seconds * 500.0).max(100.0);
    let rates = super::sections::requests_by_time(figures);
    let during = rates.iter().filter(|(at, _)| half.contains(&(at * 1e3))).map(|(_, rate)| *rate);
    during.fold(f64::NAN, f64::min) / course.without_all.rate
}
