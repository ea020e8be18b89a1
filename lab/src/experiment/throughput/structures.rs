//! Hashes and sorted sets at pipeline 16, without a log.

use serde_json::json;

use super::contest;
use super::strings::{CLIENTS, clients};
use crate::error::Result;
use crate::load::{Arg, KeyChoice, Keys, Mix, Request};
use crate::report::Report;
use crate::server::Persistence;
use crate::setting::{Setting, fill};
use crate::ycsb;

const PIPELINE: u32 = 16;
/// Records of the YCSB kind.
const RECORDS: u64 = 100_000;
/// Sorted sets.
const SORTED_SETS: u64 = 1_000;
/// Members of each.
const MEMBERS: u64 = 1_000;

const SORTED_SET: Arg = Arg::Key { prefix: "board:", digits: 8, scattered: false };
const MEMBER: Arg = Arg::Number { prefix: "player:", digits: 6, below: MEMBERS };
const SCORE: Arg = Arg::Number { prefix: "", digits: 7, below: 10_000_000 };

/// Runs the part.
pub(super) fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let records = setting.scaled(RECORDS);
    let sets = setting.scaled(SORTED_SETS);
    let add = Request::new(&[Arg::Text("ZADD"), SORTED_SET, SCORE, MEMBER]);
    let record_keys = Keys::new(KeyChoice::Zipfian, records);
    let set_keys = Keys::new(KeyChoice::Uniform, sets);
    let score = Request::new(&[Arg::Text("ZSCORE"), SORTED_SET, MEMBER]);
    let rank = Request::new(&[Arg::Text("ZRANK"), SORTED_SET, MEMBER]);
    let range = Request::new(&[
        Arg::Text("ZRANGEBYSCORE"),
        SORTED_SET,
        SCORE,
        Arg::Text("+inf"),
        Arg::Text("LIMIT"),
        Arg::Text("0"),
        Arg::Text("10"),
    ]);
    let half = |one: Request, two: Request| vec![(1, one), (1, two)];
    let set_field = Request::new(&[Arg::Text("HSET"), ycsb::KEY, ycsb::FIELD, Arg::Value(ycsb::FIELD_BYTES)]);
    let read_field = Request::new(&[Arg::Text("HGET"), ycsb::KEY, ycsb::FIELD]);
    let cases = [
        ("HSET", Mix::of(set_field.clone(), record_keys.clone())),
        ("HGET", Mix::of(read_field.clone(), record_keys.clone())),
        ("HGETALL", Mix::of(ycsb::read(), record_keys.clone())),
        ("HSET 50 % HGET 50 %", Mix::weighted(&half(set_field, read_field), record_keys)),
        ("ZADD", Mix::of(add.clone(), set_keys.clone())),
        ("ZSCORE", Mix::of(score.clone(), set_keys.clone())),
        ("ZRANK", Mix::of(rank, set_keys.clone())),
        ("ZRANGEBYSCORE of 10", Mix::of(range, set_keys.clone())),
        ("ZADD 50 % ZSCORE 50 %", Mix::weighted(&half(add.clone(), score), set_keys)),
    ];
    let names = cases.each_ref().map(|(name, _)| (*name).to_owned());
    let contenders = setting.contenders(report, &names, Persistence::None)?;
    let contenders = contest::prepared(report, &names, &contenders, |contender| {
        let what = format!("load hashes into {}", contender.label);
        fill(&contender.server, &what, records, Mix::in_order(ycsb::write(), records), setting.seed)?;
        // Members are drawn, so some repeat: one and a half times as many requests leave most of them there.
        let what = format!("load sorted sets into {}", contender.label);
        let mix = Mix::in_order(add.clone(), sets);
        fill(&contender.server, &what, sets * MEMBERS * 3 / 2, mix, setting.seed).map(|_| ())
    })?;
    for (name, mix) in cases {
        let case = format!("{name} pipeline {PIPELINE}");
        let parameters = json!({
            "persistence": "none", "clients": CLIENTS, "pipeline": PIPELINE,
            "records": records, "fields": ycsb::FIELDS, "field_bytes": ycsb::FIELD_BYTES,
            "record_choice": "zipfian",
            "sorted_sets": sets, "members": MEMBERS, "sorted_set_choice": "uniform",
        });
        contest::hold(setting, report, &case, &parameters, &contenders, &[clients(PIPELINE, mix)])?;
    }
    Ok(())
}
