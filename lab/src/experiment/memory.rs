//! Question: how much memory does a record cost?
//!
//! Variables: server, kind of record (a hash of ten fields of 100 bytes, a short string, a small entry of a
//! stream), with and without a log. Expected: hardly more than the data themselves, where redis-server needs
//! about 2.2 times the data. Of a stream it keeps many entries in one piece, and needs little more than their
//! bytes.
//!
//! It also measures the part of this memory that records which records of our log are needed. After the
//! records are loaded, as many short strings as there are are overwritten at random, while the log is
//! compacted.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tarn_resp::client;

use super::contract::{Cell, Experiment, Measured};
use crate::error::Result;
use crate::load::{Arg, KeyChoice, Keys, Mix, Request, key_text};
use crate::report::{Report, Run};
use crate::server::{Persistence, Product, Server, Subject, is_peer};
use crate::setting::{self, Contender, Setting};
use crate::ycsb;

/// The time that the server rests before its memory is read, so that it can free memory in the background.
const SETTLE: Duration = Duration::from_secs(2);
/// The number of times that the bits of replaced records are read while strings are overwritten.
const LOOKS: u64 = 20;

const STRINGS: &str = "short strings";
/// Streams that share the entries.
const STREAMS: u64 = 100;
const STREAM_PREFIX: &str = "stream:";
const STREAM_DIGITS: usize = 8;

/// A kind of record.
struct Kind {
    name: &'static str,
    request: Request,
    records: u64,
    /// Keys that share the records, unless each has its own.
    keys: Option<u64>,
    /// Bytes of the values of a record.
    value_bytes: u64,
    /// The same with key and field names; of an entry with the name and the 16 bytes of its ID.
    all_bytes: u64,
}

fn kinds(setting: &Setting) -> [Kind; 3] {
    let key = Arg::Key { prefix: "key:", digits: 12, scattered: false };
    let stream = Arg::Key { prefix: STREAM_PREFIX, digits: STREAM_DIGITS, scattered: false };
    let entry = [Arg::Text("XADD"), stream, Arg::Text("*"), Arg::Text("field"), Arg::Value(16)];
    [
        Kind {
            name: "YCSB",
            request: ycsb::write(),
            records: setting.scaled(1_000_000),
            keys: None,
            value_bytes: ycsb::VALUE_BYTES,
            all_bytes: ycsb::RECORD_BYTES,
        },
        Kind {
            name: STRINGS,
            request: Request::new(&[Arg::Text("SET"), key, Arg::Value(32)]),
            records: setting.scaled(10_000_000),
            keys: None,
            value_bytes: 32,
            all_bytes: 48,
        },
        Kind {
            name: "stream entries",
            request: Request::new(&entry),
            records: setting.scaled(10_000_000),
            keys: Some(STREAMS),
            value_bytes: 16,
            all_bytes: 37,
        },
    ]
}

impl Kind {
    /// The number of records that a server has, which has no others.
    fn count(&self, server: &Server) -> Result<u64> {
        let Some(keys) = self.keys else { return server.key_count() };
        let (mut connection, mut entries) = (server.client()?, 0);
        for number in 0..keys {
            let name = key_text(STREAM_PREFIX, STREAM_DIGITS, false, number);
            entries += client::integer(&connection.call(&["XLEN", &name])?)?.unsigned_abs();
        }
        Ok(entries)
    }
}

/// A kind of record, by name, what happens to writes, and the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    kind: String,
    persistence: Persistence,
    server: String,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, log {}, {}", self.kind, self.persistence.name(), self.server)
    }
}

impl Cell for Case {
    fn is_of_peer(&self) -> bool {
        is_peer(&self.server)
    }
}

/// The experiment.
pub struct RecordMemory {
    pub(crate) setting: Setting,
}

impl Experiment for RecordMemory {
    const NAME: &'static str = "memory";
    const QUESTION: &'static str =
        "How much memory does a record cost? (YCSB records of 1 KB; short strings; entries of streams)";
    const FIGURES: &'static str = include_str!("../../figures/memory.toml");
    const CONTINUES: bool = false;
    type Cell = Case;
    type Figures = ();

    fn plan(&mut self) -> Result<Vec<Case>> {
        let mut cases = Vec::new();
        for kind in kinds(&self.setting) {
            for persistence in [Persistence::None, Persistence::Everysec] {
                let servers = self.setting.servers.iter().map(|own| own.name.clone());
                cases.extend(servers.map(|server| Case { kind: kind.name.to_owned(), persistence, server }));
            }
        }
        Ok(cases)
    }

    fn measure(&mut self, case: &Case, report: &mut Report) -> Result<Option<Measured<()>>> {
        let (setting, subject) = (&self.setting, self.setting.subject(&case.server)?);
        for kind in kinds(setting).into_iter().filter(|kind| kind.name == case.kind) {
            measure(setting, report, &kind, subject, case.persistence)?;
        }
        Ok(None)
    }
}

/// Loads the records into a fresh server.
fn measure(
    setting: &Setting,
    report: &mut Report,
    kind: &Kind,
    subject: &Subject,
    persistence: Persistence,
) -> Result<()> {
    let (mut plan, dir) = setting.plan_of(subject, persistence)?;
    let overwrites =
        subject.product == Product::Tarn && persistence == Persistence::Everysec && kind.name == STRINGS;
    plan.compacts = overwrites;
    let contender = setting.contender(&subject.name, plan, dir)?;
    let empty = contender.server.memory()?;
    let what = format!("load {} into {}", kind.name, subject.name);
    let mix = Mix::in_order(kind.request.clone(), kind.keys.unwrap_or(kind.records));
    setting::fill(&contender.server, &what, kind.records, mix, setting.seed)?;
    if !setting.options.quick {
        std::thread::sleep(SETTLE);
    }
    let full = contender.server.memory()?;
    let raw = (kind.value_bytes * kind.records) as f64;
    let raw_all = (kind.all_bytes * kind.records) as f64;
    report.run(Run {
        case: kind.name,
        server: &subject.name,
        version: &contender.version,
        repeat: 1,
        parameters: json!({
            "records": kind.records, "value_bytes": kind.value_bytes, "record_bytes": kind.all_bytes,
            "persistence": persistence,
        }),
        figures: json!({
            "records": kind.count(&contender.server)?,
            "resident_bytes": full.resident_bytes,
            "proportional_bytes": full.proportional_bytes,
            "resident_bytes_max": full.resident_bytes_max,
            "resident_bytes_empty": empty.resident_bytes,
            "resident_by_values": full.resident_bytes as f64 / raw,
            "resident_by_values_keys_names": full.resident_bytes as f64 / raw_all,
        }),
    })?;
    if overwrites {
        overwrite(setting, report, kind, &contender)?;
    }
    Ok(())
}

/// Overwrites random strings, as many as there are, and reads the memory that records which records of the
/// log are needed, at its largest.
fn overwrite(setting: &Setting, report: &mut Report, kind: &Kind, contender: &Contender) -> Result<()> {
    let mut most = 0;
    for look in 0..LOOKS {
        let mix = Mix::of(kind.request.clone(), Keys::new(KeyChoice::Uniform, kind.records));
        let what = format!("write over {} ({} of {LOOKS})", kind.name, look + 1);
        let seed = setting.seed.wrapping_add(1 + look);
        setting::fill(&contender.server, &what, kind.records / LOOKS, mix, seed)?;
        let bytes = contender.server.info_number("persistence", "log_validity_bytes")?;
        most = most.max(bytes.unwrap_or_default());
    }
    report.run(Run {
        case: "validity",
        server: Product::Tarn.name(),
        version: &contender.version,
        repeat: 1,
        parameters: json!({ "records": kind.records, "overwrites": kind.records / LOOKS * LOOKS }),
        figures: json!({ "validity_bytes_max": most }),
    })
}
