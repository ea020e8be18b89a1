//! The numbers that the thesis printed, and the measurements that they are compared with.

use super::super::Results;
use super::super::cell::{Cell, Figures, Part, Variant};
use super::super::goals::rates;
use crate::drawing::{Statement, change, factor};
use crate::report::median;

const OTHER_SERVER: &str =
    "the thesis changed Redis 5; ours is another server, with values of another layout";
const SHORT: &str = "a short checkpoint has fewer pages written to than one of gigabytes that takes minutes";
const FIELDS: &str = "each field has a record of its own, in ours too";
const BUFFERS: &str = "no array of positions, but buffers of some MB, which weigh more in a small store";
const ALL_CORES: &str = "ours replays on all cores";

/// The shares of updates at which sizes are compared.
const USUAL: u32 = 50;

/// The measurements at one scale.
struct Own<'r> {
    results: &'r Results,
    quick: bool,
}

impl Own<'_> {
    /// The median of a variant over all sizes.
    fn of(&self, part: Part, variant: Variant, of: impl Fn(&Figures) -> f64) -> f64 {
        let cells = self.results.of(|cell| self.is_wanted(cell, part, variant));
        median(cells.into_iter().map(|(_, figures)| of(figures)))
    }

    /// The ratio to another variant.
    fn by(&self, part: Part, ours: Variant, theirs: Variant, of: impl Fn(&Figures) -> f64) -> f64 {
        let cells = self.results.of(|cell| self.is_wanted(cell, part, ours));
        let ratio = |(cell, figures): (&Cell, &Figures)| {
            let other = self.results.find(&Cell { variant: theirs, ..*cell })?;
            Some(of(figures) / of(other))
        };
        median(cells.into_iter().filter_map(ratio))
    }

    fn is_wanted(&self, cell: &Cell, part: Part, variant: Variant) -> bool {
        let is_own = cell.quick == self.quick && cell.part == part && cell.variant == variant;
        is_own && cell.update_percent == USUAL
    }
}

/// All numbers of the thesis, beside the measurements.
pub fn statements(results: &Results, quick: bool) -> Vec<Statement> {
    let own = Own { results, quick };
    let mut all = Vec::new();
    let mut add = |figure, what, printed, measured, remark| {
        all.push(Statement { figure, what, printed, measured, remark });
    };
    use Part::{Checkpoints, Files};
    use Variant::{Off, RedisAof, RedisRdb, Vtc, VtcFast};

    let extra = |variant| change(own.of(Checkpoints, variant, Figures::extra_share));
    add("1.1", "Redis: memory at the end of a checkpoint", "+67 %", extra(RedisRdb), SHORT);
    let dip = change(own.of(Checkpoints, RedisRdb, dip) - 1.0);
    let worst = "the worst tenth of a second in the first half of a checkpoint";
    add("1.1", "Redis: throughput as a checkpoint begins", "-38 %", dip, worst);

    let outside = |theirs| factor(own.by(Checkpoints, Vtc, theirs, |figures| rates(figures).0));
    add("4.1", "throughput, VTC by AOF", "1.08x", outside(RedisAof), OTHER_SERVER);
    add("4.1", "throughput, VTC by RDB", "about 1x", outside(RedisRdb), OTHER_SERVER);

    let data = own.by(Checkpoints, Vtc, Off, |figures| figures.loaded_resident as f64) - 1.0;
    let numbers = "ours keeps a number for each entry without a log too";
    add("4.3a", "memory of the data, with VTC against without", "+3.5 %", change(data), numbers);
    add("4.3b", "memory added by a checkpoint, RDB", "+69.6 %", extra(RedisRdb), SHORT);
    add("4.3b", "memory added by a checkpoint, AOF", "+79.7 %", extra(RedisAof), SHORT);
    add("4.3b", "memory added by a checkpoint, VTC", "< 2 %", extra(Vtc), BUFFERS);

    let time = |ours| factor(own.by(Checkpoints, ours, RedisRdb, Figures::checkpoint_s));
    let bound = "at its default bound of 128 MB a second, read and written";
    add("4.5", "checkpoint time, VTC by RDB", "< 0.5x", time(Vtc), bound);
    add("4.5", "the same without a bound", "< 0.5x", time(VtcFast), OTHER_SERVER);

    let size = |theirs| factor(own.by(Files, Vtc, theirs, |figures| figures.files.run_bytes as f64));
    add("4.6", "file size, VTC by RDB", "1.22x", size(RedisRdb), FIELDS);
    add("4.6", "file size, VTC by AOF", "1.06x", size(RedisAof), FIELDS);

    let start = |figures: &Figures| median(figures.files.started_s.iter().copied());
    let start = |theirs| factor(own.by(Files, Vtc, theirs, start));
    add("4.7", "restoring time, VTC by RDB", "1.53x", start(RedisRdb), ALL_CORES);
    add("4.7", "restoring time, VTC by AOF", "0.90x", start(RedisAof), ALL_CORES);
    all
}

/// The worst tenth of a second in the first half of a checkpoint, by the usual throughput.
fn dip(figures: &Figures) -> f64 {
    let course = &figures.course;
    let Some(taken) = course.taken.first() else { return f64::NAN };
    let half = taken.from_ms..taken.from_ms + (taken.seconds * 500.0).max(100.0);
    let rates = figures.requests_by_time();
    let during = rates.iter().filter(|(at, _)| half.contains(&(at * 1e3))).map(|(_, rate)| *rate);
    during.fold(f64::NAN, f64::min) / course.without_all.rate
}
