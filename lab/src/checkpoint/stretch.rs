//! A stretch of time with or without a checkpoint: its requests and their latencies.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::ledger::Blame;
use crate::load::{MOMENT, Moment, Phase};
use crate::page::{Row, with};

/// Requests of one stretch of time, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// Its length, in seconds.
    pub seconds: f64,
    /// Requests answered a second.
    pub rate: f64,
    /// Latency from when a request was due, in microseconds: median.
    pub p50_us: f64,
    /// 99 of 100.
    pub p99_us: f64,
    /// 999 of 1000.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// The longest from when a request was sent.
    pub served_max_us: f64,
    /// The delay of the generator's sends: 999 of 1000.
    pub late_p999_us: f64,
    /// The latest.
    pub late_max_us: f64,
    /// Processor time that the host took away, in milliseconds, over all cores.
    pub stolen_ms: f64,
}

/// Phases as one stretch.
pub fn together(phases: &[&Phase]) -> Stretch {
    let mut all = Phase::default();
    for phase in phases {
        all.elapsed += phase.elapsed;
        all.requests += phase.requests;
        all.stolen += phase.stolen;
        let pairs = [
            (&mut all.latency_ns, &phase.latency_ns),
            (&mut all.served_ns, &phase.served_ns),
            (&mut all.late_ns, &phase.late_ns),
        ];
        for (own, other) in pairs {
            own.add(other).expect("all have the same bounds");
        }
    }
    let us = |ns: u64| ns as f64 / 1e3;
    let seconds = all.elapsed.as_secs_f64();
    Stretch {
        seconds,
        rate: all.requests as f64 / seconds.max(1e-9),
        p50_us: us(all.latency_ns.value_at_quantile(0.5)),
        p99_us: us(all.latency_ns.value_at_quantile(0.99)),
        p999_us: us(all.latency_ns.value_at_quantile(0.999)),
        max_us: us(all.latency_ns.max()),
        served_max_us: us(all.served_ns.max()),
        late_p999_us: us(all.late_ns.value_at_quantile(0.999)),
        late_max_us: us(all.late_ns.max()),
        stolen_ms: all.stolen.as_secs_f64() * 1e3,
    }
}

/// By moment: milliseconds since the start, requests, longest latency and latest sending in microseconds.
pub(super) fn timeline(moments: &[Moment]) -> Vec<(u32, u32, f32, f32)> {
    let us = |ns: u64| ns as f32 / 1e3;
    let line = |(place, moment): (usize, &Moment)| {
        let ms = place as u32 * MOMENT.as_millis() as u32;
        (ms, moment.requests, us(moment.latency_ns_max), us(moment.late_ns_max))
    };
    moments.iter().enumerate().map(line).collect()
}

/// A kind of stretch: its name, all together, each, and the causes of the slowest requests.
type Kind<'s> = (&'s str, &'s Stretch, &'s [Stretch], &'s Option<Blame>);

/// Rows of the part `stretches`: a row for each kind of stretch of a cell.
pub fn stretch_rows(row: &Row, kinds: &[Kind<'_>]) -> Vec<Row> {
    let kinds = kinds.iter().filter(|(_, _, each, _)| !each.is_empty());
    let who =
        row.get("label").or_else(|| row.get("variant")).and_then(|own| own.as_str()).unwrap_or_default();
    let of = |(name, all, each, slow): &Kind<'_>| {
        let own = json!({
            "of": row["part"], "part": "stretches", "stretch": name, "all": all, "each": each, "slow": slow,
            "bar": format!("{who}\n{name}"),
        });
        with(row.clone(), own)
    };
    kinds.map(of).collect()
}
