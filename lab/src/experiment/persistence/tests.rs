//! Tests targets and reports with made-up results.

#![allow(clippy::unwrap_used)]

use super::cell::{Cell, Figures, Memory, Model, Part};
use super::{Persistence, Results};
use crate::checkpoint::Stretch;
use crate::experiment::contract::check;
use crate::experiment::{Experiment, Wanted};
use crate::resources::{Shares, Usage};

fn cell(part: Part, is_tarn: bool, model: Model, memory: Memory) -> Cell {
    Cell { part, is_tarn, model, shortens: false, threads: 16, records: 1_000_000, memory, quick: false }
}

fn usage() -> Vec<Usage> {
    let shares = Shares { user: 50.0, system: 10.0, iowait: 5.0, stolen: 0.0 };
    let at =
        |ms| Usage { ms, machine: shares, cores: vec![shares; 2], resident: 1 << 20, ..Usage::default() };
    (1..9).map(|place| at(place * 250)).collect()
}

fn loaded(records: u64, ended: Option<&str>) -> Figures {
    Figures {
        loaded: records,
        ended: ended.map(str::to_owned),
        load: Stretch { seconds: 2.0, rate: 1e5, ..Stretch::default() },
        throughput: (1..9).map(|place| (place as f32 / 4.0, 1e5)).collect(),
        usage: usage(),
        ..Figures::default()
    }
}

fn started(seconds: Option<f64>, resident_bytes: u64, cores_busy: f64) -> Figures {
    Figures {
        started_s: seconds,
        resident_bytes,
        cores_busy,
        used_bytes: 2_200_000_000,
        file_bytes: 1_200_000_000,
        usage: usage(),
        ..Figures::default()
    }
}

#[test]
fn the_page_shows_what_there_is_and_names_what_is_missing() {
    let loads = [
        (cell(Part::Load, true, Model::NoSave, Memory::Ample), loaded(1_000_000, None)),
        (
            cell(Part::Load, false, Model::LogImmediate, Memory::Short),
            loaded(7, Some("the kernel <ended> it")),
        ),
    ];
    let page_of_loads =
        check::page::<Persistence>(&Results::invented(Persistence::NAME, &loads), Wanted::default());
    for text in [
        "A &lt;fast&gt; one",
        "tarn, light, 16 client threads",
        "redis-server, heavy",
        "the kernel &lt;ended&gt;",
        "appendfsync always",
        "--only recovery",
        "by a control group",
    ] {
        assert!(page_of_loads.contains(text), "{text}");
    }
    let starts = [
        (cell(Part::Recovery, false, Model::LogPeriodical, Memory::Ample), started(Some(2.0), 1, 1.0)),
        (cell(Part::Recovery, false, Model::LogPeriodical, Memory::Short), started(Some(4.3), 1, 1.0)),
        (cell(Part::Recovery, true, Model::LogPeriodical, Memory::Ample), started(Some(1.0), 1, 2.0)),
        (
            cell(Part::Recovery, true, Model::LogPeriodical, Memory::Short),
            Figures { ended: Some("by the kernel".to_owned()), ..started(None, 1, 0.0) },
        ),
    ];
    let mut impossible = Results::invented(Persistence::NAME, &starts[..1]);
    impossible.notes.push("no <groups>".to_owned());
    assert!(
        check::page::<Persistence>(&impossible, Wanted::default())
            .contains("not possible there: no &lt;groups&gt;")
    );
    let page_of_starts =
        check::page::<Persistence>(&Results::invented(Persistence::NAME, &starts), Wanted::default());
    for text in ["redis-server 2.15x, tarn ended", "redis-server 2.20x", "redis-server 1.20x", "by core"] {
        assert!(page_of_starts.contains(text), "{text}");
    }
    assert!(check::charts(&page_of_starts).len() >= 6);
}

#[test]
fn results_of_before_are_drawn_and_judged_alike() {
    let results = include_str!("../../../tests/results/persistence.jsonl");
    let figures = [
        "tarn, light",
        "3: ",
        "4: ",
        "5: ",
        "6: ",
        "7: ",
        "8: ",
        "9: ",
        "time of a start",
        "11a",
        "11b",
        "figure 12",
        "figure 14",
    ];
    check::recorded::<Persistence>(results, Wanted { quick: true, full: false }, &figures);
}
