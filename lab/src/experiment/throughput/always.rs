//! Replies only when the write is durable: writers alone, and readers that should not notice the writers.

use std::slice;
use std::time::Duration;

use serde_json::json;

use super::contest;
use super::strings::{KEYS, get, load_keys, set};
use crate::device::{self, FlushRates};
use crate::error::Result;
use crate::load::{Group, KeyChoice, Keys, Mix, Pace};
use crate::machine;
use crate::report::{Report, Run, thousands};
use crate::server::Persistence;
use crate::setting::{Contender, Setting};

/// Connections that write, when there are no readers.
const WRITERS_ALONE: usize = 64;
/// The longer pipeline of these.
const PIPELINE: u32 = 16;
/// Connections that write while others read.
const WRITERS: usize = 8;
/// Connections that read.
const READERS: usize = 50;
/// Readers in an open loop send at this share of the closed loop's throughput.
const OPEN_SHARE: f64 = 0.5;

/// Runs the part.
pub(super) fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    // Loading goes through the log too, with a flush for every batch: fewer keys do.
    let keys = setting.scaled(KEYS / 10);
    let alone = format!("always: SET of {WRITERS_ALONE} clients");
    let reading = format!("always: GET of {READERS} clients");
    let beside = format!("{reading}, SET of {WRITERS}");
    let cases = [alone.clone(), reading.clone(), beside.clone()];
    let contenders = setting.contenders(report, &cases, Persistence::Always)?;
    let flushes = probe(setting, report)?;
    let contenders = load_keys(setting, report, &cases, &contenders, keys)?;
    let uniform = || Keys::new(KeyChoice::Uniform, keys);
    let closed =
        |name, connections, pipeline, mix| Group { name, connections, pace: Pace::Closed { pipeline }, mix };
    let mut hold = |case: &str, contenders: &[&Contender], groups: &[Group]| {
        let of = |name: &str| -> usize {
            groups.iter().filter(|group| group.name == name).map(|group| group.connections).sum()
        };
        let pipeline = if let Pace::Closed { pipeline } = groups[0].pace { pipeline } else { 1 };
        let parameters = json!({
            "persistence": "always", "keys": keys, "key_bytes": 16, "value_bytes": 64, "pipeline": pipeline,
            "writers": of("writers"), "readers": of("readers"),
            "file_system": setting.file_system, "device_flushes_per_s": flushes,
        });
        contest::hold(setting, report, case, &parameters, contenders, groups)
    };

    for (case, pipeline) in [(alone.clone(), 1), (format!("{alone} pipeline {PIPELINE}"), PIPELINE)] {
        let writers = closed("writers", WRITERS_ALONE, pipeline, Mix::of(set(), uniform()));
        hold(&case, &contenders, &[writers])?;
    }

    let readers = closed("readers", READERS, 1, Mix::of(get(), uniform()));
    let writers = closed("writers", WRITERS, 1, Mix::of(set(), uniform()));
    let alone = hold(&reading, &contenders, slice::from_ref(&readers))?;
    hold(&beside, &contenders, &[readers.clone(), writers.clone()])?;

    // A peer that failed has no rate.
    for (contender, alone) in contenders.iter().zip(&alone).filter(|(_, alone)| alone.is_finite()) {
        let rate = alone * OPEN_SHARE;
        let readers = Group { pace: Pace::Open { rate }, ..readers.clone() };
        let without = format!("always: {} GET/s due", thousands(rate));
        let one = slice::from_ref(contender);
        hold(&without, one, slice::from_ref(&readers))?;
        hold(&format!("{without}, SET of {WRITERS}"), one, &[readers, writers.clone()])?;
    }
    Ok(())
}

/// Measures the device in the directory of the data, and says where that is.
fn probe(setting: &Setting, report: &mut Report) -> Result<FlushRates> {
    let time = if setting.options.quick { Duration::from_millis(50) } else { Duration::from_secs(2) };
    let flushes = device::flush_rates(&setting.dir, time)?;
    show!(
        "device of {} ({}), 4 KB writes with fdatasync a second: one at a time {}, two in flight {}, four {}",
        setting.dir.display(),
        setting.file_system,
        thousands(flushes.one),
        thousands(flushes.two),
        thousands(flushes.four)
    );
    if machine::is_in_memory(&setting.file_system) {
        show!("This directory is in memory: choose one on a disk with --dir, or the figures mean nothing.");
    }
    report.run(Run {
        case: "device flushes",
        server: "",
        version: "",
        repeat: 1,
        parameters: json!({ "file_system": setting.file_system, "write_bytes": 4096 }),
        figures: json!(flushes),
    })?;
    Ok(flushes)
}
