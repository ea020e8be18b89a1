//! Advice for a workload: the algorithms that are ruled out, and the best of the others.

use super::super::cell::Algorithm;
use super::super::compare::data::Study;
use super::Options;
use super::predict::{Measured, Prediction};

/// Among those whose updates cost no more than this times the least, the shortest spike decides.
const COSTS_ALIKE: f64 = 1.25;
/// Shorter spikes are short, whichever algorithm has the shortest.
const SPIKE_US_SHORT: f64 = 100.0;

/// The advice for a workload.
#[derive(Debug)]
pub(super) struct Advice {
    /// Of the algorithms that were measured.
    pub predictions: Vec<Prediction>,
    /// The algorithms that are ruled out, a line for each reason.
    pub ruled_out: Vec<(Algorithm, String)>,
    /// Notes for judging it.
    pub notes: Vec<String>,
    /// The algorithm that fits best, if one does.
    pub chosen: Option<Prediction>,
}

/// Looks for the algorithm that fits a workload.
pub(super) fn advise(study: &Study<'_>, workload: &Options) -> Advice {
    let measured = Algorithm::PHYSICAL.map(|algorithm| (algorithm, Measured::new(study, algorithm)));
    let mut predictions = Vec::new();
    let mut notes = Vec::new();
    for (algorithm, measured) in &measured {
        match measured.predict(workload) {
            Some(prediction) => predictions.push(prediction),
            None => notes.push(format!("{} was not measured", algorithm.name())),
        }
    }
    let ruled_out: Vec<_> = predictions.iter().flat_map(|own| reasons(own, workload)).collect();
    let left = predictions.iter().filter(|own| !ruled_out.iter().any(|(out, _)| *out == own.algorithm));
    let best = best(left.copied().collect());
    if let Some(best) = &best
        && let Some((_, own)) = measured.iter().find(|(algorithm, _)| *algorithm == best.algorithm)
    {
        notes.extend(sources(own, workload));
    }
    Advice { predictions, ruled_out, notes, chosen: best }
}

/// Why an algorithm does not fit.
fn reasons(own: &Prediction, workload: &Options) -> Vec<(Algorithm, String)> {
    let mut reasons = Vec::new();
    if own.core_share > 1.0 {
        reasons.push("the updates need more than a core".to_owned());
    }
    if let Some(given) = workload.memory
        && own.memory_bytes > given as f64
    {
        reasons.push(format!("{:.0} MB of memory are given", given as f64 / 1e6));
    }
    if let Some(most) = workload.latency_us_max
        && own.spike_us > most as f64
    {
        reasons.push(format!("a client may wait for {most} µs"));
    }
    if workload.full_only && !own.algorithm.is_full() {
        reasons.push("its snapshots have what has changed".to_owned());
    }
    reasons.into_iter().map(|reason| (own.algorithm, reason)).collect()
}

/// Of those whose updates cost about the least: those with short spikes, or the shortest; of these one whose
/// snapshots are full; of these the cheapest.
fn best(mut left: Vec<Prediction>) -> Option<Prediction> {
    let least = left.iter().map(|own| own.update_ns).min_by(f64::total_cmp)?;
    left.retain(|own| own.update_ns <= least * COSTS_ALIKE);
    let shortest = left.iter().map(|own| own.spike_us).min_by(f64::total_cmp)?;
    left.retain(|own| own.spike_us <= shortest.max(SPIKE_US_SHORT));
    let order = |own: &Prediction| !own.algorithm.is_full();
    left.into_iter().min_by(|a, b| order(a).cmp(&order(b)).then(a.update_ns.total_cmp(&b.update_ns)))
}

/// The recommended algorithm, and the reason.
pub(super) fn recommendation(chosen: Option<&Prediction>) -> String {
    let Some(best) = chosen else { return "none of them fits".to_owned() };
    let full = if best.algorithm.is_full() { "has all rows" } else { "has what has changed, to be merged" };
    let spike = if best.spike_grows { "grows with the data" } else { "does not grow with the data" };
    format!(
        "recommended: {}. Of those that fit, its updates cost no more than {COSTS_ALIKE} times the least, \
         {:.0} ns; of these its spike, {:.0} µs, is the shortest or short (up to {SPIKE_US_SHORT} µs), and \
         {spike}; a snapshot {full}.",
        best.algorithm.name(),
        best.update_ns,
        best.spike_us
    )
}

/// The measurements that a prediction was made from, and where it lies outside of them.
fn sources(measured: &Measured<'_>, workload: &Options) -> Vec<String> {
    let [by_data, by_row, by_rate] = measured.costs();
    let parts = [
        ("data", " GB", 1e9, by_data, workload.data_bytes()),
        ("row", " B", 1.0, by_row, workload.row_bytes as f64),
        ("rate", " updates/s", 1.0, by_rate, workload.updates_per_s as f64),
    ];
    let mut from = Vec::new();
    let mut notes = Vec::new();
    for (name, unit, of, curve, x) in parts {
        let show = |value: f64| format!("{}{unit}", (value / of * 1000.0).round() / 1000.0);
        from.push(curve.around(x).into_iter().map(show).collect::<Vec<_>>().join(" and "));
        let Some((least, greatest)) = curve.ends() else { continue };
        if x < least || x > greatest {
            let [x, least, greatest] = [x, least, greatest].map(show);
            notes.push(format!("{name}: {x} lies outside of what was measured, {least} to {greatest}"));
        }
    }
    notes.push(format!("the recommended one's figures were made from cells with {}", from.join("; ")));
    notes
}
