//! The torn tail of a log is reported before anything of the log is changed, so that a start that fails after
//! the cut has reported it as well.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;

use tarn_engine::checkpoint::Checkpoints;
use tarn_engine::io::{Disk, Fault, SimDisk, SimOptions};
use tarn_engine::log::{LogOptions, OpenError};
use tarn_engine::recovery::{self, Progress};
use tarn_engine::{Log, Recovered};

const TORN: usize = 100;

/// Runs `open`; its result, and what it has reported.
fn watched<T>(
    open: impl FnOnce(&Progress) -> Result<T, OpenError>,
) -> (Result<T, OpenError>, Vec<Recovered>) {
    let (sender, found) = channel();
    let progress = Progress::default();
    progress.found.get_or_init(|| Box::new(move |recovered| sender.send(recovered.clone()).unwrap()));
    let outcome = open(&progress);
    drop(progress);
    (outcome, found.iter().collect())
}

fn start(disk: &SimDisk) -> (Result<Log, OpenError>, Vec<Recovered>) {
    let (disk, options) = (Arc::new(disk.clone()), LogOptions::new(vec!["/log".into()]));
    watched(|progress| recovery::open(disk, options, None, 1, 1, progress).map(|opened| opened.log))
}

/// A log that ends with bytes that are no block, and the file that has them.
fn torn() -> (SimDisk, PathBuf) {
    let disk = SimDisk::new(1, SimOptions::default());
    start(&disk).0.unwrap().close().unwrap();
    let files = disk.paths().into_iter().filter(|path| path.extension().is_some_and(|end| end == "tarnlog"));
    // The oldest has blocks, and so it is cut, not removed.
    let path = files.min().unwrap();
    let file = disk.open(&path).unwrap();
    file.write_all_at(&[7; TORN], file.len().unwrap()).unwrap();
    (disk, path)
}

#[test]
fn a_start_that_fails_after_the_cut_has_reported_it() {
    let (disk, path) = torn();
    let length = disk.contents(&path).unwrap().len();
    disk.set_options(SimOptions {
        faults_per_mille: vec![(Fault::NameError, 1000)],
        ..SimOptions::default()
    });
    let (outcome, found) = start(&disk);
    assert!(outcome.is_err(), "no file is made or removed");
    assert_eq!(disk.contents(&path).unwrap().len(), length - TORN, "it was cut before that");
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].bytes_cut, found[0].blocks_cut, found[0].files_cut), (TORN as u64, 0, 1));
    let place = found[0].place_of_cut().unwrap();
    assert_eq!(place, format!("from byte {} of {} on", length - TORN, path.display()));
    disk.set_options(SimOptions::default());
    let (outcome, found) = start(&disk);
    outcome.unwrap();
    assert_eq!((found.len(), found[0].bytes_cut), (1, 0));
}

#[test]
fn a_reader_that_changes_nothing_reports_it_each_time() {
    let (disk, path) = torn();
    let before = disk.contents(&path).unwrap();
    let checkpoints = Checkpoints::open(Arc::new(disk.clone()), Path::new("/checkpoints")).unwrap();
    for _ in 0..2 {
        let (outcome, found) = watched(|progress| {
            recovery::read(Arc::new(disk.clone()), vec!["/log".into()], &checkpoints, 1, 1, progress)
        });
        outcome.unwrap();
        assert_eq!((found.len(), found[0].bytes_cut), (1, TORN as u64));
    }
    assert_eq!(disk.contents(&path).unwrap(), before);
}

#[test]
fn a_line_break_in_a_path_begins_no_line_of_a_message() {
    let cut = Some((PathBuf::from("/two\nlines\r/\u{1b}ü"), 7));
    let recovered = Recovered { cut, files_cut: 3, ..Recovered::default() };
    let place = recovered.place_of_cut().unwrap();
    assert_eq!(place, "from byte 7 of /two\\nlines\\r/\\u{1b}ü on and in 2 other files");
}
