//! The same load on several running servers, in turns, so that disturbances of the machine affect all alike.

use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::load::{Group, Load, LoadResult, Until};
use crate::process::Pinned;
use crate::report::{Report, Run, median};
use crate::setting::{Contender, Setting, progress};

/// The length of a measurement in seconds unless another is wished.
const USUAL_S: f64 = 5.0;

/// A load that is held on each contender.
pub(super) struct Case<'c> {
    /// Its words.
    pub name: &'c str,
    /// Its parameters.
    pub parameters: &'c Value,
    /// The load.
    pub groups: &'c [Group],
    /// The length of a measurement in seconds unless another is wished.
    pub usual_s: f64,
}

/// Those contenders that can be prepared for some cases, which are left out of a peer that cannot.
pub(super) fn prepared<'c>(
    report: &mut Report,
    cases: &[String],
    contenders: &'c [Contender],
    mut prepare: impl FnMut(&Contender) -> Result<()>,
) -> Result<Vec<&'c Contender>> {
    let mut all = Vec::new();
    for contender in contenders {
        let out = || cases.iter().map(|case| format!("{case}, {}", contender.label)).collect::<Vec<_>>();
        let done = prepare(contender);
        all.extend(report.forgive_all(contender.is_peer(), out, done)?.map(|()| contender));
    }
    Ok(all)
}

/// Runs the load on each contender by turns, as often as the setting says. Returns the requests a second of
/// the first group, for each contender the median; `NaN` for a peer that fails, which is left out.
pub(super) fn hold(
    setting: &Setting,
    report: &mut Report,
    name: &str,
    parameters: &Value,
    contenders: &[&Contender],
    groups: &[Group],
) -> Result<Vec<f64>> {
    let case = Case { name, parameters, groups, usual_s: USUAL_S };
    hold_for(setting, report, &case, contenders, |_| Ok(()))
}

/// The same of a case. `check` looks after each measurement whether the contender with this place has done
/// all that it was to do.
pub(super) fn hold_for(
    setting: &Setting,
    report: &mut Report,
    case: &Case<'_>,
    contenders: &[&Contender],
    mut check: impl FnMut(usize) -> Result<()>,
) -> Result<Vec<f64>> {
    let Case { name: case, parameters, groups, usual_s } = *case;
    let mut rates: Vec<Option<Vec<f64>>> = vec![Some(Vec::new()); contenders.len()];
    let mut all = Vec::new();
    let measured = setting.time(0.3, usual_s);
    let until = Until::Time { warmup: measured / 5, measured };
    let time_ms = (measured / 5 + measured).as_millis() as u64;
    let bar = progress(u64::from(setting.repeats()) * contenders.len() as u64 * time_ms, case);
    for repeat in 1..=setting.repeats() {
        for (place, (contender, own)) in contenders.iter().zip(&mut rates).enumerate() {
            let Some(rates) = own else { continue };
            let seed = setting.seed.wrapping_add(u64::from(repeat) << 32);
            let mut load = Load::new(contender.server.address(), groups.to_vec(), until, seed);
            load.watched_pid = Some(contender.server.pid());
            let pinned = Pinned::to(&setting.load_cores)?;
            let (begun, position) = (Instant::now(), bar.position());
            let passed_ms = || (begun.elapsed().as_millis() as u64).min(time_ms);
            let result = load.run(|_| bar.set_position(position + passed_ms())).and_then(LoadResult::check);
            bar.set_position(position + time_ms);
            drop(pinned);
            let result = result.and_then(|result| check(place).map(|()| result));
            let what = || format!("{case}, {}", contender.label);
            let Some(result) = bar.suspend(|| report.forgive(contender.is_peer(), what, result))? else {
                *own = None;
                continue;
            };
            all.push((place, repeat, figures(&result)));
            rates.push(result.groups[0].rate);
        }
    }
    bar.finish_and_clear();
    // Not before: the first repeats of a peer that fails in a later one would stand for all.
    for (place, repeat, figures) in all.into_iter().filter(|(place, ..)| rates[*place].is_some()) {
        let (server, version) = (&contenders[place].label, &contenders[place].version);
        report.run(Run { case, server, version, repeat, parameters: parameters.clone(), figures })?;
    }
    Ok(rates.into_iter().map(|rates| median(rates.unwrap_or_default())).collect())
}

fn figures(result: &LoadResult) -> Value {
    let groups: Map<String, Value> = result
        .groups
        .iter()
        .map(|group| {
            let figures = json!({
                "requests": group.requests,
                "requests_per_s": group.rate,
                "latency_us_p50": group.latency_us(0.5),
                "latency_us_p99": group.latency_us(0.99),
                "latency_us_p999": group.latency_us(0.999),
                "latency_us_max": group.latency_us(1.0),
            });
            (group.name.to_owned(), figures)
        })
        .collect();
    json!({
        "elapsed_s": result.elapsed.as_secs_f64(),
        "requests_per_s": result.rate(),
        "server_busy": result.server_busy,
        "generator_busy": result.generator_busy,
        "others_busy": result.others_busy,
        "groups": groups,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::{Args, FromArgMatches};

    use super::*;
    use crate::error::LabError;
    use crate::load::{Arg, KeyChoice, Keys, Mix, Pace, Request};
    use crate::server::{PeerName, Persistence, Product, Subject};
    use crate::setting::{Options, on_path};

    #[test]
    fn a_peer_that_fails_in_a_later_repeat_has_no_line() {
        let Some(redis) = on_path("redis-server") else {
            tell!("SKIPPED: there is no redis-server on the PATH");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let words = ["throughput", "--quick", "--repeats", "2", "--seconds", "0.02"];
        let words = Options::augment_args(clap::Command::new("throughput")).get_matches_from(words);
        let options = Options::from_arg_matches(&words).unwrap();
        let options = Options { dir: Some(dir.path().to_owned()), ..options };
        let own = Subject::new(Product::RedisServer, &redis);
        let peer = PeerName::from("other").ok();
        let peer = Subject { name: "other".to_owned(), peer, ..own.clone() };
        let setting = Setting::of(vec![own, peer], options).unwrap();
        let path = dir.path().join("lines.jsonl");
        let mut report = Report::new("throughput", 1, dir.path(), Some(&path)).unwrap();
        let contenders = setting.contenders(&mut report, &[], Persistence::None).unwrap();
        let contenders: Vec<&Contender> = contenders.iter().collect();
        let mix = Mix::of(Request::new(&[Arg::Text("PING")]), Keys::new(KeyChoice::Uniform, 1));
        let groups = [Group { name: "clients", connections: 1, pace: Pace::Closed { pipeline: 1 }, mix }];
        let case = Case { name: "PING", parameters: &json!({}), groups: &groups, usual_s: USUAL_S };
        let mut looks = 0;
        let rates = hold_for(&setting, &mut report, &case, &contenders, |place| {
            looks += 1;
            let is_late = looks > contenders.len();
            if is_late && place == 1 { Err(LabError::Reply("it has gone".to_owned())) } else { Ok(()) }
        });
        let rates = rates.unwrap();
        assert!(rates[0].is_finite() && rates[1].is_nan(), "{rates:?}");
        let lines = std::fs::read_to_string(&path).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of = |line: Value| (line["server"].clone(), line["figures"]["what"].clone());
        let found: Vec<_> = lines.map(of).collect();
        let own = || (json!("redis-server"), Value::Null);
        assert_eq!(found, [(json!(""), json!("PING, other")), own(), own()]);
    }
}
